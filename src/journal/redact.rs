//! Secrets that provisioning tools log, masked in one pass over a value, in pieces of any size.
//!
//! What is masked, with `***` in its place: the salt and hash of crypt(3) hashes (crypt(5)), the contents of `data:` URLs (RFC 2397), private
//! keys in PEM (RFC 7468), the userinfo and the query of URLs (RFC 3986 sections 3.2.1 and 3.4; of `name=value` the value alone), the
//! values of `Authorization` (RFC 9110 section 11.6.2) and bearer tokens, SSH key blobs, and the values of `passwordHash` and `value` (a
//! header's) in a configuration that Ignition dumps. Names stay readable. Everything is recognised by what lies before it, so that only an
//! URL's authority and the names in its query, which are secret by what follows them, have to be held back.

use super::data::Output;
use crate::error::Error;

/// What stands for a secret.
const MASK: &[u8] = b"***";
/// Bytes of an URL's authority that are held back until it is clear whether it has userinfo, and of a name in its query until it is clear
/// whether it has a value; a longer one is masked as a whole.
const HELD_MAX: usize = 256;
/// Bytes between `data:` and the comma at most: a media type and its parameters.
const MEDIA_TYPE: u8 = 100;

/// The bytes with which something can begin (see `pass`), but for the letter.
const BEGINS: u64 = 1 << b' ' | 1 << b'$' | 1 << b'-' | 1 << b'/' | 1 << b':';

/// The filter for one value.
pub(super) struct Redact {
    state: State,
    /// The last 16 bytes, the newest in the lowest place.
    recent: u128,
    held: heapless::Vec<u8, HELD_MAX, u16>,
    masked: u32,
    /// Whether `-----BEGIN ` was seen, and no key's begin since.
    is_beginning: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nothing begins here yet.
    Pass,
    /// Behind a `$`: the method's name so far, its bytes in order.
    Method(u64),
    /// Behind `data:`: what quotes it, and bytes so far.
    Media(u8, u8),
    /// Behind `://`.
    Authority,
    /// In an URL, before its query.
    Path,
    /// In a query, behind its mark or a separator: in what is a name if a value follows.
    Query,
    /// Behind a name whose value is a secret, before the value; and whether that is one only if quoted.
    Before(bool),
    /// In a secret.
    Masked(Secret),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Secret {
    /// A hash: ends where its alphabet does.
    Hash,
    /// Ends at this quote, or at the end of the line.
    Quoted(u8),
    /// Ends at a blank, a quote or a bracket.
    Word,
    /// A query's value.
    Value,
    /// The rest of a line.
    Line,
    /// Base64.
    Blob,
    /// Up to `-----END`.
    Key,
}

impl Redact {
    /// Before a value.
    pub(super) fn new() -> Self {
        Self { state: State::Pass, recent: 0, held: heapless::Vec::new(), masked: 0, is_beginning: false }
    }

    /// Takes a piece of the value; gives what may be seen of it to `output`.
    pub(super) fn push(&mut self, piece: &[u8], output: &mut Output) -> Result<(), Error> {
        // Bytes from `start` on are still to be given out.
        let mut start = if self.state.is_shown() { 0 } else { usize::MAX };
        let mut next = 0usize;
        loop {
            if self.state == State::Pass {
                next = next.saturating_add(self.skip(piece.get(next..).unwrap_or_default()));
            }
            let at = next;
            let Some(byte) = piece.get(at).copied() else { break };
            next = at.saturating_add(1);
            let before = self.state;
            self.recent = self.recent << 8 | u128::from(byte);
            self.state = self.next(before, byte);
            match (before.is_shown(), self.state.is_shown()) {
                (true, true) => {}
                // The byte that leads to a secret is shown, unless it is the secret's first.
                (true, false) => {
                    let end = if before == State::Before(false) { at } else { at.saturating_add(1) };
                    output(piece.get(start..end).unwrap_or_default())?;
                    if let State::Masked(_) = self.state {
                        self.mask(output)?;
                    }
                    start = usize::MAX;
                }
                (false, true) => {
                    self.give(before, output)?;
                    if before == State::Masked(Secret::Key) {
                        output(b"-----EN")?;
                    }
                    start = at;
                }
                (false, false) => self.hidden(before, byte, output)?,
            }
        }
        match piece.get(start..) {
            Some(rest) if !rest.is_empty() => output(rest),
            _ => Ok(()),
        }
    }

    /// Gives out what was held back. Then says how many secrets were masked, and whether a key's end is still to come.
    pub(super) fn end(&mut self, output: &mut Output) -> Result<(u32, bool), Error> {
        self.give(self.state, output)?;
        Ok((self.masked, self.state == State::Masked(Secret::Key)))
    }

    /// Gives out what was held back in `state`: of a query it is no name, as no value follows.
    fn give(&mut self, state: State, output: &mut Output) -> Result<(), Error> {
        match (state, self.held.is_empty()) {
            (_, true) => Ok(()),
            (State::Query, false) => self.mask(output),
            (_, false) => {
                let given = output(&self.held);
                self.held.clear();
                given
            }
        }
    }

    /// Takes a byte behind `before` that is not shown, or that ends one thing that is not and begins another.
    fn hidden(&mut self, before: State, byte: u8, output: &mut Output) -> Result<(), Error> {
        match (before, self.state) {
            // A value begins: what was held is its name.
            (State::Query, State::Masked(_)) => {
                self.give(State::Authority, output)?;
                output(b"=")?;
                self.mask(output)
            }
            // Another name begins.
            (_, State::Query) if before != State::Query || is_separator(byte) => {
                self.give(before, output)?;
                output(&[byte])
            }
            (State::Masked(_), _) => Ok(()),
            (State::Authority, _) if byte == b'@' => {
                self.mask(output)?;
                output(b"@")
            }
            _ if self.held.push(byte).is_ok() => Ok(()),
            _ => {
                self.state = State::Masked(if before == State::Query { Secret::Value } else { Secret::Word });
                self.mask(output)
            }
        }
    }

    /// Passes over bytes with which nothing begins; gives their number.
    fn skip(&mut self, piece: &[u8]) -> usize {
        let mut len = 0usize;
        loop {
            let Some(more) = piece.get(len..).and_then(|rest| rest.iter().position(may_begin)) else {
                len = piece.len();
                break;
            };
            len = len.saturating_add(more);
            let last = len.checked_sub(1).and_then(|at| piece.get(at).copied()).unwrap_or(self.recent as u8);
            let begins = match piece.get(len) {
                Some(b' ') => matches!(last, b'r' | b'R' | b'n' | b'N'),
                Some(b':') => matches!(last, b'a' | b'A' | b'n' | b'N' | b'"'),
                byte => byte == Some(&b'$') || byte == Some(&last),
            };
            if begins {
                break;
            }
            len = len.saturating_add(1);
        }
        let skipped = piece.get(..len).unwrap_or_default();
        match skipped.last_chunk() {
            Some(chunk) => self.recent = u128::from_be_bytes(*chunk),
            None => skipped.iter().for_each(|byte| self.recent = self.recent << 8 | u128::from(*byte)),
        }
        len
    }

    /// Puts the mask in the place of a secret, and of what was held back of it.
    fn mask(&mut self, output: &mut Output) -> Result<(), Error> {
        self.held.clear();
        self.masked = self.masked.saturating_add(1);
        output(MASK)
    }

    /// Whether the last bytes are these (at most 16 of them), letters in any case.
    fn ends_with(&self, text: &str) -> bool {
        let mut recent = self.recent;
        text.bytes().rev().all(|byte| {
            let is_same = byte.eq_ignore_ascii_case(&(recent as u8));
            recent >>= 8;
            is_same
        })
    }

    fn before_last(&self, count: u32) -> u8 {
        (self.recent >> (8 * count)) as u8
    }

    fn next(&mut self, state: State, byte: u8) -> State {
        match state {
            State::Pass => self.pass(byte),
            State::Method(name) => match byte {
                b'a'..=b'z' | b'0'..=b'9' | b'-' if name >> 56 == 0 => State::Method(name << 8 | u64::from(byte)),
                b'$' if is_method(name) => State::Masked(Secret::Hash),
                _ => self.pass(byte),
            },
            State::Media(quote, count) => match byte {
                b',' if quote == 0 => State::Masked(Secret::Word),
                b',' => State::Masked(Secret::Quoted(quote)),
                _ if count >= MEDIA_TYPE || is_end(byte) => self.pass(byte),
                _ => State::Media(quote, count.saturating_add(1)),
            },
            State::Authority => match byte {
                b'/' => State::Path,
                b'?' => State::Query,
                _ if is_end(byte) || byte == b'#' => self.pass(byte),
                _ => state,
            },
            State::Path => match byte {
                b'?' => State::Query,
                _ if is_end(byte) => self.pass(byte),
                // One URL may hold another, as proxies' do.
                _ if self.ends_with("://") => State::Authority,
                _ => state,
            },
            State::Query => match byte {
                b'=' => State::Masked(Secret::Value),
                b'#' => State::Path,
                _ if is_end(byte) => self.pass(byte),
                _ => state,
            },
            State::Before(is_quoted) => match byte {
                b' ' | b'\\' | b':' => state,
                b'"' if is_quoted => State::Masked(Secret::Quoted(byte)),
                b'"' | b'\'' => state,
                b'\n' => State::Pass,
                _ if is_quoted => self.pass(byte),
                _ => State::Masked(Secret::Line),
            },
            State::Masked(secret) => {
                let ends = match secret {
                    Secret::Hash => {
                        !matches!(byte, b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'/' | b'$' | b'=' | b',' | b'+' | b'-')
                    }
                    Secret::Quoted(quote) => byte == b'\n' || byte == quote && self.before_last(1) != b'\\',
                    Secret::Word => is_end(byte),
                    Secret::Value => is_end(byte) || is_separator(byte) || byte == b'#',
                    Secret::Line => matches!(byte, b'\n' | b'\r' | b'"' | b'\''),
                    Secret::Blob => !matches!(byte, b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'=' | b'+'),
                    Secret::Key => self.ends_with("-----END"),
                };
                match (ends, secret) {
                    (false, _) => state,
                    (true, Secret::Value) if is_separator(byte) => State::Query,
                    (true, Secret::Value) if byte == b'#' => State::Path,
                    (true, _) => self.pass(byte),
                }
            }
        }
    }

    /// What begins with `byte`, by what lies before it.
    fn pass(&mut self, byte: u8) -> State {
        match byte {
            b'$' => State::Method(0),
            b':' => {
                let is_word = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
                if self.ends_with("data:") && !is_word(self.before_last(5)) {
                    match self.before_last(5) {
                        quote @ (b'"' | b'\'') => State::Media(quote, 0),
                        _ => State::Media(0, 0),
                    }
                } else if self.ends_with("authorization:") || self.ends_with("authorization\":") {
                    State::Before(false)
                } else if ["passwordhash\":", "\"value\":", "passwordhash\\\":", "\"value\\\":"]
                    .iter()
                    .any(|name| self.ends_with(name))
                {
                    State::Before(true)
                } else {
                    State::Pass
                }
            }
            b'/' if self.ends_with("://") => State::Authority,
            b' ' if self.ends_with("-----BEGIN ") => {
                self.is_beginning = true;
                State::Pass
            }
            b' ' if self.ends_with("bearer ") => State::Masked(Secret::Word),
            b'-' if self.is_beginning && self.ends_with("PRIVATE KEY-----") => {
                self.is_beginning = false;
                State::Masked(Secret::Key)
            }
            // The length of the key type's name, which begins the blob of each type: "ssh-rsa" and others.
            b'A' if self.ends_with(" AAAA") => State::Masked(Secret::Blob),
            _ => State::Pass,
        }
    }
}

impl Default for Redact {
    fn default() -> Self {
        Self::new()
    }
}

impl State {
    /// Whether a byte that leads here may be seen.
    fn is_shown(self) -> bool {
        !matches!(self, State::Authority | State::Query | State::Masked(_))
    }
}

/// Whether something may begin with a byte, if the one before it is right.
fn may_begin(byte: &u8) -> bool {
    *byte < 64 && BEGINS >> byte & 1 != 0 || *byte == b'A'
}

/// Where a word ends that stands in a sentence, in quotes or in brackets.
fn is_end(byte: u8) -> bool {
    matches!(byte, 0..=b' ' | b'"' | b'\'' | b'<' | b'>' | b'`' | b')' | b']' | b'}' | b'\\')
}

/// Between the values of a query.
fn is_separator(byte: u8) -> bool {
    matches!(byte, b'&' | b';')
}

/// The prefixes of crypt(5), and those of other formats that are used in their place.
fn is_method(name: u64) -> bool {
    let known: [&str; 18] = [
        "1", "2", "2a", "2b", "2x", "2y", "3", "5", "6", "7", "y", "gy", "md5", "sha1", "sm3", "scrypt", "argon2i",
        "argon2id",
    ];
    known.iter().any(|known| known.bytes().fold(0, |word, byte| word << 8 | u64::from(byte)) == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redacted(value: &str) -> String {
        let run = |cuts: &[usize]| {
            let (mut out, mut redact, mut from) = (Vec::new(), Redact::new(), 0);
            let mut output = |bytes: &[u8]| {
                out.extend_from_slice(bytes);
                Ok(())
            };
            for to in cuts {
                redact.push(&value.as_bytes()[from..*to], &mut output).unwrap();
                from = *to;
            }
            redact.push(&value.as_bytes()[from..], &mut output).unwrap();
            let (masked, _) = redact.end(&mut output).unwrap();
            (String::from_utf8(out).unwrap(), masked)
        };
        let (whole, masked) = run(&[]);
        assert_eq!(masked as usize, whole.matches("***").count());
        for cut in 0..=value.len() {
            assert_eq!(run(&[cut]).0, whole, "cut at {cut}");
        }
        assert_eq!(run(&Vec::from_iter(0..value.len())).0, whole, "byte by byte");
        whole
    }

    #[test]
    fn secrets_are_masked() {
        for (value, expected) in [
            (r#"useradd "--password" "$y$j9T$salt$hash" "core""#, r#"useradd "--password" "$y$***" "core""#),
            ("root:$6$rounds=5000$salt$h.a/s:19000:", "root:$6$***:19000:"),
            ("$2b$10$abcdefg $argon2id$v=19$m=1,t=2,p=1$c2E$aGE=", "$2b$*** $argon2id$***"),
            (r#"  "source": "data:,TOPSECRET TOKEN","#, r#"  "source": "data:,***","#),
            ("GET data:text/plain;base64,U0VDUkVU is", "GET data:text/plain;base64,*** is"),
            ("https://user:pass@host:1/p?a=1&b=2;c=3#f x", "https://***@host:1/p?a=***&b=***;c=***#f x"),
            ("https://u@h", "https://***@h"),
            ("(http://h?sig=S) <http://h/?k>", "(http://h?sig=***) <http://h/?***>"),
            ("http://h?tok http://h/p?a&b=c&&d;=e&f#g", "http://h?*** http://h/p?***&b=***&&***;=***&***#g"),
            ("http://u:p@h?tok#x ? http://h/?", "http://***@h?***#x ? http://h/?"),
            ("http://proxy/http://u:p@h/?x=y", "http://proxy/http://***@h/?x=***"),
            ("Authorization: Basic dTpw\nnext", "Authorization: ***\nnext"),
            (r#"{"name": "authorization", "value": "abc"}"#, r#"{"name": "authorization", "value": "***"}"#),
            (r#"-H 'Authorization: Bearer abc' -v"#, r#"-H 'Authorization: ***' -v"#),
            ("token is bearer abcdef.", "token is bearer ***"),
            (r#""passwordHash":"plain\"text","#, r#""passwordHash":"***","#),
            (r#""passwordHash": null"#, r#""passwordHash": null"#),
            (
                r#""sshAuthorizedKeys": ["ssh-ed25519 AAAAC3Nza/+= me@host"]"#,
                r#""sshAuthorizedKeys": ["ssh-ed25519 AAAA*** me@host"]"#,
            ),
            (
                "-----BEGIN OPENSSH PRIVATE KEY-----\nb3Bl\nbnNz\n-----END OPENSSH PRIVATE KEY----- x",
                "-----BEGIN OPENSSH PRIVATE KEY-----***-----END OPENSSH PRIVATE KEY----- x",
            ),
        ] {
            assert_eq!(redacted(value), expected);
        }
    }

    #[test]
    fn what_is_no_secret_stays() {
        for value in [
            "",
            "metadata: a,b; data: c, d",
            "costs $5 or $10, echo $1 $2, $HOME/$x$y",
            "https://host/a/b#d and http://[fd00::1]:80/x",
            "Reached target basic.target - Basic System.",
            "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
            "AAAAC3Nza alone, file:///etc/passwd",
            "größe: 5 €",
        ] {
            assert_eq!(redacted(value), value);
        }
    }

    #[test]
    fn an_authority_without_end_is_not_held_without_end() {
        let long = format!("http://{}", "p".repeat(10_000));
        assert_eq!(redacted(&long[..200]), long[..200]);
        let mut out = Vec::new();
        let mut redact = Redact::new();
        let mut output = |bytes: &[u8]| {
            out.extend_from_slice(bytes);
            Ok(())
        };
        redact.push(long.as_bytes(), &mut output).unwrap();
        redact.end(&mut |_: &[u8]| Ok(())).unwrap();
        assert_eq!(out, b"http://***");
        assert_eq!(redacted(&format!("http://h/?{}&c=d e", "p".repeat(1000))), "http://h/?***&c=*** e");
        assert_eq!(redacted(&format!("http://h/?{}=c e", "p".repeat(1000))), "http://h/?*** e");
    }
}
