//! Which units failed in the newest boot, with their last lines, and what Ignition said: from the journal alone.
//!
//! systemd's messages are known by their `MESSAGE_ID` (its `sd-messages.h`); the unit is in `UNIT`, the reason in `UNIT_RESULT` (or
//! `JOB_RESULT`), the process' end in `EXIT_CODE` and `EXIT_STATUS`. A unit that was started afterwards has not failed. One pass: of each
//! unit seen, where its last entries are is remembered, and only those of units that failed are read again.

use super::data::{Field, IDENTIFIER, MESSAGE, Name, name};
use super::file::Entry;
use super::source::Source;
use crate::text::{hex_digit, number};
use heapless::Vec;

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
/// Entries that are looked at, the newest: half a second's work. An initramfs logs a thousand.
const ENTRIES_MAX: u64 = 200_000;

const MESSAGE_ID: Name = name(b"MESSAGE_ID");
const UNIT: Name = name(b"UNIT");
const SYSTEMD_UNIT: Name = name(b"_SYSTEMD_UNIT");
const UNIT_RESULT: Name = name(b"UNIT_RESULT");
const JOB_RESULT: Name = name(b"JOB_RESULT");
const RESULT: Name = name(b"RESULT");
const EXIT_CODE: Name = name(b"EXIT_CODE");
const EXIT_STATUS: Name = name(b"EXIT_STATUS");
const PRIORITY: Name = name(b"PRIORITY");

const UNIT_FAILURE_RESULT: &[u8] = b"d9b373ed55a64feb8242e02dbe79a49c";
const UNIT_PROCESS_EXIT: &[u8] = b"98e322203f7a4ed290d09fe03c09fe15";
const UNIT_FAILED: &[u8] = b"be02cf6855d2428ba40df7e9d022f03d";
const UNIT_STARTING: &[u8] = b"7d4958e842da4a758f6c1cdc7b36dcc5";
const UNIT_STOPPED: &[u8] = b"9d1aaa27d60140bd96365438aad20286";
const UNIT_STARTED: &[u8] = b"39f53479d3a045ac8e11786248231fbf";

/// A word of systemd's, or a line; what was too long is cut.
pub type Text<const N: usize> = Vec<u8, N, u16>;

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
    /// The last lines that it logged and that systemd logged about it, oldest first. Secrets are masked as the source does.
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
}

/// Where the last entries of a unit are.
struct Seen {
    /// A hash of its name.
    unit: u64,
    /// When it logged last, counted in entries.
    used: u64,
    has_failed: bool,
    is_told: bool,
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

/// Goes through the newest entries of `source` from its beginning. Afterwards it must be rewound to be read.
pub fn failed(source: &mut Source) -> Failed {
    source.rewind();
    let mut failed = Failed::default();
    let mut seen: alloc::vec::Vec<Seen> = alloc::vec::Vec::new();
    let mut boot = [0; 16];
    let mut rank = 0;
    let mut skip = source.entries().saturating_sub(ENTRIES_MAX);
    let mut number = 0u64;
    while let Some(entry) = source.next_entry() {
        if skip > 0 {
            skip = skip.saturating_sub(1);
            continue;
        }
        number = number.saturating_add(1);
        if entry.boot_id != boot {
            boot = entry.boot_id;
            rank = 0;
            seen.clear();
            failed = Failed::default();
        }
        let key_lines = source.key_lines();
        let facts = Facts::of(source, &entry);
        let name = if facts.unit.is_empty() { &facts.own_unit } else { &facts.unit };
        if !name.is_empty() {
            let index = remember(&mut seen, hash(name), number);
            if let Some(seen) = seen.get_mut(index) {
                seen.note(&entry, &facts, key_lines);
                judge(&mut failed, seen, name, &facts);
                note_start(&mut failed.starting, name, &facts.message_id);
            }
        }
        if let Some(message) = facts.message {
            // It reads the message again.
            let after = source.key_lines();
            source.set_key_lines(key_lines);
            ignition(&mut failed.ignition, &mut rank, source, &entry, &facts, message);
            source.set_key_lines(key_lines);
            note_device(&mut failed.starting, source, &entry, &facts, message);
            source.set_key_lines(after);
        }
    }
    for unit in &mut failed.units {
        let unit_hash = hash(&unit.name);
        let Some(seen) = seen.iter().find(|seen| seen.unit == unit_hash) else { continue };
        for Line { file, items, at, key_lines } in seen.lines.iter().copied() {
            let entry = Entry { file, at, items, ..Entry::default() };
            let Some(message) = Facts::of(source, &entry).message else { continue };
            source.set_key_lines(key_lines);
            let mut line = Vec::new();
            copy(source, &entry, message, &mut line);
            // There are as many as were remembered.
            let _ = unit.lines.push(line);
        }
    }
    failed
}

/// The place of a unit among those seen: a new one takes the place of the one that logged least recently and did not fail.
fn remember(seen: &mut alloc::vec::Vec<Seen>, unit: u64, number: u64) -> usize {
    let index = seen.iter().position(|seen| seen.unit == unit).unwrap_or_else(|| {
        let new = Seen {
            unit,
            used: number,
            has_failed: false,
            is_told: false,
            lines: Vec::new(),
            exit_code: Vec::new(),
            exit_status: None,
        };
        let oldest = seen
            .iter()
            .enumerate()
            .min_by_key(|(_, seen)| (seen.is_told, seen.has_failed, seen.used))
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
    let known = failed.units.iter().position(|unit| unit.name == *name);
    let result = match id {
        _ if id == UNIT_FAILURE_RESULT => &facts.unit_result,
        // The unit of a device that did not come, for one, has no result of its own.
        _ if id == UNIT_FAILED && matches!(&*facts.job_result, b"timeout" | b"failed") && !seen.has_failed => {
            &facts.job_result
        }
        _ if id == UNIT_STARTED && matches!(&*facts.job_result, b"" | b"done") => {
            match known {
                Some(index) => drop(failed.units.remove(index)),
                None if seen.has_failed => failed.more = failed.more.saturating_sub(1),
                None => {}
            }
            (seen.has_failed, seen.is_told) = (false, false);
            return;
        }
        _ => return,
    };
    let unit = Unit {
        name: name.clone(),
        result: result.clone(),
        exit_code: seen.exit_code.clone(),
        exit_status: seen.exit_status,
        lines: Vec::new(),
    };
    match known {
        Some(index) => {
            if let Some(known) = failed.units.get_mut(index) {
                *known = unit;
            }
        }
        None if failed.units.len() < UNITS_MAX => {
            failed.units.push(unit);
            seen.is_told = true;
        }
        None if !seen.has_failed => failed.more = failed.more.saturating_add(1),
        None => {}
    }
    seen.has_failed = true;
}

/// Takes a unit among those that are being started, or out of them.
fn note_start(starting: &mut Vec<Text<NAME_MAX>, UNITS_MAX, u8>, name: &Text<NAME_MAX>, id: &[u8]) {
    let is_start = id == UNIT_STARTING;
    if is_start || [UNIT_STARTED, UNIT_FAILED, UNIT_FAILURE_RESULT, UNIT_STOPPED].contains(&id) {
        starting.retain(|other| other != name);
        if is_start {
            // The ones that have been at it longest are told.
            let _ = starting.push(name.clone());
        }
    }
}

/// Takes a device among those that are waited for that systemd began to wait for before there was a journal to be told: what it says then comes by
/// the kernel's log, in words alone. The root device is one of them, always.
fn note_device(
    starting: &mut Vec<Text<NAME_MAX>, UNITS_MAX, u8>,
    source: &mut Source,
    entry: &Entry,
    facts: &Facts,
    message: u32,
) {
    if *facts.identifier != *b"systemd" || !facts.unit.is_empty() {
        return;
    }
    let mut line: Text<MESSAGE_MAX> = Vec::new();
    copy(source, entry, message, &mut line);
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
fn ignition(
    text: &mut Text<MESSAGE_MAX>,
    rank: &mut u8,
    source: &mut Source,
    entry: &Entry,
    facts: &Facts,
    message: u32,
) {
    const LEVEL: &[u8] = b"CRITICAL : ";
    if *facts.identifier != *b"ignition" && !facts.own_unit.starts_with(b"ignition-") {
        return;
    }
    let mut line: Text<MESSAGE_MAX> = Vec::new();
    copy(source, entry, message, &mut line);
    let has_level = line.starts_with(LEVEL);
    let words = if has_level { line.get(LEVEL.len()..).unwrap_or_default() } else { &line };
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
    fn note(&mut self, entry: &Entry, facts: &Facts, key_lines: u8) {
        if facts.message.is_some() {
            if self.lines.is_full() {
                self.lines.remove(0);
            }
            // There is room for one.
            let _ = self.lines.push(Line { file: entry.file, items: entry.items, at: entry.at, key_lines });
        }
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
            let Some(field) = source.field(entry, index) else { continue };
            match field.name() {
                MESSAGE => facts.message = Some(index),
                MESSAGE_ID => fill(&mut facts.message_id, source, entry, &field),
                UNIT => fill(&mut facts.unit, source, entry, &field),
                SYSTEMD_UNIT => fill(&mut facts.own_unit, source, entry, &field),
                UNIT_RESULT => fill(&mut facts.unit_result, source, entry, &field),
                JOB_RESULT | RESULT => fill(&mut facts.job_result, source, entry, &field),
                EXIT_CODE => fill(&mut facts.exit_code, source, entry, &field),
                EXIT_STATUS => fill(&mut facts.exit_status, source, entry, &field),
                IDENTIFIER => fill(&mut facts.identifier, source, entry, &field),
                PRIORITY => fill(&mut facts.priority, source, entry, &field),
                _ => {}
            }
        }
        facts
    }
}

/// The value of a field, up to the end of its first lines that fit.
fn copy<const N: usize>(source: &mut Source, entry: &Entry, index: u32, text: &mut Text<N>) {
    if let Some(field) = source.field(entry, index) {
        take(source, entry, &field, usize::from(field.name_len).saturating_add(1), text);
    }
}

/// The bytes of a field from `skip` on, as many as fit, cut where no character is cut.
fn take<const N: usize>(source: &mut Source, entry: &Entry, field: &Field, mut skip: usize, text: &mut Text<N>) {
    let mut is_cut = false;
    // What `output` gives is no error.
    let _ = source.read(entry, field, &mut |piece| {
        let rest = piece.get(skip..).unwrap_or_default();
        skip = skip.saturating_sub(piece.len());
        let room = N.saturating_sub(text.len());
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

/// The value of a field in place of what there was. None of systemd's own is longer than there is room for.
fn fill<const N: usize>(text: &mut Text<N>, source: &mut Source, entry: &Entry, field: &Field) {
    text.clear();
    take(source, entry, field, usize::from(field.name_len).saturating_add(1), text);
}

/// FNV-1a: names that meet would share their last lines, no more.
fn hash(name: &[u8]) -> u64 {
    name.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::tests::{Built, Folder, fixture};

    fn failed_in(content: &[u8]) -> Failed {
        let folder = Folder::with_journals(&[("system.journal", content)]);
        let mut source = folder.source();
        source.restart(true);
        failed(&mut source)
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
        let found = failed(&mut source);
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
