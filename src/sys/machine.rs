//! The machine: how it ends, the modules of its kernel, and the keys of its console.

use crate::sys::file::{File, Root};
use crate::sys::time::Deadline;
use core::ffi::c_int;
use linux_raw_sys::general::{ECHO, ICANON};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, AsRawFd};
use rustix::io::Errno;
use rustix::system::RebootCommand;

/// A libc's `struct termios`: four words of flags, the local ones last, and 44 bytes that stay as they are. (rustix' own takes 2 KB of
/// code: it knows speeds.)
type Termios = [u32; 16];
/// Which of the words holds the local flags.
const LOCAL: usize = 3;
/// `TCSANOW` and `TCSAFLUSH`.
const NOW: c_int = 0;
const FLUSH: c_int = 2;

unsafe extern "C" {
    fn tcgetattr(fd: c_int, termios: *mut Termios) -> c_int;
    fn tcsetattr(fd: c_int, when: c_int, termios: *const Termios) -> c_int;
}

/// `MODULE_INIT_COMPRESSED_FILE` (Linux' `module.h`, since 5.17).
const COMPRESSED: i32 = 4;

/// Whether this is an initramfs: what takes over from one removes its files.
pub fn is_initramfs(root: &Root) -> bool {
    ["init", "etc/initrd-release"].iter().any(|path| root.node(path).is_ok())
}

/// Restarts the machine at once; returns only with the reason why it did not.
pub fn restart() -> Result<(), Errno> {
    rustix::system::reboot(RebootCommand::Restart)
}

/// Powers it off at once, likewise.
pub fn power_off() -> Result<(), Errno> {
    rustix::system::reboot(RebootCommand::PowerOff)
}

/// Writes out what file systems hold. Takes as long as the slowest disk.
pub fn sync() {
    rustix::fs::sync();
}

/// Loads a module into the kernel, which unpacks it if it `is_compressed`.
pub fn load_module(file: &File, is_compressed: bool) -> Result<(), Errno> {
    rustix::system::finit_module(file, c"", if is_compressed { COMPRESSED } else { 0 })
}

/// The keys of the console, each seen as it is pressed; without one, none ever is.
pub struct Keys {
    console: Option<File>,
    before: Option<Termios>,
}

impl Keys {
    /// Begins to listen. What was typed before does not count.
    pub fn new(root: &Root) -> Self {
        let console = root.file("dev/console").ok();
        let before = console.as_ref().and_then(mode);
        if let (Some(console), Some(before)) = (&console, &before) {
            let mut raw = *before;
            raw[LOCAL] &= !(ICANON | ECHO);
            set_mode(console, FLUSH, &raw);
        }
        // What is no terminal has no keys.
        Self { console: console.filter(|_| before.is_some()), before }
    }

    /// No keys: to wait alone.
    pub fn none() -> Self {
        Self { console: None, before: None }
    }

    /// Waits until `deadline` for a key; gives whether there was one.
    pub fn pressed(&mut self, deadline: Deadline) -> bool {
        loop {
            let ready = match &self.console {
                Some(console) => poll(&mut [PollFd::new(console, PollFlags::IN)], Some(&deadline.left())),
                None => poll(&mut [], Some(&deadline.left())),
            };
            match ready {
                Err(Errno::INTR) => continue,
                Ok(0) => return false,
                _ => {}
            }
            if self.console.as_ref().is_some_and(|console| console.read(&mut [0; 16]).is_ok_and(|len| len > 0)) {
                return true;
            }
            // It was hung up.
            self.restore();
        }
    }

    fn restore(&mut self) {
        if let (Some(console), Some(before)) = (self.console.take(), self.before.take()) {
            set_mode(&console, NOW, &before);
        }
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        self.restore();
    }
}

/// The mode of a terminal, if it is one.
fn mode(terminal: &File) -> Option<Termios> {
    let mut termios = [0; 16];
    // SAFETY: the descriptor is open, and there is room for the 60 bytes that the libc writes.
    let got = unsafe { tcgetattr(terminal.as_fd().as_raw_fd(), &mut termios) };
    (got == 0).then_some(termios)
}

fn set_mode(terminal: &File, when: c_int, termios: &Termios) {
    // SAFETY: the descriptor is open, and the mode is one that `tcgetattr` gave, but for its flags.
    unsafe { tcsetattr(terminal.as_fd().as_raw_fd(), when, termios) };
}
