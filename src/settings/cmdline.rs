//! Words of a kernel command line, split by the kernel's own rules (`next_arg` in `lib/cmdline.c`).
//! A word ends at white space outside double quotes. There are no escapes. A quote at the start of
//! a word or of its value is dropped, together with the quote at the word's end; other quotes stay.
//! In addition to the kernel's rules, single quotes around a whole value or word work like double
//! quotes, as in systemd.
//!
//! A NUL ends a word even inside quotes: it separates the lines read from several files.
//!
//! `--`, after which the kernel leaves the words to init, ends nothing here: systemd, dracut and
//! Ignition also read on.

/// One word, split at its first `=`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Word<'a> {
    /// Text before the `=`, or the whole word.
    pub key: &'a [u8],
    /// Text after the `=`; `None` without one.
    pub value: Option<&'a [u8]>,
}

/// The words of a line, in order.
pub struct Words<'a> {
    rest: &'a [u8],
}

impl<'a> Words<'a> {
    /// Creates the iterator over `line`, as read from `/proc/cmdline`.
    pub fn new(line: &'a [u8]) -> Self {
        Self { rest: line }
    }
}

impl<'a> Iterator for Words<'a> {
    type Item = Word<'a>;

    fn next(&mut self) -> Option<Word<'a>> {
        let blanks = self.rest.iter().take_while(|b| is_blank(b)).count();
        let line = self.rest.get(blanks..).filter(|line| !line.is_empty())?;
        let (word, rest) = line.split_at(word_end(line).min(line.len()));
        self.rest = rest;
        Some(split(word))
    }
}

impl<'a> Words<'a> {
    /// Returns the white space before the next word, and the word with its quotes. The word is
    /// empty at the end of the line.
    pub(super) fn next_raw(&mut self) -> (&'a [u8], &'a [u8]) {
        let line = self.rest;
        let blanks = line.iter().take_while(|b| is_blank(b)).count();
        let (before, word) = line.split_at(blanks.min(line.len()));
        let (word, rest) = word.split_at(word_end(word).min(word.len()));
        self.rest = rest;
        (before, word)
    }
}

/// Whether `key` names the same setting as `name`: `-` and `_` are equal.
pub fn same_key(key: &[u8], name: &[u8]) -> bool {
    let fold = |b: u8| if b == b'-' { b'_' } else { b };
    key.len() == name.len() && key.iter().zip(name).all(|(a, b)| fold(*a) == fold(*b))
}

fn is_blank(byte: &u8) -> bool {
    byte.is_ascii_whitespace() || *byte == 0
}

/// Length of the word that begins `line`.
fn word_end(line: &[u8]) -> usize {
    let mut in_double = false;
    let mut seen_equals = false;
    let mut at = 0usize;
    while let Some(byte) = line.get(at) {
        match byte {
            b'"' => in_double = !in_double,
            b'\'' if !in_double && (at == 0 || (seen_equals && line.get(at.wrapping_sub(1)) == Some(&b'='))) => {
                if let Some(close) = single_quote_end(line, at) {
                    return close;
                }
            }
            b'=' => seen_equals = true,
            0 => break,
            b if b.is_ascii_whitespace() && !in_double => break,
            _ => {}
        }
        at = at.saturating_add(1);
    }
    at
}

/// Returns the end of the word whose single quote opens at `open`: after the next single quote that
/// is followed by white space or the line's end. An unclosed apostrophe is an ordinary character.
fn single_quote_end(line: &[u8], open: usize) -> Option<usize> {
    let from = open.checked_add(1)?;
    let body = line.get(from..)?.split(|b| *b == 0).next()?;
    let close = (0..body.len())
        .find(|i| body.get(*i) == Some(&b'\'') && body.get(i.saturating_add(1)).is_none_or(u8::is_ascii_whitespace))?;
    from.checked_add(close)?.checked_add(1)
}

/// Splits a quoted word into key and value, and removes the quotes around them.
pub(super) fn split(word: &[u8]) -> Word<'_> {
    let word = match word {
        // The kernel drops the opening quote even if it is never closed.
        [b'"', inner @ ..] => inner.strip_suffix(b"\"").unwrap_or(inner),
        [b'\'', inner @ .., b'\''] => inner,
        _ => word,
    };
    // A leading `=` does not split the word (`next_arg` treats it as no `=`).
    match word.iter().skip(1).position(|b| *b == b'=') {
        None => Word { key: word, value: None },
        Some(before) => {
            let at = before.saturating_add(1);
            let value = word.get(at.saturating_add(1)..).unwrap_or_default();
            let value = match value {
                [b'"', inner @ ..] => inner.strip_suffix(b"\"").unwrap_or(inner),
                [b'\'', inner @ .., b'\''] => inner,
                _ => value,
            };
            Word { key: word.get(..at).unwrap_or_default(), value: Some(value) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<(String, Option<String>)> {
        let text = |b: &[u8]| String::from_utf8(b.to_vec()).unwrap();
        Words::new(line.as_bytes()).map(|w| (text(w.key), w.value.map(text))).collect()
    }

    fn one(line: &str) -> (String, Option<String>) {
        let all = words(line);
        assert_eq!(all.len(), 1, "{line:?} is one word, not {all:?}");
        all[0].clone()
    }

    #[test]
    fn words_end_at_white_space() {
        let keys: Vec<_> = words("  quiet\tro \n root=/dev/sda1\n").into_iter().map(|w| w.0).collect();
        assert_eq!(keys, ["quiet", "ro", "root"]);
        assert!(words("").is_empty() && words(" \n").is_empty());
    }

    #[test]
    fn double_quotes_by_the_kernels_rules() {
        // Expected values are those of the kernel's next_arg.
        for (line, key, value) in [
            (r#"x.msg="a b""#, "x.msg", Some("a b")),
            (r#""x.msg=a b""#, "x.msg", Some("a b")),
            (r#"x.msg=a"b c"d"#, "x.msg", Some(r#"a"b c"d"#)),
            (r#"x.msg="a  b""#, "x.msg", Some("a  b")),
            (r#"x.msg="a b"#, "x.msg", Some("a b")),
            (r#""x.msg=a b"#, "x.msg", Some("a b")),
            (r#"x.msg="a"b""#, "x.msg", Some(r#"a"b"#)),
            (r#"x.msg=a\ b"#, "x.msg", Some(r"a\")),
            (r#"x.msg="""#, "x.msg", Some("")),
            (r#"x.msg=""#, "x.msg", Some("")),
            ("x.msg=", "x.msg", Some("")),
            ("x.msg", "x.msg", None),
            ("=x=y", "=x", Some("y")),
            ("x=a=b", "x", Some("a=b")),
            ("\"x\"", "x", None),
            ("\"", "", None),
        ] {
            let first = words(line).into_iter().next().unwrap();
            assert_eq!(first, (key.into(), value.map(Into::into)), "{line:?}");
        }
    }

    #[test]
    fn single_quotes_group_a_value_or_a_word() {
        assert_eq!(one("x.msg='a b'"), ("x.msg".into(), Some("a b".into())));
        assert_eq!(one("'x.msg=a b'"), ("x.msg".into(), Some("a b".into())));
        assert_eq!(one("x.msg='it's here'"), ("x.msg".into(), Some("it's here".into())));
        assert_eq!(one(r#"x.msg="it's here""#), ("x.msg".into(), Some("it's here".into())));
        assert_eq!(words("x=it's y='z").len(), 2, "an apostrophe that nothing closes swallows no word");
    }

    #[test]
    fn a_nul_ends_a_word_whatever_quotes_are_open() {
        for line in ["a='b\0c='d e' f", "a=\"b\0c='d e' f", "\0a='b \0 \0c='d e' f\0"] {
            let keys: Vec<_> = words(line).into_iter().map(|w| w.0).collect();
            assert_eq!(keys, ["a", "c", "f"], "{line:?}");
        }
    }

    #[test]
    fn dashes_do_not_end_the_line() {
        assert_eq!(words("a=1 -- b=2").len(), 3);
    }

    #[test]
    fn dash_and_underscore_are_the_same_in_keys() {
        assert!(same_key(b"rd.report.journal-on", b"rd.report.journal_on"));
        assert!(!same_key(b"rd.report.url", b"rd.report.urls"));
    }

    #[test]
    fn any_bytes_end() {
        let mut seed = 1u32;
        for _ in 0..20_000 {
            let line: Vec<u8> = (0..40)
                .map(|_| {
                    seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    b"\"'= a\t-_\xff\0"[(seed >> 24) as usize % 10]
                })
                .collect();
            assert!(Words::new(&line).count() <= line.len());
        }
    }
}
