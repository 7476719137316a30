//! A gzip stream of one member (RFC 1952) around `miniz_oxide`'s DEFLATE, in constant memory.
//!
//! The header holds no time and no name, so equal inputs give equal bytes.

use crate::error::Error;
use crate::sink::Sink;
use alloc::boxed::Box;
use alloc::vec;
use crc::{CRC_32_ISO_HDLC, Crc, Digest, Table};
use miniz_oxide::deflate::core::{CompressorOxide, TDEFLFlush, TDEFLStatus, compress};

/// Bytes of compressed output collected before they are passed on; `http` collects the bytes of a
/// chunk.
const OUT_MAX: usize = 4 * 1024;

/// Compression level without `?gzip=`.
pub const LEVEL: u8 = 6;

/// RFC 1952 section 2.3: magic, DEFLATE, no flags, no time, no extra flags, unknown operating
/// system.
const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];

/// Number of earlier places with the same three bytes that are tried for each match, by level.
///
/// From [`LAZY_FROM`] on, a match also waits for a longer one at the next byte. Level 6 has the
/// fewest probes that keep a journal as short as gzip's own level 6 makes it. More probes cost time
/// and win little (32: a third more time for 2 %).
const PROBES: [u32; 10] = [1, 1, 4, 6, 8, 10, 12, 32, 128, 1024];
const LAZY_FROM: u8 = 2;
/// `miniz_oxide`'s flag for greedy matching, without waiting for a longer match.
const GREEDY: u32 = 0x4000;

/// Compresses what `write` puts into its sink, and writes the result into `out`. `level` is 1 to 9.
pub fn compressed(
    out: &mut dyn Sink,
    level: u8,
    write: &mut dyn FnMut(&mut dyn Sink) -> Result<(), Error>,
) -> Result<(), Error> {
    out.put(&HEADER)?;
    let crc = checksum();
    let probes = PROBES.get(usize::from(level)).copied().unwrap_or(PROBES[9]);
    let mut gzip = Gzip {
        out,
        deflate: Box::new(CompressorOxide::new(if level < LAZY_FROM { probes | GREEDY } else { probes })),
        buf: vec![0; OUT_MAX].into_boxed_slice(),
        len: 0,
        crc: crc.digest(),
        size: 0,
    };
    write(&mut gzip)?;
    gzip.deflate(&[], TDEFLFlush::Finish)?;
    gzip.flush()?;
    gzip.out.put(&gzip.crc.finalize().to_le_bytes())?;
    gzip.out.put(&gzip.size.to_le_bytes())
}

/// The checksum of RFC 1952 section 8. The tables are computed at run time: as constants, they
/// would be 16 KB that do not compress, like those of `crc32fast`.
#[inline(never)] // the 16 KB pass over the stack; a frame of its own frees them at once
fn checksum() -> Box<Crc<u32, Table<16>>> {
    Box::new(Crc::<u32, Table<16>>::new(&CRC_32_ISO_HDLC))
}

struct Gzip<'a> {
    out: &'a mut dyn Sink,
    deflate: Box<CompressorOxide>,
    buf: Box<[u8]>,
    len: usize,
    crc: Digest<'a, u32, Table<16>>,
    /// Length of the input modulo 2^32, as the trailer needs it.
    size: u32,
}

impl Gzip<'_> {
    fn deflate(&mut self, bytes: &[u8], flush: TDEFLFlush) -> Result<(), Error> {
        let mut rest = bytes;
        loop {
            let free = self.buf.get_mut(self.len..).unwrap_or_default();
            let (status, taken, made) = compress(&mut self.deflate, rest, free, flush);
            self.len = self.len.saturating_add(made);
            rest = rest.get(taken..).unwrap_or_default();
            if self.len == self.buf.len() {
                self.flush()?;
            }
            match status {
                TDEFLStatus::Done => return Ok(()),
                TDEFLStatus::Okay if rest.is_empty() && flush == TDEFLFlush::None => return Ok(()),
                TDEFLStatus::Okay => {}
                // Only wrong use of the library leads here.
                _ => return Err(Error::Gzip),
            }
        }
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.out.put(self.buf.get(..self.len).unwrap_or_default())?;
        self.len = 0;
        Ok(())
    }
}

impl Sink for Gzip<'_> {
    fn put(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.crc.update(bytes);
        self.size = self.size.wrapping_add(bytes.len() as u32);
        self.deflate(bytes, TDEFLFlush::None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::process::{Command, Stdio};

    fn gzip(input: &[u8], piece: usize, level: u8) -> Vec<u8> {
        let mut out = Vec::new();
        compressed(&mut out, level, &mut |gzip| input.chunks(piece).try_for_each(|part| gzip.put(part))).unwrap();
        out
    }

    /// Returns what `gzip -dc` makes of `input`.
    fn gunzip(input: &[u8]) -> Vec<u8> {
        let mut child = Command::new("gzip").arg("-dc").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let input = input.to_vec();
        let writer = std::thread::spawn(move || stdin.write_all(&input));
        let out = child.wait_with_output().unwrap();
        writer.join().unwrap().unwrap();
        assert!(out.status.success(), "gzip refused the stream");
        out.stdout
    }

    fn noise(len: usize) -> Vec<u8> {
        let mut seed = 7u32;
        (0..len)
            .map(|_| {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (seed >> 24) as u8
            })
            .collect()
    }

    #[test]
    fn gzip_reads_it_back() {
        let text = b"MESSAGE=Starting Ignition (fetch)...\nPRIORITY=6\n".repeat(5000);
        for level in 1..=9 {
            for input in [b"".as_slice(), b"x", &text, &noise(200_000)] {
                assert_eq!(gunzip(&gzip(input, 4096, level)), input, "level {level}, {} bytes", input.len());
            }
        }
    }

    #[test]
    fn the_pieces_do_not_show() {
        let input = [b"a line of a journal\n".repeat(3000), noise(70_000)].concat();
        let whole = gzip(&input, input.len(), 6);
        for piece in [1, 7, 1000, 65_536] {
            assert!(gzip(&input, piece, 6) == whole, "pieces of {piece} bytes");
        }
        assert!(gzip(&input, 1000, 6) == whole, "the same input, the same bytes");
    }
}
