//! The status body: facts of this machine and the outcome of provisioning, as JSON.
//! `tests/status.schema.json` has its shape.

use crate::error::Error;
use crate::escape;
use crate::http::client::Body;
use crate::journal::units::Failed;
use crate::settings::cmdline::{Words, same_key};
use crate::settings::{State, Warnings, redact};
use crate::sink::{Count, Sink};
use crate::sys::Errno;
use crate::sys::build_date::is_clock_plausible;
use crate::sys::file::Root;
use crate::sys::{random, time};
use crate::text;
use heapless::{String, Vec};

/// Maximum number of network interfaces whose addresses are reported.
const MACS_MAX: usize = 16;
/// Number of bytes read of the kernel's routing tables: 30 routes, more than an initramfs has.
const ROUTES_MAX: usize = 4096;
/// Maximum length of a short text read from a file. A host name has at most 64 bytes; DMI strings
/// may be longer.
const FACT_MAX: usize = 96;
/// Length of a UUID.
const UUID_LEN: usize = 36;

/// A short text from a file of one line; empty if the file is missing.
pub type Fact = String<FACT_MAX>;

/// A hardware address, in lower case with colons.
pub type Mac = String<17>;

/// Facts of this machine.
pub struct Facts {
    /// Host name of the kernel or of its command line; empty if none was configured.
    pub hostname: Fact,
    /// `/etc/machine-id`.
    pub machine_id: Fact,
    /// Boot ID of the kernel.
    pub boot_id: Fact,
    /// Product UUID from DMI, in lower case.
    pub product_uuid: Fact,
    /// Serial number from DMI.
    pub serial: Fact,
    /// Hardware addresses. The interface that the machine booted from is first, else that of the
    /// default route.
    pub mac: Vec<Mac, MACS_MAX>,
    /// Release of the kernel.
    pub kernel: Fact,
    /// Milliseconds since boot.
    pub uptime_ms: u64,
    /// Seconds since 1970 by the system's clock.
    pub time_s: u64,
    /// Whether the clock is plausible: neither before the build of this program, nor decades after
    /// it.
    pub clock_trusted: bool,
}

impl Facts {
    /// Reads the facts below `root`. Unreadable values and the placeholders of firmware and images
    /// are left empty.
    pub fn gather(root: &Root, cmdline: &[u8]) -> Self {
        let time_s = time::realtime_s();
        let mut product_uuid = value(line(root, "sys/class/dmi/id/product_uuid"));
        product_uuid.make_ascii_lowercase();
        Self {
            hostname: hostname(root, cmdline),
            machine_id: value(line(root, "etc/machine-id")),
            boot_id: line(root, "proc/sys/kernel/random/boot_id"),
            product_uuid,
            serial: value(line(root, "sys/class/dmi/id/product_serial")),
            mac: macs(root, cmdline),
            kernel: line(root, "proc/sys/kernel/osrelease"),
            uptime_ms: time::monotonic_ms(),
            time_s,
            clock_trusted: is_clock_plausible(time_s),
        }
    }

    /// Returns the value of `${name}` in a setting.
    pub fn variable(&self, name: &str) -> Option<&str> {
        Some(match name {
            "hostname" => &self.hostname,
            "uuid" => &self.product_uuid,
            "serial" => &self.serial,
            "mac" => self.mac.first().map_or("", String::as_str),
            "machine_id" => &self.machine_id,
            "boot_id" => &self.boot_id,
            _ => return None,
        })
    }
}

/// A report: an event, and the machine on which it happened.
pub struct Report<'a> {
    /// ID of the report, the same for every destination and attempt.
    pub id: &'a str,
    /// State that is reported.
    pub state: State,
    /// Name of the stage.
    pub stage: Option<&'a str>,
    /// Message text.
    pub message: Option<&'a str>,
    /// Numeric code.
    pub code: Option<u64>,
    /// Name of the cloud.
    pub platform: Option<&'a str>,
    /// Facts of this machine.
    pub facts: &'a Facts,
    /// Failed units and their last lines, from the journal.
    pub failed: Option<&'a Failed>,
    /// Command line of the kernel. Its secrets are masked when the report is written.
    pub cmdline: &'a [u8],
    /// Non-fatal problems so far.
    pub warnings: &'a Warnings,
}

impl Body for Report<'_> {
    fn length(&self) -> Option<u64> {
        let mut count = Count::default();
        self.put_json(&mut count).ok()?;
        Some(count.0)
    }

    fn write(&mut self, out: &mut dyn Sink) -> Result<(), Error> {
        self.put_json(out)
    }
}

impl Report<'_> {
    fn put_json(&self, out: &mut dyn Sink) -> Result<(), Error> {
        let facts = self.facts;
        out.put(b"{\"schema\":1")?;
        for (key, value) in [("report_id", Some(self.id)), ("state", Some(self.state.as_str())), ("stage", self.stage)]
        {
            member(key, value, out)?;
        }
        key("message", out)?;
        let ignition = self.failed.map(|failed| failed.ignition.as_slice()).filter(|text| !text.is_empty());
        match self.message.map(str::as_bytes).or(ignition) {
            Some(text) => bytes(text, out)?,
            None => out.put(b"null")?,
        }
        key("code", out)?;
        match self.code {
            Some(code) => decimal(code, out)?,
            None => out.put(b"null")?,
        }
        member("platform", self.platform, out)?;
        for (key, value) in [
            ("hostname", &facts.hostname),
            ("machine_id", &facts.machine_id),
            ("boot_id", &facts.boot_id),
            ("product_uuid", &facts.product_uuid),
        ] {
            member(key, Some(value.as_str()).filter(|v| !v.is_empty()), out)?;
        }
        key("mac", out)?;
        list(&mut facts.mac.iter().map(String::as_str), out)?;
        member("time", core::str::from_utf8(&crate::date::rfc3339(facts.time_s)).ok(), out)?;
        key("clock_trusted", out)?;
        out.put(if facts.clock_trusted { b"true" } else { b"false" })?;
        key("uptime_s", out)?;
        decimal(facts.uptime_ms / 1000, out)?;
        let tenths = (facts.uptime_ms % 1000 / 100) as u8;
        out.put(&[b'.', text::hex_digit(tenths)])?;
        member("kernel", Some(facts.kernel.as_str()).filter(|v| !v.is_empty()), out)?;
        key("cmdline", out)?;
        out.put(b"\"")?;
        redact::line_as_json(self.cmdline, out)?;
        out.put(b"\"")?;
        key("failed_units", out)?;
        self.put_units(out)?;
        if self.state == State::Stuck {
            key("starting_units", out)?;
            out.put(b"[")?;
            for (i, name) in self.failed.iter().flat_map(|failed| &failed.starting).enumerate() {
                out.put(if i > 0 { b"," } else { b"" })?;
                bytes(name, out)?;
            }
            out.put(b"]")?;
        }
        key("warnings", out)?;
        list(&mut self.warnings.lines(), out)?;
        out.put(b"}\n")
    }

    fn put_units(&self, out: &mut dyn Sink) -> Result<(), Error> {
        out.put(b"[")?;
        for (i, unit) in self.failed.iter().flat_map(|failed| &failed.units).enumerate() {
            out.put(if i > 0 { b",{\"unit\":" } else { b"{\"unit\":" })?;
            bytes(&unit.name, out)?;
            key("result", out)?;
            match unit.result.is_empty() {
                true => out.put(b"null")?,
                false => bytes(&unit.result, out)?,
            }
            key("exit_status", out)?;
            match unit.exit_status {
                Some(status) => decimal(status.into(), out)?,
                None => out.put(b"null")?,
            }
            key("last_lines", out)?;
            out.put(b"[")?;
            for (i, line) in unit.lines.iter().enumerate() {
                out.put(if i > 0 { b"," } else { b"" })?;
                bytes(line, out)?;
            }
            out.put(b"]}")?;
        }
        out.put(b"]")
    }
}

/// Returns a random UUID (RFC 9562 section 5.4) as text.
pub fn new_id() -> Result<String<UUID_LEN>, Errno> {
    let mut bytes = [0u8; 16];
    random::fill(&mut bytes)?;
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let mut id = String::new();
    for (i, byte) in bytes.iter().enumerate() {
        if matches!(i, 4 | 6 | 8 | 10) {
            let _ = id.push('-');
        }
        let _ = id.push(text::hex_digit(byte >> 4).into());
        let _ = id.push(text::hex_digit(*byte).into());
    }
    Ok(id)
}

fn key(name: &str, out: &mut dyn Sink) -> Result<(), Error> {
    out.put(b",\"")?;
    out.put(name.as_bytes())?;
    out.put(b"\":")
}

/// Writes a further member of an object: `,"name":"value"`, or `null`.
pub fn member(name: &str, value: Option<&str>, out: &mut dyn Sink) -> Result<(), Error> {
    key(name, out)?;
    match value {
        Some(value) => bytes(value.as_bytes(), out),
        None => out.put(b"null"),
    }
}

fn bytes(text: &[u8], out: &mut dyn Sink) -> Result<(), Error> {
    out.put(b"\"")?;
    escape::json(text, out)?;
    out.put(b"\"")
}

fn list(values: &mut dyn Iterator<Item = &str>, out: &mut dyn Sink) -> Result<(), Error> {
    out.put(b"[")?;
    for (i, value) in values.enumerate() {
        if i > 0 {
            out.put(b",")?;
        }
        bytes(value.as_bytes(), out)?;
    }
    out.put(b"]")
}

fn decimal(n: u64, out: &mut dyn Sink) -> Result<(), Error> {
    out.put(text::decimal(n, &mut [0; text::DECIMAL_MAX]).as_bytes())
}

/// Returns the first line of a file, truncated to fit; empty if it cannot be read.
pub fn line(root: &Root, path: impl AsRef<[u8]>) -> Fact {
    let mut buf = [0; FACT_MAX];
    let bytes = root.read(path, &mut buf).unwrap_or_default();
    let first = bytes.split(|b| *b == b'\n' || *b == 0).next().unwrap_or_default();
    let mut fact = Fact::new();
    // Drop a character that was truncated.
    let valid = first.utf8_chunks().next().map_or("", |chunk| chunk.valid());
    let _ = fact.push_str(valid.trim_ascii());
    fact
}

/// Placeholders for values that were never set: the kernel's, systemd's in an image
/// (machine-id(5)), and those of board vendors.
const PLACEHOLDERS: [&str; 23] = [
    "(none)",
    "localhost",
    "localhost.localdomain",
    "localhost4",
    "localhost6",
    "uninitialized",
    "none",
    "n/a",
    "unknown",
    "invalid",
    "not specified",
    "not applicable",
    "not available",
    "not present",
    "not settable",
    "default string",
    "to be filled by o.e.m.",
    "to be filled by oem",
    "system serial number",
    "0123456789",
    "123456789",
    "1234567890",
    // UUID that a firmware vendor left in thousands of boards.
    "03000200-0400-0500-0006-000700080009",
];

/// Returns `fact`, or an empty text if it is a placeholder: a known word, or one character
/// repeated.
fn value(mut fact: Fact) -> Fact {
    let mut letters = fact.bytes().filter(u8::is_ascii_alphanumeric);
    let first = letters.next();
    let is_repeated = letters.all(|b| Some(b) == first);
    if is_repeated || PLACEHOLDERS.iter().any(|word| fact.eq_ignore_ascii_case(word)) {
        fact.clear();
    }
    fact
}

/// Returns the kernel's host name. If none is set yet, returns that of the command line:
/// `systemd.hostname=`, or the fifth field of `ip=` (the kernel's nfsroot.rst, dracut.cmdline(7)).
fn hostname(root: &Root, cmdline: &[u8]) -> Fact {
    // A single letter is a valid name, although `value` takes it for a repeated character.
    let line = line(root, "proc/sys/kernel/hostname");
    if line.len() == 1 {
        return line;
    }
    let line = value(line);
    if !line.is_empty() {
        return line;
    }
    match argument(cmdline, b"systemd.hostname").filter(|name| !name.is_empty()) {
        Some(name) => name,
        // There may be one `ip=` for each interface.
        None => arguments(cmdline, b"ip").filter_map(host_field).find(|name| !name.is_empty()).unwrap_or_default(),
    }
}

/// Returns the values of `key` on the command line that fit into a `Fact`.
fn arguments(cmdline: &[u8], key: &[u8]) -> impl Iterator<Item = Fact> {
    let words = Words::new(cmdline).filter(move |word| same_key(word.key, key));
    words.filter_map(|word| Fact::try_from(core::str::from_utf8(word.value?).ok()?).ok())
}

/// Returns the last value of `key` on the command line, which takes effect.
#[inline(never)]
fn argument(cmdline: &[u8], key: &[u8]) -> Option<Fact> {
    arguments(cmdline, key).last()
}

fn host_field(ip: Fact) -> Option<Fact> {
    let mut in_brackets = false;
    let mut fields = ip.split(|c| {
        in_brackets = c == '[' || in_brackets && c != ']';
        c == ':' && !in_brackets
    });
    let name = fields.nth(4)?;
    let is_name = name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b));
    Fact::try_from(name).ok().filter(|_| is_name).map(value)
}

/// Returns the sorted addresses of all interfaces, but first the one that identifies the machine
/// best.
fn macs(root: &Root, cmdline: &[u8]) -> Vec<Mac, MACS_MAX> {
    let booted = argument(cmdline, b"BOOTIF").and_then(|text| {
        // PXELINUX prefixes the hardware type: 01-52-54-00-12-34-56.
        let start = text.len().checked_sub(17)?;
        mac(text.get(start..)?)
    });
    let routed = route(root).and_then(|name| mac(&address(root, name.as_bytes())));
    let mut macs: Vec<Mac, MACS_MAX> = Vec::new();
    let (mut has_booted, mut has_routed) = (false, false);
    let mut visit = |name: &[u8]| {
        let Some(mac) = mac(&address(root, name)) else { return true };
        has_booted |= booted.as_ref() == Some(&mac);
        has_routed |= routed.as_ref() == Some(&mac);
        // A bond or a VLAN shares the address of a member.
        if !macs.contains(&mac) {
            let at = macs.iter().position(|other| *other > mac).unwrap_or(macs.len());
            // Drop the highest address to make room.
            if macs.is_full() && at < macs.len() {
                macs.pop();
            }
            let _ = macs.insert(at, mac);
        }
        true
    };
    if let Ok(interfaces) = root.folder("sys/class/net") {
        let _ = interfaces.names(&mut visit);
    }
    // The command line may have been copied from another machine. Without interfaces there is no
    // other source.
    let first = booted.filter(|_| has_booted || macs.is_empty()).or(routed.filter(|_| has_routed));
    if let Some(first) = first {
        if let Some(at) = macs.iter().position(|mac| *mac == first) {
            macs.remove(at);
        }
        if macs.is_full() {
            macs.pop();
        }
        let _ = macs.insert(0, first);
    }
    macs
}

/// Returns the address of an interface as the kernel formats it.
fn address(root: &Root, name: &[u8]) -> Fact {
    // The entries are symbolic links within the file system: they resolve as a path below the root,
    // not relative to their folder.
    let mut path: heapless::Vec<u8, 64> = Vec::new();
    let whole = [b"sys/class/net/".as_slice(), name, b"/address"].iter().all(|p| path.extend_from_slice(p).is_ok());
    if whole { line(root, &path) } else { Fact::new() }
}

/// Parses a hardware address with colons or dashes. `None` if it is malformed or all zero, as the
/// loopback's is.
fn mac(text: &str) -> Option<Mac> {
    let is_one =
        text.bytes().enumerate().all(|(i, b)| if i % 3 == 2 { b == b':' || b == b'-' } else { b.is_ascii_hexdigit() });
    let is_null = text.bytes().all(|b| matches!(b, b'0' | b':' | b'-'));
    let mut mac = Mac::new();
    for c in text.chars().filter(|_| is_one && !is_null && text.len() == 17) {
        let _ = mac.push(if c == '-' { ':' } else { c.to_ascii_lowercase() });
    }
    if mac.is_empty() { None } else { Some(mac) }
}

/// Returns the interface of the default route with the lowest metric. IPv6 is used only if IPv4 has
/// no default route.
fn route(root: &Root) -> Option<String<16>> {
    let mut buf = [0; ROUTES_MAX];
    // Columns of an entry: destination, mask or prefix length, metric, flags and interface; then
    // the base of the metric.
    for (path, destination, mask, metric, flags, interface, radix) in
        [("proc/net/route", 1, 7, 6, 3, 0, 10), ("proc/net/ipv6_route", 0, 1, 5, 8, 9, 16)]
    {
        let table = root.read(path, &mut buf).ok().and_then(|text| core::str::from_utf8(text).ok()).unwrap_or_default();
        let entries = table.lines().filter_map(|line| {
            let column = |at: usize| line.split_ascii_whitespace().nth(at);
            let is_zero = |at: usize| column(at).is_some_and(|text| text.bytes().all(|b| b == b'0'));
            let flags = text::digits(column(flags)?.as_bytes(), 16)?;
            let is_used = flags & RTF_UP != 0 && flags & RTF_REJECT == 0;
            let metric = text::digits(column(metric)?.as_bytes(), radix)?;
            let interface = column(interface).filter(|_| is_used && is_zero(destination) && is_zero(mask))?;
            Some((metric, interface))
        });
        if let Some((_, name)) = entries.min_by_key(|(metric, _)| *metric) {
            return String::try_from(name).ok();
        }
    }
    None
}

/// Flags of a route (Linux `route.h`): the route is usable; the route rejects its packets.
const RTF_UP: u64 = 1;
const RTF_REJECT: u64 = 0x200;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_is_that_of_what_is_written() {
        let root = Root::new(None).unwrap();
        let facts = Facts::gather(&root, b"");
        let mut warnings = Warnings::default();
        warnings.add(&["a \"quoted\" word"]);
        let id = new_id().unwrap();
        let mut report = Report {
            id: &id,
            state: State::Failed,
            stage: Some("disks"),
            message: Some("line\nbreak"),
            code: None,
            platform: None,
            facts: &facts,
            failed: None,
            cmdline: b"quiet x.token=T",
            warnings: &warnings,
        };
        let mut out = std::vec::Vec::new();
        report.write(&mut out).unwrap();
        assert_eq!(report.length(), Some(out.len() as u64));
        let text = std::string::String::from_utf8(out).unwrap();
        assert!(text.contains(r#""message":"line\nbreak""#) && text.contains(r#""cmdline":"quiet x.token=***""#));
        assert!(text.contains(r#""warnings":["a \"quoted\" word"]"#), "{text}");
    }

    /// Facts of a machine with these files.
    fn facts(cmdline: &str, files: &[(&str, &str)]) -> Facts {
        let dir = std::env::temp_dir().join(format!("facts-{}-{:?}", std::process::id(), std::thread::current().id()));
        for (path, text) in files {
            std::fs::create_dir_all(dir.join(path).parent().unwrap()).unwrap();
            std::fs::write(dir.join(path), text).unwrap();
        }
        std::fs::create_dir_all(&dir).unwrap();
        let facts = Facts::gather(&Root::new(Some(dir.to_str().unwrap().as_bytes())).unwrap(), cmdline.as_bytes());
        std::fs::remove_dir_all(&dir).unwrap();
        facts
    }

    #[test]
    fn the_address_of_the_interface_that_booted_is_first() {
        let (a, b, c) = ("52:54:00:00:00:0a", "52:54:00:00:00:0b", "52:54:00:00:00:0c");
        let interfaces = [
            ("sys/class/net/eth2/address", "52:54:00:00:00:0A\n"),
            ("sys/class/net/eth1/address", "52:54:00:00:00:0b\n"),
            ("sys/class/net/eth0/address", "52:54:00:00:00:0c\n"),
            ("sys/class/net/bond0/address", "52:54:00:00:00:0c\n"),
            ("sys/class/net/lo/address", "00:00:00:00:00:00\n"),
            ("sys/class/net/ib0/address", "80:00:00:03:fe:80:00:00:00:00:00:00:00:02:c9:03:00:31:78:f1\n"),
        ];
        let head = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n";
        let v4 = format!(
            "{head}eth2\t00000000\t0100000A\t0003\t0\t0\t200\t00000000\t0\t0\t0\neth0\t0000000A\t0\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n\
             eth1\t00000000\t0100000A\t0003\t0\t0\t100\t00000000\t0\t0\t0\n"
        );
        let zero = "0".repeat(32);
        let v6 = format!(
            "{zero} 00 {zero} 00 {zero} ffffffff 00000001 00000000 00200200       lo\n\
             {zero} 00 {zero} 00 fe800000000000000000000000000001 00000400 00000001 00000000 00000003     eth0\n"
        );
        for (cmdline, v4, v6, macs) in [
            ("", "", "", [a, b, c]),
            ("", v4.as_str(), v6.as_str(), [b, a, c]),
            ("", head, v6.as_str(), [c, a, b]),
            ("", "rubbish\n\t\n", "rubbish", [a, b, c]),
            ("BOOTIF=01-52-54-00-00-00-0C", v4.as_str(), "", [c, a, b]),
            ("BOOTIF=52:54:00:00:00:0c", v4.as_str(), "", [c, a, b]),
            ("BOOTIF=01-52-54-00-00-00-ff", v4.as_str(), "", [b, a, c]),
            ("BOOTIF=01-52-54-00-00-00", "", "", [a, b, c]),
            ("BOOTIF=x BOOTIF", "", "", [a, b, c]),
        ] {
            let mut files = interfaces.to_vec();
            files.extend([("proc/net/route", v4), ("proc/net/ipv6_route", v6)]);
            let facts = facts(cmdline, &files);
            assert_eq!(facts.mac.as_slice(), macs, "{cmdline} {v4} {v6}");
            assert_eq!(facts.variable("mac"), Some(macs[0]));
        }
        assert_eq!(facts("BOOTIF=01-52-54-00-00-00-0c", &[]).mac.as_slice(), [c]);
        assert!(facts("BOOTIF=01-00-00-00-00-00-00", &[]).mac.is_empty());
        // The first address is kept even if there are more than are reported.
        let many: std::vec::Vec<_> =
            (0..40).map(|n| (format!("sys/class/net/e{n}/address"), format!("52:54:00:00:01:{n:02x}\n"))).collect();
        let many: std::vec::Vec<_> = many.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        let macs = facts("BOOTIF=01-52-54-00-00-01-27", &many).mac;
        assert_eq!(
            (macs.len(), macs[0].as_str(), macs[1].as_str()),
            (MACS_MAX, "52:54:00:00:01:27", "52:54:00:00:01:00")
        );
    }

    #[test]
    fn what_stands_in_place_of_a_name_is_none() {
        let name = |cmdline: &str, name: &str| {
            facts(cmdline, &[("proc/sys/kernel/hostname", name)]).hostname.as_str().to_owned()
        };
        for none in ["(none)\n", "localhost\n", "localhost.localdomain\n", "LOCALHOST", "", "\n"] {
            assert_eq!(name("", none), "", "{none:?}");
            assert_eq!(name("ip=192.0.2.1::192.0.2.254:255.255.255.0:web-3:eth0:none", none), "web-3");
            assert_eq!(name("ip=dhcp ip=[2001:db8::1]::[fe80::1]:64:web-6:eth0:none ip=x", none), "web-6");
            assert_eq!(name("systemd.hostname=web-4 ip=[2001:db8::1]::[fe80::1]:64:web-6:eth0:none", none), "web-4");
            assert_eq!(name("ip=:::::eth0:dhcp systemd.hostname", none), "");
        }
        assert_eq!(name("ip=192.0.2.1::192.0.2.254:255.255.255.0:web-3:eth0:none", "node-7\n"), "node-7");
        assert_eq!(name("", "a\n"), "a");
    }

    #[test]
    fn what_vendors_leave_in_place_of_values_is_none() {
        for serial in [
            "To Be Filled By O.E.M.",
            "Not Specified",
            "None",
            "Default string",
            "System Serial Number",
            "0",
            "00000000",
            "0123456789",
            "xxxxxxxx",
            " ",
            "..........",
            "N/A",
        ] {
            assert_eq!(facts("", &[("sys/class/dmi/id/product_serial", serial)]).serial, "", "{serial}");
        }
        for uuid in [
            "00000000-0000-0000-0000-000000000000",
            "FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF",
            "03000200-0400-0500-0006-000700080009",
            "Not Present",
        ] {
            let uuid = facts("", &[("sys/class/dmi/id/product_uuid", uuid)]).product_uuid;
            assert_eq!(uuid, "");
        }
        for id in ["uninitialized\n", "00000000000000000000000000000000\n", ""] {
            assert_eq!(facts("", &[("etc/machine-id", id)]).machine_id, "");
        }
        let real = facts(
            "",
            &[
                ("sys/class/dmi/id/product_serial", "VMware-42 1d\n"),
                ("sys/class/dmi/id/product_uuid", "4C4C4544-0\n"),
                ("etc/machine-id", "m1\n"),
            ],
        );
        assert_eq!(
            (real.serial.as_str(), real.product_uuid.as_str(), real.machine_id.as_str()),
            ("VMware-42 1d", "4c4c4544-0", "m1")
        );
    }

    #[test]
    fn ids_are_uuids_and_differ() {
        let id = new_id().unwrap();
        assert_eq!((id.len(), &id[14..15], id.matches('-').count()), (36, "4", 4));
        assert_ne!(id, new_id().unwrap());
    }
}
