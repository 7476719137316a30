//! Processes: arguments, children, signals, output, the end.

use crate::sys::file::{File, fill, put};
use crate::sys::sock;
use crate::sys::time::Deadline;
use alloc::vec::Vec;
use core::ffi::{CStr, c_char, c_int};
use core::ptr::null;
use core::sync::atomic::{AtomicI32, Ordering};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{
    Pid, Resource, Rlimit, Signal, WaitOptions, getpid, getppid, kill_process, set_parent_process_death_signal,
    setrlimit, waitpid,
};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};

unsafe extern "C" {
    fn fork() -> c_int;
    fn signal(number: c_int, handler: usize) -> usize;
    fn execve(path: *const c_char, arguments: *const *const c_char, environment: *const *const c_char) -> c_int;
    fn _exit(status: c_int) -> !;
    fn sigprocmask(how: c_int, set: *const SignalSet, old: *mut SignalSet) -> c_int;
    fn signalfd(fd: c_int, set: *const SignalSet, flags: c_int) -> c_int;
    fn __errno_location() -> *mut c_int;
    #[cfg(not(test))]
    fn abort() -> !;
}

/// `SIGPIPE` on every Linux architecture but none that Rust supports differs.
const SIGPIPE: c_int = 13;
/// `SIG_IGN` and `SIG_DFL`.
const IGNORE: usize = 1;
const DEFAULT: usize = 0;

/// `sigset_t` of every libc on 64-bit machines: 1024 bits, of which the first is signal 1.
#[repr(C)]
struct SignalSet([u64; 16]);

/// `SIG_BLOCK`.
const BLOCK: c_int = 0;
/// `SIG_SETMASK`.
const SET: c_int = 2;
/// No signal.
const NO_SIGNALS: SignalSet = SignalSet([0; 16]);
/// `SIGHUP` (1), `SIGINT` (2) and `SIGTERM` (15).
const ENDING: SignalSet = SignalSet([1 | 1 << 1 | 1 << 14, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
/// `SFD_CLOEXEC | SFD_NONBLOCK`.
const SIGNALFD_FLAGS: c_int = 0o2_000_000 | 0o4_000;

/// Whether somebody wants us to end (`SIGTERM`, `SIGINT`, `SIGHUP`), as something that can be waited for. From its making on, these
/// signals do not end this process by themselves any more, nor the children it makes.
pub struct Stop(Option<OwnedFd>);

impl Stop {
    /// Listens from now on.
    pub fn listen() -> Self {
        // SAFETY: both take a whole set, which lives as long as the program, and change nothing of ours; what `signalfd` gives is a
        // descriptor that nobody else owns.
        unsafe {
            let fd = signalfd(-1, &ENDING, SIGNALFD_FLAGS);
            if fd < 0 {
                // Without one the signals go on ending us at once.
                return Self(None);
            }
            sigprocmask(BLOCK, &ENDING, core::ptr::null_mut());
            Self(Some(OwnedFd::from_raw_fd(fd)))
        }
    }

    /// Never says so.
    pub fn none() -> Self {
        Self(None)
    }

    /// What becomes readable when it is said.
    #[cfg(feature = "follow")]
    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.0.as_ref().map(rustix::fd::AsFd::as_fd)
    }

    /// Whether it was said.
    pub fn is_asked(&self) -> bool {
        self.0.as_ref().is_some_and(|fd| wait_readable(fd, self, Deadline::after_ms(0)).is_some())
    }
}

/// The command's arguments, the program's own name left out.
#[derive(Clone, Copy)]
pub struct Args {
    count: usize,
    vector: *const *const c_char,
}

impl Args {
    /// Wraps what the C start-up code gave to `main`.
    ///
    /// # Safety
    /// `vector` holds `count` pointers to C strings that live as long as the process.
    pub unsafe fn new(count: c_int, vector: *const *const c_char) -> Self {
        Self { count: usize::try_from(count).unwrap_or(0), vector }
    }

    /// The argument at `index`; 0 is the first one after the program's name.
    pub fn at(self, index: usize) -> Option<&'static [u8]> {
        let index = index.checked_add(1).filter(|i| *i < self.count)?;
        // SAFETY: `index` is below the count that `new` was promised, and the strings live as long as the process.
        unsafe { Some(CStr::from_ptr(*self.vector.add(index)).to_bytes()) }
    }
}

/// A process that does one piece of work and says in a few words how it went.
pub struct Child {
    pid: Pid,
    words: OwnedFd,
}

/// How a child ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    /// By itself, with this status.
    Exit(u8),
    /// By this signal.
    Signal(i32),
    /// It was still running at the deadline, and was killed.
    Late,
    /// It was still running when this process was asked to end, and was killed.
    Stopped,
}

/// What a child says is written at once, so that it arrives whole (`PIPE_BUF`).
pub const WORDS_MAX: usize = 1024;

/// Milliseconds that a process may live behind its last word.
const LINGER_MS: u64 = 500;

/// Children that [`wait_for_end`] waits for at once.
pub const CHILDREN_MAX: usize = 31;

/// Words of a command.
const COMMAND_MAX: usize = 8;
/// What a shell gives when a program cannot be run.
const NOT_RUN: u8 = 127;

impl Child {
    /// Runs `work` in a copy of this process, which dies with this one. It gives an exit status, and the length of what it wrote into the
    /// buffer.
    pub fn spawn(work: &mut dyn FnMut(&mut [u8; WORDS_MAX]) -> (u8, usize)) -> Result<Self, Errno> {
        Self::start(PipeFlags::CLOEXEC, &mut |write| {
            let mut words = [0; WORDS_MAX];
            let (status, len) = work(&mut words);
            let _ = rustix::io::write(write, words.get(..len).unwrap_or_default());
            status
        })
    }

    /// The same for work that may say more than is written at once: [`Child::wait`] must be called for it to end.
    pub fn spawn_long(work: &mut dyn FnMut(&mut Vec<u8>) -> u8) -> Result<Self, Errno> {
        Self::start(PipeFlags::CLOEXEC, &mut |write| {
            let mut words = Vec::new();
            let status = work(&mut words);
            let _ = put(write.as_fd(), &words);
            status
        })
    }

    /// Runs the program `words[0]`, a path, with the others as its arguments and no environment; it dies with this process. It says
    /// nothing, and ends with 127 if it cannot be run.
    pub fn command(words: &[&CStr]) -> Result<Self, Errno> {
        // The program holds the pipe open until it ends.
        Self::execute(PipeFlags::empty(), words)
    }

    /// The same for a program that goes on in the background, where it outlives this process, once it has ended in the foreground: this is
    /// that end, and the program dies if it has not come by when that is waited for no longer.
    pub fn background(words: &[&CStr]) -> Result<Self, Errno> {
        Self::spawn(&mut |_| {
            // The pipe closes when it begins, and says nothing of its end.
            let status = Self::execute(PipeFlags::CLOEXEC, words).ok().and_then(|child| child.exit_status());
            (status.unwrap_or(NOT_RUN), 0)
        })
    }

    fn execute(flags: PipeFlags, words: &[&CStr]) -> Result<Self, Errno> {
        let mut vector = [null(); COMMAND_MAX + 1];
        for (slot, word) in vector.iter_mut().take(COMMAND_MAX).zip(words) {
            *slot = word.as_ptr();
        }
        Self::start(flags, &mut |_| {
            // SAFETY: the set is whole, and `SIG_DFL` a valid disposition. `vector` holds pointers to C strings, which live until this
            // returns, and null behind the last; so does the empty environment.
            unsafe {
                // What this process does not want to hear is not what the program does not.
                sigprocmask(SET, &NO_SIGNALS, core::ptr::null_mut());
                signal(SIGPIPE, DEFAULT);
                execve(*vector.first().unwrap_or(&null()), vector.as_ptr(), [null()].as_ptr())
            };
            NOT_RUN
        })
    }

    fn start(flags: PipeFlags, work: &mut dyn FnMut(&OwnedFd) -> u8) -> Result<Self, Errno> {
        let (read, write) = pipe_with(flags)?;
        let parent = getpid();
        // SAFETY: this process has one thread, so its copy finds no lock held by another.
        let pid = unsafe { fork() };
        match pid {
            0 => {
                close_unshared();
                drop(read);
                let _ = set_parent_process_death_signal(Some(Signal::KILL));
                if getppid() != Some(parent) {
                    // It was killed before it could be said that this is to be our end as well.
                    exit(u8::MAX);
                }
                exit(work(&write))
            }
            1.. => Pid::from_raw(pid).map(|pid| Self { pid, words: read }).ok_or(Errno::AGAIN),
            // SAFETY: the address of this thread's `errno`, which `fork` has just set.
            _ => Err(Errno::from_raw_os_error(unsafe { *__errno_location() })),
        }
    }

    /// Waits for its end, and kills it at the deadline, or when `stop` says so. What it said is put into `words`, which gives the length.
    pub fn wait(self, stop: &Stop, deadline: Deadline, words: &mut [u8]) -> (Ended, usize) {
        let mut len = 0;
        let mut killed = loop {
            let free = words.get_mut(len..).unwrap_or_default();
            match wait_readable(&self.words, stop, deadline) {
                None => break Some(Ended::Late),
                Some(Ready::Stop) => break Some(Ended::Stopped),
                Some(Ready::Words) => {}
            }
            match rustix::io::read(&self.words, free) {
                // It has closed the pipe, or says more than is wanted.
                Ok(0) => break None,
                Ok(n) => len = len.saturating_add(n),
                Err(Errno::INTR) => {}
                Err(_) => break None,
            }
        };
        if killed.is_some() {
            let _ = kill_process(self.pid, Signal::KILL);
        }
        let lingers = deadline.step_ms(LINGER_MS);
        let ended = loop {
            let options = if killed.is_some() { WaitOptions::empty() } else { WaitOptions::NOHANG };
            match waitpid(Some(self.pid), options) {
                // Whoever has nothing more to say ends at once, or is no process of ours any more.
                Ok(None) if lingers.passed() => {
                    killed = Some(Ended::Late);
                    let _ = kill_process(self.pid, Signal::KILL);
                }
                Ok(None) => sock::pause(Deadline::after_ms(1)),
                Ok(Some((_, status))) => {
                    break match (killed, status.exit_status(), status.terminating_signal()) {
                        (Some(ended), ..) => ended,
                        (None, Some(code), _) => Ended::Exit(u8::try_from(code).unwrap_or(u8::MAX)),
                        (None, None, signal) => Ended::Signal(signal.unwrap_or(0)),
                    };
                }
                Err(Errno::INTR) => {}
                _ => break Ended::Late,
            }
        };
        (ended, len)
    }

    /// Waits for its end, however long that takes, and gives its exit status; `None` if a signal ended it.
    fn exit_status(self) -> Option<u8> {
        loop {
            match waitpid(Some(self.pid), WaitOptions::empty()) {
                Ok(Some((_, status))) => return status.exit_status().and_then(|code| u8::try_from(code).ok()),
                Err(Errno::INTR) => {}
                _ => return None,
            }
        }
    }

    /// Whether it has ended, or at least can say no more.
    pub fn has_ended(&self) -> bool {
        sock::wait_for(&mut [PollFd::new(&self.words, PollFlags::empty())], Deadline::after_ms(0)) != 0
    }

    /// Waits until it has ended, or has said something, or `stop` says so, or `deadline` has come.
    pub fn listen(&self, stop: &Stop, deadline: Deadline) {
        wait_readable(&self.words, stop, deadline);
    }
}

/// Waits until one of `children`, of the first [`CHILDREN_MAX`], has ended, or `stop` says so, or `deadline` has come.
pub fn wait_for_end(children: &mut dyn Iterator<Item = &Child>, stop: &Stop, deadline: Deadline) {
    // Without events a pipe is ready once it was closed at the other end, and words in it wait.
    let children = children.take(CHILDREN_MAX).map(|child| PollFd::new(&child.words, PollFlags::empty()));
    let mut fds: heapless::Vec<PollFd<'_>, { CHILDREN_MAX + 1 }> = children.collect();
    if let Some(stop) = &stop.0 {
        // There is room for one more.
        let _ = fds.push(PollFd::new(stop, PollFlags::IN));
    }
    sock::wait_for(&mut fds, deadline);
}

/// Descriptors of the files that no child keeps open, or -1: a lock's, and that of the record that the lock is for.
static UNSHARED: [AtomicI32; 2] = [AtomicI32::new(-1), AtomicI32::new(-1)];

/// A file that a lock depends on, or that this process alone writes to: each child closes it first of all, so that the lock ends with this
/// process, and whoever takes a child over cannot write. There are two at a time; one more is shared.
pub struct Unshared(File);

impl Unshared {
    /// Keeps `file` from children that are made from now on.
    pub fn new(file: File) -> Self {
        let own = file.as_fd().as_raw_fd();
        let _ =
            UNSHARED.iter().any(|slot| slot.compare_exchange(-1, own, Ordering::Relaxed, Ordering::Relaxed).is_ok());
        Self(file)
    }

    /// The file.
    pub fn file(&self) -> &File {
        &self.0
    }
}

impl Drop for Unshared {
    fn drop(&mut self) {
        let own = self.0.as_fd().as_raw_fd();
        let _ =
            UNSHARED.iter().any(|slot| slot.compare_exchange(own, -1, Ordering::Relaxed, Ordering::Relaxed).is_ok());
    }
}

/// In a child: closes what belongs to its parent alone.
fn close_unshared() {
    for fd in UNSHARED.iter().map(|slot| slot.swap(-1, Ordering::Relaxed)).filter(|fd| *fd >= 0) {
        // SAFETY: the descriptor is this process' copy of the one in an `Unshared`, which a child neither uses nor drops: it ends by
        // `exit`.
        unsafe { rustix::io::close(fd) };
    }
}

/// What becomes readable when it says something, and when it ends.
#[cfg(feature = "follow")]
impl rustix::fd::AsFd for Child {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.words.as_fd()
    }
}

/// What [`wait_readable`] found.
enum Ready {
    Words,
    Stop,
}

/// Waits for one of two, of which the first is looked at first; `None` when the deadline came.
fn wait_readable(words: &OwnedFd, stop: &Stop, deadline: Deadline) -> Option<Ready> {
    let stop = stop.0.as_ref().unwrap_or(words);
    loop {
        let mut fds = [PollFd::new(words, PollFlags::IN), PollFd::new(stop, PollFlags::IN)];
        match poll(&mut fds, Some(&deadline.left())) {
            Err(Errno::INTR) => {}
            Err(_) | Ok(0) => return None,
            Ok(_) => {
                let [words, _] = fds;
                return Some(if words.revents().is_empty() { Ready::Stop } else { Ready::Words });
            }
        }
    }
}

/// Opens `/dev/null` in place of standard descriptors that are closed, so that what is printed never lands in a socket that got their
/// number.
pub fn claim_stdio() {
    let flags = OFlags::RDWR;
    while let Ok(fd) = openat(rustix::fs::CWD, c"/dev/null", flags, Mode::empty()) {
        if fd.as_raw_fd() > 2 {
            break;
        }
        core::mem::forget(fd);
    }
}

/// Puts `/dev/null` in place of the standard descriptors: for a process that has nothing to print, so that nobody who takes it over can.
pub fn leave_stdio() {
    if let Ok(null) = openat(rustix::fs::CWD, c"/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()) {
        let _ = (dup2_stdin(&null), dup2_stdout(&null), dup2_stderr(&null));
    }
}

/// Keeps this process from making any file longer than this; it dies where it tries (`SIGXFSZ`).
pub fn limit_file_size(bytes: u64) {
    let _ = setrlimit(Resource::Fsize, Rlimit { current: Some(bytes), maximum: Some(bytes) });
}

/// Standard output or standard error.
pub struct Output(BorrowedFd<'static>);

impl Output {
    /// Standard output.
    pub fn stdout() -> Self {
        // SAFETY: `claim_stdio` has opened the three descriptors, and nothing closes them.
        Self(unsafe { rustix::stdio::stdout() })
    }

    /// Standard error.
    pub fn stderr() -> Self {
        Self(stderr())
    }
}

impl Output {
    /// Writes all of `bytes` once something can be written, or nothing if that is not so by `deadline`: a terminal whose flow is stopped, or
    /// a pipe that nobody reads, must not hold us up.
    pub fn write_by(&mut self, bytes: &[u8], deadline: Deadline) -> Result<(), Errno> {
        loop {
            match poll(&mut [PollFd::new(&self.0, PollFlags::OUT)], Some(&deadline.left())) {
                Err(Errno::INTR) => {}
                Ok(0) => return Err(Errno::AGAIN),
                _ => return self.write_all(bytes),
            }
        }
    }

    /// Writes all of `bytes`.
    pub fn write_all(&mut self, bytes: &[u8]) -> Result<(), Errno> {
        put(self.0, bytes)
    }
}

/// Standard error's descriptor.
pub(super) fn stderr() -> BorrowedFd<'static> {
    // SAFETY: as for standard output.
    unsafe { rustix::stdio::stderr() }
}

/// Reads standard input until its end or until `buf` is full.
pub fn read_stdin(buf: &mut [u8]) -> Result<usize, Errno> {
    // SAFETY: as for standard output.
    fill(unsafe { rustix::stdio::stdin() }, buf)
}

/// A closed pipe or socket becomes an error instead of the end of the process.
pub fn ignore_sigpipe() {
    // SAFETY: SIG_IGN is a valid disposition, and no handler of ours is replaced.
    unsafe { signal(SIGPIPE, IGNORE) };
}

/// Ends the process with `status`; nothing is run at exit.
pub fn exit(status: u8) -> ! {
    // SAFETY: takes any status and does not return.
    unsafe { _exit(status.into()) }
}

/// Ends the process for a defect of our own.
#[cfg(not(test))]
pub fn die() -> ! {
    // SAFETY: does not return.
    unsafe { abort() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_may_take_its_time_to_go_into_the_background() {
        let slow = Child::background(&[c"/bin/sh", c"-c", c"sleep 1; exit 3"]).unwrap();
        assert_eq!(slow.wait(&Stop::none(), Deadline::after_ms(30_000), &mut [0; 8]).0, Ended::Exit(3));
    }
}
