//! Starts a unit of the initramfs' systemd, by `systemctl`: its bus is no protocol of ours, and what brings systemd into an image brings
//! `systemctl` along.

use crate::sys::Errno;
use crate::sys::file::Root;
use crate::sys::process::{Child, Ended, Stop};
use crate::sys::time::Deadline;
use crate::text::Text;
use core::ffi::CStr;

/// Milliseconds that `systemctl` is given, which queues the job and does not wait for the unit, or a server to go into the background.
const START_MS: u64 = 5_000;

/// What became of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Started {
    /// The job was queued.
    Now,
    /// It would have been, were this not below `--root`.
    Would,
    /// There is no `systemctl`.
    NoSystemd,
    /// `systemctl`, or the server itself, ended so, and has said why on standard error; or no process can be made for it, which looks like status 127.
    Failed(Ended),
}

/// Starts `unit` with all that it needs, unless this is below `--root`. At the latest `START_MS` later it returns, whatever systemd does,
/// or as soon as `stop` says so.
pub fn start_unit(root: &Root, unit: &CStr, stop: &Stop) -> Started {
    systemctl(root, c"--job-mode=replace", unit, stop)
}

/// The same without anything that it needs. What needs `sysinit.target`, as all services do that do not say otherwise, would end
/// `emergency.target`, which that conflicts with.
pub fn start_alone(root: &Root, unit: &CStr, stop: &Stop) -> Started {
    systemctl(root, c"--job-mode=ignore-dependencies", unit, stop)
}

fn systemctl(root: &Root, mode: &CStr, unit: &CStr, stop: &Stop) -> Started {
    if !root.is_real() {
        return Started::Would;
    }
    for path in [c"/usr/bin/systemctl", c"/bin/systemctl"] {
        if root.node(path.to_bytes()).is_ok() {
            // An agent that asks for passwords would hold our pipe open.
            return of(Child::command(&[path, c"--no-ask-password", c"--no-block", mode, c"start", unit]), stop);
        }
    }
    Started::NoSystemd
}

/// What became of a program that starts something and then ends, or leaves it in the background: it has `START_MS` for that.
pub fn of(child: Result<Child, Errno>, stop: &Stop) -> Started {
    let ended = match child {
        Ok(child) => child.wait(stop, Deadline::after_ms(START_MS), &mut [0; 64]).0,
        Err(_) => Ended::Exit(127),
    };
    if ended == Ended::Exit(0) { Started::Now } else { Started::Failed(ended) }
}

/// Says what became of starting a unit.
pub fn explain(unit: &str, started: Started, out: &mut Text<'_>) {
    out.str(unit);
    match started {
        Started::Now => out.str(" is started"),
        Started::Would => out.str(" is started, were this not below --root"),
        Started::NoSystemd => out.str(" is not started: there is no systemctl here"),
        Started::Failed(Ended::Exit(status)) => {
            out.str(" is not started: systemctl ended with status ").dec(status.into())
        }
        Started::Failed(_) => out.str(" is not started: systemctl did not end by itself"),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn below_another_root_nothing_is_run() {
        let dir = std::env::temp_dir().join(std::format!("rdreport-start-{}", std::process::id()));
        std::fs::create_dir_all(dir.join("usr/bin")).unwrap();
        std::fs::write(dir.join("usr/bin/systemctl"), "").unwrap();
        let root = Root::new(Some(dir.to_str().unwrap().as_bytes())).unwrap();
        assert_eq!(start_unit(&root, c"sshd.service", &Stop::none()), Started::Would);
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
