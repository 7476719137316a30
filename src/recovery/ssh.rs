//! The SSH user on failure (`rd.report.ssh=`): a user in the initramfs' own account files, with its keys, and then the SSH server that the
//! image brings along. Nothing of the real root is touched.
//!
//! The order is such that a run that is killed leaves nothing that can be used: the keys, then the accounts, then the server.

use crate::error::Error;
use crate::explain;
use crate::net;
use crate::recovery::accounts::{Accounts, NotAdded, Place, User};
use crate::recovery::ignition;
use crate::recovery::systemd::{self, Started, start_alone};
use crate::settings::ssh_key::PublicKey;
use crate::settings::{Settings, Warnings};
use crate::sink::{Sink, put_all};
use crate::sys::Errno;
use crate::sys::file::{Access, File, Folder, Root};
use crate::sys::machine::is_initramfs;
use crate::sys::process::{self, Child, Ended, Stop};
use crate::sys::sandbox::{self, Reach};
use crate::sys::time::Deadline;
use crate::text::Text;
use crate::text::{DECIMAL_MAX, decimal};
use alloc::vec;
use alloc::vec::Vec;
use core::ffi::CStr;
use core::net::IpAddr;
use heapless::String;

/// Where the user's home is made: it goes with the initramfs, and sshd's `StrictModes` takes it.
const HOMES: &str = "home";
/// Shells, the first that is there. dropbear takes no other than `/bin/sh` where there is no `/etc/shells`.
const SHELLS: [&str; 2] = ["/bin/sh", "/bin/bash"];
/// Bytes of all keys together: 40 of RSA's with 4096 bits.
const KEYS_MAX: usize = 32 * 1024;
/// Milliseconds for reading the configurations: 60 MB were read in 3.5 s on a machine with much else to do.
const KEYS_MS: u64 = 10_000;
/// Bytes of an account's home.
const HOME_MAX: usize = 48;
/// The keys' file, and its name until it is whole.
const KEYS: &[u8] = b"authorized_keys";
const NEW_KEYS: &[u8] = b"authorized_keys.new";

/// What is looked for, in words.
pub const SERVERS: &str = "sshd.service, ssh.service, dropbear.service, dropbear, or sshd with a host key";

/// Units that are SSH servers.
const UNITS: [&CStr; 3] = [c"sshd.service", c"ssh.service", c"dropbear.service"];
/// Where units are (systemd.unit(5)).
const UNIT_FOLDERS: [&str; 4] =
    ["etc/systemd/system/", "run/systemd/system/", "usr/lib/systemd/system/", "lib/systemd/system/"];
/// Programs. Neither lets anybody in by a password: here a key is what counts.
const DROPBEAR: [&CStr; 2] = [c"/usr/sbin/dropbear", c"/usr/bin/dropbear"];
const SSHD: [&CStr; 2] = [c"/usr/sbin/sshd", c"/usr/bin/sshd"];
const HOST_KEYS: [&str; 3] = ["etc/ssh/ssh_host_ed25519_key", "etc/ssh/ssh_host_ecdsa_key", "etc/ssh/ssh_host_rsa_key"];

/// What was done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Opened {
    /// How many keys the user has; none where an earlier run has made it.
    pub keys: Option<u32>,
    /// Whether there were others that are none, or for which there is no room.
    pub passed_over: bool,
    /// The server, and what became of its start.
    pub server: Option<(Server, Started)>,
}

/// Why nothing was done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NotOpened {
    /// Users are made in an initramfs alone.
    NotInitramfs,
    /// There is nothing to log in to.
    NoShell,
    /// No key; whether there were some that cannot be taken.
    NoKey(bool),
    /// The configuration was not read to its end in time.
    NoAnswer,
    /// The process that read it ended by a signal, or wrote something else than keys.
    Broken,
    /// The user cannot be added.
    NotAdded(NotAdded),
    /// The home cannot be made.
    Home(Errno),
}

/// A server that the image has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Server {
    /// A unit of systemd's.
    Unit(&'static CStr),
    /// dropbear, which makes its host keys itself.
    Dropbear(&'static CStr),
    /// OpenSSH's.
    Sshd(&'static CStr),
}

impl Server {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Server::Unit(unit) => unit.to_str().unwrap_or_default(),
            Server::Dropbear(_) => "dropbear",
            Server::Sshd(_) => "sshd",
        }
    }

    fn find(root: &Root) -> Option<Self> {
        let has = |path: &&CStr| root.node(path.to_bytes()).is_ok();
        let has_unit = |unit: &&CStr| {
            UNIT_FOLDERS.iter().any(|folder| {
                let mut path: String<48> = String::new();
                let whole = path.push_str(folder).and_then(|()| path.push_str(unit.to_str().unwrap_or_default()));
                whole.is_ok() && root.node(&*path).is_ok()
            })
        };
        // sd_booted(3).
        let is_systemd = root.node("run/systemd/system").is_ok();
        let unit = UNITS.into_iter().find(has_unit).filter(|_| is_systemd).map(Server::Unit);
        let dropbear = || DROPBEAR.into_iter().find(has).map(Server::Dropbear);
        let has_host_key = || HOST_KEYS.iter().any(|path| root.node(path).is_ok());
        unit.or_else(dropbear).or_else(|| SSHD.into_iter().find(has).filter(|_| has_host_key()).map(Server::Sshd))
    }

    fn start(self, root: &Root, stop: &Stop) -> Started {
        let words = match self {
            Server::Unit(unit) => return start_alone(root, unit, stop),
            _ if !root.is_real() => return Started::Would,
            Server::Dropbear(path) => {
                // Where it puts the host keys that it makes.
                let _ = root.make_folder("etc", "dropbear");
                &[path, c"-R", c"-s"][..]
            }
            Server::Sshd(path) => {
                // Where Debian's goes to while it knows nobody yet.
                let _ = root.make_folder("run", "sshd");
                &[path, c"-o", c"AuthenticationMethods=publickey"][..]
            }
        };
        systemd::of(Child::background(words), stop)
    }
}

/// Makes the user `name` with the keys of `settings` and of the configurations for `platform`, and starts a server.
pub fn open(
    root: &Root,
    name: &str,
    settings: &Settings<'_>,
    platform: &str,
    stop: &Stop,
) -> Result<Opened, NotOpened> {
    if !is_initramfs(root) {
        return Err(NotOpened::NotInitramfs);
    }
    let shell = SHELLS.into_iter().find(|path| root.node(path).is_ok()).ok_or(NotOpened::NoShell)?;
    let mut home: String<HOME_MAX> = String::new();
    for part in ["/", HOMES, "/", name] {
        let _ = home.push_str(part);
    }
    let user = User { name, home: &home, shell };
    let accounts = Accounts::open(root).map_err(NotOpened::NotAdded)?;
    let (keys, passed_over) = match accounts.place(&user).map_err(NotOpened::NotAdded)? {
        Place::Taken => (None, false),
        Place::Free(id) => {
            let found = make_home(root, name, id, settings, platform, stop)?;
            accounts.add(&user, id).map_err(NotOpened::NotAdded)?;
            (Some(found.keys), found.passed_over)
        }
    };
    drop(accounts);
    let server = Server::find(root).map(|server| (server, server.start(root, stop)));
    Ok(Opened { keys, passed_over, server })
}

/// Says what [`open`] would do.
pub fn describe(root: &Root, name: &str, settings: &Settings<'_>, out: &mut dyn Sink) -> Result<(), Error> {
    let server = Server::find(root).map_or("no server, as the image has none", Server::name);
    put_all(
        out,
        &[
            "    then: user ",
            name,
            " with the keys of rd.report.ssh.key= (",
            decimal(settings.ssh_key.len() as u64, &mut [0; DECIMAL_MAX]),
            ") and of Ignition's configuration; SSH by ",
            server,
            "\n",
        ],
    )
}

/// Warns of what [`open`] would miss.
pub fn warn(root: &Root, settings: &Settings<'_>, platform: &str, warnings: &mut Warnings) {
    if settings.ssh().is_none() {
        return;
    }
    if settings.ssh_key.is_empty() && ignition::configurations(root, platform).is_empty() {
        warnings.add(&["rd.report.ssh: no key: set rd.report.ssh.key=, unless Ignition's configuration brings one"]);
    }
    if Server::find(root).is_none() {
        warnings.add(&["rd.report.ssh: nothing to log in by is here: no ", SERVERS]);
    }
}

/// What a process found in the configurations.
struct Found {
    keys: u32,
    passed_over: bool,
}

/// Makes the home, with the keys in it.
fn make_home(
    root: &Root,
    name: &str,
    id: u32,
    settings: &Settings<'_>,
    platform: &str,
    stop: &Stop,
) -> Result<Found, NotOpened> {
    let homes = root.folder("").and_then(|top| top.make_folder(HOMES.as_bytes(), 0o755)).map_err(NotOpened::Home)?;
    let own = |mode| Access { uid: id, gid: id, mode };
    let fill = |home: &Folder, folder: &Folder| {
        // What an earlier run left behind when it was killed.
        let _ = folder.remove(NEW_KEYS);
        let file = folder.new_file(NEW_KEYS, 0o600).map_err(NotOpened::Home)?;
        let found = find_keys(root, &file, settings, platform, stop)?;
        check_keys(folder, found.keys)?;
        let settle = || {
            file.give(&own(0o600))?;
            folder.rename(NEW_KEYS, KEYS)?;
            folder.give(&own(0o700))?;
            home.give(&own(0o700))
        };
        settle().map_err(NotOpened::Home).map(|()| found)
    };
    let made = homes.make_folder(name.as_bytes(), 0o700).and_then(|home| {
        let folder = home.make_folder(b".ssh", 0o700)?;
        Ok((home, folder))
    });
    let (home, folder) = made.map_err(NotOpened::Home)?;
    let filled = fill(&home, &folder);
    if filled.is_err() {
        // What was there before is not empty, and stays.
        let _ = folder.remove(NEW_KEYS);
        let _ = home.remove_folder(b".ssh");
        let _ = homes.remove_folder(name.as_bytes());
    }
    filled
}

/// Writes the keys into `file`, by a process of its own that can do nothing else.
fn find_keys(
    root: &Root,
    file: &File,
    settings: &Settings<'_>,
    platform: &str,
    stop: &Stop,
) -> Result<Found, NotOpened> {
    let configurations = ignition::configurations(root, platform);
    let child = Child::spawn(&mut |said| {
        process::limit_file_size(KEYS_MAX as u64);
        process::leave_stdio();
        sandbox::enter(root, Reach::Nothing);
        let mut list = KeyList { lines: Vec::new(), keys: 0, passed_over: false };
        for key in &settings.ssh_key {
            list.take(PublicKey::parse(key));
        }
        for configuration in &configurations {
            if !ignition::keys(configuration, &mut |key| list.take(key)) {
                list.passed_over = true;
            }
        }
        let written = file.write(&list.lines, Deadline::after_ms(KEYS_MS));
        let [k0, k1, k2, k3] = list.keys.to_ne_bytes();
        let answer = [k0, k1, k2, k3, list.passed_over.into()];
        if let Some(said) = said.get_mut(..answer.len()) {
            said.copy_from_slice(&answer);
        }
        (written.is_err().into(), answer.len())
    });
    let mut answer = [0; 5];
    let (ended, _) = child.map_err(NotOpened::Home)?.wait(stop, Deadline::after_ms(KEYS_MS), &mut answer);
    let [k0, k1, k2, k3, passed_over] = answer;
    let found = Found { keys: u32::from_ne_bytes([k0, k1, k2, k3]), passed_over: passed_over != 0 };
    match ended {
        Ended::Exit(0) if found.keys == 0 => Err(NotOpened::NoKey(found.passed_over)),
        Ended::Exit(0) => Ok(found),
        Ended::Exit(_) => Err(NotOpened::Home(Errno::IO)),
        Ended::Signal(_) => Err(NotOpened::Broken),
        Ended::Late | Ended::Stopped => Err(NotOpened::NoAnswer),
    }
}

/// Checks what the process wrote that read the configurations: keys and nothing else, as many as it said. Whoever took it over with a
/// configuration gains no more than that could have said.
fn check_keys(folder: &Folder, count: u32) -> Result<(), NotOpened> {
    let mut lines = vec![0; KEYS_MAX];
    let lines = folder.read(NEW_KEYS, &mut lines).map_err(NotOpened::Home)?;
    let is_key = |line: &[u8]| {
        let line = core::str::from_utf8(line).unwrap_or_default();
        PublicKey::parse(line).is_some_and(|key| key.line == line)
    };
    let mut lines =
        lines.strip_suffix(b"\n").unwrap_or(lines).split(|b| *b == b'\n').filter(|line| !line.is_empty() || count > 0);
    let keys = lines.try_fold(0u32, |keys, line| is_key(line).then_some(keys.saturating_add(1)));
    if keys == Some(count) { Ok(()) } else { Err(NotOpened::Broken) }
}

/// Lines of `authorized_keys`.
struct KeyList {
    lines: Vec<u8>,
    keys: u32,
    passed_over: bool,
}

impl KeyList {
    /// Takes a key, unless it has it already: the configuration that was fetched holds those of the one that names it.
    fn take(&mut self, key: Option<PublicKey<'_>>) {
        let room = KEYS_MAX.saturating_sub(self.lines.len());
        match key {
            Some(key) if self.has(key.key.as_bytes()) => {}
            Some(key) if key.line.len() < room => {
                self.lines.extend_from_slice(key.line.as_bytes());
                self.lines.push(b'\n');
                self.keys = self.keys.saturating_add(1);
            }
            _ => self.passed_over = true,
        }
    }

    fn has(&self, key: &[u8]) -> bool {
        let mut lines = self.lines.split(|b| *b == b'\n');
        lines.any(|line| line.strip_prefix(key).is_some_and(|comment| matches!(comment.first(), None | Some(b' '))))
    }
}

/// Says what became of the SSH user, and at which of `addresses` it can be reached.
pub fn explain(name: &str, opened: &Result<Opened, NotOpened>, addresses: &[IpAddr], out: &mut Text<'_>) {
    out.str("rd.report.ssh=").str(name).str(": ");
    let opened = match opened {
        Ok(opened) => opened,
        Err(why) => {
            out.str("no user is made: ");
            return explain_error(*why, out);
        }
    };
    out.str("user ").str(name);
    match opened.keys {
        Some(1) => out.str(" is made with 1 key"),
        Some(keys) => out.str(" is made with ").dec(keys.into()).str(" keys"),
        None => out.str(" was made by an earlier run"),
    };
    out.str(if opened.passed_over { ", and others that cannot be taken" } else { "" }).str("; ");
    match opened.server {
        None => {
            out.str("nothing is started: there is no ").str(SERVERS).str(" here");
        }
        Some((Server::Unit(unit), result)) => systemd::explain(unit.to_str().unwrap_or_default(), result, out),
        Some((server, Started::Failed(ended))) => {
            out.str(server.name()).str(" is not started: it ");
            match ended {
                Ended::Exit(status) => out.str("ended with status ").dec(status.into()),
                _ => out.str("did not go into the background"),
            };
        }
        Some((server, result)) => systemd::explain(server.name(), result, out),
    }
    if let Some((_, Started::Now)) = opened.server {
        for address in addresses {
            out.str("; ssh ").str(name).str("@");
            net::put_address(address, out);
        }
        out.str(if addresses.is_empty() { "; there is no address yet" } else { "" });
    }
}

fn explain_error(why: NotOpened, out: &mut Text<'_>) {
    let known = match why {
        NotOpened::NotInitramfs => "this is no initramfs (/init or /etc/initrd-release)",
        NotOpened::NoShell => "there is no /bin/sh",
        NotOpened::NoKey(false) => "no key in rd.report.ssh.key= or in a configuration of Ignition's; set one",
        NotOpened::NoKey(true) => "the keys in Ignition's configuration cannot be taken; set rd.report.ssh.key=",
        NotOpened::NoAnswer => "Ignition's configuration cannot be read in time",
        NotOpened::Broken => "the process that read Ignition's configuration broke off, or wrote no keys",
        NotOpened::NotAdded(NotAdded::NoId) => "all numbers from 1000 on are taken",
        NotOpened::NotAdded(NotAdded::Exists(file)) => {
            out.str("there is one of this name in /etc/").str(file).str(", which stays as it is; choose another");
            return;
        }
        NotOpened::NotAdded(NotAdded::TooLarge(file)) => {
            out.str("/etc/").str(file).str(" is too large, or no file");
            return;
        }
        NotOpened::NotAdded(NotAdded::File(file, e)) => {
            out.str("/etc/").str(file).str(": ");
            return explain::errno(e, out);
        }
        NotOpened::Home(Errno::NOTDIR | Errno::LOOP) => {
            "its home below /home would not be a folder, or a symbolic link"
        }
        NotOpened::Home(e) => {
            out.str("its home below /home: ");
            return explain::errno(e, out);
        }
    };
    out.str(known);
}
