//! A TCP connection as a [`Transport`]: bytes, deadlines, and peers that answer before they have read everything.

use crate::error::{Error, NetError};
use crate::net::Transport;
use crate::sys::Errno;
use crate::sys::sock::{Ready, Socket, wait};
use crate::sys::time::Deadline;

/// Milliseconds after which a peer that takes or gives nothing is given up. A live peer answers within a few seconds; three TCP
/// retransmissions (1, 2 and 4 s, RFC 6298) fit in as well.
pub const IDLE_MS: u64 = 15_000;

/// Milliseconds for which a peer that has spoken may take nothing before it is believed to have ended reading: more than a peer that
/// is merely slow needs, less than anybody waits for gladly.
const STALL_MS: u64 = 1_000;

/// A connected TCP socket.
pub struct Tcp {
    socket: Socket,
    /// The error that ended sending: what had been received by then can be read, but its end is not an orderly one.
    broken: Option<Errno>,
}

impl Tcp {
    /// Takes over a connected socket.
    pub fn new(socket: Socket) -> Self {
        Self { socket, broken: None }
    }
}

impl Transport for Tcp {
    fn send(&mut self, bytes: &[u8], deadline: Deadline) -> Result<(), Error> {
        let mut rest = bytes;
        while !rest.is_empty() {
            match self.push(rest, deadline)? {
                0 => return Err(Error::Net(NetError::PeerSpoke)),
                n => rest = rest.get(n..).unwrap_or_default(),
            }
        }
        Ok(())
    }

    fn push(&mut self, bytes: &[u8], deadline: Deadline) -> Result<usize, Error> {
        let idle = deadline.step_ms(IDLE_MS);
        loop {
            // Asked first: a peer that is always ready would never let the deadline come.
            if idle.passed() {
                return Err(Error::Net(NetError::Timeout));
            }
            match self.socket.send(bytes) {
                Ok(n) => return Ok(n),
                Err(Errno::AGAIN) => {}
                Err(e) => {
                    self.broken = Some(e);
                    // The kernel keeps what came before a reset: an early answer is in there.
                    return if self.socket.has_bytes() { Ok(0) } else { Err(Error::Net(NetError::Send(e))) };
                }
            }
            let stalled = wait(&mut core::iter::once(&self.socket), Ready::Out, idle.step_ms(STALL_MS)) == 0;
            if stalled && self.socket.readable() {
                return Ok(0);
            }
        }
    }

    fn recv(&mut self, buf: &mut [u8], deadline: Deadline) -> Result<usize, Error> {
        let idle = deadline.step_ms(IDLE_MS);
        loop {
            if idle.passed() {
                return Err(Error::Net(NetError::Timeout));
            }
            match (self.socket.recv(buf), self.broken) {
                (Ok(0), Some(e)) => return Err(Error::Net(NetError::Recv(e))),
                (Ok(n), _) => return Ok(n),
                (Err(Errno::AGAIN), _) => {}
                (Err(e), _) => return Err(Error::Net(NetError::Recv(e))),
            }
            wait(&mut core::iter::once(&self.socket), Ready::In, idle);
        }
    }

    fn readable(&mut self) -> bool {
        self.socket.readable()
    }

    fn finish(&mut self) {
        self.socket.shut();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{Shutdown, TcpListener, TcpStream};
    use std::sync::mpsc::channel;
    use std::thread;

    /// More than the socket buffers of both sides hold.
    const MUCH: usize = 64 << 20;

    fn pair() -> (Tcp, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let peers = [listener.local_addr().unwrap()];
        let watch = crate::net::netlink::Watch::new();
        let socket = crate::net::happy_eyeballs::connect(&peers, Deadline::after_ms(5_000), &watch).unwrap();
        (Tcp::new(socket), listener.accept().unwrap().0)
    }

    fn soon() -> Deadline {
        Deadline::after_ms(10_000)
    }

    fn read_to_end(tcp: &mut Tcp) -> (Vec<u8>, Result<(), Error>) {
        let (mut all, mut buf) = (Vec::new(), [0; 100]);
        loop {
            match tcp.recv(&mut buf, soon()) {
                Ok(0) => return (all, Ok(())),
                Ok(n) => all.extend_from_slice(&buf[..n]),
                Err(e) => return (all, Err(e)),
            }
        }
    }

    #[test]
    fn both_ways_and_the_end() {
        let (mut tcp, mut peer) = pair();
        assert!(!tcp.readable());
        tcp.send(b"", soon()).unwrap();
        tcp.send(b"question", soon()).unwrap();
        tcp.finish();
        let mut got = Vec::new();
        peer.read_to_end(&mut got).unwrap();
        assert_eq!(got, b"question");
        peer.write_all(b"answer").unwrap();
        drop(peer);
        assert_eq!(read_to_end(&mut tcp), (b"answer".to_vec(), Ok(())));
        assert!(tcp.readable());
    }

    #[test]
    fn early_answer_of_a_peer_that_stops_reading() {
        let (mut tcp, mut peer) = pair();
        peer.write_all(b"413").unwrap();
        assert_eq!(tcp.send(&vec![0; MUCH], soon()), Err(Error::Net(NetError::PeerSpoke)));
        peer.shutdown(Shutdown::Write).unwrap();
        assert_eq!(read_to_end(&mut tcp), (b"413".to_vec(), Ok(())));
    }

    #[test]
    fn early_answer_before_a_reset() {
        let (mut tcp, mut peer) = pair();
        tcp.send(b"unread", soon()).unwrap();
        peer.read_exact(&mut [0]).unwrap();
        peer.write_all(b"413").unwrap();
        drop(peer); // with unread bytes: a reset, not an end
        let sent = tcp.send(&vec![0; MUCH], soon());
        assert_eq!(sent, Err(Error::Net(NetError::PeerSpoke)));
        let (got, end) = read_to_end(&mut tcp);
        assert_eq!(got, b"413");
        assert!(matches!(end, Err(Error::Net(NetError::Recv(_)))), "{end:?}");
    }

    #[test]
    fn reset_without_an_answer() {
        let (mut tcp, mut peer) = pair();
        tcp.send(b"unread", soon()).unwrap();
        peer.read_exact(&mut [0]).unwrap();
        drop(peer);
        assert!(matches!(tcp.send(&vec![0; MUCH], soon()), Err(Error::Net(NetError::Send(_)))));
        assert!(matches!(read_to_end(&mut tcp).1, Err(Error::Net(NetError::Recv(_)))));
    }

    #[test]
    fn a_peer_that_has_spoken_and_reads_on_gets_all() {
        let (mut tcp, mut peer) = pair();
        peer.write_all(b"100").unwrap();
        let (full, was_full) = channel();
        let reader = thread::spawn(move || {
            was_full.recv().unwrap();
            let mut got = 0;
            let mut buf = vec![0; 1 << 16];
            loop {
                match peer.read(&mut buf).unwrap() {
                    0 => return got,
                    n => got += n,
                }
            }
        });
        // Stalled for a moment: said as 0, and then the rest can be sent.
        let bytes = vec![0; MUCH];
        let mut sent = 0;
        loop {
            match tcp.push(&bytes[sent..], soon()).unwrap() {
                0 => break,
                n => sent += n,
            }
        }
        full.send(()).unwrap();
        // The reader may be slow as well: then it is said again.
        while sent < MUCH {
            sent += tcp.push(&bytes[sent..], soon()).unwrap();
        }
        tcp.finish();
        assert_eq!(reader.join().unwrap(), MUCH);
        assert_eq!(read_to_end(&mut tcp), (b"100".to_vec(), Ok(())));
    }

    #[test]
    fn deadlines() {
        let timeout = Err(Error::Net(NetError::Timeout));
        let (mut tcp, peer) = pair();
        assert_eq!(tcp.recv(&mut [0], Deadline::after_ms(50)).map(|_| ()), timeout);
        assert_eq!(tcp.send(&vec![0; MUCH], Deadline::after_ms(50)), timeout);
        // A peer that always has something to say is no way round the deadline.
        let talker = thread::spawn(move || while (&peer).write_all(&[0; 1 << 16]).is_ok() {});
        let (deadline, mut buf) = (Deadline::after_ms(200), vec![0; 1 << 10]);
        let end = loop {
            if let Err(e) = tcp.recv(&mut buf, deadline) {
                break e;
            }
        };
        assert_eq!(Err(end), timeout);
        drop(tcp);
        talker.join().unwrap();
    }
}
