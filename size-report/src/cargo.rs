//! Builds what is measured: the binary as it ships, and the same once more with symbols and a link map.
//!
//! The second has a folder of its own under the target folder, so that neither build undoes the other and both stay incremental. They run
//! at the same time: most of each is one thread's link-time optimisation. Both get the flags through `cargo rustc`, whose extra arguments
//! do not enter the names' hashes (a changed profile could), so that the code is the same; [`crate::elf::difference`] checks that it is.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

/// The variable by which `build.rs` tells the date it put into the binary.
const BUILD_DATE: &str = "RDREPORT_BUILD_DATE";
pub const BINARY: &str = "rdreport";

/// Where to build, and which features.
pub struct Workspace {
    pub root: PathBuf,
    /// Cargo's target folder.
    target: PathBuf,
}

pub struct Built {
    pub shipped: PathBuf,
    pub unstripped: PathBuf,
    /// lld's map of the unstripped one.
    pub map: PathBuf,
    /// The Rust libraries that went into it.
    pub libraries: Vec<PathBuf>,
}

/// What a cargo process said while it ran.
#[derive(Default)]
struct Messages {
    executable: Option<PathBuf>,
    libraries: Vec<PathBuf>,
    build_date: Option<String>,
}

impl Workspace {
    /// Found through the folder of this tool, which `cargo run` tells.
    pub fn find() -> Result<Workspace, String> {
        let here = std::env::var_os("CARGO_MANIFEST_DIR").ok_or("run it by `cargo run -p size-report`")?;
        let root = Path::new(&here).parent().ok_or("the tool lies in no workspace")?.to_path_buf();
        let mut metadata = cargo(&root);
        metadata.args(["metadata", "--no-deps", "--format-version", "1"]);
        let output = metadata.output().map_err(|e| format!("cannot run cargo: {e}"))?;
        let value: Value = serde_json::from_slice(&output.stdout).map_err(|e| format!("cargo metadata: {e}"))?;
        let target = value["target_directory"].as_str().ok_or("cargo metadata names no target folder")?.into();
        Ok(Workspace { root, target })
    }

    /// Both builds of one set of features. `arguments` are cargo's, such as `--no-default-features`. The default set's shipped binary is
    /// the one that `cargo build --release` leaves; those of other sets go elsewhere, not to be taken for it. The map is called after the
    /// set: cargo does not link again what it has, and another set's map would stay.
    pub fn build(&self, set: &str, arguments: &[String]) -> Result<Built, String> {
        let own = self.target.join("size-report");
        let map = own.join(format!("{set}.map"));
        let mut shipped = cargo(&self.root);
        shipped
            .args(["build", "--release", "--bin", BINARY, "--message-format", "json-render-diagnostics"])
            .args(arguments);
        if !arguments.is_empty() {
            shipped.arg("--target-dir").arg(self.target.join("size-report-sets"));
        }
        let mut unstripped = cargo(&self.root);
        unstripped.args([
            "rustc",
            "--release",
            "--bin",
            BINARY,
            "--quiet",
            "--message-format",
            "json-render-diagnostics",
        ]);
        unstripped.arg("--target-dir").arg(&own).args(arguments);
        unstripped.args(["--", "-Cstrip=none"]).arg(format!("-Clink-arg=-Wl,-Map={}", map.display()));

        let mut second = None;
        let first = watch(start(&mut shipped)?, "cargo build", |date| {
            second = Some(start(unstripped.env("SOURCE_DATE_EPOCH", date)));
        });
        // Waited for in any case, so that no cargo is left running.
        let second = match second {
            Some(child) => watch(child?, "cargo rustc", |_| {}),
            None => Err(format!("the build script of {BINARY} told no {BUILD_DATE}")),
        };
        let (first, second) = (first?, second?);
        let none = || format!("cargo built no {BINARY}");
        Ok(Built {
            shipped: first.executable.ok_or_else(none)?,
            unstripped: second.executable.ok_or_else(none)?,
            map,
            libraries: second.libraries,
        })
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
fn watch(mut child: Child, what: &str, mut dated: impl FnMut(&str)) -> Result<Messages, String> {
    let mut messages = Messages::default();
    let pipe = child.stdout.take().ok_or("cargo has no standard output")?;
    for line in BufReader::new(pipe).lines() {
        let line = line.map_err(|e| format!("{what}: {e}"))?;
        let Ok(message) = serde_json::from_str::<Value>(&line) else { continue };
        messages.take(&message);
        if let Some(date) = build_date(&message) {
            dated(date);
            messages.build_date = Some(date.to_owned());
        }
    }
    let status = child.wait().map_err(|e| format!("{what}: {e}"))?;
    if !status.success() {
        return Err(format!("{what} failed ({status})"));
    }
    Ok(messages)
}

impl Messages {
    fn take(&mut self, message: &Value) {
        if message["reason"] != "compiler-artifact" {
            return;
        }
        if let Some(executable) = message["executable"].as_str() {
            self.executable = Some(executable.into());
        }
        let files = message["filenames"].as_array().into_iter().flatten().filter_map(Value::as_str);
        self.libraries.extend(files.filter(|f| f.ends_with(".rlib")).map(PathBuf::from));
    }
}

fn build_date(message: &Value) -> Option<&str> {
    if message["reason"] != "build-script-executed" {
        return None;
    }
    let pairs = message["env"].as_array()?;
    pairs.iter().find(|pair| pair[0] == BUILD_DATE)?[1].as_str()
}
