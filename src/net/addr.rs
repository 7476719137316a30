//! Addresses as text: literals of hosts, with or without brackets (RFC 3986 section 3.2.2) and zone (RFC 4007 section 11, RFC 6874),
//! and the name `localhost` (RFC 6761 section 6.3).

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use heapless::Vec;

use crate::error::NetError;
use crate::net::netlink::Present;
use crate::sys::Errno;
use crate::sys::sock::interface_index;
use crate::text::{self, Text, hex};

/// Addresses that are kept of one host: both families of a name with a few addresses each.
pub(super) const ADDRS_MAX: usize = 8;

/// The addresses that `host` is, if it is no name to be looked up: an address or `localhost`. There are none as long as the
/// interface of its zone is missing.
pub(super) fn literal(host: &str, port: u16) -> Option<Vec<SocketAddr, ADDRS_MAX>> {
    if is_localhost(host) {
        let mut both = Vec::new();
        let _ = both.push(SocketAddr::new(Ipv6Addr::LOCALHOST.into(), port));
        let _ = both.push(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port));
        return Some(both);
    }
    let (ip, zone) = parse(host.as_bytes())?;
    Some(all(ip, zone, port))
}

/// What is missing where [`literal`] has no address for `host`: the interface of its zone, or any with a link-local address.
pub(super) fn missing(host: &str) -> NetError {
    match parse(host.as_bytes()) {
        Some((_, zone)) if !zone.is_empty() => match interface_index(zone) {
            Err(Errno::NODEV) => NetError::NoInterface,
            Err(e) => NetError::Connect(e),
            // It has come just now.
            Ok(_) => NetError::NoRoute,
        },
        _ => NetError::NoRoute,
    }
}

/// The socket addresses for what [`parse`] gave; none if the zone is no interface here. A link-local address without a zone is one on
/// every interface that is up.
pub(super) fn all(ip: IpAddr, zone: &str, port: u16) -> Vec<SocketAddr, ADDRS_MAX> {
    match ip {
        IpAddr::V6(ip) if zone.is_empty() && ip.is_unicast_link_local() => {
            let links = Present::now().links;
            links.iter().map(|link| SocketAddr::V6(SocketAddrV6::new(ip, port, 0, *link))).take(ADDRS_MAX).collect()
        }
        ip => with_zone(ip, zone, port).into_iter().collect(),
    }
}

/// An address and its zone, which is empty where none is given.
pub(super) fn parse(text: &[u8]) -> Option<(IpAddr, &str)> {
    let text = text.strip_prefix(b"[").and_then(|rest| rest.strip_suffix(b"]")).unwrap_or(text);
    let text = core::str::from_utf8(text).ok()?;
    let (ip, zone) = text.split_once('%').unwrap_or((text, ""));
    let ip = parse_ip(ip)?;
    // In a URL the percent sign is written `%25`; an interface with the number 25 is `%25` outside of one.
    let zone = zone.strip_prefix("25").filter(|rest| !rest.is_empty()).unwrap_or(zone);
    (zone.is_empty() || matches!(ip, IpAddr::V6(_))).then_some((ip, zone))
}

/// With TLS there is a reader of addresses already, for the names of servers (-2.4 KB).
#[cfg(feature = "tls")]
fn parse_ip(text: &str) -> Option<IpAddr> {
    use rustls::pki_types;
    Some(match pki_types::IpAddr::try_from(text).ok()? {
        pki_types::IpAddr::V4(ip) => IpAddr::from(*ip.as_ref()),
        pki_types::IpAddr::V6(ip) => IpAddr::from(*ip.as_ref()),
    })
}

#[cfg(not(feature = "tls"))]
fn parse_ip(text: &str) -> Option<IpAddr> {
    text.parse().ok()
}

/// The socket address for what [`parse`] gave; `None` if the zone is no interface here.
fn with_zone(ip: IpAddr, zone: &str, port: u16) -> Option<SocketAddr> {
    match ip {
        IpAddr::V6(ip) if !zone.is_empty() => {
            let scope = text::number(zone.as_bytes()).or_else(|| interface_index(zone).ok())?;
            Some(SocketAddr::V6(SocketAddrV6::new(ip, port, 0, scope)))
        }
        ip => Some(SocketAddr::new(ip, port)),
    }
}

/// Whether `host` is this machine or on its link: `localhost`, or an address that says so.
pub fn is_near(host: &str) -> bool {
    is_localhost(host)
        || parse(host.as_bytes()).is_some_and(|(ip, _)| is_near_address(&ip))
        // Other readers than ours take numbers of any form for an address, whatever it is: 127.1, 0x7f.1, 2130706433.
        || is_number(host)
}

/// Whether `ip` is this machine or on its link.
pub(super) fn is_near_address(ip: &IpAddr) -> bool {
    match ip.to_canonical() {
        // All that begin with 0 are this machine (RFC 1122 section 3.2.1.3).
        IpAddr::V4(ip) => ip.is_loopback() || ip.is_link_local() || ip.octets().starts_with(&[0]),
        IpAddr::V6(ip) => {
            // The deprecated form of an IPv4 address within ::/96 (RFC 4291 section 2.5.5.1), of which ::1 and :: are two.
            let is_old = ip.segments().starts_with(&[0; 6]);
            is_old || ip.is_unicast_link_local()
        }
    }
}

/// Whether `host` is no address as it should be written, but ends in a number as if it were one: no name does.
fn is_number(host: &str) -> bool {
    let host = host.strip_suffix('.').unwrap_or(host);
    let last = host.rsplit('.').next().unwrap_or_default();
    let is_hex = last.get(..2).is_some_and(|start| start.eq_ignore_ascii_case("0x"));
    let is_number = !last.is_empty() && last.bytes().all(|b| b.is_ascii_digit());
    (is_hex || is_number) && parse(host.as_bytes()).is_none_or(|(ip, _)| is_near_address(&ip))
}

/// Writes an address as RFC 5952 has it.
pub fn put_address(ip: &IpAddr, out: &mut Text<'_>) {
    let ip = match ip {
        IpAddr::V4(ip) => {
            for (n, octet) in ip.octets().into_iter().enumerate() {
                out.str(if n > 0 { "." } else { "" }).dec(octet.into());
            }
            return;
        }
        IpAddr::V6(ip) => ip.segments(),
    };
    // The longest run of zeros, the first of several, and no single one.
    let run = |start: usize| ip.iter().skip(start).take_while(|segment| **segment == 0).count();
    let start = (0..ip.len()).rev().max_by_key(|start| run(*start)).unwrap_or(0);
    let zeros = match run(start) {
        0 | 1 => 0..0,
        len => start..start.saturating_add(len),
    };
    for (n, segment) in ip.iter().enumerate() {
        if zeros.contains(&n) {
            out.str(if n == zeros.start { "::" } else { "" });
            continue;
        }
        out.str(if n > 0 && n != zeros.end { ":" } else { "" });
        let digits = hex((*segment).into());
        let digits = core::str::from_utf8(&digits).unwrap_or_default().trim_start_matches('0');
        out.str(if digits.is_empty() { "0" } else { digits });
    }
}

/// `localhost` and the names below it.
fn is_localhost(host: &str) -> bool {
    let host = host.as_bytes();
    let host = host.strip_suffix(b".").unwrap_or(host);
    let start = host.len().saturating_sub(b"localhost".len());
    let (below, last) = host.split_at_checked(start).unwrap_or_default();
    last.eq_ignore_ascii_case(b"localhost") && matches!(below.last(), None | Some(b'.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_written() {
        for text in [
            "0.0.0.0",
            "192.0.2.255",
            "::",
            "::1",
            "1::",
            "2001:db8::1",
            "2001:db8:0:1:1:1:1:1",
            "2001:0:0:1::1",
            "2001:db8::1:0:0:1",
            "fe80::a",
            "1:2:3:4:5:6:7:8",
            "0:1:2:3:4:5:6:7",
            "1:2:3:4:5:6:7:0",
            "ffff::ffff:0",
        ] {
            let mut buf = [0; 40];
            let mut out = Text::new(&mut buf);
            put_address(&text.parse().unwrap(), &mut out);
            assert_eq!(out.as_str(), text);
            let ip: IpAddr = text.parse().unwrap();
            assert_eq!(out.as_str(), ip.to_string());
        }
    }

    #[test]
    fn near() {
        for (host, near) in [
            ("localhost", true),
            ("a.LocalHost.", true),
            ("127.1.2.3", true),
            ("169.254.169.254", true),
            ("::1", true),
            ("fe80::1%25eth0", true),
            ("febf::1", true),
            ("::ffff:169.254.169.254", true),
            ("0.0.0.0", true),
            ("0.1.2.3", true),
            ("::", true),
            ("::127.0.0.1", true),
            ("::ffff:7f00:1", true),
            ("127.1", true),
            ("127.0.0.1.", true),
            ("2130706433", true),
            ("0x7f000001", true),
            ("0X7F.1", true),
            ("0177.0.0.1", true),
            ("192.0.2.1", false),
            ("192.0.2.1.", false),
            ("host1", false),
            ("1.example", false),
            ("64:ff9b::1", false),
            ("fec0::1", false),
            ("fd00:ec2::254", false),
            ("168.63.129.16", false),
            ("170.254.0.1", false),
            ("localhost.example", false),
            ("notlocalhost", false),
        ] {
            assert_eq!(is_near(host), near, "{host}");
        }
    }

    fn one(host: &str) -> Option<String> {
        literal(host, 80).map(|all| all.iter().map(|a| a.to_string()).collect::<alloc::vec::Vec<_>>().join(" "))
    }

    #[test]
    fn literals() {
        for (host, want) in [
            ("192.0.2.1", "192.0.2.1:80"),
            ("2001:db8::1", "[2001:db8::1]:80"),
            ("[2001:db8::1]", "[2001:db8::1]:80"),
            ("[::ffff:192.0.2.1]", "[::ffff:192.0.2.1]:80"),
            ("fe80::1%1", "[fe80::1%1]:80"),
            ("[fe80::1%251]", "[fe80::1%1]:80"),
            ("fe80::1%25", "[fe80::1%25]:80"),
            ("[fe80::1%25lo]", "[fe80::1%1]:80"),
            ("fe80::1%lo", "[fe80::1%1]:80"),
            ("fe80::1%no-such-interface", ""),
            ("localhost", "[::1]:80 127.0.0.1:80"),
            ("LocalHost.", "[::1]:80 127.0.0.1:80"),
            ("a.localhost", "[::1]:80 127.0.0.1:80"),
        ] {
            assert_eq!(one(host).as_deref(), Some(want), "{host}");
        }
    }

    #[test]
    fn names_are_no_literals() {
        for host in [
            "",
            "example.com",
            "1.2.3",
            "1.2.3.4.5",
            "01.2.3.4",
            "[::1",
            "127.0.0.1%lo",
            "notlocalhost",
            "localhost.example",
            "::g",
        ] {
            assert_eq!(one(host), None, "{host}");
        }
    }
}
