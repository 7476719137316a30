//! JSON, an object a line, as `journalctl -o json --all` of systemd 254 and later prints it.
//!
//! Specification: systemd's JOURNAL_EXPORT_FORMATS, "Journal JSON Format". A value of printable
//! text is a string; any other value is an array of byte values. A field that an entry has more
//! than once is an array of values. Fields keep the order of the entry; journalctl takes their
//! order from a hash table.

use crate::encode::export::{BOOT_ID, cursor, decimal, id};
use crate::encode::{Buffer, IMPORTANT, LEFT_OUT};
use crate::error::Error;
use crate::journal::file::Entry;
use crate::journal::payload::{Field, MARK_MAX, mark};
use crate::journal::printable::Text;
use crate::journal::source::Source;
use crate::sink::Sink;
use alloc::vec::Vec;

/// Number of fields of an entry among which duplicates are found (64 KB). journald accepts 1024 and
/// adds two dozen.
const FIELDS_MAX: usize = 1200;

/// Bytes of a text value and of a binary value that are written where lines must be short. A binary
/// byte becomes up to four characters. (journalctl writes `null` in place of values of 4096 bytes.)
const SHORT_MAX: u64 = 8192;
const SHORT_BINARY_MAX: u64 = 2048;
/// Bytes of an entry's fields where lines must be short. A reader takes lines of 64,768 bytes, of
/// which the entry's cursor and timestamps need 400.
const ROOM: u64 = 64_000;

/// The fields of an entry, kept only to reuse their memory, and whether lines must be short.
pub(super) struct Json(Vec<Field>, bool);

impl Json {
    pub(super) const fn new(is_short: bool) -> Self {
        Self(Vec::new(), is_short)
    }

    /// Writes one entry.
    pub(super) fn entry(&mut self, source: &mut Source, entry: &Entry, out: &mut Buffer) -> Result<(), Error> {
        let seqnum_id = source.seqnum_id(entry);
        // An entry of rdreport's own has no cursor.
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
        let is_short = self.1;
        let fields = &mut self.0;
        let mut index = 0;
        let (mut room, mut left_out) = (ROOM, 0u64);
        while index < entry.items {
            fields.clear();
            while index < entry.items && fields.len() < FIELDS_MAX {
                fields.extend(source.field(entry, index).filter(|field| !field.is_named(BOOT_ID)));
                index = index.saturating_add(1);
            }
            // Where lines must be short, the important fields go first, so that they always have
            // room.
            let passes = if is_short { 2 } else { 1 };
            for (at, field, pass) in
                (0..passes).flat_map(|pass| fields.iter().enumerate().map(move |(at, field)| (at, field, pass)))
            {
                if is_short && IMPORTANT.contains(&field.name()) != (pass == 0) {
                    continue;
                }
                let is_same = |other: &&Field| other.has_name_of(field);
                if fields.get(..at).unwrap_or_default().iter().any(|other| is_same(&other)) {
                    continue;
                }
                let rest = fields.get(at..).unwrap_or_default();
                if is_short {
                    let most = rest.iter().filter(is_same).fold(0u64, |sum, field| sum.saturating_add(most(field)));
                    let Some(left) = room.checked_sub(most) else {
                        left_out = left_out.saturating_add(1);
                        continue;
                    };
                    room = left;
                }
                let is_array = rest.iter().filter(is_same).nth(1).is_some();
                for (number, field) in rest.iter().filter(is_same).enumerate() {
                    value(source, entry, field, (number, is_array, is_short), out)?;
                }
                if is_array {
                    out.put(b"]")?;
                }
            }
        }
        if left_out > 0 {
            out.put(b",\"")?;
            out.put(LEFT_OUT.as_bytes())?;
            out.put(b"\":\"")?;
            decimal(left_out, out)?;
            out.put(b"\"")?;
        }
        out.put(b"}\n")
    }
}

/// Number of bytes of a value that are written where lines must be short.
fn short(field: &Field) -> u64 {
    let max = if field.text == Text::Binary { SHORT_BINARY_MAX } else { SHORT_MAX };
    field.value_len().min(max)
}

/// Maximum number of bytes that a field adds to a short line, including the rest of a cut character
/// and the mark of a cut value.
fn most(field: &Field) -> u64 {
    let each = if field.text == Text::Binary { 4 } else { 2 };
    // The quotes and the comma, or the mark of a cut value.
    let more = if short(field) < field.value_len() { MARK_MAX } else { 8 };
    short(field).saturating_mul(each).saturating_add(u64::from(field.name_len)).saturating_add(more as u64)
}

/// Writes a value, preceded by the name if it is the first value of that name.
fn value(
    source: &mut Source,
    entry: &Entry,
    field: &Field,
    (number, is_array, is_short): (usize, bool, bool),
    out: &mut Buffer,
) -> Result<(), Error> {
    let mut left = if is_short { short(field) } else { u64::MAX };
    let is_cut = left < field.value_len();
    let mut is_over = false;
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
            out.put(if is_text { b"\"" } else { b"[" })?;
            piece = rest;
        }
        if is_cut {
            let mut len = usize::try_from(left).unwrap_or(usize::MAX).min(piece.len());
            left = left.saturating_sub(len as u64);
            // Completes a cut character, whose last bytes may be in the next piece.
            while is_text && left == 0 && !is_over && piece.get(len).is_some_and(|b| b & 0xc0 == 0x80) {
                len = len.saturating_add(1);
            }
            is_over |= left == 0 && len < piece.len();
            piece = piece.get(..len).unwrap_or(piece);
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
    if is_cut && is_text {
        out.put(mark(short(field), field.value_len(), &mut [0; MARK_MAX]))?;
    }
    out.put(if is_text { b"\"" } else { b"]" })
}

/// Writes text inside a string. Text contains only two control characters: the line feed and TAB.
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
