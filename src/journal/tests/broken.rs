//! Effects of broken files on the reader: readable entries come out, unreadable ones are counted,
//! and nothing else happens.

use crate::encode::Format;
use crate::journal::format::{ARRAY_LEN, ENTRY_LEN};
use crate::journal::tests::{Folder, fixture, written};

const NAME: &str = "system.journal";
const ENTRY_ARRAY_AT: usize = 176;
const ENTRIES_AT: usize = 152;

fn read(content: &[u8]) -> (Vec<u8>, u64) {
    let folder = Folder::with_journals(&[(NAME, content)]);
    let (out, stats) = written(&mut folder.source(), Format::Export);
    (out, stats.entries)
}

fn u64_of(bytes: &[u8], at: usize) -> usize {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize
}

fn put(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

/// Returns the messages of rdreport's own remarks at the end.
fn remarks(out: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(out);
    let of_ours = |entry: &&str| entry.contains("\nSYSLOG_IDENTIFIER=rdreport\n");
    let message = |entry: &str| entry.lines().find_map(|l| l.strip_prefix("MESSAGE=")).unwrap().to_owned();
    text.split("\n\n").filter(of_ours).map(message).collect()
}

/// Returns the entries without rdreport's own remarks.
fn entries(out: &[u8]) -> Vec<Vec<u8>> {
    let text: Vec<u8> = out.to_vec();
    let mut list = vec![vec![]];
    for line in text.split_inclusive(|b| *b == b'\n') {
        if line.starts_with(b"__CURSOR=") {
            list.push(vec![]);
        } else if line.starts_with(b"__REALTIME_TIMESTAMP=") && list.last().unwrap().len() > 300 {
            break;
        }
        list.last_mut().unwrap().extend(line);
    }
    list.into_iter().skip(1).collect()
}

/// A generator of numbers that are the same each time (xorshift).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end as u64) as usize
    }
}

#[test]
fn a_file_without_its_entry_arrays_is_read_whole() {
    for name in ["initrd-systemd252-fakeignition", "layouts/none", "layouts/zstd-compact"] {
        let mut content = fixture(&format!("{name}.journal"));
        let (whole, count) = read(&content);
        put(&mut content, ENTRY_ARRAY_AT, 0);
        assert!(read(&content) == (whole.clone(), count), "{name}");
        put(&mut content, ENTRY_ARRAY_AT, 1 << 60);
        assert!(read(&content) == (whole, count), "{name}");
    }
}

#[test]
fn arrays_that_form_a_loop_end() {
    let original = fixture("initrd-systemd252-fakeignition.journal");
    let (whole, count) = read(&original);
    let first = u64_of(&original, ENTRY_ARRAY_AT);
    let second = u64_of(&original, first + 16);
    for (array, next) in [(first, first), (second, first), (second, second)] {
        let mut content = original.clone();
        put(&mut content, array + 16, next as u64);
        // The rest is found without arrays.
        assert!(read(&content) == (whole.clone(), count));
    }
    // The same with items that all refer to one entry.
    let mut content = original.clone();
    let item = original[first + ARRAY_LEN..first + ARRAY_LEN + 4].to_vec();
    content[first + ARRAY_LEN + 4..first + ARRAY_LEN + 8].copy_from_slice(&item);
    let (out, found) = read(&content);
    assert_eq!(found, count - 1);
    let at = u32::from_le_bytes(item.try_into().unwrap());
    assert_eq!(remarks(&out), [format!("journal: 1 entries unreadable, the first in system.journal at offset {at}")]);
}

#[test]
fn counts_that_are_wrong() {
    let original = fixture("initrd-systemd257-fakeignition.journal");
    let (whole, count) = read(&original);
    for wrong in [0, 1, count - 1] {
        let mut content = original.clone();
        put(&mut content, ENTRIES_AT, wrong);
        assert!(read(&content) == (whole.clone(), count), "{wrong}");
    }
    let mut content = original.clone();
    put(&mut content, ENTRIES_AT, count + 5);
    let (out, found) = read(&content);
    assert_eq!(found, count);
    assert!(out.starts_with(&whole));
    assert!(remarks(&out)[0].starts_with("journal: 5 entries unreadable, the first in system.journal at offset "));
    put(&mut content, ENTRIES_AT, u64::MAX);
    assert_eq!(read(&content).1, count);
}

#[test]
fn fields_that_cannot_be_read_are_left_out_and_counted() {
    let mut content = fixture("layouts/none.journal");
    let (whole, count) = read(&content);
    let array = u64_of(&content, ENTRY_ARRAY_AT);
    let entry = u64_of(&content, array + ARRAY_LEN);
    for (item, offset) in [(0, 0), (1, u64::MAX), (2, 8), (3, entry as u64)] {
        put(&mut content, entry + ENTRY_LEN + 16 * item, offset);
    }
    // An object without a byte.
    let data = u64_of(&content, entry + ENTRY_LEN + 16 * 4);
    put(&mut content, data + 8, 0);
    let (out, found) = read(&content);
    assert_eq!(found, count);
    assert!(out.len() < whole.len());
    let found = &remarks(&out)[0];
    assert!(found.ends_with(&format!(" fields unreadable, the first in system.journal at offset {entry}")), "{found}");
    let message = |out: &[u8]| out.split(|b| *b == b'\n').filter(|line| line.starts_with(b"MESSAGE=ACPI: ")).count();
    assert_eq!(message(&out), message(&whole));
}

#[test]
fn cut_at_every_4_kib() {
    let original = fixture("initrd-systemd252-fakeignition.journal");
    let whole = entries(&read(&original).0);
    let used = original.iter().rposition(|b| *b != 0).unwrap();
    let mut before = 0;
    for len in (4096..used).step_by(4096) {
        let (out, found) = read(&original[..len]);
        assert!(found >= before, "{len}");
        before = found;
        let missing = whole.len() as u64 - found;
        let said = remarks(&out).concat();
        assert!(missing == 0 || said.contains(&format!("journal: {missing} entries ")), "{len}: {said}");
        // Entries whose fields are intact are unchanged.
        let intact = entries(&out).iter().filter(|entry| whole.contains(entry)).count();
        assert!(intact as u64 * 10 >= found * 9, "{len}: {intact} of {found}");
    }
    assert!(before > 500);
    // A file shorter than its header is not a journal file.
    let folder = Folder::with_journals(&[(NAME, &original[..100])]);
    assert!(crate::journal::tests::open(&folder.root()).is_err());
}

#[test]
fn flipped_bits() {
    let mut numbers = Numbers(0x5eed);
    for name in ["initrd-systemd252-fakeignition", "layouts/none", "layouts/zstd", "layouts/zstd-compact-keyed"] {
        let original = fixture(&format!("{name}.journal"));
        let used = original.iter().rposition(|b| *b != 0).unwrap();
        let (_, count) = read(&original);
        for _ in 0..20 {
            let mut content = original[..original.len().min(used + 4096)].to_vec();
            // Half of them hit the structures: headers and the first objects.
            let end = if numbers.below(2) == 0 { used } else { used / 8 };
            let at = numbers.below(end);
            content[at] ^= 1 << numbers.below(8);
            let folder = Folder::with_journals(&[(NAME, &content)]);
            let Ok(mut source) = crate::journal::tests::open(&folder.root()) else {
                assert!(at < 208, "{name} {at}");
                continue;
            };
            let (out, stats) = written(&mut source, Format::Export);
            assert!(
                stats.entries + 1 >= count || !remarks(&out).is_empty(),
                "{name}: {} of {count}, bit in {at}",
                stats.entries
            );
            assert!(stats.entries + 2 >= count || at < 272, "{name}: {} of {count}, bit in {at}", stats.entries);
            source.rewind();
            assert!(written(&mut source, Format::Export).0 == out);
        }
    }
}
