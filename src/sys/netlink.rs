//! Multicast groups of netlink(7) sockets.

use core::ffi::{c_int, c_long};
use linux_raw_sys::general::__NR_setsockopt;
use rustix::fd::{AsRawFd, BorrowedFd};

unsafe extern "C" {
    fn syscall(number: c_long, ...) -> c_long;
}

/// `SOL_NETLINK` and `NETLINK_ADD_MEMBERSHIP`.
const LEVEL: c_int = 270;
const ADD_MEMBERSHIP: c_int = 1;

/// Makes `socket` hear the groups in the mask `groups`, as far as the kernel lets it. bind(2) does the same, but the sandbox has no use for
/// that otherwise.
pub(super) fn hear(socket: BorrowedFd<'_>, groups: u32) {
    for group in (1..=u32::BITS).filter(|group| groups & 1 << (group - 1) != 0) {
        // SAFETY: the kernel reads the four bytes of `group`, and changes nothing but the socket.
        unsafe {
            syscall(
                __NR_setsockopt as c_long,
                socket.as_raw_fd(),
                LEVEL,
                ADD_MEMBERSHIP,
                &raw const group,
                size_of_val(&group),
            )
        };
    }
}
