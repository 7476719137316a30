//! systemd's journal export format, as `journalctl -o export` of systemd 254 and later prints it.
//!
//! Specification: systemd's JOURNAL_EXPORT_FORMATS, "Journal Export Format". A field that is one
//! line of printable text is `NAME=value` and a line feed. Any other field is the name alone on a
//! line, the length as 64 bits little-endian, the value, and a line feed. An empty line ends an
//! entry.

use crate::encode::{Buffer, IMPORTANT, LEFT_OUT};
use crate::error::Error;
use crate::journal::file::Entry;
use crate::journal::format::Id;
use crate::journal::payload::{Name, name};
use crate::journal::printable::Text;
use crate::journal::source::Source;
use crate::sink::Sink;
use crate::text;

/// The boot's id, which is also among an entry's own fields. It is written only once.
pub(super) const BOOT_ID: Name = name(b"_BOOT_ID");

/// Maximum number of fields of an entry that systemd accepts (`ENTRY_FIELD_COUNT_MAX` in its
/// `journal-importer.h`). systemd-journal-remote drops the connection at an entry with more.
const FIELDS_MAX: u32 = 1024;
/// Maximum number of bytes of all fields of an entry, and so of each field, that systemd accepts
/// (`DATA_SIZE_MAX`; `ENTRY_SIZE_MAX` is 2 MiB more).
const BYTES_MAX: u64 = 768 << 20;
/// Number of fields that rdreport adds: the boot's id, and the number of fields left out.
const OWN: u32 = 2;

/// Writes one entry.
pub(super) fn entry(source: &mut Source, entry: &Entry, out: &mut Buffer) -> Result<(), Error> {
    let seqnum_id = source.seqnum_id(entry);
    // An entry of rdreport's own has no cursor.
    let has_address = entry.seqnum != 0;
    if has_address {
        out.put(b"__CURSOR=")?;
        cursor(entry, &seqnum_id, out)?;
        out.put(b"\n")?;
    }
    out.put(b"__REALTIME_TIMESTAMP=")?;
    decimal(entry.realtime, out)?;
    out.put(b"\n__MONOTONIC_TIMESTAMP=")?;
    decimal(entry.monotonic, out)?;
    if has_address {
        out.put(b"\n__SEQNUM=")?;
        decimal(entry.seqnum, out)?;
        out.put(b"\n__SEQNUM_ID=")?;
        id(&seqnum_id, out)?;
    }
    out.put(b"\n_BOOT_ID=")?;
    id(&entry.boot_id, out)?;
    out.put(b"\n")?;
    let mut room = Room { fields: FIELDS_MAX.saturating_sub(OWN), bytes: BYTES_MAX, left_out: 0 };
    // The indices of the fields that were written first, in order.
    let mut first = heapless::Vec::<u32, { IMPORTANT.len() }, u8>::new();
    if entry.items > room.fields {
        first = important(source, entry);
        for index in first.iter().copied() {
            field(source, entry, index, &mut room, out)?;
        }
    }
    for index in 0..entry.items {
        match source.kept_line(entry, index) {
            _ if first.contains(&index) => {}
            Some((BOOT_ID, _)) => {}
            Some((_, line)) if room.takes(line.len() as u64) => out.put(line)?,
            Some(_) => {}
            None => field(source, entry, index, &mut room, out)?,
        }
    }
    if room.left_out > 0 {
        out.put(LEFT_OUT.as_bytes())?;
        out.put(b"=")?;
        decimal(room.left_out, out)?;
        out.put(b"\n")?;
    }
    out.put(b"\n")
}

/// The room that is left in an entry.
struct Room {
    fields: u32,
    bytes: u64,
    left_out: u64,
}

impl Room {
    /// Counts in a field of `len` bytes if there is room, or counts it as left out. Returns whether
    /// there was room.
    fn takes(&mut self, len: u64) -> bool {
        match (self.fields.checked_sub(1), self.bytes.checked_sub(len)) {
            (Some(fields), Some(bytes)) => (self.fields, self.bytes) = (fields, bytes),
            _ => {
                self.left_out = self.left_out.saturating_add(1);
                return false;
            }
        }
        true
    }
}

/// Returns the indices of the important fields.
fn important(source: &mut Source, entry: &Entry) -> heapless::Vec<u32, { IMPORTANT.len() }, u8> {
    let mut first = heapless::Vec::new();
    // These fields are read again, and their secrets counted then.
    let found = source.found();
    for index in 0..entry.items {
        let is_important = source.field(entry, index).is_some_and(|field| IMPORTANT.contains(&field.name()));
        if is_important && first.push(index).is_err() {
            break;
        }
    }
    source.set_found(found);
    first
}

/// Writes the cursor of an entry, as `sd_journal_get_cursor` makes it.
pub(super) fn cursor(entry: &Entry, seqnum_id: &Id, out: &mut Buffer) -> Result<(), Error> {
    out.put(b"s=")?;
    id(seqnum_id, out)?;
    out.put(b";i=")?;
    hex(entry.seqnum, out)?;
    out.put(b";b=")?;
    id(&entry.boot_id, out)?;
    for (name, value) in [(b";m=", entry.monotonic), (b";t=", entry.realtime), (b";x=", entry.xor_hash)] {
        out.put(name)?;
        hex(value, out)?;
    }
    Ok(())
}

fn field(source: &mut Source, entry: &Entry, index: u32, room: &mut Room, out: &mut Buffer) -> Result<(), Error> {
    let Some(field) = source.field(entry, index).filter(|field| !field.is_named(BOOT_ID)) else { return Ok(()) };
    if !room.takes(field.len()) {
        return Ok(());
    }
    if field.text == Text::Line {
        source.read(entry, &field, &mut |piece| out.put(piece))?;
        return out.put(b"\n");
    }
    let mut name = usize::from(field.name_len);
    let mut is_named = false;
    source.read(entry, &field, &mut |piece| {
        if is_named {
            return out.put(piece);
        }
        let (of_name, rest) = piece.split_at_checked(name).unwrap_or((piece, b""));
        out.put(of_name)?;
        name = name.saturating_sub(of_name.len());
        let Some((_, value)) = rest.split_first() else { return Ok(()) };
        is_named = true;
        out.put(b"\n")?;
        out.put(&field.value_len().to_le_bytes())?;
        out.put(value)
    })?;
    out.put(b"\n")
}

pub(super) fn decimal(n: u64, out: &mut Buffer) -> Result<(), Error> {
    out.put(text::decimal(n, &mut [0; text::DECIMAL_MAX]).as_bytes())
}

pub(super) fn id(id: &Id, out: &mut Buffer) -> Result<(), Error> {
    id.as_chunks().0.iter().try_for_each(|half| out.put(&text::hex(u64::from_be_bytes(*half))))
}

/// Writes `n` in hexadecimal, without leading zeros.
fn hex(n: u64, out: &mut Buffer) -> Result<(), Error> {
    let zeros = (n.leading_zeros() / 4).min(15) as usize;
    out.put(text::hex(n).get(zeros..).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use crate::encode::Format;
    use crate::journal::tests::{Built, Folder, fixture, written};

    /// Removes the lines that begin with one of `starts`. (No value of the fixtures has such a
    /// line.)
    fn without(export: &[u8], starts: &[&str]) -> Vec<u8> {
        let is_kept = |line: &&[u8]| !starts.iter().any(|start| line.starts_with(start.as_bytes()));
        export.split_inclusive(|b| *b == b'\n').filter(is_kept).flatten().copied().collect()
    }

    #[test]
    fn real_journals_as_journalctl_prints_them() {
        for (name, entries) in [
            ("initrd-systemd252-fakeignition", 527),
            ("initrd-systemd252-ignition-disks-missing", 612),
            ("initrd-systemd252-ignition-fetch-404", 554),
            ("initrd-systemd252-ignition-fetchoffline-badhash", 534),
            ("initrd-systemd252-ignition-files-badhash", 684),
            ("initrd-systemd257-fakeignition", 472),
        ] {
            let folder = Folder::with_journals(&[("system.journal", fixture(&format!("{name}.journal")))]);
            let expected = fixture(&format!("{name}.export"));
            let (mut found, stats) = written(&mut folder.source(), Format::Export);
            // systemd 252 does not print sequence numbers.
            if !expected.windows(9).any(|w| w == b"__SEQNUM=") {
                found = without(&found, &["__SEQNUM=", "__SEQNUM_ID="]);
            }
            assert!(found == expected, "{name}");
            assert_eq!(
                stats.entries,
                expected.split(|b| *b == b'\n').filter(|l| l.starts_with(b"__CURSOR=")).count() as u64
            );
            assert!(entries == 0 || stats.entries == entries);
        }
    }

    #[test]
    fn secrets_are_masked() {
        let name = "initrd-systemd252-ignition-files-badhash";
        let folder = Folder::with_journals(&[("system.journal", fixture(&format!("{name}.journal")))]);
        let mut source = folder.source();
        let (plain, stats) = written(&mut source, Format::Export);
        assert_eq!(stats.masked, 0);
        source.restart(true);
        let (masked, stats) = written(&mut source, Format::Export);
        let text = String::from_utf8_lossy(&masked);
        assert!(!text.contains("TOPSECRET") && !text.contains("notarealhash"));
        assert!(text.contains("\nMESSAGE=          \"source\": \"data:,***\",\n"));
        assert!(text.contains("\nMESSAGE=        \"passwordHash\": \"***\"\n"));
        // Everything else is unchanged.
        let count = |text: &[u8]| text.split(|b| *b == b'\n').count();
        assert_eq!(count(&masked), count(&plain));
        let differ = plain.split(|b| *b == b'\n').zip(masked.split(|b| *b == b'\n')).filter(|(a, b)| a != b).count();
        assert_eq!((stats.masked, differ as u64), (stats.masked, stats.masked), "{}", text.matches("***").count());
        source.rewind();
        assert!(written(&mut source, Format::Export) == (masked, stats));
        source.restart(false);
        assert!(written(&mut source, Format::Export).0 == plain);
    }

    #[test]
    fn masked_values_are_framed_by_their_new_length() {
        let key = "MESSAGE=-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----\n";
        let content = Built::new()
            .entry(&[(0, b"A=1\n$6$salt$hash\xff"), (0, key.as_bytes())])
            .entry(&[(0, b"MESSAGE=-----BEGIN RSA PRIVATE KEY-----")])
            .entry(&[(0, b"MESSAGE=MIIEpAIBAAKCAQEA")])
            .entry(&[(0, b"MESSAGE=another process")])
            .entry(&[(0, b"MESSAGE=aGVsbG8=")])
            .entry(&[(0, b"MESSAGE=-----END RSA PRIVATE KEY-----")])
            .entry(&[(0, b"MESSAGE=c29tZXRoaW5n")])
            .finish();
        // The key's END line is shared with other entries, as journald shares fields that were
        // logged before.
        let mut content = content;
        let end = b"MESSAGE=-----END RSA";
        let at = content.windows(end.len()).position(|w| w == end).unwrap();
        content[at - 8] = 2;
        let folder = Folder::with_journals(&[("system.journal", content)]);
        let mut source = folder.source();
        source.restart(true);
        let (found, stats) = written(&mut source, Format::Export);
        let text = String::from_utf8_lossy(&found);
        let framed = b"A\n\x09\0\0\0\0\0\0\x001\n$6$***\xff\n";
        assert!(found.windows(framed.len()).any(|w| w == framed), "{text}");
        assert!(text.contains("-----BEGIN PRIVATE KEY-----***-----END PRIVATE KEY-----\n"), "{text}");
        let messages: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("MESSAGE=")).collect();
        let end = "-----END RSA PRIVATE KEY-----";
        assert_eq!(messages[1..], ["***", "another process", "***", end, "c29tZXRoaW5n"]);
        assert_eq!(stats.masked, 5);
        assert!(written(&mut source, Format::Export) == (found.clone(), stats), "again");
        // The entries are read twice where they are counted first; test that path as well.
        let mut out = Vec::new();
        crate::encode::stream(&mut source, Format::Export, Some(found.len() as u64 - 1), &mut out).unwrap();
        assert!(String::from_utf8_lossy(&out).ends_with("MESSAGE=c29tZXRoaW5n\n\n"));
    }

    #[test]
    fn every_layout_gives_the_same() {
        let ours = ["__CURSOR=", "__SEQNUM=", "__SEQNUM_ID="];
        let expected = without(&fixture("layouts/expected.export"), &ours);
        for compression in ["none", "zstd", "lz4", "xz"] {
            if compression == "xz" && !cfg!(feature = "xz") {
                continue;
            }
            for layout in ["", "-compact", "-keyed", "-compact-keyed"] {
                let name = format!("layouts/{compression}{layout}.journal");
                let folder = Folder::with_journals(&[("system.journal", fixture(&name))]);
                let (found, stats) = written(&mut folder.source(), Format::Export);
                assert!(without(&found, &ours) == expected, "{name}");
                assert_eq!(stats.entries, 60, "{name}");
            }
        }
    }

    #[cfg(not(feature = "xz"))]
    #[test]
    fn fields_whose_compression_is_not_built_in_are_left_out_and_counted() {
        let folder = Folder::with_journals(&[("system.journal", fixture("layouts/xz.journal"))]);
        let (found, stats) = written(&mut folder.source(), Format::Export);
        assert_eq!(stats.entries, 60);
        assert!(String::from_utf8_lossy(&found).ends_with(
            "PRIORITY=4\nSYSLOG_IDENTIFIER=rdreport\n\
             MESSAGE=journal: 47 fields left out, whose compression is not built in\n\n"
        ));
    }

    #[test]
    fn again_from_the_beginning_gives_the_same() {
        let files = ["zstd", "none-compact"]
            .map(|name| (format!("{name}.journal"), fixture(&format!("layouts/{name}.journal"))));
        let folder = Folder::with_journals(&files.each_ref().map(|(name, content)| (name.as_str(), content)));
        let mut source = folder.source();
        let first = written(&mut source, Format::Export);
        source.rewind();
        assert!(written(&mut source, Format::Export) == first);
    }
}
