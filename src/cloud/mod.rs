//! Reports to the cloud this machine runs on how provisioning ended, through that cloud's own API.
//! Each service has its own file and is chosen by [`platform`] or by its own setting.
//!
//! A service is a row of [`SERVICES`] and a function. The function receives a [`Cloud`]: what
//! happened, and a way to send requests one after another, whose responses are kept in its own
//! buffers. The function ends when the service has accepted the report, with the reason why it did
//! not, or at the deadline. Requests are retried here, by [`Cloud::again`], where waiting helps.

#[cfg(feature = "cloud-aws")]
mod aws;
#[cfg(feature = "cloud-azure")]
mod azure;
#[cfg(any(feature = "cloud-aws", feature = "cloud-openstack"))]
mod cfn;
#[cfg(feature = "cloud-gcp")]
mod gcp;
#[cfg(feature = "cloud-azure")]
pub mod hyperv;
pub mod json;
#[cfg(feature = "cloud-notify")]
mod notify;
#[cfg(feature = "cloud-openstack")]
mod openstack;
#[cfg(feature = "cloud-packet")]
mod packet;
pub mod platform;
#[cfg(feature = "cloud-scaleway")]
mod scaleway;
#[cfg(feature = "cloud-vmware")]
mod vmware;
#[cfg(feature = "cloud-webhook")]
mod webhook;
pub mod xml;

use crate::date::rfc3339;
use crate::destination::{self, Variables};
use crate::error::{CloudError, Error, HttpError, NetError};
use crate::http::client::{Heard, Outcome, Taken};
use crate::http::retry::is_transient;
use crate::http::url::UrlText;
use crate::report::{Report, member};
use crate::settings::cmdline::{Word, Words, same_key};
use crate::settings::secret;
use crate::settings::{CloudKey, Settings, State, States};
use crate::sink::{Sink, put_all};
use crate::sys::file::Root;
use crate::sys::time::Deadline;
use crate::text::{DECIMAL_MAX, Text, decimal};
use alloc::vec;
use alloc::vec::Vec;
use platform::{Found, Why};
use zeroize::Zeroizing;

/// Bytes of a secret: Keystone's tokens with a catalog have some thousands.
pub const SECRET_MAX: usize = 4096;
/// Bytes of a request's body: Azure's limit, and more than any other needs.
pub const BODY_MAX: usize = 4096;
/// Bytes of a response that are examined: Packet's metadata of a machine with many addresses has
/// some 10 KB.
pub const ANSWER_MAX: usize = 32 * 1024;
/// Bytes of the message: what Ignition's longest has, and twice what cloud-init gives to a cloud.
pub const MESSAGE_MAX: usize = 1024;
/// Services that are notified of one event: the platform's, and those that have their own setting.
pub const SERVICES_MAX: usize = 8;
/// Milliseconds of one attempt: a service on the link responds at once or, when it is late, to the
/// next attempt.
const TRY_MS: u64 = 10_000;
/// Milliseconds of one attempt where a service has a second address, to which the next attempt
/// goes.
const TRY_OTHER_MS: u64 = 3_000;

/// A service that takes reports: plain data, and what sends one.
pub struct Service {
    /// Name on the console.
    pub name: &'static str,
    /// When the service is notified.
    pub when: When,
    /// States that the service can be notified of.
    pub states: States,
    /// One line that says what is sent where.
    pub what: &'static str,
    /// Seconds in all for the report of a failure, where its documentation asks for more than is usual.
    pub budget_s: u64,
    /// Whether the service is reached over the network.
    pub needs_network: bool,
    /// Advice for when the service does not accept the report.
    pub hint: &'static str,
    /// Gathers what the service needs from files.
    prepare: Option<Prepare>,
    /// Sends the report.
    report: fn(&mut Cloud<'_>) -> Result<Outcome, Error>,
}

impl Service {
    /// Index in [`SERVICES`].
    pub fn number(&self) -> usize {
        SERVICES.iter().position(|service| core::ptr::eq(service, self)).unwrap_or(SERVICES.len())
    }

    /// Says in a line what would be sent.
    pub fn describe(&self, out: &mut dyn Sink) -> Result<(), Error> {
        put_all(out, &["    cloud ", self.name, ": ", self.what, "\n"])
    }
}

/// What services need of this machine's files. It is gathered before a process gives up its rights to them, as it does before it reads what
/// others wrote.
#[derive(Default)]
pub struct Local {
    /// Where a record for the host goes, if the key-value exchange is here.
    #[cfg(feature = "cloud-azure")]
    exchange: hyperv::pool::Place,
    /// Address that DHCP supplies for Azure's service.
    pub wire_server: Option<[u8; 4]>,
    /// Whether this machine booted with UEFI.
    pub is_efi: bool,
    /// A secret of a service.
    pub secret: Secret,
    /// Where a virtual machine's manager listens.
    #[cfg(feature = "cloud-notify")]
    notify: Option<notify::Host>,
}

/// A secret, or why there is none.
#[derive(Default)]
pub enum Secret {
    /// No secret is set.
    #[default]
    Unset,
    /// The file or credential that should hold the secret cannot be read, or is not text.
    Unreadable,
    /// The secret.
    Text(Zeroizing<Vec<u8>>),
}

impl Secret {
    /// The value of a setting: as it stands, in a file (`@/path`), or in a credential of systemd's (`cred:NAME`).
    pub fn read(root: &Root, settings: &Settings<'_>, key: CloudKey) -> Self {
        let Some(value) = settings.cloud(key) else { return Secret::Unset };
        let mut buf = Zeroizing::new(vec![0; SECRET_MAX]);
        let text = if let Some(path) = value.strip_prefix('@') {
            root.read(path, &mut buf).unwrap_or_default()
        } else if let Some(name) = value.strip_prefix("cred:") {
            secret::read(root, name, &mut buf).unwrap_or_default()
        } else {
            value.as_bytes()
        };
        let text = text.trim_ascii();
        match !text.is_empty() && text.iter().all(u8::is_ascii_graphic) {
            true => Secret::Text(Zeroizing::new(text.to_vec())),
            false => Secret::Unreadable,
        }
    }

    /// Text of the secret; empty if none is set.
    pub fn text(&self) -> Result<&str, Error> {
        match self {
            Secret::Unset => Ok(""),
            Secret::Unreadable => Err(CloudError::NoSecret.into()),
            Secret::Text(text) => Ok(core::str::from_utf8(text).unwrap_or_default()),
        }
    }
}

/// See [`Service::prepare`].
type Prepare = fn(&Root, &Settings<'_>, State, &mut Local);

/// When a service is notified.
#[derive(Clone, Copy)]
pub enum When {
    /// On these platforms.
    Platform(&'static [&'static str]),
    /// When the administrator has set this setting.
    Set(CloudKey),
    /// When this machine was given a socket on which to notify its manager.
    #[cfg(feature = "cloud-notify")]
    Notify,
}

/// All services that this program was built with.
pub static SERVICES: &[Service] = &[
    #[cfg(feature = "cloud-aws")]
    aws::WAIT_CONDITION,
    #[cfg(feature = "cloud-aws")]
    aws::RESOURCE,
    #[cfg(feature = "cloud-azure")]
    azure::SERVICE,
    #[cfg(feature = "cloud-gcp")]
    gcp::SERVICE,
    #[cfg(feature = "cloud-azure")]
    hyperv::SERVICE,
    #[cfg(feature = "cloud-webhook")]
    webhook::MAAS,
    #[cfg(feature = "cloud-webhook")]
    webhook::CLOUDINIT,
    #[cfg(feature = "cloud-notify")]
    notify::SERVICE,
    #[cfg(feature = "cloud-openstack")]
    openstack::SERVICE,
    #[cfg(feature = "cloud-packet")]
    packet::SERVICE,
    #[cfg(feature = "cloud-scaleway")]
    scaleway::SERVICE,
    #[cfg(feature = "cloud-vmware")]
    vmware::SERVICE,
];

/// How a report ends that a service has no words for.
pub const NOTHING: Outcome = Outcome { status: 0, sent: 0, kept: 0, taken: Taken::Whole };

/// Services that are notified of `state`.
pub fn services(
    found: Option<&Found<'_>>,
    settings: &Settings<'_>,
    root: &Root,
    state: State,
) -> heapless::Vec<&'static Service, SERVICES_MAX> {
    #[cfg(not(feature = "cloud-notify"))]
    let _ = root;
    let is_off = settings.platform == Some("none");
    let is_wanted = |service: &&Service| match service.when {
        When::Platform(names) => found.is_some_and(|found| names.contains(&found.name)),
        When::Set(key) => settings.cloud(key).is_some(),
        #[cfg(feature = "cloud-notify")]
        When::Notify => notify::address(root).is_some(),
    };
    let is_told = |service: &&Service| service.states.contains(state) && settings.on.contains(state);
    SERVICES.iter().filter(|_| !is_off).filter(is_told).filter(is_wanted).take(SERVICES_MAX).collect()
}

/// Words of the kernel command line in a boot that provisions.
const PROVISIONING: [&str; 4] = ["ignition.firstboot", "flatcar.first_boot", "em.events_url", "tinkerbell"];

/// Whether the network is to be set up and waited for to tell the cloud: in a boot that provisions, or whose owner wants reports. Any other
/// boot of a machine in a cloud must not be held up by a network for which it has no use.
pub fn is_asked_for(settings: &Settings<'_>, cmdline: &[u8]) -> bool {
    let is_set = |key| settings.cloud(key).is_some();
    let is_wanted = settings.platform.is_some() || !settings.is_idle() || URLS.iter().any(|(_, key)| is_set(*key));
    let is_one = |word: Word<'_>| PROVISIONING.iter().any(|key| same_key(word.key, key.as_bytes()));
    cfg!(feature = "cloud") && (is_wanted || is_set(CloudKey::AwsStack) || Words::new(cmdline).any(is_one))
}

/// Whether a report of any state to the cloud needs the network to be set up.
pub fn needs_network(found: Option<&Found<'_>>, settings: &Settings<'_>, cmdline: &[u8], root: &Root) -> bool {
    let is_told = |state| services(found, settings, root, state).iter().any(|service| service.needs_network);
    is_asked_for(settings, cmdline) && State::ALL.into_iter().any(is_told)
}

/// Finds the platform; `None` as well where this program was built for none.
pub fn recognise<'a>(settings: &Settings<'a>, cmdline: &'a [u8], root: &Root) -> Option<Found<'a>> {
    match cfg!(feature = "cloud") {
        true => platform::recognise(settings.platform, cmdline, root),
        false => None,
    }
}

/// Says in a line which platform was found, and why.
pub fn describe(found: Option<&Found<'_>>, root: &Root, out: &mut dyn Sink) -> Result<(), Error> {
    put_all(out, &["platform: "])?;
    let Some(found) = found else {
        return put_all(out, &["not found; rd.report.platform= names it\n"]);
    };
    put_all(out, &[found.name])?;
    match found.why {
        Why::Setting => put_all(out, &[", by rd.report.platform="])?,
        Why::Argument(key) => put_all(out, &[", by ", key, "= on the kernel command line"])?,
        Why::Firmware(path) => put_all(out, &[", by /", path, ": ", &crate::report::line(root, path)])?,
    }
    out.put(b"\n")
}

/// A request to a service.
pub struct Request<'a> {
    /// Method: `GET`, `POST`, …
    pub method: &'a str,
    /// URL of the request.
    pub url: &'a str,
    /// Header fields beside the usual ones, each `Name: value\r\n`; `Content-Type` among them, since some must not be given one.
    pub fields: &'a str,
    /// Body of the request.
    pub body: &'a [u8],
    /// Whether it is for a service of this machine's own link or host, which no proxy reaches.
    pub is_local: bool,
    /// End of this attempt.
    pub until: Deadline,
}

/// Sends a request; as much of the answer's body as fits goes into the buffer. An answer that is not 2xx is an error.
pub type Send<'a> = dyn FnMut(&Request<'_>, &mut [u8], &mut Heard) -> Result<Outcome, Error> + 'a;

/// What a service's function has.
pub struct Cloud<'a> {
    /// What happened.
    pub report: &'a Report<'a>,
    /// What it needs of files.
    pub local: &'a mut Local,
    /// Settings of the administrator.
    pub settings: &'a Settings<'a>,
    /// The kernel's command line.
    pub cmdline: &'a [u8],
    /// End of all attempts.
    pub deadline: Deadline,
    /// End of waiting for a network.
    network_until: Deadline,
    /// What was heard on the way.
    pub heard: &'a mut Heard,
    send: &'a mut Send<'a>,
    /// What happened, in a line.
    message: heapless::String<MESSAGE_MAX>,
}

/// Gathers what `service` needs of files.
pub fn prepare(service: &Service, root: &Root, settings: &Settings<'_>, state: State) -> Local {
    let mut local = Local::default();
    if let Some(prepare) = service.prepare {
        prepare(root, settings, state, &mut local);
    }
    local
}

/// Tells `service`.
#[allow(clippy::too_many_arguments)] // one call; a struct would only name them twice
pub fn deliver<'a>(
    service: &Service,
    report: &'a Report<'a>,
    local: &'a mut Local,
    settings: &'a Settings<'a>,
    deadline: Deadline,
    network_until: Deadline,
    heard: &'a mut Heard,
    send: &'a mut Send<'a>,
) -> Result<Outcome, Error> {
    let (cmdline, message) = (report.cmdline, message(report));
    let mut cloud = Cloud { report, local, settings, cmdline, deadline, network_until, heard, send, message };
    (service.report)(&mut cloud)
}

/// The settings that are URLs.
pub const URLS: [(&str, CloudKey); 5] = [
    ("packet.url", CloudKey::PacketUrl),
    ("aws.url", CloudKey::AwsUrl),
    ("openstack.url", CloudKey::OpenstackUrl),
    ("maas.url", CloudKey::MaasUrl),
    ("cloudinit.url", CloudKey::CloudinitUrl),
];

impl Cloud<'_> {
    /// The URL that the owner has set, with its variables replaced: none of them stands in what somebody has signed.
    pub fn url(&self, key: CloudKey) -> Result<UrlText, Error> {
        let report = self.report;
        let variables = Variables { facts: report.facts, state: report.state, stage: report.stage };
        let url = destination::status(self.settings.cloud(key).unwrap_or_default(), &variables);
        url.map_err(|_| HttpError::BadUrl.into())
    }

    /// What happened, in a line: the owner's message, else Ignition's, else the first unit that failed.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Sends one request within the time of this attempt.
    pub fn ask(&mut self, request: &Request<'_>, answer: &mut [u8]) -> Result<Outcome, Error> {
        self.heard.retry_after_s = None;
        (self.send)(request, answer, self.heard)
    }

    /// Retries until the attempt succeeds, until waiting does not help (`is_passing` decides), or
    /// until the deadline. Each attempt receives its number, from 0, and its end.
    pub fn again(
        &mut self,
        is_passing: fn(Error) -> bool,
        try_ms: u64,
        attempt: &mut dyn FnMut(&mut Self, usize, Deadline) -> Result<Outcome, Error>,
    ) -> Result<Outcome, Error> {
        let mut earlier = None;
        for number in 0.. {
            self.heard.tries.count = self.heard.tries.count.saturating_add(1);
            match attempt(self, number, self.deadline.step_ms(try_ms)) {
                Ok(outcome) => return Ok(outcome),
                // The time was over: report the earlier error, which says why it was not enough.
                Err(e) if self.deadline.passed() => return Err(earlier.unwrap_or(e)),
                Err(Error::Net(NetError::NoRoute)) if self.network_until.passed() => {
                    return Err(NetError::NoRoute.into());
                }
                Err(e) if is_passing(e) && self.heard.tries.pause(self.heard.retry_after_s, self.deadline) => {
                    earlier = Some(e);
                }
                Err(e) => {
                    earlier = Some(e);
                    break;
                }
            }
        }
        Err(earlier.unwrap_or(Error::Net(NetError::Timeout)))
    }

    /// Retries a single request until the service accepts it.
    pub fn send_until_taken(
        &mut self,
        method: &str,
        url: &str,
        fields: &str,
        body: &[u8],
        is_local: bool,
    ) -> Result<Outcome, Error> {
        self.again(is_passing, TRY_MS, &mut |cloud, _, until| {
            cloud.ask(&Request { method, url, fields, body, is_local, until }, &mut [])
        })
    }

    /// Retries a single request to a service that has a second address: each attempt goes to the
    /// next of `bases`.
    pub fn send_to_one_of(
        &mut self,
        bases: &[&str],
        method: &str,
        path: &str,
        fields: &str,
        body: &[u8],
    ) -> Result<Outcome, Error> {
        self.again(is_passing, TRY_OTHER_MS, &mut |cloud, number, until| {
            let mut url = [0; 256];
            let mut url = Text::new(&mut url);
            let base = number.checked_rem(bases.len()).and_then(|n| bases.get(n)).copied().unwrap_or_default();
            url.str(base).str(path);
            cloud.ask(&Request { method, url: url.as_str(), fields, body, is_local: true, until }, &mut [])
        })
    }

    /// Returns what happened as a small JSON object, for services that keep one value and do not
    /// parse it.
    pub fn brief(&self, out: &mut dyn Sink) -> Result<(), Error> {
        let report = self.report;
        out.put(b"{\"schema\":1")?;
        member("report_id", Some(report.id), out)?;
        member("state", Some(report.state.as_str()), out)?;
        member("stage", report.stage, out)?;
        member("message", Some(self.message()), out)?;
        let mut digits = [0; DECIMAL_MAX];
        put_all(out, &[",\"code\":", report.code.map_or("null", |code| decimal(code, &mut digits))])?;
        member("time", core::str::from_utf8(&rfc3339(report.facts.time_s)).ok(), out)?;
        out.put(b"}")
    }
}

/// Whether the error is transient. A missing route may concern only one of a service's addresses.
pub fn is_passing(e: Error) -> bool {
    is_transient(e) || e == Error::Net(NetError::NoRoute)
}

/// Whether all went into `text`.
pub fn whole<'t>(text: &'t Text<'_>) -> Result<&'t str, Error> {
    if text.is_cut() { Err(CloudError::TooLong.into()) } else { Ok(text.as_str()) }
}

/// Describes what happened in one line, without control characters and in at most [`MESSAGE_MAX`]
/// bytes.
fn message(report: &Report<'_>) -> heapless::String<MESSAGE_MAX> {
    let mut line = heapless::String::new();
    let mut is_full = false;
    let mut put = |bytes: &[u8]| {
        for chunk in bytes.utf8_chunks() {
            for c in chunk.valid().chars() {
                is_full = is_full || line.push(if c.is_control() { ' ' } else { c }).is_err();
            }
        }
    };
    if let Some(stage) = report.stage {
        put(b"[");
        put(stage.as_bytes());
        put(b"] ");
    }
    let ignition = report.failed.map(|failed| failed.ignition.as_slice()).filter(|text| !text.is_empty());
    // A success may have failed units that provisioning did without.
    let unit = report.failed.filter(|_| report.state != State::Succeeded).and_then(|failed| failed.units.first());
    match (report.message.map(str::as_bytes).or(ignition), unit) {
        (Some(message), _) => put(message.trim_ascii()),
        (None, Some(unit)) => {
            put(&unit.name);
            put(b" failed");
            if let Some(line) = unit.lines.first() {
                put(b": ");
                put(line);
            }
        }
        (None, None) => put(match report.state {
            State::Running => b"provisioning goes on",
            State::Failed => b"provisioning failed",
            State::Succeeded => b"provisioning succeeded",
            State::Stuck => b"provisioning does not end",
        }),
    }
    line
}
