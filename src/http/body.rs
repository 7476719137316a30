//! Message bodies: chunked framing on the way out (RFC 9112 section 7.1), and every framing on the way in (section 6).

use crate::error::{Error, HttpError};
use crate::sink::Sink;

/// How a body's end is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Framing {
    /// By its length in bytes.
    Length(u64),
    /// By a last chunk of size 0.
    Chunked,
    /// By the end of the connection.
    UntilClose,
}

/// Longest line between chunks: a size, and extensions that are passed over.
const LINE_MAX: u16 = 1024;
/// Most lines of trailer fields that are passed over.
const TRAILERS_MAX: u16 = 64;

/// Takes a framed body in pieces and gives what is in it.
pub struct Decoder {
    state: State,
    /// Bytes of the current line so far.
    line: u16,
    trailers: u16,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// In data of which so much is left; then comes `then`.
    Data {
        left: u64,
        chunked: bool,
    },
    UntilClose,
    /// In the digits of a chunk's size.
    Size(u64),
    /// Behind them, up to the line's end.
    Extension(u64),
    /// At the line end behind a chunk's data.
    DataEnd,
    /// In the trailer section; whether the current line holds anything.
    Trailer(bool),
    Done,
}

impl Decoder {
    /// Of a body framed so.
    pub fn new(framing: Framing) -> Self {
        let state = match framing {
            Framing::Length(0) => State::Done,
            Framing::Length(left) => State::Data { left, chunked: false },
            Framing::Chunked => State::Size(0),
            Framing::UntilClose => State::UntilClose,
        };
        Self { state, line: 0, trailers: 0 }
    }

    /// Whether the body is whole; what is fed then is ignored.
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Whether the connection may end here.
    pub fn may_end(&self) -> bool {
        matches!(self.state, State::Done | State::UntilClose)
    }

    /// Takes `bytes` as they came and gives the pieces of the body in them to `out`.
    pub fn feed(&mut self, bytes: &[u8], out: &mut dyn Sink) -> Result<(), Error> {
        let mut rest = bytes;
        while let Some((byte, after)) = rest.split_first() {
            rest = match self.state {
                State::Done => return Ok(()),
                State::UntilClose => {
                    return out.put(rest);
                }
                State::Data { left, chunked } => {
                    let take = usize::try_from(left).unwrap_or(usize::MAX).min(rest.len());
                    let (data, next) = rest.split_at(take);
                    out.put(data)?;
                    self.state = match left.saturating_sub(take as u64) {
                        0 if chunked => State::DataEnd,
                        0 => State::Done,
                        left => State::Data { left, chunked },
                    };
                    next
                }
                state => {
                    self.between(state, *byte)?;
                    after
                }
            };
        }
        Ok(())
    }

    /// Takes one byte of what stands between the data of chunks.
    fn between(&mut self, state: State, byte: u8) -> Result<(), HttpError> {
        self.line = self.line.saturating_add(1);
        if self.line > LINE_MAX {
            return Err(HttpError::NotHttp);
        }
        let next = match (state, byte) {
            (State::Size(size), digit) if digit.is_ascii_hexdigit() => {
                let digit = char::from(digit).to_digit(16).unwrap_or(0);
                State::Size(size.checked_mul(16).and_then(|s| s.checked_add(digit.into())).ok_or(HttpError::NotHttp)?)
            }
            // No digit at all is not a size of 0.
            (State::Size(_), _) if self.line == 1 => return Err(HttpError::NotHttp),
            (State::Size(size) | State::Extension(size), b'\n') => {
                self.line = 0;
                match size {
                    0 => State::Trailer(false),
                    left => State::Data { left, chunked: true },
                }
            }
            (State::Size(size), b'\r' | b';' | b' ' | b'\t') | (State::Extension(size), _) => State::Extension(size),
            (State::DataEnd, b'\r') if self.line == 1 => State::DataEnd,
            (State::DataEnd, b'\n') => {
                self.line = 0;
                State::Size(0)
            }
            (State::Trailer(false), b'\n') => State::Done,
            (State::Trailer(true), b'\n') => {
                self.line = 0;
                self.trailers = self.trailers.saturating_add(1);
                if self.trailers > TRAILERS_MAX {
                    return Err(HttpError::NotHttp);
                }
                State::Trailer(false)
            }
            (State::Trailer(any), b'\r') => State::Trailer(any),
            (State::Trailer(_), _) => State::Trailer(true),
            _ => return Err(HttpError::NotHttp),
        };
        self.state = next;
        Ok(())
    }
}

/// Bytes before a chunk's data: four hexadecimal digits and the line's end.
pub const CHUNK_HEAD: usize = 6;
/// The line end behind a chunk's data.
pub const CHUNK_END: &[u8; 2] = b"\r\n";
/// The chunk that ends a body, without trailer fields.
pub const LAST_CHUNK: &[u8; 5] = b"0\r\n\r\n";

/// The head of a chunk with `len` bytes of data, at most 65,535.
pub fn chunk_head(len: usize) -> [u8; CHUNK_HEAD] {
    let digit = |shift: u32| crate::text::hex_digit((len >> shift) as u8);
    [digit(12), digit(8), digit(4), digit(0), b'\r', b'\n']
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(framing: Framing, bytes: &[u8], piece: usize) -> Result<(Vec<u8>, Decoder), Error> {
        let (mut out, mut decoder) = (Vec::new(), Decoder::new(framing));
        for part in bytes.chunks(piece) {
            decoder.feed(part, &mut out)?;
        }
        Ok((out, decoder))
    }

    #[test]
    fn chunks_in_any_pieces() {
        let body = b"5;ext=\"1\"\r\nhello\r\n0c\r\n, wide world\r\n000\r\nX: y\r\nZ: z\r\n\r\nrest";
        for piece in 1..body.len() {
            let (out, decoder) = decode(Framing::Chunked, body, piece).unwrap();
            assert_eq!(out, b"hello, wide world");
            assert!(decoder.is_done());
        }
        for cut in 0..body.len() - 5 {
            assert!(!decode(Framing::Chunked, &body[..cut], 7).unwrap().1.may_end(), "{cut}");
        }
    }

    #[test]
    fn lengths() {
        assert_eq!(decode(Framing::Length(3), b"abcd", 1).unwrap().0, b"abc");
        assert!(!decode(Framing::Length(3), b"ab", 1).unwrap().1.may_end());
        assert!(decode(Framing::Length(0), b"", 1).unwrap().1.is_done());
        assert_eq!(decode(Framing::UntilClose, b"abcd", 3).unwrap().0, b"abcd");
    }

    #[test]
    fn garbage_is_refused() {
        for bytes in ["\r\n", ";x\r\n", "g\r\n", "-1\r\n", "1\r\nab\r\n", "1 x", "fffffffffffffffff\r\n", "1\r\na\rb"] {
            let result = decode(Framing::Chunked, bytes.as_bytes(), 1);
            match bytes {
                "1 x" => assert!(!result.unwrap().1.may_end()),
                _ => assert_eq!(result.err(), Some(HttpError::NotHttp.into()), "{bytes:?}"),
            }
        }
        let long = format!("1;{}\r\n", "x".repeat(usize::from(LINE_MAX)));
        assert!(decode(Framing::Chunked, long.as_bytes(), 9).is_err());
        let trailers = format!("0\r\n{}\r\n", "X: y\r\n".repeat(100));
        assert!(decode(Framing::Chunked, trailers.as_bytes(), 9).is_err());
    }

    #[test]
    fn chunk_heads() {
        assert_eq!(&chunk_head(16_376), b"3ff8\r\n");
        assert_eq!(&chunk_head(0x12), b"0012\r\n");
    }
}
