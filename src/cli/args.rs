//! The program's own arguments: `rdreport [--root DIR] VERB [options]`. They say what happened; every
//! setting comes from the kernel's command line.
//!
//! A hook passes what it has, so nothing in the arguments keeps a state from being reported: what
//! cannot be used is left out and noted. The other verbs are for people, and refuse it.

use crate::encode::Format;
use crate::settings::State;
use crate::sys::process::Args;
use crate::text::number;
use alloc::string::String;
use core::str::Utf8Chunk;
use heapless::Vec;

/// Notes that are kept; a hook that gets more wrong gets the first ones told.
const NOTES_MAX: usize = 8;

/// What is to be done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verb {
    /// Report a state.
    Report(State),
    /// Write the journal to standard output.
    Journal,
    /// Send the journal while it grows.
    #[cfg(feature = "follow")]
    Follow,
    /// Say what the command line means; `stdin` is where it is read from.
    Check {
        /// From standard input instead of `/proc/cmdline`.
        stdin: bool,
        /// Say by the exit status alone whether a report needs the network.
        network: bool,
    },
    /// Say who we are.
    Version,
    /// Say how it is used.
    Help,
}

/// All arguments.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Arguments {
    /// Folder that every path is below, instead of `/`.
    pub root: Option<&'static [u8]>,
    /// What is to be done.
    pub verb: Verb,
    /// `--stage`.
    pub stage: Option<&'static str>,
    /// `--message`.
    pub message: Option<&'static str>,
    /// `--code`.
    pub code: Option<u64>,
    /// `--dry-run`.
    pub dry_run: bool,
    /// `--force`.
    pub force: bool,
    /// `--wait`.
    pub wait: bool,
    /// `--gzip`.
    pub gzip: bool,
    /// `--format`.
    pub format: Format,
    /// What was wrong with the arguments of a report, which is sent all the same.
    pub notes: Vec<Usage, NOTES_MAX>,
}

/// Why the arguments are wrong, and the one that is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Usage {
    /// No verb.
    NoVerb,
    /// An argument that does not exist, or does not go with the verb.
    Unknown(&'static str),
    /// An option without its value.
    NoValue(&'static str),
    /// An option whose value cannot be read.
    BadValue(&'static str),
}

impl Arguments {
    /// Reads them.
    pub fn parse(args: Args) -> Result<Self, Usage> {
        parse(&mut |index| args.at(index))
    }
}

fn parse(at: &mut dyn FnMut(usize) -> Option<&'static [u8]>) -> Result<Arguments, Usage> {
    let mut out = Arguments {
        root: None,
        verb: Verb::Help,
        stage: None,
        message: None,
        code: None,
        dry_run: false,
        force: false,
        wait: false,
        gzip: false,
        format: Format::Export,
        notes: Vec::new(),
    };
    let mut verb = None;
    let mut index = 0usize;
    while let Some(arg) = at(index) {
        index = index.saturating_add(1);
        let shown = core::str::from_utf8(arg).unwrap_or("(not UTF-8)");
        let (name, inline) = match arg.iter().position(|b| *b == b'=') {
            Some(equals) if arg.starts_with(b"--") => {
                (shown.get(..equals).unwrap_or(shown), arg.get(equals.saturating_add(1)..))
            }
            _ => (shown, None),
        };
        let mut value = || {
            inline.or_else(|| {
                index = index.saturating_add(1);
                at(index.saturating_sub(1))
            })
        };
        match one(&mut out, &mut verb, name, inline.is_some(), &mut value) {
            Ok(true) => return Ok(out),
            Ok(false) => {}
            // The first ones are enough.
            Err(why) => drop(out.notes.push(why)),
        }
    }
    let first = out.notes.first().copied();
    match verb {
        Some(verb @ Verb::Report(_)) => out.verb = verb,
        Some(verb) if first.is_none() => out.verb = verb,
        _ => return Err(first.unwrap_or(Usage::NoVerb)),
    }
    Ok(out)
}

/// Takes one argument into `out` or `verb`. Returns whether it ends the arguments.
fn one(
    out: &mut Arguments,
    verb: &mut Option<Verb>,
    name: &'static str,
    has_value: bool,
    value: &mut dyn FnMut() -> Option<&'static [u8]>,
) -> Result<bool, Usage> {
    let is_report = matches!(verb, Some(Verb::Report(_)) | None);
    let mut needed = || value().ok_or(Usage::NoValue(name));
    match name {
        "--root" => out.root = Some(needed()?),
        "--stage" if is_report => out.stage = Some(text(needed()?)),
        "--message" if is_report => out.message = Some(text(needed()?)),
        "--code" if is_report => out.code = Some(number(needed()?).ok_or(Usage::BadValue(name))?),
        "--format" if *verb == Some(Verb::Journal) => {
            let format = core::str::from_utf8(needed()?).ok().and_then(Format::named);
            out.format = format.ok_or(Usage::BadValue(name))?;
        }
        "--dry-run" if is_report => {
            // Nothing is sent, whatever value it has.
            out.dry_run = true;
            return if has_value { Err(Usage::BadValue(name)) } else { Ok(false) };
        }
        _ if has_value => return Err(Usage::Unknown(name)),
        "--force" if is_report => out.force = true,
        "--wait" if *verb == Some(Verb::Report(State::Stuck)) => out.wait = true,
        "--gzip" if *verb == Some(Verb::Journal) => out.gzip = true,
        "-" | "--network" => match verb {
            Some(Verb::Check { stdin, .. }) if name == "-" && !*stdin => *stdin = true,
            Some(Verb::Check { network, .. }) if name != "-" => *network = true,
            _ => return Err(Usage::Unknown(name)),
        },
        "--version" | "-V" => {
            out.verb = Verb::Version;
            return Ok(true);
        }
        "--help" | "-h" => {
            out.verb = Verb::Help;
            return Ok(true);
        }
        _ if verb.is_none() => *verb = Some(verb_named(name).ok_or(Usage::Unknown(name))?),
        _ => return Err(Usage::Unknown(name)),
    }
    Ok(false)
}

fn verb_named(name: &str) -> Option<Verb> {
    Some(match name {
        "journal" => Verb::Journal,
        #[cfg(feature = "follow")]
        "follow" => Verb::Follow,
        "check" => Verb::Check { stdin: false, network: false },
        "help" => Verb::Help,
        _ => Verb::Report(State::ALL.into_iter().find(|state| state.as_str() == name)?),
    })
}

/// `value` as text, with U+FFFD in place of what is not UTF-8.
fn text(value: &'static [u8]) -> &'static str {
    match core::str::from_utf8(value) {
        Ok(text) => text,
        // Arguments live as long as the process.
        Err(_) => value.utf8_chunks().fold(String::new(), lossy).leak(),
    }
}

/// Appends a piece of text that may end with bytes that are not UTF-8.
fn lossy(mut text: String, chunk: Utf8Chunk<'_>) -> String {
    text.push_str(chunk.valid());
    text.push_str(if chunk.invalid().is_empty() { "" } else { "\u{fffd}" });
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(line: &'static str) -> Result<Arguments, Usage> {
        let words: std::vec::Vec<&'static [u8]> = line.split_whitespace().map(str::as_bytes).collect();
        parse(&mut |i| words.get(i).copied())
    }

    #[test]
    fn options_stand_before_and_behind_the_verb() {
        let a = args("--root /r failed --stage disks --message=no-disk --code 12 --dry-run").unwrap();
        assert_eq!(a.verb, Verb::Report(State::Failed));
        assert_eq!((a.root, a.stage, a.message), (Some(b"/r".as_slice()), Some("disks"), Some("no-disk")));
        assert_eq!((a.code, a.dry_run), (Some(12), true));
        for (words, stdin, network) in
            [("check", false, false), ("check -", true, false), ("check --network -", true, true)]
        {
            assert_eq!(args(words).unwrap().verb, Verb::Check { stdin, network });
        }
        assert!(["check - -", "--network"].iter().all(|words| args(words).is_err()));
        assert!(args("journal --format export --gzip").unwrap().gzip);
        assert_eq!(args("failed --help").unwrap().verb, Verb::Help);
        assert_eq!(args("failed --message --dry-run").unwrap().message, Some("--dry-run"));
    }

    #[test]
    fn wrong_usage_is_named() {
        for (line, why) in [
            ("", Usage::NoVerb),
            ("--root /", Usage::NoVerb),
            ("fail", Usage::Unknown("fail")),
            ("journal --stage x", Usage::Unknown("--stage")),
            ("journal --format xml", Usage::BadValue("--format")),
            ("check again", Usage::Unknown("again")),
            ("--stagg x journal", Usage::Unknown("--stagg")),
        ] {
            assert_eq!(args(line), Err(why), "{line}");
        }
    }

    #[test]
    fn a_report_takes_what_it_can_and_notes_the_rest() {
        for (line, notes) in [
            ("failed again", &[Usage::Unknown("again")][..]),
            ("failed --stage", &[Usage::NoValue("--stage")]),
            ("failed --code x", &[Usage::BadValue("--code")]),
            ("failed --code=-1", &[Usage::BadValue("--code")]),
            ("failed --code 99999999999999999999", &[Usage::BadValue("--code")]),
            ("failed --wait", &[Usage::Unknown("--wait")]),
            ("failed --gzip", &[Usage::Unknown("--gzip")]),
            ("failed --format json", &[Usage::Unknown("--format"), Usage::Unknown("json")]),
            ("--stagg x failed", &[Usage::Unknown("--stagg"), Usage::Unknown("x")]),
            ("failed --root", &[Usage::NoValue("--root")]),
            ("failed stuck", &[Usage::Unknown("stuck")]),
            ("failed --stage a --stage b", &[]),
        ] {
            let arguments = args(line).unwrap();
            assert_eq!((arguments.verb, &arguments.notes[..]), (Verb::Report(State::Failed), notes), "{line}");
        }
        let arguments = args("stuck --dry-run=1").unwrap();
        assert!(arguments.dry_run && arguments.notes == [Usage::BadValue("--dry-run")]);
        let words: [&'static [u8]; 5] = [b"failed", b"--message", b"caf\xe9", b"--stage", b"\xff"];
        let arguments = parse(&mut |i| words.get(i).copied()).unwrap();
        assert_eq!((arguments.message, arguments.stage), (Some("caf\u{fffd}"), Some("\u{fffd}")));
        let many: Vec<&'static [u8], 40> = core::iter::once(&b"failed"[..]).chain([&b"x"[..]; 39]).collect();
        assert_eq!(parse(&mut |i| many.get(i).copied()).unwrap().notes.len(), NOTES_MAX);
    }
}
