//! One SSH public key as a line of `authorized_keys` (sshd(8)): its type, a space, its blob in
//! base64, and an optional comment.
//!
//! The blob is a sequence of length-prefixed strings, of which the first is the type (RFC 4253
//! section 6.6, RFC 5656 section 3.1, RFC 8709 section 4, OpenSSH's PROTOCOL.u2f). A truncated line
//! is therefore detected. Options before the type would change what the key permits, so a line with
//! options is refused.

use crate::escape::unbase64;

/// Maximum number of bytes in a line. dropbear reads at most 4200, and an RSA key of 16384 bits
/// takes 2800.
pub const LINE_MAX: usize = 4096;
/// Maximum number of bytes in a blob.
const BLOB_MAX: usize = LINE_MAX / 4 * 3;

/// Types that OpenSSH and dropbear support and do not deprecate, with the number of strings in the
/// blob.
const TYPES: [(&str, usize); 7] = [
    ("ssh-ed25519", 2),
    ("ssh-rsa", 3),
    ("ecdsa-sha2-nistp256", 3),
    ("ecdsa-sha2-nistp384", 3),
    ("ecdsa-sha2-nistp521", 3),
    ("sk-ssh-ed25519@openssh.com", 3),
    ("sk-ecdsa-sha2-nistp256@openssh.com", 4),
];

/// A line with a public key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PublicKey<'a> {
    /// The whole line, trimmed.
    pub line: &'a str,
    /// Type and blob.
    pub key: &'a str,
}

impl<'a> PublicKey<'a> {
    /// Parses a line. Surrounding white space is ignored.
    pub fn parse(text: &'a str) -> Option<Self> {
        let line = text.trim_ascii();
        if line.len() > LINE_MAX || line.chars().any(char::is_control) {
            return None;
        }
        let (kind, rest) = line.split_once(' ')?;
        let (_, strings) = TYPES.iter().find(|(name, _)| *name == kind)?;
        let blob = rest.split(' ').next()?;
        let key = line.get(..kind.len().saturating_add(1).saturating_add(blob.len()))?;
        // OpenSSH requires the padding.
        let whole = blob.len().is_multiple_of(4) && is_blob(unbase64(blob, &mut [0; BLOB_MAX])?, kind, *strings);
        whole.then_some(Self { line, key })
    }
}

/// Whether the blob consists of exactly this many strings, none of them empty, the first of which
/// is `kind`.
fn is_blob(blob: &[u8], kind: &str, strings: usize) -> bool {
    let mut rest = blob;
    for n in 0..strings {
        let Some((len, behind)) = rest.split_first_chunk() else { return false };
        let Some((string, behind)) = behind.split_at_checked(u32::from_be_bytes(*len) as usize) else { return false };
        if string.is_empty() || n == 0 && string != kind.as_bytes() {
            return false;
        }
        rest = behind;
    }
    rest.is_empty()
}

/// Maximum length of a user name (systemd's "strict" rule, and useradd(8)).
pub const USER_MAX: usize = 31;

/// Whether the name is valid for a user that rdreport creates.
pub fn is_name(name: &str) -> bool {
    let is_letter = |b: u8| b.is_ascii_lowercase() || b == b'_';
    name.bytes().next().is_some_and(is_letter)
        && name.len() <= USER_MAX
        && name.bytes().all(|b| is_letter(b) || b.is_ascii_digit() || b == b'-')
        && name != "root"
}

#[cfg(test)]
mod tests {
    use super::*;

    const ED25519: &str =
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKHEChjUBHOBGbLM2cMYCMlcYNN8P1ZqdYAGsuC4BkSi me@example.com of 2026";

    fn coded(kind: &str, strings: &[&[u8]]) -> String {
        let mut blob = Vec::new();
        for string in strings {
            blob.extend_from_slice(&(string.len() as u32).to_be_bytes());
            blob.extend_from_slice(string);
        }
        let mut text = Vec::new();
        crate::escape::base64(&blob, &mut text).unwrap();
        format!("{kind} {}", std::str::from_utf8(&text).unwrap())
    }

    #[test]
    fn keys_of_all_types() {
        let spaced = format!(" \t{ED25519}\r\n");
        let parsed = PublicKey::parse(&spaced).unwrap();
        assert_eq!((parsed.line, parsed.key), (ED25519, ED25519.rsplitn(4, ' ').last().unwrap()));
        for (kind, count) in TYPES {
            let strings: Vec<&[u8]> = [kind.as_bytes()].into_iter().chain([&b"12345"[..]; 9]).take(count).collect();
            let line = coded(kind, &strings);
            assert_eq!(PublicKey::parse(&line).map(|key| key.key), Some(&*line));
            assert!(PublicKey::parse(&coded(kind, &strings[1..])).is_none());
            assert!(PublicKey::parse(&coded("ssh-dss", &strings)).is_none());
        }
    }

    #[test]
    fn what_is_no_key() {
        let (_, rest) = ED25519.split_once(' ').unwrap();
        for line in [
            "",
            "ssh-ed25519",
            "ssh-ed25519 ",
            "ssh-ed25519 AAAA",
            "ssh-ed25519 ====",
            &ED25519.replace("AAAAC3", "AAAAC4"),
            &ED25519[..60],
            &ED25519.replacen("SI1", "S\n1", 1).replacen("-ed25519 ", "-ed25519\n", 1),
            &format!("command=\"id\" {ED25519}"),
            &format!("restrict {ED25519}"),
            &format!("ssh-rsa {rest}"),
            &format!("ssh-ed25519  {rest}"),
            &format!("ssh-ed25519\t{rest}"),
            &format!("{ED25519}\nssh-rsa AAAA"),
            &format!("{ED25519}\u{85}"),
            &format!("{ED25519}{}", "x".repeat(LINE_MAX)),
            &coded("ssh-ed25519", &[b"ssh-ed25519", b""]),
            &coded("ssh-ed25519", &[b"ssh-ed25519", b"x", b"y"]),
            &coded("ssh-ed25519 ", &[b"ssh-ed25519", b"x"]),
        ] {
            assert_eq!(PublicKey::parse(line), None, "{line}");
        }
    }
}
