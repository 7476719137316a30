//! The one trait through which each stage of the stream writes into the next.

use crate::error::Error;
use crate::text::Text;

/// A consumer of bytes, in order. Used as `&mut dyn Sink` at module borders, so that the binary
/// holds one copy of each stage.
pub trait Sink {
    /// Takes all of `bytes`, or fails. After a failure, nothing more may be written.
    fn put(&mut self, bytes: &[u8]) -> Result<(), Error>;
}

impl Sink for Text<'_> {
    /// Takes what fits, and never fails: see [`Text::is_cut`]. Pieces that are not UTF-8 are left
    /// out.
    fn put(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.str(core::str::from_utf8(bytes).unwrap_or_default());
        Ok(())
    }
}

/// Writes `parts` one after the other.
pub fn put_all(out: &mut dyn Sink, parts: &[&str]) -> Result<(), Error> {
    parts.iter().try_for_each(|part| out.put(part.as_bytes()))
}

/// Copies `from` to the beginning of `to`, if it fits.
///
/// Short slices are copied as two overlapping pieces of fixed size: musl's `memcpy` takes longer to
/// start than to copy them.
pub fn copy(from: &[u8], to: &mut [u8]) -> bool {
    let Some(to) = to.get_mut(..from.len()) else { return false };
    match from.len() {
        4..8 => copy_ends::<4>(from, to),
        8..16 => copy_ends::<8>(from, to),
        16..32 => copy_ends::<16>(from, to),
        32..64 => copy_ends::<32>(from, to),
        _ => to.copy_from_slice(from),
    }
    true
}

/// Copies the first and the last `N` bytes of `from`, which has at least `N`.
fn copy_ends<const N: usize>(from: &[u8], to: &mut [u8]) {
    if let (Some(first), Some(last)) = (from.first_chunk::<N>(), from.last_chunk::<N>()) {
        if let Some(to) = to.first_chunk_mut::<N>() {
            *to = *first;
        }
        if let Some(to) = to.last_chunk_mut::<N>() {
            *to = *last;
        }
    }
}

/// Counts the bytes that are put into the sink.
#[derive(Default)]
pub struct Count(pub u64);

impl Sink for Count {
    fn put(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.0 = self.0.saturating_add(bytes.len() as u64);
        Ok(())
    }
}

#[cfg(test)]
impl Sink for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.extend_from_slice(bytes);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_of_every_length() {
        let from: Vec<u8> = (1..=200).collect();
        for len in 0..=from.len() {
            let mut to = vec![0; 150];
            assert_eq!(copy(&from[..len], &mut to), len <= to.len());
            let copied = if len <= to.len() { len } else { 0 };
            assert!(to[..copied] == from[..copied] && to[copied..].iter().all(|b| *b == 0), "{len}");
        }
    }
}
