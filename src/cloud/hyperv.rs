//! Hyper-V outside of Azure: the report in the key-value exchange, which the host's owner reads with PowerShell or WMI.

use super::{Cloud, Service, When, exchange};
use crate::error::Error;
use crate::http::client::Outcome;
use crate::settings::{State, States};

pub(super) const SERVICE: Service = Service {
    name: "hyperv",
    when: When::Platform(&["hyperv"]),
    states: States::of(&[State::Failed, State::Succeeded]),
    what: "PROVISIONING_REPORT into the key-value exchange (/var/lib/hyperv/.kvp_pool_1)",
    budget_s: 0,
    hint: "put hv_utils and hv_kvp_daemon into the image, or set rd.report.platform=none",
    prepare: Some(exchange::prepare),
    report,
};

fn report(cloud: &mut Cloud<'_>) -> Result<Outcome, Error> {
    exchange::put(cloud)
}
