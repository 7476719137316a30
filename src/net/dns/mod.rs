//! A name's addresses from the nameservers: a stub resolver (RFC 1034 section 5.3.1, RFC 1035 section 7, RFC 5452).
//!
//! A and AAAA are asked for at once, of one server after the other, and each server asked keeps its chance to answer. Every server
//! has a connected socket of its own with a random port, and random ids, so that a stranger has to guess both.

pub(super) mod hosts;
pub mod message;
pub(super) mod resolvers;

use core::net::{IpAddr, SocketAddr};
use heapless::Vec;

use crate::error::{NO_CODE, NetError};
use crate::net::addr::ADDRS_MAX;
use crate::net::dns::message::{Answer, CNAME_MAX, Kind, NO_NAME, QUERY_MAX, Query, answer};
use crate::net::dns::resolvers::{Resolvers, SERVERS_MAX};
use crate::net::happy_eyeballs::{self, Failures};
use crate::net::netlink::Watch;
use crate::net::tcp::Tcp;
use crate::net::{Dial, Transport};
use crate::sys::Errno;
use crate::sys::random;
use crate::sys::sock::{Ready, Socket, wait_or};
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

/// What a server said to a question for one kind of address.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Said {
    /// Nothing yet.
    Nothing,
    /// That it cannot answer, or nothing that can be used; or it is not there.
    Failed,
    /// That there is no such address, or no such name.
    None,
    /// Addresses.
    Some,
}

/// A nameserver.
struct Server {
    address: SocketAddr,
    socket: Socket,
    /// Our address towards it.
    source: IpAddr,
    /// The ids of its queries; the same each time, so that a late answer to the first is one to the second.
    ids: [u16; 2],
    said: [Said; 2],
}

/// A name that is asked for. Arrays have an element for each of [`KINDS`].
struct Asking<'a> {
    query: Query,
    /// The addresses of all nameservers.
    known: &'a [SocketAddr],
    /// Those that can be asked now.
    servers: Vec<Server, SERVERS_MAX>,
    addresses: [Vec<IpAddr, ADDRS_MAX>; 2],
    /// Until when the addresses of one family wait for the other's.
    other_until: Option<Deadline>,
    /// What the name is an alias for, where its addresses did not come with that.
    alias: Option<Query>,
    /// Whether a server said that the name has no IPv4 address because it does not exist.
    is_no_name: bool,
    failure: NetError,
    deadline: Deadline,
    watch: &'a Watch,
    buf: [u8; MESSAGE_MAX],
}

/// Looks `host` up. [`NetError::NoRoute`] says that no server could even be asked.
pub(in crate::net) fn lookup(
    dial: &Dial<'_>,
    host: &str,
    port: u16,
    deadline: Deadline,
    watch: &Watch,
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
        match ask(&resolvers.servers, query, port, deadline, watch) {
            Ok(peers) => return Ok(peers),
            Err(NetError::Unresolved) => {}
            Err(e @ (NetError::NameserverFailed(_) | NetError::NameserverHalf)) => failure = e,
            // What nobody answers once will not be answered with another domain.
            Err(e) => return Err(e),
        }
    }
    Err(failure)
}

/// Asks all servers for one name, and for what it is an alias for.
fn ask(
    addresses: &[SocketAddr],
    query: Query,
    port: u16,
    deadline: Deadline,
    watch: &Watch,
) -> Result<Vec<SocketAddr, ADDRS_MAX>, NetError> {
    let mut asking = Asking {
        query,
        known: addresses,
        servers: Vec::new(),
        addresses: Default::default(),
        other_until: None,
        alias: None,
        is_no_name: false,
        failure: NetError::NameserverSilent,
        deadline,
        watch,
        buf: [0; MESSAGE_MAX],
    };
    for _ in 0..=CNAME_MAX {
        asking.servers.clear();
        let failures = asking.open();
        if asking.servers.is_empty() {
            return Err(match failures.verdict() {
                // It is of a nameserver, not of the URL's host.
                NetError::Connect(e) if !matches!(e, Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
                    NetError::NameserverSilent
                }
                e => e,
            });
        }
        asking.all();
        let verdict = asking.verdict();
        match asking.alias.take() {
            Some(alias) if verdict.is_some() && !deadline.passed() => {
                (asking.query, asking.is_no_name) = (alias, false);
                asking.failure = NetError::NameserverSilent;
            }
            _ => return verdict.map_or_else(|| Ok(asking.peers(port)), Err),
        }
    }
    Err(NetError::NameserverFailed(NO_CODE))
}

impl Server {
    fn new(address: &SocketAddr) -> Result<Self, Errno> {
        let (socket, source) = happy_eyeballs::udp(address)?;
        let mut random = [0; 4];
        random::fill(&mut random)?;
        let [a, b, c, d] = random;
        Ok(Self {
            address: *address,
            socket,
            source,
            ids: [u16::from_ne_bytes([a, b]), u16::from_ne_bytes([c, d])],
            said: [Said::Nothing; 2],
        })
    }

    /// Notes that it will not say more than it has said.
    fn fail(&mut self) {
        for said in self.said.iter_mut().filter(|said| **said == Said::Nothing) {
            *said = Said::Failed;
        }
    }
}

impl Asking<'_> {
    /// Makes a socket for each server that has none, where there is a way to it now.
    fn open(&mut self) -> Failures {
        let mut failures = Failures::default();
        for address in self.known {
            if self.servers.iter().any(|server| server.address == *address) {
                continue;
            }
            match Server::new(address) {
                // There are as many places as addresses.
                Ok(server) => drop(self.servers.push(server)),
                Err(e) => failures.at_once(e, address),
            }
        }
        failures
    }

    /// Asks one server after the other, until there is an answer or there will be none.
    fn all(&mut self) {
        for pass in 0..PASSES {
            let mut turn = 0usize;
            while turn < self.servers.len() {
                if self.send(turn) {
                    self.listen(turn, self.deadline.step_ms(TURN_MS << pass));
                }
                if self.is_done() || self.deadline.passed() {
                    return;
                }
                turn = turn.saturating_add(1);
            }
            // Some servers drop queries for IPv6 addresses. What does not exist need not be asked for as often as what may.
            if self.is_no_name {
                return;
            }
        }
    }

    /// Asks the server for what is not known yet; false if it is not to be asked.
    fn send(&mut self, turn: usize) -> bool {
        let Some(server) = self.servers.get_mut(turn) else { return false };
        let mut sent = false;
        for (n, kind) in KINDS.into_iter().enumerate() {
            if !self.addresses[n].is_empty() || server.said[n] != Said::Nothing {
                continue;
            }
            match server.socket.send(self.query.message(server.ids[n], kind)) {
                Ok(_) => sent = true,
                Err(_) => server.said[n] = Said::Failed,
            }
        }
        sent
    }

    /// Takes what any server says until `until`, or until the one whose turn it is has nothing more to say.
    fn listen(&mut self, turn: usize, until: Deadline) {
        loop {
            let until = self.other_until.map_or(until, |other| other.min(until));
            let sockets = &mut self.servers.iter().map(|s| &s.socket);
            let (ready, is_change) = wait_or(sockets, Ready::In, self.watch.socket(), until);
            for n in (0..self.servers.len()).filter(|n| ready >> n & 1 != 0) {
                self.hear(n);
            }
            if is_change && self.watch.changed() {
                self.renew();
            }
            let is_over = self
                .servers
                .get(turn)
                .is_none_or(|server| (0..2).all(|n| server.said[n] != Said::Nothing || !self.addresses[n].is_empty()));
            if until.passed() || self.is_done() || is_over {
                return;
            }
        }
    }

    /// Takes what server number `n` has said.
    fn hear(&mut self, n: usize) {
        for _ in 0..DATAGRAMS_MAX {
            let Some(server) = self.servers.get_mut(n) else { return };
            match server.socket.recv(&mut self.buf) {
                Ok(len) => self.take(n, len),
                Err(Errno::AGAIN) => return,
                Err(_) => return server.fail(),
            }
        }
    }

    /// The network has changed: asks those servers that have come into reach, and those again to which another address of ours leads
    /// now.
    fn renew(&mut self) {
        for n in 0..self.servers.len() {
            let Some(server) = self.servers.get_mut(n) else { break };
            if let Ok(new) = Server::new(&server.address)
                && new.source != server.source
            {
                *server = new;
                self.send(n);
            }
        }
        let first_new = self.servers.len();
        self.open();
        for n in first_new..self.servers.len() {
            self.send(n);
        }
    }

    /// Takes in a message of a server's: `len` bytes in the buffer.
    fn take(&mut self, from: usize, len: usize) {
        let Some(server) = self.servers.get_mut(from) else { return };
        for (n, kind) in KINDS.into_iter().enumerate() {
            if server.said[n] != Said::Nothing || !self.addresses[n].is_empty() {
                continue;
            }
            let query = self.query.message(server.ids[n], kind);
            let mut addresses = Vec::new();
            let mut message = self.buf.get(..len).unwrap_or_default();
            let Some(mut answered) = answer(query, kind, message, &mut addresses) else { continue };
            if answered.truncated {
                let mut whole = Vec::new();
                let until = self.deadline.step_ms(TCP_MS);
                let over_tcp = over_tcp(&server.address, query, kind, &mut self.buf, &mut whole, until, self.watch);
                message = self.buf.get(2..).unwrap_or_default();
                match over_tcp {
                    Some(answer) => (answered, addresses) = (answer, whole),
                    // The buffer is no longer what this is an offset in.
                    None => answered.alias = None,
                }
            }
            if !addresses.is_empty() {
                server.said[n] = Said::Some;
                self.addresses[n] = addresses;
                self.other_until.get_or_insert(Deadline::after_ms(OTHER_FAMILY_MS));
                return;
            }
            server.said[n] = match answered.rcode {
                0 if answered.truncated || !answered.conclusive => {
                    self.failure = NetError::NameserverFailed(NO_CODE);
                    Said::Failed
                }
                0 => {
                    self.alias = self.alias.take().or_else(|| Query::alias(message, answered.alias?));
                    Said::None
                }
                // Some servers say wrongly that a name without IPv6 addresses does not exist (RFC 4074 section 4.2), so this is the
                // end only when the server has answered for both.
                NO_NAME => {
                    self.is_no_name |= kind == Kind::A;
                    Said::None
                }
                rcode => {
                    self.failure = NetError::NameserverFailed(rcode);
                    Said::Failed
                }
            };
            return;
        }
    }

    fn is_done(&self) -> bool {
        let has = |n: usize| !self.addresses[n].is_empty();
        if !has(0) && !has(1) {
            return self.servers.iter().any(|server| server.said == [Said::None; 2]);
        }
        // That there are none of the other kind is for the server to say that has the addresses.
        let is_whole = self.servers.iter().any(|s| s.said.contains(&Said::Some) && s.said.contains(&Said::None));
        has(0) && has(1) || is_whole || self.other_until.is_some_and(Deadline::passed)
    }

    /// Why there is no address, if there is none. That the name has none is what a server must have said of both kinds: one that
    /// fails for either, or loses the query, does not know.
    fn verdict(&self) -> Option<NetError> {
        if self.other_until.is_some() {
            return None;
        }
        let says = |says: &dyn Fn(&Server) -> bool| self.servers.iter().any(says);
        Some(match self.failure {
            _ if says(&|server| server.said == [Said::None; 2]) => NetError::Unresolved,
            NetError::NameserverSilent if says(&|server| server.said.contains(&Said::None)) => NetError::NameserverHalf,
            failure => failure,
        })
    }

    /// The addresses, with the families taking turns (RFC 8305 section 4).
    fn peers(&self, port: u16) -> Vec<SocketAddr, ADDRS_MAX> {
        let [a, b] = &self.addresses;
        let mut peers = Vec::new();
        for n in 0..ADDRS_MAX {
            for ip in [a, b].into_iter().filter_map(|list| list.get(n)) {
                let _ = peers.push(SocketAddr::new(*ip, port));
            }
        }
        peers
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
    watch: &Watch,
) -> Option<Answer> {
    let mut tcp = Tcp::new(happy_eyeballs::connect(core::slice::from_ref(server), deadline, watch).ok()?);
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
        let found = lookup(&dial, host, 80, Deadline::after_ms(ms), &Watch::new());
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

    const SERVFAIL: u16 = 2;
    const NXDOMAIN: u16 = 3;
    const LOST: u16 = 99;

    /// A server that answers for AAAA and A with these codes, without addresses.
    fn half(aaaa: u16, a: u16) -> String {
        server(move |q| match if question(q).1 == A { a } else { aaaa } {
            LOST => [].into(),
            code => [reply(q, code, &[])].into(),
        })
    }

    #[test]
    fn only_a_server_that_answers_for_both_kinds_knows_that_there_is_none() {
        let unknown = |codes: (u16, u16), why| {
            assert_eq!(look_up(&[&half(codes.0, codes.1)], "a.example"), Err(why), "{codes:?}");
        };
        for failure in [1, SERVFAIL, 4, 5, 9] {
            for no in [0, NXDOMAIN] {
                unknown((no, failure), NetError::NameserverFailed(failure as u8));
                unknown((failure, no), NetError::NameserverFailed(failure as u8));
            }
        }
        unknown((LOST, NXDOMAIN), NetError::NameserverHalf);
        for codes in [(0, 0), (0, NXDOMAIN), (NXDOMAIN, 0), (NXDOMAIN, NXDOMAIN)] {
            unknown(codes, NetError::Unresolved);
        }
    }

    #[test]
    fn half_an_answer_is_no_end() {
        let within = |server: &str| look_up_within(&[server], "a.example", "", 3_000);
        assert_eq!(within(&half(0, LOST)), Err(NetError::NameserverHalf));
        assert_eq!(within(&half(LOST, 0)), Err(NetError::NameserverHalf));
        assert_eq!(within(&half(NXDOMAIN, LOST)), Err(NetError::NameserverHalf));
        // Two halves of two servers are no whole.
        let (one, other) = (half(0, SERVFAIL), half(SERVFAIL, NXDOMAIN));
        assert_eq!(look_up(&[&one, &other], "a.example"), Err(NetError::NameserverFailed(2)));
    }

    #[test]
    fn the_next_server_knows_what_one_has_half_an_answer_to() {
        let good = server(|q| [truth(q)].into());
        for (aaaa, a) in [(0, 5), (5, 0), (0, LOST), (LOST, NXDOMAIN), (NXDOMAIN, SERVFAIL), (4, 4), (1, 1)] {
            assert_eq!(look_up(&[&half(aaaa, a), &good], "a.example").as_deref(), Ok(BOTH), "{aaaa} {a}");
        }
        // A server that is not responsible refers to others.
        let lame = server(|q| {
            let mut m = reply(q, 0, &[]);
            m[3] &= !0x80;
            [m].into()
        });
        assert_eq!(look_up(&[&lame, &good], "a.example").as_deref(), Ok(BOTH));
        assert_eq!(look_up(&[&lame], "a.example"), Err(NetError::NameserverFailed(NO_CODE)));
    }

    #[test]
    fn the_search_goes_on_where_one_kind_is_lost() {
        let one = server(|q| match question(q) {
            (_, AAAA) => [].into(),
            (name, _) if name == "x." => [reply(q, 0, &[V4])].into(),
            _ => [reply(q, NXDOMAIN, &[])].into(),
        });
        assert_eq!(look_up_within(&[&one], "x", "search d.e", 20_000).as_deref(), Ok("192.0.2.1"));
    }

    /// An answer that the question's name is an alias for `to`, a name on the wire.
    fn alias(query: &[u8], to: &[u8]) -> Bytes {
        let mut m = reply(query, 0, &[]);
        m[7] = 1;
        m.extend_from_slice(&[0xc0, 12, 0, 5, 0, 1, 0, 0, 0, 0, 0, to.len() as u8]);
        m.extend_from_slice(to);
        m
    }

    #[test]
    fn aliases_whose_addresses_are_left_out_are_asked_for() {
        // x0 is x1, x1 is x2 and so on, each in an answer of its own; the last one has an address.
        let chain = |last: u8| {
            server(move |q| {
                let number = question(q).0.strip_prefix('x').unwrap().trim_end_matches('.').parse::<u8>().unwrap();
                let to = format!("x{}", number + 1);
                match (number == last, question(q).1) {
                    (true, A) => [reply(q, 0, &[V4])].into(),
                    (true, _) => [reply(q, 0, &[])].into(),
                    (false, _) => [alias(q, &[&[to.len() as u8], to.as_bytes(), &[0]].concat())].into(),
                }
            })
        };
        for last in [1, 9, CNAME_MAX as u8] {
            assert_eq!(look_up(&[&chain(last)], "x0.").as_deref(), Ok("192.0.2.1"), "{last}");
        }
        assert_eq!(look_up(&[&chain(CNAME_MAX as u8 + 1)], "x0."), Err(NetError::NameserverFailed(NO_CODE)));
        let circle = server(|q| [alias(q, &[0xc0, 12])].into());
        assert_eq!(look_up(&[&circle], "x."), Err(NetError::NameserverFailed(NO_CODE)));
        // What it is an alias for does not exist.
        let none =
            server(|q| [if question(q).0 == "x." { alias(q, b"\x01y\0") } else { reply(q, NXDOMAIN, &[]) }].into());
        assert_eq!(look_up(&[&none], "x."), Err(NetError::Unresolved));
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
