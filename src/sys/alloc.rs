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

/// The global allocator of the binary. There must be one alone: it owns the region.
pub struct Heap(UnsafeCell<Option<List>>);

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
}

// SAFETY: `linked_list_allocator` gives blocks of the region that fit their layout and do not overlap, and null where none is left.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: with one thread, and no allocation within this function, the list is borrowed once at a time; the region is used by
        // nothing else, as `new` demands.
        unsafe {
            let list = (*self.0.get()).get_or_insert_with(|| List::new(BYTES.0.get().cast(), REGION));
            list.allocate_first_fit(layout).map_or(null_mut(), NonNull::as_ptr)
        }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the list is borrowed as above; the caller gives back what `alloc` returned, with its layout.
        unsafe {
            if let (Some(list), Some(ptr)) = (&mut *self.0.get(), NonNull::new(ptr)) {
                list.deallocate(ptr, layout);
            }
        }
    }
}
