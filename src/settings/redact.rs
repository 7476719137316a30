//! Masks secrets in command lines and URLs before they reach a console, a body or the journal's
//! stream. The rules go by a setting's name and by the form of its value:
//!
//! * Values of names that indicate a secret (`token`, `password`, `psk`, …) are masked as a whole,
//!   in our settings and in others. So are values of `rd.report.header`, and of misspelt settings
//!   unless the value cannot be a secret.
//! * In any other value, these parts are masked: userinfo, query and fragment of URLs, text with a
//!   colon before an `@`, and options with such a name (`password=` in `rootflags=`).

use crate::error::Error;
use crate::escape;
use crate::settings::cmdline::{Words, same_key, split};
use crate::settings::{KEYS, Key, is_nearly_ours, is_plain, our_name};
use crate::sink::Sink;
use heapless::Vec;

/// Replacement of a secret.
pub const MASK: &str = "***";

/// Receives the pieces of a masked text.
pub type Out<'o> = dyn FnMut(&[u8]) -> Result<(), Error> + 'o;

/// Parts of a name that indicate a secret value.
const TELLING: [&[u8]; 10] = [
    b"token",
    b"password",
    b"passwd",
    b"passphrase",
    b"secret",
    b"credential",
    b"apikey",
    b"api_key",
    b"auth",
    b"cookie",
];
/// Whole words of a name that indicate a secret value: `rd.luks.key`, `server_key`.
const TELLING_WORDS: [&[u8]; 8] = [b"key", b"pass", b"pw", b"pwd", b"psk", b"pin", b"cred", b"bearer"];
/// Ends of names that indicate a secret value: `rootpw`, `inst.sshpw`.
const TELLING_ENDS: [&[u8]; 2] = [b"pw", b"psk"];
/// Schemes that may be followed by something other than `//`; not secret themselves.
const SCHEMES: [&[u8]; 8] = [b"iscsi:", b"nbd:", b"nfs:", b"nfs4:", b"cifs:", b"http:", b"https:", b"ftp:"];

/// Masks `line`, a whole kernel command line, and writes it as the inside of a JSON string.
pub fn line_as_json(line: &[u8], out: &mut dyn Sink) -> Result<(), Error> {
    Mask::default().line(line.trim_ascii(), &mut |part| escape::json(part, out))
}

/// Number of bytes of a word that are held until it ends. In a longer word all but the name is
/// masked. The kernel's log has no lines longer than 1 KB.
const WORD_MAX: usize = 1024;

/// Masks a command line that arrives in pieces of any size, as in a journal.
#[derive(Default)]
pub struct CommandLine {
    mask: Mask,
    word: Vec<u8, WORD_MAX, u16>,
    /// Whether the word was too long to hold, so that its masked form has been written.
    is_cut: bool,
    in_double: bool,
    /// Number of bytes of the word up to and including its opening single quote; 0 without one.
    single: u16,
    has_equals: bool,
    last: u8,
}

impl CommandLine {
    /// Takes a piece, and writes the words that end in it.
    pub fn push(&mut self, piece: &[u8], out: &mut Out<'_>) -> Result<(), Error> {
        for byte in piece.iter().copied() {
            let len = self.word.len() as u16;
            let is_closed = self.single == 0 || self.last == b'\'' && len > self.single;
            if byte == 0 || byte.is_ascii_whitespace() && !self.in_double && is_closed {
                self.end(out)?;
                out(&[if byte == 0 { b' ' } else { byte }])?;
                continue;
            }
            match byte {
                b'"' if self.single == 0 => self.in_double = !self.in_double,
                b'\'' if !self.in_double && self.single == 0 => {
                    let opens = len == 0 || self.has_equals && self.last == b'=';
                    self.single = if opens { len.saturating_add(1) } else { 0 };
                }
                b'=' => self.has_equals = true,
                _ => {}
            }
            self.last = byte;
            if !self.is_cut && self.word.push(byte).is_err() {
                self.is_cut = true;
                let name = self.word.iter().position(|b| *b == b'=').map_or(0, |at| at.saturating_add(1));
                out(self.word.get(..name).unwrap_or_default())?;
                out(MASK.as_bytes())?;
            }
        }
        Ok(())
    }

    /// Writes the last word. The next piece begins a new word.
    pub fn end(&mut self, out: &mut Out<'_>) -> Result<(), Error> {
        let given = if self.is_cut { Ok(()) } else { self.mask.line(&self.word, out) };
        self.word.clear();
        (self.is_cut, self.in_double, self.single, self.has_equals, self.last) = (false, false, 0, false, 0);
        given
    }
}

/// Masks words in order.
#[derive(Default)]
struct Mask {
    /// Whether the words of an unquoted header field follow.
    is_unquoted: bool,
}

impl Mask {
    fn line(&mut self, line: &[u8], out: &mut Out<'_>) -> Result<(), Error> {
        let mut words = Words::new(line);
        loop {
            let (before, word) = words.next_raw();
            before.iter().try_for_each(|blank| out(&[if *blank == 0 { b' ' } else { *blank }]))?;
            if word.is_empty() {
                return Ok(());
            }
            self.word(word, out)?;
        }
    }

    fn word(&mut self, raw: &[u8], out: &mut Out<'_>) -> Result<(), Error> {
        let word = split(raw);
        let value = word.value.unwrap_or_default();
        // A header field's value may contain a dot, too, but hardly after such a name.
        let is_setting = word.value.is_some()
            && word.key.contains(&b'.')
            && word.key.iter().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"._-".contains(b));
        if self.is_unquoted && !is_setting {
            return out(MASK.as_bytes());
        }
        let is_masked = is_secret(word.key, value);
        self.is_unquoted = is_masked && (value.ends_with(b":") || word.value.is_none());
        if word.value.is_none() {
            return shown(raw, false, out);
        }
        let quote = usize::from(raw.first() != word.key.first());
        let (name, value) = raw.split_at(quote.saturating_add(word.key.len()).saturating_add(1).min(raw.len()));
        out(name)?;
        if is_masked {
            return out(MASK.as_bytes());
        }
        let (value, quote) = match value {
            [inner @ .., b'"' | b'\''] => value.split_at(inner.len()),
            _ => (value, b"".as_slice()),
        };
        let is_url = match known(word.key) {
            Some(key) => key.value == "URL",
            None => our_name(word.key).is_some() || is_nearly_ours(word.key),
        };
        shown(value, is_url, out)?;
        out(quote)
    }
}

/// Writes the value of one of our settings that is, or was meant to be, a URL. Masks userinfo,
/// query and fragment, even without a scheme.
pub fn url(value: &[u8], out: &mut Out<'_>) -> Result<(), Error> {
    shown(value, true, out)
}

/// Writes a value of `key` with its secrets masked.
pub fn value(key: &Key, value: &[u8], out: &mut Out<'_>) -> Result<(), Error> {
    if key.is_masked() { out(MASK.as_bytes()) } else { shown(value, key.value == "URL", out) }
}

/// Returns the setting named `key`.
fn known(key: &[u8]) -> Option<&'static Key> {
    let name = our_name(key)?;
    KEYS.iter().find(|key| same_key(name, key.name.as_bytes()))
}

/// Writes `value` with its secrets masked. More is masked in a value that is, or should be, a URL.
fn shown(value: &[u8], is_url: bool, out: &mut Out<'_>) -> Result<(), Error> {
    if value.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"data:")) {
        out(b"data:")?;
        return out(MASK.as_bytes());
    }
    let mut rest = value;
    while let Some(at) = position_of_authority(rest) {
        let (before, after) = rest.split_at(at.min(rest.len()));
        named(before, out)?;
        let (authority, behind) = split_at_any(after, b"/?#");
        match authority.iter().rposition(|b| *b == b'@') {
            Some(at) => {
                out(MASK.as_bytes())?;
                out(authority.get(at..).unwrap_or_default())?;
            }
            None => out(authority)?,
        }
        let (path, query) = split_at_any(behind, b"?#");
        // If the path contains another URL, the query belongs to that URL.
        if position_of_authority(path).is_none() {
            named(path, out)?;
            return masked_query(query, out);
        }
        rest = behind;
    }
    no_url(rest, is_url, out)
}

/// Writes a text without `://`, which may still be meant as a URL: `user:password@host`,
/// `iscsi:user:password@host`, `host/path?token`.
fn no_url(text: &[u8], is_url: bool, out: &mut Out<'_>) -> Result<(), Error> {
    let is_path = text.starts_with(b"/") || text.starts_with(b"file:");
    let scheme = SCHEMES.iter().find(|scheme| text.starts_with(scheme)).map_or(0, |scheme| scheme.len());
    let (scheme, mut rest) = text.split_at(scheme.min(text.len()));
    out(scheme)?;
    if let Some(at) = rest.iter().rposition(|b| *b == b'@')
        && let (before, host) = rest.split_at(at)
        && !before.is_empty()
        && (before.contains(&b':') || is_url && !is_path)
    {
        out(MASK.as_bytes())?;
        rest = host;
    }
    let (path, query) = split_at_any(rest, b"?#");
    named(path, out)?;
    if is_url || query.starts_with(b"?") && query.contains(&b'=') {
        return masked_query(query, out);
    }
    named(query, out)
}

/// Writes the first byte of `query`, and masks the rest.
fn masked_query(query: &[u8], out: &mut Out<'_>) -> Result<(), Error> {
    match query.first() {
        None => Ok(()),
        Some(mark) => {
            out(&[*mark])?;
            out(MASK.as_bytes())
        }
    }
}

/// Writes `text`, and masks the values of options whose names indicate a secret.
fn named(text: &[u8], out: &mut Out<'_>) -> Result<(), Error> {
    for part in text.split_inclusive(|b| matches!(b, b',' | b';' | b'&' | b' ')) {
        let (name, value) = split_at_any(part, b"=");
        let start =
            name.iter().rposition(|b| matches!(b, b'"' | b'\'' | b':' | b'/')).map_or(0, |at| at.saturating_add(1));
        if value.len() > 1 && is_telling(name.get(start..).unwrap_or_default()) {
            out(name)?;
            out(b"=")?;
            out(MASK.as_bytes())?;
            let end = part.last().filter(|b| matches!(b, b',' | b';' | b'&' | b' '));
            out(end.map_or(b"", core::slice::from_ref))?;
        } else {
            out(part)?;
        }
    }
    Ok(())
}

/// Returns the position after the first `://` in `text`.
fn position_of_authority(text: &[u8]) -> Option<usize> {
    text.windows(3).position(|w| w == b"://").map(|at| at.saturating_add(3))
}

/// Splits `text` before the first byte of `ends`.
fn split_at_any<'a>(text: &'a [u8], ends: &[u8]) -> (&'a [u8], &'a [u8]) {
    text.split_at(text.iter().position(|b| ends.contains(b)).unwrap_or(text.len()))
}

/// Whether `value` of `key` is a secret as a whole.
fn is_secret(key: &[u8], value: &[u8]) -> bool {
    let may_be = || !is_plain(value) && !begins_with_scheme(value);
    match (known(key), our_name(key)) {
        (Some(key), _) => key.is_masked(),
        (None, Some(_)) => may_be(),
        (None, None) => is_telling(key) || is_nearly_ours(key) && may_be(),
    }
}

/// Whether `value` begins with a URL scheme. Only parts of a URL are secret.
fn begins_with_scheme(value: &[u8]) -> bool {
    position_of_authority(value).is_some_and(|at| {
        let scheme = value.get(..at.saturating_sub(3)).unwrap_or_default();
        !scheme.is_empty() && scheme.iter().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(b))
    })
}

/// Whether a name indicates a secret value.
pub fn is_telling(name: &[u8]) -> bool {
    let same = |a: &[u8], b: &[u8]| {
        a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (if *a == b'-' { b'_' } else { *a }).eq_ignore_ascii_case(b))
    };
    let has = |part: &[u8]| name.windows(part.len()).any(|window| same(window, part));
    TELLING.iter().any(|part| has(part))
        || TELLING_ENDS.iter().any(|end| name.len() >= end.len() && same(name.split_at(name.len() - end.len()).1, end))
        || name
            .split(|b| !b.is_ascii_alphanumeric())
            .any(|word| TELLING_WORDS.iter().any(|telling| same(word, telling)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redacted(line: &str) -> String {
        let mut whole = std::vec::Vec::new();
        Mask::default().line(line.as_bytes(), &mut |part| whole.put(part)).unwrap();
        // Masking in pieces has the same result, except for words that are too long to hold.
        for step in [1, 2, 7] {
            let (mut pieces, mut masked) = (CommandLine::default(), std::vec::Vec::new());
            for piece in line.as_bytes().chunks(step) {
                pieces.push(piece, &mut |part| masked.put(part)).unwrap();
            }
            pieces.end(&mut |part| masked.put(part)).unwrap();
            assert_eq!(String::from_utf8_lossy(&masked), String::from_utf8_lossy(&whole), "{line:?} by {step}");
        }
        String::from_utf8(whole).unwrap()
    }

    #[test]
    fn userinfo_and_query_are_masked_in_every_word() {
        for (line, shown) in [
            (
                "ro x.url=https://u:p@h:1/a?sig=S y=https://h/a z=http://u@h",
                "ro x.url=https://***@h:1/a?*** y=https://h/a z=http://***@h",
            ),
            ("a=http://u:p@h/,http://q:r@i/?k", "a=http://***@h/,http://***@i/?***"),
            ("a=http://h?x=/@y", "a=http://h?***"),
            ("a=http://u:p,q@h/?k,l=m b", "a=http://***@h/?*** b"),
            ("a=http://h/b,http://u:p@i/c#d b=c?d", "a=http://h/b,http://***@i/c#*** b=c?d"),
            ("a=http://g/http://u:p@h/http://v:q@i/?k", "a=http://g/http://***@h/http://***@i/?***"),
            ("http://u:p@h/?k quiet", "http://***@h/?*** quiet"),
            ("x=\"http://u:p q@h/?a b\" ro", "x=\"http://***@h/?***\" ro"),
            ("ignition.config.url=https://h/x?token=T", "ignition.config.url=https://h/x?***"),
            ("inst.ks=ftp://u:p@h/ks proxy=u:p@h:3128", "inst.ks=ftp://***@h/ks proxy=***@h:3128"),
            ("x=data:;base64,AAAA y", "x=data:*** y"),
        ] {
            assert_eq!(redacted(line), shown);
        }
    }

    #[test]
    fn what_was_meant_to_be_a_url_is_masked_as_one() {
        for (line, shown) in [
            ("rd.report.url=u:p@h/s?sig=S", "rd.report.url=***@h/s?***"),
            ("rd.report.url=T0K@h/s?S", "rd.report.url=***@h/s?***"),
            ("rd.report.url=https:/u:p@h/s", "rd.report.url=https:***@h/s"),
            ("\"rd.report.url=http://h/s?sig=a b\" ro", "\"rd.report.url=http://h/s?***\" ro"),
            ("rd.report.proxy=u:p@h:3128", "rd.report.proxy=***@h:3128"),
            ("rd.report.journal=file:/dev/x?tok=S", "rd.report.journal=file:/dev/x?***"),
            ("rd.report.ca=/etc/a@b.pem", "rd.report.ca=/etc/a@b.pem"),
        ] {
            assert_eq!(redacted(line), shown);
        }
    }

    #[test]
    fn telling_names_are_masked() {
        for (line, shown) in [
            ("rd.report.header='A: B c' my.token=1 Password=2", "rd.report.header=*** my.token=*** Password=***"),
            ("'rd.report.header=A: B c' ro", "'rd.report.header=*** ro"),
            ("rd-report.header=\"A: B\" ro", "rd-report.header=*** ro"),
            ("rd.report.url=http://h/", "rd.report.url=http://h/"),
            ("rd.report.maas.token=a:b rd.report.maas-token=a", "rd.report.maas.token=*** rd.report.maas-token=***"),
            ("netroot=iscsi:u:p@10.0.0.1::3260::iqn", "netroot=iscsi:***@10.0.0.1::3260::iqn"),
            ("root=cifs://u:p@h/s root=nbd:u:p@h:1", "root=cifs://***@h/s root=nbd:***@h:1"),
            (
                "rd.iscsi.password=P rd.luks.key=/k luks.passphrase=P",
                "rd.iscsi.password=*** rd.luks.key=*** luks.passphrase=***",
            ),
            (
                "inst.sshpw=P rootpw=P wifi.psk=P k3s.server_key=P",
                "inst.sshpw=*** rootpw=*** wifi.psk=*** k3s.server_key=***",
            ),
            (
                "systemd.set_credential=a:P systemd.setenv=A_TOKEN=P",
                "systemd.set_credential=*** systemd.setenv=A_TOKEN=***",
            ),
            ("rootflags=user=u,password=P,ro ro", "rootflags=user=u,password=***,ro ro"),
            ("passwd/root-password=P rd.nvmf.dhchap-secret=P", "passwd/root-password=*** rd.nvmf.dhchap-secret=***"),
        ] {
            assert_eq!(redacted(line), shown);
        }
    }

    #[test]
    fn what_is_no_secret_stays() {
        for line in [
            "BOOT_IMAGE=(hd0,gpt2)/@/boot/vmlinuz root=UUID=1-2 rootflags=subvol=@home ro quiet",
            "systemd.unit=getty@tty1.service rd.vconsole.keymap=us iommu.passthrough=1 ip=1.2.3.4::1.2.3.1:24:h:eth0:none",
            "rd.luks.uuid=1 rd.lvm.lv=a/b rd.retry=30 rd.repart.x=y rd.net.timeout.carrier=5 console=ttyS0,115200n8",
            "rd.report.timeout=5 rd.report.key=/k.pem rd.report.pin=sha256:AAAA rd.report.ssh.key='ssh-ed25519 AAAA me@host'",
            "a  b\tc\nd",
        ] {
            assert_eq!(redacted(line), line);
        }
    }

    #[test]
    fn keys_that_are_nearly_ours_are_masked_unless_the_value_is_harmless() {
        for (line, shown) in [
            ("rd.report.headers='A: Bearer S' ro", "rd.report.headers=*** ro"),
            (
                "rd.report.tokne=S rd.report.tiemout=5 rd.report.insecur=on",
                "rd.report.tokne=*** rd.report.tiemout=5 rd.report.insecur=on",
            ),
            (
                "rd.reprot.haeder=S rdreport.xyz=S RD.REPORT.XYZ=S",
                "rd.reprot.haeder=*** rdreport.xyz=*** RD.REPORT.XYZ=***",
            ),
            ("rd.report:url=u:p@h rd.report_url=http://u:p@h/?S", "rd.report:url=*** rd.report_url=http://***@h/?***"),
        ] {
            assert_eq!(redacted(line), shown);
        }
    }

    #[test]
    fn a_header_that_is_not_quoted_is_masked_up_to_the_next_setting() {
        assert_eq!(
            redacted("rd.report.header=Authorization: Bearer S== rd.report.url=http://h/ ro"),
            "rd.report.header=*** *** *** rd.report.url=http://h/ ro"
        );
        assert_eq!(
            redacted("rd.report.header=Cookie: sid=S; a=b quiet rd.neednet=1"),
            "rd.report.header=*** *** *** *** rd.neednet=1"
        );
    }

    #[test]
    fn odd_lines_end() {
        for line in
            ["://", "a=://", "a=x://@", "a=x://?@", "a=\"x://u:p@h", "'", "\"", "='", "=\"\"", "x='a u:p@", " ", ""]
        {
            assert!(!redacted(line).contains("u:p"), "{line}");
        }
        let mut seed = 1u32;
        for _ in 0..3_000 {
            let line: String = (0..30)
                .map(|_| {
                    seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    char::from(b"\"'= a\tk@:?/,-"[(seed >> 24) as usize % 13])
                })
                .collect();
            redacted(&line);
        }
    }

    #[test]
    fn a_word_that_is_longer_than_is_held_shows_its_name_alone() {
        let line = format!("ro x={}://u:PW@h y=1", "a".repeat(WORD_MAX));
        let (mut pieces, mut masked) = (CommandLine::default(), std::vec::Vec::new());
        pieces.push(line.as_bytes(), &mut |part| masked.put(part)).unwrap();
        pieces.end(&mut |part| masked.put(part)).unwrap();
        assert_eq!(masked, b"ro x=*** y=1");
    }
}
