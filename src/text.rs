//! Bounded text and numbers. `core::fmt` is not used: it would cost 12 KB.

/// Text of bounded length, in memory of the caller. Text that does not fit is cut at a character
/// boundary, and the cut is remembered.
pub struct Text<'a> {
    buf: &'a mut [u8],
    len: usize,
    cut: bool,
}

impl<'a> Text<'a> {
    /// Returns empty text in `buf`.
    #[inline(never)] // it has fifty callers
    pub fn new(buf: &'a mut [u8]) -> Self {
        Self { buf, len: 0, cut: false }
    }

    /// Returns the text so far.
    pub fn as_str(&self) -> &str {
        core::str::from_utf8(self.as_bytes()).unwrap_or_default()
    }

    /// Returns the text so far, as bytes.
    pub fn as_bytes(&self) -> &[u8] {
        self.buf.get(..self.len).unwrap_or_default()
    }

    /// Whether something did not fit.
    pub fn is_cut(&self) -> bool {
        self.cut
    }

    /// Appends `s`. Once something did not fit, nothing more is appended.
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

/// Number of digits of the largest `u64`.
pub const DECIMAL_MAX: usize = 20;

/// Parses `text` as a decimal number. Returns `None` if `text` is anything but digits, or if `T`
/// cannot hold the number.
pub fn number<T: TryFrom<u64>>(text: &[u8]) -> Option<T> {
    digits(text, 10)?.try_into().ok()
}

/// Parses `text` as a number in this radix. Returns `None` if `text` is anything but digits, or if
/// the number is too large.
pub fn digits(text: &[u8], radix: u32) -> Option<u64> {
    let add = |n: u64, b: &u8| n.checked_mul(radix.into())?.checked_add(char::from(*b).to_digit(radix)?.into());
    text.iter().try_fold(0, add).filter(|_| !text.is_empty())
}

/// Returns `n` in decimal.
pub fn decimal(mut n: u64, buf: &mut [u8; DECIMAL_MAX]) -> &str {
    let mut start = DECIMAL_MAX;
    while let Some(slot) = start.checked_sub(1).and_then(|at| buf.get_mut(at)) {
        start = start.wrapping_sub(1);
        // Multiplies to get a tenth: compiled for size, a division would be an instruction that
        // takes five times as long.
        let tenth = (u128::from(n).wrapping_mul(0xcccc_cccc_cccc_cccd) >> 67) as u64;
        *slot = b'0' | n.wrapping_sub(tenth.wrapping_mul(10)) as u8;
        n = tenth;
        if n == 0 {
            break;
        }
    }
    buf.get(start..).and_then(|digits| core::str::from_utf8(digits).ok()).unwrap_or_default()
}

/// Returns all hexadecimal digits of `n` in lower case. All bytes of a word are converted at once.
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

/// Returns the low four bits as a lower-case hexadecimal digit.
pub fn hex_digit(nibble: u8) -> u8 {
    match nibble & 15 {
        n @ 0..10 => b'0' + n,
        n => b'a' + n - 10,
    }
}

/// Whether a terminal shows `c` as itself: `c` is no control character, is not invisible, and
/// changes neither the line nor the direction of text.
pub fn is_graphic(c: char) -> bool {
    !c.is_control()
        && !matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}')
}

/// Returns the largest length up to `max` at which `s` may be cut.
pub fn floor_char_boundary(s: &str, max: usize) -> usize {
    let mut at = max.min(s.len());
    while !s.is_char_boundary(at) {
        at = at.saturating_sub(1);
    }
    at
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
}
