//! Sockets: non-blocking, closed on exec, and waited for with a deadline.

use core::net::{IpAddr, SocketAddr};
use heapless::Vec;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, Shutdown, SocketAddrUnix, SocketFlags, SocketType, bind, connect,
    getsockname, ipproto, netlink::SocketAddrNetlink, recv, send, shutdown, socket_with, sockopt,
};

use crate::sys::file::{File, short_path};
use crate::sys::time::Deadline;
use crate::sys::{netlink, vsock};

/// Sockets that [`wait`] can wait for at once.
pub const WAIT_MAX: usize = 8;

/// A socket that never blocks.
pub struct Socket(OwnedFd);

/// A kind of AF_VSOCK socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Single messages, which may be lost.
    Datagram,
    /// Messages over a connection.
    Packets,
    /// A stream of bytes.
    Stream,
}

/// Ports that only root can bind to.
const ROOT_PORTS: core::ops::Range<u32> = 1..1024;
/// How many of them are tried: each machine has its own, and few programs use them.
const ROOT_PORTS_TRIED: usize = 64;

/// What [`wait`] waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Ready {
    /// Bytes, an end or an error can be received.
    In,
    /// Bytes can be sent, or a connection was made or refused.
    Out,
}

impl Socket {
    /// A TCP socket for `peer`'s family. Small writes are sent at once (`TCP_NODELAY`): they are whole records and heads.
    pub fn tcp(peer: &SocketAddr) -> Result<Self, Errno> {
        let socket = Self::open(family(peer), SocketType::STREAM, Some(ipproto::TCP))?;
        sockopt::set_tcp_nodelay(&socket.0, true)?;
        Ok(socket)
    }

    /// A UDP socket for `peer`'s family.
    pub fn udp(peer: &SocketAddr) -> Result<Self, Errno> {
        Self::open(family(peer), SocketType::DGRAM, Some(ipproto::UDP))
    }

    /// A routing socket (rtnetlink(7)) that hears the multicast groups in the mask `groups`.
    pub fn route(groups: u32) -> Result<Self, Errno> {
        // NETLINK_ROUTE is protocol 0.
        let socket = Self::open(AddressFamily::NETLINK, SocketType::RAW, None)?;
        // To the kernel. It gives the socket an address, without which the kernel's messages would not reach it.
        connect(&socket.0, &SocketAddrNetlink::new(0, 0))?;
        netlink::hear(socket.0.as_fd(), groups);
        Ok(socket)
    }

    /// A stream to the local socket that `node` is (see [`crate::sys::file::Root::node`]); connected at once or not at all.
    pub fn unix(node: &File) -> Result<Self, Errno> {
        let socket = Self::open(AddressFamily::UNIX, SocketType::STREAM, None)?;
        // An address has no room for a long path, and no way to say what it is relative to.
        connect(&socket.0, &SocketAddrUnix::new(short_path(node.as_fd(), &mut [0; 40]))?)?;
        Ok(socket)
    }

    /// An AF_VSOCK socket, bound to a port that only root can have, if one is free: the host may look at that.
    pub fn vsock(kind: Kind) -> Result<Self, Errno> {
        let kind = match kind {
            Kind::Datagram => SocketType::DGRAM,
            Kind::Packets => SocketType::SEQPACKET,
            Kind::Stream => SocketType::STREAM,
        };
        let socket = Self::open(AddressFamily::VSOCK, kind, None)?;
        for port in ROOT_PORTS.rev().take(ROOT_PORTS_TRIED) {
            if bind(&socket.0, &vsock::Address::new(vsock::ANY, port)) != Err(Errno::ADDRINUSE) {
                break;
            }
        }
        Ok(socket)
    }

    /// Connects as [`Socket::connect`] does, to `port` of the machine `cid`.
    pub fn connect_vsock(&self, cid: u32, port: u32) -> Result<bool, Errno> {
        match connect(&self.0, &vsock::Address::new(cid, port)) {
            Ok(()) => Ok(true),
            Err(Errno::INPROGRESS | Errno::INTR) => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// Connects to `peer`; `Ok(false)` is a connection on its way: wait for [`Ready::Out`] and ask [`Socket::error`].
    pub fn connect(&self, peer: &SocketAddr) -> Result<bool, Errno> {
        match connect(&self.0, peer) {
            Ok(()) => Ok(true),
            // INTR: the connection goes on in the background, as after INPROGRESS.
            Err(Errno::INPROGRESS | Errno::INTR) => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// The error that is pending on the socket, which this takes away.
    pub fn error(&self) -> Result<(), Errno> {
        sockopt::socket_error(&self.0)?
    }

    /// Our own address, of a socket that is connected or about to be.
    pub fn source(&self) -> Result<IpAddr, Errno> {
        SocketAddr::try_from(getsockname(&self.0)?).map(|address| address.ip())
    }

    /// Sends as much of `bytes` as is taken at once; [`Errno::AGAIN`] when nothing is.
    pub fn send(&self, bytes: &[u8]) -> Result<usize, Errno> {
        loop {
            match send(&self.0, bytes, SendFlags::NOSIGNAL) {
                Err(Errno::INTR) => {}
                done => return done,
            }
        }
    }

    /// Receives what is there; [`Errno::AGAIN`] when nothing is. 0 is the peer's end. The rest of a datagram that does
    /// not fit is lost.
    pub fn recv(&self, buf: &mut [u8]) -> Result<usize, Errno> {
        self.recv_with(buf, RecvFlags::empty())
    }

    /// Whether a byte can be received now: neither nothing, nor an end, nor an error.
    pub fn has_bytes(&self) -> bool {
        matches!(self.recv_with(&mut [0], RecvFlags::PEEK), Ok(1))
    }

    /// Whether something can be received now: bytes, an end or an error.
    pub fn readable(&self) -> bool {
        wait(&mut core::iter::once(self), Ready::In, Deadline::after_ms(0)) != 0
    }

    /// Says that nothing more will be sent.
    pub fn shut(&self) {
        // An error says that the connection is gone already.
        let _ = shutdown(&self.0, Shutdown::Write);
    }

    fn open(family: AddressFamily, kind: SocketType, protocol: Option<Protocol>) -> Result<Self, Errno> {
        socket_with(family, kind, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, protocol).map(Self)
    }

    fn recv_with(&self, buf: &mut [u8], flags: RecvFlags) -> Result<usize, Errno> {
        loop {
            match recv(&self.0, &mut *buf, flags) {
                Ok((len, _)) => return Ok(len),
                Err(Errno::INTR) => {}
                Err(e) => return Err(e),
            }
        }
    }
}

/// Waits until one of `sockets` is ready or `deadline` has passed. Bit n of the answer is the nth socket, 0 is none. Those beyond
/// [`WAIT_MAX`] are not waited for. Without sockets it waits for the deadline.
pub fn wait(sockets: &mut dyn Iterator<Item = &Socket>, ready: Ready, deadline: Deadline) -> u32 {
    wait_or(sockets, ready, None, deadline).0
}

/// As [`wait`], and until something can be received from `other`, which the second part of the answer says.
pub fn wait_or(
    sockets: &mut dyn Iterator<Item = &Socket>,
    ready: Ready,
    other: Option<&Socket>,
    deadline: Deadline,
) -> (u32, bool) {
    let events = match ready {
        Ready::In => PollFlags::IN,
        Ready::Out => PollFlags::OUT,
    };
    let first = other.map(|s| PollFd::new(&s.0, PollFlags::IN));
    let rest = sockets.take(WAIT_MAX).map(|s| PollFd::new(&s.0, events));
    let mut fds: Vec<PollFd<'_>, { WAIT_MAX + 1 }> = first.into_iter().chain(rest).collect();
    let bits = wait_for(&mut fds, deadline);
    match other {
        Some(_) => (bits >> 1, bits & 1 != 0),
        None => (bits, false),
    }
}

/// Waits until `deadline`.
pub fn pause(deadline: Deadline) {
    wait_for(&mut [], deadline);
}

/// Waits for the first of up to 32 descriptors, or for `deadline`; bit n of the answer is the nth, 0 is none.
pub(super) fn wait_for(fds: &mut [PollFd<'_>], deadline: Deadline) -> u32 {
    loop {
        match poll(fds, Some(&deadline.left())) {
            Err(Errno::INTR) => {}
            Err(_) | Ok(0) => return 0,
            Ok(_) => break,
        }
    }
    let mut bits = 0;
    for (n, fd) in fds.iter().enumerate() {
        bits |= u32::from(!fd.revents().is_empty()) << n;
    }
    bits
}

fn family(peer: &SocketAddr) -> AddressFamily {
    match peer {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    }
}

/// The number of the interface called `name`; [`Errno::NODEV`] where there is none.
pub fn interface_index(name: &str) -> Result<u32, Errno> {
    // Any socket of the network will do (netdevice(7)).
    let open = |family| socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, None);
    let socket = open(AddressFamily::INET6).or_else(|_| open(AddressFamily::INET))?;
    rustix::net::netdevice::name_to_index(socket, name)
}
