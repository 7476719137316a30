//! Stand-in for the kernel's log in a build that does not read it: the same names, without
//! function.

use crate::journal::file::Entry;
use crate::journal::format::Id;
use crate::journal::record::Record;
use crate::sys::Errno;
use crate::sys::file::Root;
use crate::sys::time::Deadline;

/// The kernel's log, which never exists in this build.
pub(super) enum Kmsg {}

/// An open kernel log, which never exists in this build.
pub(super) struct Log;

impl Log {
    pub(super) fn open(_: &Root) -> Result<Self, Errno> {
        Err(Errno::NOENT)
    }
}

impl Kmsg {
    pub(super) fn read(_: Log, _: Deadline) -> Option<Self> {
        None
    }

    pub(super) fn is_late(&self) -> bool {
        match *self {}
    }

    #[cfg(feature = "follow")]
    pub(super) fn set_first(&mut self, _: u64) {
        match *self {}
    }

    pub(super) fn rewind(&mut self) {
        match *self {}
    }

    pub(super) fn next(&mut self, _: &mut Record) -> Option<Entry> {
        match *self {}
    }

    #[cfg(feature = "follow")]
    pub(super) fn behind(&self) -> u64 {
        match *self {}
    }

    pub(super) fn seqnum_id(&self) -> Id {
        match *self {}
    }
}
