//! The process: arguments, signals, its end.

use core::ffi::{CStr, c_char, c_int};

unsafe extern "C" {
    fn signal(number: c_int, handler: usize) -> usize;
    fn _exit(status: c_int) -> !;
    #[cfg(not(test))]
    fn abort() -> !;
}

/// `SIGPIPE` on every Linux architecture but none that Rust supports differs.
const SIGPIPE: c_int = 13;
/// `SIG_IGN`.
const IGNORE: usize = 1;

/// The command's arguments, the program's own name left out.
#[derive(Clone, Copy)]
pub struct Args {
    count: usize,
    vector: *const *const c_char,
}

impl Args {
    /// Wraps what the C start-up code gave to `main`.
    ///
    /// # Safety
    /// `vector` holds `count` pointers to C strings that live as long as the process.
    pub unsafe fn new(count: c_int, vector: *const *const c_char) -> Self {
        Self { count: usize::try_from(count).unwrap_or(0), vector }
    }

    /// The argument at `index`; 0 is the first one after the program's name.
    pub fn at(self, index: usize) -> Option<&'static [u8]> {
        let index = index.checked_add(1).filter(|i| *i < self.count)?;
        // SAFETY: `index` is below the count that `new` was promised, and the strings live as long as the process.
        unsafe { Some(CStr::from_ptr(*self.vector.add(index)).to_bytes()) }
    }
}

/// A closed pipe or socket becomes an error instead of the end of the process.
pub fn ignore_sigpipe() {
    // SAFETY: SIG_IGN is a valid disposition, and no handler of ours is replaced.
    unsafe { signal(SIGPIPE, IGNORE) };
}

/// Ends the process with `status`; nothing is run at exit.
pub fn exit(status: u8) -> ! {
    // SAFETY: takes any status and does not return.
    unsafe { _exit(status.into()) }
}

/// Ends the process for a defect of our own.
#[cfg(not(test))]
pub fn die() -> ! {
    // SAFETY: does not return.
    unsafe { abort() }
}
