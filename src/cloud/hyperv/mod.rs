//! Hyper-V outside of Azure: the report in the key-value exchange, which the host's owner reads with PowerShell or WMI.

pub mod device;
pub(super) mod pool;
pub(super) mod report;

use crate::cloud::{Cloud, NOTHING, Service, When};
use crate::error::Error;
use crate::http::client::Outcome;
use crate::settings::{State, States};

pub(super) const SERVICE: Service = Service {
    name: "hyperv",
    when: When::Platform(&["hyperv"]),
    states: States::of(&[State::Failed, State::Succeeded]),
    what: "PROVISIONING_REPORT into the key-value exchange, by hv_kvp_daemon's pool, else by the device",
    budget_s: 0,
    needs_network: false,
    hint: "put the module hv_utils into the image, or set rd.report.platform=none",
    prepare: Some(pool::prepare),
    report,
};

fn report(cloud: &mut Cloud<'_>) -> Result<Outcome, Error> {
    if pool::is_left_to_others(cloud) {
        return Ok(NOTHING);
    }
    let outcome = pool::put(cloud)?;
    pool::serve(cloud, cloud.deadline)?;
    Ok(outcome)
}
