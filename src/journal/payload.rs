//! Fields: the data objects that an entry refers to, with payloads decompressed and classified.
//!
//! Specification: JOURNAL_FILE_FORMAT, "Data Objects". Small payloads that many entries share (the
//! host's name, a unit's name) are kept. Others are passed on piece by piece, as often as they are
//! needed, and never held as a whole.

use crate::error::Error;
#[cfg(feature = "lz4")]
use crate::journal::codec::lz4::Lz4;
#[cfg(feature = "xz")]
use crate::journal::codec::xz::Xz;
#[cfg(feature = "zstd")]
use crate::journal::codec::zstd::Zstd;
use crate::journal::file::{Entry, JournalFile};
use crate::journal::format::{self, Codec, DATA_LEN};
use crate::journal::printable::{Scan, Text};
use crate::journal::record::Record;
use crate::journal::redact::{Redact, Rest};
use crate::journal::window::{Bytes, Windows};
use crate::sink::copy;
use crate::sys::Errno;
use crate::text;
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

/// Number of kept payloads, and size of the longest one. A few hundred distinct values recur in a
/// boot, nearly all of them short.
const SLOTS: usize = 256;
const SLOT_LEN: usize = 108;
/// Bytes of the last payload that are kept, so that most payloads are read and decompressed once,
/// not twice.
const SCRATCH: usize = 16 * 1024;
/// Maximum number of bytes that are read of one compressed payload. systemd's own limit is 768 MiB,
/// and a few KB can expand to as much.
#[cfg(any(feature = "zstd", feature = "lz4", feature = "xz"))]
const INFLATED_MAX: u64 = 128 << 20;
/// Bytes of decompressed payload that a decoder can refer back to. A payload of up to this length
/// is read whole, or is broken.
const HISTORY: u64 = 128 * 1024;
/// Maximum believable length of a field: journald accepts no field of more than 768 MiB.
const FIELD_MAX: u64 = 4 << 30;
/// Maximum number of bytes of the mark at the end of a cut payload.
pub(crate) const MARK_MAX: usize = 80;
/// Width of the offset in a key: offsets below 256 TiB are distinct. The rest of a key is the file.
const KEY_OFFSET_BITS: u32 = 48;
/// The field with the message.
pub const MESSAGE: Name = name(b"MESSAGE");
/// The field with the program's name.
pub const IDENTIFIER: Name = name(b"SYSLOG_IDENTIFIER");
/// Replacement for a message that is a line of a private key.
const WHOLE: &[u8] = b"MESSAGE=***";
/// Number of messages after the start of a private key that may be its lines: a key of RSA with
/// 8192 bits has 100.
const KEY_LINES: u8 = 120;
/// Start of the countdown for lines of `user:password` after `chpasswd`, of which there may be 60.
const LIST_LINES: u8 = KEY_LINES + 60;
/// Start of the countdown for indented lines after `password: |`.
const BLOCK_LINES: u8 = LIST_LINES + 20;
const LIST_BEGIN: u8 = KEY_LINES + 1;
const BLOCK_BEGIN: u8 = LIST_LINES + 1;
/// Maximum number of bytes of a field's name (systemd's `journal_field_valid`).
const NAME_MAX: usize = 64;

/// A field of an entry: `NAME=value`, not yet read.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Number of bytes of the name.
    pub name_len: u8,
    /// The name's hash.
    name: Name,
    /// The kind of text that name and value consist of.
    pub text: Text,
    /// Whether a part or all of the value is masked.
    secret: Secret,
    codec: Codec,
    /// Offset of the payload, and its stored size.
    at: u64,
    stored: u64,
    /// Number of bytes of the payload that are available, and that there should be; equal if
    /// nothing is missing.
    given: u64,
    full: u64,
    /// Number of available bytes that remain when secrets are masked.
    shown: u64,
}

/// A field's name as its hash (FNV-1a, 64 bits: names that collide do not occur).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Name(u64);

/// Hashes the name of a field.
pub const fn name(mut text: &[u8]) -> Name {
    let mut name = Name::EMPTY;
    while let [byte, rest @ ..] = text {
        name = name.then(*byte);
        text = rest;
    }
    name
}

impl Name {
    const EMPTY: Self = Self(0xcbf2_9ce4_8422_2325);

    const fn then(self, byte: u8) -> Self {
        Self((self.0 ^ byte as u64).wrapping_mul(0x0000_0100_0000_01b3))
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Secret {
    Nothing,
    Parts,
    Whole,
}

impl Field {
    /// Number of bytes that [`Data::read`] passes on, including the name and `=`.
    pub fn len(&self) -> u64 {
        match self.given == self.full {
            true => self.shown,
            false => self.shown.saturating_add(mark(self.given, self.full, &mut [0; MARK_MAX]).len() as u64),
        }
    }

    /// Returns a field in memory. `bytes` begin at offset `start` of the memory that they lie in.
    pub(super) fn in_memory(bytes: &[u8], start: u64) -> Option<Self> {
        let name_len = bytes.iter().position(|b| *b == b'=')? as u8;
        let mut scan = Scan::new();
        scan.push(bytes);
        let len = bytes.len() as u64;
        let name = name(bytes.get(..name_len.into())?);
        Some(Self { name_len, name, text: scan.end(), ..Self::plain(start, len) })
    }

    fn plain(at: u64, len: u64) -> Self {
        let (text, secret, codec) = (Text::Binary, Secret::Nothing, Codec::Plain);
        Self { name_len: 0, name: Name::EMPTY, text, secret, codec, at, stored: len, given: len, full: len, shown: len }
    }

    /// Returns the range of bytes of a field in memory.
    pub(super) fn range(&self) -> Option<Range<usize>> {
        let start = usize::try_from(self.at).ok()?;
        Some(start..start.checked_add(usize::try_from(self.stored).ok()?)?)
    }

    /// Number of bytes of the value that [`Data::read`] passes on.
    pub fn value_len(&self) -> u64 {
        self.len().saturating_sub(u64::from(self.name_len)).saturating_sub(1)
    }

    /// Returns the field's name.
    pub fn name(&self) -> Name {
        self.name
    }

    /// Whether the field has this name.
    pub fn is_named(&self, name: Name) -> bool {
        self.name == name
    }

    /// Whether both have the same name.
    pub fn has_name_of(&self, other: &Self) -> bool {
        self.name == other.name
    }

    /// Whether the field is empty, which cannot be: a field has at least a name.
    pub fn is_empty(&self) -> bool {
        self.given == 0
    }
}

/// Reasons why a field cannot be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unread {
    /// The object or its payload is broken.
    Broken,
    /// The compression is not built in.
    Codec,
}

/// A consumer of the bytes of a payload, in order.
pub type Output<'a> = dyn FnMut(&[u8]) -> Result<(), Error> + 'a;

/// How far a compressed payload could be read.
pub(super) struct Inflated {
    /// Number of bytes passed on, and number of bytes according to the payload's own header.
    pub(super) len: u64,
    pub(super) full: u64,
    pub(super) is_whole: bool,
}

impl Inflated {
    pub(super) const BROKEN: Self = Self { len: 0, full: 0, is_whole: false };
}

/// The stored bytes of a payload.
pub(super) struct Input<'a> {
    windows: &'a mut Windows,
    bytes: &'a Bytes,
    at: u64,
    left: u64,
}

/// Everything needed to read payloads.
pub struct Data {
    /// The files' bytes.
    pub windows: Windows,
    cache: Vec<Slot>,
    scratch: Scratch,
    codecs: Codecs,
    /// Whether secrets are masked, and how many were in what was read.
    redact: bool,
    masked: u64,
    /// Finds the secrets in payloads.
    filter: Redact,
    /// Number of entries in which lines of a private key may follow, after one began in an earlier
    /// entry.
    key_lines: u8,
    /// Maximum number of bytes that are read of a payload.
    limit: u64,
    /// The last name that was looked for, and its payload: an entry can refer to one payload many
    /// times.
    last_name: (u64, Name),
}

/// The decoders that are built in.
struct Codecs {
    #[cfg(feature = "lz4")]
    lz4: Lz4,
    #[cfg(feature = "xz")]
    xz: Xz,
    #[cfg(feature = "zstd")]
    zstd: Zstd,
}

#[derive(Clone, Copy)]
struct Slot {
    /// File and offset; 0 for an empty slot.
    key: u64,
    len: u8,
    name_len: u8,
    text: Text,
    name: Name,
    bytes: [u8; SLOT_LEN],
}

struct Scratch {
    key: u64,
    len: usize,
    bytes: Box<[u8]>,
}

impl Data {
    /// Returns a state in which nothing is kept yet.
    pub fn new() -> Self {
        let slot = Slot { key: 0, len: 0, name_len: 0, name: Name::EMPTY, text: Text::Binary, bytes: [0; SLOT_LEN] };
        Self {
            windows: Windows::new(),
            cache: vec![slot; SLOTS],
            scratch: Scratch { key: 0, len: 0, bytes: vec![0; SCRATCH].into_boxed_slice() },
            codecs: Codecs {
                #[cfg(feature = "lz4")]
                lz4: Lz4::new(),
                #[cfg(feature = "xz")]
                xz: Xz::new(),
                #[cfg(feature = "zstd")]
                zstd: Zstd::new(),
            },
            redact: false,
            masked: 0,
            filter: Redact::new(),
            key_lines: 0,
            limit: u64::MAX,
            last_name: (0, Name::EMPTY),
        }
    }

    /// Limits the bytes that are read of a payload from now on, to [`HISTORY`] at least.
    pub(super) fn set_limit(&mut self, limit: u64) {
        self.limit = limit.max(HISTORY);
    }

    /// Returns the name of field `index` of `entry`. Only the first block of a compressed payload
    /// is decompressed.
    pub(super) fn name(&mut self, file: &JournalFile, entry: &Entry, index: u32) -> Result<Name, Unread> {
        let at = self.payload_at(file, entry, index).ok_or(Unread::Broken)?;
        let key = key(file, at);
        if let Some(slot) = self.cache.get(slot_of(key)).filter(|slot| slot.key == key) {
            return Ok(slot.name);
        }
        if self.last_name.0 == key {
            return Ok(self.last_name.1);
        }
        let (field, _) = self.head(file, at)?;
        // Reading the field now keeps it, if it is short and shared, so it is not read again for
        // each entry.
        if field.codec == Codec::Plain && field.stored <= SCRATCH as u64 {
            return self.look(file, at).map(|field| field.name);
        }
        let mut scan = NameScan::new();
        // The error stops the reading: nothing after the name is needed.
        let _ = self.codecs.pour(&mut self.windows, file, &field, HISTORY, &mut |piece| {
            scan.push(piece);
            if scan.has_ended || scan.is_bad { Err(Error::Output(Errno::CANCELED)) } else { Ok(()) }
        });
        let (_, name) = scan.end()?;
        self.last_name = (key, name);
        Ok(name)
    }

    /// Reads the header of the data object whose payload is at `at`. Returns the field and the
    /// number of entries that refer to it.
    fn head(&mut self, file: &JournalFile, at: u64) -> Result<(Field, u64), Unread> {
        let mut buf = [0; DATA_LEN];
        let head = file.header.data_len() as u64;
        let windows = &mut self.windows;
        let object = file.object(windows, at.saturating_sub(head), format::DATA, &mut buf).ok_or(Unread::Broken)?;
        let stored = object.len.checked_sub(head).filter(|len| *len > 0).ok_or(Unread::Broken)?;
        let codec = object.codec().ok_or(Unread::Broken)?;
        match self.codecs.has(codec) {
            true => Ok((Field { codec, ..Field::plain(at, stored) }, format::u64_at(&buf, 56).unwrap_or(0))),
            false => Err(Unread::Codec),
        }
    }

    /// Starts at the beginning, with secrets masked or not.
    pub fn restart(&mut self, redact: bool) {
        if self.redact != redact {
            self.cache.iter_mut().for_each(|slot| slot.key = 0);
        }
        (self.redact, self.masked, self.key_lines) = (redact, 0, 0);
        self.scratch.key = 0;
    }

    /// Number of secrets masked in what was read since the beginning.
    pub fn masked(&self) -> u64 {
        self.masked
    }

    /// Resets the number of masked secrets.
    pub(super) fn set_masked(&mut self, masked: u64) {
        self.masked = masked;
    }

    /// Number of further messages in which a private key from an earlier entry may go on.
    pub(super) fn key_lines(&self) -> u8 {
        self.key_lines
    }

    /// Resets this number to its value before an entry.
    pub(super) fn set_key_lines(&mut self, key_lines: u8) {
        self.key_lines = key_lines;
    }

    /// Whether secrets are masked.
    pub fn redacts(&self) -> bool {
        self.redact
    }

    /// Returns the name of field `index` of `entry`, and its payload with a line feed, if the field
    /// is kept and is one printable line.
    pub fn kept_line(&mut self, file: &JournalFile, entry: &Entry, index: u32) -> Option<(Name, &[u8])> {
        let key = key(file, self.payload_at(file, entry, index)?);
        let slot = self.cache.get(slot_of(key)).filter(|slot| slot.key == key && slot.text == Text::Line)?;
        Some((slot.name, slot.bytes.get(..usize::from(slot.len).saturating_add(1))?))
    }

    /// Returns the offset of the payload of field `index`.
    fn payload_at(&mut self, file: &JournalFile, entry: &Entry, index: u32) -> Option<u64> {
        let item_len = file.header.entry_item_len() as u64;
        let item_at = format::ENTRY_LEN as u64 + u64::from(index).saturating_mul(item_len);
        let at =
            file.item(&mut self.windows, entry.at.saturating_add(item_at)).filter(|at| at >> KEY_OFFSET_BITS == 0)?;
        Some(at.saturating_add(file.header.data_len() as u64))
    }

    /// Returns field `index` of `entry`, after one pass over its payload unless the payload is
    /// kept.
    pub fn field(&mut self, file: &JournalFile, entry: &Entry, index: u32) -> Result<Field, Unread> {
        let at = self.payload_at(file, entry, index).ok_or(Unread::Broken)?;
        let key = key(file, at);
        if let Some(slot) = self.cache.get(slot_of(key)).filter(|slot| slot.key == key) {
            let len = slot.len.into();
            let (name_len, name, text) = (slot.name_len, slot.name, slot.text);
            return Ok(Field { name_len, name, text, ..Field::plain(at, len) });
        }
        self.look(file, at)
    }

    /// Passes the payload of `field` to `output`: `NAME=value`, [`Field::len`] bytes. Only `output`
    /// can fail.
    ///
    /// A field of up to 16 KiB that is read before another one is looked at comes in one piece.
    /// Others come in pieces of any size.
    pub fn read(&mut self, file: &JournalFile, field: &Field, output: &mut Output) -> Result<(), Error> {
        match field.secret {
            Secret::Nothing => return self.read_raw(file, field, output),
            Secret::Whole => {
                self.masked = self.masked.saturating_add(1);
                return output(WHOLE);
            }
            Secret::Parts => {}
        }
        let mut redact = Redact::new();
        self.read_raw(file, field, &mut |piece| redact.push(piece, output))?;
        let (masked, _) = redact.end(output)?;
        self.masked = self.masked.saturating_add(masked.into());
        Ok(())
    }

    fn read_raw(&mut self, file: &JournalFile, field: &Field, output: &mut Output) -> Result<(), Error> {
        let key = key(file, field.at);
        if let Some(slot) = self.cache.get(slot_of(key)).filter(|slot| slot.key == key) {
            return output(slot.bytes.get(..slot.len.into()).unwrap_or_default());
        }
        if self.scratch.key == key {
            return output(self.scratch.bytes.get(..self.scratch.len).unwrap_or_default());
        }
        let mut left = field.given;
        let limited = &mut |piece: &[u8]| {
            let piece = piece.get(..usize::try_from(left).unwrap_or(usize::MAX)).unwrap_or(piece);
            left = left.saturating_sub(piece.len() as u64);
            output(piece)
        };
        self.codecs.pour(&mut self.windows, file, field, self.limit, limited)?;
        // The file was truncated after the field was looked at: the promised length must come
        // nevertheless.
        while left > 0 {
            let n = left.min(64);
            output([b' '; 64].get(..n as usize).unwrap_or_default())?;
            left = left.saturating_sub(n);
        }
        match field.given == field.full {
            true => Ok(()),
            false => output(mark(field.given, field.full, &mut [0; MARK_MAX])),
        }
    }

    /// Returns a field of `record` after looking for secrets in it.
    pub(super) fn in_memory(&self, mut field: Field, record: &Record) -> Field {
        if self.redact {
            let (mut redact, mut shown) = (Redact::new(), 0);
            let output = &mut |piece: &[u8]| count(&mut shown, piece);
            let is_ok = redact.push(record.bytes(&field), output).is_ok();
            if let (true, Ok((1.., _))) = (is_ok, redact.end(output)) {
                (field.secret, field.shown) = (Secret::Parts, shown);
            }
        }
        field
    }

    /// Passes the bytes of a field in memory to `output`.
    pub(super) fn read_memory(&mut self, field: &Field, bytes: &[u8], output: &mut Output) -> Result<(), Error> {
        if field.secret == Secret::Nothing {
            return output(bytes);
        }
        let mut redact = Redact::new();
        redact.push(bytes, output)?;
        let (masked, _) = redact.end(output)?;
        self.masked = self.masked.saturating_add(masked.into());
        Ok(())
    }

    /// Reads the header of the data object whose payload is at `at` and, once, the payload.
    #[inline(never)]
    fn look(&mut self, file: &JournalFile, at: u64) -> Result<Field, Unread> {
        let (mut field, references) = self.head(file, at)?;
        let Self { windows, cache, scratch, codecs, limit, filter, .. } = self;
        let key = key(file, at);

        // Keeps the last payload unless it is long, and short payloads that many entries share for
        // longer.
        let is_shared = field.stored < SLOT_LEN as u64 && references > 1;
        let (mut scan, mut name, mut len) = (Scan::new(), NameScan::new(), 0usize);
        let (is_on, mut shown) = (self.redact, 0u64);
        filter.restart();
        scratch.key = 0;
        let poured = codecs.pour(windows, file, &field, *limit, &mut |piece| {
            scan.push(piece);
            name.push(piece);
            if let Some(free) = scratch.bytes.get_mut(len..) {
                copy(piece, free);
            }
            len = len.saturating_add(piece.len());
            match is_on {
                true => filter.push(piece, &mut |piece| count(&mut shown, piece)),
                false => Ok(()),
            }
        });
        let poured = poured.map_err(|_| Unread::Broken)?;
        field.given = poured.len;
        field.full = match poured.is_whole {
            true => poured.len,
            // The payload may be intact, and only too large for the decoder here.
            false if poured.len > 0 && poured.full > poured.len && poured.full > HISTORY => poured.full,
            false => return Err(Unread::Broken),
        };
        (field.name_len, field.name) = name.end()?;
        field.text = scan.end();
        field.shown = poured.len;
        if is_on {
            let end = filter.end(&mut |piece| count(&mut shown, piece));
            let (masked, rest) = end.unwrap_or((0, Rest::Nothing));
            if masked > 0 {
                (field.secret, field.shown) = (Secret::Parts, shown);
            }
            let message = scratch.bytes.get(..len).unwrap_or_default().strip_prefix(b"MESSAGE=");
            if rest != Rest::Nothing {
                self.key_lines = match rest {
                    Rest::List => LIST_LINES,
                    Rest::Block => BLOCK_LINES,
                    _ => KEY_LINES,
                };
            } else if let (1.., Some(message)) = (self.key_lines, message) {
                let is_secret = match self.key_lines {
                    ..=KEY_LINES => holds_key_line(message),
                    LIST_BEGIN..=LIST_LINES => is_account(message),
                    _ => message.starts_with(b" "),
                };
                if is_secret {
                    (field.secret, field.shown) = (Secret::Whole, WHOLE.len() as u64);
                }
                let is_over = matches!(self.key_lines, 1 | LIST_BEGIN | BLOCK_BEGIN) || is_key_end(message);
                self.key_lines = if is_over { 0 } else { self.key_lines.saturating_sub(1) };
            }
        }
        // A message must be seen each time: it may end a key, and inside a key it is a secret.
        let is_shared = is_shared && field.secret == Secret::Nothing && !(is_on && field.is_named(MESSAGE));
        if is_shared && len < SLOT_LEN {
            if let Some(end) = scratch.bytes.get_mut(len) {
                *end = b'\n';
            }
            if let (Some(slot), Some(bytes)) = (cache.get_mut(slot_of(key)), scratch.bytes.first_chunk()) {
                *slot = Slot {
                    key,
                    len: len as u8,
                    name_len: field.name_len,
                    name: field.name,
                    text: field.text,
                    bytes: *bytes,
                };
            }
        } else if poured.is_whole && len <= SCRATCH {
            scratch.key = key;
            scratch.len = len;
        }
        Ok(field)
    }
}

impl Default for Data {
    fn default() -> Self {
        Self::new()
    }
}

impl Codecs {
    fn has(&self, codec: Codec) -> bool {
        match codec {
            Codec::Plain => true,
            Codec::Lz4 => cfg!(feature = "lz4"),
            Codec::Xz => cfg!(feature = "xz"),
            Codec::Zstd => cfg!(feature = "zstd"),
        }
    }

    /// Passes at most `limit` bytes of the payload of `field` to `output`. Deterministic: the same
    /// file leads to the same bytes.
    fn pour(
        &mut self,
        windows: &mut Windows,
        file: &JournalFile,
        field: &Field,
        limit: u64,
        output: &mut Output,
    ) -> Result<Inflated, Error> {
        let left = if field.codec == Codec::Plain { field.stored.min(limit) } else { field.stored };
        let mut input = Input { windows, bytes: &file.bytes, at: field.at, left };
        #[cfg(any(feature = "zstd", feature = "lz4", feature = "xz"))]
        let max = INFLATED_MAX.min(limit);
        match field.codec {
            Codec::Plain => {
                while let Some(piece) = input.piece() {
                    output(piece)?;
                }
                let len = left.saturating_sub(input.left);
                Ok(Inflated { len, full: field.stored, is_whole: len == field.stored })
            }
            #[cfg(feature = "lz4")]
            Codec::Lz4 => self.lz4.inflate(&mut input, max, output),
            #[cfg(feature = "xz")]
            Codec::Xz => self.xz.inflate(&mut input, max, output),
            #[cfg(feature = "zstd")]
            Codec::Zstd => self.zstd.inflate(&mut input, max, output),
            #[allow(unreachable_patterns)]
            _ => Ok(Inflated::BROKEN),
        }
    }
}

impl Input<'_> {
    /// Counts decompressed bytes. Returns whether the deadline has passed. See [`Windows::spend`].
    #[cfg(any(feature = "zstd", feature = "lz4", feature = "xz"))]
    pub(super) fn spend(&mut self, len: usize) -> bool {
        self.windows.spend(len)
    }

    /// Returns the next bytes, as many as lie together, or `None` at the end.
    fn piece(&mut self) -> Option<&[u8]> {
        let piece = self.windows.at(self.bytes, self.at);
        let len = usize::try_from(self.left).unwrap_or(usize::MAX).min(piece.len());
        self.at = self.at.saturating_add(len as u64);
        self.left = self.left.saturating_sub(len as u64);
        piece.get(..len).filter(|piece| !piece.is_empty())
    }

    /// Fills `buf` with the next bytes, or with as many as there are; 0 is the end.
    #[cfg(any(feature = "zstd", feature = "lz4", feature = "xz"))]
    pub(super) fn read(&mut self, buf: &mut [u8]) -> usize {
        let mut piece = self.windows.at(self.bytes, self.at);
        piece = piece.get(..usize::try_from(self.left).unwrap_or(usize::MAX)).unwrap_or(piece);
        let n = piece.len().min(buf.len());
        if let (Some(to), Some(from)) = (buf.get_mut(..n), piece.get(..n)) {
            to.copy_from_slice(from);
        }
        self.at = self.at.saturating_add(n as u64);
        self.left = self.left.saturating_sub(n as u64);
        n
    }
}

/// Looks for the end of a field's name.
struct NameScan {
    name: Name,
    len: usize,
    has_ended: bool,
    is_bad: bool,
}

impl NameScan {
    fn new() -> Self {
        Self { name: Name::EMPTY, len: 0, has_ended: false, is_bad: false }
    }

    fn push(&mut self, piece: &[u8]) {
        for byte in piece {
            if self.has_ended || self.is_bad {
                return;
            }
            match byte {
                b'=' => self.has_ended = true,
                b'A'..=b'Z' | b'_' => {}
                b'0'..=b'9' if self.len > 0 => {}
                _ => self.is_bad = true,
            }
            if !self.has_ended {
                self.len = self.len.saturating_add(1);
                self.name = self.name.then(*byte);
            }
            self.is_bad |= self.len > NAME_MAX;
        }
    }

    fn end(&self) -> Result<(u8, Name), Unread> {
        match self.has_ended && !self.is_bad && self.len > 0 {
            true => Ok((self.len as u8, self.name)),
            false => Err(Unread::Broken),
        }
    }
}

fn count(shown: &mut u64, piece: &[u8]) -> Result<(), Error> {
    *shown = shown.saturating_add(piece.len() as u64);
    Ok(())
}

/// Whether a line of a message, before the end of a key, is base64 like the lines of a private key.
/// Either the whole line is, or its long last word, after a prefix that the program writes before
/// each line.
fn holds_key_line(message: &[u8]) -> bool {
    message.split(|b| *b == b'\n').take_while(|line| !is_key_end(line)).any(|line| {
        let line = line.trim_ascii();
        let word = line.rsplit(|b| *b == b' ').next().unwrap_or_default();
        let is_long = word.len() == line.len() || word.len() >= 20 || word.ends_with(b"=");
        word.len() > 3 && is_long && word.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'='))
    })
}

fn is_key_end(message: &[u8]) -> bool {
    message.windows(8).any(|window| window == b"-----END")
}

/// Whether a message is a line of `user:password`.
fn is_account(message: &[u8]) -> bool {
    let line = message.trim_ascii();
    let colon = line.iter().position(|b| *b == b':');
    colon.is_some_and(|at| at > 0 && line.len() > at.saturating_add(1)) && !line.contains(&b' ')
}

/// Returns the identity of a payload: the file and the offset.
fn key(file: &JournalFile, at: u64) -> u64 {
    at | u64::from(file.bytes.number()) << KEY_OFFSET_BITS
}

/// Returns the slot of a payload. Offsets are multiples of 8, and neighbours should not collide.
fn slot_of(key: u64) -> usize {
    ((key >> 3 ^ key >> 13 ^ key >> 48) % SLOTS as u64) as usize
}

/// Returns the mark that is appended to a value of which only a part is available.
pub(crate) fn mark(given: u64, full: u64, buf: &mut [u8; MARK_MAX]) -> &[u8] {
    let mut text = text::Text::new(buf);
    text.str(" [cut by rdreport: ").dec(given).str(" of ");
    match full <= FIELD_MAX {
        true => text.dec(full).str(" bytes]"),
        false => text.str("an unknown number of bytes]"),
    };
    let len = text.as_bytes().len();
    buf.get(..len).unwrap_or_default()
}
