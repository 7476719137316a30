//! Identifies the cloud this machine runs on: by the administrator's setting, else by the image's
//! kernel arguments, else by the firmware.
//!
//! The names are Ignition's (its list of supported platforms). The firmware's strings are DMI's (SMBIOS types 1 and 3) as Linux shows them
//! under `/sys/class/dmi/id`, with the values that clouds document or that cloud-init's `ds-identify` looks for.

use crate::report::{Fact, line};
use crate::settings::cmdline::{Words, same_key};
use crate::sys::file::Root;

/// A platform, and how it was identified.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Found<'a> {
    /// Ignition's name of the platform.
    pub name: &'a str,
    /// What says so.
    pub why: Why,
}

/// What says which platform it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Why {
    /// The administrator's setting.
    Setting,
    /// This word of the kernel command line.
    Argument(&'static str),
    /// The firmware: what is in this file.
    Firmware(&'static str),
}

/// Every name that a platform may have: those of Ignition, and one that only the firmware tells.
const NAMES: &str = "akamai aliyun applehv aws azure azurestack brightbox cloudsigma cloudstack digitalocean exoscale gcp hetzner hyperv \
    ibmcloud kubevirt metal nutanix nvidiabluefield openstack oraclecloud packet powervs proxmoxve qemu scaleway upcloud virtualbox vmware \
    vultr zvm";

/// Former names in images, and today's.
const OLD_NAMES: [(&str, &str); 2] = [("ec2", "aws"), ("gce", "gcp")];

/// Words of the kernel command line that name the platform, the first one first; or that only one platform has.
const ARGUMENTS: [(&str, Option<&str>); 5] = [
    ("ignition.platform.id", None),
    ("coreos.oem.id", None),
    ("flatcar.oem.id", None),
    ("em.events_url", Some("packet")),
    ("tinkerbell", Some("packet")),
];

const VENDOR: &str = "sys/class/dmi/id/sys_vendor";
const PRODUCT: &str = "sys/class/dmi/id/product_name";
const SERIAL: &str = "sys/class/dmi/id/product_serial";
const UUID: &str = "sys/class/dmi/id/product_uuid";
const ASSET_TAG: &str = "sys/class/dmi/id/chassis_asset_tag";
const HYPERVISOR: &str = "sys/hypervisor/uuid";

/// Platforms with a metadata service at the usual address on the link.
const ON_LINK: &str = "akamai aliyun aws azure brightbox cloudstack digitalocean exoscale gcp hetzner ibmcloud openstack oraclecloud vultr";
const SCALEWAY: &str = "http://169.254.42.42/";
const USUAL: &str = "http://169.254.169.254/";

/// Where a platform's services tell the time, for a machine whose clock does not (`Date`, RFC 9110 section 6.6.1; any answer has it).
pub fn clock(name: &str) -> Option<&'static str> {
    match name {
        _ if !cfg!(feature = "net-extra") => None,
        "scaleway" => Some(SCALEWAY),
        _ => ON_LINK.split_ascii_whitespace().any(|known| known == name).then_some(USUAL),
    }
}

/// How a text of the firmware is compared, upper and lower case being the same.
#[derive(Clone, Copy)]
enum Is {
    Equal(&'static str),
    Start(&'static str),
    End(&'static str),
}
use Is::{End, Equal, Start};

/// What the firmware of each platform says; the first row that fits as a whole holds.
const FIRMWARE: &[(&str, &[(&str, Is)])] = &[
    ("azure", &[(ASSET_TAG, Equal("7783-7084-3265-9085-8269-3286-77"))]),
    ("hyperv", &[(VENDOR, Equal("Microsoft Corporation")), (PRODUCT, Equal("Virtual Machine"))]),
    ("gcp", &[(PRODUCT, Equal("Google Compute Engine"))]),
    ("gcp", &[(SERIAL, Start("GoogleCloud-"))]),
    ("aws", &[(VENDOR, Equal("Amazon EC2"))]),
    // One random UUID in 4096 begins so: Amazon's old machines have it in both places.
    ("aws", &[(UUID, Start("ec2")), (SERIAL, Start("ec2"))]),
    ("aws", &[(HYPERVISOR, Start("ec2"))]),
    ("openstack", &[(PRODUCT, Equal("OpenStack Nova"))]),
    ("openstack", &[(PRODUCT, Equal("OpenStack Compute"))]),
    ("openstack", &[(ASSET_TAG, Equal("OpenStack Nova"))]),
    ("openstack", &[(ASSET_TAG, Equal("OpenStack Compute"))]),
    ("openstack", &[(ASSET_TAG, Equal("OpenTelekomCloud"))]),
    ("openstack", &[(ASSET_TAG, Equal("SAP CCloud VM"))]),
    ("openstack", &[(ASSET_TAG, Equal("HUAWEICLOUD"))]),
    ("openstack", &[(ASSET_TAG, Equal("Samsung Cloud Platform"))]),
    ("vmware", &[(PRODUCT, Start("VMware"))]),
    ("scaleway", &[(VENDOR, Equal("Scaleway"))]),
    ("oraclecloud", &[(ASSET_TAG, Equal("OracleCloud.com"))]),
    ("aliyun", &[(PRODUCT, Equal("Alibaba Cloud ECS"))]),
    ("digitalocean", &[(VENDOR, Equal("DigitalOcean"))]),
    ("hetzner", &[(VENDOR, Equal("Hetzner"))]),
    ("vultr", &[(VENDOR, Equal("Vultr"))]),
    ("akamai", &[(VENDOR, Equal("Akamai"))]),
    ("akamai", &[(VENDOR, Equal("Linode"))]),
    ("upcloud", &[(VENDOR, Equal("UpCloud"))]),
    ("exoscale", &[(PRODUCT, Start("Exoscale"))]),
    ("cloudstack", &[(PRODUCT, Start("CloudStack"))]),
    ("cloudsigma", &[(PRODUCT, Equal("CloudSigma"))]),
    ("brightbox", &[(SERIAL, End(".brightbox.com"))]),
];

/// Finds the platform. `setting` is `rd.report.platform`; its `none` is for the caller to see.
pub fn recognise<'a>(setting: Option<&'a str>, cmdline: &'a [u8], root: &Root) -> Option<Found<'a>> {
    if let Some(name) = setting {
        return Some(Found { name: today(name), why: Why::Setting });
    }
    for (key, platform) in ARGUMENTS {
        if let Some(name) = argument(cmdline, key) {
            return Some(Found { name: platform.unwrap_or(today(name)), why: Why::Argument(key) });
        }
    }
    let fits = |(path, is): &(&'static str, Is)| is.fits(&line(root, path));
    let (name, texts) = FIRMWARE.iter().find(|(_, texts)| texts.iter().all(fits))?;
    Some(Found { name, why: Why::Firmware(texts.first().map_or("", |(path, _)| path)) })
}

/// Whether a platform has this name.
pub fn is_known(name: &str) -> bool {
    NAMES.split(' ').any(|known| known == name)
}

/// Returns the last value of `key` on a kernel command line that is not empty.
pub fn argument<'a>(cmdline: &'a [u8], key: &str) -> Option<&'a str> {
    let values = Words::new(cmdline).filter(|word| same_key(word.key, key.as_bytes())).filter_map(|word| word.value);
    values.filter_map(|value| core::str::from_utf8(value).ok()).filter(|value| !value.is_empty()).last()
}

fn today(name: &str) -> &str {
    OLD_NAMES.iter().find(|(old, _)| *old == name).map_or(name, |(_, new)| new)
}

impl Is {
    fn fits(self, text: &Fact) -> bool {
        let text = text.as_bytes();
        let (part, want) = match self {
            Equal(want) => (Some(text), want),
            Start(want) => (text.get(..want.len()), want),
            End(want) => (text.len().checked_sub(want.len()).and_then(|at| text.get(at..)), want),
        };
        part.is_some_and(|part| part.eq_ignore_ascii_case(want.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A root with these files, and what is found there.
    fn found(cmdline: &str, setting: Option<&str>, files: &[(&str, &str)]) -> Option<(String, Why)> {
        let unique = format!("platform-{}-{:?}", std::process::id(), std::thread::current().id());
        let dir = std::env::temp_dir().join(unique);
        std::fs::create_dir_all(&dir).unwrap();
        for (path, text) in files {
            let path = dir.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, format!("{text}\n")).unwrap();
        }
        let root = Root::new(Some(dir.to_str().unwrap().as_bytes())).unwrap();
        let found = recognise(setting, cmdline.as_bytes(), &root).map(|found| (found.name.to_owned(), found.why));
        std::fs::remove_dir_all(&dir).unwrap();
        found
    }

    #[test]
    fn the_owner_goes_before_the_image_and_the_image_before_the_firmware() {
        let azure = [(ASSET_TAG, "7783-7084-3265-9085-8269-3286-77")];
        let all = "flatcar.oem.id=packet coreos.oem.id=ec2 ignition.platform.id=x ignition.platform.id=gce tinkerbell=http://t";
        for (cmdline, setting, name, why) in [
            (all, Some("ec2"), "aws", Why::Setting),
            (all, None, "gcp", Why::Argument("ignition.platform.id")),
            ("flatcar.oem.id=packet coreos.oem.id=ec2", None, "aws", Why::Argument("coreos.oem.id")),
            ("flatcar.oem.id=packet ignition.platform.id=", None, "packet", Why::Argument("flatcar.oem.id")),
            ("em.events_url=http://e", None, "packet", Why::Argument("em.events_url")),
            ("tinkerbell=http://t", None, "packet", Why::Argument("tinkerbell")),
            ("quiet", None, "azure", Why::Firmware(ASSET_TAG)),
        ] {
            assert_eq!(found(cmdline, setting, &azure), Some((name.to_owned(), why)), "{cmdline}");
        }
        assert_eq!(found("quiet", None, &[]), None);
    }

    #[test]
    fn every_row_is_found_and_a_part_of_it_is_not() {
        for (name, texts) in FIRMWARE {
            let files: Vec<_> = texts
                .iter()
                .map(|(path, is)| match is {
                    Equal(text) => (*path, text.to_string()),
                    Start(text) => (*path, format!("{} and more", text.to_uppercase())),
                    End(text) => (*path, format!("srv-1{text}")),
                })
                .collect();
            let files: Vec<_> = files.iter().map(|(path, text)| (*path, text.as_str())).collect();
            assert_eq!(found("", None, &files).map(|(name, _)| name).as_deref(), Some(*name), "{files:?}");
            assert!(is_known(name), "{name}");
            for (n, (path, text)) in files.iter().enumerate() {
                let mut wrong = files.clone();
                let text = match texts[n].1 {
                    End(_) => format!("{text}.example"),
                    _ => format!("x{text}"),
                };
                wrong[n] = (path, &text);
                assert_eq!(found("", None, &wrong), None, "{wrong:?}");
            }
        }
    }

    #[test]
    fn names() {
        assert!(is_known("packet") && is_known("vultr") && is_known("akamai"));
        assert!(!is_known("") && !is_known("none") && !is_known("packet azure"));
    }
}
