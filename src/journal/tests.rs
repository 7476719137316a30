//! What the tests of the reader share: folders with journal files, and the fixtures.

use super::source::Source;
use crate::encode::{self, Format, Stats};
use crate::sys::file::Root;
use core::sync::atomic::{AtomicU32, Ordering};
use std::path::PathBuf;

/// A folder of a test's own, gone with it.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("rdreport-test-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// A root with these journal files in a machine's folder.
    pub(crate) fn with_journals<B: AsRef<[u8]>>(files: &[(&str, B)]) -> Self {
        let folder = Self::new();
        for (name, content) in files {
            folder.write(&format!("run/log/journal/8e40128e62394571a74cba500e0d4b0a/{name}"), content.as_ref());
        }
        folder
    }

    pub(crate) fn write(&self, name: &str, content: &[u8]) {
        let path = self.0.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    pub(crate) fn root(&self) -> Root {
        Root::new(Some(self.0.as_os_str().as_encoded_bytes())).unwrap()
    }

    pub(crate) fn source(&self) -> Source {
        Source::open(&self.root()).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// An uncompressed file of `tests/fixtures`.
pub(crate) fn fixture(name: &str) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(format!("{name}.zst"));
    let packed = std::fs::read(path).unwrap();
    let mut content = Vec::with_capacity(16 << 20);
    ruzstd::decoding::FrameDecoder::new().decode_all_to_vec(&packed, &mut content).unwrap();
    content
}

/// What a source gives in a format.
pub(crate) fn written(source: &mut Source, format: Format) -> (Vec<u8>, Stats) {
    let mut out = Vec::new();
    let stats = encode::stream(source, format, &mut out).unwrap();
    (out, stats)
}
