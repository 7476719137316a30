//! Files and folders below a root (`--root`), read with buffers that the caller sized.

use core::mem::MaybeUninit;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{
    FileType, FlockOperation, Mode, OFlags, RawDir, ResolveFlags, flock, fstat, ftruncate, mkdirat, openat, openat2,
};
use rustix::io::Errno;

/// Bytes of folder entries asked of the kernel at once: a few dozen names.
const DIR_BUFFER: usize = 2048;

/// The folder that every path is below: `/`, or what `--root` named.
pub struct Root {
    dir: OwnedFd,
    is_real: bool,
}

/// An open file.
pub struct File(OwnedFd);

/// An open folder.
pub struct Folder(OwnedFd);

impl Root {
    /// Opens the folder at `path`; `None` is `/`.
    pub fn new(path: Option<&[u8]>) -> Result<Self, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = openat(rustix::fs::CWD, path.unwrap_or(b"/"), flags, Mode::empty())?;
        Ok(Self { dir, is_real: path.is_none() })
    }

    /// Opens a file for reading. A leading `/` means this root; with `--root`, symbolic links cannot lead out of it.
    pub fn file(&self, path: impl AsRef<[u8]>) -> Result<File, Errno> {
        // O_NONBLOCK: a FIFO or a device in place of a file must not hold us up.
        self.open(path.as_ref(), OFlags::RDONLY | OFlags::NONBLOCK).map(File)
    }

    /// What is at `path`, without opening it: for a socket.
    pub fn node(&self, path: impl AsRef<[u8]>) -> Result<File, Errno> {
        self.open(path.as_ref(), OFlags::PATH).map(File)
    }

    /// Opens a file for appending, and makes it if it is missing.
    pub fn append(&self, path: impl AsRef<[u8]>) -> Result<File, Errno> {
        self.open(path.as_ref(), OFlags::RDWR | OFlags::APPEND | OFlags::CREATE | OFlags::NONBLOCK).map(File)
    }

    /// Makes a folder and those above it, if they are missing.
    pub fn make_folders(&self, path: &[u8]) -> Result<(), Errno> {
        let ends = path.iter().enumerate().filter(|(_, b)| **b == b'/').map(|(at, _)| at).chain([path.len()]);
        for end in ends {
            let folder = path.get(..end).unwrap_or_default();
            let slash = folder.iter().rposition(|b| *b == b'/').map_or(0, |at| at.saturating_add(1));
            let (above, name) = folder.split_at_checked(slash).unwrap_or_default();
            if name.is_empty() {
                continue;
            }
            match mkdirat(&self.folder(above)?.0, name, Mode::from_raw_mode(0o755)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
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

    fn open(&self, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
        let flags = flags | OFlags::CLOEXEC;
        let first = path.iter().position(|b| *b != b'/').unwrap_or(path.len());
        let relative = match path.get(first..) {
            Some(b"") | None => b".",
            Some(rest) => rest,
        };
        let mode = if flags.contains(OFlags::CREATE) { Mode::from_raw_mode(0o644) } else { Mode::empty() };
        if !self.is_real {
            match openat2(&self.dir, relative, flags, mode, ResolveFlags::IN_ROOT) {
                Err(Errno::NOSYS) => {} // before Linux 5.6
                opened => return opened,
            }
        }
        openat(&self.dir, relative, flags, mode)
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

    /// Makes it empty.
    pub fn clear(&self) -> Result<(), Errno> {
        ftruncate(&self.0, 0)
    }

    /// Writes all of `bytes`.
    pub fn write_all(&self, bytes: &[u8]) -> Result<(), Errno> {
        let mut rest = bytes;
        while !rest.is_empty() {
            match rustix::io::write(&self.0, rest) {
                Ok(n) => rest = rest.get(n..).unwrap_or_default(),
                Err(Errno::INTR) => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
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
    /// Goes back to the beginning, for [`File::read`].
    pub fn rewind(&self) -> Result<(), Errno> {
        rustix::fs::seek(&self.0, rustix::fs::SeekFrom::Start(0)).map(drop)
    }
}

impl Folder {
    /// Opens a file in this folder for reading.
    pub fn file(&self, name: &[u8]) -> Result<File, Errno> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        openat(&self.0, name, flags, Mode::empty()).map(File)
    }

    /// Opens a folder in this folder.
    pub fn folder(&self, name: &[u8]) -> Result<Folder, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        openat(&self.0, name, flags, Mode::empty()).map(Folder)
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
