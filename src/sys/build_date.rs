//! The day on which this program was built, which `build.rs` says: no clock that is right shows an earlier time.

/// Seconds since 1970 of the day on which this was built: no certificate is checked against an earlier time.
pub const BUILD_DATE_S: u64 = seconds(env!("RDREPORT_BUILD_DATE"));

/// Whether a clock that shows `time_s` may be right: neither before this program's making, nor so far behind it that nobody would still
/// use it.
pub fn is_clock_plausible(time_s: u64) -> bool {
    (BUILD_DATE_S..BUILD_DATE_S.saturating_add(LIFE_S)).contains(&time_s)
}

/// Seconds for which one build may be in use: 30 years.
const LIFE_S: u64 = 30 * 365 * 86_400;

/// A number in decimal, at compile time.
const fn seconds(text: &str) -> u64 {
    let (bytes, mut at, mut number) = (text.as_bytes(), 0, 0);
    while at < bytes.len() {
        number = number * 10 + (bytes[at] - b'0') as u64;
        at += 1;
    }
    number
}
