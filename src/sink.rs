//! Where bytes go: the one trait through which each stage of the stream writes into the next.

use crate::error::Error;

/// Takes bytes in order. Used as `&mut dyn Sink` at module borders, so that the binary holds one copy of each stage.
pub trait Sink {
    /// Takes all of `bytes`, or fails; after a failure nothing more may be written.
    fn put(&mut self, bytes: &[u8]) -> Result<(), Error>;
}

/// Writes `parts` one after the other.
pub fn put_all(out: &mut dyn Sink, parts: &[&str]) -> Result<(), Error> {
    parts.iter().try_for_each(|part| out.put(part.as_bytes()))
}

/// Counts the bytes that are put into it.
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
