//! The units that failed in the newest boot, with their last lines, and Ignition's own error, from
//! the journal alone.
//!
//! systemd's messages are recognised by their `MESSAGE_ID` (its `sd-messages.h`). The unit is in
//! `UNIT`, the reason in `UNIT_RESULT` (or `JOB_RESULT`), the end of the process in `EXIT_CODE` and
//! `EXIT_STATUS`. A unit that was started afterwards has not failed. One pass remembers where the
//! last entries of each unit are, and only those of failed units are read again.
//!
//! A failure that ends provisioning is distinguished from one that a boot survives: see
//! [`Unit::ends_provisioning`].

use crate::journal::file::Entry;
use crate::journal::format::Id;
use crate::journal::payload::{Field, IDENTIFIER, MESSAGE, Name, name};
use crate::journal::source::Source;
use crate::sys::time::Deadline;
use crate::text::{hex_digit, number};
use heapless::{Vec, VecView};

/// Maximum number of units that are reported in full; more are counted.
pub const UNITS_MAX: usize = 16;
/// Maximum number of lines of a unit.
pub const LINES_MAX: usize = 10;
/// Maximum number of bytes of a line.
pub const LINE_MAX: usize = 256;
/// Bytes of a unit's name (systemd's `UNIT_NAME_MAX` is 255).
const NAME_MAX: usize = 255;
/// Bytes of a result or an exit code, which are words of systemd's.
const WORD_MAX: usize = 24;
/// Bytes of a message of Ignition's.
const MESSAGE_MAX: usize = 512;
/// Number of units whose last entries are remembered: those that logged last.
const SEEN_MAX: usize = 64;
/// Number of the newest entries, which are read in any case: a tenth of a second's work. An
/// initramfs logs a thousand. Once half of the time is over, older entries are skipped.
const NEWEST: u64 = 50_000;
/// Bytes that are read of a field. Less of a message is reported, but a smaller part of a
/// compressed one would not be complete.
const FIELD_MAX: u64 = 128 * 1024;
/// systemd's message about a unit whose failure starts others, in the default configuration
/// `emergency.target`. The message has no id.
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
/// The fields that are read.
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

/// The beginning of the names of Ignition's units.
const IGNITION: &[u8] = b"ignition-";
/// The result of a unit that was not started because a unit that it needs was not.
const DEPENDENCY: &[u8] = b"dependency";

const UNIT_FAILURE_RESULT: &[u8] = b"d9b373ed55a64feb8242e02dbe79a49c";
const UNIT_PROCESS_EXIT: &[u8] = b"98e322203f7a4ed290d09fe03c09fe15";
const UNIT_FAILED: &[u8] = b"be02cf6855d2428ba40df7e9d022f03d";
const UNIT_STARTING: &[u8] = b"7d4958e842da4a758f6c1cdc7b36dcc5";
const UNIT_STOPPED: &[u8] = b"9d1aaa27d60140bd96365438aad20286";
const UNIT_STARTED: &[u8] = b"39f53479d3a045ac8e11786248231fbf";

/// A word of systemd's, or a line. What is too long is cut.
pub type Text<const N: usize> = Vec<u8, N, u16>;
/// Text of any length: a function that takes one is compiled once, not for each length.
type AnyText = VecView<u8, u16>;

/// A unit that failed.
pub struct Unit {
    /// Name of the unit.
    pub name: Text<NAME_MAX>,
    /// Result: `exit-code`, `signal`, `timeout`, …
    pub result: Text<WORD_MAX>,
    /// How the process of the unit ended: `exited`, `killed` or `dumped`; empty if unknown.
    pub exit_code: Text<WORD_MAX>,
    /// The exit status, or the number of the signal.
    pub exit_status: Option<u32>,
    /// Whether provisioning ends with this failure: the unit is one of Ignition's, or its failure
    /// started its `OnFailure=` units, or it is a target that failed because of a dependency.
    pub ends_provisioning: bool,
    /// The lines logged by the unit, and by systemd about it: the last lines of priority 4 and more
    /// urgent, and then the last of the others, each oldest first. Lines of a configuration that
    /// Ignition dumps are left out. Secrets are masked if the source masks them.
    pub lines: Vec<Text<LINE_MAX>, LINES_MAX, u8>,
}

/// Result of [`failed`].
#[derive(Default)]
pub struct Failed {
    /// The first units that failed, in order: [`UNITS_MAX`] at most.
    pub units: alloc::vec::Vec<Unit>,
    /// Number of further units that failed.
    pub more: u32,
    /// Units that were being started at the end, including devices that were waited for.
    pub starting: Vec<Text<NAME_MAX>, UNITS_MAX, u8>,
    /// Ignition's own error, if it logged one.
    pub ignition: Text<MESSAGE_MAX>,
    /// The first unit whose failure ends provisioning, whether it is in `units` or not.
    pub end: Text<NAME_MAX>,
    /// Whether the deadline came before the end of the journal. Further units may then have failed.
    pub is_late: bool,
    /// Whether the journal could not be opened at all.
    pub is_unreadable: bool,
}

/// The places of the last entries of a unit.
struct Seen {
    /// Hash of the unit's name.
    unit: u64,
    /// Number of the last entry of the unit.
    used: u64,
    has_failed: bool,
    is_told: bool,
    has_triggered: bool,
    result: Text<WORD_MAX>,
    /// The last lines of priority 4 and more urgent, and the last of the other lines.
    urgent: Vec<Line, LINES_MAX, u8>,
    lines: Vec<Line, LINES_MAX, u8>,
    exit_code: Text<WORD_MAX>,
    exit_status: Option<u32>,
}

/// The place of an entry.
#[derive(Clone, Copy)]
struct Line {
    file: u16,
    items: u32,
    at: u64,
    /// The state of private keys before the entry: see [`Source::key_lines`].
    key_lines: u8,
}

/// The relevant fields of an entry.
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
    /// Number of the field with the message.
    message: Option<u32>,
}

/// Reads the entries of `source` from its beginning, until its deadline.
///
/// If half of the time is not enough, the oldest entries are skipped up to the newest [`NEWEST`];
/// what was found until then is kept. The reported lines are read until `end`. Afterwards, the
/// source must be restarted before it is read.
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
    // The reported lines are worth just as much if the pass took all its time.
    source.set_deadline(end);
    // Targets fail with the units that they depend on; the unit that is the cause is reported.
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

/// Number of entries between two looks at the clock.
const CLOCK_STEP: u64 = 256;

/// What is known during the pass over the entries.
#[derive(Default)]
struct Pass {
    failed: Failed,
    seen: alloc::vec::Vec<Seen>,
    boot: Id,
    /// How telling the kept message of Ignition's is.
    rank: u8,
    number: u64,
    /// Whether entries were skipped for lack of time.
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
        // What systemd says without an id is recognised by its words alone.
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

/// Reads the lines of a failed unit again: first those that say what happened, then the last ones.
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
        // There is room for all lines that were remembered.
        let _ = unit.lines.push(line);
    }
}

/// Whether a message says what went wrong: by its priority, or by the level that Ignition writes
/// before the text when it logs to its standard output.
fn is_urgent(facts: &Facts, line: &[u8]) -> bool {
    matches!(&*facts.priority, b"0" | b"1" | b"2" | b"3" | b"4")
        || [&b"CRITICAL "[..], b"ERROR ", b"WARNING "].iter().any(|level| line.starts_with(level))
}

/// Whether a message of Ignition's begins with a line of a configuration, which is dumped as
/// indented JSON.
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

/// Removes the lines of a configuration from the end of a message of several lines.
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
/// Returns the place of a unit among those seen. A new unit replaces the one that logged least
/// recently and did not fail.
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

/// Adds a unit to the failed ones, or removes it from them.
fn judge(failed: &mut Failed, seen: &mut Seen, name: &Text<NAME_MAX>, facts: &Facts) {
    let id: &[u8] = &facts.message_id;
    let result = match id {
        _ if id == UNIT_FAILURE_RESULT => &facts.unit_result,
        // Some units have no result of their own, for example that of a device that did not appear.
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

/// Records that the failure of a unit started others. systemd may log that before or after the
/// failure itself.
fn trigger(failed: &mut Failed, seen: &mut Seen, name: &Text<NAME_MAX>) {
    seen.has_triggered = true;
    if seen.has_failed {
        take_in(failed, seen, name);
    }
}

/// Adds a unit to the failed ones. If there are too many, a unit that ends provisioning replaces
/// one that does not.
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

/// Adds a unit to those that are being started, or removes it from them.
fn note_start(starting: &mut Vec<Text<NAME_MAX>, UNITS_MAX, u8>, name: &Text<NAME_MAX>, id: &[u8]) {
    let is_start = id == UNIT_STARTING;
    if is_start || [UNIT_STARTED, UNIT_FAILED, UNIT_FAILURE_RESULT, UNIT_STOPPED].contains(&id) {
        if let Some(at) = starting.iter().position(|other| other == name) {
            starting.remove(at);
        }
        if is_start {
            // The units that have been starting for the longest time are reported.
            let _ = starting.push(name.clone());
        }
    }
}

/// Adds a device to those that are waited for, from the kernel's log.
///
/// systemd begins to wait for some devices, always including the root device, before there is a
/// journal to log to. Its message then comes through the kernel's log, in words alone.
fn note_device(starting: &mut Vec<Text<NAME_MAX>, UNITS_MAX, u8>, facts: &Facts, line: &[u8]) {
    if *facts.identifier != *b"systemd" || !facts.unit.is_empty() {
        return;
    }
    let Some(rest) = line.strip_prefix(b"Expecting device ") else { return };
    // `NAME - DESCRIPTION...`, or either alone (`StatusUnitFormat=`). The description is the path
    // until the device appears.
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

/// Appends a byte of a path in the escaped form of unit names (systemd.unit(5)). Returns whether
/// there was room.
fn escape(byte: u8, name: &mut Text<NAME_MAX>) -> bool {
    match byte {
        b'/' => name.push(b'-').is_ok(),
        _ if byte.is_ascii_alphanumeric() || b":_.".contains(&byte) => name.push(byte).is_ok(),
        _ => name.extend_from_slice(&[b'\\', b'x', hex_digit(byte >> 4), hex_digit(byte)]).is_ok(),
    }
}

/// Keeps the most telling line of Ignition's: its last words, else the last critical line. Stages
/// that log by syslog set a priority; the others write the level before the text.
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
        // The words are no longer than the line, so they fit.
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
        // There is room for one line.
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
            // The last field of a name counts. None of systemd's own values is longer than the room
            // for it.
            text.clear();
            take(source, entry, &field, usize::from(field.name_len).saturating_add(1), text);
        }
        facts
    }
}

/// Copies the beginning of a field's value, as much as fits.
fn copy(source: &mut Source, entry: &Entry, index: u32, text: &mut AnyText) {
    if let Some(field) = source.field(entry, index) {
        take(source, entry, &field, usize::from(field.name_len).saturating_add(1), text);
    }
}

/// Copies the bytes of a field from `skip` on, as many as fit, without cutting a character.
fn take(source: &mut Source, entry: &Entry, field: &Field, mut skip: usize, text: &mut AnyText) {
    let mut is_cut = false;
    // The closure never fails.
    let _ = source.read(entry, field, &mut |piece| {
        let rest = piece.get(skip..).unwrap_or_default();
        skip = skip.saturating_sub(piece.len());
        let room = text.capacity().saturating_sub(text.len());
        is_cut |= rest.len() > room;
        let _ = text.extend_from_slice(rest.get(..room).unwrap_or(rest));
        Ok(())
    });
    if is_cut {
        // Removes the part of a character that does not fit.
        let begins = text.iter().rposition(|b| b & 0xc0 != 0x80).unwrap_or(0);
        if text.get(begins..).is_some_and(|last| core::str::from_utf8(last).is_err()) {
            text.truncate(begins);
        }
    }
}

/// Hashes a name (FNV-1a). Names that collide would share their last lines, and no more.
fn hash(name: &[u8]) -> u64 {
    name.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

/// Passes each complaint about what could not be read to a function.
pub type Complaints<'c> = dyn FnMut(&mut dyn FnMut(&str)) + 'c;

/// Maximum number of bytes that [`Failed::encode`] writes, with [`COMPLAINTS_MAX`] complaints.
pub const ENCODED_MAX: usize = 56 * 1024;
/// Maximum number of complaints that are passed on.
const COMPLAINTS_MAX: usize = 8;
/// Flag of an encoded [`Failed`]: the time was over before everything was read.
pub const LATE: u8 = 1;
/// Flag of an encoded [`Failed`]: the journal could not be opened.
pub const UNREADABLE: u8 = 2;

impl Failed {
    /// Encodes the result for the processes that report it, together with the complaints about what
    /// could not be read of the journal, which `for_each` passes on.
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

    /// Decodes what [`Failed::encode`] wrote, and passes each complaint to `complain`. Truncated
    /// bytes count as late.
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

/// The bytes of an encoded [`Failed`] that are left to read.
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

/// Appends the length of `bytes`, and `bytes`.
fn put(bytes: &[u8], out: &mut alloc::vec::Vec<u8>) {
    out.extend_from_slice(&(bytes.len() as u16).to_le_bytes());
    out.extend_from_slice(bytes);
}

/// Returns what the process that starts the others needs to know of an encoded [`Failed`]: the unit
/// whose failure ends provisioning, and the flags [`LATE`] and [`UNREADABLE`]. Passes each
/// complaint to `complain`.
pub fn verdict<'b>(bytes: &'b [u8], complain: &mut dyn FnMut(&str)) -> (&'b str, u8) {
    let mut from = Encoded(bytes);
    let flags = from.byte().unwrap_or(LATE);
    let end = from.bytes().and_then(|name| core::str::from_utf8(name).ok()).unwrap_or_default();
    let _ = from.complaints(complain);
    // The name is printed on the console, so only printable characters may pass.
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
        // Only whole characters, as many as fit.
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
