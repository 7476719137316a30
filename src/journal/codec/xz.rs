//! XZ streams in bounded memory.
//!
//! Specification: the .xz file format 1.2.0, sections 2.1.1, 3.1 and 5.3.1; systemd's
//! `compress_blob_xz`: one stream of one block, LZMA2 with a dictionary of 1 MiB, no check. Such a
//! large dictionary is not kept here: the block's header is changed to ask for at most
//! [`DICTIONARY`]. That makes no difference for smaller payloads. A larger one is read as long as
//! it refers to nothing farther back.

use crate::error::Error;
use crate::journal::payload::{Inflated, Input, Output};
use alloc::boxed::Box;
use crc::{CRC_32_ISO_HDLC, Crc, NoTable};
use xz4rust::{XzDecoder, XzNextBlockResult};

/// The dictionary in bytes, and in the encoding of the header (section 5.3.1).
const DICTIONARY: usize = 128 << 10;
const DICTIONARY_BITS: u8 = 10;
/// Bytes of the stream's header.
const STREAM_HEADER: usize = 12;
/// Maximum number of bytes of both headers. journald's have 12 and up to 24.
const HEADERS: usize = 64;
/// Bytes of input read at once.
const INPUT: usize = 512;
/// Bytes of output that are collected.
const OUTPUT: usize = 1024;
const LZMA2: u64 = 0x21;
/// The checksum of the header. It covers two dozen bytes, so no table is used.
const CRC: Crc<u32, NoTable> = Crc::<u32, NoTable>::new(&CRC_32_ISO_HDLC);

/// The decoder, which is allocated with the first payload (about 30 KB, and the dictionary).
pub(in crate::journal) struct Xz(Option<Box<XzDecoder<'static>>>);

impl Xz {
    pub(in crate::journal) const fn new() -> Self {
        Self(None)
    }

    /// Decompresses the stream in `input` into `output`, at most `max` bytes.
    pub(in crate::journal) fn inflate(
        &mut self,
        input: &mut Input,
        max: u64,
        output: &mut Output,
    ) -> Result<Inflated, Error> {
        let decoder = self.0.get_or_insert_with(|| XzDecoder::in_heap_with_alloc_dict_size(DICTIONARY, DICTIONARY));
        decoder.reset();
        let mut buf = [0; INPUT];
        let Some((mut len, full)) = headers(input, &mut buf) else { return Ok(Inflated::BROKEN) };
        let mut done = Inflated { len: 0, full, is_whole: false };
        let (mut at, mut out) = (0usize, [0; OUTPUT]);
        loop {
            if at == len {
                (at, len) = (0, input.read(&mut buf));
            }
            let from = buf.get(at..len).unwrap_or_default();
            let room = usize::try_from(max.saturating_sub(done.len)).unwrap_or(OUTPUT).min(OUTPUT);
            let to = out.get_mut(..room).unwrap_or_default();
            let Ok(result) = decoder.decode(from, to) else { return Ok(done) };
            at = at.saturating_add(result.input_consumed());
            let produced = out.get(..result.output_produced()).unwrap_or_default();
            if !produced.is_empty() {
                output(produced)?;
            }
            if input.spend(produced.len()) {
                return Ok(done);
            }
            done.len = done.len.saturating_add(produced.len() as u64);
            done.full = done.full.max(done.len);
            done.is_whole = matches!(result, XzNextBlockResult::EndOfStream(..));
            if done.is_whole || !result.made_progress() {
                return Ok(done);
            }
        }
    }
}

/// Reads both headers into `buf` and changes the second. Returns their length and the uncompressed
/// size, or 0 if the header has no size.
fn headers(input: &mut Input, buf: &mut [u8; INPUT]) -> Option<(usize, u64)> {
    let mut fill = |from: usize, to: usize, buf: &mut [u8; INPUT]| {
        let mut left = buf.get_mut(from..to)?;
        while !left.is_empty() {
            let n = input.read(left);
            left = left.get_mut(n..).filter(|_| n > 0)?;
        }
        Some(())
    };
    fill(0, STREAM_HEADER + 1, buf)?;
    let end = STREAM_HEADER + (usize::from(buf[STREAM_HEADER]) + 1) * 4;
    if end > HEADERS || buf[STREAM_HEADER] == 0 {
        return None;
    }
    fill(STREAM_HEADER + 1, end, buf)?;
    let flags = buf[STREAM_HEADER + 1];
    let mut at = STREAM_HEADER + 2;
    if flags & 0x40 != 0 {
        number(buf, &mut at)?;
    }
    let size = if flags & 0x80 != 0 { number(buf, &mut at)? } else { 0 };
    if flags & 3 != 0 || number(buf, &mut at)? != LZMA2 || number(buf, &mut at)? != 1 {
        return None;
    }
    let dictionary = buf.get_mut(at)?;
    *dictionary = (*dictionary).min(DICTIONARY_BITS);
    let crc_at = end.saturating_sub(4);
    let crc = CRC.checksum(buf.get(STREAM_HEADER..crc_at)?);
    buf.get_mut(crc_at..end)?.copy_from_slice(&crc.to_le_bytes());
    Some((end, size))
}

/// Reads a number in bytes of seven bits (section 1.2).
fn number(buf: &[u8; INPUT], at: &mut usize) -> Option<u64> {
    let mut value = 0;
    for shift in (0..63).step_by(7) {
        let byte = *buf.get(*at)?;
        *at = at.saturating_add(1);
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}
