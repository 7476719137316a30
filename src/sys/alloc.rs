//! Memory from musl's `malloc`, which gives freed pages back and needs no code of ours.

use core::alloc::{GlobalAlloc, Layout};
use core::ffi::c_void;
use core::ptr::null_mut;

/// Alignment that `malloc` itself guarantees on every 64-bit target (musl: `UNIT`, 16 bytes).
const MALLOC_ALIGN: usize = 16;

unsafe extern "C" {
    fn malloc(size: usize) -> *mut c_void;
    fn realloc(ptr: *mut c_void, size: usize) -> *mut c_void;
    fn free(ptr: *mut c_void);
    fn aligned_alloc(align: usize, size: usize) -> *mut c_void;
}

/// The global allocator of the binary.
pub struct Musl;

// SAFETY: musl's functions meet the contract of `GlobalAlloc` for layouts up to MALLOC_ALIGN; larger alignments go through
// `aligned_alloc`, whose memory `free` takes as well, and are grown by a copy.
unsafe impl GlobalAlloc for Musl {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: both take any size; the alignment of a Layout is a power of two.
        unsafe {
            match layout.align() <= MALLOC_ALIGN {
                true => malloc(layout.size()).cast(),
                false => aligned_alloc(layout.align(), layout.size()).cast(),
            }
        }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, _: Layout) {
        // SAFETY: the caller gives back what `alloc` or `realloc` of this allocator returned.
        unsafe { free(ptr.cast()) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if layout.align() > MALLOC_ALIGN {
            let Ok(new) = Layout::from_size_align(size, layout.align()) else { return null_mut() };
            // SAFETY: a fresh allocation never overlaps the old one; the length is within both.
            unsafe {
                let to = self.alloc(new);
                if !to.is_null() {
                    core::ptr::copy_nonoverlapping(ptr, to, size.min(layout.size()));
                    self.dealloc(ptr, layout);
                }
                return to;
            }
        }
        // SAFETY: `ptr` came from `malloc`, as its alignment shows.
        unsafe { realloc(ptr.cast(), size).cast() }
    }
}
