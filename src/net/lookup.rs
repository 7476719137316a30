//! A name's addresses from the nameservers: a stub resolver (RFC 1034 section 5.3.1, RFC 1035 section 7, RFC 5452).
//!
//! A and AAAA are asked for at once, of one server after the other, and each server asked keeps its chance to answer. Every server
//! has a connected socket of its own with a random port, and random ids, so that a stranger has to guess both.

use core::net::{IpAddr, SocketAddr};
use heapless::Vec;

use super::addr::ADDRS_MAX;
use super::dns::{Answer, Kind, QUERY_MAX, Query, answer};
use super::race::{self, Failures};
use super::resolvers::{Resolvers, SERVERS_MAX};
use super::tcp::Tcp;
use super::{Dial, Transport};
use crate::error::NetError;
use crate::sys::Errno;
use crate::sys::random;
use crate::sys::sock::{Ready, Socket, wait};
use crate::sys::time::Deadline;

/// How often each server is asked, at most.
const PASSES: u32 = 3;

/// Milliseconds until the next server is asked; in each further pass twice as many.
const TURN_MS: u64 = 1_000;

/// Milliseconds that the addresses of one family wait for those of the other. RFC 8305 has 50 after an answer for IPv4, and goes on
/// resolving in the background, which this does not.
const OTHER_FAMILY_MS: u64 = 300;

/// Milliseconds for an answer over TCP.
const TCP_MS: u64 = 5_000;

/// Bytes of a message that are read. Over UDP there are 512 at most; over TCP what is cut are addresses that would not be tried.
const MESSAGE_MAX: usize = 4096;

/// Datagrams of one server that are looked at before the others have their turn.
const DATAGRAMS_MAX: usize = 16;

/// Domains of the search list that are tried.
const DOMAINS_MAX: usize = 6;

/// What is asked for, in the order in which addresses are tried.
const KINDS: [Kind; 2] = [Kind::Aaaa, Kind::A];

/// A nameserver.
struct Server {
    address: SocketAddr,
    socket: Socket,
    /// The ids of its queries; the same each time, so that a late answer to the first is one to the second.
    ids: [u16; 2],
    /// Whether it said that it cannot answer, or is not there.
    refused: [bool; 2],
}

/// A name that is asked for. Arrays have an element for each of [`KINDS`].
struct Asking {
    query: Query,
    servers: Vec<Server, SERVERS_MAX>,
    addresses: [Vec<IpAddr, ADDRS_MAX>; 2],
    answered: [bool; 2],
    /// Until when the addresses of one family wait for the other's.
    other_until: Option<Deadline>,
    failure: NetError,
    deadline: Deadline,
    buf: [u8; MESSAGE_MAX],
}

/// Looks `host` up. [`NetError::NoRoute`] says that no server could even be asked.
pub(super) fn lookup(
    dial: &Dial<'_>,
    host: &str,
    port: u16,
    deadline: Deadline,
) -> Result<Vec<SocketAddr, ADDRS_MAX>, NetError> {
    let resolvers = Resolvers::new(dial);
    let host = host.as_bytes();
    let dots = host.iter().filter(|b| **b == b'.').count();
    let is_whole = host.ends_with(b".");
    let domains =
        resolvers.search.split(|b| *b == b' ').filter(|domain| !domain.is_empty() && !is_whole).take(DOMAINS_MAX);
    let (first, last) =
        if is_whole || dots >= resolvers.ndots as usize { (Some(&b""[..]), None) } else { (None, Some(&b""[..])) };
    let mut failure = NetError::Unresolved;
    for domain in first.into_iter().chain(domains).chain(last) {
        let Some(query) = Query::new(host, domain) else { continue };
        // Asked only now: what is no name needs no nameserver.
        if resolvers.servers.is_empty() {
            return Err(NetError::NoNameserver);
        }
        match ask(&resolvers.servers, query, port, deadline) {
            Ok(peers) => return Ok(peers),
            Err(NetError::Unresolved) => {}
            Err(e @ NetError::NameserverFailed(_)) => failure = e,
            // What nobody answers once will not be answered with another domain.
            Err(e) => return Err(e),
        }
    }
    Err(failure)
}

/// Asks all servers for one name.
fn ask(
    addresses: &[SocketAddr],
    query: Query,
    port: u16,
    deadline: Deadline,
) -> Result<Vec<SocketAddr, ADDRS_MAX>, NetError> {
    let mut failures = Failures::default();
    let mut asking = Asking {
        query,
        servers: Vec::new(),
        addresses: Default::default(),
        answered: [false; 2],
        other_until: None,
        failure: NetError::NameserverSilent,
        deadline,
        buf: [0; MESSAGE_MAX],
    };
    for address in addresses {
        match Server::new(address) {
            // There are as many places as addresses.
            Ok(server) => drop(asking.servers.push(server)),
            Err(e) => failures.at_once(e, address),
        }
    }
    if asking.servers.is_empty() {
        return Err(failures.verdict());
    }
    'asking: for pass in 0..PASSES {
        for turn in 0..asking.servers.len() {
            if asking.send(turn) {
                asking.listen(turn, deadline.step_ms(TURN_MS << pass));
            }
            if asking.is_done() || deadline.passed() {
                break 'asking;
            }
        }
    }
    match asking.answered {
        _ if asking.other_until.is_some() => Ok(asking.peers(port)),
        [false, false] => Err(asking.failure),
        _ => Err(NetError::Unresolved),
    }
}

impl Server {
    fn new(address: &SocketAddr) -> Result<Self, Errno> {
        let socket = Socket::udp(address)?;
        socket.connect(address)?;
        let mut random = [0; 4];
        random::fill(&mut random)?;
        let [a, b, c, d] = random;
        Ok(Self {
            address: *address,
            socket,
            ids: [u16::from_ne_bytes([a, b]), u16::from_ne_bytes([c, d])],
            refused: [false; 2],
        })
    }
}

impl Asking {
    /// Asks the server for what is not answered yet; false if it is not to be asked.
    fn send(&mut self, turn: usize) -> bool {
        let Some(server) = self.servers.get_mut(turn) else { return false };
        let mut sent = false;
        for (n, kind) in KINDS.into_iter().enumerate() {
            if self.answered[n] || server.refused[n] {
                continue;
            }
            match server.socket.send(self.query.message(server.ids[n], kind)) {
                Ok(_) => sent = true,
                Err(_) => server.refused[n] = true,
            }
        }
        sent
    }

    /// Takes what any server says until `until`, or until the one whose turn it is has nothing more to say.
    fn listen(&mut self, turn: usize, until: Deadline) {
        loop {
            let until = self.other_until.map_or(until, |other| other.min(until));
            let ready = wait(&mut self.servers.iter().map(|s| &s.socket), Ready::In, until);
            for n in (0..self.servers.len()).filter(|n| ready >> n & 1 != 0) {
                for _ in 0..DATAGRAMS_MAX {
                    let Some(server) = self.servers.get_mut(n) else { break };
                    match server.socket.recv(&mut self.buf) {
                        Ok(len) => self.take(n, len),
                        Err(Errno::AGAIN) => break,
                        Err(_) => {
                            server.refused = [true; 2];
                            break;
                        }
                    }
                }
            }
            let refused = self.servers.get(turn).map_or([true; 2], |s| s.refused);
            if until.passed() || self.is_done() || (0..2).all(|n| refused[n] || self.answered[n]) {
                return;
            }
        }
    }

    /// Takes in a message of a server's: `len` bytes in the buffer.
    fn take(&mut self, from: usize, len: usize) {
        let Some(server) = self.servers.get_mut(from) else { return };
        for (n, kind) in KINDS.into_iter().enumerate() {
            let query = self.query.message(server.ids[n], kind);
            let mut addresses = Vec::new();
            let message = self.buf.get(..len).unwrap_or_default();
            let Some(mut said) = answer(query, kind, message, &mut addresses).filter(|_| !self.answered[n]) else {
                continue;
            };
            if said.truncated {
                let mut whole = Vec::new();
                if let Some(said_whole) =
                    over_tcp(&server.address, query, kind, &mut self.buf, &mut whole, self.deadline.step_ms(TCP_MS))
                {
                    (said, addresses) = (said_whole, whole);
                }
            }
            match said.rcode {
                _ if !addresses.is_empty() => {
                    self.addresses[n] = addresses;
                    self.answered[n] = true;
                    self.other_until.get_or_insert(Deadline::after_ms(OTHER_FAMILY_MS));
                }
                0 if said.truncated => server.refused[n] = true,
                0 => self.answered[n] = true,
                // Some servers say wrongly that a name without IPv6 addresses does not exist (RFC 4074 section 4.2); without
                // IPv4 ones none does.
                3 if kind == Kind::A => self.answered = [true; 2],
                3 => self.answered[n] = true,
                rcode => {
                    server.refused[n] = true;
                    self.failure = NetError::NameserverFailed(rcode);
                }
            }
            return;
        }
    }

    fn is_done(&self) -> bool {
        self.answered == [true; 2] || self.other_until.is_some_and(Deadline::passed)
    }

    /// The addresses, with the families taking turns (RFC 8305 section 4).
    fn peers(&self, port: u16) -> Vec<SocketAddr, ADDRS_MAX> {
        let [a, b] = &self.addresses;
        let turns = (0..ADDRS_MAX).flat_map(|n| [a.get(n), b.get(n)]).flatten();
        turns.take(ADDRS_MAX).map(|ip| SocketAddr::new(*ip, port)).collect()
    }
}

/// Asks again over TCP (RFC 7766), where a message has its length before it.
fn over_tcp(
    server: &SocketAddr,
    query: &[u8],
    kind: Kind,
    buf: &mut [u8; MESSAGE_MAX],
    found: &mut Vec<IpAddr, ADDRS_MAX>,
    deadline: Deadline,
) -> Option<Answer> {
    let mut tcp = Tcp::new(race::connect(core::slice::from_ref(server), deadline).ok()?);
    let mut message: Vec<u8, { QUERY_MAX + 2 }> = Vec::new();
    message.extend_from_slice(&u16::try_from(query.len()).ok()?.to_be_bytes()).ok()?;
    message.extend_from_slice(query).ok()?;
    tcp.send(&message, deadline).ok()?;
    let (mut len, mut end) = (0usize, 2usize);
    while len < end {
        let read = tcp.recv(buf.get_mut(len..end)?, deadline).ok().filter(|n| *n != 0)?;
        len = len.checked_add(read)?;
        if end == 2 && len == 2 {
            end = usize::from(u16::from_be_bytes([buf[0], buf[1]])).saturating_add(2).min(MESSAGE_MAX);
        }
    }
    answer(query, kind, buf.get(2..len)?, found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::file::Root;
    use std::io::{Read, Write};
    use std::net::{TcpListener, UdpSocket};
    use std::thread;

    type Bytes = alloc::vec::Vec<u8>;

    const A: u8 = Kind::A as u8;
    const AAAA: u8 = Kind::Aaaa as u8;

    /// The name and type that a query asks for, the name without its dots' places: `example` and `com` are `example.com`.
    fn question(query: &[u8]) -> (String, u8) {
        let (mut name, mut at) = (String::new(), 12);
        while query[at] != 0 {
            let end = at + 1 + usize::from(query[at]);
            name.push_str(core::str::from_utf8(&query[at + 1..end]).unwrap());
            name.push('.');
            at = end;
        }
        (name, query[at + 2])
    }

    fn reply(query: &[u8], flags: u16, addresses: &[&[u8]]) -> Bytes {
        let mut m = query.to_vec();
        m[2..4].copy_from_slice(&(0x8180 | flags).to_be_bytes());
        m[7] = addresses.len() as u8;
        for address in addresses {
            m.extend_from_slice(&[
                0xc0,
                12,
                0,
                if address.len() == 4 { A } else { AAAA },
                0,
                1,
                0,
                0,
                0,
                0,
                0,
                address.len() as u8,
            ]);
            m.extend_from_slice(address);
        }
        m
    }

    const V4: &[u8] = &[192, 0, 2, 1];
    const V6: &[u8] = &[0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];

    /// A truthful server's answer: all names that begin with `a` have both addresses.
    fn truth(query: &[u8]) -> Bytes {
        match question(query) {
            (name, kind) if name.starts_with('a') => reply(query, 0, &[if kind == A { V4 } else { V6 }]),
            _ => reply(query, 3, &[]),
        }
    }

    /// A server that sends what `say` gives for each query; it is gone when the test is.
    fn server(mut say: impl FnMut(&[u8]) -> alloc::vec::Vec<Bytes> + Send + 'static) -> String {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap().to_string();
        thread::spawn(move || {
            let mut buf = [0; 512];
            while let Ok((len, peer)) = socket.recv_from(&mut buf) {
                for message in say(&buf[..len]) {
                    socket.send_to(&message, peer).unwrap();
                }
            }
        });
        address
    }

    fn look_up_within(servers: &[&str], host: &str, search: &str, ms: u64) -> Result<String, NetError> {
        let dir = std::env::temp_dir().join(format!("lookup-{}-{:?}", std::process::id(), thread::current().id()));
        std::fs::create_dir_all(dir.join("etc")).unwrap();
        std::fs::write(dir.join("etc/resolv.conf"), search).unwrap();
        let root = Root::new(Some(dir.to_str().unwrap().as_bytes())).unwrap();
        let dial = Dial { root: &root, dns: servers, cmdline: b"" };
        let found = lookup(&dial, host, 80, Deadline::after_ms(ms));
        std::fs::remove_dir_all(&dir).unwrap();
        Ok(found?.iter().map(|a| a.ip().to_string()).collect::<alloc::vec::Vec<_>>().join(" "))
    }

    fn look_up(servers: &[&str], host: &str) -> Result<String, NetError> {
        look_up_within(servers, host, "", 20_000)
    }

    const BOTH: &str = "2001:db8::1 192.0.2.1";

    #[test]
    fn both_families_alternate() {
        let one = server(|q| {
            let (v4, v6) = ([V4, &[192, 0, 2, 2]], [V6]);
            [reply(q, 0, if question(q).1 == A { &v4 } else { &v6 })].into()
        });
        assert_eq!(look_up(&[&one], "a.example").as_deref(), Ok("2001:db8::1 192.0.2.1 192.0.2.2"));
    }

    #[test]
    fn search_list_and_ndots() {
        // It is said in what order names were asked for: only the last one exists.
        for (host, search, want) in [
            ("x", "search d.e", "x.d.e. x."),
            ("x.y", "search d.e", "x.y. x.y.d.e."),
            ("x.y", "search d.e\noptions ndots:2", "x.y.d.e. x.y."),
            ("x.", "search d.e", "x."),
            ("x", "search d.e f", "x.d.e. x.f. x."),
        ] {
            let (said, asked) = std::sync::mpsc::channel();
            let last = want.rsplit(' ').next().unwrap().to_owned();
            let one = server(move |q| {
                let (name, kind) = question(q);
                let address: &[&[u8]] = if name == last && kind == A { &[V4] } else { &[] };
                if kind == A {
                    said.send(name.clone()).unwrap();
                }
                [reply(q, if name == last { 0 } else { 3 }, address)].into()
            });
            assert_eq!(look_up_within(&[&one], host, search, 20_000).as_deref(), Ok("192.0.2.1"), "{host} {search}");
            assert_eq!(asked.try_iter().collect::<alloc::vec::Vec<_>>().join(" "), want);
        }
    }

    #[test]
    fn a_name_that_does_not_exist_or_has_no_address() {
        let one = server(|q| [truth(q)].into());
        assert_eq!(look_up(&[&one], "x.example"), Err(NetError::Unresolved));
        let empty = server(|q| [reply(q, 0, &[])].into());
        assert_eq!(look_up(&[&empty, &one], "a.example"), Err(NetError::Unresolved));
        assert_eq!(look_up(&[&one], "a..example"), Err(NetError::Unresolved));
        assert_eq!(look_up(&[], "a.example"), Err(NetError::NoNameserver));
    }

    #[test]
    fn lies_are_passed_over() {
        let one = server(|q| {
            let evil: &[u8] = if question(q).1 == A { &[6, 6, 6, 6] } else { &[6; 16] };
            let (mut id, mut name, mut kind) = (reply(q, 0, &[evil]), reply(q, 0, &[evil]), reply(q, 0, &[evil]));
            id[1] ^= 1;
            name[13] = b'b';
            kind[q.len() - 3] = 16;
            [id, name, kind, b"".into(), [0xff; 512].into(), q.to_vec(), truth(q)].into()
        });
        assert_eq!(look_up(&[&one], "a.example").as_deref(), Ok(BOTH));
    }

    #[test]
    fn the_next_server_where_one_is_silent_gone_or_failing() {
        let silent = server(|_| [].into());
        let gone = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        let failing = server(|q| [reply(q, 2, &[])].into());
        let good = server(|q| [truth(q)].into());
        assert_eq!(look_up(&[&silent, &gone, &failing, &good], "a.example").as_deref(), Ok(BOTH));
        assert_eq!(look_up(&[&gone, &failing], "a.example"), Err(NetError::NameserverFailed(2)));
        assert_eq!(look_up(&[&gone], "a.example"), Err(NetError::NameserverSilent));
        assert_eq!(look_up_within(&[&silent], "a.example", "", 100), Err(NetError::NameserverSilent));
    }

    #[test]
    fn lost_queries_are_asked_again() {
        let mut lost = 0;
        let lossy = server(move |q| {
            lost += 1;
            if lost <= 2 { [].into() } else { [truth(q)].into() }
        });
        assert_eq!(look_up(&[&lossy], "a.example").as_deref(), Ok(BOTH));
    }

    #[test]
    fn a_late_answer_to_the_first_query_counts() {
        let mut first = None;
        let slow = server(move |q| match (question(q).1, &first) {
            (A, None) => {
                first = Some(q.to_vec());
                [].into()
            }
            (A, Some(first)) => [truth(first)].into(),
            _ => [reply(q, 0, &[])].into(),
        });
        assert_eq!(look_up(&[&slow], "a.example").as_deref(), Ok("192.0.2.1"));
    }

    #[test]
    fn one_family_is_enough() {
        for (kind, broken) in [(A, None), (AAAA, None), (A, Some(2)), (A, Some(3)), (A, Some(4))] {
            let one = server(move |q| match (question(q).1 == kind, broken) {
                (true, _) => [truth(q)].into(),
                (false, Some(rcode)) => [reply(q, rcode, &[])].into(),
                (false, None) => [].into(),
            });
            let want = if kind == A { "192.0.2.1" } else { "2001:db8::1" };
            assert_eq!(look_up(&[&one], "a.example").as_deref(), Ok(want), "{kind} {broken:?}");
        }
    }

    #[test]
    fn truncated_answers_are_asked_for_over_tcp() {
        let udp = server(|q| [reply(q, 0x200, &[])].into());
        let tcp = TcpListener::bind(&udp).unwrap();
        thread::spawn(move || {
            for stream in tcp.incoming() {
                let mut stream = stream.unwrap();
                let mut len = [0; 2];
                stream.read_exact(&mut len).unwrap();
                let mut query = [0; 512];
                let query = &mut query[..usize::from(u16::from_be_bytes(len))];
                stream.read_exact(query).unwrap();
                // More than is read, with the answer in front.
                let mut m = truth(query);
                m.resize(10_000, 0);
                stream.write_all(&(m.len() as u16).to_be_bytes()).unwrap();
                for part in m.chunks(1_000) {
                    if stream.write_all(part).is_err() {
                        break;
                    }
                }
            }
        });
        assert_eq!(look_up(&[&udp], "a.example").as_deref(), Ok(BOTH));
    }

    #[test]
    fn truncated_answers_without_tcp_give_what_they_have() {
        let some = server(|q| {
            let mut m = truth(q);
            m[2] |= 2;
            [m].into()
        });
        assert_eq!(look_up(&[&some], "a.example").as_deref(), Ok(BOTH));
        let none = server(|q| [reply(q, 0x200, &[])].into());
        assert!(look_up(&[&none], "a.example").is_err());
    }
}
