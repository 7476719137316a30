//! Where every byte of the release binary goes, and whether it may: builds it, measures it, compares it with the committed baseline and
//! budgets.
//!
//! ```text
//! cargo -> elf, map -> attribute (symbol, constants) --> measure -> gate (baseline, budgets) -> exit status
//!                      compress, invariants ----------/         \-> report (table)
//! ```

mod attribute;
mod budget;
mod cargo;
mod compress;
mod constants;
mod effort;
mod elf;
mod facts;
mod features;
mod gate;
mod invariants;
mod map;
mod measure;
mod report;
mod symbol;
mod table;
mod treemap;

use std::path::PathBuf;
use std::process::ExitCode;

use lexopt::prelude::*;

use budget::Budgets;
use cargo::Workspace;
use facts::Facts;

const HELP: &str = "\
Usage: cargo run -p size-report [-- OPTIONS]

Builds rdreport and shows where its bytes go: file size, sizes compressed for an
initramfs, sections, segments, crates, the largest functions and data. Compares
with size-report/baseline and size-report/budgets.

  --set NAME   measure a feature set of size-report/budgets other than `default`
  --compare    what changed against the baseline, by crate and by function
  --features   what each feature costs: builds without each of the default ones,
               with each of the others
  --run        also deliver a status and a journal over TLS on loopback, and count
               instructions (needs valgrind), memory and page faults
  --markdown   print Markdown
  --treemap    draw size-report/treemap.svg anew
  --update     make what was measured the new baseline
  -h, --help   this text

Exit status: 0 within bounds; 1 too large, or the file is not what it should be;
2 wrong usage, or it cannot be built or measured.
";

#[derive(Default)]
struct Options {
    set: Option<String>,
    compare: bool,
    features: bool,
    markdown: bool,
    run: bool,
    treemap: bool,
    update: bool,
    help: bool,
}

fn main() -> ExitCode {
    match options().and_then(run) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(message) => {
            eprintln!("size-report: {message}");
            ExitCode::from(2)
        }
    }
}

fn options() -> Result<Options, String> {
    let mut options = Options::default();
    let mut parser = lexopt::Parser::from_env();
    let text = |e: lexopt::Error| format!("{e}; see --help");
    while let Some(argument) = parser.next().map_err(text)? {
        match argument {
            Long("set") => options.set = Some(parser.value().and_then(|v| v.string()).map_err(text)?),
            Long("compare") => options.compare = true,
            Long("features") => options.features = true,
            Long("markdown") => options.markdown = true,
            Long("run") => options.run = true,
            Long("treemap") => options.treemap = true,
            Long("update") => options.update = true,
            Short('h') | Long("help") => options.help = true,
            other => return Err(text(other.unexpected())),
        }
    }
    Ok(options)
}

/// Whether everything is within bounds.
fn run(options: Options) -> Result<bool, String> {
    if options.help {
        print!("{HELP}");
        return Ok(true);
    }
    let workspace = Workspace::find()?;
    if options.features {
        let (table, all_built) = features::costs(&workspace)?;
        println!("{}", table.print(options.markdown));
        return Ok(all_built);
    }
    let budgets = Files::read(&workspace, "budgets")?;
    let budgets = Budgets::parse(&budgets.text).map_err(|e| budgets.error(&e))?;
    let name = options.set.as_deref().unwrap_or("default");
    let set = budgets.sets.iter().find(|s| s.name == name).ok_or(format!("size-report/budgets has no set {name}"))?;
    let baseline_file = Files::read(&workspace, "baseline")?;
    let mut baseline = Facts::parse(&baseline_file.text).map_err(|e| baseline_file.error(&e))?;

    // Asked first: a missing compressor is told before a minute of building.
    let compressors = compress::versions()?;
    let built = workspace.build(name, &set.arguments)?;
    let mut measured = measure::measure(&workspace, &built)?;
    if options.run {
        measured.sizes.extend(effort::measure(&workspace.root, &built.shipped)?);
    }
    let context = report::Context { set: name, measured: &measured, baseline: &baseline, limits: &budgets.limits };
    let tables = if options.compare { context.comparison() } else { context.tables()? };
    for table in tables {
        println!("{}", table.print(options.markdown));
    }
    println!("{}", context.findings());
    if let Some(then) = baseline_file.comment(COMPRESSORS).filter(|then| *then != compressors) {
        println!("The baseline's compressed sizes are by other versions: {then}; here {compressors}");
    }
    if options.treemap {
        let path = workspace.root.join("size-report/treemap.svg");
        std::fs::write(&path, treemap::draw(&measured.pieces)).map_err(|e| format!("{}: {e}", path.display()))?;
    }
    if options.update {
        gate::update(name, &measured, &mut baseline);
        let text = format!("{HEADER}{COMPRESSORS}{compressors}\n{}", baseline.print());
        std::fs::write(&baseline_file.path, text).map_err(|e| baseline_file.error(&e.to_string()))?;
    }
    let refusals = gate::check(name, &measured, &baseline, &budgets.limits);
    for refusal in &refusals {
        eprintln!("size-report: {refusal}");
    }
    if let Some(who) = gate::culprits(name, &measured, &baseline).filter(|_| !refusals.is_empty()) {
        eprintln!("size-report: grown most since the baseline: {who}");
    }
    if gate::is_slack(name, &measured, &baseline) {
        println!("The file is smaller than the baseline: keep what was won, with --update.");
    }
    Ok(refusals.is_empty())
}

const HEADER: &str = "# Written by `cargo run -p size-report -- --update`. One fact a line: set, kind, name, bytes.\n";
const COMPRESSORS: &str = "# compressors: ";

/// A committed file of this tool.
struct Files {
    path: PathBuf,
    text: String,
}

impl Files {
    fn read(workspace: &Workspace, name: &str) -> Result<Files, String> {
        let path = workspace.root.join("size-report").join(name);
        let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        Ok(Files { path, text })
    }

    fn error(&self, message: &str) -> String {
        format!("{}: {message}", self.path.display())
    }

    /// What follows `prefix` on the line that begins with it.
    fn comment(&self, prefix: &str) -> Option<&str> {
        self.text.lines().find_map(|line| line.strip_prefix(prefix))
    }
}
