//! Time: a deadline on the monotonic clock, and the wall clock.

use core::ffi::c_int;

/// `struct timespec` of 64-bit targets, on which both its parts are as long as a pointer.
#[repr(C)]
struct Timespec {
    seconds: i64,
    nanoseconds: i64,
}

unsafe extern "C" {
    // The libc's own, not rustix': that one brings a second reader of the vDSO (2.5 KB).
    fn clock_gettime(clock: c_int, time: *mut Timespec) -> c_int;
}

#[cfg(not(target_pointer_width = "64"))]
compile_error!("rdreport is for 64-bit machines: the C structures here are theirs");

/// `CLOCK_REALTIME` and `CLOCK_BOOTTIME` (Linux' `time.h`).
const REALTIME: c_int = 0;
const BOOTTIME: c_int = 7;

/// Milliseconds on the clock that runs since boot, suspended time included.
pub fn monotonic_ms() -> u64 {
    let t = now(BOOTTIME);
    (t.seconds as u64).saturating_mul(1000).saturating_add(t.nanoseconds as u64 / 1_000_000)
}

/// Seconds since 1970 by the system's clock, which in an initramfs may be wrong.
pub fn realtime_s() -> u64 {
    u64::try_from(now(REALTIME).seconds).unwrap_or(0)
}

/// The nanoseconds within the second of the clock that runs since boot.
pub(super) fn boot_nanoseconds() -> i64 {
    now(BOOTTIME).nanoseconds
}

fn now(clock: c_int) -> Timespec {
    let mut time = Timespec { seconds: 0, nanoseconds: 0 };
    // SAFETY: `time` is a valid `struct timespec` to write to; on an error it stays zero.
    unsafe { clock_gettime(clock, &mut time) };
    time
}

/// A point in time on the boot-time clock: handed down to everything that waits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline(u64);

impl Deadline {
    /// None.
    pub const NEVER: Self = Self(u64::MAX);

    /// `ms` milliseconds from now.
    #[inline(never)] // with a hundred callers of this and `step_ms`, it is half a KB
    pub fn after_ms(ms: u64) -> Self {
        Self(monotonic_ms().saturating_add(ms))
    }

    /// `ms` milliseconds after the boot.
    pub fn after_boot_ms(ms: u64) -> Self {
        Self(ms)
    }

    /// `ms` milliseconds after this.
    pub fn later_ms(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms))
    }

    /// Milliseconds until then; 0 once it has passed.
    #[inline(never)]
    pub fn left_ms(self) -> u64 {
        self.0.saturating_sub(monotonic_ms())
    }

    /// The same as what `poll` takes for a timeout.
    pub(super) fn left(self) -> rustix::event::Timespec {
        let left = self.left_ms();
        rustix::event::Timespec { tv_sec: (left / 1000) as _, tv_nsec: ((left % 1000) * 1_000_000) as _ }
    }

    /// Whether it has passed.
    pub fn passed(self) -> bool {
        self.left_ms() == 0
    }

    /// The sooner of this and `ms` milliseconds from now: a step within a whole.
    #[inline(never)]
    pub fn step_ms(self, ms: u64) -> Self {
        self.min(Self::after_ms(ms))
    }
}
