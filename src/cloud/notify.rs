//! The socket on which a virtual machine's manager hears of its guest: the credential `vmm.notify_socket` of systemd, in the form of
//! sd_notify(3). `READY=1` is systemd's own to say, at the end of the boot: this says `STATUS=`, and after a failure `EXIT_STATUS=`.

use crate::cloud::{Cloud, Local, NOTHING, Service, When, whole};
use crate::error::{CloudError, Error, NetError};
use crate::http::client::Outcome;
use crate::settings::secret;
use crate::settings::{Settings, State, States};
use crate::sys::Errno;
use crate::sys::file::Root;
use crate::sys::sock::{Kind, Ready, Socket, wait};
use crate::sys::time::Deadline;
use crate::text::{Text, number};
use alloc::vec;
use heapless::Vec;

pub(super) const SERVICE: Service = Service {
    name: "notify",
    when: When::Notify,
    states: States::of(&State::ALL),
    what: "STATUS, and EXIT_STATUS of a failure, to the socket of vmm.notify_socket",
    budget_s: 0,
    needs_network: false,
    hint: "check the credential vmm.notify_socket",
    prepare: Some(|root, _: &Settings<'_>, _, local: &mut Local| local.notify = address(root).map(Host::new)),
    report,
};

/// Where a virtual machine's manager listens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Address {
    cid: u32,
    port: u32,
    /// Kind of socket, if it is given.
    kind: Option<Kind>,
}

/// A virtual machine's manager, and what is to be connected to it.
pub(super) struct Host {
    address: Address,
    /// A socket of each kind that may be meant. They have ports that only root can have, which is given up before they are used.
    sockets: Vec<(Kind, Result<Socket, Errno>), { KINDS.len() }>,
}

/// Name of the credential.
const NAME: &str = "vmm.notify_socket";
/// Text that precedes a credential in the firmware's strings (SMBIOS type 11).
const PREFIX: &[u8] = b"io.systemd.credential:";
/// The firmware's tables of that type that are looked at: systemd reads as long as there are any, and firmware makes one.
const TABLES: [&str; 4] = ["0", "1", "2", "3"];
/// Bytes of a table: with a long list of keys among the credentials some thousands.
const TABLE_MAX: usize = 16 * 1024;
/// Bytes of a message; a datagram has to take it.
const MESSAGE_MAX: usize = super::MESSAGE_MAX + 128;
/// Milliseconds for the host to take what was said, before this machine may be gone.
const LINGER_MS: u64 = 300;
/// Order in which kinds of sockets are tried, as in systemd.
const KINDS: [Kind; 3] = [Kind::Datagram, Kind::Packets, Kind::Stream];

/// The address that this machine was given, if it was.
pub(super) fn address(root: &Root) -> Option<Address> {
    let mut buf = [0; 64];
    let from_file = secret::read(root, NAME, &mut buf).ok().and_then(parse);
    from_file.or_else(|| {
        let mut table = vec![0; TABLE_MAX];
        TABLES.iter().find_map(|number| {
            let mut path = [0; 64];
            let mut path = Text::new(&mut path);
            path.str("sys/firmware/dmi/entries/11-").str(number).str("/raw");
            let table = root.read(path.as_str(), &mut table).ok()?;
            let value = |text: &&[u8]| {
                text.strip_prefix(PREFIX)?.strip_prefix(NAME.as_bytes())?.strip_prefix(b"=").map(|v| v.to_vec())
            };
            // The strings are behind the table's own fields; those begin none of them, but the first string has no NUL before it.
            let fields = table.get(1).copied().map_or(0, usize::from);
            let texts = table.get(fields..).unwrap_or_default().split(|b| *b == 0);
            texts.filter_map(|text| value(&text)).find_map(|value| parse(&value))
        })
    })
}

/// Reads `vsock:CID:PORT`, or the same with a kind of socket.
fn parse(text: &[u8]) -> Option<Address> {
    let mut parts = core::str::from_utf8(text).ok()?.trim_ascii().split(':');
    let kind = match parts.next()? {
        "vsock" => None,
        "vsock-dgram" => Some(Kind::Datagram),
        "vsock-seqpacket" => Some(Kind::Packets),
        "vsock-stream" => Some(Kind::Stream),
        _ => return None,
    };
    let mut next = || number(parts.next()?.as_bytes());
    let (cid, port) = (next()?, next()?);
    parts.next().is_none().then_some(Address { cid, port, kind })
}

fn report(cloud: &mut Cloud<'_>) -> Result<Outcome, Error> {
    let Host { address, sockets } = cloud.local.notify.take().ok_or(CloudError::NoField)?;
    let mut message = [0; MESSAGE_MAX];
    let mut message = Text::new(&mut message);
    message.str("STATUS=").str(cloud.report.state.as_str()).str(": ").str(cloud.message()).str("\n");
    if cloud.report.state == State::Failed {
        // What a program's exit status can be, and not that of a success.
        let code = cloud.report.code.filter(|code| (1..256).contains(code)).unwrap_or(1);
        message.str("EXIT_STATUS=").dec(code).str("\n");
    }
    let message = whole(&message)?.as_bytes();
    let mut last = Errno::NODEV;
    for (kind, socket) in sockets {
        match socket.and_then(|socket| say(socket, kind, address, message, cloud.deadline)) {
            Ok(()) => return Ok(Outcome { sent: message.len() as u64, ..NOTHING }),
            // This machine or its host does not know the kind.
            Err(e) => last = e,
        }
    }
    Err(NetError::Connect(last).into())
}

impl Host {
    fn new(address: Address) -> Self {
        let kinds = KINDS.into_iter().filter(|kind| address.kind.is_none_or(|only| only == *kind));
        Self { address, sockets: kinds.map(|kind| (kind, Socket::vsock(kind))).collect() }
    }
}

fn say(socket: Socket, kind: Kind, address: Address, message: &[u8], deadline: Deadline) -> Result<(), Errno> {
    if !socket.connect_vsock(address.cid, address.port)? {
        if wait(&mut core::iter::once(&socket), Ready::Out, deadline) == 0 {
            return Err(Errno::TIMEDOUT);
        }
        socket.error()?;
    }
    let mut rest = message;
    while !rest.is_empty() {
        match socket.send(rest) {
            Ok(len) => rest = rest.get(len..).unwrap_or_default(),
            Err(Errno::AGAIN) if wait(&mut core::iter::once(&socket), Ready::Out, deadline) != 0 => {}
            Err(e) => return Err(e),
        }
    }
    if kind != Kind::Datagram {
        socket.shut();
        wait(&mut core::iter::once(&socket), Ready::In, deadline.step_ms(LINGER_MS));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        for (text, want) in [
            ("vsock:2:1234\n", Some((2, 1234, None))),
            ("vsock-stream:3:4294967295", Some((3, u32::MAX, Some(Kind::Stream)))),
            ("vsock-dgram:2:1", Some((2, 1, Some(Kind::Datagram)))),
            ("vsock-seqpacket:2:1", Some((2, 1, Some(Kind::Packets)))),
            ("vsock:2", None),
            ("vsock:2:1:3", None),
            ("vsock:x:1", None),
            ("vsock:2:4294967296", None),
            ("/run/systemd/notify", None),
            ("", None),
        ] {
            let found = parse(text.as_bytes()).map(|a| (a.cid, a.port, a.kind));
            assert_eq!(found, want, "{text}");
        }
    }
}
