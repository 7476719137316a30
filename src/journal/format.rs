//! The structures of a journal file as bytes: header and objects, checked for themselves but not against the file.
//!
//! Specification: systemd's JOURNAL_FILE_FORMAT ("Header", "Objects", "Data Objects", "Entry Objects", "Entry Array Objects") and the
//! structures of its `journal-def.h`. All numbers are little-endian.

use crate::sys::file::File;

/// A 128-bit id as it is stored.
pub type Id = [u8; 16];

/// Bytes of the header that are read: up to what systemd 254 added. Older headers are shorter.
pub const HEADER_LEN: usize = 272;
/// Bytes of the shortest header, systemd 187's.
const HEADER_MIN: u64 = 208;
/// Bytes of an object's header that every object has.
pub const OBJECT_LEN: usize = 16;
/// Bytes of a data object before its payload (regular) or before the compact layout's two additional words.
pub const DATA_LEN: usize = 64;
/// Bytes of an entry object before its items.
pub const ENTRY_LEN: usize = 64;
/// Bytes of an entry array object before its items.
pub const ARRAY_LEN: usize = 24;

/// Incompatible flags that are understood: XZ, LZ4, keyed hash, ZSTD, compact. How hashes are made does not matter to a reader that
/// never looks anything up.
const INCOMPATIBLE_KNOWN: u32 = 0x1f;
const INCOMPATIBLE_COMPACT: u32 = 1 << 4;

/// Object types.
pub const DATA: u8 = 1;
/// See [`DATA`].
pub const ENTRY: u8 = 3;
/// See [`DATA`].
pub const ENTRY_ARRAY: u8 = 6;

/// How a data object's payload is stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Codec {
    /// As it is.
    Plain,
    /// An XZ stream.
    Xz,
    /// The length in 64 bits, then one LZ4 block.
    Lz4,
    /// A ZSTD frame.
    Zstd,
}

/// What a reader needs of a file's header.
#[derive(Clone, Copy, Debug)]
pub struct Header {
    /// Whether offsets are 32 bits wide and entries carry no hashes.
    pub compact: bool,
    /// Which file it is, whatever its name is now.
    pub file_id: Id,
    /// The machine that wrote the file.
    pub machine_id: Id,
    /// The boot that wrote last (before systemd 254: that opened the file last).
    pub tail_boot_id: Id,
    /// Whose sequence numbers the entries have.
    pub seqnum_id: Id,
    /// Where objects begin.
    pub len: u64,
    /// Where the last object is.
    pub tail_object: u64,
    /// Entries written so far.
    pub entries: u64,
    /// The sequence number of the last of them.
    pub tail_seqnum: u64,
    /// The first entry array, or 0.
    pub entry_array: u64,
    /// When the last entry was written, µs since 1970.
    pub tail_realtime: u64,
}

/// Why a file cannot be read at all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BadHeader {
    /// It is no journal file, or its header is cut.
    NoJournal,
    /// It needs something that is not known here: the unknown flags.
    Incompatible(u32),
}

impl Header {
    /// Reads it at the beginning of a file.
    pub fn read(file: &File) -> Result<Self, BadHeader> {
        let mut buf = [0; HEADER_LEN];
        let len = file.read_at(0, &mut buf).unwrap_or(0);
        Self::parse(buf.get(..len).unwrap_or_default())
    }

    /// Parses the first bytes of a file, [`HEADER_LEN`] or as many as there are.
    pub fn parse(bytes: &[u8]) -> Result<Self, BadHeader> {
        if bytes.get(..8) != Some(b"LPKSHHRH") {
            return Err(BadHeader::NoJournal);
        }
        let incompatible = u32_at(bytes, 12).ok_or(BadHeader::NoJournal)?;
        match incompatible & !INCOMPATIBLE_KNOWN {
            0 => {}
            unknown => return Err(BadHeader::Incompatible(unknown)),
        }
        let parse = || {
            Some(Self {
                compact: incompatible & INCOMPATIBLE_COMPACT != 0,
                file_id: id_at(bytes, 24)?,
                machine_id: id_at(bytes, 40)?,
                tail_boot_id: id_at(bytes, 56)?,
                seqnum_id: id_at(bytes, 72)?,
                len: u64_at(bytes, 88).filter(|len| *len >= HEADER_MIN)?,
                tail_object: u64_at(bytes, 136)?,
                entries: u64_at(bytes, 152)?,
                tail_seqnum: u64_at(bytes, 160)?,
                entry_array: u64_at(bytes, 176)?,
                tail_realtime: u64_at(bytes, 192)?,
            })
        };
        parse().ok_or(BadHeader::NoJournal)
    }

    /// Bytes of one item of an entry object: offset and hash, or a short offset.
    pub fn entry_item_len(&self) -> usize {
        if self.compact { 4 } else { 16 }
    }

    /// Bytes of one item of an entry array object.
    pub fn array_item_len(&self) -> usize {
        if self.compact { 4 } else { 8 }
    }

    /// Bytes of a data object before its payload.
    pub fn data_len(&self) -> usize {
        if self.compact { DATA_LEN + 8 } else { DATA_LEN }
    }

    /// The offset that an item of an entry or entry array object holds.
    pub fn item_offset(&self, item: &[u8]) -> Option<u64> {
        if self.compact { u32_at(item, 0).map(u64::from) } else { u64_at(item, 0) }
    }
}

/// The part that all objects have in common.
#[derive(Clone, Copy, Debug)]
pub struct Object {
    /// What it is.
    pub kind: u8,
    /// How its payload is compressed.
    pub flags: u8,
    /// Its bytes, this part included.
    pub len: u64,
}

impl Object {
    /// Parses an object's first [`OBJECT_LEN`] bytes.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let len = u64_at(bytes, 8).filter(|len| *len >= OBJECT_LEN as u64)?;
        Some(Self { kind: *bytes.first()?, flags: *bytes.get(1)?, len })
    }

    /// The payload's compression; `None` for a combination that has no meaning.
    pub fn codec(&self) -> Option<Codec> {
        match self.flags & 7 {
            0 => Some(Codec::Plain),
            1 => Some(Codec::Xz),
            2 => Some(Codec::Lz4),
            4 => Some(Codec::Zstd),
            _ => None,
        }
    }
}

/// Whether these could be the first bytes of an object: one of the known types, nothing where nothing may be.
pub fn is_object(bytes: &[u8; OBJECT_LEN]) -> bool {
    matches!(bytes, [1..=7, 0..=7, 0, 0, 0, 0, 0, 0, ..])
}

/// The 16 bytes at `at`.
pub fn id_at(bytes: &[u8], at: usize) -> Option<Id> {
    bytes.get(at..)?.first_chunk().copied()
}

/// The 64-bit number at `at`.
pub fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|b| u64::from_le_bytes(*b))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|b| u32::from_le_bytes(*b))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Vec<u8> {
        let mut bytes = vec![0; HEADER_LEN];
        bytes[..8].copy_from_slice(b"LPKSHHRH");
        bytes[88..96].copy_from_slice(&(HEADER_LEN as u64).to_le_bytes());
        bytes
    }

    #[test]
    fn short_headers_of_old_versions_are_read() {
        let mut bytes = header();
        bytes[88..96].copy_from_slice(&208u64.to_le_bytes());
        bytes.truncate(208);
        assert_eq!(Header::parse(&bytes).unwrap().len, 208);
        bytes.truncate(199);
        assert_eq!(Header::parse(&bytes).unwrap_err(), BadHeader::NoJournal);
    }

    #[test]
    fn unknown_flags_are_named() {
        let mut bytes = header();
        bytes[12] = 0x3f;
        bytes[15] = 0x80;
        assert_eq!(Header::parse(&bytes).unwrap_err(), BadHeader::Incompatible(0x8000_0020));
        bytes[12] = 0x1f;
        bytes[15] = 0;
        assert!(Header::parse(&bytes).unwrap().compact);
    }

    #[test]
    fn a_header_length_that_cannot_be_is_refused() {
        let mut bytes = header();
        bytes[88..96].copy_from_slice(&16u64.to_le_bytes());
        assert_eq!(Header::parse(&bytes).unwrap_err(), BadHeader::NoJournal);
    }

    #[test]
    fn two_compressions_at_once_have_no_meaning() {
        let object = |flags| Object { kind: DATA, flags, len: 80 }.codec();
        assert_eq!(object(0), Some(Codec::Plain));
        assert_eq!(object(4), Some(Codec::Zstd));
        assert_eq!(object(6), None);
    }
}
