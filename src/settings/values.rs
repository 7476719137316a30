//! Forms of the values: times, sizes, lists of states, flags and texts. Each parser returns a typed
//! value or [`Refused`].

use crate::settings::{State, States};
use crate::text;
use heapless::VecView;

/// Longest time that a setting may have, in seconds: a day.
const SECONDS_MAX: u64 = 86_400;

/// Why a value was not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// A word is not one of the known words.
    Unknown,
    /// The value is not a time, or is out of range.
    Time,
    /// The value is not a size, or is out of range.
    Size,
    /// The value is empty, or there is no `=`.
    Empty,
    /// The value does not have the expected form.
    Form,
    /// The list is full.
    Full,
    /// The value is not UTF-8.
    NotText,
}

/// Whether a value is certainly not a secret: a known word, or a time.
pub fn is_plain(value: &[u8]) -> bool {
    core::str::from_utf8(value)
        .is_ok_and(|value| switch(value).is_ok() || states(value).is_ok() || seconds(value).is_ok())
}

pub(super) fn push<'a>(list: &mut VecView<&'a str>, value: &'a str) -> Result<(), Refused> {
    match value {
        "" => Err(Refused::Empty),
        // Ignore duplicates, so that nothing is done twice.
        _ if list.contains(&value) => Ok(()),
        _ => list.push(value).map_err(|_| Refused::Full),
    }
}

pub(super) fn text<'a>(slot: &mut Option<&'a str>, value: &'a str) -> Result<(), Refused> {
    match value {
        "" => Err(Refused::Empty),
        _ => {
            *slot = Some(value);
            Ok(())
        }
    }
}

/// Whether `value` is `word`, in any case.
pub(super) fn is(value: &str, word: &str) -> bool {
    value.eq_ignore_ascii_case(word)
}

/// Parses a list of states, separated by commas. In a quoted list, blanks may follow the commas.
pub(super) fn states(value: &str) -> Result<States, Refused> {
    let mut bits = 0;
    let mut is_empty = true;
    for word in value.split(',').map(str::trim_ascii).filter(|word| !word.is_empty()) {
        is_empty = false;
        bits |= match State::ALL.iter().find(|state| is(word, state.as_str())) {
            Some(state) => 1 << *state as u8,
            None if is(word, "all") => States::of(&State::ALL).0,
            None if is(word, "none") => 0,
            None => return Err(Refused::Unknown),
        };
    }
    if is_empty { Err(Refused::Empty) } else { Ok(States(bits)) }
}

/// Units of time in milliseconds, as in systemd.time(7).
const TIME_UNITS: [(&str, u64); 18] = [
    ("", 1000),
    ("s", 1000),
    ("sec", 1000),
    ("second", 1000),
    ("seconds", 1000),
    ("ms", 1),
    ("msec", 1),
    ("m", 60_000),
    ("min", 60_000),
    ("minute", 60_000),
    ("minutes", 60_000),
    ("h", 3_600_000),
    ("hr", 3_600_000),
    ("hour", 3_600_000),
    ("hours", 3_600_000),
    ("d", 86_400_000),
    ("day", 86_400_000),
    ("days", 86_400_000),
];

/// Units of size, as in systemd: powers of 1024, with or without an `i`.
const SIZE_UNITS: [(&str, u64); 5] = [("", 1), ("k", 1 << 10), ("m", 1 << 20), ("g", 1 << 30), ("t", 1 << 40)];

/// Splits off the number at the start of `text`. Returns it in thousandths, rounded down.
fn thousandths(text: &str) -> Option<(u64, &str)> {
    let (whole, rest) = split_digits(text);
    let (part, rest) = match rest.strip_prefix('.') {
        Some(rest) => split_digits(rest),
        None => ("0", rest),
    };
    let part = part.bytes().chain(*b"000").take(3);
    let part = part.fold(0, |n: u64, digit| n.wrapping_mul(10).wrapping_add(u64::from(digit & 15)));
    let number = text::number::<u64>(whole.as_bytes())?.checked_mul(1000)?.checked_add(part)?;
    Some((number, rest.trim_ascii_start()))
}

fn split_digits(text: &str) -> (&str, &str) {
    text.split_at(text.bytes().take_while(u8::is_ascii_digit).count())
}

/// Parses a time in seconds, or with units: `90s`, `5min`, `1h 30m`. Rounds up to whole seconds.
pub(super) fn seconds(value: &str) -> Result<u32, Refused> {
    if value.is_empty() {
        return Err(Refused::Empty);
    }
    let add = || {
        let (mut rest, mut sum) = (value, 0u64);
        while !rest.is_empty() {
            let (number, behind) = thousandths(rest)?;
            let (unit, behind) = behind.split_at(behind.bytes().take_while(u8::is_ascii_alphabetic).count());
            let (_, ms) = TIME_UNITS.iter().find(|(name, _)| *name == unit)?;
            sum = sum.checked_add(number.checked_mul(*ms)?)?;
            rest = behind.trim_ascii_start();
        }
        Some(sum.div_ceil(1_000_000)).filter(|sum| *sum <= SECONDS_MAX)
    };
    add().map(|n| n as u32).ok_or(Refused::Time)
}

/// Parses a size in bytes, or with a unit: `512K`, `10M`, `1.5 GiB`.
pub(super) fn bytes(value: &str) -> Result<u64, Refused> {
    if value.is_empty() {
        return Err(Refused::Empty);
    }
    let read = || {
        let (number, unit) = thousandths(value)?;
        let mut unit = unit;
        for end in ["b", "B", "i"] {
            unit = unit.strip_suffix(end).unwrap_or(unit);
        }
        let (_, size) = SIZE_UNITS.iter().find(|(name, _)| is(unit, name))?;
        Some(number.checked_mul(*size)? / 1000)
    };
    // Refuse zero: other settings turn the journal off.
    read().filter(|bytes| *bytes > 0).ok_or(Refused::Size)
}

/// Parses a flag. An empty value means on.
pub(super) fn switch(value: &str) -> Result<bool, Refused> {
    let one_of = |words: [&str; 4]| words.iter().any(|word| is(value, word));
    match () {
        () if value.is_empty() || one_of(["1", "yes", "on", "true"]) => Ok(true),
        () if one_of(["0", "no", "off", "false"]) => Ok(false),
        () => Err(Refused::Unknown),
    }
}

/// Whether `name` is a valid HTTP field name (a token, RFC 9110 section 5.6.2).
pub(super) fn is_token(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
}

#[cfg(test)]
mod tests {
    use crate::settings::tests::parse;
    use crate::settings::{Action, Settings, State, States};

    #[test]
    fn times_as_systemd_has_them() {
        for (value, seconds) in [
            ("90", 90),
            ("90s", 90),
            ("5m", 300),
            ("5min", 300),
            ("2 minutes", 120),
            ("1h", 3600),
            ("1min 30s", 90),
            ("1min30", 90),
            ("1.5h", 5400),
            ("0.5min", 30),
            ("500ms", 1),
            ("1d", 86_400),
            ("24h", 86_400),
        ] {
            let line = std::format!("rd.report.timeout='{value}'");
            let (s, w) = parse(&line);
            assert_eq!((s.timeout_s, w.len()), (Some(seconds), 0), "{value}: {w:?}");
        }
        for value in [
            "5M",
            "1y",
            "25h",
            "86401",
            "-5",
            "+5",
            "1e3",
            "5 5x",
            "s",
            "m5",
            "0",
            "0s",
            ".",
            "1..5",
            "1w",
            "infinity",
            "5,",
            "18446744073709551615h",
        ] {
            let line = std::format!("rd.report.timeout='{value}'");
            let (s, w) = parse(&line);
            assert_eq!((s.timeout_s, w.len()), (None, 1), "{value}");
            assert!(
                w[0].contains(" is not a time of at most a day, such as 90, 90s, 5min or 1h; the default holds: 60"),
                "{w:?}"
            );
        }
        assert_eq!(parse("rd.report.stuck=5m rd.report.action.delay=1min").0.stuck_s, 300);
        let (s, w) = parse("rd.report.stuck=5m rd.report.stuck=off");
        assert_eq!((s.stuck_s, w.len()), (0, 0));
    }

    #[test]
    fn sizes() {
        for (value, bytes) in [
            ("4096", 4096),
            ("4M", 4 << 20),
            ("4m", 4 << 20),
            ("10MB", 10 << 20),
            ("10MiB", 10 << 20),
            ("10 Mb", 10 << 20),
            ("512k", 512 << 10),
            ("1.5G", 3 << 29),
            ("2T", 2 << 40),
            ("7B", 7),
        ] {
            let line = std::format!("rd.report.journal.max='{value}'");
            let (s, w) = parse(&line);
            assert_eq!((s.journal_max, w.len()), (Some(bytes), 0), "{value}: {w:?}");
        }
        for value in ["99999999999999999G", "0", "-1", "M", "10X", "10 M M", "1e6", "0x10"] {
            let line = std::format!("rd.report.journal.max='{value}'");
            let (s, w) = parse(&line);
            assert_eq!((s.journal_max, w.len()), (None, 1), "{value}");
        }
    }

    #[test]
    fn words_in_any_case_and_lists_with_blanks_in_quotes() {
        assert!(parse("rd.report.insecure").0.insecure && parse("rd.report.insecure=On").0.insecure);
        assert!(!parse("rd.report.insecure=1 rd.report.insecure=off").0.insecure);
        let (s, w) = parse("rd.report.on='failed, Succeeded' rd.report.action=Reboot rd.report.clock=LENIENT");
        assert_eq!((s.on, s.action, w.len()), (States::of(&[State::Failed, State::Succeeded]), Action::Reboot, 0));
        assert_eq!(parse("rd.report.on=none").0.on, States::of(&[]));
        let (s, w) = parse("rd.report.on=failed, succeeded");
        assert_eq!(s.on, States::of(&[State::Failed]));
        assert_eq!(w, ["rd.report.on: ends with a comma; a list has no blanks, or stands in quotes"]);
        for line in ["rd.report.on=", "rd.report.on=,", "rd.report.action=", "rd.report.clock", "rd.report.journal.on"]
        {
            let (s, w) = parse(line);
            assert_eq!((s.on, s.action), (Settings::default().on, Action::None));
            assert!(w.len() == 1 && w[0].contains(" is empty; expected is "), "{line}: {w:?}");
        }
    }
}
