//! Once: units, hooks and people share one report of each state, by files under `/run/rdreport`.
//!
//! `STATE.lock` is locked (flock(2)) while a run reports `STATE`. The kernel unlocks the file when the run dies, and no child keeps it open, so
//! the lock needs no process numbers, which mean nothing in a container or below `--root`. `STATE.report` holds the report's id, which
//! destinations have the report, and the boot: it is written before anything is sent, and again as each delivery ends. A later run sends the
//! rest under the same id. `STATE.done` says that nothing is left to send.

use crate::explain;
use crate::settings::{State, Warnings};
use crate::sys::Errno;
use crate::sys::file::{Folder, Root};
use crate::sys::process::Unshared;
use crate::sys::sock::{self, Ready};
use crate::sys::time::Deadline;
use crate::text::{Text, number};
use heapless::{String, Vec};

/// Milliseconds to wait for a lock: longer than a child of a killed run takes to close it, or another run to look whether it is held.
const LOCK_MS: u64 = 250;
/// Milliseconds between two attempts to lock.
const LOCK_STEP_MS: u64 = 10;
/// Bytes of a record: two UUIDs, a number of ten digits, two spaces and the line end.
const RECORD_MAX: usize = 96;
/// Bytes of a file's name.
const NAME_MAX: usize = 24;
/// Bytes of a UUID.
const ID_MAX: usize = 36;

/// A report's id.
pub type Id = String<ID_MAX>;

/// Why a run may not report.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// All of it was delivered.
    Done,
    /// Another run is reporting.
    Busy,
    /// Progress, after this end was reported or began to be.
    Over(State),
}

/// A run's right to report `state`, until it is dropped. Without a writable `/run` it keeps nobody else from reporting.
pub struct Lock {
    state: State,
    _held: Option<Unshared>,
    folder: Option<Folder>,
    file: Option<Unshared>,
    record: Record,
}

/// Content of `STATE.report`.
#[derive(Default)]
struct Record {
    id: Id,
    /// Bit n: destination n has the report.
    sent: u32,
    boot: Id,
}

impl Lock {
    /// Takes the right to report `state` in this boot. `id` is the report's, and is replaced by that of an earlier run that did not deliver
    /// everything. With `force`, what was delivered does not count; a run that is reporting does.
    pub fn take(
        root: &Root,
        state: State,
        boot_id: &str,
        force: bool,
        id: &mut Id,
        warnings: &mut Warnings,
    ) -> Result<Self, Refused> {
        let record = Record { id: id.clone(), sent: 0, boot: boot(boot_id) };
        let mut lock = Self { state, _held: None, folder: None, file: None, record };
        // Progress is reported as often as it is made, until the end: a receiver would take a later event for a new attempt.
        if state == State::Running {
            return end(root, boot_id).filter(|_| !force).map_or(Ok(lock), |end| Err(Refused::Over(end)));
        }
        let mut error = None;
        match root.make_folder("run", "rdreport") {
            Ok(folder) => {
                match hold(&folder, state) {
                    Ok(held) => lock._held = Some(held),
                    Err(Errno::AGAIN) => return Err(Refused::Busy),
                    Err(e) => error = Some(e),
                }
                if lock.resume(&folder, force) {
                    return Err(Refused::Done);
                }
                match folder.record(&name(state, ".report")) {
                    Ok(file) => lock.file = Some(Unshared::new(file)),
                    Err(e) => error = error.or(Some(e)),
                }
                lock.folder = Some(folder);
                error = error.or(lock.write().err());
            }
            Err(e) => error = Some(e),
        }
        if let Some(e) = error {
            let mut buf = [0; 64];
            let mut why = Text::new(&mut buf);
            explain::errno(e, &mut why);
            warnings.add(&["/run/rdreport: ", why.as_str(), "; this report may be sent again by another run"]);
        }
        id.clone_from(&lock.record.id);
        Ok(lock)
    }

    /// Goes on with the report of an earlier run of this boot, unless `force` asks for a new one. Returns whether nothing is left to send.
    fn resume(&mut self, folder: &Folder, force: bool) -> bool {
        let done = name(self.state, ".done");
        let found = read(folder, self.state);
        let is_new = force || found.as_ref().is_some_and(|found| found.boot != self.record.boot);
        if is_new {
            // The mark belongs to the report that this one replaces.
            let _ = folder.remove(&done);
            return false;
        }
        if let Some(found) = found.filter(|found| !found.id.is_empty()) {
            self.record = found;
        }
        folder.file(&done).is_ok()
    }

    /// Whether destination number `slot` has the report.
    pub fn has_sent(&self, slot: usize) -> bool {
        self.record.has_sent(slot)
    }

    /// Remembers that it has.
    pub fn sent(&mut self, slot: usize) {
        self.record.sent |= bit(slot);
        // If this fails, another run sends more than it needs to.
        let _ = self.write();
    }

    /// Ends the run; `is_done` says that nothing is left for another.
    pub fn settle(self, is_done: bool) {
        if let Some(folder) = self.folder.filter(|_| is_done) {
            let _ = folder.record(&name(self.state, ".done"));
        }
    }

    /// Writes the record in one call and in place, so that a kill leaves the old one or the new one, and a disk that has filled up since the
    /// first one still takes it.
    fn write(&self) -> Result<(), Errno> {
        let Some(file) = self.file.as_ref().map(Unshared::file) else { return Ok(()) };
        let mut buf = [0; RECORD_MAX];
        let mut text = Text::new(&mut buf);
        text.str(&self.record.id).str(" ").dec(self.record.sent.into()).str(" ").str(&self.record.boot).str("\n");
        file.write_at(0, text.as_bytes())
    }
}

impl Record {
    fn has_sent(&self, slot: usize) -> bool {
        self.sent & bit(slot) != 0
    }

    /// Whether it is of the boot `id`, as far as is known.
    fn may_be_of(&self, id: &str) -> bool {
        self.boot.is_empty() || id.is_empty() || self.boot == id
    }
}

/// Whether a run has begun to report `state` in this boot, and perhaps was killed, or delivered nothing.
pub fn is_begun(root: &Root, state: State, boot_id: &str) -> bool {
    find(root, state, boot_id).is_some()
}

/// The end that a run has begun to report in this boot.
pub fn end(root: &Root, boot_id: &str) -> Option<State> {
    [State::Failed, State::Succeeded].into_iter().find(|end| is_begun(root, *end, boot_id))
}

/// Whether this state was reported to anybody in this boot, or is being reported.
pub fn is_reported(root: &Root, state: State, boot_id: &str) -> bool {
    let Some((folder, record)) = find(root, state, boot_id) else { return false };
    record.sent != 0 || folder.file(&name(state, ".done")).is_ok() || is_held(&folder, state)
}

/// Whether destination number `slot` has the report of `state`.
pub fn has_sent(root: &Root, state: State, boot_id: &str, slot: usize) -> bool {
    find(root, state, boot_id).is_some_and(|(_, record)| record.has_sent(slot))
}

/// The record of `state` in this boot.
fn find(root: &Root, state: State, boot_id: &str) -> Option<(Folder, Record)> {
    let folder = root.own_folder("run", "rdreport").ok()?;
    let record = read(&folder, state)?;
    record.may_be_of(boot_id).then_some((folder, record))
}

/// Locks `state`; [`Errno::AGAIN`] if another run has it.
fn hold(folder: &Folder, state: State) -> Result<Unshared, Errno> {
    let file = Unshared::new(folder.lock_file(&name(state, ".lock"))?);
    let deadline = Deadline::after_ms(LOCK_MS);
    loop {
        match file.file().lock() {
            Err(Errno::AGAIN) if !deadline.passed() => {
                sock::wait(&mut core::iter::empty(), Ready::In, Deadline::after_ms(LOCK_STEP_MS));
            }
            locked => return locked.map(|()| file),
        }
    }
}

/// Whether another run has locked `state`.
fn is_held(folder: &Folder, state: State) -> bool {
    // Its lock goes with the file, at once.
    folder.file(&name(state, ".lock")).is_ok_and(|file| file.lock() == Err(Errno::AGAIN))
}

/// Reads `STATE.report`; `None` if it does not exist. What cannot be read in it stays empty.
fn read(folder: &Folder, state: State) -> Option<Record> {
    let mut buf = [0; RECORD_MAX];
    let mut record = Record::default();
    let text = match folder.read(&name(state, ".report"), &mut buf) {
        Err(Errno::NOENT) => return None,
        read => read.unwrap_or_default(),
    };
    // A shorter record leaves the end of a longer one behind it.
    let line = text.split(|b| *b == b'\n').next().unwrap_or_default();
    let mut parts = core::str::from_utf8(line).unwrap_or_default().split(' ');
    let (id, sent) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    record.boot = boot(parts.next().unwrap_or_default());
    // The id goes into a header field.
    if let Some(sent) = number(sent.as_bytes()).filter(|_| is_id(id)) {
        (record.id, record.sent) = (Id::try_from(id).unwrap_or_default(), sent);
    }
    Some(record)
}

fn is_id(text: &str) -> bool {
    text.len() == ID_MAX && text.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-')
}

/// A boot's id, empty if it is not one.
pub(crate) fn boot(id: &str) -> Id {
    Id::try_from(id).ok().filter(|id| is_id(id)).unwrap_or_default()
}

fn name(state: State, what: &str) -> Vec<u8, NAME_MAX> {
    let mut name = Vec::new();
    // The longest is "succeeded.report".
    let _ = name.extend_from_slice(state.as_str().as_bytes());
    let _ = name.extend_from_slice(what.as_bytes());
    name
}

fn bit(slot: usize) -> u32 {
    1u32.checked_shl(slot as u32).unwrap_or(0)
}

/// Says why a state is not reported now.
pub fn explain_refused(state: State, why: Refused, out: &mut Text<'_>) {
    out.str("'").str(state.as_str());
    match why {
        Refused::Done => out.str("' was reported before; --force reports it again"),
        Refused::Busy => out.str("' is being reported by another run"),
        Refused::Over(end) => {
            out.str("' is not sent: '").str(end.as_str()).str("' was reported, or began to be; --force sends it anyway")
        }
    };
}

/// Says why success is not reported: a unit that failed, or a failure that was reported.
pub fn explain_contradiction(unit: Option<&str>, out: &mut Text<'_>) {
    out.str("'succeeded' is refused: ");
    match unit {
        Some(unit) => out.str(unit).str(" failed"),
        None => out.str("a failure was reported, or began to be"),
    };
    out.str("; once it is repaired, use --force");
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOOT: &str = "01234567-89ab-cdef-0123-456789abcdef";
    const ID: &str = "11111111-89ab-cdef-0123-456789abcdef";

    struct Machine(std::path::PathBuf);

    impl Machine {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(std::format!("rdreport-interlock-{name}-{}", std::process::id()));
            std::fs::create_dir_all(path.join("run/rdreport")).unwrap();
            Self(path)
        }

        fn write(&self, name: &str, text: &str) {
            std::fs::write(self.0.join("run/rdreport").join(name), text).unwrap();
        }

        fn root(&self) -> Root {
            Root::new(Some(self.0.to_str().unwrap().as_bytes())).unwrap()
        }

        fn take(&self, force: bool, id: &str) -> Result<(Lock, std::string::String), Refused> {
            let mut warnings = Warnings::default();
            let mut id = Id::try_from(id).unwrap();
            let lock = Lock::take(&self.root(), State::Failed, BOOT, force, &mut id, &mut warnings)?;
            assert_eq!(warnings.lines().next(), None);
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
        let root = machine.root();
        assert!(!is_begun(&root, State::Failed, BOOT));
        let (mut first, id) = machine.take(false, ID).unwrap();
        assert_eq!(machine.take(false, ID).err(), Some(Refused::Busy));
        assert_eq!(machine.take(true, ID).err(), Some(Refused::Busy));
        assert!(is_begun(&root, State::Failed, BOOT) && is_reported(&root, State::Failed, BOOT));
        first.sent(1);
        first.settle(false);
        // The rest is sent under the same id.
        let other = ID.replace('1', "f");
        let (second, same) = machine.take(false, &other).unwrap();
        assert_eq!((same, second.has_sent(0), second.has_sent(1)), (id, false, true));
        assert!(has_sent(&root, State::Failed, BOOT, 1) && !has_sent(&root, State::Failed, BOOT, 0));
        second.settle(true);
        assert_eq!(machine.take(false, ID).err(), Some(Refused::Done));
        // What was refused leaves nothing behind.
        assert_eq!(machine.take(false, ID).err(), Some(Refused::Done));
        let (third, new) = machine.take(true, &other).unwrap();
        assert_eq!((new, third.has_sent(1)), (other.clone(), false));
        drop(third);
        // The new report is not done because the old one was.
        assert_eq!(machine.take(false, ID).unwrap().1, other);
    }

    #[test]
    fn a_run_that_delivered_nothing_has_begun_and_keeps_nobody_off() {
        let machine = Machine::new("begun");
        drop(machine.take(false, ID).unwrap());
        let root = machine.root();
        assert!(is_begun(&root, State::Failed, BOOT) && !is_reported(&root, State::Failed, BOOT));
        assert!(!is_begun(&root, State::Succeeded, BOOT));
        assert_eq!(machine.take(false, BOOT).unwrap().1, ID);
    }

    #[test]
    fn progress_is_refused_after_the_end() {
        let machine = Machine::new("progress");
        let root = machine.root();
        let progress = |force| {
            let mut warnings = Warnings::default();
            Lock::take(&root, State::Running, BOOT, force, &mut Id::try_from(ID).unwrap(), &mut warnings).err()
        };
        assert_eq!(progress(false), None);
        machine.write("succeeded.report", &std::format!("{ID} 0 {}\n", BOOT.replace('0', "f")));
        assert_eq!(progress(false), None);
        drop(machine.take(false, ID).unwrap());
        assert_eq!(progress(false), Some(Refused::Over(State::Failed)));
        assert_eq!(progress(true), None);
    }

    #[test]
    fn files_of_another_boot_hold_nothing() {
        let machine = Machine::new("boot");
        let other = BOOT.replace('0', "f");
        machine.write("failed.report", &std::format!("{ID} 3 {other}\n"));
        machine.write("failed.done", "");
        assert!(!is_begun(&machine.root(), State::Failed, BOOT));
        // Of which boot this is, is not known.
        assert!(is_begun(&machine.root(), State::Failed, ""));
        let (lock, id) = machine.take(false, BOOT).unwrap();
        assert_eq!((id.as_str(), lock.has_sent(0)), (BOOT, false));
        drop(lock);
        assert_eq!(machine.take(false, ID).unwrap().1, BOOT);
    }

    #[test]
    fn what_is_no_record_says_only_that_it_began() {
        for text in [
            "",
            "\n",
            "x",
            "x\r\nInjected: 1-89ab-cdef-0123-456789ab 1\n",
            &std::format!("{ID} x {BOOT}\n"),
            &"1".repeat(500),
        ] {
            let machine = Machine::new("record");
            machine.write("failed.report", text);
            assert!(is_begun(&machine.root(), State::Failed, BOOT), "{text}");
            let (lock, id) = machine.take(false, BOOT).unwrap();
            assert_eq!((id.as_str(), lock.has_sent(0)), (BOOT, false), "{text}");
        }
        // The end of a longer record behind a shorter one.
        let machine = Machine::new("longer");
        machine.write("failed.report", &std::format!("{ID} 2 {BOOT}\ndef\n"));
        let (lock, id) = machine.take(false, BOOT).unwrap();
        assert_eq!((id.as_str(), lock.has_sent(1)), (ID, true));
    }

    #[test]
    fn without_run_it_warns_and_goes_on() {
        let machine = Machine::new("missing");
        std::fs::remove_dir_all(machine.0.join("run")).unwrap();
        let (mut id, mut warnings) = (Id::try_from(ID).unwrap(), Warnings::default());
        let lock = Lock::take(&machine.root(), State::Failed, BOOT, false, &mut id, &mut warnings).unwrap();
        assert!(warnings.lines().next().unwrap().starts_with("/run/rdreport: no such file"));
        lock.settle(true);
        assert!(!is_reported(&machine.root(), State::Failed, BOOT));
    }

    #[test]
    fn links_are_not_followed() {
        let machine = Machine::new("links");
        std::fs::write(machine.0.join("elsewhere"), "").unwrap();
        for name in ["failed.lock", "failed.report"] {
            std::os::unix::fs::symlink(machine.0.join("elsewhere"), machine.0.join("run/rdreport").join(name)).unwrap();
        }
        let (mut id, mut warnings) = (Id::try_from(ID).unwrap(), Warnings::default());
        Lock::take(&machine.root(), State::Failed, BOOT, false, &mut id, &mut warnings).unwrap().sent(0);
        assert_eq!(warnings.lines().count(), 1);
        assert_eq!(std::fs::read(machine.0.join("elsewhere")).unwrap(), b"");
    }
}
