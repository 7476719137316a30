//! Asks journald to write what it holds, so that a line logged just before is in its files.
//!
//! Specification: varlink.org, "Protocol" (a JSON object and a NUL each way); systemd's
//! `io.systemd.Journal.varlink`, method `Synchronize`.

use crate::sys::file::Root;
use crate::sys::sock::{Ready, Socket, wait};
use crate::sys::time::Deadline;

/// journald's socket.
const SOCKET: &str = "run/systemd/journal/io.systemd.journal";
const CALL: &[u8] = b"{\"method\":\"io.systemd.Journal.Synchronize\"}\0";

/// Waits until journald has written what it held, or until `deadline`. Returns whether journald
/// confirmed it.
///
/// Without journald, there is nothing to wait for. Before systemd 241, journald has no such socket.
pub fn sync(root: &Root, deadline: Deadline) -> bool {
    let Ok(socket) = root.node(SOCKET).and_then(|node| Socket::unix(&node)) else { return false };
    // The call is shorter than any socket's buffer.
    if socket.send(CALL) != Ok(CALL.len()) {
        return false;
    }
    let mut answer = Answer::default();
    let mut buf = [0; 256];
    loop {
        if wait(&mut core::iter::once(&socket), Ready::In, deadline) == 0 {
            return false;
        }
        let Ok(len @ 1..) = socket.recv(&mut buf) else { return false };
        if let Some(is_done) = answer.push(buf.get(..len).unwrap_or_default()) {
            return is_done;
        }
    }
}

/// A reply: `{"parameters":{}}`, or an object with an `"error"`. It may be cut anywhere; nothing
/// else in it matters.
#[derive(Default)]
struct Answer {
    /// Number of bytes of the word `"error"` that were seen. Once complete, the match stays.
    matched: usize,
}

impl Answer {
    const ERROR: &[u8; 7] = b"\"error\"";

    /// Takes a piece. At the end of the reply, returns whether it is free of errors.
    fn push(&mut self, piece: &[u8]) -> Option<bool> {
        for byte in piece {
            if *byte == 0 {
                return Some(self.matched < Self::ERROR.len());
            }
            self.matched = match Self::ERROR.get(self.matched) {
                None => self.matched,
                Some(next) if next == byte => self.matched.saturating_add(1),
                Some(_) => usize::from(*byte == b'"'),
            };
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::tests::Folder;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixListener;

    fn synced(answer: Option<&'static [u8]>) -> bool {
        let folder = Folder::new();
        folder.write(SOCKET, b"");
        let path = folder.path().join(SOCKET);
        std::fs::remove_file(&path).unwrap();
        let listener = UnixListener::bind(&path).unwrap();
        let (ended, end) = std::sync::mpsc::channel::<()>();
        let server = std::thread::spawn(move || {
            let (mut peer, _) = listener.accept().unwrap();
            let mut call = vec![0; CALL.len()];
            peer.read_exact(&mut call).unwrap();
            assert_eq!(call, CALL);
            match answer {
                Some(answer) => answer.chunks(4).for_each(|part| peer.write_all(part).unwrap()),
                // The socket is open and silent, until the other side gives up.
                None => drop(end.recv()),
            }
        });
        let is_synced = sync(&folder.root(), Deadline::after_ms(if answer.is_some() { 10_000 } else { 100 }));
        drop(ended);
        server.join().unwrap();
        is_synced
    }

    #[test]
    fn waits_for_the_answer() {
        assert!(synced(Some(b"{\"parameters\":{}}\0")));
        assert!(!synced(Some(b"{\"error\":\"x\"}\0")));
        assert!(!synced(Some(b"{\"param")));
        assert!(!synced(None));
    }

    #[test]
    fn an_answer_may_be_cut_anywhere() {
        for (whole, is_done) in [
            (&b"{\"parameters\":{}}\0"[..], true),
            (b"{\"error\":\"x\"}\0", false),
            (b"{\"a\":\"err\",\"\"error\":0}\0", false),
            (b"{\"errors\":\"error\0", true),
            (b"{\"error\":1}", false),
        ] {
            for cut in 0..whole.len() {
                let mut answer = Answer::default();
                assert_eq!(answer.push(&whole[..cut]), None);
                let expected = Some(is_done).filter(|_| whole.ends_with(b"\0"));
                assert_eq!(answer.push(&whole[cut..]), expected, "{cut}");
            }
        }
    }

    #[test]
    fn without_journald_nothing_is_waited_for() {
        let folder = Folder::new();
        assert!(!sync(&folder.root(), Deadline::after_ms(10_000)));
        folder.write(SOCKET, b"no socket");
        assert!(!sync(&folder.root(), Deadline::after_ms(10_000)));
    }
}
