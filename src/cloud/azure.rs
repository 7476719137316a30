//! Azure: reports the health of this machine to the host's own service (the "wire server").
//!
//! The report first goes as JSON to `/provisioning/health`, as azure-init sends it. Where that path
//! does not exist, it goes as XML with the goal state's numbers, as cloud-init and WALinuxAgent
//! send it. A new goal state is fetched if the service says that the old one is gone (410). The
//! service is sometimes away for minutes at the beginning of a machine's life, so this report has
//! five. The record for the key-value exchange is written before the request: the host collects it
//! when the report arrives.

use crate::cloud::hyperv::pool;
use crate::cloud::hyperv::report::{AGENT, AzureReport, fitting};
use crate::cloud::{BODY_MAX, Cloud, Local, Request, Service, When, is_passing, whole, xml};
use crate::error::{CloudError, Error, HttpError};
use crate::escape;
use crate::http::client::Outcome;
use crate::settings::{Settings, State, States};
use crate::sink::{Sink, put_all};
use crate::sys::file::Root;
use crate::sys::lines;
use crate::sys::time::Deadline;
use crate::text::Text;

pub(super) const SERVICE: Service = Service {
    name: "azure",
    when: When::Platform(&["azure", "azurestack"]),
    states: States::of(&State::ALL),
    what: "POST the health to the wire server, as JSON, else as XML; before it, the key-value exchange",
    budget_s: 300,
    needs_network: true,
    hint: "raise rd.report.timeout=, or set rd.report.platform=none",
    prepare: Some(prepare),
    report,
};

/// The service's address everywhere, unless DHCP says otherwise.
const ADDRESS: &str = "168.63.129.16";
/// Where DHCP clients leave what the server said: systemd-networkd, NetworkManager, dhclient in dracut and elsewhere.
const LEASES: [&str; 6] = [
    "run/systemd/netif/leases/*",
    "run/NetworkManager/devices/*",
    "var/lib/NetworkManager/*",
    "tmp/dhclient.*",
    "var/lib/dhclient/*",
    "var/lib/dhcp/*",
];
/// Text that precedes the value of DHCP option 245 in those files.
const OPTIONS: [&str; 4] = ["OPTION_245=", "private_245=", "private-245=", "unknown-245 "];
/// Goal states that are requested in one attempt.
const GOAL_STATES_MAX: u32 = 4;
/// Bytes of a goal state that are examined; it has less than two thousand.
const GOAL_STATE_MAX: usize = 8192;
/// Bytes of a base URL.
const BASE_MAX: usize = 32;
/// First attempt that also sends XML where the JSON service is only out of order.
const PATIENT_TRIES: usize = 2;
/// Milliseconds for the host to read the key-value exchange, before each attempt and after the
/// last, where no daemon runs for it.
const READ_MS: u64 = 100;
const READ_LAST_MS: u64 = 10_000;

fn prepare(root: &Root, settings: &Settings<'_>, state: State, local: &mut Local) {
    pool::prepare(root, settings, state, local);
    for place in LEASES {
        lines::files(root, place.as_bytes(), &mut |file| {
            lines::each(file, &mut |line| local.wire_server = local.wire_server.or_else(|| option_245(line)));
        });
    }
}

fn report(cloud: &mut Cloud<'_>) -> Result<Outcome, Error> {
    // Most machines have none, and a report without it is one.
    let _ = pool::put(cloud);
    let mut base = [0; BASE_MAX];
    let mut base = Text::new(&mut base);
    base.str("http://");
    match cloud.local.wire_server {
        None => {
            base.str(ADDRESS);
        }
        Some(address) => {
            for (n, byte) in address.into_iter().enumerate() {
                base.str(if n > 0 { "." } else { "" }).dec(byte.into());
            }
        }
    }
    let mut body = [0; BODY_MAX];
    let mut body = Text::new(&mut body);
    let state = cloud.report.state;
    fitting(cloud, BODY_MAX, &mut |report, out| put_json(state, report, out))
        .and_then(|r| put_json(state, &r, &mut body))?;
    let mut url = [0; BASE_MAX + 32];
    let mut url = Text::new(&mut url);
    url.str(base.as_str()).str("/provisioning/health");
    let fields = concat!(
        "Content-Type: application/json\r\nx-ms-guest-agent-name: rdreport/",
        env!("CARGO_PKG_VERSION"),
        "\r\n"
    );
    let result = cloud.again(is_worth_another_try, super::TRY_MS, &mut |cloud, number, until| {
        let _ = pool::serve(cloud, until.step_ms(READ_MS));
        let request =
            Request { method: "POST", url: url.as_str(), fields, body: body.as_bytes(), is_local: true, until };
        match cloud.ask(&request, &mut []) {
            Err(Error::Http(HttpError::Status(code)))
                if !matches!(code, 429 | 500 | 503) || number >= PATIENT_TRIES =>
            {
                as_xml(cloud, base.as_str(), until)
            }
            result => result,
        }
    });
    // Best effort: the outcome of the report is already known.
    let _ = pool::serve(cloud, cloud.deadline.step_ms(READ_LAST_MS));
    result
}

/// The states of a machine, and why it is not ready, in Azure's words.
fn health(state: State) -> (&'static str, Option<&'static str>) {
    match state {
        State::Succeeded => ("Ready", None),
        State::Failed => ("NotReady", Some("ProvisioningFailed")),
        State::Running | State::Stuck => ("NotReady", Some("Provisioning")),
    }
}

fn put_json(state: State, report: &AzureReport<'_>, out: &mut dyn Sink) -> Result<(), Error> {
    let (health, why) = health(state);
    put_all(out, &["{\"state\":\"", health, "\""])?;
    if let Some(why) = why {
        put_all(out, &[",\"details\":{\"subStatus\":\"", why, "\",\"description\":\""])?;
        report.put(&mut Json(out))?;
        put_all(out, &["\"}"])?;
    }
    out.put(b"}")
}

/// Sends the report as XML, for the current goal state.
fn as_xml(cloud: &mut Cloud<'_>, base: &str, until: Deadline) -> Result<Outcome, Error> {
    const FIELDS: &str = "x-ms-agent-name: rdreport\r\nx-ms-version: 2012-11-30\r\n";
    const XML_FIELDS: &str =
        "x-ms-agent-name: rdreport\r\nx-ms-version: 2012-11-30\r\nContent-Type: text/xml; charset=utf-8\r\n";
    let mut url = [0; BASE_MAX + 32];
    let mut url = Text::new(&mut url);
    url.str(base).str("/machine/?comp=goalstate");
    let mut health_url = [0; BASE_MAX + 32];
    let mut health_url = Text::new(&mut health_url);
    health_url.str(base).str("/machine?comp=health");
    let state = cloud.report.state;
    let mut result = Err(HttpError::Status(410).into());
    for _ in 0..GOAL_STATES_MAX {
        let mut answer = [0; GOAL_STATE_MAX];
        let request = Request { method: "GET", url: url.as_str(), fields: FIELDS, body: b"", is_local: true, until };
        let kept = cloud.ask(&request, &mut answer)?.kept;
        let goal = answer.get(..kept).unwrap_or_default();
        let numbers = ["Incarnation", "ContainerId", "InstanceId"];
        let [incarnation, container, instance] = numbers.map(|name| xml::text(goal, name));
        let goal = [incarnation?, container?, instance?];
        let mut body = [0; BODY_MAX];
        let mut body = Text::new(&mut body);
        fitting(cloud, BODY_MAX, &mut |report, out| put_xml(state, goal, report, out))
            .and_then(|report| put_xml(state, goal, &report, &mut body))?;
        let body = whole(&body)?.as_bytes();
        let request =
            Request { method: "POST", url: health_url.as_str(), fields: XML_FIELDS, body, is_local: true, until };
        result = cloud.ask(&request, &mut []);
        if !matches!(result, Err(Error::Http(HttpError::Status(410)))) || until.passed() {
            break;
        }
    }
    result
}

/// `goal` is sent back as it came, escapes and all.
fn put_xml(state: State, goal: [&str; 3], report: &AzureReport<'_>, out: &mut dyn Sink) -> Result<(), Error> {
    let [incarnation, container, instance] = goal;
    let (health, why) = health(state);
    put_all(
        out,
        &[
            "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<Health xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" \
             xmlns:xsd=\"http://www.w3.org/2001/XMLSchema\"><GoalStateIncarnation>",
            incarnation,
            "</GoalStateIncarnation><Container><ContainerId>",
            container,
            "</ContainerId><RoleInstanceList><Role><InstanceId>",
            instance,
            "</InstanceId><Health><State>",
            health,
            "</State>",
        ],
    )?;
    if let Some(why) = why {
        put_all(out, &["<Details><SubStatus>", why, "</SubStatus><Description>"])?;
        report.put(&mut Xml(out))?;
        put_all(out, &["</Description></Details>"])?;
    }
    put_all(out, &["</Health></Role></RoleInstanceList></Container></Health>"])
}

/// What azure-init tries again, and a goal state that is not there yet.
fn is_worth_another_try(e: Error) -> bool {
    match e {
        Error::Http(HttpError::Status(400 | 404 | 410)) => true,
        Error::Cloud(CloudError::NotXml | CloudError::NoField) => true,
        e => is_passing(e),
    }
}

/// Returns the address in a line of a lease: eight hexadecimal digits, with or without colons.
fn option_245(line: &[u8]) -> Option<[u8; 4]> {
    let line = core::str::from_utf8(line).ok()?.trim_ascii();
    let line = line.strip_prefix("option ").unwrap_or(line);
    let value = OPTIONS.iter().find_map(|option| line.strip_prefix(option))?;
    let mut digits = value.trim_end_matches(';').trim_ascii().chars().filter(|c| *c != ':');
    let mut address = [0; 4];
    for byte in &mut address {
        let (high, low) = (digits.next()?.to_digit(16)?, digits.next()?.to_digit(16)?);
        *byte = (high << 4 | low) as u8;
    }
    (digits.next().is_none() && address != [0; 4]).then_some(address)
}

/// Escapes what goes through it for a JSON string.
struct Json<'a>(&'a mut dyn Sink);

impl Sink for Json<'_> {
    fn put(&mut self, bytes: &[u8]) -> Result<(), Error> {
        escape::json(bytes, self.0)
    }
}

/// Escapes what goes through it for XML.
struct Xml<'a>(&'a mut dyn Sink);

impl Sink for Xml<'_> {
    fn put(&mut self, bytes: &[u8]) -> Result<(), Error> {
        escape::xml(core::str::from_utf8(bytes).unwrap_or_default(), self.0)
    }
}

const _: () = assert!(AGENT.len() < 64, "it is in each body");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_in_leases() {
        for (line, want) in [
            ("OPTION_245=a83f8110", Some([168, 63, 129, 16])),
            ("private_245=a8:3f:81:10", Some([168, 63, 129, 16])),
            ("  option unknown-245 A8:3F:81:10;", Some([168, 63, 129, 16])),
            ("OPTION_245=a83f81", None),
            ("OPTION_245=a83f811000", None),
            ("OPTION_245=a83f811g", None),
            ("OPTION_245=00000000", None),
            ("OPTION_245=", None),
            ("OPTION_246=a83f8110", None),
        ] {
            assert_eq!(option_245(line.as_bytes()), want, "{line}");
        }
    }
}
