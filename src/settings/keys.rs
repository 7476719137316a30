//! The table of settings, one row each. The parser, `rdreport check`, `rdreport --help` and the
//! table in docs/settings.md come from it.

use crate::error::Error;
use crate::settings::cmdline::Words;
use crate::settings::ssh_key::{PublicKey, is_name};
use crate::settings::values::{Refused, bytes, is, is_token, push, seconds, states, switch, text};
use crate::settings::{Action, CloudKey, PREFIX, Settings};

/// Subject of a setting: the heading under which it is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Group {
    /// Destinations of the status, and when it is sent.
    Report,
    /// Destinations of the journal, and when it is sent.
    Journal,
    /// Connections to servers, and trust in them.
    Connection,
    /// Reports to clouds.
    Cloud,
    /// Recovery of the machine after a failure.
    Afterwards,
}

impl Group {
    /// All groups, in the order in which they are shown.
    pub const ALL: [Group; 5] = [Group::Report, Group::Journal, Group::Connection, Group::Cloud, Group::Afterwards];

    /// Returns the heading.
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
    /// Name of the setting, without [`PREFIX`].
    pub name: &'static str,
    /// Subject of the setting.
    pub group: Group,
    /// Form of the value.
    pub value: &'static str,
    /// Default value.
    pub default: &'static str,
    /// Effect of the setting, in one line.
    pub help: &'static str,
    /// Whether this build supports the setting. An unsupported setting is recognised, so that a
    /// command line written for another build is not reported as misspelt; it causes a warning of
    /// its own.
    pub works: bool,
    /// Whether the value must not appear on the console.
    pub secret: bool,
    pub(super) set: for<'a> fn(&mut Settings<'a>, &'a str) -> Result<(), Refused>,
}

impl Key {
    /// Whether a value is masked as a whole. Only parts of a URL are secret.
    pub fn is_masked(&self) -> bool {
        self.name == "header" || self.name.ends_with(".token")
    }

    /// Whether all values are kept, rather than the last one.
    pub fn is_repeatable(&self) -> bool {
        self.help.ends_with("repeatable")
    }

    /// Returns the value in effect in `line`, for a setting that is not repeatable. A bare flag has
    /// an empty value; `None` means that the default is in effect.
    pub fn held<'a>(&self, line: &'a [u8]) -> Option<&'a str> {
        let mut settings = Settings::default();
        let mut held = None;
        for word in Words::new(line).filter(|word| Settings::is_word_of(word, self)) {
            match (settings.set(self, &word), self.name) {
                (Ok(value), _) => held = Some(value),
                // Mirrors `Settings::narrow`.
                (Err(_), "insecure" | "clock" | "journal.redact") => held = None,
                (Err(_), "roots") => held = Some("off"),
                (Err(_), _) => {}
            }
        }
        held
    }

    /// Visits the values in effect in `line`; a repeatable setting may have several.
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

/// Drops the texts and the parsers of settings that this build does not support.
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

/// All settings.
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
            // An empty value after the colon is the remainder of a value that was not quoted.
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
        // Keep a malformed value: dropping it would disable the check.
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
            // Keep a malformed value: dropping it would disable the check.
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
        // Not secret, but too long to print.
        secret: true,
        set: |s, v| {
            if PublicKey::parse(v).is_some() { push(&mut s.ssh_key, v) } else { Err(Refused::Form) }
        },
    },
]);

fn cloud<'a>(settings: &mut Settings<'a>, key: CloudKey, value: &'a str) -> Result<(), Refused> {
    settings.cloud.get_mut(key as usize).map_or(Ok(()), |slot| text(slot, value))
}
