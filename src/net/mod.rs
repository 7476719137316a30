//! Reaching a peer: names, sockets, TLS. What `http` and the journal sinks speak over is a [`Transport`].

use crate::error::Error;
use crate::sys::time::Deadline;

/// A byte stream to one peer, plain or TLS. Used as `&mut dyn Transport`.
pub trait Transport {
    /// Sends all of `bytes`. Gives up at `deadline`, or sooner when the peer takes nothing for the idle time.
    fn send(&mut self, bytes: &[u8], deadline: Deadline) -> Result<(), Error>;

    /// Receives at least one byte into `buf`; 0 is the peer's orderly end (for TLS: `close_notify`; an end without it is
    /// [`crate::error::TlsError::Truncated`]).
    fn recv(&mut self, buf: &mut [u8], deadline: Deadline) -> Result<usize, Error>;

    /// Whether [`Transport::recv`] has something to give (bytes, an end or an error) without waiting.
    fn readable(&mut self) -> bool;

    /// Says that nothing more will be sent (TLS: `close_notify`); errors do not matter any more.
    fn finish(&mut self);
}
