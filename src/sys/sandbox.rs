//! What a process gives up before it reads what strangers wrote: capabilities, new privileges (`PR_SET_NO_NEW_PRIVS`), core dumps, all
//! system calls but a few (seccomp(2)), and files but a few, for reading alone (landlock(7)).
//!
//! What the kernel is too old for, or was built without, is skipped.

use crate::sys::file::Root;
use core::ffi::{CStr, c_int, c_long, c_ulong};
use core::ptr::null;
use heapless::Vec;
use linux_raw_sys::general as sys;
use rustix::fd::{AsFd, AsRawFd, BorrowedFd};
use rustix::fs::{CWD, Mode, OFlags, openat};

unsafe extern "C" {
    fn prctl(option: c_int, ...) -> c_int;
    fn syscall(number: c_long, ...) -> c_long;
}

/// System calls that such a process makes: found by strace(1) over all tests, and those that musl makes on older kernels and at the end.
const CALLS: &[u32] = &[
    sys::__NR_pread64,
    sys::__NR_recvfrom,
    sys::__NR_sendto,
    sys::__NR_ppoll,
    sys::__NR_getrandom,
    sys::__NR_clock_gettime,
    sys::__NR_read,
    sys::__NR_write,
    sys::__NR_close,
    sys::__NR_openat,
    sys::__NR_readlinkat,
    sys::__NR_getdents64,
    sys::__NR_fstat,
    sys::__NR_newfstatat,
    sys::__NR_lseek,
    sys::__NR_ftruncate,
    sys::__NR_connect,
    sys::__NR_bind,
    sys::__NR_setsockopt,
    sys::__NR_getsockopt,
    sys::__NR_shutdown,
    sys::__NR_rt_sigreturn,
    sys::__NR_restart_syscall,
    sys::__NR_exit,
    sys::__NR_exit_group,
    #[cfg(target_arch = "x86_64")]
    sys::__NR_poll,
];
/// System calls of which the argument with this number must be one of these values. A local socket would lead to the services of this
/// machine, to which we are root; the only request to a device is for the number of an interface.
const LIMITED: &[(u32, u32, &[u32])] =
    &[(sys::__NR_socket, 0, &[AF_INET, AF_INET6, AF_NETLINK, AF_VSOCK]), (sys::__NR_ioctl, 1, &[SIOCGIFINDEX])];
const AF_INET: u32 = 2;
const AF_INET6: u32 = 10;
const AF_NETLINK: u32 = 16;
const AF_VSOCK: u32 = 40;
const SIOCGIFINDEX: u32 = 0x8933;

/// Folders in which the network's state, names and nameservers are found, below the root.
const FOLDERS: &[&str] = &["etc", "run", "tmp", "proc/net"];
/// Files of the system itself that are read.
const DEVICES: [&CStr; 2] = [c"/dev/urandom", c"/dev/random"];

/// Gives up all that is not needed to send something over the network; afterwards nothing brings it back.
pub fn enter(root: &Root) {
    no_dumps();
    // SAFETY: plain numbers.
    unsafe { prctl(PR_SET_NO_NEW_PRIVS, 1 as c_ulong, 0 as c_ulong, 0 as c_ulong, 0 as c_ulong) };
    limit_files(root);
    drop_capabilities();
    limit_calls();
}

/// Keeps this process and its children out of core dumps, and from being looked into.
pub fn no_dumps() {
    // SAFETY: plain numbers.
    unsafe { prctl(PR_SET_DUMPABLE, 0 as c_ulong) };
}

// Linux' `prctl.h`.
const PR_SET_DUMPABLE: c_int = 4;
const PR_SET_SECCOMP: c_int = 22;
const PR_CAPBSET_DROP: c_int = 24;
const PR_SET_NO_NEW_PRIVS: c_int = 38;
const SECCOMP_MODE_FILTER: c_ulong = 2;

fn drop_capabilities() {
    /// Bits of a capability set.
    const CAPABILITIES: c_ulong = 64;
    // `_LINUX_CAPABILITY_VERSION_3`, and this process.
    let head = [0x2008_0522_u32, 0];
    // Effective, permitted and inheritable, low and high.
    let none = [0u32; 6];
    // SAFETY: plain numbers; the kernel reads a `__user_cap_header_struct` and two `__user_cap_data_struct`, which these are.
    unsafe {
        for capability in 0..CAPABILITIES {
            // The first one that does not exist is the last.
            if prctl(PR_CAPBSET_DROP, capability) != 0 {
                break;
            }
        }
        syscall(sys::__NR_capset as c_long, head.as_ptr(), none.as_ptr());
    }
}

// Linux' `landlock.h`.
const LANDLOCK_CREATE_RULESET_VERSION: c_ulong = 1;
const LANDLOCK_RULE_PATH_BENEATH: c_ulong = 1;
const READ_FILE: u64 = 1 << 2;
const READ_DIR: u64 = 1 << 3;
/// Rights that are taken, by version: the first has 13, then each of these more.
const RIGHTS: u64 = (1 << 13) - 1;
const LATER_RIGHTS: [(c_long, u64); 3] = [(2, 1 << 13), (3, 1 << 14), (5, 1 << 15)];
/// From version 4 on: no listening.
const BIND_TCP: u64 = 1;
/// From version 6 on: neither local sockets without a path nor signals to processes outside.
const SCOPES: u64 = 3;

/// `struct landlock_ruleset_attr`.
#[repr(C)]
struct Ruleset {
    files: u64,
    net: u64,
    scoped: u64,
}

/// `struct landlock_path_beneath_attr`.
#[repr(C, packed)]
struct Beneath {
    allowed: u64,
    folder: c_int,
}

fn limit_files(root: &Root) {
    // SAFETY: a question for the version, without a structure.
    let version = unsafe {
        syscall(
            sys::__NR_landlock_create_ruleset as c_long,
            null::<Ruleset>(),
            0 as c_ulong,
            LANDLOCK_CREATE_RULESET_VERSION,
        )
    };
    if version < 1 {
        return;
    }
    let later = LATER_RIGHTS.iter().filter(|(from, _)| version >= *from).fold(0, |all, (_, right)| all | right);
    let (net, scoped) = (if version >= 4 { BIND_TCP } else { 0 }, if version >= 6 { SCOPES } else { 0 });
    let rules = Ruleset { files: RIGHTS | later, net, scoped };
    // An older kernel takes the whole, as what it does not know is zero.
    // SAFETY: the structure is whole and as long as is said; the result is a descriptor of ours or an error.
    let ruleset = unsafe {
        syscall(sys::__NR_landlock_create_ruleset as c_long, &rules, size_of::<Ruleset>() as c_ulong, 0 as c_ulong)
    };
    if ruleset < 0 {
        return;
    }
    for place in FOLDERS {
        // What is not there yet may come to be, which a rule cannot say: then all may be read.
        if let Ok(folder) = root.node(place).or_else(|_| root.node(".")) {
            allow(ruleset, folder.as_fd(), READ_FILE | READ_DIR);
        }
    }
    for path in DEVICES {
        if let Ok(file) = openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) {
            allow(ruleset, file.as_fd(), READ_FILE);
        }
    }
    // SAFETY: plain numbers; the descriptor, which is closed here, is ours and not used again.
    unsafe {
        syscall(sys::__NR_landlock_restrict_self as c_long, ruleset, 0 as c_ulong);
        syscall(sys::__NR_close as c_long, ruleset);
    }
}

fn allow(ruleset: c_long, place: BorrowedFd<'_>, allowed: u64) {
    let rule = Beneath { allowed, folder: place.as_raw_fd() };
    // SAFETY: the structure is whole, and its descriptor is open.
    unsafe { syscall(sys::__NR_landlock_add_rule as c_long, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0 as c_ulong) };
}

/// `struct sock_filter`: an instruction of the classic packet filter.
#[repr(C)]
#[derive(Clone, Copy)]
struct Instruction {
    code: u16,
    if_true: u8,
    if_false: u8,
    k: u32,
}

/// `struct sock_fprog`.
#[repr(C)]
struct Program {
    len: u16,
    filter: *const Instruction,
}

/// Instructions: what a value of a limited call needs, and no more calls than a jump of 8 bits reaches.
const PROGRAM_MAX: usize = 64;
/// Loads 32 bits of `struct seccomp_data`.
const LOAD: u16 = 0x20;
/// Jumps if what was loaded is the same.
const EQUAL: u16 = 0x15;
/// Jumps.
const JUMP: u16 = 0x05;
/// Ends with an action.
const RETURN: u16 = 0x06;
const ALLOW: u32 = 0x7fff_0000;
const KILL: u32 = 0x8000_0000;
/// An error, `ENOSYS`: a library then does without the call, as on an older kernel.
const REFUSE: u32 = 0x0005_0000 | 38;
/// Places in `struct seccomp_data`.
const NUMBER_AT: u32 = 0;
const ARCH_AT: u32 = 4;
const ARGS_AT: u32 = 16;
/// `AUDIT_ARCH_X86_64` and `AUDIT_ARCH_AARCH64`; calls of another kind (32 bits) have other numbers. Those of x32 are none of ours.
#[cfg(target_arch = "x86_64")]
const ARCH: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCH: u32 = 0xc000_00b7;

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn limit_calls() {}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
fn limit_calls() {
    let filter = filter();
    let program = Program { len: filter.len() as u16, filter: filter.as_ptr() };
    // SAFETY: the program and its instructions live until the call returns; the kernel copies and checks them.
    unsafe { prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &raw const program) };
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
fn filter() -> Vec<Instruction, PROGRAM_MAX> {
    let mut filter = Vec::new();
    // There is room for all, which a test shows.
    let mut put = |code, k, if_true, if_false| {
        let _ = filter.push(Instruction { code, if_true, if_false, k });
    };
    put(LOAD, ARCH_AT, 0, 0);
    put(EQUAL, ARCH, 1, 0);
    put(RETURN, KILL, 0, 0);
    put(LOAD, NUMBER_AT, 0, 0);
    for (left, number) in (1u8..=CALLS.len() as u8).rev().zip(CALLS) {
        // Over the others, and the one that jumps over the end of it.
        put(EQUAL, *number, left, 0);
    }
    put(JUMP, 1, 0, 0);
    put(RETURN, ALLOW, 0, 0);
    for (number, argument, values) in LIMITED {
        // Over the load, the values, and the two ends.
        put(EQUAL, *number, 0, (values.len() as u8).saturating_add(3));
        put(LOAD, ARGS_AT.saturating_add(argument.saturating_mul(8)), 0, 0);
        for (left, value) in (1u8..=values.len() as u8).rev().zip(*values) {
            put(EQUAL, *value, left, 0);
        }
        put(RETURN, REFUSE, 0, 0);
        put(RETURN, ALLOW, 0, 0);
    }
    put(RETURN, REFUSE, 0, 0);
    filter
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::Errno;
    use crate::sys::process::{Child, Ended, Stop};
    use crate::sys::time::Deadline;
    use rustix::net::{AddressFamily, SocketType, socket};

    /// Runs the filter as the kernel would.
    fn action(arch: u32, number: u32, args: [u64; 2]) -> u32 {
        let filter = filter();
        let (mut at, mut loaded) = (0, 0);
        loop {
            let one = filter[at];
            at += 1;
            match one.code {
                LOAD => {
                    loaded = match one.k {
                        NUMBER_AT => number,
                        ARCH_AT => arch,
                        place => args[(place - ARGS_AT) as usize / 8] as u32,
                    }
                }
                EQUAL => at += usize::from(if loaded == one.k { one.if_true } else { one.if_false }),
                JUMP => at += one.k as usize,
                RETURN => return one.k,
                _ => panic!("{}", one.code),
            }
        }
    }

    #[test]
    fn the_filter_allows_what_is_listed_and_nothing_else() {
        assert!(!filter().is_full());
        for number in 0..600 {
            let limited = LIMITED.iter().find(|(limited, ..)| *limited == number);
            match limited {
                Some((_, argument, values)) => {
                    for value in 0..0x9000 {
                        let mut args = [9999; 2];
                        args[*argument as usize] = value;
                        let allowed = values.contains(&(value as u32));
                        assert_eq!(
                            action(ARCH, number, args),
                            if allowed { ALLOW } else { REFUSE },
                            "{number} {value}"
                        );
                    }
                }
                None => {
                    let expected = if CALLS.contains(&number) { ALLOW } else { REFUSE };
                    assert_eq!(action(ARCH, number, [0; 2]), expected, "{number}");
                }
            }
            assert_eq!(action(0x4000_0003, number, [0; 2]), KILL);
            assert_eq!(action(ARCH, number | 0x4000_0000, [0; 2]), REFUSE);
        }
    }

    #[test]
    fn what_is_left_inside() {
        let dir = std::env::temp_dir().join(format!("sandbox-{}", std::process::id()));
        for place in ["etc", "run", "tmp", "proc/net", "sysroot"] {
            std::fs::create_dir_all(dir.join(place)).unwrap();
            std::fs::write(dir.join(place).join("file"), "text").unwrap();
        }
        let root = Root::new(Some(dir.to_str().unwrap().as_bytes())).unwrap();
        let landlock = unsafe { syscall(444, null::<Ruleset>(), 0 as c_ulong, 1 as c_ulong) } > 0;
        let parent = rustix::process::getpid();
        let child = Child::spawn(&mut |_| {
            enter(&root);
            let checks = [
                root.read("etc/file", &mut [0; 9]) == Ok(b"text".as_slice()),
                !landlock || root.read("sysroot/file", &mut [0; 9]) == Err(Errno::ACCESS),
                !landlock || root.output("etc/file").err() == Some(Errno::ACCESS),
                crate::sys::random::fill(&mut [0; 9]).is_ok(),
                socket(AddressFamily::INET, SocketType::STREAM, None).is_ok(),
                socket(AddressFamily::UNIX, SocketType::STREAM, None).err() == Some(Errno::NOSYS),
                rustix::process::kill_process(parent, rustix::process::Signal::HUP) == Err(Errno::NOSYS),
                crate::sys::sock::interface_index("lo").is_some(),
            ];
            (checks.iter().position(|ok| !ok).map_or(100, |which| which as u8), 0)
        });
        let ended = child.unwrap().wait(&Stop::none(), Deadline::after_ms(10_000), &mut [0; 9]).0;
        std::fs::remove_dir_all(&dir).unwrap();
        assert_eq!(ended, Ended::Exit(100), "the number is that of the check that failed");
    }
}
