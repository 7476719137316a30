//! A journal sink that is a device or a file of this machine (`file:/dev/virtio-ports/…`), as Fedora CoreOS' test harness kola reads it:
//! JSON, an object a line, none of them longer than a reader with a buffer of 64 KiB takes, and `{}` when all is said.

use crate::delivery::JournalBody;
use crate::encode::Format;
use crate::error::Error;
use crate::http::client::{Body, Outcome, Taken};
use crate::sink::Sink;
use crate::sys::Errno;
use crate::sys::file::{File, Root};
use crate::sys::sock::{self, Ready};
use crate::sys::time::Deadline;
use alloc::vec::Vec;

/// Bytes of the longest line, its end included: kola's reader gives up at 65,536, and virtio adds to them.
const LINE_MAX: usize = 64_768;
/// Milliseconds after which a device that another process has open is tried again.
const BUSY_MS: u64 = 100;
/// In place of an entry that does not fit even without its long fields.
const TOO_LONG: &[u8] = b"{\"MESSAGE\":\"an entry was left out: it is longer than a line may be\"}\n";

/// The device of a sink, opened before the process gives up its rights to open any. A virtio port is one process' at a time; until
/// `deadline` it is waited for.
pub fn open(root: &Root, path: &str, deadline: Deadline) -> Result<File, Error> {
    loop {
        match root.output(path) {
            Err(Errno::BUSY) if !deadline.passed() => {
                sock::wait(&mut core::iter::empty(), Ready::In, deadline.step_ms(BUSY_MS));
            }
            opened => return opened.map_err(Error::Output),
        }
    }
}

/// Writes the journal to it, as far as it is taken until `deadline`; and, unless more follows, the end.
pub fn journal(device: &File, body: &mut JournalBody<'_>, is_end: bool, deadline: Deadline) -> Result<Outcome, Error> {
    let is_lines = body.format == Format::JsonLines;
    let line = if is_lines { Vec::with_capacity(LINE_MAX) } else { Vec::new() };
    let mut out = Lines { device, deadline, is_lines, line, is_cut: false, sent: 0 };
    body.write(&mut out)?;
    if is_lines && is_end {
        out.put(b"{}\n")?;
    }
    Ok(Outcome { status: 0, sent: out.sent, kept: 0, taken: Taken::Whole })
}

struct Lines<'a> {
    device: &'a File,
    deadline: Deadline,
    /// Whether lines are kept until they are whole.
    is_lines: bool,
    line: Vec<u8>,
    is_cut: bool,
    sent: u64,
}

impl Lines<'_> {
    fn send(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let written = self.device.write(bytes, self.deadline);
        written.map_err(|e| Error::Output(if e == Errno::AGAIN { Errno::TIMEDOUT } else { e }))?;
        self.sent = self.sent.saturating_add(bytes.len() as u64);
        Ok(())
    }
}

impl Sink for Lines<'_> {
    fn put(&mut self, bytes: &[u8]) -> Result<(), Error> {
        if !self.is_lines {
            return self.send(bytes);
        }
        for part in bytes.split_inclusive(|b| *b == b'\n') {
            self.is_cut |= part.len() > LINE_MAX.saturating_sub(self.line.len());
            if !self.is_cut {
                self.line.extend_from_slice(part);
            }
            if part.ends_with(b"\n") {
                let line = core::mem::take(&mut self.line);
                self.send(if self.is_cut { TOO_LONG } else { &line })?;
                self.line = line;
                self.line.clear();
                self.is_cut = false;
            }
        }
        Ok(())
    }
}
