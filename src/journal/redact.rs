//! Secrets that provisioning tools log, masked in one pass over a value, in pieces of any size.
//!
//! Each of these is replaced by `***`:
//! - values after names that announce a secret (`settings::secrets`), as `name=value`,
//!   `name: value`, JSON, JSON within JSON, YAML, header fields, options (`--token x`,
//!   `-u user:x`) and words
//! - tokens with a known beginning
//! - the salt and hash of crypt(3) hashes (crypt(5))
//! - the contents of `data:` URLs (RFC 2397)
//! - private keys in PEM (RFC 7468), PGP and DER
//! - the userinfo and the query of URLs (RFC 3986 sections 3.2.1 and 3.4); of `name=value`, only
//!   the value
//! - lists of `user:password`
//! - the values of `value` (a header field's) in a configuration that Ignition dumps
//!
//! Names stay readable.
//!
//! Everything is recognised by what comes before it. Bytes that must be seen before they can be
//! judged are held back: the authority of a URL, the names in its query, and the first word of a
//! value.

use crate::error::Error;
use crate::journal::payload::Output;
use crate::settings::redact::CommandLine;
use crate::settings::secrets::{Secrecy, may_end, secrecy};
use crate::sink::copy;
use alloc::boxed::Box;

/// Replacement for a secret.
const MASK: &[u8] = b"***";
/// Bytes of a URL's authority that are held back until it is clear whether it has userinfo, and of
/// a name in its query until it is clear whether it has a value. Anything longer is masked as a
/// whole.
const HELD_MAX: usize = 256;
/// Bytes of a value that are held back until it is clear whether it is a secret. That is longer
/// than any harmless word, and more than a value needs to look like a secret.
const JUDGED_MAX: usize = 32;
/// Maximum number of bytes between `data:` and the comma: a media type and its parameters.
const MEDIA_TYPE: u8 = 100;
/// Bytes before the current piece that are remembered: the longest name and its surroundings.
const TAIL: usize = 64;

/// The bytes with which something can begin (see `pass`), except the letters and `_`.
const BEGINS: u64 = 1 << b' ' | 1 << b'\t' | 1 << b'$' | 1 << b'-' | 1 << b'.' | 1 << b'/' | 1 << b':' | 1 << b'=';

/// The beginnings of tokens. One of a single letter or a common word must also be followed by
/// something that looks like a token.
const TOKENS: [&str; 34] = [
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "ghr_",
    "github_pat_",
    "glpat-",
    "gldt-",
    "glrt-",
    "glsa_",
    "xoxb-",
    "xoxp-",
    "xoxa-",
    "xoxr-",
    "xoxs-",
    "xapp-",
    "sk-",
    "sk_live_",
    "rk_live_",
    "sk_test_",
    "whsec_",
    "hvs.",
    "hvb.",
    "hvr.",
    "npm_",
    "pypi-",
    "dop_v1_",
    "SG.",
    "ya29.",
    "dckr_pat_",
    "shpat_",
    "tskey-",
    "AGE-SECRET-KEY-",
    "lin_api_",
];
/// Commands whose option `-p` is a password.
const COMMANDS: [&str; 7] = ["usermod", "useradd", "sshpass", "login", "mysql", "ipmitool", "adduser"];
/// Values that are not secrets: placeholders, and words for the state of a secret.
const WORDS: &str = "true false yes no null nil none ok on off enabled disabled enable disable set unset not required optional valid \
                     invalid expired missing empty failed failure success accepted rejected denied unknown unsupported hidden \
                     redacted changed unchanged unavailable default present absent files compat sss prompt auto static random locked \
                     prohibit-password without-password undefined masked removed omitted update updated";

/// The filter for one value.
pub(super) struct Redact {
    state: State,
    /// The bytes before the current piece, at the end of this array.
    tail: [u8; TAIL],
    held: heapless::Vec<u8, HELD_MAX, u16>,
    masked: u32,
    value: Value,
    /// Masks the words of a command line, once there was one. The flag says whether the rest of
    /// this line belongs to a command line.
    line: Option<Box<CommandLine>>,
    is_line: bool,
    /// Number of bytes that the command line received and will return, though they were passed on
    /// before.
    given: usize,
    /// Whether lines of `user:password` may follow, as they do after `chpasswd`.
    is_list: bool,
}

/// The part of a secret that may follow in later values.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Rest {
    /// No part.
    Nothing,
    /// The rest of a private key.
    Key,
    /// Indented lines that are a secret.
    Block,
    /// Lines of `user:password`.
    List,
}

/// What is known of a value before it begins.
#[derive(Clone, Copy)]
struct Value {
    secrecy: Secrecy,
    /// The byte between the name and the value: `=`, `:` or a blank.
    separator: u8,
    /// Whether the value extends to the end of the line, as in YAML and in header fields.
    is_line: bool,
    /// Whether the name is quoted, so that an unquoted value is a number or a word of JSON.
    is_json: bool,
    /// Whether a blank comes before the value, so that this may be a sentence.
    is_apart: bool,
    /// Whether the value is a list, or begins on the next line.
    is_many: bool,
    is_block: bool,
    /// The quote around the value, and the number of backslashes before the quote.
    quote: u8,
    escapes: u8,
}

/// The state in which no value is expected.
const NO_VALUE: Value = Value {
    secrecy: Secrecy::Open,
    separator: 0,
    is_line: false,
    is_json: false,
    is_apart: false,
    is_many: false,
    is_block: false,
    quote: 0,
    escapes: 0,
};

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nothing begins here yet.
    Pass,
    /// After a `$`: the method's name so far, its bytes in order.
    Method(u64),
    /// After `data:`: the quote around it, and the number of bytes so far.
    Media(u8, u8),
    /// After `://`.
    Authority,
    /// In a URL, before its query.
    Path,
    /// In a query, after its `?` or a separator: in a name, if a value follows.
    Query,
    /// After the name of [`Redact::value`], before the value.
    Before,
    /// In the user name of `-u user:password`.
    User,
    /// At the beginning of a value that may be a secret. The flag says whether a word of the value
    /// has ended.
    Judged(bool),
    /// In a secret.
    Masked(Secret),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Secret {
    /// A hash: ends where its alphabet ends.
    Hash,
    /// Ends at this quote with as many backslashes before it, or at the end of the line.
    Quoted(u8, u8),
    /// Ends at a blank, a quote or a bracket.
    Word,
    /// Ends at a blank or a quote.
    Plain,
    /// Ends at a blank, a comma or a bracket.
    Json,
    /// The value of a query.
    Value,
    /// The rest of a line, or of a quotation.
    Line,
    /// The rest of a line.
    Rest,
    /// Ends at the bracket of the list, or at the end of the line.
    List,
    /// Base64, including the alphabet for URLs, and dots.
    Blob,
    /// Up to `-----END`.
    Key,
}

/// The verdict on a value, from the bytes held back so far.
enum Judgement {
    /// More bytes are needed.
    Wait,
    /// Not a secret.
    Open,
    /// A secret that extends up to its own end.
    Masked(Secret),
    /// A secret of one word, after which a blank was seen.
    Word,
}

/// The current byte and the [`TAIL`] bytes before it; 0 for bytes that do not exist.
#[derive(Clone, Copy)]
struct Seen<'a>(&'a [u8]);

impl Seen<'_> {
    /// Returns the byte `count` bytes before the current one.
    #[inline(never)]
    fn back(&self, count: usize) -> u8 {
        self.until(count).last().copied().unwrap_or(0)
    }

    /// Returns all bytes except the last `count`.
    fn until(&self, count: usize) -> &[u8] {
        self.0.get(..self.0.len().saturating_sub(count)).unwrap_or_default()
    }

    /// Whether the last bytes are `text`, in upper or lower case.
    fn ends_with(&self, text: &str) -> bool {
        self.ends_before(0, text)
    }

    /// Whether the bytes before the last `count` bytes are `text`, in upper or lower case.
    fn ends_before(&self, count: usize, text: &str) -> bool {
        let until = self.until(count);
        let at = until.len().checked_sub(text.len());
        at.and_then(|at| until.get(at..)).is_some_and(|end| end.eq_ignore_ascii_case(text.as_bytes()))
    }

    /// Whether one of `words` is among the last bytes.
    fn has_one_of(&self, words: &[&str]) -> bool {
        (0..TAIL).any(|count| words.iter().any(|word| self.ends_before(count, word)))
    }

    /// Returns the distance from the current byte back to the start of the name that ends before
    /// the last `count` bytes.
    fn name_start(&self, count: usize) -> usize {
        let is_key = self.ends_before(count, " key");
        let skip = if is_key { 4 } else { 0 };
        // `api key` is a name, too.
        let until = self.until(count.saturating_add(skip));
        count.saturating_add(skip).saturating_add(until.iter().rev().take_while(|b| is_name(**b)).count())
    }

    /// Returns the secrecy of the value of this name.
    fn secrecy(&self, start: usize, count: usize) -> Secrecy {
        secrecy(self.until(count).get(self.until(start).len()..).unwrap_or_default())
    }

    /// Whether a line begins after the byte `count` bytes before the current one, ignoring blanks
    /// and YAML's `- `.
    fn is_line_start(&self, count: usize) -> bool {
        let until = self.until(count);
        let blanks = until.iter().rev().take_while(|b| matches!(b, b' ' | b'\t' | b'-')).count();
        let count = count.saturating_add(blanks);
        matches!(self.back(count), b'\n' | 0) || self.ends_before(count, "MESSAGE=")
    }
}

impl Redact {
    /// Returns the state before a value.
    pub(super) fn new() -> Self {
        Self {
            state: State::Pass,
            tail: [0; TAIL],
            held: heapless::Vec::new(),
            masked: 0,
            value: NO_VALUE,
            line: None,
            is_line: false,
            given: 0,
            is_list: false,
        }
    }

    /// Resets the state, for another value.
    pub(super) fn restart(&mut self) {
        (self.state, self.tail, self.masked) = (State::Pass, [0; TAIL], 0);
        (self.is_line, self.is_list) = (false, false);
        self.held.clear();
    }

    /// Takes a piece of the value, and passes the visible part of it to `output`.
    pub(super) fn push(&mut self, mut piece: &[u8], output: &mut Output) -> Result<(), Error> {
        while !piece.is_empty() {
            let used = match self.is_line {
                true => {
                    let end = piece.iter().position(|b| *b == b'\n');
                    let words = piece.get(..end.unwrap_or(piece.len())).unwrap_or_default();
                    self.words(words, end.is_some(), output)?;
                    words.len()
                }
                false => self.plain(piece, output)?,
            };
            piece = piece.get(used..).unwrap_or_default();
        }
        Ok(())
    }

    /// Takes words of a command line, and passes those that have ended on to the filter for other
    /// text.
    fn words(&mut self, words: &[u8], is_end: bool, output: &mut Output) -> Result<(), Error> {
        let mut line = self.line.take().unwrap_or_default();
        let given = &mut |part: &[u8]| {
            self.masked = self.masked.saturating_add(u32::from(part == MASK));
            let rest = part.get(self.given..).unwrap_or_default();
            self.given = self.given.saturating_sub(part.len());
            // The whole part is consumed: no command line begins within one.
            self.plain(rest, output).map(|_| ())
        };
        let mut masked = line.push(words, given);
        if is_end && masked.is_ok() {
            masked = line.end(given);
            self.is_line = false;
        }
        self.line = Some(line);
        masked
    }

    /// Begins a command line. `start` is its first part, which was passed on already.
    fn begin_line(&mut self, start: &[u8]) -> State {
        if !self.is_line {
            let mut line = self.line.take().unwrap_or_default();
            // No word ends within `start`.
            let _ = line.push(start, &mut |_| Ok(()));
            (self.line, self.given, self.is_line) = (Some(line), start.len(), true);
        }
        State::Pass
    }

    /// Takes a piece up to the beginning of a command line. Returns the number of bytes taken.
    fn plain(&mut self, piece: &[u8], output: &mut Output) -> Result<usize, Error> {
        let was_line = self.is_line;
        // Bytes from `start` on are still to be passed on.
        let mut start = if self.state.is_shown() { 0 } else { usize::MAX };
        let mut next = 0usize;
        loop {
            if self.state == State::Pass {
                next = self.skip(piece, next);
            }
            let at = next;
            let Some(byte) = piece.get(at).copied() else { break };
            let mut window = [0; TAIL + 1];
            let seen = self.seen(piece, at, &mut window);
            next = at.saturating_add(1);
            let before = self.state;
            if let State::Judged(has_word) = before {
                match self.judge(byte, has_word, seen) {
                    Judgement::Wait => {}
                    Judgement::Masked(secret) => {
                        self.mask(output)?;
                        self.state = State::Masked(secret);
                        next = at;
                    }
                    Judgement::Word => {
                        self.mask(output)?;
                        output(b" ")?;
                        self.state = State::Pass;
                        (start, next) = (at, at);
                    }
                    Judgement::Open => {
                        self.release(seen, output)?;
                        (start, next) = (if self.state.is_shown() { at } else { usize::MAX }, at);
                    }
                }
                continue;
            }
            self.state = self.next(before, byte, seen);
            if self.is_line && !was_line {
                self.remember(piece.get(..next).unwrap_or_default());
                output(piece.get(start..next).unwrap_or_default())?;
                return Ok(next);
            }
            match (before.is_shown(), self.state.is_shown()) {
                (true, true) => {}
                // The byte that leads to a secret is shown, unless it is the first byte of the
                // secret.
                (true, false) => {
                    let end = if before == State::Before { at } else { next };
                    output(piece.get(start..end).unwrap_or_default())?;
                    match self.state {
                        State::Masked(_) => self.mask(output)?,
                        // The first byte of a value is judged with it; that of a token is known
                        // already.
                        State::Judged(_) if before == State::Before => next = at,
                        _ => {}
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
        self.remember(piece);
        if let Some(rest) = piece.get(start..).filter(|rest| !rest.is_empty()) {
            output(rest)?;
        }
        Ok(piece.len())
    }

    /// Passes on what was held back. Returns the number of masked secrets, and the part of a secret
    /// that may follow in the next values.
    pub(super) fn end(&mut self, output: &mut Output) -> Result<(u32, Rest), Error> {
        if self.is_line {
            self.words(b"", true, output)?;
        }
        // Each release is shorter than the one before, so the loop ends.
        while let State::Judged(has_word) = self.state {
            let mut window = [0; TAIL + 1];
            let seen = self.seen(b"\n", 0, &mut window);
            match self.judge(b'\n', has_word, seen) {
                Judgement::Open | Judgement::Wait => self.release(seen, output)?,
                Judgement::Masked(_) | Judgement::Word => {
                    self.mask(output)?;
                    self.state = State::Pass;
                }
            }
        }
        self.give(self.state, output)?;
        let rest = match self.state {
            State::Masked(Secret::Key) => Rest::Key,
            State::Before if self.value.is_block => Rest::Block,
            _ if self.is_list => Rest::List,
            _ => Rest::Nothing,
        };
        Ok((self.masked, rest))
    }

    /// Returns the byte of `piece` at `at` with the bytes before it. They are collected in `window`
    /// if the piece has just begun.
    fn seen<'a>(&self, piece: &'a [u8], at: usize, window: &'a mut [u8; TAIL + 1]) -> Seen<'a> {
        if let Some(seen) = at.checked_sub(TAIL).and_then(|from| piece.get(from..=at)) {
            return Seen(seen);
        }
        let new = piece.get(..=at).unwrap_or_default();
        let old = self.tail.get(new.len().saturating_sub(1)..).unwrap_or_default();
        if let Some((before, current)) = window.split_at_mut_checked(old.len()) {
            copy(old, before);
            copy(new, current);
        }
        Seen(window)
    }

    /// Keeps the last bytes of `piece` for the next piece.
    fn remember(&mut self, piece: &[u8]) {
        match piece.last_chunk() {
            Some(chunk) => self.tail = *chunk,
            None => {
                self.tail.copy_within(piece.len().min(TAIL).., 0);
                if let Some(end) = TAIL.checked_sub(piece.len()).and_then(|at| self.tail.get_mut(at..)) {
                    copy(piece, end);
                }
            }
        }
    }

    /// Passes on what was held back in `state`. In a query, those bytes are not a name, since no
    /// value follows; they are masked.
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

    /// Releases the bytes held back before the current byte: by its name, the value is not a
    /// secret. The bytes are filtered as if the name were not there.
    fn release(&mut self, seen: Seen, output: &mut Output) -> Result<(), Error> {
        let held: heapless::Vec<u8, { JUDGED_MAX + 1 }, u8> = self.held.iter().copied().take(JUDGED_MAX + 1).collect();
        self.held.clear();
        self.state = State::Pass;
        let tail = self.tail;
        let before = seen.until(held.len().saturating_add(1));
        let start = TAIL.saturating_sub(before.len());
        self.tail = [0; TAIL];
        if let Some(end) = self.tail.get_mut(start..) {
            copy(before, end);
        }
        // The filter may hold some of these bytes back again, but fewer of them each time.
        self.plain(&held, output)?;
        self.tail = tail;
        Ok(())
    }

    /// Takes a byte after the state `before` that is not shown, or that ends one hidden thing and
    /// begins another.
    fn hidden(&mut self, before: State, byte: u8, output: &mut Output) -> Result<(), Error> {
        match (before, self.state) {
            // A value begins: the bytes held back are its name.
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

    /// Puts the mask in place of a secret, including the part that was held back.
    #[inline(never)]
    fn mask(&mut self, output: &mut Output) -> Result<(), Error> {
        self.held.clear();
        self.masked = self.masked.saturating_add(1);
        output(MASK)
    }

    fn next(&mut self, state: State, byte: u8, seen: Seen) -> State {
        match state {
            State::Pass | State::Judged(_) => self.pass(byte, seen),
            State::Method(name) => match byte {
                b'a'..=b'z' | b'0'..=b'9' | b'-' if name >> 56 == 0 => State::Method(name << 8 | u64::from(byte)),
                b'$' if is_method(name) => State::Masked(Secret::Hash),
                _ => self.pass(byte, seen),
            },
            State::Media(quote, count) => match byte {
                b',' if quote == 0 => State::Masked(Secret::Word),
                b',' => State::Masked(Secret::Quoted(quote, 0)),
                _ if count >= MEDIA_TYPE || is_end(byte) => self.pass(byte, seen),
                _ => State::Media(quote, count.saturating_add(1)),
            },
            State::Authority => match byte {
                b'/' => State::Path,
                b'?' => State::Query,
                _ if is_end(byte) || byte == b'#' => self.pass(byte, seen),
                _ => state,
            },
            State::Path => match byte {
                b'?' => State::Query,
                _ if is_end(byte) => self.pass(byte, seen),
                // One URL may contain another, as the URLs of proxies do.
                _ if seen.ends_with("://") => State::Authority,
                // In the URL of a webhook, the path is the secret.
                b'/' if seen.ends_with("slack.com/services/") || seen.ends_with("/webhooks/") => {
                    State::Masked(Secret::Word)
                }
                _ => state,
            },
            State::Query => match byte {
                b'=' => State::Masked(Secret::Value),
                b'#' => State::Path,
                _ if is_end(byte) => self.pass(byte, seen),
                _ => state,
            },
            State::Before => self.before(byte, seen),
            State::User => match byte {
                b':' | b'%' => self.expect(Secrecy::Secret, b'@'),
                b'"' | b'\'' | b'-' if seen.back(1) == b' ' => {
                    self.value.quote = byte;
                    state
                }
                b' ' if seen.back(1) == b' ' => state,
                _ if is_name(byte) || byte == b'@' || byte == b'\\' => state,
                _ => self.pass(byte, seen),
            },
            State::Masked(secret) => self.masked(secret, byte, seen),
        }
    }

    /// Returns the state after a byte within a secret.
    fn masked(&mut self, secret: Secret, byte: u8, seen: Seen) -> State {
        let is_base64 = byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'=' | b'+' | b'-');
        let ends = match secret {
            Secret::Hash => !is_base64 && !matches!(byte, b'.' | b'$' | b','),
            Secret::Blob => !is_base64 && !matches!(byte, b'.' | b'_'),
            Secret::Quoted(quote, escapes) => byte == b'\n' || byte == quote && is_quote(seen, escapes),
            Secret::Word => is_end(byte),
            Secret::Plain => is_blank(byte) || matches!(byte, b'"' | b'\'' | b'`'),
            Secret::Json => is_blank(byte) || matches!(byte, b',' | b'}' | b']'),
            Secret::Value => is_end(byte) || is_separator(byte) || byte == b'#',
            Secret::Line => matches!(byte, b'\n' | b'\r' | b'"' | b'\''),
            Secret::Rest => byte == b'\n',
            Secret::List => matches!(byte, b']' | b'\n'),
            Secret::Key => seen.ends_with("-----END"),
        };
        match (ends, secret) {
            (false, _) if byte == b'-' && is_key_start(seen) => State::Masked(Secret::Key),
            (false, _) => State::Masked(secret),
            (true, Secret::Value) if is_separator(byte) => State::Query,
            (true, Secret::Value) if byte == b'#' => State::Path,
            (true, _) => self.pass(byte, seen),
        }
    }

    /// Returns the state after `byte`, according to the bytes before it.
    fn pass(&mut self, byte: u8, seen: Seen) -> State {
        match byte {
            b'$' => State::Method(0),
            b':' if seen.ends_with("data:") && !is_name(seen.back(5)) => match seen.back(5) {
                quote @ (b'"' | b'\'') => State::Media(quote, 0),
                _ => State::Media(0, 0),
            },
            b':' if seen.ends_with("=iscsi:") => State::Authority,
            b':' if seen.ends_with("ommand line:") || seen.ends_with("line parameters:") => self.begin_line(b""),
            // The name of a setting.
            b'.' if seen.ends_with("rd.") && !is_name(seen.back(3)) => {
                let quote = usize::from(matches!(seen.back(3), b'"' | b'\''));
                self.begin_line(seen.until(0).get(seen.until(quote.saturating_add(3)).len()..).unwrap_or_default())
            }
            b':' | b'=' => self.named(byte, seen),
            b'/' if seen.ends_with("://") => State::Authority,
            b' ' | b'\t' => self.worded(byte, seen),
            b'-' if is_key_start(seen) => State::Masked(Secret::Key),
            b'-' | b'_' | b'.' => self.token(byte, seen),
            // The beginning of a JSON object in base64, and so of the tokens of RFC 7519.
            b'J' if seen.ends_with("eyJ") && !is_name(seen.back(3)) => State::Masked(Secret::Blob),
            // A private key in DER: a sequence whose first element is the version, 0.
            b'A' if seen.ends_before(6, "MII") && seen.ends_with("IBA") && !is_name(seen.back(9)) => {
                State::Masked(Secret::Blob)
            }
            _ => State::Pass,
        }
    }

    /// After `:` or `=`: checks whether the name before it announces a secret.
    fn named(&mut self, byte: u8, seen: Seen) -> State {
        let mut count = 1usize;
        while matches!(seen.back(count), b' ' | b'\t') && count < TAIL {
            count = count.saturating_add(1);
        }
        let quote = seen.back(count);
        let is_json = matches!(quote, b'"' | b'\'');
        if is_json {
            count = count.saturating_add(1);
            while seen.back(count) == b'\\' && count < TAIL {
                count = count.saturating_add(1);
            }
        }
        if byte == b':' && self.is_list && seen.is_line_start(seen.name_start(count)) {
            self.expect(Secrecy::Secret, b'=');
            self.value.is_line = true;
            return State::Before;
        }
        self.is_list |= byte == b':' && seen.ends_before(1, "chpasswd");
        if is_json && byte == b':' && seen.ends_before(count, "value") && !is_name(seen.back(count.saturating_add(5))) {
            return self.expect(Secrecy::Header, b'"');
        }
        let (before, last) = (seen.back(count.saturating_add(1)), seen.back(count));
        if !may_end(before, last) && !last.is_ascii_digit() {
            return State::Pass;
        }
        let begin = seen.name_start(count);
        let secrecy = seen.secrecy(begin, count);
        if seen.ends_before(count, "unexpected token") {
            return State::Pass;
        }
        // Of several words, such as `signing key: 6cce7e4c`, only the best known are a name. A path
        // is the subject of a message.
        let is_apart = seen.ends_before(count, " key");
        if secrecy == Secrecy::Open
            || secrecy == Secrecy::Likely && is_apart
            || byte == b':' && seen.back(begin) == b'/'
        {
            return State::Pass;
        }
        self.expect(secrecy, byte);
        self.value.is_json = is_json;
        self.value.is_line = secrecy == Secrecy::Header || byte == b':' && !is_json && seen.is_line_start(begin);
        State::Before
    }

    /// After a blank: checks whether the word before it announces a secret.
    fn worded(&mut self, byte: u8, seen: Seen) -> State {
        let mut count = 1usize;
        while matches!(seen.back(count), b'"' | b'\'' | b',') && count < 4 {
            count = count.saturating_add(1);
        }
        let last = seen.back(count);
        let (dash, before) = (seen.back(count.saturating_add(1)), seen.back(count.saturating_add(2)));
        if dash == b'-' && (is_blank(before) || matches!(before, b'"' | b'\'' | b'=')) {
            return match last {
                b'u' | b'U' => self.user(),
                b'p' | b'P' if seen.has_one_of(&COMMANDS) => self.expect(Secrecy::Secret, byte),
                _ => State::Pass,
            };
        }
        if seen.ends_before(1, "bearer") && !is_name(seen.back(7)) {
            self.expect(Secrecy::Secret, b':');
            self.value.is_apart = true;
            return State::Before;
        }
        // A shell logs the `echo user:password` that is piped into chpasswd.
        if seen.ends_before(count, "-user") || seen.ends_before(1, "echo") {
            return self.user();
        }
        if !may_end(dash, last) {
            return State::Pass;
        }
        let begin = seen.name_start(count);
        let is_option = seen.ends_before(begin.saturating_sub(2), "--");
        match seen.secrecy(begin, count) {
            secrecy if is_option && secrecy != Secrecy::Open => self.expect(secrecy, byte),
            // Within a sentence, the value must also look like a secret.
            Secrecy::Secret | Secrecy::Header if count == 1 && seen.back(begin) != b'/' => {
                self.expect(Secrecy::Likely, byte)
            }
            _ => State::Pass,
        }
    }

    /// After a byte that may complete the beginning of a token: checks for a token.
    fn token(&mut self, byte: u8, seen: Seen) -> State {
        let is_start = |token: &&&str| seen.ends_with(token) && !is_name(seen.back(token.len()));
        match TOKENS.iter().find(is_start) {
            Some(_) => {
                self.expect(Secrecy::Likely, byte);
                State::Judged(false)
            }
            None => State::Pass,
        }
    }

    fn user(&mut self) -> State {
        self.expect(Secrecy::Open, 0);
        State::User
    }

    /// Prepares for a value.
    fn expect(&mut self, secrecy: Secrecy, separator: u8) -> State {
        let quote = if self.state == State::User { self.value.quote } else { 0 };
        self.value = Value { secrecy, separator, quote, ..NO_VALUE };
        State::Before
    }

    /// Takes a byte between a name and its value.
    fn before(&mut self, byte: u8, seen: Seen) -> State {
        let value = &mut self.value;
        let is_quoted = value.quote != 0;
        match byte {
            // The value of a header field of Ignition's is quoted.
            b':' | b' ' | b'\\' if value.separator == b'"' && !is_quoted => return State::Before,
            _ if value.separator == b'"' && !is_quoted && byte != b'"' => return self.pass(byte, seen),
            b' ' if value.separator == b'@' => return self.pass(byte, seen),
            b'\\' if !is_quoted => value.escapes = value.escapes.saturating_add(1),
            b' ' | b'\t' | b'\r' if !is_quoted => value.is_apart = true,
            b'"' | b'\'' if !is_quoted => value.quote = byte,
            // The value is empty.
            _ if is_quoted && byte == value.quote => return State::Pass,
            b'=' | b':' if value.separator == b' ' && !is_quoted => return self.pass(byte, seen),
            b'=' | b':' | b'>' | b'|' if !is_quoted => {
                value.is_block |= matches!(byte, b'>' | b'|') && value.separator == b':'
            }
            b'-' | b'+' if value.is_block && !is_quoted => {}
            b'\n' if value.is_block && !is_quoted => value.is_line = true,
            b'[' if !is_quoted && value.separator != b' ' => value.is_many = true,
            b'\n' | b'{' | b'(' | b',' | b';' | b')' | b']' | b'}' if !is_quoted => return self.pass(byte, seen),
            b'-' if value.separator == b' ' && !is_quoted => return self.pass(byte, seen),
            b'\\' => {}
            _ if value.is_many && value.secrecy == Secrecy::Likely => return self.pass(byte, seen),
            _ if value.is_many => return State::Masked(Secret::List),
            _ => return State::Judged(false),
        }
        State::Before
    }

    /// Takes a byte of a value, or the byte after it.
    fn judge(&mut self, byte: u8, has_word: bool, seen: Seen) -> Judgement {
        let value = self.value;
        if has_word {
            return match byte {
                _ if byte.is_ascii_alphabetic() || byte == b'(' => Judgement::Open,
                _ if value.is_line => Judgement::Masked(self.extent()),
                _ => Judgement::Word,
            };
        }
        let is_likely = value.secrecy == Secrecy::Likely;
        let has_ended = match value.quote {
            0 if is_likely => !is_token(byte),
            0 => is_blank(byte) || matches!(byte, b'"' | b'\'') || value.is_json && matches!(byte, b',' | b'}' | b']'),
            quote => byte == b'\n' || byte == quote && is_quote(seen, value.escapes),
        };
        if !has_ended && self.held.len() < JUDGED_MAX {
            // The buffer has room for more than that.
            let _ = self.held.push(byte);
            return Judgement::Wait;
        }
        let text = self.held.trim_ascii_end();
        let is_secret = match value.secrecy {
            Secrecy::Open => false,
            Secrecy::Likely => looks_secret(text),
            Secrecy::Secret | Secrecy::Header => !is_harmless(text),
        };
        let is_word = text.len() < 4 || text.iter().all(u8::is_ascii_alphabetic);
        let may_be_sentence = value.is_apart && value.separator == b':' && value.secrecy == Secrecy::Secret;
        if is_secret && is_word && may_be_sentence && value.quote == 0 && byte == b' ' {
            self.state = State::Judged(true);
            let _ = self.held.push(byte);
            return Judgement::Wait;
        }
        match is_secret {
            true => Judgement::Masked(self.extent()),
            false => Judgement::Open,
        }
    }

    /// Returns how far a secret value extends.
    fn extent(&self) -> Secret {
        let value = self.value;
        match value.separator {
            _ if value.quote != 0 => Secret::Quoted(value.quote, value.escapes),
            b'-' | b'_' | b'.' => Secret::Blob,
            _ if value.is_json => Secret::Json,
            _ if value.secrecy == Secrecy::Header => Secret::Line,
            _ if value.is_line => Secret::Rest,
            _ => Secret::Plain,
        }
    }

    /// Skips bytes of `piece` from `at` on with which nothing begins. Returns the offset where
    /// something may begin.
    fn skip(&self, piece: &[u8], mut at: usize) -> usize {
        let back = |at: usize, count: usize| match at.checked_sub(count) {
            Some(at) => piece.get(at).copied().unwrap_or(0),
            None => TAIL.checked_sub(count.saturating_sub(at)).and_then(|at| self.tail.get(at)).copied().unwrap_or(0),
        };
        loop {
            let Some(more) = piece.get(at..).and_then(|rest| rest.iter().position(may_begin)) else {
                return piece.len();
            };
            at = at.saturating_add(more);
            let (before, last) = (back(at, 2), back(at, 1));
            let begins = match back(at, 0) {
                b'$' => true,
                b'/' => last == b'/',
                b'J' => last == b'y',
                b'A' => last == b'B',
                b':' | b'=' if may_end(before, last) || matches!(last, b'"' | b'\'' | b' ') || self.is_list => true,
                // `netroot=iscsi:`, `command line:` and `parameters:`.
                b':' if matches!(&[before, last], b"si" | b"ne" | b"rs") => true,
                b'=' => last.is_ascii_digit(),
                b':' => false,
                b'-' if last == b'-' => true,
                b'-' | b'_' | b'.' => may_end_token(before, last),
                _ => match last | 0x20 {
                    b'p' | b'u' if before == b'-' => true,
                    b'r' => before | 0x20 == b'e' && matches!(back(at, 3) | 0x20, b'r' | b's'),
                    b'o' => before == b'h',
                    b'd' => matches!(before | 0x20, b'r' | b'w'),
                    b'n' => before | 0x20 == b'e' && back(at, 3) | 0x20 == b'k',
                    b't' => before | 0x20 == b'e' && back(at, 3) | 0x20 == b'r',
                    b'e' => before | 0x20 == b's' && back(at, 3) | 0x20 == b'a',
                    b'y' => before | 0x20 == b'e',
                    b'k' | b's' => before | 0x20 == b's',
                    b'"' | b'\'' | b',' => matches!(before, b'"' | b'\'') || last != b',',
                    _ => false,
                },
            };
            if begins {
                return at;
            }
            at = at.saturating_add(1);
        }
    }
}

impl Default for Redact {
    fn default() -> Self {
        Self::new()
    }
}

impl State {
    /// Whether a byte that leads to this state may be seen.
    fn is_shown(self) -> bool {
        !matches!(self, State::Authority | State::Query | State::Judged(_) | State::Masked(_))
    }
}

/// Whether something may begin with `byte`, after the right bytes.
fn may_begin(byte: &u8) -> bool {
    match *byte {
        byte @ ..64 => BEGINS >> byte & 1 != 0,
        byte => byte <= b'_' && matches!(byte, b'A' | b'J' | b'_'),
    }
}

/// Whether one of [`TOKENS`] may end with these bytes and one more: a quick first check.
fn may_end_token(before: u8, last: u8) -> bool {
    matches!(before, b'h' | b'x' | b'v')
        || matches!(
            &[before, last],
            b"at"
                | b"sk"
                | b"rd"
                | b"pm"
                | b"ve"
                | b"ec"
                | b"st"
                | b"sa"
                | b"pi"
                | b"dt"
                | b"rt"
                | b"pp"
                | b"ey"
                | b"EY"
                | b"SG"
                | b"29"
        )
}

/// Whether `byte` occurs in names.
fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.')
}

/// Whether `byte` occurs in tokens: base64, its alphabet for URLs, and percent-encoding.
fn is_token(byte: u8) -> bool {
    is_name(byte) || matches!(byte, b'+' | b'/' | b'=' | b'~' | b'%')
}

/// Whether `byte` is white space, or the end of a string in C.
fn is_blank(byte: u8) -> bool {
    byte <= b' '
}

/// Whether a quote ends a string that was opened by a quote after `escapes` backslashes.
fn is_quote(seen: Seen, escapes: u8) -> bool {
    let count = (1..TAIL).take_while(|count| seen.back(*count) == b'\\').count();
    match escapes {
        0 => count % 2 == 0,
        _ => count <= escapes.into(),
    }
}

/// Whether a private key begins after this byte: `-----BEGIN OPENSSH PRIVATE KEY-----`.
fn is_key_start(seen: Seen) -> bool {
    (seen.ends_with("PRIVATE KEY-----") || seen.ends_with("PRIVATE KEY BLOCK-----"))
        // The nearest label counts: another key may have ended or begun just before.
        && (16..TAIL)
            .find(|count| ["-----BEGIN", "-----END"].iter().any(|label| seen.ends_before(*count, label)))
            .is_some_and(|count| seen.ends_before(count, "-----BEGIN"))
}

/// Whether a value is harmless, though its name announces a secret.
fn is_harmless(text: &[u8]) -> bool {
    // "/roo" is for /root, which as a whole would look like a builder's folder in the binary.
    let paths = "/etc/ /run/ /var/ /usr/ /dev/ /roo /tmp/ /sys/ /proc/ /home/ /opt/ /lib/ //";
    let is_variable = text.strip_prefix(b"$").is_some_and(|name| {
        name.starts_with(b"{") || name.starts_with(b"(") || name.iter().all(|b| b.is_ascii_uppercase() || *b == b'_')
    });
    let is_count = text.len() < 3 && text.iter().all(u8::is_ascii_digit);
    let word = text.strip_suffix(b",").or(text.strip_suffix(b".")).or(text.strip_suffix(b";")).unwrap_or(text);
    is_variable
        || is_count
        || text.iter().all(|b| matches!(b, b'*' | b'x' | b'.' | b'-' | b'/'))
        || text.starts_with(b"<") && text.ends_with(b">")
        || text.starts_with(b"%") && text.len() < 4
        || text.starts_with(b"{{")
        || paths.split_ascii_whitespace().any(|path| text.starts_with(path.as_bytes()))
        || WORDS.split_ascii_whitespace().any(|known| word.eq_ignore_ascii_case(known.as_bytes()))
}

/// Whether a value looks like a token: letters and digits in one run, or letters of both cases, but
/// not an id of a form that programs print.
fn looks_secret(text: &[u8]) -> bool {
    let is_uuid = text.len() == 36 && [8, 13, 18, 23].iter().all(|at| text.get(*at) == Some(&b'-'));
    let is_secret = |run: &[u8]| {
        let count = |is: fn(&u8) -> bool| run.iter().filter(|b| is(b)).count();
        let (digits, small, large) =
            (count(u8::is_ascii_digit), count(u8::is_ascii_lowercase), count(u8::is_ascii_uppercase));
        run.len() >= 8 && digits > 0 && small.saturating_add(large) > 0 || run.len() >= 12 && small > 0 && large > 0
    };
    !is_uuid
        && !text.starts_with(b"/")
        && !text.starts_with(b"0x")
        && text.split(|b| matches!(b, b'-' | b'_' | b'.')).any(is_secret)
}

/// Whether `byte` ends a word in a sentence, in quotes or in brackets.
fn is_end(byte: u8) -> bool {
    matches!(byte, 0..=b' ' | b'"' | b'\'' | b'<' | b'>' | b'`' | b')' | b']' | b'}' | b'\\')
}

/// Whether `byte` separates the values of a query.
fn is_separator(byte: u8) -> bool {
    matches!(byte, b'&' | b';')
}

/// Whether `name` is a prefix of crypt(5), or one of the other formats that are used in its place.
fn is_method(name: u64) -> bool {
    let known = "1 2 2a 2b 2x 2y 3 5 6 7 y gy md5 sha1 sm3 scrypt argon2i argon2id";
    let bytes = name.to_be_bytes();
    known
        .split_ascii_whitespace()
        .any(|known| bytes.strip_suffix(known.as_bytes()).is_some_and(|rest| rest.iter().all(|b| *b == 0)))
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
    fn what_stands_behind_a_key_stays() {
        for (value, expected) in [
            (
                "-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----\n",
                "-----BEGIN PRIVATE KEY-----***-----END PRIVATE KEY-----\n",
            ),
            (
                "-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----\nnext\n",
                "-----BEGIN PRIVATE KEY-----***-----END PRIVATE KEY-----\nnext\n",
            ),
            (
                "-----BEGIN EC PRIVATE KEY-----\nA\n-----END EC PRIVATE KEY-----\n-----BEGIN PRIVATE KEY-----\nB",
                "-----BEGIN EC PRIVATE KEY-----***-----END EC PRIVATE KEY-----\n-----BEGIN PRIVATE KEY-----***",
            ),
        ] {
            assert_eq!(redacted(value), expected);
        }
    }

    #[test]
    fn secrets_are_masked() {
        for (value, expected) in [
            (r#"useradd "--password" "$y$j9T$salt$hash" "core""#, r#"useradd "--password" "***" "core""#),
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
                r#""sshAuthorizedKeys": ["ssh-ed25519 AAAAC3Nza/+= me@host"]"#,
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
