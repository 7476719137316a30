//! The journal in the formats that other programs read, written into a [`Sink`].

mod export;
mod json;
mod plain;
mod short;
mod tar;

use crate::error::Error;
use crate::journal::file::Entry;
use crate::journal::payload::{IDENTIFIER, MESSAGE, Name, name};
use crate::journal::source::Source;
use crate::sink::{Sink, copy};
use crate::text::Text;
use alloc::boxed::Box;
use alloc::vec;

/// Bytes that are collected before they are passed on. Fields are short, and each call of the next
/// stage has its cost.
const BUFFER: usize = 4 * 1024;

/// The fields that go first where a reader does not accept the whole entry: the message, who logged
/// it, and where it belongs.
const IMPORTANT: [Name; 14] = [
    MESSAGE,
    name(b"PRIORITY"),
    IDENTIFIER,
    name(b"_SYSTEMD_UNIT"),
    name(b"MESSAGE_ID"),
    name(b"UNIT"),
    name(b"UNIT_RESULT"),
    name(b"JOB_RESULT"),
    name(b"EXIT_STATUS"),
    name(b"_HOSTNAME"),
    name(b"_PID"),
    name(b"_COMM"),
    name(b"_TRANSPORT"),
    name(b"_SOURCE_REALTIME_TIMESTAMP"),
];

/// The field with the number of fields that were left out of an entry.
const LEFT_OUT: &str = "RDREPORT_FIELDS_LEFT_OUT";

/// Maximum number of bytes of a remark of rdreport's own: a sentence and a file's name.
const REMARK_MAX: usize = 400;

/// How the journal is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// systemd's journal export format, as `journalctl -o export` prints it.
    Export,
    /// One object a line, as `journalctl -o json --all` prints it.
    Json,
    /// [`Format::Json`] with `null` in place of long values, as journalctl prints it without
    /// `--all`, for readers of short lines.
    JsonLines,
    /// Lines for people, as `journalctl -o short-monotonic` prints them.
    Short,
    /// A tar archive of the unchanged files. Secrets are not masked in it.
    Raw,
    /// [`Format::Raw`], but only of the files that no other format can be made of, because they
    /// need a feature that is not known here.
    Unknown,
}

impl Format {
    /// Returns the format of this name in `?format=` and `--format`.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "export" => Self::Export,
            _ if !cfg!(feature = "formats") => return None,
            "json" => Self::Json,
            "short" => Self::Short,
            "raw" => Self::Raw,
            _ => return None,
        })
    }

    /// Whether the format is an archive of unchanged files.
    pub fn is_archive(self) -> bool {
        cfg!(feature = "formats") && matches!(self, Self::Raw | Self::Unknown)
    }
}

/// What was written and what was left out, for warnings.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Stats {
    /// Number of entries written, without those of rdreport's own.
    pub entries: u64,
    /// Number of secrets masked in these entries.
    pub masked: u64,
    /// Number of entries left out in the middle.
    pub left_out: u64,
    /// Number of bytes of these entries.
    pub left_out_bytes: u64,
}

/// Writes `source` from its beginning in `format`, and then an entry of rdreport's own for each
/// [`Source::complaint`].
///
/// Of a journal that would be longer than `max` bytes, the first and the last entries are written,
/// with an entry of rdreport's own in between.
pub fn stream(source: &mut Source, format: Format, max: Option<u64>, sink: &mut dyn Sink) -> Result<Stats, Error> {
    source.rewind();
    let mut writer =
        Writer { source, format, json: json::Json::new(format == Format::JsonLines), stats: Stats::default() };
    if format.is_archive() {
        let first = if format == Format::Raw { 0 } else { writer.source.first_unknown() };
        let mut out = Buffer::new(sink);
        tar::archive(writer.source, first, &mut out)?;
        out.flush()?;
        return Ok(writer.stats);
    }
    let mut range = None;
    if let Some(max) = max {
        let mut nothing = Nothing;
        let mut counter = Buffer::new(&mut nothing);
        writer.write(None, &mut counter)?;
        if counter.total > max {
            range = Some((max / 2, counter.total.saturating_sub(max.div_ceil(2))));
        }
        writer.source.rewind();
        writer.stats = Stats::default();
    }
    let mut out = Buffer::new(sink);
    writer.write(range, &mut out)?;
    out.flush()?;
    writer.stats.masked = writer.source.masked();
    Ok(writer.stats)
}

struct Writer<'a> {
    source: &'a mut Source,
    format: Format,
    json: json::Json,
    stats: Stats,
}

impl Writer<'_> {
    /// Writes all entries. With a `range` of offsets in the whole output, writes only the entries
    /// that end before its start and those that begin after its end.
    fn write(&mut self, range: Option<(u64, u64)>, out: &mut Buffer) -> Result<(), Error> {
        let mut nothing = Nothing;
        let mut counter = Buffer::new(&mut nothing);
        let mut is_said = false;
        while let Some(entry) = self.source.next_entry() {
            if let Some((head, tail)) = range {
                // The problems and secrets found here are found and counted again when the entry is
                // written.
                let found = self.source.found();
                let begin = counter.total;
                self.entry(&entry, &mut counter)?;
                self.source.set_found(found);
                if counter.total > head && begin < tail {
                    self.stats.left_out = self.stats.left_out.saturating_add(1);
                    self.stats.left_out_bytes =
                        self.stats.left_out_bytes.saturating_add(counter.total.saturating_sub(begin));
                    continue;
                }
                if self.stats.left_out > 0 && !is_said {
                    is_said = true;
                    self.say_left_out(out)?;
                }
            }
            self.entry(&entry, out)?;
            self.stats.entries = self.stats.entries.saturating_add(1);
        }
        if self.stats.left_out > 0 && !is_said {
            self.say_left_out(out)?;
        }
        let mut buf = [0; REMARK_MAX];
        for index in 0.. {
            let mut text = Text::new(&mut buf);
            if !self.source.complaint(index, &mut text) {
                break;
            }
            if !text.as_str().is_empty() {
                self.remark(text.as_str(), out)?;
            }
        }
        Ok(())
    }

    fn say_left_out(&mut self, out: &mut Buffer) -> Result<(), Error> {
        let mut buf = [0; REMARK_MAX];
        let mut text = Text::new(&mut buf);
        text.str("journal: ").dec(self.stats.left_out).str(" entries left out here, ").dec(self.stats.left_out_bytes);
        text.str(" bytes; rd.report.journal.max= limits them");
        self.remark(text.as_str(), out)
    }

    fn remark(&mut self, text: &str, out: &mut Buffer) -> Result<(), Error> {
        let entry = self.source.remark(text);
        self.entry(&entry, out)
    }

    fn entry(&mut self, entry: &Entry, out: &mut Buffer) -> Result<(), Error> {
        match self.format {
            _ if !cfg!(feature = "formats") => export::entry(self.source, entry, out),
            Format::Export => export::entry(self.source, entry, out),
            Format::Json | Format::JsonLines => self.json.entry(self.source, entry, out),
            Format::Short => short::entry(self.source, entry, out),
            Format::Raw | Format::Unknown => Ok(()),
        }
    }
}

/// A sink that discards what is only counted.
struct Nothing;

impl Sink for Nothing {
    fn put(&mut self, _: &[u8]) -> Result<(), Error> {
        Ok(())
    }
}

/// A sink that passes bytes on in larger pieces.
struct Buffer<'a> {
    sink: &'a mut dyn Sink,
    /// Number of bytes put so far.
    total: u64,
    len: usize,
    bytes: Box<[u8]>,
}

impl<'a> Buffer<'a> {
    fn new(sink: &'a mut dyn Sink) -> Self {
        Self { sink, total: 0, len: 0, bytes: vec![0; BUFFER].into_boxed_slice() }
    }

    fn flush(&mut self) -> Result<(), Error> {
        let len = core::mem::take(&mut self.len);
        self.sink.put(self.bytes.get(..len).unwrap_or_default())
    }
}

impl Sink for Buffer<'_> {
    fn put(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.total = self.total.saturating_add(bytes.len() as u64);
        if bytes.len() > BUFFER.saturating_sub(self.len) {
            self.flush()?;
            if bytes.len() >= BUFFER {
                return self.sink.put(bytes);
            }
        }
        if let Some(free) = self.bytes.get_mut(self.len..)
            && copy(bytes, free)
        {
            self.len = self.len.saturating_add(bytes.len());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::tests::{Folder, fixture, written};

    #[test]
    fn head_and_tail_of_what_is_too_long() {
        let folder = Folder::with_journals(&[("system.journal", fixture("initrd-systemd252-fakeignition.journal"))]);
        let mut source = folder.source();
        for format in [Format::Export, Format::Json, Format::Short] {
            let (whole, all) = written(&mut source, format);
            let mut limited = |max| {
                let mut out = Vec::new();
                let stats = stream(&mut source, format, Some(max), &mut out).unwrap();
                (out, stats)
            };
            assert!(limited(whole.len() as u64).0 == whole);
            for max in [0, 1, 3000, 20_000, whole.len() as u64 - 1] {
                let (out, stats) = limited(max);
                let mark =
                    format!("journal: {} entries left out here, {} bytes;", stats.left_out, stats.left_out_bytes);
                let at = out.windows(mark.len()).position(|w| w == mark.as_bytes()).unwrap();
                assert!(out.len() as u64 <= max + 600, "{} for {max}", out.len());
                assert_eq!(stats.entries + stats.left_out, all.entries);
                // The first and the last part are those of the whole output.
                let head = whole.iter().zip(&out).take_while(|(a, b)| a == b).count();
                let tail = whole.iter().rev().zip(out.iter().rev()).take_while(|(a, b)| a == b).count();
                assert!(head <= at && head + tail + 600 >= out.len(), "{head} {tail} {}", out.len());
                assert!(max < 3000 || head > 400 && tail > 400, "{head} {tail} for {max}");
            }
        }
    }
}
