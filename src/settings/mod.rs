//! Settings: words of the kernel command line that begin with `rd.report.`, as typed values.
//!
//! [`KEYS`] is the one table for the parser, `rdreport check`, `rdreport --help` and
//! docs/settings.md. Parsing never fails as a whole: a bad value costs only its own setting, and
//! adds a line to [`Warnings`].

pub mod cmdline;
pub mod dracut;
mod keys;
mod nearest;
pub mod redact;
pub mod secret;
pub mod secrets;
pub mod ssh_key;
mod values;
mod warnings;

pub use crate::settings::keys::{Group, KEYS, Key};
pub use crate::settings::nearest::is_nearly_ours;
pub use crate::settings::values::{Refused, is_plain};
pub use crate::settings::warnings::Warnings;

use crate::settings::cmdline::{Word, Words, same_key};
use crate::settings::nearest::{warn_nearly_ours, warn_unknown};
use crate::text;
use heapless::Vec;

/// Maximum number of bytes read from `/proc/cmdline`. The kernel keeps 2048 on x86-64 and arm64,
/// 4096 on s390x; with bootconfig the file is longer.
pub const CMDLINE_MAX: usize = 16 * 1024;
/// Prefix of all setting names.
pub const PREFIX: &str = "rd.report.";
/// Maximum number of status destinations, and of journal destinations.
pub const SINKS_MAX: usize = 8;
/// Maximum number of custom header fields.
pub const HEADERS_MAX: usize = 16;
/// Maximum number of CA bundles, of pins, of nameservers and of SSH keys.
pub const LIST_MAX: usize = 8;

/// A bounded list of values, each a slice of the command line.
pub type List<'a, const N: usize> = Vec<&'a str, N>;

/// State of a stage, or of provisioning as a whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// A stage is running or has succeeded; more stages follow.
    Running,
    /// Provisioning failed.
    Failed,
    /// Provisioning succeeded as a whole.
    Succeeded,
    /// Provisioning has run for longer than the watchdog allows.
    Stuck,
}

impl State {
    /// All states, in the order of the lists in the documentation.
    pub const ALL: [State; 4] = [State::Running, State::Failed, State::Succeeded, State::Stuck];

    /// Name of the state in settings and bodies.
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
    /// Returns the set of the listed states.
    pub const fn of(list: &[State]) -> Self {
        let mut bits = 0;
        let mut i = 0;
        while i < list.len() {
            bits |= 1 << list[i] as u8;
            i += 1;
        }
        Self(bits)
    }

    /// Whether `state` is in the set.
    pub fn contains(self, state: State) -> bool {
        self.0 & (1 << state as u8) != 0
    }
}

/// What happens to the machine after a failure was reported.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// Nothing.
    None,
    /// A kernel panic, which the hypervisor detects.
    Panic,
    /// A reboot.
    Reboot,
    /// Power off.
    Poweroff,
}

impl Action {
    /// All actions.
    pub const ALL: [Action; 4] = [Action::None, Action::Panic, Action::Reboot, Action::Poweroff];

    /// Name of the action in settings.
    pub fn as_str(self) -> &'static str {
        match self {
            Action::None => "none",
            Action::Panic => "panic",
            Action::Reboot => "reboot",
            Action::Poweroff => "poweroff",
        }
    }
}

/// Settings of one cloud (`rd.report.CLOUD.NAME`). All values are texts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CloudKey {
    /// URL of Packet's metadata.
    PacketUrl,
    /// Handle of a CloudFormation wait condition.
    AwsUrl,
    /// Name of a CloudFormation stack.
    AwsStack,
    /// Logical name of the stack's resource.
    AwsResource,
    /// URL at which Heat is signalled.
    OpenstackUrl,
    /// Form of the signal to Heat.
    OpenstackSignal,
    /// Token of the signal to Heat.
    OpenstackToken,
    /// URL at which MAAS takes events.
    MaasUrl,
    /// API key of MAAS.
    MaasToken,
    /// URL of a webhook that takes cloud-init's events.
    CloudinitUrl,
    /// OAuth key of the webhook.
    CloudinitToken,
}

/// Number of [`CloudKey`]s.
const CLOUD_KEYS: usize = CloudKey::CloudinitToken as usize + 1;

/// All settings. Text values are slices of the command line.
pub struct Settings<'a> {
    /// Destinations of the status.
    pub url: List<'a, SINKS_MAX>,
    /// Destinations of the journal; the scheme selects the transport.
    pub journal: List<'a, SINKS_MAX>,
    /// States that are reported.
    pub on: States,
    /// States on which the journal is sent.
    pub journal_on: States,
    /// Name of the cloud; overrides detection.
    pub platform: Option<&'a str>,
    /// Settings of single clouds, indexed by [`CloudKey`].
    cloud: [Option<&'a str>; CLOUD_KEYS],
    action: Action,
    /// Seconds to wait before the action.
    pub action_delay_s: u32,
    /// Total seconds of a report, if set.
    pub timeout_s: Option<u32>,
    /// Seconds until the watchdog fires; 0 turns it off.
    pub stuck_s: u32,
    /// Custom header fields, as `Name: value`.
    pub header: List<'a, HEADERS_MAX>,
    /// Paths of CA bundles in PEM.
    pub ca: List<'a, LIST_MAX>,
    /// Whether the built-in roots are trusted.
    pub roots: bool,
    /// Hashes of the trusted public keys, unparsed. A malformed value matches no server's key.
    pub pin: List<'a, LIST_MAX>,
    /// Path of the client certificate.
    pub cert: Option<&'a str>,
    /// Path of the client certificate's private key.
    pub key: Option<&'a str>,
    /// Whether any certificate is accepted.
    pub insecure: bool,
    /// Whether certificates stay valid under a clock that is ahead of the server's.
    pub clock_lenient: bool,
    proxy: Option<&'a str>,
    /// Addresses of nameservers.
    pub dns: List<'a, LIST_MAX>,
    /// Whether secrets in the journal are masked.
    pub journal_redact: bool,
    /// Maximum number of uncompressed journal bytes to send.
    pub journal_max: Option<u64>,
    /// Whether the journal is followed, if set.
    pub follow: Option<bool>,
    fallback: Option<&'a str>,
    /// Expected SHA-512 of the fallback, unparsed. A malformed value counts as a mismatch.
    pub fallback_sha512: Option<&'a str>,
    ssh: Option<&'a str>,
    /// Public keys of the SSH user.
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

/// Name proposed for [`Settings::url`] before this program existed (coreos/ignition#585).
const URL_ALIAS: &[u8] = b"coreos.status.url";

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

    /// Whether no destination is configured.
    pub fn is_idle(&self) -> bool {
        self.url.is_empty() && self.journal.is_empty()
    }

    // Settings of a feature are read through functions that are constant without the feature. The
    // compiler then drops the code that depends on them; it cannot tell that a field is never set.

    /// Action after a failure.
    pub fn action(&self) -> Action {
        if cfg!(feature = "recovery") { self.action } else { Action::None }
    }

    /// URL of the HTTP proxy.
    pub fn proxy(&self) -> Option<&'a str> {
        self.proxy.filter(|_| cfg!(feature = "net-extra"))
    }

    /// URL of a configuration to fetch on failure.
    pub fn fallback(&self) -> Option<&'a str> {
        self.fallback.filter(|_| cfg!(feature = "recovery"))
    }

    /// Name of the user to create on failure.
    pub fn ssh(&self) -> Option<&'a str> {
        self.ssh.filter(|_| cfg!(feature = "ssh"))
    }

    /// Value of a cloud's setting.
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
            // The rest of the list was not quoted, and is lost.
            Ok(value) if value.ends_with(',') => {
                warnings.add(&[PREFIX, key.name, ": ends with a comma; a list has no blanks, or stands in quotes"])
            }
            Ok(_) => {}
            Err(why) => {
                // `narrow` itself warns about `roots`.
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

    /// Sets `key` to the value of `word`, and returns the value.
    fn set(&mut self, key: &Key, word: &Word<'a>) -> Result<&'a str, Refused> {
        let value = core::str::from_utf8(word.value.unwrap_or_default()).map_err(|_| Refused::NotText)?.trim_ascii();
        // An empty value comes from an unset variable (`insecure=$UNSET`); only the bare word is a
        // request.
        if value.is_empty() && word.value.is_some() && matches!(key.name, "insecure" | "roots") {
            return Err(Refused::Empty);
        }
        (key.set)(self, value).map(|()| value)
    }

    /// Applies the strict meaning of a security setting whose value is unreadable or whose name is
    /// misspelt. Ignoring the setting would widen trust against the administrator's intent.
    fn narrow(&mut self, key: &Key, warnings: &mut Warnings) {
        match key.name {
            // A full list has other pins, which still apply.
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

/// Returns the part of `key` after our prefix, whether or not such a setting exists; `None` if
/// `key` has another prefix.
fn our_name(key: &[u8]) -> Option<&[u8]> {
    match key.split_at_checked(PREFIX.len()) {
        Some((prefix, name)) if same_key(prefix, PREFIX.as_bytes()) => Some(name),
        _ if same_key(key, URL_ALIAS) => Some(b"url"),
        _ => None,
    }
}

/// Warns that a value was refused, with the reason and the value in effect.
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

/// Sizes of the kernel's command line buffer, including the final NUL (`COMMAND_LINE_SIZE`): this
/// architecture's, and larger ones that some kernels are built with. Other architectures get all
/// sizes in use.
const CUT_AT: &[usize] = if cfg!(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "powerpc64")) {
    &[2048, 4096]
} else if cfg!(target_arch = "s390x") {
    &[4096]
} else {
    &[256, 512, 1024, 2048, 4096]
};

/// Warns if the kernel may have truncated its command line, which it does silently. `line` ends
/// with the kernel's own line and the line feed that procfs appends.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The settings in `line`, and the warnings about it.
    pub(super) fn parse(line: &str) -> (Settings<'_>, Vec<std::string::String, 64>) {
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
}
