//! Reports, from inside a Linux initramfs, how provisioning ended.
//!
//! ```text
//! /proc/cmdline -> settings --> report [-> cloud] --------> http::client --+
//!                           \-> journal -> encode -> gzip -> http::body --+--> net (TLS or plain) -> sys
//! ```
//! Each arrow writes into the next ([`sink::Sink`]); only results flow back.
//!
//! Imports point downwards only: [`LAYERS`] has the order, and a test checks the code against it.
//! From the top:
//!
//! - `run`: a report from plan to exit
//! - `cli`, `recovery`: arguments; the machine after a failure
//! - `delivery`: one destination and its attempts
//! - `cloud`: the services of clouds
//! - `destination`: a configured URL, resolved
//! - `report`, `encode`, `explain`: the status, the journal's formats, sentences for errors
//! - `journal`, `http`: the reader of journal files, the HTTP client
//! - `net`, `gzip`, `settings`: connections, compression, the command line
//! - `output`, `escape`, `date`, `sink`, `error`: lines, writers, the enums of errors
//! - `sys`: system calls
//! - `text`: bounded text and numbers
//!
//! `sys` holds all unsafe code, except for the entry and the allocator's instance in `main.rs`.
#![cfg_attr(not(test), no_std)]
#![deny(unsafe_code, unused_must_use, unsafe_op_in_unsafe_fn)]
#![warn(missing_docs, unreachable_pub)]
#![cfg_attr(not(test), warn(clippy::std_instead_of_core, clippy::std_instead_of_alloc))]

extern crate alloc;

pub mod cli;
pub mod cloud;
pub mod date;
pub mod delivery;
pub mod destination;
pub mod encode;
pub mod error;
pub mod escape;
pub mod explain;
pub mod gzip;
pub mod http;
pub mod journal;
pub mod net;
pub mod output;
pub mod recovery;
pub mod report;
pub mod run;
pub mod settings;
pub mod sink;
pub mod sys;
pub mod text;

/// The layers, from the top down: a module imports only modules that stand after it.
pub const LAYERS: [&str; 21] = [
    "run",
    "cli",
    "recovery",
    "delivery",
    "cloud",
    "destination",
    "explain",
    "report",
    "encode",
    "gzip",
    "http",
    "journal",
    "net",
    "settings",
    "output",
    "escape",
    "date",
    "sink",
    "error",
    "sys",
    "text",
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// Top-level modules that the code of `file` names, tests apart.
    fn imports(file: &Path) -> Vec<String> {
        let text = std::fs::read_to_string(file).unwrap();
        let code = text.split("\n#[cfg(test)]\nmod tests").next().unwrap();
        let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
        let mut found = Vec::new();
        for part in lines.flat_map(|line| line.split("crate::").skip(1)) {
            let names = match part.strip_prefix('{') {
                Some(group) => group.split([',', '}']).collect(),
                None => vec![part],
            };
            let word = |name: &str| {
                name.trim().split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).next().unwrap().into()
            };
            found.extend(names.into_iter().map(word));
        }
        found
    }

    fn files(folder: &Path, take: &mut dyn FnMut(&Path)) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            match path.is_dir() {
                true if name != "tests" => files(&path, take),
                false if name.ends_with(".rs") && name != "tests.rs" => take(&path),
                _ => {}
            }
        }
    }

    #[test]
    fn imports_point_downwards() {
        let src = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src"));
        let mut seen = 0;
        files(src, &mut |file| {
            let top = file.strip_prefix(src).unwrap().iter().next().unwrap().to_str().unwrap();
            let top = top.trim_end_matches(".rs");
            if top == "lib" || top == "main" {
                return;
            }
            let own = LAYERS.iter().position(|layer| *layer == top).unwrap_or_else(|| panic!("{top} is in no layer"));
            for import in imports(file) {
                if let Some(at) = LAYERS.iter().position(|layer| *layer == import) {
                    seen += 1;
                    assert!(at >= own, "{} imports {import}, which is above it", file.display());
                }
            }
        });
        assert!(seen > 300, "{seen}");
    }
}
