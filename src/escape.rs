//! Escapes and their reversal: JSON (RFC 8259), XML 1.0, base64 (RFC 4648) and percent-encoding
//! (RFC 3986).

use crate::error::Error;
use crate::sink::Sink;
use crate::text::{Text, digits, hex_digit, is_graphic};

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

/// Percent-encodes everything but the colon, which may stay (RFC 3986 section 3.3), and the
/// unreserved characters (section 2.3). Stops when `out` returns `false`; returns the last result
/// of `out`.
pub fn percent(text: &str, out: &mut dyn FnMut(char) -> bool) -> bool {
    let hex = |n: u8| char::from(hex_digit(n).to_ascii_uppercase());
    text.bytes().all(|byte| {
        let plain = byte.is_ascii_alphanumeric() || b"-._~:".contains(&byte);
        if plain { out(byte.into()) } else { out('%') && out(hex(byte >> 4)) && out(hex(byte)) }
    })
}

/// Decodes the inside of a JSON string (RFC 8259 section 7) into `out`. Returns `None` if `inside`
/// is malformed; `out` then holds the part before the error.
pub fn unjson(inside: &[u8], out: &mut Text<'_>) -> Option<()> {
    let text = core::str::from_utf8(inside).ok()?;
    let mut chars = text.chars();
    let mut high = None;
    while let Some(c) = chars.next() {
        // A low surrogate completes a pair only if it follows at once.
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
                        // A high surrogate: the low one should come next.
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
            // XML cannot express these characters at all.
            '\0'..'\t' | '\u{b}' | '\u{c}' | '\u{e}'..' ' | '\u{fffe}' | '\u{ffff}' => "\u{fffd}".as_bytes(),
            c => c.encode_utf8(&mut buf).as_bytes(),
        })?;
    }
    Ok(())
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

/// Decodes base64 (RFC 4648 section 4), with or without padding. Returns `None` for anything else,
/// and for data that does not fit `buf`.
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
    // The unused low bits must be zero.
    buf.get(..len).filter(|_| bits == 0)
}

/// Returns the six bits that a base64 character stands for.
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

/// Writes `text` for a terminal. A question mark replaces each character that is not graphic, and
/// each piece that is not UTF-8. Line feeds stay if `has_lines`.
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
