//! The program's own arguments: `rdreport [--root DIR] VERB [options]`. They say what happened; every setting comes from the kernel's
//! command line.

use crate::encode::Format;
use crate::settings::State;
use crate::sys::process::Args;
use crate::text::number;

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
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
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
}

/// Why the arguments are wrong, and the one that is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Usage {
    /// No verb.
    NoVerb,
    /// It is none of ours, or does not go with the verb.
    Unknown(&'static str),
    /// A value is missing behind it.
    NoValue(&'static str),
    /// Its value cannot be read.
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
        let is_report = matches!(verb, Some(Verb::Report(_)) | None);
        let mut value = || {
            let value = inline.or_else(|| {
                index = index.saturating_add(1);
                at(index.saturating_sub(1))
            });
            value.ok_or(Usage::NoValue(name))
        };
        match name {
            "--root" => out.root = Some(value()?),
            "--stage" if is_report => out.stage = Some(utf8(name, value()?)?),
            "--message" if is_report => out.message = Some(utf8(name, value()?)?),
            "--code" if is_report => out.code = Some(number(value()?).ok_or(Usage::BadValue(name))?),
            "--format" if verb == Some(Verb::Journal) => {
                let format = core::str::from_utf8(value()?).ok().and_then(Format::named);
                out.format = format.ok_or(Usage::BadValue(name))?;
            }
            _ if inline.is_some() => return Err(Usage::Unknown(name)),
            "--dry-run" if is_report => out.dry_run = true,
            "--force" if is_report => out.force = true,
            "--wait" if verb == Some(Verb::Report(State::Stuck)) => out.wait = true,
            "--gzip" if verb == Some(Verb::Journal) => out.gzip = true,
            "-" | "--network" => match &mut verb {
                Some(Verb::Check { stdin, .. }) if name == "-" && !*stdin => *stdin = true,
                Some(Verb::Check { network, .. }) if name != "-" => *network = true,
                _ => return Err(Usage::Unknown(name)),
            },
            "--version" | "-V" => return Ok(Arguments { verb: Verb::Version, ..out }),
            "--help" | "-h" => return Ok(Arguments { verb: Verb::Help, ..out }),
            _ if verb.is_none() => verb = Some(verb_named(name).ok_or(Usage::Unknown(name))?),
            _ => return Err(Usage::Unknown(name)),
        }
    }
    out.verb = verb.ok_or(Usage::NoVerb)?;
    Ok(out)
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

fn utf8(name: &'static str, value: &'static [u8]) -> Result<&'static str, Usage> {
    core::str::from_utf8(value).map_err(|_| Usage::BadValue(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(line: &'static str) -> Result<Arguments, Usage> {
        let words: Vec<&'static [u8]> = line.split_whitespace().map(str::as_bytes).collect();
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
        assert!(["check - -", "failed --network", "--network"].iter().all(|words| args(words).is_err()));
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
            ("failed again", Usage::Unknown("again")),
            ("failed --stage", Usage::NoValue("--stage")),
            ("failed --code x", Usage::BadValue("--code")),
            ("failed --code=-1", Usage::BadValue("--code")),
            ("failed --wait", Usage::Unknown("--wait")),
            ("failed --gzip", Usage::Unknown("--gzip")),
            ("failed --dry-run=1", Usage::Unknown("--dry-run")),
            ("journal --stage x", Usage::Unknown("--stage")),
            ("journal --format xml", Usage::BadValue("--format")),
            ("--stagg x failed", Usage::Unknown("--stagg")),
        ] {
            assert_eq!(args(line), Err(why), "{line}");
        }
    }
}
