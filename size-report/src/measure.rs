//! One set of features, built and measured.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::attribute::{self, Kind, Piece, Sources};
use crate::cargo::{self, Built, Workspace};
use crate::compress::COMPRESSORS;
use crate::elf::{self, Elf};
use crate::invariants::{self, Findings};
use crate::{constants, map};

/// The measure that is the file's own size; the others are called after their compressor.
pub const FILE: &str = "file";

pub struct Measured {
    /// Bytes by measure: [`FILE`], then the compressors'.
    pub sizes: Vec<(&'static str, u64)>,
    /// The whole file, in order.
    pub pieces: Vec<Piece>,
    pub findings: Findings,
    /// The shipped file's bytes.
    pub bytes: Vec<u8>,
}

impl Measured {
    pub fn size(&self, measure: &str) -> u64 {
        self.sizes.iter().find(|(name, _)| *name == measure).map_or(0, |(_, bytes)| *bytes)
    }

    /// Bytes by owner.
    pub fn crates(&self) -> BTreeMap<&str, u64> {
        sums(self.pieces.iter().map(|p| (&*p.owner, p.size())))
    }

    /// Bytes by function; functions of one name (instances of a generic one) are one.
    pub fn functions(&self) -> BTreeMap<&str, u64> {
        sums(self.pieces.iter().filter(|p| p.kind == Kind::Code).map(|p| (&*p.name, p.size())))
    }
}

fn sums<'p>(sizes: impl Iterator<Item = (&'p str, u64)>) -> BTreeMap<&'p str, u64> {
    let mut sums = BTreeMap::new();
    for (name, size) in sizes {
        *sums.entry(name).or_default() += size;
    }
    sums
}

/// Sizes only; no symbols are needed.
pub fn sizes(file: &Path) -> Result<Vec<(&'static str, u64)>, String> {
    let mut sizes = vec![(FILE, read(file)?.len() as u64)];
    for compressor in &COMPRESSORS {
        sizes.push((compressor.name, compressor.size(file)?));
    }
    Ok(sizes)
}

/// Everything about a build.
pub fn measure(workspace: &Workspace, built: &Built) -> Result<Measured, String> {
    let sizes = sizes(&built.shipped)?;
    let bytes = read(&built.shipped)?;
    let other = read(&built.unstripped)?;
    let shipped = Elf::parse(&bytes)?;
    let unstripped = Elf::parse(&other)?;
    if let Some(what) = elf::difference(&shipped, &unstripped) {
        return Err(format!(
            "{} is not the same program as {}, which has the symbols: {what} differ(s). Sizes by crate would be wrong",
            built.shipped.display(),
            built.unstripped.display(),
        ));
    }
    let map = String::from_utf8(read(&built.map)?).map_err(|_| "the link map is not text")?;
    let map = map::parse(&map);
    let names = map.iter().map(|i| i.section).chain(unstripped.symbols.iter().map(|s| s.name));
    let hashes: BTreeSet<_> = names.filter_map(constants::hash).collect();
    let libraries = [built.libraries.clone(), cargo::toolchain_libraries()?].concat();
    let constants = constants::owners(hashes, &libraries)?;
    let roots = attribute::root_keys();
    let sources = Sources { root_crate: cargo::BINARY, constants: &constants, roots: &roots };
    let pieces = attribute::attribute(&shipped, &unstripped, &map, &sources)?;
    let private = private_paths(workspace);
    let private: Vec<_> = private.iter().map(PathBuf::as_path).collect();
    let findings = invariants::check(&shipped, &private);
    Ok(Measured { sizes, pieces, findings, bytes })
}

fn private_paths(workspace: &Workspace) -> Vec<PathBuf> {
    let folders =
        ["HOME", "CARGO_HOME", "CARGO_TARGET_DIR"].into_iter().filter_map(std::env::var_os).map(PathBuf::from);
    let mut paths: Vec<_> = folders.filter(|f| f.is_absolute()).chain([workspace.root.clone()]).collect();
    paths.sort();
    paths.dedup();
    paths
}

pub fn read(file: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(file).map_err(|e| format!("{}: {e}", file.display()))
}
