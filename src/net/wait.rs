//! A network that is not there yet: which addresses there are, and waiting for a change (rtnetlink(7)).

use heapless::Vec;

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

/// Hears of changes from when it was made.
pub(super) struct Watch(Option<Socket>);

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
        Self(Socket::route(GROUPS).ok())
    }

    /// Waits for a change until `deadline` at most. It may return without one.
    pub(super) fn wait(&self, deadline: Deadline) {
        let Some(socket) = &self.0 else {
            wait(&mut core::iter::empty(), Ready::In, deadline.step_ms(POLL_MS));
            return;
        };
        if wait(&mut core::iter::once(socket), Ready::In, deadline.step_ms(RECHECK_MS)) != 0 {
            // The socket goes with what is left in it.
            wait(&mut core::iter::empty(), Ready::In, deadline.step_ms(SETTLE_MS));
        }
    }
}

impl Present {
    /// Asks the kernel.
    pub(super) fn now() -> Self {
        let mut present = Self::default();
        let Ok(socket) = Socket::route(0) else { return present };
        if socket.send(&list_addresses()).is_err() {
            return present;
        }
        let deadline = Deadline::after_ms(LIST_MS);
        let mut buf = [0; DATAGRAM_MAX];
        for _ in 0..DATAGRAMS_MAX {
            wait(&mut core::iter::once(&socket), Ready::In, deadline);
            let len = socket.recv(&mut buf).unwrap_or(0);
            if present.read(buf.get(..len).unwrap_or_default()) {
                break;
            }
        }
        present
    }

    /// Takes in a datagram of netlink messages (netlink(7)); true where nothing more is to come.
    fn read(&mut self, datagram: &[u8]) -> bool {
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
                NEW_ADDRESS => self.address(body),
                DONE | ERROR => return true,
                _ => {}
            }
            rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
        }
    }

    /// Takes in a `struct ifaddrmsg` (rtnetlink(7)).
    fn address(&mut self, message: &[u8]) {
        const INET6: u8 = 10;
        /// `IFA_F_TENTATIVE` and `IFA_F_DADFAILED`: cannot be used yet, or ever.
        const UNUSABLE: u8 = 0x40 | 0x08;
        const SCOPE_LINK: u8 = 253;
        const SCOPE_HOST: u8 = 254;
        let Some(([family, _, flags, scope, i0, i1, i2, i3], _)) = message.split_first_chunk::<8>() else { return };
        if flags & UNUSABLE != 0 || *scope >= SCOPE_HOST {
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
        Watch(None).wait(deadline);
    }
}
