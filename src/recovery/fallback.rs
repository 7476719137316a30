//! The fallback configuration (`rd.report.fallback=`): fetched once provisioning failed and that was said, checked as a whole, and only then
//! put in place, for what an image attaches to `rdreport-fallback.target`.
//!
//! The process that speaks to the server cannot rename files: it writes into one that was opened before, and the process that waits for it
//! gives that its name, or removes it.

use crate::delivery::Delivery;
use crate::destination::{self, Kind, NoTarget, Target, Variables};
use crate::encode::Format;
use crate::error::{Error, FallbackError};
use crate::http::client::{Outcome, Taken, Whole};
use crate::settings::Warnings;
use crate::sink::Sink;
use crate::sys::Errno;
use crate::sys::file::{File, Folder, Root};
use crate::sys::time::Deadline;
use sha2::{Digest, Sha512};

/// The number by which the interlock remembers that the target was started: no job has it.
pub const STARTED: usize = 31;
/// Bytes of a configuration: Ignition's are some KB, clouds hold 16 KB to 1 MB, and `/run` is memory.
pub const SIZE_MAX: u64 = 8 << 20;
/// Bytes of it that are read at once.
const BLOCK: usize = 4096;
/// In `/run/rdreport`: its name, and the one that it has before.
const NAME: &[u8] = b"fallback.ign";
const NEW_NAME: &[u8] = b"fallback.new";

/// A SHA-512.
type Hash = [u8; 64];

/// Reads the setting's URL. `sha512` is what its hash must be, if that is set.
pub fn target(
    value: &str,
    variables: &Variables<'_>,
    sha512: Option<&str>,
    warnings: &mut Warnings,
) -> Result<Target, NoTarget> {
    let url = destination::status(value, variables)?;
    match sha512 {
        Some(text) if hash(text).is_none() => return Err(NoTarget::Hash),
        None if !value.as_bytes().get(..6).is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"https:")) => warnings.add(&[
            "rd.report.fallback= is fetched by http:// and without rd.report.fallback.sha512=: whoever is on the way can put another \
             configuration in its place",
        ]),
        _ => {}
    }
    Ok(Target { kind: Kind::Fetch, url, format: Format::Json, gzip: None })
}

/// Fetches what is at `url` into `file`, and checks it; gives how many bytes it has.
pub fn fetch(
    delivery: &mut Delivery<'_>,
    url: &str,
    report_id: &str,
    sha512: Option<&str>,
    file: File,
) -> Result<Outcome, Error> {
    let mut kept = Kept { file, hash: Sha512::new(), len: 0 };
    delivery.fetch(url, report_id, &mut kept)?;
    let found = kept.hash.finalize();
    match sha512 {
        _ if kept.len == 0 => Err(FallbackError::Empty.into()),
        Some(text) if hash(text).is_none_or(|hash| hash != *found) => Err(FallbackError::WrongHash.into()),
        _ => Ok(Outcome { status: 0, sent: kept.len, kept: 0, taken: Taken::Whole }),
    }
}

/// Makes the file that it is written to.
pub fn open(root: &Root) -> Result<File, Error> {
    let folder = root.make_folder("run", "rdreport").map_err(Error::Output)?;
    // What a run that was killed left behind; nobody but the holder of the lock is here.
    let _ = folder.remove(NEW_NAME);
    folder.new_file(NEW_NAME, 0o600).map_err(Error::Output)
}

/// Puts what was fetched in place if `is_good` and it has the hash `sha512`, else removes it. The hash is looked at again, as the process
/// that did so before has read what a server sent.
pub fn settle(root: &Root, is_good: bool, sha512: Option<&str>) -> Result<(), Errno> {
    let folder = root.make_folder("run", "rdreport");
    let placed = match (&folder, is_good) {
        (Ok(folder), true) => check(folder, sha512).and_then(|()| folder.rename(NEW_NAME, NAME)),
        (Err(e), true) => Err(*e),
        (_, false) => Ok(()),
    };
    if let (Ok(folder), true) = (&folder, placed.is_err() || !is_good) {
        let _ = folder.remove(NEW_NAME);
    }
    placed
}

fn check(folder: &Folder, sha512: Option<&str>) -> Result<(), Errno> {
    let Some(text) = sha512 else { return Ok(()) };
    let file = folder.file(NEW_NAME)?;
    let (mut found, mut buf) = (Sha512::new(), [0; BLOCK]);
    loop {
        match file.read(&mut buf)? {
            0 => break,
            len => found.update(buf.get(..len).unwrap_or_default()),
        }
    }
    if hash(text).is_some_and(|hash| hash == *found.finalize()) { Ok(()) } else { Err(Errno::BADMSG) }
}

/// Reads a hash: 128 hexadecimal digits, with `sha512-` before them as Ignition writes it, or without.
fn hash(text: &str) -> Option<Hash> {
    let digits = text.strip_prefix("sha512-").unwrap_or(text).as_bytes();
    let mut hash = [0; size_of::<Hash>()];
    if digits.len() != 2 * hash.len() {
        return None;
    }
    for (byte, pair) in hash.iter_mut().zip(digits.chunks(2)) {
        for digit in pair {
            *byte = *byte << 4 | char::from(*digit).to_digit(16)? as u8;
        }
    }
    Some(hash)
}

/// The file, and what came of it so far.
struct Kept {
    file: File,
    hash: Sha512,
    len: u64,
}

impl Whole for Kept {
    fn restart(&mut self) -> Result<(), Error> {
        (self.hash, self.len) = (Sha512::new(), 0);
        self.file.clear().map_err(Error::Output)
    }
}

impl Sink for Kept {
    fn put(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.len = self.len.saturating_add(bytes.len() as u64);
        if self.len > SIZE_MAX {
            return Err(FallbackError::TooLarge.into());
        }
        self.hash.update(bytes);
        // It is memory: nothing is waited for.
        self.file.write(bytes, Deadline::after_ms(0)).map_err(Error::Output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes() {
        let digits = "00ff5A".to_owned() + &"c".repeat(122);
        let expected = [&[0, 0xff, 0x5a][..], &[0xcc; 61]].concat();
        assert_eq!(hash(&digits).unwrap().as_slice(), expected);
        assert_eq!(hash(&format!("sha512-{digits}")), hash(&digits));
        for bad in [
            "",
            "sha512-",
            &digits[1..],
            &format!("{digits}0"),
            &format!("sha256-{digits}"),
            &format!("sha512:{digits}"),
            &format!("SHA512-{digits}"),
            &format!("sha512-sha512-{digits}"),
            &format!("+{}", &digits[1..]),
            &format!(" {}", &digits[1..]),
            &format!("\u{e9}{}", &digits[2..]),
        ] {
            assert_eq!(hash(bad), None, "{bad}");
        }
    }
}
