//! Message heads (RFC 9112 sections 2 to 5): the request's is written, the answer's is read by `httparse`.

use crate::error::{Error, HttpError};
use crate::http::body::Framing;
use crate::http::url::Url;
use crate::sink::{Sink, put_all};
use crate::text;

/// Header fields of an answer that are looked at. Servers send ten to thirty.
const FIELDS_MAX: usize = 64;
/// Longest `user:password`, decoded.
const USERINFO_MAX: usize = 512;

/// Names itself to servers.
const USER_AGENT: &str = concat!("rdreport/", env!("CARGO_PKG_VERSION"));

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
    match host.contains(':') {
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
    text::base64(decode(userinfo, &mut [0; USERINFO_MAX]), out)?;
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
    let mut bytes = text.bytes();
    for slot in buf.iter_mut() {
        let Some(byte) = bytes.next() else { break };
        let mut ahead = bytes.clone();
        let digit = |b: Option<u8>| b.and_then(|b| char::from(b).to_digit(16));
        *slot = match (byte, digit(ahead.next()), digit(ahead.next())) {
            (b'%', Some(high), Some(low)) => {
                bytes = ahead;
                (high << 4 | low) as u8
            }
            _ => byte,
        };
        len += 1;
    }
    buf.get(..len).unwrap_or_default()
}

/// The head of an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Answer {
    /// Status code, 100 to 999.
    pub status: u16,
    /// How its body is framed.
    pub framing: Framing,
    /// Bytes of the head.
    pub len: usize,
}

impl Answer {
    /// Reads the head at the beginning of `bytes`; `None` when its end has not come yet.
    pub fn parse(bytes: &[u8]) -> Result<Option<Self>, HttpError> {
        let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
        let mut response = httparse::Response::new(&mut fields);
        let len = match response.parse(bytes) {
            Ok(httparse::Status::Complete(len)) => len,
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(httparse::Error::TooManyHeaders) => return Err(HttpError::HeadTooLarge),
            Err(_) => return Err(HttpError::NotHttp),
        };
        let status = response.code.unwrap_or(0);
        if !(100..=999).contains(&status) {
            return Err(HttpError::NotHttp);
        }
        Ok(Some(Self { status, framing: framing(status, response.headers)?, len }))
    }

    /// The value of the field `name` in the head that `bytes` begin with.
    pub fn field<'b>(&self, name: &str, bytes: &'b [u8]) -> Option<&'b str> {
        let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
        let mut response = httparse::Response::new(&mut fields);
        response.parse(bytes).ok()?;
        let field = response.headers.iter().find(|f| f.name.eq_ignore_ascii_case(name))?;
        core::str::from_utf8(field.value).ok().map(str::trim_ascii)
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

/// How long the body is (RFC 9112 section 6.3). A message with two lengths could be read in two ways and is refused.
fn framing(status: u16, fields: &[httparse::Header<'_>]) -> Result<Framing, HttpError> {
    let mut framing = None;
    for field in fields {
        let this = if field.name.eq_ignore_ascii_case("Content-Length") {
            Framing::Length(text::number(field.value.trim_ascii()).ok_or(HttpError::NotHttp)?)
        } else if field.name.eq_ignore_ascii_case("Transfer-Encoding") {
            match field.value.trim_ascii().eq_ignore_ascii_case(b"chunked") {
                true => Framing::Chunked,
                false => return Err(HttpError::NotHttp),
            }
        } else {
            continue;
        };
        if framing.is_some_and(|earlier| earlier != this) {
            return Err(HttpError::NotHttp);
        }
        framing = Some(this);
    }
    Ok(match (status, framing) {
        (100..200 | 204 | 304, _) => Framing::Length(0),
        (_, Some(framing)) => framing,
        (_, None) => Framing::UntilClose,
    })
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
                "\r\nAccept: */*\r\nConnection: close\r\nContent-Type: application/json\r\nX-Report-Id: id\r\n",
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
        assert_eq!(answer, Answer { status: 307, framing: Framing::Length(5), len: bytes.len() - 5 });
        assert_eq!(answer.field("location", bytes), Some("/x"));
        assert_eq!(answer.field("Date", bytes), None);
        for cut in 0..bytes.len() - 5 {
            assert_eq!(Answer::parse(&bytes[..cut]), Ok(None), "{cut}");
        }
    }

    #[test]
    fn what_cannot_be_told_apart_is_refused() {
        for head in [
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
            "HTTP/1.1 099 OK\r\n\r\n",
            "SSH-2.0-OpenSSH_9.2\r\n\r\n",
            "\x15\x03\x01\x00\x02\x02\x46",
        ] {
            assert_eq!(Answer::parse(head.as_bytes()), Err(HttpError::NotHttp), "{head:?}");
        }
        let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "A: b\r\n".repeat(FIELDS_MAX + 1));
        assert_eq!(Answer::parse(many.as_bytes()), Err(HttpError::HeadTooLarge));
    }

    #[test]
    fn answers_without_a_body() {
        let framing = |head: &str| Answer::parse(head.as_bytes()).unwrap().unwrap().framing;
        assert_eq!(framing("HTTP/1.1 204 No Content\r\nContent-Length: 9\r\n\r\n"), Framing::Length(0));
        assert_eq!(framing("HTTP/1.0 200 OK\r\n\r\n"), Framing::UntilClose);
        assert_eq!(framing("HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\n\r\n"), Framing::Chunked);
    }
}
