//! LZ4 payloads in bounded memory.
//!
//! Specification: LZ4's "Block Format", and systemd's `compress_blob_lz4`: the uncompressed length
//! in 64 bits, little-endian, followed by one block. A block refers back at most 64 KiB, so a block
//! of any length can be decoded as a stream with that much memory. Decoders that take the block as
//! a whole would need both its input and its output in memory.

use crate::error::Error;
use crate::journal::payload::{Inflated, Input, Output};
use alloc::boxed::Box;

/// Maximum distance of a match, and one more: offsets have 16 bits.
const HISTORY: usize = 1 << 16;
/// Bytes of input read at once.
const INPUT: usize = 512;
/// Bytes of the shortest match.
const MATCH_MIN: u64 = 4;

/// The decoder with its history, which is allocated with the first payload.
pub(in crate::journal) struct Lz4(Option<Box<[u8; HISTORY]>>);

/// A block being decoded.
struct Block<'a, 'b, 'c> {
    input: &'a mut Input<'b>,
    buf: [u8; INPUT],
    at: usize,
    len: usize,
    history: &'a mut [u8; HISTORY],
    output: &'a mut Output<'c>,
    /// Number of bytes decoded, and of those passed on.
    done: u64,
    given: u64,
    end: u64,
    is_late: bool,
}

impl Lz4 {
    pub(in crate::journal) const fn new() -> Self {
        Self(None)
    }

    /// Decompresses `input` into `output`, at most `max` bytes.
    pub(in crate::journal) fn inflate(
        &mut self,
        input: &mut Input,
        max: u64,
        output: &mut Output,
    ) -> Result<Inflated, Error> {
        let history = self.0.get_or_insert_with(|| Box::new([0; HISTORY]));
        let mut size = [0; 8];
        for byte in &mut size {
            if input.read(core::slice::from_mut(byte)) == 0 {
                return Ok(Inflated::BROKEN);
            }
        }
        let full = u64::from_le_bytes(size);
        let end = full.min(max);
        let mut block =
            Block { input, buf: [0; INPUT], at: 0, len: 0, history, output, done: 0, given: 0, end, is_late: false };
        block.run()?;
        block.flush()?;
        Ok(Inflated { len: block.done, full, is_whole: block.done == full })
    }
}

impl Block<'_, '_, '_> {
    /// Decodes sequences until the end, or until an impossible one.
    fn run(&mut self) -> Result<(), Error> {
        while self.done < self.end && !self.is_late {
            let Some(token) = self.byte() else { break };
            let Some(literals) = self.length(u64::from(token >> 4)) else { break };
            for _ in 0..literals {
                let Some(byte) = self.byte() else { return Ok(()) };
                self.push(byte)?;
            }
            let (Some(low), Some(high)) = (self.byte(), self.byte()) else { break };
            let offset = u64::from(u16::from_le_bytes([low, high]));
            let Some(matched) = self.length(u64::from(token & 15)) else { break };
            if offset == 0 || offset > self.done {
                break;
            }
            for _ in 0..matched.saturating_add(MATCH_MIN) {
                let from = self.done.saturating_sub(offset) as usize % HISTORY;
                let byte = self.history.get(from).copied().unwrap_or(0);
                self.push(byte)?;
                if self.done >= self.end || self.is_late {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Reads a length: four bits, and bytes that are added as long as they are 255.
    fn length(&mut self, nibble: u64) -> Option<u64> {
        let mut length = nibble;
        if nibble == 15 {
            loop {
                let byte = self.byte()?;
                length = length.saturating_add(byte.into());
                if byte != u8::MAX {
                    break;
                }
            }
        }
        Some(length)
    }

    fn push(&mut self, byte: u8) -> Result<(), Error> {
        if self.done >= self.end {
            return Ok(());
        }
        let at = self.done as usize % HISTORY;
        if let Some(slot) = self.history.get_mut(at) {
            *slot = byte;
        }
        self.done = self.done.saturating_add(1);
        // At its end, the history starts anew: its bytes must have been passed on.
        if at == HISTORY - 1 { self.flush() } else { Ok(()) }
    }

    /// Passes on the bytes decoded since the last call. They never cross the end of the history.
    fn flush(&mut self) -> Result<(), Error> {
        let start = self.given as usize % HISTORY;
        let len = self.done.saturating_sub(self.given) as usize;
        self.given = self.done;
        self.is_late = self.input.spend(len);
        match self.history.get(start..start.saturating_add(len)) {
            Some(bytes) if !bytes.is_empty() => (self.output)(bytes),
            _ => Ok(()),
        }
    }

    fn byte(&mut self) -> Option<u8> {
        if self.at == self.len {
            self.len = self.input.read(&mut self.buf);
            self.at = 0;
        }
        let byte = self.buf.get(..self.len)?.get(self.at).copied();
        self.at = self.at.saturating_add(1).min(self.len);
        byte
    }
}
