//! Whose the constants without a name are.
//!
//! rustc calls a constant that no source names `anon.HASH.NUMBER` (a string, a table, a promoted value). The hash is one codegen unit's,
//! and the library that the unit went into has the same name in its bitcode: so the libraries are searched for it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use memchr::memmem::Finder;

const PREFIX: &str = "anon.";
/// Hexadecimal digits of an MD5 sum.
const HASH_LENGTH: usize = 32;

/// The hash within a symbol's or section's name.
pub fn hash(name: &str) -> Option<&str> {
    let (_, rest) = name.split_once(PREFIX)?;
    let hash = rest.get(..HASH_LENGTH)?;
    hash.bytes().all(|b| b.is_ascii_hexdigit()).then_some(hash)
}

/// For each hash, the crate whose library holds it. Libraries are read until every hash is found.
pub fn owners(hashes: BTreeSet<&str>, libraries: &[PathBuf]) -> Result<BTreeMap<String, String>, String> {
    let mut wanted = hashes;
    let mut found = BTreeMap::new();
    let finder = Finder::new(PREFIX);
    for file in libraries {
        if wanted.is_empty() {
            break;
        }
        let Some(krate) = crate_of_library(file) else { continue };
        let bytes = std::fs::read(file).map_err(|e| format!("{}: {e}", file.display()))?;
        for at in finder.find_iter(&bytes) {
            let start = at + PREFIX.len();
            let text = bytes.get(start..start + HASH_LENGTH).and_then(|b| std::str::from_utf8(b).ok());
            if let Some(hash) = text.and_then(|t| wanted.take(t)) {
                found.insert(hash.to_owned(), krate.to_owned());
            }
        }
    }
    Ok(found)
}

/// `librustls-0123456789abcdef.rlib` is rustls.
pub fn crate_of_library(file: &Path) -> Option<&str> {
    let stem = file.file_name()?.to_str()?.strip_prefix("lib")?.strip_suffix(".rlib")?;
    Some(stem.rsplit_once('-').map_or(stem, |(name, _)| name))
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "0455bfe9a05cda098c5e3520443d1fb7";
    const B: &str = "1d4315ce86df3085ef9b869475d1313e";

    #[test]
    fn hashes_in_names() {
        assert_eq!(hash(".rodata..Lanon.0455bfe9a05cda098c5e3520443d1fb7.100"), Some(A));
        assert_eq!(hash(".Lanon.1d4315ce86df3085ef9b869475d1313e.10"), Some(B));
        assert_eq!(hash(".rodata..Lanon.0455"), None);
        assert_eq!(hash(".Lanon.zz55bfe9a05cda098c5e3520443d1fb7.1"), None);
        assert_eq!(hash(".rodata.main"), None);
    }

    #[test]
    fn libraries_name_crates() {
        assert_eq!(
            crate_of_library(Path::new("/t/deps/librustls_pki_types-3c11e7ac738d1235.rlib")),
            Some("rustls_pki_types")
        );
        assert_eq!(crate_of_library(Path::new("/t/librdreport.rlib")), Some("rdreport"));
        assert_eq!(crate_of_library(Path::new("/t/libc.a")), None);
    }

    #[test]
    fn found_in_the_library_that_has_it() {
        let folder = std::env::temp_dir().join(format!("size-report-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("libone-1.rlib");
        // A prefix cut off by the end of the file must not be read past it.
        std::fs::write(&file, format!("\0.anon.{A}.7\0anon.{A}.8 anon.12")).unwrap();
        let found = owners(BTreeSet::from([A, B]), std::slice::from_ref(&file)).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(found, BTreeMap::from([(A.to_owned(), "one".to_owned())]));
    }
}
