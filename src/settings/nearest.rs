//! Misspelt names: the setting that was probably meant.

use crate::settings::keys::{KEYS, Key};
use crate::settings::{PREFIX, Warnings, our_name};
use heapless::Vec;

/// Names that look plausible but do not exist, and what to use instead.
const INSTEAD: [(&[u8], &str); 4] = [
    (b"journalgzip", "rd.report.journal=URL?gzip=0 to ?gzip=9 says that"),
    (b"journalformat", "rd.report.journal=URL?format=NAME says that"),
    (b"journalurl", "is rd.report.journal meant?"),
    (b"token", "rd.report.header='Authorization: Bearer TOKEN' says that"),
];

/// Returns the start of a key, as shown in a warning.
fn start_of(key: &[u8]) -> &str {
    core::str::from_utf8(key.get(..key.len().min(NAME_SHOWN)).unwrap_or_default()).unwrap_or("?")
}

/// Warns that there is no such setting, and returns the setting that was probably meant.
pub(super) fn warn_unknown(name: &[u8], warnings: &mut Warnings) -> Option<&'static Key> {
    let squashed_name = squashed(name);
    let near = nearest(&squashed_name, b"");
    // A suggestion at a larger distance would only confuse.
    let near = near.filter(|(d, key)| *d <= 1 + key.name.len() / 5).map(|(_, key)| key);
    let shown = start_of(name);
    match (INSTEAD.iter().find(|(tried, _)| squashed_name == **tried), near) {
        (Some((_, instead)), _) => warnings.add(&[PREFIX, shown, ": no such setting; ", instead]),
        (None, Some(key)) => warnings.add(&[PREFIX, shown, ": no such setting; is ", PREFIX, key.name, " meant?"]),
        (None, None) => warnings.add(&[PREFIX, shown, ": no such setting; see rdreport --help"]),
    }
    near
}

/// Warns about a word that is not a setting but was probably meant to be one, and returns that
/// setting.
pub(super) fn warn_nearly_ours(key: &[u8], warnings: &mut Warnings) -> Option<&'static Key> {
    let near = near(key);
    match near {
        Some(known) => warnings.add(&[start_of(key), ": has no effect; is ", PREFIX, known.name, " meant?"]),
        None if is_near_prefix(key) => {
            warnings.add(&[start_of(key), ": has no effect; settings begin with ", PREFIX, ", see rdreport --help"])
        }
        None => {}
    }
    near
}

/// Number of bytes of an unknown key that a warning shows.
const NAME_SHOWN: usize = 40;
/// Length from which names are not compared: all settings are shorter.
const NAME_MAX: usize = 32;

/// Returns the optimal string alignment distance: the number of letters to insert, delete, change
/// or swap with their neighbour to turn `a` into `b`. `None` if `a` is too long to be compared.
fn distance(a: &[u8], b: &[u8]) -> Option<usize> {
    if a.len() >= NAME_MAX {
        return None;
    }
    // Rows of the second to last letter, of the last letter, and of the current letter.
    let mut rows = [[0u8; NAME_MAX]; 3];
    for (cell, i) in rows[1].iter_mut().zip(0u8..) {
        *cell = i;
    }
    let cell = |row: &[u8; NAME_MAX], at: usize| row.get(at).copied().unwrap_or(u8::MAX);
    let mut last = 0;
    for (y, j) in b.iter().take(NAME_MAX).zip(1u8..) {
        rows[2][0] = j;
        let mut left = j;
        let mut before = 0;
        for (i, x) in a.iter().enumerate() {
            let changed = cell(&rows[1], i).saturating_add(u8::from(x != y));
            let inserted = cell(&rows[1], i.saturating_add(1)).min(left).saturating_add(1);
            left = changed.min(inserted);
            if i > 0 && j > 1 && *x == last && before == *y {
                left = left.min(cell(&rows[0], i.saturating_sub(1)).saturating_add(1));
            }
            before = *x;
            if let Some(cell) = rows[2].get_mut(i.saturating_add(1)) {
                *cell = left;
            }
        }
        last = *y;
        rows.rotate_left(1);
    }
    Some(cell(&rows[1], a.len()).into())
}

/// Returns the letters and digits of a name in lower case, so that separators do not matter.
fn squashed(name: &[u8]) -> Vec<u8, NAME_MAX> {
    name.iter().filter(|b| b.is_ascii_alphanumeric()).map(u8::to_ascii_lowercase).take(NAME_MAX).collect()
}

/// Whether `key` is not a setting, but so similar to one that it was probably meant to be.
pub fn is_nearly_ours(key: &[u8]) -> bool {
    our_name(key).is_none() && (is_near_prefix(key) || near(key).is_some())
}

/// Whether the first two words of `key`, or the first, are nearly [`PREFIX`], whatever follows.
fn is_near_prefix(key: &[u8]) -> bool {
    let ends = key.iter().enumerate().filter(|(_, b)| !b.is_ascii_alphanumeric()).map(|(at, _)| at);
    ends.take(3).any(|end| {
        let prefix = squashed(key.get(..end).unwrap_or_default());
        prefix != *SYSTEMD_REPART && distance(&prefix, SQUASHED_PREFIX).is_some_and(|d| d <= 1)
    })
}

/// [`PREFIX`] without its dots.
const SQUASHED_PREFIX: &[u8] = b"rdreport";
/// systemd-repart's prefix, which is as similar but not a misspelling.
const SYSTEMD_REPART: &[u8] = b"rdrepart";

/// Returns the setting whose whole key, including the prefix, is similar to `key`.
fn near(key: &[u8]) -> Option<&'static Key> {
    let key = squashed(key);
    if key == *SQUASHED_PREFIX {
        return KEYS.first();
    }
    // Most words can be ruled out by their first letters.
    let start = key.get(..key.len().min(SQUASHED_PREFIX.len())).unwrap_or_default();
    distance(start, SQUASHED_PREFIX).filter(|d| *d <= 4)?;
    nearest(&key, SQUASHED_PREFIX).filter(|(d, _)| *d <= 2).map(|(_, known)| known)
}

/// Returns the setting whose name, after `prefix`, is nearest to `squashed_name`, and the distance.
#[inline(never)]
fn nearest(squashed_name: &[u8], prefix: &[u8]) -> Option<(usize, &'static Key)> {
    let mut best = None;
    for key in KEYS {
        let mut whole: Vec<u8, NAME_MAX> = Vec::new();
        let _ = whole.extend_from_slice(prefix);
        let _ = whole.extend_from_slice(&squashed(key.name.as_bytes()));
        let distance = distance(squashed_name, &whole)?;
        if best.is_none_or(|(least, _)| distance < least) {
            best = Some((distance, key));
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::tests::parse;

    #[test]
    fn an_unknown_key_is_named_with_the_nearest() {
        for (key, hint) in [
            ("jurnal", "is rd.report.journal meant?"),
            ("URL", "is rd.report.url meant?"),
            ("urls", "is rd.report.url meant?"),
            ("ulr", "is rd.report.url meant?"),
            ("headers", "is rd.report.header meant?"),
            ("journal_max", "is rd.report.journal.max meant?"),
            ("fallback.sha256", "is rd.report.fallback.sha512 meant?"),
            ("Journal.On", "is rd.report.journal.on meant?"),
            ("sshkey", "is rd.report.ssh.key meant?"),
            ("journal.gzip", "rd.report.journal=URL?gzip=0 to ?gzip=9 says that"),
            ("journal.format", "rd.report.journal=URL?format=NAME says that"),
            ("xyzzy", "see rdreport --help"),
            ("retries", "see rdreport --help"),
            ("", "see rdreport --help"),
        ] {
            let line = std::format!("rd.report.{key}=1");
            assert_eq!(parse(&line).1, [std::format!("rd.report.{key}: no such setting; {hint}")]);
        }
    }

    #[test]
    fn a_misspelt_prefix_is_named() {
        for (key, meant) in [
            ("rd.reprot.url", "url"),
            ("rd.reports.url", "url"),
            ("rdreport.url", "url"),
            ("rd.report_url", "url"),
            ("RD.REPORT.URL", "url"),
            ("Rd.Report.Url", "url"),
            ("rd.report:url", "url"),
            ("rd-report.url", "url"),
            ("rd.rport.url", "url"),
            ("dr.report.url", "url"),
            ("report.url", "url"),
            ("rd.reporturl", "url"),
            ("rd.report", "url"),
            ("rd.reprot.journal.on", "journal.on"),
            ("rd.reports.jurnal", "journal"),
            ("rd.report/timeout", "timeout"),
        ] {
            let line = std::format!("quiet {key}=http://h/ ro");
            let (s, w) = parse(&line);
            assert!(s.is_idle(), "{key}");
            assert_eq!(w, [std::format!("{key}: has no effect; is rd.report.{meant} meant?")]);
        }
        let (_, w) = parse("rd.reports.xyzzy=1");
        assert_eq!(w, ["rd.reports.xyzzy: has no effect; settings begin with rd.report., see rdreport --help"]);
    }

    #[test]
    fn no_other_word_is_taken_for_ours() {
        let line = "BOOT_IMAGE=/vmlinuz root=UUID=1 ro quiet rd.retry=30 rd.repart.x=1 rd.repeat=1 rd.reload=1 rd.luks.uuid=1 \
            rd.lvm.lv=a rd.md.uuid=1 rd.neednet=1 rd.net.timeout.carrier=5 rd.route=x rd.shell rd.emergency=reboot rd.break \
            rd.udev.log_level=3 rd.systemd.unit=x rd.timeout=5 rd.export=1 rd.restore.url=1 rd.live.image rd.peerdns=0 rd.zfcp=1 \
            rd.driver.blacklist=x rd.auto rd.info rd.debug rd.hostonly=0 rd.iscsi.initiator=x rd.nvmf.discover=x rd.znet=x \
            systemd.report=1 ignition.platform.id=x ignition.config.url=http://h/ coreos.inst.install_dev=/dev/sda \
            console=ttyS0 ip=dhcp crashkernel=auto oops.report=1 report=1 bugreport.url=http://h/ error.reporting=x";
        let w = parse(line).1;
        assert!(w.is_empty(), "{w:?}");
    }

    #[test]
    fn distances() {
        for (a, b, d) in [
            ("", "url", 3),
            ("url", "url", 0),
            ("urk", "url", 1),
            ("kitten", "sitting", 3),
            ("rl", "url", 1),
            ("reprot", "report", 1),
            ("ulr", "url", 1),
            ("lru", "url", 2),
        ] {
            assert_eq!(distance(a.as_bytes(), b.as_bytes()), Some(d), "{a} {b}");
        }
    }
}
