//! The journal in the formats that others read, written into a [`Sink`].

mod export;
mod json;
mod short;

use crate::error::Error;
use crate::journal::file::Entry;
use crate::journal::source::Source;
use crate::sink::Sink;
use crate::text::Text;
use alloc::boxed::Box;

/// Bytes that are collected before they are passed on: fields are short, and each stage after this one costs a call.
const BUFFER: usize = 8 * 1024;

/// Bytes of a remark of our own: a sentence and a file's name.
const REMARK_MAX: usize = 400;

/// How the journal is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// systemd's journal export format, as `journalctl -o export` prints it.
    Export,
    /// An object a line, as `journalctl -o json --all` prints it.
    Json,
    /// Lines for people, as `journalctl -o short-monotonic` prints them.
    Short,
}

/// What was written and what was not, for warnings.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Stats {
    /// Entries written, those of our own left out.
    pub entries: u64,
    /// Secrets masked in them.
    pub masked: u64,
}

/// Writes the rest of `source` in `format`, from its beginning if it was not read yet; then an entry of our own for each
/// [`Source::complaint`] there is.
pub fn stream(source: &mut Source, format: Format, sink: &mut dyn Sink) -> Result<Stats, Error> {
    let mut out = Buffer { sink, len: 0, bytes: Box::new([0; BUFFER]) };
    let mut entries = 0u64;
    let mut json = json::Json::new();
    while let Some(entry) = source.next_entry() {
        write(source, format, &mut json, &entry, &mut out)?;
        entries = entries.saturating_add(1);
    }
    let mut buf = [0; REMARK_MAX];
    let mut index = 0u32;
    loop {
        let mut text = Text::new(&mut buf);
        if !source.complaint(index, &mut text) {
            break;
        }
        if !text.as_str().is_empty() {
            let entry = source.remark(text.as_str());
            write(source, format, &mut json, &entry, &mut out)?;
        }
        index = index.saturating_add(1);
    }
    out.flush()?;
    Ok(Stats { entries, masked: source.masked() })
}

fn write(
    source: &mut Source,
    format: Format,
    json: &mut json::Json,
    entry: &Entry,
    out: &mut Buffer,
) -> Result<(), Error> {
    match format {
        Format::Export => export::entry(source, entry, out),
        Format::Json => json.entry(source, entry, out),
        Format::Short => short::entry(source, entry, out),
    }
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
