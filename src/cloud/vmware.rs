//! VMware: sets a variable of the guest's information, `guestinfo.rdreport.status`, which the
//! administrator reads through vSphere's API. The variable is set by a message over the
//! hypervisor's port, as open-vm-tools' `vmtoolsd --cmd` does (its `lib/message`).

use crate::cloud::{BODY_MAX, Cloud, NOTHING, Service, When, whole};
use crate::error::{CloudError, Error};
use crate::http::client::Outcome;
use crate::settings::{State, States};
use crate::sys::vmware::{Hypervisor, Registers};
use crate::text::Text;

pub(super) const SERVICE: Service = Service {
    name: "vmware",
    when: When::Platform(&["vmware"]),
    states: States::of(&State::ALL),
    what: "set guestinfo.rdreport.status by the hypervisor's port",
    budget_s: 0,
    needs_network: false,
    hint: "set rd.report.platform=none to send nothing there",
    prepare: None,
    report,
};

/// Command of the port for messages; what is done with them is in the half above it.
const MESSAGE: u32 = 0x1e;
const OPEN: u32 = 0;
const SEND_SIZE: u32 = 1;
const SEND: u32 = 2;
const RECEIVE_SIZE: u32 = 3;
const RECEIVE: u32 = 4;
const RECEIVE_STATUS: u32 = 5;
const CLOSE: u32 = 6;
/// The kind of channel for commands (`RPCI`), and a flag: the channel has a secret.
const RPCI: u32 = 0x4943_5052;
const WITH_COOKIE: u32 = 0x8000_0000;
/// Bits of the answer: done; a reply waits; begin again, since the machine was moved.
const DONE: u32 = 0x1_0000;
const HAS_REPLY: u32 = 0x2_0000;
const MOVED: u32 = 0x10_0000;
/// Maximum number of attempts at one message.
const TRIES: u32 = 4;
/// Bytes of a reply that are taken: `1 ` or `0 ` and a reason.
const REPLY_MAX: u32 = 1024;

fn report(cloud: &mut Cloud<'_>) -> Result<Outcome, Error> {
    let mut hypervisor = Hypervisor::find().ok_or(CloudError::NoVmware)?;
    let mut command = [0; BODY_MAX];
    let mut command = Text::new(&mut command);
    command.str("info-set guestinfo.rdreport.status ");
    cloud.brief(&mut command)?;
    let command = whole(&command)?.as_bytes();
    match run(command, &mut |registers| hypervisor.call(registers)) {
        Some(true) => Ok(Outcome { sent: command.len() as u64, ..NOTHING }),
        Some(false) => Err(CloudError::Rejected.into()),
        None => Err(CloudError::NoChannel.into()),
    }
}

/// Sends a command. Returns whether the hypervisor says that the command was done, or nothing if it
/// does not say.
fn run(command: &[u8], call: &mut dyn FnMut(Registers) -> Registers) -> Option<bool> {
    for _ in 0..TRIES {
        let mut channel = Channel::open(call)?;
        let done = channel.exchange(command);
        channel.call(CLOSE, 0);
        match done {
            Err(true) => {}
            Err(false) => return None,
            Ok(begin) => return Some(begin == *b"1 "),
        }
    }
    None
}

/// A channel to the hypervisor.
struct Channel<'a> {
    port: &'a mut dyn FnMut(Registers) -> Registers,
    /// Its number, and its secret's two halves.
    is: Registers,
}

impl<'a> Channel<'a> {
    fn open(port: &'a mut dyn FnMut(Registers) -> Registers) -> Option<Self> {
        for kind in [RPCI | WITH_COOKIE, RPCI] {
            let answer = port(Registers { b: kind, c: OPEN << 16 | MESSAGE, ..Registers::default() });
            if answer.c & DONE != 0 {
                let is = Registers { d: answer.d & 0xffff_0000, si: answer.si, di: answer.di, ..Registers::default() };
                return Some(Self { port, is });
            }
        }
        None
    }

    fn call(&mut self, what: u32, b: u32) -> Registers {
        (self.port)(Registers { b, c: what << 16 | MESSAGE, ..self.is })
    }

    /// As [`Channel::call`]; an error says whether to begin again.
    fn step(&mut self, what: u32, b: u32) -> Result<Registers, bool> {
        let answer = self.call(what, b);
        if answer.c & DONE != 0 { Ok(answer) } else { Err(answer.c & MOVED != 0) }
    }

    /// Sends a command and receives the beginning of its reply.
    fn exchange(&mut self, command: &[u8]) -> Result<[u8; 2], bool> {
        self.step(SEND_SIZE, command.len() as u32)?;
        for word in command.chunks(4) {
            let mut bytes = [0; 4];
            for (to, from) in bytes.iter_mut().zip(word) {
                *to = *from;
            }
            self.step(SEND, u32::from_le_bytes(bytes))?;
        }
        let answer = self.step(RECEIVE_SIZE, 0)?;
        let len = answer.b;
        if answer.c & HAS_REPLY == 0 || len > REPLY_MAX {
            return Err(false);
        }
        let mut begin = None;
        for _ in 0..len.div_ceil(4) {
            let [first, second, ..] = self.step(RECEIVE, 1)?.b.to_le_bytes();
            begin = begin.or(Some([first, second]));
        }
        self.step(RECEIVE_STATUS, 1)?;
        begin.ok_or(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A hypervisor's side of the port.
    #[derive(Default)]
    struct Host {
        refuses_cookies: bool,
        moves_at: Option<usize>,
        reply: &'static [u8],
        calls: usize,
        open: bool,
        size: usize,
        heard: Vec<u8>,
        given: usize,
        closed: usize,
    }

    impl Host {
        fn call(&mut self, r: Registers) -> Registers {
            assert_eq!(r.c & 0xffff, MESSAGE);
            self.calls += 1;
            let mut answer = Registers { c: DONE, ..r };
            let what = r.c >> 16;
            if what != OPEN {
                assert!(self.open);
                let cookie = if self.refuses_cookies { (0, 0) } else { (0x1111, 0x2222) };
                assert_eq!((r.d, (r.si, r.di)), (7 << 16, cookie));
            }
            if self.moves_at == Some(self.calls) {
                return Registers { c: MOVED, ..r };
            }
            match what {
                OPEN => {
                    assert_eq!(r.b & !WITH_COOKIE, RPCI);
                    if r.b & WITH_COOKIE != 0 {
                        if self.refuses_cookies {
                            return Registers { c: 0, ..r };
                        }
                        (answer.si, answer.di) = (0x1111, 0x2222);
                    }
                    (answer.d, self.open, self.given) = (7 << 16, true, 0);
                    self.heard.clear();
                }
                SEND_SIZE => self.size = r.b as usize,
                SEND => self.heard.extend(r.b.to_le_bytes()),
                RECEIVE_SIZE => {
                    self.heard.truncate(self.size);
                    answer.c |= if self.reply.is_empty() { 0 } else { HAS_REPLY };
                    answer.b = self.reply.len() as u32;
                }
                RECEIVE => {
                    let mut word = [0; 4];
                    let rest = &self.reply[self.given..];
                    let len = rest.len().min(4);
                    word[..len].copy_from_slice(&rest[..len]);
                    (answer.b, self.given) = (u32::from_le_bytes(word), self.given + len);
                }
                RECEIVE_STATUS => assert_eq!(r.b, 1),
                CLOSE => (self.open, self.closed) = (false, self.closed + 1),
                _ => panic!("{what}"),
            }
            answer
        }
    }

    #[test]
    fn a_command_and_its_reply() {
        for (reply, refuses_cookies, want) in [
            (&b"1 "[..], false, Some(true)),
            (b"1 ", true, Some(true)),
            (b"0 Unknown command", false, Some(false)),
            (b"", false, None),
            (&[b'1'; 2000], false, None),
        ] {
            let mut host = Host { reply, refuses_cookies, ..Host::default() };
            assert_eq!(run(b"info-set guestinfo.a b", &mut |r| host.call(r)), want);
            assert_eq!(host.heard, b"info-set guestinfo.a b");
            assert_eq!(host.closed, 1);
        }
    }

    #[test]
    fn a_machine_that_is_moved_begins_again() {
        // Any call but the first and the last.
        for at in 2..8 {
            let mut host = Host { reply: b"1 ", moves_at: Some(at), ..Host::default() };
            assert_eq!(run(b"abcdefgh", &mut |r| host.call(r)), Some(true), "{at}");
            assert_eq!((&host.heard[..], host.open), (&b"abcdefgh"[..], false));
        }
    }

    #[test]
    fn a_port_that_does_nothing_is_left_after_some_calls() {
        let mut calls = 0;
        assert_eq!(
            run(b"x", &mut |r| {
                calls += 1;
                r
            }),
            None
        );
        assert!(calls < 10);
        let mut calls = 0;
        assert_eq!(
            run(b"x", &mut |r| {
                calls += 1;
                Registers { c: if r.c >> 16 == OPEN { DONE } else { MOVED }, ..r }
            }),
            None
        );
        assert!(calls < 50);
    }
}
