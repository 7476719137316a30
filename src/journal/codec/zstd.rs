//! ZSTD frames in bounded memory.
//!
//! Specification: RFC 8878. journald writes one frame an object, with the size in the frame's
//! header and a window of the whole object (up to 2 MiB). No such window is kept here: the frame's
//! header is replaced by one that asks for at most [`WINDOW`]. That makes no difference for smaller
//! objects. A larger one is read as long as it refers to nothing farther back.

use crate::error::Error;
use crate::journal::payload::{Inflated, Input, Output};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use ruzstd::io;

/// The window, as log2 and in bytes. It cannot be smaller: no block may be larger than its window,
/// and blocks have up to 128 KiB.
const WINDOW_LOG: u32 = 17;
const WINDOW: u64 = 1 << WINDOW_LOG;
const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// Size of an object from which on the decoder takes separate buffers and frees them afterwards.
/// Buffers that are kept grow by doubling, to twice the need of the largest object.
const LARGE: u64 = 8 * 1024;
/// Maximum number of bytes of a frame's header.
const HEADER_MAX: usize = 18;

/// The decoder with its buffers, which are kept from one small object to the next.
pub(in crate::journal) struct Zstd(FrameDecoder);

impl Zstd {
    pub(in crate::journal) fn new() -> Self {
        Self(FrameDecoder::new())
    }

    /// Decompresses the frame in `input` into `output`, at most `max` bytes.
    pub(in crate::journal) fn inflate(
        &mut self,
        input: &mut Input,
        max: u64,
        output: &mut Output,
    ) -> Result<Inflated, Error> {
        let mut frame = Frame { head: [0; 6], head_left: 0, input };
        let Some(size) = frame.begin() else { return Ok(Inflated::BROKEN) };
        if size <= LARGE {
            return inflate(&mut self.0, frame, size, max, output);
        }
        self.0 = FrameDecoder::new();
        let done = inflate(&mut self.0, frame, size, max, output);
        self.0 = FrameDecoder::new();
        done
    }
}

fn inflate(
    decoder: &mut FrameDecoder,
    mut frame: Frame<'_, '_>,
    size: u64,
    max: u64,
    output: &mut Output,
) -> Result<Inflated, Error> {
    let mut done = Inflated { len: 0, full: size, is_whole: false };
    if decoder.reset(&mut frame).is_err() {
        return Ok(done);
    }
    let mut buf = [0; 4096];
    loop {
        let Ok(ended) = decoder.decode_blocks(&mut frame, BlockDecodingStrategy::UptoBlocks(1)) else {
            return Ok(done);
        };
        loop {
            let room = usize::try_from(max.saturating_sub(done.len)).unwrap_or(buf.len()).min(buf.len());
            let n = io::Read::read(decoder, buf.get_mut(..room).unwrap_or_default()).unwrap_or(0);
            if n == 0 {
                break;
            }
            output(buf.get(..n).unwrap_or_default())?;
            if frame.input.spend(n) {
                return Ok(done);
            }
            done.len = done.len.saturating_add(n as u64);
        }
        if ended || done.len >= max {
            done.is_whole = ended && decoder.can_collect() == 0;
            done.full = done.full.max(done.len);
            return Ok(done);
        }
    }
}

/// The input with its header replaced.
struct Frame<'a, 'b> {
    head: [u8; 6],
    head_left: usize,
    input: &'a mut Input<'b>,
}

impl Frame<'_, '_> {
    /// Reads the header (RFC 8878 section 3.1.1.1). Returns the content's size, or 0 if the header
    /// has none.
    fn begin(&mut self) -> Option<u64> {
        let mut header = [0; HEADER_MAX];
        self.take(&mut header, 0, 5)?;
        if header.first_chunk() != Some(&MAGIC) {
            return None;
        }
        let descriptor = header[4];
        let is_single = descriptor & 0x20 != 0;
        let size_len = match descriptor >> 6 {
            0 => usize::from(is_single),
            log => 1 << log,
        };
        // journald uses no dictionaries.
        if descriptor & 3 != 0 {
            return None;
        }
        let size_at = if is_single { 5 } else { 6 };
        self.take(&mut header, 5, size_at + size_len)?;
        let mut size = [0; 8];
        size.get_mut(..size_len)?.copy_from_slice(header.get(size_at..)?.get(..size_len)?);
        let size = match size_len {
            2 => u64::from_le_bytes(size).saturating_add(256),
            _ => u64::from_le_bytes(size),
        };
        let window = if is_single {
            size
        } else {
            let byte = u32::from(header[5]);
            let base = 1u64 << (10 + (byte >> 3));
            base + (base >> 3) * u64::from(byte & 7)
        };
        let log = window.clamp(1 << 10, WINDOW).next_power_of_two().trailing_zeros();
        // The checksum's flag stays, since four bytes then follow the frame.
        let [a, b, c, d] = MAGIC;
        self.head = [a, b, c, d, descriptor & 4, ((log - 10) << 3) as u8];
        self.head_left = self.head.len();
        Some(size)
    }

    fn take(&mut self, header: &mut [u8], from: usize, to: usize) -> Option<()> {
        let mut left = header.get_mut(from..to)?;
        while !left.is_empty() {
            let n = self.input.read(left);
            left = left.get_mut(n..).filter(|_| n > 0)?;
        }
        Some(())
    }
}

impl io::Read for Frame<'_, '_> {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize, io::Error> {
        if self.head_left == 0 {
            return Ok(self.input.read(buf));
        }
        let from = self.head.get(self.head.len().saturating_sub(self.head_left)..).unwrap_or_default();
        let n = from.len().min(buf.len());
        let (Some(to), Some(from)) = (buf.get_mut(..n), from.get(..n)) else { return Ok(0) };
        to.copy_from_slice(from);
        self.head_left = self.head_left.saturating_sub(n);
        Ok(n)
    }
}
