//! One request and its answer (RFC 9110, RFC 9112), with the redirects that keep a POST a POST.
//!
//! While a body is sent, what the server says meanwhile is looked at between any two pieces: a refusal (413, 401) ends the upload and is
//! reported as what it is, an interim answer (1xx) is passed over, and after an early success the rest is sent as far as it is taken.
//!
//! Where nobody wants the body of an answer, its status line decides: neither what follows nor how the connection ends changes that.

use crate::error::{Error, HttpError, NetError};
use crate::http::body::{CHUNK_END, CHUNK_HEAD, Decoder, LAST_CHUNK, chunk_head};
use crate::http::head::{self, Answer, Fields};
use crate::http::proxy;
use crate::http::reason::{self, Secrets};
use crate::http::retry::{self, Tries};
use crate::http::url::{Url, UrlText, split_scheme};
use crate::net::tls::Tls;
use crate::net::tls::trust::{CertFacts, Trust};
use crate::net::{Dial, Transport, is_near};
use crate::sink::Sink;
use crate::sys::time::Deadline;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec;

/// Bytes sent at once, so that each piece is one full TLS record (2^14 bytes, RFC 8446 section 5.1).
const OUT_MAX: usize = 16_384;
/// Data bytes of one chunk, which leaves room for its framing in [`OUT_MAX`].
const DATA_MAX: usize = OUT_MAX - CHUNK_HEAD - CHUNK_END.len();
/// Longest head of an answer: what nginx and Apache allow in requests by default, and more than any of them sends.
const HEAD_MAX: usize = 8192;
/// Interim answers that are passed over; a server sends one or two.
const INTERIM_MAX: u8 = 8;
/// Redirects that are followed.
const REDIRECTS_MAX: u8 = 5;
/// Bytes of an answer's body that are read at most: a status has nothing to say that is longer.
const BODY_MAX: u64 = 64 * 1024;
/// Milliseconds for what follows a status line that has decided: enough for a peer that sends it at once, and no more than a boot can
/// wait for what changes nothing.
const REST_MS: u64 = 2_000;
/// In place of an interim answer that fills the buffer: what comes next is passed over as one of its fields.
const LONG_INTERIM: &[u8] = b"HTTP/1.1 100 ";
/// Bytes of a head's end that may have come without the last one.
const END_MAX: usize = 3;

/// What is sent behind the head.
pub trait Body {
    /// Its length in bytes; `None` when only writing it will show.
    fn length(&self) -> Option<u64>;

    /// Writes all of it. Called once for each connection that is tried; the bytes must be the same each time.
    fn write(&mut self, out: &mut dyn Sink) -> Result<(), Error>;

    /// Finds the length anew, after the body was longer or shorter than that.
    fn count(&mut self) -> Result<Option<u64>, Error> {
        Ok(self.length())
    }
}

impl Body for &[u8] {
    fn length(&self) -> Option<u64> {
        Some(self.len() as u64)
    }

    fn write(&mut self, out: &mut dyn Sink) -> Result<(), Error> {
        out.put(self)
    }
}

/// What becomes of the body of an answer that says that all is well.
pub enum Keep<'k> {
    /// As much as fits is kept; this is its length.
    Start(&'k mut [u8], usize),
    /// All is given on.
    All(&'k mut dyn Whole),
}

/// Takes a whole body.
pub trait Whole: Sink {
    /// Forgets what came so far: it comes from its beginning.
    fn restart(&mut self) -> Result<(), Error>;
}

impl Keep<'_> {
    /// For an answer whose body does not matter.
    pub fn nothing() -> Self {
        Keep::Start(&mut [], 0)
    }
}

impl Sink for Keep<'_> {
    fn put(&mut self, bytes: &[u8]) -> Result<(), Error> {
        match self {
            Keep::Start(buf, kept) => {
                let len = bytes.len().min(buf.len().saturating_sub(*kept));
                put_at(buf, *kept, bytes.get(..len).unwrap_or_default());
                *kept = kept.saturating_add(len);
                Ok(())
            }
            Keep::All(whole) => whole.put(bytes),
        }
    }
}

/// How an exchange ended well.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// The last answer's status code, 2xx.
    pub status: u16,
    /// Bytes of body sent to the server that took them, framing not counted.
    pub sent: u64,
    /// Bytes of the answer's body that were kept.
    pub kept: usize,
    /// How much of the body had been sent when the answer ended the upload.
    pub taken: Taken,
}

/// How much of a request's body was sent.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum Taken {
    /// All of it.
    #[default]
    Whole,
    /// Not all of so many bytes, if the length is known.
    Part(Option<u64>),
}

/// What is learnt on the way, however it ends.
#[derive(Default)]
pub struct Heard {
    /// What the server's certificate says of itself.
    pub cert: CertFacts,
    /// How often it was tried.
    pub tries: Tries,
    /// The time by the server's clock (`Date`), seconds since 1970, of the last answer that told it.
    pub date_s: Option<u64>,
    /// Whether the last try went through the proxy.
    pub is_by_proxy: bool,
    /// Seconds after which the server asked to be tried again.
    pub retry_after_s: Option<u64>,
    /// Where it redirects to.
    pub location: UrlText,
    /// What the last server that refused said of it; what may be shown of that.
    pub reason: String,
    /// Whether the peer of the last try, as far as it came, was the proxy.
    pub is_at_proxy: bool,
}

/// Where and how to connect.
pub struct Client<'a> {
    /// How names are looked up.
    pub dial: &'a Dial<'a>,
    /// Which servers are trusted.
    pub trust: &'a Trust,
    /// What is gone through to servers that are not near.
    pub proxy: Option<Url<'a>>,
}

impl Client<'_> {
    /// Sends `body` to `url` by `method`, following redirects, and again after errors that may pass.
    #[allow(clippy::too_many_arguments)] // as for `exchange`
    pub fn send(
        &self,
        method: &str,
        url: &str,
        fields: &Fields<'_>,
        body: &mut dyn Body,
        keep: &mut Keep<'_>,
        deadline: Deadline,
        heard: &mut Heard,
    ) -> Result<Outcome, Error> {
        let (mut earlier, mut fields) = (None, *fields);
        loop {
            heard.tries.count = heard.tries.count.saturating_add(1);
            heard.retry_after_s = None;
            if earlier == Some(HttpError::WrongLength.into()) {
                fields.length = body.count()?;
            }
            match self.once(method, url, &fields, body, keep, deadline, heard) {
                Ok(outcome) => return Ok(outcome),
                // The time was over: why it was not enough is what went wrong before.
                Err(e) if deadline.passed() => return Err(earlier.unwrap_or(e)),
                Err(e) if heard.tries.wait(e, heard.retry_after_s, deadline) => earlier = Some(e),
                Err(e) => return Err(e),
            }
        }
    }

    /// Sends as [`Client::send`] does, without trying again.
    #[allow(clippy::too_many_arguments)] // as for `exchange`
    pub fn once(
        &self,
        method: &str,
        url: &str,
        fields: &Fields<'_>,
        body: &mut dyn Body,
        keep: &mut Keep<'_>,
        deadline: Deadline,
        heard: &mut Heard,
    ) -> Result<Outcome, Error> {
        let mut target = UrlText::default();
        target.push_str(url).map_err(|_| HttpError::BadUrl)?;
        let (mut fields, mut is_far) = (*fields, false);
        for _ in 0..=REDIRECTS_MAX {
            let url = Url::parse(&target).map_err(|_| HttpError::BadUrl)?;
            let proxy = proxy::on_the_way(self.proxy, &url);
            heard.is_by_proxy = proxy.is_some();
            heard.is_at_proxy = proxy.is_some();
            let first = proxy.unwrap_or(url);
            // Where a far server leads to must not be what it could not reach itself.
            if is_far && is_near(url.host) {
                return Err(NetError::Near.into());
            }
            // A proxy may be anywhere; what it reaches is far.
            let mut is_peer_far = is_far && proxy.is_none();
            let mut tcp = crate::net::connect(self.dial, first.host, first.port, &mut is_peer_far, deadline)?;
            is_far |= is_peer_far || proxy.is_some();
            let outcome = match url.tls {
                true => {
                    let until = retry::patience(deadline);
                    if let Some(proxy) = proxy {
                        tunnel(&mut tcp, &proxy, &url, until, heard)?;
                        heard.is_at_proxy = false;
                    }
                    let mut tls = Tls::connect(&mut tcp, url.host, self.trust, &mut heard.cert, until)?;
                    exchange(&mut tls, method, &url, None, &fields, body, keep, deadline, heard)?
                }
                false => exchange(&mut tcp, method, &url, proxy.as_ref(), &fields, body, keep, deadline, heard)?,
            };
            if outcome.status < 300 {
                return Ok(outcome);
            }
            let next = resolve(&url, &heard.location)?;
            let new = Url::parse(&next).map_err(|_| HttpError::BadLocation)?;
            if url.tls && !new.tls {
                // What was to be secret on its way would not be any more.
                return Err(HttpError::Downgrade.into());
            }
            if !url.same_origin(&new) {
                // The owner's header fields hold credentials that are meant for the server that he named.
                fields.own = b"";
            }
            target = next;
        }
        Err(HttpError::TooManyRedirects.into())
    }
}

/// Sends a request, one to a proxy if there is one, and receives its answer over `transport`. An answer that is neither 2xx nor a redirect
/// to be followed is an error; the target of the latter goes into `heard`.
#[allow(clippy::too_many_arguments)] // one call in the binary; a struct would only name them twice
pub fn exchange(
    transport: &mut dyn Transport,
    method: &str,
    url: &Url<'_>,
    proxy: Option<&Url<'_>>,
    fields: &Fields<'_>,
    body: &mut dyn Body,
    keep: &mut Keep<'_>,
    deadline: Deadline,
    heard: &mut Heard,
) -> Result<Outcome, Error> {
    let is_wanted = !matches!(keep, Keep::Start([], _));
    let mut exchange = Exchange::new(transport, deadline);
    let mut taken = Taken::Whole;
    let answer = match exchange.request(method, url, proxy, fields, body) {
        Ok(()) => {
            exchange.deadline = retry::patience(deadline);
            exchange.wait_for_answer(is_wanted)?
        }
        Err(e) => {
            taken = Taken::Part(fields.length);
            exchange.early_answer(e)?
        }
    };
    heard.date_s = answer.field("Date", exchange.head()).and_then(retry::http_date).or(heard.date_s);
    let mut outcome = Outcome { status: answer.status, sent: exchange.sent, kept: 0, taken };
    match answer.status {
        _ if answer.is_success() && is_wanted => {
            if let Some(coding) = answer.coding(exchange.head()) {
                return Err(HttpError::Compressed(coding).into());
            }
            exchange.deadline = deadline;
            outcome.kept = exchange.read_body(&answer, keep)?;
        }
        _ if answer.is_success() => exchange.drain(&answer),
        status @ 301..=303 if method != "GET" => return Err(HttpError::RedirectRefused(status).into()),
        301..=303 | 307 | 308 => {
            let target = answer.field("Location", exchange.head()).ok_or(HttpError::BadLocation)?;
            heard.location.clear();
            heard.location.push_str(target).map_err(|_| HttpError::BadLocation)?;
        }
        407 if proxy.is_some() => {
            heard.reason = exchange.reason(&answer, &Secrets::new(fields.own, &[Some(url), proxy]));
            return Err(HttpError::Proxy(407).into());
        }
        status => {
            let after = answer.field("Retry-After", exchange.head());
            let date = answer.field("Date", exchange.head());
            heard.retry_after_s = after.and_then(|after| retry::asked_s(after, date));
            // To HEAD no body comes.
            heard.reason = match method {
                "HEAD" => String::new(),
                _ => exchange.reason(&answer, &Secrets::new(fields.own, &[Some(url), proxy])),
            };
            return Err(HttpError::Status(status).into());
        }
    }
    exchange.transport.finish();
    Ok(outcome)
}

/// Asks `proxy`, at the other end of `transport`, for a tunnel to the server of `url`.
#[inline(never)] // as for `net::connect`
fn tunnel(
    transport: &mut dyn Transport,
    proxy: &Url<'_>,
    url: &Url<'_>,
    deadline: Deadline,
    heard: &mut Heard,
) -> Result<(), Error> {
    let mut exchange = Exchange::new(transport, deadline);
    head::write_connect(url, proxy, &mut exchange)?;
    // The proxy may answer while the request is being sent. That answer says whether a retry makes sense.
    let answer = match exchange.flush() {
        Ok(()) => exchange.wait_for_answer(false)?,
        Err(e) => exchange.early_answer(e)?,
    };
    if !answer.is_success() {
        heard.reason = exchange.reason(&answer, &Secrets::new(b"", &[Some(proxy)]));
        return Err(HttpError::Proxy(answer.status).into());
    }
    // Of a server that speaks TLS nothing comes before it is spoken to.
    match (answer.is_whole, answer.len == exchange.received) {
        (true, true) => Ok(()),
        (true, false) => Err(HttpError::NotHttp.into()),
        (false, _) if exchange.received >= HEAD_MAX => Err(HttpError::HeadTooLarge.into()),
        (false, _) => Err(HttpError::Cut.into()),
    }
}

/// A request under way, and what the server has said to it.
struct Exchange<'t> {
    transport: &'t mut dyn Transport,
    deadline: Deadline,
    /// Room for a chunk's head, data, and room for its end.
    out: Box<[u8]>,
    /// Bytes of data in `out`.
    len: usize,
    chunked: bool,
    /// Data bytes of the body so far.
    sent: u64,
    /// The length of the body that was announced.
    length: Option<u64>,
    /// What was received and not yet used: the beginning of an answer.
    head: Box<[u8]>,
    received: usize,
    interim: u8,
    answer: Option<Answer>,
}

impl<'t> Exchange<'t> {
    fn new(transport: &'t mut dyn Transport, deadline: Deadline) -> Self {
        Self {
            transport,
            deadline,
            out: vec![0; OUT_MAX].into_boxed_slice(),
            len: 0,
            chunked: false,
            sent: 0,
            length: None,
            head: vec![0; HEAD_MAX].into_boxed_slice(),
            received: 0,
            interim: 0,
            answer: None,
        }
    }

    fn request(
        &mut self,
        method: &str,
        url: &Url<'_>,
        proxy: Option<&Url<'_>>,
        fields: &Fields<'_>,
        body: &mut dyn Body,
    ) -> Result<(), Error> {
        head::write(method, url, fields, proxy, self)?;
        // What counts is the body.
        self.sent = 0;
        self.length = fields.length;
        if fields.length.is_none() {
            self.flush()?;
            self.chunked = true;
        }
        body.write(self)?;
        if self.length.is_some_and(|length| length != self.sent) {
            return Err(HttpError::WrongLength.into());
        }
        self.flush()?;
        match self.chunked {
            true => self.transmit(LAST_CHUNK.as_slice()),
            false => Ok(()),
        }
    }

    /// Sends what has been gathered.
    fn flush(&mut self) -> Result<(), Error> {
        if self.len == 0 {
            return Ok(());
        }
        let end = CHUNK_HEAD.saturating_add(self.len);
        let range = match self.chunked {
            true => {
                put_at(&mut self.out, 0, &chunk_head(self.len));
                put_at(&mut self.out, end, CHUNK_END);
                0..end.saturating_add(CHUNK_END.len())
            }
            false => CHUNK_HEAD..end,
        };
        self.len = 0;
        let out = core::mem::take(&mut self.out);
        let result = self.transmit(out.get(range).unwrap_or_default());
        self.out = out;
        result
    }

    /// Sends `bytes`, and looks at what the server says meanwhile.
    fn transmit(&mut self, bytes: &[u8]) -> Result<(), Error> {
        // A peer that has answered need not take the rest, and is not waited for as one that has not.
        let deadline = if self.answer.is_some() { self.deadline.step_ms(REST_MS) } else { self.deadline };
        match self.transport.send(bytes, deadline) {
            Err(Error::Net(NetError::PeerSpoke)) => {
                self.wait_for_answer(false)?;
                return Err(HttpError::Answered.into());
            }
            result => result?,
        }
        while self.answer.is_none() && self.transport.readable() {
            self.receive()?;
        }
        match self.answer {
            Some(answer) if !answer.is_success() => Err(HttpError::Answered.into()),
            _ => Ok(()),
        }
    }

    /// The answer that came before the body had been sent, if it was not the whole of it that ended by `error`.
    fn early_answer(&mut self, error: Error) -> Result<Answer, Error> {
        let answer = self.answer.or_else(|| Answer::part(self.head()));
        answer.ok_or(error)
    }

    /// Waits for the final answer; for what follows its status line not for long, unless the body is wanted.
    fn wait_for_answer(&mut self, is_wanted: bool) -> Result<Answer, Error> {
        let mut is_decided = is_wanted;
        loop {
            if let Some(answer) = self.answer {
                return Ok(answer);
            }
            if !is_decided && Answer::part(self.head()).is_some() {
                is_decided = true;
                self.deadline = self.deadline.step_ms(REST_MS);
            }
            self.receive()?;
        }
    }

    /// What was received of an answer.
    fn head(&self) -> &[u8] {
        self.head.get(..self.received).unwrap_or_default()
    }

    /// Receives once, and keeps the head of a final answer when no more of it will come.
    fn receive(&mut self) -> Result<(), Error> {
        match self.receive_some() {
            Ok(len) => self.received = self.received.saturating_add(len),
            Err(e) => {
                self.answer = Answer::part(self.head());
                return if self.answer.is_some() { Ok(()) } else { Err(e) };
            }
        }
        while let Some(answer) = Answer::parse(self.head())? {
            if !answer.is_interim() {
                self.answer = Some(answer);
                break;
            }
            self.count_interim()?;
            self.head.copy_within(answer.len.min(self.received)..self.received, 0);
            self.received = self.received.saturating_sub(answer.len);
        }
        Ok(())
    }

    fn receive_some(&mut self) -> Result<usize, Error> {
        if self.received >= self.head.len() {
            // Only an interim answer can be passed over, not empty lines without a status line.
            if !Answer::is_interim_begun(self.head()) {
                return Err(HttpError::HeadTooLarge.into());
            }
            // Its end may have begun.
            self.count_interim()?;
            let end = self.received.saturating_sub(END_MAX)..self.received;
            self.head.copy_within(end, LONG_INTERIM.len());
            put_at(&mut self.head, 0, LONG_INTERIM);
            self.received = LONG_INTERIM.len().saturating_add(END_MAX);
        }
        let free = self.head.get_mut(self.received..).unwrap_or_default();
        match self.transport.recv(free, self.deadline)? {
            0 => Err(HttpError::Cut.into()),
            len => Ok(len),
        }
    }

    fn count_interim(&mut self) -> Result<(), HttpError> {
        self.interim = self.interim.saturating_add(1);
        if self.interim > INTERIM_MAX { Err(HttpError::TooManyInterim) } else { Ok(()) }
    }

    /// Receives what follows the status line of an answer that has decided, so that the peer is not cut off in the middle of it.
    fn drain(&mut self, answer: &Answer) {
        if answer.is_whole {
            self.deadline = self.deadline.step_ms(REST_MS);
            let _ = self.read_body(answer, &mut Keep::nothing());
        }
    }

    /// Reads what may be shown of a refusal's reason.
    fn reason(&mut self, answer: &Answer, secrets: &Secrets) -> String {
        let mut body = vec![0; reason::BODY_MAX];
        let mut keep = Keep::Start(&mut body, 0);
        if answer.is_whole && answer.coding(self.head()).is_none() {
            self.deadline = self.deadline.step_ms(REST_MS);
            let _ = self.read_body(answer, &mut keep);
        }
        let len = if let Keep::Start(_, kept) = keep { kept } else { 0 };
        let code = answer.field("x-ms-error-code", self.head()).unwrap_or_default();
        reason::reason(code, body.get(..len).unwrap_or_default(), secrets)
    }

    /// Reads the answer's body: all of it where all is to be given on, else up to [`BODY_MAX`]. Gives how much was kept.
    fn read_body(&mut self, answer: &Answer, keep: &mut Keep<'_>) -> Result<usize, Error> {
        let mut decoder = Decoder::new(answer.framing(self.head())?);
        // One that takes all says when it is too much.
        let max = match keep {
            Keep::Start(_, kept) => {
                *kept = 0;
                BODY_MAX
            }
            Keep::All(whole) => {
                whole.restart()?;
                u64::MAX
            }
        };
        decoder.feed(self.head.get(answer.len..self.received).unwrap_or_default(), keep)?;
        let mut read = 0u64;
        while !decoder.is_done() && read < max {
            if matches!(keep, Keep::Start(buf, kept) if *kept > 0 && *kept >= buf.len()) {
                break;
            }
            let until = if max == BODY_MAX { self.deadline } else { retry::patience(self.deadline) };
            // The request has been sent: its buffer is free.
            let n = self.transport.recv(&mut self.out, until)?;
            if n == 0 {
                if decoder.may_end() {
                    break;
                }
                return Err(HttpError::Cut.into());
            }
            read = read.saturating_add(n as u64);
            decoder.feed(self.out.get(..n).unwrap_or_default(), keep)?;
        }
        Ok(if let Keep::Start(_, kept) = keep { *kept } else { 0 })
    }
}

impl Sink for Exchange<'_> {
    fn put(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let mut rest = bytes;
        while !rest.is_empty() {
            // Full, and more to come. The end of the body is sent once its length is known to be right: a server that has all
            // that was announced would take it.
            if self.len >= DATA_MAX {
                self.flush()?;
            }
            let (now, later) = rest.split_at(rest.len().min(DATA_MAX.saturating_sub(self.len)));
            put_at(&mut self.out, CHUNK_HEAD.saturating_add(self.len), now);
            self.len = self.len.saturating_add(now.len());
            self.sent = self.sent.saturating_add(now.len() as u64);
            if self.length.is_some_and(|length| self.sent > length) {
                return Err(HttpError::WrongLength.into());
            }
            rest = later;
        }
        Ok(())
    }
}

fn put_at(buf: &mut [u8], at: usize, bytes: &[u8]) {
    if let Some(to) = buf.get_mut(at..).and_then(|to| to.get_mut(..bytes.len())) {
        to.copy_from_slice(bytes);
    }
}

/// Where `location` leads from `base` (RFC 3986 section 5.2, without the removal of dot segments, which servers do).
pub fn resolve(base: &Url<'_>, location: &str) -> Result<UrlText, HttpError> {
    let mut out = UrlText::default();
    let mut put = |part: &str| out.push_str(part).map_err(|_| HttpError::BadLocation);
    let scheme = if base.tls { "https:" } else { "http:" };
    if location.is_empty() {
        return Err(HttpError::BadLocation);
    }
    if split_scheme(location).is_some_and(|(scheme, _)| scheme.bytes().all(|b| b.is_ascii_alphanumeric())) {
        put(location)?;
    } else if location.starts_with("//") {
        put(scheme)?;
        put(location)?;
    } else {
        put(scheme)?;
        put("//")?;
        let is_literal = base.host.as_bytes().contains(&b':');
        put(if is_literal { "[" } else { "" })?;
        put(base.host)?;
        put(if is_literal { "]:" } else { ":" })?;
        put(crate::text::decimal(base.port.into(), &mut [0; crate::text::DECIMAL_MAX]))?;
        if !location.starts_with('/') {
            let folder = match location.starts_with('?') {
                true => base.path.len(),
                false => base.path.bytes().rposition(|b| b == b'/').map_or(0, |at| at.saturating_add(1)),
            };
            put(base.path.get(..folder).unwrap_or("/"))?;
        }
        put(location)?;
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A peer that says its lines at set moments of the conversation.
    struct Script {
        /// What it says, and how many bytes it has heard before it does.
        says: Vec<(usize, &'static [u8])>,
        heard: Vec<u8>,
        /// It stops reading there.
        deaf_after: usize,
    }

    fn script(says: &[(usize, &'static [u8])]) -> Script {
        Script { says: says.to_vec(), heard: Vec::new(), deaf_after: usize::MAX }
    }

    impl Transport for Script {
        fn send(&mut self, bytes: &[u8], _: Deadline) -> Result<(), Error> {
            if self.heard.len() + bytes.len() > self.deaf_after {
                return Err(NetError::PeerSpoke.into());
            }
            self.heard.extend_from_slice(bytes);
            Ok(())
        }

        fn recv(&mut self, buf: &mut [u8], _: Deadline) -> Result<usize, Error> {
            let Some((_, line)) = self.says.first_mut() else { return Ok(0) };
            let n = line.len().min(buf.len());
            buf[..n].copy_from_slice(&line[..n]);
            *line = &line[n..];
            if line.is_empty() {
                self.says.remove(0);
            }
            Ok(n)
        }

        fn readable(&mut self) -> bool {
            self.says.first().is_some_and(|(after, _)| self.heard.len() >= *after)
        }

        fn finish(&mut self) {}
    }

    /// A body of a hundred thousand bytes and no known length.
    struct Long;

    impl Body for Long {
        fn length(&self) -> Option<u64> {
            None
        }

        fn write(&mut self, out: &mut dyn Sink) -> Result<(), Error> {
            (0..10_000).try_for_each(|_| out.put(b"0123456789"))
        }
    }

    fn run(peer: &mut Script, body: &mut dyn Body, keep: &mut [u8]) -> Result<Outcome, Error> {
        let keep = &mut Keep::Start(keep, 0);
        let url = Url::parse("http://h/p").unwrap();
        let fields =
            Fields { content_type: None, gzip: false, length: body.length(), report_id: "id", part: None, own: b"" };
        exchange(peer, "POST", &url, None, &fields, body, keep, Deadline::after_ms(1000), &mut Heard::default())
    }

    const LATE: usize = usize::MAX;

    #[test]
    fn proxy_that_answers_at_once() {
        let (url, proxy) = (Url::parse("https://h/p").unwrap(), Url::parse("http://proxy:3128").unwrap());
        let deadline = Deadline::after_ms(1_000);
        // The answer is there as soon as the request is sent, or only when it is waited for.
        for after in [0, LATE] {
            for (line, result) in [
                (&b"HTTP/1.1 407 X\r\nContent-Length: 0\r\n\r\n"[..], Err(HttpError::Proxy(407).into())),
                (b"HTTP/1.1 403 X\r\nContent-Length: 0\r\n\r\n", Err(HttpError::Proxy(403).into())),
                (b"HTTP/1.1 503 X\r\nContent-Length: 0\r\n\r\n", Err(HttpError::Proxy(503).into())),
                (b"HTTP/1.1 200 X\r\n\r\n", Ok(())),
            ] {
                let mut peer = script(&[(after, line)]);
                assert_eq!(tunnel(&mut peer, &proxy, &url, deadline, &mut Heard::default()), result);
            }
        }
    }

    #[test]
    fn a_short_body_is_one_piece() {
        let mut peer = script(&[(LATE, b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")]);
        let mut keep = [0; 8];
        let outcome = run(&mut peer, &mut b"hello".as_slice(), &mut keep).unwrap();
        assert_eq!(outcome, Outcome { status: 200, sent: 5, kept: 2, taken: Taken::Whole });
        assert_eq!(&keep[..2], b"ok");
        assert!(peer.heard.ends_with(b"\r\n\r\nhello"));
    }

    #[test]
    fn a_long_body_is_chunked() {
        let mut peer = script(&[(LATE, b"HTTP/1.1 204 No\r\n\r\n")]);
        assert_eq!(run(&mut peer, &mut Long, &mut []).unwrap().sent, 100_000);
        let start = peer.heard.windows(4).position(|w| w == b"\r\n\r\n").unwrap() + 4;
        let (mut body, mut decoder) = (Vec::new(), Decoder::new(crate::http::body::Framing::Chunked));
        decoder.feed(&peer.heard[start..], &mut body).unwrap();
        assert!(decoder.is_done());
        assert_eq!(body, b"0123456789".repeat(10_000));
    }

    #[test]
    fn a_refusal_ends_the_upload() {
        let refusal = b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n";
        let mut peer = script(&[(20_000, refusal)]);
        assert_eq!(run(&mut peer, &mut Long, &mut []), Err(HttpError::Status(413).into()));
        assert!(peer.heard.len() < 40_000);
        let mut peer = script(&[(LATE, refusal)]);
        peer.deaf_after = 30_000;
        assert_eq!(run(&mut peer, &mut Long, &mut []), Err(HttpError::Status(413).into()));
    }

    #[test]
    fn an_early_success_is_one() {
        let success = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
        let mut peer = script(&[(0, success)]);
        let outcome = run(&mut peer, &mut Long, &mut []).unwrap();
        assert_eq!((outcome.sent, outcome.taken), (100_000, Taken::Whole), "it reads on");
        let mut peer = script(&[(LATE, success)]);
        peer.deaf_after = 30_000;
        let outcome = run(&mut peer, &mut Long, &mut []).unwrap();
        assert_eq!((outcome.status, outcome.taken), (200, Taken::Part(None)));
        assert!(outcome.sent < 100_000);
        let mut peer = script(&[(LATE, b"HTTP/1.1 200 OK\r\nX")]);
        peer.deaf_after = 30_000;
        assert_eq!(run(&mut peer, &mut Long, &mut []).unwrap().taken, Taken::Part(None));
    }

    /// A body that is not as long as it says.
    struct Changed(u64, usize);

    impl Body for Changed {
        fn length(&self) -> Option<u64> {
            Some(self.0)
        }

        fn write(&mut self, out: &mut dyn Sink) -> Result<(), Error> {
            vec![b'x'; self.1].chunks(1000).try_for_each(|part| out.put(part))
        }
    }

    #[test]
    fn no_more_and_no_less_than_was_announced() {
        let most = DATA_MAX as u64;
        for (length, written) in
            [(10, 9), (10, 11), (0, 1), (most, DATA_MAX + 1), (2 * most, 2 * DATA_MAX + 1), (100_000, 0)]
        {
            let mut peer = script(&[(LATE, b"HTTP/1.1 200 OK\r\n\r\n")]);
            let result = run(&mut peer, &mut Changed(length, written), &mut []);
            assert_eq!(result, Err(HttpError::WrongLength.into()), "{length} {written}");
            let start = peer.heard.windows(4).position(|w| w == b"\r\n\r\n").map_or(peer.heard.len(), |at| at + 4);
            assert!(length == 0 || ((peer.heard.len() - start) as u64) < length, "{length} {written}");
            let mut peer = script(&[(LATE, b"HTTP/1.1 200 OK\r\n\r\n")]);
            let written = usize::try_from(length).unwrap();
            assert_eq!(run(&mut peer, &mut Changed(length, written), &mut []).map(|outcome| outcome.sent), Ok(length));
        }
    }

    #[test]
    fn interim_answers_are_passed_over() {
        let mut peer = script(&[
            (0, b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early"),
            (LATE, b" Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
        ]);
        assert_eq!(run(&mut peer, &mut Long, &mut []).unwrap().status, 200);
        let many: &'static [u8] = b"HTTP/1.1 100 Continue\r\n\r\n".repeat(100).leak();
        assert_eq!(run(&mut script(&[(0, many)]), &mut Long, &mut []), Err(HttpError::TooManyInterim.into()));
    }

    #[test]
    fn a_long_interim_answer_is_passed_over() {
        for fill in [8000, 8170, 8171, 8172, 8173, 8174, 8175, 8176, 20_000] {
            let said = format!("HTTP/1.1 103 X\r\nLink: {}\r\n\r\nHTTP/1.1 201 OK\r\n\r\n", "x".repeat(fill));
            let said: &'static str = said.leak();
            let outcome = run(&mut script(&[(LATE, said.as_bytes())]), &mut b"x".as_slice(), &mut []);
            assert_eq!(outcome.map(|outcome| outcome.status), Ok(201), "{fill}");
        }
        let endless: &'static str = format!("HTTP/1.1 103 X\r\nLink: {}", "x".repeat(1 << 20)).leak();
        let result = run(&mut script(&[(LATE, endless.as_bytes())]), &mut b"x".as_slice(), &mut []);
        assert_eq!(result, Err(HttpError::TooManyInterim.into()));
    }

    #[test]
    fn what_stands_behind_a_status_changes_nothing() {
        let huge = format!("X: {}", "x".repeat(100_000));
        for (status, expected) in [("200", Ok(200)), ("413", Err(HttpError::Status(413).into()))] {
            for rest in [
                "",
                " OK",
                " OK\r\nContent-Le",
                " OK\r\nContent-Length: 9\r\n\r\nhalf",
                " OK\r\nContent-Length: x\r\n\r\n",
                " OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
                " OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
                &huge,
            ] {
                let said: &'static str =
                    format!("HTTP/1.1 {status}{}{rest}", if rest == huge { "\r\n" } else { "" }).leak();
                let outcome = run(&mut script(&[(LATE, said.as_bytes())]), &mut b"x".as_slice(), &mut []);
                assert_eq!(outcome.map(|outcome| outcome.status), expected, "{:?}", &said[..said.len().min(60)]);
            }
        }
    }

    #[test]
    fn what_is_cut_is_an_error_where_it_is_wanted() {
        for (said, error) in [
            ("", HttpError::Cut),
            ("HTTP/1.1 20", HttpError::Cut),
            ("HTTP/1.1 200 OK\r\nContent-Le", HttpError::BadFraming),
            ("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", HttpError::Cut),
            ("HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\n\r\nok", HttpError::BadFraming),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", HttpError::NotHttp),
        ] {
            let mut peer = script(&[(LATE, said.as_bytes())]);
            if said.is_empty() {
                peer.says.clear();
            }
            assert_eq!(run(&mut peer, &mut b"x".as_slice(), &mut [0; 9]), Err(error.into()), "{said:?}");
        }
    }

    #[test]
    fn redirects_are_told_apart() {
        let mut peer = script(&[(LATE, b"HTTP/1.1 302 Found\r\nLocation: /x\r\n\r\n")]);
        let result = run(&mut peer, &mut b"x".as_slice(), &mut []);
        assert_eq!(result, Err(HttpError::RedirectRefused(302).into()));
        // Told before the body was begun, nothing of it was sent.
        let mut peer = script(&[(0, b"HTTP/1.1 307 Found\r\nLocation: /x\r\n\r\n")]);
        let taken = Taken::Part(None);
        assert_eq!(run(&mut peer, &mut Long, &mut []), Ok(Outcome { status: 307, sent: 0, kept: 0, taken }));
        let mut peer = script(&[(LATE, b"HTTP/1.1 307 Found\r\n\r\n")]);
        assert_eq!(run(&mut peer, &mut b"x".as_slice(), &mut []), Err(HttpError::BadLocation.into()));
    }

    #[test]
    fn locations() {
        let base = Url::parse("https://[fe80::1%25eth0]:8443/a/b?c").unwrap();
        for (location, target) in [
            ("http://other/x?y", "http://other/x?y"),
            ("//other/x", "https://other/x"),
            ("/x", "https://[fe80::1%25eth0]:8443/x"),
            ("x?u=http://v/", "https://[fe80::1%25eth0]:8443/a/x?u=http://v/"),
            ("?z", "https://[fe80::1%25eth0]:8443/a/b?z"),
        ] {
            assert_eq!(&*resolve(&base, location).unwrap(), target);
        }
        assert_eq!(resolve(&base, ""), Err(HttpError::BadLocation));
        assert_eq!(resolve(&base, &"x".repeat(3000)), Err(HttpError::BadLocation));
    }
}
