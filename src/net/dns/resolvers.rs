//! Where an initramfs has its nameservers: the setting, the files of whatever brought the network up, and the kernel's command line.
//!
//! In a failed initramfs the local resolver is dead, though `resolv.conf` may still name it: nameservers on a loopback address are
//! passed over, unless the owner set them. Files that are missing, dangling or broken are skipped. Nothing here waits.

use core::net::SocketAddr;
use heapless::Vec;

use crate::net::Dial;
use crate::net::addr::{all, parse};
use crate::sys::file::File;
use crate::sys::lines;
use crate::sys::sock::WAIT_MAX;
use crate::text;

/// Nameservers that are kept; glibc keeps three. Each has a socket to wait for.
pub(in crate::net) const SERVERS_MAX: usize = WAIT_MAX;

/// Bytes of search domains that are kept, a byte between two (glibc: 256 and six domains).
const SEARCH_MAX: usize = 256;

/// The port of DNS (RFC 1035 section 4.2).
const PORT: u16 = 53;

/// Nameservers of one file that are kept before the other files are looked at, as many as glibc asks. A file with many dead ones must
/// not take the place of those of a lease.
const FIRST_OF_FILE: usize = 3;

/// The files that are looked at, in this order; a `*` is any part of the last name.
pub const PLACES: [&str; 18] = [
    "/etc/resolv.conf",
    // systemd-resolved's own list; `/etc/resolv.conf` often leads to its stub instead.
    "/run/systemd/resolve/resolv.conf",
    // systemd-networkd
    "/run/systemd/netif/state",
    "/run/systemd/netif/leases/*",
    "/run/systemd/netif/links/*",
    "/run/NetworkManager/resolv.conf",
    "/run/NetworkManager/no-stub-resolv.conf",
    "/run/connman/resolv.conf",
    // resolvconf and openresolv, which dhcpcd and wicked speak to where they are; dhcpcd without them; wicked
    "/run/resolvconf/interface/*",
    "/run/resolvconf/interfaces/*",
    "/run/dhcpcd/hook-state/resolv.conf/*",
    "/run/wicked/leaseinfo.*",
    // dracut
    "/tmp/net.*.resolv.conf",
    "/tmp/dhclient.*.dhcpopts",
    "/run/initramfs/state/etc/resolv.conf",
    // klibc's ipconfig, which initramfs-tools and mkinitcpio use; what initramfs-tools writes for IPv6
    "/run/net-*.conf",
    "/run/net6-*.conf",
    // the kernel's own DHCP
    "/proc/net/pnp",
];

/// Keys of lines that hold nameservers: resolv.conf's, networkd's, klibc's and what initramfs-tools adds to it, dhclient's, wicked's.
const SERVER_KEYS: [&[u8]; 9] = [
    b"nameserver",
    b"DNS",
    b"IPV4DNS0",
    b"IPV4DNS1",
    b"IPV6DNS0",
    b"IPV6DNS1",
    b"new_domain_name_servers",
    b"new_dhcp6_name_servers",
    b"DNSSERVERS",
];

/// Keys of lines that hold search domains, of the same kinds.
const DOMAIN_KEYS: [&[u8]; 12] = [
    b"search",
    b"domain",
    b"DOMAINS",
    b"DOMAINNAME",
    b"DOMAIN_SEARCH_LIST",
    b"DNSDOMAIN",
    b"DOMAINSEARCH",
    b"IPV6DOMAINSEARCH",
    b"new_domain_name",
    b"new_domain_search",
    b"new_dhcp6_domain_search",
    b"DNSSEARCH",
];

/// What is known of how names are looked up.
#[derive(Default)]
pub(in crate::net) struct Resolvers {
    /// Nameservers, the first to be asked first.
    pub(in crate::net) servers: Vec<SocketAddr, SERVERS_MAX>,
    /// Domains in which a short name is looked up, with a space after each.
    pub(in crate::net) search: Vec<u8, SEARCH_MAX>,
    /// Dots from which on a name is looked up as it stands first.
    pub(in crate::net) ndots: u32,
    /// Whether the owner set the nameservers: those that are found are left out.
    set: bool,
    /// Whether the file that is being read may set the domains: the first file that has some does.
    may_search: bool,
    /// Nameservers that are kept now.
    most: usize,
}

impl Resolvers {
    /// Looks at all places.
    pub(in crate::net) fn new(dial: &Dial<'_>) -> Self {
        let mut all = Self { ndots: 1, most: SERVERS_MAX, ..Self::default() };
        for text in dial.dns {
            all.server(text.as_bytes(), true);
        }
        all.set = !all.servers.is_empty();
        let mut words = dial.cmdline.split(u8::is_ascii_whitespace);
        // dracut's: the nameservers that DHCP tells of are not to be asked.
        if words.any(|word| word == b"rd.peerdns=0") {
            all.words(dial.cmdline);
            all.set |= !all.servers.is_empty();
        }
        for first in [FIRST_OF_FILE, SERVERS_MAX] {
            for place in PLACES {
                lines::files(dial.root, place.as_bytes(), &mut |file| all.file(file, first));
            }
            all.words(dial.cmdline);
        }
        all
    }

    /// Reads a file, of whose nameservers the `first` ones are kept.
    fn file(&mut self, file: &File, first: usize) {
        self.may_search = self.search.is_empty();
        self.most = self.servers.len().saturating_add(first).min(SERVERS_MAX);
        lines::each(file, &mut |line| self.line(line));
        self.most = SERVERS_MAX;
    }

    fn words(&mut self, cmdline: &[u8]) {
        cmdline.split(u8::is_ascii_whitespace).for_each(|word| self.word(word));
    }

    /// A line of resolv.conf(5), or of a file of shell variables as leases are kept in.
    fn line(&mut self, line: &[u8]) {
        let line = line.trim_ascii();
        let is_end = |b: &u8| matches!(b, b' ' | b'\t' | b'=');
        let (key, rest) = line.split_at_checked(line.iter().position(is_end).unwrap_or(line.len())).unwrap_or_default();
        let words =
            rest.split(|b| b.is_ascii_whitespace() || matches!(b, b'=' | b'\'' | b'"')).filter(|word| !word.is_empty());
        if SERVER_KEYS.contains(&key) {
            words.for_each(|word| self.server(word, false));
        } else if DOMAIN_KEYS.contains(&key) && self.may_search {
            let mut words = words.peekable();
            if words.peek().is_some() {
                self.search.clear();
            }
            words.for_each(|word| self.domain(word));
        } else if key == b"options" {
            words
                .filter_map(|word| word.strip_prefix(b"ndots:"))
                .filter_map(text::number)
                .for_each(|dots| self.ndots = dots);
        }
    }

    /// A word of the kernel's command line: `nameserver=ADDRESS`, or the two nameservers in `ip=CLIENT:PEER:GATEWAY:MASK:HOST:
    /// INTERFACE:METHOD:DNS0:DNS1` (the kernel's nfsroot.rst, dracut.cmdline(7)), where IPv6 addresses are in brackets.
    fn word(&mut self, word: &[u8]) {
        let word = word.trim_ascii();
        if let Some(address) = word.strip_prefix(b"nameserver=") {
            self.server(address, false);
        } else if let Some(fields) = word.strip_prefix(b"ip=") {
            let mut in_brackets = false;
            let fields = fields.split(|b| {
                in_brackets = *b == b'[' || in_brackets && *b != b']';
                *b == b':' && !in_brackets
            });
            fields.skip(7).take(2).for_each(|field| self.server(field, false));
        }
    }

    /// Adds a nameserver, if `text` is one: `ADDRESS`, with a port `1.2.3.4:53` or `[2001:db8::1]:53`, with a name for TLS
    /// `ADDRESS#NAME` as systemd writes it.
    fn server(&mut self, text: &[u8], by_owner: bool) {
        let text = text.split(|b| *b == b'#').next().unwrap_or_default();
        let with_port = || {
            let colon = text.iter().rposition(|b| *b == b':')?;
            let (address, port) = text.split_at_checked(colon)?;
            Some((parse(address)?, text::number(port.get(1..)?)?))
        };
        let found = parse(text).map(|address| (address, PORT)).or_else(with_port);
        let Some(((ip, zone), port)) = found else { return };
        let canonical = ip.to_canonical();
        if canonical.is_unspecified() || (!by_owner && (self.set || canonical.is_loopback())) {
            return;
        }
        for server in all(ip, zone, port) {
            if !self.servers.contains(&server) && self.servers.len() < self.most {
                // There is room for so many.
                let _ = self.servers.push(server);
            }
        }
    }

    fn domain(&mut self, word: &[u8]) {
        let word = word.strip_prefix(b"~").unwrap_or(word);
        if self.search.len().saturating_add(word.len()) < SEARCH_MAX {
            // Both fit.
            let _ = self.search.extend_from_slice(word);
            let _ = self.search.push(b' ');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::file::Root;

    fn read(text: &str) -> Resolvers {
        let mut all = Resolvers { ndots: 1, may_search: true, most: SERVERS_MAX, ..Resolvers::default() };
        text.lines().for_each(|line| all.line(line.as_bytes()));
        all
    }

    fn servers(all: &Resolvers) -> String {
        all.servers.iter().map(|s| s.to_string()).collect::<alloc::vec::Vec<_>>().join(" ")
    }

    fn search(all: &Resolvers) -> &str {
        core::str::from_utf8(&all.search).unwrap()
    }

    #[test]
    fn resolv_conf() {
        let all = read(
            "# nameserver 192.0.2.9\n; comment\nnameserver 127.0.0.53\nnameserver ::1\nnameserver\t192.0.2.1 # one\n\
             nameserver fe80::1%lo\n nameserver 2001:db8::1\nnameserver 192.0.2.1\nnameserver x\nnameserver\nnameserver 0.0.0.0\n\
             domain old.example\nsearch a.example b.example\noptions edns0 ndots:2 rotate",
        );
        assert_eq!(servers(&all), "192.0.2.1:53 [fe80::1%1]:53 [2001:db8::1]:53");
        assert_eq!(search(&all), "a.example b.example ");
        assert_eq!(all.ndots, 2);
    }

    #[test]
    fn leases_and_shell_variables() {
        let all =
            read("ADDRESS=192.0.2.7\nDNS=192.0.2.1 192.0.2.2:54#dns.example\nDOMAINNAME=a.example\nNTP=192.0.2.3");
        assert_eq!((&*servers(&all), search(&all)), ("192.0.2.1:53 192.0.2.2:54", "a.example "));
        let all = read("DEVICE='eth0'\nIPV4DNS0='192.0.2.1'\nIPV4DNS1=0.0.0.0\nDNSDOMAIN='a.example'\nDOMAINSEARCH=''");
        assert_eq!((&*servers(&all), search(&all)), ("192.0.2.1:53", "a.example "));
        let all = read(
            "DEVICE6=eth0\nIPV6PROTO=dhcp6\nIPV6DNS0=2001:db8::1\nIPV6DOMAINSEARCH=a.example b.example\nDNSDOMAIN=",
        );
        assert_eq!((&*servers(&all), search(&all)), ("[2001:db8::1]:53", "a.example b.example "));
        let all = read(
            "new_domain_name_servers='192.0.2.1 192.0.2.2'\nnew_domain_name='a.example'\nnew_dhcp6_name_servers='2001:db8::1'",
        );
        assert_eq!((&*servers(&all), search(&all)), ("192.0.2.1:53 192.0.2.2:53 [2001:db8::1]:53", "a.example "));
        let all = read("DNSSERVERS='192.0.2.1 192.0.2.2'\nDNSDOMAIN='a.example'\nDNSSEARCH='b.example'");
        assert_eq!((&*servers(&all), search(&all)), ("192.0.2.1:53 192.0.2.2:53", "b.example "));
    }

    #[test]
    fn command_line() {
        for (words, want) in [
            (
                "nameserver=192.0.2.1 nameserver=[2001:db8::1] rd.neednet=1 nameserver=127.0.0.53",
                "192.0.2.1:53 [2001:db8::1]:53",
            ),
            (
                "ip=192.0.2.7::192.0.2.254:255.255.255.0:host:eth0:none:192.0.2.1:192.0.2.2:192.0.2.3",
                "192.0.2.1:53 192.0.2.2:53",
            ),
            ("ip=[2001:db8::7]::[2001:db8::fe]:64:host:eth0:none:[2001:db8::1]", "[2001:db8::1]:53"),
            ("ip=192.0.2.7::192.0.2.254:24:host:eth0:none:1500:52:54:00:12:34:56", ""),
            ("ip=dhcp ip=eth0:dhcp ip= ip=[:[:]: nameserver=", ""),
        ] {
            let mut all = Resolvers { most: SERVERS_MAX, ..Resolvers::default() };
            words.split(' ').for_each(|word| all.word(word.as_bytes()));
            assert_eq!(servers(&all), want, "{words}");
        }
    }

    /// Lines of all kinds with bytes changed: nothing panics, and what is found is what may be asked.
    #[test]
    fn any_bytes_end() {
        let samples = [
            "nameserver [fe80::1%lo]:53 # one",
            "DNS=192.0.2.1 192.0.2.2:54#dns.example ::ffff:192.0.2.3",
            "IPV4DNS0='192.0.2.1'",
            "search a.example b.example",
            "options edns0 ndots:2",
            "ip=[2001:db8::7]::[2001:db8::fe]:64:host:eth0:none:[2001:db8::1]:192.0.2.1",
            "nameserver=192.0.2.1",
        ];
        let mut seed = 1u32;
        let mut below = |end: usize| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 8) as usize % end
        };
        let mut found = 0;
        for _ in 0..20_000 {
            let mut line = samples[below(samples.len())].as_bytes().to_vec();
            for _ in 0..below(4) {
                let at = below(line.len());
                line[at] = b" =:[]%#'\"\\.0129af\xff\0\t"[below(20)];
            }
            let mut all = Resolvers { may_search: true, most: SERVERS_MAX, ..Resolvers::default() };
            all.line(&line);
            all.word(&line);
            assert!(all.servers.iter().all(|s| !s.ip().to_canonical().is_loopback() && !s.ip().is_unspecified()));
            found += all.servers.len();
        }
        assert!(found > 5_000, "{found}");
    }

    #[test]
    fn bounds() {
        let all = read(&(1..100).map(|n| format!("nameserver 192.0.2.{n}\n")).collect::<String>());
        assert_eq!(all.servers.len(), SERVERS_MAX);
        let all = read(&format!("search {}", "abcdefghi.example ".repeat(100)));
        assert_eq!(all.search.len(), SEARCH_MAX / 18 * 18);
        assert_eq!(read("options ndots:999999999999999999999 ndots:").ndots, 1);
    }

    /// Files in all places, read in their order; and none, which leaves the command line.
    #[test]
    fn places() {
        let dir = std::env::temp_dir().join(format!("resolvers-{}", std::process::id()));
        let write = |path: &str, text: &str| {
            let path = dir.join(path.strip_prefix('/').unwrap());
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        std::fs::create_dir_all(dir.join("etc")).unwrap();
        std::os::unix::fs::symlink("/run/nowhere", dir.join("etc/resolv.conf")).unwrap();
        let root = Root::new(Some(dir.to_str().unwrap().as_bytes())).unwrap();
        let dial = |dns| Dial { root: &root, dns, cmdline: b"a nameserver=192.0.2.99" };
        assert_eq!(servers(&Resolvers::new(&dial(&[]))), "192.0.2.99:53");
        write("/run/nowhere", "nameserver 127.0.0.53\nsearch first.example\n");
        write("/run/systemd/resolve/resolv.conf", "nameserver 192.0.2.2\nsearch second.example\n");
        write("/run/systemd/netif/leases/3", "DNS=192.0.2.3\n");
        write("/tmp/net.eth0.resolv.conf", "nameserver 192.0.2.4\n");
        write("/tmp/net.eth0.conf", "nameserver 192.0.2.5\n");
        write("/run/net-eth0.conf", "IPV4DNS0='192.0.2.6'\n");
        write("/run/net6-eth0.conf", "IPV6DNS0=2001:db8::6\n");
        write("/proc/net/pnp", "#PROTO: DHCP\nnameserver 192.0.2.7\n");
        let all = Resolvers::new(&dial(&[]));
        let found = "192.0.2.2:53 192.0.2.3:53 192.0.2.4:53 192.0.2.6:53 [2001:db8::6]:53 192.0.2.7:53 192.0.2.99:53";
        assert_eq!(servers(&all), found);
        // dracut's word for "none that DHCP tells of".
        let peerdns = Dial { root: &root, dns: &[], cmdline: b"rd.peerdns=0 nameserver=192.0.2.99" };
        assert_eq!(servers(&Resolvers::new(&peerdns)), "192.0.2.99:53");
        let peerdns = Dial { root: &root, dns: &[], cmdline: b"rd.peerdns=0" };
        assert_eq!(servers(&Resolvers::new(&peerdns)), found.trim_end_matches(" 192.0.2.99:53"));
        assert_eq!(search(&all), "first.example ");
        // A file with many does not keep those of the others out, and its rest comes last.
        let many: String = (1..=9).map(|n| format!("nameserver 198.51.100.{n}\r\n")).collect();
        write("/etc/many", &many);
        std::fs::remove_file(dir.join("etc/resolv.conf")).unwrap();
        std::os::unix::fs::symlink("many", dir.join("etc/resolv.conf")).unwrap();
        let all = servers(&Resolvers::new(&dial(&[])));
        assert!(all.starts_with("198.51.100.1:53 198.51.100.2:53 198.51.100.3:53 192.0.2.2:53 192.0.2.3:53 "), "{all}");
        for place in ["run/systemd", "run/net-eth0.conf", "run/net6-eth0.conf", "tmp", "proc"] {
            let _ = std::fs::remove_dir_all(dir.join(place));
            let _ = std::fs::remove_file(dir.join(place));
        }
        let all = servers(&Resolvers::new(&dial(&[])));
        assert!(
            all.ends_with(
                "198.51.100.3:53 192.0.2.99:53 198.51.100.4:53 198.51.100.5:53 198.51.100.6:53 198.51.100.7:53"
            ),
            "{all}"
        );
        // The owner's replace them, and may be here.
        assert_eq!(
            servers(&Resolvers::new(&dial(&["127.0.0.1:5353", "nonsense", "2001:db8::1"]))),
            "127.0.0.1:5353 [2001:db8::1]:53"
        );
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
