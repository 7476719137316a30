//! OpenStack Heat: the handle of a wait condition, or a resource that takes signals, in the forms that need no signature of ours:
//!
//! - `cfn`: PUT to a URL that Heat has signed (`signal_transport: CFN_SIGNAL`), with CloudFormation's members.
//! - `token`: POST to a resource's `/signal` with a token (`TOKEN_SIGNAL`), with Heat's own members.
//! - `temp_url`: PUT to a temporary URL of the object store (`TEMP_URL_SIGNAL`), with Heat's own members.
//!
//! The metadata do not hold the URL: it comes with the stack's user data, so the owner has to put it on the command line.

use crate::cloud::{BODY_MAX, Cloud, SECRET_MAX, Secret, Service, When, cfn, whole};
use crate::error::{CloudError, Error};
use crate::http::client::Outcome;
use crate::settings::{CloudKey, State, States};
use crate::text::Text;

pub(super) const SERVICE: Service = Service {
    name: "openstack",
    when: When::Set(CloudKey::OpenstackUrl),
    states: States::of(&[State::Failed, State::Succeeded]),
    what: "signal the wait condition or resource of rd.report.openstack.url=",
    budget_s: 0,
    needs_network: true,
    hint: "check rd.report.openstack.url= and rd.report.openstack.token=",
    prepare: Some(|root, settings, _, local| local.secret = Secret::read(root, settings, CloudKey::OpenstackToken)),
    report,
};

fn report(cloud: &mut Cloud<'_>) -> Result<Outcome, Error> {
    let url = cloud.url(CloudKey::OpenstackUrl)?;
    let form = cloud.settings.cloud(CloudKey::OpenstackSignal).or_else(|| form_of(&url)).ok_or(CloudError::NoForm)?;
    let (method, names) = match form {
        "cfn" => ("PUT", cfn::CFN),
        "token" => ("POST", cfn::HEAT),
        _ => ("PUT", cfn::HEAT),
    };
    let mut body = [0; BODY_MAX];
    let mut body = Text::new(&mut body);
    cfn::put(cloud, names, &mut body)?;
    let mut fields = [0; SECRET_MAX + 128];
    let mut fields = Text::new(&mut fields);
    if form == "token" {
        fields.str("Content-Type: application/json\r\nAccept: application/json\r\n");
        match cloud.local.secret.text()? {
            "" => {}
            token => {
                fields.str("X-Auth-Token: ").str(token).str("\r\n");
            }
        }
    }
    cloud.send_until_taken(method, &url, whole(&fields)?, whole(&body)?.as_bytes(), false)
}

/// The form that a URL shows by itself.
fn form_of(url: &str) -> Option<&'static str> {
    let (path, query) = url.split_once('?').unwrap_or((url, ""));
    if path.split('/').any(|part| part == "waitcondition") {
        Some("cfn")
    } else if query.split('&').any(|item| item.starts_with("temp_url_sig=")) {
        Some("temp_url")
    } else if path.ends_with("/signal") {
        Some("token")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms() {
        for (url, form) in [
            ("https://h:8000/v1/waitcondition/arn%3Aopenstack%3Aheat?Signature=x", Some("cfn")),
            ("https://h/v1/AUTH_x/c/o?temp_url_sig=x&temp_url_expires=1", Some("temp_url")),
            ("https://h:8004/v1/p/stacks/s/id/resources/r/signal", Some("token")),
            ("https://h/waitconditions", None),
            ("https://h/?x_temp_url_sig=1", None),
        ] {
            assert_eq!(form_of(url), form, "{url}");
        }
    }
}
