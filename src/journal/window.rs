//! Bytes of open files by offset, through a few buffers of fixed size that are kept as long as they
//! are used.
//!
//! Files are read, not mapped. A mapped file that is truncated while it is read ends the process,
//! and its pages count as the process' memory.

use crate::sys::file::File;
use crate::sys::time::Deadline;
use alloc::vec;
use alloc::vec::Vec;

/// Bytes of one window. An entry, its new data objects and the next entries lie close together, so
/// one read serves many objects.
pub(super) const WINDOW: usize = 8 * 1024;
/// Bytes of zeros after which a hole is looked for.
const HOLE_STEP: u64 = 8 * WINDOW as u64;
/// Number of windows: one each for the entry arrays and the newest entries of a file, the others
/// for what is referred to again. With more files than windows in turn, each entry costs a read or
/// two.
const WINDOWS: usize = 5;

/// Bytes that are read or decompressed between two looks at the clock: a tenth of a millisecond's
/// work.
const SPEND: usize = 64 * 1024;

/// A file as the windows see it: bytes after `end` do not exist.
pub struct Bytes {
    file: File,
    number: u16,
    /// The size when the file was opened: what is appended later is not read.
    end: u64,
}

/// The buffers, shared by all files.
pub struct Windows {
    memory: Vec<u8>,
    slots: [Slot; WINDOWS],
    last: usize,
    clock: u64,
    /// The deadline for reading, and whether it has passed.
    until: Deadline,
    is_late: bool,
    /// Bytes read or decompressed since the last look at the clock.
    spent: usize,
}

#[derive(Clone, Copy)]
struct Slot {
    file: u16,
    base: u64,
    len: usize,
    used: u64,
}

impl Bytes {
    /// Wraps a file whose size is `end`. `number` distinguishes the files of one set of windows,
    /// and is not [`u16::MAX`].
    pub fn new(file: File, number: u16, end: u64) -> Self {
        Self { file, number, end }
    }

    /// Size of the file in bytes.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Number of the file.
    pub fn number(&self) -> u16 {
        self.number
    }
}

impl Windows {
    /// Returns empty windows.
    pub fn new() -> Self {
        let slot = Slot { file: u16::MAX, base: 0, len: 0, used: 0 };
        Self {
            memory: vec![0; WINDOW * WINDOWS],
            slots: [slot; WINDOWS],
            last: 0,
            clock: 0,
            until: Deadline::NEVER,
            is_late: false,
            spent: 0,
        }
    }

    /// Reads nothing more once `until` has passed.
    pub fn set_deadline(&mut self, until: Deadline) {
        self.until = until;
        self.is_late = false;
        // Windows that could not be read after the old deadline do not hold the file's bytes.
        self.slots.iter_mut().for_each(|slot| slot.file = u16::MAX);
    }

    /// Whether the deadline had passed at the last look at the clock.
    pub fn is_late(&self) -> bool {
        self.is_late
    }

    /// Counts `len` bytes of work, and looks at the clock from time to time. Returns whether the
    /// deadline has passed.
    pub fn spend(&mut self, len: usize) -> bool {
        self.spent = self.spent.saturating_add(len);
        if self.spent >= SPEND {
            self.spent = 0;
            self.is_late |= self.until.passed();
        }
        self.is_late
    }

    /// Returns the offset after the zeros at `at`: in steps of 8 bytes within a window, or at the
    /// next data if the file has a hole. Returns `at` itself if there are no zeros.
    pub fn skip_zeros(&mut self, bytes: &Bytes, at: u64) -> u64 {
        let piece = self.at(bytes, at);
        let (words, rest) = piece.as_chunks::<8>();
        let zeros = words.iter().take_while(|word| **word == [0; 8]).count();
        let is_all = zeros == words.len() && rest.iter().all(|byte| *byte == 0);
        let next = at.saturating_add(if is_all { piece.len() } else { zeros.saturating_mul(8) } as u64);
        // The kernel is asked only once every few windows: in a file without holes, the answer is
        // no each time.
        match is_all && next.is_multiple_of(HOLE_STEP) {
            true => bytes.file.next_data(next).unwrap_or(bytes.end).max(next) & !7,
            false => next,
        }
    }

    /// Returns the bytes at `at`, as many as their window holds. The slice is empty at the end of
    /// the file, or if reading fails.
    pub fn at(&mut self, bytes: &Bytes, at: u64) -> &[u8] {
        let offset = (at % WINDOW as u64) as usize;
        let base = at.saturating_sub(offset as u64);
        let is_it = |slot: &Slot| slot.base == base && slot.file == bytes.number;
        if !self.slots.get(self.last).is_some_and(is_it) {
            self.last = match self.slots.iter().position(is_it) {
                Some(index) => index,
                None => self.fill(bytes, base),
            };
            self.clock = self.clock.saturating_add(1);
            if let Some(slot) = self.slots.get_mut(self.last) {
                slot.used = self.clock;
            }
        }
        let len = self.slots.get(self.last).map_or(0, |slot| slot.len);
        let start = self.last.saturating_mul(WINDOW);
        self.memory.get(start.saturating_add(offset)..start.saturating_add(len)).unwrap_or_default()
    }

    /// Fills `buf` with the bytes from `at` on. Returns `false` if the file has fewer bytes.
    pub fn copy(&mut self, bytes: &Bytes, mut at: u64, buf: &mut [u8]) -> bool {
        let mut left = buf;
        while !left.is_empty() {
            let from = self.at(bytes, at);
            let n = from.len().min(left.len());
            let (to, rest) = left.split_at_mut(n);
            let Some(from) = from.get(..n).filter(|from| !from.is_empty()) else { return false };
            to.copy_from_slice(from);
            at = at.saturating_add(n as u64);
            left = rest;
        }
        true
    }

    /// Reads a window in place of the one that was unused for the longest time. Returns its index.
    #[inline(never)]
    fn fill(&mut self, bytes: &Bytes, base: u64) -> usize {
        let oldest = self.slots.iter().enumerate().min_by_key(|(_, slot)| slot.used).map_or(0, |(index, _)| index);
        let start = oldest.saturating_mul(WINDOW);
        let len = usize::try_from(bytes.end.saturating_sub(base)).unwrap_or(WINDOW).min(WINDOW);
        let len = if self.spend(WINDOW) { 0 } else { len };
        let buf = self.memory.get_mut(start..start.saturating_add(len)).unwrap_or_default();
        // A file that was truncated meanwhile is shorter; an error counts as that.
        let len = if buf.is_empty() { 0 } else { bytes.file.read_at(base, buf).unwrap_or(0) };
        if let Some(slot) = self.slots.get_mut(oldest) {
            *slot = Slot { file: bytes.number, base, len, used: 0 };
        }
        oldest
    }
}

impl Default for Windows {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::tests::Folder;

    #[test]
    fn reads_over_borders_and_stops_at_the_end() {
        let content: Vec<u8> = (0..WINDOW * 3).map(|i| (i % 251) as u8).collect();
        let folder = Folder::new();
        folder.write("f", &content);
        let end = WINDOW * 2 + 100;
        let bytes = Bytes::new(folder.root().file("f").unwrap(), 0, end as u64);
        let mut windows = Windows::new();
        let mut buf = vec![0; WINDOW + 10];
        assert!(windows.copy(&bytes, 5, &mut buf));
        assert_eq!(buf, content[5..5 + buf.len()]);
        assert!(windows.copy(&bytes, end as u64 - 3, &mut buf[..3]));
        assert_eq!(buf[..3], content[end - 3..end]);
        assert!(!windows.copy(&bytes, end as u64 - 3, &mut buf[..4]));
        assert_eq!(windows.at(&bytes, end as u64), b"");
        assert_eq!(windows.at(&bytes, u64::MAX), b"");
    }

    #[test]
    fn many_files_in_turn_are_not_mixed_up() {
        let folder = Folder::new();
        let files: Vec<Bytes> = (0..20u8)
            .map(|i| {
                folder.write(&i.to_string(), &[i; 100]);
                Bytes::new(folder.root().file(i.to_string()).unwrap(), i.into(), 100)
            })
            .collect();
        let mut windows = Windows::new();
        for _ in 0..3 {
            for (i, file) in files.iter().enumerate() {
                assert_eq!(windows.at(file, 50), [i as u8; 50]);
            }
        }
    }
}
