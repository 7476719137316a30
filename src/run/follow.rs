//! The journal sent while it grows: to each sink what it has not got yet, in parts, as soon as there is something.
//!
//! What a sink has is a place in the journal ([`Positions`]), which moves on when a part was delivered. Each part is sent by a process of
//! its own, a copy of this one for which the journal was opened: none of them grows, and one that dies takes nothing with it. A part that
//! was not delivered is made again, with what has come meanwhile.

use crate::delivery::{DELIVERED, UNDELIVERED};
use crate::error::{Error, JournalError};
use crate::explain;
use crate::http::client::{Heard, Outcome};
use crate::http::retry;
use crate::journal::files::{Journal, PLACES};
use crate::journal::position::{POSITIONS_LEN, Positions};
use crate::journal::source::Source;
use crate::journal::sync;
use crate::sys::Errno;
use crate::sys::file::Root;
use crate::sys::process::{self, Child, Ended, Stop, WORDS_MAX};
use crate::sys::sandbox::{self, Reach};
use crate::sys::time::Deadline;
use crate::sys::watch::{CHANGE, STOP, Watch};
use crate::text::Text;
use alloc::vec::Vec;

/// Milliseconds between the first change and the part that it goes with: what is logged comes in bursts, and a part costs a connection.
const GATHER_MS: u64 = 500;
/// Milliseconds after which the journal is looked at though nobody told of a change; and before there is one.
const TICK_MS: (u64, u64) = (5_000, 1_000);
/// Milliseconds for a part: on a slow line the first one, the journal until then, takes long. Without a network yet it is waited for.
const PART_MS: u64 = 300_000;
/// The same of a device, which may be read by nobody for long. What it took of a part cannot be taken back.
const DEVICE_MS: u64 = 86_400_000;
/// Milliseconds that a process has beyond its deadline.
const GRACE_MS: u64 = 500;
/// Milliseconds from being told to end until the last parts are through, so that all is over within a second.
const END_MS: u64 = 800;
/// Milliseconds of these that journald is given to write what it holds.
const SYNC_MS: u64 = 150;
/// How much longer than after an error that may pass the next try is waited for.
const REFUSED_FACTOR: u64 = 4;
/// Longest time that a server may ask to be left alone for, in seconds.
const ASKED_MAX_S: u32 = 600;

/// Exit status of a process whose error will not pass by itself.
const REFUSED: u8 = 2;
/// Exit status of a process that found nothing new.
const NOTHING: u8 = 3;
/// Milliseconds for looking whether there is something new, and at the end. Where that is not enough, something may be.
const LOOK_MS: (u64, u64) = (2_000, 100);

/// Where journald takes messages: there will be files, and the kernel's log will be in them.
const JOURNALD: &str = "run/systemd/journal/socket";

/// A part of the journal, for the process that sends it.
pub struct Part {
    /// Counted from 1; the same again if it was not delivered.
    pub number: u64,
    /// The end of its try.
    pub deadline: Deadline,
    /// Whether no further one comes.
    pub is_last: bool,
}

/// One sink, and how far it is.
pub struct Follower {
    is_device: bool,
    /// What it has.
    at: Positions,
    parts: u64,
    entries: u64,
    under_way: Option<UnderWay>,
    /// Whether there may be more for it, and when that is looked for.
    is_due: bool,
    due: Deadline,
    /// Failures since a part was delivered.
    failures: u32,
    is_down: bool,
    /// Whether its last part was begun, and whether nothing is left.
    is_last: bool,
    is_whole: bool,
}

/// A part whose process has not ended.
struct UnderWay {
    child: Child,
    begun: Deadline,
    deadline: Deadline,
}

/// What sends a part to the sink of a number.
pub type Send<'s> = dyn FnMut(usize, &Part, Journal, &mut Positions, &mut Vec<u8>) -> u8 + 's;

impl Follower {
    /// A sink that has nothing yet; a device is told the end.
    pub fn new(is_device: bool) -> Self {
        Self {
            is_device,
            at: Positions::default(),
            parts: 0,
            entries: 0,
            under_way: None,
            is_due: true,
            due: Deadline::after_ms(0),
            failures: 0,
            is_down: false,
            is_last: false,
            is_whole: false,
        }
    }

    fn wants(&self, is_end: bool) -> bool {
        self.under_way.is_none() && if is_end { !self.is_last } else { self.is_due && self.due.passed() }
    }

    /// When it wants to be looked at.
    fn next(&self) -> Option<Deadline> {
        match &self.under_way {
            Some(under_way) => Some(under_way.deadline.later_ms(GRACE_MS)),
            None => Some(self.due).filter(|_| self.is_due),
        }
    }

    fn look(&mut self, after_ms: u64) {
        if !self.is_due {
            self.is_due = true;
            self.due = self.due.max(Deadline::after_ms(after_ms));
        }
    }

    /// Begins a part with what is new, for the destination of this number.
    fn begin(
        &mut self,
        number: usize,
        root: &Root,
        journal: &mut Journal,
        end: Option<Deadline>,
        send: &mut Send<'_>,
    ) -> Result<(), Errno> {
        (self.is_due, self.is_whole) = (false, false);
        self.is_last = end.is_some();
        let begun = Deadline::after_ms(0);
        let deadline = begun.later_ms(if self.is_device { DEVICE_MS } else { PART_MS });
        let deadline = end.map_or(deadline, |end| deadline.min(end));
        let part = Part { number: self.parts.saturating_add(1), deadline, is_last: self.is_last };
        let at = &mut self.at;
        let child = Child::spawn_long(&mut |out| send(number, &part, journal.take(root), at, out));
        self.under_way = Some(UnderWay { child: child?, begun, deadline });
        Ok(())
    }

    /// Takes note of how a part has ended.
    fn end(&mut self, under_way: UnderWay, tell: &mut dyn FnMut(Event<'_>)) {
        let mut answer = [0; ANSWER_MAX];
        let UnderWay { child, begun, .. } = under_way;
        let (ended, len) = child.wait(&Stop::none(), Deadline::after_ms(GRACE_MS), &mut answer);
        let (said, tail) = parts_of(answer.get(..len).unwrap_or_default());
        match ended {
            Ended::Exit(NOTHING) => self.is_whole = true,
            Ended::Exit(DELIVERED) => {
                self.at = Positions::from_bytes(tail.positions);
                self.parts = self.parts.saturating_add(1);
                self.entries = self.entries.saturating_add(tail.entries);
                self.failures = 0;
                self.is_whole = true;
                if core::mem::take(&mut self.is_down) {
                    tell(Event::Up);
                }
            }
            _ => {
                self.fail(begun, if ended == Ended::Exit(REFUSED) { REFUSED_FACTOR } else { 1 });
                let asked_s = tail.asked_s.min(ASKED_MAX_S);
                self.due = self.due.max(Deadline::after_ms(u64::from(asked_s).saturating_mul(1000)));
                self.tell_down(Ok(ended), core::str::from_utf8(said).unwrap_or_default(), tell);
            }
        }
    }

    fn fail(&mut self, begun: Deadline, factor: u64) {
        self.failures = self.failures.saturating_add(1);
        self.is_due = true;
        // From its beginning: whatever it waited for need not be waited for again.
        self.due = begun.later_ms(retry::backoff_ms(self.failures).saturating_mul(factor));
    }

    fn tell_down(&mut self, ended: Result<Ended, Errno>, said: &str, tell: &mut dyn FnMut(Event<'_>)) {
        if !core::mem::replace(&mut self.is_down, true) {
            tell(Event::Down(ended, said));
        }
    }
}

/// Bytes behind the words of a part's process and the places in the journal where it ended: how many bytes these are, the entries sent, and
/// the seconds that the server asked for.
const TAIL: usize = 2 + 8 + 4;
/// Bytes of all that it says.
const ANSWER_MAX: usize = WORDS_MAX + POSITIONS_LEN + TAIL;

/// What a part's process says beside its words. It is only passed on: nobody but the next one looks into the positions.
#[derive(Default)]
struct Tail<'a> {
    positions: &'a [u8],
    entries: u64,
    asked_s: u32,
}

/// Adds to the words of a part's process what else it says; returns its exit status.
pub fn answer(
    result: &Result<Outcome, Error>,
    heard: &Heard,
    positions: &Positions,
    key_lines: u8,
    entries: u64,
    out: &mut Vec<u8>,
) -> u8 {
    let mut buf = [0; POSITIONS_LEN];
    let len = positions.end_to_bytes(key_lines, &mut buf).min(POSITIONS_LEN);
    out.extend_from_slice(buf.get(..len).unwrap_or_default());
    out.extend_from_slice(&(len as u16).to_le_bytes());
    out.extend_from_slice(&entries.to_le_bytes());
    out.extend_from_slice(&u32::try_from(heard.retry_after_s.unwrap_or(0)).unwrap_or(u32::MAX).to_le_bytes());
    match result {
        Ok(_) => DELIVERED,
        Err(Error::Journal(JournalError::None)) => NOTHING,
        Err(e) if retry::is_transient(*e) => UNDELIVERED,
        Err(_) => REFUSED,
    }
}

/// Takes apart what such a process has said; nothing of it is there if it died.
fn parts_of(said: &[u8]) -> (&[u8], Tail<'_>) {
    let parts = || {
        let (rest, asked) = said.split_last_chunk()?;
        let (rest, entries) = rest.split_last_chunk()?;
        let (rest, len) = rest.split_last_chunk()?;
        let (words, positions) = rest.split_at_checked(rest.len().checked_sub(u16::from_le_bytes(*len).into())?)?;
        let (entries, asked_s) = (u64::from_le_bytes(*entries), u32::from_le_bytes(*asked));
        Some((words, Tail { positions, entries, asked_s }))
    };
    parts().unwrap_or_default()
}

/// What a look at the journal found.
struct News {
    /// Bit n: there may be something new for the nth follower.
    bits: u32,
    is_log: bool,
    /// Whether there is no journal yet, or that cannot be told.
    none: Option<JournalError>,
}

/// Looks whether there is something new: in a process of its own, which has given up its rights.
fn look(root: &Root, journal: &mut Journal, followers: &mut [Follower], stop: &Stop, until: Deadline) -> News {
    // Nobody knows: those who send find out.
    const UNKNOWN: News = News { bits: u32::MAX, is_log: false, none: None };
    let child = Child::spawn(&mut |said| {
        let journal = journal.take(root);
        process::leave_stdio();
        sandbox::enter(root, Reach::Nothing);
        let status = match Source::new(journal, true, until) {
            Ok(mut source) => {
                let mut bits = 0u32;
                for (number, follower) in followers.iter_mut().enumerate() {
                    bits |= u32::from(source.begin_at(&mut follower.at) > 0) << number;
                }
                if let Some(bytes) = said.first_chunk_mut() {
                    *bytes = bits.to_le_bytes();
                }
                if source.is_log() { LOG } else { FILES }
            }
            Err(JournalError::None) => NONE,
            Err(JournalError::Open(_)) => UNREADABLE,
        };
        (status, 4)
    });
    let mut bits = [0; 4];
    let Ok((Ended::Exit(status), 4)) = child.map(|child| child.wait(stop, until, &mut bits)) else { return UNKNOWN };
    let none = match status {
        FILES => None,
        // There will be files, and the kernel's log in them.
        LOG if root.node(JOURNALD).is_err() => None,
        LOG | NONE => Some(JournalError::None),
        UNREADABLE => Some(JournalError::Open(Errno::IO)),
        _ => return UNKNOWN,
    };
    News { bits: u32::from_le_bytes(bits), is_log: status == LOG && none.is_none(), none }
}

/// Exit statuses of a process that looks: what it found.
const FILES: u8 = 0;
/// See [`FILES`].
const LOG: u8 = 1;
/// See [`FILES`].
const NONE: u8 = 2;
/// See [`FILES`].
const UNREADABLE: u8 = 3;

/// Follows the journal until `stop` says that it is enough, or the initramfs in which it began is left; then sends what is left, within a
/// second. Gives whether all of it was delivered.
pub fn follow(
    root: &Root,
    followers: &mut [Follower],
    stop: &Stop,
    is_left: &mut dyn FnMut() -> bool,
    send: &mut Send<'_>,
    tell: &mut dyn FnMut(usize, Event<'_>),
) -> bool {
    let mut watch = Watch::new(root.file("dev/kmsg").ok());
    let mut tick = Deadline::after_ms(0);
    let no_stop = Stop::none();
    let mut end: Option<Deadline> = None;
    loop {
        if followers.iter().any(|follower| follower.wants(end.is_some())) {
            // Watched first, so that no change is missed.
            PLACES.iter().for_each(|place| watch.add(root, place));
            watch.clear();
            let mut journal = Journal::open(root);
            let until = match end {
                Some(end) => end.step_ms(LOOK_MS.1),
                None => Deadline::after_ms(LOOK_MS.0),
            };
            let news = look(root, &mut journal, followers, if end.is_some() { &no_stop } else { stop }, until);
            watch.is_log_watched = news.is_log;
            tick = Deadline::after_ms(if news.none.is_none() { TICK_MS.0 } else { TICK_MS.1 });
            for (number, follower) in followers.iter_mut().enumerate().filter(|(_, f)| f.wants(end.is_some())) {
                let begun = Deadline::after_ms(0);
                let is_end = end.is_some() && follower.is_device && news.none.is_none();
                if news.none.is_some() || news.bits & 1 << number == 0 && !is_end {
                    // There is nothing new, or no journal yet, or it cannot be told.
                    (follower.is_due, follower.is_last) = (false, end.is_some());
                    follower.is_whole = news.none.is_none_or(|e| e == JournalError::None);
                    continue;
                }
                if let Err(e) = follower.begin(number, root, &mut journal, end, send) {
                    follower.fail(begun, 1);
                    follower.tell_down(Err(e), "", &mut |event| tell(number, event));
                }
            }
        }
        let is_under_way = followers.iter().any(|follower| follower.under_way.is_some());
        if end.is_some_and(|end| Deadline::passed(end) || !is_under_way) {
            break;
        }
        let next = followers.iter().filter_map(Follower::next).fold(tick, Deadline::min);
        let until = end.unwrap_or(next);
        let is_open = followers.iter().any(|follower| !follower.is_due);
        let mut children = followers.iter().map(|f| f.under_way.as_ref().map(|under_way| &under_way.child));
        let woken = watch.wait(Some(stop).filter(|_| end.is_none()), is_open, &mut children, until);
        for (number, follower) in followers.iter_mut().enumerate() {
            let is_over = follower.next().is_some_and(Deadline::passed) || woken & 1 << number != 0;
            if let Some(under_way) = follower.under_way.take_if(|_| is_over) {
                follower.end(under_way, &mut |event| tell(number, event));
            }
            if woken & CHANGE != 0 {
                follower.look(GATHER_MS);
            }
        }
        let is_tick = tick.passed();
        if is_tick {
            tick = Deadline::after_ms(TICK_MS.0);
            followers.iter_mut().for_each(|follower| follower.look(0));
        }
        if end.is_none() && (woken & STOP != 0 || is_tick && is_left()) {
            let deadline = Deadline::after_ms(END_MS);
            sync::sync(root, deadline.step_ms(SYNC_MS));
            end = Some(deadline);
        }
    }
    for (number, follower) in followers.iter_mut().enumerate() {
        if let Some(under_way) = follower.under_way.take() {
            under_way.child.wait(&Stop::none(), Deadline::after_ms(0), &mut []);
        }
        tell(number, Event::End(follower.parts, follower.entries, follower.is_whole));
    }
    followers.iter().all(|follower| follower.is_whole)
}

/// What there is to be said of a sink while the journal grows.
pub enum Event<'e> {
    /// It cannot be delivered to: how the process ended, and what that said.
    Down(Result<Ended, Errno>, &'e str),
    /// It can again.
    Up,
    /// The end: parts and entries delivered, and whether these are all.
    End(u64, u64, bool),
}

/// Says what there is to be said of a journal that is sent while it grows.
pub fn explain(event: &Event<'_>, out: &mut Text<'_>) {
    match event {
        Event::Down(how, said) => {
            match how {
                Ok(Ended::Exit(_)) if !said.is_empty() => out.str(said),
                Ok(how) => explain::ended("not delivered", *how, out),
                Err(e) => explain::no_process("not delivered", *e, out),
            };
            out.str("; it is tried again, without a further word, with what comes until then")
        }
        Event::Up => out.str("it is delivered again"),
        Event::End(parts, entries, is_whole) => {
            out.str(if *is_whole { "delivered to the end (" } else { "not delivered to the end (of it: " });
            out.dec(*parts).str(" parts, ").dec(*entries).str(" entries)")
        }
    };
}
