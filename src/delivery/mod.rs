//! What a sink's process does: sends the status or the journal to one server, and says in a few words how that ended.

pub mod device;
pub mod headers;

use crate::cloud::{self, Local, Service};
use crate::destination::{Kind, Target};
use crate::encode::{self, Format, Stats};
use crate::error::{Error, HttpError, NetError, TlsError};
use crate::http::client::{Body, Client, Heard, Keep, Outcome, Taken, Whole};
use crate::http::head::Fields;
use crate::http::url::{Url, UrlText};
use crate::journal::source::Source;
use crate::net::Dial;
use crate::net::tls::trust::Trust;
use crate::report::Report;
use crate::settings::Settings;
use crate::sink::{Count, Sink};
use crate::sys::Errno;
use crate::sys::build_date::BUILD_DATE_S;
use crate::sys::process::WORDS_MAX;
use crate::sys::time::{self, Deadline};
use crate::text::Text;
use crate::{explain, gzip};

/// Exit status of a sink's process that delivered.
pub const DELIVERED: u8 = 0;
/// Exit status of one that did not.
pub const UNDELIVERED: u8 = 1;

/// Longest sentence about the journal.
pub const COMPLAINT_MAX: usize = 256;

/// Milliseconds for asking a server for its time.
const DATE_MS: u64 = 3_000;

/// How a sink is reached, and until when.
pub struct Delivery<'a> {
    /// How names are looked up.
    pub dial: Dial<'a>,
    /// Which servers are trusted.
    pub trust: Trust,
    /// What is gone through to servers that are not near.
    pub proxy: Option<Url<'a>>,
    /// Lines of the owner's header fields.
    pub own: &'a [u8],
    /// A service of the cloud's that knows the time, in plain HTTP.
    pub clock: Option<&'static str>,
    /// The end of all tries.
    pub deadline: Deadline,
    /// Where the journal goes in parts: which one this is. Such a one is tried once; the caller knows what to do after that.
    pub part: Option<u64>,
    /// The end of a cloud's waiting for a network.
    pub network_until: Deadline,
    /// What was learnt on the way.
    pub heard: Heard,
}

impl Delivery<'_> {
    /// Sends the status.
    pub fn status(&mut self, target: &Target, report: &mut Report<'_>) -> Result<Outcome, Error> {
        let fields = Fields {
            content_type: Some("application/json"),
            gzip: false,
            length: report.length(),
            report_id: report.id,
            part: None,
            own: self.own,
        };
        self.send("POST", &target.url, &fields, report, &mut Keep::nothing())
    }

    /// Sends the journal.
    pub fn journal(&mut self, target: &Target, report_id: &str, body: &mut JournalBody<'_>) -> Result<Outcome, Error> {
        let is_put = target.kind == Kind::Put;
        if is_put {
            body.count()?;
        }
        // A presigned URL is signed for a request without these.
        let fields = Fields {
            content_type: Some(content_type(target.format)).filter(|_| !is_put),
            gzip: target.gzip.is_some() && !is_put,
            length: body.length,
            report_id,
            part: self.part,
            own: self.own,
        };
        let method = if is_put { "PUT" } else { "POST" };
        self.send(method, &target.url, &fields, body, &mut Keep::nothing())
    }

    /// Tells a cloud's service.
    pub fn cloud(
        &mut self,
        service: &Service,
        report: &Report<'_>,
        local: &mut Local,
        settings: &Settings<'_>,
    ) -> Result<Outcome, Error> {
        let (deadline, network_until) = (self.deadline, self.network_until);
        let mut heard = core::mem::take(&mut self.heard);
        let mut send = |request: &cloud::Request<'_>, answer: &mut [u8], heard: &mut Heard| {
            let fields = Fields {
                content_type: None,
                gzip: false,
                length: Some(request.body.len() as u64),
                report_id: report.id,
                part: None,
                own: request.fields.as_bytes(),
            };
            self.in_time(request.url, report.id, !request.is_local, heard, &mut |client, heard| {
                let mut body = request.body;
                client.once(
                    request.method,
                    request.url,
                    &fields,
                    &mut body,
                    &mut Keep::Start(answer, 0),
                    request.until,
                    heard,
                )
            })
        };
        let result = cloud::deliver(service, report, local, settings, deadline, network_until, &mut heard, &mut send);
        self.heard = heard;
        result
    }

    /// Sends the files of which no stream can be made, in a request of their own behind the stream's; `None` where there are none, or the
    /// sink takes one body only. Secrets in them are not masked.
    pub fn unknown(
        &mut self,
        target: &Target,
        report_id: &str,
        body: &mut JournalBody<'_>,
    ) -> Option<Result<Outcome, Error>> {
        let takes_one = target.kind != Kind::Post || body.format == Format::Raw;
        if !cfg!(feature = "formats") || takes_one || !body.source.has_unknown() {
            return None;
        }
        body.format = Format::Unknown;
        let fields = Fields {
            content_type: Some(content_type(body.format)),
            gzip: body.gzip.is_some(),
            length: None,
            report_id,
            part: None,
            own: self.own,
        };
        Some(self.send("POST", &target.url, &fields, body, &mut Keep::nothing()))
    }

    /// Fetches what is at `place`.
    pub fn fetch(&mut self, place: &str, report_id: &str, whole: &mut dyn Whole) -> Result<Outcome, Error> {
        let fields = Fields { content_type: None, gzip: false, length: Some(0), report_id, part: None, own: self.own };
        self.send("GET", place, &fields, &mut b"".as_slice(), &mut Keep::All(whole))
    }

    fn send(
        &mut self,
        method: &str,
        place: &str,
        fields: &Fields<'_>,
        body: &mut dyn Body,
        keep: &mut Keep<'_>,
    ) -> Result<Outcome, Error> {
        let (deadline, mut heard) = (self.deadline, core::mem::take(&mut self.heard));
        let is_single = self.part.is_some();
        let result = self.in_time(place, fields.report_id, true, &mut heard, &mut |client, heard| {
            heard.tries.is_single |= is_single;
            client.send(method, place, fields, body, keep, deadline, heard)
        });
        self.heard = heard;
        result
    }

    /// Sends to `url` by `send`; where this machine's clock is not to be trusted, with the time that others tell.
    fn in_time(
        &mut self,
        url: &str,
        report_id: &str,
        by_proxy: bool,
        heard: &mut Heard,
        send: &mut dyn FnMut(&Client<'_>, &mut Heard) -> Result<Outcome, Error>,
    ) -> Result<Outcome, Error> {
        let url = Url::parse(url).map_err(|_| HttpError::BadUrl)?;
        let proxy = self.proxy.filter(|_| by_proxy);
        let is_dated = url.tls && self.trust.looks_at_times();
        if is_dated && !self.trust.knows_the_date() && time::realtime_s() < BUILD_DATE_S {
            self.ask_for_the_date(&url, report_id, proxy);
        }
        let mut is_last = false;
        loop {
            let result = send(&Client { dial: &self.dial, trust: &self.trust, proxy }, heard);
            if is_last || result != Err(TlsError::Expired.into()) || !self.trust.believes_dates() {
                return result;
            }
            is_last = true;
            self.ask_for_the_date(&url, report_id, proxy);
        }
    }

    /// Asks the server of `url`, and then the cloud, in plain HTTP for nothing but the `Date`; whatever else they answer does not matter.
    fn ask_for_the_date(&mut self, url: &Url<'_>, report_id: &str, proxy: Option<Url<'_>>) {
        let mut plain = UrlText::default();
        let brackets = if url.host.as_bytes().contains(&b':') { ("[", "]") } else { ("", "") };
        for part in ["http://", brackets.0, url.host, brackets.1, "/"] {
            if plain.push_str(part).is_err() {
                return;
            }
        }
        for place in [Some(&*plain), self.clock].into_iter().flatten() {
            if let Some(date_s) = self.date_of(place, report_id, proxy) {
                return self.trust.learn_date(date_s);
            }
        }
    }

    fn date_of(&self, url: &str, report_id: &str, proxy: Option<Url<'_>>) -> Option<u64> {
        let fields = Fields { content_type: None, gzip: false, length: Some(0), report_id, part: None, own: b"" };
        let client = Client { dial: &self.dial, trust: &self.trust, proxy };
        let mut heard = Heard::default();
        let least_ms = self.deadline.left_ms() / 2;
        loop {
            let until = self.deadline.step_ms(DATE_MS);
            let ended = client.once("HEAD", url, &fields, &mut b"".as_slice(), &mut Keep::nothing(), until, &mut heard);
            // Without a network yet the time is asked for once there is one, unless that takes half of what was left.
            match ended {
                Err(Error::Net(
                    NetError::NoRoute
                    | NetError::NoInterface
                    | NetError::NoNameserver
                    | NetError::Connect(Errno::HOSTUNREACH),
                )) if self.deadline.left_ms() > least_ms => {}
                _ => return heard.date_s,
            }
        }
    }
}

fn content_type(format: Format) -> &'static str {
    match format {
        Format::Export => "application/vnd.fdo.journal",
        Format::Json | Format::JsonLines => "application/x-ndjson",
        Format::Short => "text/plain; charset=utf-8",
        Format::Raw | Format::Unknown => "application/x-tar",
    }
}

/// The journal as a request's body.
pub struct JournalBody<'a> {
    /// Where it is read.
    pub source: &'a mut Source,
    /// How it is written.
    pub format: Format,
    /// Bytes of it, before they are compressed.
    pub max: Option<u64>,
    /// Level of compression, if any.
    pub gzip: Option<u8>,
    /// Its length, once that is known.
    pub length: Option<u64>,
    /// Of the last time that it was written.
    pub stats: Stats,
}

impl Body for JournalBody<'_> {
    /// Makes the body once for nothing.
    fn count(&mut self) -> Result<Option<u64>, Error> {
        let mut count = Count::default();
        self.write(&mut count)?;
        self.length = Some(count.0);
        Ok(self.length)
    }

    fn length(&self) -> Option<u64> {
        self.length
    }

    fn write(&mut self, out: &mut dyn Sink) -> Result<(), Error> {
        let (source, format, max, stats) = (&mut *self.source, self.format, self.max, &mut self.stats);
        let mut write = |out: &mut dyn Sink| {
            *stats = encode::stream(source, format, max, out)?;
            Ok(())
        };
        match self.gzip {
            None => write(out),
            Some(level) => gzip::compressed(out, level, &mut write),
        }
    }
}

/// What the work of a process is called.
pub struct Wording {
    /// When it is done.
    pub done: &'static str,
    /// When it is not.
    pub not_done: &'static str,
    /// What to do about a failure where no setting holds the address.
    pub hint: Option<&'static str>,
}

/// What a sink's process says of its end, and its exit status.
pub fn put_into_words(
    result: &Result<Outcome, Error>,
    unknown: Option<Result<Outcome, Error>>,
    wording: &Wording,
    heard: &Heard,
    stats: &Stats,
    source: Option<&Source>,
    said: &mut [u8; WORDS_MAX],
) -> (u8, usize) {
    let mut line = Text::new(said);
    let mut status = match result {
        Ok(outcome) if *outcome == cloud::NOTHING => {
            line.str("nothing to tell: it has no words for this state");
            DELIVERED
        }
        Ok(outcome) => {
            line.str(wording.done).str(" (");
            put_sent(outcome, &mut line);
            for (count, what) in [
                (stats.entries, " entries"),
                (stats.left_out, " entries left out beyond rd.report.journal.max="),
                (stats.masked, " secrets masked"),
            ] {
                // What was only counted was not sent.
                if count > 0 && outcome.taken == Taken::Whole {
                    line.str(", ").dec(count).str(what);
                }
            }
            if heard.tries.count > 1 {
                line.str(", ").dec(heard.tries.count.into()).str(" tries");
            }
            line.str(")");
            DELIVERED
        }
        Err(e) => {
            line.str(wording.not_done);
            if heard.tries.count > 1 {
                line.str(" in ").dec(heard.tries.count.into()).str(" tries");
            }
            if heard.is_by_proxy {
                line.str(" through rd.report.proxy=");
            }
            line.str(": ");
            match wording.hint {
                _ if heard.is_at_proxy => explain::proxy(*e, &mut line),
                Some(hint) => explain::service(*e, hint, &heard.cert, &mut line),
                None => explain::error(*e, &heard.cert, &mut line),
            }
            if let Some(asked_s) = heard.tries.asked_s {
                line.str("; it asks to be tried again in ").dec(asked_s).str(" s: raise rd.report.timeout=");
            }
            if matches!(e, Error::Http(HttpError::Status(_) | HttpError::Proxy(_))) && !heard.reason.is_empty() {
                line.str("; its reason: ").str(&heard.reason);
            }
            UNDELIVERED
        }
    };
    if let Some(source) = source {
        for_each_complaint(source, &mut |complaint| {
            line.str("; ").str(complaint);
        });
    }
    match unknown {
        Some(Ok(outcome)) => {
            line.str(": delivered (").dec(outcome.status.into()).str(", ").dec(outcome.sent).str(" bytes)");
        }
        Some(Err(e)) => {
            line.str(": not delivered: ");
            explain::error(e, &heard.cert, &mut line);
            status = UNDELIVERED;
        }
        None => {}
    }
    (status, line.as_bytes().len())
}

/// Says how much was sent.
fn put_sent(outcome: &Outcome, line: &mut Text<'_>) {
    match outcome.taken {
        Taken::Part(length) => {
            line.str("answered ").dec(outcome.status.into()).str(" after ").dec(outcome.sent).str(" bytes");
            if let Some(length) = length {
                line.str(" of ").dec(length);
            }
            line.str(" were sent");
        }
        Taken::Whole => {
            // A device and a file give no status.
            if outcome.status != 0 {
                line.dec(outcome.status.into()).str(", ");
            }
            line.dec(outcome.sent).str(" bytes");
        }
    }
}

/// Gives each sentence on what could not be read of the journal.
pub fn for_each_complaint(source: &Source, take: &mut dyn FnMut(&str)) {
    for index in 0.. {
        let mut buf = [0; COMPLAINT_MAX];
        let mut text = Text::new(&mut buf);
        if !source.complaint(index, &mut text) {
            break;
        }
        if !text.as_str().is_empty() {
            take(text.as_str());
        }
    }
}
