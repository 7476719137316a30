//! What the owner wants done with the machine once its failure was reported (`rd.report.action=`).
//!
//! A panic is for the hypervisor: with QEMU's pvpanic device (its `docs/specs/pvpanic`) it sees it as an event. Below `--root`, nothing
//! is done but to write the letter into the `proc/sysrq-trigger` there.

use crate::explain;
use crate::settings::Action;
use crate::sys::Errno;
use crate::sys::file::Root;
use crate::sys::machine::{self, Keys};
use crate::sys::process::{Child, Stop};
use crate::sys::time::Deadline;
use crate::text::Text;
use heapless::Vec;

/// Milliseconds that the disks are given to take what is not written yet.
const SYNC_MS: u64 = 10_000;
/// Milliseconds between the end of the last sink and the end of the machine: a transport without acknowledgement (vsock, the virtio port)
/// may still hold the last bytes.
const LINGER_MS: u64 = 500;
/// Milliseconds that `modprobe` is given.
const MODPROBE_MS: u64 = 5_000;
/// Bytes of a module's path.
const PATH_MAX: usize = 192;

/// What is to be said.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// It happens in so many seconds.
    Soon(u32),
    /// A key was pressed, or the program asked to end.
    Stopped,
    /// It happens now.
    Now,
    /// It would happen now, were this not below `--root`.
    Would,
    /// It does not happen, as the fallback configuration was started.
    Superseded,
    /// The kernel refused.
    Refused(Errno),
}

/// Does it, `delay_s` seconds from now, unless a key is pressed on the console or `stop` says so. `kernel` is the release of the kernel.
/// Each step is told before it is done.
pub fn act(root: &Root, action: Action, delay_s: u32, kernel: &str, stop: &Stop, tell: &mut dyn FnMut(Step)) {
    if stop.is_asked() || delay_s > 0 && is_stopped(root, delay_s, stop, tell) {
        return tell(Step::Stopped);
    }
    tell(if root.is_real() { Step::Now } else { Step::Would });
    if root.is_real() {
        // In a process of its own: a disk may never answer.
        let synced = Child::spawn(&mut |_| {
            machine::sync();
            (0, 0)
        });
        if let Ok(child) = synced {
            child.listen(stop, Deadline::after_ms(SYNC_MS));
        }
        if action == Action::Panic {
            load_pvpanic(root, kernel, stop);
        }
    }
    Keys::none().pressed(Deadline::after_ms(LINGER_MS));
    let done = match action {
        Action::None => Ok(()),
        Action::Panic => root.write("proc/sysrq-trigger", b"c"),
        Action::Reboot if root.is_real() => machine::restart(),
        Action::Poweroff if root.is_real() => machine::power_off(),
        Action::Reboot | Action::Poweroff => Ok(()),
    };
    if let Err(e) = done {
        tell(Step::Refused(e));
    }
}

/// Counts the seconds down; gives whether it was stopped.
fn is_stopped(root: &Root, delay_s: u32, stop: &Stop, tell: &mut dyn FnMut(Step)) -> bool {
    let mut keys = Keys::new(root);
    let end = Deadline::after_ms(u64::from(delay_s).saturating_mul(1000));
    for left_s in (1..=delay_s).rev() {
        if left_s == delay_s || left_s <= 5 || left_s % 10 == 0 {
            tell(Step::Soon(left_s));
        }
        let next_ms = end.left_ms().saturating_sub(u64::from(left_s - 1) * 1000);
        if keys.pressed(Deadline::after_ms(next_ms)) || stop.is_asked() {
            return true;
        }
    }
    false
}

/// Makes the kernel tell the hypervisor of its panics. Where udev works it has done so before.
fn load_pvpanic(root: &Root, kernel: &str, stop: &Stop) {
    let drivers = ["pvpanic_mmio", "pvpanic_pci"];
    let is_loaded = || {
        drivers.iter().any(|name| {
            let path: Vec<u8, PATH_MAX> = path(&["sys/module/", name]);
            root.folder(&path).is_ok()
        })
    };
    if is_loaded() {
        return;
    }
    // What the others need comes first; the last is that of kernels before 5.13.
    for name in ["pvpanic/pvpanic", "pvpanic/pvpanic-mmio", "pvpanic/pvpanic-pci", "pvpanic"] {
        for packed in ["", ".xz", ".zst", ".gz"] {
            let path = path(&["lib/modules/", kernel, "/kernel/drivers/misc/", name, ".ko", packed]);
            if let Ok(file) = root.file(&path) {
                // It may be there already, or not be for this machine.
                let _ = machine::load_module(&file, !packed.is_empty());
                break;
            }
        }
    }
    if is_loaded() {
        return;
    }
    for path in [c"/usr/sbin/modprobe", c"/usr/bin/modprobe", c"/sbin/modprobe", c"/bin/modprobe"] {
        if root.node(path.to_bytes()).is_ok()
            && let Ok(child) = Child::command(&[path, c"-a", c"-q", c"pvpanic-mmio", c"pvpanic-pci"])
        {
            child.wait(stop, Deadline::after_ms(MODPROBE_MS), &mut [0; 64]);
            return;
        }
    }
}

/// Cut if it is too long: then nothing is there.
fn path(parts: &[&str]) -> Vec<u8, PATH_MAX> {
    let mut path = Vec::new();
    for part in parts {
        let _ = path.extend_from_slice(part.as_bytes());
    }
    path
}

/// Says what is about to be done with the machine.
pub fn explain(action: Action, step: Step, out: &mut Text<'_>) {
    out.str("rd.report.action=").str(action.as_str());
    match step {
        Step::Soon(1) => out.str(" in 1 second; any key stops it"),
        Step::Soon(seconds) => out.str(" in ").dec(seconds.into()).str(" seconds; any key stops it"),
        Step::Stopped => out.str(": stopped"),
        Step::Now => out.str(" now"),
        Step::Superseded => out.str(" is not done: it would end what rdreport-fallback.target does"),
        Step::Would => out.str(" now, were this not below --root"),
        Step::Refused(e) => {
            out.str(": the kernel refused: ");
            explain::errno(e, out);
            out
        }
    };
}
