//! Settings: words of the kernel command line that begin with `rd.report.`, as typed values.
//!
//! [`KEYS`] is the one table that the parser, `rdreport check`, `rdreport --help` and the README's table come from. Parsing never fails as
//! a whole: a bad value costs that one setting, with a line in [`Warnings`].

pub mod cmdline;
pub mod dracut;
pub mod redact;
pub mod secret;
pub mod secrets;
pub mod ssh_key;

use crate::error::Error;
use crate::settings::cmdline::{Word, Words, same_key};
use crate::settings::ssh_key::PublicKey;
use crate::settings::ssh_key::is_name;
use crate::text;
use heapless::{Vec, VecView};

/// Bytes read of `/proc/cmdline`. The kernel keeps 2048 on x86-64 and arm64, 4096 on s390x; with bootconfig the file is longer.
pub const CMDLINE_MAX: usize = 16 * 1024;
/// Every key of ours begins so.
pub const PREFIX: &str = "rd.report.";
/// URLs of the status, and journal sinks, each.
pub const SINKS_MAX: usize = 8;
/// Extra request headers.
pub const HEADERS_MAX: usize = 16;
/// CA bundles, pins, nameservers, SSH keys, each.
pub const LIST_MAX: usize = 8;
/// Longest wait that may be asked for, in seconds: a day.
const SECONDS_MAX: u64 = 86_400;

/// A bounded list of values, which stay where they are in the command line.
pub type List<'a, const N: usize> = Vec<&'a str, N>;

/// How a stage, or provisioning as a whole, ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// A stage goes on or ended well; more follow.
    Running,
    /// It failed.
    Failed,
    /// All of it ended well.
    Succeeded,
    /// It has not ended for longer than the watchdog allows.
    Stuck,
}

impl State {
    /// All of them, in the order of the word lists in the documentation.
    pub const ALL: [State; 4] = [State::Running, State::Failed, State::Succeeded, State::Stuck];

    /// Its name in settings and bodies.
    pub fn as_str(self) -> &'static str {
        match self {
            State::Running => "running",
            State::Failed => "failed",
            State::Succeeded => "succeeded",
            State::Stuck => "stuck",
        }
    }
}

/// A set of states.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct States(u8);

impl States {
    /// Of the listed ones.
    pub const fn of(list: &[State]) -> Self {
        let mut bits = 0;
        let mut i = 0;
        while i < list.len() {
            bits |= 1 << list[i] as u8;
            i += 1;
        }
        Self(bits)
    }

    /// Whether `state` is one of them.
    pub fn contains(self, state: State) -> bool {
        self.0 & (1 << state as u8) != 0
    }
}

/// What is done with the machine after a failure was reported.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// Nothing.
    None,
    /// A kernel panic, which the hypervisor sees.
    Panic,
    /// A reboot.
    Reboot,
    /// Power off.
    Poweroff,
}

impl Action {
    /// All of them.
    pub const ALL: [Action; 4] = [Action::None, Action::Panic, Action::Reboot, Action::Poweroff];

    /// Its name in settings.
    pub fn as_str(self) -> &'static str {
        match self {
            Action::None => "none",
            Action::Panic => "panic",
            Action::Reboot => "reboot",
            Action::Poweroff => "poweroff",
        }
    }
}

/// Settings of single clouds (`rd.report.CLOUD.NAME`), all of them texts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CloudKey {
    /// Where Packet's metadata are.
    PacketUrl,
    /// The handle of a CloudFormation wait condition.
    AwsUrl,
    /// A CloudFormation stack.
    AwsStack,
    /// Its resource.
    AwsResource,
    /// Where Heat is signalled.
    OpenstackUrl,
    /// In which form.
    OpenstackSignal,
    /// With which token.
    OpenstackToken,
    /// Where MAAS takes events.
    MaasUrl,
    /// Its API key.
    MaasToken,
    /// A webhook that takes cloud-init's events.
    CloudinitUrl,
    /// Its key.
    CloudinitToken,
}

/// How many [`CloudKey`]s there are.
const CLOUD_KEYS: usize = CloudKey::CloudinitToken as usize + 1;

/// All settings. Text values are slices of the command line.
pub struct Settings<'a> {
    /// Where the status is POSTed.
    pub url: List<'a, SINKS_MAX>,
    /// Where the journal is sent; the scheme says how.
    pub journal: List<'a, SINKS_MAX>,
    /// States that are reported.
    pub on: States,
    /// States on which the journal is sent.
    pub journal_on: States,
    /// The cloud, overriding what is found.
    pub platform: Option<&'a str>,
    /// By [`CloudKey`].
    cloud: [Option<&'a str>; CLOUD_KEYS],
    action: Action,
    /// Seconds before it.
    pub action_delay_s: u32,
    /// Seconds in all, if set.
    pub timeout_s: Option<u32>,
    /// The watchdog's seconds; 0 is off.
    pub stuck_s: u32,
    /// `Name: value` of extra request headers.
    pub header: List<'a, HEADERS_MAX>,
    /// Paths of PEM bundles.
    pub ca: List<'a, LIST_MAX>,
    /// Whether the built-in roots are trusted.
    pub roots: bool,
    /// Public keys that are trusted, as they are written; one that is none counts as one that no server has.
    pub pin: List<'a, LIST_MAX>,
    /// Path of the client certificate.
    pub cert: Option<&'a str>,
    /// Path of its key.
    pub key: Option<&'a str>,
    /// Any certificate is accepted.
    pub insecure: bool,
    /// A clock that is ahead of the server's is not believed.
    pub clock_lenient: bool,
    proxy: Option<&'a str>,
    /// Nameservers.
    pub dns: List<'a, LIST_MAX>,
    /// Secrets in the journal are masked.
    pub journal_redact: bool,
    /// Bytes of uncompressed journal that are sent.
    pub journal_max: Option<u64>,
    /// Whether the journal is sent while it grows, where that was said.
    pub follow: Option<bool>,
    fallback: Option<&'a str>,
    /// Its hash, as it is written; one that is none counts as one that does not fit.
    pub fallback_sha512: Option<&'a str>,
    ssh: Option<&'a str>,
    /// Its public keys.
    pub ssh_key: List<'a, LIST_MAX>,
}

impl Default for Settings<'_> {
    fn default() -> Self {
        Self {
            url: Vec::new(),
            journal: Vec::new(),
            on: States::of(&[State::Failed, State::Succeeded, State::Stuck]),
            journal_on: States::of(&[State::Failed, State::Stuck]),
            platform: None,
            cloud: [None; CLOUD_KEYS],
            action: Action::None,
            action_delay_s: 0,
            timeout_s: None,
            stuck_s: 0,
            header: Vec::new(),
            ca: Vec::new(),
            roots: true,
            pin: Vec::new(),
            cert: None,
            key: None,
            insecure: false,
            clock_lenient: false,
            proxy: None,
            dns: Vec::new(),
            journal_redact: true,
            journal_max: None,
            follow: None,
            fallback: None,
            fallback_sha512: None,
            ssh: None,
            ssh_key: Vec::new(),
        }
    }
}

/// Why a value was not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// A word of the list is none of those known.
    Unknown,
    /// Not a time, or out of its range.
    Time,
    /// Not a size, or out of its range.
    Size,
    /// Nothing behind the `=`, or no `=`.
    Empty,
    /// Not of the form that is asked for.
    Form,
    /// The list is full.
    Full,
    /// Not UTF-8.
    NotText,
}

/// What a setting is about: the heading under which it is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Group {
    /// The status: where it goes, and when.
    Report,
    /// The journal, likewise.
    Journal,
    /// How servers are reached, and which are trusted.
    Connection,
    /// Reports to clouds.
    Cloud,
    /// What is done with the machine after a failure.
    Afterwards,
}

impl Group {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Group; 5] = [Group::Report, Group::Journal, Group::Connection, Group::Cloud, Group::Afterwards];

    /// The heading.
    pub fn as_str(self) -> &'static str {
        match self {
            Group::Report => "report",
            Group::Journal => "journal",
            Group::Connection => "connection",
            Group::Cloud => "cloud",
            Group::Afterwards => "after a failure",
        }
    }
}

/// A row of the table of settings.
pub struct Key {
    /// Behind [`PREFIX`].
    pub name: &'static str,
    /// What it is about.
    pub group: Group,
    /// What a value looks like.
    pub value: &'static str,
    /// What holds without it.
    pub default: &'static str,
    /// What it does, in one line.
    pub help: &'static str,
    /// Whether this build acts on it. The others are recognised, so that a command line written for another build gives no typing
    /// errors, and warned about.
    pub works: bool,
    /// Whether its value may appear on the console.
    pub secret: bool,
    set: for<'a> fn(&mut Settings<'a>, &'a str) -> Result<(), Refused>,
}

impl Key {
    /// Whether its values are masked as a whole: those of URLs are not, of which only parts are secret.
    pub fn is_masked(&self) -> bool {
        self.name == "header" || self.name.ends_with(".token")
    }

    /// Whether its values are gathered, instead of the last one alone.
    pub fn is_repeatable(&self) -> bool {
        self.help.ends_with("repeatable")
    }

    /// The value in `line` that holds, of a setting that is not repeatable; empty for a flag. `None` is the default.
    pub fn held<'a>(&self, line: &'a [u8]) -> Option<&'a str> {
        let mut settings = Settings::default();
        let mut held = None;
        for word in Words::new(line).filter(|word| Settings::is_word_of(word, self)) {
            match (settings.set(self, &word), self.name) {
                (Ok(value), _) => held = Some(value),
                // As `narrow` has it.
                (Err(_), "insecure" | "clock" | "journal.redact") => held = None,
                (Err(_), "roots") => held = Some("off"),
                (Err(_), _) => {}
            }
        }
        held
    }

    /// Visits the values in `line` that hold, several of a repeatable setting.
    pub fn for_each_held<'a>(
        &self,
        line: &'a [u8],
        visit: &mut dyn FnMut(&'a str) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if !self.is_repeatable() {
            return self.held(line).map_or(Ok(()), visit);
        }
        let mut settings = Settings::default();
        let mut words = Words::new(line).filter(|word| Settings::is_word_of(word, self));
        words.try_for_each(|word| settings.set(self, &word).map_or(Ok(()), &mut *visit))
    }

    /// Whether `warning` is about this setting.
    pub fn is_named_by(&self, warning: &str) -> bool {
        let rest = warning.strip_prefix(PREFIX).and_then(|rest| rest.strip_prefix(self.name));
        rest.is_some_and(|rest| rest.starts_with([':', '=']))
    }
}

/// Leaves out the words, and the reader, of those that this build does not act on.
const fn built<const N: usize>(mut keys: [Key; N]) -> [Key; N] {
    let mut i = 0;
    while i < N {
        if !keys[i].works {
            keys[i].help = "";
            keys[i].default = "not in this build";
            keys[i].set = |_, _| Ok(());
        }
        i += 1;
    }
    keys
}

/// All settings there are.
pub static KEYS: &[Key] = &built([
    Key {
        name: "url",
        group: Group::Report,
        value: "URL",
        default: "none",
        help: "where the status is POSTed; repeatable",
        works: true,
        secret: true,
        set: |s, v| push(&mut s.url, v),
    },
    Key {
        name: "journal",
        group: Group::Journal,
        value: "URL",
        default: "none",
        help: "where the journal is sent; repeatable",
        works: true,
        secret: true,
        set: |s, v| push(&mut s.journal, v),
    },
    Key {
        name: "on",
        group: Group::Report,
        value: "STATES",
        default: "failed,succeeded,stuck",
        help: "states that are reported: running, failed, succeeded, stuck, or all",
        works: true,
        secret: false,
        set: |s, v| states(v).map(|v| s.on = v),
    },
    Key {
        name: "journal.on",
        group: Group::Journal,
        value: "STATES",
        default: "failed,stuck",
        help: "states on which the journal is sent",
        works: true,
        secret: false,
        set: |s, v| states(v).map(|v| s.journal_on = v),
    },
    Key {
        name: "platform",
        group: Group::Cloud,
        value: "NAME",
        default: "ignition.platform.id, else DMI",
        help: "the cloud; 'none' turns cloud reports off",
        works: cfg!(feature = "cloud"),
        secret: false,
        set: |s, v| text(&mut s.platform, v),
    },
    Key {
        name: "packet.url",
        group: Group::Cloud,
        value: "URL",
        default: "metadata.packet.net, metadata.platformequinix.com",
        help: "where the machine's metadata are",
        works: cfg!(feature = "cloud-packet"),
        secret: false,
        set: |s, v| cloud(s, CloudKey::PacketUrl, v),
    },
    Key {
        name: "aws.url",
        group: Group::Cloud,
        value: "URL",
        default: "none",
        help: "presigned URL of a CloudFormation wait condition's handle",
        works: cfg!(feature = "cloud-aws"),
        secret: true,
        set: |s, v| cloud(s, CloudKey::AwsUrl, v),
    },
    Key {
        name: "aws.stack",
        group: Group::Cloud,
        value: "NAME",
        default: "none",
        help: "CloudFormation stack whose resource is signalled",
        works: cfg!(feature = "cloud-aws"),
        secret: false,
        set: |s, v| cloud(s, CloudKey::AwsStack, v),
    },
    Key {
        name: "aws.resource",
        group: Group::Cloud,
        value: "NAME",
        default: "none",
        help: "the resource's logical name",
        works: cfg!(feature = "cloud-aws"),
        secret: false,
        set: |s, v| cloud(s, CloudKey::AwsResource, v),
    },
    Key {
        name: "openstack.url",
        group: Group::Cloud,
        value: "URL",
        default: "none",
        help: "where Heat is signalled",
        works: cfg!(feature = "cloud-openstack"),
        secret: true,
        set: |s, v| cloud(s, CloudKey::OpenstackUrl, v),
    },
    Key {
        name: "openstack.signal",
        group: Group::Cloud,
        value: "cfn|token|temp_url",
        default: "what the URL shows",
        help: "how it is signalled",
        works: cfg!(feature = "cloud-openstack"),
        secret: false,
        set: |s, v| match v {
            "cfn" | "token" | "temp_url" | "" => cloud(s, CloudKey::OpenstackSignal, v),
            _ => Err(Refused::Unknown),
        },
    },
    Key {
        name: "openstack.token",
        group: Group::Cloud,
        value: "TOKEN",
        default: "none",
        help: "token for that, or '@/path', 'cred:NAME'",
        works: cfg!(feature = "cloud-openstack"),
        secret: true,
        set: |s, v| cloud(s, CloudKey::OpenstackToken, v),
    },
    Key {
        name: "maas.url",
        group: Group::Cloud,
        value: "URL",
        default: "none",
        help: "where MAAS takes this machine's events",
        works: cfg!(feature = "cloud-webhook"),
        secret: true,
        set: |s, v| cloud(s, CloudKey::MaasUrl, v),
    },
    Key {
        name: "maas.token",
        group: Group::Cloud,
        value: "KEY",
        default: "none",
        help: "its API key, CONSUMER:TOKEN:SECRET, or '@/path', 'cred:NAME'",
        works: cfg!(feature = "cloud-webhook"),
        secret: true,
        set: |s, v| cloud(s, CloudKey::MaasToken, v),
    },
    Key {
        name: "cloudinit.url",
        group: Group::Cloud,
        value: "URL",
        default: "none",
        help: "a webhook that takes cloud-init's events",
        works: cfg!(feature = "cloud-webhook"),
        secret: true,
        set: |s, v| cloud(s, CloudKey::CloudinitUrl, v),
    },
    Key {
        name: "cloudinit.token",
        group: Group::Cloud,
        value: "KEY",
        default: "none",
        help: "its OAuth 1.0 key, CONSUMER:TOKEN:SECRET, or '@/path', 'cred:NAME'",
        works: cfg!(feature = "cloud-webhook"),
        secret: true,
        set: |s, v| cloud(s, CloudKey::CloudinitToken, v),
    },
    Key {
        name: "action",
        group: Group::Afterwards,
        value: "none|panic|reboot|poweroff",
        default: "none",
        help: "what is done after a failure was reported",
        works: cfg!(feature = "recovery"),
        secret: false,
        set: |s, v| {
            let action = Action::ALL.iter().find(|action| is(v, action.as_str()));
            s.action = *action.ok_or(if v.is_empty() { Refused::Empty } else { Refused::Unknown })?;
            Ok(())
        },
    },
    Key {
        name: "action.delay",
        group: Group::Afterwards,
        value: "TIME",
        default: "0",
        help: "wait before the action",
        works: cfg!(feature = "recovery"),
        secret: false,
        set: |s, v| seconds(v).map(|v| s.action_delay_s = v),
    },
    Key {
        name: "timeout",
        group: Group::Report,
        value: "TIME",
        default: "60 (failed, stuck), 10 (succeeded, running)",
        help: "time in all for a report",
        works: true,
        secret: false,
        set: |s, v| {
            s.timeout_s = Some(seconds(v).and_then(|v| if v == 0 { Err(Refused::Time) } else { Ok(v) })?);
            Ok(())
        },
    },
    Key {
        name: "stuck",
        group: Group::Report,
        value: "TIME",
        default: "0 (off)",
        help: "watchdog: report when still in the initramfs after this time",
        works: true,
        secret: false,
        set: |s, v| if is(v, "off") { Ok(0) } else { seconds(v) }.map(|v| s.stuck_s = v),
    },
    Key {
        name: "header",
        group: Group::Report,
        value: "'NAME: VALUE'",
        default: "none",
        help: "extra request header; a value '@/path' is read from that file, 'cred:NAME' from a credential; repeatable",
        works: true,
        secret: true,
        set: |s, v| match v.split_once(':') {
            // Nothing behind the colon is what is left of a value that was not put in quotes.
            Some((name, value)) if is_token(name) && !value.trim_ascii().is_empty() => push(&mut s.header, v),
            _ if v.is_empty() => Err(Refused::Empty),
            _ => Err(Refused::Form),
        },
    },
    Key {
        name: "ca",
        group: Group::Connection,
        value: "PATH",
        default: "none",
        help: "PEM bundle in the initramfs, trusted beside the built-in roots; repeatable",
        works: true,
        secret: false,
        set: |s, v| push(&mut s.ca, v),
    },
    Key {
        name: "roots",
        group: Group::Connection,
        value: "on|off",
        default: "on",
        help: "off: no built-in root is trusted, only rd.report.ca=",
        works: true,
        secret: false,
        set: |s, v| switch(v).map(|v| s.roots = v),
    },
    Key {
        name: "pin",
        group: Group::Connection,
        value: "sha256:BASE64",
        default: "none",
        help: "SHA-256 of a public key, which is then what is trusted; repeatable",
        works: true,
        secret: false,
        // One that cannot be one is kept: it must not become none.
        set: |s, v| s.pin.push(v).map_err(|_| Refused::Full),
    },
    Key {
        name: "cert",
        group: Group::Connection,
        value: "PATH",
        default: "none",
        help: "client certificate, PEM",
        works: cfg!(feature = "client-auth"),
        secret: false,
        set: |s, v| text(&mut s.cert, v),
    },
    Key {
        name: "key",
        group: Group::Connection,
        value: "PATH",
        default: "none",
        help: "its private key, PEM; without it, looked for in the certificate's file",
        works: cfg!(feature = "client-auth"),
        secret: false,
        set: |s, v| text(&mut s.key, v),
    },
    Key {
        name: "insecure",
        group: Group::Connection,
        value: "",
        default: "off",
        help: "accept any certificate",
        works: true,
        secret: false,
        set: |s, v| switch(v).map(|v| s.insecure = v),
    },
    Key {
        name: "clock",
        group: Group::Connection,
        value: "strict|lenient",
        default: "strict",
        help: "lenient: a clock that is ahead of the server's does not make its certificate expired",
        works: cfg!(all(feature = "net-extra", feature = "tls")),
        secret: false,
        set: |s, v| {
            s.clock_lenient = match v {
                v if is(v, "strict") => false,
                v if is(v, "lenient") => true,
                "" => return Err(Refused::Empty),
                _ => return Err(Refused::Unknown),
            };
            Ok(())
        },
    },
    Key {
        name: "proxy",
        group: Group::Connection,
        value: "URL",
        default: "none",
        help: "HTTP proxy, http://[user:password@]host:port; never used for link-local and loopback addresses",
        works: cfg!(feature = "net-extra"),
        secret: true,
        set: |s, v| text(&mut s.proxy, v),
    },
    Key {
        name: "dns",
        group: Group::Connection,
        value: "ADDRESS",
        default: "what the initramfs has",
        help: "nameserver; repeatable",
        works: cfg!(feature = "net-extra"),
        secret: false,
        set: |s, v| push(&mut s.dns, v),
    },
    Key {
        name: "journal.redact",
        group: Group::Journal,
        value: "on|off",
        default: "on",
        help: "mask the secrets that provisioning tools log",
        works: true,
        secret: false,
        set: |s, v| switch(v).map(|v| s.journal_redact = v),
    },
    Key {
        name: "journal.max",
        group: Group::Journal,
        value: "BYTES",
        default: "no limit",
        help: "uncompressed journal; beyond it the head and the tail are sent",
        works: true,
        secret: false,
        set: |s, v| bytes(v).map(|v| s.journal_max = Some(v)),
    },
    Key {
        name: "follow",
        group: Group::Journal,
        value: "",
        default: "off",
        help: "the journal is sent while it grows, too",
        works: cfg!(feature = "follow"),
        secret: false,
        set: |s, v| switch(v).map(|v| s.follow = Some(v)),
    },
    Key {
        name: "fallback",
        group: Group::Afterwards,
        value: "URL",
        default: "none",
        help: "configuration to fetch on failure, for what rdreport-fallback.target starts",
        works: cfg!(feature = "recovery"),
        secret: true,
        set: |s, v| text(&mut s.fallback, v),
    },
    Key {
        name: "fallback.sha512",
        group: Group::Afterwards,
        value: "HASH",
        default: "none",
        help: "its SHA-512, hexadecimal, with 'sha512-' before it or without",
        works: cfg!(feature = "recovery"),
        secret: false,
        set: |s, v| {
            // One that cannot be one is kept: it must not become none.
            s.fallback_sha512 = Some(v);
            Ok(())
        },
    },
    Key {
        name: "ssh",
        group: Group::Afterwards,
        value: "USER",
        default: "none",
        help: "user made in the initramfs on failure, for SSH: a-z, 0-9, _ and -, 31 at most, and not root",
        works: cfg!(feature = "ssh"),
        secret: false,
        set: |s, v| if is_name(v) { text(&mut s.ssh, v) } else { Err(Refused::Form) },
    },
    Key {
        name: "ssh.key",
        group: Group::Afterwards,
        value: "'TYPE BASE64'",
        default: "none",
        help: "its public key, a line of authorized_keys without options, beside those in Ignition's configuration; repeatable",
        works: cfg!(feature = "ssh"),
        // Not that, but long.
        secret: true,
        set: |s, v| {
            if PublicKey::parse(v).is_some() { push(&mut s.ssh_key, v) } else { Err(Refused::Form) }
        },
    },
]);

/// The name that was floated for [`Settings::url`] before this program existed (coreos/ignition#585).
const URL_ALIAS: &[u8] = b"coreos.status.url";

/// Bytes of warnings that are kept; more are counted.
const WARNINGS_BYTES: usize = 4096;

/// One-line messages about what was survived: for standard error and for the status body.
pub struct Warnings {
    lines: heapless::Vec<u8, WARNINGS_BYTES>,
    dropped: u32,
}

impl Default for Warnings {
    fn default() -> Self {
        Self { lines: Vec::new(), dropped: 0 }
    }
}

impl Warnings {
    /// Adds a line made of `parts`, unless it is there already.
    pub fn add(&mut self, parts: &[&str]) {
        let len = parts.iter().map(|p| p.len()).sum::<usize>().saturating_add(1);
        if len > self.lines.capacity().saturating_sub(self.lines.len()) {
            self.dropped = self.dropped.saturating_add(1);
            return;
        }
        let start = self.lines.len();
        for c in parts.iter().flat_map(|part| part.chars()) {
            // A line feed would make two lines of it, and an escape could hide them; the text may come from outside.
            let c = if c.is_control() { ' ' } else { c };
            let _ = self.lines.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        }
        let _ = self.lines.push(b'\n');
        let (earlier, this) = self.lines.split_at(start.min(self.lines.len()));
        if earlier.split_inclusive(|b| *b == b'\n').any(|line| line == this) {
            self.lines.truncate(start);
        }
    }

    /// The lines, in the order they came.
    pub fn lines(&self) -> impl Iterator<Item = &str> {
        let text = core::str::from_utf8(&self.lines).unwrap_or_default();
        text.lines()
    }

    /// How many did not fit.
    pub fn dropped(&self) -> u32 {
        self.dropped
    }
}

impl<'a> Settings<'a> {
    /// Parses a command line.
    pub fn parse(line: &'a [u8], warnings: &mut Warnings) -> Self {
        let mut settings = Self::default();
        warn_if_cut(line, warnings);
        for word in Words::new(line) {
            settings.take(line, word, warnings);
        }
        if settings.ssh.is_none() && !settings.ssh_key.is_empty() {
            warnings.add(&["rd.report.ssh.key: nobody is there to have it without rd.report.ssh=USER"]);
        }
        settings
    }

    /// Whether nothing is to be sent anywhere.
    pub fn is_idle(&self) -> bool {
        self.url.is_empty() && self.journal.is_empty()
    }

    // Those of a feature are read by a function that is constant without it: what only they lead to is then not built. A field that is
    // never set does not tell the compiler.

    /// What is done in the end.
    pub fn action(&self) -> Action {
        if cfg!(feature = "recovery") { self.action } else { Action::None }
    }

    /// HTTP proxy.
    pub fn proxy(&self) -> Option<&'a str> {
        self.proxy.filter(|_| cfg!(feature = "net-extra"))
    }

    /// URL of a configuration to fetch on failure.
    pub fn fallback(&self) -> Option<&'a str> {
        self.fallback.filter(|_| cfg!(feature = "recovery"))
    }

    /// User to create on failure.
    pub fn ssh(&self) -> Option<&'a str> {
        self.ssh.filter(|_| cfg!(feature = "ssh"))
    }

    /// A setting of a single cloud.
    pub fn cloud(&self, key: CloudKey) -> Option<&'a str> {
        self.cloud.get(key as usize).copied().flatten()
    }

    /// Whether `word` sets `key`.
    pub fn is_word_of(word: &Word<'_>, key: &Key) -> bool {
        our_name(word.key).is_some_and(|name| same_key(name, key.name.as_bytes()))
    }

    fn take(&mut self, line: &[u8], word: Word<'a>, warnings: &mut Warnings) {
        let Some(name) = our_name(word.key) else {
            if let Some(meant) = warn_nearly_ours(word.key, warnings) {
                self.narrow(meant, warnings);
            }
            return;
        };
        let Some(key) = KEYS.iter().find(|key| same_key(name, key.name.as_bytes())) else {
            if let Some(meant) = warn_unknown(name, warnings) {
                self.narrow(meant, warnings);
            }
            return;
        };
        match self.set(key, &word) {
            Ok(_) if !key.works => warnings.add(&[PREFIX, key.name, ": recognised, but this build does not act on it"]),
            // What stands behind it was not put in quotes, and is lost.
            Ok(value) if value.ends_with(',') => {
                warnings.add(&[PREFIX, key.name, ": ends with a comma; a list has no blanks, or stands in quotes"])
            }
            Ok(_) => {}
            Err(why) => {
                // That one says what holds by itself.
                if key.name != "roots" {
                    let value = word.value.and_then(|value| core::str::from_utf8(value).ok()).unwrap_or_default();
                    warn_refused(line, key, value.trim_ascii(), why, warnings);
                }
                if why != Refused::Full {
                    self.narrow(key, warnings);
                }
            }
        }
    }

    /// Sets `key` to what `word` says, and returns that.
    fn set(&mut self, key: &Key, word: &Word<'a>) -> Result<&'a str, Refused> {
        let value = core::str::from_utf8(word.value.unwrap_or_default()).map_err(|_| Refused::NotText)?.trim_ascii();
        // `insecure=$UNSET` asks for nothing; the word alone does.
        if value.is_empty() && word.value.is_some() && matches!(key.name, "insecure" | "roots") {
            return Err(Refused::Empty);
        }
        (key.set)(self, value).map(|()| value)
    }

    /// Does what a setting must mean whose value cannot be read, or whose name is misspelt, where ignoring it would let through what its
    /// owner wants to keep out.
    fn narrow(&mut self, key: &Key, warnings: &mut Warnings) {
        match key.name {
            // In a full list there are others, and those hold.
            "pin" => drop(self.pin.push("")),
            "fallback.sha512" => self.fallback_sha512 = Some(""),
            "insecure" => self.insecure = false,
            "clock" => self.clock_lenient = false,
            "journal.redact" => self.journal_redact = true,
            "roots" => {
                self.roots = false;
                warnings.add(&[PREFIX, "roots= is neither 'on' nor 'off': no built-in root is trusted"]);
            }
            _ => {}
        }
    }
}

/// The name of the setting that `key` is for, known or not, if it is for one of ours.
fn our_name(key: &[u8]) -> Option<&[u8]> {
    match key.split_at_checked(PREFIX.len()) {
        Some((prefix, name)) if same_key(prefix, PREFIX.as_bytes()) => Some(name),
        _ if same_key(key, URL_ALIAS) => Some(b"url"),
        _ => None,
    }
}

/// Says that a value was refused, why, and what holds instead.
fn warn_refused(line: &[u8], key: &Key, value: &str, why: Refused, warnings: &mut Warnings) {
    let (value, quote) = if key.secret || value.is_empty() { ("the value", "") } else { (value, "'") };
    let expected = match key.value {
        "" => "on or off",
        "STATES" => "a list of running, failed, succeeded, stuck, all, none",
        value => value,
    };
    let (what, form) = match why {
        Refused::Empty => (" is empty; expected is ", expected),
        Refused::Full => (" is one too many", ""),
        Refused::NotText => (" is not UTF-8 text", ""),
        Refused::Unknown => (" is not known; expected is ", expected),
        Refused::Time => (" is not a time of at most a day, such as 90, 90s, 5min or 1h", ""),
        Refused::Size => (" is not a size, such as 4096, 512K or 10M", ""),
        Refused::Form => (" is not of the form ", key.value),
    };
    let held = key.held(line);
    let instead: [&str; 2] = match (key.is_repeatable(), held, key.default) {
        (true, ..) | (false, None, "none") => ["; ignored", ""],
        (false, Some(_), _) if key.secret => ["; the other value holds", ""],
        (false, Some(held), _) => ["; what holds is ", held],
        (false, None, default) => ["; the default holds: ", default],
    };
    warnings.add(&[PREFIX, key.name, ": ", quote, value, quote, what, form, instead[0], instead[1]]);
}

/// Names that are no settings, but likely to be tried, and what to do instead.
const INSTEAD: [(&[u8], &str); 4] = [
    (b"journalgzip", "rd.report.journal=URL?gzip=0 to ?gzip=9 says that"),
    (b"journalformat", "rd.report.journal=URL?format=NAME says that"),
    (b"journalurl", "is rd.report.journal meant?"),
    (b"token", "rd.report.header='Authorization: Bearer TOKEN' says that"),
];

/// The start of a key, as far as a warning shows it.
fn start_of(key: &[u8]) -> &str {
    core::str::from_utf8(key.get(..key.len().min(NAME_SHOWN)).unwrap_or_default()).unwrap_or("?")
}

/// Says that there is no such setting; returns the one that is meant, as far as can be told.
fn warn_unknown(name: &[u8], warnings: &mut Warnings) -> Option<&'static Key> {
    let squashed_name = squashed(name);
    let near = nearest(&squashed_name, b"");
    // Farther than this, a proposal would only confuse.
    let near = near.filter(|(d, key)| *d <= 1 + key.name.len() / 5).map(|(_, key)| key);
    let shown = start_of(name);
    match (INSTEAD.iter().find(|(tried, _)| squashed_name == **tried), near) {
        (Some((_, instead)), _) => warnings.add(&[PREFIX, shown, ": no such setting; ", instead]),
        (None, Some(key)) => warnings.add(&[PREFIX, shown, ": no such setting; is ", PREFIX, key.name, " meant?"]),
        (None, None) => warnings.add(&[PREFIX, shown, ": no such setting; see rdreport --help"]),
    }
    near
}

/// Warns about a word that is none of ours, but was likely meant to be one; and says which.
fn warn_nearly_ours(key: &[u8], warnings: &mut Warnings) -> Option<&'static Key> {
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

/// Sizes of the kernel's buffer for its command line, its end mark included (`COMMAND_LINE_SIZE`): of this architecture, and larger ones
/// that some kernels are built with. On architectures with a small one, whatever exists.
const CUT_AT: &[usize] = if cfg!(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "powerpc64")) {
    &[2048, 4096]
} else if cfg!(target_arch = "s390x") {
    &[4096]
} else {
    &[256, 512, 1024, 2048, 4096]
};

/// The kernel cuts a line that is too long for it, and says nothing. `line` ends with that of the kernel, and the line feed that the
/// kernel puts behind it when it is read.
fn warn_if_cut(line: &[u8], warnings: &mut Warnings) {
    let line = line.rsplit(|b| *b == 0).next().unwrap_or_default();
    let len = line.strip_suffix(b"\n").unwrap_or(line).len();
    if CUT_AT.contains(&len.saturating_add(1)) {
        warnings.add(&[
            "the kernel command line is as long as the kernel keeps (",
            text::decimal(len as u64, &mut [0; text::DECIMAL_MAX]),
            " bytes): its end may be lost",
        ]);
    }
}

/// Bytes of an unknown key that a warning shows.
const NAME_SHOWN: usize = 40;
/// Bytes of names that are compared letter by letter; longer ones are not like any of ours.
const NAME_MAX: usize = 32;

/// Number of letters to insert, delete, change or swap with their neighbour to make `b` of `a` (the optimal string alignment distance).
/// `None` where a name is too long to be compared.
fn distance(a: &[u8], b: &[u8]) -> Option<usize> {
    if a.len() >= NAME_MAX {
        return None;
    }
    // The row of the letter before the last, that of the last, and the one in the making.
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

/// The letters and digits of a name, in lower case: what is left of it whichever separators it was written with.
fn squashed(name: &[u8]) -> Vec<u8, NAME_MAX> {
    name.iter().filter(|b| b.is_ascii_alphanumeric()).map(u8::to_ascii_lowercase).take(NAME_MAX).collect()
}

/// Whether `key` is not ours, but differs so little from a key of ours that it was meant to be.
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
/// As near as that, but a word of its own.
const SYSTEMD_REPART: &[u8] = b"rdrepart";

/// The setting whose whole key is nearly `key`, prefix included.
fn near(key: &[u8]) -> Option<&'static Key> {
    let key = squashed(key);
    if key == *SQUASHED_PREFIX {
        return KEYS.first();
    }
    // Most words are so far from all of ours that the beginning tells.
    let start = key.get(..key.len().min(SQUASHED_PREFIX.len())).unwrap_or_default();
    distance(start, SQUASHED_PREFIX).filter(|d| *d <= 4)?;
    nearest(&key, SQUASHED_PREFIX).filter(|(d, _)| *d <= 2).map(|(_, known)| known)
}

/// The setting whose name, behind `prefix`, is nearest to `squashed_name`, and how near it is.
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

/// Whether a value is one of those that no secret is: a word of ours, or a short number.
pub fn is_plain(value: &[u8]) -> bool {
    core::str::from_utf8(value)
        .is_ok_and(|value| switch(value).is_ok() || states(value).is_ok() || seconds(value).is_ok())
}

fn push<'a>(list: &mut VecView<&'a str>, value: &'a str) -> Result<(), Refused> {
    match value {
        "" => Err(Refused::Empty),
        // What is there twice is not done twice.
        _ if list.contains(&value) => Ok(()),
        _ => list.push(value).map_err(|_| Refused::Full),
    }
}

fn text<'a>(slot: &mut Option<&'a str>, value: &'a str) -> Result<(), Refused> {
    match value {
        "" => Err(Refused::Empty),
        _ => {
            *slot = Some(value);
            Ok(())
        }
    }
}

fn cloud<'a>(settings: &mut Settings<'a>, key: CloudKey, value: &'a str) -> Result<(), Refused> {
    settings.cloud.get_mut(key as usize).map_or(Ok(()), |slot| text(slot, value))
}

/// Whether `value` is `word`, in upper or lower case.
fn is(value: &str, word: &str) -> bool {
    value.eq_ignore_ascii_case(word)
}

/// A list with commas, which may have blanks behind them where it is quoted.
fn states(value: &str) -> Result<States, Refused> {
    let mut bits = 0;
    let mut is_empty = true;
    for word in value.split(',').map(str::trim_ascii).filter(|word| !word.is_empty()) {
        is_empty = false;
        bits |= match State::ALL.iter().find(|state| is(word, state.as_str())) {
            Some(state) => 1 << *state as u8,
            None if is(word, "all") => States::of(&State::ALL).0,
            None if is(word, "none") => 0,
            None => return Err(Refused::Unknown),
        };
    }
    if is_empty { Err(Refused::Empty) } else { Ok(States(bits)) }
}

/// Units of times, in milliseconds, as systemd.time(7) has them.
const TIME_UNITS: [(&str, u64); 18] = [
    ("", 1000),
    ("s", 1000),
    ("sec", 1000),
    ("second", 1000),
    ("seconds", 1000),
    ("ms", 1),
    ("msec", 1),
    ("m", 60_000),
    ("min", 60_000),
    ("minute", 60_000),
    ("minutes", 60_000),
    ("h", 3_600_000),
    ("hr", 3_600_000),
    ("hour", 3_600_000),
    ("hours", 3_600_000),
    ("d", 86_400_000),
    ("day", 86_400_000),
    ("days", 86_400_000),
];

/// Units of sizes, as systemd has them: powers of 1024, whether there is an `i` or not.
const SIZE_UNITS: [(&str, u64); 5] = [("", 1), ("k", 1 << 10), ("m", 1 << 20), ("g", 1 << 30), ("t", 1 << 40)];

/// Splits the number off that `text` begins with: in thousandths, of which the last are cut off.
fn thousandths(text: &str) -> Option<(u64, &str)> {
    let (whole, rest) = split_digits(text);
    let (part, rest) = match rest.strip_prefix('.') {
        Some(rest) => split_digits(rest),
        None => ("0", rest),
    };
    let part = part.bytes().chain(*b"000").take(3);
    let part = part.fold(0, |n: u64, digit| n.wrapping_mul(10).wrapping_add(u64::from(digit & 15)));
    let number = text::number::<u64>(whole.as_bytes())?.checked_mul(1000)?.checked_add(part)?;
    Some((number, rest.trim_ascii_start()))
}

fn split_digits(text: &str) -> (&str, &str) {
    text.split_at(text.bytes().take_while(u8::is_ascii_digit).count())
}

/// A time in seconds, or with units: `90s`, `5min`, `1h 30m`. What is less than a second counts as one.
fn seconds(value: &str) -> Result<u32, Refused> {
    if value.is_empty() {
        return Err(Refused::Empty);
    }
    let add = || {
        let (mut rest, mut sum) = (value, 0u64);
        while !rest.is_empty() {
            let (number, behind) = thousandths(rest)?;
            let (unit, behind) = behind.split_at(behind.bytes().take_while(u8::is_ascii_alphabetic).count());
            let (_, ms) = TIME_UNITS.iter().find(|(name, _)| *name == unit)?;
            sum = sum.checked_add(number.checked_mul(*ms)?)?;
            rest = behind.trim_ascii_start();
        }
        Some(sum.div_ceil(1_000_000)).filter(|sum| *sum <= SECONDS_MAX)
    };
    add().map(|n| n as u32).ok_or(Refused::Time)
}

/// A size in bytes, or with a unit: `512K`, `10M`, `1.5 GiB`.
fn bytes(value: &str) -> Result<u64, Refused> {
    if value.is_empty() {
        return Err(Refused::Empty);
    }
    let read = || {
        let (number, unit) = thousandths(value)?;
        let mut unit = unit;
        for end in ["b", "B", "i"] {
            unit = unit.strip_suffix(end).unwrap_or(unit);
        }
        let (_, size) = SIZE_UNITS.iter().find(|(name, _)| is(unit, name))?;
        Some(number.checked_mul(*size)? / 1000)
    };
    // No byte at all is no journal, for which there are better ways to say it.
    read().filter(|bytes| *bytes > 0).ok_or(Refused::Size)
}

/// A flag: the word alone switches it on.
fn switch(value: &str) -> Result<bool, Refused> {
    let one_of = |words: [&str; 4]| words.iter().any(|word| is(value, word));
    match () {
        () if value.is_empty() || one_of(["1", "yes", "on", "true"]) => Ok(true),
        () if one_of(["0", "no", "off", "false"]) => Ok(false),
        () => Err(Refused::Unknown),
    }
}

/// Whether it is a field name of HTTP (RFC 9110 section 5.6.2, token).
fn is_token(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use heapless::String;

    fn parse(line: &str) -> (Settings<'_>, Vec<std::string::String, 64>) {
        let mut warnings = Warnings::default();
        let settings = Settings::parse(line.as_bytes(), &mut warnings);
        (settings, warnings.lines().map(Into::into).collect())
    }

    #[test]
    fn lists_gather_and_scalars_take_the_last() {
        let (s, w) = parse("rd.report.url=http://a/ rd.report.timeout=5 rd.report.url=http://b/ rd.report.timeout=7");
        assert_eq!(s.url.as_slice(), ["http://a/", "http://b/"]);
        assert_eq!(s.timeout_s, Some(7));
        assert!(w.is_empty(), "{w:?}");
    }

    #[test]
    fn alias_and_dashes() {
        let (s, w) = parse("coreos.status.url=http://a/ rd-report.url=x rd.report.journal_on=x");
        assert_eq!(s.url.as_slice(), ["http://a/"]);
        assert_eq!(w.len(), 2);
        let (s, _) = parse("rd.report.journal.on=all");
        assert!(State::ALL.iter().all(|state| s.journal_on.contains(*state)));
    }

    #[test]
    fn a_bad_value_costs_that_setting_only() {
        for bad in ["timeout=abc", "timeout=-1", "timeout=99999999999999999999", "timeout=", "timeout=0", "timeout=+5"]
        {
            let line = std::format!("rd.report.{bad} rd.report.url=http://a/");
            let (s, w) = parse(&line);
            assert_eq!(s.timeout_s, None, "{bad}");
            assert_eq!(s.url.len(), 1);
            assert_eq!(w.len(), 1, "{bad}: {w:?}");
            assert!(w[0].starts_with("rd.report.timeout: "), "{w:?}");
        }
        let (s, w) = parse("rd.report.on=failed,everything");
        assert_eq!(s.on, Settings::default().on);
        assert_eq!(
            w,
            [
                "rd.report.on: 'failed,everything' is not known; expected is a list of running, failed, succeeded, stuck, all, none; \
              the default holds: failed,succeeded,stuck"
            ]
        );
    }

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

    #[test]
    fn a_full_list_warns() {
        let line: std::string::String = (0..=LIST_MAX).map(|n| std::format!("rd.report.dns=1.1.1.{n} ")).collect();
        let (s, w) = parse(&line);
        assert_eq!(s.dns.len(), LIST_MAX);
        assert_eq!(w, ["rd.report.dns: '1.1.1.8' is one too many; ignored"]);
        assert_eq!(
            parse(&"rd.report.dns=1.1.1.1 ".repeat(LIST_MAX + 1)).0.dns.len(),
            1,
            "the same one is not gathered"
        );
    }

    #[test]
    fn secrets_are_in_no_warning() {
        let (_, w) = parse("rd.report.header=TOPSECRET rd.report.proxy=");
        assert_eq!(w.len(), 2);
        assert!(w.iter().all(|line| !line.contains("TOPSECRET")), "{w:?}");
    }

    #[test]
    fn times_as_systemd_has_them() {
        for (value, seconds) in [
            ("90", 90),
            ("90s", 90),
            ("5m", 300),
            ("5min", 300),
            ("2 minutes", 120),
            ("1h", 3600),
            ("1min 30s", 90),
            ("1min30", 90),
            ("1.5h", 5400),
            ("0.5min", 30),
            ("500ms", 1),
            ("1d", 86_400),
            ("24h", 86_400),
        ] {
            let line = std::format!("rd.report.timeout='{value}'");
            let (s, w) = parse(&line);
            assert_eq!((s.timeout_s, w.len()), (Some(seconds), 0), "{value}: {w:?}");
        }
        for value in [
            "5M",
            "1y",
            "25h",
            "86401",
            "-5",
            "+5",
            "1e3",
            "5 5x",
            "s",
            "m5",
            "0",
            "0s",
            ".",
            "1..5",
            "1w",
            "infinity",
            "5,",
            "18446744073709551615h",
        ] {
            let line = std::format!("rd.report.timeout='{value}'");
            let (s, w) = parse(&line);
            assert_eq!((s.timeout_s, w.len()), (None, 1), "{value}");
            assert!(
                w[0].contains(" is not a time of at most a day, such as 90, 90s, 5min or 1h; the default holds: 60"),
                "{w:?}"
            );
        }
        assert_eq!(parse("rd.report.stuck=5m rd.report.action.delay=1min").0.stuck_s, 300);
        let (s, w) = parse("rd.report.stuck=5m rd.report.stuck=off");
        assert_eq!((s.stuck_s, w.len()), (0, 0));
    }

    #[test]
    fn sizes() {
        for (value, bytes) in [
            ("4096", 4096),
            ("4M", 4 << 20),
            ("4m", 4 << 20),
            ("10MB", 10 << 20),
            ("10MiB", 10 << 20),
            ("10 Mb", 10 << 20),
            ("512k", 512 << 10),
            ("1.5G", 3 << 29),
            ("2T", 2 << 40),
            ("7B", 7),
        ] {
            let line = std::format!("rd.report.journal.max='{value}'");
            let (s, w) = parse(&line);
            assert_eq!((s.journal_max, w.len()), (Some(bytes), 0), "{value}: {w:?}");
        }
        for value in ["99999999999999999G", "0", "-1", "M", "10X", "10 M M", "1e6", "0x10"] {
            let line = std::format!("rd.report.journal.max='{value}'");
            let (s, w) = parse(&line);
            assert_eq!((s.journal_max, w.len()), (None, 1), "{value}");
        }
    }

    #[test]
    fn words_in_any_case_and_lists_with_blanks_in_quotes() {
        assert!(parse("rd.report.insecure").0.insecure && parse("rd.report.insecure=On").0.insecure);
        assert!(!parse("rd.report.insecure=1 rd.report.insecure=off").0.insecure);
        let (s, w) = parse("rd.report.on='failed, Succeeded' rd.report.action=Reboot rd.report.clock=LENIENT");
        assert_eq!((s.on, s.action, w.len()), (States::of(&[State::Failed, State::Succeeded]), Action::Reboot, 0));
        assert_eq!(parse("rd.report.on=none").0.on, States::of(&[]));
        let (s, w) = parse("rd.report.on=failed, succeeded");
        assert_eq!(s.on, States::of(&[State::Failed]));
        assert_eq!(w, ["rd.report.on: ends with a comma; a list has no blanks, or stands in quotes"]);
        for line in ["rd.report.on=", "rd.report.on=,", "rd.report.action=", "rd.report.clock", "rd.report.journal.on"]
        {
            let (s, w) = parse(line);
            assert_eq!((s.on, s.action), (Settings::default().on, Action::None));
            assert!(w.len() == 1 && w[0].contains(" is empty; expected is "), "{line}: {w:?}");
        }
    }

    #[test]
    fn a_header_that_was_not_quoted_is_refused() {
        let (s, w) = parse("rd.report.header=Authorization: Bearer S");
        assert!(s.header.is_empty());
        assert_eq!(w, ["rd.report.header: the value is not of the form 'NAME: VALUE'; ignored"]);
    }

    #[test]
    fn a_refusal_says_what_holds() {
        for (line, said) in [
            ("rd.report.timeout=7 rd.report.timeout=x", "; what holds is 7"),
            ("rd.report.timeout=x rd.report.timeout=8", "; what holds is 8"),
            ("rd.report.timeout=x", "; the default holds: 60 (failed, stuck), 10 (succeeded, running)"),
            ("rd.report.action=x", "; ignored"),
            ("rd.report.url=", "; ignored"),
        ] {
            let w = parse(line).1;
            assert!(w.len() == 1 && w[0].ends_with(said), "{line}: {w:?}");
        }
    }

    #[test]
    fn what_cannot_be_read_widens_nothing() {
        // Each after the word that widens, and alone.
        for (line, bad) in [
            ("insecure", &["insecure=maybe", "insecure=", "insecure=\u{a0}"][..]),
            ("clock=lenient", &["clock=", "clock=lax", "clock"]),
            ("journal.redact=off", &["journal.redact=of", "journal.redact=x"]),
            ("roots=on", &["roots=of", "roots=", "roots=none", "root=off", "rots=off"]),
            ("pin=", &["pin=", "pin", "pins=sha256:x", "pinn=x"]),
            ("fallback.sha512=aa", &["fallback.sha512=", "fallback.sha512", "fallback.sha51=aa"]),
        ] {
            for bad in bad {
                for line in [std::format!("rd.report.{line} rd.report.{bad}"), std::format!("rd.report.{bad}")] {
                    let (s, w) = parse(&line);
                    assert!(!s.insecure && !s.clock_lenient && s.journal_redact, "{line}");
                    assert_eq!(s.roots, !bad.starts_with("ro"), "{line}");
                    assert_eq!(s.pin.contains(&""), bad.starts_with("pin"), "{line}");
                    assert_eq!(s.fallback_sha512, bad.starts_with("fall").then_some(""), "{line}");
                    let is_kept =
                        ["pin=", "pin", "fallback.sha512=", "fallback.sha512", "journal.redact="].contains(bad);
                    assert_eq!(w.is_empty(), is_kept, "{line}: {w:?}");
                }
            }
        }
        let mut warnings = Warnings::default();
        let line = b"rd.report.insecure rd.report.insecure=\xff rd.report.pin=\xff rd.report.roots=\xff";
        let s = Settings::parse(line, &mut warnings);
        assert!(!s.insecure && !s.roots);
        assert_eq!(s.pin.as_slice(), [""]);
        for (line, roots) in
            [("", true), ("rd.report.roots", true), ("rd.report.roots=off", false), ("rd.report.roots=no", false)]
        {
            let (s, w) = parse(line);
            assert_eq!((s.roots, w.len()), (roots, 0), "{line}");
        }
    }

    #[test]
    fn a_cut_line_is_warned_about() {
        let line = std::format!("{:4095}", "quiet").replace(' ', "x");
        for (line, is_cut) in [
            (line[..2047].to_owned(), true),
            (line[..2047].to_owned() + "\n", true),
            (line[..2046].to_owned() + " \n", true),
            (line[..2046].to_owned() + "\n", false),
            (line[..2048].to_owned() + "\n", false),
            (line.clone() + "\n", true),
            ("rd.neednet=1 \0 ".to_owned() + &line + "\n", false),
            ("rd.neednet=1 \0".to_owned() + &line + "\n", true),
        ] {
            let w = parse(&line).1;
            assert_eq!(w.iter().any(|line| line.contains("its end may be lost")), is_cut, "{}", line.len());
        }
    }

    #[test]
    fn a_warning_is_given_once() {
        assert_eq!(parse(&"rd.report.nonsense=1 ".repeat(3)).1.len(), 1);
    }

    #[test]
    fn many_warnings_are_counted_not_kept() {
        let line: String<8192> = (0..200).fold(String::new(), |mut line, n| {
            let _ = line.push_str(&std::format!("rd.report.nonsense{n}=1 "));
            line
        });
        let mut warnings = Warnings::default();
        Settings::parse(line.as_bytes(), &mut warnings);
        assert!(warnings.dropped() > 0);
        assert_eq!(warnings.lines().count() + warnings.dropped() as usize, 200);
    }
}
