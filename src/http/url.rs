//! URLs (RFC 3986) as far as a client of HTTP needs them: scheme, userinfo, host, port, and the rest as it is. Nothing is decoded or
//! encoded again: a presigned query must arrive as it was signed.

use crate::text::number;
use alloc::string::String;
use core::ops::Deref;

/// Longest URL in bytes, that of a redirect's target included: the length of command line that a URL can come from.
pub const URL_MAX: usize = 2048;

/// A URL in the making, at most [`URL_MAX`] bytes. It lies on the heap: it is passed on, and few are of any length.
#[derive(Default, PartialEq, Eq, Debug)]
pub struct UrlText(String);

/// It would be longer than [`URL_MAX`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooLong;

impl UrlText {
    /// Adds `part` if it fits.
    pub fn push_str(&mut self, part: &str) -> Result<(), TooLong> {
        if part.len() > URL_MAX.saturating_sub(self.0.len()) {
            return Err(TooLong);
        }
        self.0.push_str(part);
        Ok(())
    }

    /// Adds `c` if it fits.
    pub fn push(&mut self, c: char) -> Result<(), TooLong> {
        self.push_str(c.encode_utf8(&mut [0; 4]))
    }

    /// Makes it empty.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

impl Deref for UrlText {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

/// A parsed URL; all parts are slices of the text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Url<'a> {
    /// Whether the connection is TLS (`https`).
    pub tls: bool,
    /// `user:password` as written.
    pub userinfo: Option<&'a str>,
    /// Name or address; the brackets of an IPv6 literal are taken off, a zone is kept (`fe80::1%25eth0`, RFC 6874).
    pub host: &'a str,
    /// Port, the scheme's own if none is given.
    pub port: u16,
    /// Path without query; never empty.
    pub path: &'a str,
    /// What stands behind the `?`, if there is one.
    pub query: Option<&'a str>,
}

/// Why a text is no URL of ours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NotUrl {
    /// Neither `http` nor `https`.
    Scheme,
    /// `https://`, in a build without TLS.
    Tls,
    /// No host, or one with characters that no host has.
    Host,
    /// The port is not a number from 1 to 65535.
    Port,
    /// White space or a control character: it could smuggle a header in.
    Character,
}

impl<'a> Url<'a> {
    /// Parses `http://` and `https://` URLs.
    pub fn parse(text: &'a str) -> Result<Self, NotUrl> {
        if text.bytes().any(|b| b <= b' ' || b == 0x7f) {
            return Err(NotUrl::Character);
        }
        let (scheme, rest) = split_scheme(text).ok_or(NotUrl::Scheme)?;
        let tls = match scheme {
            s if s.eq_ignore_ascii_case("https") && cfg!(feature = "tls") => true,
            s if s.eq_ignore_ascii_case("https") => return Err(NotUrl::Tls),
            s if s.eq_ignore_ascii_case("http") => false,
            _ => return Err(NotUrl::Scheme),
        };
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, target) = rest.split_at_checked(end).ok_or(NotUrl::Host)?;
        let user_len = authority.bytes().rposition(|b| b == b'@');
        let hostport = user_len.and_then(|len| authority.get(len.saturating_add(1)..)).unwrap_or(authority);
        let userinfo = user_len.and_then(|len| authority.get(..len));
        let (host, port) = split_port(hostport)?;
        // A fragment is never sent (RFC 9110 section 7.1).
        let target = target.split_once('#').map_or(target, |(target, _)| target);
        let (path, query) = match target.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (target, None),
        };
        Ok(Self {
            tls,
            userinfo,
            host,
            port: port.unwrap_or(if tls { 443 } else { 80 }),
            path: if path.is_empty() { "/" } else { path },
            query,
        })
    }

    /// Whether both speak to the same server in the same way: then credentials may follow a redirect.
    pub fn same_origin(&self, other: &Url<'_>) -> bool {
        self.tls == other.tls && self.port == other.port && self.host.eq_ignore_ascii_case(other.host)
    }

    /// Whether the port is the scheme's own, which the `Host` field leaves out.
    pub fn has_default_port(&self) -> bool {
        self.port == if self.tls { 443 } else { 80 }
    }
}

/// What stands before and behind `://`. (A search for a text of three bytes would bring in the library's 2 KB for long ones.)
pub fn split_scheme(text: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = text.split_once(':')?;
    Some((scheme, rest.strip_prefix("//")?))
}

fn split_port(hostport: &str) -> Result<(&str, Option<u16>), NotUrl> {
    let (host, port) = match hostport.strip_prefix('[') {
        Some(literal) => {
            let (host, port) = literal.split_once(']').ok_or(NotUrl::Host)?;
            if !host.as_bytes().contains(&b':') {
                return Err(NotUrl::Host);
            }
            match port.strip_prefix(':') {
                Some(port) => (host, Some(port)),
                None if port.is_empty() => (host, None),
                None => return Err(NotUrl::Host),
            }
        }
        None => match hostport.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (hostport, None),
        },
    };
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"-._~:%".contains(&b);
    if host.is_empty() || !host.bytes().all(allowed) {
        return Err(NotUrl::Host);
    }
    let port = match port {
        None | Some("") => None,
        Some(digits) => {
            let port = number(digits.as_bytes()).filter(|port| *port != 0);
            Some(port.ok_or(NotUrl::Port)?)
        }
    };
    Ok((host, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts() {
        let url = Url::parse("https://u:p@Host.example:8443/a/b?x=%2F&y#f").unwrap();
        assert!(url.tls);
        assert_eq!(
            (url.userinfo, url.host, url.port, url.path, url.query),
            (Some("u:p"), "Host.example", 8443, "/a/b", Some("x=%2F&y"))
        );
        let url = Url::parse("HTTP://h?q").unwrap();
        assert_eq!((url.tls, url.port, url.path, url.query), (false, 80, "/", Some("q")));
        assert_eq!(Url::parse("http://u@v@h/").unwrap().userinfo, Some("u@v"));
    }

    #[test]
    fn ipv6_literals() {
        let url = Url::parse("http://[fe80::1%25eth0]:81/").unwrap();
        assert_eq!((url.host, url.port), ("fe80::1%25eth0", 81));
        assert_eq!(Url::parse("http://[::1]").unwrap().host, "::1");
    }

    #[test]
    fn what_is_no_url() {
        for (text, why) in [
            ("", NotUrl::Scheme),
            ("host/path", NotUrl::Scheme),
            ("ftp://h/", NotUrl::Scheme),
            ("://h/", NotUrl::Scheme),
            ("https://", NotUrl::Host),
            ("https:///x", NotUrl::Host),
            ("https://u@/", NotUrl::Host),
            ("http://[::1/", NotUrl::Host),
            ("http://[::1]x/", NotUrl::Host),
            ("http://[h]/", NotUrl::Host),
            ("http://a!b/", NotUrl::Host),
            ("http://h:0/", NotUrl::Port),
            ("http://h:65536/", NotUrl::Port),
            ("http://h:+1/", NotUrl::Port),
            ("http://::1/", NotUrl::Host),
            ("http://h/a b", NotUrl::Character),
            ("http://h/a\r\nX: y", NotUrl::Character),
        ] {
            assert_eq!(Url::parse(text), Err(why), "{text:?}");
        }
    }
}
