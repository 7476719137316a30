//! One journal file: its entries in the order in which they were written, by way of the entry arrays.
//!
//! Specification: JOURNAL_FILE_FORMAT, "Entry Array Objects". Offsets come from the file and may be anything: entries and arrays must lie
//! at growing offsets, as a writer that only appends leaves them, so that no chain can loop. Where the chain is broken before all entries
//! were found, the objects behind the last one are gone through one by one, which finds entries in the same order.

use crate::journal::format::{self, ARRAY_LEN, ENTRY_LEN, Header, Id, OBJECT_LEN, Object};
use crate::journal::window::{Bytes, WINDOW, Windows};
use alloc::boxed::Box;

/// Bytes of one file in which entries are looked for beyond the entry arrays: as large as journald makes a file by default. Holes and
/// whole objects do not count.
const SEARCH_MAX: u64 = 128 << 20;
/// What an object costs of these, however large it is.
const OBJECT_COST: u64 = 64;
/// Bytes of the smallest entry with its place in an entry array, by which a header's count of entries is told from nonsense.
const ENTRY_MIN: u64 = ENTRY_LEN as u64 + 8;

/// No journal file is larger: journald's have 128 MiB by default, and up to 4 GiB in its newer layout.
const FILE_MAX: u64 = 64 << 30;

/// Fields of one entry that are looked at. journald takes 1024 and adds its own.
const ITEMS_MAX: u64 = 4096;

/// An open journal file and the place in it.
pub struct JournalFile {
    /// Its content.
    pub bytes: Bytes,
    /// Its path below the root, without a `/` in front.
    pub path: Box<[u8]>,
    /// Its header when it was opened.
    pub header: Header,
    /// Whether the header promised more entries than the file has room for. Then nobody knows how many there were.
    is_count_known: bool,
    /// Entries that are passed over at the beginning.
    skip: u64,
    walk: Walk,
}

/// An entry without its fields.
#[derive(Clone, Copy, Default, Debug)]
pub struct Entry {
    /// Number of the file.
    pub file: u16,
    /// Where it lies in it.
    pub at: u64,
    /// Its sequence number.
    pub seqnum: u64,
    /// When it was received, µs since 1970.
    pub realtime: u64,
    /// When it was received, µs since boot.
    pub monotonic: u64,
    /// Which boot.
    pub boot_id: Id,
    /// A hash over its fields.
    pub xor_hash: u64,
    /// Number of its fields.
    pub items: u32,
}

/// What a step along the entries found.
pub enum Step {
    /// An entry.
    Entry(Entry),
    /// An entry that cannot be read, at this offset.
    Bad(u64),
    /// The rest cannot be reached: where, and how many entries that are, if the header can be believed.
    Lost(u64, Option<u64>),
    /// All were given.
    End,
}

/// A place among the entries.
#[derive(Clone, Copy)]
struct Walk {
    /// The array that is read, and the next one (0: none).
    array: u64,
    next_array: u64,
    /// Items of `array` given and in all.
    index: u64,
    count: u64,
    /// Entries given or counted as bad.
    taken: u64,
    /// The last entry given, and its sequence number.
    entry: u64,
    seqnum: u64,
    /// The object to go on from, once the arrays are broken; [`DONE`] at the end.
    object: Option<u64>,
    /// Bytes that may still be searched.
    left: u64,
}

/// Past every object.
const DONE: Option<u64> = Some(u64::MAX);

impl JournalFile {
    /// At the first entry of a file with this header.
    pub fn new(bytes: Bytes, path: Box<[u8]>, mut header: Header) -> Self {
        // A file that was cut is shorter than its header knows.
        let most = bytes.end().max(header.tail_object).min(FILE_MAX) / ENTRY_MIN;
        let is_count_known = header.entries <= most;
        header.entries = header.entries.min(most);
        Self { bytes, path, header, is_count_known, skip: 0, walk: Walk::start(&header) }
    }

    /// From now on gives those entries only that come behind the first `skip` ones, up to as many as the header said, and not one that was
    /// written since: it comes the next time.
    #[cfg(feature = "follow")]
    pub fn set_range(&mut self, skip: u64) {
        self.skip = skip.min(self.header.entries);
        self.header.tail_seqnum = 0;
    }

    /// Goes back to the first entry that it gives.
    pub fn rewind(&mut self, windows: &mut Windows) {
        self.walk = Walk::start(&self.header);
        if !self.pass_over(windows) {
            // The chain is broken, so they are where the walk finds them.
            self.walk = Walk::start(&self.header);
            while self.walk.taken < self.skip && !matches!(self.step(windows), Step::End) {}
        }
    }

    /// The next entry: as many as the header said there are when the file was opened, and what was written before that and is more.
    pub fn step(&mut self, windows: &mut Windows) -> Step {
        if let Some(at) = self.walk.object {
            return self.search(windows, at);
        }
        if self.walk.index == self.walk.count && !self.next_array(windows) {
            return self.leave_arrays(windows);
        }
        let at = self.indexed(windows, self.walk.index).unwrap_or(0);
        if at == 0 {
            // Not used yet; where it should be, the array is broken.
            return self.leave_arrays(windows);
        }
        let entry = if at > self.walk.entry { self.entry(windows, at) } else { None };
        let is_counted = self.walk.taken < self.header.entries;
        if !is_counted && entry.is_none_or(|entry| entry.seqnum > self.header.tail_seqnum) {
            // Written since.
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

    /// Goes over the entries to be skipped by the arrays alone, each of which is as large as all before it; gives whether they hold so many.
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

    /// The offset that item `index` of the array that is read holds.
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

    /// The arrays have no more entries. If there should be some, they are looked for.
    fn leave_arrays(&mut self, windows: &mut Windows) -> Step {
        match self.walk.entry {
            0 => self.search(windows, self.header.len),
            last => self.search(windows, last),
        }
    }

    /// Looks for an entry among the objects from `at` on. Where no object is, eight bytes further on may be one; zeros are none.
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
                // A hole costs what its last window does.
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

    /// The offset in the item of an entry or entry array object at `at`.
    pub fn item(&self, windows: &mut Windows, at: u64) -> Option<u64> {
        if let Some(offset) = self.header.item_offset(windows.at(&self.bytes, at)) {
            return Some(offset);
        }
        // It lies across a window's border, or at the end.
        let mut item = [0; 8];
        let item = item.get_mut(..if self.header.compact { 4 } else { 8 })?;
        if windows.copy(&self.bytes, at, item) { self.header.item_offset(item) } else { None }
    }

    /// The object at `at`, if it is of this kind and lies within the file; `buf` gets its first bytes.
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
