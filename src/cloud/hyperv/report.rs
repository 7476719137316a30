//! The report that Azure's tools show to the user, as cloud-init and azure-init write it: fields `name=value` between bars, those that
//! need it in quotation marks.

use crate::cloud::Cloud;
use crate::date::rfc3339;
use crate::error::{CloudError, Error};
use crate::report::Report;
use crate::settings::State;
use crate::sink::{Count, Sink, put_all};
use crate::text::{DECIMAL_MAX, decimal, floor_char_boundary};
use heapless::String;

/// Key of the report in the key-value exchange.
pub(in crate::cloud) const KEY: &str = "PROVISIONING_REPORT";
/// Bytes of a value in the exchange that the host reads.
pub(in crate::cloud) const VALUE_MAX: usize = 1022;
/// Name of this program for Azure.
pub(in crate::cloud) const AGENT: &str = concat!("rdreport/", env!("CARGO_PKG_VERSION"));
/// Where Azure's tools send the user.
const HELP: &str = "https://aka.ms/linuxprovisioningerror";
/// Longest form of one character of the reason: `"` doubled, and each `&quot;`.
const GROWTH_MAX: u64 = 12;

/// A report with a reason that fits where it goes.
pub(in crate::cloud) struct AzureReport<'a> {
    report: &'a Report<'a>,
    reason: &'a str,
    vm_id: String<36>,
}

/// The report with as much of the reason as keeps what `write` makes of it within `max` bytes.
pub(in crate::cloud) fn fitting<'a>(
    cloud: &'a Cloud<'_>,
    max: usize,
    write: &mut dyn FnMut(&AzureReport<'_>, &mut dyn Sink) -> Result<(), Error>,
) -> Result<AzureReport<'a>, Error> {
    let mut report = AzureReport { report: cloud.report, reason: cloud.message(), vm_id: vm_id(cloud) };
    loop {
        let mut count = Count::default();
        write(&report, &mut count)?;
        let excess = count.0.saturating_sub(max as u64);
        if excess == 0 {
            return Ok(report);
        }
        if report.reason.is_empty() {
            return Err(CloudError::TooLong.into());
        }
        let less = (excess / GROWTH_MAX).max(1) as usize;
        let len = floor_char_boundary(report.reason, report.reason.len().saturating_sub(less));
        report.reason = report.reason.get(..len).unwrap_or_default();
    }
}

impl AzureReport<'_> {
    pub(in crate::cloud) fn put(&self, out: &mut dyn Sink) -> Result<(), Error> {
        let report = self.report;
        let is_failure = report.state != State::Succeeded;
        let mut digits = [0; DECIMAL_MAX];
        let time = rfc3339(report.facts.time_s);
        out.put(if is_failure { b"result=error" } else { b"result=success" })?;
        for (name, value) in [
            ("reason", Some(self.reason).filter(|_| is_failure)),
            ("agent", Some(AGENT)),
            ("stage", report.stage),
            ("code", report.code.map(|code| decimal(code, &mut digits))),
            ("pps_type", Some("None")),
            ("vm_id", Some(self.vm_id.as_str())),
            ("timestamp", core::str::from_utf8(&time).ok()),
            ("documentation_url", Some(HELP).filter(|_| is_failure)),
        ] {
            if let Some(value) = value {
                field(name, value, out)?;
            }
        }
        Ok(())
    }
}

fn field(name: &str, value: &str, out: &mut dyn Sink) -> Result<(), Error> {
    if !value.bytes().any(|b| matches!(b, b'|' | b'"' | b'\n' | b'\r')) {
        return put_all(out, &["|", name, "=", value]);
    }
    put_all(out, &["|\"", name, "="])?;
    for (n, part) in value.split('"').enumerate() {
        put_all(out, &[if n > 0 { "\"\"" } else { "" }, part])?;
    }
    out.put(b"\"")
}

/// The virtual machine's id. Machines without UEFI (generation 1) show the first three fields of it in the other order of bytes.
fn vm_id(cloud: &Cloud<'_>) -> String<36> {
    let mut id = String::new();
    let uuid = cloud.report.facts.product_uuid.as_str();
    if cloud.local.is_efi {
        let _ = id.push_str(uuid);
    } else {
        let _ = id.push_str(&swapped(uuid));
    }
    id
}

fn swapped(uuid: &str) -> String<36> {
    let mut out = String::new();
    for (n, field) in uuid.split('-').enumerate() {
        if n > 0 {
            let _ = out.push('-');
        }
        if n > 2 {
            let _ = out.push_str(field);
            continue;
        }
        for byte in field.as_bytes().rchunks(2) {
            let _ = out.push_str(core::str::from_utf8(byte).unwrap_or_default());
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_the_first_generation() {
        assert_eq!(swapped("4c4c4544-0042-3510-8052-b4c04f4a4e32"), "44454c4c-4200-1035-8052-b4c04f4a4e32");
        assert_eq!(swapped(""), "");
        assert_eq!(swapped("abc"), "bca");
    }

    #[test]
    fn fields_are_quoted_where_they_must_be() {
        for (value, want) in [("plain", "|n=plain"), ("a|b", "|\"n=a|b\""), ("say \"no\"", "|\"n=say \"\"no\"\"\"")] {
            let mut out = Vec::new();
            field("n", value, &mut out).unwrap();
            assert_eq!(std::str::from_utf8(&out).unwrap(), want);
        }
    }
}
