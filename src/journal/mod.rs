//! The systemd journal, read natively: files, entries in order, fields with their payloads uncompressed.
//!
//! [`source::Source`] is what the other modules use. Nothing here trusts what a file says: every offset is checked against the file,
//! every chain can only go forward, and all memory is a handful of buffers of fixed size, whatever the journal holds.

pub mod data;
pub mod file;
pub mod files;
pub mod format;
#[cfg_attr(not(feature = "formats"), path = "without_kmsg.rs")]
mod kmsg;
#[cfg(feature = "lz4")]
mod lz4;
#[cfg(feature = "follow")]
pub mod position;
pub mod printable;
pub mod record;
mod redact;
pub mod source;
pub mod sync;
pub mod units;
pub mod window;
#[cfg(feature = "xz")]
mod xz;
#[cfg(feature = "zstd")]
mod zstd;

#[cfg(test)]
mod broken;
#[cfg(test)]
mod large;
#[cfg(test)]
pub(crate) mod tests;
