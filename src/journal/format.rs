//! The structures of a journal file as bytes: header and objects, checked for themselves but not
//! against the file.
//!
//! Specification: systemd's JOURNAL_FILE_FORMAT ("Header", "Objects", "Data Objects", "Entry
//! Objects", "Entry Array Objects") and the structures of its `journal-def.h`. All numbers are
//! little-endian.

use crate::sys::file::File;

/// A 128-bit id in its stored form.
pub type Id = [u8; 16];

/// Bytes of the header that are read, up to the additions of systemd 254. Older headers are
/// shorter.
pub const HEADER_LEN: usize = 272;
/// Bytes of the shortest header, that of systemd 187.
const HEADER_MIN: u64 = 208;
/// Bytes of the header that all objects have in common.
pub const OBJECT_LEN: usize = 16;
/// Bytes of a data object before its payload (regular layout) or before the two additional words of
/// the compact layout.
pub const DATA_LEN: usize = 64;
/// Bytes of an entry object before its items.
pub const ENTRY_LEN: usize = 64;
/// Bytes of an entry array object before its items.
pub const ARRAY_LEN: usize = 24;

/// Known incompatible flags: XZ, LZ4, keyed hash, ZSTD, compact. The kind of hash does not matter
/// to a reader that never looks anything up.
const INCOMPATIBLE_KNOWN: u32 = 0x1f;
const INCOMPATIBLE_COMPACT: u32 = 1 << 4;

/// Object types.
pub const DATA: u8 = 1;
/// See [`DATA`].
pub const ENTRY: u8 = 3;
/// See [`DATA`].
pub const ENTRY_ARRAY: u8 = 6;

/// Compression of a data object's payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Codec {
    /// Uncompressed.
    Plain,
    /// An XZ stream.
    Xz,
    /// The length in 64 bits, followed by one LZ4 block.
    Lz4,
    /// A ZSTD frame.
    Zstd,
}

/// The part of a file's header that a reader needs.
#[derive(Clone, Copy, Debug)]
pub struct Header {
    /// Whether offsets are 32 bits wide and entries carry no hashes.
    pub compact: bool,
    /// Id of the file, whatever its current name is.
    pub file_id: Id,
    /// The machine that wrote the file.
    pub machine_id: Id,
    /// The boot that wrote last (before systemd 254: the boot that opened the file last).
    pub tail_boot_id: Id,
    /// Source of the sequence numbers of the entries.
    pub seqnum_id: Id,
    /// Offset of the first object.
    pub len: u64,
    /// Offset of the last object.
    pub tail_object: u64,
    /// Number of entries written so far.
    pub entries: u64,
    /// Sequence number of the last entry.
    pub tail_seqnum: u64,
    /// Offset of the first entry array, or 0.
    pub entry_array: u64,
    /// Time of the last entry, µs since 1970.
    pub tail_realtime: u64,
}

/// Reasons why a file cannot be read at all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BadHeader {
    /// The file is not a journal file, or its header is cut.
    NoJournal,
    /// The file needs an unknown feature: the unknown flags.
    Incompatible(u32),
}

impl Header {
    /// Reads the header at the beginning of a file.
    pub fn read(file: &File) -> Result<Self, BadHeader> {
        let mut buf = [0; HEADER_LEN];
        let len = file.read_at(0, &mut buf).unwrap_or(0);
        Self::parse(buf.get(..len).unwrap_or_default())
    }

    /// Parses the first bytes of a file: [`HEADER_LEN`] bytes, or the whole of a shorter file.
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

    /// Returns the offset in an item of an entry object or entry array object.
    pub fn item_offset(&self, item: &[u8]) -> Option<u64> {
        if self.compact { u32_at(item, 0).map(u64::from) } else { u64_at(item, 0) }
    }
}

/// The part that all objects have in common.
#[derive(Clone, Copy, Debug)]
pub struct Object {
    /// Type of the object.
    pub kind: u8,
    /// Compression of the payload.
    pub flags: u8,
    /// Bytes of the object, including this part.
    pub len: u64,
}

impl Object {
    /// Parses an object's first [`OBJECT_LEN`] bytes.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let len = u64_at(bytes, 8).filter(|len| *len >= OBJECT_LEN as u64)?;
        Some(Self { kind: *bytes.first()?, flags: *bytes.get(1)?, len })
    }

    /// Returns the payload's compression, or `None` for a meaningless combination of flags.
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

/// Whether these could be the first bytes of an object: a known type, and zeros where zeros must
/// be.
pub fn is_object(bytes: &[u8; OBJECT_LEN]) -> bool {
    matches!(bytes, [1..=7, 0..=7, 0, 0, 0, 0, 0, 0, ..])
}

/// Returns the 16 bytes at `at`.
pub fn id_at(bytes: &[u8], at: usize) -> Option<Id> {
    bytes.get(at..)?.first_chunk().copied()
}

/// Returns the 64-bit number at `at`.
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
