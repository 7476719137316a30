//! A message without its colour and link sequences, by the rules of journalctl (`strip_tab_ansi` in
//! systemd's `string-util.c`).
//!
//! Removed are `ESC [ … m` (ECMA-48's SGR) with digits and semicolons, `ESC ] … BEL` with printable
//! ASCII (xterm's OSC), and carriage returns before a line feed or at the end. Any other control
//! character makes the message binary: nothing of it reaches a terminal.

use crate::error::Error;
use crate::journal::payload::Output;
use crate::journal::printable::{Scan, Text};

const ESCAPE: u8 = 0x1b;
const BELL: u8 = 7;
/// The blanks that replace a TAB.
pub(super) const TAB: &[u8; 8] = b"        ";

/// The state between two pieces of a message.
pub(super) struct Plain {
    state: State,
    /// Number of bytes of the current sequence so far.
    held: u64,
    /// Number of carriage returns not yet followed by anything.
    returns: u64,
    /// Number of bytes that remain, each TAB counted as its blanks.
    len: u64,
    scan: Scan,
}

#[derive(Clone, Copy)]
enum State {
    Text,
    Escape,
    Colour,
    Link,
}

impl Plain {
    /// Returns the state before a message.
    pub(super) fn new() -> Self {
        Self { state: State::Text, held: 0, returns: 0, len: 0, scan: Scan::new() }
    }

    /// Takes a piece, and passes what remains of it to `output`. The output is valid only if
    /// [`Plain::end`] says that the message is text.
    pub(super) fn push(&mut self, piece: &[u8], output: &mut Output) -> Result<(), Error> {
        piece.iter().try_for_each(|byte| self.byte(*byte, output))
    }

    /// Returns what the message consists of without its sequences, and its length in bytes.
    pub(super) fn end(mut self) -> (Text, u64) {
        if !matches!(self.state, State::Text) {
            self.release();
        }
        (self.scan.end(), self.len)
    }

    fn byte(&mut self, byte: u8, output: &mut Output) -> Result<(), Error> {
        let next = match (self.state, byte) {
            (State::Text, _) => return self.text(byte, output),
            (State::Escape, b'[') => State::Colour,
            (State::Escape, b']') => State::Link,
            (State::Colour, b'0'..=b'9' | b';') | (State::Link, b' '..=b'~') => self.state,
            (State::Colour, b'm') | (State::Link, BELL) => State::Text,
            // Not a sequence. An escape takes the next byte along.
            (State::Escape, _) => {
                self.held = self.held.saturating_add(1);
                self.release();
                return Ok(());
            }
            _ => {
                self.release();
                return self.text(byte, output);
            }
        };
        self.state = next;
        self.held = self.held.saturating_add(1);
        Ok(())
    }

    fn text(&mut self, byte: u8, output: &mut Output) -> Result<(), Error> {
        if byte == b'\r' {
            self.returns = self.returns.saturating_add(1);
            return Ok(());
        }
        let returns = core::mem::take(&mut self.returns);
        if byte != b'\n' && returns > 0 {
            self.len = self.len.saturating_add(returns);
            self.scan.push(b"\r");
        }
        if byte == ESCAPE {
            (self.state, self.held) = (State::Escape, 1);
            return Ok(());
        }
        let width = if byte == b'\t' { TAB.len() } else { 1 };
        self.len = self.len.saturating_add(width as u64);
        self.scan.push(&[byte]);
        output(&[byte])
    }

    /// Keeps what looked like a sequence and is not one. The message is then binary.
    fn release(&mut self) {
        self.len = self.len.saturating_add(self.held);
        self.scan.push(&[ESCAPE]);
        self.state = State::Text;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns what remains of a message, or the length of a binary one.
    fn plain(message: &[u8]) -> Result<Vec<u8>, u64> {
        let (mut out, mut plain) = (Vec::new(), Plain::new());
        let mut output = |bytes: &[u8]| {
            out.extend_from_slice(bytes);
            Ok(())
        };
        plain.push(message, &mut output).unwrap();
        match plain.end() {
            (Text::Binary, len) => Err(len),
            (_, len) => {
                assert_eq!(len, out.iter().map(|b| if *b == b'\t' { 8 } else { 1 }).sum::<u64>());
                Ok(out)
            }
        }
    }

    #[test]
    fn sequences_are_taken_out() {
        for (message, left) in [
            (&b"\x1b[0;32mgreen\x1b[0m\tdone"[..], &b"green\tdone"[..]),
            (b"\x1b]8;;http://h/\x07link\x1b]8;;\x07", b"link"),
            (b"a\r\nb\r\r\nc\r", b"a\nb\nc"),
            (b"\x1b[m", b""),
            ("gr\u{f6}\x1b[1m\u{df}er".as_bytes(), "gr\u{f6}\u{df}er".as_bytes()),
        ] {
            assert_eq!(plain(message), Ok(left.to_vec()));
        }
    }

    #[test]
    fn what_is_none_stays_and_is_counted() {
        for (message, len) in [
            (&b"\x1b[31"[..], 4),
            (b"\x1b[2Kclear", 9),
            (b"x\x1b", 2),
            (b"\x1b[\x1b[1mx", 3),
            (b"\x1b\tx", 3),
            (b"\x1b\x1b[1mx", 6),
            (b"\x1b]ab\x1b[1mz", 5),
            (b"\x1b[1m\ttab\x01", 12),
            (b"cr\rmid", 6),
            (b"a\r\x1b[0m\nb", 4),
            (b"\x1b]0;t\x1b\\x", 8),
        ] {
            assert_eq!(plain(message), Err(len), "{message:?}");
        }
    }
}
