//! Events as curtin sends them to MAAS and cloud-init to the webhook of its reporting: JSON, with OAuth 1.0 (RFC 5849) in its PLAINTEXT form
//! where a token is set. MAAS takes nothing but ASCII. Its 204 does not mean that the token was right: it is looked at later.
//!
//! A clock that is wrong makes such a request look old. The server's `Date` then tells how wrong, as it does to cloud-init.

use crate::cloud::{BODY_MAX, Cloud, Request, SECRET_MAX, Secret, Service, TRY_MS, When, is_passing, whole};
use crate::error::{CloudError, Error, HttpError};
use crate::escape;
use crate::http::client::Outcome;
use crate::report::{member, new_id};
use crate::settings::{CloudKey, State, States};
use crate::sink::{Sink, put_all};
use crate::sys::time::realtime_s;
use crate::text::{self, DECIMAL_MAX, Text, decimal};
use alloc::vec;

/// MAAS.
pub(super) const MAAS: Service = Service {
    name: "maas",
    when: When::Set(CloudKey::MaasUrl),
    states: States::of(&State::ALL),
    what: "POST an event of curtin's form to rd.report.maas.url=",
    budget_s: 0,
    needs_network: true,
    hint: "check rd.report.maas.url= and rd.report.maas.token=",
    prepare: Some(|root, settings, _, local| local.secret = Secret::read(root, settings, CloudKey::MaasToken)),
    report: |cloud| report(cloud, CloudKey::MaasUrl, "curtin"),
};

/// Any receiver of cloud-init's events.
pub(super) const CLOUDINIT: Service = Service {
    name: "cloudinit",
    when: When::Set(CloudKey::CloudinitUrl),
    states: States::of(&State::ALL),
    what: "POST an event of cloud-init's form to rd.report.cloudinit.url=",
    budget_s: 0,
    needs_network: true,
    hint: "check rd.report.cloudinit.url= and rd.report.cloudinit.token=",
    prepare: Some(|root, settings, _, local| local.secret = Secret::read(root, settings, CloudKey::CloudinitToken)),
    report: |cloud| report(cloud, CloudKey::CloudinitUrl, "cloudinit"),
};

/// Seconds by which a clock may be wrong before it is believed to be.
const SKEW_S: i64 = 5;
/// Name of the event. An event without a slash is one of the outermost: its failure is the
/// machine's.
const NAME: &str = "rdreport";

fn report(cloud: &mut Cloud<'_>, url: CloudKey, origin: &str) -> Result<Outcome, Error> {
    let url = &cloud.url(url)?;
    let mut body = [0; BODY_MAX];
    let mut body = Text::new(&mut body);
    put(cloud, origin, &mut Ascii(&mut body))?;
    let body = whole(&body)?.as_bytes();
    let mut skew = 0i64;
    cloud.again(is_passing, TRY_MS, &mut |cloud, _, until| {
        let mut result = send(cloud, url, skew, body, until);
        if let (Err(Error::Http(HttpError::Status(401 | 403))), Some(date)) = (result, cloud.heard.date_s) {
            let new = (date as i64).saturating_sub(realtime_s() as i64);
            if new.saturating_sub(skew).saturating_abs() > SKEW_S {
                skew = new;
                result = send(cloud, url, skew, body, until);
            }
        }
        result
    })
}

fn send(
    cloud: &mut Cloud<'_>,
    url: &str,
    skew: i64,
    body: &[u8],
    until: crate::sys::time::Deadline,
) -> Result<Outcome, Error> {
    let mut fields = vec![0; 2 * SECRET_MAX];
    let mut fields = Text::new(&mut fields);
    fields.str("Content-Type: application/json\r\n");
    authorize(cloud.local.secret.text()?, realtime_s().saturating_add_signed(skew), &mut fields)?;
    cloud.heard.date_s = None;
    cloud.ask(&Request { method: "POST", url, fields: whole(&fields)?, body, is_local: false, until }, &mut [])
}

/// Writes the header field for a token `consumer_key:token_key:token_secret[:consumer_secret]`, which MAAS calls an API key.
fn authorize(token: &str, time_s: u64, out: &mut Text<'_>) -> Result<(), Error> {
    if token.is_empty() {
        return Ok(());
    }
    let mut parts = token.split(':');
    let (Some(consumer), Some(key), Some(secret)) = (parts.next(), parts.next(), parts.next()) else {
        return Err(CloudError::NoSecret.into());
    };
    let nonce = new_id().map_err(|_| CloudError::NoSecret)?;
    let mut digits = [0; DECIMAL_MAX];
    out.str("Authorization: OAuth oauth_version=\"1.0\"");
    for (name, value, more) in [
        ("nonce", nonce.as_str(), None),
        ("timestamp", decimal(time_s, &mut digits), None),
        ("consumer_key", consumer, None),
        ("token", key, None),
        ("signature_method", "PLAINTEXT", None),
        ("signature", parts.next().unwrap_or_default(), Some(secret)),
    ] {
        out.str(", oauth_").str(name).str("=\"");
        percent(value, out);
        if let Some(secret) = more {
            out.str("%26");
            percent(secret, out);
        }
        out.str("\"");
    }
    out.str("\r\n");
    Ok(())
}

fn percent(value: &str, out: &mut Text<'_>) {
    escape::percent(value, &mut |c| {
        out.str(c.encode_utf8(&mut [0; 4]));
        true
    });
}

fn put(cloud: &Cloud<'_>, origin: &str, out: &mut dyn Sink) -> Result<(), Error> {
    let report = cloud.report;
    let result = match report.state {
        State::Running | State::Stuck => None,
        State::Failed => Some("FAIL"),
        State::Succeeded => Some("SUCCESS"),
    };
    put_all(out, &["{\"name\":\"", NAME, "\""])?;
    member("description", Some(cloud.message()), out)?;
    member("event_type", Some(if result.is_some() { "finish" } else { "progress" }), out)?;
    member("origin", Some(origin), out)?;
    let mut digits = [0; DECIMAL_MAX];
    put_all(out, &[",\"timestamp\":", decimal(report.facts.time_s, &mut digits), ".0"])?;
    if origin == "curtin" {
        member("level", Some(if report.state == State::Failed { "ERROR" } else { "INFO" }), out)?;
    }
    if let Some(result) = result {
        member("result", Some(result), out)?;
        put_all(out, &[",\"duration\":", decimal(report.facts.uptime_ms / 1000, &mut digits), ".0"])?;
    }
    out.put(b"}")
}

/// Escapes what is not ASCII in JSON that goes through it (RFC 8259 section 7), each piece of which is whole characters.
struct Ascii<'a>(&'a mut dyn Sink);

impl Sink for Ascii<'_> {
    fn put(&mut self, bytes: &[u8]) -> Result<(), Error> {
        for c in core::str::from_utf8(bytes).unwrap_or_default().chars() {
            if c.is_ascii() {
                self.0.put(&[c as u8])?;
                continue;
            }
            for unit in c.encode_utf16(&mut [0; 2]) {
                let [high, low] = unit.to_be_bytes();
                let digit = text::hex_digit;
                self.0.put(&[b'\\', b'u', digit(high >> 4), digit(high), digit(low >> 4), digit(low)])?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens() {
        let authorize = |token: &str| {
            let mut buf = [0; 1024];
            let mut out = Text::new(&mut buf);
            authorize(token, 42, &mut out).map(|()| out.as_str().to_owned())
        };
        assert_eq!(authorize("").unwrap(), "");
        for token in ["a", "a:b"] {
            assert_eq!(authorize(token), Err(CloudError::NoSecret.into()));
        }
        let field = authorize("c k:t:s\"x:cs").unwrap();
        assert!(field.ends_with(
            "\", oauth_timestamp=\"42\", oauth_consumer_key=\"c%20k\", oauth_token=\"t\", \
             oauth_signature_method=\"PLAINTEXT\", oauth_signature=\"cs%26s%22x\"\r\n"
        ));
        assert!(authorize("c:t:s").unwrap().contains("oauth_signature=\"%26s\""));
    }
}
