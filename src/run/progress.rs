//! The time that progress may take: all `running` events of one boot share one budget, so that a
//! destination that never answers cannot hold up a boot once for each stage.
//!
//! `/run/rdreport/running.report` holds the boot, the milliseconds used, and whether the last event
//! was not delivered. Each event takes its share before it sends anything, and gives back what it did
//! not use, so that a killed event has used its share, and events at the same time share as well.

use crate::run::interlock::{Id, boot};
use crate::sys::Errno;
use crate::sys::file::{File, Root};
use crate::sys::sock::{self, Ready};
use crate::sys::time::Deadline;
use crate::text::{Text, number};

/// The budget of a boot, in milliseconds, unless `rd.report.timeout` says otherwise.
pub const BUDGET_MS: u64 = 10_000;
/// Milliseconds of an attempt after an event that was not delivered.
const QUICK_MS: u64 = 1_000;
/// Milliseconds to wait for another event that is at the record, which takes microseconds.
const LOCK_MS: u64 = 250;
/// Milliseconds between two attempts to lock.
const LOCK_STEP_MS: u64 = 10;
/// Bytes of the record: a UUID, a number, a flag, two spaces and the line end.
const RECORD_MAX: usize = 64;

/// What one event may use.
pub struct Share {
    file: Option<File>,
    boot: Id,
    /// Milliseconds that it may take.
    pub ms: u64,
    /// Whether each destination gets one attempt, as the event before this one was not delivered.
    pub is_single: bool,
}

struct Record {
    used_ms: u64,
    is_failing: bool,
}

impl Share {
    /// Takes a share of `budget_ms`; `None` if nothing is left. Without a writable `/run` each event has
    /// one quick attempt.
    pub fn take(root: &Root, boot_id: &str, budget_ms: u64) -> Option<Self> {
        let quick = budget_ms.min(QUICK_MS);
        let mut share = Self { file: None, boot: boot(boot_id), ms: quick, is_single: true };
        let folder = root.make_folder("run", "rdreport");
        let Ok(file) = folder.and_then(|folder| folder.record(b"running.report")) else { return Some(share) };
        let (ms, is_single) = (&mut share.ms, &mut share.is_single);
        let taken = update(&file, &share.boot, &mut |record| {
            let left = budget_ms.saturating_sub(record.used_ms);
            *is_single = record.is_failing;
            *ms = if record.is_failing { left.min(quick) } else { (left / 2).max(left.min(quick)) };
            record.used_ms = record.used_ms.saturating_add(*ms);
        });
        match taken {
            Ok(()) if share.ms == 0 => return None,
            Ok(()) => share.file = Some(file),
            Err(_) => {}
        }
        Some(share)
    }

    /// Gives back what is left until `deadline`, the end of the share, and remembers how the event ended.
    pub fn settle(self, deadline: Deadline, is_delivered: bool) {
        let unused = deadline.left_ms();
        if let Some(file) = &self.file {
            // If this fails, the boot has a little less time for progress.
            let _ = update(file, &self.boot, &mut |record| {
                record.used_ms = record.used_ms.saturating_sub(unused);
                record.is_failing = !is_delivered;
            });
        }
    }
}

/// Changes the record while no other event does.
fn update(file: &File, boot: &Id, change: &mut dyn FnMut(&mut Record)) -> Result<(), Errno> {
    let deadline = Deadline::after_ms(LOCK_MS);
    while let Err(e) = file.lock() {
        if e != Errno::AGAIN || deadline.passed() {
            return Err(e);
        }
        sock::wait(&mut core::iter::empty(), Ready::In, Deadline::after_ms(LOCK_STEP_MS));
    }
    let mut buf = [0; RECORD_MAX];
    let written = file.read_at(0, &mut buf).and_then(|len| {
        let mut record = read(buf.get(..len).unwrap_or_default(), boot);
        change(&mut record);
        let mut text = Text::new(&mut buf);
        text.str(boot).str(" ").dec(record.used_ms).str(if record.is_failing { " 1\n" } else { " 0\n" });
        file.write_at(0, text.as_bytes())
    });
    file.unlock();
    written
}

/// Reads a record of this boot. One of another boot, or none, has used nothing.
fn read(text: &[u8], boot: &Id) -> Record {
    let line = text.split(|b| *b == b'\n').next().unwrap_or_default();
    let mut parts = line.split(|b| *b == b' ');
    let is_ours = parts.next().unwrap_or_default() == boot.as_bytes();
    let used = parts.next().and_then(number).filter(|_| is_ours);
    Record { used_ms: used.unwrap_or(0), is_failing: used.is_some() && parts.next() == Some(b"1") }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOOT: &str = "01234567-89ab-cdef-0123-456789abcdef";

    fn folder(name: &str) -> (std::path::PathBuf, Root) {
        let path = std::env::temp_dir().join(std::format!("rdreport-progress-{name}-{}", std::process::id()));
        std::fs::create_dir_all(path.join("run")).unwrap();
        let root = Root::new(Some(path.to_str().unwrap().as_bytes())).unwrap();
        (path, root)
    }

    #[test]
    fn all_events_of_a_boot_share_one_budget() {
        let (path, root) = folder("shared");
        let first = Share::take(&root, BOOT, BUDGET_MS).unwrap();
        assert_eq!((first.ms, first.is_single), (5_000, false));
        // One at the same time has its own share of what is left.
        let second = Share::take(&root, BOOT, BUDGET_MS).unwrap();
        assert_eq!((second.ms, second.is_single), (2_500, false));
        second.settle(Deadline::after_ms(2_500), true);
        first.settle(Deadline::after_ms(0), false);
        // After a failure: quick ones, until nothing is left.
        let mut used = 5_000;
        while let Some(share) = Share::take(&root, BOOT, BUDGET_MS) {
            assert!(share.is_single && share.ms <= QUICK_MS);
            used += share.ms;
            share.settle(Deadline::after_ms(0), false);
        }
        assert!((BUDGET_MS - 100..=BUDGET_MS + 100).contains(&used), "{used}");
        // Another boot has a budget of its own.
        assert_eq!(Share::take(&root, &BOOT.replace('0', "f"), BUDGET_MS).unwrap().ms, 5_000);
        std::fs::remove_dir_all(path).unwrap();
    }

    #[test]
    fn a_success_ends_the_quick_attempts_and_a_kill_uses_its_share() {
        let (path, root) = folder("success");
        Share::take(&root, BOOT, BUDGET_MS).unwrap().settle(Deadline::after_ms(5_000), false);
        let share = Share::take(&root, BOOT, BUDGET_MS).unwrap();
        assert!(share.is_single);
        share.settle(Deadline::after_ms(1_000), true);
        // This one is killed.
        assert!(!Share::take(&root, BOOT, BUDGET_MS).unwrap().is_single);
        assert!(Share::take(&root, BOOT, BUDGET_MS).unwrap().ms <= 2_600);
        std::fs::remove_dir_all(path).unwrap();
    }

    #[test]
    fn without_a_record_there_is_one_quick_attempt() {
        let (path, root) = folder("missing");
        std::fs::remove_dir(path.join("run")).unwrap();
        let share = Share::take(&root, BOOT, BUDGET_MS).unwrap();
        assert_eq!((share.ms, share.is_single), (QUICK_MS, true));
        std::fs::remove_dir_all(path).unwrap();
    }
}
