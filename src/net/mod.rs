//! Reaching a peer: names, sockets, TLS. What `http` and the journal sinks speak over is a [`Transport`].
//!
//! [`connect`] turns a host into a connection: an address as it stands (`addr`), else `hosts`, else what the nameservers say
//! (`lookup`, which knows of them from `resolvers` and speaks `dns`); `race` finds the first of the addresses that answers; and where
//! the network is not there yet, `wait` waits for it.

use crate::error::{Error, NetError};
use crate::sys::Errno;
use crate::sys::file::Root;
use crate::sys::sock::Socket;
use crate::sys::time::Deadline;
use netlink::{Present, Watch};

/// The `Debug` that rustls asks for in what it is given. Derived it would print keys, and be 4 KB that nobody calls.
#[cfg(feature = "tls")]
macro_rules! debug_nothing {
    ($($name:ident),+) => {$(
        impl core::fmt::Debug for $name {
            fn fmt(&self, _: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                Ok(())
            }
        }
    )+};
}

mod addr;
pub mod dns;
mod happy_eyeballs;
mod netlink;
pub mod tcp;
#[cfg_attr(not(feature = "tls"), path = "tls/disabled.rs")]
pub mod tls;

pub use addr::{is_near, put_address};
pub use dns::resolvers::PLACES as NAMESERVER_PLACES;

/// The addresses by which others can reach this machine, as the kernel has them now.
pub fn reachable() -> heapless::Vec<core::net::IpAddr, { netlink::ADDRESSES_MAX }> {
    netlink::reachable()
}

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
    /// Nameservers that the owner set (`rd.report.dns`), as addresses with or without a port (`192.0.2.1:53`, `[2001:db8::1]:53`). With
    /// any of them no other is asked.
    pub dns: &'a [&'a str],
    /// The kernel's command line, for its `ip=` and `nameserver=`.
    pub cmdline: &'a [u8],
}

/// Milliseconds for which a nameserver may still appear once there is an address: a DHCP client sets the address first and writes its
/// files then, and where an IPv6 router is quicker than the DHCP server, the first address is not the one that comes with it.
const NAMESERVER_MS: u64 = 10_000;

/// Milliseconds between two looks for a file, which no routing socket tells of.
const FILES_MS: u64 = 250;

/// Connects to `port` of `host`: an IPv4 address, an IPv6 address with or without brackets and zone (`%eth0`, `%25eth0`), or a name.
///
/// No address or no route yet is not an error: it waits for them until `deadline`, unless `host` is this machine. With `is_far` set only
/// addresses beyond this machine and its link are tried; it is set once there is one.
#[inline(never)] // what it keeps on the stack need not lie there as long as the connection
pub fn connect(
    dial: &Dial<'_>,
    host: &str,
    port: u16,
    is_far: &mut bool,
    deadline: Deadline,
) -> Result<tcp::Tcp, Error> {
    let mut files_until = None;
    if deadline.passed() {
        return Err(Error::Net(if is_up() { NetError::NoTime } else { NetError::NoRoute }));
    }
    loop {
        let watch = Watch::new();
        let e = match attempt(dial, host, port, is_far, deadline, &watch) {
            Ok(socket) => return Ok(tcp::Tcp::new(socket)),
            Err(e) => e,
        };
        let (e, until) = match e {
            NetError::NoRoute | NetError::NoInterface => (e, deadline),
            // Nobody answers on the link: with an address from the command line that is how a cable looks that has no carrier yet.
            NetError::Connect(Errno::HOSTUNREACH) => (e, deadline),
            NetError::NoNameserver if Present::now().usable => {
                let until = *files_until.get_or_insert_with(|| deadline.step_ms(NAMESERVER_MS));
                (e, if until.passed() { until } else { until.step_ms(FILES_MS) })
            }
            // Without an address there was nobody to tell of one.
            NetError::NoNameserver => (NetError::NoRoute, deadline),
            e => return Err(Error::Net(e)),
        };
        if until.passed() {
            return Err(Error::Net(e));
        }
        watch.wait(until);
        if deadline.passed() {
            // A further try would only say that there was no time for it.
            return Err(Error::Net(e));
        }
    }
}

/// Whether this machine has an address by which it can reach others, now.
pub fn is_up() -> bool {
    Present::now().usable
}

/// Tries once.
fn attempt(
    dial: &Dial<'_>,
    host: &str,
    port: u16,
    is_far: &mut bool,
    deadline: Deadline,
    watch: &Watch,
) -> Result<Socket, NetError> {
    let mut peers = match addr::literal(host, port) {
        Some(peers) if peers.is_empty() => return Err(addr::missing(host)),
        Some(peers) => peers,
        None => match dns::hosts::lookup(dial.root, host, port) {
            Some(peers) => peers,
            None if !cfg!(feature = "net-extra") => return Err(NetError::NoLookup),
            None => dns::lookup(dial, host, port, deadline, watch)?,
        },
    };
    let far = |peer: &core::net::SocketAddr| !addr::is_near_address(&peer.ip());
    if *is_far {
        while let Some(at) = peers.iter().position(|peer| !far(peer)) {
            peers.remove(at);
        }
        if peers.is_empty() {
            return Err(NetError::Near);
        }
    }
    *is_far = peers.iter().any(far);
    happy_eyeballs::connect(&peers, deadline, watch)
}
