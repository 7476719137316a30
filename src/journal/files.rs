//! The parts of a journal, opened but not parsed: the files and the kernel's log.
//!
//! Any program that logs decides what a journal holds. So the process with all rights only lists
//! folders and opens files here. The contents are parsed by [`super::source::Source`], in a process
//! that has given up its rights.

use crate::journal::kmsg::Log;
use crate::sys::Errno;
use crate::sys::file::{File, Folder, Root};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// The folders of journald's files: volatile ones, as in an initramfs, and persistent ones.
pub const PLACES: [&str; 2] = ["run/log/journal", "var/log/journal"];
/// Maximum number of bytes of a path: a place, a machine's folder, a name of up to 255.
const PATH_MAX: usize = 320;
/// Maximum number of files that are read. Each costs a descriptor and 250 bytes. Of more files,
/// those changed last are read.
pub const FILES_MAX: usize = 64;
/// Maximum number of names in all folders that are read: a tenth of a second's work. journald has
/// one folder a machine, with a few dozen files.
const NAMES_MAX: u32 = 16 * 1024;

/// The journal's files and the kernel's log.
#[derive(Default)]
pub struct Journal {
    /// The files, in the order of their folders.
    pub(super) files: Vec<Opened>,
    /// The kernel's log, if there are no files.
    pub(super) log: Option<Log>,
    pub(super) skipped: Skipped,
    /// The reason why a folder could not be opened.
    pub(super) errno: Option<Errno>,
    names: u32,
}

/// An open file.
pub(super) struct Opened {
    pub(super) file: File,
    /// The file's path below the root, without a leading `/`.
    pub(super) path: Box<[u8]>,
    /// The file's size when it was opened.
    pub(super) size: u64,
    changed_ns: u64,
}

/// Files that are not read at all.
#[derive(Clone, Copy, Default)]
pub(super) struct Skipped {
    /// Number of files that were changed earlier than the [`FILES_MAX`] that are read.
    pub(super) older: u32,
    /// Whether the folders hold more names than are read.
    pub(super) is_more: bool,
    /// Number of files that could not be opened or are not journal files, and the first reason.
    pub(super) unreadable: u32,
    pub(super) errno: Option<Errno>,
    /// Number of files that need an unknown feature, and the unknown incompatible flags.
    pub(super) incompatible: u32,
    pub(super) flags: u32,
}

impl Journal {
    /// Opens all journal files below `root`: of all machines, users and boots; online, archived and
    /// left over.
    pub fn open(root: &Root) -> Self {
        let mut journal = Self::default();
        for place in PLACES {
            match root.folder(place).and_then(|folder| journal.list(&folder, place.as_bytes(), true)) {
                Ok(()) | Err(Errno::NOENT | Errno::NOTDIR) => {}
                Err(errno) => journal.errno = Some(errno),
            }
        }
        journal
    }

    /// Moves the journal into this process, which reads it after giving up its rights.
    ///
    /// The kernel's log is opened here: processes that shared its descriptor would take each
    /// other's records.
    pub fn take(&mut self, root: &Root) -> Self {
        let mut journal = core::mem::take(self);
        journal.log = Log::open(root).ok();
        journal
    }

    /// Opens the journal files in `folder`, whose path is `path`. If `deeper`, also opens those in
    /// its folders, one a machine.
    fn list(&mut self, folder: &Folder, path: &[u8], deeper: bool) -> Result<(), Errno> {
        folder.names(&mut |name| {
            self.names = self.names.saturating_add(1);
            if self.names > NAMES_MAX {
                self.skipped.is_more = true;
                return false;
            }
            let mut inner = heapless::Vec::<u8, PATH_MAX, u16>::new();
            let fits = [path, b"/", name].iter().all(|part| inner.extend_from_slice(part).is_ok());
            if name.ends_with(b".journal") || name.ends_with(b".journal~") {
                match fits {
                    true => self.open_file(folder, name, &inner),
                    false => self.skipped.add_unreadable(Errno::NAMETOOLONG),
                }
            } else if deeper && fits {
                match folder.folder(name).and_then(|folder| self.list(&folder, &inner, false)) {
                    Ok(()) | Err(Errno::NOTDIR) => {}
                    Err(errno) => self.skipped.add_unreadable(errno),
                }
            }
            true
        })
    }

    fn open_file(&mut self, folder: &Folder, name: &[u8], path: &[u8]) {
        let opened = folder.file(name).and_then(|file| match file.is_regular()? {
            true => Ok((file.size()?, file.modified_ns()?, file)),
            false => Err(Errno::INVAL),
        });
        let (size, changed_ns, file) = match opened {
            // The file is preallocated and still empty.
            Ok((0, ..)) => return,
            Ok(opened) => opened,
            Err(errno) => return self.skipped.add_unreadable(errno),
        };
        let new = Opened { file, path: path.into(), size, changed_ns };
        if self.files.len() < FILES_MAX {
            return self.files.push(new);
        }
        self.skipped.older = self.skipped.older.saturating_add(1);
        let oldest = self.files.iter_mut().min_by_key(|file| file.changed_ns);
        if let Some(oldest) = oldest.filter(|oldest| oldest.changed_ns < changed_ns) {
            *oldest = new;
        }
    }
}

impl Skipped {
    pub(super) fn add_unreadable(&mut self, errno: Errno) {
        self.unreadable = self.unreadable.saturating_add(1);
        self.errno.get_or_insert(errno);
    }
}
