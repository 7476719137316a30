//! Lines for people, as `journalctl -o short-monotonic` prints them when its output is not a
//! terminal.
//!
//! A line has the seconds since boot, the host, the program with its process number, and the
//! message. A binary message is replaced by its size. Further lines of a message are indented, and
//! a TAB becomes eight blanks. Colours and links are removed from a message (`plain`), and no other
//! control character is printed.

use crate::encode::Buffer;
use crate::encode::export::decimal;
use crate::encode::plain::{Plain, TAB};
use crate::error::Error;
use crate::journal::file::Entry;
use crate::journal::payload::{Field, IDENTIFIER, MESSAGE, Name, name};
use crate::journal::printable::Text;
use crate::journal::source::Source;
use crate::sink::Sink;

const HOSTNAME: Name = name(b"_HOSTNAME");
const COMM: Name = name(b"_COMM");
const PID: Name = name(b"_PID");
const SYSLOG_PID: Name = name(b"SYSLOG_PID");
const SOURCE_TIME: Name = name(b"_SOURCE_MONOTONIC_TIMESTAMP");
/// Maximum number of bytes of a name, a process number or a time; longer ones are not shown
/// (journalctl: 300).
const WORD_MAX: u64 = 300;

/// Writes one entry.
pub(super) fn entry(source: &mut Source, entry: &Entry, out: &mut Buffer) -> Result<(), Error> {
    let wanted = [HOSTNAME, IDENTIFIER, COMM, PID, SYSLOG_PID, MESSAGE, SOURCE_TIME];
    let mut found = [None; 7];
    for index in 0..entry.items {
        let Some(field) = source.field(entry, index) else { continue };
        if let Some((_, slot)) = wanted.iter().zip(&mut found).find(|(name, _)| field.is_named(**name)) {
            *slot = Some(field);
        }
    }
    let [hostname, identifier, comm, pid, syslog_pid, message, source_time] = found;
    let Some(message) = message else { return Ok(()) };
    let short = |field: Option<Field>| field.filter(|field| field.text == Text::Line && field.value_len() < WORD_MAX);

    let mut width = time(source, entry, short(source_time), out)?;
    if let Some(hostname) = short(hostname) {
        out.put(b" ")?;
        width = width.saturating_add(1).saturating_add(word(source, entry, &hostname, out)?);
    }
    out.put(b" ")?;
    width = width.saturating_add(match short(identifier).or(short(comm)) {
        Some(field) => word(source, entry, &field, out)?.saturating_add(1),
        // journalctl does not count this width either.
        None => {
            out.put(b"unknown")?;
            0
        }
    });
    if let Some(pid) = short(pid).or(short(syslog_pid)) {
        out.put(b"[")?;
        width = width.saturating_add(2).saturating_add(word(source, entry, &pid, out)?);
        out.put(b"]")?;
    }
    out.put(b": ")?;
    let is_text = message.text != Text::Binary;
    if !is_text && let (Text::Binary, len) = measure(source, entry, &message)? {
        out.put(b"[")?;
        size(len, out)?;
        return out.put(b" blob data]\n");
    }
    text(source, entry, &message, is_text, width.saturating_add(2), out)
}

/// Returns what a message consists of without its sequences, and its length.
fn measure(source: &mut Source, entry: &Entry, field: &Field) -> Result<(Text, u64), Error> {
    let mut skip = usize::from(field.name_len).saturating_add(1);
    let mut plain = Plain::new();
    // The secrets in the message are counted when it is written.
    let found = source.found();
    source.read(entry, field, &mut |piece| {
        let rest = piece.get(skip..).unwrap_or_default();
        skip = skip.saturating_sub(piece.len());
        plain.push(rest, &mut |_| Ok(()))
    })?;
    source.set_found(found);
    Ok(plain.end())
}

/// Writes a message and the end of its line, with further lines indented. Sequences are removed
/// unless the message is text already (`is_text`).
fn text(
    source: &mut Source,
    entry: &Entry,
    field: &Field,
    is_text: bool,
    indent: u64,
    out: &mut Buffer,
) -> Result<(), Error> {
    let mut skip = usize::from(field.name_len).saturating_add(1);
    // A line feed is written only once something follows it.
    let mut is_pending = false;
    let mut lines = |piece: &[u8]| {
        for line in piece.split_inclusive(|b| *b == b'\n') {
            if is_pending {
                out.put(b"\n")?;
                for _ in 0..indent {
                    out.put(b" ")?;
                }
            }
            is_pending = line.ends_with(b"\n");
            for (number, part) in line.strip_suffix(b"\n").unwrap_or(line).split(|b| *b == b'\t').enumerate() {
                out.put(if number == 0 { b"" } else { TAB })?;
                out.put(part)?;
            }
        }
        Ok(())
    };
    let mut plain = Plain::new();
    source.read(entry, field, &mut |piece| {
        let rest = piece.get(skip..).unwrap_or_default();
        skip = skip.saturating_sub(piece.len());
        match is_text {
            true => lines(rest),
            false => plain.push(rest, &mut lines),
        }
    })?;
    out.put(b"\n")
}

/// Writes the time of an entry: the time given by its source, or else the time of its receipt.
/// Returns the width.
fn time(source: &mut Source, entry: &Entry, field: Option<Field>, out: &mut Buffer) -> Result<u64, Error> {
    let mut value = None;
    if let Some(field) = field {
        let mut skip = usize::from(field.name_len).saturating_add(1);
        let mut number = Some(0u64);
        source.read(entry, &field, &mut |piece| {
            for byte in piece.get(skip..).unwrap_or_default() {
                let digit = byte.wrapping_sub(b'0');
                number = number.filter(|_| digit < 10).and_then(|n| n.checked_mul(10)?.checked_add(digit.into()));
            }
            skip = skip.saturating_sub(piece.len());
            Ok(())
        })?;
        value = number.filter(|_| field.value_len() > 0);
    }
    let value = value.unwrap_or(entry.monotonic);
    let seconds = value / 1_000_000;
    let digits = u64::from(seconds.checked_ilog10().unwrap_or(0)).saturating_add(1);
    out.put(b"[")?;
    out.put(b"    ".get(..4usize.saturating_sub(digits.saturating_sub(1) as usize)).unwrap_or_default())?;
    decimal(seconds, out)?;
    out.put(b".")?;
    let mut unit = 100_000;
    while unit > 0 {
        decimal(value / unit % 10, out)?;
        unit /= 10;
    }
    out.put(b"]")?;
    Ok(digits.max(5).saturating_add(9))
}

/// Writes a value. Returns its width in bytes, as journalctl counts.
fn word(source: &mut Source, entry: &Entry, field: &Field, out: &mut Buffer) -> Result<u64, Error> {
    let mut skip = usize::from(field.name_len).saturating_add(1);
    source.read(entry, field, &mut |piece| {
        out.put(piece.get(skip..).unwrap_or_default())?;
        skip = skip.saturating_sub(piece.len());
        Ok(())
    })?;
    Ok(field.value_len())
}

/// Writes a size as systemd's `FORMAT_BYTES` does: with one decimal place, except for bytes.
fn size(bytes: u64, out: &mut Buffer) -> Result<(), Error> {
    let (shift, unit) = match bytes {
        0x4000_0000.. => (30, b"G"),
        0x10_0000.. => (20, b"M"),
        0x400.. => (10, b"K"),
        _ => (0, b"B"),
    };
    decimal(bytes >> shift, out)?;
    if shift > 0 {
        out.put(b".")?;
        decimal((bytes >> (shift - 10)).saturating_mul(10) / 1024 % 10, out)?;
    }
    out.put(unit)
}
