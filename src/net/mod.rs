//! Reaching a peer: names, sockets, TLS. What `http` and the journal sinks speak over is a [`Transport`].
//!
//! [`connect`] turns a host into a connection: an address as it stands, else `hosts`, race for the first of the addresses
//! that answers, and wait for a network that is not there yet.

use crate::error::{Error, NetError};
use crate::sys::file::Root;
use crate::sys::time::Deadline;

mod addr;
mod der;
mod hosts;
mod lines;
mod provider;
mod race;
pub mod tcp;
pub mod tls;
pub mod trust;

/// A byte stream to one peer, plain or TLS. Used as `&mut dyn Transport`.
///
/// A peer may answer before it has read everything, and stop reading: a server that refuses an upload does. A sender that only
/// sends would wait for it until a deadline, or lose the answer to a broken pipe. So sending ends with [`NetError::PeerSpoke`] then:
/// what remains is [`Transport::recv`]. It is said only when the peer takes nothing any more *and* has said something; one that has
/// spoken and reads on (an interim answer, 1xx) is sent to as before.
pub trait Transport {
    /// Sends all of `bytes`. Gives up at `deadline`, or sooner when the peer takes nothing for the idle time.
    ///
    /// After any error nothing more may be sent. After [`NetError::PeerSpoke`] what the peer has said can be received; after
    /// another one `recv` gives an error as well.
    fn send(&mut self, bytes: &[u8], deadline: Deadline) -> Result<(), Error>;

    /// Sends the beginning of `bytes`, which are not empty, and gives how many were taken: at least one, or 0 where `send` says
    /// [`NetError::PeerSpoke`]. After 0 the caller may receive, and then push the rest again.
    ///
    /// It is for a layer on top that has a protocol of its own, as TLS has. A server's `NewSessionTicket`s lie unread in the socket
    /// from the handshake on, so the socket below has always "spoken". At 0 from below, TLS therefore receives and decrypts what is
    /// there: if that was only its own messages (tickets, key updates), it pushes the rest of its record again; if it was the
    /// peer's data, an alert or an end, it keeps them for `recv` and ends its own `send` with [`NetError::PeerSpoke`]. The record
    /// that was cut can not be completed then, so `finish` sends no `close_notify`.
    ///
    /// A transport without a way to send in part sends all.
    fn push(&mut self, bytes: &[u8], deadline: Deadline) -> Result<usize, Error> {
        self.send(bytes, deadline).map(|()| bytes.len())
    }

    /// Receives at least one byte into `buf`; 0 is the peer's orderly end (for TLS: `close_notify`; an end without it is
    /// [`crate::error::TlsError::Truncated`]). Gives up as `send` does. Bytes that came before an error, one of sending too, are
    /// given first.
    fn recv(&mut self, buf: &mut [u8], deadline: Deadline) -> Result<usize, Error>;

    /// Whether [`Transport::recv`] has something to give (bytes, an end or an error) without waiting. For TLS that is data or an
    /// end; its own messages are not.
    fn readable(&mut self) -> bool;

    /// Says that nothing more will be sent (TLS: `close_notify`); errors do not matter any more.
    fn finish(&mut self);
}

/// What is needed to find a peer, beside its name.
pub struct Dial<'a> {
    /// Where `/etc/hosts` and the like are read.
    pub root: &'a Root,
    /// Nameservers that the owner set (`rd.report.dns`).
    pub dns: &'a [&'a str],
    /// The kernel's command line, for its `ip=` and `nameserver=`.
    pub cmdline: &'a [u8],
}

/// Connects to `port` of `host`: an IPv4 address, an IPv6 address with or without brackets and zone (`%eth0`, `%25eth0`), or a name.
///
/// No address or no route yet is not an error: it waits for them until `deadline`, unless `host` is this machine.
pub fn connect(dial: &Dial<'_>, host: &str, port: u16, deadline: Deadline) -> Result<tcp::Tcp, Error> {
    let peers = addr::literal(host, port).or_else(|| hosts::lookup(dial.root, host, port));
    let tried = peers.ok_or(NetError::Unresolved).and_then(|peers| race::connect(&peers, deadline));
    tried.map(tcp::Tcp::new).map_err(Error::Net)
}
