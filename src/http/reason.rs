//! What a server says of its refusal: a short line out of the body of an answer, for a person at a console. It comes from elsewhere, and
//! may repeat what was sent to it: only graphic characters are kept, and our own secrets are masked.

use crate::escape;
use crate::http::head::unpercent;
use crate::http::url::Url;
use crate::settings::redact::MASK;
use crate::text::{Text, is_graphic};
use alloc::string::String;
use alloc::vec::Vec;
use zeroize::Zeroizing;

/// Bytes of a body that are looked at: the reason stands at its beginning.
pub const BODY_MAX: usize = 4096;
/// Characters of a reason that are shown.
const SHOWN_MAX: usize = 200;
/// Bytes of a reason before secrets are masked and it is cut: what is shown, and a long token before it.
const TEXT_MAX: usize = 1024;
/// Shortest word of our own that is a secret: shorter ones are numbers and flags.
const WORD_MIN: usize = 4;
/// Bytes in a row of a secret that are masked, even if not all of it comes back.
const RUN_MIN: usize = 8;

/// Members of JSON objects and elements of XML that hold an error's code, and those that hold its words.
const CODES: [&str; 3] = ["code", "error", "type"];
const WORDS: [&str; 8] = ["message", "error_description", "detail", "reason", "title", "text", "error_message", "h1"];

/// What was sent that a server may repeat, and nobody else may see.
pub struct Secrets(Zeroizing<Vec<u8>>);

impl Secrets {
    /// The values of header fields, and of each URL userinfo and query, as they are and decoded.
    pub fn new(own: &[u8], urls: &[Option<&Url<'_>>]) -> Self {
        let urls = || urls.iter().copied().flatten();
        let len = |url: &Url<'_>| url.userinfo.map_or(0, str::len).saturating_add(url.query.map_or(0, str::len));
        // Room for all from the beginning: what grows leaves copies behind.
        let room = urls().map(len).fold(own.len(), |sum, len| sum.saturating_add(len.saturating_mul(4)));
        let mut all = Zeroizing::new(Vec::with_capacity(room.saturating_add(64)));
        for line in own.split(|b| *b == b'\n') {
            all.extend_from_slice(line.splitn(2, |b| *b == b':').nth(1).unwrap_or_default());
            all.push(b' ');
        }
        for url in urls() {
            for part in [url.userinfo, url.query].into_iter().flatten() {
                all.extend_from_slice(part.as_bytes());
                all.push(b' ');
                let start = all.len();
                all.extend(unpercent(part));
                let decoded: Zeroizing<Vec<u8>> = Zeroizing::new(all.get(start..).unwrap_or_default().to_vec());
                all.push(b' ');
                if url.userinfo == Some(part) {
                    let _ = escape::base64(&decoded, &mut Pushed(&mut all));
                    all.push(b' ');
                }
            }
        }
        Self(all)
    }

    /// Number of bytes that `text` begins with and that are a secret, or part of one.
    fn len_at(&self, text: &[u8]) -> usize {
        let words = self.0.split(|b| b.is_ascii_whitespace() || b"&=:,;\"'".contains(b));
        words.filter(|word| word.len() >= WORD_MIN).map(|word| common(text, word)).max().unwrap_or(0)
    }
}

/// Number of bytes that `text` begins with and that are `word`, a long part of it, or its beginning, cut by the end of `text`.
fn common(text: &[u8], word: &[u8]) -> usize {
    let mut most = 0;
    for start in 0..word.len() {
        let tail = word.get(start..).unwrap_or_default();
        let len = text.iter().zip(tail).take_while(|(a, b)| a.eq_ignore_ascii_case(b)).count();
        let is_all = start == 0 && (len == word.len() || len == text.len() && len >= WORD_MIN);
        if is_all || len >= RUN_MIN {
            most = len.max(most);
        }
    }
    most
}

struct Pushed<'v>(&'v mut Vec<u8>);

impl crate::sink::Sink for Pushed<'_> {
    fn put(&mut self, bytes: &[u8]) -> Result<(), crate::error::Error> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }
}

/// The reason in `body`, the beginning of an answer's; before it `code`, a header field's. Empty where there is none.
pub fn reason(code: &str, body: &[u8], secrets: &Secrets) -> String {
    let mut buf = [0; TEXT_MAX];
    let mut line = Text::new(&mut buf);
    put_graphic(code.as_bytes(), &mut line);
    let body = body.strip_prefix("\u{feff}".as_bytes()).unwrap_or(body).trim_ascii();
    let find = match body.first() {
        Some(b'{' | b'[') => member,
        _ => element,
    };
    let mut is_known = false;
    for names in [CODES.as_slice(), WORDS.as_slice()] {
        let found = names.iter().find_map(|name| find(body, name).filter(|found| !found.trim_ascii().is_empty()));
        if let Some(found) = found.filter(|found| line.as_bytes() != *found) {
            is_known = true;
            line.str(if line.as_bytes().is_empty() { "" } else { ": " });
            let mut plain = [0; TEXT_MAX];
            let mut plain = Text::new(&mut plain);
            match body.first() {
                Some(b'{' | b'[') if escape::unjson(found, &mut plain).is_some() => {
                    put_graphic(plain.as_bytes(), &mut line);
                }
                _ => put_graphic(found, &mut line),
            }
        }
    }
    if !is_known {
        line.str(if line.as_bytes().is_empty() || body.is_empty() { "" } else { ": " });
        put_text(body, &mut line);
    }
    shown(line.as_str().trim_ascii(), secrets)
}

/// The first [`SHOWN_MAX`] characters of `text`, with secrets masked.
fn shown(text: &str, secrets: &Secrets) -> String {
    let mut out = String::new();
    let mut count = 0;
    let mut at = 0usize;
    while let Some(c) = text.get(at..).and_then(|rest| rest.chars().next()) {
        let len = secrets.len_at(text.as_bytes().get(at..).unwrap_or_default());
        count += 1;
        if count > SHOWN_MAX {
            break;
        }
        at = at.saturating_add(len.max(c.len_utf8()));
        match len {
            0 => out.push(c),
            _ => out.push_str(MASK),
        }
        // Secrets may end within a character.
        while at < text.len() && !text.is_char_boundary(at) {
            at = at.saturating_add(1);
        }
    }
    out
}

/// Writes the graphic characters of `text`, and one space for what stands between words.
fn put_graphic(text: &[u8], out: &mut Text<'_>) {
    let mut is_space = true;
    for c in text.utf8_chunks().flat_map(|chunk| chunk.valid().chars()) {
        if is_space_char(c) {
            out.str(if is_space { "" } else { " " });
            is_space = true;
        } else if is_graphic(c) {
            out.str(c.encode_utf8(&mut [0; 4]));
            is_space = false;
        }
    }
}

/// Whether Unicode has `c` as white space; core's own function brings a table.
fn is_space_char(c: char) -> bool {
    matches!(c, '\t'..='\r' | ' ' | '\u{85}' | '\u{a0}' | '\u{1680}' | '\u{2000}'..='\u{200a}' | '\u{2028}' | '\u{2029}'
        | '\u{202f}' | '\u{205f}' | '\u{3000}')
}

/// Writes what stands outside of tags, if it begins with one.
fn put_text(body: &[u8], out: &mut Text<'_>) {
    if body.first() != Some(&b'<') {
        return put_graphic(body, out);
    }
    for part in body.split(|b| *b == b'<') {
        if let Some(text) = part.splitn(2, |b| *b == b'>').nth(1).filter(|text| !text.trim_ascii().is_empty()) {
            put_graphic(text.trim_ascii(), out);
            out.str(" ");
        }
    }
}

/// What the first element `name` of a text in XML or HTML holds, up to the next tag.
fn element<'b>(body: &'b [u8], name: &str) -> Option<&'b [u8]> {
    body.split(|b| *b == b'<').find_map(|part| {
        let (tag, text) = part.split_at_checked(part.iter().position(|b| *b == b'>')?)?;
        let tag = tag.split(u8::is_ascii_whitespace).next()?;
        tag.eq_ignore_ascii_case(name.as_bytes()).then_some(text.get(1..)?)
    })
}

/// The inside of the first string that is a member `name` of any object in JSON, up to the end of `body` if that comes first.
fn member<'b>(body: &'b [u8], name: &str) -> Option<&'b [u8]> {
    let mut rest = body;
    while let Some(start) = rest.iter().position(|b| *b == b'"') {
        let (string, behind) = string(rest.get(start..)?.get(1..)?);
        rest = behind;
        let value = behind.trim_ascii_start().strip_prefix(b":").map(<[u8]>::trim_ascii_start);
        if let Some(value) = value.and_then(|value| value.strip_prefix(b"\""))
            && string == name.as_bytes()
        {
            return Some(self::string(value).0);
        }
    }
    None
}

/// The inside of the string that `rest` goes on with, and what stands behind it.
fn string(rest: &[u8]) -> (&[u8], &[u8]) {
    let mut is_escaped = false;
    let end = rest.iter().position(|b| {
        let ends = *b == b'"' && !is_escaped;
        is_escaped = *b == b'\\' && !is_escaped;
        ends
    });
    let (inside, behind) = rest.split_at(end.unwrap_or(rest.len()));
    (inside, behind.get(1..).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(body: &str) -> String {
        reason("", body.as_bytes(), &Secrets::new(b"", &[]))
    }

    #[test]
    fn known_forms() {
        for (body, expected) in [
            ("", ""),
            (" quota\n\nexceeded\t! ", "quota exceeded !"),
            (
                "<?xml version=\"1.0\"?>\n<Error><Code>AccessDenied</Code><Message>Request has expired</Message><X>y</X></Error>",
                "AccessDenied: Request has expired",
            ),
            ("<html><head><TITLE>413 Too\nLarge</TITLE></head><body><h1>x</h1></body></html>", "413 Too Large"),
            ("<p>no <b>such</b> bucket</p>", "no such bucket"),
            (r#"{"error":{"code":403,"message":"no \"write\" here\n"}}"#, r#"no "write" here"#),
            (r#"{"error":"invalid_token","error_description":"it expired"}"#, "invalid_token: it expired"),
            (r#"{"text":"Invalid token","code":4}"#, "Invalid token"),
            (r#"[{"detail":"Not Found"}]"#, "Not Found"),
            (r#"{"a":"message","message":"m"}"#, "m"),
            (r#"{"message":"cut he"#, "cut he"),
            (r#"{"status":400}"#, r#"{"status":400}"#),
            ("<", ""),
            ("<Code", ""),
            ("{\"message\"", "{\"message\""),
        ] {
            assert_eq!(of(body), expected, "{body}");
        }
        assert_eq!(reason("AuthFailed", b"", &Secrets::new(b"", &[])), "AuthFailed");
        let same = b"<Error><Code>AuthFailed</Code><Message>bad</Message></Error>";
        assert_eq!(reason("AuthFailed", same, &Secrets::new(b"", &[])), "AuthFailed: bad");
    }

    #[test]
    fn graphic_characters_alone_and_not_too_many() {
        assert_eq!(of("a\x1b[2Jb\u{202e}c\u{200b}d\u{9b}e\0f\u{e9}"), "a[2Jbcdef\u{e9}");
        assert_eq!(reason("", b"a\xff\xfeb", &Secrets::new(b"", &[])), "ab");
        assert_eq!(of(&"\u{e9}".repeat(3000)).chars().count(), 200);
    }

    #[test]
    fn secrets_do_not_come_back() {
        let url = Url::parse("https://us%3Aer:p%40ssword@h/?sig=a%2Fb%3Dc0&x=1&k=QUERYSECRET").unwrap();
        let proxy = Url::parse("http://pu:PROXYSECRET@p:1").unwrap();
        let own = b"Authorization: Bearer OWNSECRET-0123456789\r\nX-Key: KEY1\r\n";
        let secrets = Secrets::new(own, &[Some(&url), Some(&proxy)]);
        let shown = |body: &str| reason("", body.as_bytes(), &secrets);
        for (body, expected) in [
            ("no OWNSECRET-0123456789 here", "no *** here"),
            ("key KEY1, token ownsecret-0123456789", "key ***, token ***"),
            ("part OWNSECRET-01... and -0123456789", "part ***... and ***"),
            ("/?sig=a%2Fb%3Dc0&k=QUERYSECRET", "/?sig=***&k=***"),
            ("p@ssword", "***"),
            ("PROXYSECRET", "***"),
            ("dXM6ZXI6cEBzc3dvcmQ=", "***="),
            ("OWN\u{200b}SECRET-0123456789", "***"),
            ("Authorization missing", "Authorization missing"),
        ] {
            assert_eq!(shown(body), expected, "{body}");
        }
        // The end of what is looked at cuts it.
        let long = format!("{}OWNSECRET-0123456789", "x".repeat(180));
        assert!(!shown(&long).contains("OWN"));
        assert!(!shown("rest OWNS").contains("OWN"));
    }
}
