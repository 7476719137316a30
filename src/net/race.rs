//! The first of several addresses that answers ("Happy Eyeballs", RFC 8305 section 5).

use core::net::SocketAddr;
use heapless::Vec;

use super::addr::ADDRS_MAX;
use crate::error::NetError;
use crate::sys::Errno;
use crate::sys::sock::{Ready, Socket, WAIT_MAX, wait};
use crate::sys::time::Deadline;

/// Milliseconds between the beginning of one try and the next (RFC 8305 section 8).
const STAGGER_MS: u64 = 250;

/// Milliseconds that one try may take: the third SYN goes out after 3 s.
const TRY_MS: u64 = 5_000;

const _: () = assert!(ADDRS_MAX <= WAIT_MAX, "every try is waited for");

/// A connection on its way.
struct Try {
    socket: Socket,
    until: Deadline,
}

/// What is known of the tries that failed.
#[derive(Default)]
pub(super) struct Failures {
    /// The last one that a network was asked for.
    asked: Option<NetError>,
    /// Whether there was one without a way to the peer.
    no_route: bool,
}

/// Connects to the first of `peers` that answers, begun in their order. [`NetError::NoRoute`] says that none could even be tried,
/// since no address or no route is there: it may be different in a moment.
pub(super) fn connect(peers: &[SocketAddr], deadline: Deadline) -> Result<Socket, NetError> {
    let mut peers = peers.iter();
    let mut tries: Vec<Try, ADDRS_MAX> = Vec::new();
    let mut failures = Failures::default();
    let mut next_at = Deadline::after_ms(0);
    loop {
        while tries.is_empty() || next_at.passed() {
            let Some(peer) = peers.next().filter(|_| !deadline.passed()) else { break };
            match begin(peer) {
                Ok((socket, true)) => return Ok(socket),
                Ok((socket, false)) => {
                    // There are as many places as tries.
                    let _ = tries.push(Try { socket, until: deadline.step_ms(TRY_MS) });
                    next_at = Deadline::after_ms(STAGGER_MS);
                }
                Err(e) => failures.at_once(e, peer),
            }
        }
        if tries.is_empty() {
            return Err(failures.verdict());
        }
        let step = if peers.len() == 0 { deadline } else { next_at };
        let until = tries.iter().fold(step, |first, t| first.min(t.until));
        let ready = wait(&mut tries.iter().map(|t| &t.socket), Ready::Out, until);
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
    }
}

fn begin(peer: &SocketAddr) -> Result<(Socket, bool), Errno> {
    let socket = Socket::tcp(peer)?;
    let done = socket.connect(peer)?;
    Ok((socket, done))
}

impl Failures {
    /// Notes that a try ended as it began.
    pub(super) fn at_once(&mut self, e: Errno, peer: &SocketAddr) {
        match e {
            // No route will ever be missing to this machine itself. NODEV: the interface of the zone is gone.
            Errno::NETUNREACH | Errno::HOSTUNREACH | Errno::ADDRNOTAVAIL | Errno::NETDOWN | Errno::NODEV
                if !peer.ip().is_loopback() =>
            {
                self.no_route = true;
            }
            // A kernel without IPv6 says nothing about the way to the other addresses.
            Errno::AFNOSUPPORT if self.asked.is_some() => {}
            e => self.asked = Some(NetError::Connect(e)),
        }
    }

    /// The error of all of them together. Without any there was no time left to try.
    pub(super) fn verdict(self) -> NetError {
        match self.asked {
            None | Some(NetError::Connect(Errno::AFNOSUPPORT)) if self.no_route => NetError::NoRoute,
            None => NetError::ConnectTimeout,
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
        assert!(connect(&peers, Deadline::after_ms(5_000)).is_ok());
        assert!(open.accept().is_ok());
    }

    #[test]
    fn none_answers() {
        let refused = Some(NetError::Connect(Errno::CONNREFUSED));
        assert_eq!(connect(&[closed(), closed()], Deadline::after_ms(5_000)).err(), refused);
        assert_eq!(connect(&[closed()], Deadline::after_ms(0)).err(), Some(NetError::ConnectTimeout));
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
