//! The order of things: arguments, settings, facts, then each sink in a process of its own. The only file that prints, and that picks the
//! exit status.

#[cfg(feature = "follow")]
pub mod follow;
pub mod interlock;
pub mod progress;

#[cfg(feature = "follow")]
use self::follow::{Follower, Part};
use self::interlock::{Id, Lock};
use crate::cli::args::{Arguments, Usage, Verb};
use crate::cloud::platform::{self, Found, Why};
use crate::cloud::{self, Local, Service};
use crate::delivery::{COMPLAINT_MAX, Delivery, JournalBody, UNDELIVERED, Wording, for_each_complaint, put_into_words};
use crate::delivery::{device, headers};
use crate::destination::{self, Kind, NoTarget, Target, Variables};
use crate::encode::{Format, Stats};
use crate::error::{Error, JournalError, TlsError};
use crate::escape;
use crate::http::client::{Body, Heard, Outcome};
use crate::http::proxy;
use crate::http::url::Url;
use crate::journal::files::Journal;
#[cfg(feature = "follow")]
use crate::journal::position::Positions;
use crate::journal::source::Source;
use crate::journal::{self, units};
use crate::net::tls::trust::{CertFacts, Scan, Trust, scan};
use crate::net::{self, Dial};
use crate::recovery::action::{self, Step};
use crate::recovery::systemd;
use crate::recovery::systemd::{Started, start_unit};
use crate::recovery::{fallback, ssh};
use crate::report::{Facts, Report, new_id};
use crate::run::progress::Share;
use crate::settings::cmdline::Words;
use crate::settings::dracut::{self, DRACUT_MAX};
use crate::settings::{Action, CMDLINE_MAX, Group, KEYS, Key, PREFIX, Settings, State, Warnings, redact};
use crate::sink::{Sink, put_all};
use crate::sys::Errno;
use crate::sys::file::{File, Root};
use crate::sys::machine::{Keys, is_initramfs};
use crate::sys::process::{self, Args, Child, Ended, Output, Stop, WORDS_MAX};
use crate::sys::random;
use crate::sys::sandbox::{self, Reach};
use crate::sys::time::Deadline;
use crate::text::{DECIMAL_MAX, Text, decimal};
use crate::{explain, gzip, output};
use alloc::vec;
use alloc::vec::Vec;
use heapless::Vec as Bounded;
use zeroize::Zeroizing;

/// All that was asked for was delivered, or nothing was asked for.
const DONE: u8 = 0;
/// Wrong usage.
const USAGE: u8 = 2;

/// It was reported before, or another run is at it.
const ALREADY: u8 = 3;

/// Milliseconds by which a status goes ahead of the journal, unless it is through sooner: it is small and matters most.
const HEAD_START_MS: u64 = 5_000;
/// The head start takes at most one part in so many of the time that is left, so that the journal gets its turn.
const HEAD_START_PART: u64 = 3;
/// Milliseconds for which this process keeps what a status needs, in case that the status' own process
/// is killed: what kills one (its size, its input) does so soon.
const RESTART_MS: u64 = 1_000;
/// Milliseconds that a sink's process has beyond its own deadline, to say why it failed.
const GRACE_MS: u64 = 500;
/// Seconds for a report without `rd.report.timeout`.
const TIMEOUT_FAILED_S: u64 = 60;
/// The same on the way of a boot that goes on.
const TIMEOUT_RUNNING_S: u64 = 10;
/// Milliseconds that a network is waited for after a failure that nobody asked to be told of.
const NETWORK_MS: u64 = 10_000;
/// Sinks of all kinds together, and the fallback.
const SINKS_MAX: usize = 2 * crate::settings::SINKS_MAX + 1;
/// Processes of a report: the sinks', and the clouds'.
const JOBS_MAX: usize = SINKS_MAX + cloud::SERVICES_MAX;
const _: () = assert!(SINKS_MAX + cloud::SERVICES.len() <= fallback::STARTED);
const _: () = assert!(JOBS_MAX <= process::CHILDREN_MAX);
/// Milliseconds that journald is given to write what it holds.
const SYNC_MS: u64 = 1_000;
/// Milliseconds that the status waits for the journal at most, and the part of the report's time; whatever the journal holds, the status
/// is on its way after that.
const LOOK_MS: u64 = 5_000;
/// See [`LOOK_MS`].
const LOOK_PART: u64 = 3;
/// Milliseconds between two looks whether the end is being reported, while progress is.
const OVER_MS: u64 = 100;
/// Milliseconds that a line on standard error is waited for.
const LINE_MS: u64 = 250;
/// Longest line that is printed.
const LINE_MAX: usize = 2048;

const ABOUT: &str = "\
rdreport: tells the outside world, from inside an initramfs, how provisioning ended

usage: rdreport [--root DIR] VERB [options]

  failed, succeeded    report that provisioning ended so
  running, stuck       report that a stage goes on, or does not end
      --stage NAME     the stage it happened in
      --message TEXT   what happened, in words
      --code N         what happened, as a number
      --dry-run        say what would be sent where, and send nothing
      --wait           with 'stuck': first wait until rd.report.stuck= seconds
                       after the boot, and report nothing if that is over by then
      --force          report again what was reported, or success after a failure
  journal              write the journal to standard output
";

const FORMATS: &str = if cfg!(feature = "formats") {
    "      --format NAME    export, json, short or raw (a tar of the files)\n"
} else {
    "      --format NAME    export\n"
};

const GZIP: &str = "      --gzip           compressed\n";

const FOLLOW: &str = if cfg!(feature = "follow") {
    "  follow               send the journal to its sinks while it grows, until SIGTERM\n"
} else {
    ""
};

// Its first line stands here: behind a backslash at a line's end, blanks are left out.
const ABOUT_REST: &str = "  check [-]            say what the kernel command line means; '-' reads one from
                       standard input
      --network        say nothing; exit status 0 if a report needs the network
  --version, --help

  --root DIR           read every file below DIR

exit status: 0 delivered or nothing to deliver, 1 not all delivered, 2 wrong usage,
3 reported before

settings, on the kernel command line (the default in brackets):
";

/// Runs the program; gives its exit status.
pub fn main(args: Args) -> u8 {
    process::claim_stdio();
    process::ignore_sigpipe();
    sandbox::no_dumps();
    let arguments = match Arguments::parse(args) {
        Ok(arguments) => arguments,
        Err(why) => return usage(why),
    };
    match arguments.verb {
        Verb::Help => return print(&mut help),
        Verb::Version => {
            return print(&mut |out| out.put(concat!("rdreport ", env!("CARGO_PKG_VERSION"), "\n").as_bytes()));
        }
        _ => {}
    }
    let root = match Root::new(arguments.root) {
        Ok(root) => root,
        Err(e) => {
            say(&mut |line| {
                line.str("--root: ");
                explain::errno(e, line);
            });
            return USAGE;
        }
    };
    match arguments.verb {
        Verb::Report(state) => report(&root, &arguments, state),
        Verb::Journal => print_journal(&root, &arguments),
        #[cfg(feature = "follow")]
        Verb::Follow => follow(&root),
        Verb::Check { stdin, network } => check(&root, stdin, network),
        Verb::Help | Verb::Version => DONE,
    }
}

/// One run's facts and settings: what every sink needs.
struct Run<'a> {
    root: &'a Root,
    settings: &'a Settings<'a>,
    cmdline: &'a [u8],
    facts: Facts,
    trust: Trust,
    /// Certificates in `trust` beside the built-in ones.
    extra_roots: usize,
    /// What is gone through to servers that are not near.
    proxy: Option<Url<'a>>,
    /// Lines of the owner's header fields.
    own: Zeroizing<Vec<u8>>,
    state: State,
    stage: Option<&'a str>,
    platform: Option<Found<'a>>,
}

impl<'a> Run<'a> {
    fn prepare(
        root: &'a Root,
        settings: &'a Settings<'a>,
        cmdline: &'a [u8],
        state: State,
        stage: Option<&'a str>,
        platform: Option<Found<'a>>,
        warnings: &mut Warnings,
    ) -> Self {
        let facts = Facts::gather(root, cmdline);
        let variables = Variables { facts: &facts, state, stage };
        let own = headers::lines(root, settings, &variables, warnings);
        for (key, value) in cloud::URLS.into_iter().filter_map(|(name, key)| Some((name, settings.cloud(key)?))) {
            if let Err(why) = destination::status(value, &variables) {
                warn_no_target(key, value, why, warnings);
            }
        }
        let (trust, extra_roots) = trust(root, settings, warnings);
        if !random::is_ready() {
            warnings
                .add(&["the kernel's random numbers are not ready: the keys of TLS are made of what else there is"]);
        }
        if let Some(Found { name, why: Why::Setting }) = platform
            && cfg!(feature = "cloud")
            && name != "none"
            && !platform::is_known(name)
        {
            warnings.add(&["rd.report.platform=", name, ": no such platform; no cloud is told"]);
        }
        let proxy = proxy(settings, warnings);
        Self { root, settings, cmdline, facts, trust, extra_roots, proxy, own, state, stage, platform }
    }

    fn variables(&self) -> Variables<'_> {
        Variables { facts: &self.facts, state: self.state, stage: self.stage }
    }

    /// The sinks that the settings name for this state, or for the journal while it grows. Those that cannot be used become warnings, and
    /// are counted.
    fn sinks(&self, is_follow: bool, warnings: &mut Warnings) -> (Vec<SinkOf<'a>>, usize) {
        let (mut sinks, mut bad) = (Vec::new(), 0usize);
        let variables = self.variables();
        let settings = self.settings;
        let is_on = !is_follow && settings.on.contains(self.state);
        let status = settings.url.iter().filter(|_| is_on).map(|url| ("url", *url));
        let journal = settings.journal.iter().filter(|_| is_follow || settings.journal_on.contains(self.state));
        let is_fetched = !is_follow && self.state == State::Failed;
        let fallback = settings.fallback().filter(|_| is_fetched).map(|url| ("fallback", url));
        for (key, value) in status.chain(journal.map(|url| ("journal", *url))).chain(fallback) {
            let is_journal = key == "journal";
            let target = match key {
                "journal" => destination::journal(value, &variables, gzip::LEVEL),
                "fallback" => fallback::target(value, &variables, settings.fallback_sha512, warnings),
                _ => destination::status(value, &variables).map(|url| Target {
                    kind: Kind::Post,
                    url,
                    format: Format::Json,
                    gzip: None,
                }),
            };
            let target = target.and_then(|target| match target.format {
                _ if is_follow && (target.kind == Kind::Put || target.format == Format::Raw) => {
                    Err(NoTarget::OneObject)
                }
                Format::Raw if settings.journal_redact => Err(NoTarget::RawSecrets),
                _ => Ok(target),
            });
            match target {
                Ok(target) => {
                    let number = sinks.len();
                    sinks.push(SinkOf { key, value, target, is_journal, number, sha512: settings.fallback_sha512 });
                }
                Err(why) => {
                    bad = bad.saturating_add(1);
                    warn_no_target(key, value, why, warnings);
                }
            }
        }
        (sinks, bad)
    }

    /// How a sink is reached.
    fn delivery(&self, deadline: Deadline) -> Delivery<'_> {
        let dial = Dial { root: self.root, dns: &self.settings.dns, cmdline: self.cmdline };
        Delivery {
            dial,
            trust: self.trust.clone(),
            proxy: self.proxy,
            own: &self.own,
            clock: self.platform.and_then(|found| platform::clock(found.name)),
            deadline,
            part: None,
            network_until: deadline,
            heard: Heard::default(),
        }
    }
}

fn warn_no_target(key: &str, value: &str, why: NoTarget, warnings: &mut Warnings) {
    let mut buf = [0; LINE_MAX];
    warnings.add(&[PREFIX, key, "=", shown(value, &mut buf), " ", destination::explain(why)]);
}

/// A sink, and the setting that it comes from.
struct SinkOf<'a> {
    key: &'static str,
    value: &'a str,
    target: Target,
    is_journal: bool,
    /// Which of this state's sinks it is.
    number: usize,
    /// The hash of what is fetched, if it is set.
    sha512: Option<&'a str>,
}

impl SinkOf<'_> {
    /// Whether it is no sink, but the configuration that is fetched.
    fn is_fallback(&self) -> bool {
        self.target.kind.is_fetched()
    }

    /// Whether the status is a head start ahead of it.
    fn waits(&self) -> bool {
        self.is_journal || self.is_fallback()
    }
}

/// What a process is made for.
#[derive(Clone, Copy)]
enum Job<'a> {
    Sink(&'a SinkOf<'a>),
    Cloud(&'static Service),
}

impl Job<'_> {
    fn is_journal(&self) -> bool {
        matches!(self, Job::Sink(sink) if sink.is_journal)
    }

    fn is_cloud(&self) -> bool {
        matches!(self, Job::Cloud(_))
    }

    /// `rd.report.KEY=URL` with its secrets masked, or the cloud's name.
    fn put_name(&self, line: &mut Text<'_>) {
        match self {
            Job::Sink(sink) => line.str(PREFIX).str(sink.key).str("=").str(shown(sink.value, &mut [0; LINE_MAX])),
            Job::Cloud(service) => line.str("cloud ").str(service.name),
        };
    }

    /// Which of this state's jobs it is.
    fn number(&self) -> usize {
        match self {
            Job::Sink(sink) => sink.number,
            Job::Cloud(service) => service.number().saturating_add(SINKS_MAX),
        }
    }

    fn is_fallback(&self) -> bool {
        matches!(self, Job::Sink(sink) if sink.is_fallback())
    }

    /// Whether it sends the status, to a destination or a cloud.
    fn is_status(&self) -> bool {
        !matches!(self, Job::Sink(sink) if sink.waits())
    }

    /// What its process needs beside what is open already.
    fn reach(&self) -> Reach {
        match self {
            Job::Sink(sink) if sink.target.kind.is_device() => Reach::Nothing,
            Job::Sink(sink) if sink.is_fallback() => Reach::Fetch,
            Job::Cloud(service) if !service.needs_network => Reach::Nothing,
            _ => Reach::Network,
        }
    }

    fn wording(&self) -> Wording {
        let (done, not_done) = ("delivered", "not delivered");
        match self {
            Job::Sink(sink) if sink.is_fallback() => {
                Wording { done: "put in place", not_done: "not put in place", hint: None }
            }
            Job::Sink(_) => Wording { done, not_done, hint: None },
            Job::Cloud(service) => Wording { done, not_done, hint: Some(service.hint) },
        }
    }

    /// The end of its tries. `patient_since` is the beginning of a report that may be told to a cloud for longer.
    fn deadline(&self, patient_since: Option<Deadline>, usual: Deadline) -> Deadline {
        match (self, patient_since) {
            (Job::Cloud(service), Some(since)) => usual.max(since.later_ms(service.budget_s.saturating_mul(1000))),
            _ => usual,
        }
    }
}

/// Leaves out of `clouds` those that `is_out` names, at the price of fewer bytes than `retain`.
fn leave_out(
    clouds: &mut Bounded<&'static Service, { cloud::SERVICES_MAX }>,
    is_out: &mut dyn FnMut(&'static Service) -> bool,
) {
    while let Some(at) = clouds.iter().position(|service| is_out(service)) {
        clouds.remove(at);
    }
}

/// The kernel command line behind the words that the initramfs brings along; says so if there is none.
fn read_cmdline(root: &Root, warnings: &mut Warnings) -> Option<Vec<u8>> {
    match cmdline(root, &mut |buf| root.read("proc/cmdline", buf).map(|line| line.len()), warnings) {
        Ok(line) => Some(line),
        Err(e) => {
            say_at_last(root, &mut |line| {
                line.str("/proc/cmdline: ");
                explain::errno(e, line);
                line.str("; the settings are unknown, so nothing was sent");
            });
            None
        }
    }
}

/// All words that settings are looked for in, with those last that `read` puts into a buffer.
fn cmdline(
    root: &Root,
    read: &mut dyn FnMut(&mut [u8]) -> Result<usize, Errno>,
    warnings: &mut Warnings,
) -> Result<Vec<u8>, Errno> {
    let mut buf = vec![0; DRACUT_MAX + CMDLINE_MAX];
    let own = dracut::read(root, buf.get_mut(..DRACUT_MAX).unwrap_or_default(), warnings);
    let free = buf.get_mut(own..own.saturating_add(CMDLINE_MAX)).unwrap_or_default();
    let len = own.saturating_add(read(free)?);
    buf.truncate(len);
    buf.shrink_to_fit();
    Ok(buf)
}

fn no_progress(budget_s: u64, line: &mut Text<'_>) {
    line.str("'running' was not reported: the progress of this boot has used its ").dec(budget_s);
    line.str(" s; raise rd.report.timeout=");
}

fn no_random(line: &mut Text<'_>) {
    line.str("the kernel gives no random numbers; nothing was sent");
}

/// The verbs `failed`, `succeeded`, `running` and `stuck`.
fn report(root: &Root, arguments: &Arguments, state: State) -> u8 {
    let mut warnings = Warnings::default();
    for note in &arguments.notes {
        let (argument, why) = usage_words(*note);
        warnings.add(&[argument, why, "; left out"]);
    }
    // What was to be sent is unknown, which is not the same as nothing to send.
    let Some(cmdline) = read_cmdline(root, &mut warnings) else { return UNDELIVERED };
    let cmdline = cmdline.as_slice();
    let settings = Settings::parse(cmdline, &mut warnings);
    // The unit cannot see whether the image sets a time.
    if arguments.wait && settings.stuck_s == 0 {
        return DONE;
    }
    let platform = cloud::recognise(&settings, cmdline, root);
    let mut clouds = cloud::services(platform.as_ref(), &settings, root, state);
    let goes_on = matches!(state, State::Running | State::Succeeded);
    let is_asked_for = cloud::is_asked_for(&settings, cmdline);
    if goes_on && !is_asked_for && clouds.iter().any(|service| service.needs_network) && !net::is_up() {
        leave_out(&mut clouds, &mut |service| service.needs_network);
    }
    let acts = !goes_on && settings.action() != Action::None;
    let fetches = state == State::Failed && settings.fallback().is_some();
    let ssh_user = settings.ssh().filter(|_| state == State::Failed);
    let does_more = acts || fetches || ssh_user.is_some();
    if settings.is_idle() && clouds.is_empty() && !does_more {
        print_warnings(&warnings);
        // Nobody who looks at a boot that goes on waits for this.
        if !goes_on {
            show_warnings(root, &warnings);
            say(&mut |line| {
                line.str(
                    "nothing to report to: neither rd.report.url= nor rd.report.journal= is on the kernel command line",
                );
            });
        }
        return DONE;
    }
    if !settings.on.contains(state) && !settings.journal_on.contains(state) && !does_more {
        print_warnings(&warnings);
        say(&mut |line| {
            line.str("'").str(state.as_str()).str("' is not reported; set rd.report.on= to change that");
        });
        // That it failed is remembered all the same: a success afterwards would be wrong.
        if state == State::Failed && !arguments.dry_run {
            let boot_id = crate::report::line(root, "proc/sys/kernel/random/boot_id");
            drop(Lock::take(root, state, &boot_id, false, &mut Id::new(), &mut warnings));
        }
        return DONE;
    }
    if arguments.wait && !is_stuck(root, settings.stuck_s) {
        return DONE;
    }
    let default_s = if goes_on { TIMEOUT_RUNNING_S } else { TIMEOUT_FAILED_S };
    let timeout_s = settings.timeout_s.map_or(default_s, u64::from);
    let mut deadline = Deadline::after_ms(timeout_s.saturating_mul(1000));
    let look_until = deadline.step_ms((deadline.left_ms() / LOOK_PART).min(LOOK_MS));
    // A boot that goes on waits for no cloud, nor does an owner who set a time.
    let is_patient = settings.timeout_s.is_none() && !goes_on;
    let patient_since = is_patient.then(|| Deadline::after_ms(0));
    let run = Run::prepare(root, &settings, cmdline, state, arguments.stage, platform, &mut warnings);
    let (mut sinks, bad) = run.sinks(false, &mut warnings);
    if arguments.dry_run {
        print_warnings(&warnings);
        return print(&mut |out| {
            sinks.iter().try_for_each(|sink| describe(&run, sink, out))?;
            clouds.iter().try_for_each(|service| service.describe(out))?;
            ssh_user.map_or(Ok(()), |name| ssh::describe(root, name, &settings, out))?;
            let unless = if fetches { ", unless rdreport-fallback.target is started" } else { "" };
            // Asked for again: what is borrowed by a closure is no constant for the compiler.
            let acts = cfg!(feature = "recovery") && acts;
            if acts { put_all(out, &["    then: ", settings.action().as_str(), unless, "\n"]) } else { Ok(()) }
        });
    }
    let Ok(mut id) = new_id() else {
        say(&mut no_random);
        return UNDELIVERED;
    };
    let boot_id = &run.facts.boot_id;
    if arguments.wait
        && [State::Failed, State::Succeeded].iter().any(|ended| interlock::is_reported(root, *ended, boot_id))
    {
        return DONE;
    }
    let mut lock = match Lock::take(root, state, boot_id, arguments.force, &mut id, &mut warnings) {
        Ok(lock) => lock,
        Err(why) => {
            say(&mut |line| interlock::explain_refused(state, why, line));
            return ALREADY;
        }
    };
    let mut share = None;
    if state == State::Running {
        let Some(taken) = Share::take(root, boot_id, timeout_s.saturating_mul(1000)) else {
            say_at_last(root, &mut |line| no_progress(timeout_s, line));
            return UNDELIVERED;
        };
        deadline = Deadline::after_ms(taken.ms);
        share = Some(taken);
    }
    let fallback = sinks.iter().find(|sink| sink.is_fallback()).map(|sink| sink.number);
    sinks.retain(|sink| !lock.has_sent(sink.number));
    leave_out(&mut clouds, &mut |service| {
        let number = Job::Cloud(service).number();
        // Of how it ended, a cloud hears once.
        let other = |end: &State| *end != state && !arguments.force && interlock::has_sent(root, *end, boot_id, number);
        lock.has_sent(number) || [State::Failed, State::Succeeded].iter().any(other)
    });
    let is_journal_sent = sinks.iter().any(|sink| sink.is_journal);
    let mut journal = open_journal(root, state, is_journal_sent, look_until);
    let stop = Stop::listen();
    let found = match state {
        // Progress says nothing of units.
        State::Running => Vec::new(),
        _ => look(root, &mut journal, &settings, is_journal_sent, &stop, look_until, &mut warnings),
    };
    print_warnings(&warnings);
    if state == State::Succeeded && !arguments.force {
        let (unit, _) = units::verdict(&found, &mut |_| {});
        if !unit.is_empty() || interlock::is_begun(root, State::Failed, boot_id) {
            say(&mut |line| interlock::explain_contradiction(Some(unit).filter(|unit| !unit.is_empty()), line));
            lock.settle(false);
            return UNDELIVERED;
        }
    }
    let is_single = share.as_ref().is_some_and(|share| share.is_single);
    let telling =
        Telling { run: &run, arguments, id: &id, deadline, patient_since, is_asked_for, is_single, found: &found };
    let statuses = sinks.iter().filter(|sink| !sink.waits()).map(Job::Sink);
    let first = statuses.chain(clouds.iter().copied().map(Job::Cloud));
    let behind = sinks.iter().filter(|sink| sink.waits()).map(Job::Sink);
    let boot_id = boot_id.clone();
    let is_over = || interlock::end(root, &boot_id).is_some();
    let mut jobs = Jobs {
        root,
        deadline,
        patient_since,
        stop: &stop,
        lock: &mut lock,
        running: Bounded::new(),
        lost: 0,
        restarted: 0,
        is_over: (state == State::Running && !arguments.force).then_some(&is_over),
    };
    jobs.start(&mut first.into_iter(), &telling, &mut journal, &mut warnings);
    if sinks.iter().any(SinkOf::waits) {
        jobs.settle(|job| !job.is_cloud(), head_start(deadline), Some((&telling, &mut warnings)));
    }
    jobs.start(&mut behind.into_iter(), &telling, &mut journal, &mut warnings);
    // While they send: it takes none of their time, and is there if they hang.
    let platform_name = run.platform.map_or("", |platform| platform.name);
    let opened = ssh_user
        .filter(|_| !stop.is_asked())
        .map(|name| (name, ssh::open(root, name, &settings, platform_name, &stop)));
    // A status whose process is killed is sent once more, as long as the secrets are there.
    jobs.settle(|job| job.is_status(), deadline.step_ms(RESTART_MS), Some((&telling, &mut warnings)));
    // The secrets of the header fields are needed no more.
    let kernel = run.facts.kernel.clone();
    drop(run);
    jobs.settle(|_| true, Deadline::after_ms(u64::MAX), None);
    let mut undelivered = bad.saturating_add(jobs.lost);
    if let Some(share) = share {
        share.settle(deadline, jobs.lost == 0);
    }
    // Progress has nothing to say on a console, and many of it would say the same.
    if state != State::Running {
        show_warnings(root, &warnings);
    }
    let mut is_superseded = lock.has_sent(fallback::STARTED);
    if !is_superseded && fallback.is_some_and(|number| lock.has_sent(number)) {
        let started = start_unit(root, c"rdreport-fallback.target", &stop);
        let mut words = |line: &mut Text<'_>| systemd::explain("rdreport-fallback.target", started, line);
        is_superseded = matches!(started, Started::Now | Started::Would);
        if is_superseded {
            lock.sent(fallback::STARTED);
            say(&mut words);
        } else {
            // Where there is no systemd, another run cannot start it either.
            undelivered = undelivered.saturating_add(usize::from(started != Started::NoSystemd));
            say_at_last(root, &mut words);
        }
    }
    // Now that there is a network, if there is to be one.
    if let Some((name, opened)) = &opened {
        let addresses = net::reachable();
        say_at_last(root, &mut |line| ssh::explain(name, opened, &addresses, line));
    }
    // What cannot be used as it is set cannot be delivered by another run either.
    lock.settle(undelivered == bad);
    let mut tell = |step| say(&mut |line| action::explain(settings.action(), step, line));
    if acts && is_superseded {
        tell(Step::Superseded);
    } else if acts {
        action::act(root, settings.action(), settings.action_delay_s, &kernel, &stop, &mut tell);
    }
    if undelivered == 0 { DONE } else { UNDELIVERED }
}

/// What the processes of a report have in common.
struct Telling<'a> {
    run: &'a Run<'a>,
    arguments: &'a Arguments,
    id: &'a str,
    deadline: Deadline,
    /// The beginning of a report that may be told to a cloud for longer.
    patient_since: Option<Deadline>,
    /// Whether the settings ask for a report, beside the cloud that was recognised.
    is_asked_for: bool,
    /// Whether each destination gets one attempt.
    is_single: bool,
    /// What the journal says of units, encoded: see [`look`].
    found: &'a [u8],
}

impl Telling<'_> {
    /// Does `job`, in a process of its own; gives its exit status and the length of what it says of its end.
    fn job(
        &self,
        job: &Job<'_>,
        journal: &mut Journal,
        warnings: &mut Warnings,
        said: &mut [u8; WORDS_MAX],
    ) -> (u8, usize) {
        let (run, root, settings) = (self.run, self.run.root, self.run.settings);
        let device = match job {
            Job::Sink(sink) if sink.target.kind.is_device() => {
                Some(device::open(root, &sink.target.url, self.deadline))
            }
            Job::Sink(sink) if sink.is_fallback() => Some(fallback::open(root)),
            _ => None,
        };
        let mut local = match job {
            Job::Cloud(service) => cloud::prepare(service, root, settings, run.state),
            Job::Sink(_) => Local::default(),
        };
        if job.is_fallback() {
            process::limit_file_size(fallback::SIZE_MAX);
        }
        // Its files close here in the others, which have no use for them.
        let files = core::mem::take(journal);
        let journal = job.is_journal().then_some(files).map(|mut files| files.take(root));
        process::leave_stdio();
        sandbox::enter(root, job.reach());
        let mut source = journal.map(|journal| Source::new(journal, settings.journal_redact, self.deadline));
        let mut delivery = run.delivery(self.deadline);
        delivery.heard.tries.is_single = self.is_single;
        let mut stats = Stats::default();
        let mut unknown = None;
        let result = match (job, &mut source) {
            (Job::Sink(sink), _) if sink.is_fallback() => {
                device.unwrap_or(Err(Error::Output(Errno::NOENT))).and_then(|file| {
                    fallback::fetch(&mut delivery, &sink.target.url, self.id, settings.fallback_sha512, file)
                })
            }
            (_, Some(Err(e))) => Err(Error::Journal(*e)),
            (Job::Sink(sink), Some(Ok(source))) => {
                let (format, gzip) = (sink.target.format, sink.target.gzip);
                let max = settings.journal_max;
                let mut body = JournalBody { source, format, max, gzip, length: None, stats };
                let result = send_journal(&device, true, &mut delivery, sink, self.id, &mut body);
                stats = body.stats;
                if result.is_ok() && !settings.journal_redact {
                    unknown = delivery.unknown(&sink.target, self.id, &mut body);
                }
                result
            }
            (job, _) => self.status(job, warnings, &mut local, &mut delivery),
        };
        let complaints = source.as_ref().and_then(|source| source.as_ref().ok());
        put_into_words(&result, unknown, &job.wording(), &delivery.heard, &stats, complaints, said)
    }

    /// Sends the status to a sink or a cloud.
    #[inline(never)] // what failed takes 5 KB of the stack, which a journal has no use for
    fn status(
        &self,
        job: &Job<'_>,
        warnings: &mut Warnings,
        local: &mut Local,
        delivery: &mut Delivery<'_>,
    ) -> Result<Outcome, Error> {
        let (run, arguments) = (self.run, self.arguments);
        let mut failed = units::Failed::decode(self.found, &mut |complaint| warnings.add(&[complaint]));
        if run.state == State::Succeeded {
            // What it said of a try that was repeated.
            failed.ignition.clear();
        }
        let mut report = Report {
            id: self.id,
            state: run.state,
            stage: arguments.stage,
            message: arguments.message,
            code: arguments.code,
            platform: run.platform.map(|platform| platform.name).filter(|name| *name != "none"),
            facts: &run.facts,
            failed: Some(&failed),
            cmdline: run.cmdline,
            warnings,
        };
        match job {
            Job::Sink(sink) => delivery.status(&sink.target, &mut report),
            Job::Cloud(service) => {
                delivery.deadline = job.deadline(self.patient_since, self.deadline);
                if !self.is_asked_for {
                    delivery.network_until = self.deadline.step_ms(NETWORK_MS);
                }
                delivery.cloud(service, &report, local, run.settings)
            }
        }
    }
}

/// Sends the journal to a sink, which may be a device that is told the end.
fn send_journal(
    device: &Option<Result<File, Error>>,
    is_end: bool,
    delivery: &mut Delivery<'_>,
    sink: &SinkOf<'_>,
    id: &str,
    body: &mut JournalBody<'_>,
) -> Result<Outcome, Error> {
    match device {
        Some(Ok(device)) => device::journal(device, body, is_end, delivery.deadline),
        Some(Err(e)) => Err(*e),
        None => delivery.journal(&sink.target, id, body),
    }
}

/// The verb `follow`.
#[cfg(feature = "follow")]
fn follow(root: &Root) -> u8 {
    let mut warnings = Warnings::default();
    let Some(cmdline) = read_cmdline(root, &mut warnings) else { return UNDELIVERED };
    let settings = Settings::parse(&cmdline, &mut warnings);
    let platform = cloud::recognise(&settings, &cmdline, root);
    let run = Run::prepare(root, &settings, &cmdline, State::Running, None, platform, &mut warnings);
    let (sinks, bad) = run.sinks(true, &mut warnings);
    print_warnings(&warnings);
    if sinks.is_empty() || settings.follow == Some(false) {
        say(&mut |line| {
            line.str("nothing to follow to: ");
            line.str(match settings.follow {
                Some(false) => "rd.report.follow is off",
                _ => "no rd.report.journal= on the kernel command line takes the journal while it grows",
            });
        });
        return if bad == 0 { DONE } else { UNDELIVERED };
    }
    let Ok(id) = new_id() else {
        say(&mut no_random);
        return UNDELIVERED;
    };
    let stop = Stop::listen();
    let mut send = |number: usize, part: &Part, journal: Journal, positions: &mut Positions, out: &mut Vec<u8>| {
        let Some(sink) = sinks.get(number) else { return UNDELIVERED };
        let device = sink.target.kind.is_device().then(|| device::open(root, &sink.target.url, part.deadline));
        process::leave_stdio();
        sandbox::enter(root, Job::Sink(sink).reach());
        let mut delivery = run.delivery(part.deadline);
        delivery.part = Some(part.number);
        let mut said = [0; WORDS_MAX];
        let result = Source::new(journal, settings.journal_redact, part.deadline).map_err(Error::Journal);
        let result = result.and_then(|mut source| {
            if part.number > 1 {
                // That was said with the first one.
                source.forget_skipped();
            }
            if source.begin_at(positions) == 0 && !(part.is_last && device.is_some()) {
                return Err(Error::Journal(JournalError::None));
            }
            let (format, gzip, max) = (sink.target.format, sink.target.gzip, settings.journal_max);
            let stats = Stats::default();
            let mut body = JournalBody { source: &mut source, format, max, gzip, length: None, stats };
            let result = send_journal(&device, part.is_last, &mut delivery, sink, &id, &mut body);
            let stats = body.stats;
            result.map(|outcome| (outcome, stats, source.key_lines()))
        });
        let (stats, key_lines) = result.map_or((Stats::default(), 0), |(_, stats, key_lines)| (stats, key_lines));
        let result = result.map(|(outcome, ..)| outcome);
        let (_, len) =
            put_into_words(&result, None, &Job::Sink(sink).wording(), &delivery.heard, &stats, None, &mut said);
        out.extend_from_slice(said.get(..len).unwrap_or_default());
        follow::answer(&result, &delivery.heard, positions, key_lines, stats.entries, out)
    };
    let mut tell = |number: usize, event: follow::Event<'_>| {
        let Some(sink) = sinks.get(number) else { return };
        let mut print = |line: &mut Text<'_>| {
            Job::Sink(sink).put_name(line);
            line.str(": ");
            follow::explain(&event, line);
        };
        match event {
            follow::Event::Up | follow::Event::End(.., true) => say(&mut print),
            _ => say_at_last(root, &mut print),
        }
    };
    let mut followers: Vec<Follower> = sinks.iter().map(|sink| Follower::new(sink.target.kind.is_device())).collect();
    // What takes over from an initramfs removes its files.
    let was_initramfs = is_initramfs(root);
    let mut is_left = || was_initramfs && !is_initramfs(root);
    match follow::follow(root, &mut followers, &stop, &mut is_left, &mut send, &mut tell) && bad == 0 {
        true => DONE,
        false => UNDELIVERED,
    }
}

/// Waits for the watchdog's time; gives whether this is the initramfs still. What takes over from one removes its files.
fn is_stuck(root: &Root, after_s: u32) -> bool {
    if after_s == 0 {
        return false;
    }
    Keys::none().pressed(Deadline::after_boot_ms(u64::from(after_s).saturating_mul(1000)));
    is_initramfs(root)
}

/// The end of the time by which the status, and what is looked up for it, go ahead of all else.
fn head_start(deadline: Deadline) -> Deadline {
    deadline.step_ms(HEAD_START_MS.min(deadline.left_ms() / HEAD_START_PART))
}

/// What became of a job.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Ended(Ended),
    NoProcess(Errno),
    /// The time was over before its turn.
    NotTried,
    /// It is progress, and the end is being reported.
    Over,
}

/// The processes of a report, each of which is settled as it ends.
struct Jobs<'j, 'a> {
    root: &'j Root,
    deadline: Deadline,
    patient_since: Option<Deadline>,
    stop: &'j Stop,
    lock: &'j mut Lock,
    running: Bounded<(Job<'a>, Child), JOBS_MAX>,
    /// Jobs that did not deliver.
    lost: usize,
    /// Bit n: job number n had a second process.
    restarted: u64,
    /// For progress: whether the end is being reported, after which nothing of it may arrive.
    is_over: Option<&'j dyn Fn() -> bool>,
}

impl<'a> Jobs<'_, 'a> {
    /// Starts a process for each of `jobs`. Once it is to end, it begins nothing new.
    fn start(
        &mut self,
        jobs: &mut dyn Iterator<Item = Job<'a>>,
        telling: &Telling<'_>,
        journal: &mut Journal,
        warnings: &mut Warnings,
    ) {
        for job in jobs {
            let running = &mut self.running;
            let mut work = |said: &mut [u8; WORDS_MAX]| {
                // What the others say is not for this one.
                running.clear();
                telling.job(&job, journal, warnings, said)
            };
            let child = match job.deadline(self.patient_since, self.deadline).passed() {
                _ if self.stop.is_asked() => Err(Fate::Ended(Ended::Stopped)),
                _ if self.is_over.is_some_and(|is_over| is_over()) => Err(Fate::Over),
                true => Err(Fate::NotTried),
                false => Child::spawn(&mut work).map_err(Fate::NoProcess),
            };
            match child {
                // There is room for all.
                Ok(child) => {
                    let _ = self.running.push((job, child));
                }
                Err(fate) => self.end(&job, fate, ""),
            }
        }
    }

    /// Waits until none of the jobs that `is_awaited` names is left, or until `until`, and settles each job that ends meanwhile.
    /// With `again`, a status whose process was killed gets a second one, which leaves out what the journal says of units.
    fn settle(
        &mut self,
        is_awaited: fn(&Job<'_>) -> bool,
        until: Deadline,
        mut again: Option<(&Telling<'_>, &mut Warnings)>,
    ) {
        loop {
            let mut next = until;
            if let Some(is_over) = self.is_over {
                if is_over() {
                    return self.abandon();
                }
                next = next.min(Deadline::after_ms(OVER_MS));
            }
            let mut index = 0usize;
            while let Some((job, child)) = self.running.get(index) {
                let due = job.deadline(self.patient_since, self.deadline).later_ms(GRACE_MS);
                if child.has_ended() || due.passed() || self.stop.is_asked() {
                    let (job, child) = self.running.remove(index);
                    let mut words = [0; WORDS_MAX];
                    let (ended, len) = child.wait(self.stop, due, &mut words);
                    let said = words.get(..len).and_then(|said| core::str::from_utf8(said).ok()).unwrap_or_default();
                    match (ended, &mut again) {
                        (Ended::Signal(_), Some((telling, warnings))) if self.may_restart(&job) => {
                            let telling = Telling { found: &[], ..**telling };
                            warnings
                                .add(&["the process that sent the status was killed; units are left out of this one"]);
                            self.start(&mut core::iter::once(job), &telling, &mut Journal::default(), warnings);
                        }
                        _ => self.end(&job, Fate::Ended(ended), said),
                    }
                } else {
                    next = next.min(due);
                    index = index.saturating_add(1);
                }
            }
            if !self.running.iter().any(|(job, _)| is_awaited(job)) || until.passed() {
                return;
            }
            process::wait_for_end(&mut self.running.iter().map(|(_, child)| child), self.stop, next);
        }
    }

    /// Whether `job` is a status that had one process so far; it had two afterwards.
    fn may_restart(&mut self, job: &Job<'_>) -> bool {
        let bit = 1u64.checked_shl(job.number() as u32).unwrap_or(0);
        let may = job.is_status() && self.restarted & bit == 0;
        self.restarted |= bit;
        may
    }

    /// Kills the processes that are left.
    fn abandon(&mut self) {
        while let Some((job, child)) = self.running.pop() {
            // One that has ended may have delivered.
            let (ended, _) = child.wait(self.stop, Deadline::after_ms(0), &mut [0; WORDS_MAX]);
            self.end(&job, if ended == Ended::Late { Fate::Over } else { Fate::Ended(ended) }, "");
        }
    }

    /// Records what became of `job` and prints its line.
    fn end(&mut self, job: &Job<'_>, fate: Fate, said: &str) {
        let is_done = fate == Fate::Ended(Ended::Exit(DONE));
        let placed = match job {
            Job::Sink(sink) if sink.is_fallback() => fallback::settle(self.root, is_done, sink.sha512),
            _ => Ok(()),
        };
        let mut print = |line: &mut Text<'_>| {
            job.put_name(line);
            line.str(": ");
            let not_done = job.wording().not_done;
            match (placed, fate) {
                (Err(e), _) => {
                    line.str(not_done).str(": ");
                    explain::errno(e, line);
                    line
                }
                (_, Fate::Ended(Ended::Exit(_))) if !said.is_empty() => line.str(said),
                (_, Fate::Ended(ended)) => explain::ended(not_done, ended, line),
                (_, Fate::NoProcess(e)) => explain::no_process(not_done, e, line),
                (_, Fate::NotTried) => {
                    line.str(not_done).str(": not tried: the time was over before its turn; raise rd.report.timeout=")
                }
                (_, Fate::Over) => line.str(not_done).str(": the end of the boot is being reported"),
            };
        };
        if is_done && placed.is_ok() {
            self.lock.sent(job.number());
            say(&mut print);
        } else {
            self.lost = self.lost.saturating_add(1);
            say_at_last(self.root, &mut print);
        }
    }
}

/// The journal as it is now, if a destination or the status wants it; asked of journald to be written first, so that a line that was
/// logged just before is in it. It is opened and not read: whoever reads it has given up its rights.
fn open_journal(root: &Root, state: State, is_sent: bool, look_until: Deadline) -> Journal {
    if !is_sent && state == State::Running {
        return Journal::default();
    }
    journal::sync::sync(root, look_until.step_ms(SYNC_MS.min(look_until.left_ms() / 2)));
    Journal::open(root)
}

/// What the journal says of units, encoded ([`units::Failed`]), as far as that is found until a deadline. A process of its own looks, which
/// has given up all its rights: one that hangs, crashes or is killed costs what it would have found and nothing else, which is said.
fn look(
    root: &Root,
    journal: &mut Journal,
    settings: &Settings<'_>,
    is_sent: bool,
    stop: &Stop,
    until: Deadline,
    warnings: &mut Warnings,
) -> Vec<u8> {
    let (begun, ms) = (Deadline::after_ms(0), until.left_ms());
    let part = |eighths: u64| begun.later_ms((ms / 8).saturating_mul(eighths));
    let child = Child::spawn_long(&mut |out| {
        let journal = journal.take(root);
        process::leave_stdio();
        sandbox::enter(root, Reach::Nothing);
        match Source::new(journal, settings.journal_redact, part(6)) {
            Ok(mut source) => {
                let failed = units::failed(&mut source, part(4), part(7));
                failed.encode(&mut |complain| for_each_complaint(&source, complain), out);
            }
            Err(e) => {
                let mut buf = [0; COMPLAINT_MAX];
                let mut text = Text::new(&mut buf);
                text.str("journal: ");
                explain::error(Error::Journal(e), &CertFacts::default(), &mut text);
                // An image without a journal is none of which something would be missing.
                let is_unknown = e != JournalError::None;
                let failed = units::Failed { is_unreadable: is_unknown, ..units::Failed::default() };
                failed.encode(
                    &mut |complain| {
                        if is_sent || is_unknown {
                            complain(text.as_str());
                        }
                    },
                    out,
                );
            }
        }
        DONE
    });
    let mut found = vec![0; units::ENCODED_MAX];
    let ended = child.map(|child| child.wait(stop, until, &mut found));
    let mut buf = [0; COMPLAINT_MAX];
    let mut why = Text::new(&mut buf);
    match ended {
        Ok((Ended::Exit(DONE), len)) => {
            found.truncate(len);
            let mut complain = |complaint: &str| {
                say(&mut |line| {
                    line.str(complaint);
                });
            };
            match units::verdict(&found, &mut complain).1 {
                0 => {}
                units::UNREADABLE => drop(why.str("the journal cannot be read")),
                _ => drop(why.str("the journal was not read to its end in time")),
            }
        }
        Ok((ended, _)) => {
            found.clear();
            explain::ended("the journal was not read", ended, &mut why);
        }
        Err(e) => {
            found.clear();
            explain::no_process("the journal was not read", e, &mut why);
        }
    }
    if !why.as_str().is_empty() {
        warnings.add(&[why.as_str(), "; units may have failed that are not named here"]);
    }
    found.shrink_to_fit();
    found
}

/// The verb `journal`. What may be seen of it is set as for the sinks.
fn print_journal(root: &Root, arguments: &Arguments) -> u8 {
    let mut warnings = Warnings::default();
    let mut read = |buf: &mut [u8]| root.read("proc/cmdline", buf).map(|line| line.len());
    let cmdline = cmdline(root, &mut read, &mut warnings).unwrap_or_default();
    let settings = Settings::parse(&cmdline, &mut warnings);
    if arguments.format == Format::Raw && settings.journal_redact {
        say(&mut |line| {
            line.str("journal: raw files cannot be redacted; they are written only with rd.report.journal.redact=off");
        });
        return UNDELIVERED;
    }
    journal::sync::sync(root, Deadline::after_ms(SYNC_MS));
    let journal = Journal::open(root).take(root);
    sandbox::enter(root, Reach::Nothing);
    let source = Source::new(journal, settings.journal_redact, Deadline::NEVER);
    let result = source.map_err(Error::Journal).and_then(|mut source| {
        let (format, max) = (arguments.format, settings.journal_max);
        let gzip = arguments.gzip.then_some(gzip::LEVEL);
        let stats = Stats::default();
        JournalBody { source: &mut source, format, max, gzip, length: None, stats }.write(&mut Output::stdout())
    });
    match result {
        // Whoever reads has read enough.
        Ok(()) | Err(Error::Output(Errno::PIPE)) => DONE,
        Err(e) => {
            say(&mut |line| {
                line.str("journal: ");
                explain::error(e, &CertFacts::default(), line);
            });
            UNDELIVERED
        }
    }
}

/// The verb `check`.
fn check(root: &Root, stdin: bool, network: bool) -> u8 {
    let mut warnings = Warnings::default();
    let mut read = |buf: &mut [u8]| match stdin {
        true => process::read_stdin(buf),
        false => root.read("proc/cmdline", buf).map(|line| line.len()),
    };
    let cmdline = match cmdline(root, &mut read, &mut warnings) {
        Ok(line) => line,
        Err(e) => {
            say(&mut |line| {
                line.str(if stdin { "standard input: " } else { "/proc/cmdline: " });
                explain::errno(e, line);
            });
            return UNDELIVERED;
        }
    };
    let cmdline = cmdline.as_slice();
    let settings = Settings::parse(cmdline, &mut warnings);
    let platform = cloud::recognise(&settings, cmdline, root);
    if network {
        let is_far = |url: &&str| !["file:", "vsock:"].iter().any(|near| url.starts_with(near));
        let needs = settings.url.iter().chain(&settings.journal).chain(&settings.fallback()).any(is_far)
            || settings.ssh().is_some()
            || cloud::needs_network(platform.as_ref(), &settings, cmdline, root);
        return if needs { DONE } else { UNDELIVERED };
    }
    let mut run = Run::prepare(root, &settings, cmdline, State::Failed, None, platform, &mut warnings);
    ssh::warn(root, &settings, run.platform.map_or("", |platform| platform.name), &mut warnings);
    // All that is wrong is known before the first line.
    for state in State::ALL {
        run.state = state;
        run.sinks(false, &mut warnings);
    }
    #[cfg(feature = "follow")]
    if settings.follow == Some(true) {
        run.sinks(true, &mut warnings);
    }
    warn_of_gaps(&settings, &mut warnings);
    let status = print(&mut |out| {
        put_settings(cmdline, &warnings, out)?;
        cloud::describe(run.platform.as_ref(), root, out)?;
        put_all(out, &["what is sent:\n"])?;
        for state in State::ALL {
            run.state = state;
            let (sinks, _) = run.sinks(false, &mut Warnings::default());
            let clouds = cloud::services(run.platform.as_ref(), &settings, root, state);
            let is_nothing = sinks.is_empty() && clouds.is_empty();
            put_all(out, &["  ", state.as_str(), if is_nothing { ": nothing\n" } else { ":\n" }])?;
            sinks.iter().try_for_each(|sink| describe(&run, sink, out))?;
            clouds.iter().try_for_each(|service| service.describe(out))?;
            if let Some(name) = settings.ssh().filter(|_| state == State::Failed) {
                ssh::describe(root, name, &settings, out)?;
            }
        }
        #[cfg(feature = "follow")]
        if settings.follow == Some(true) {
            run.state = State::Running;
            put_all(out, &["  while it grows, in parts:\n"])?;
            run.sinks(true, &mut Warnings::default()).0.iter().try_for_each(|sink| describe(&run, sink, out))?;
        }
        Ok(())
    });
    if warnings.lines().next().is_some() { UNDELIVERED } else { status }
}

/// Writes the settings that are set, each with the value that holds and what is wrong with it, and first what is wrong with no setting
/// alone.
fn put_settings(cmdline: &[u8], warnings: &Warnings, out: &mut dyn Sink) -> Result<(), Error> {
    let mut general = warnings.lines().filter(|warning| !KEYS.iter().any(|key| key.is_named_by(warning))).peekable();
    if general.peek().is_some() || warnings.dropped() > 0 {
        put_all(out, &["problems:\n"])?;
        general.try_for_each(|warning| put_all(out, &["  ! ", warning, "\n"]))?;
    }
    if warnings.dropped() > 0 {
        let mut digits = [0; DECIMAL_MAX];
        put_all(out, &["  ! and ", decimal(warnings.dropped().into(), &mut digits), " more\n"])?;
    }
    let mut unset = 0u64;
    for group in Group::ALL {
        let mut heading = group.as_str();
        for key in KEYS.iter().filter(|key| key.group == group) {
            let is_set = Words::new(cmdline).any(|word| Settings::is_word_of(&word, key));
            if !is_set && !warnings.lines().any(|warning| key.is_named_by(warning)) {
                unset = unset.saturating_add(1);
                continue;
            }
            if !heading.is_empty() {
                put_all(out, &[core::mem::take(&mut heading), ":\n"])?;
            }
            put_setting(cmdline, key, warnings, out)?;
        }
    }
    let mut digits = [0; DECIMAL_MAX];
    put_all(out, &["not set: ", decimal(unset, &mut digits), " settings; their defaults are in rdreport --help\n"])
}

/// Writes the values of `key` that hold, a line each, and behind each what is wrong with it; then what is wrong otherwise.
fn put_setting(cmdline: &[u8], key: &Key, warnings: &Warnings, out: &mut dyn Sink) -> Result<(), Error> {
    let mut buf = [0; LINE_MAX];
    let mut is_held = false;
    key.for_each_held(cmdline, &mut |value| {
        is_held = true;
        let value = shown_of(key, value, &mut buf);
        put_all(out, &["  ", PREFIX, key.name, " = ", value, "\n"])?;
        put_wrong(warnings, out, &mut |warning| key.is_named_by(warning) && is_of_value(warning, value))
    })?;
    if !is_held {
        put_all(out, &["  ", PREFIX, key.name, " = ", key.default, " (the default)\n"])?;
    }
    put_wrong(warnings, out, &mut |warning| {
        let mut is_said = !key.is_named_by(warning);
        let _ = key.for_each_held(cmdline, &mut |value| {
            is_said |= is_of_value(warning, shown_of(key, value, &mut buf));
            Ok(())
        });
        !is_said
    })
}

fn put_wrong(warnings: &Warnings, out: &mut dyn Sink, is_one: &mut dyn FnMut(&str) -> bool) -> Result<(), Error> {
    let mut wrong = warnings.lines().filter(|warning| is_one(warning));
    wrong.try_for_each(|warning| put_all(out, &["    ! ", warning, "\n"]))
}

/// Whether a warning is about this value, as it is shown: `rd.report.KEY=VALUE …`.
fn is_of_value(warning: &str, value: &str) -> bool {
    let rest = warning.split_once('=').and_then(|(_, rest)| rest.strip_prefix(value));
    rest.is_some_and(|rest| rest.starts_with([' ', ':']))
}

/// A value of `key` as it may be shown.
fn shown_of<'b>(key: &Key, value: &str, buf: &'b mut [u8; LINE_MAX]) -> &'b str {
    let mut text = Text::new(buf);
    match value {
        // A flag's word alone.
        "" if matches!(key.name, "pin" | "fallback.sha512") => drop(text.str("(empty)")),
        "" => drop(text.str("on")),
        _ => drop(redact::value(key, value.as_bytes(), &mut |part| text.put(part))),
    }
    let len = text.as_bytes().len();
    buf.get(..len).and_then(|text| core::str::from_utf8(text).ok()).unwrap_or_default()
}

/// Warns of URLs in which a value seems to be missing: a boot loader replaces `${hostname}` by nothing where it is not quoted.
fn warn_of_gaps(settings: &Settings<'_>, warnings: &mut Warnings) {
    let urls = settings.url.iter().map(|url| ("url", *url)).chain(settings.journal.iter().map(|url| ("journal", *url)));
    for (key, url) in urls.chain(settings.fallback().map(|url| ("fallback", url))) {
        let path = url.as_bytes().split(|b| *b == b'?').next().unwrap_or_default();
        let query = url.as_bytes().get(path.len()..).and_then(|query| query.get(1..)).unwrap_or_default();
        // A name, and nothing behind the first `=` but more of these.
        let is_empty = |item: &[u8]| {
            let name = item.iter().take_while(|b| **b != b'=').count();
            item.len() > 1 && item.len() > name && item.iter().skip(name).all(|b| *b == b'=')
        };
        let what = if query.split(|b| matches!(b, b'&' | b';')).any(is_empty) {
            "a name in its query has no value"
        } else if !path.starts_with(b"file:") && path.windows(3).any(is_gap) {
            "a part of its path is empty"
        } else {
            continue;
        };
        let mut buf = [0; LINE_MAX];
        let why = "; boot loaders replace ${...} by nothing, GRUB unless it is in single quotes";
        warnings.add(&[PREFIX, key, "=", shown(url, &mut buf), ": ", what, why]);
    }
}

/// Whether two slashes of a path stand behind something else than a scheme's colon.
fn is_gap(three: &[u8]) -> bool {
    matches!(three, [before, b'/', b'/'] if !matches!(before, b':' | b'/'))
}

/// Says what would be sent to a sink, and how.
fn describe(run: &Run<'_>, sink: &SinkOf<'_>, out: &mut dyn Sink) -> Result<(), Error> {
    let put_method = sink.target.kind == Kind::Put;
    put_all(
        out,
        &[
            "    ",
            match sink.target.kind {
                Kind::Put => "PUT ",
                Kind::Device => "write ",
                Kind::Fetch => "GET the fallback configuration from ",
                Kind::Post | Kind::JournalRemote => "POST ",
            },
            if sink.is_fallback() {
                ""
            } else if sink.is_journal {
                "the journal to "
            } else {
                "the status to "
            },
        ],
    )?;
    redact::url(sink.target.url.as_bytes(), &mut |part| out.put(part))?;
    put_all(
        out,
        &[match sink.target.format {
            _ if sink.is_fallback() && run.settings.fallback_sha512.is_some() => ": checked by its SHA-512",
            _ if sink.is_fallback() => ": whatever it is",
            Format::Json | Format::JsonLines => ": JSON",
            Format::Export => ": export format",
            Format::Short => ": lines for people",
            Format::Raw | Format::Unknown => ": tar of the files",
        }],
    )?;
    match sink.target.gzip {
        Some(level) => put_all(out, &[", gzip level ", decimal(level.into(), &mut [0; DECIMAL_MAX])])?,
        None if sink.is_journal => put_all(out, &[", not compressed"])?,
        None => {}
    }
    if sink.target.kind.is_device() {
        return put_all(out, &["\n"]);
    }
    if sink.is_journal {
        put_all(out, &[if put_method { ", with its length" } else { ", chunked" }])?;
    }
    match Url::parse(&sink.target.url) {
        Ok(url) if url.tls => {
            let settings = run.settings;
            let roots = match cfg!(feature = "roots") && settings.roots {
                _ if !settings.pin.is_empty() => ", trusting the keys of rd.report.pin= alone",
                _ if settings.insecure => ", trusting ANYBODY",
                true => ", trusting the built-in roots and ",
                false => ", trusting no built-in root and ",
            };
            put_all(out, &[", TLS", roots])?;
            if roots.ends_with(' ') {
                put_all(out, &[decimal(run.extra_roots as u64, &mut [0; DECIMAL_MAX]), " of rd.report.ca="])?;
            }
        }
        _ => put_all(out, &[", without TLS: anybody on the way can read it"])?,
    }
    let url = Url::parse(&sink.target.url).ok();
    if url.and_then(|url| proxy::on_the_way(run.proxy, &url)).is_some() {
        put_all(out, &[", through rd.report.proxy="])?;
    }
    put_all(out, &["\n"])
}

/// The proxy that the settings name.
fn proxy<'a>(settings: &Settings<'a>, warnings: &mut Warnings) -> Option<Url<'a>> {
    let value = settings.proxy()?;
    match Url::parse(value) {
        Ok(url) if !url.tls => Some(url),
        _ => {
            warnings.add(&["rd.report.proxy=: not of the form http://[user:password@]host:port; no proxy is used"]);
            None
        }
    }
}

/// Which servers the settings trust, and the number of certificates of rd.report.ca= among that.
fn trust(root: &Root, settings: &Settings<'_>, warnings: &mut Warnings) -> (Trust, usize) {
    let (mut trust, mut added) = (Trust::new(), 0usize);
    let mut is_known = true;
    for path in &settings.ca {
        match regular(root, path).and_then(|file| Ok((look_through(root, &file)?, file))) {
            Ok((found, file)) => {
                match &found {
                    Some(scan) => added = added.saturating_add(scan.usable.into()),
                    None => is_known = false,
                }
                warn_of_ca(path, found, warnings);
                trust.add_ca(file);
            }
            Err(e) => {
                let mut buf = [0; 128];
                let mut why = Text::new(&mut buf);
                match e {
                    _ if !cfg!(feature = "tls") => {
                        explain::error(TlsError::NotBuilt.into(), &CertFacts::default(), &mut why)
                    }
                    e => explain::errno(e, &mut why),
                }
                warnings.add(&["rd.report.ca=", path, ": ", why.as_str(), "; it is not trusted"]);
            }
        }
    }
    for pin in &settings.pin {
        if let Err(e) = trust.pin(pin) {
            let why = match e {
                TlsError::NotBuilt => ": this build has no TLS",
                TlsError::TooLarge => ": more than 16 keys; the further ones are not trusted",
                _ => ": no SHA-256 of a public key (sha256:BASE64); a key that cannot be read is none that is trusted",
            };
            warnings.add(&["rd.report.pin=", pin, why]);
        }
    }
    if settings.insecure && cfg!(feature = "tls") {
        warnings.add(&[
            "rd.report.insecure: ANY certificate is accepted; anybody on the way can read and change the report",
        ]);
        trust.accept_any();
    }
    if !settings.roots {
        trust.drop_built_in();
        if added == 0 && is_known && settings.pin.is_empty() && !settings.insecure {
            warnings.add(&[
                "rd.report.roots=off, and no certificate of rd.report.ca= can be read: no server is trusted over TLS",
            ]);
        }
    }
    if settings.clock_lenient {
        trust.believe_date();
    }
    #[cfg(feature = "client-auth")]
    if let Some(path) = settings.cert {
        show_client(root, path, settings.key.unwrap_or(path), &mut trust, warnings);
    }
    (trust, added)
}

/// Opens a file, not a directory or a device.
fn regular(root: &Root, path: &str) -> Result<File, Errno> {
    let file = root.file(path)?;
    if file.is_regular()? { Ok(file) } else { Err(Errno::ISDIR) }
}

/// Looks through a PEM file, in a process that has no rights left; `None` where that process did not come to an end.
fn look_through(root: &Root, file: &File) -> Result<Option<Scan>, Errno> {
    /// Milliseconds that it may take: a system's whole bundle needs 5.
    const SCAN_MS: u64 = 1000;
    if !cfg!(feature = "tls") {
        return Err(Errno::NOSYS);
    }
    let child = Child::spawn(&mut |said| {
        sandbox::enter(root, Reach::Nothing);
        let (errno, scan) = match scan(file) {
            Ok(scan) => (0, scan),
            Err(e) => (e.raw_os_error() as u16, Scan { usable: 0, unusable: 0, is_whole: false }),
        };
        let numbers = [scan.usable, scan.unusable, scan.is_whole.into(), errno];
        for (to, number) in said.chunks_exact_mut(2).zip(numbers) {
            to.copy_from_slice(&number.to_ne_bytes());
        }
        (DONE, size_of_val(&numbers))
    });
    let mut said = [0; 8];
    let Ok(child) = child else { return Ok(None) };
    let (_, len) = child.wait(&Stop::none(), Deadline::after_ms(SCAN_MS), &mut said);
    if len < said.len() {
        return Ok(None);
    }
    let [u0, u1, b0, b1, whole, _, e0, e1] = said;
    match u16::from_ne_bytes([e0, e1]) {
        0 => Ok(Some(Scan {
            usable: u16::from_ne_bytes([u0, u1]),
            unusable: u16::from_ne_bytes([b0, b1]),
            is_whole: whole != 0,
        })),
        errno => Err(Errno::from_raw_os_error(errno.into())),
    }
}

/// Says what of a PEM file is not trusted.
fn warn_of_ca(path: &str, found: Option<Scan>, warnings: &mut Warnings) {
    let Some(Scan { usable, unusable, is_whole }) = found else {
        return warnings.add(&["rd.report.ca=", path, ": it is not known what it holds; what can be read is trusted"]);
    };
    if !is_whole {
        warnings.add(&["rd.report.ca=", path, ": larger than 4 MB; what lies behind is not trusted"]);
    }
    let mut buf = [0; DECIMAL_MAX];
    match (usable, unusable) {
        (0, 0) => warnings.add(&["rd.report.ca=", path, ": holds no certificate in PEM; it is not trusted"]),
        (_, 0) => {}
        (0, _) => warnings.add(&["rd.report.ca=", path, ": its certificate cannot be read; it is not trusted"]),
        _ => {
            let number = decimal(unusable.into(), &mut buf);
            warnings.add(&[
                "rd.report.ca=",
                path,
                ": ",
                number,
                " of its certificates cannot be read; the others are trusted",
            ]);
        }
    }
}

/// The client's certificate and key; a key that is not named lies in the certificate's file.
#[cfg(feature = "client-auth")]
fn show_client(root: &Root, cert_path: &str, key_path: &str, trust: &mut Trust, warnings: &mut Warnings) {
    let mut buf = [0; 128];
    let mut why = Text::new(&mut buf);
    let path = match (regular(root, cert_path), regular(root, key_path)) {
        (Ok(cert), Ok(key)) => match trust.set_client(&cert, &key) {
            Ok(()) => return,
            Err(e) => {
                explain::error(Error::Tls(e), &CertFacts::default(), &mut why);
                if e == TlsError::BadClientKey { key_path } else { cert_path }
            }
        },
        (Err(e), _) => {
            explain::errno(e, &mut why);
            cert_path
        }
        (_, Err(e)) => {
            explain::errno(e, &mut why);
            key_path
        }
    };
    let name = if path == cert_path { "rd.report.cert=" } else { "rd.report.key=" };
    warnings.add(&[name, path, ": ", why.as_str(), "; no certificate is shown"]);
}

fn help(out: &mut dyn Sink) -> Result<(), Error> {
    put_all(out, &[ABOUT, FORMATS, GZIP, FOLLOW, ABOUT_REST])?;
    for key in KEYS {
        put_all(out, &["  ", PREFIX, key.name, if key.value.is_empty() { "" } else { "=" }, key.value, "\n"])?;
        put_all(out, &["      ", key.help, if key.works { " [" } else { "[" }, key.default, "]\n"])?;
    }
    Ok(())
}

/// An argument that is wrong, and why.
fn usage_words(why: Usage) -> (&'static str, &'static str) {
    match why {
        Usage::NoVerb => ("no verb", " given"),
        Usage::Unknown(word) => (word, ": unknown argument"),
        Usage::NoValue(word) => (word, ": needs a value"),
        Usage::BadValue(word) => (word, ": not a valid value"),
    }
}

fn usage(why: Usage) -> u8 {
    let (argument, why) = usage_words(why);
    say(&mut |line| {
        line.str(argument).str(why).str("; see rdreport --help");
    });
    USAGE
}

/// A URL with its secrets masked.
fn shown<'b>(url: &str, buf: &'b mut [u8; LINE_MAX]) -> &'b str {
    let mut text = Text::new(buf);
    let _ = redact::url(url.as_bytes(), &mut |part| {
        text.str(core::str::from_utf8(part).unwrap_or_default());
        Ok(())
    });
    let len = text.as_bytes().len();
    buf.get(..len).and_then(|text| core::str::from_utf8(text).ok()).unwrap_or_default()
}

fn print_warnings(warnings: &Warnings) {
    for warning in warnings.lines() {
        say(&mut |line| {
            line.str(warning);
        });
    }
    if warnings.dropped() > 0 {
        say(&mut |line| {
            line.str("and ").dec(warnings.dropped().into()).str(" more warnings");
        });
    }
}

/// Warnings that are shown on the console, and the milliseconds that it takes at most: a slow one must not hold up the rest.
const SHOWN_MAX: usize = 12;
const SHOWN_MS: u64 = 1_000;

/// Shows warnings on the console and in the kernel's log. On standard error they are already.
fn show_warnings(root: &Root, warnings: &Warnings) {
    let until = Deadline::after_ms(SHOWN_MS);
    let mut buf = [0; LINE_MAX];
    for warning in warnings.lines().take(SHOWN_MAX).take_while(|_| until.left_ms() > 0) {
        let mut words = |line: &mut Text<'_>| {
            line.str(warning);
        };
        output::print(root, line(&mut words, &mut buf));
    }
}

/// Prints a line to standard error, in one piece so that lines of several processes do not mix.
fn say(words: &mut dyn FnMut(&mut Text<'_>)) {
    let mut buf = [0; LINE_MAX];
    let _ = Output::stderr().write_by(line(words, &mut buf), Deadline::after_ms(LINE_MS));
}

/// Prints a line where somebody may see it even if standard error goes nowhere: to the console and the kernel's log as well.
fn say_at_last(root: &Root, words: &mut dyn FnMut(&mut Text<'_>)) {
    let mut buf = [0; LINE_MAX];
    let line = line(words, &mut buf);
    let _ = Output::stderr().write_by(line, Deadline::after_ms(LINE_MS));
    output::print(root, line);
}

/// A line of ours, with its end.
fn line<'b>(words: &mut dyn FnMut(&mut Text<'_>), buf: &'b mut [u8; LINE_MAX]) -> &'b [u8] {
    // What children, servers, the journal and other machines say stands in it.
    let mut said = [0; LINE_MAX];
    let mut raw = Text::new(&mut said);
    words(&mut raw);
    let mut line = Text::new(buf);
    line.str("rdreport: ");
    let _ = escape::graphic(raw.as_bytes(), false, &mut line);
    // The line end takes the place of what would not have fitted.
    let len = line.as_bytes().len().min(LINE_MAX - 1);
    if let Some(end) = buf.get_mut(len) {
        *end = b'\n';
    }
    buf.get(..=len).unwrap_or_default()
}

/// Runs what prints to standard output; gives the exit status.
fn print(what: &mut dyn FnMut(&mut dyn Sink) -> Result<(), Error>) -> u8 {
    match what(&mut Shown(Output::stdout())) {
        Ok(()) => DONE,
        Err(_) => UNDELIVERED,
    }
}

/// Standard output, where a person reads it.
struct Shown(Output);

impl Sink for Shown {
    fn put(&mut self, bytes: &[u8]) -> Result<(), Error> {
        escape::graphic(bytes, true, &mut self.0)
    }
}

impl Sink for Output {
    fn put(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.write_all(bytes).map_err(Error::Output)
    }
}
