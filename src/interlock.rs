//! Once: markers under `/run/rdreport` by which units, hooks and people share one report of each state.
//!
//! `STATE.start.N` is a run's own: its process, that process' start time and the boot. It comes into being whole, as a link to a file
//! made before, so that of many runs one gets it. A run that lives holds it; one whose process is gone was killed, and the next run takes
//! `N + 1`: a marker is taken away by its owner alone, so no two runs can clear each other's. `STATE.report` keeps the report's id and
//! which sinks have it, so that a later try sends the rest under the same id. `STATE.done` says that nothing is left to send.

use crate::settings::{State, Warnings};
use crate::sys::Errno;
use crate::sys::file::{Folder, Root};
use crate::sys::process;
use crate::text::{Text, number};
use crate::words;
use heapless::{String, Vec};

/// Runs of one state that may be killed half-way; after that the interlock is given up, not the report.
const TRIES_MAX: u64 = 64;
/// Bytes of a marker: two numbers and two UUIDs at most.
const MARKER_MAX: usize = 128;
/// Bytes of `/proc/PID/stat` up to the start time, with the longest name there is (64 bytes) and all numbers at their longest.
const STAT_MAX: usize = 1024;
/// Bytes of a marker's name.
const NAME_MAX: usize = 40;
/// Bytes of a UUID.
const ID_MAX: usize = 36;

/// A report's id.
pub type Id = String<ID_MAX>;

/// Why a run may not report.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// All of it was delivered.
    Done,
    /// This process is at it.
    Busy(u64),
}

/// A run's right to report; without `/run`, one that holds nobody off.
pub struct Lock {
    folder: Option<Folder>,
    state: State,
    marker: Vec<u8, NAME_MAX>,
    id: Id,
    sent: u32,
}

impl Lock {
    /// Takes the right to report `state` in this boot. `id` is the report's, and becomes that of an earlier run that did not deliver all.
    /// With `force`, what was delivered does not count; a run that is alive does.
    pub fn take(
        root: &Root,
        state: State,
        boot_id: &str,
        force: bool,
        id: &mut Id,
        warnings: &mut Warnings,
    ) -> Result<Self, Refused> {
        let mut lock = Self { folder: None, state, marker: Vec::new(), id: id.clone(), sent: 0 };
        // Progress is reported as often as it is made.
        if state == State::Running {
            return Ok(lock);
        }
        match root.make_folder("run", "rdreport").map(|folder| lock.enter(root, folder, boot_id, force)) {
            Ok(Ok(Some(refused))) => return Err(refused),
            Ok(Ok(None)) => {}
            Ok(Err(e)) | Err(e) => {
                let mut buf = [0; 64];
                let mut why = Text::new(&mut buf);
                words::errno(e, &mut why);
                warnings.add(&["/run/rdreport: ", why.as_str(), "; this report may be sent again by another run"]);
                lock.folder = None;
            }
        }
        id.clone_from(&lock.id);
        Ok(lock)
    }

    /// Whether the sink of this number has the report.
    pub fn has_sent(&self, sink: usize) -> bool {
        self.sent & bit(sink) != 0
    }

    /// Remembers that it has.
    pub fn sent(&mut self, sink: usize) {
        self.sent |= bit(sink);
        self.write_report();
    }

    /// Ends the run: `is_done` says that nothing is left for another.
    pub fn settle(self, is_done: bool) {
        let Some(folder) = &self.folder else { return };
        let _ = match is_done {
            true => folder.write_new(&name(self.state, ".done", None), b""),
            false => folder.remove(&self.marker),
        };
    }

    fn enter(&mut self, root: &Root, folder: Folder, boot_id: &str, force: bool) -> Result<Option<Refused>, Errno> {
        let pid = process::id();
        let mut buf = [0; MARKER_MAX];
        let mut marker = Text::new(&mut buf);
        marker.dec(pid).str(" ").dec(started(root, pid).unwrap_or(0)).str(" ").str(boot_id).str("\n");
        let own = name(self.state, ".pid.", Some(pid));
        let _ = folder.remove(&own);
        folder.write_new(&own, marker.as_bytes())?;
        let taken = self.claim(root, &folder, boot_id, &own);
        let _ = folder.remove(&own);
        match taken? {
            Some(pid) => return Ok(Some(Refused::Busy(pid))),
            None if force => {}
            None if folder.file(&name(self.state, ".done", None)).is_ok() => {
                let _ = folder.remove(&self.marker);
                return Ok(Some(Refused::Done));
            }
            None => {
                if let Some((id, sent)) = read_report(&folder, self.state) {
                    (self.id, self.sent) = (id, sent);
                }
            }
        }
        self.folder = Some(folder);
        self.write_report();
        Ok(None)
    }

    /// Links `own` to the first name that no run ever had but those that were killed; gives the process that is in the way.
    fn claim(&mut self, root: &Root, folder: &Folder, boot_id: &str, own: &[u8]) -> Result<Option<u64>, Errno> {
        let mut number = 0;
        for _ in 0..2 * TRIES_MAX {
            self.marker = name(self.state, ".start.", Some(number));
            match folder.link(own, &self.marker) {
                Err(Errno::EXIST) => {}
                linked => return linked.map(|()| None),
            }
            match folder.read(&self.marker, &mut [0; MARKER_MAX]).map(|text| owner(root, text, boot_id)) {
                // Its run has just ended and left all to be done.
                Err(Errno::NOENT) => {}
                Err(e) => return Err(e),
                Ok(Some(pid)) => return Ok(Some(pid)),
                Ok(None) => number = number.saturating_add(1),
            }
        }
        Err(Errno::MLINK)
    }

    fn write_report(&self) {
        let Some(folder) = &self.folder else { return };
        let mut buf = [0; MARKER_MAX];
        let mut text = Text::new(&mut buf);
        text.str(&self.id).str(" ").dec(self.sent.into()).str("\n");
        let (new, name) = (name(self.state, ".report.new", None), name(self.state, ".report", None));
        // What an earlier run left behind when it was killed; nobody but the holder of the lock is here.
        let _ = folder.remove(&new);
        // Without it, another try sends more than it need.
        let _ = folder.write_new(&new, text.as_bytes()).and_then(|()| folder.rename(&new, &name));
    }
}

/// Whether this state was reported to anybody in this boot, or is being reported.
pub fn is_reported(root: &Root, state: State, boot_id: &str) -> bool {
    let Ok(folder) = root.own_folder("run", "rdreport") else { return false };
    // The markers of those that were killed stay, so their numbers have no gaps.
    let mut owners = (0..TRIES_MAX).map_while(|number| {
        let mut buf = [0; MARKER_MAX];
        folder.read(&name(state, ".start.", Some(number)), &mut buf).ok().map(|text| owner(root, text, boot_id))
    });
    folder.file(&name(state, ".done", None)).is_ok()
        || read_report(&folder, state).is_some_and(|(_, sent)| sent != 0)
        || owners.any(|owner| owner.is_some())
}

/// Whether the sink of this number has the report of `state`.
pub fn has_sent(root: &Root, state: State, sink: usize) -> bool {
    let report = root.own_folder("run", "rdreport").ok().and_then(|folder| read_report(&folder, state));
    report.is_some_and(|(_, sent)| sent & bit(sink) != 0)
}

/// The process of a marker, if it lives: the same process, in the same boot.
fn owner(root: &Root, marker: &[u8], boot_id: &str) -> Option<u64> {
    let mut words = core::str::from_utf8(marker).ok()?.trim_ascii_end().split(' ');
    let mut next = || number(words.next()?.as_bytes());
    let (pid, start) = (next()?, next()?);
    (words.next().unwrap_or_default() == boot_id && started(root, pid) == Some(start)).then_some(pid)
}

/// When a process was started, in the kernel's ticks since boot: field 22 of `/proc/PID/stat` (proc(5)). `None` if it is gone, or dead
/// and not yet waited for.
fn started(root: &Root, pid: u64) -> Option<u64> {
    let mut buf = [0; 32];
    let mut path = Text::new(&mut buf);
    path.str("proc/").dec(pid).str("/stat");
    let mut stat = [0; STAT_MAX];
    let stat = root.read(path.as_bytes(), &mut stat).ok()?;
    // The name, in parentheses, may hold any byte.
    let fields = stat.get(stat.iter().rposition(|b| *b == b')')?.saturating_add(2)..)?;
    let mut fields = fields.split(|b| *b == b' ');
    if matches!(fields.next()?, b"Z" | b"X") {
        return None;
    }
    number(fields.nth(18)?)
}

fn read_report(folder: &Folder, state: State) -> Option<(Id, u32)> {
    let mut buf = [0; MARKER_MAX];
    let text = folder.read(&name(state, ".report", None), &mut buf).ok()?;
    let (id, sent) = core::str::from_utf8(text).ok()?.trim_ascii_end().split_once(' ')?;
    // Nothing that could not stand in a header.
    let is_id = id.len() == ID_MAX && id.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-');
    Some((String::try_from(id).ok().filter(|_| is_id)?, number(sent.as_bytes())?))
}

fn name(state: State, what: &str, number: Option<u64>) -> Vec<u8, NAME_MAX> {
    let mut buf = [0; NAME_MAX];
    let mut text = Text::new(&mut buf);
    text.str(state.as_str()).str(what);
    if let Some(number) = number {
        text.dec(number);
    }
    Vec::from_slice(text.as_bytes()).unwrap_or_default()
}

fn bit(sink: usize) -> u32 {
    1u32.checked_shl(sink as u32).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOOT: &str = "01234567-89ab-cdef-0123-456789abcdef";

    struct Machine(std::path::PathBuf);

    impl Machine {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(std::format!("rdreport-interlock-{name}-{}", std::process::id()));
            std::fs::create_dir_all(path.join("run")).unwrap();
            let machine = Self(path);
            machine.process(process::id(), "S", 77);
            machine
        }

        fn process(&self, pid: u64, state: &str, start: u64) {
            let stat = std::format!("{pid} (a ) b) {state} 1{} {start} 0 0", " 0".repeat(17));
            self.write(&std::format!("proc/{pid}/stat"), &stat);
        }

        fn write(&self, path: &str, text: &str) {
            let path = self.0.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }

        fn root(&self) -> Root {
            Root::new(Some(self.0.to_str().unwrap().as_bytes())).unwrap()
        }

        fn take(&self, force: bool, id: &str) -> Result<(Lock, std::string::String), Refused> {
            let mut id = Id::try_from(id).unwrap();
            let lock = Lock::take(&self.root(), State::Failed, BOOT, force, &mut id, &mut Warnings::default())?;
            Ok((lock, id.as_str().into()))
        }
    }

    impl Drop for Machine {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn one_at_a_time_and_once() {
        let machine = Machine::new("once");
        let (mut first, id) = machine.take(false, BOOT).unwrap();
        assert_eq!(machine.take(false, BOOT).err(), Some(Refused::Busy(process::id())));
        assert_eq!(machine.take(true, BOOT).err(), Some(Refused::Busy(process::id())));
        assert!(is_reported(&machine.root(), State::Failed, BOOT));
        first.sent(1);
        first.settle(false);
        // The rest is sent under the same id.
        let other = BOOT.replace('0', "f");
        let (second, same) = machine.take(false, &other).unwrap();
        assert_eq!((same, second.has_sent(0), second.has_sent(1)), (id, false, true));
        assert!(is_reported(&machine.root(), State::Failed, BOOT));
        second.settle(true);
        machine.process(process::id(), "S", 78);
        assert_eq!(machine.take(false, BOOT).err(), Some(Refused::Done));
        // What was refused leaves nothing behind.
        assert_eq!(machine.take(false, BOOT).err(), Some(Refused::Done));
        let (third, new) = machine.take(true, &other).unwrap();
        assert_eq!((new, third.has_sent(1)), (other, false));
    }

    #[test]
    fn the_dead_hold_nothing() {
        for (marker, dies) in [
            ("4242 9 01234567-89ab-cdef-0123-456789abcdef\n", "S"), // its number belongs to another process now
            ("4242 5 fedcba98-89ab-cdef-0123-456789abcdef\n", "S"), // of another boot
            ("4243 5 01234567-89ab-cdef-0123-456789abcdef\n", "S"),
            ("4242 5 01234567-89ab-cdef-0123-456789abcdef\n", "Z"),
            ("", "S"),
            ("\u{fffd} x", "S"),
        ] {
            let machine = Machine::new("dead");
            machine.process(4242, dies, 5);
            machine.write("run/rdreport/failed.start.0", marker);
            assert!(machine.take(false, BOOT).is_ok(), "{marker}");
        }
        let machine = Machine::new("alive");
        machine.process(4242, "D", 5);
        machine.write("run/rdreport/failed.start.0", "4242 5 01234567-89ab-cdef-0123-456789abcdef\n");
        assert_eq!(machine.take(false, BOOT).err(), Some(Refused::Busy(4242)));
    }

    #[test]
    fn what_is_no_id_is_not_sent() {
        let machine = Machine::new("id");
        machine.write("run/rdreport/failed.report", "x\r\nInjected: 1-89ab-cdef-0123-456789ab 1\n");
        let (lock, id) = machine.take(false, BOOT).unwrap();
        assert_eq!((id.as_str(), lock.has_sent(0)), (BOOT, false));
    }

    #[test]
    fn without_run_it_warns_and_goes_on() {
        let machine = Machine::new("missing");
        std::fs::remove_dir(machine.0.join("run")).unwrap();
        let (mut id, mut warnings) = (Id::try_from(BOOT).unwrap(), Warnings::default());
        let lock = Lock::take(&machine.root(), State::Failed, BOOT, false, &mut id, &mut warnings).unwrap();
        assert!(warnings.lines().next().unwrap().starts_with("/run/rdreport: no such file"));
        lock.settle(true);
        assert!(!is_reported(&machine.root(), State::Failed, BOOT));
    }
}
