//! One journal file: its entries in the order of writing, found through the entry arrays.
//!
//! Specification: JOURNAL_FILE_FORMAT, "Entry Array Objects". Offsets come from the file and may be
//! anything. Entries and arrays must lie at growing offsets, as a writer that only appends leaves
//! them, so no chain can loop. If the chain is broken before all entries were found, the search
//! goes on object by object after the last entry. That finds the entries in the same order.

use crate::journal::format::{self, ARRAY_LEN, ENTRY_LEN, Header, Id, OBJECT_LEN, Object};
use crate::journal::window::{Bytes, WINDOW, Windows};
use alloc::boxed::Box;

/// Bytes of one file that are searched for entries outside the entry arrays: the default maximum
/// size of journald's files. Holes and the contents of whole objects do not count.
const SEARCH_MAX: u64 = 128 << 20;
/// Search cost of an object, whatever its size.
const OBJECT_COST: u64 = 64;
/// Bytes of the smallest entry with its item in an entry array. The limit exposes an impossible
/// count of entries in a header.
const ENTRY_MIN: u64 = ENTRY_LEN as u64 + 8;

/// Maximum size of a journal file. journald's have 128 MiB by default, and up to 4 GiB in its newer
/// layout.
const FILE_MAX: u64 = 64 << 30;

/// Maximum number of fields of one entry that are read. journald accepts 1024 and adds its own.
const ITEMS_MAX: u64 = 4096;

/// An open journal file and the current position in it.
pub struct JournalFile {
    /// The content of the file.
    pub bytes: Bytes,
    /// The file's path below the root, without a leading `/`.
    pub path: Box<[u8]>,
    /// The file's header when it was opened.
    pub header: Header,
    /// Whether the header's count of entries is possible in a file of this size. If it is not, the
    /// number of entries is unknown.
    is_count_known: bool,
    /// Number of entries that are skipped at the beginning.
    skip: u64,
    walk: Walk,
}

/// An entry without its fields.
#[derive(Clone, Copy, Default, Debug)]
pub struct Entry {
    /// Number of the file.
    pub file: u16,
    /// Offset of the entry in the file.
    pub at: u64,
    /// Sequence number.
    pub seqnum: u64,
    /// Time of receipt, µs since 1970.
    pub realtime: u64,
    /// Time of receipt, µs since boot.
    pub monotonic: u64,
    /// Id of the boot.
    pub boot_id: Id,
    /// Hash of the fields.
    pub xor_hash: u64,
    /// Number of fields.
    pub items: u32,
}

/// Result of a step along the entries.
pub enum Step {
    /// An entry.
    Entry(Entry),
    /// An unreadable entry, at this offset.
    Bad(u64),
    /// The rest cannot be reached: the offset, and the number of lost entries if the header can be
    /// believed.
    Lost(u64, Option<u64>),
    /// All entries were returned.
    End,
}

/// A position among the entries.
#[derive(Clone, Copy)]
struct Walk {
    /// Offsets of the current entry array and of the next one (0: none).
    array: u64,
    next_array: u64,
    /// Number of items of `array` that were read, and of all its items.
    index: u64,
    count: u64,
    /// Number of entries returned or counted as bad.
    taken: u64,
    /// Offset of the last entry returned, and its sequence number.
    entry: u64,
    seqnum: u64,
    /// The object from which the search goes on once the arrays are broken; [`DONE`] at the end.
    object: Option<u64>,
    /// Number of bytes that may still be searched.
    left: u64,
}

/// An offset after every object.
const DONE: Option<u64> = Some(u64::MAX);

impl JournalFile {
    /// Returns the position at the first entry of a file with this header.
    pub fn new(bytes: Bytes, path: Box<[u8]>, mut header: Header) -> Self {
        // A truncated file is shorter than its header says.
        let most = bytes.end().max(header.tail_object).min(FILE_MAX) / ENTRY_MIN;
        let is_count_known = header.entries <= most;
        header.entries = header.entries.min(most);
        Self { bytes, path, header, is_count_known, skip: 0, walk: Walk::start(&header) }
    }

    /// Returns only entries after the first `skip` ones from now on, and no more than the header's
    /// count. An entry written since then comes the next time.
    #[cfg(feature = "follow")]
    pub fn set_range(&mut self, skip: u64) {
        self.skip = skip.min(self.header.entries);
        self.header.tail_seqnum = 0;
    }

    /// Goes back to the first entry that is returned.
    pub fn rewind(&mut self, windows: &mut Windows) {
        self.walk = Walk::start(&self.header);
        if !self.pass_over(windows) {
            // The chain is broken: the search finds the entries to be skipped.
            self.walk = Walk::start(&self.header);
            while self.walk.taken < self.skip && !matches!(self.step(windows), Step::End) {}
        }
    }

    /// Returns the next entry, up to the header's count when the file was opened, and any further
    /// entries that were written before that.
    pub fn step(&mut self, windows: &mut Windows) -> Step {
        if let Some(at) = self.walk.object {
            return self.search(windows, at);
        }
        if self.walk.index == self.walk.count && !self.next_array(windows) {
            return self.leave_arrays(windows);
        }
        let at = self.indexed(windows, self.walk.index).unwrap_or(0);
        if at == 0 {
            // The item is unused. Where an entry should be, the array is broken.
            return self.leave_arrays(windows);
        }
        let entry = if at > self.walk.entry { self.entry(windows, at) } else { None };
        let is_counted = self.walk.taken < self.header.entries;
        if !is_counted && entry.is_none_or(|entry| entry.seqnum > self.header.tail_seqnum) {
            // The entry was written after the file was opened.
            self.walk.object = DONE;
            return Step::End;
        }
        self.walk.index = self.walk.index.saturating_add(1);
        match entry {
            Some(entry) => self.give(entry),
            None => {
                self.walk.taken = self.walk.taken.saturating_add(1);
                Step::Bad(at)
            }
        }
    }

    /// Skips entries through the arrays alone; each array is as large as all before it together.
    /// Returns whether the arrays hold that many.
    fn pass_over(&mut self, windows: &mut Windows) -> bool {
        while self.walk.taken < self.skip {
            if !self.next_array(windows) {
                return false;
            }
            self.walk.index = self.walk.count.min(self.skip.saturating_sub(self.walk.taken));
            self.walk.taken = self.walk.taken.saturating_add(self.walk.index);
        }
        if let Some(index) = self.walk.index.checked_sub(1) {
            let Some(at) = self.indexed(windows, index).filter(|at| *at != 0) else { return false };
            if let Some(entry) = self.entry(windows, at) {
                (self.walk.entry, self.walk.seqnum) = (entry.at, entry.seqnum);
            }
        }
        true
    }

    /// Returns the offset in item `index` of the current array.
    fn indexed(&self, windows: &mut Windows, index: u64) -> Option<u64> {
        let at = ARRAY_LEN as u64 + index.saturating_mul(self.header.array_item_len() as u64);
        self.item(windows, self.walk.array.saturating_add(at))
    }

    fn give(&mut self, entry: Entry) -> Step {
        self.walk.taken = self.walk.taken.saturating_add(1);
        self.walk.entry = entry.at;
        self.walk.seqnum = entry.seqnum;
        Step::Entry(entry)
    }

    /// Ends the entry arrays. If entries are missing, they are searched for.
    fn leave_arrays(&mut self, windows: &mut Windows) -> Step {
        match self.walk.entry {
            0 => self.search(windows, self.header.len),
            last => self.search(windows, last),
        }
    }

    /// Searches for an entry among the objects from `at` on. Where there is no object, the next one
    /// may begin eight bytes later; zeros are skipped.
    fn search(&mut self, windows: &mut Windows, at: u64) -> Step {
        let mut at = at.checked_next_multiple_of(8).unwrap_or(u64::MAX);
        let missing = self.header.entries.saturating_sub(self.walk.taken);
        let end = match self.header.tail_object {
            tail if tail > self.walk.entry && tail < self.bytes.end() => tail.saturating_add(1),
            _ => self.bytes.end(),
        };
        if missing == 0 {
            self.walk.object = DONE;
            return Step::End;
        }
        while at < end && self.walk.left > 0 && !windows.is_late() {
            let next = windows.skip_zeros(&self.bytes, at);
            if next > at {
                // A hole costs as much as its last window.
                self.walk.left = self.walk.left.saturating_sub(next.saturating_sub(at).min(WINDOW as u64));
                at = next;
                continue;
            }
            let mut buf = [0; OBJECT_LEN];
            let object = match windows.copy(&self.bytes, at, &mut buf) {
                true => Object::parse(&buf).filter(|object| format::is_object(&buf) && self.fits(at, object)),
                false => None,
            };
            let is_entry = object.is_some_and(|object| object.kind == format::ENTRY) && at > self.walk.entry;
            let entry =
                if is_entry { self.entry(windows, at).filter(|entry| entry.seqnum > self.walk.seqnum) } else { None };
            let len = if is_entry && entry.is_none() { 8 } else { object.map_or(8, |object| object.len) };
            at = at.saturating_add(len.checked_next_multiple_of(8).unwrap_or(len));
            self.walk.left = self.walk.left.saturating_sub(len.min(OBJECT_COST));
            if let Some(entry) = entry {
                self.walk.object = Some(at);
                return self.give(entry);
            }
        }
        self.walk.object = DONE;
        self.walk.taken = self.header.entries;
        Step::Lost(self.walk.entry, self.is_count_known.then_some(missing))
    }

    /// Returns the offset in the item at `at` of an entry object or entry array object.
    pub fn item(&self, windows: &mut Windows, at: u64) -> Option<u64> {
        if let Some(offset) = self.header.item_offset(windows.at(&self.bytes, at)) {
            return Some(offset);
        }
        // The item crosses the border of a window, or the end of the file.
        let mut item = [0; 8];
        let item = item.get_mut(..if self.header.compact { 4 } else { 8 })?;
        if windows.copy(&self.bytes, at, item) { self.header.item_offset(item) } else { None }
    }

    /// Returns the object at `at` if it is of this kind and lies within the file. `buf` receives
    /// its first bytes.
    pub fn object(&self, windows: &mut Windows, at: u64, kind: u8, buf: &mut [u8]) -> Option<Object> {
        if at < self.header.len || !at.is_multiple_of(8) || !windows.copy(&self.bytes, at, buf) {
            return None;
        }
        let object = Object::parse(buf).filter(|object| object.kind == kind && object.len >= buf.len() as u64)?;
        self.fits(at, &object).then_some(object)
    }

    fn fits(&self, at: u64, object: &Object) -> bool {
        at.checked_add(object.len).is_some_and(|end| end <= self.bytes.end())
    }

    fn entry(&self, windows: &mut Windows, at: u64) -> Option<Entry> {
        let mut buf = [0; ENTRY_LEN];
        let object = self.object(windows, at, format::ENTRY, &mut buf)?;
        let items = object.len.saturating_sub(ENTRY_LEN as u64) / self.header.entry_item_len() as u64;
        Some(Entry {
            file: self.bytes.number(),
            at,
            seqnum: format::u64_at(&buf, 16).filter(|n| *n != 0)?,
            realtime: format::u64_at(&buf, 24)?,
            monotonic: format::u64_at(&buf, 32)?,
            boot_id: format::id_at(&buf, 40)?,
            xor_hash: format::u64_at(&buf, 56)?,
            items: u32::try_from(items).ok().filter(|n| (1..=ITEMS_MAX).contains(&(*n).into()))?,
        })
    }

    fn next_array(&mut self, windows: &mut Windows) -> bool {
        let at = self.walk.next_array;
        if at <= self.walk.array {
            return false;
        }
        let mut buf = [0; ARRAY_LEN];
        let Some(object) = self.object(windows, at, format::ENTRY_ARRAY, &mut buf) else { return false };
        let count = object.len.saturating_sub(ARRAY_LEN as u64) / self.header.array_item_len() as u64;
        let next_array = format::u64_at(&buf, 16).unwrap_or(0);
        self.walk = Walk { array: at, next_array, index: 0, count, ..self.walk };
        count > 0
    }
}

impl Walk {
    fn start(header: &Header) -> Self {
        let next_array = header.entry_array;
        Self { array: 0, next_array, index: 0, count: 0, taken: 0, entry: 0, seqnum: 0, object: None, left: SEARCH_MAX }
    }
}
