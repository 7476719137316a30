//! Entry, allocator and panic handler of the binary; nothing else.
#![cfg_attr(not(test), no_std)]
#![cfg_attr(not(test), no_main)]
#![cfg(not(test))]

use core::ffi::{c_char, c_int};

// SAFETY: the only one, and no thread is ever started.
#[global_allocator]
static ALLOCATOR: rdreport::sys::alloc::Heap = unsafe { rdreport::sys::alloc::Heap::new() };

/// Called by musl's `crt1.o`.
///
/// # Safety
/// `argv` holds `argc` C strings that live as long as the process, as the C start-up code guarantees.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn main(argc: c_int, argv: *const *const c_char) -> c_int {
    // SAFETY: the caller is the C start-up code, whose contract is the one asked for.
    let args = unsafe { rdreport::sys::process::Args::new(argc, argv) };
    rdreport::run::main(args).into()
}

/// Ignores what happened and where, so that no location and no text of a panic is linked (57 KB).
#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    rdreport::sys::process::die()
}

/// The prebuilt `core` and `alloc` refer to it; with panic=abort it is never called.
#[unsafe(no_mangle)]
pub extern "C" fn rust_eh_personality() {}

/// As above.
#[unsafe(no_mangle)]
pub extern "C" fn _Unwind_Resume() -> ! {
    rdreport::sys::process::die()
}
