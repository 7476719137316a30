//! Packet, later Equinix Metal, and what lives on of it. Three dialects, by what the kernel command line has:
//!
//! - `em.events_url=URL`: events for that URL, `{"type":…,"msg":…}`, as Talos sends them.
//! - `tinkerbell=URL`: the phone-home of Tinkerbell's installation environment: `{"instance_id":…}`, or `{"type":"failure","reason":…}`.
//! - Neither: the user state API of the public service. The machine's metadata says where: `user_state_url`, or beside `phone_home_url`,
//!   as Ignition finds it. `running`, `succeeded` or `failed`, a message, and a code from 1000 to 1099.

use crate::cloud::platform::argument;
use crate::cloud::{ANSWER_MAX, BODY_MAX, Cloud, Request, Service, When, is_passing, json, whole};
use crate::error::{CloudError, Error};
use crate::http::client::Outcome;
use crate::http::url::URL_MAX;
use crate::report::member;
use crate::settings::{CloudKey, State, States};
use crate::sink::{Sink, put_all};
use crate::text::{DECIMAL_MAX, Text, decimal};
use alloc::vec;

pub(super) const SERVICE: Service = Service {
    name: "packet",
    when: When::Platform(&["packet"]),
    states: States::of(&State::ALL),
    what: "POST state, message and code to the user state URL that the metadata name, or to em.events_url= or tinkerbell=",
    budget_s: 0,
    needs_network: true,
    hint: "set rd.report.packet.url= to where the metadata are, or rd.report.platform=none",
    prepare: None,
    report,
};

/// URL of the metadata, unless the administrator sets another.
const METADATA: [&str; 2] = ["https://metadata.packet.net/metadata", "https://metadata.platformequinix.com/metadata"];
/// Codes that the API accepts.
const CODES: core::ops::Range<u64> = 1000..1100;
const JSON: &str = "Content-Type: application/json\r\n";

fn report(cloud: &mut Cloud<'_>) -> Result<Outcome, Error> {
    let mut body = [0; BODY_MAX];
    let mut body = Text::new(&mut body);
    let state = cloud.report.state;
    let mut url = [0; URL_MAX];
    let mut url = Text::new(&mut url);
    let mut fields = JSON;
    if let Some(events) = argument(cloud.cmdline, "em.events_url") {
        url.str(events);
        fields = "";
        let kind = match state {
            State::Failed => "failure",
            State::Succeeded => "activate",
            State::Running | State::Stuck => "info",
        };
        object("type", kind, &mut body)?;
        member("msg", Some(cloud.message()), &mut body)?;
    } else if let Some(base) = argument(cloud.cmdline, "tinkerbell") {
        url.str(base.trim_end_matches('/')).str("/phone-home");
        match state {
            State::Failed => {
                object("type", "failure", &mut body)?;
                member("reason", Some(cloud.message()), &mut body)?;
            }
            State::Succeeded => match argument(cloud.cmdline, "instance_id") {
                Some(id) => object("instance_id", id, &mut body)?,
                None => {
                    let mut id = [0; 128];
                    let mut id = Text::new(&mut id);
                    json::string(metadata(cloud, &mut vec![0; ANSWER_MAX])?, "id", &mut id)?;
                    object("instance_id", id.as_str(), &mut body)?;
                }
            },
            // The API has no equivalent of these states.
            State::Running | State::Stuck => return Ok(super::NOTHING),
        }
    } else {
        let mut answer = vec![0; ANSWER_MAX];
        let metadata = metadata(cloud, &mut answer)?;
        match json::string(metadata, "user_state_url", &mut url) {
            Ok(()) => {}
            Err(CloudError::NoField) => {
                let mut home = [0; URL_MAX];
                let mut home = Text::new(&mut home);
                json::string(metadata, "phone_home_url", &mut home)?;
                let home = whole(&home)?;
                url.str(home.strip_suffix("/phone-home").unwrap_or(home)).str("/events");
            }
            Err(e) => return Err(e.into()),
        }
        // It knows of nothing but these: what does not end goes on.
        let state = if state == State::Stuck { State::Running } else { state };
        object("state", state.as_str(), &mut body)?;
        member("message", Some(cloud.message()), &mut body)?;
        if let Some(code) = cloud.report.code.filter(|code| CODES.contains(code)) {
            put_all(&mut body, &[",\"code\":", decimal(code, &mut [0; DECIMAL_MAX])])?;
        }
    }
    body.put(b"}")?;
    cloud.send_until_taken("POST", whole(&url)?, fields, whole(&body)?.as_bytes(), true)
}

/// The machine's metadata.
fn metadata<'b>(cloud: &mut Cloud<'_>, answer: &'b mut [u8]) -> Result<&'b [u8], Error> {
    let own = cloud.settings.cloud(CloudKey::PacketUrl).map(|_| cloud.url(CloudKey::PacketUrl)).transpose()?;
    let outcome = cloud.again(is_passing, super::TRY_MS, &mut |cloud, number, until| {
        let url = own.as_deref().unwrap_or(METADATA.get(number % METADATA.len()).copied().unwrap_or_default());
        let request = Request { method: "GET", url, fields: "", body: b"", is_local: true, until };
        cloud.ask(&request, answer)
    })?;
    Ok(answer.get(..outcome.kept).unwrap_or_default())
}

/// Begins an object with its first member.
fn object(name: &str, value: &str, out: &mut Text<'_>) -> Result<(), Error> {
    put_all(out, &["{\"", name, "\":\""])?;
    crate::escape::json(value.as_bytes(), out)?;
    out.put(b"\"")
}
