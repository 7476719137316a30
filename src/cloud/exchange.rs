//! The key-value exchange of Hyper-V and Azure, guest to host: a record in pool 1, which `hv_kvp_daemon` (of the kernel's `tools/hv`) gives to the host.
//!
//! A pool is a file of records of 2560 bytes: a key in 512 and a value in 2048, both UTF-8 filled up with NULs. The host reads 254 bytes
//! of a key and 1022 of a value. Records of an earlier boot are thrown away, as cloud-init does.

use super::azure_report::{KEY, VALUE_MAX, fitting};
use super::{Cloud, Local, NOTHING};
use crate::error::{CloudError, Error};
use crate::http::client::Outcome;
use crate::settings::{Settings, State};
use crate::sys::file::{File, Root};
use crate::sys::sock::{Ready, wait};
use crate::sys::time::Deadline;
use crate::sys::{Errno, time};
use crate::text::Text;

/// Where the daemon keeps what goes to the host.
const FOLDERS: [(&str, &str); 3] = [("", "var"), ("var", "lib"), ("var/lib", "hyperv")];
const POOL: &str = "var/lib/hyperv/.kvp_pool_1";
/// The kernel's side of the exchange.
const DEVICE: &str = "dev/vmbus/hv_kvp";
const KEY_LEN: usize = 512;
const RECORD_LEN: usize = 2560;
/// Milliseconds for which another may hold the pool.
const LOCK_MS: u64 = 1_000;
/// Milliseconds between two looks at the lock.
const LOCK_STEP_MS: u64 = 50;

/// Opens the pool, if the exchange is here, and keeps others from writing.
pub(super) fn prepare(root: &Root, _: &Settings<'_>, state: State, local: &mut Local) {
    local.is_efi = root.node("sys/firmware/efi").is_ok();
    if matches!(state, State::Failed | State::Succeeded) && (root.node(POOL).is_ok() || root.node(DEVICE).is_ok()) {
        local.pool = Some(open(root).map_err(CloudError::Exchange));
    }
}

fn open(root: &Root) -> Result<File, Errno> {
    if root.node(POOL).is_err() {
        for (parent, name) in FOLDERS {
            root.make_folder(parent, name)?;
        }
    }
    let pool = root.append(POOL)?;
    let until = Deadline::after_ms(LOCK_MS);
    while pool.lock() == Err(Errno::AGAIN) && !until.passed() {
        wait(&mut core::iter::empty(), Ready::In, Deadline::after_ms(LOCK_STEP_MS));
    }
    let booted_s = time::realtime_s().saturating_sub(time::monotonic_ms() / 1000);
    if pool.modified_s()? < booted_s {
        pool.clear()?;
    }
    Ok(pool)
}

/// Writes the report's record, and closes the pool.
pub(super) fn put(cloud: &mut Cloud<'_>) -> Result<Outcome, Error> {
    let pool = cloud.local.pool.take().ok_or(CloudError::NoExchange)??;
    let mut record = [0; RECORD_LEN];
    if let Some(key) = record.get_mut(..KEY.len()) {
        key.copy_from_slice(KEY.as_bytes());
    }
    let value = record.get_mut(KEY_LEN..KEY_LEN + VALUE_MAX).unwrap_or_default();
    let mut value = Text::new(value);
    fitting(cloud, VALUE_MAX, &mut |report, out| report.put(out))?.put(&mut value)?;
    let sent = value.as_bytes().len() as u64;
    pool.write(&record, cloud.deadline).map_err(CloudError::Exchange)?;
    Ok(Outcome { sent, ..NOTHING })
}
