//! What the wait conditions of AWS CloudFormation and of OpenStack Heat are signalled with.

use crate::cloud::Cloud;
use crate::error::Error;
use crate::report::member;
use crate::settings::State;
use crate::sink::{Sink, put_all};

/// Names of the four members: those of CloudFormation's handles, which Heat's CFN signal has too.
pub(super) const CFN: [&str; 4] = ["Status", "Reason", "UniqueId", "Data"];
/// Those of Heat's own handles. A signal without `status` would be a success there.
#[cfg(feature = "cloud-openstack")]
pub(super) const HEAT: [&str; 4] = ["status", "reason", "id", "data"];

/// How it ended in both systems' words.
pub(super) fn status(state: State) -> &'static str {
    if state == State::Succeeded { "SUCCESS" } else { "FAILURE" }
}

/// The signal as JSON. A later one of the same machine takes the place of an earlier one.
pub(super) fn put(cloud: &Cloud<'_>, names: [&str; 4], out: &mut dyn Sink) -> Result<(), Error> {
    let report = cloud.report;
    let [status_name, reason, id, data] = names;
    put_all(out, &["{\"", status_name, "\":\"", status(report.state), "\""])?;
    member(reason, Some(cloud.message()), out)?;
    let uuid = report.facts.product_uuid.as_str();
    member(id, Some(if uuid.is_empty() { report.id } else { uuid }), out)?;
    member(data, Some(report.id), out)?;
    out.put(b"}")
}
