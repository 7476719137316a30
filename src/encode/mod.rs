//! The journal in the formats that others read, written into a [`Sink`].

mod export;

use crate::error::Error;
use crate::journal::source::{Problems, Source};
use crate::sink::Sink;
use alloc::boxed::Box;

/// Bytes that are collected before they are passed on: fields are short, and each stage after this one costs a call.
const BUFFER: usize = 8 * 1024;

/// How the journal is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// systemd's journal export format, as `journalctl -o export` prints it.
    Export,
}

/// What was written and what was not, for warnings.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Stats {
    /// Entries written.
    pub entries: u64,
    /// What could not be read.
    pub problems: Problems,
}

/// Writes the rest of `source` in `format`, from its beginning if it was not read yet.
pub fn stream(source: &mut Source, format: Format, sink: &mut dyn Sink) -> Result<Stats, Error> {
    let mut out = Buffer { sink, len: 0, bytes: Box::new([0; BUFFER]) };
    let mut entries = 0u64;
    while let Some(entry) = source.next_entry() {
        match format {
            Format::Export => export::entry(source, &entry, &mut out)?,
        }
        entries = entries.saturating_add(1);
    }
    out.flush()?;
    Ok(Stats { entries, problems: source.problems() })
}

/// A sink that passes on what it is given in larger pieces.
struct Buffer<'a> {
    sink: &'a mut dyn Sink,
    len: usize,
    bytes: Box<[u8; BUFFER]>,
}

impl Buffer<'_> {
    fn flush(&mut self) -> Result<(), Error> {
        let len = core::mem::take(&mut self.len);
        self.sink.put(self.bytes.get(..len).unwrap_or_default())
    }
}

impl Sink for Buffer<'_> {
    fn put(&mut self, bytes: &[u8]) -> Result<(), Error> {
        if bytes.len() > BUFFER.saturating_sub(self.len) {
            self.flush()?;
            if bytes.len() >= BUFFER {
                return self.sink.put(bytes);
            }
        }
        let end = self.len.saturating_add(bytes.len());
        if let Some(to) = self.bytes.get_mut(self.len..end) {
            to.copy_from_slice(bytes);
            self.len = end;
        }
        Ok(())
    }
}
