//! A network that is not there yet: which addresses there are, and waiting for a change (rtnetlink(7)).

use core::cell::Cell;
use core::net::IpAddr;
use heapless::Vec;

use crate::sys::Errno;
use crate::sys::sock::{Ready, Socket, wait};
use crate::sys::time::Deadline;

/// Multicast groups (linux/rtnetlink.h, `RTMGRP_`): links, IPv4 addresses and routes, IPv6 addresses and routes.
const GROUPS: u32 = 0x1 | 0x10 | 0x40 | 0x100 | 0x400;

/// Milliseconds between two looks where no routing socket can be had.
const POLL_MS: u64 = 250;

/// Milliseconds after which it is tried again without a change that was heard of: rules and filters are in no group.
const RECHECK_MS: u64 = 5_000;

/// Milliseconds for which changes are gathered: an interface that comes up says so in a dozen messages.
const SETTLE_MS: u64 = 20;

/// Datagrams that are read at one time.
const DATAGRAMS_MAX: usize = 64;

/// Milliseconds that the kernel may take to list its addresses; it does not wait for anything.
const LIST_MS: u64 = 1_000;

/// Bytes of a datagram of the kernel's: it makes them of a page, and never larger than this by itself (`NLMSG_GOODSIZE`).
const DATAGRAM_MAX: usize = 8192;

/// Interfaces that are kept.
const LINKS_MAX: usize = 8;

/// Addresses that are told.
pub(super) const ADDRESSES_MAX: usize = 8;

const INET6: u8 = 10;

/// Flags of an address (linux/if_addr.h, `IFA_F_`): another machine has it, it is used before it is known that none has, and it is
/// not known yet.
const DADFAILED: u8 = 0x08;
const OPTIMISTIC: u8 = 0x04;
const TENTATIVE: u8 = 0x40;

const SCOPE_LINK: u8 = 253;
const SCOPE_HOST: u8 = 254;

/// Hears of changes from when it was made.
pub(super) struct Watch {
    socket: Option<Socket>,
    /// Whether [`Watch::changed`] took a change away.
    seen: Cell<bool>,
}

/// The addresses that there are.
#[derive(Default)]
pub(super) struct Present {
    /// Whether any can reach beyond this machine, IPv6 link-local ones left out: those are there before a network is.
    pub(super) usable: bool,
    /// The numbers of the interfaces that have an IPv6 link-local address, and so are up.
    pub(super) links: Vec<u32, LINKS_MAX>,
}

impl Watch {
    /// To be made before a try, so that a change during the try is not missed.
    pub(super) fn new() -> Self {
        Self { socket: Socket::route(GROUPS).ok(), seen: Cell::new(false) }
    }

    /// What can be received from when there is a change.
    pub(super) fn socket(&self) -> Option<&Socket> {
        self.socket.as_ref()
    }

    /// Whether there was a change since the last call.
    pub(super) fn changed(&self) -> bool {
        let mut is_change = false;
        for _ in 0..DATAGRAMS_MAX {
            // An error (NOBUFS) is that of changes that did not fit.
            match self.socket.as_ref().map(|socket| socket.recv(&mut [0])) {
                None | Some(Err(Errno::AGAIN)) => break,
                Some(_) => is_change = true,
            }
        }
        self.seen.set(is_change || self.seen.get());
        is_change
    }

    /// Waits for a change until `deadline` at most. It may return without one.
    pub(super) fn wait(&self, deadline: Deadline) {
        let Some(socket) = &self.socket else {
            wait(&mut core::iter::empty(), Ready::In, deadline.step_ms(POLL_MS));
            return;
        };
        if self.seen.get() || wait(&mut core::iter::once(socket), Ready::In, deadline.step_ms(RECHECK_MS)) != 0 {
            // The socket goes with what is left in it.
            wait(&mut core::iter::empty(), Ready::In, deadline.step_ms(SETTLE_MS));
        }
    }
}

impl Present {
    /// Asks the kernel.
    pub(super) fn now() -> Self {
        let mut present = Self::default();
        list(&mut |message| present.address(message));
        present
    }

    /// Takes in a `struct ifaddrmsg` (rtnetlink(7)) and its attributes.
    fn address(&mut self, message: &[u8]) {
        let Some(([family, _, flags, scope, i0, i1, i2, i3], _)) = message.split_first_chunk::<8>() else { return };
        if !is_usable(*flags) || *scope >= SCOPE_HOST {
            return;
        }
        if (*family, *scope) != (INET6, SCOPE_LINK) {
            self.usable = true;
            return;
        }
        let link = u32::from_ne_bytes([*i0, *i1, *i2, *i3]);
        if !self.links.contains(&link) {
            // Those that do not fit are not tried.
            let _ = self.links.push(link);
        }
    }
}

/// The addresses by which this machine can be reached from others, IPv6 link-local ones left out.
pub(super) fn reachable() -> Vec<IpAddr, ADDRESSES_MAX> {
    let mut all = Vec::new();
    list(&mut |message| {
        if let Some(address) = reachable_address(message) {
            // Those that do not fit are not told.
            let _ = all.push(address);
        }
    });
    all
}

/// Whether the kernel sends from an address with these flags.
fn is_usable(flags: u8) -> bool {
    flags & DADFAILED == 0 && flags & (TENTATIVE | OPTIMISTIC) != TENTATIVE
}

/// The address of a `struct ifaddrmsg` and its attributes, if it reaches beyond its link.
fn reachable_address(message: &[u8]) -> Option<IpAddr> {
    const ADDRESS: u16 = 1;
    const LOCAL: u16 = 2;
    let ([_, _, flags, scope, ..], attributes) = message.split_first_chunk::<8>()?;
    if !is_usable(*flags) || *scope >= SCOPE_LINK {
        return None;
    }
    let (mut rest, mut found) = (attributes, None);
    while let Some(([l0, l1, k0, k1], _)) = rest.split_first_chunk() {
        let len = usize::from(u16::from_ne_bytes([*l0, *l1]));
        let value = rest.get(4..len)?;
        let address = || <[u8; 4]>::try_from(value).map(IpAddr::from).or(<[u8; 16]>::try_from(value).map(IpAddr::from));
        match u16::from_ne_bytes([*k0, *k1]) {
            // That of the other end, where there are only two.
            ADDRESS if found.is_none() => found = address().ok(),
            LOCAL => found = address().ok(),
            _ => {}
        }
        rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
    }
    found
}

/// Gives the body of each message about an address that the kernel has to `visit`.
fn list(visit: &mut dyn FnMut(&[u8])) {
    let Ok(socket) = Socket::route(0) else { return };
    if socket.send(&list_addresses()).is_err() {
        return;
    }
    let deadline = Deadline::after_ms(LIST_MS);
    let mut buf = [0; DATAGRAM_MAX];
    for _ in 0..DATAGRAMS_MAX {
        wait(&mut core::iter::once(&socket), Ready::In, deadline);
        let len = socket.recv(&mut buf).unwrap_or(0);
        if messages(buf.get(..len).unwrap_or_default(), visit) {
            break;
        }
    }
}

/// Goes through a datagram of netlink messages (netlink(7)); true where nothing more is to come.
fn messages(datagram: &[u8], visit: &mut dyn FnMut(&[u8])) -> bool {
    const NEW_ADDRESS: u16 = 20;
    const DONE: u16 = 3;
    const ERROR: u16 = 2;
    let mut rest = datagram;
    loop {
        let Some((header, _)) = rest.split_first_chunk::<8>() else { return datagram.is_empty() };
        let [l0, l1, l2, l3, k0, k1, _, _] = *header;
        let len = u32::from_ne_bytes([l0, l1, l2, l3]) as usize;
        // At least a header of 16 bytes, so that this comes to an end.
        let Some(body) = rest.get(16..len) else { return true };
        match u16::from_ne_bytes([k0, k1]) {
            NEW_ADDRESS => visit(body),
            DONE | ERROR => return true,
            _ => {}
        }
        rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
    }
}

/// A request for all addresses of all families: `struct nlmsghdr` and `struct ifaddrmsg`.
fn list_addresses() -> [u8; 24] {
    const LEN: u8 = 24;
    const GET_ADDRESS: u16 = 22;
    /// `NLM_F_REQUEST` and `NLM_F_DUMP`.
    const FLAGS: u16 = 0x301;
    let mut bytes = [0; LEN as usize];
    let (kind, flags) = (GET_ADDRESS.to_ne_bytes(), FLAGS.to_ne_bytes());
    bytes[..4].copy_from_slice(&u32::from(LEN).to_ne_bytes());
    bytes[4..8].copy_from_slice(&[kind[0], kind[1], flags[0], flags[1]]);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Present {
        fn read(&mut self, datagram: &[u8]) -> bool {
            messages(datagram, &mut |message| self.address(message))
        }
    }

    fn message(kind: u16, body: &[u8]) -> alloc::vec::Vec<u8> {
        let mut all = ((16 + body.len()) as u32).to_ne_bytes().to_vec();
        all.extend_from_slice(&kind.to_ne_bytes());
        all.extend_from_slice(&[0; 10]);
        all.extend_from_slice(body);
        all
    }

    fn address(family: u8, flags: u8, scope: u8, link: u8) -> alloc::vec::Vec<u8> {
        let index = u32::from(link).to_ne_bytes();
        message(20, &[&[family, 64, flags, scope], &index[..]].concat())
    }

    #[test]
    fn addresses_by_scope() {
        let mut present = Present::default();
        assert!(!present.read(&[address(2, 0x80, 254, 1), address(10, 0x80, 254, 1)].concat()));
        assert!(
            !present.read(&[address(10, 0x80, 253, 2), address(10, 0x80, 253, 2), address(10, 0x40, 253, 3)].concat())
        );
        assert!(!present.read(&address(10, 0x40, 0, 2)));
        assert_eq!((present.usable, &*present.links), (false, &[2][..]));
        assert!(present.read(&[address(2, 0, 253, 2), message(3, &[0; 4]), address(10, 0, 253, 4)].concat()));
        assert_eq!((present.usable, &*present.links), (true, &[2][..]));
    }

    #[test]
    fn addresses_that_others_reach() {
        let attribute = |kind: u16, value: &[u8]| {
            let mut all = [&(4 + value.len() as u16).to_ne_bytes()[..], &kind.to_ne_bytes(), value].concat();
            all.resize(all.len().next_multiple_of(4), 0);
            all
        };
        let of = |flags: u8, scope: u8, attributes: &[&[u8]]| {
            reachable_address(&[&[2, 24, flags, scope, 0, 0, 0, 2], &*attributes.concat()].concat())
        };
        let (one, other) = (attribute(1, &[192, 0, 2, 1]), attribute(2, &[192, 0, 2, 5]));
        let (v6, label) = (attribute(1, &[0x20; 16]), attribute(3, b"eth0x"));
        let address = |text: &str| Some(text.parse::<IpAddr>().unwrap());
        assert_eq!(of(0x80, 0, &[&one, &other, &label]), address("192.0.2.5"));
        assert_eq!(of(0x80, 0, &[&other, &label, &one]), address("192.0.2.5"));
        assert_eq!(of(0, 200, &[&label, &v6]), address("2020:2020:2020:2020:2020:2020:2020:2020"));
        for (flags, scope, attributes) in [
            (0x40, 0, &v6),
            (8, 0, &v6),
            (0, 253, &one),
            (0, 254, &one),
            (0, 0, &label),
            (0, 0, &attribute(2, &[1; 5])),
        ] {
            assert_eq!(of(flags, scope, &[attributes]), None);
        }
        assert_eq!(of(0, 0, &[&other, &[3, 0, 2, 0]]), None);
        assert_eq!(of(0, 0, &[&other, &[99, 0, 2, 0]]), None);
        assert_eq!(reachable_address(&[2; 7]), None);
    }

    #[test]
    fn broken_messages_end_it() {
        let good = address(2, 0, 0, 2);
        for len in 0..16u32 {
            let mut broken = good.clone();
            broken[..4].copy_from_slice(&len.to_ne_bytes());
            assert!(Present::default().read(&broken), "{len}");
        }
        for len in [25, 1000, u32::MAX] {
            let mut broken = good.clone();
            broken[..4].copy_from_slice(&len.to_ne_bytes());
            assert!(Present::default().read(&broken), "{len}");
        }
        assert!(Present::default().read(b""));
        assert!(Present::default().read(&message(2, &[0; 20])));
        assert!(!Present::default().read(&message(20, &[0; 3])));
    }

    #[test]
    fn the_kernel_answers() {
        // Whatever there is, the loopback interface has no link-local address.
        assert!(!Present::now().links.contains(&1));
    }

    #[test]
    fn waiting_ends_with_the_deadline() {
        let deadline = Deadline::after_ms(100);
        while !deadline.passed() {
            Watch::new().wait(deadline);
        }
        Watch { socket: None, seen: Cell::new(false) }.wait(deadline);
    }
}
