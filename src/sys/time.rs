//! Time: a deadline on the monotonic clock, and the wall clock.

use rustix::time::{ClockId, clock_gettime};

/// Milliseconds on the clock that runs since boot, suspended time included.
pub fn monotonic_ms() -> u64 {
    let t = clock_gettime(ClockId::Boottime);
    (t.tv_sec as u64).saturating_mul(1000).saturating_add(t.tv_nsec as u64 / 1_000_000)
}

/// Seconds since 1970 by the system's clock, which in an initramfs may be wrong.
pub fn realtime_s() -> u64 {
    u64::try_from(clock_gettime(ClockId::Realtime).tv_sec).unwrap_or(0)
}

/// A point in time on the boot-time clock: handed down to everything that waits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline(u64);

impl Deadline {
    /// `ms` milliseconds from now.
    pub fn after_ms(ms: u64) -> Self {
        Self(monotonic_ms().saturating_add(ms))
    }

    /// Milliseconds until then; 0 once it has passed.
    pub fn left_ms(self) -> u64 {
        self.0.saturating_sub(monotonic_ms())
    }

    /// Whether it has passed.
    pub fn passed(self) -> bool {
        self.left_ms() == 0
    }

    /// The sooner of this and `ms` milliseconds from now: a step within a whole.
    pub fn step_ms(self, ms: u64) -> Self {
        self.min(Self::after_ms(ms))
    }
}
