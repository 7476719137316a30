//! The owner's header fields (`rd.report.header`): as they stand, from a file (`@/path`), or from a credential that systemd keeps for the
//! initramfs or the system (`cred:NAME`; systemd.exec(5), "Credentials").

use crate::destination;
use crate::destination::{Variables, Within};
use crate::settings::secret;
use crate::settings::{Settings, Warnings};
use crate::sys::file::Root;
use alloc::vec;
use alloc::vec::Vec;
use zeroize::Zeroizing;

/// Bytes of all fields, and of a value that is read from a file: as much as servers take in a head.
const FIELDS_MAX: usize = 8192;
/// Bytes that are written before that limit is looked at: a name may be as long as a command line, a value is one file.
const ROOM: usize = 2 * FIELDS_MAX + crate::settings::CMDLINE_MAX;

/// The fields as lines, each with its end. A field that cannot be sent becomes a warning. Wiped from memory once they are dropped.
pub fn lines(
    root: &Root,
    settings: &Settings<'_>,
    variables: &Variables<'_>,
    warnings: &mut Warnings,
) -> Zeroizing<Vec<u8>> {
    // With room for all from the beginning: what grows leaves copies behind. None is taken for nothing: all of it is wiped.
    let room = if settings.header.is_empty() { 0 } else { ROOM };
    let mut lines = Zeroizing::new(Vec::with_capacity(room));
    for field in &settings.header {
        let Some((name, value)) = field.split_once(':') else { continue };
        let start = lines.len();
        match own_field(root, name, value.trim_ascii(), variables, &mut lines) {
            Ok(()) => {}
            Err(why) => {
                lines.truncate(start);
                warnings.add(&["rd.report.header=", name, ": ", why, "; it is not sent"]);
            }
        }
    }
    lines
}

fn own_field(
    root: &Root,
    name: &str,
    value: &str,
    variables: &Variables<'_>,
    lines: &mut Vec<u8>,
) -> Result<(), &'static str> {
    // They would contradict how the body is really framed.
    const OURS: [&str; 4] = ["Content-Length", "Transfer-Encoding", "Connection", "Trailer"];
    if OURS.iter().any(|ours| ours.eq_ignore_ascii_case(name)) {
        return Err("this field is set by rdreport");
    }
    lines.extend_from_slice(name.as_bytes());
    lines.extend_from_slice(b": ");
    let mut file = Zeroizing::new(vec![0; FIELDS_MAX]);
    let start = lines.len();
    if let Some(path) = value.strip_prefix('@').filter(|path| path.starts_with('/')) {
        let text = root.read(path, &mut file).map_err(|_| "its file cannot be read")?;
        lines.extend_from_slice(text.trim_ascii());
    } else if let Some(name) = value.strip_prefix("cred:") {
        lines.extend_from_slice(secret::read(root, name, &mut file)?.trim_ascii());
    } else {
        let mut take = |c: char| {
            let fits = lines.len() < FIELDS_MAX;
            if fits {
                lines.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            }
            fits
        };
        variables.expand(value, Within::Text, &mut take).map_err(destination::explain)?;
    }
    let text = lines.get(start..).unwrap_or_default();
    if text.is_empty() {
        return Err("it has no value (one with spaces needs quotes around the whole)");
    }
    // A line feed would begin another field.
    if text.iter().any(|b| *b < b' ' && *b != b'\t' || *b == 0x7f) {
        return Err("its value holds a control character");
    }
    lines.extend_from_slice(b"\r\n");
    if lines.len() > FIELDS_MAX { Err("the header fields are too large") } else { Ok(()) }
}
