//! Builds what is measured: the binary as it ships, and the same once more with symbols and a link map.
//!
//! The second has a folder of its own under the target folder, so that neither build undoes the other and both stay incremental. After the
//! first time they run at once: most of each is one thread's link-time optimisation. Both get the flags through `cargo rustc`, whose extra arguments
//! do not enter the names' hashes (a changed profile could), so that the code is the same; [`crate::elf::difference`] checks that it is.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

/// The variable by which `build.rs` tells the date it put into the binary.
const BUILD_DATE: &str = "RDREPORT_BUILD_DATE";
/// The one by which it is told which to put there.
const EPOCH: &str = "SOURCE_DATE_EPOCH";
/// Errors of the compiler go to standard error as ever.
const MESSAGES: &str = "json-render-diagnostics";
/// The feature that is the list of those on by default.
const DEFAULT: &str = "default";
pub const BINARY: &str = "rdreport";

/// What cargo knows of the workspace.
pub struct Workspace {
    pub root: PathBuf,
    /// Cargo's target folder.
    target: PathBuf,
    metadata: Value,
}

pub struct Built {
    pub shipped: PathBuf,
    pub unstripped: PathBuf,
    /// lld's map of the unstripped one.
    pub map: PathBuf,
    /// The Rust libraries that went into it.
    pub libraries: Vec<PathBuf>,
}

/// What a cargo process made.
struct Finished {
    executable: PathBuf,
    libraries: Vec<PathBuf>,
}

impl Workspace {
    /// Found through the folder of this tool, which `cargo run` tells.
    pub fn find() -> Result<Workspace, String> {
        let here = std::env::var_os("CARGO_MANIFEST_DIR").ok_or("run it by `cargo run -p size-report`")?;
        let root = Path::new(&here).parent().ok_or("the tool lies in no workspace")?.to_path_buf();
        let mut metadata = cargo(&root);
        metadata.args(["metadata", "--no-deps", "--format-version", "1"]);
        let output = metadata.output().map_err(|e| format!("cannot run cargo: {e}"))?;
        let metadata: Value = serde_json::from_slice(&output.stdout).map_err(|e| format!("cargo metadata: {e}"))?;
        let target = metadata["target_directory"].as_str().ok_or("cargo metadata names no target folder")?.into();
        Ok(Workspace { root, target, metadata })
    }

    /// Both builds of one set of features. `arguments` are cargo's, such as `--no-default-features`. The map is called after the set:
    /// cargo does not link again what it has, and another set's map would stay.
    pub fn build(&self, set: &str, arguments: &[String]) -> Result<Built, String> {
        let own = self.target.join("size-report");
        let map = own.join(format!("{set}.map"));
        let mut unstripped = cargo(&self.root);
        unstripped.args(["rustc", "--release", "--bin", BINARY, "--quiet", "--message-format", MESSAGES]);
        unstripped.arg("--target-dir").arg(&own).args(arguments);
        unstripped.args(["--", "-Cstrip=none"]).arg(format!("-Clink-arg=-Wl,-Map={}", map.display()));

        let mut shipped = start(&mut self.shipping(arguments))?;
        let mut date = None;
        let mut second = None;
        let first = watch(&mut shipped, |build_date| {
            date = Some(build_date.to_owned());
            if own.exists() {
                second = Some(start(unstripped.env(EPOCH, build_date)));
            }
        });
        let second = match (second, &first, date) {
            (Some(child), _, _) => Ok(child?),
            (None, Ok(_), Some(date)) => {
                self.seed(&own);
                start(unstripped.env(EPOCH, date))
            }
            (None, Err(e), _) => Err(e.clone()),
            (None, Ok(_), None) => Err(format!("the build script of {BINARY} told no {BUILD_DATE}")),
        };
        // Waited for whatever became of the first, so that no cargo is left running.
        let second = second.and_then(|mut child| watch(&mut child, |_| {}));
        let (first, second) = (first?, second?);
        Ok(Built { shipped: first.executable, unstripped: second.executable, map, libraries: second.libraries })
    }

    /// The binary as it ships, nothing else.
    pub fn build_shipped(&self, arguments: &[String]) -> Result<PathBuf, String> {
        let mut child = start(&mut self.shipping(arguments))?;
        Ok(watch(&mut child, |_| {})?.executable)
    }

    /// The default set's binary is the one that `cargo build --release` leaves; those of other sets go elsewhere, not to be taken for it.
    fn shipping(&self, arguments: &[String]) -> Command {
        let mut command = cargo(&self.root);
        command.args(["build", "--release", "--bin", BINARY, "--message-format", MESSAGES]).args(arguments);
        if !arguments.is_empty() {
            let sets = self.target.join("size-report-sets");
            if !sets.exists() {
                self.seed(&sets);
            }
            command.arg("--target-dir").arg(sets);
        }
        command
    }

    /// The features of [`BINARY`].
    pub fn features(&self) -> Result<Features, String> {
        let packages = self.metadata["packages"].as_array();
        let package = packages
            .and_then(|all| all.iter().find(|p| p["name"] == BINARY))
            .ok_or("cargo metadata has no such package")?;
        let features = package["features"].as_object().ok_or("cargo metadata names no features")?;
        let names = |list: &Value| {
            list.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>()
        };
        let mut needs: BTreeMap<_, _> = features.iter().map(|(name, list)| (name.clone(), names(list))).collect();
        let default = needs.remove(DEFAULT).unwrap_or_default();
        Ok(Features { needs, default })
    }

    /// Starts a target folder with the libraries that the release build has: they are the same, and are most of the work. Should cargo not
    /// take them, they are built again.
    fn seed(&self, folder: &Path) {
        const PROFILE: &str = "release";
        let from = self.target.join(PROFILE);
        let to = folder.join(PROFILE);
        let parts: Vec<_> =
            [".fingerprint", "build", "deps"].iter().map(|name| from.join(name)).filter(|p| p.is_dir()).collect();
        if parts.is_empty() {
            return;
        }
        // With their times, by which cargo knows what is fresh.
        let made = std::fs::create_dir_all(&to);
        let copied = made.and_then(|()| Command::new("cp").arg("-a").args(parts).arg(&to).status());
        if !copied.is_ok_and(|status| status.success()) {
            eprintln!("size-report: cannot copy {}; all is built twice", from.display());
        }
    }
}

/// The features of a package.
pub struct Features {
    /// Each with those that it brings, packages among them.
    pub needs: BTreeMap<String, Vec<String>>,
    /// Those that are on by default.
    pub default: Vec<String>,
}

impl Features {
    /// Whether `feature` is `other`, or brings it.
    pub fn brings(&self, feature: &str, other: &str) -> bool {
        // Cargo takes no circles.
        feature == other || self.needs.get(feature).is_some_and(|list| list.iter().any(|f| self.brings(f, other)))
    }
}

/// The Rust libraries that come with the compiler, for the target that is built for by default.
pub fn toolchain_libraries() -> Result<Vec<PathBuf>, String> {
    let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or("rustc".into()));
    rustc.args(["--print", "target-libdir"]);
    if let Some(target) = std::env::var_os("CARGO_BUILD_TARGET") {
        rustc.arg("--target").arg(target);
    }
    let output = rustc.output().map_err(|e| format!("cannot run rustc: {e}"))?;
    let folder = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    let entries = std::fs::read_dir(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let mut files: Vec<_> = entries.filter_map(|e| Some(e.ok()?.path())).collect();
    files.retain(|f| f.extension().is_some_and(|e| e == "rlib"));
    files.sort();
    Ok(files)
}

fn cargo(root: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    command.current_dir(root).stdin(Stdio::null());
    command
}

fn start(command: &mut Command) -> Result<Child, String> {
    command.stdout(Stdio::piped()).spawn().map_err(|e| format!("cannot run cargo: {e}"))
}

/// Reads cargo's messages to their end. `dated` is called as soon as the build's date is known.
fn watch(child: &mut Child, mut dated: impl FnMut(&str)) -> Result<Finished, String> {
    let mut executable = None;
    let mut libraries = Vec::new();
    let pipe = child.stdout.take().ok_or("cargo has no standard output")?;
    for line in BufReader::new(pipe).lines() {
        let line = line.map_err(|e| format!("cargo's messages: {e}"))?;
        let Ok(message) = serde_json::from_str::<Value>(&line) else { continue };
        if let Some(date) = build_date(&message) {
            dated(date);
        }
        if message["reason"] == "compiler-artifact" {
            executable = message["executable"].as_str().map(PathBuf::from).or(executable);
            let files = message["filenames"].as_array().into_iter().flatten().filter_map(Value::as_str);
            libraries.extend(files.filter(|f| f.ends_with(".rlib")).map(PathBuf::from));
        }
    }
    let status = child.wait().map_err(|e| format!("cargo: {e}"))?;
    if !status.success() {
        return Err(format!("cargo could not build it ({status})"));
    }
    let executable = executable.ok_or_else(|| format!("cargo built no {BINARY}"))?;
    Ok(Finished { executable, libraries })
}

fn build_date(message: &Value) -> Option<&str> {
    if message["reason"] != "build-script-executed" {
        return None;
    }
    let pairs = message["env"].as_array()?;
    pairs.iter().find(|pair| pair[0] == BUILD_DATE)?[1].as_str()
}
