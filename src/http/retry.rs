//! What is tried again, and when: exponential backoff with jitter, or what the server asks for in `Retry-After` (RFC 9110 section 10.2.3).
//! Nothing waits past the deadline of the whole.

use crate::date::since_1970;
use crate::error::{Error, HttpError, NetError, TlsError};
use crate::sys::random;
use crate::sys::sock::{self, Ready};
use crate::sys::time::Deadline;
use crate::text;
use heapless::Vec;

/// Milliseconds before the second try; before each further one twice as many.
const FIRST_MS: u64 = 500;
/// Milliseconds between two tries, at most: soon enough after a server has come back.
const MOST_MS: u64 = 15_000;
/// Milliseconds that must be left for another try to have a chance.
const LEAST_MS: u64 = 200;
/// Milliseconds for which a peer may keep us waiting within one try, at most and at least.
const PATIENCE_MS: (u64, u64) = (2_000, 15_000);

/// How often it was tried, and why it was given up.
#[derive(Clone, Copy, Default)]
pub struct Tries {
    /// Tries that were begun.
    pub count: u32,
    /// Whether the first try is the only one.
    pub is_single: bool,
    /// Seconds that the server asked to be left alone for, when there is not so much time.
    pub asked_s: Option<u64>,
}

impl Tries {
    /// After a try that failed with `error`: waits for the next one and gives `true`, or `false` when there is none. `asked_s` is what
    /// the server asked for.
    pub fn wait(&mut self, error: Error, asked_s: Option<u64>, deadline: Deadline) -> bool {
        is_transient(error) && self.pause(asked_s, deadline)
    }

    /// Waits as [`Tries::wait`] does, for a caller that knows what may pass.
    pub fn pause(&mut self, asked_s: Option<u64>, deadline: Deadline) -> bool {
        if self.is_single {
            return false;
        }
        let left = deadline.left_ms();
        let mut wait = backoff_ms(self.count);
        // A last try shortly before the end is worth more than a wait beyond it.
        wait = wait.min(left / 2);
        if let Some(asked_s) = asked_s {
            wait = wait.max(asked_s.saturating_mul(1000));
            if wait >= left {
                self.asked_s = Some(asked_s);
                return false;
            }
        }
        if left < LEAST_MS {
            return false;
        }
        sock::wait(&mut core::iter::empty(), Ready::In, Deadline::after_ms(wait));
        true
    }
}

/// Until when a peer may keep us waiting for the next step of a try: half of what is left, so that there is time for another one.
pub fn patience(deadline: Deadline) -> Deadline {
    deadline.step_ms((deadline.left_ms() / 2).clamp(PATIENCE_MS.0, PATIENCE_MS.1))
}

/// Whether the same may end well in a moment.
pub fn is_transient(error: Error) -> bool {
    match error {
        Error::Net(e) => match e {
            NetError::NameserverSilent
            | NetError::NameserverFailed(_)
            | NetError::NameserverHalf
            | NetError::Connect(_)
            | NetError::ConnectTimeout
            | NetError::Send(_)
            | NetError::Recv(_)
            | NetError::Timeout
            | NetError::PeerSpoke => true,
            // These were waited for already, or will not change.
            NetError::Near
            | NetError::NoRoute
            | NetError::NoInterface
            | NetError::NoTime
            | NetError::NoNameserver
            | NetError::NoLookup
            | NetError::Unresolved => false,
        },
        // 80 is an internal error there (RFC 8446 section 6).
        Error::Tls(e) => {
            matches!(e, TlsError::HandshakeCut | TlsError::Truncated | TlsError::BadRecord | TlsError::Alert(80))
        }
        Error::Http(HttpError::Status(status) | HttpError::Proxy(status)) => {
            // What is not implemented, not spoken or not allowed will not be in a moment.
            matches!(status, 408 | 425 | 429 | 500..=599) && !matches!(status, 501 | 505 | 506 | 510 | 511)
        }
        Error::Http(e) => matches!(e, HttpError::Cut | HttpError::Answered | HttpError::WrongLength),
        Error::Cloud(_) | Error::Journal(_) | Error::Fallback(_) | Error::Gzip | Error::Output(_) => false,
    }
}

/// Seconds that a `Retry-After` asks for: a number of them, or a date. The latter is compared with the answer's own `Date`, since our
/// clock may be wrong.
pub fn asked_s(value: &str, date: Option<&str>) -> Option<u64> {
    match value.bytes().all(|b| b.is_ascii_digit()) {
        // More than fits is very long.
        true => (!value.is_empty()).then(|| text::number(value.as_bytes()).unwrap_or(u64::MAX)),
        false => http_date(value)?.checked_sub(http_date(date?)?).or(Some(0)),
    }
}

/// Seconds since 1970 of an HTTP date in any of its three forms (RFC 9110 section 5.6.7).
pub fn http_date(text: &str) -> Option<u64> {
    // Sun, 06 Nov 1994 08:49:37 GMT; Sunday, 06-Nov-94 08:49:37 GMT; Sun Nov  6 08:49:37 1994
    let parts = text.split([' ', ',', '-', ':']).filter(|part| !part.is_empty());
    let parts: Vec<&str, 8> = parts.skip(1).take(7).collect();
    let number = |at: usize| -> Option<u64> {
        let digits = parts.get(at).filter(|part| part.len() <= 4)?;
        text::number(digits.as_bytes())
    };
    let is_asctime = number(0).is_none();
    let (day, month, year, time) = if is_asctime { (1, 0, 5, 2) } else { (0, 1, 2, 3) };
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let month = parts.get(month).and_then(|name| MONTHS.iter().position(|month| month == name))?;
    let year = match number(year)? {
        year @ 0..70 => year.saturating_add(2000),
        year @ 70..100 => year.saturating_add(1900),
        year => year,
    };
    since_1970([
        year,
        (month as u64).saturating_add(1),
        number(day)?,
        number(time)?,
        number(time.saturating_add(1))?,
        number(time.saturating_add(2))?,
    ])
}

/// Milliseconds between try number `count` and the next, a quarter more or less, so that many machines do not come back at once.
pub fn backoff_ms(count: u32) -> u64 {
    let step = FIRST_MS.checked_shl(count.saturating_sub(1).min(16)).unwrap_or(MOST_MS).min(MOST_MS);
    let mut byte = [128];
    let _ = random::fill(&mut byte);
    let [byte] = byte;
    step.saturating_mul(384 + u64::from(byte)) / 512
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_doubles_up_to_its_limit_and_differs() {
        for (count, step) in [(1, 500), (2, 1000), (3, 2000), (5, 8000), (6, 15_000), (7, 15_000), (u32::MAX, 15_000)] {
            let waits: Vec<u64, 64> = (0..64).map(|_| backoff_ms(count)).collect();
            assert!(waits.iter().all(|w| (step * 3 / 4..=step * 5 / 4).contains(w)), "{count}: {waits:?}");
            assert!(waits.iter().any(|w| w != &waits[0]), "{count}");
        }
    }

    #[test]
    fn dates_of_all_three_forms() {
        for text in ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"] {
            assert_eq!(http_date(text), Some(784_111_777), "{text}");
        }
        for text in [
            "",
            "Sun",
            "Sun, 06 Nov 1994",
            "Sun, 06 Xxx 1994 08:49:37 GMT",
            "Sun, 06 Nov 99999 08:49:37 GMT",
            "Sun, 32 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 24:49:37 GMT",
            "120",
        ] {
            assert_eq!(http_date(text), None, "{text}");
        }
    }

    #[test]
    fn what_a_server_asks_for() {
        let date = Some("Sun, 06 Nov 1994 08:49:37 GMT");
        for (value, date, expected) in [
            ("120", None, Some(120)),
            ("0", None, Some(0)),
            ("99999999999999999999999", None, Some(u64::MAX)),
            ("Sun, 06 Nov 1994 08:50:07 GMT", date, Some(30)),
            ("Sun, 06 Nov 1994 08:49:07 GMT", date, Some(0)),
            ("Sun, 06 Nov 1994 08:50:07 GMT", None, None),
            ("soon", date, None),
            ("", date, None),
            ("-1", date, None),
        ] {
            assert_eq!(asked_s(value, date), expected, "{value}");
        }
    }

    #[test]
    fn tries_end_with_the_deadline() {
        let (cut, deadline) = (Error::Http(HttpError::Cut), Deadline::after_ms(100));
        let mut tries = Tries { count: 1, ..Tries::default() };
        assert!(!tries.wait(cut, None, deadline));
        assert_eq!(tries.asked_s, None);
        assert!(!tries.wait(cut, Some(1), Deadline::after_ms(900)));
        assert_eq!(tries.asked_s, Some(1));
        assert!(!tries.wait(Error::Http(HttpError::Status(404)), None, Deadline::after_ms(60_000)));
        let deadline = Deadline::after_ms(600);
        assert!(tries.wait(cut, None, deadline));
        assert!(!deadline.passed());
    }
}
