//! All journal files as one sequence of entries, in the order in which `journalctl --merge` prints
//! them.
//!
//! The order is sd-journal's (`compare_locations` in its `sd-journal.c`): by sequence number if
//! both entries have numbers from the same source, else by monotonic time within a boot, else by
//! which boot is newer, else by wall clock time. An entry that is in several files is returned
//! once. Unlike sd-journal, an entry that seems older than the one before it in the same file is
//! returned, not skipped.
//!
//! If there are no journal files, the kernel's log is read instead.

use crate::error::{Error, JournalError};
use crate::journal::file::{Entry, JournalFile, Step};
use crate::journal::files::{Journal, Opened, Skipped};
use crate::journal::format::{BadHeader, Header, Id};
use crate::journal::kmsg::Kmsg;
use crate::journal::payload::{Data, Field, Name, Output, Unread};
#[cfg(feature = "follow")]
use crate::journal::position::Positions;
use crate::journal::record::Record;
use crate::journal::window::Bytes;
use crate::sys::Errno;
use crate::sys::time::Deadline;
use crate::text::Text;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cmp::Ordering;

/// Maximum number of files that cannot be parsed but can be sent unchanged.
const OTHERS_MAX: usize = 16;

/// The journal at the moment of opening: what is appended later is not read.
pub struct Source {
    files: Vec<Stream>,
    /// Files that need an unknown feature: their bytes and paths.
    others: Vec<(Bytes, Box<[u8]>)>,
    /// The kernel's log, if there are no files.
    kmsg: Option<Kmsg>,
    data: Data,
    /// The last entry returned, by which its duplicates in other files are recognised.
    last: Option<Entry>,
    /// The current entry, if it is in no file.
    record: Record,
    problems: Problems,
    skipped: Skipped,
    /// Whether a private key goes on at the beginning.
    key_lines: u8,
}

/// The [`Entry::file`] of an entry that is in no file.
pub(super) const RECORD: u16 = u16::MAX;

/// What was found so far: problems, number of secrets, and whether a private key goes on.
#[derive(Clone, Copy)]
pub(crate) struct Found(Problems, u64, u8);

/// What could not be read so far.
#[derive(Clone, Copy, Default)]
struct Problems {
    /// Number of entries that could not be read.
    entries: u64,
    /// Whether there are further unreadable entries, in unknown number.
    is_more: bool,
    /// Number of fields that could not be read. Their entries were returned without them.
    fields: u64,
    /// Number of fields whose compression is not built in.
    compressed: u64,
    /// Place of the first unreadable entry or field: file and offset.
    first: Option<(u16, u64)>,
}

struct Stream {
    file: JournalFile,
    head: Option<Entry>,
}

impl Source {
    /// Parses what was opened: the files, or the kernel's log if no file can be read. Secrets are
    /// masked if `redact`. Nothing is read after `until`.
    ///
    /// The source must be rewound before it is read. Only for processes that have given up their
    /// rights.
    pub fn new(journal: Journal, redact: bool, until: Deadline) -> Result<Self, JournalError> {
        let Journal { files, log, skipped, errno, .. } = journal;
        let mut source = Self {
            files: Vec::new(),
            others: Vec::new(),
            kmsg: None,
            data: Data::new(),
            last: None,
            record: Record::new(),
            problems: Problems::default(),
            skipped,
            key_lines: 0,
        };
        source.data.windows.set_deadline(until);
        source.data.restart(redact);
        files.into_iter().for_each(|opened| source.add(opened));
        if source.files.is_empty() {
            match log {
                Some(log) => source.kmsg = Kmsg::read(log, until),
                // Some files can be sent unchanged.
                None if !source.others.is_empty() => {}
                None => return Err(errno.or(source.skipped.errno).map_or(JournalError::None, JournalError::Open)),
            }
        }
        Ok(source)
    }

    /// Sets the deadline for further reading.
    pub(super) fn set_deadline(&mut self, until: Deadline) {
        self.data.windows.set_deadline(until);
    }

    /// Whether the deadline came before the end.
    pub fn is_late(&self) -> bool {
        self.data.windows.is_late() || self.kmsg.as_ref().is_some_and(Kmsg::is_late)
    }

    /// Starts again from the beginning. The output is the same, byte for byte.
    pub fn rewind(&mut self) {
        self.restart(self.data.redacts());
    }

    /// Number of secrets masked in what was read since the beginning.
    pub fn masked(&self) -> u64 {
        self.data.masked()
    }

    /// Starts again from the beginning, with secrets masked or not. The output is the same each
    /// time, byte for byte.
    pub fn restart(&mut self, redact: bool) {
        self.data.restart(redact);
        self.data.set_key_lines(self.key_lines);
        self.last = None;
        self.problems = Problems::default();
        if let Some(kmsg) = &mut self.kmsg {
            kmsg.rewind();
        }
        for stream in &mut self.files {
            stream.file.rewind(&mut self.data.windows);
            stream.advance(&mut self.data, &mut self.problems);
        }
    }

    /// Makes the source begin at `positions`, without the entries before them, and records its end
    /// in `positions`. [`Source::restart`] goes to this beginning. Returns the number of new
    /// entries.
    #[cfg(feature = "follow")]
    pub fn begin_at(&mut self, positions: &mut Positions) -> u64 {
        positions.forget_ends();
        self.key_lines = positions.key_lines;
        let mut new = 0u64;
        if let Some(kmsg) = &mut self.kmsg {
            let from = positions.move_end(&kmsg.seqnum_id(), kmsg.behind());
            new = kmsg.behind().saturating_sub(from);
            kmsg.set_first(from);
        }
        for stream in &mut self.files {
            let entries = stream.file.header.entries;
            let from = positions.move_end(&stream.file.header.file_id, entries);
            new = new.saturating_add(entries.saturating_sub(from));
            stream.file.set_range(from);
        }
        new
    }

    /// Whether the source is the kernel's log, because there are no files.
    #[cfg(feature = "follow")]
    pub fn is_log(&self) -> bool {
        self.kmsg.is_some()
    }

    /// Drops the complaints about files that are not read: they were reported before.
    #[cfg(feature = "follow")]
    pub fn forget_skipped(&mut self) {
        self.skipped = Skipped::default();
    }

    /// Returns what was found so far.
    pub(crate) fn found(&self) -> Found {
        Found(self.problems, self.data.masked(), self.data.key_lines())
    }

    /// Resets what was found to an earlier state.
    pub(crate) fn set_found(&mut self, Found(problems, masked, key_lines): Found) {
        self.problems = problems;
        self.data.set_masked(masked);
        self.data.set_key_lines(key_lines);
    }

    /// Returns the state of private keys, for an entry that is to be read again, out of order: see
    /// [`Data::key_lines`].
    pub(crate) fn key_lines(&self) -> u8 {
        self.data.key_lines()
    }

    /// Sets the state of private keys: see [`Data::set_key_lines`].
    pub(super) fn set_key_lines(&mut self, key_lines: u8) {
        self.data.set_key_lines(key_lines);
    }

    /// Number of entries according to the files' headers.
    pub fn entries(&self) -> u64 {
        self.files.iter().fold(0, |sum, stream| sum.saturating_add(stream.file.header.entries))
    }

    /// Returns the next entry.
    pub fn next_entry(&mut self) -> Option<Entry> {
        if self.is_late() {
            return None;
        }
        if let Some(kmsg) = &mut self.kmsg {
            let next = kmsg.next(&mut self.record);
            self.last = next.or(self.last);
            return next;
        }
        if let Some(last) = self.last {
            for (index, stream) in self.files.iter_mut().enumerate() {
                let is_from = usize::from(last.file) == index;
                // Skips duplicates, and moves past the entry that was returned.
                while stream
                    .head
                    .is_some_and(|head| is_from && head.at == last.at || !is_from && is_double(&head, &last))
                {
                    stream.advance(&mut self.data, &mut self.problems);
                }
            }
        }
        let mut first: Option<Entry> = None;
        for head in self.files.iter().filter_map(|stream| stream.head) {
            if first.is_none_or(|first| self.compare(&head, &first) == Ordering::Less) {
                first = Some(head);
            }
        }
        self.last = first;
        first
    }

    /// Returns the name and the line of field `index` of `entry`, if the field is kept: see
    /// [`Data::kept_line`].
    pub(crate) fn kept_line(&mut self, entry: &Entry, index: u32) -> Option<(Name, &[u8])> {
        self.data.kept_line(&self.files.get(usize::from(entry.file))?.file, entry, index)
    }

    /// Returns field `index` of `entry`. A field that cannot be returned is counted among the
    /// problems.
    pub fn field(&mut self, entry: &Entry, index: u32) -> Option<Field> {
        let field = match self.files.get(usize::from(entry.file)) {
            Some(stream) => self.data.field(&stream.file, entry, index),
            None => self.record.field(index).map(|field| self.data.in_memory(field, &self.record)),
        };
        let count = match field {
            Ok(field) => return Some(field),
            // The deadline cut the reading short; the field is not broken.
            Err(_) if self.is_late() => return None,
            Err(Unread::Broken) => &mut self.problems.fields,
            Err(Unread::Codec) => &mut self.problems.compressed,
        };
        *count = count.saturating_add(1);
        self.problems.first.get_or_insert((entry.file, entry.at));
        None
    }

    /// Returns the name of field `index` of `entry`, and reads no more than that takes. Broken
    /// fields are counted among the problems.
    pub(crate) fn name(&mut self, entry: &Entry, index: u32) -> Option<Name> {
        let name = match self.files.get(usize::from(entry.file)) {
            Some(stream) => self.data.name(&stream.file, entry, index),
            None => self.record.field(index).map(|field| field.name()),
        };
        match name {
            Ok(name) => Some(name),
            // Reading the field finds the reason, and counts it.
            Err(_) => self.field(entry, index).map(|field| field.name()),
        }
    }

    /// Limits the bytes that are read of a field from now on; longer fields are cut.
    pub(crate) fn set_limit(&mut self, limit: u64) {
        self.data.set_limit(limit);
    }

    /// Passes the payload of `field`, a field of `entry`, to `output`: see [`Data::read`].
    pub fn read(&mut self, entry: &Entry, field: &Field, output: &mut Output) -> Result<(), Error> {
        match self.files.get(usize::from(entry.file)) {
            Some(stream) => self.data.read(&stream.file, field, output),
            None => self.data.read_memory(field, self.record.bytes(field), output),
        }
    }

    /// Returns the source of the sequence number of `entry`.
    pub fn seqnum_id(&self, entry: &Entry) -> Id {
        if let Some(kmsg) = &self.kmsg {
            return kmsg.seqnum_id();
        }
        self.files.get(usize::from(entry.file)).map_or([0; 16], |stream| stream.file.header.seqnum_id)
    }

    /// Returns an entry of rdreport's own with this message, at the time of the last entry
    /// returned. The entry has no sequence number.
    pub fn remark(&mut self, message: &str) -> Entry {
        self.record.clear();
        self.record.push("PRIORITY", b"4");
        self.record.push("SYSLOG_IDENTIFIER", b"rdreport");
        self.record.push("MESSAGE", message.as_bytes());
        let newest = self.files.iter().map(|stream| &stream.file.header).max_by_key(|header| header.tail_realtime);
        let (realtime, monotonic, boot_id) = match (self.last, newest) {
            (Some(last), _) => (last.realtime, last.monotonic, last.boot_id),
            (None, Some(header)) => (header.tail_realtime, 0, header.tail_boot_id),
            (None, None) => (0, 0, [0; 16]),
        };
        Entry { file: RECORD, at: 0, seqnum: 0, realtime, monotonic, boot_id, xor_hash: 0, items: self.record.len() }
    }

    /// Writes complaint `index`, from 0 on, about what could not be read since the beginning.
    /// Returns whether there is such a complaint.
    pub fn complaint(&self, index: u32, text: &mut Text) -> bool {
        let Problems { entries, is_more, fields, compressed, first } = self.problems;
        let Skipped { older, is_more: is_name_missed, unreadable, incompatible, flags, .. } = self.skipped;
        let mut is_first = true;
        let mut add = |count: Option<u64>, what: &str| {
            if count == Some(0) {
                return;
            }
            text.str(if core::mem::take(&mut is_first) { "journal: " } else { ", " });
            match count {
                Some(count) => text.dec(count),
                None => text.str("an unknown number of"),
            };
            text.str(what);
        };
        match index {
            0 => {
                add(Some(entries).filter(|_| !is_more), " entries unreadable");
                add(Some(fields), " fields unreadable");
            }
            1 => add(Some(compressed), " fields left out, whose compression is not built in"),
            2 => add(Some(older.into()), " files with older entries left out"),
            3 => add(Some(unreadable.into()), " files unreadable"),
            4 => add(Some(incompatible.into()), " files need what is not known here"),
            5 if self.is_late() => drop(text.str("journal: the time was over before all of it was read")),
            6 if is_name_missed => drop(text.str("journal: its folders hold more names than are looked at")),
            5 | 6 => {}
            _ => return false,
        }
        match first.filter(|_| index == 0 && !is_first) {
            Some((file, at)) => {
                let name = core::str::from_utf8(self.file_name(file)).unwrap_or("?");
                text.str(", the first in ").str(name).str(" at offset ").dec(at);
            }
            None if index == 4 && incompatible > 0 => {
                let name = core::str::from_utf8(self.raw_file(self.first_unknown()).map_or(b"", |(_, name, _)| name));
                text.str(" (incompatible flags ").dec(flags.into()).str("), the first ").str(name.unwrap_or("?"));
                text.str(match self.data.redacts() {
                    true => "; rd.report.journal.redact=off sends them as they are",
                    false => "; they go as they are, in a tar of their own or by ?format=raw",
                });
            }
            None => {}
        }
        true
    }

    /// Whether there are files that need an unknown feature and so can only be sent unchanged.
    pub fn has_unknown(&self) -> bool {
        !self.others.is_empty()
    }

    /// Returns the index of the first of these files, as [`Source::raw_file`] counts.
    pub(crate) fn first_unknown(&self) -> usize {
        self.files.len()
    }

    /// Returns the folder, name and size of file `index`. All files are counted, including those
    /// that cannot be read.
    pub(crate) fn raw_file(&self, index: usize) -> Option<(&[u8], &[u8], u64)> {
        let (bytes, path) = self.raw(index)?;
        let slash = path.iter().rposition(|b| *b == b'/')?;
        Some((path.get(..slash)?, path.get(slash.saturating_add(1)..)?, bytes.end()))
    }

    /// Passes the bytes of file `index` to `output`, as many as [`Source::raw_file`] said, with
    /// zeros in place of what is no longer there.
    pub(crate) fn read_raw(&mut self, index: usize, output: &mut Output) -> Result<(), Error> {
        let bytes = match index.checked_sub(self.files.len()) {
            None => self.files.get(index).map(|stream| &stream.file.bytes),
            Some(index) => self.others.get(index).map(|(bytes, _)| bytes),
        };
        let Some(bytes) = bytes else { return Ok(()) };
        let mut at = 0u64;
        while at < bytes.end() {
            let piece = self.data.windows.at(bytes, at);
            let zeros = [0; 64];
            let left = usize::try_from(bytes.end().saturating_sub(at)).unwrap_or(usize::MAX);
            let piece = if piece.is_empty() { zeros.get(..left).unwrap_or(&zeros) } else { piece };
            output(piece)?;
            at = at.saturating_add(piece.len() as u64);
        }
        Ok(())
    }

    fn raw(&self, index: usize) -> Option<(&Bytes, &[u8])> {
        match index.checked_sub(self.files.len()) {
            None => self.files.get(index).map(|stream| (&stream.file.bytes, &*stream.file.path)),
            Some(index) => self.others.get(index).map(|(bytes, path)| (bytes, &**path)),
        }
    }

    /// Returns the name of a file, without folders.
    fn file_name(&self, number: u16) -> &[u8] {
        self.raw_file(number.into()).map_or(b"", |(_, name, _)| name)
    }

    /// Reads the header of a file, and adds the file.
    fn add(&mut self, opened: Opened) {
        let Opened { file, path, size, .. } = opened;
        let number = self.files.len() as u16;
        match Header::read(&file) {
            Ok(header) => {
                // The size is read again after the header. Everything that the header refers to
                // then lies within it, even if the file grows meanwhile.
                let size = file.size().unwrap_or(size);
                let file = JournalFile::new(Bytes::new(file, number, size), path, header);
                self.files.push(Stream { file, head: None });
            }
            Err(BadHeader::NoJournal) => self.skipped.add_unreadable(Errno::BADMSG),
            Err(BadHeader::Incompatible(flags)) => {
                self.skipped.incompatible = self.skipped.incompatible.saturating_add(1);
                self.skipped.flags |= flags;
                if self.others.len() < OTHERS_MAX {
                    let number = u16::MAX.saturating_sub(1).saturating_sub(self.others.len() as u16);
                    self.others.push((Bytes::new(file, number, size), path));
                }
            }
        }
    }

    fn compare(&self, a: &Entry, b: &Entry) -> Ordering {
        if a.file == b.file {
            return a.at.cmp(&b.at);
        }
        let mut order = Ordering::Equal;
        if self.seqnum_id(a) == self.seqnum_id(b) {
            order = a.seqnum.cmp(&b.seqnum);
        }
        order
            .then_with(|| match a.boot_id == b.boot_id {
                true => a.monotonic.cmp(&b.monotonic),
                false => self.compare_boots(&a.boot_id, &b.boot_id),
            })
            .then(a.realtime.cmp(&b.realtime))
            .then(a.xor_hash.cmp(&b.xor_hash))
    }

    /// Compares boots by the newest entry of each, as far as a file ends with one, and only if one
    /// machine wrote both.
    fn compare_boots(&self, a: &Id, b: &Id) -> Ordering {
        let newest = |boot: &Id| {
            let of_boot =
                self.files.iter().map(|stream| &stream.file.header).filter(|header| header.tail_boot_id == *boot);
            of_boot.max_by_key(|header| header.tail_realtime)
        };
        match (newest(a), newest(b)) {
            (Some(a), Some(b)) if a.machine_id == b.machine_id => a.tail_realtime.cmp(&b.tail_realtime),
            _ => Ordering::Equal,
        }
    }
}

impl Stream {
    /// Moves to the next readable entry.
    fn advance(&mut self, data: &mut Data, problems: &mut Problems) {
        self.head = loop {
            let (at, count) = match self.file.step(&mut data.windows) {
                // What the deadline cut off is not broken.
                _ if data.windows.is_late() => break None,
                Step::Entry(entry) => break Some(entry),
                Step::End => break None,
                Step::Bad(at) => (at, Some(1)),
                Step::Lost(at, count) => (at, count),
            };
            problems.entries = problems.entries.saturating_add(count.unwrap_or(0));
            problems.is_more |= count.is_none();
            problems.first.get_or_insert((self.file.bytes.number(), at));
        };
    }
}

/// Whether two entries of different files are the same one.
fn is_double(a: &Entry, b: &Entry) -> bool {
    a.boot_id == b.boot_id && a.monotonic == b.monotonic && a.realtime == b.realtime && a.xor_hash == b.xor_hash
}
