//! Addresses of AF_VSOCK (vsock(7)): sockets between a virtual machine and its host.

use rustix::net::AddressFamily;
use rustix::net::addr::{SocketAddrArg, SocketAddrLen, SocketAddrOpaque};

/// The host.
pub const HOST: u32 = 2;
/// Any address of this machine, to bind to.
pub const ANY: u32 = u32::MAX;

/// `struct sockaddr_vm` (Linux' `vm_sockets.h`).
#[repr(C)]
pub(super) struct Address {
    family: u16,
    reserved: u16,
    port: u32,
    cid: u32,
    zero: [u8; 4],
}

impl Address {
    pub(super) fn new(cid: u32, port: u32) -> Self {
        Self { family: AddressFamily::VSOCK.as_raw(), reserved: 0, port, cid, zero: [0; 4] }
    }
}

// SAFETY: the pointer leads to a whole `struct sockaddr_vm`, which lives through the call.
unsafe impl SocketAddrArg for Address {
    unsafe fn with_sockaddr<R>(&self, f: impl FnOnce(*const SocketAddrOpaque, SocketAddrLen) -> R) -> R {
        f((&raw const *self).cast(), size_of::<Self>() as SocketAddrLen)
    }
}
