//! Where bytes go: the one trait through which each stage of the stream writes into the next.

use crate::error::Error;

/// Takes bytes in order. Used as `&mut dyn Sink` at module borders, so that the binary holds one copy of each stage.
pub trait Sink {
    /// Takes all of `bytes`, or fails; after a failure nothing more may be written.
    fn put(&mut self, bytes: &[u8]) -> Result<(), Error>;
}

#[cfg(test)]
impl Sink for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.extend_from_slice(bytes);
        Ok(())
    }
}
