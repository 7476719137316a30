//! Waiting for a change of folders (inotify(7)) and of the kernel's log, for children, and for being told to end: all at once.

use crate::sys::file::{File, Folder, Root, short_path};
use crate::sys::process::{Child, Stop};
use crate::sys::sock;
use crate::sys::time::Deadline;
use heapless::Vec;
use rustix::event::{PollFd, PollFlags};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};

/// Children that are waited for at once: one for each journal sink.
pub const CHILDREN_MAX: usize = 8;
/// Folders that are watched, of each one that is looked into: one a machine.
const FOLDERS_MAX: usize = 64;
/// Bytes of events read at once. They say nothing that is needed but that they came.
const EVENTS: usize = 4096;

/// What is watched. Where the kernel does not tell of changes, nothing is seen.
pub struct Watch {
    inotify: Option<OwnedFd>,
    /// The kernel's log, at its end.
    log: Option<File>,
    /// Whether a change of it is one.
    pub is_log_watched: bool,
}

/// Bits of what came, beside those of children: bit n is the nth. Somebody wants us to end.
pub const STOP: u32 = 1 << CHILDREN_MAX;
/// Something that is watched has changed.
pub const CHANGE: u32 = STOP << 1;

impl Watch {
    /// Watches nothing yet. A file in place of the kernel's log cannot be waited for.
    pub fn new(log: Option<File>) -> Self {
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok();
        Self { inotify, log: log.filter(|log| log.is_regular() == Ok(false)), is_log_watched: false }
    }

    /// Watches the folder at `path` and those in it, as far as they are there. What is watched already is so once.
    pub fn add(&self, root: &Root, path: &str) {
        let Ok(folder) = root.folder(path) else { return };
        self.add_one(&folder);
        let mut left = FOLDERS_MAX;
        let _ = folder.names(&mut |name| {
            if let Ok(folder) = folder.folder(name) {
                self.add_one(&folder);
                left = left.saturating_sub(1);
            }
            left > 0
        });
    }

    fn add_one(&self, folder: &Folder) {
        if let Some(inotify) = &self.inotify {
            // journald changes a mapped file, which nobody is told of, and then sets its size to what it is, which is a change.
            let what = WatchFlags::MODIFY | WatchFlags::CREATE | WatchFlags::MOVED_TO;
            // Where it is refused, there are too many.
            let _ = inotify::add_watch(inotify, short_path(folder.as_fd(), &mut [0; 40]), what);
        }
    }

    /// Forgets the changes that were until now.
    pub fn clear(&self) {
        if let Some(inotify) = &self.inotify {
            // More than this are changes of a moment that goes on.
            for _ in 0..EVENTS {
                if rustix::io::read(inotify, &mut [0; EVENTS]).is_err() {
                    break;
                }
            }
        }
        if let Some(log) = &self.log {
            let _ = log.to_end();
        }
    }

    /// Waits for the first of these: `stop` says so; something has changed, if `is_changes`; one of `children` (up to [`CHILDREN_MAX`]) has
    /// something to say or has ended; `deadline`. Gives the bits of what came.
    pub fn wait<'w>(
        &'w self,
        stop: Option<&'w Stop>,
        is_changes: bool,
        children: &mut dyn Iterator<Item = Option<&'w Child>>,
        deadline: Deadline,
    ) -> u32 {
        let mut fds: Vec<PollFd<'_>, { CHILDREN_MAX + 3 }> = Vec::new();
        let mut bits: Vec<u32, { CHILDREN_MAX + 3 }> = Vec::new();
        let mut add = |fd: Option<BorrowedFd<'w>>, bit| {
            if let Some(fd) = fd {
                // There is room for all.
                let _ = fds.push(PollFd::from_borrowed_fd(fd, PollFlags::IN));
                let _ = bits.push(bit);
            }
        };
        for (number, child) in children.take(CHILDREN_MAX).enumerate() {
            add(child.map(AsFd::as_fd), 1 << number);
        }
        add(stop.and_then(Stop::fd), STOP);
        if is_changes {
            add(self.inotify.as_ref().map(AsFd::as_fd), CHANGE);
            add(self.log.as_ref().filter(|_| self.is_log_watched).map(AsFd::as_fd), CHANGE);
        }
        let ready = sock::wait_for(&mut fds, deadline);
        bits.iter().enumerate().filter(|(number, _)| ready & 1 << number != 0).fold(0, |all, (_, bit)| all | bit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::tests::Folder;
    use crate::sys::time::Deadline;

    fn changed(watch: &Watch) -> bool {
        let woken = watch.wait(None, true, &mut core::iter::empty(), Deadline::after_ms(0));
        watch.clear();
        woken == CHANGE
    }

    #[test]
    fn changes_of_files_in_folders_are_seen() {
        let folder = Folder::new();
        folder.write("run/log/journal/m/system.journal", b"one");
        let (root, watch) = (folder.root(), Watch::new(None));
        watch.add(&root, "run/log/journal");
        watch.add(&root, "var/log/journal");
        assert!(!changed(&watch));
        let path = folder.path().join("run/log/journal/m/system.journal");
        // As journald does behind what it wrote into a mapped file.
        std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(3).unwrap();
        assert!(changed(&watch));
        assert!(!changed(&watch));
        std::fs::rename(&path, path.with_extension("old")).unwrap();
        assert!(changed(&watch));
        folder.write("run/log/journal/other/x", b"");
        assert!(changed(&watch));
        folder.write("run/log/journal/other/y", b"");
        assert!(!changed(&watch));
        watch.add(&root, "run/log/journal");
        folder.write("run/log/journal/other/z", b"");
        assert!(changed(&watch));
    }

    #[test]
    fn children_and_changes_are_told_apart() {
        let (watch, stop) = (Watch::new(None), Stop::none());
        let quick = Child::spawn(&mut |_| (0, 0)).unwrap();
        let slow = Child::spawn(&mut |_| {
            Watch::new(None).wait(None, true, &mut core::iter::empty(), Deadline::after_ms(60_000));
            (0, 0)
        });
        let slow = slow.unwrap();
        let children = [Some(&slow), None, Some(&quick)];
        let woken = watch.wait(Some(&stop), true, &mut children.into_iter(), Deadline::after_ms(10_000));
        assert_eq!(woken, 4);
        slow.wait(&stop, Deadline::after_ms(0), &mut []);
        quick.wait(&stop, Deadline::after_ms(10_000), &mut []);
    }
}
