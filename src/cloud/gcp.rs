//! Google Cloud: sets a guest attribute, which the administrator reads with `gcloud compute
//! instances get-guest-attributes`. The metadata server accepts it only if the instance's or
//! project's metadata has `enable-guest-attributes=TRUE` (403 otherwise). The server is away (503)
//! while the host is maintained.

use crate::cloud::{BODY_MAX, Cloud, Service, When, whole};
use crate::error::Error;
use crate::http::client::Outcome;
use crate::settings::{State, States};
use crate::text::Text;

pub(super) const SERVICE: Service = Service {
    name: "gcp",
    when: When::Platform(&["gcp"]),
    states: States::of(&State::ALL),
    what: "PUT the guest attribute rdreport/status to the metadata server",
    budget_s: 0,
    needs_network: true,
    hint: "set enable-guest-attributes=TRUE in the instance's metadata, or rd.report.platform=none",
    prepare: None,
    report,
};

/// The metadata server's address in either family; its name would need a nameserver.
const BASES: [&str; 2] = ["http://169.254.169.254", "http://[fd20:ce::254]"];
const PATH: &str = "/computeMetadata/v1/instance/guest-attributes/rdreport/status";

fn report(cloud: &mut Cloud<'_>) -> Result<Outcome, Error> {
    let mut body = [0; BODY_MAX];
    let mut body = Text::new(&mut body);
    cloud.brief(&mut body)?;
    let body = whole(&body)?.as_bytes();
    cloud.send_to_one_of(&BASES, "PUT", PATH, "Metadata-Flavor: Google\r\n", body)
}
