//! The machine: how it ends, the modules of its kernel, and the keys of its console.

use crate::sys::file::{File, Root};
use crate::sys::time::Deadline;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::system::RebootCommand;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

/// `MODULE_INIT_COMPRESSED_FILE` (Linux' `module.h`, since 5.17).
const COMPRESSED: i32 = 4;

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
        let before = console.as_ref().and_then(|console| tcgetattr(console).ok());
        if let (Some(console), Some(before)) = (&console, &before) {
            let mut raw = before.clone();
            raw.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
            let _ = tcsetattr(console, OptionalActions::Flush, &raw);
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
            let _ = tcsetattr(&console, OptionalActions::Now, &before);
        }
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        self.restore();
    }
}
