//! The systemd journal, read natively: files, entries in order, fields with their payloads uncompressed.
//!
//! [`source::Source`] is what the other modules use. Nothing here trusts what a file says: every offset is checked against the file,
//! every chain can only go forward, and all memory is a handful of buffers of fixed size, whatever the journal holds.

mod codec;
pub mod file;
pub mod files;
pub mod format;
#[cfg_attr(not(feature = "formats"), path = "kmsg/disabled.rs")]
mod kmsg;
pub mod payload;
#[cfg(feature = "follow")]
pub mod position;
pub mod printable;
pub mod record;
mod redact;
pub mod source;
pub mod sync;
pub mod units;
pub mod window;

#[cfg(test)]
pub(crate) mod tests;
