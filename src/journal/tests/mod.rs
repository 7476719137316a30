//! Shared parts of the reader's tests: folders with journal files, and the fixtures.

mod broken;
mod large;

use crate::encode::{self, Format, Stats};
use crate::error::JournalError;
use crate::journal::files::Journal;
use crate::journal::source::Source;
use crate::sys::file::Root;
use crate::sys::time::Deadline;
use core::sync::atomic::{AtomicU32, Ordering};
use std::path::PathBuf;

/// A folder for one test, removed when dropped.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("rdreport-test-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// Returns a root with these journal files in a machine's folder.
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

    pub(crate) fn path(&self) -> &std::path::Path {
        &self.0
    }

    pub(crate) fn root(&self) -> Root {
        Root::new(Some(self.0.as_os_str().as_encoded_bytes())).unwrap()
    }

    /// Opens the journal without masking secrets.
    pub(crate) fn source(&self) -> Source {
        let mut source = open(&self.root()).unwrap();
        source.restart(false);
        source
    }
}

/// Opens the journal below `root`.
pub(crate) fn open(root: &Root) -> Result<Source, JournalError> {
    let mut source = Source::new(Journal::open(root).take(root), true, Deadline::NEVER)?;
    source.rewind();
    Ok(source)
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Returns a decompressed file of `tests/fixtures`.
pub(crate) fn fixture(name: &str) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(format!("{name}.zst"));
    let packed = std::fs::read(path).unwrap();
    let mut content = Vec::with_capacity(16 << 20);
    ruzstd::decoding::FrameDecoder::new().decode_all_to_vec(&packed, &mut content).unwrap();
    content
}

/// Returns the output of a source in a format.
pub(crate) fn written(source: &mut Source, format: Format) -> (Vec<u8>, Stats) {
    let mut out = Vec::new();
    let stats = encode::stream(source, format, None, &mut out).unwrap();
    (out, stats)
}

/// A journal file made by hand: regular layout, each field in an object of its own.
pub(crate) struct Built {
    bytes: Vec<u8>,
    entries: Vec<u64>,
}

impl Built {
    pub(crate) fn new() -> Self {
        let mut bytes = vec![0; 272];
        bytes[..8].copy_from_slice(b"LPKSHHRH");
        bytes[12] = 0xb;
        bytes[56..72].copy_from_slice(&[0xb0; 16]);
        bytes[72..88].copy_from_slice(&[0x5e; 16]);
        bytes[88..96].copy_from_slice(&272u64.to_le_bytes());
        Self { bytes, entries: Vec::new() }
    }

    /// Adds an entry of these payloads, each with its object's flags.
    pub(crate) fn entry(mut self, fields: &[(u8, &[u8])]) -> Self {
        let seqnum = self.entries.len() as u64 + 1;
        let offsets: Vec<u64> = fields
            .iter()
            .map(|(flags, payload)| self.object(1, *flags, &[&[0; 40], &1u64.to_le_bytes()[..], payload].concat()))
            .collect();
        let mut entry = Vec::new();
        for number in
            [seqnum, 1_796_000_000_000_000 + seqnum, seqnum, 0xb0b0_b0b0_b0b0_b0b0, 0xb0b0_b0b0_b0b0_b0b0, seqnum]
        {
            entry.extend(number.to_le_bytes());
        }
        for offset in offsets {
            entry.extend(offset.to_le_bytes());
            entry.extend([0; 8]);
        }
        let at = self.object(3, 0, &entry);
        self.entries.push(at);
        self
    }

    pub(crate) fn finish(mut self) -> Vec<u8> {
        let items: Vec<u8> = self.entries.iter().flat_map(|at| at.to_le_bytes()).collect();
        let count = self.entries.len() as u64;
        let array = self.object(6, 0, &[&[0; 8], &items[..]].concat());
        for (at, value) in [(136, array), (152, count), (160, count), (176, array)] {
            self.bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
        self.bytes
    }

    fn object(&mut self, kind: u8, flags: u8, rest: &[u8]) -> u64 {
        let at = self.bytes.len() as u64;
        self.bytes.extend([kind, flags, 0, 0, 0, 0, 0, 0]);
        self.bytes.extend((rest.len() as u64 + 16).to_le_bytes());
        self.bytes.extend(rest);
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
        at
    }
}
