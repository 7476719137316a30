//! Secrets out of command lines and URLs, before they reach a console or a body: userinfo and query of URLs, header values, and the values
//! of keys that are named for what they hold.

use crate::settings::PREFIX;
use crate::settings::cmdline::Words;
use crate::sink::Sink;
use crate::{error::Error, text};

/// What stands in place of a secret.
pub const MASK: &str = "***";

/// Parts of a key's name that tell that its value is a secret.
const TELLING: [&[u8]; 8] =
    [b"token", b"password", b"passwd", b"secret", b"credential", b"apikey", b"api_key", b"auth"];

/// Writes `line` into a JSON string's inside, its words separated by one space, with secrets masked.
pub fn line_as_json(line: &[u8], out: &mut dyn Sink) -> Result<(), Error> {
    // The words of a header's value that someone forgot to quote.
    let mut unquoted = false;
    for (i, word) in Words::new(line).enumerate() {
        if i > 0 {
            out.put(b" ")?;
        }
        let Some(value) = word.value else {
            match unquoted {
                true => out.put(MASK.as_bytes())?,
                false => text::json(word.key, out)?,
            }
            continue;
        };
        text::json(word.key, out)?;
        out.put(b"=")?;
        match is_secret(word.key) {
            true => out.put(MASK.as_bytes())?,
            false => url(value, &mut |part| text::json(part, out))?,
        }
        unquoted = is_header(word.key) && value.ends_with(b":");
    }
    Ok(())
}

/// Gives the pieces of `value`, each URL in it without its userinfo, and without its query and fragment, which end at white space only: a
/// comma may be part of them.
pub fn url(value: &[u8], out: &mut dyn FnMut(&[u8]) -> Result<(), Error>) -> Result<(), Error> {
    let mut rest = value;
    while let Some(at) = position_of_authority(rest) {
        let (before, after) = rest.split_at(at.min(rest.len()));
        out(before)?;
        let (authority, behind) = split_at_any(after, b"/?#");
        match authority.iter().rposition(|b| *b == b'@') {
            Some(at) => {
                out(MASK.as_bytes())?;
                out(authority.get(at..).unwrap_or_default())?;
            }
            None => out(authority)?,
        }
        let (path, query) = split_at_any(behind, b"?#");
        rest = match query.split_at_checked(1) {
            // Another URL in the path has the query.
            Some((mark @ (b"?" | b"#"), query)) if position_of_authority(path).is_none() => {
                out(path)?;
                out(mark)?;
                out(MASK.as_bytes())?;
                split_at_any(query, b"").1
            }
            _ => behind,
        };
    }
    out(rest)
}

/// Where the first URL in `text` has what follows its `://`.
fn position_of_authority(text: &[u8]) -> Option<usize> {
    text.windows(3).position(|w| w == b"://").map(|at| at.saturating_add(3))
}

/// Splits `text` before the first white space or byte of `ends`.
fn split_at_any<'a>(text: &'a [u8], ends: &[u8]) -> (&'a [u8], &'a [u8]) {
    text.split_at(text.iter().position(|b| b.is_ascii_whitespace() || ends.contains(b)).unwrap_or(text.len()))
}

/// Whether the value of `key` is a secret as a whole.
fn is_secret(key: &[u8]) -> bool {
    is_header(key) || TELLING.iter().any(|word| key.windows(word.len()).any(|w| w.eq_ignore_ascii_case(word)))
}

fn is_header(key: &[u8]) -> bool {
    key.strip_prefix(PREFIX.as_bytes()) == Some(b"header")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redacted(line: &str) -> String {
        let mut out = Vec::new();
        line_as_json(line.as_bytes(), &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn userinfo_and_query_are_masked_in_every_word() {
        assert_eq!(
            redacted("ro x.url=https://u:p@h:1/a?sig=S y=https://h/a z=http://u@h"),
            "ro x.url=https://***@h:1/a?*** y=https://h/a z=http://***@h"
        );
        assert_eq!(redacted("a=http://u:p@h/,http://q:r@i/?k"), "a=http://***@h/,http://***@i/?***");
        assert_eq!(redacted("a=http://h?x=/@y"), "a=http://h?***");
        assert_eq!(redacted("a=http://u:p,q@h/?k,l=m b"), "a=http://***@h/?*** b");
        assert_eq!(redacted("a=http://h/b,http://u:p@i/c#d b=c?d"), "a=http://h/b,http://***@i/c#*** b=c?d");
        assert_eq!(redacted("a=http://g/http://u:p@h/http://v:q@i/?k"), "a=http://g/http://***@h/http://***@i/?***");
    }

    #[test]
    fn telling_keys_are_masked() {
        assert_eq!(
            redacted("rd.report.header='A: B c' my.token=1 Password=2"),
            "rd.report.header=*** my.token=*** Password=***"
        );
        assert_eq!(
            redacted("rd.report.header=Authorization: Bearer SECRET a=b c"),
            "rd.report.header=*** *** *** a=b c"
        );
        assert_eq!(redacted("rd.report.url=http://h/"), "rd.report.url=http://h/");
    }

    #[test]
    fn odd_lines_end() {
        for line in ["://", "a=://", "a=x://@", "a=x://?@", "a=\"x://u:p@h"] {
            assert!(!redacted(line).contains("u:p"), "{line}");
        }
    }
}
