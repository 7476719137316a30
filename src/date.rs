//! Dates: RFC 3339 times, and calendar dates as seconds since 1970.

/// Length of an RFC 3339 time in UTC with whole seconds.
pub const TIME_LEN: usize = 20;

/// Formats seconds since 1970 as an RFC 3339 time. Times after the year 9999 become its last
/// second.
pub fn rfc3339(seconds: u64) -> [u8; TIME_LEN] {
    /// 9999-12-31T23:59:59Z.
    const LAST: u64 = 253_402_300_799;
    let seconds = seconds.min(LAST);
    let (day, rest) = (seconds / 86_400, seconds % 86_400);
    // Converts days to a date of the proleptic Gregorian calendar, in eras of 400 years that begin
    // on 1 March.
    let shifted = day + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let mut out = *b"0000-00-00T00:00:00Z";
    for (at, width, mut n) in
        [(0, 4, year), (5, 2, month), (8, 2, day), (11, 2, rest / 3600), (14, 2, rest / 60 % 60), (17, 2, rest % 60)]
    {
        for i in (at..at + width).rev() {
            out[i] = b'0' + (n % 10) as u8;
            n /= 10;
        }
    }
    out
}

/// Returns the seconds since 1970 of a date and time in UTC: year, month, day, hour, minute,
/// second. Times before 1970 become 0; an invalid date is `None`.
pub fn since_1970([year, month, day, hour, minute, second]: [u64; 6]) -> Option<u64> {
    if year > 9999 || !(1..=12).contains(&month) || !(1..=31).contains(&day) || hour > 23 || minute > 59 || second > 60
    {
        return None;
    }
    // Counts days from 0000-03-01, so that the leap day is the last of its year; 719468 days lie
    // before 1970.
    let (year, month) =
        if month > 2 { (year, month.saturating_sub(3)) } else { (year.checked_sub(1)?, month.saturating_add(9)) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day.saturating_sub(1);
    let days = days.saturating_sub(719_468);
    Some(days * 86_400 + hour * 3600 + minute * 60 + second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_799, "2000-02-29T23:59:59Z"),
            (1_767_323_045, "2026-01-02T03:04:05Z"),
            (4_102_444_799, "2099-12-31T23:59:59Z"),
            (u64::MAX, "9999-12-31T23:59:59Z"),
        ] {
            assert_eq!(core::str::from_utf8(&rfc3339(seconds)).unwrap(), text);
        }
    }
}
