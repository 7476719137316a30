//! Message heads (RFC 9112 sections 2 to 5): the request's is written, the answer's is read.

use crate::error::{Error, HttpError};
use crate::escape;
use crate::http::body::Framing;
use crate::http::url::Url;
use crate::sink::{Sink, put_all};
use crate::text;

/// Longest `user:password`, decoded.
const USERINFO_MAX: usize = 512;

/// Names itself to servers.
const USER_AGENT: &str = concat!("rdreport/", env!("CARGO_PKG_VERSION"));

/// Names of compression methods (`Content-Encoding`), and what another one is called.
pub const CODINGS: [&str; 9] =
    ["gzip", "x-gzip", "deflate", "br", "zstd", "compress", "x-compress", "dcb", "an unknown method"];
/// Values of `Content-Encoding` that servers send for what is not compressed.
const PLAIN: [&str; 6] = ["", "identity", "none", "utf-8", "binary", "aws-chunked"];

/// What a request says beside its method and URL.
#[derive(Clone, Copy)]
pub struct Fields<'a> {
    /// `Content-Type` of the body; a presigned URL may forbid it.
    pub content_type: Option<&'a str>,
    /// Whether the body is gzip (`Content-Encoding`).
    pub gzip: bool,
    /// Length of the body; `None` is chunked.
    pub length: Option<u64>,
    /// `X-Report-Id`.
    pub report_id: &'a str,
    /// `X-Report-Part`: which of several requests with the same id it is.
    pub part: Option<u64>,
    /// The owner's lines, each `Name: value\r\n`; they replace ours of the same name.
    pub own: &'a [u8],
}

/// Writes the request's head. With a proxy it is one to the proxy, which names the server in its first line.
pub fn write(
    method: &str,
    url: &Url<'_>,
    fields: &Fields<'_>,
    proxy: Option<&Url<'_>>,
    out: &mut dyn Sink,
) -> Result<(), Error> {
    put_all(out, &[method, " "])?;
    if proxy.is_some() {
        put_all(out, &["http://"])?;
        put_host(url, url.has_default_port(), out)?;
    }
    put_all(out, &[url.path])?;
    if let Some(query) = url.query {
        put_all(out, &["?", query])?;
    }
    put_all(out, &[" HTTP/1.1\r\n"])?;
    let mut part = [0; text::DECIMAL_MAX];
    let part = fields.part.map(|number| text::decimal(number, &mut part));
    if !is_given(fields.own, "Host") {
        put_all(out, &["Host: "])?;
        put_host(url, url.has_default_port(), out)?;
        put_all(out, &["\r\n"])?;
    }
    for (name, value) in [
        ("User-Agent", Some(USER_AGENT)),
        ("Accept", Some("*/*")),
        ("Accept-Encoding", Some("identity")),
        ("Connection", Some("close")),
        ("Content-Type", fields.content_type),
        ("Content-Encoding", fields.gzip.then_some("gzip")),
        ("X-Report-Id", Some(fields.report_id)),
        ("X-Report-Part", part),
    ] {
        if let Some(value) = value.filter(|_| !is_given(fields.own, name)) {
            put_all(out, &[name, ": ", value, "\r\n"])?;
        }
    }
    if let Some(userinfo) = url.userinfo.filter(|_| !is_given(fields.own, "Authorization")) {
        put_basic("Authorization", userinfo, out)?;
    }
    if let Some(userinfo) = proxy.and_then(|proxy| proxy.userinfo) {
        put_basic("Proxy-Authorization", userinfo, out)?;
    }
    out.put(fields.own)?;
    match fields.length {
        Some(n) => put_all(out, &["Content-Length: ", text::decimal(n, &mut [0; text::DECIMAL_MAX]), "\r\n\r\n"]),
        None => put_all(out, &["Transfer-Encoding: chunked\r\n\r\n"]),
    }
}

/// Writes the head by which a proxy is asked for a tunnel to the server of `url`.
pub fn write_connect(url: &Url<'_>, proxy: &Url<'_>, out: &mut dyn Sink) -> Result<(), Error> {
    put_all(out, &["CONNECT "])?;
    put_host(url, false, out)?;
    put_all(out, &[" HTTP/1.1\r\nHost: "])?;
    put_host(url, false, out)?;
    put_all(out, &["\r\nUser-Agent: ", USER_AGENT, "\r\n"])?;
    if let Some(userinfo) = proxy.userinfo {
        put_basic("Proxy-Authorization", userinfo, out)?;
    }
    put_all(out, &["\r\n"])
}

/// Writes host and port as they stand in a URL.
fn put_host(url: &Url<'_>, without_port: bool, out: &mut dyn Sink) -> Result<(), Error> {
    // A zone means something on this machine only (RFC 6874 section 4).
    let host = url.host.split('%').next().unwrap_or_default();
    match host.as_bytes().contains(&b':') {
        true => put_all(out, &["[", host, "]"])?,
        false => put_all(out, &[host])?,
    }
    match without_port {
        true => Ok(()),
        false => put_all(out, &[":", text::decimal(url.port.into(), &mut [0; text::DECIMAL_MAX])]),
    }
}

/// Writes a field with basic credentials (RFC 7617).
fn put_basic(name: &str, userinfo: &str, out: &mut dyn Sink) -> Result<(), Error> {
    put_all(out, &[name, ": Basic "])?;
    escape::base64(decode(userinfo, &mut [0; USERINFO_MAX]), out)?;
    put_all(out, &["\r\n"])
}

/// Whether the owner's lines hold a field of this name.
fn is_given(own: &[u8], name: &str) -> bool {
    own.split(|b| *b == b'\n').any(|line| {
        let (start, rest) = line.split_at(name.len().min(line.len()));
        start.eq_ignore_ascii_case(name.as_bytes()) && rest.first() == Some(&b':')
    })
}

/// Percent-decodes a URL's userinfo (RFC 3986 section 2.1).
fn decode<'b>(text: &str, buf: &'b mut [u8; USERINFO_MAX]) -> &'b [u8] {
    let mut len = 0;
    for (slot, byte) in buf.iter_mut().zip(unpercent(text)) {
        *slot = byte;
        len += 1;
    }
    buf.get(..len).unwrap_or_default()
}

/// The bytes of `text` with those that are percent-encoded decoded.
pub(super) fn unpercent(text: &str) -> impl Iterator<Item = u8> {
    let mut bytes = text.bytes();
    core::iter::from_fn(move || {
        let byte = bytes.next()?;
        let mut ahead = bytes.clone();
        let digit = |b: Option<u8>| b.and_then(|b| char::from(b).to_digit(16));
        Some(match (byte, digit(ahead.next()), digit(ahead.next())) {
            (b'%', Some(high), Some(low)) => {
                bytes = ahead;
                (high << 4 | low) as u8
            }
            _ => byte,
        })
    })
}

/// Longest version in a status line: none has more than `1.1`, and what is longer is no version.
const VERSION_MAX: usize = 8;

/// The head of an answer, or as much of it as came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Answer {
    /// Status code, 100 to 999.
    pub status: u16,
    /// Bytes of the head.
    pub len: usize,
    /// Whether its end came.
    pub is_whole: bool,
}

impl Answer {
    /// Reads the head at the beginning of `bytes`; `None` when its end has not come yet. Only the status line must be as it should:
    /// what a peer says in it holds, whatever its fields are like.
    pub fn parse(bytes: &[u8]) -> Result<Option<Self>, HttpError> {
        let Some(status) = status(bytes)? else { return Ok(None) };
        Ok(head_len(bytes).map(|len| Self { status, len, is_whole: true }))
    }

    /// Reads a final answer's head of which no more than `bytes` will come; `None` when they hold no status.
    pub fn part(bytes: &[u8]) -> Option<Self> {
        let answer = Self { status: status(bytes).ok()??, len: bytes.len(), is_whole: false };
        (!answer.is_interim()).then_some(answer)
    }

    /// Whether `bytes` begin with the status line of an interim answer.
    pub fn is_interim_begun(bytes: &[u8]) -> bool {
        matches!(status(bytes), Ok(Some(100..200)))
    }

    /// The value of the field `name` in the head that `bytes` begin with.
    pub fn field<'b>(&self, name: &str, bytes: &'b [u8]) -> Option<&'b str> {
        let (_, value) = self.fields(bytes).find(|(field, _)| field.eq_ignore_ascii_case(name.as_bytes()))?;
        core::str::from_utf8(value).ok()
    }

    /// The number of the method in [`CODINGS`] by which the body is compressed.
    pub fn coding(&self, bytes: &[u8]) -> Option<u8> {
        for name in ["Content-Encoding", "Transfer-Encoding"] {
            let value = self.field(name, bytes).unwrap_or_default();
            let is_plain = |coding: &str| {
                PLAIN.iter().any(|plain| plain.eq_ignore_ascii_case(coding)) || coding.eq_ignore_ascii_case("chunked")
            };
            if let Some(coding) = value.split(',').map(str::trim_ascii).find(|coding| !is_plain(coding)) {
                let known = CODINGS.iter().position(|known| known.eq_ignore_ascii_case(coding));
                return Some(known.unwrap_or(CODINGS.len() - 1) as u8);
            }
        }
        None
    }

    /// Name and value of each field. Of a folded one it is the first line, and what is no field is left out.
    fn fields<'b>(&self, bytes: &'b [u8]) -> impl Iterator<Item = (&'b [u8], &'b [u8])> {
        let lines = self.lines(bytes).filter(|line| !is_continued(line));
        lines.filter_map(|line| {
            let (name, value) = line.split_at_checked(line.iter().position(|b| *b == b':')?)?;
            Some((name.trim_ascii(), value.get(1..)?.trim_ascii()))
        })
    }

    /// The lines between the status line and the empty one; the last one of a head that was cut is left out.
    fn lines<'b>(&self, bytes: &'b [u8]) -> impl Iterator<Item = &'b [u8]> {
        let head = bytes.get(..self.len).unwrap_or_default();
        let head = head.get(..head.iter().rposition(|b| *b == b'\n').unwrap_or(0)).unwrap_or_default();
        let lines = head.get(leading(head)..).unwrap_or_default().split(|b| *b == b'\n').skip(1);
        lines.map(|line| line.trim_ascii_end()).filter(|line| !line.is_empty())
    }

    /// How long the body is (RFC 9112 section 6.3). A message with two lengths, or whose fields could be read in two ways, is refused.
    pub fn framing(&self, bytes: &[u8]) -> Result<Framing, HttpError> {
        let is_plain = |line: &[u8]| match line.iter().position(|b| *b == b':') {
            Some(end) => end > 0 && line.iter().take(end).all(u8::is_ascii_graphic) && !line.contains(&0),
            None => false,
        };
        if !self.is_whole || !self.lines(bytes).all(is_plain) {
            return Err(HttpError::BadFraming);
        }
        let mut framing = None;
        for (name, value) in self.fields(bytes) {
            let this = if name.eq_ignore_ascii_case(b"Content-Length") {
                Framing::Length(text::number(value).ok_or(HttpError::BadFraming)?)
            } else if name.eq_ignore_ascii_case(b"Transfer-Encoding") {
                match value.eq_ignore_ascii_case(b"chunked") {
                    true => Framing::Chunked,
                    false => return Err(HttpError::BadFraming),
                }
            } else {
                continue;
            };
            if framing.is_some_and(|earlier| earlier != this) {
                return Err(HttpError::BadFraming);
            }
            framing = Some(this);
        }
        Ok(match (self.status, framing) {
            (100..200 | 204 | 304, _) => Framing::Length(0),
            (_, Some(framing)) => framing,
            (_, None) => Framing::UntilClose,
        })
    }

    /// Whether it only says that the final answer is still to come.
    pub fn is_interim(&self) -> bool {
        self.status < 200
    }

    /// Whether the request was done.
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

/// Whether `line` goes on with the field before it (RFC 9112 section 5.2).
fn is_continued(line: &[u8]) -> bool {
    matches!(line.first(), Some(b' ' | b'\t'))
}

/// Bytes of the empty lines before a status line, which are passed over (RFC 9112 section 2.2).
fn leading(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|b| matches!(b, b'\r' | b'\n')).count()
}

/// Bytes of the head that `bytes` begin with, its empty line included. Lines may end with LF alone (RFC 9112 section 2.2).
fn head_len(bytes: &[u8]) -> Option<usize> {
    let mut at = leading(bytes);
    loop {
        let rest = bytes.get(at..)?;
        let end = rest.iter().position(|b| *b == b'\n')?;
        at = at.saturating_add(end).saturating_add(1);
        if rest.iter().take(end).all(|b| *b == b'\r') {
            return Some(at);
        }
    }
}

/// Reads the status code of the status line that `bytes` begin with; `None` when it has not come yet.
fn status(bytes: &[u8]) -> Result<Option<u16>, HttpError> {
    const NAME: &[u8] = b"HTTP/";
    let line = bytes.get(leading(bytes)..).unwrap_or_default();
    let (name, rest) = line.split_at(NAME.len().min(line.len()));
    if !NAME.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name)) {
        return Err(HttpError::NotHttp);
    }
    let version = rest.iter().take_while(|b| b.is_ascii_digit() || **b == b'.').count();
    let rest = rest.get(version..).unwrap_or_default();
    let blanks = rest.iter().take_while(|b| matches!(b, b' ' | b'\t')).count();
    let (code, after) = rest.get(blanks..).unwrap_or_default().split_at_checked(3).unwrap_or((&[], &[]));
    let is_version = (1..=VERSION_MAX).contains(&version) && (blanks > 0 || rest.is_empty());
    if !is_version && (version > VERSION_MAX || !rest.is_empty()) {
        return Err(HttpError::NotHttp);
    }
    if code.is_empty() {
        // Not all of it is there.
        let is_begun = rest.iter().skip(blanks).all(u8::is_ascii_digit);
        return if is_begun { Ok(None) } else { Err(HttpError::NotHttp) };
    }
    let is_end = matches!(after.first(), None | Some(b' ' | b'\t' | b'\r' | b'\n'));
    let code = text::number(code).filter(|code| (100..=999).contains(code) && is_end);
    code.map(Some).ok_or(HttpError::NotHttp)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(url: &str, own: &str, length: Option<u64>) -> String {
        let fields = Fields {
            content_type: Some("application/json"),
            gzip: false,
            length,
            report_id: "id",
            part: None,
            own: own.as_bytes(),
        };
        let mut out = Vec::new();
        write("POST", &Url::parse(url).unwrap(), &fields, None, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_request_head() {
        let head = request("https://us%3Aer:p%40@[fe80::1%25eth0]:8443/a?b=%20", "", Some(12));
        assert_eq!(
            head,
            concat!(
                "POST /a?b=%20 HTTP/1.1\r\nHost: [fe80::1]:8443\r\nUser-Agent: rdreport/",
                env!("CARGO_PKG_VERSION"),
                "\r\nAccept: */*\r\nAccept-Encoding: identity\r\nConnection: close\r\nContent-Type: application/json\r\nX-Report-Id: id\r\n",
                "Authorization: Basic dXM6ZXI6cEA=\r\nContent-Length: 12\r\n\r\n"
            )
        );
    }

    #[test]
    fn the_owners_fields_replace_ours() {
        let head = request("http://u:p@h/", "authorization: Bearer x\r\nUser-Agent: me\r\n", None);
        assert_eq!(head.matches("uthorization").count(), 1);
        assert!(head.contains("User-Agent: me\r\n") && !head.contains("rdreport"));
        assert!(head.contains("Host: h\r\n") && head.ends_with("Transfer-Encoding: chunked\r\n\r\n"));
    }

    #[test]
    fn heads_to_a_proxy() {
        let proxy = Url::parse("http://u%3a:p@proxy:3128").unwrap();
        let fields = Fields { content_type: None, gzip: false, length: Some(0), report_id: "id", part: None, own: b"" };
        let written = |url: &str| {
            let (mut request, mut connect) = (Vec::new(), Vec::new());
            let url = Url::parse(url).unwrap();
            write("POST", &url, &fields, Some(&proxy), &mut request).unwrap();
            write_connect(&url, &proxy, &mut connect).unwrap();
            (String::from_utf8(request).unwrap(), String::from_utf8(connect).unwrap())
        };
        let (request, connect) = written("http://h/a?b");
        assert!(request.starts_with("POST http://h/a?b HTTP/1.1\r\nHost: h\r\n"), "{request}");
        assert!(request.contains("\r\nProxy-Authorization: Basic dTo6cA==\r\n"), "{request}");
        assert!(connect.starts_with("CONNECT h:80 HTTP/1.1\r\nHost: h:80\r\n"), "{connect}");
        assert!(connect.ends_with("\r\nProxy-Authorization: Basic dTo6cA==\r\n\r\n"), "{connect}");
        let (request, connect) = written("http://[2001:db8::1]:8080");
        assert!(
            request.starts_with("POST http://[2001:db8::1]:8080/ HTTP/1.1\r\nHost: [2001:db8::1]:8080\r\n"),
            "{request}"
        );
        assert!(
            connect.starts_with("CONNECT [2001:db8::1]:8080 HTTP/1.1\r\nHost: [2001:db8::1]:8080\r\n"),
            "{connect}"
        );
    }

    #[test]
    fn an_answer_head() {
        let bytes = b"HTTP/1.1 307 Temporary\r\nLocation: /x \r\nContent-Length: 5\r\n\r\nhello";
        let answer = Answer::parse(bytes).unwrap().unwrap();
        assert_eq!(answer, Answer { status: 307, len: bytes.len() - 5, is_whole: true });
        assert_eq!(answer.framing(bytes), Ok(Framing::Length(5)));
        assert_eq!(answer.field("location", bytes), Some("/x"));
        assert_eq!(answer.field("Date", bytes), None);
        for cut in 0..bytes.len() - 5 {
            assert_eq!(Answer::parse(&bytes[..cut]), Ok(None), "{cut}");
            let part = Answer::part(&bytes[..cut]);
            assert_eq!(part.map(|part| part.status), (cut >= 12).then_some(307), "{cut}");
            let location = part.and_then(|part| part.field("Location", &bytes[..cut]));
            assert_eq!(location, (cut >= 39).then_some("/x"), "a field that was cut is none: {cut}");
        }
    }

    #[test]
    fn the_status_line_decides() {
        let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "A: b\r\n".repeat(300));
        for head in [
            "HTTP/1.1 200 OK\r\nX: a\r\n b\r\n\r\n",
            "HTTP/1.1 200 OK\r\nX : a\r\nno field\r\n: none\r\n\r\n",
            "HTTP/1.1 200 OK\r\nX: a\0b\r\nY: \u{e9}\r\n\r\n",
            "HTTP/1.1 200 OK\nX: a\n\n",
            "HTTP/1.1 200\r\n\r\n",
            "HTTP/1.1 200 \r\n\r\n",
            "HTTP/1.1  200 OK\r\n\r\n",
            "HTTP/1.0 200 OK\r\n\r\n",
            "http/1.1 200 ok\r\n\r\n",
            "HTTP/2 200\r\n\r\n",
            "\r\n\n\r\nHTTP/1.1 200 OK\r\n\r\n",
            &many,
        ] {
            let answer = Answer::parse(head.as_bytes()).unwrap().unwrap();
            assert_eq!(answer, Answer { status: 200, len: head.len(), is_whole: true }, "{head:?}");
        }
        assert_eq!(Answer::part(b"HTTP/1.1 100"), None, "an interim answer decides nothing");
    }

    #[test]
    fn what_is_no_status_line() {
        for head in [
            "HTTP/1.1 099 OK\r\n\r\n",
            "HTTP/1.1 2000 OK\r\n\r\n",
            "HTTP/1.1 20\r\n\r\n",
            "HTTP/1.1 2x0 OK\r\n\r\n",
            "HTTP/1.1200 OK\r\n\r\n",
            "HTTP/1.1\r\n\r\n",
            "HTTP/ 200 OK\r\n\r\n",
            "HTTP/111111111 200 OK\r\n\r\n",
            "ICY 200 OK\r\n\r\n",
            "HTTPS/1.1 200 OK\r\n\r\n",
            "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            "\0\0\x12\x04\0\0\0\0\0",
            "SSH-2.0-OpenSSH_9.2\r\n\r\n",
            "\x15\x03\x01\x00\x02\x02\x46",
            "hello",
        ] {
            assert_eq!(Answer::parse(head.as_bytes()), Err(HttpError::NotHttp), "{head:?}");
            assert_eq!(Answer::part(head.as_bytes()), None, "{head:?}");
        }
    }

    #[test]
    fn a_body_of_two_lengths_is_refused() {
        for fields in [
            "Content-Length: 5\r\nTransfer-Encoding: chunked",
            "Content-Length: 5\r\nContent-Length: 6",
            "Content-Length: 2, 2",
            "Content-Length: +5",
            "Content-Length:",
            "Content-Length:\r\n 5",
            "Content-Length : 5",
            " Content-Length: 5",
            "Content-Length: 99999999999999999999",
            "Transfer-Encoding: gzip, chunked",
            "Transfer-Encoding: identity",
            "X: a\0b",
            "no field",
        ] {
            let head = format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\n");
            let answer = Answer::parse(head.as_bytes()).unwrap().unwrap();
            assert_eq!(answer.framing(head.as_bytes()), Err(HttpError::BadFraming), "{fields:?}");
        }
        let cut = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n";
        assert_eq!(Answer::part(cut).unwrap().framing(cut), Err(HttpError::BadFraming));
    }

    #[test]
    fn compressed_bodies_are_known() {
        let coding = |field: &str| {
            let head = format!("HTTP/1.1 200 OK\r\n{field}\r\n\r\n");
            let answer = Answer::parse(head.as_bytes()).unwrap().unwrap();
            answer.coding(head.as_bytes()).map(|coding| CODINGS[usize::from(coding)])
        };
        for (field, expected) in [
            ("X: y", None),
            ("content-encoding: GZIP", Some("gzip")),
            ("Content-Encoding: identity, br", Some("br")),
            ("Content-Encoding: lz5", Some("an unknown method")),
            ("Content-Encoding: identity", None),
            ("Content-Encoding: aws-chunked", None),
            ("Content-Encoding:", None),
            ("Transfer-Encoding: gzip, chunked", Some("gzip")),
            ("Transfer-Encoding: chunked", None),
        ] {
            assert_eq!(coding(field), expected, "{field}");
        }
    }

    #[test]
    fn answers_without_a_body() {
        let framing = |head: &str| Answer::parse(head.as_bytes()).unwrap().unwrap().framing(head.as_bytes()).unwrap();
        assert_eq!(framing("HTTP/1.1 204 No Content\r\nContent-Length: 9\r\n\r\n"), Framing::Length(0));
        assert_eq!(framing("HTTP/1.0 200 OK\r\n\r\n"), Framing::UntilClose);
        assert_eq!(framing("HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\n\r\n"), Framing::Chunked);
    }
}
