//! The DNS message format (RFC 1035 section 4): queries for a name's addresses, and what an answer says to them. Bytes in, values
//! out; asking is `lookup`'s.
//!
//! An answer belongs to a query if it has its id and repeats its question; anything else on the socket is passed over. Names are
//! compared where they are, compressed or not, and never copied out.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use heapless::Vec;

use crate::net::addr::ADDRS_MAX;

/// Bytes of the largest query: header, name (RFC 1035 section 2.3.4), type and class.
pub const QUERY_MAX: usize = HEADER + NAME_MAX + 4;

/// Bytes of a message before its question.
const HEADER: usize = 12;

/// Bytes of the longest name as it is on the wire.
const NAME_MAX: usize = 255;

/// Bytes of the longest label.
const LABEL_MAX: usize = 63;

/// Number of aliases that are followed, in one answer and for one name, as many as BIND follows. Real chains are two or three long.
pub(in crate::net) const CNAME_MAX: usize = 16;

/// The header of a query: id 0, recursion desired, one question, no other section.
const HEAD: [u8; HEADER] = [0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];

/// Flags of a header: the answer is authoritative, it was truncated, the server is recursive.
const AUTHORITATIVE: u16 = 0x0400;
const TRUNCATED: u16 = 0x0200;
const RECURSIVE: u16 = 0x0080;

/// Response code of a name that does not exist (RFC 1035 section 4.1.1).
pub(in crate::net) const NO_NAME: u8 = 3;

const CLASS_IN: u16 = 1;
const TYPE_CNAME: u16 = 5;

/// What is asked for: the type of record (RFC 1035 section 3.2.2, RFC 3596 section 2.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// IPv4 addresses.
    A = 1,
    /// IPv6 addresses.
    Aaaa = 28,
}

/// A query, as it is sent.
pub struct Query {
    bytes: Vec<u8, QUERY_MAX>,
}

/// What an answer says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Answer {
    /// The response code (RFC 1035 section 4.1.1); 0 is no error, 3 that the name does not exist.
    pub rcode: u8,
    /// Whether it did not fit, and is to be asked for again over TCP.
    pub truncated: bool,
    /// Whether it can be relied on to say that there is no address: it is neither a referral to other servers (no error, but neither
    /// authoritative nor from a recursive server), nor broken, nor a chain of aliases without end.
    pub conclusive: bool,
    /// Offset of the name at the end of a chain of aliases whose addresses are not in the message.
    pub alias: Option<usize>,
}

impl Query {
    /// Asks for `name`, and for what is below `domain` unless that is empty; `None` where these are no name of DNS.
    pub fn new(name: &[u8], domain: &[u8]) -> Option<Self> {
        let mut bytes = Vec::new();
        bytes.extend_from_slice(&HEAD).ok()?;
        for part in [name, domain] {
            let part = part.strip_suffix(b".").unwrap_or(part);
            if part.is_empty() {
                continue;
            }
            for label in part.split(|b| *b == b'.') {
                if !(1..=LABEL_MAX).contains(&label.len()) || !label.iter().all(u8::is_ascii_graphic) {
                    return None;
                }
                bytes.push(u8::try_from(label.len()).ok()?).ok()?;
                bytes.extend_from_slice(label).ok()?;
            }
        }
        Self::end(bytes)
    }

    /// Asks for the name at an offset of a message.
    pub fn alias(message: &[u8], at: usize) -> Option<Self> {
        let mut bytes = Vec::new();
        bytes.extend_from_slice(&HEAD).ok()?;
        let mut labels = Labels::new(message, at);
        loop {
            let label = labels.next()?;
            if label.is_empty() {
                return Self::end(bytes);
            }
            bytes.push(u8::try_from(label.len()).ok()?).ok()?;
            bytes.extend_from_slice(label).ok()?;
        }
    }

    /// Adds what stands behind the labels.
    fn end(mut bytes: Vec<u8, QUERY_MAX>) -> Option<Self> {
        bytes.push(0).ok()?;
        if bytes.len() == HEADER + 1 || bytes.len() > HEADER + NAME_MAX {
            return None;
        }
        bytes.extend_from_slice(&[0, 0, 0, 1]).ok()?;
        Some(Self { bytes })
    }

    /// The query as a message with this id, for this kind of record.
    pub fn message(&mut self, id: u16, kind: Kind) -> &[u8] {
        let end = self.bytes.len();
        if let Some(to) = self.bytes.get_mut(..2) {
            to.copy_from_slice(&id.to_be_bytes());
        }
        if let Some(to) = self.bytes.get_mut(end.saturating_sub(3)) {
            *to = kind as u8;
        }
        &self.bytes
    }
}

/// Reads `message` as the answer to `query`, the bytes of one query; `None` if it is none. The addresses in it are added to `found`
/// as far as they fit, also where the rest of the message is missing or broken.
pub fn answer(query: &[u8], kind: Kind, message: &[u8], found: &mut Vec<IpAddr, ADDRS_MAX>) -> Option<Answer> {
    let (flags, questions, records) = (u16_at(message, 2)?, u16_at(message, 4)?, u16_at(message, 6)?);
    let (is_answer, opcode) = (flags & 0x8000 != 0, flags >> 11 & 0xf);
    if message.get(..2) != query.get(..2) || !is_answer || opcode != 0 {
        return None;
    }
    let mut answer = Answer {
        rcode: (flags & 0xf) as u8,
        truncated: flags & TRUNCATED != 0,
        conclusive: flags & (AUTHORITATIVE | RECURSIVE) != 0,
        alias: None,
    };
    // A server that cannot or will not answer may leave out the question.
    let refused = !matches!(answer.rcode, 0 | NO_NAME);
    if refused && questions == 0 {
        return Some(answer);
    }
    let question = message.get(HEADER..query.len())?;
    // Lengths of labels are below any letter, so the case can be ignored for all bytes.
    if questions != 1 || !question.eq_ignore_ascii_case(query.get(HEADER..)?) {
        return None;
    }
    if answer.rcode == 0 {
        addresses(message, kind, query.len(), records, found, &mut answer);
    }
    Some(answer)
}

/// Adds the addresses of the question's name, or of what it is an alias for. The records may be in any order.
fn addresses(
    message: &[u8],
    kind: Kind,
    start: usize,
    records: u16,
    found: &mut Vec<IpAddr, ADDRS_MAX>,
    answer: &mut Answer,
) {
    let mut owner = HEADER;
    for _ in 0..=CNAME_MAX {
        let mut alias = None;
        let mut at = start;
        for _ in 0..records {
            let Some(record) = record(message, at) else {
                answer.conclusive = false;
                break;
            };
            at = record.end;
            match same_name(message, record.name, owner) {
                Some(true) if record.class == CLASS_IN => {}
                Some(_) => continue,
                None => {
                    answer.conclusive = false;
                    continue;
                }
            }
            match (record.kind, address(kind, record.data)) {
                (TYPE_CNAME, _) => alias = Some(record.data_at),
                (k, Some(ip)) if k == kind as u16 => {
                    // More than fit are not tried.
                    let _ = found.push(ip);
                }
                (k, None) if k == kind as u16 => answer.conclusive = false,
                _ => {}
            }
        }
        match alias {
            Some(name) if found.is_empty() => owner = name,
            _ => {
                answer.alias = (found.is_empty() && owner != HEADER).then_some(owner);
                return;
            }
        }
    }
    // More aliases than are followed, or a circle of them.
    answer.conclusive = false;
}

/// A resource record (RFC 1035 section 4.1.3): where its name is, and its data.
struct Record<'a> {
    name: usize,
    kind: u16,
    class: u16,
    data_at: usize,
    data: &'a [u8],
    end: usize,
}

fn record(message: &[u8], at: usize) -> Option<Record<'_>> {
    let fixed = name_end(message, at)?;
    let (kind, class) = (u16_at(message, fixed)?, u16_at(message, fixed.checked_add(2)?)?);
    let len = u16_at(message, fixed.checked_add(8)?)?;
    let data_at = fixed.checked_add(10)?;
    let end = data_at.checked_add(usize::from(len))?;
    Some(Record { name: at, kind, class, data_at, data: message.get(data_at..end)?, end })
}

fn address(kind: Kind, data: &[u8]) -> Option<IpAddr> {
    match kind {
        Kind::A => <[u8; 4]>::try_from(data).ok().map(|octets| IpAddr::V4(Ipv4Addr::from(octets))),
        Kind::Aaaa => <[u8; 16]>::try_from(data).ok().map(|octets| IpAddr::V6(Ipv6Addr::from(octets))),
    }
}

/// Where the name at `at` ends, pointers not followed.
fn name_end(message: &[u8], mut at: usize) -> Option<usize> {
    // A name of the longest kind has 127 labels.
    for _ in 0..=NAME_MAX / 2 {
        let len = usize::from(*message.get(at)?);
        match len {
            0 => return at.checked_add(1),
            0xc0.. => return at.checked_add(2),
            _ => at = at.checked_add(len)?.checked_add(1)?,
        }
    }
    None
}

/// Whether the names at two places of a message are the same; `None` where one of them is broken before they differ.
fn same_name(message: &[u8], a: usize, b: usize) -> Option<bool> {
    let (mut a, mut b) = (Labels::new(message, a), Labels::new(message, b));
    loop {
        match (a.next()?, b.next()?) {
            ([], []) => return Some(true),
            (a, b) if a.eq_ignore_ascii_case(b) => {}
            _ => return Some(false),
        }
    }
}

/// The labels of a name, pointers followed (RFC 1035 section 4.1.4).
struct Labels<'a> {
    message: &'a [u8],
    at: usize,
    /// Where the present run of labels began. A pointer must lead to before it, which ends every chain of them.
    run: usize,
    /// Bytes that the name may still have.
    left: usize,
}

impl<'a> Labels<'a> {
    fn new(message: &'a [u8], at: usize) -> Self {
        Self { message, at, run: at, left: NAME_MAX }
    }

    /// The next label, empty at the name's end; `None` where the name is broken.
    fn next(&mut self) -> Option<&'a [u8]> {
        loop {
            let len = *self.message.get(self.at)?;
            match len {
                0xc0.. => {
                    let to = usize::from(u16_at(self.message, self.at)? & 0x3fff);
                    if to >= self.run {
                        return None;
                    }
                    (self.at, self.run) = (to, to);
                }
                0x40.. => return None,
                _ => {
                    let start = self.at.checked_add(1)?;
                    self.at = start.checked_add(usize::from(len))?;
                    self.left = self.left.checked_sub(usize::from(len).checked_add(1)?)?;
                    return self.message.get(start..self.at);
                }
            }
        }
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    let two = bytes.get(at..at.checked_add(2)?)?;
    two.try_into().ok().map(u16::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec as List;

    const ID: u16 = 0x1234;

    fn query(name: &str, kind: Kind) -> List<u8> {
        Query::new(name.as_bytes(), b"").unwrap().message(ID, kind).to_vec()
    }

    /// A record: name as on the wire, type, data.
    type Given<'a> = (&'a [u8], u16, &'a [u8]);

    /// An answer to `query` with these records.
    fn reply(query: &[u8], records: &[Given<'_>]) -> List<u8> {
        let mut m = query.to_vec();
        m[2] = 0x81;
        m[3] = 0x80;
        m[7] = records.len() as u8;
        for (name, kind, data) in records {
            m.extend_from_slice(name);
            m.extend_from_slice(&kind.to_be_bytes());
            m.extend_from_slice(&[0, 1, 0, 0, 0, 60]);
            m.extend_from_slice(&(data.len() as u16).to_be_bytes());
            m.extend_from_slice(data);
        }
        m
    }

    fn read(query: &[u8], kind: Kind, message: &[u8]) -> Option<(u8, bool, String)> {
        let mut found = Vec::new();
        let a = answer(query, kind, message, &mut found)?;
        Some((a.rcode, a.truncated, found.iter().map(|ip| ip.to_string()).collect::<List<_>>().join(" ")))
    }

    /// The name that a query asks for.
    fn name(query: &Query) -> String {
        let mut labels = Labels::new(&query.bytes, HEADER);
        let labels = core::iter::from_fn(|| labels.next().filter(|label| !label.is_empty()));
        labels.map(|label| core::str::from_utf8(label).unwrap()).collect::<List<_>>().join(".")
    }

    /// What `message` says where it holds no address: whether that can be relied on, and which name to ask for instead.
    fn nothing(query: &[u8], message: &[u8]) -> (bool, Option<String>) {
        let mut found = Vec::new();
        let a = answer(query, Kind::A, message, &mut found).unwrap();
        assert!(found.is_empty());
        (a.conclusive, a.alias.and_then(|at| Query::alias(message, at)).map(|q| name(&q)))
    }

    const HERE: &[u8] = &[0xc0, 12];

    #[test]
    fn what_says_that_there_is_no_address() {
        let q = query("a.b", Kind::A);
        let alias: Given<'_> = (HERE, 5, b"\x01c\xc0\x0e");
        assert_eq!(nothing(&q, &reply(&q, &[])), (true, None));
        assert_eq!(nothing(&q, &reply(&q, &[alias])), (true, Some("c.b".into())));
        // Neither recursive nor authoritative: a referral.
        let mut referral = reply(&q, &[]);
        referral[3] = 0;
        assert_eq!(nothing(&q, &referral), (false, None));
        referral[2] |= 4;
        assert_eq!(nothing(&q, &referral), (true, None));
        // Broken: fewer records than promised, an address of the wrong length.
        let mut cut = reply(&q, &[]);
        cut[7] = 1;
        assert_eq!(nothing(&q, &cut), (false, None));
        assert_eq!(nothing(&q, &reply(&q, &[(HERE, 1, &[192, 0, 2])])), (false, None));
        // Names that are broken.
        for broken in
            [(&b"\xc0\x15"[..], 1, &[192, 0, 2, 1][..]), (b"\x40", 1, &[192, 0, 2, 1]), (HERE, 5, &[0xff, 0xff])]
        {
            assert_eq!(nothing(&q, &reply(&q, &[broken])), (false, None), "{broken:?}");
        }
        // Aliases in a circle.
        let circle = [(HERE, 5, &b"\x01c\0"[..]), (b"\x01c\0", 5, HERE)];
        assert_eq!(nothing(&q, &reply(&q, &circle)), (false, None));
        // An alias for no name at all, and for a broken one.
        for data in [&b"\0"[..], &[0xff, 0xff], &[0x40]] {
            assert_eq!(nothing(&q, &reply(&q, &[(HERE, 5, data)])).1, None);
        }
    }

    #[test]
    fn query_bytes() {
        let q = query("Example.com.", Kind::Aaaa);
        assert_eq!(q, b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x07Example\x03com\0\0\x1c\0\x01");
        let mut q = Query::new(b"a", b"b.c").unwrap();
        assert_eq!(q.message(1, Kind::A)[12..], *b"\x01a\x01b\x01c\0\0\x01\0\x01");
        assert_eq!(q.message(1, Kind::Aaaa)[12..], *b"\x01a\x01b\x01c\0\0\x1c\0\x01");
    }

    #[test]
    fn names_that_are_none() {
        let long = ["a"; 128].join(".");
        let label = "a".repeat(64);
        for name in ["", ".", "..", "a..b", ".a", "a b", "a\0", "\u{fc}", &long, &label] {
            assert!(Query::new(name.as_bytes(), b"").is_none(), "{name:?}");
        }
        assert!(Query::new(["a"; 127].join(".").as_bytes(), b"").is_some());
        assert!(Query::new("a".repeat(63).as_bytes(), b"").is_some());
        assert!(Query::new(["a"; 127].join(".").as_bytes(), b"b").is_none());
    }

    #[test]
    fn addresses_of_both_kinds() {
        let q = query("a.b", Kind::A);
        let m = reply(&q, &[(HERE, 1, &[192, 0, 2, 1]), (HERE, 1, &[192, 0, 2, 2]), (HERE, 28, &[1; 16])]);
        assert_eq!(read(&q, Kind::A, &m), Some((0, false, "192.0.2.1 192.0.2.2".into())));
        let q = query("a.b", Kind::Aaaa);
        let m = reply(&q, &[(HERE, 28, &[0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]), (HERE, 1, &[1; 4])]);
        assert_eq!(read(&q, Kind::Aaaa, &m), Some((0, false, "2001:db8::1".into())));
    }

    #[test]
    fn case_of_the_question_may_differ() {
        let q = query("aBc.example", Kind::A);
        let mut m = reply(&q, &[(b"\x03ABC\x07EXAMPLE\0", 1, &[192, 0, 2, 1])]);
        m[13..16].copy_from_slice(b"AbC");
        assert_eq!(read(&q, Kind::A, &m), Some((0, false, "192.0.2.1".into())));
    }

    #[test]
    fn aliases_in_any_order_and_not_without_end() {
        let q = query("a.b", Kind::A);
        let last: Given<'_> = (b"\x01d\0", 1, &[192, 0, 2, 1]);
        let (one, two): (Given<'_>, Given<'_>) = ((HERE, 5, b"\x01c\0"), (b"\x01c\0", 5, b"\x01d\0"));
        for records in [[one, two, last], [last, two, one], [two, last, one]] {
            assert_eq!(read(&q, Kind::A, &reply(&q, &records)), Some((0, false, "192.0.2.1".into())));
        }
        // Without the link between them the address is not ours.
        assert_eq!(read(&q, Kind::A, &reply(&q, &[one, last])), Some((0, false, "".into())));
        let circle = [one, (b"\x01c\0", 5, HERE)];
        assert_eq!(read(&q, Kind::A, &reply(&q, &circle)), Some((0, false, "".into())));
        for (count, want) in [(CNAME_MAX, "192.0.2.1"), (CNAME_MAX + 1, "")] {
            let names: List<List<u8>> = (0..=count as u8).map(|n| [1, b'c' + n, 0].to_vec()).collect();
            let mut records: List<Given<'_>> = [(HERE, 5, &*names[1])].into();
            records.extend((1..count).map(|n| (&*names[n], 5, &*names[n + 1])));
            records.push((&names[count], 1, &[192, 0, 2, 1]));
            assert_eq!(read(&q, Kind::A, &reply(&q, &records)), Some((0, false, want.into())), "{count}");
        }
    }

    #[test]
    fn what_is_no_answer() {
        let q = query("a.b", Kind::A);
        let good = reply(&q, &[(HERE, 1, &[192, 0, 2, 1])]);
        assert!(read(&q, Kind::A, &good).is_some());
        // Id, answer bit, opcode, number of questions, name, type, class.
        for (at, byte) in [(0, 0), (1, 0), (2, 1), (2, 0x89), (5, 0), (5, 2), (13, b'x'), (18, 28), (20, 3)] {
            let mut m = good.clone();
            m[at] = byte;
            assert_eq!(read(&q, Kind::A, &m), None, "{at}");
        }
        for len in 0..q.len() {
            assert_eq!(read(&q, Kind::A, &good[..len]), None, "{len}");
        }
        assert_eq!(read(&q, Kind::A, &q), None);
    }

    #[test]
    fn records_of_others_and_broken_ones_give_nothing() {
        let q = query("a.b", Kind::A);
        for record in [
            (&b"\x01x\x01b\0"[..], 1, &[192, 0, 2, 1][..]),
            (HERE, 1, &[192, 0, 2]),
            (HERE, 1, &[192, 0, 2, 1, 0]),
            (HERE, 28, &[192, 0, 2, 1]),
            (HERE, 5, &[0xc0]),
            (HERE, 5, &[0xff, 0xff]),
            (HERE, 5, &[0xc0, 0]),
            (b"\xc0\x15", 1, &[192, 0, 2, 1]), // a pointer to itself
            (b"\x01a\xc0\x15", 1, &[192, 0, 2, 1]),
            (b"\x40", 1, &[192, 0, 2, 1]),
            (b"\x80", 1, &[192, 0, 2, 1]),
        ] {
            assert_eq!(read(&q, Kind::A, &reply(&q, &[record])), Some((0, false, "".into())), "{record:?}");
        }
        let mut chaos = reply(&q, &[(HERE, 1, &[192, 0, 2, 1])]);
        let class = q.len() + 5;
        chaos[class] = 3;
        assert_eq!(read(&q, Kind::A, &chaos), Some((0, false, "".into())));
    }

    #[test]
    fn codes_and_truncation() {
        let q = query("a.b", Kind::A);
        for rcode in [2, 3, 5] {
            let mut m = reply(&q, &[(HERE, 1, &[192, 0, 2, 1])]);
            m[3] |= rcode;
            assert_eq!(read(&q, Kind::A, &m), Some((rcode, false, "".into())));
        }
        let mut bare = q[..HEADER].to_vec();
        bare[2..6].copy_from_slice(&[0x81, 0x85, 0, 0]);
        assert_eq!(read(&q, Kind::A, &bare), Some((5, false, "".into())));
        bare[3] = 0x83; // that a name does not exist is believed only with the name
        assert_eq!(read(&q, Kind::A, &bare), None);
        let mut cut = reply(&q, &[(HERE, 1, &[192, 0, 2, 1]), (HERE, 1, &[192, 0, 2, 2])]);
        cut[2] |= 2;
        cut.truncate(cut.len() - 1);
        assert_eq!(read(&q, Kind::A, &cut), Some((0, true, "192.0.2.1".into())));
    }

    #[test]
    fn more_addresses_than_are_kept() {
        let q = query("a.b", Kind::A);
        let m = reply(&q, &[(HERE, 1, &[192, 0, 2, 1][..]); 50]);
        assert_eq!(read(&q, Kind::A, &m).unwrap().2.split(' ').count(), ADDRS_MAX);
    }

    /// Every byte of a good answer changed to every value, and pseudo-random messages: nothing panics, and only what was asked for is found.
    #[test]
    fn hostile_bytes() {
        let q = query("a.b", Kind::A);
        let good = reply(&q, &[(HERE, 5, b"\x01c\xc0\x0e"), (b"\xc0\x21", 1, &[192, 0, 2, 1])]);
        assert_eq!(read(&q, Kind::A, &good), Some((0, false, "192.0.2.1".into())));
        for at in 0..good.len() {
            for byte in 0..=255 {
                let mut m = good.clone();
                m[at] = byte;
                read(&q, Kind::A, &m);
                read(&q, Kind::A, &m[..at]);
            }
        }
        let mut state = 1u64;
        for _ in 0..20_000 {
            let mut m = good[..q.len()].to_vec();
            m[6..8].copy_from_slice(&[0xff, 0xff]);
            while m.len() < 600 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                // Mostly small values and pointers, as names have.
                let byte = (state >> 33) as u8;
                m.push(if state >> 62 == 0 { 0xc0 } else { byte & 0x3f });
            }
            read(&q, Kind::A, &m);
        }
    }
}
