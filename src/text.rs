//! All formatting there is: decimal, hexadecimal, base64, JSON and XML escapes, RFC 3339 times. `core::fmt` is not used (12 KB).

use crate::error::Error;
use crate::sink::Sink;

/// Text of bounded length, written into memory of the caller's. What does not fit is cut at a character's border, and remembered.
pub struct Text<'a> {
    buf: &'a mut [u8],
    len: usize,
    cut: bool,
}

impl<'a> Text<'a> {
    /// Empty text in `buf`.
    #[inline(never)] // it has fifty callers
    pub fn new(buf: &'a mut [u8]) -> Self {
        Self { buf, len: 0, cut: false }
    }

    /// What has been written.
    pub fn as_str(&self) -> &str {
        core::str::from_utf8(self.as_bytes()).unwrap_or_default()
    }

    /// What has been written.
    pub fn as_bytes(&self) -> &[u8] {
        self.buf.get(..self.len).unwrap_or_default()
    }

    /// Whether something did not fit.
    pub fn is_cut(&self) -> bool {
        self.cut
    }

    /// Appends `s`. Once something did not fit, nothing more is taken.
    pub fn str(&mut self, s: &str) -> &mut Self {
        if self.cut {
            return self;
        }
        let free = self.buf.len().saturating_sub(self.len);
        let take = floor_char_boundary(s, free);
        self.cut = take < s.len();
        let end = self.len.saturating_add(take);
        if let (Some(to), Some(from)) = (self.buf.get_mut(self.len..end), s.as_bytes().get(..take)) {
            to.copy_from_slice(from);
            self.len = end;
        }
        self
    }

    /// Appends a number in decimal.
    pub fn dec(&mut self, n: u64) -> &mut Self {
        self.str(decimal(n, &mut [0; DECIMAL_MAX]))
    }
}

impl Sink for Text<'_> {
    /// Takes what fits, and never fails: see [`Text::is_cut`]. Pieces that are not UTF-8 are left out.
    fn put(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.str(core::str::from_utf8(bytes).unwrap_or_default());
        Ok(())
    }
}

/// Digits of the largest `u64`.
pub const DECIMAL_MAX: usize = 20;

/// The number that `text` is in decimal digits, all of it and nothing else, if `T` holds it.
pub fn number<T: TryFrom<u64>>(text: &[u8]) -> Option<T> {
    digits(text, 10)?.try_into().ok()
}

/// The number that `text` is in digits of this radix, all of it and nothing else.
pub fn digits(text: &[u8], radix: u32) -> Option<u64> {
    let add = |n: u64, b: &u8| n.checked_mul(radix.into())?.checked_add(char::from(*b).to_digit(radix)?.into());
    text.iter().try_fold(0, add).filter(|_| !text.is_empty())
}

/// `n` in decimal.
pub fn decimal(mut n: u64, buf: &mut [u8; DECIMAL_MAX]) -> &str {
    let mut start = DECIMAL_MAX;
    while let Some(slot) = start.checked_sub(1).and_then(|at| buf.get_mut(at)) {
        start = start.wrapping_sub(1);
        // A tenth by a product: where the compiler builds for size, it divides, which takes five times as long.
        let tenth = (u128::from(n).wrapping_mul(0xcccc_cccc_cccc_cccd) >> 67) as u64;
        *slot = b'0' | n.wrapping_sub(tenth.wrapping_mul(10)) as u8;
        n = tenth;
        if n == 0 {
            break;
        }
    }
    buf.get(start..).and_then(|digits| core::str::from_utf8(digits).ok()).unwrap_or_default()
}

/// All hexadecimal digits of `n`, in lower case, each byte of a word at once.
pub fn hex(n: u64) -> [u8; 16] {
    let half = |n: u64| {
        let pairs = (n | n << 16) & 0x0000_ffff_0000_ffff;
        let bytes = (pairs | pairs << 8) & 0x00ff_00ff_00ff_00ff;
        let nibbles = (bytes | bytes << 4) & 0x0f0f_0f0f_0f0f_0f0f;
        let letters = (nibbles.wrapping_add(0x0606_0606_0606_0606) >> 4) & 0x0101_0101_0101_0101;
        let from_zero = letters.wrapping_mul(u64::from(b'a' - b'0' - 10)).wrapping_add(nibbles);
        from_zero.wrapping_add(0x3030_3030_3030_3030).to_be_bytes()
    };
    let mut out = [0; 16];
    out.as_chunks_mut().0.copy_from_slice(&[half(n >> 32), half(n & 0xffff_ffff)]);
    out
}

/// Writes the inside of a JSON string (RFC 8259 section 7). Bytes that are not UTF-8 become U+FFFD.
pub fn json(text: &[u8], out: &mut dyn Sink) -> Result<(), Error> {
    for part in text.utf8_chunks() {
        let valid = part.valid().as_bytes();
        let mut from = 0;
        for (at, byte) in valid.iter().enumerate() {
            let escape: &[u8] = match byte {
                b'"' => b"\\\"",
                b'\\' => b"\\\\",
                b'\n' => b"\\n",
                b'\r' => b"\\r",
                b'\t' => b"\\t",
                0..0x20 | 0x7f => &[b'\\', b'u', b'0', b'0', hex_digit(byte >> 4), hex_digit(byte & 15)],
                _ => continue,
            };
            out.put(valid.get(from..at).unwrap_or_default())?;
            out.put(escape)?;
            from = at.saturating_add(1);
        }
        out.put(valid.get(from..).unwrap_or_default())?;
        if !part.invalid().is_empty() {
            out.put("\u{fffd}".as_bytes())?;
        }
    }
    Ok(())
}

/// Percent-encodes all but the unreserved characters of RFC 3986 section 2.3 and the colon, which may stay (section 3.3). Ends when `out`
/// says `false`, and gives what it said last.
pub fn percent(text: &str, out: &mut dyn FnMut(char) -> bool) -> bool {
    let hex = |n: u8| char::from(hex_digit(n).to_ascii_uppercase());
    text.bytes().all(|byte| {
        let plain = byte.is_ascii_alphanumeric() || b"-._~:".contains(&byte);
        if plain { out(byte.into()) } else { out('%') && out(hex(byte >> 4)) && out(hex(byte)) }
    })
}

/// Writes what the inside of a JSON string (RFC 8259 section 7) stands for; `None` where it is none, half-way then.
pub fn unjson(inside: &[u8], out: &mut Text<'_>) -> Option<()> {
    let text = core::str::from_utf8(inside).ok()?;
    let mut chars = text.chars();
    let mut high = None;
    while let Some(c) = chars.next() {
        // Only what follows at once completes a pair.
        let first = high.take();
        let c = match c {
            '\\' => match chars.next() {
                Some('b') => '\u{8}',
                Some('f') => '\u{c}',
                Some('n') => '\n',
                Some('r') => '\r',
                Some('t') => '\t',
                Some('u') => {
                    let unit = chars.as_str().get(..4).and_then(|four| digits(four.as_bytes(), 16))? as u16;
                    chars = chars.as_str().get(4..).unwrap_or_default().chars();
                    match char::decode_utf16(first.into_iter().chain([unit])).next() {
                        Some(Ok(c)) => c,
                        // The first half of a pair: the second comes next, or is missed.
                        _ if (0xd800..0xdc00).contains(&unit) => {
                            high = Some(unit);
                            continue;
                        }
                        _ => '\u{fffd}',
                    }
                }
                Some(c @ ('"' | '\\' | '/')) => c,
                _ => return None,
            },
            c => c,
        };
        out.str(c.encode_utf8(&mut [0; 4]));
    }
    Some(())
}

/// Writes text for an element or an attribute of XML 1.0 (section 2.4).
pub fn xml(text: &str, out: &mut dyn Sink) -> Result<(), Error> {
    for c in text.chars() {
        let mut buf = [0; 4];
        out.put(match c {
            '&' => b"&amp;",
            '<' => b"&lt;",
            '>' => b"&gt;",
            '"' => b"&quot;",
            '\'' => b"&apos;",
            // No way to write these in XML at all.
            '\0'..'\t' | '\u{b}' | '\u{c}' | '\u{e}'..' ' | '\u{fffe}' | '\u{ffff}' => "\u{fffd}".as_bytes(),
            c => c.encode_utf8(&mut buf).as_bytes(),
        })?;
    }
    Ok(())
}

/// The low four bits as a lower-case hexadecimal digit.
pub fn hex_digit(nibble: u8) -> u8 {
    match nibble & 15 {
        n @ 0..10 => b'0' + n,
        n => b'a' + n - 10,
    }
}

/// Writes `bytes` in base64 with padding (RFC 4648 section 4).
pub fn base64(bytes: &[u8], out: &mut dyn Sink) -> Result<(), Error> {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for group in bytes.chunks(3) {
        let at = |i: usize| u32::from(group.get(i).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        let mut four = [b'='; 4];
        for (i, slot) in four.iter_mut().enumerate().take(group.len() + 1) {
            *slot = ALPHABET[(bits >> (18 - 6 * i)) as usize & 63];
        }
        out.put(&four)?;
    }
    Ok(())
}

/// Reads base64 (RFC 4648 section 4), with the padding or without; `None` for anything else, and for what does not fit `buf`.
pub fn unbase64<'b>(text: &str, buf: &'b mut [u8]) -> Option<&'b [u8]> {
    let digits = text.trim_end_matches('=');
    let padding = text.len().saturating_sub(digits.len());
    if digits.len() % 4 == 1 || padding > 2 || padding > 0 && !text.len().is_multiple_of(4) {
        return None;
    }
    let (mut bits, mut held, mut len) = (0u32, 0u32, 0usize);
    for character in digits.bytes() {
        bits = bits << 6 | u32::from(base64_value(character)?);
        held = held.saturating_add(6);
        if held >= 8 {
            held = held.saturating_sub(8);
            *buf.get_mut(len)? = (bits >> held) as u8;
            bits &= (1 << held) - 1;
            len = len.saturating_add(1);
        }
    }
    // The last bits are filled with zeros.
    buf.get(..len).filter(|_| bits == 0)
}

/// The six bits that a character of base64 stands for.
pub fn base64_value(character: u8) -> Option<u8> {
    Some(match character {
        b'A'..=b'Z' => character.wrapping_sub(b'A'),
        b'a'..=b'z' => character.wrapping_sub(b'a').wrapping_add(26),
        b'0'..=b'9' => character.wrapping_sub(b'0').wrapping_add(52),
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    })
}

/// Length of an RFC 3339 time in UTC with whole seconds.
pub const TIME_LEN: usize = 20;

/// Seconds since 1970 as an RFC 3339 time, for years up to 9999; later ones stay there.
pub fn rfc3339(seconds: u64) -> [u8; TIME_LEN] {
    /// 9999-12-31T23:59:59Z.
    const LAST: u64 = 253_402_300_799;
    let seconds = seconds.min(LAST);
    let (day, rest) = (seconds / 86_400, seconds % 86_400);
    // Days to date for the proleptic Gregorian calendar, in eras of 400 years that begin on 1 March.
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

/// Whether a terminal shows `c` as itself: it is no control character, is not invisible, and changes neither line nor direction.
pub fn is_graphic(c: char) -> bool {
    !c.is_control()
        && !matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}')
}

/// Writes `text` for a terminal, with a question mark for each character that is not graphic, and for each piece that is not UTF-8. Line
/// feeds stay if `has_lines`.
pub fn graphic(text: &[u8], has_lines: bool, out: &mut dyn Sink) -> Result<(), Error> {
    for chunk in text.utf8_chunks() {
        let mut rest = chunk.valid();
        while let Some(at) = rest.find(|c: char| !(is_graphic(c) || has_lines && c == '\n')) {
            let (before, after) = rest.split_at(at);
            out.put(before.as_bytes())?;
            out.put(b"?")?;
            let mut after = after.chars();
            after.next();
            rest = after.as_str();
        }
        out.put(rest.as_bytes())?;
        if !chunk.invalid().is_empty() {
            out.put(b"?")?;
        }
    }
    Ok(())
}

/// The largest length up to `max` at which `s` may be cut.
pub fn floor_char_boundary(s: &str, max: usize) -> usize {
    let mut at = max.min(s.len());
    while !s.is_char_boundary(at) {
        at = at.saturating_sub(1);
    }
    at
}

/// Seconds since 1970 of a date and time in UTC: year, month, day, hour, minute, second. What is before is 0, what is none is `None`.
pub fn since_1970([year, month, day, hour, minute, second]: [u64; 6]) -> Option<u64> {
    if year > 9999 || !(1..=12).contains(&month) || !(1..=31).contains(&day) || hour > 23 || minute > 59 || second > 60
    {
        return None;
    }
    // Days from 0000-03-01 on, so that the leap day is the last of its year; 719468 of them are before 1970.
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
    fn text_is_cut_at_a_character() {
        let mut buf = [0; 4];
        let mut text = Text::new(&mut buf);
        text.str("ab").str("\u{e9}\u{e9}").str("x");
        assert_eq!(text.as_str(), "ab\u{e9}");
        assert!(text.is_cut());
    }

    #[test]
    fn numbers() {
        for (text, expected) in [("0", Some(0)), ("007", Some(7)), ("18446744073709551615", Some(u64::MAX))] {
            assert_eq!(number::<u64>(text.as_bytes()), expected);
        }
        for text in ["", "+1", "-1", " 1", "1 ", "1a", "0x1", "\u{663}", "18446744073709551616", "99999999999999999999"]
        {
            assert_eq!(number::<u64>(text.as_bytes()), None, "{text}");
        }
        assert_eq!((number::<u8>(b"255"), number::<u8>(b"256")), (Some(255), None));
    }

    #[test]
    fn decimals() {
        for n in [0, 9, 10, 12_345, 99_999_999_999, u64::MAX - 6, u64::MAX] {
            assert_eq!(decimal(n, &mut [0; DECIMAL_MAX]), n.to_string());
        }
    }

    #[test]
    fn hexadecimals() {
        for n in [0, 9, 0xa, 0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210, u64::MAX] {
            assert_eq!(hex(n), format!("{n:016x}").as_bytes());
        }
    }

    #[test]
    fn terminals_are_given_graphic_characters() {
        for (text, expected) in [
            (b"a b\xc3\xa9!".as_slice(), "a b\u{e9}!"),
            (b"\x1b[2J\r\x7f\x07\t\0", "?[2J?????"),
            (b"a\xffb\xc3", "a?b?"),
            ("\u{9b}31m\u{202e}x\u{200b}y\u{2028}\u{feff}\u{e0041}".as_bytes(), "?31m?x?y???"),
            (b"", ""),
        ] {
            let mut out = Vec::new();
            graphic(text, false, &mut out).unwrap();
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
        for (has_lines, expected) in [(false, "a?b"), (true, "a\nb")] {
            let mut out = Vec::new();
            graphic(b"a\nb", has_lines, &mut out).unwrap();
            assert_eq!(out, expected.as_bytes());
        }
    }

    #[test]
    fn json_escapes() {
        let mut out = Vec::new();
        json(b"a\"\\\n\r\t\x00\x1f\x7f\xc3\xa9\xff\xc3!", &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "a\\\"\\\\\\n\\r\\t\\u0000\\u001f\\u007f\u{e9}\u{fffd}\u{fffd}!");
    }

    #[test]
    fn xml_escapes() {
        let mut out = Vec::new();
        xml("<a b=\"c\">&'\u{e9}\u{1f600}\t\n\u{1}\u{ffff}", &mut out).unwrap();
        let want = "&lt;a b=&quot;c&quot;&gt;&amp;&apos;\u{e9}\u{1f600}\t\n\u{fffd}\u{fffd}";
        assert_eq!(String::from_utf8(out).unwrap(), want);
    }

    #[test]
    fn base64_of_rfc_4648() {
        for (plain, coded) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")] {
            let mut out = Vec::new();
            base64(plain.as_bytes(), &mut out).unwrap();
            assert_eq!(out, coded.as_bytes());
        }
    }

    #[test]
    fn base64_is_read_back() {
        for coded in ["", "Zg==", "Zg", "Zm8=", "Zm8", "Zm9v", "Zm9vYmFy", "////", "+A=="] {
            let mut out = Vec::new();
            base64(unbase64(coded, &mut [0; 6]).unwrap(), &mut out).unwrap();
            assert!(std::str::from_utf8(&out).unwrap().starts_with(coded), "{coded}");
        }
        for broken in ["Z", "Zg=", "Zh==", "Z===", "====", "Zm9v=", "Zm=v", "Zm9 v", "Zm9vY", "Zm9_", "Zm9vYmFyYg"] {
            assert_eq!(unbase64(broken, &mut [0; 6]), None, "{broken}");
        }
    }

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
