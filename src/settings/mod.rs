//! Settings: words of the kernel command line that begin with `rd.report.`, as typed values.
//!
//! [`KEYS`] is the one table that the parser, `rdreport check`, `rdreport --help` and the README's table come from. Parsing never fails as
//! a whole: a bad value costs that one setting, with a line in [`Warnings`].

pub mod cmdline;
pub mod redact;

use crate::accounts::is_name;
use crate::public_key::PublicKey;
use crate::settings::cmdline::{Word, Words, same_key};
use crate::text::{self, Text};
use heapless::Vec;

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
    /// Not a number, or out of its range.
    Number,
    /// Nothing behind the `=`, or no `=`.
    Empty,
    /// Not of the form that is asked for.
    Form,
    /// The list is full.
    Full,
}

/// A row of the table of settings.
pub struct Key {
    /// Behind [`PREFIX`].
    pub name: &'static str,
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
        value: "URL",
        default: "none",
        help: "where the status is POSTed; repeatable",
        works: true,
        secret: true,
        set: |s, v| push(&mut s.url, v),
    },
    Key {
        name: "journal",
        value: "URL",
        default: "none",
        help: "where the journal is sent; repeatable",
        works: true,
        secret: true,
        set: |s, v| push(&mut s.journal, v),
    },
    Key {
        name: "on",
        value: "STATES",
        default: "failed,succeeded,stuck",
        help: "states that are reported: running, failed, succeeded, stuck, or all",
        works: true,
        secret: false,
        set: |s, v| states(v).map(|v| s.on = v),
    },
    Key {
        name: "journal.on",
        value: "STATES",
        default: "failed,stuck",
        help: "states on which the journal is sent",
        works: true,
        secret: false,
        set: |s, v| states(v).map(|v| s.journal_on = v),
    },
    Key {
        name: "platform",
        value: "NAME",
        default: "ignition.platform.id, else DMI",
        help: "the cloud; 'none' turns cloud reports off",
        works: cfg!(feature = "cloud"),
        secret: false,
        set: |s, v| text(&mut s.platform, v),
    },
    Key {
        name: "packet.url",
        value: "URL",
        default: "metadata.packet.net, metadata.platformequinix.com",
        help: "where the machine's metadata are",
        works: cfg!(feature = "cloud-packet"),
        secret: false,
        set: |s, v| cloud(s, CloudKey::PacketUrl, v),
    },
    Key {
        name: "aws.url",
        value: "URL",
        default: "none",
        help: "presigned URL of a CloudFormation wait condition's handle",
        works: cfg!(feature = "cloud-aws"),
        secret: true,
        set: |s, v| cloud(s, CloudKey::AwsUrl, v),
    },
    Key {
        name: "aws.stack",
        value: "NAME",
        default: "none",
        help: "CloudFormation stack whose resource is signalled",
        works: cfg!(feature = "cloud-aws"),
        secret: false,
        set: |s, v| cloud(s, CloudKey::AwsStack, v),
    },
    Key {
        name: "aws.resource",
        value: "NAME",
        default: "none",
        help: "the resource's logical name",
        works: cfg!(feature = "cloud-aws"),
        secret: false,
        set: |s, v| cloud(s, CloudKey::AwsResource, v),
    },
    Key {
        name: "openstack.url",
        value: "URL",
        default: "none",
        help: "where Heat is signalled",
        works: cfg!(feature = "cloud-openstack"),
        secret: true,
        set: |s, v| cloud(s, CloudKey::OpenstackUrl, v),
    },
    Key {
        name: "openstack.signal",
        value: "cfn|token|temp_url",
        default: "what the URL shows",
        help: "how it is signalled",
        works: cfg!(feature = "cloud-openstack"),
        secret: false,
        set: |s, v| match v {
            "cfn" | "token" | "temp_url" => cloud(s, CloudKey::OpenstackSignal, v),
            _ => Err(Refused::Unknown),
        },
    },
    Key {
        name: "openstack.token",
        value: "TOKEN",
        default: "none",
        help: "token for that, or '@/path', 'cred:NAME'",
        works: cfg!(feature = "cloud-openstack"),
        secret: true,
        set: |s, v| cloud(s, CloudKey::OpenstackToken, v),
    },
    Key {
        name: "maas.url",
        value: "URL",
        default: "none",
        help: "where MAAS takes this machine's events",
        works: cfg!(feature = "cloud-webhook"),
        secret: true,
        set: |s, v| cloud(s, CloudKey::MaasUrl, v),
    },
    Key {
        name: "maas.token",
        value: "KEY",
        default: "none",
        help: "its API key, CONSUMER:TOKEN:SECRET, or '@/path', 'cred:NAME'",
        works: cfg!(feature = "cloud-webhook"),
        secret: true,
        set: |s, v| cloud(s, CloudKey::MaasToken, v),
    },
    Key {
        name: "cloudinit.url",
        value: "URL",
        default: "none",
        help: "a webhook that takes cloud-init's events",
        works: cfg!(feature = "cloud-webhook"),
        secret: true,
        set: |s, v| cloud(s, CloudKey::CloudinitUrl, v),
    },
    Key {
        name: "cloudinit.token",
        value: "KEY",
        default: "none",
        help: "its OAuth 1.0 key, CONSUMER:TOKEN:SECRET, or '@/path', 'cred:NAME'",
        works: cfg!(feature = "cloud-webhook"),
        secret: true,
        set: |s, v| cloud(s, CloudKey::CloudinitToken, v),
    },
    Key {
        name: "action",
        value: "ACTION",
        default: "none",
        help: "after a failure was reported: none, panic, reboot, poweroff",
        works: cfg!(feature = "action"),
        secret: false,
        set: |s, v| {
            s.action = *Action::ALL.iter().find(|action| action.as_str() == v).ok_or(Refused::Unknown)?;
            Ok(())
        },
    },
    Key {
        name: "action.delay",
        value: "SECONDS",
        default: "0",
        help: "wait before the action",
        works: cfg!(feature = "action"),
        secret: false,
        set: |s, v| seconds(v).map(|v| s.action_delay_s = v),
    },
    Key {
        name: "timeout",
        value: "SECONDS",
        default: "60 (failed, stuck), 10 (succeeded, running)",
        help: "time in all for a report",
        works: true,
        secret: false,
        set: |s, v| {
            s.timeout_s = Some(seconds(v).and_then(|v| if v == 0 { Err(Refused::Number) } else { Ok(v) })?);
            Ok(())
        },
    },
    Key {
        name: "stuck",
        value: "SECONDS",
        default: "0 (off)",
        help: "watchdog: report when still in the initramfs after this time",
        works: true,
        secret: false,
        set: |s, v| seconds(v).map(|v| s.stuck_s = v),
    },
    Key {
        name: "header",
        value: "'NAME: VALUE'",
        default: "none",
        help: "extra request header; a value '@/path' is read from that file, 'cred:NAME' from a credential; repeatable",
        works: true,
        secret: true,
        set: |s, v| match v.split_once(':') {
            Some((name, _)) if is_token(name) => push(&mut s.header, v),
            _ => Err(Refused::Form),
        },
    },
    Key {
        name: "ca",
        value: "PATH",
        default: "none",
        help: "PEM bundle in the initramfs, trusted beside the built-in roots; repeatable",
        works: true,
        secret: false,
        set: |s, v| push(&mut s.ca, v),
    },
    Key {
        name: "roots",
        value: "on|off",
        default: "on",
        help: "off: no built-in root is trusted, only rd.report.ca=",
        works: true,
        secret: false,
        set: |s, v| switch(v).map(|v| s.roots = v),
    },
    Key {
        name: "pin",
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
        value: "PATH",
        default: "none",
        help: "client certificate, PEM",
        works: cfg!(feature = "client-auth"),
        secret: false,
        set: |s, v| text(&mut s.cert, v),
    },
    Key {
        name: "key",
        value: "PATH",
        default: "none",
        help: "its private key, PEM; without it, looked for in the certificate's file",
        works: cfg!(feature = "client-auth"),
        secret: false,
        set: |s, v| text(&mut s.key, v),
    },
    Key {
        name: "insecure",
        value: "",
        default: "off",
        help: "accept any certificate",
        works: true,
        secret: false,
        set: |s, v| switch(v).map(|v| s.insecure = v),
    },
    Key {
        name: "clock",
        value: "strict|lenient",
        default: "strict",
        help: "lenient: a clock that is ahead of the server's does not make its certificate expired",
        works: cfg!(feature = "clock"),
        secret: false,
        set: |s, v| {
            s.clock_lenient = match v {
                "strict" => false,
                "lenient" => true,
                _ => return Err(Refused::Unknown),
            };
            Ok(())
        },
    },
    Key {
        name: "proxy",
        value: "URL",
        default: "none",
        help: "HTTP proxy, http://[user:password@]host:port; never used for link-local and loopback addresses",
        works: cfg!(feature = "proxy"),
        secret: true,
        set: |s, v| text(&mut s.proxy, v),
    },
    Key {
        name: "dns",
        value: "ADDRESS",
        default: "what the initramfs has",
        help: "nameserver; repeatable",
        works: cfg!(feature = "dns"),
        secret: false,
        set: |s, v| push(&mut s.dns, v),
    },
    Key {
        name: "journal.redact",
        value: "on|off",
        default: "on",
        help: "mask the secrets that provisioning tools log",
        works: true,
        secret: false,
        set: |s, v| switch(v).map(|v| s.journal_redact = v),
    },
    Key {
        name: "journal.max",
        value: "BYTES",
        default: "no limit",
        help: "uncompressed journal; beyond it the head and the tail are sent",
        works: true,
        secret: false,
        set: |s, v| bytes(v).map(|v| s.journal_max = Some(v)),
    },
    Key {
        name: "follow",
        value: "",
        default: "off",
        help: "the journal is sent while it grows, too",
        works: cfg!(feature = "follow"),
        secret: false,
        set: |s, v| switch(v).map(|v| s.follow = Some(v)),
    },
    Key {
        name: "fallback",
        value: "URL",
        default: "none",
        help: "configuration to fetch on failure, for what rdreport-fallback.target starts",
        works: cfg!(feature = "fallback"),
        secret: true,
        set: |s, v| text(&mut s.fallback, v),
    },
    Key {
        name: "fallback.sha512",
        value: "HASH",
        default: "none",
        help: "its SHA-512, hexadecimal, with 'sha512-' before it or without",
        works: cfg!(feature = "fallback"),
        secret: false,
        set: |s, v| {
            // One that cannot be one is kept: it must not become none.
            s.fallback_sha512 = Some(v);
            Ok(())
        },
    },
    Key {
        name: "ssh",
        value: "USER",
        default: "none",
        help: "user made in the initramfs on failure, for SSH: a-z, 0-9, _ and -, 31 at most, and not root",
        works: cfg!(feature = "ssh"),
        secret: false,
        set: |s, v| if is_name(v) { text(&mut s.ssh, v) } else { Err(Refused::Form) },
    },
    Key {
        name: "ssh.key",
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
        for part in parts {
            for byte in part.bytes() {
                // A line feed would make two lines of it; the text may come from outside.
                let _ = self.lines.push(if byte == b'\n' { b' ' } else { byte });
            }
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
            settings.take(word, warnings);
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
        if cfg!(feature = "action") { self.action } else { Action::None }
    }

    /// HTTP proxy.
    pub fn proxy(&self) -> Option<&'a str> {
        self.proxy.filter(|_| cfg!(feature = "proxy"))
    }

    /// URL of a configuration to fetch on failure.
    pub fn fallback(&self) -> Option<&'a str> {
        self.fallback.filter(|_| cfg!(feature = "fallback"))
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

    fn take(&mut self, word: Word<'a>, warnings: &mut Warnings) {
        let Some(name) = our_name(word.key) else { return };
        let Some(key) = KEYS.iter().find(|key| same_key(name, key.name.as_bytes())) else {
            if let Some(meant) = warn_unknown(name, warnings) {
                self.narrow(meant, warnings);
            }
            return;
        };
        let value = match word.value.map(core::str::from_utf8) {
            Some(Ok(value)) => value.trim_ascii(),
            Some(Err(_)) => {
                warnings.add(&[PREFIX, key.name, ": the value is not UTF-8 text; ignored"]);
                return self.narrow(key, warnings);
            }
            None => "",
        };
        // `insecure=$UNSET` asks for nothing; the word alone does.
        let is_nothing = value.is_empty() && word.value.is_some() && matches!(key.name, "insecure" | "roots");
        match if is_nothing { Err(Refused::Empty) } else { (key.set)(self, value) } {
            Ok(()) if !key.works => {
                warnings.add(&[PREFIX, key.name, ": recognised, but this build does not act on it"])
            }
            Ok(()) => {}
            Err(why) => {
                // That one says what holds by itself.
                if key.name != "roots" {
                    warn_refused(key, value, why, warnings);
                }
                if why != Refused::Full {
                    self.narrow(key, warnings);
                }
            }
        }
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

fn warn_refused(key: &Key, value: &str, why: Refused, warnings: &mut Warnings) {
    let (value, quote) = if key.secret || value.is_empty() { ("the value", "") } else { (value, "'") };
    let what = match why {
        Refused::Empty if key.value.is_empty() => return warnings.add(&[PREFIX, key.name, "=: no value; ignored"]),
        Refused::Empty => return warnings.add(&[PREFIX, key.name, ": no value; ", key.value, " is expected; ignored"]),
        Refused::Full => return warnings.add(&[PREFIX, key.name, ": given too often; the further ones are ignored"]),
        Refused::Unknown => " is not known; ",
        Refused::Number => " is not a number in its range; ",
        Refused::Form => " is not of the form ",
    };
    match why {
        Refused::Form => warnings.add(&[PREFIX, key.name, ": ", quote, value, quote, what, key.value, "; ignored"]),
        _ => warnings.add(&[PREFIX, key.name, ": ", quote, value, quote, what, "using the default: ", key.default]),
    }
}

/// Says that there is no such setting; returns the one that is meant, as far as can be told.
fn warn_unknown(name: &[u8], warnings: &mut Warnings) -> Option<&'static Key> {
    let shown = core::str::from_utf8(name.get(..name.len().min(NAME_SHOWN)).unwrap_or_default()).unwrap_or("?");
    let near = KEYS.iter().filter_map(|key| Some((distance(name, key.name.as_bytes())?, key))).min_by_key(|(d, _)| *d);
    match near {
        // Farther than this, a proposal would only confuse.
        Some((d, key)) if d <= 1 + key.name.len() / 3 => {
            warnings.add(&[PREFIX, shown, ": no such setting; is ", PREFIX, key.name, " meant?"]);
            Some(key)
        }
        _ => {
            warnings.add(&[PREFIX, shown, ": no such setting; see rdreport --help"]);
            None
        }
    }
}

/// The kernel cuts a line that is too long for it, and says nothing (2048 bytes on x86-64 and arm64, its end mark included).
fn warn_if_cut(line: &[u8], warnings: &mut Warnings) {
    const KERNEL_MAX: usize = if cfg!(target_arch = "s390x") { 4096 } else { 2048 };
    let len = line.trim_ascii_end().len();
    if len.saturating_add(1) == KERNEL_MAX {
        let mut buf = [0; 8];
        let mut size = Text::new(&mut buf);
        size.dec(KERNEL_MAX as u64);
        warnings.add(&[
            "the kernel command line is as long as the kernel keeps (",
            size.as_str(),
            " bytes): its end is lost",
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
    let distance_of = |known: &Key| {
        let mut whole: Vec<u8, NAME_MAX> = Vec::new();
        let _ = whole.extend_from_slice(SQUASHED_PREFIX);
        let _ = whole.extend_from_slice(&squashed(known.name.as_bytes()));
        distance(&key, &whole)
    };
    let nearest = KEYS.iter().filter_map(|known| Some((distance_of(known)?, known))).min_by_key(|(d, _)| *d);
    nearest.filter(|(d, _)| *d <= 2).map(|(_, known)| known)
}

/// Whether a value is one of those that no secret is: a word of ours, or a short number.
pub fn is_plain(value: &[u8]) -> bool {
    core::str::from_utf8(value)
        .is_ok_and(|value| switch(value).is_ok() || states(value).is_ok() || seconds(value).is_ok())
}

fn push<'a, const N: usize>(list: &mut List<'a, N>, value: &'a str) -> Result<(), Refused> {
    match value {
        "" => Err(Refused::Empty),
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

fn states(value: &str) -> Result<States, Refused> {
    let mut bits = 0;
    for word in value.split(',').map(str::trim_ascii) {
        bits |= match State::ALL.iter().find(|s| s.as_str() == word) {
            Some(state) => 1 << *state as u8,
            None if word == "all" => States::of(&State::ALL).0,
            None if word == "none" => 0,
            None => return Err(Refused::Unknown),
        };
    }
    Ok(States(bits))
}

fn number(value: &str, max: u64) -> Result<u64, Refused> {
    match value {
        "" => Err(Refused::Empty),
        _ => text::number(value.as_bytes()).filter(|n| *n <= max).ok_or(Refused::Number),
    }
}

fn seconds(value: &str) -> Result<u32, Refused> {
    number(value, SECONDS_MAX).map(|n| n as u32)
}

/// A size: bytes, or with K, M, G in powers of 1024 as systemd takes them.
fn bytes(value: &str) -> Result<u64, Refused> {
    let (digits, shift) = match value.as_bytes().last() {
        Some(b'K') => (value.get(..value.len().saturating_sub(1)).unwrap_or_default(), 10),
        Some(b'M') => (value.get(..value.len().saturating_sub(1)).unwrap_or_default(), 20),
        Some(b'G') => (value.get(..value.len().saturating_sub(1)).unwrap_or_default(), 30),
        _ => (value, 0),
    };
    number(digits, u64::MAX >> shift).map(|n| n << shift)
}

/// A flag: the word alone switches it on.
fn switch(value: &str) -> Result<bool, Refused> {
    match value {
        "" | "1" | "yes" | "on" | "true" => Ok(true),
        "0" | "no" | "off" | "false" => Ok(false),
        _ => Err(Refused::Unknown),
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
        assert_eq!(w.len(), 1);
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
        assert!(w[0].contains("'failed,everything' is not known"), "{w:?}");
    }

    #[test]
    fn an_unknown_key_is_named_with_the_nearest() {
        let (_, w) = parse("rd.report.jurnal=http://a/ rd.report.xyzzy=1 rd.report.=1");
        assert!(w[0].contains("rd.report.jurnal: no such setting; is rd.report.journal meant?"), "{w:?}");
        assert!(w[1].contains("--help"), "{w:?}");
        assert_eq!(w.len(), 3);
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
        let line = "rd.report.dns=1.1.1.1 ".repeat(LIST_MAX + 1);
        let (s, w) = parse(&line);
        assert_eq!(s.dns.len(), LIST_MAX);
        assert!(w[0].contains("given too often"), "{w:?}");
    }

    #[test]
    fn secrets_are_in_no_warning() {
        let (_, w) = parse("rd.report.header=TOPSECRET rd.report.proxy=");
        assert_eq!(w.len(), 2);
        assert!(w.iter().all(|line| !line.contains("TOPSECRET")), "{w:?}");
    }

    #[test]
    fn sizes_and_switches() {
        assert_eq!(parse("rd.report.journal.max=4M").0.journal_max, Some(4 << 20));
        assert_eq!(parse("rd.report.journal.max=99999999999999999G").0.journal_max, None);
        assert!(parse("rd.report.insecure").0.insecure);
        assert!(!parse("rd.report.insecure=1 rd.report.insecure=off").0.insecure);
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
        let line = std::format!("{:2047}", "quiet").replace(' ', "x");
        assert!(parse(&line).1[0].contains("its end is lost"));
        assert!(parse(&line[1..]).1.is_empty());
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
