//! The kernel's log in place of a journal that is not there, as entries like those that journald makes of it.
//!
//! Specification: the kernel's `Documentation/ABI/testing/dev-kmsg`: `priority,sequence,microseconds,flags;message`, a line a record, and
//! lines that begin with a blank for the properties of a device. What is not printable is written `\xNN`.

use crate::journal::file::Entry;
use crate::journal::format::Id;
use crate::journal::record::Record;
use crate::sys::file::{File, Root};
use crate::sys::time::Deadline;
use crate::sys::{Errno, time};
use crate::text;
use alloc::boxed::Box;
use alloc::vec;

/// Bytes of the longest record (`CONSOLE_EXT_LOG_MAX`); a smaller buffer is refused for a longer record.
const BUFFER: usize = 8192;
/// Records that are read at most: the kernel's buffer holds a few thousand, 100,000 in the largest.
const RECORDS_MAX: u32 = 1 << 18;
/// Records between two looks at the clock.
const RECORDS_STEP: u32 = 256;

/// The kernel's log, opened and not looked into.
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

/// The kernel's log, as it was when it was looked into.
pub(super) struct Kmsg {
    file: File,
    /// What was read and not used yet.
    buf: Box<[u8]>,
    start: usize,
    end: usize,
    /// Records left to read, as far as that is known.
    left: u32,
    /// When reading ends, and whether it has.
    until: Deadline,
    is_late: bool,
    /// The sequence numbers of the first record that is given, and of the one behind the last.
    first: u64,
    behind: u64,
    boot_id: Id,
    /// When the machine was booted, µs since 1970, by the clock now.
    booted: u64,
}

impl Kmsg {
    /// Reads it once, to its end as it is now.
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
        // What is logged from now on is not read.
        kmsg.rewind();
        let mut record = Record::new();
        let mut behind = 0;
        while let Some(entry) = kmsg.next(&mut record) {
            behind = entry.seqnum;
        }
        kmsg.behind = behind;
        Some(kmsg)
    }

    /// From now on gives records only from this sequence number on.
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

    /// The next record: its fields in `record`. What is no record is passed over.
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

    /// Whether the deadline has passed, as far as was looked.
    pub(super) fn is_late(&self) -> bool {
        self.is_late
    }

    /// The sequence number behind that of the last record.
    #[cfg(feature = "follow")]
    pub(super) fn behind(&self) -> u64 {
        self.behind
    }

    /// The source of sequence numbers: they begin anew with each boot.
    pub(super) fn seqnum_id(&self) -> Id {
        self.boot_id
    }

    /// Makes the bytes at `start` a whole record; gives its length. The device gives a record at a time, a file as much as fits.
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
                // The record is longer than any can be, or this is the end: what there is, is one.
                Ok(0) | Err(Errno::AGAIN | Errno::INVAL) if len > 0 => return Some(len),
                Ok(n) if n > 0 => self.end = len.saturating_add(n),
                // Records were overwritten before they were read: the next ones are there.
                Err(Errno::PIPE) => self.left = self.left.checked_sub(1)?,
                _ => return None,
            }
        }
    }
}

/// Takes a record apart.
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
        // `name[pid]: message` or `name: message` is what programs write.
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

/// What is before the first blank, if it ends with a colon, and what is behind it.
fn tag(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let (tag, message) = split(line, b' ')?;
    Some((tag.strip_suffix(b":").filter(|tag| !tag.is_empty())?, message))
}

/// Adds text to a field, `\xNN` as the byte that it stands for.
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

/// The bytes of an id in hexadecimal, hyphens left out.
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
        // What comes later is not read.
        folder.write("dev/kmsg", [log.as_bytes(), b"\n6,6,2600000,-;later\n"].concat().as_slice());
        let (short, _) = written(&mut source, Format::Short);
        assert!(String::from_utf8(short).unwrap().ends_with("\n[    2.500003] kernel: last\n"));
    }
}
