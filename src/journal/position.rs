//! The positions up to which a journal was sent: in each file, and in the kernel's log. A file
//! keeps its id when journald renames it.

use crate::journal::files::FILES_MAX;
use crate::journal::format::Id;
use alloc::vec::Vec;

/// Number of files that are remembered: those that are read at once, and as many that are gone or
/// were missed during a rename.
const POSITIONS_MAX: usize = 2 * FILES_MAX;

/// Bytes of one position: the file's id, and the number of entries before it.
const POSITION_LEN: usize = 24;
/// Bytes of all positions, and of the byte that says how long a private key goes on: see
/// [`Positions::end_to_bytes`].
pub const POSITIONS_LEN: usize = POSITIONS_MAX * POSITION_LEN + 1;

/// A position in the journal, and the end of what is read from there.
#[derive(Default)]
pub struct Positions {
    files: Vec<Position>,
    /// Whether a private key goes on at the position: see
    /// [`crate::journal::payload::Data::key_lines`].
    pub key_lines: u8,
}

/// A position in one file, or in the kernel's log, whose id is that of the boot.
struct Position {
    file: Id,
    /// Number of entries, or of records, before the position.
    at: u64,
    /// Number of entries before the end. In a file that is not read now, the same as `at`.
    end: u64,
    is_read: bool,
}

impl Positions {
    /// Marks all files as not read.
    pub(super) fn forget_ends(&mut self) {
        for position in &mut self.files {
            (position.end, position.is_read) = (position.at, false);
        }
    }

    /// Marks a file with `end` entries as read. Returns the number of its entries before the
    /// position. If there are too many files, one that is not read any more is forgotten.
    pub(super) fn move_end(&mut self, file: &Id, end: u64) -> u64 {
        let known = self.files.iter().position(|position| position.file == *file);
        let is_full = self.files.len() >= POSITIONS_MAX;
        let unread = || self.files.iter().position(|position| is_full && !position.is_read);
        let index = known.or_else(unread).unwrap_or(self.files.len());
        if known.is_none() {
            let new = Position { file: *file, at: 0, end: 0, is_read: true };
            match self.files.get_mut(index) {
                Some(position) => *position = new,
                None => self.files.push(new),
            }
        }
        self.files.get_mut(index).map_or(0, |position| {
            position.is_read = true;
            position.end = position.end.max(end);
            position.at
        })
    }

    /// Encodes the position at the end, for another process. Returns the number of bytes written to
    /// `buf`.
    pub fn end_to_bytes(&self, key_lines: u8, buf: &mut [u8]) -> usize {
        let (mut len, (chunks, _)) = (0usize, buf.as_chunks_mut::<POSITION_LEN>());
        for (chunk, position) in chunks.iter_mut().zip(&self.files) {
            let (file, end) = chunk.split_at_mut(16);
            file.copy_from_slice(&position.file);
            end.copy_from_slice(&position.end.to_le_bytes());
            len = len.saturating_add(POSITION_LEN);
        }
        if let Some(last) = buf.get_mut(len) {
            *last = key_lines;
        }
        len.saturating_add(1)
    }

    /// Decodes the position that [`Positions::end_to_bytes`] encoded.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let (chunks, rest) = bytes.as_chunks::<POSITION_LEN>();
        let position = |chunk: &[u8; POSITION_LEN]| {
            let (file, at) = chunk.split_first_chunk()?;
            let at = u64::from_le_bytes(*at.first_chunk()?);
            Some(Position { file: *file, at, end: at, is_read: false })
        };
        let files = chunks.iter().take(POSITIONS_MAX).filter_map(position).collect();
        Self { files, key_lines: rest.first().copied().unwrap_or(0) }
    }

    /// Moves to the end, where a private key goes on for `key_lines` lines.
    pub fn move_to_end(&mut self, key_lines: u8) {
        self.key_lines = key_lines;
        self.files.iter_mut().for_each(|position| position.at = position.end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::Format;
    use crate::journal::format;
    use crate::journal::tests::{Folder, fixture, written};
    use std::io::Read;

    const REAL: &str = "initrd-systemd252-fakeignition.journal";

    /// Cuts an export between its entries.
    fn entries(text: &[u8]) -> Vec<&[u8]> {
        let starts: Vec<usize> = (0..text.len())
            .filter(|at| (*at == 0 || text[at - 1] == b'\n') && text[*at..].starts_with(b"__CURSOR="))
            .collect();
        starts.iter().zip(starts.iter().skip(1).chain([&text.len()])).map(|(from, to)| &text[*from..*to]).collect()
    }

    /// Returns the entries from `from` on of a file whose header says that it has `count`.
    fn range(content: &[u8], from: u64, count: u64) -> Vec<u8> {
        let mut content = content.to_vec();
        content[152..160].copy_from_slice(&count.to_le_bytes());
        let folder = Folder::with_journals(&[("system.journal", &content)]);
        let mut source = folder.source();
        let mut positions = Positions::default();
        positions.move_end(&format::id_at(&content, 24).unwrap(), from);
        positions.move_to_end(0);
        assert_eq!(source.begin_at(&mut positions), count.saturating_sub(from));
        source.restart(false);
        let (text, stats) = written(&mut source, Format::Export);
        assert!(stats.entries <= count);
        positions.move_to_end(0);
        assert_eq!(source.begin_at(&mut positions), 0);
        source.restart(false);
        assert!(source.next_entry().is_none());
        text
    }

    #[test]
    fn parts_are_the_whole() {
        let content = fixture(REAL);
        let whole = fixture(&REAL.replace(".journal", ".export"));
        let without = |text: &[u8]| -> Vec<u8> {
            let is_new = |line: &[u8]| line.starts_with(b"__SEQNUM");
            text.split_inclusive(|b| *b == b'\n').filter(|line| !is_new(line)).flatten().copied().collect()
        };
        let all = entries(&whole);
        assert_eq!(all.len(), 527);
        // The arrays have 4, 8, 16 items and so on. The file has more entries than its header
        // says, as it does while it is written.
        for (from, to) in [
            (0, 0),
            (0, 1),
            (0, 527),
            (1, 4),
            (3, 5),
            (4, 5),
            (4, 12),
            (11, 13),
            (12, 13),
            (100, 101),
            (520, 526),
            (526, 527),
            (527, 527),
        ] {
            assert!(without(&range(&content, from as u64, to as u64)) == all[from..to].concat(), "{from} to {to}");
        }
    }

    #[test]
    fn a_broken_chain_is_gone_along_all_the_same() {
        let mut content = fixture(REAL);
        // The second array is destroyed.
        let first = usize::try_from(format::u64_at(&content, 176).unwrap()).unwrap();
        let second = usize::try_from(format::u64_at(&content, first + 16).unwrap()).unwrap();
        content[second] = 7;
        let whole = range(&content, 0, 527);
        let all = entries(&whole);
        assert_eq!(all.len(), 527);
        for from in [1, 4, 5, 300, 526] {
            assert!(range(&content, from, 527) == all[from as usize..].concat(), "{from}");
        }
        // Ranges beyond the entries that exist cannot be reached, and do no harm.
        for (from, to) in [(600, 700), (4, 1_000), (5, 5_000)] {
            range(&content, from, to);
        }
    }

    #[test]
    fn the_kernels_records_go_on_where_they_ended() {
        let folder = Folder::new();
        let log = |count: u32| -> String { (5..5 + count).map(|n| std::format!("6,{n},{n},-;record {n}\n")).collect() };
        let mut positions = Positions::default();
        let mut found = String::new();
        for (count, new) in [(0, 0), (1, 1), (1, 0), (4, 3)] {
            folder.write("dev/kmsg", log(count).as_bytes());
            let mut source = folder.source();
            // Records before the first one count as new: their number is unknown.
            assert_eq!(source.begin_at(&mut positions) > 0, new > 0);
            source.restart(false);
            let (text, stats) = written(&mut source, Format::Short);
            text.as_slice().read_to_string(&mut found).unwrap();
            assert_eq!(stats.entries, new);
            positions.move_to_end(0);
        }
        assert_eq!(found.lines().count(), 4);
    }

    #[test]
    fn what_is_not_read_any_more_is_forgotten() {
        let mut positions = Positions::default();
        for n in 1..=200 {
            positions.forget_ends();
            positions.move_end(&[0; 16], 7);
            positions.move_end(&[n; 16], n.into());
            positions.move_to_end(0);
        }
        assert_eq!(positions.files.len(), POSITIONS_MAX);
        let mut at = |id| positions.move_end(&[id; 16], 0);
        assert_eq!((at(0), at(200), at(1)), (7, 200, 0));
    }

    #[test]
    fn what_was_not_delivered_is_not_behind_the_place() {
        let mut positions = Positions::default();
        positions.move_end(&[1; 16], 5);
        positions.move_to_end(3);
        positions.forget_ends();
        // The first delivery fails. During the second one, this file is missed.
        assert_eq!(positions.move_end(&[1; 16], 9), 5);
        positions.forget_ends();
        assert_eq!(positions.move_end(&[2; 16], 4), 0);
        positions.move_to_end(2);
        assert_eq!(positions.key_lines, 2);
        positions.forget_ends();
        // A copy of the file with fewer entries does not matter.
        assert_eq!((positions.move_end(&[1; 16], 9), positions.move_end(&[1; 16], 3)), (5, 5));
        positions.move_to_end(0);
        assert_eq!((positions.move_end(&[1; 16], 0), positions.move_end(&[2; 16], 0)), (9, 4));
    }
}
