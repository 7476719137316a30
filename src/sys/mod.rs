//! The system: files, sockets, time, random numbers, processes, memory. All unsafe code is here, each block with its reason; what
//! leaves this module are owned descriptors and plain values.
//!
//! System calls go through `rustix`' raw backend, so no C structure of one libc meets the functions of another.

#[allow(unsafe_code)]
pub mod alloc;
pub mod build_date;
pub mod file;
pub mod lines;
#[allow(unsafe_code)]
pub mod machine;
#[allow(unsafe_code)]
mod netlink;
#[allow(unsafe_code)]
pub mod process;
#[allow(unsafe_code)]
pub mod random;
#[allow(unsafe_code)]
pub mod sandbox;
pub mod sock;
#[allow(unsafe_code)]
pub mod time;

#[allow(unsafe_code)]
pub mod vmware;
#[allow(unsafe_code)]
pub mod vsock;
#[cfg(feature = "follow")]
pub mod watch;

pub use rustix::io::Errno;
