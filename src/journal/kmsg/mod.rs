//! The kernel's log in place of a missing journal, as entries like those that journald makes of it.
//!
//! Specification: the kernel's `Documentation/ABI/testing/dev-kmsg`:
//! `priority,sequence,microseconds,flags;message`, one record a line, and lines that begin with a
//! blank for the properties of a device. Bytes that are not printable are written as `\xNN`.

use crate::journal::file::Entry;
use crate::journal::format::Id;
use crate::journal::record::Record;
use crate::sys::file::{File, Root};
use crate::sys::time::Deadline;
use crate::sys::{Errno, time};
use crate::text;
use alloc::boxed::Box;
use alloc::vec;

/// Bytes of the longest record (`CONSOLE_EXT_LOG_MAX`). The kernel refuses a smaller buffer for a
/// longer record.
const BUFFER: usize = 8192;
/// Maximum number of records that are read. The kernel's buffer holds a few thousand, or 100,000 in
/// its largest size.
const RECORDS_MAX: u32 = 1 << 18;
/// Number of records between two looks at the clock.
const RECORDS_STEP: u32 = 256;

/// The kernel's log, opened but not parsed.
pub(super) struct Log {
    file: File,
    boot_id: Id,
}

impl Log {
    pub(super) fn open(root: &Root) -> Result<Self, Errno> {
        let file = root.file("dev/kmsg")?;
        let mut buf = [0; 64];
        let boot_id = root.read("proc/sys/kernel/random/boot_id", &mut buf).map_or([0; 16], uuid);
        Ok(Self { file, boot_id })
    }
}

/// The kernel's log, as it was when it was first read.
pub(super) struct Kmsg {
    file: File,
    /// Bytes that were read and not used yet.
    buf: Box<[u8]>,
    start: usize,
    end: usize,
    /// Number of records left to read, as far as it is known.
    left: u32,
    /// The deadline for reading, and whether it has passed.
    until: Deadline,
    is_late: bool,
    /// The sequence number of the first record that is returned, and the one after that of the
    /// last.
    first: u64,
    behind: u64,
    boot_id: Id,
    /// Time of the boot, µs since 1970, by the current clock.
    booted: u64,
}

impl Kmsg {
    /// Reads the log once, to its current end.
    pub(super) fn read(Log { file, boot_id }: Log, until: Deadline) -> Option<Self> {
        let uptime = time::monotonic_ms().saturating_mul(1000);
        let booted = time::realtime_s().saturating_mul(1_000_000).saturating_sub(uptime);
        let buf = vec![0; BUFFER].into_boxed_slice();
        let mut kmsg = Self {
            file,
            buf,
            start: 0,
            end: 0,
            left: 0,
            until,
            is_late: false,
            first: 0,
            behind: u64::MAX,
            boot_id,
            booted,
        };
        // Records that are logged from now on are not read.
        kmsg.rewind();
        let mut record = Record::new();
        let mut behind = 0;
        while let Some(entry) = kmsg.next(&mut record) {
            behind = entry.seqnum;
        }
        kmsg.behind = behind;
        Some(kmsg)
    }

    /// Returns only records from this sequence number on, from now on.
    #[cfg(feature = "follow")]
    pub(super) fn set_first(&mut self, first: u64) {
        self.first = first;
    }

    /// Goes back to the oldest record that the kernel still has.
    pub(super) fn rewind(&mut self) {
        (self.start, self.end, self.left) = (0, 0, RECORDS_MAX);
        if self.file.rewind().is_err() {
            self.left = 0;
        }
    }

    /// Returns the next record, with its fields in `record`. Whatever is not a record is skipped.
    pub(super) fn next(&mut self, record: &mut Record) -> Option<Entry> {
        loop {
            self.left = self.left.checked_sub(1)?;
            if self.left.is_multiple_of(RECORDS_STEP) {
                self.is_late |= self.until.passed();
            }
            let len = self.fill().filter(|_| !self.is_late)?;
            let text = self.buf.get(self.start..self.start.saturating_add(len)).unwrap_or_default();
            let entry = parse(text, record);
            self.start = self.start.saturating_add(len);
            if let Some(mut entry) = entry {
                if entry.at >= self.behind {
                    return None;
                }
                if entry.at < self.first {
                    continue;
                }
                entry.realtime = self.booted.saturating_add(entry.monotonic);
                entry.boot_id = self.boot_id;
                return Some(entry);
            }
        }
    }

    /// Whether the deadline had passed at the last look at the clock.
    pub(super) fn is_late(&self) -> bool {
        self.is_late
    }

    /// Returns the sequence number after that of the last record.
    #[cfg(feature = "follow")]
    pub(super) fn behind(&self) -> u64 {
        self.behind
    }

    /// Returns the source of the sequence numbers, which begin anew with each boot.
    pub(super) fn seqnum_id(&self) -> Id {
        self.boot_id
    }

    /// Makes the bytes at `start` a whole record, and returns its length. The device returns one
    /// record a read; a file returns as much as fits.
    fn fill(&mut self) -> Option<usize> {
        loop {
            let text = self.buf.get(self.start..self.end).unwrap_or_default();
            let ends = |at: &usize| {
                text.get(*at) == Some(&b'\n') && text.get(at.saturating_add(1)).is_some_and(|next| *next != b' ')
            };
            if let Some(at) = (0..text.len()).find(ends) {
                return Some(at.saturating_add(1));
            }
            let len = text.len();
            self.buf.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, len);
            match self.file.read(self.buf.get_mut(len..).unwrap_or_default()) {
                // The record is longer than any can be, or this is the end: the bytes so far are
                // the record.
                Ok(0) | Err(Errno::AGAIN | Errno::INVAL) if len > 0 => return Some(len),
                Ok(n) if n > 0 => self.end = len.saturating_add(n),
                // Records were overwritten before they were read; the next ones are available.
                Err(Errno::PIPE) => self.left = self.left.checked_sub(1)?,
                _ => return None,
            }
        }
    }
}

/// Parses a record.
fn parse(text: &[u8], record: &mut Record) -> Option<Entry> {
    let (head, rest) = split(text, b';')?;
    let (line, properties) = split(rest, b'\n').unwrap_or((rest, b""));
    let mut numbers = head.split(|b| *b == b',');
    let mut number = || text::number(numbers.next()?);
    let (priority, sequence, monotonic) = (number()?, number()?, number()?);

    record.clear();
    record.push_number("_SOURCE_MONOTONIC_TIMESTAMP", monotonic);
    record.push("_TRANSPORT", b"kernel");
    record.push_number("PRIORITY", priority & 7);
    record.push_number("SYSLOG_FACILITY", priority >> 3);
    let mut message = line;
    if priority >> 3 == 0 {
        record.push("SYSLOG_IDENTIFIER", b"kernel");
    } else if let Some((name, rest)) = tag(line) {
        // Programs write `name[pid]: message` or `name: message`.
        let pid = name.strip_suffix(b"]").and_then(|name| split(name, b'['));
        record.push("SYSLOG_IDENTIFIER", pid.map_or(name, |(name, _)| name));
        if let Some((_, pid)) = pid {
            record.push("SYSLOG_PID", pid);
        }
        message = rest;
    }
    for property in properties.split(|b| *b == b'\n') {
        for (name, field) in [(&b" SUBSYSTEM="[..], "_KERNEL_SUBSYSTEM"), (b" DEVICE=", "_KERNEL_DEVICE")] {
            if let Some(value) = property.strip_prefix(name) {
                record.begin(field);
                unescape(value, record);
            }
        }
    }
    record.begin("MESSAGE");
    unescape(message, record);
    let seqnum = sequence.saturating_add(1);
    Some(Entry {
        at: sequence,
        seqnum,
        monotonic,
        items: record.len(),
        file: crate::journal::source::RECORD,
        ..Entry::default()
    })
}

/// Splits a line at its first blank, if the part before it ends with a colon.
fn tag(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let (tag, message) = split(line, b' ')?;
    Some((tag.strip_suffix(b":").filter(|tag| !tag.is_empty())?, message))
}

/// Adds text to a field, with `\xNN` replaced by the byte that it stands for.
fn unescape(mut text: &[u8], record: &mut Record) {
    while let Some((plain, rest)) = split(text, b'\\') {
        record.more(plain);
        let byte = rest.strip_prefix(b"x").and_then(|hex| crate::text::digits(hex.get(..2)?, 16));
        match byte {
            Some(byte) => {
                record.more(&[byte as u8]);
                text = rest.get(3..).unwrap_or_default();
            }
            None => {
                record.more(b"\\");
                text = rest;
            }
        }
    }
    record.more(text);
}

fn split(text: &[u8], at: u8) -> Option<(&[u8], &[u8])> {
    let index = text.iter().position(|b| *b == at)?;
    Some((text.get(..index)?, text.get(index.saturating_add(1)..)?))
}

/// Parses an id in hexadecimal, ignoring hyphens.
fn uuid(text: &[u8]) -> Id {
    let mut id = [0; 16];
    let mut digits = text.iter().filter_map(|b| char::from(*b).to_digit(16));
    for byte in &mut id {
        *byte = (digits.next().unwrap_or(0) << 4 | digits.next().unwrap_or(0)) as u8;
    }
    id
}

#[cfg(test)]
mod tests {
    use crate::encode::Format;
    use crate::journal::tests::{Folder, written};

    #[test]
    fn records_become_entries() {
        let folder = Folder::new();
        let long = "x".repeat(3000);
        let log = format!(
            "6,0,0,-;Linux version 6.1\n\
             4,1,1500000,-;usb 1-1: caf\\xc3\\xa9 \\x1b[0m \\ok\n SUBSYSTEM=usb\n DEVICE=+usb:1-1\n\
             30,2,2500000,-;systemd[1]: Started $6$salt$hash here\n\
             12,3,2500001,-;dracut: no pid\n\
             garbage\n\
             5,4,2500002,c;{long}\n\
             6,5,2500003,-,caller=T1;last"
        );
        folder.write("dev/kmsg", log.as_bytes());
        folder.write("proc/sys/kernel/random/boot_id", b"cc2a2fae-5527-45a6-8ac6-1cc401f811a8\n");
        let mut source = folder.source();
        source.restart(true);
        let (found, stats) = written(&mut source, Format::Json);
        let text = String::from_utf8(found.clone()).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!((stats.entries, stats.masked, lines.len()), (6, 1, 6), "{text}");
        assert!(
            lines[0].contains(r#""_BOOT_ID":"cc2a2fae552745a68ac61cc401f811a8""#)
                && lines[0].contains(r#""__SEQNUM":"1""#),
            "{text}"
        );
        for (line, expected) in [
            (0, r#""PRIORITY":"6","SYSLOG_FACILITY":"0","SYSLOG_IDENTIFIER":"kernel","MESSAGE":"Linux version 6.1"}"#),
            (
                1,
                r#""_KERNEL_SUBSYSTEM":"usb","_KERNEL_DEVICE":"+usb:1-1","MESSAGE":[117,115,98,32,49,45,49,58,32,99,97,102,195,169,32,27,"#,
            ),
            (
                2,
                r#""SYSLOG_FACILITY":"3","SYSLOG_IDENTIFIER":"systemd","SYSLOG_PID":"1","MESSAGE":"Started $6$*** here"}"#,
            ),
            (3, r#""SYSLOG_IDENTIFIER":"dracut","MESSAGE":"no pid"}"#),
            (4, long.as_str()),
            (5, r#""_SOURCE_MONOTONIC_TIMESTAMP":"2500003","_TRANSPORT":"kernel","#),
        ] {
            assert!(lines[line].contains(expected), "{}", lines[line]);
        }
        assert!(written(&mut source, Format::Json).0 == found);
        // Later records are not read.
        folder.write("dev/kmsg", [log.as_bytes(), b"\n6,6,2600000,-;later\n"].concat().as_slice());
        let (short, _) = written(&mut source, Format::Short);
        assert!(String::from_utf8(short).unwrap().ends_with("\n[    2.500003] kernel: last\n"));
    }
}
