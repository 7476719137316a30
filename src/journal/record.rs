//! An entry that is in no journal file: one of the kernel's, or one of rdreport's own.

use crate::journal::payload::{Field, Unread};
use crate::text::{DECIMAL_MAX, decimal};
use alloc::vec::Vec;

/// Maximum number of bytes of all fields. The kernel has records of up to 8 KiB
/// (`PRINTK_MESSAGE_MAX`, and before Linux 6.5 `CONSOLE_EXT_LOG_MAX`).
const BYTES: usize = 9 * 1024;
/// Maximum number of fields: those of a kernel message, and those of its device.
const FIELDS: usize = 24;

/// Fields in memory, in order. What does not fit is left out. Memory is allocated with the first
/// field.
pub struct Record {
    /// At most [`BYTES`].
    bytes: Vec<u8>,
    ends: heapless::Vec<u16, FIELDS, u8>,
}

impl Record {
    /// Returns a record without fields.
    pub fn new() -> Self {
        Self { bytes: Vec::new(), ends: heapless::Vec::new() }
    }

    /// Removes all fields.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Adds a field.
    pub fn push(&mut self, name: &str, value: &[u8]) {
        self.begin(name);
        self.more(value);
    }

    /// Adds a field with a number.
    pub fn push_number(&mut self, name: &str, value: u64) {
        self.push(name, decimal(value, &mut [0; DECIMAL_MAX]).as_bytes());
    }

    /// Begins a field; [`Record::more`] adds to its value.
    pub fn begin(&mut self, name: &str) {
        let len = self.bytes.len() as u16;
        if self.ends.push(len).is_ok() {
            self.more(name.as_bytes());
            self.more(b"=");
        }
    }

    /// Adds to the value of the last field as much as fits.
    pub fn more(&mut self, value: &[u8]) {
        let room = BYTES.saturating_sub(self.bytes.len());
        self.bytes.extend_from_slice(value.get(..room).unwrap_or(value));
        if let Some(end) = self.ends.last_mut() {
            *end = self.bytes.len() as u16;
        }
    }

    /// Number of fields.
    pub fn len(&self) -> u32 {
        self.ends.len() as u32
    }

    /// Whether there are no fields.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns field `index`.
    pub(super) fn field(&self, index: u32) -> Result<Field, Unread> {
        let index = index as usize;
        let end = *self.ends.get(index).ok_or(Unread::Broken)?;
        let start = index.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
        let bytes = self.bytes.get(start.into()..end.into()).ok_or(Unread::Broken)?;
        Field::in_memory(bytes, start.into()).ok_or(Unread::Broken)
    }

    /// Returns the bytes of a field.
    pub(super) fn bytes(&self, field: &Field) -> &[u8] {
        field.range().and_then(|range| self.bytes.get(range)).unwrap_or_default()
    }
}

impl Default for Record {
    fn default() -> Self {
        Self::new()
    }
}
