//! Whether a value is text: valid UTF-8 without control characters, determined in one pass over its
//! pieces.
//!
//! systemd's export format chooses between `NAME=value` and a value framed by its length by the
//! same rule (`utf8_is_printable_newline` in its `utf8.c`): TAB is not a control character, U+007F
//! to U+009F are, and Unicode's noncharacters are not valid.

/// The kinds of values.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord)]
pub enum Text {
    /// Printable characters.
    Line,
    /// Printable characters and line feeds.
    Lines,
    /// Any bytes.
    Binary,
}

/// The state between two pieces.
pub struct Scan {
    found: Text,
    /// Number of bytes of the current character that are still to come.
    missing: u8,
    /// The bits of the current character so far.
    char: u32,
    /// The smallest code point that may be encoded in this number of bytes.
    least: u32,
}

impl Scan {
    /// Returns the state before the first piece.
    pub fn new() -> Self {
        Self { found: Text::Line, missing: 0, char: 0, least: 0 }
    }

    /// Takes a piece.
    pub fn push(&mut self, mut piece: &[u8]) {
        while self.found != Text::Binary {
            if self.missing == 0 {
                piece = skip_printable_ascii(piece);
            }
            let Some((byte, rest)) = piece.split_first() else { return };
            self.byte(*byte);
            piece = rest;
        }
    }

    /// Returns the result after the last piece.
    pub fn end(self) -> Text {
        if self.missing == 0 { self.found } else { Text::Binary }
    }

    fn byte(&mut self, byte: u8) {
        if self.missing > 0 {
            self.char = self.char << 6 | u32::from(byte & 0x3f);
            self.missing = self.missing.saturating_sub(1);
            if byte & 0xc0 != 0x80 || self.missing == 0 && (self.char < self.least || !is_printable(self.char)) {
                self.found = Text::Binary;
            }
            return;
        }
        (self.missing, self.char, self.least) = match byte {
            b'\n' => {
                self.found = Text::Lines;
                return;
            }
            b'\t' | b' '..=b'~' => return,
            0xc0..=0xdf => (1, byte as u32 & 0x1f, 0x80),
            0xe0..=0xef => (2, byte as u32 & 0x0f, 0x800),
            0xf0..=0xf7 => (3, byte as u32 & 0x07, 0x1_0000),
            _ => {
                self.found = Text::Binary;
                return;
            }
        };
    }
}

impl Default for Scan {
    fn default() -> Self {
        Self::new()
    }
}

fn is_printable(char: u32) -> bool {
    !matches!(char, 0x7f..=0x9f | 0xd800..=0xdfff | 0xfdd0..=0xfdef | 0x11_0000..) && char & 0xfffe != 0xfffe
}

/// Skips printable ASCII, eight bytes at a time: nearly all of a journal is printable ASCII.
fn skip_printable_ascii(mut piece: &[u8]) -> &[u8] {
    const LOW: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x80 * LOW;
    while let Some((chunk, rest)) = piece.split_first_chunk::<8>() {
        let word = u64::from_le_bytes(*chunk);
        // With bit 7 clear in all bytes, no sum or difference of a byte carries into its neighbour.
        if word & HIGH != 0 {
            break;
        }
        let below_space = !(word | HIGH).wrapping_sub(0x20 * LOW);
        let above_tilde = word.wrapping_add(LOW);
        if (below_space | above_tilde) & HIGH != 0 {
            break;
        }
        piece = rest;
    }
    piece
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: &[u8]) -> Text {
        let mut scan = Scan::new();
        scan.push(bytes);
        let whole = scan.end();
        for cut in 0..=bytes.len() {
            let mut scan = Scan::new();
            scan.push(&bytes[..cut]);
            scan.push(&bytes[cut..]);
            assert_eq!(scan.end(), whole, "{bytes:x?} cut at {cut}");
        }
        whole
    }

    #[test]
    fn every_byte_alone_and_among_text() {
        for byte in 0..=255u8 {
            let expected = match byte {
                b'\n' => Text::Lines,
                b'\t' | 0x20..=0x7e => Text::Line,
                _ => Text::Binary,
            };
            assert_eq!(text(&[byte]), expected, "{byte:#x}");
            assert_eq!(text(&[&b"MESSAGE=12345678"[..], &[byte], b"12345678"].concat()), expected, "{byte:#x}");
        }
    }

    #[test]
    fn every_character_of_unicode() {
        let control = |c: u32| c < 0x20 && c != 9 && c != 10 || (0x7f..0xa0).contains(&c);
        let nonchar = |c: u32| (0xfdd0..=0xfdef).contains(&c) || c & 0xfffe == 0xfffe;
        for c in '\0'..=char::MAX {
            let expected = match c as u32 {
                10 => Text::Lines,
                c if control(c) || nonchar(c) => Text::Binary,
                _ => Text::Line,
            };
            let mut scan = Scan::new();
            scan.push(c.encode_utf8(&mut [0; 4]).as_bytes());
            assert_eq!(scan.end(), expected, "{:#x}", c as u32);
        }
    }

    #[test]
    fn bad_sequences() {
        let bad: [&[u8]; 9] = [
            b"\xc0\x80",
            b"\xe0\x80\xaf",
            b"\xed\xa0\x80",
            b"\xf4\x90\x80\x80",
            b"\xc3",
            b"\xc3a",
            b"\x80",
            b"\xf8\x88\x80\x80\x80",
            b"\xff",
        ];
        for bytes in bad {
            assert_eq!(text(bytes), Text::Binary, "{bytes:x?}");
        }
        assert_eq!(text("größer \u{10ffff}".as_bytes()), Text::Binary);
        assert_eq!(text("größer €\n\u{1f600}".as_bytes()), Text::Lines);
        assert_eq!(text(b""), Text::Line);
    }
}
