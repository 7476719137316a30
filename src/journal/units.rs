//! Which units failed in the newest boot, with their last lines, and what Ignition said: from the journal alone.
//!
//! systemd's messages are known by their `MESSAGE_ID` (its `sd-messages.h`); the unit is in `UNIT`, the reason in `UNIT_RESULT` (or
//! `JOB_RESULT`), the process' end in `EXIT_CODE` and `EXIT_STATUS`. A unit that was started afterwards has not failed. One pass: of each
//! unit seen, where its last entries are is remembered, and only those of units that failed are read again.
//!
//! A failure that ends provisioning is told from one that a boot survives: see [`Unit::ends_provisioning`].

use crate::journal::file::Entry;
use crate::journal::format::Id;
use crate::journal::payload::{Field, IDENTIFIER, MESSAGE, Name, name};
use crate::journal::source::Source;
use crate::sys::time::Deadline;
use crate::text::{hex_digit, number};
use heapless::{Vec, VecView};

/// Units that are told in full; more are counted.
pub const UNITS_MAX: usize = 16;
/// Lines of each, and bytes of a line.
pub const LINES_MAX: usize = 10;
/// See [`LINES_MAX`].
pub const LINE_MAX: usize = 256;
/// Bytes of a unit's name (systemd's `UNIT_NAME_MAX` is 255).
const NAME_MAX: usize = 255;
/// Bytes of a result or an exit code: words of systemd's.
const WORD_MAX: usize = 24;
/// Bytes of a message of Ignition's.
const MESSAGE_MAX: usize = 512;
/// Units whose last entries are remembered: those that logged last.
const SEEN_MAX: usize = 64;
/// Entries that are looked at in any case, the newest: a tenth of a second's work. An initramfs logs a thousand. Once half of the time is
/// over, those before them are passed over.
const NEWEST: u64 = 50_000;
/// Bytes that are read of a field: no more of a message is told, but a smaller part of a compressed one would not be whole.
const FIELD_MAX: u64 = 128 * 1024;
/// What systemd says of a unit whose failure starts others, in the default configuration `emergency.target`. The message has no id.
const TRIGGER: &[u8] = b"Triggering OnFailure= dependencies.";

const MESSAGE_ID: Name = name(b"MESSAGE_ID");
const UNIT: Name = name(b"UNIT");
const SYSTEMD_UNIT: Name = name(b"_SYSTEMD_UNIT");
const UNIT_RESULT: Name = name(b"UNIT_RESULT");
const JOB_RESULT: Name = name(b"JOB_RESULT");
const RESULT: Name = name(b"RESULT");
const EXIT_CODE: Name = name(b"EXIT_CODE");
const EXIT_STATUS: Name = name(b"EXIT_STATUS");
const PRIORITY: Name = name(b"PRIORITY");
/// The fields that are looked at.
const WANTED: [Name; 11] = [
    MESSAGE,
    MESSAGE_ID,
    UNIT,
    SYSTEMD_UNIT,
    UNIT_RESULT,
    JOB_RESULT,
    RESULT,
    EXIT_CODE,
    EXIT_STATUS,
    IDENTIFIER,
    PRIORITY,
];

/// What the names of Ignition's units begin with.
const IGNITION: &[u8] = b"ignition-";
/// The result of a unit that was not started since one that it needs was not.
const DEPENDENCY: &[u8] = b"dependency";

const UNIT_FAILURE_RESULT: &[u8] = b"d9b373ed55a64feb8242e02dbe79a49c";
const UNIT_PROCESS_EXIT: &[u8] = b"98e322203f7a4ed290d09fe03c09fe15";
const UNIT_FAILED: &[u8] = b"be02cf6855d2428ba40df7e9d022f03d";
const UNIT_STARTING: &[u8] = b"7d4958e842da4a758f6c1cdc7b36dcc5";
const UNIT_STOPPED: &[u8] = b"9d1aaa27d60140bd96365438aad20286";
const UNIT_STARTED: &[u8] = b"39f53479d3a045ac8e11786248231fbf";

/// A word of systemd's, or a line; what was too long is cut.
pub type Text<const N: usize> = Vec<u8, N, u16>;
/// Any of them: what takes one is built once, and not for each length.
type AnyText = VecView<u8, u16>;

/// A unit that failed.
pub struct Unit {
    /// Its name.
    pub name: Text<NAME_MAX>,
    /// Why: `exit-code`, `signal`, `timeout`, …
    pub result: Text<WORD_MAX>,
    /// How its process ended: `exited`, `killed` or `dumped`; empty if that was not said.
    pub exit_code: Text<WORD_MAX>,
    /// The exit status, or the signal's number.
    pub exit_status: Option<u32>,
    /// Whether nothing will come of provisioning: it is one of Ignition's, or its failure started its `OnFailure=` units, or it is a target
    /// that failed because of a dependency.
    pub ends_provisioning: bool,
    /// What it logged and systemd logged about it: the last lines of priority 4 and more urgent, and then the last of the others, each
    /// oldest first. Lines of a configuration that Ignition dumps are left out. Secrets are masked as the source does.
    pub lines: Vec<Text<LINE_MAX>, LINES_MAX, u8>,
}

/// What [`failed`] found.
#[derive(Default)]
pub struct Failed {
    /// Units that failed, in that order: [`UNITS_MAX`] at most.
    pub units: alloc::vec::Vec<Unit>,
    /// Units that failed beyond these.
    pub more: u32,
    /// Units that were being started at the end, devices that were waited for among them.
    pub starting: Vec<Text<NAME_MAX>, UNITS_MAX, u8>,
    /// Ignition's own error, if it logged one.
    pub ignition: Text<MESSAGE_MAX>,
    /// The first unit whose failure ends provisioning, told or not.
    pub end: Text<NAME_MAX>,
    /// Whether the deadline came before the journal's end: then units may have failed that are not known.
    pub is_late: bool,
    /// Whether the journal could not be opened at all.
    pub is_unreadable: bool,
}

/// Where the last entries of a unit are.
struct Seen {
    /// A hash of its name.
    unit: u64,
    /// When it logged last, counted in entries.
    used: u64,
    has_failed: bool,
    is_told: bool,
    has_triggered: bool,
    result: Text<WORD_MAX>,
    /// Its last lines of priority 4 and more urgent, and its last lines.
    urgent: Vec<Line, LINES_MAX, u8>,
    lines: Vec<Line, LINES_MAX, u8>,
    exit_code: Text<WORD_MAX>,
    exit_status: Option<u32>,
}

/// Where an entry is.
#[derive(Clone, Copy)]
struct Line {
    file: u16,
    items: u32,
    at: u64,
    /// What was known of private keys before it: see [`Source::key_lines`].
    key_lines: u8,
}

/// The fields of an entry that matter here.
#[derive(Default)]
struct Facts {
    message_id: Text<32>,
    unit: Text<NAME_MAX>,
    own_unit: Text<NAME_MAX>,
    unit_result: Text<WORD_MAX>,
    job_result: Text<WORD_MAX>,
    exit_code: Text<WORD_MAX>,
    exit_status: Text<WORD_MAX>,
    identifier: Text<WORD_MAX>,
    priority: Text<1>,
    /// The number of the field with the message.
    message: Option<u32>,
}

/// Goes through the entries of `source` from its beginning, until its deadline. Where half of the time is not enough, the oldest ones are
/// passed over up to the newest [`NEWEST`]; what was found until then is kept. The lines that are told are read until `end`. Afterwards it
/// must be restarted to be read.
pub fn failed(source: &mut Source, half: Deadline, end: Deadline) -> Failed {
    source.set_limit(FIELD_MAX);
    source.rewind();
    let mut pass = Pass::default();
    let mut left = source.entries();
    while let Some(entry) = source.next_entry() {
        left = left.saturating_sub(1);
        pass.number = pass.number.saturating_add(1);
        let is_far = left > NEWEST;
        pass.is_short |= is_far && pass.number.is_multiple_of(CLOCK_STEP) && half.passed();
        if !(pass.is_short && is_far) {
            pass.entry(source, &entry);
        }
    }
    let Pass { mut failed, seen, is_short, .. } = pass;
    failed.is_late = is_short || source.is_late();
    // What is told of them is not worth less where the pass took all its time.
    source.set_deadline(end);
    // Targets fail with what they depend on: which that is, is told.
    let is_cause = |unit: &Unit| *unit.result != *DEPENDENCY;
    let first = |units: &[Unit], is_any: bool| {
        units.iter().find(|unit| unit.ends_provisioning && (is_any || is_cause(unit))).map(|unit| unit.name.clone())
    };
    failed.end = first(&failed.units, false).or_else(|| first(&failed.units, true)).unwrap_or_default();
    if failed.units.iter().any(is_cause) {
        while let Some(at) = failed.units.iter().position(|unit| !is_cause(unit)) {
            failed.units.remove(at);
        }
    }
    for unit in &mut failed.units {
        let unit_hash = hash(&unit.name);
        if let Some(seen) = seen.iter().find(|seen| seen.unit == unit_hash) {
            tell(source, seen, unit);
        }
    }
    failed
}

/// Entries between two looks at the clock.
const CLOCK_STEP: u64 = 256;

/// What is known while the entries are gone through.
#[derive(Default)]
struct Pass {
    failed: Failed,
    seen: alloc::vec::Vec<Seen>,
    boot: Id,
    /// How telling Ignition's message is that was kept.
    rank: u8,
    number: u64,
    /// Whether entries were passed over for want of time.
    is_short: bool,
}

impl Pass {
    fn entry(&mut self, source: &mut Source, entry: &Entry) {
        if entry.boot_id != self.boot {
            let Self { number, is_short, .. } = *self;
            *self = Self { boot: entry.boot_id, number, is_short, ..Self::default() };
        }
        let key_lines = source.key_lines();
        let facts = Facts::of(source, entry);
        let is_ignition = *facts.identifier == *b"ignition" || facts.own_unit.starts_with(b"ignition-");
        // What systemd says without an id can be known by its words alone.
        let is_told = is_ignition || *facts.identifier == *b"systemd" && facts.message_id.is_empty();
        let mut line: Text<MESSAGE_MAX> = Vec::new();
        if let Some(message) = facts.message.filter(|_| is_told) {
            // The message is read a second time.
            let after = source.key_lines();
            source.set_key_lines(key_lines);
            copy(source, entry, message, &mut line);
            source.set_key_lines(after);
        }
        let name = if facts.unit.is_empty() { &facts.own_unit } else { &facts.unit };
        if !name.is_empty() {
            let index = remember(&mut self.seen, hash(name), self.number);
            if let Some(seen) = self.seen.get_mut(index) {
                if !(is_ignition && is_dump(&line)) {
                    seen.note_line(entry, &facts, key_lines, is_urgent(&facts, &line));
                }
                seen.note_exit(&facts);
                judge(&mut self.failed, seen, name, &facts);
                if line.ends_with(TRIGGER) && !facts.unit.is_empty() {
                    trigger(&mut self.failed, seen, name);
                }
                note_start(&mut self.failed.starting, name, &facts.message_id);
            }
        }
        if is_ignition {
            ignition(&mut self.failed.ignition, &mut self.rank, &facts, &line);
        } else {
            note_device(&mut self.failed.starting, &facts, &line);
        }
    }
}

/// Reads the lines of a failed unit again: those that say what happened, then the last ones.
fn tell(source: &mut Source, seen: &Seen, unit: &mut Unit) {
    let rest = LINES_MAX.saturating_sub(seen.urgent.len());
    let last = seen.lines.get(seen.lines.len().saturating_sub(rest)..).unwrap_or_default();
    for Line { file, items, at, key_lines } in seen.urgent.iter().chain(last).copied() {
        let entry = Entry { file, at, items, ..Entry::default() };
        let Some(message) = Facts::of(source, &entry).message else { continue };
        source.set_key_lines(key_lines);
        let mut line = Vec::new();
        copy(source, &entry, message, &mut line);
        if unit.name.starts_with(IGNITION) {
            cut_dump(&mut line);
        }
        // There are as many as were remembered.
        let _ = unit.lines.push(line);
    }
}

/// Whether a message says what went wrong: by its priority, or by the level that Ignition writes before the text where it logs to its
/// standard output.
fn is_urgent(facts: &Facts, line: &[u8]) -> bool {
    matches!(&*facts.priority, b"0" | b"1" | b"2" | b"3" | b"4")
        || [&b"CRITICAL "[..], b"ERROR ", b"WARNING "].iter().any(|level| line.starts_with(level))
}

/// Whether a message of Ignition's begins with a line of a configuration, which it dumps as indented JSON.
fn is_dump(message: &[u8]) -> bool {
    let line = message.split(|b| *b == b'\n').next().unwrap_or_default();
    let word = line.trim_ascii();
    let value = word.strip_suffix(b",").unwrap_or(word);
    let is_scalar = matches!(value, b"true" | b"false" | b"null") || value.iter().all(u8::is_ascii_digit);
    word.starts_with(b"\"")
        || word.starts_with(b"{\"")
        || word.iter().all(|b| b"{}[],".contains(b)) && !message.is_empty()
        || line.starts_with(b" ") && is_scalar
}

/// Cuts the lines of a configuration off the end of a message that has several lines.
fn cut_dump(message: &mut Text<LINE_MAX>) {
    let mut at = 0usize;
    for line in message.split_inclusive(|b| *b == b'\n') {
        if at > 0 && is_dump(line) {
            break;
        }
        at = at.saturating_add(line.len());
    }
    message.truncate(at);
    while message.last() == Some(&b'\n') {
        message.pop();
    }
}
/// The place of a unit among those seen: a new one takes the place of the one that logged least recently and did not fail.
fn remember(seen: &mut alloc::vec::Vec<Seen>, unit: u64, number: u64) -> usize {
    let index = seen.iter().position(|seen| seen.unit == unit).unwrap_or_else(|| {
        let new = Seen {
            unit,
            used: number,
            has_failed: false,
            is_told: false,
            has_triggered: false,
            result: Vec::new(),
            urgent: Vec::new(),
            lines: Vec::new(),
            exit_code: Vec::new(),
            exit_status: None,
        };
        let oldest = seen
            .iter()
            .enumerate()
            .min_by_key(|(_, seen)| seen.used | u64::from(seen.is_told) << 63 | u64::from(seen.has_failed) << 62)
            .map(|(index, _)| index);
        match oldest.filter(|_| seen.len() >= SEEN_MAX) {
            Some(index) => {
                if let Some(slot) = seen.get_mut(index) {
                    *slot = new;
                }
                index
            }
            None => {
                seen.push(new);
                seen.len().saturating_sub(1)
            }
        }
    });
    if let Some(seen) = seen.get_mut(index) {
        seen.used = number;
    }
    index
}

/// Takes a unit among the failed ones, or out of them.
fn judge(failed: &mut Failed, seen: &mut Seen, name: &Text<NAME_MAX>, facts: &Facts) {
    let id: &[u8] = &facts.message_id;
    let result = match id {
        _ if id == UNIT_FAILURE_RESULT => &facts.unit_result,
        // The unit of a device that did not come, for one, has no result of its own.
        _ if id == UNIT_FAILED && matches!(&*facts.job_result, b"timeout" | b"failed") && !seen.has_failed => {
            &facts.job_result
        }
        _ if id == UNIT_FAILED && *facts.job_result == *DEPENDENCY && name.ends_with(b".target") => &facts.job_result,
        _ if id == UNIT_STARTED && matches!(&*facts.job_result, b"" | b"done") => {
            match failed.units.iter().position(|unit| unit.name == *name) {
                Some(index) => drop(failed.units.remove(index)),
                None if seen.has_failed => failed.more = failed.more.saturating_sub(1),
                None => {}
            }
            (seen.has_failed, seen.is_told, seen.has_triggered) = (false, false, false);
            return;
        }
        _ => return,
    };
    seen.result.clone_from(result);
    take_in(failed, seen, name);
}

/// Notes that the failure of a unit started others, whether that is said before or behind the failure itself.
fn trigger(failed: &mut Failed, seen: &mut Seen, name: &Text<NAME_MAX>) {
    seen.has_triggered = true;
    if seen.has_failed {
        take_in(failed, seen, name);
    }
}

/// Takes a unit among the failed ones: in the place of one that ends nothing, if there are too many and it ends provisioning.
fn take_in(failed: &mut Failed, seen: &mut Seen, name: &Text<NAME_MAX>) {
    let ends_provisioning = seen.has_triggered || name.starts_with(IGNITION) || *seen.result == *DEPENDENCY;
    let unit = Unit {
        name: name.clone(),
        result: seen.result.clone(),
        exit_code: seen.exit_code.clone(),
        exit_status: seen.exit_status,
        ends_provisioning,
        lines: Vec::new(),
    };
    let known = failed.units.iter().position(|unit| unit.name == *name);
    let is_full = failed.units.len() >= UNITS_MAX;
    let lesser = || failed.units.iter().rposition(|unit| is_full && ends_provisioning && !unit.ends_provisioning);
    if !seen.has_failed && known.is_none() && is_full {
        failed.more = failed.more.saturating_add(1);
    }
    seen.has_failed = true;
    match known.or_else(lesser) {
        Some(index) => {
            if let Some(slot) = failed.units.get_mut(index) {
                *slot = unit;
                seen.is_told = true;
            }
        }
        None if !is_full => {
            failed.units.push(unit);
            seen.is_told = true;
        }
        None => {}
    }
}

/// Takes a unit among those that are being started, or out of them.
fn note_start(starting: &mut Vec<Text<NAME_MAX>, UNITS_MAX, u8>, name: &Text<NAME_MAX>, id: &[u8]) {
    let is_start = id == UNIT_STARTING;
    if is_start || [UNIT_STARTED, UNIT_FAILED, UNIT_FAILURE_RESULT, UNIT_STOPPED].contains(&id) {
        if let Some(at) = starting.iter().position(|other| other == name) {
            starting.remove(at);
        }
        if is_start {
            // The ones that have been at it longest are told.
            let _ = starting.push(name.clone());
        }
    }
}

/// Takes a device among those that are waited for that systemd began to wait for before there was a journal to be told: what it says then comes by
/// the kernel's log, in words alone. The root device is one of them, always.
fn note_device(starting: &mut Vec<Text<NAME_MAX>, UNITS_MAX, u8>, facts: &Facts, line: &[u8]) {
    if *facts.identifier != *b"systemd" || !facts.unit.is_empty() {
        return;
    }
    let Some(rest) = line.strip_prefix(b"Expecting device ") else { return };
    // `NAME - DESCRIPTION...`, or either alone (`StatusUnitFormat=`); the description is the path until the device is there.
    let what = rest.split(|b| *b == b' ').next().unwrap_or_default();
    let what = what.strip_suffix(b"...").unwrap_or(what);
    let mut name: Text<NAME_MAX> = Vec::new();
    let is_whole = match what.strip_prefix(b"/") {
        Some(path) => path.iter().all(|byte| escape(*byte, &mut name)) && name.extend_from_slice(b".device").is_ok(),
        None => name.extend_from_slice(what).is_ok(),
    };
    if is_whole && name.ends_with(b".device") {
        note_start(starting, &name, UNIT_STARTING);
    }
}

/// Appends a byte of a path as the name of a unit has it (systemd.unit(5)); says whether there was room.
fn escape(byte: u8, name: &mut Text<NAME_MAX>) -> bool {
    match byte {
        b'/' => name.push(b'-').is_ok(),
        _ if byte.is_ascii_alphanumeric() || b":_.".contains(&byte) => name.push(byte).is_ok(),
        _ => name.extend_from_slice(&[b'\\', b'x', hex_digit(byte >> 4), hex_digit(byte)]).is_ok(),
    }
}

/// Keeps the most telling line of Ignition's: its last words, else the last critical line. Its stages that log by syslog give a
/// priority; the others write the level before the text.
fn ignition(text: &mut Text<MESSAGE_MAX>, rank: &mut u8, facts: &Facts, line: &[u8]) {
    const LEVEL: &[u8] = b"CRITICAL : ";
    let has_level = line.starts_with(LEVEL);
    let words = if has_level { line.get(LEVEL.len()..).unwrap_or_default() } else { line };
    let is_critical = has_level || matches!(&*facts.priority, b"0" | b"1" | b"2");
    let new_rank = match is_critical {
        true if words.starts_with(b"Ignition failed") => 2,
        true => 1,
        false => return,
    };
    if new_rank >= *rank {
        *rank = new_rank;
        text.clear();
        // It is not longer than the line was.
        let _ = text.extend_from_slice(words);
    }
}

impl Seen {
    fn note_line(&mut self, entry: &Entry, facts: &Facts, key_lines: u8, is_urgent: bool) {
        if facts.message.is_none() {
            return;
        }
        let lines = if is_urgent { &mut self.urgent } else { &mut self.lines };
        if lines.is_full() {
            lines.remove(0);
        }
        // There is room for one.
        let _ = lines.push(Line { file: entry.file, items: entry.items, at: entry.at, key_lines });
    }

    fn note_exit(&mut self, facts: &Facts) {
        if *facts.message_id == *UNIT_PROCESS_EXIT {
            self.exit_code.clone_from(&facts.exit_code);
            self.exit_status = number(&facts.exit_status);
        }
    }
}

impl Facts {
    fn of(source: &mut Source, entry: &Entry) -> Self {
        let mut facts = Self::default();
        for index in 0..entry.items {
            if source.is_late() {
                break;
            }
            let Some(name) = source.name(entry, index).filter(|name| WANTED.contains(name)) else { continue };
            let Some(field) = source.field(entry, index) else { continue };
            let text: &mut AnyText = match name {
                MESSAGE_ID => &mut facts.message_id,
                UNIT => &mut facts.unit,
                SYSTEMD_UNIT => &mut facts.own_unit,
                UNIT_RESULT => &mut facts.unit_result,
                JOB_RESULT | RESULT => &mut facts.job_result,
                EXIT_CODE => &mut facts.exit_code,
                EXIT_STATUS => &mut facts.exit_status,
                IDENTIFIER => &mut facts.identifier,
                PRIORITY => &mut facts.priority,
                _ => {
                    facts.message = Some(index);
                    continue;
                }
            };
            // The last one holds. None of systemd's own is longer than there is room for.
            text.clear();
            take(source, entry, &field, usize::from(field.name_len).saturating_add(1), text);
        }
        facts
    }
}

/// The value of a field, up to the end of its first lines that fit.
fn copy(source: &mut Source, entry: &Entry, index: u32, text: &mut AnyText) {
    if let Some(field) = source.field(entry, index) {
        take(source, entry, &field, usize::from(field.name_len).saturating_add(1), text);
    }
}

/// The bytes of a field from `skip` on, as many as fit, cut where no character is cut.
fn take(source: &mut Source, entry: &Entry, field: &Field, mut skip: usize, text: &mut AnyText) {
    let mut is_cut = false;
    // What `output` gives is no error.
    let _ = source.read(entry, field, &mut |piece| {
        let rest = piece.get(skip..).unwrap_or_default();
        skip = skip.saturating_sub(piece.len());
        let room = text.capacity().saturating_sub(text.len());
        is_cut |= rest.len() > room;
        let _ = text.extend_from_slice(rest.get(..room).unwrap_or(rest));
        Ok(())
    });
    if is_cut {
        // The rest of a character that began before the end.
        let begins = text.iter().rposition(|b| b & 0xc0 != 0x80).unwrap_or(0);
        if text.get(begins..).is_some_and(|last| core::str::from_utf8(last).is_err()) {
            text.truncate(begins);
        }
    }
}

/// FNV-1a: names that meet would share their last lines, no more.
fn hash(name: &[u8]) -> u64 {
    name.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

/// Passes each sentence on what could not be read on to somebody.
pub type Complaints<'c> = dyn FnMut(&mut dyn FnMut(&str)) + 'c;

/// Bytes of what [`Failed::encode`] makes at most, with [`COMPLAINTS_MAX`] complaints.
pub const ENCODED_MAX: usize = 56 * 1024;
/// Complaints that are passed on.
const COMPLAINTS_MAX: usize = 8;
/// Flag of an encoded [`Failed`]: the time was over before all was looked at.
pub const LATE: u8 = 1;
/// Flag of an encoded [`Failed`]: the journal could not be opened.
pub const UNREADABLE: u8 = 2;

impl Failed {
    /// As bytes, for the processes that report it, with what could not be read of the journal: `for_each` passes on each complaint.
    pub fn encode(&self, for_each: &mut Complaints<'_>, out: &mut alloc::vec::Vec<u8>) {
        out.push(u8::from(self.is_late) * LATE + u8::from(self.is_unreadable) * UNREADABLE);
        put(&self.end, out);
        let mut left = COMPLAINTS_MAX;
        for_each(&mut |complaint| {
            if left > 0 && !complaint.is_empty() {
                left = left.saturating_sub(1);
                put(complaint.as_bytes(), out);
            }
        });
        put(b"", out);
        put(&self.ignition, out);
        out.push(self.units.len() as u8);
        for unit in &self.units {
            put(&unit.name, out);
            put(&unit.result, out);
            match unit.exit_status {
                Some(status) => put(&status.to_le_bytes(), out),
                None => put(b"", out),
            }
            out.push(unit.lines.len() as u8);
            unit.lines.iter().for_each(|line| put(line, out));
        }
        out.push(self.starting.len() as u8);
        self.starting.iter().for_each(|name| put(name, out));
    }

    /// What [`Failed::encode`] made; each complaint is given to `complain`. What is cut counts as late.
    pub fn decode(bytes: &[u8], complain: &mut dyn FnMut(&str)) -> Self {
        let mut failed = Self::default();
        if failed.read(&mut Encoded(bytes), complain).is_none() {
            failed.is_late = true;
        }
        failed
    }

    fn read(&mut self, from: &mut Encoded, complain: &mut dyn FnMut(&str)) -> Option<()> {
        let flags = from.byte()?;
        self.is_late = flags & LATE != 0;
        self.is_unreadable = flags & UNREADABLE != 0;
        self.end = from.text()?;
        from.complaints(complain)?;
        self.ignition = from.text()?;
        for _ in 0..from.byte()?.min(UNITS_MAX as u8) {
            let (name, result, status) = (from.text()?, from.text()?, from.bytes()?);
            let exit_status = status.first_chunk().map(|status| u32::from_le_bytes(*status));
            let mut unit =
                Unit { name, result, exit_code: Vec::new(), exit_status, ends_provisioning: false, lines: Vec::new() };
            for _ in 0..from.byte()? {
                let _ = unit.lines.push(from.text()?);
            }
            self.units.push(unit);
        }
        for _ in 0..from.byte()? {
            let _ = self.starting.push(from.text()?);
        }
        Some(())
    }
}

/// What is left to read of an encoded [`Failed`].
struct Encoded<'a>(&'a [u8]);

impl<'a> Encoded<'a> {
    fn complaints(&mut self, complain: &mut dyn FnMut(&str)) -> Option<()> {
        loop {
            match self.bytes()? {
                b"" => return Some(()),
                complaint => complain(core::str::from_utf8(complaint).unwrap_or_default()),
            }
        }
    }

    fn byte(&mut self) -> Option<u8> {
        let (byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*byte)
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let (len, rest) = self.0.split_first_chunk()?;
        let (bytes, rest) = rest.split_at_checked(u16::from_le_bytes(*len).into())?;
        self.0 = rest;
        Some(bytes)
    }

    fn text<const N: usize>(&mut self) -> Option<Text<N>> {
        Vec::from_slice(self.bytes()?).ok()
    }
}

/// Appends bytes and, before them, how many they are.
fn put(bytes: &[u8], out: &mut alloc::vec::Vec<u8>) {
    out.extend_from_slice(&(bytes.len() as u16).to_le_bytes());
    out.extend_from_slice(bytes);
}

/// Returns what the process that makes the others needs to know of an encoded [`Failed`]: the unit whose
/// failure ends provisioning, and [`LATE`] and [`UNREADABLE`]. Passes on each complaint.
pub fn verdict<'b>(bytes: &'b [u8], complain: &mut dyn FnMut(&str)) -> (&'b str, u8) {
    let mut from = Encoded(bytes);
    let flags = from.byte().unwrap_or(LATE);
    let end = from.bytes().and_then(|name| core::str::from_utf8(name).ok()).unwrap_or_default();
    let _ = from.complaints(complain);
    // Any byte is printed on the console.
    (if end.bytes().all(|b| b.is_ascii_graphic()) { end } else { "a unit" }, flags)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::tests::{Built, Folder, fixture};

    fn failed_in(content: &[u8]) -> Failed {
        let folder = Folder::with_journals(&[("system.journal", content)]);
        let mut source = folder.source();
        source.restart(true);
        failed(&mut source, Deadline::NEVER, Deadline::NEVER)
    }

    fn text(bytes: &[u8]) -> &str {
        core::str::from_utf8(bytes).unwrap()
    }

    #[test]
    fn real_boots() {
        for (name, unit, message) in [
            ("252-ignition-fetch-404", "ignition-fetch.service", "Ignition failed: resource not found"),
            (
                "252-ignition-disks-missing",
                "ignition-disks.service",
                "Ignition failed: create partitions failed: failed to wait on disks devs: device unit dev-vdz.device timeout",
            ),
            (
                "252-ignition-fetchoffline-badhash",
                "ignition-fetch-offline.service",
                "Ignition failed: hash verification failed (calc",
            ),
            (
                "252-ignition-files-badhash",
                "ignition-files.service",
                "Ignition failed: failed to create files: failed to create",
            ),
            ("252-fakeignition", "ignition-fetch.service", "Ignition failed: config is not valid"),
            ("257-fakeignition", "ignition-fetch.service", "Ignition failed: config is not valid"),
        ] {
            let found = failed_in(&fixture(&format!("initrd-systemd{name}.journal")));
            let unit_found = found.units.iter().find(|u| *u.name == *unit.as_bytes()).expect(name);
            assert_eq!(text(&unit_found.result), "exit-code", "{name}");
            assert_eq!(text(&unit_found.exit_code), "exited", "{name}");
            assert_eq!(unit_found.exit_status, Some(1), "{name}");
            assert!(text(&found.ignition).starts_with(message), "{name}: {}", text(&found.ignition));
            let lines: Vec<&str, LINES_MAX, u8> = unit_found.lines.iter().map(|line| text(line)).collect();
            assert!(lines.len() >= 8, "{lines:?}");
            assert!(lines.iter().any(|line| line.starts_with(&format!("Failed to start {unit}"))), "{lines:?}");
            assert!(lines.iter().any(|line| line.contains("Ignition failed: ")), "{lines:?}");
            let others: Vec<&str, UNITS_MAX, u8> =
                found.units.iter().map(|u| text(&u.name)).filter(|n| *n != unit).collect();
            let expected: &[&str] = if name.contains("disks-missing") { &["dev-vdz.device"] } else { &[] };
            assert_eq!(others, expected, "{name}");
            assert_eq!(found.more, 0);
        }
    }

    fn systemd<'a>(id: &'a [u8], unit: &'a str, result: &'a str) -> std::vec::Vec<std::vec::Vec<u8>> {
        let field = |name: &str, value: &[u8]| [name.as_bytes(), value].concat();
        vec![
            field("MESSAGE_ID=", id),
            field("UNIT=", unit.as_bytes()),
            field(if id == UNIT_FAILURE_RESULT { "UNIT_RESULT=" } else { "JOB_RESULT=" }, result.as_bytes()),
            field("MESSAGE=", b"\xc3\xa4".repeat(300).as_slice()),
        ]
    }

    fn journal(messages: &[(&[u8], &str, &str)]) -> std::vec::Vec<u8> {
        let mut built = Built::new();
        for (id, unit, result) in messages {
            let fields = systemd(id, unit, result);
            built = built.entry(&fields.iter().map(|field| (0, &field[..])).collect::<std::vec::Vec<_>>());
        }
        built.finish()
    }

    #[test]
    fn started_afterwards_is_not_failed() {
        let found = failed_in(&journal(&[
            (UNIT_FAILURE_RESULT, "a.service", "signal"),
            (UNIT_FAILURE_RESULT, "b.service", "core-dump"),
            (UNIT_FAILED, "b.service", "failed"),
            (UNIT_FAILED, "c.service", "dependency"),
            (UNIT_STARTED, "a.service", "done"),
        ]));
        assert_eq!(found.units.len(), 1);
        assert_eq!((text(&found.units[0].name), text(&found.units[0].result)), ("b.service", "core-dump"));
        // Whole characters, as many as fit.
        assert_eq!(text(&found.units[0].lines[0]), "ä".repeat(LINE_MAX / 2));
    }

    #[test]
    fn the_end_of_a_private_key_is_masked_without_its_beginning() {
        let mut built = Built::new();
        let unit: (u8, &[u8]) = (0, b"_SYSTEMD_UNIT=a.service");
        built = built.entry(&[unit, (0, b"MESSAGE=-----BEGIN RSA PRIVATE KEY-----")]);
        for _ in 0..20 {
            built = built.entry(&[unit, (0, b"MESSAGE=MIIEpAIBAAKCAQEA")]);
        }
        let id = [b"MESSAGE_ID=", UNIT_FAILURE_RESULT].concat();
        let content = built
            .entry(&[unit, (0, b"MESSAGE=-----END RSA PRIVATE KEY-----")])
            .entry(&[(0, b"UNIT=a.service"), (0, b"UNIT_RESULT=exit-code"), (0, &id), (0, b"MESSAGE=failed")])
            .finish();
        let folder = Folder::with_journals(&[("system.journal", content)]);
        let mut source = folder.source();
        source.restart(true);
        let found = failed(&mut source, Deadline::NEVER, Deadline::NEVER);
        let lines: std::vec::Vec<&str> = found.units[0].lines.iter().map(|line| text(line)).collect();
        assert_eq!(lines[..8], ["***"; 8]);
        assert_eq!(lines[8..], ["-----END RSA PRIVATE KEY-----", "failed"]);
    }

    #[test]
    fn what_is_being_started() {
        let found = failed_in(&journal(&[
            (UNIT_STARTING, "hangs.service", ""),
            (UNIT_STARTING, "a.service", ""),
            (UNIT_STARTED, "a.service", "done"),
            (UNIT_STARTING, "b.service", ""),
            (UNIT_FAILED, "b.service", "failed"),
            (UNIT_STARTING, "dev-vdz.device", ""),
            (UNIT_STARTING, "c.service", ""),
            (UNIT_STOPPED, "c.service", "done"),
        ]));
        let names: Vec<&str, UNITS_MAX, u8> = found.starting.iter().map(|name| text(name)).collect();
        assert_eq!(names, ["hangs.service", "dev-vdz.device"]);
    }

    #[test]
    fn devices_that_were_waited_for_before_there_was_a_journal() {
        let mut built = Built::new();
        let identifier: (u8, &[u8]) = (0, b"SYSLOG_IDENTIFIER=systemd");
        for message in [
            &b"MESSAGE=Expecting device dev-disk-by\\x2dlabel-root.device - /dev/disk/by-label/root..."[..],
            b"MESSAGE=Expecting device /dev/disk/by-id/a...",
            b"MESSAGE=Expecting device /dev/disk/by-partlabel/a-b...",
            b"MESSAGE=Expecting device dev-vdz.device...",
            b"MESSAGE=Expecting device dev-there.device...",
            b"MESSAGE=Expecting device ",
            b"MESSAGE=Expecting device QEMU HARDDISK...",
        ] {
            built = built.entry(&[identifier, (0, message)]);
        }
        built = built.entry(&[(0, b"SYSLOG_IDENTIFIER=other"), (0, b"MESSAGE=Expecting device dev-x.device...")]);
        let long = [b"MESSAGE=Expecting device /", [b'-'; 300].as_slice()].concat();
        built = built.entry(&[identifier, (0, &long)]);
        let id = [b"MESSAGE_ID=", UNIT_STARTED].concat();
        let there: (u8, &[u8]) = (0, b"UNIT=dev-there.device");
        let found = failed_in(&built.entry(&[there, (0, b"JOB_RESULT=done"), (0, &id)]).finish());
        let names: Vec<&str, UNITS_MAX, u8> = found.starting.iter().map(|name| text(name)).collect();
        let expected = [
            "dev-disk-by\\x2dlabel-root.device",
            "dev-disk-by\\x2did-a.device",
            "dev-disk-by\\x2dpartlabel-a\\x2db.device",
        ];
        assert_eq!(names[..3], expected);
        assert_eq!(names[3..], ["dev-vdz.device"]);
    }

    #[test]
    fn more_than_are_told_are_counted() {
        let names: std::vec::Vec<String> = (0..100).map(|i| format!("unit-{i}.service")).collect();
        let mut messages: std::vec::Vec<(&[u8], &str, &str)> =
            names.iter().map(|name| (UNIT_FAILURE_RESULT, name.as_str(), "exit-code")).collect();
        messages.push((UNIT_STARTED, "unit-3.service", "done"));
        let found = failed_in(&journal(&messages));
        assert_eq!((found.units.len(), found.more), (UNITS_MAX - 1, 100 - UNITS_MAX as u32));
        assert!(found.units.iter().all(|unit| unit.lines.len() == 1));
    }
}
