//! The status body: what is known of this machine and of how provisioning ended, as JSON. Its shape is `tests/status.schema.json`.

use crate::build_date::is_clock_plausible;
use crate::error::Error;
use crate::http::client::Body;
use crate::journal::units::Failed;
use crate::settings::{State, Warnings, redact};
use crate::sink::{Count, Sink};
use crate::sys::Errno;
use crate::sys::file::Root;
use crate::sys::{random, time};
use crate::text;
use heapless::{String, Vec};

/// Network interfaces whose addresses are told.
const MACS_MAX: usize = 8;
/// Longest of each short text read from a file: a host name has at most 64 bytes, DMI strings may be longer.
const FACT_MAX: usize = 96;
/// Length of a UUID.
const UUID_LEN: usize = 36;

/// A short text from a file of one line; empty when there is none.
pub type Fact = String<FACT_MAX>;

/// What is known of this machine.
pub struct Facts {
    /// The kernel's host name.
    pub hostname: Fact,
    /// `/etc/machine-id`.
    pub machine_id: Fact,
    /// The kernel's id of this boot.
    pub boot_id: Fact,
    /// DMI's id of the machine, in lower case.
    pub product_uuid: Fact,
    /// DMI's serial number.
    pub serial: Fact,
    /// Hardware addresses.
    pub mac: Vec<String<17>, MACS_MAX>,
    /// Release of the kernel.
    pub kernel: Fact,
    /// Milliseconds since boot.
    pub uptime_ms: u64,
    /// Seconds since 1970 by the system's clock.
    pub time_s: u64,
    /// Whether the clock may be right: neither before the build of this program, nor decades after it.
    pub clock_trusted: bool,
}

impl Facts {
    /// Reads them below `root`. What cannot be read is left empty.
    pub fn gather(root: &Root) -> Self {
        let time_s = time::realtime_s();
        let mut product_uuid = line(root, "sys/class/dmi/id/product_uuid");
        product_uuid.make_ascii_lowercase();
        Self {
            hostname: line(root, "proc/sys/kernel/hostname"),
            machine_id: line(root, "etc/machine-id"),
            boot_id: line(root, "proc/sys/kernel/random/boot_id"),
            product_uuid,
            serial: line(root, "sys/class/dmi/id/product_serial"),
            mac: macs(root),
            kernel: line(root, "proc/sys/kernel/osrelease"),
            uptime_ms: time::monotonic_ms(),
            time_s,
            clock_trusted: is_clock_plausible(time_s),
        }
    }

    /// The value of a variable that a setting may hold as `${name}`.
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

/// What is reported: an event, and where it happened.
pub struct Report<'a> {
    /// The same for every sink and every try.
    pub id: &'a str,
    /// How it ended.
    pub state: State,
    /// Which stage.
    pub stage: Option<&'a str>,
    /// In words.
    pub message: Option<&'a str>,
    /// As a number.
    pub code: Option<u64>,
    /// The cloud.
    pub platform: Option<&'a str>,
    /// This machine.
    pub facts: &'a Facts,
    /// What the journal says of it.
    pub failed: Option<&'a Failed>,
    /// The kernel's command line, secrets included: they are masked when it is written.
    pub cmdline: &'a [u8],
    /// What went wrong on the way, so far.
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
        member("time", core::str::from_utf8(&text::rfc3339(facts.time_s)).ok(), out)?;
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

/// A random UUID (RFC 9562 section 5.4) as text.
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
    text::json(text, out)?;
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

/// The first line of a file, as far as it fits; empty when there is none.
pub fn line(root: &Root, path: impl AsRef<[u8]>) -> Fact {
    let mut buf = [0; FACT_MAX];
    let bytes = root.read(path, &mut buf).unwrap_or_default();
    let first = bytes.split(|b| *b == b'\n' || *b == 0).next().unwrap_or_default();
    let mut fact = Fact::new();
    // A text that is cut within a character loses that character.
    let valid = first.utf8_chunks().next().map_or("", |chunk| chunk.valid());
    let _ = fact.push_str(valid.trim_ascii());
    fact
}

/// Addresses of all interfaces that have one; the loopback's is all zeros.
fn macs(root: &Root) -> Vec<String<17>, MACS_MAX> {
    let mut macs = Vec::new();
    let Ok(interfaces) = root.folder("sys/class/net") else { return macs };
    let _ = interfaces.names(&mut |name| {
        // The entries are links, which lead on within the same file system: below the root as a path, not from this folder.
        let mut path: heapless::Vec<u8, 64> = Vec::new();
        let whole = [b"sys/class/net/".as_slice(), name, b"/address"].iter().all(|p| path.extend_from_slice(p).is_ok());
        let address = if whole { line(root, &path) } else { Fact::new() };
        let mut mac = String::new();
        if address.len() == 17 && address != "00:00:00:00:00:00" && mac.push_str(&address).is_ok() {
            // In an order of their own, not the folder's, so that the first one is the same at every run.
            let at = macs.iter().position(|other| *other > mac).unwrap_or(macs.len());
            return macs.insert(at, mac).is_ok();
        }
        true
    });
    macs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_is_that_of_what_is_written() {
        let root = Root::new(None).unwrap();
        let facts = Facts::gather(&root);
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

    #[test]
    fn ids_are_uuids_and_differ() {
        let id = new_id().unwrap();
        assert_eq!((id.len(), &id[14..15], id.matches('-').count()), (36, "4", 4));
        assert_ne!(id, new_id().unwrap());
    }
}
