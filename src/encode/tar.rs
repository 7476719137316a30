//! The unchanged journal files in a tar archive, for journals that only systemd's own tools can
//! read.
//!
//! Specification: POSIX.1-2017 pax, "ustar Interchange Format". Secrets are not masked in the
//! archive.

use crate::encode::Buffer;
use crate::error::Error;
use crate::journal::source::Source;
use crate::sink::Sink;

/// Bytes of a header, and the multiple to which contents are padded.
const BLOCK: usize = 512;
/// The fields of a header: offset and length.
const NAME: (usize, usize) = (0, 100);
const MODE: (usize, usize) = (100, 8);
const UID: (usize, usize) = (108, 8);
const GID: (usize, usize) = (116, 8);
const SIZE: (usize, usize) = (124, 12);
const MTIME: (usize, usize) = (136, 12);
const CHECKSUM: (usize, usize) = (148, 8);
const TYPE: (usize, usize) = (156, 1);
const MAGIC: (usize, usize) = (257, 8);
const PREFIX: (usize, usize) = (345, 155);

/// Writes the files of `source` from `index` on, each with the size it had when it was opened.
pub(super) fn archive(source: &mut Source, mut index: usize, out: &mut Buffer) -> Result<(), Error> {
    while let Some((folder, name, size)) = source.raw_file(index) {
        out.put(&header(folder, name, size))?;
        source.read_raw(index, &mut |piece| out.put(piece))?;
        let padding = size.next_multiple_of(BLOCK as u64).saturating_sub(size);
        out.put([0; BLOCK].get(..padding as usize).unwrap_or_default())?;
        index = index.saturating_add(1);
    }
    out.put(&[0; 2 * BLOCK])
}

fn header(folder: &[u8], name: &[u8], size: u64) -> [u8; BLOCK] {
    let mut header = [0; BLOCK];
    let mut set = |(at, len): (usize, usize), value: &[u8]| {
        let len = len.min(value.len());
        if let (Some(to), Some(from)) = (header.get_mut(at..at.saturating_add(len)), value.get(..len)) {
            to.copy_from_slice(from);
        }
    };
    set(NAME, name);
    set(PREFIX, folder);
    set(MODE, b"0000640\0");
    set(UID, b"0000000\0");
    set(GID, b"0000000\0");
    set(SIZE, &octal(size));
    set(MTIME, &octal(0));
    set(TYPE, b"0");
    set(MAGIC, b"ustar\x0000");
    // The checksum is computed with blanks in its own place.
    set(CHECKSUM, b"        ");
    let sum = header.iter().fold(0u64, |sum, byte| sum.saturating_add(u64::from(*byte)));
    let digits = octal(sum);
    if let (Some(to), Some(from)) = (header.get_mut(CHECKSUM.0..CHECKSUM.0 + 6), digits.get(5..11)) {
        to.copy_from_slice(from);
    }
    header
}

/// Returns a number in octal digits and a NUL. Sizes of 8 GiB and more do not occur: journald's
/// files have at most 128 MiB.
fn octal(mut n: u64) -> [u8; 12] {
    let mut digits = [b'0'; 12];
    digits[11] = 0;
    for digit in digits.iter_mut().take(11).rev() {
        *digit = b'0' | (n & 7) as u8;
        n >>= 3;
    }
    digits
}

#[cfg(test)]
mod tests {
    use crate::encode::Format;
    use crate::journal::tests::{Folder, fixture, written};
    use std::io::Write;
    use std::process::{Command, Stdio};

    #[test]
    fn tar_gives_the_files_back() {
        let known = fixture("layouts/none.journal");
        let mut unknown = known.clone();
        unknown[12] |= 0x20;
        let long = "system@007fc128717b446bbb2cad ed446f6b4-0000000000000001-00066173d878da60.journal".replace(' ', "");
        let folder =
            Folder::with_journals(&[("a.journal", &known[..100_003]), (&long, &unknown[..]), ("b.journal~", b"")]);
        let mut source = folder.source();
        let (archive, _) = written(&mut source, Format::Raw);
        assert!(written(&mut source, Format::Raw).0 == archive);
        assert_eq!(archive.len() % 512, 0);

        let out = Folder::new();
        let mut tar = Command::new("tar").arg("-xC").arg(out.path()).stdin(Stdio::piped()).spawn().unwrap();
        tar.stdin.take().unwrap().write_all(&archive).unwrap();
        assert!(tar.wait().unwrap().success());
        let place = out.path().join("run/log/journal/8e40128e62394571a74cba500e0d4b0a");
        assert!(std::fs::read(place.join("a.journal")).unwrap() == known[..100_003]);
        assert!(std::fs::read(place.join(&long)).unwrap() == unknown);
        // A remark in the other formats names what cannot be read.
        let (export, _) = written(&mut source, Format::Export);
        assert!(
            String::from_utf8_lossy(&export)
                .ends_with("; they go as they are, in a tar of their own or by ?format=raw\n\n")
        );
        let said =
            format!("MESSAGE=journal: 1 files need what is not known here (incompatible flags 32), the first {long}; ");
        assert!(String::from_utf8_lossy(&export).contains(&said));
        // The archive of the unknown files is the last part of the archive of all files.
        assert!(source.has_unknown());
        let (alone, _) = written(&mut source, Format::Unknown);
        assert!(archive.ends_with(&alone) && alone.len() == 512 + unknown.len().next_multiple_of(512) + 1024);
    }
}
