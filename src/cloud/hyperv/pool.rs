//! The key-value exchange of Hyper-V and Azure, guest to host: a record in pool 1. `hv_kvp_daemon` (of the kernel's `tools/hv`) gives it to
//! the host from a file, and has the kernel's device open; where it does not run, the host is answered here ([`kvp`]).
//!
//! A pool is a file of records of 2560 bytes: a key in 512 and a value in 2048, both UTF-8 filled up with NULs. The host reads 254 bytes
//! of a key and 1022 of a value. Records of an earlier boot are thrown away, as cloud-init does.

use crate::cloud::hyperv::device::{Exchange, Step};
use crate::cloud::hyperv::report::{KEY, VALUE_MAX, fitting};
use crate::cloud::{Cloud, Local, NOTHING};
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
/// Kernel device of the exchange; only one process may open it.
const DEVICE: &str = "dev/vmbus/hv_kvp";
const KEY_LEN: usize = 512;
const RECORD_LEN: usize = 2560;
/// Milliseconds for which another process may hold the pool.
const LOCK_MS: u64 = 1_000;
/// Milliseconds between two attempts to take the lock.
const LOCK_STEP_MS: u64 = 50;
/// Milliseconds for the kernel to take a registration, which it does at once.
const REGISTER_MS: u64 = 1_000;

/// Where a record for the host goes.
#[derive(Default)]
pub(in crate::cloud) enum Place {
    /// There is no exchange on this machine.
    #[default]
    None,
    /// The exchange cannot be used.
    Bad(Errno),
    /// To the daemon; nobody else writes until it is closed.
    Pool(File),
    /// To the host itself.
    Device(File),
    /// The host is being answered.
    Begun(Exchange),
}

/// Finds the exchange and opens it.
///
/// What the host sends once, such as the addresses of a replica's failover, comes to whoever registers first. A boot that goes on needs that in
/// the system that it leads to: success is told there by a daemon that runs already, or if the owner has named the platform.
pub(in crate::cloud) fn prepare(root: &Root, settings: &Settings<'_>, state: State, local: &mut Local) {
    local.is_efi = root.node("sys/firmware/efi").is_ok();
    let device = match state {
        State::Succeeded if settings.platform.is_none() => Err(Errno::NOENT),
        State::Failed | State::Succeeded => root.device(DEVICE),
        State::Running | State::Stuck => return,
    };
    let is_pool = || root.node(POOL).is_ok();
    local.exchange = match device {
        Ok(device) => Place::Device(device),
        Err(e) if e == Errno::BUSY || is_pool() => pool(root).map_or_else(Place::Bad, Place::Pool),
        Err(Errno::NOENT | Errno::NOTDIR) => Place::None,
        Err(e) => Place::Bad(e),
    };
}

/// Whether the host is told by others, as [`prepare`] says.
#[cfg(feature = "cloud-azure")]
pub(in crate::cloud) fn is_left_to_others(cloud: &Cloud<'_>) -> bool {
    let is_none = matches!(cloud.local.exchange, Place::None);
    is_none && cloud.report.state == State::Succeeded && cloud.settings.platform.is_none()
}

/// Opens the daemon's pool.
fn pool(root: &Root) -> Result<File, Errno> {
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

/// Writes the report's record, and closes the pool; or begins to answer the host.
pub(in crate::cloud) fn put(cloud: &mut Cloud<'_>) -> Result<Outcome, Error> {
    let mut record = [0; RECORD_LEN];
    if let Some(key) = record.get_mut(..KEY.len()) {
        key.copy_from_slice(KEY.as_bytes());
    }
    let value = record.get_mut(KEY_LEN..KEY_LEN + VALUE_MAX).unwrap_or_default();
    let mut value = Text::new(value);
    fitting(cloud, VALUE_MAX, &mut |report, out| report.put(out))?.put(&mut value)?;
    let sent = value.as_bytes().len() as u64;
    let place = core::mem::take(&mut cloud.local.exchange);
    let written = match place {
        Place::Pool(pool) => pool.write(&record, cloud.deadline),
        Place::Device(device) => {
            let until = cloud.deadline.step_ms(REGISTER_MS);
            Exchange::new(device, KEY, value.as_str(), until).and_then(|mut exchange| {
                exchange.serve(Step::Registered, until)?;
                cloud.local.exchange = Place::Begun(exchange);
                Ok(())
            })
        }
        Place::Bad(e) => Err(e),
        Place::None | Place::Begun(_) => return Err(CloudError::NoExchange.into()),
    };
    written.map_err(CloudError::Exchange)?;
    Ok(Outcome { sent, ..NOTHING })
}

/// Answers the host until it has the record, where that is for us to do; or until `until`.
pub(in crate::cloud) fn serve(cloud: &mut Cloud<'_>, until: Deadline) -> Result<(), CloudError> {
    match &mut cloud.local.exchange {
        Place::Begun(exchange) => match exchange.serve(Step::Over, until) {
            Ok(Step::Taken | Step::Over) => Ok(()),
            Ok(_) => Err(CloudError::NotAsked),
            Err(e) => Err(CloudError::Exchange(e)),
        },
        _ => Ok(()),
    }
}
