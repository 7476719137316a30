//! The systemd journal, read natively: files, entries in order, fields with uncompressed payloads.
//!
//! [`source::Source`] is the interface for other modules. No content of a file is trusted: every
//! offset is checked against the file, and every chain can only go forward. All memory is a handful
//! of buffers of fixed size, whatever the journal holds.

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
