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
    AtFlags, CWD, FileType, FlockOperation, Gid, Mode, OFlags, RawDir, Stat, Uid, fchmod, fchown, fcntl_lock, flock,
    fstat, ftruncate, mkdirat, readlinkat_raw, renameat, unlinkat,
};
use rustix::io::Errno;
use rustix::process::{getegid, geteuid};

/// Bytes of folder entries asked of the kernel at once: a few dozen names.
const DIR_BUFFER: usize = 2048;

/// Bytes of a path with the zero at its end (`PATH_MAX`).
const PATH_MAX: usize = 4096;

/// Bytes of a symbolic link's target. A longer one is not followed.
const LINK_MAX: usize = 512;

/// Steps along a path below `--root`: more than a path needs that is no loop, even if links and `..` start it over.
const STEPS_MAX: usize = 512;

/// The error of a folder that others can change. None of our system calls returns it.
pub const NOT_OURS: Errno = Errno::KEYREJECTED;

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

    /// Whether `node` is this root itself.
    pub(super) fn is_same(&self, node: &File) -> bool {
        let place = |stat: Stat| (stat.st_dev, stat.st_ino);
        fstat(&self.dir).map(place) == fstat(&node.0).map(place)
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

    /// Opens a file for appending, and makes it if it is missing. A symbolic link in its place is not followed.
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

    /// Opens the folder `name` in the folder `parent`, and creates it if it is missing; see [`Root::own_folder`].
    pub fn make_folder(&self, parent: &str, name: &str) -> Result<Folder, Errno> {
        let folder = self.folder(parent)?;
        match make_folder(&folder.0, name.as_bytes(), Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(Errno::EXIST) => folder.own_folder(name.as_bytes()),
            Err(e) => Err(e),
        }
    }

    /// Opens the folder `name` in the folder `parent` if only this user or root can change it; [`NOT_OURS`] otherwise.
    pub fn own_folder(&self, parent: &str, name: &str) -> Result<Folder, Errno> {
        self.folder(parent)?.own_folder(name.as_bytes())
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
        let follow = if flags.contains(OFlags::CREATE) { OFlags::NOFOLLOW } else { OFlags::empty() };
        match self.is_real {
            true => openat(self.dir.as_fd(), relative, flags | follow, mode),
            false => self.open_below(relative, flags | follow, mode),
        }
    }

    /// Opens a path so that neither `..` nor a symbolic link leads out of the root. openat2(2) does the same since Linux 5.6, but
    /// reads its flags from memory, where the sandbox's filter cannot see whether they ask for writing.
    fn open_below(&self, path: &[u8], flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
        const STEP: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
        let mut path = path.to_vec();
        // The folder that was reached, and the length of the path to it, in which neither links nor `..` are left.
        let (mut at, mut done) = (None::<OwnedFd>, 0usize);
        for _ in 0..STEPS_MAX {
            let (before, rest) = path.split_at_checked(done).unwrap_or_default();
            let (name, behind) = rest.split_at_checked(slash(rest)).unwrap_or_default();
            let is_last = behind.iter().all(|b| *b == b'/');
            let folder = at.as_ref().unwrap_or(&self.dir).as_fd();
            let mut target = [0; LINK_MAX];
            let link = match name {
                b".." => Some((above(before), b"".as_slice())),
                _ if is_last && flags.contains(OFlags::NOFOLLOW) => None,
                _ => link_target(folder, name, &mut target)
                    .map(|to| (if to.starts_with(b"/") { b"" } else { before }, to)),
            };
            if let Some((before, target)) = link {
                let mut whole = Vec::with_capacity(path.len().saturating_add(target.len()));
                [before, target, behind].iter().for_each(|part| whole.extend_from_slice(part));
                path = whole;
                if target.len() == LINK_MAX || path.len() > PATH_MAX {
                    return Err(Errno::NAMETOOLONG);
                }
                // From the top again: the kernel's own `..` leads out if the folder was moved meanwhile.
                (at, done) = (None, 0);
                continue;
            }
            let name = if name.is_empty() { b"." } else { name };
            let flags = if is_last { flags } else { STEP } | OFlags::NOFOLLOW;
            let opened = openat(folder, name, flags, mode);
            if is_last {
                return opened;
            }
            done = done.saturating_add(slash(rest)).saturating_add(1);
            at = Some(opened?);
        }
        Err(Errno::LOOP)
    }
}

/// Bytes before the first slash.
fn slash(path: &[u8]) -> usize {
    path.iter().position(|b| *b == b'/').unwrap_or(path.len())
}

/// The path of the folder above, of a path that ends with a slash.
fn above(path: &[u8]) -> &[u8] {
    let end = path.iter().rposition(|b| *b != b'/').unwrap_or(0);
    let len = path.iter().take(end).rposition(|b| *b == b'/').map_or(0, |slash| slash.saturating_add(1));
    path.get(..len).unwrap_or_default()
}

/// The target of the symbolic link `name`; `None` if it is no link. One that fills `buf` may be cut.
fn link_target<'b>(folder: BorrowedFd<'_>, name: &[u8], buf: &'b mut [u8; LINK_MAX]) -> Option<&'b [u8]> {
    let mut len = 0;
    let mut read = |name: &CStr| {
        len = readlinkat_raw(folder, name, &mut buf[..])?;
        Ok(())
    };
    with_path(name, &mut read).ok()?;
    buf.get(..len)
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

    /// Where the next data lie from `offset` on, holes left out; `None` where none follow. A file system that knows no holes says
    /// `offset` itself.
    pub fn next_data(&self, offset: u64) -> Option<u64> {
        match rustix::fs::seek(&self.0, rustix::fs::SeekFrom::Data(offset)) {
            Ok(at) => Some(at),
            Err(Errno::NXIO) => None,
            Err(_) => Some(offset),
        }
    }

    /// Nanoseconds since 1970 at which it was last changed.
    pub fn modified_ns(&self) -> Result<u64, Errno> {
        let stat = fstat(&self.0)?;
        let seconds = u64::try_from(stat.st_mtime).unwrap_or(0);
        Ok(seconds.saturating_mul(1_000_000_000).saturating_add(stat.st_mtime_nsec as u64))
    }

    /// Seconds since 1970 at which it was last changed.
    pub fn modified_s(&self) -> Result<u64, Errno> {
        Ok(u64::try_from(fstat(&self.0)?.st_mtime).unwrap_or(0))
    }

    /// Locks it against others that lock it (flock(2)), until it is closed; [`Errno::AGAIN`] where another has it.
    pub fn lock(&self) -> Result<(), Errno> {
        flock(&self.0, FlockOperation::NonBlockingLockExclusive)
    }

    /// Unlocks what [`File::lock`] locked.
    pub fn unlock(&self) {
        let _ = flock(&self.0, FlockOperation::Unlock);
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

    /// Writes all of `bytes` at `offset` in one call.
    pub fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), Errno> {
        loop {
            match rustix::io::pwrite(&self.0, bytes, offset) {
                Ok(n) if n == bytes.len() => return Ok(()),
                Ok(_) => return Err(Errno::NOSPC),
                Err(Errno::INTR) => {}
                Err(e) => return Err(e),
            }
        }
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
    /// Opens a regular file in this folder for reading. Neither a symbolic link, which could lead anywhere, nor a pipe or device is one.
    pub fn file(&self, name: &[u8]) -> Result<File, Errno> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = File(openat(self.0.as_fd(), name, flags, Mode::empty())?);
        if file.is_regular()? { Ok(file) } else { Err(Errno::ISDIR) }
    }

    /// Opens a folder in this folder, which a symbolic link is not.
    pub fn folder(&self, name: &[u8]) -> Result<Folder, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        openat(self.0.as_fd(), name, flags, Mode::empty()).map(Folder)
    }

    /// Opens a folder in this folder if only this user or root can change it; [`NOT_OURS`] otherwise.
    pub fn own_folder(&self, name: &[u8]) -> Result<Folder, Errno> {
        let folder = self.folder(name)?;
        let stat = fstat(&folder.0)?;
        let is_owner = stat.st_uid == 0 || stat.st_uid == geteuid().as_raw();
        let is_shared = stat.st_mode & 0o002 != 0 || stat.st_mode & 0o020 != 0 && stat.st_gid != getegid().as_raw();
        if is_owner && !is_shared { Ok(folder) } else { Err(NOT_OURS) }
    }

    /// Reads a file in this folder from its beginning into `buf`, as much as fits.
    pub fn read<'a>(&self, name: &[u8], buf: &'a mut [u8]) -> Result<&'a [u8], Errno> {
        let len = fill(self.file(name)?.as_fd(), buf)?;
        Ok(buf.get(..len).unwrap_or_default())
    }

    /// Makes a file that was not there before, for writing at its end.
    pub fn new_file(&self, name: &[u8], mode: u32) -> Result<File, Errno> {
        let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        openat(self.0.as_fd(), name, flags, Mode::from_raw_mode(mode)).map(File)
    }

    /// Opens a file to keep a record in, and makes it if it is missing. A symbolic link is refused.
    pub fn record(&self, name: &[u8]) -> Result<File, Errno> {
        self.own_file(name, OFlags::RDWR)
    }

    /// Opens a file to lock, and makes it if it is missing. A symbolic link is refused. A read-only file system is no obstacle where
    /// the file is there, and no other user can open the file and lock it.
    pub fn lock_file(&self, name: &[u8]) -> Result<File, Errno> {
        self.own_file(name, OFlags::RDONLY)
    }

    fn own_file(&self, name: &[u8], flags: OFlags) -> Result<File, Errno> {
        let flags = flags | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        openat(self.0.as_fd(), name, flags, Mode::from_raw_mode(0o600)).map(File)
    }

    /// Opens the folder `name`, which a symbolic link is not, and makes it with this mode if it is not there.
    pub fn make_folder(&self, name: &[u8], mode: u32) -> Result<Folder, Errno> {
        let mode = Mode::from_raw_mode(mode);
        let made = make_folder(&self.0, name, mode);
        made.or_else(|e| if e == Errno::EXIST { Ok(()) } else { Err(e) })?;
        let folder = self.folder(name)?;
        if made.is_ok() {
            // Whatever the umask is.
            fchmod(&folder.0, mode)?;
        }
        Ok(folder)
    }

    /// Makes it somebody's.
    pub fn give(&self, to: &Access) -> Result<(), Errno> {
        give(self.0.as_fd(), to)
    }

    /// Removes a folder with nothing in it.
    pub fn remove_folder(&self, name: &[u8]) -> Result<(), Errno> {
        self.unlink(name, AtFlags::REMOVEDIR)
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};
    use std::path::PathBuf;

    /// A folder with a root in it, `secret` beside that, and files within.
    struct Tree(PathBuf);

    impl Tree {
        fn new(name: &str) -> Self {
            let top = std::env::temp_dir().join(format!("rdreport-file-{name}-{}", std::process::id()));
            fs::create_dir_all(top.join("root/a/b")).unwrap();
            fs::create_dir_all(top.join("root/run")).unwrap();
            fs::write(top.join("secret"), "outside").unwrap();
            fs::write(top.join("root/a/b/file"), "file").unwrap();
            Self(top)
        }

        fn root(&self) -> Root {
            Root::new(Some(self.0.join("root").to_str().unwrap().as_bytes())).unwrap()
        }

        fn link(&self, target: &str, at: &str) {
            let _ = fs::remove_file(self.0.join("root").join(at));
            symlink(target.replace("OUT", self.0.to_str().unwrap()), self.0.join("root").join(at)).unwrap();
        }

        fn read(&self, path: &str) -> Result<String, Errno> {
            self.root().read(path, &mut [0; 16]).map(|text| String::from_utf8(text.to_vec()).unwrap())
        }
    }

    impl Drop for Tree {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn links_and_dots_stay_below_the_root() {
        let tree = Tree::new("below");
        for path in
            ["a/b/file", "/a/b/file", "//a//./b/../b/file", "../../a/b/file", "a/../../a/b/file", "a/b/../../a/b/file"]
        {
            assert_eq!(tree.read(path), Ok("file".into()), "{path}");
        }
        for (target, at, path) in [
            ("b/file", "a/link", "a/link"),
            ("/a/b/file", "a/link", "a/link"),
            ("../../../../a/b/file", "a/link", "a/link"),
            ("/", "a/link", "a/link/a/b/file"),
            ("..", "a/b/link", "a/b/link/b/file"),
            ("../a", "link", "link/b/../b//file"),
            ("a/link", "link", "link/b/file"), // where a link leads on from the last one but three
        ] {
            tree.link(target, at);
            if target == "a/link" {
                tree.link("../a", "a/link");
            }
            assert_eq!(tree.read(path), Ok("file".into()), "{target} {path}");
        }
        for target in ["OUT/secret", "../secret", "../../secret", "/../secret", "a/../../secret"] {
            tree.link(target, "out");
            assert_eq!(tree.read("out"), Err(Errno::NOENT), "{target}");
        }
        tree.link("OUT", "out");
        assert_eq!(tree.read("out/secret"), Err(Errno::NOENT));
        assert_eq!(tree.read("a/b/file/x"), Err(Errno::NOTDIR));
        assert_eq!(tree.read("a/missing/file"), Err(Errno::NOENT));
    }

    #[test]
    fn links_without_an_end() {
        let tree = Tree::new("loop");
        tree.link("loop", "loop");
        tree.link("grow/grow", "grow");
        tree.link(&format!("{}a/b/file", "./".repeat(LINK_MAX)), "long");
        assert_eq!(tree.read("loop"), Err(Errno::LOOP));
        assert_eq!(tree.read("grow"), Err(Errno::LOOP));
        assert_eq!(tree.read("long"), Err(Errno::NAMETOOLONG));
    }

    #[test]
    fn what_is_created_or_lies_in_a_folder_is_never_reached_by_a_link() {
        let tree = Tree::new("nofollow");
        let root = tree.root();
        for target in ["OUT/secret", "OUT/new", "b/file"] {
            tree.link(target, "a/link");
            assert_eq!(root.append("a/link").err(), Some(Errno::LOOP), "{target}");
            assert_eq!(root.folder("a").unwrap().file(b"link").err(), Some(Errno::LOOP), "{target}");
        }
        // On the machine's own root as well.
        let real = Root::new(None).unwrap();
        assert_eq!(real.append(tree.0.join("root/a/link").to_str().unwrap()).err(), Some(Errno::LOOP));
        tree.link("OUT", "a/link");
        assert_eq!(root.folder("a").unwrap().folder(b"link").err(), Some(Errno::NOTDIR));
        assert!(!tree.0.join("new").exists());
        assert_eq!(fs::read(tree.0.join("secret")).unwrap(), b"outside");
    }

    #[test]
    fn a_pipe_is_no_file_and_nobody_waits_for_it() {
        let tree = Tree::new("pipe");
        let path = tree.0.join("root/a/pipe");
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        assert_eq!(tree.root().folder("a").unwrap().file(b"pipe").err(), Some(Errno::ISDIR));
        assert_eq!(tree.read("a/pipe"), Ok(String::new()));
    }

    #[test]
    fn a_folder_that_others_can_change_is_not_ours() {
        let tree = Tree::new("own");
        let (root, run) = (tree.root(), tree.0.join("root/run/rdreport"));
        assert_eq!(root.own_folder("run", "rdreport").err(), Some(Errno::NOENT));
        assert!(root.make_folder("run", "rdreport").is_ok() && root.own_folder("run", "rdreport").is_ok());
        for (mode, error) in [(0o757, Some(NOT_OURS)), (0o1777, Some(NOT_OURS)), (0o775, None), (0o700, None)] {
            fs::set_permissions(&run, fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(root.make_folder("run", "rdreport").err(), error, "{mode:o}");
            assert_eq!(root.own_folder("run", "rdreport").err(), error, "{mode:o}");
        }
        if geteuid().is_root() {
            for (mode, uid, gid, error) in
                [(0o755, 1, 0, Some(NOT_OURS)), (0o775, 0, 1, Some(NOT_OURS)), (0o755, 0, 1, None)]
            {
                fs::set_permissions(&run, fs::Permissions::from_mode(mode)).unwrap();
                chown(&run, Some(uid), Some(gid)).unwrap();
                assert_eq!(root.make_folder("run", "rdreport").err(), error, "{mode:o} {uid} {gid}");
            }
        }
        fs::remove_dir(&run).unwrap();
        tree.link("OUT", "run/rdreport");
        assert_eq!(root.make_folder("run", "rdreport").err(), Some(Errno::NOTDIR));
        tree.link("../a", "run/rdreport");
        assert_eq!(root.own_folder("run", "rdreport").err(), Some(Errno::NOTDIR));
    }
}
