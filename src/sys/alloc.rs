//! Memory: a region of fixed size, managed by `linked_list_allocator` (musl's own `malloc` costs 7 KB more). Only the pages of it that were
//! used count as resident, and no journal and no answer can make the process larger than the region.

use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::ptr::{NonNull, null_mut};
use linked_list_allocator::Heap as List;

/// Bytes of the region: three times what any journal is known to need. Whoever needs more has a defect, and ends.
const REGION: usize = 4 << 20;

/// Zeros, which take no room in the file.
#[repr(align(16))]
struct Region(UnsafeCell<[u8; REGION]>);

// SAFETY: only `Heap` touches it, of which there is one, in a process of one thread.
unsafe impl Sync for Region {}

static BYTES: Region = Region(UnsafeCell::new([0; REGION]));

/// What the list writes behind a block: the block is rounded up to two words, and the head of the hole that follows takes two more.
const BEHIND: usize = 4 * size_of::<usize>();

/// The global allocator of the binary. There must be one alone: it owns the region.
pub struct Heap(UnsafeCell<Option<State>>);

struct State {
    list: List,
    /// The address from which on nothing was ever written: zeros, of which no page is resident.
    fresh: usize,
}

// SAFETY: the process has one thread; a child of `fork` has a copy of its own.
unsafe impl Sync for Heap {}

impl Heap {
    /// Nothing is allocated yet.
    ///
    /// # Safety
    /// Called once in a program, which never has a second thread.
    pub const unsafe fn new() -> Self {
        Self(UnsafeCell::new(None))
    }

    /// A block, or null; and the address from which on it is of zeros.
    fn take(&self, layout: Layout) -> (*mut u8, usize) {
        let region = BYTES.0.get().cast::<u8>();
        // SAFETY: with one thread, and no allocation within this function, the state is borrowed once at a time; the region is used by
        // nothing else, as `new` demands.
        unsafe {
            let state = (*self.0.get()).get_or_insert_with(|| State {
                list: List::new(region, REGION),
                fresh: region.addr().saturating_add(BEHIND),
            });
            let fresh = state.fresh;
            let block = state.list.allocate_first_fit(layout).map_or(null_mut(), NonNull::as_ptr);
            state.fresh = fresh.max(block.addr().saturating_add(layout.size()).saturating_add(BEHIND));
            (block, fresh)
        }
    }
}

// SAFETY: `linked_list_allocator` gives blocks of the region that fit their layout and do not overlap, and null where none is left.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.take(layout).0
    }

    /// Writes no zeros where there are some: buffers that are larger than what comes into them take the pages alone that are used.
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let (block, fresh) = self.take(layout);
        if !block.is_null() {
            let used = fresh.saturating_sub(block.addr()).min(layout.size());
            // SAFETY: `used` is at most the size of the block, which is nobody else's yet.
            unsafe { block.write_bytes(0, used) };
        }
        block
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the state is borrowed as above; the caller gives back what `alloc` returned, with its layout.
        unsafe {
            if let (Some(state), Some(ptr)) = (&mut *self.0.get(), NonNull::new(ptr)) {
                state.list.deallocate(ptr, layout);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn blocks_are_apart_and_zeros_are_zeros() {
        // SAFETY: this test alone uses the region, in one thread; all else in it has the allocator of `std`.
        let heap = unsafe { Heap::new() };
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut below = |n: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state % n) as usize
        };
        let mut held: Vec<(&mut [u8], Layout)> = Vec::new();
        for _ in 0..30_000 {
            if held.len() < 48 && below(3) > 0 {
                let most = if below(16) == 0 { 40_000 } else { 300 };
                let size = 1 + below(most);
                let layout = Layout::from_size_align(size, 1 << below(7)).unwrap();
                let is_zeroed = below(2) == 0;
                // SAFETY: the layout is of no size 0; the block, which is initialised before it is read, is nobody else's until it is given
                // back.
                let block = unsafe {
                    let block = if is_zeroed { heap.alloc_zeroed(layout) } else { heap.alloc(layout) };
                    assert!(!block.is_null() && block.addr() % layout.align() == 0);
                    if !is_zeroed {
                        block.write_bytes(0, size);
                    }
                    core::slice::from_raw_parts_mut(block, size)
                };
                assert!(block.iter().all(|byte| *byte == 0), "{layout:?}");
                block.fill(0xff);
                held.push((block, layout));
            } else if !held.is_empty() {
                let (block, layout) = held.swap_remove(below(held.len() as u64));
                assert!(block.iter().all(|byte| *byte == 0xff), "{layout:?}");
                // SAFETY: it came from this heap with this layout, and is used no more.
                unsafe { heap.dealloc(block.as_mut_ptr(), layout) };
            }
        }
    }
}
