//! Fields that are too large for memory, and fields that only claim to be.

use crate::encode::Format;
use crate::journal::tests::{Built, Folder, written};

const ZSTD: u8 = 4;
const LZ4: u8 = 2;

/// Returns the value of the only field of the first entry, after checking its framing.
fn value(content: &[u8]) -> Vec<u8> {
    let folder = Folder::with_journals(&[("system.journal", content)]);
    let (out, stats) = written(&mut folder.source(), Format::Export);
    assert_eq!(stats.entries, 1);
    let at = out.windows(3).position(|w| w == b"\nF=" || w == b"\nF\n").unwrap();
    let rest = &out[at + 3..];
    if out[at + 2] == b'=' {
        return rest[..rest.iter().position(|b| *b == b'\n').unwrap()].to_vec();
    }
    let len = u64::from_le_bytes(rest[..8].try_into().unwrap()) as usize;
    assert_eq!(&rest[8 + len..8 + len + 2], b"\n\n");
    rest[8..8 + len].to_vec()
}

fn lz4(payload: &[u8]) -> Vec<u8> {
    [&(payload.len() as u64).to_le_bytes()[..], &lz4_flex::block::compress(payload)].concat()
}

/// Returns a frame of one segment with this content size and these blocks, each with its type, size
/// and bytes.
fn zstd(size: u64, blocks: &[(u32, u32, &[u8])]) -> Vec<u8> {
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0xe0];
    frame.extend(size.to_le_bytes());
    for (index, (kind, len, bytes)) in blocks.iter().enumerate() {
        let is_last = u32::from(index + 1 == blocks.len());
        frame.extend(&(is_last | kind << 1 | len << 3).to_le_bytes()[..3]);
        frame.extend(*bytes);
    }
    frame
}

#[test]
fn a_field_of_64_mb_comes_whole() {
    let payload: Vec<u8> = b"F=".iter().copied().chain((0..64_000_000u32).map(|i| (i % 251) as u8)).collect();
    assert!(value(&Built::new().entry(&[(0, &payload)]).finish()) == payload[2..]);
}

#[cfg(feature = "lz4")]
#[test]
fn lz4_of_any_length_comes_whole() {
    for len in [1, 3, 20, 512, 65_535, 65_536, 65_537, 131_072, 3_000_000] {
        for spread in [1, 7, 251, 60_000, 100_000] {
            let payload: Vec<u8> =
                b"F=".iter().copied().chain((0..len as u32).map(|i| (i % spread) as u8 ^ (i / spread) as u8)).collect();
            assert!(value(&Built::new().entry(&[(LZ4, &lz4(&payload))]).finish()) == payload[2..], "{len} {spread}");
        }
    }
}

#[cfg(feature = "lz4")]
#[test]
fn lz4_that_is_wrong_is_left_out() {
    let payload = [b"F=".as_slice(), &[b'x'; 5000]].concat();
    let packed = lz4(&payload);
    let cut = &packed[..packed.len() - 3];
    let mut too_long = packed.clone();
    too_long[..8].copy_from_slice(&6000u64.to_le_bytes());
    let far = [&5000u64.to_le_bytes()[..], &[0x2f, b'F', b'=', 9, 0, 200]].concat();
    let zero = [&5000u64.to_le_bytes()[..], &[0x2f, b'F', b'=', 0, 0, 200]].concat();
    for wrong in [cut, &too_long, &far, &zero, &packed[..7], &[255; 300]] {
        let folder =
            Folder::with_journals(&[("system.journal", Built::new().entry(&[(LZ4, wrong), (0, b"A=1")]).finish())]);
        let out = String::from_utf8(written(&mut folder.source(), Format::Export).0).unwrap();
        assert!(out.contains("\nA=1\n\n"), "{out}");
        assert!(out.contains("MESSAGE=journal: 1 fields unreadable, the first in system.journal at offset "), "{out}");
    }
}

#[cfg(feature = "zstd")]
#[test]
fn a_bomb_is_cut() {
    // Each of the blocks is four bytes and becomes 128 KiB.
    let rle = (1, 128 << 10, &b"x"[..]);
    let mut blocks = vec![(0, 2, &b"F="[..])];
    blocks.resize(8001, rle);
    let size = 2 + 8000 * (128 << 10);
    let content = Built::new().entry(&[(ZSTD, &zstd(size, &blocks))]).finish();
    assert!(content.len() < 40_000);
    let found = value(&content);
    let mark = format!(" [cut by rdreport: {} of {size} bytes]", 128 << 20);
    assert_eq!(found.len(), (128 << 20) - 2 + mark.len());
    assert!(found.ends_with(mark.as_bytes()));
}

#[cfg(feature = "zstd")]
#[test]
fn zstd_larger_than_the_window_comes_as_far_as_it_can() {
    // Stored blocks refer to nothing, so they may have any size.
    let payload: Vec<u8> = b"F=".iter().copied().chain((0..300_000u32).map(|i| b'a' + (i % 23) as u8)).collect();
    let raw: Vec<_> = payload.chunks(100_000).map(|chunk| (0, chunk.len() as u32, chunk)).collect();
    let size = payload.len() as u64;
    assert!(value(&Built::new().entry(&[(ZSTD, &zstd(size, &raw))]).finish()) == payload[2..]);
    // The last block is broken: the output is what came before it, as far as the window released
    // it.
    let mut broken = raw.clone();
    broken.push((2, 3, b"\xff\xff\xff"));
    let found = value(&Built::new().entry(&[(ZSTD, &zstd(size + 5, &broken))]).finish());
    let mark = found.windows(2).position(|w| w == b" [").unwrap();
    assert_eq!(found[..mark], payload[2..2 + mark]);
    assert_eq!(found[mark..], *format!(" [cut by rdreport: {} of {} bytes]", mark + 2, size + 5).as_bytes());
    assert!(mark > 100_000);
}

#[test]
fn many_fields_and_none() {
    let fields: Vec<Vec<u8>> = (0..1024).map(|i| format!("FIELD_{i}={i}").into_bytes()).collect();
    let fields: Vec<(u8, &[u8])> = fields.iter().map(|f| (0, &f[..])).collect();
    let folder = Folder::with_journals(&[(
        "system.journal",
        Built::new().entry(&fields).entry(&[]).entry(&[(0, b"EMPTY=")]).finish(),
    )]);
    let (out, stats) = written(&mut folder.source(), Format::Export);
    let out = String::from_utf8(out).unwrap();
    assert_eq!(stats.entries, 2);
    assert_eq!(out.lines().filter(|line| line.starts_with("FIELD_")).count(), 1022);
    assert!(out.contains("\nRDREPORT_FIELDS_LEFT_OUT=2\n\n"));
    assert!(out.contains("\nEMPTY=\n\n"));
    assert!(out.contains("MESSAGE=journal: 1 entries unreadable, "));
}
