//! What a sink's URL asks for: transport, format, compression; with the variables in it replaced.

use crate::encode::Format;
use crate::http::url::{NotUrl, Url, UrlText, split_scheme};
use crate::report::Facts;
use crate::settings::State;
use crate::text::is_graphic;

/// How a journal is sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// `http`, `https`: POST, gzip, chunked.
    Post,
    /// `put+http…`: PUT with its length known, for presigned URLs.
    Put,
    /// `journal-remote+http…`: systemd-journal-remote's `/upload`, not compressed.
    JournalRemote,
    /// `file:`: a device or a file; the URL is its path.
    Device,
    /// The fallback configuration: nothing is sent, but all is fetched.
    Fetch,
}

impl Kind {
    /// Whether it is a device or a file.
    pub fn is_device(self) -> bool {
        cfg!(feature = "formats") && self == Self::Device
    }

    /// Whether it is no sink, but the configuration that is fetched.
    pub fn is_fetched(self) -> bool {
        cfg!(feature = "recovery") && self == Self::Fetch
    }
}

/// A sink, ready to be connected to.
pub struct Target {
    /// How it is sent there.
    pub kind: Kind,
    /// The URL without prefix and without what is meant for us.
    pub url: UrlText,
    /// Format of a journal.
    pub format: Format,
    /// gzip level; `None` is not compressed.
    pub gzip: Option<u8>,
}

/// Why a value names no sink.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoTarget {
    /// Not a URL.
    Url(NotUrl),
    /// A scheme of the design that this build does not speak.
    Later,
    /// With its variables replaced it is too long.
    TooLong,
    /// `${…}` with a name that is not known.
    Variable,
    /// `?format=` or `?gzip=` with a value that is not known here.
    Option,
    /// `file:` without a path from the root on.
    Path,
    /// What should be a hash is none.
    Hash,
    /// One object, which cannot grow.
    OneObject,
    /// The files as they are, though secrets are to be masked.
    RawSecrets,
}

/// Schemes that are recognised, and said not to be spoken here; what is left of `file:` is that of a build without it.
const LATER: [&str; 9] = [
    "file:",
    "loki+http",
    "otlp+http",
    "splunk+http",
    "syslog+tcp:",
    "syslog+tls:",
    "syslog+udp:",
    "vsock:",
    "vsock-stream:",
];

/// Where the variables of a value come from.
pub struct Variables<'a> {
    /// This machine.
    pub facts: &'a Facts,
    /// `${state}`.
    pub state: State,
    /// `${stage}`.
    pub stage: Option<&'a str>,
}

/// What variables are replaced in, which says what of their values may stand there. These come from DHCP and from firmware.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Within {
    /// A URL: values are percent-encoded.
    Url,
    /// A path, with options behind it: values are a part of one name, and not empty.
    Path,
    /// Text that its user looks at.
    Text,
}

impl Variables<'_> {
    /// Appends `value` to `out` with its variables replaced.
    pub fn expand(&self, value: &str, within: Within, out: &mut dyn FnMut(char) -> bool) -> Result<(), NoTarget> {
        let mut rest = value;
        while let Some(at) = rest.as_bytes().windows(2).position(|two| two == b"${") {
            let (before, after) = (rest.get(..at).unwrap_or_default(), rest.get(at + 2..).unwrap_or_default());
            let (name, behind) = after.split_once('}').ok_or(NoTarget::Variable)?;
            let text = match name {
                "state" => self.state.as_str(),
                "stage" => self.stage.unwrap_or_default(),
                _ => self.facts.variable(name).ok_or(NoTarget::Variable)?,
            };
            put(before, out)?;
            match within {
                Within::Url if !crate::escape::percent(text, out) => return Err(NoTarget::TooLong),
                Within::Url => {}
                Within::Path if !put_name(text, out) => return Err(NoTarget::TooLong),
                Within::Path => {}
                Within::Text => put(text, out)?,
            }
            rest = behind;
        }
        put(rest, out)
    }
}

/// Reads a status URL.
pub fn status(value: &str, variables: &Variables<'_>) -> Result<UrlText, NoTarget> {
    let mut url = UrlText::default();
    variables.expand(value, Within::Url, &mut |c| url.push(c).is_ok())?;
    Url::parse(&url).map_err(NoTarget::Url)?;
    if !is_host_kept(value, &url) {
        return Err(NoTarget::Url(NotUrl::Host));
    }
    Ok(url)
}

/// Whether no variable of `value` made a port or more than a name out of the host of `url`.
fn is_host_kept(value: &str, url: &str) -> bool {
    let (template, host) = (host_and_port(value), host_and_port(url));
    let colons = |text: &str| text.bytes().filter(|b| *b == b':').count();
    let is_odd =
        host.as_bytes().contains(&b'%') || host.starts_with('.') || host.as_bytes().windows(2).any(|two| two == b"..");
    !template.as_bytes().windows(2).any(|two| two == b"${") || colons(template) == colons(host) && !is_odd
}

/// What stands between the scheme and userinfo of a URL and its path.
fn host_and_port(url: &str) -> &str {
    let rest = split_scheme(url).map_or("", |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    authority.rsplit('@').next().unwrap_or_default()
}

/// Writes `text` as a part of a name in a path: it leads to no other folder, and begins no option.
fn put_name(text: &str, out: &mut dyn FnMut(char) -> bool) -> bool {
    let is_plain = |at: usize, c: char| {
        c.is_ascii_alphanumeric()
            || matches!(c, '-' | '_' | '~' | ':')
            || !c.is_ascii() && is_graphic(c)
            || at > 0 && c == '.'
    };
    let text = if text.is_empty() { "_" } else { text };
    text.char_indices().all(|(at, c)| out(if is_plain(at, c) { c } else { '_' }))
}

/// Reads a journal sink's URL. `?format=` and `?gzip=` are for us and not sent on, but for `put+`, whose query is signed.
pub fn journal(value: &str, variables: &Variables<'_>, level: u8) -> Result<Target, NoTarget> {
    if cfg!(feature = "formats")
        && let Some(path) = value.strip_prefix("file:")
    {
        return device(path.strip_prefix("//").unwrap_or(path), variables);
    }
    let (kind, rest) = if let Some(rest) = value.strip_prefix("put+") {
        (Kind::Put, rest)
    } else if let Some(rest) = value.strip_prefix("journal-remote+") {
        (Kind::JournalRemote, rest)
    } else {
        (Kind::Post, value)
    };
    if LATER.iter().any(|scheme| rest.starts_with(scheme)) {
        return Err(NoTarget::Later);
    }
    let mut url = status(rest, variables)?;
    let mut gzip = if kind == Kind::JournalRemote { None } else { Some(level) };
    let mut format = Format::Export;
    if kind != Kind::Put {
        url = take_options(&url, &mut format, &mut gzip)?;
    }
    if kind == Kind::JournalRemote {
        add_upload(&mut url)?;
    }
    Ok(Target { kind, url, format, gzip })
}

fn device(path: &str, variables: &Variables<'_>) -> Result<Target, NoTarget> {
    let mut whole = UrlText::default();
    variables.expand(path, Within::Path, &mut |c| whole.push(c).is_ok())?;
    let (mut format, mut gzip) = (Format::JsonLines, None);
    let url = take_options(&whole, &mut format, &mut gzip)?;
    match url.starts_with('/') {
        true => Ok(Target { kind: Kind::Device, url, format, gzip }),
        false => Err(NoTarget::Path),
    }
}

/// Copies `url` without the options that are ours.
fn take_options(url: &str, format: &mut Format, gzip: &mut Option<u8>) -> Result<UrlText, NoTarget> {
    let mut out = UrlText::default();
    let (base, query) = url.split_once('?').map_or((url, None), |(base, query)| (base, Some(query)));
    let _ = out.push_str(base);
    let mut separator = '?';
    for item in query.into_iter().flat_map(|query| query.split('&')) {
        match item.split_once('=') {
            Some(("format", name)) => *format = Format::named(name).ok_or(NoTarget::Option)?,
            Some(("gzip", level)) => match level.as_bytes() {
                b"0" => *gzip = None,
                [digit @ b'1'..=b'9'] => *gzip = Some(digit.saturating_sub(b'0')),
                _ => return Err(NoTarget::Option),
            },
            _ => {
                let _ = out.push(separator);
                let _ = out.push_str(item);
                separator = '&';
            }
        }
    }
    Ok(out)
}

/// systemd-journal-remote takes `/upload` only; a URL that ends at the host or in another folder means the one below it, as
/// systemd-journal-upload has it.
fn add_upload(url: &mut UrlText) -> Result<(), NoTarget> {
    if url.ends_with("/upload") {
        return Ok(());
    }
    let tail = if url.ends_with('/') { "upload" } else { "/upload" };
    url.push_str(tail).map_err(|_| NoTarget::TooLong)
}

fn put(text: &str, out: &mut dyn FnMut(char) -> bool) -> Result<(), NoTarget> {
    if text.chars().all(out) { Ok(()) } else { Err(NoTarget::TooLong) }
}

/// Says why a value names no sink.
pub fn explain(why: NoTarget) -> &'static str {
    match why {
        NoTarget::Url(NotUrl::Scheme) => "is not a URL that begins with http:// or https://",
        NoTarget::Url(NotUrl::Tls) => "asks for TLS, which this build does not have; use http://",
        NoTarget::Url(NotUrl::Host) => "has no valid host",
        NoTarget::Url(NotUrl::Port) => "has no valid port",
        NoTarget::Url(NotUrl::Character) => "holds white space or a control character",
        NoTarget::Later => "asks for a transport that this build does not speak",
        NoTarget::TooLong => "is too long once its variables are replaced",
        NoTarget::Variable => "holds a ${variable} that is not known",
        NoTarget::Path => "has no path from / on behind file:",
        NoTarget::Hash => {
            "is not fetched: rd.report.fallback.sha512= is not a SHA-512 (128 hexadecimal digits, with sha512- before or without)"
        }
        NoTarget::OneObject => {
            "cannot be sent in parts while it grows: put+ makes one object, and ?format=raw one archive; they are sent in the end alone"
        }
        NoTarget::RawSecrets => {
            "asks for files as they are, in which no secret is masked; set rd.report.journal.redact=off"
        }
        NoTarget::Option => "has a ?format= or ?gzip= that this build does not know",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::file::Root;

    fn with(value: &str) -> Result<Target, NoTarget> {
        named("n\u{e9}/1", value)
    }

    /// As on a machine of this name.
    fn named(hostname: &str, value: &str) -> Result<Target, NoTarget> {
        let mut facts = Facts::gather(&Root::new(None).unwrap(), b"");
        facts.hostname.clear();
        facts.hostname.push_str(hostname).unwrap();
        journal(value, &Variables { facts: &facts, state: State::Failed, stage: Some("disks") }, 6)
    }

    fn url(value: &str) -> std::string::String {
        with(value).ok().unwrap().url.to_owned()
    }

    #[test]
    fn variables_are_replaced_and_encoded() {
        assert_eq!(url("https://h/${hostname}/${state}?s=${stage}"), "https://h/n%C3%A9%2F1/failed?s=disks");
        for (bad, why) in [
            ("https://h/${host", NoTarget::Variable),
            ("https://h/${nothing}", NoTarget::Variable),
            ("nonsense", NoTarget::Url(NotUrl::Scheme)),
            ("file:dev/x", NoTarget::Path),
            ("vsock://2:1", NoTarget::Later),
            ("https://h/?format=xml", NoTarget::Option),
            ("https://h/?gzip=10", NoTarget::Option),
        ] {
            assert_eq!(with(bad).err(), Some(why), "{bad}");
        }
        assert_eq!(
            with(&format!("https://h/{}", "x".repeat(crate::http::url::URL_MAX))).err(),
            Some(NoTarget::TooLong)
        );
    }

    #[test]
    fn options_are_ours_but_not_in_a_signed_query() {
        let target = with("https://h/j?a=1&gzip=9&format=json&b=2").ok().unwrap();
        assert_eq!((&*target.url, target.gzip), ("https://h/j?a=1&b=2", Some(9)));
        assert_eq!(target.format, Format::Json);
        assert_eq!(url("https://h/j?gzip=0"), "https://h/j");
        let target = with("put+https://h/j?gzip=1&X-Sig=a%2Fb").ok().unwrap();
        assert_eq!((&*target.url, target.gzip), ("https://h/j?gzip=1&X-Sig=a%2Fb", Some(6)));
    }

    #[test]
    fn devices_are_paths() {
        for value in ["file:/dev/${hostname}", "file:///dev/${hostname}"] {
            let target = with(value).ok().unwrap();
            assert_eq!((&*target.url, target.kind, target.gzip), ("/dev/n\u{e9}_1", Kind::Device, None));
            assert_eq!(target.format, Format::JsonLines);
        }
        let target = with("file:/j?format=export&gzip=1").ok().unwrap();
        assert_eq!((&*target.url, target.format, target.gzip), ("/j", Format::Export, Some(1)));
    }

    #[test]
    fn a_host_name_leads_to_no_other_file() {
        for (hostname, path) in [
            ("../../etc/x", "/dev/vp/_._.._etc_x"),
            ("..", "/dev/vp/_."),
            (".", "/dev/vp/_"),
            ("", "/dev/vp/_"),
            ("a/b", "/dev/vp/a_b"),
            ("a.b-c_d:e", "/dev/vp/a.b-c_d:e"),
            ("x?format=raw&gzip=9", "/dev/vp/x_format_raw_gzip_9"),
            ("a\n\0\u{202e}b", "/dev/vp/a___b"),
        ] {
            let target = named(hostname, "file:/dev/vp/${hostname}").ok().unwrap();
            assert_eq!((&*target.url, target.format), (path, Format::JsonLines), "{hostname}");
        }
        assert_eq!(&*named(".", "file:/dev/.${hostname}/x").ok().unwrap().url, "/dev/._/x");
    }

    #[test]
    fn a_host_name_leads_to_no_other_server() {
        let host = Err(NoTarget::Url(NotUrl::Host));
        for hostname in ["h:22", "evil/", "a@evil", "", "a..b", "[::1]", "e%2f"] {
            let target = named(hostname, "https://${hostname}.example/").map(|target| target.url);
            assert!(target == host || target == Err(NoTarget::Url(NotUrl::Port)), "{hostname} {target:?}");
        }
        for (value, url) in [
            ("https://${hostname}.example:8443/", "https://n1.example:8443/"),
            ("https://u:${hostname}@h/${hostname}:x", "https://u:n1@h/n1:x"),
            ("https://[2001:db8::1]/${hostname}", "https://[2001:db8::1]/n1"),
        ] {
            assert_eq!(&*named("n1", value).ok().unwrap().url, url);
        }
        assert_eq!(&*named("a:b", "https://h/${hostname}").ok().unwrap().url, "https://h/a:b");
    }

    #[test]
    fn journal_remote_takes_uploads_only() {
        for value in
            ["journal-remote+http://h:19532", "journal-remote+http://h:19532/", "journal-remote+http://h:19532/upload"]
        {
            assert_eq!(url(value), "http://h:19532/upload");
            assert_eq!(with(value).ok().unwrap().gzip, None);
        }
    }
}
