//! A server that says any bytes, at any moment of the request, in pieces of any size: the client ends, an answer that it takes is one,
//! and what it makes of an answer does not depend on the pieces.
//!
//! The input: a byte of options, the size of pieces, how many bytes are heard before the server speaks and before it goes deaf (16 bits
//! each, little endian, in units of 8 bytes), and what it says.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rdreport::error::{Error, NetError};
use rdreport::http::client::{Body, Heard, Keep, Outcome, Taken, Whole, exchange, resolve};
use rdreport::http::head::Fields;
use rdreport::http::url::{Url, UrlText};
use rdreport::net::Transport;
use rdreport::sink::Sink;
use rdreport::sys::time::Deadline;

/// Calls of `recv` that a client may make for what the server says: it says at most 64 KiB, and each call gives a byte or the end.
const RECV_MAX: usize = 70_000;

struct Script<'a> {
    says: &'a [u8],
    piece: usize,
    speaks_after: usize,
    deaf_after: usize,
    heard: usize,
    received: usize,
}

impl Transport for Script<'_> {
    fn send(&mut self, bytes: &[u8], _: Deadline) -> Result<(), Error> {
        self.heard += bytes.len();
        match self.heard > self.deaf_after {
            true => Err(NetError::PeerSpoke.into()),
            false => Ok(()),
        }
    }

    fn recv(&mut self, buf: &mut [u8], _: Deadline) -> Result<usize, Error> {
        assert!(!buf.is_empty());
        self.received += 1;
        assert!(self.received < RECV_MAX);
        let len = self.says.len().min(buf.len()).min(self.piece);
        let (now, later) = self.says.split_at(len);
        buf[..len].copy_from_slice(now);
        self.says = later;
        Ok(len)
    }

    fn readable(&mut self) -> bool {
        self.heard >= self.speaks_after
    }

    fn finish(&mut self) {}
}

/// A body whose length is told or not.
struct Given(usize, bool);

impl Body for Given {
    fn length(&self) -> Option<u64> {
        self.1.then_some(self.0 as u64)
    }

    fn write(&mut self, out: &mut dyn Sink) -> Result<(), Error> {
        (0..self.0 / 100).try_for_each(|_| out.put(&[b'x'; 100]))?;
        out.put(&[b'y'; 100][..self.0 % 100])
    }
}

/// An answer's whole body.
struct Kept(Vec<u8>);

impl Sink for Kept {
    fn put(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }
}

impl Whole for Kept {
    fn restart(&mut self) -> Result<(), Error> {
        self.0.clear();
        Ok(())
    }
}

/// What came of an exchange: how it ended, the answer's body, and where it leads.
type Ended = (Result<Outcome, Error>, Vec<u8>, UrlText);

fn run(mut peer: Script<'_>, body: Given, is_whole: bool) -> Ended {
    let url = Url::parse("http://u:p@h:81/a/b?c").unwrap();
    let fields = Fields {
        content_type: None,
        gzip: false,
        length: body.length(),
        report_id: "id",
        part: None,
        own: b"A: b\r\n",
    };
    let (mut keep, mut heard, mut body) = ([0; 1000], Heard::default(), body);
    let sent = body.0 as u64;
    let deadline = Deadline::after_ms(60_000);
    let (mut taken, said) = (Kept(Vec::new()), peer.says.len());
    let mut keeps = if is_whole { Keep::All(&mut taken) } else { Keep::Start(&mut keep, 0) };
    let ended = exchange(&mut peer, "POST", &url, None, &fields, &mut body, &mut keeps, deadline, &mut heard);
    assert!(taken.0.len() <= said);
    if let Ok(outcome) = ended {
        assert!(matches!(outcome.status, 200..=299 | 307 | 308));
        assert!(outcome.kept <= keep.len() && outcome.sent <= sent);
        assert!(outcome.status >= 300 || outcome.sent == sent || matches!(outcome.taken, Taken::Part(_)));
        if outcome.status >= 300 {
            let _ = resolve(&url, &heard.location).map(|url| Url::parse(&url).is_ok());
        }
    }
    let kept = ended.map_or(0, |outcome| outcome.kept);
    let answer = if is_whole && ended.is_ok() { taken.0 } else { keep[..kept].to_vec() };
    (ended, answer, heard.location)
}

fuzz_target!(|input: &[u8]| {
    let Some(([options, piece, a, b, c, d], says)) = input.split_first_chunk() else { return };
    let units = |low: &u8, high: &u8| 8 * usize::from(u16::from_le_bytes([*low, *high]));
    let body = || Given(if options & 1 == 0 { 5 } else { 100_000 }, options & 2 == 0);
    let piece = usize::from(*piece).max(1);
    let script =
        |piece, speaks_after, deaf_after| Script { says, piece, speaks_after, deaf_after, heard: 0, received: 0 };
    let _ = run(script(piece, units(a, b), units(c, d)), body(), options & 4 != 0);
    let late = |piece| run(script(piece, usize::MAX, usize::MAX), body(), options & 4 != 0);
    assert_eq!(late(piece), late(usize::MAX));
});
