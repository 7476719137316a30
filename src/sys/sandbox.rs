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

/// What a process still has to do with the world once it is in the sandbox, beside what it has open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reach {
    /// Nothing: it reads and writes what is open already, and connects sockets that were made before.
    Nothing,
    /// It speaks to servers, whose names and nameservers it reads from files.
    Network,
    /// The same, and what it fetches goes into a file that may have to be begun again.
    Fetch,
}

/// System calls that every such process makes: found by strace(1) over all tests, and those that musl makes on older kernels and at the
/// end.
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
    sys::__NR_fstat,
    sys::__NR_lseek,
    sys::__NR_connect,
    sys::__NR_shutdown,
    sys::__NR_rt_sigreturn,
    sys::__NR_restart_syscall,
    sys::__NR_exit,
    sys::__NR_exit_group,
    #[cfg(target_arch = "x86_64")]
    sys::__NR_poll,
];
/// Those of one that speaks to servers.
const NETWORK_CALLS: &[u32] =
    &[sys::__NR_getdents64, sys::__NR_newfstatat, sys::__NR_readlinkat, sys::__NR_getsockname];
/// Those of one that fetches.
const FETCH_CALLS: &[u32] = &[sys::__NR_ftruncate];

/// A system call that is allowed if its arguments are of these values.
struct Rule {
    call: u32,
    arguments: &'static [(u32, Is)],
}

/// What the lower half of an argument must be. The kernel takes no more of these.
enum Is {
    /// One of these numbers.
    OneOf(&'static [u32]),
    /// These bits and no others.
    Within(u32),
}

/// Calls whose arguments matter, in every such process: the only option of a socket that is read is its error.
const RULES: &[Rule] =
    &[Rule { call: sys::__NR_getsockopt, arguments: &[(1, Is::OneOf(&[SOL_SOCKET])), (2, Is::OneOf(&[SO_ERROR]))] }];
/// In one that speaks to servers. A local socket would lead to the services of this machine, to which we are root, a raw one or another
/// protocol to more of the kernel; the only request to a device is for the number of an interface.
const NETWORK_RULES: &[Rule] = &[
    // Neither for writing nor for creating: where there is no Landlock, nothing else stands before the machine's files.
    Rule { call: sys::__NR_openat, arguments: &[(2, Is::Within(READING))] },
    Rule {
        call: sys::__NR_socket,
        arguments: &[
            (0, Is::OneOf(&[AF_INET, AF_INET6])),
            (1, Is::OneOf(&[SOCK_STREAM | SOCK_OURS, SOCK_DGRAM | SOCK_OURS, SOCK_DGRAM | sys::O_CLOEXEC])),
            (2, Is::OneOf(&[0, IPPROTO_TCP, IPPROTO_UDP])),
        ],
    },
    Rule {
        call: sys::__NR_socket,
        arguments: &[
            (0, Is::OneOf(&[AF_NETLINK])),
            (1, Is::OneOf(&[SOCK_RAW | SOCK_OURS])),
            (2, Is::OneOf(&[NETLINK_ROUTE])),
        ],
    },
    Rule { call: sys::__NR_setsockopt, arguments: &[(1, Is::OneOf(&[IPPROTO_TCP])), (2, Is::OneOf(&[TCP_NODELAY]))] },
    Rule {
        call: sys::__NR_setsockopt,
        arguments: &[(1, Is::OneOf(&[SOL_NETLINK])), (2, Is::OneOf(&[NETLINK_ADD_MEMBERSHIP]))],
    },
    Rule { call: sys::__NR_ioctl, arguments: &[(1, Is::OneOf(&[SIOCGIFINDEX]))] },
];
/// Flags with which a file may be opened.
const READING: u32 = sys::O_PATH
    | sys::O_DIRECTORY
    | sys::O_NOFOLLOW
    | sys::O_NONBLOCK
    | sys::O_NOCTTY
    | sys::O_CLOEXEC
    | sys::O_LARGEFILE;
const AF_INET: u32 = 2;
const AF_INET6: u32 = 10;
const AF_NETLINK: u32 = 16;
const SOCK_STREAM: u32 = 1;
const SOCK_DGRAM: u32 = 2;
const SOCK_RAW: u32 = 3;
/// Flags of all our sockets: `SOCK_CLOEXEC` and `SOCK_NONBLOCK`.
const SOCK_OURS: u32 = sys::O_CLOEXEC | sys::O_NONBLOCK;
const IPPROTO_TCP: u32 = 6;
const IPPROTO_UDP: u32 = 17;
const NETLINK_ROUTE: u32 = 0;
const SOL_SOCKET: u32 = 1;
const SO_ERROR: u32 = 4;
const SOL_NETLINK: u32 = 270;
const TCP_NODELAY: u32 = 1;
const NETLINK_ADD_MEMBERSHIP: u32 = 1;
const SIOCGIFINDEX: u32 = 0x8933;

impl Reach {
    fn calls(self) -> [&'static [u32]; 3] {
        let or_none = |is_there, calls| if is_there { calls } else { &[][..] };
        [CALLS, or_none(self != Self::Nothing, NETWORK_CALLS), or_none(self == Self::Fetch, FETCH_CALLS)]
    }

    fn rules(self) -> [&'static [Rule]; 2] {
        [RULES, if self == Self::Nothing { &[] } else { NETWORK_RULES }]
    }
}

/// Folders in which the network's state, names and nameservers are found, below the root.
const FOLDERS: &[&str] = &["etc", "run", "tmp", "proc/net"];
/// Files of the system itself that are read.
const DEVICES: [&CStr; 2] = [c"/dev/urandom", c"/dev/random"];

/// Gives up all that is not needed to get as far as `reach`; afterwards nothing brings it back.
pub fn enter(root: &Root, reach: Reach) {
    no_dumps();
    control(PR_SET_NO_NEW_PRIVS, 1, 0);
    limit_files(root, reach);
    drop_capabilities();
    limit_calls(reach);
}

/// Keeps this process and its children out of core dumps, and from being looked into.
pub fn no_dumps() {
    control(PR_SET_DUMPABLE, 0, 0);
}

/// prctl(2), with all of its arguments: the C library hands on five, whatever the caller set, and the kernel may look at them.
fn control(option: c_int, first: c_ulong, second: c_ulong) -> c_int {
    // SAFETY: the options that are used here take plain numbers, but for the second of `PR_SET_SECCOMP`, which `limit_calls` answers for.
    unsafe { prctl(option, first, second, 0 as c_ulong, 0 as c_ulong) }
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
    // The first one that does not exist is the last.
    let _ = (0..CAPABILITIES).all(|capability| control(PR_CAPBSET_DROP, capability, 0) == 0);
    // SAFETY: the kernel reads a `__user_cap_header_struct` and two `__user_cap_data_struct`, which these are.
    unsafe { syscall(sys::__NR_capset as c_long, head.as_ptr(), none.as_ptr()) };
}

// Linux' `landlock.h`.
const LANDLOCK_CREATE_RULESET_VERSION: c_ulong = 1;
const LANDLOCK_RULE_PATH_BENEATH: c_ulong = 1;
const READ_FILE: u64 = 1 << 2;
const READ_DIR: u64 = 1 << 3;
/// Rights that are taken, by version: the first has 13, then each of these more.
const RIGHTS: u64 = (1 << 13) - 1;
const LATER_RIGHTS: [(c_long, u64); 3] = [(2, 1 << 13), (3, 1 << 14), (5, 1 << 15)];
/// From version 4 on: no TCP socket is bound; nor is one connected where no server is spoken to.
const BIND_TCP: u64 = 1;
const CONNECT_TCP: u64 = 2;
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

fn limit_files(root: &Root, reach: Reach) {
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
    let is_far = reach != Reach::Nothing;
    let net = if is_far { BIND_TCP } else { BIND_TCP | CONNECT_TCP };
    let (net, scoped) = (if version >= 4 { net } else { 0 }, if version >= 6 { SCOPES } else { 0 });
    let rules = Ruleset { files: RIGHTS | later, net, scoped };
    // An older kernel takes the whole, as what it does not know is zero.
    // SAFETY: the structure is whole and as long as is said; the result is a descriptor of ours or an error.
    let ruleset = unsafe {
        syscall(sys::__NR_landlock_create_ruleset as c_long, &rules, size_of::<Ruleset>() as c_ulong, 0 as c_ulong)
    };
    if ruleset < 0 {
        return;
    }
    for place in FOLDERS.iter().filter(|_| is_far) {
        // What is missing cannot be named, and stays closed: it is a rare image that lacks one of these, and no other folder is worth as
        // much as what lies beside it. A link to the root itself would open all.
        if let Ok(folder) = root.node(place)
            && !root.is_same(&folder)
        {
            allow(ruleset, folder.as_fd(), READ_FILE | READ_DIR);
        }
    }
    for path in DEVICES.iter().filter(|_| is_far) {
        if let Ok(file) = openat(CWD, *path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) {
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

/// Instructions: no more calls than a jump of 8 bits reaches, and what their arguments need.
const PROGRAM_MAX: usize = 128;
/// Loads 32 bits of `struct seccomp_data`.
const LOAD: u16 = 0x20;
/// Jumps if what was loaded is the same.
const EQUAL: u16 = 0x15;
/// Jumps if what was loaded has any of these bits.
const ANY_BIT: u16 = 0x45;
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
fn limit_calls(_: Reach) {}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
fn limit_calls(reach: Reach) {
    let filter = filter(reach);
    let program = Program { len: filter.len() as u16, filter: filter.as_ptr() };
    // The program and its instructions live until the call returns; the kernel copies and checks them.
    control(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, (&raw const program).expose_provenance() as c_ulong);
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
fn filter(reach: Reach) -> Vec<Instruction, PROGRAM_MAX> {
    let mut filter = Vec::new();
    // There is room for all, which a test shows.
    let mut put = |code, k, if_true, if_false| {
        let _ = filter.push(Instruction { code, if_true, if_false, k });
    };
    put(LOAD, ARCH_AT, 0, 0);
    put(EQUAL, ARCH, 1, 0);
    put(RETURN, KILL, 0, 0);
    put(LOAD, NUMBER_AT, 0, 0);
    let count = reach.calls().iter().map(|calls| calls.len()).sum::<usize>();
    for (left, number) in (1u8..=count as u8).rev().zip(reach.calls().into_iter().flatten()) {
        // Over the others, and the one that jumps over the end of it.
        put(EQUAL, *number, left, 0);
    }
    put(JUMP, 1, 0, 0);
    put(RETURN, ALLOW, 0, 0);
    for rule in reach.rules().into_iter().flatten() {
        put_rule(rule, &mut put);
    }
    put(RETURN, REFUSE, 0, 0);
    filter
}

/// Allows the call if all its arguments are as the rule says; else goes on behind it.
fn put_rule(rule: &Rule, put: &mut dyn FnMut(u16, u32, u8, u8)) {
    let tests = |is: &Is| match is {
        Is::OneOf(values) => values.len() as u8,
        Is::Within(_) => 1,
    };
    // Instructions that are left of this rule: for each argument its load and its tests, and the end.
    let mut left = rule.arguments.iter().fold(1u8, |sum, (_, is)| sum.saturating_add(tests(is)).saturating_add(1));
    put(LOAD, NUMBER_AT, 0, 0);
    put(EQUAL, rule.call, 0, left);
    for (argument, is) in rule.arguments {
        put(LOAD, ARGS_AT.saturating_add(argument.saturating_mul(8)), 0, 0);
        left = left.saturating_sub(1);
        for others in (0..tests(is)).rev() {
            left = left.saturating_sub(1);
            match is {
                Is::Within(bits) => put(ANY_BIT, !bits, left, 0),
                Is::OneOf(values) => {
                    let value =
                        values.len().checked_sub(usize::from(others).saturating_add(1)).and_then(|at| values.get(at));
                    // From the last one on behind the rule, from the others to the next.
                    put(EQUAL, value.copied().unwrap_or(0), others, if others == 0 { left } else { 0 });
                }
            }
        }
    }
    put(RETURN, ALLOW, 0, 0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::Errno;
    use crate::sys::process::{Child, Ended, Stop};
    use crate::sys::time::Deadline;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto, socket_with};

    const ALL: [Reach; 3] = [Reach::Nothing, Reach::Network, Reach::Fetch];

    /// Runs the filter as the kernel would.
    fn action(reach: Reach, arch: u32, number: u32, args: [u64; 3]) -> u32 {
        let filter = filter(reach);
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
                ANY_BIT => at += usize::from(if loaded & one.k != 0 { one.if_true } else { one.if_false }),
                JUMP => at += one.k as usize,
                RETURN => return one.k,
                _ => panic!("{}", one.code),
            }
        }
    }

    #[test]
    fn the_filter_allows_what_is_listed_and_nothing_else() {
        for reach in ALL {
            assert!(!filter(reach).is_full());
            for number in 0..600 {
                if reach.rules().into_iter().flatten().any(|rule| rule.call == number) {
                    // Their arguments have tests of their own.
                    assert_eq!(action(reach, ARCH, number, [9999; 3]), REFUSE, "{reach:?} {number}");
                } else {
                    let is_listed = reach.calls().into_iter().flatten().any(|call| *call == number);
                    let expected = if is_listed { ALLOW } else { REFUSE };
                    assert_eq!(action(reach, ARCH, number, [0; 3]), expected, "{reach:?} {number}");
                }
                assert_eq!(action(reach, 0x4000_0003, number, [0; 3]), KILL);
                assert_eq!(action(reach, ARCH, number | 0x4000_0000, [0; 3]), REFUSE);
            }
        }
    }

    #[test]
    fn files_are_opened_for_reading_and_by_those_who_speak_to_servers() {
        let open = |reach, flags: u32| action(reach, ARCH, sys::__NR_openat, [u64::MAX, 0, flags.into()]) == ALLOW;
        for bit in 0..32 {
            let is_fine = READING & 1 << bit != 0;
            assert_eq!([Reach::Network, Reach::Fetch].map(|reach| open(reach, 1 << bit)), [is_fine; 2], "bit {bit}");
            assert!(!open(Reach::Nothing, 1 << bit));
        }
        assert!(open(Reach::Network, READING) && open(Reach::Network, 0) && !open(Reach::Nothing, 0));
        for flags in
            [sys::O_WRONLY, sys::O_RDWR, 3, sys::O_CREAT, sys::O_TRUNC, sys::O_APPEND, sys::O_EXCL, 0o20_000_000]
        {
            assert!(!open(Reach::Network, flags) && !open(Reach::Network, flags | READING), "{flags:o}");
        }
        for reach in ALL {
            assert_eq!(action(reach, ARCH, sys::__NR_openat2, [0; 3]), REFUSE);
            let truncates = action(reach, ARCH, sys::__NR_ftruncate, [0; 3]) == ALLOW;
            assert_eq!(truncates, reach == Reach::Fetch);
        }
    }

    #[test]
    fn sockets_are_of_the_network_and_its_two_protocols() {
        let is_allowed = |reach, call, args| action(reach, ARCH, call, args) == ALLOW;
        let flags = u64::from(SOCK_OURS);
        let mut allowed = 0;
        for family in 0..64 {
            for kind in (0..16).chain((0..16).map(|kind| kind | flags)).chain((0..16).map(|kind| kind | 0o2_000_000)) {
                for protocol in [0, 1, 2, 6, 17, 18, 33, 132, 136, 255, 256, 262] {
                    let args = [family, kind, protocol];
                    assert!(!is_allowed(Reach::Nothing, sys::__NR_socket, args));
                    let is = is_allowed(Reach::Network, sys::__NR_socket, args);
                    let is_inet = matches!(family, 2 | 10) && matches!(protocol, 0 | 6 | 17) && kind & 0o2_000_000 != 0;
                    let is_route = args == [16, 3 | flags, 0];
                    assert!(!is || is_route || is_inet && matches!(kind & 0xff, 1 | 2), "{args:?}");
                    allowed += u32::from(is);
                }
            }
        }
        assert_eq!(allowed, 2 * 3 * 3 + 1);
        for (call, args) in
            [(sys::__NR_setsockopt, [0, 6, 1]), (sys::__NR_setsockopt, [0, 270, 1]), (sys::__NR_ioctl, [0, 0x8933, 0])]
        {
            assert!(is_allowed(Reach::Network, call, args) && !is_allowed(Reach::Nothing, call, args));
        }
        // SO_ATTACH_FILTER, SO_BINDTODEVICE, TCP_ULP, TIOCSTI, SIOCSIFFLAGS.
        for (call, args) in [
            (sys::__NR_setsockopt, [0, 1, 26]),
            (sys::__NR_setsockopt, [0, 1, 25]),
            (sys::__NR_setsockopt, [0, 6, 31]),
            (sys::__NR_setsockopt, [0, 1, 1]),
            (sys::__NR_ioctl, [0, 0x5412, 0]),
            (sys::__NR_ioctl, [0, 0x8914, 0]),
            (sys::__NR_getsockopt, [0, 6, 4]),
            (sys::__NR_bind, [0; 3]),
        ] {
            assert!(!is_allowed(Reach::Network, call, args), "{call} {args:?}");
        }
    }

    /// Runs `checks` inside, below a root with these folders; gives how it ended: the number of the check that failed, or 100.
    fn inside(name: &str, folders: &[&str], reach: Reach, checks: &dyn Fn(&Root) -> std::vec::Vec<bool>) -> Ended {
        let dir = std::env::temp_dir().join(format!("sandbox-{name}-{}", std::process::id()));
        for place in folders {
            std::fs::create_dir_all(dir.join(place)).unwrap();
            std::fs::write(dir.join(place).join("file"), "text").unwrap();
        }
        std::fs::create_dir_all(dir.join("sysroot")).unwrap();
        std::fs::write(dir.join("sysroot/file"), "text").unwrap();
        if !folders.contains(&"etc") {
            std::os::unix::fs::symlink("/", dir.join("etc")).unwrap();
        }
        let root = Root::new(Some(dir.to_str().unwrap().as_bytes())).unwrap();
        let child = Child::spawn(&mut |_| {
            enter(&root, reach);
            (checks(&root).iter().position(|ok| !ok).map_or(100, |which| which as u8), 0)
        });
        let ended = child.unwrap().wait(&Stop::none(), Deadline::after_ms(10_000), &mut [0; 9]).0;
        std::fs::remove_dir_all(&dir).unwrap();
        ended
    }

    #[test]
    fn what_is_left_inside() {
        let landlock = unsafe { syscall(444, null::<Ruleset>(), 0 as c_ulong, 1 as c_ulong) } > 0;
        let parent = rustix::process::getpid();
        let is_text = |root: &Root, path: &str| root.read(path, &mut [0; 9]) == Ok(b"text".as_slice());
        let tcp = |family| {
            socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, Some(ipproto::TCP))
        };
        let all = ["etc", "run", "tmp", "proc/net"];
        let ended = inside("all", &all, Reach::Network, &|root| {
            std::vec![
                is_text(root, "etc/file"),
                !landlock || root.read("sysroot/file", &mut [0; 9]) == Err(Errno::ACCESS),
                root.output("etc/file").err() == Some(Errno::NOSYS),
                root.append("etc/new").err() == Some(Errno::NOSYS),
                crate::sys::random::fill(&mut [0; 9]).is_ok(),
                tcp(AddressFamily::INET).is_ok(),
                tcp(AddressFamily::UNIX).err() == Some(Errno::NOSYS),
                rustix::process::kill_process(parent, rustix::process::Signal::HUP) == Err(Errno::NOSYS),
                crate::sys::sock::interface_index("lo").is_ok(),
                crate::sys::sock::Socket::route(1).is_ok(),
            ]
        });
        assert_eq!(ended, Ended::Exit(100), "the number is that of the check that failed");
        let ended = inside("nothing", &all, Reach::Nothing, &|root| {
            std::vec![
                root.read("etc/file", &mut [0; 9]).is_err(),
                crate::sys::random::fill(&mut [0; 9]).is_ok(),
                tcp(AddressFamily::INET).err() == Some(Errno::NOSYS),
                crate::sys::sock::Socket::route(0).err() == Some(Errno::NOSYS),
            ]
        });
        assert_eq!(ended, Ended::Exit(100), "the number is that of the check that failed");
    }

    #[test]
    fn a_place_that_is_missing_or_leads_to_the_root_opens_nothing_else() {
        if unsafe { syscall(444, null::<Ruleset>(), 0 as c_ulong, 1 as c_ulong) } < 1 {
            return;
        }
        for folders in [["run", "tmp", "proc/net"].as_slice(), &["etc", "run", "proc/net"], &["etc"], &["tmp"], &[]] {
            let ended = inside("missing", folders, Reach::Network, &|root| {
                let closed = |path: &str| root.read(path, &mut [0; 9]).is_err();
                let open = folders.iter().all(|place| root.folder(place).is_ok());
                std::vec![closed("sysroot/file"), closed("etc/sysroot/file"), open]
            });
            assert_eq!(ended, Ended::Exit(100), "{folders:?}: the number is that of the check that failed");
        }
    }
}
