//! Reads any bytes as a kernel command line: words, settings, sinks, and the line as it is reported. Nothing panics, warnings are lines,
//! what goes into a body is JSON, and no URL keeps its userinfo or query where it is shown.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rdreport::destination::{self, Variables};
use rdreport::error::Error;
use rdreport::http::url::Url;
use rdreport::report::Facts;
use rdreport::settings::cmdline::Words;
use rdreport::settings::redact::{self, MASK};
use rdreport::settings::{Settings, State, Warnings};
use rdreport::sink::Sink;
use rdreport::sys::file::Root;
use std::sync::OnceLock;

fuzz_target!(|line: &[u8]| {
    assert!(Words::new(line).count() <= line.len());
    let mut warnings = Warnings::default();
    let settings = Settings::parse(line, &mut warnings);
    assert!(
        warnings.lines().all(|line| line.starts_with("rd.report.") || line.starts_with("the kernel command line "))
    );

    let mut shown = Kept(Vec::new());
    redact::line_as_json(line, &mut shown).unwrap();
    assert_json(&shown.0);

    let variables = Variables { facts: facts(), state: State::Failed, stage: Some("disks") };
    for value in settings.url.iter().chain(&settings.journal) {
        assert_masked(value);
        if let Ok(url) = destination::status(value, &variables) {
            assert!(Url::parse(&url).is_ok());
            assert_masked(&url);
        }
        if let Ok(target) = destination::journal(value, &variables, 6) {
            assert!(Url::parse(&target.url).is_ok());
            assert_masked(&target.url);
        }
    }
});

/// Keeps what is written.
struct Kept(Vec<u8>);

impl Sink for Kept {
    fn put(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }
}

/// This machine, which the variables of a sink are taken from.
fn facts() -> &'static Facts {
    static FACTS: OnceLock<Facts> = OnceLock::new();
    FACTS.get_or_init(|| Facts::gather(&Root::new(None).unwrap(), b""))
}

/// What is shown of a URL holds neither its userinfo nor its query.
fn assert_masked(url: &str) {
    let Ok(parsed) = Url::parse(url) else { return };
    let mut shown = Vec::new();
    redact::url(url.as_bytes(), &mut |part| {
        shown.extend_from_slice(part);
        Ok(())
    })
    .unwrap();
    let shown = String::from_utf8(shown).unwrap();
    let again = Url::parse(&shown).unwrap();
    assert_eq!(again.userinfo, parsed.userinfo.map(|_| MASK), "{shown}");
    assert_eq!(again.query, parsed.query.map(|_| MASK), "{shown}");
    assert_eq!((again.host, again.port), (parsed.host, parsed.port));
}

/// The inside of a JSON string.
fn assert_json(inside: &[u8]) {
    let mut chars = std::str::from_utf8(inside).unwrap().chars();
    while let Some(c) = chars.next() {
        assert!(c >= ' ' && c != '"');
        if c == '\\' {
            match chars.next() {
                Some('u') => assert!(chars.by_ref().take(4).filter(char::is_ascii_hexdigit).count() == 4),
                escaped => assert!(escaped.is_some_and(|c| "\"\\/bfnrt".contains(c))),
            }
        }
    }
}
