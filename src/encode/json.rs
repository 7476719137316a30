//! JSON, an object a line, as `journalctl -o json --all` of systemd 254 and later prints it.
//!
//! Specification: systemd's JOURNAL_EXPORT_FORMATS, "Journal JSON Format". A value is a string if it is printable text, else an array of
//! its bytes' numbers; a field that an entry has more than once is an array of values. The order of fields, which journalctl takes from a
//! hash table, is the entry's own.

use super::Buffer;
use super::export::{BOOT_ID, cursor, decimal, id};
use crate::error::Error;
use crate::journal::data::Field;
use crate::journal::file::Entry;
use crate::journal::printable::Text;
use crate::journal::source::Source;
use crate::sink::Sink;
use alloc::vec::Vec;

/// Fields of an entry among which doubles are found (64 KB): journald takes 1024 and adds two dozen.
const FIELDS_MAX: usize = 1200;

/// Bytes of a value that is written where lines must be short. (journalctl has 4096.) Of a kilobyte of bytes as numbers come four.
const SHORT_MAX: u64 = 8192;

/// The fields of an entry, kept for its memory only; and whether long values are left out.
pub(super) struct Json(Vec<Field>, bool);

impl Json {
    pub(super) const fn new(is_short: bool) -> Self {
        Self(Vec::new(), is_short)
    }

    /// Writes one entry.
    pub(super) fn entry(&mut self, source: &mut Source, entry: &Entry, out: &mut Buffer) -> Result<(), Error> {
        let seqnum_id = source.seqnum_id(entry);
        // An entry of our own has no address.
        if entry.seqnum != 0 {
            out.put(b"{\"__CURSOR\":\"")?;
            cursor(entry, &seqnum_id, out)?;
            out.put(b"\",\"__SEQNUM\":\"")?;
            decimal(entry.seqnum, out)?;
            out.put(b"\",\"__SEQNUM_ID\":\"")?;
            id(&seqnum_id, out)?;
            out.put(b"\",")?;
        } else {
            out.put(b"{")?;
        }
        out.put(b"\"__REALTIME_TIMESTAMP\":\"")?;
        decimal(entry.realtime, out)?;
        out.put(b"\",\"__MONOTONIC_TIMESTAMP\":\"")?;
        decimal(entry.monotonic, out)?;
        out.put(b"\",\"_BOOT_ID\":\"")?;
        id(&entry.boot_id, out)?;
        out.put(b"\"")?;
        let max = if self.1 { SHORT_MAX } else { u64::MAX };
        let fields = &mut self.0;
        let mut index = 0;
        while index < entry.items {
            fields.clear();
            while index < entry.items && fields.len() < FIELDS_MAX {
                fields.extend(source.field(entry, index).filter(|field| !field.is_named(BOOT_ID)));
                index = index.saturating_add(1);
            }
            for (at, field) in fields.iter().enumerate() {
                let is_same = |other: &&Field| other.has_name_of(field);
                if fields.get(..at).unwrap_or_default().iter().any(|other| is_same(&other)) {
                    continue;
                }
                let rest = fields.get(at..).unwrap_or_default();
                let is_array = rest.iter().filter(is_same).nth(1).is_some();
                for (number, field) in rest.iter().filter(is_same).enumerate() {
                    value(source, entry, field, (number, is_array, max), out)?;
                }
                if is_array {
                    out.put(b"]")?;
                }
            }
        }
        out.put(b"}\n")
    }
}

/// Writes a value, and its name before the first one of that name.
fn value(
    source: &mut Source,
    entry: &Entry,
    field: &Field,
    (number, is_array, max): (usize, bool, u64),
    out: &mut Buffer,
) -> Result<(), Error> {
    let is_long = field.len() > max;
    let is_text = field.text != Text::Binary;
    out.put(if number == 0 { b",\"" } else { b"," })?;
    let mut name = usize::from(field.name_len);
    let mut is_named = false;
    let mut has_byte = false;
    source.read(entry, field, &mut |mut piece| {
        if !is_named {
            let (of_name, rest) = piece.split_at_checked(name).unwrap_or((piece, b""));
            if number == 0 {
                out.put(of_name)?;
            }
            name = name.saturating_sub(of_name.len());
            let Some((_, rest)) = rest.split_first() else { return Ok(()) };
            is_named = true;
            if number == 0 {
                out.put(if is_array { b"\":[" } else { b"\":" })?;
            }
            out.put(match (is_long, is_text) {
                (true, _) => b"null",
                (false, true) => b"\"",
                (false, false) => b"[",
            })?;
            piece = rest;
        }
        if is_long {
            return Ok(());
        }
        if is_text {
            return string(piece, out);
        }
        for byte in piece {
            if has_byte {
                out.put(b",")?;
            }
            has_byte = true;
            decimal(u64::from(*byte), out)?;
        }
        Ok(())
    })?;
    match is_long {
        true => Ok(()),
        false => out.put(if is_text { b"\"" } else { b"]" }),
    }
}

/// Writes text within a string. Of control characters, text has these two only.
fn string(mut piece: &[u8], out: &mut Buffer) -> Result<(), Error> {
    while let Some(at) = piece.iter().position(|b| matches!(b, b'"' | b'\\' | b'\n' | b'\t')) {
        let (plain, rest) = piece.split_at_checked(at).unwrap_or_default();
        out.put(plain)?;
        let Some((byte, rest)) = rest.split_first() else { break };
        out.put(match byte {
            b'"' => b"\\\"",
            b'\\' => b"\\\\",
            b'\n' => b"\\n",
            _ => b"\\t",
        })?;
        piece = rest;
    }
    out.put(piece)
}
