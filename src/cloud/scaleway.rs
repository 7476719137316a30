//! Scaleway: a machine reports that it has booted. The API cannot express any other state.

use crate::cloud::{Cloud, Service, When};
use crate::error::Error;
use crate::http::client::Outcome;
use crate::settings::{State, States};

pub(super) const SERVICE: Service = Service {
    name: "scaleway",
    when: When::Platform(&["scaleway"]),
    states: States::of(&[State::Succeeded]),
    what: "PATCH the state 'booted' to the metadata server",
    budget_s: 0,
    needs_network: true,
    hint: "set rd.report.platform=none to send nothing there",
    prepare: None,
    report,
};

/// The metadata server's address in either family.
const BASES: [&str; 2] = ["http://169.254.42.42", "http://[fd00:42::42]"];

fn report(cloud: &mut Cloud<'_>) -> Result<Outcome, Error> {
    let fields = "Content-Type: application/json\r\n";
    cloud.send_to_one_of(&BASES, "PATCH", "/state", fields, b"{\"state_detail\":\"booted\"}")
}
