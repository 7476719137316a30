//! The first of several addresses that answers ("Happy Eyeballs", RFC 8305 section 5).

use core::net::{IpAddr, SocketAddr};
use heapless::Vec;

use crate::error::NetError;
use crate::net::addr::ADDRS_MAX;
use crate::net::netlink::Watch;
use crate::sys::Errno;
use crate::sys::sock::{Ready, Socket, WAIT_MAX, wait_or};
use crate::sys::time::Deadline;

/// Milliseconds between the beginning of one try and the next (RFC 8305 section 8).
const STAGGER_MS: u64 = 250;

/// Milliseconds that one try may take: the third SYN goes out after 3 s.
const TRY_MS: u64 = 5_000;

const _: () = assert!(ADDRS_MAX <= WAIT_MAX, "every try is waited for");

/// A connection on its way.
struct Try {
    peer: SocketAddr,
    socket: Socket,
    /// Our address of it.
    source: IpAddr,
    until: Deadline,
}

/// What is known of the tries that failed.
#[derive(Default)]
pub(super) struct Failures {
    /// The last one that a network was asked for.
    asked: Option<NetError>,
    /// Peers to which there was no way.
    no_way: Vec<SocketAddr, ADDRS_MAX>,
}

/// Connects to the first of `peers` that answers, begun in their order. When `watch` hears of a change, those to which there was no
/// way are tried again, and so are those whose connection has another source address than it would have now.
/// [`NetError::NoRoute`] says that none could even be tried, since no address or no route is there: it may be different in a moment.
pub(super) fn connect(peers: &[SocketAddr], deadline: Deadline, watch: &Watch) -> Result<Socket, NetError> {
    // The last one is the next.
    let mut queue: Vec<SocketAddr, ADDRS_MAX> = peers.iter().take(ADDRS_MAX).rev().copied().collect();
    let mut tries: Vec<Try, ADDRS_MAX> = Vec::new();
    let mut failures = Failures::default();
    let mut next_at = Deadline::after_ms(0);
    loop {
        while tries.is_empty() || next_at.passed() {
            let Some(peer) = (if deadline.passed() { None } else { queue.pop() }) else { break };
            match begin(&peer, deadline) {
                Ok((one, true)) => return Ok(one.socket),
                Ok((one, false)) => {
                    // There are as many places as tries.
                    let _ = tries.push(one);
                    next_at = Deadline::after_ms(STAGGER_MS);
                }
                Err(e) => failures.at_once(e, &peer),
            }
        }
        if tries.is_empty() {
            return Err(failures.verdict());
        }
        let step = if queue.is_empty() { deadline } else { next_at };
        let until = tries.iter().fold(step, |first, t| first.min(t.until));
        let (ready, is_change) = wait_or(&mut tries.iter().map(|t| &t.socket), Ready::Out, watch.socket(), until);
        // From the end, so that removing one moves only what has been looked at.
        for n in (0..tries.len()).rev() {
            let Some(one) = tries.get(n) else { continue };
            let failure = match (ready >> n & 1, one.socket.error()) {
                (1, Ok(())) => return Ok(tries.swap_remove(n).socket),
                (_, Err(e)) => NetError::Connect(e),
                (_, Ok(())) if one.until.passed() => NetError::ConnectTimeout,
                (_, Ok(())) => continue,
            };
            failures.asked = Some(failure);
            tries.swap_remove(n);
            // The next one need not wait any more.
            next_at = Deadline::after_ms(0);
        }
        if is_change && watch.changed() {
            for one in &mut tries {
                // What is sent from an address that cannot be answered, or not beyond the link, is sent for nothing.
                if let Ok((_, source)) = udp(&one.peer)
                    && source != one.source
                    && let Ok((new, _)) = begin(&one.peer, deadline)
                {
                    *one = new;
                }
            }
            while let Some(peer) = failures.no_way.pop() {
                // Each peer is in one place only, so there is room.
                let _ = queue.push(peer);
                next_at = Deadline::after_ms(0);
            }
        }
    }
}

/// Begins to connect to `peer`; whether it is done already.
fn begin(peer: &SocketAddr, deadline: Deadline) -> Result<(Try, bool), Errno> {
    let socket = Socket::tcp(peer)?;
    let is_done = socket.connect(peer)?;
    let source = source(&socket, peer)?;
    Ok((Try { peer: *peer, socket, source, until: deadline.step_ms(TRY_MS) }, is_done))
}

/// A UDP socket that is connected to `peer`, and our address of it. Nothing is sent for that.
pub(super) fn udp(peer: &SocketAddr) -> Result<(Socket, IpAddr), Errno> {
    let socket = Socket::udp(peer)?;
    socket.connect(peer)?;
    let source = source(&socket, peer)?;
    Ok((socket, source))
}

/// Our address of a connection to `peer`; [`Errno::ADDRNOTAVAIL`] where that is none that `peer` could answer to. As long as the only
/// IPv6 address is tentative, the kernel takes that of the loopback interface; where an IPv4 route comes before an address, none.
fn source(socket: &Socket, peer: &SocketAddr) -> Result<IpAddr, Errno> {
    let (source, peer) = (socket.source()?.to_canonical(), peer.ip().to_canonical());
    let is_here = peer.is_loopback() || peer.is_unspecified();
    match source.is_unspecified() || source.is_loopback() && !is_here {
        true => Err(Errno::ADDRNOTAVAIL),
        false => Ok(source),
    }
}

impl Failures {
    /// Notes that a try ended as it began.
    pub(super) fn at_once(&mut self, e: Errno, peer: &SocketAddr) {
        match e {
            // No route will ever be missing to this machine itself. NODEV: the interface of the zone is gone.
            Errno::NETUNREACH | Errno::HOSTUNREACH | Errno::ADDRNOTAVAIL | Errno::NETDOWN | Errno::NODEV
                if !peer.ip().is_loopback() =>
            {
                // There are as many places as peers.
                let _ = self.no_way.push(*peer);
            }
            // A kernel without IPv6 says nothing about the way to the other addresses.
            Errno::AFNOSUPPORT if self.asked.is_some() => {}
            e => self.asked = Some(NetError::Connect(e)),
        }
    }

    /// The error of all of them together. Without any there was no time left to try.
    pub(super) fn verdict(self) -> NetError {
        match self.asked {
            None | Some(NetError::Connect(Errno::AFNOSUPPORT)) if !self.no_way.is_empty() => NetError::NoRoute,
            None => NetError::NoTime,
            Some(e) => e,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn peer(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    /// An address at which nothing listens.
    fn closed() -> SocketAddr {
        TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
    }

    #[test]
    fn the_first_that_answers() {
        let open = TcpListener::bind("127.0.0.1:0").unwrap();
        let peers = [closed(), closed(), open.local_addr().unwrap(), closed()];
        assert!(connect(&peers, Deadline::after_ms(5_000), &Watch::new()).is_ok());
        assert!(open.accept().is_ok());
    }

    #[test]
    fn none_answers() {
        let refused = Some(NetError::Connect(Errno::CONNREFUSED));
        assert_eq!(connect(&[closed(), closed()], Deadline::after_ms(5_000), &Watch::new()).err(), refused);
        assert_eq!(connect(&[closed()], Deadline::after_ms(0), &Watch::new()).err(), Some(NetError::NoTime));
    }

    /// What all failures together say, those at once being (error, peer).
    fn verdict(at_once: &[(Errno, &str)], asked: Option<NetError>) -> NetError {
        let mut failures = Failures { asked, ..Failures::default() };
        at_once.iter().for_each(|(e, text)| failures.at_once(*e, &peer(text)));
        failures.verdict()
    }

    #[test]
    fn what_is_waited_for() {
        const V4: &str = "192.0.2.1:80";
        const V6: &str = "[2001:db8::1]:80";
        let refused = NetError::Connect(Errno::CONNREFUSED);
        let no_ipv6 = (Errno::AFNOSUPPORT, V6);
        for e in [Errno::NETUNREACH, Errno::HOSTUNREACH, Errno::ADDRNOTAVAIL, Errno::NETDOWN, Errno::NODEV] {
            assert_eq!(verdict(&[(e, V4)], None), NetError::NoRoute);
            assert_eq!(verdict(&[(e, V4), no_ipv6], None), NetError::NoRoute);
            assert_eq!(verdict(&[no_ipv6, (e, V4)], None), NetError::NoRoute);
            // Another address was asked: that counts.
            assert_eq!(verdict(&[(e, V6)], Some(refused)), refused);
            // This machine never gets a route to itself.
            for own in ["127.0.0.1:80", "[::1]:80"] {
                assert_eq!(verdict(&[(e, own)], None), NetError::Connect(e));
            }
        }
        assert_eq!(verdict(&[no_ipv6], None), NetError::Connect(Errno::AFNOSUPPORT));
        assert_eq!(verdict(&[no_ipv6], Some(refused)), refused);
        assert_eq!(verdict(&[(Errno::ACCESS, V4)], None), NetError::Connect(Errno::ACCESS));
    }
}
