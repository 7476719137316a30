//! `/etc/hosts` (hosts(5)): an address, and the names it has, on a line.

use core::net::SocketAddr;
use heapless::Vec;

use crate::net::addr::{ADDRS_MAX, all, parse};
use crate::sys::file::Root;
use crate::sys::lines;

/// The addresses of `host` in `/etc/hosts`, if it is there.
pub(in crate::net) fn lookup(root: &Root, host: &str, port: u16) -> Option<Vec<SocketAddr, ADDRS_MAX>> {
    let mut found: Vec<SocketAddr, ADDRS_MAX> = Vec::new();
    lines::each(&root.file("/etc/hosts").ok()?, &mut |line| {
        if let Some((ip, zone)) = address_of(line, host.as_bytes()) {
            // Those that do not fit are not tried.
            found.extend(all(ip, zone, port).into_iter().take(found.capacity().saturating_sub(found.len())));
        }
    });
    (!found.is_empty()).then_some(found)
}

/// The address on `line`, if the line gives it to `host`.
fn address_of<'a>(line: &'a [u8], host: &[u8]) -> Option<(core::net::IpAddr, &'a str)> {
    let line = line.split(|b| *b == b'#').next()?;
    let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let address = words.next()?;
    let host = host.strip_suffix(b".").unwrap_or(host);
    words.any(|name| name.eq_ignore_ascii_case(host)).then(|| parse(address))?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(line: &str, host: &str) -> Option<String> {
        address_of(line.as_bytes(), host.as_bytes()).map(|(ip, zone)| format!("{ip}%{zone}"))
    }

    #[test]
    fn lines_of_hosts() {
        assert_eq!(address("192.0.2.1 a.example a", "a").as_deref(), Some("192.0.2.1%"));
        assert_eq!(address("\t192.0.2.1\tA.Example \r", "a.example.").as_deref(), Some("192.0.2.1%"));
        assert_eq!(address("fe80::1%eth0 a # b", "a").as_deref(), Some("fe80::1%eth0"));
        for line in ["192.0.2.1 a # b", "192.0.2.1", "", "# b", "b b", "192.0.2.256 b", "192.0.2.1 bb", "b 192.0.2.1"] {
            assert_eq!(address(line, "b"), None, "{line}");
        }
    }
}
