//! Files and folders below a root (`--root`), read with buffers that the caller sized.

use crate::sys::sock;
use crate::sys::time::Deadline;
use crate::text::Text;
use alloc::vec::Vec;
use core::ffi::CStr;
use core::mem::MaybeUninit;
use rustix::event::{PollFd, PollFlags};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{
    AtFlags, CWD, FileType, FlockOperation, Gid, Mode, OFlags, RawDir, ResolveFlags, Uid, fchmod, fchown, fcntl_lock,
    flock, fstat, ftruncate, linkat, mkdirat, openat2, renameat, unlinkat,
};
use rustix::io::Errno;

/// Bytes of folder entries asked of the kernel at once: a few dozen names.
const DIR_BUFFER: usize = 2048;

/// Bytes of a path with the zero at its end (`PATH_MAX`).
const PATH_MAX: usize = 4096;

/// The folder that every path is below: `/`, or what `--root` named.
pub struct Root {
    dir: OwnedFd,
    is_real: bool,
}

/// An open file.
pub struct File(OwnedFd);

/// An open folder.
pub struct Folder(OwnedFd);

/// Who owns a file or folder, and what may be done with it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    /// The user's number.
    pub uid: u32,
    /// The group's number.
    pub gid: u32,
    /// Permission bits.
    pub mode: u32,
}

impl Root {
    /// Opens the folder at `path`; `None` is `/`.
    pub fn new(path: Option<&[u8]>) -> Result<Self, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = openat(CWD, path.unwrap_or(b"/"), flags, Mode::empty())?;
        Ok(Self { dir, is_real: path.is_none_or(|path| path == b"/") })
    }

    /// Whether it is the machine's own `/`.
    pub fn is_real(&self) -> bool {
        self.is_real
    }

    /// Opens a file for reading. A leading `/` means this root; with `--root`, symbolic links cannot lead out of it.
    pub fn file(&self, path: impl AsRef<[u8]>) -> Result<File, Errno> {
        // O_NONBLOCK: a FIFO or a device in place of a file must not hold us up.
        self.open(path.as_ref(), OFlags::RDONLY | OFlags::NONBLOCK).map(File)
    }

    /// Opens what is there, a device or a file, for writing at its end. It neither waits for a device nor becomes its session's.
    pub fn output(&self, path: impl AsRef<[u8]>) -> Result<File, Errno> {
        let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::NONBLOCK | OFlags::NOCTTY;
        self.open(path.as_ref(), flags).map(File)
    }

    /// Opens a device that is there, for reading and writing, as [`Root::output`] does.
    pub fn device(&self, path: impl AsRef<[u8]>) -> Result<File, Errno> {
        self.open(path.as_ref(), OFlags::RDWR | OFlags::NONBLOCK | OFlags::NOCTTY).map(File)
    }

    /// What is at `path`, without opening it: for a socket.
    pub fn node(&self, path: impl AsRef<[u8]>) -> Result<File, Errno> {
        self.open(path.as_ref(), OFlags::PATH).map(File)
    }

    /// Opens a file for appending, and makes it if it is missing.
    pub fn append(&self, path: impl AsRef<[u8]>) -> Result<File, Errno> {
        self.open(path.as_ref(), OFlags::RDWR | OFlags::APPEND | OFlags::CREATE | OFlags::NONBLOCK).map(File)
    }

    /// Opens a folder.
    pub fn folder(&self, path: impl AsRef<[u8]>) -> Result<Folder, Errno> {
        self.open(path.as_ref(), OFlags::RDONLY | OFlags::DIRECTORY).map(Folder)
    }

    /// Reads a file from its beginning into `buf`, as much as fits.
    pub fn read<'a>(&self, path: impl AsRef<[u8]>, buf: &'a mut [u8]) -> Result<&'a [u8], Errno> {
        let len = fill(self.file(path)?.as_fd(), buf)?;
        Ok(buf.get(..len).unwrap_or_default())
    }

    /// Opens the folder `name` in the folder `parent`, and makes it if it is not there.
    pub fn make_folder(&self, parent: &str, name: &str) -> Result<Folder, Errno> {
        let parent = self.folder(parent)?;
        match make_folder(&parent.0, name.as_bytes(), Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(Errno::EXIST) => parent.folder(name.as_bytes()),
            Err(e) => Err(e),
        }
    }

    /// Writes `bytes` into a file that is there.
    pub fn write(&self, path: impl AsRef<[u8]>, bytes: &[u8]) -> Result<(), Errno> {
        put(self.open(path.as_ref(), OFlags::WRONLY | OFlags::NONBLOCK)?.as_fd(), bytes)
    }

    fn open(&self, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
        let flags = flags | OFlags::CLOEXEC;
        let first = path.iter().position(|b| *b != b'/').unwrap_or(path.len());
        let relative = match path.get(first..) {
            Some(b"") | None => b".",
            Some(rest) => rest,
        };
        let mode = if flags.contains(OFlags::CREATE) { Mode::from_raw_mode(0o644) } else { Mode::empty() };
        if !self.is_real {
            let mut open = |path: &CStr| openat2(&self.dir, path, flags, mode, ResolveFlags::IN_ROOT);
            match with_path(relative, &mut open) {
                Err(Errno::NOSYS) => {} // before Linux 5.6
                opened => return opened,
            }
        }
        openat(self.dir.as_fd(), relative, flags, mode)
    }
}

impl File {
    /// Size in bytes now.
    pub fn size(&self) -> Result<u64, Errno> {
        Ok(u64::try_from(fstat(&self.0)?.st_size).unwrap_or(0))
    }

    /// Reads at `offset` into `buf` until it is full or the file ends; gives how many bytes were read.
    pub fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize, Errno> {
        let mut len = 0usize;
        while let Some(free) = buf.get_mut(len..).filter(|free| !free.is_empty()) {
            match rustix::io::pread(&self.0, free, offset.saturating_add(len as u64)) {
                Ok(0) => break,
                Ok(n) => len = len.saturating_add(n),
                Err(Errno::INTR) => {}
                Err(e) => return Err(e),
            }
        }
        Ok(len)
    }

    /// Seconds since 1970 at which it was last changed.
    pub fn modified_s(&self) -> Result<u64, Errno> {
        Ok(u64::try_from(fstat(&self.0)?.st_mtime).unwrap_or(0))
    }

    /// Locks it against others that lock it (flock(2)), until it is closed; [`Errno::AGAIN`] where another has it.
    pub fn lock(&self) -> Result<(), Errno> {
        flock(&self.0, FlockOperation::NonBlockingLockExclusive)
    }

    /// Locks it as the C library's `lckpwdf` does (fcntl(2)), until any descriptor of it is closed; [`Errno::AGAIN`] or [`Errno::ACCESS`]
    /// where another process has it.
    pub fn lock_record(&self) -> Result<(), Errno> {
        fcntl_lock(&self.0, FlockOperation::NonBlockingLockExclusive)
    }

    /// Whose it is.
    pub fn access(&self) -> Result<Access, Errno> {
        let stat = fstat(&self.0)?;
        Ok(Access { uid: stat.st_uid, gid: stat.st_gid, mode: stat.st_mode & 0o7777 })
    }

    /// Makes it somebody's.
    pub fn give(&self, to: &Access) -> Result<(), Errno> {
        give(self.as_fd(), to)
    }

    /// Makes it empty.
    pub fn clear(&self) -> Result<(), Errno> {
        ftruncate(&self.0, 0)
    }

    /// Writes all of `bytes`, or what is taken until `deadline`.
    pub fn write(&self, bytes: &[u8], deadline: Deadline) -> Result<(), Errno> {
        let mut rest = bytes;
        while !rest.is_empty() {
            match rustix::io::write(&self.0, rest) {
                Ok(n) => rest = rest.get(n..).unwrap_or_default(),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    if sock::wait_for(&mut [PollFd::new(&self.0, PollFlags::OUT)], deadline) == 0 {
                        return Err(Errno::AGAIN);
                    }
                }
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Waits until `deadline` for something to read, an end or an error; gives whether there is.
    pub fn wait(&self, deadline: Deadline) -> bool {
        sock::wait_for(&mut [PollFd::new(&self.0, PollFlags::IN)], deadline) != 0
    }

    /// Whether standard error leads to the same file or device.
    pub fn is_stderr(&self) -> bool {
        let place = |fd: BorrowedFd<'_>| fstat(fd).map(|stat| (stat.st_dev, stat.st_ino, stat.st_rdev));
        matches!((place(self.as_fd()), place(super::process::stderr())), (Ok(one), Ok(other)) if one == other)
    }

    /// Reads on from where the last read ended; 0 is the end.
    pub fn read(&self, buf: &mut [u8]) -> Result<usize, Errno> {
        loop {
            match rustix::io::read(&self.0, &mut *buf) {
                Err(Errno::INTR) => {}
                done => return done,
            }
        }
    }
}

impl File {
    /// Goes to the end, for [`File::read`].
    #[cfg(feature = "follow")]
    pub fn to_end(&self) -> Result<(), Errno> {
        rustix::fs::seek(&self.0, rustix::fs::SeekFrom::End(0)).map(drop)
    }

    /// Goes back to the beginning, for [`File::read`].
    pub fn rewind(&self) -> Result<(), Errno> {
        rustix::fs::seek(&self.0, rustix::fs::SeekFrom::Start(0)).map(drop)
    }
}

impl Folder {
    /// Opens a file in this folder for reading.
    pub fn file(&self, name: &[u8]) -> Result<File, Errno> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        openat(self.0.as_fd(), name, flags, Mode::empty()).map(File)
    }

    /// Opens a folder in this folder.
    pub fn folder(&self, name: &[u8]) -> Result<Folder, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        openat(self.0.as_fd(), name, flags, Mode::empty()).map(Folder)
    }

    /// Reads a file in this folder from its beginning into `buf`, as much as fits.
    pub fn read<'a>(&self, name: &[u8], buf: &'a mut [u8]) -> Result<&'a [u8], Errno> {
        let len = fill(self.file(name)?.as_fd(), buf)?;
        Ok(buf.get(..len).unwrap_or_default())
    }

    /// Makes a file that was not there before, readable by all.
    pub fn write_new(&self, name: &[u8], content: &[u8]) -> Result<(), Errno> {
        put(self.new_file(name, 0o644)?.as_fd(), content)
    }

    /// Makes a file that was not there before, for writing at its end.
    pub fn new_file(&self, name: &[u8], mode: u32) -> Result<File, Errno> {
        let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        openat(self.0.as_fd(), name, flags, Mode::from_raw_mode(mode)).map(File)
    }

    /// Opens the folder `name`, which a symbolic link is not, and makes it with this mode if it is not there.
    pub fn make_folder(&self, name: &[u8], mode: u32) -> Result<Folder, Errno> {
        let mode = Mode::from_raw_mode(mode);
        let made = make_folder(&self.0, name, mode);
        made.or_else(|e| if e == Errno::EXIST { Ok(()) } else { Err(e) })?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder = openat(self.0.as_fd(), name, flags, Mode::empty())?;
        if made.is_ok() {
            // Whatever the umask is.
            fchmod(&folder, mode)?;
        }
        Ok(Folder(folder))
    }

    /// Makes it somebody's.
    pub fn give(&self, to: &Access) -> Result<(), Errno> {
        give(self.0.as_fd(), to)
    }

    /// Removes a folder with nothing in it.
    pub fn remove_folder(&self, name: &[u8]) -> Result<(), Errno> {
        self.unlink(name, AtFlags::REMOVEDIR)
    }

    /// Gives the file `from` a second name, which nothing has yet.
    pub fn link(&self, from: &[u8], to: &[u8]) -> Result<(), Errno> {
        with_path(from, &mut |from| with_path(to, &mut |to| linkat(&self.0, from, &self.0, to, AtFlags::empty())))
    }

    /// Gives the file `from` another name, in place of what has it.
    pub fn rename(&self, from: &[u8], to: &[u8]) -> Result<(), Errno> {
        with_path(from, &mut |from| with_path(to, &mut |to| renameat(&self.0, from, &self.0, to)))
    }

    /// Removes a file.
    pub fn remove(&self, name: &[u8]) -> Result<(), Errno> {
        self.unlink(name, AtFlags::empty())
    }

    fn unlink(&self, name: &[u8], flags: AtFlags) -> Result<(), Errno> {
        with_path(name, &mut |name| unlinkat(&self.0, name, flags))
    }

    /// Gives each name in the folder to `visit`, `.` and `..` left out, in the folder's own order; ends early when `visit` says `false`.
    pub fn names(&self, visit: &mut dyn FnMut(&[u8]) -> bool) -> Result<(), Errno> {
        let mut buf = [MaybeUninit::uninit(); DIR_BUFFER];
        let mut dir = RawDir::new(&self.0, &mut buf);
        while let Some(entry) = dir.next() {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." && !visit(name) {
                break;
            }
        }
        Ok(())
    }
}

fn openat(folder: BorrowedFd<'_>, path: &[u8], flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
    with_path(path, &mut |path| rustix::fs::openat(folder, path, flags, mode))
}

fn make_folder(parent: &OwnedFd, name: &[u8], mode: Mode) -> Result<(), Errno> {
    with_path(name, &mut |name| mkdirat(parent, name, mode))
}

/// Calls the kernel with `path` as it wants it. rustix does the same once for each call there is (1.3 KB).
#[inline(never)]
fn with_path<T>(path: &[u8], call: &mut dyn FnMut(&CStr) -> Result<T, Errno>) -> Result<T, Errno> {
    if path.len() >= PATH_MAX {
        return Err(Errno::NAMETOOLONG);
    }
    let mut copy = Vec::with_capacity(path.len().saturating_add(1));
    copy.extend_from_slice(path);
    copy.push(0);
    call(CStr::from_bytes_with_nul(&copy).map_err(|_| Errno::INVAL)?)
}

/// A short path that leads to an open file or folder.
pub(super) fn short_path<'b>(file: BorrowedFd<'_>, buf: &'b mut [u8; 40]) -> &'b CStr {
    let mut text = Text::new(buf);
    text.str("/proc/self/fd/").dec(file.as_raw_fd() as u64);
    // It fills not even half of `buf`.
    CStr::from_bytes_until_nul(buf).unwrap_or_default()
}

/// Reads until `buf` is full or there is no more; gives how many bytes were read.
pub(super) fn fill(from: BorrowedFd<'_>, buf: &mut [u8]) -> Result<usize, Errno> {
    let mut len = 0usize;
    while let Some(free) = buf.get_mut(len..).filter(|free| !free.is_empty()) {
        match rustix::io::read(from, free) {
            Ok(0) => break,
            Ok(n) => len = len.saturating_add(n),
            Err(Errno::INTR) => {}
            Err(e) => return Err(e),
        }
    }
    Ok(len)
}

fn give(what: BorrowedFd<'_>, to: &Access) -> Result<(), Errno> {
    fchown(what, Some(Uid::from_raw(to.uid)), Some(Gid::from_raw(to.gid)))?;
    fchmod(what, Mode::from_raw_mode(to.mode))
}

/// Writes all of `bytes`.
pub(super) fn put(to: BorrowedFd<'_>, bytes: &[u8]) -> Result<(), Errno> {
    let mut rest = bytes;
    while !rest.is_empty() {
        match rustix::io::write(to, rest) {
            Ok(n) => rest = rest.get(n..).unwrap_or_default(),
            Err(Errno::INTR) => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

#[cfg(feature = "follow")]
impl AsFd for Folder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsFd for File {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl File {
    /// Whether it is a regular file, not a device or a pipe.
    pub fn is_regular(&self) -> Result<bool, Errno> {
        Ok(FileType::from_raw_mode(fstat(&self.0)?.st_mode) == FileType::RegularFile)
    }
}
