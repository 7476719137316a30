//! The tables, from what was measured.

use std::collections::BTreeMap;

use crate::attribute::{Kind, Piece};
use crate::cargo::BINARY;
use crate::elf::Elf;
use crate::facts::Facts;
use crate::gate::{self, Delta};
use crate::measure::{FILE, Measured};
use crate::symbol;
use crate::table::{Table, change, number, percent};

/// How many of the largest functions and constants are listed.
const LARGEST: usize = 20;
/// Bytes of a constant's text that are shown.
const PREVIEW: usize = 40;

pub struct Context<'c> {
    pub set: &'c str,
    pub measured: &'c Measured,
    pub baseline: &'c Facts,
    pub limits: &'c Facts,
}

impl Context<'_> {
    /// The whole report.
    pub fn tables(&self) -> Result<Vec<Table>, String> {
        let elf = Elf::parse(&self.measured.bytes)?;
        Ok(vec![
            self.sizes(),
            sections(&elf),
            segments(&elf),
            self.crates(),
            self.modules(),
            self.largest("functions", |p| p.kind == Kind::Code),
            self.largest("data", |p| matches!(p.kind, Kind::Constant | Kind::Data)),
        ])
    }

    /// What changed against the baseline.
    pub fn comparison(&self) -> Vec<Table> {
        let crates = gate::crates(self.set, self.measured, self.baseline);
        let functions = gate::functions(self.set, self.measured, self.baseline);
        let before = self.baseline.get(self.set, FILE, "").unwrap_or(0);
        let whole = Delta { name: "total".into(), before, now: self.measured.size(FILE) };
        vec![
            self.sizes(),
            changes("Crates that changed", &crates, &whole),
            changes("Functions that changed", &functions, &whole),
        ]
    }

    /// What was checked beside sizes.
    pub fn findings(&self) -> String {
        let findings = &self.measured.findings;
        let passed = findings.checked - findings.wrong.len();
        format!("File checks: {passed} passed, {} failed.", findings.wrong.len())
    }

    fn sizes(&self) -> Table {
        let columns = ["measure", ">now", ">baseline", ">change", ">%", ">budget", ">left"];
        let mut table = Table::new(format!("Size of the feature set `{}`", self.set), &columns);
        for (measure, now) in &self.measured.sizes {
            let before = self.baseline.get(self.set, measure, "");
            let delta = before.map(|before| *now as i64 - before as i64);
            let limit = self.limits.get(self.set, measure, "");
            let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".into());
            table.row([
                measure.to_string(),
                number(*now),
                or_dash(before.map(number)),
                or_dash(delta.map(change)),
                or_dash(delta.zip(before).map(|(delta, before)| percent(delta, before))),
                or_dash(limit.map(number)),
                or_dash(limit.map(|limit| change(limit as i64 - *now as i64))),
            ]);
        }
        table
    }

    fn crates(&self) -> Table {
        let mut table =
            Table::new("Bytes of the file by owner", &["owner", ">bytes", ">%", ">code", ">constants", ">data"]);
        let whole = self.measured.size(FILE);
        let mut rows: Vec<_> = self.measured.crates().into_iter().collect();
        rows.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
        let of = |owner: Option<&str>, kind: Kind| {
            let pieces = self.measured.pieces.iter().filter(|p| p.kind == kind && owner.is_none_or(|o| p.owner == o));
            number(pieces.map(Piece::size).sum())
        };
        let named = rows.iter().map(|(owner, bytes)| (Some(*owner), *bytes));
        for (owner, bytes) in named.chain([(None, rows.iter().map(|r| r.1).sum())]) {
            let cells = [owner.unwrap_or("total").to_owned(), number(bytes), percent(bytes as i64, whole)];
            table.row(cells.into_iter().chain([Kind::Code, Kind::Constant, Kind::Data].map(|kind| of(owner, kind))));
        }
        table
    }

    /// Our own crate, part by part.
    fn modules(&self) -> Table {
        let mut table =
            Table::new(format!("Bytes of {BINARY} by module"), &["module", ">bytes", ">code", ">constants", ">data"]);
        let mut modules: BTreeMap<&str, [u64; 3]> = BTreeMap::new();
        for piece in self.measured.pieces.iter().filter(|p| p.owner == BINARY) {
            let kinds = modules.entry(symbol::module(&piece.name, BINARY).unwrap_or("(no module)")).or_default();
            match piece.kind {
                Kind::Code => kinds[0] += piece.size(),
                Kind::Constant => kinds[1] += piece.size(),
                Kind::Data | Kind::Overhead => kinds[2] += piece.size(),
            }
        }
        let mut rows: Vec<_> = modules.into_iter().collect();
        rows.sort_by_key(|(_, kinds)| std::cmp::Reverse(kinds.iter().sum::<u64>()));
        for (module, kinds) in rows {
            table.row([module.to_owned(), number(kinds.iter().sum())].into_iter().chain(kinds.map(number)));
        }
        table
    }

    fn largest(&self, what: &str, wanted: impl Fn(&Piece) -> bool) -> Table {
        let mut table = Table::new(format!("Largest {what}"), &[">bytes", ">copies", "owner", "name"]);
        let functions = self.measured.functions();
        let mut by_name: BTreeMap<(&str, String), (u64, u64)> = BTreeMap::new();
        for piece in self.measured.pieces.iter().filter(|p| wanted(p)) {
            let entry = by_name.entry((&piece.owner, self.name(piece, &functions))).or_default();
            *entry = (entry.0 + piece.size(), entry.1 + 1);
        }
        let mut rows: Vec<_> = by_name.into_iter().collect();
        rows.sort_by_key(|(_, (bytes, _))| std::cmp::Reverse(*bytes));
        for ((owner, name), (bytes, copies)) in rows.into_iter().take(LARGEST) {
            table.row([number(bytes), number(copies), owner.to_owned(), name]);
        }
        table
    }

    /// A constant without a name is told by how it begins, if that is text; the jump table of a function has the function's name.
    fn name(&self, piece: &Piece, functions: &BTreeMap<&str, u64>) -> String {
        let bytes = self.measured.bytes.get(piece.start as usize..piece.end as usize).unwrap_or_default();
        let start = &bytes[..bytes.len().min(PREVIEW)];
        let is_text = piece.kind == Kind::Constant && start.iter().all(|b| matches!(b, b' '..=b'~'));
        if piece.name.starts_with("constant ") && is_text {
            return format!("\"{}\"", String::from_utf8_lossy(start));
        }
        match piece.kind {
            Kind::Constant if functions.contains_key(&*piece.name) => format!("table of {}", piece.name),
            _ => piece.name.clone(),
        }
    }
}

fn sections(elf: &Elf) -> Table {
    let mut table = Table::new("Sections", &["section", ">file", ">memory", ">align", "flags"]);
    for s in &elf.sections {
        let flags = [(s.alloc, 'A'), (s.write, 'W'), (s.execute, 'X')];
        let flags = flags.iter().filter(|(set, _)| *set).map(|(_, flag)| *flag).collect();
        let memory = if s.alloc { s.size } else { 0 };
        table.row([s.name.to_owned(), number(s.data.len() as u64), number(memory), number(s.align), flags]);
    }
    table
}

fn segments(elf: &Elf) -> Table {
    let mut table = Table::new("Segments", &["segment", ">file", ">memory", ">align", "flags"]);
    for s in &elf.segments {
        let flags = format!("R{}{}", if s.write { "W" } else { "" }, if s.execute { "X" } else { "" });
        table.row([s.name(), number(s.file_size), number(s.memory_size), number(s.align), flags]);
    }
    table
}

/// Sorted by size of change, with a total. Where the list is not of everything, a row makes up for the rest.
fn changes(title: &str, deltas: &[Delta], whole: &Delta) -> Table {
    let mut table = Table::new(title, &[">change", ">before", ">now", "name"]);
    for d in deltas {
        table.row([change(d.bytes()), number(d.before), number(d.now), d.name.clone()]);
    }
    let listed: i64 = deltas.iter().map(Delta::bytes).sum();
    if listed != whole.bytes() {
        table.row([change(whole.bytes() - listed), "-".into(), "-".into(), "everything else".into()]);
    }
    table.row([change(whole.bytes()), number(whole.before), number(whole.now), whole.name.clone()]);
    table
}
