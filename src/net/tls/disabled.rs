//! In place of TLS in a build without it: the same names, and nothing behind them. No URL with `https://` gets so far (`http::url`).

use crate::error::{Error, TlsError};
use crate::net::Transport;
use crate::sys::time::Deadline;
use trust::{CertFacts, Trust};

/// There is none.
pub enum Tls {}

impl Tls {
    /// Says that there is no TLS.
    pub fn connect(_: &mut dyn Transport, _: &str, _: &Trust, _: &mut CertFacts, _: Deadline) -> Result<Self, Error> {
        Err(TlsError::NotBuilt.into())
    }
}

impl Transport for Tls {
    fn send(&mut self, _: &[u8], _: Deadline) -> Result<(), Error> {
        match *self {}
    }

    fn recv(&mut self, _: &mut [u8], _: Deadline) -> Result<usize, Error> {
        match *self {}
    }

    fn finish(&mut self) {
        match *self {}
    }

    fn readable(&mut self) -> bool {
        match *self {}
    }
}

/// In place of what is trusted.
pub mod trust {
    use crate::error::TlsError;
    use crate::sys::Errno;
    use crate::sys::file::File;

    /// Nothing.
    #[derive(Clone, Default)]
    pub struct Trust {}

    /// Nothing is known of a certificate.
    #[derive(Clone, Copy, Default)]
    pub struct CertFacts {}

    /// What a file would hold.
    pub struct Scan {
        /// Nothing.
        pub usable: u16,
        /// Nothing.
        pub unusable: u16,
        /// Always.
        pub is_whole: bool,
    }

    /// Finds nothing.
    pub fn scan(_: &File) -> Result<Scan, Errno> {
        Err(Errno::NOSYS)
    }

    impl Trust {
        /// Nothing.
        pub fn new() -> Self {
            Self {}
        }

        /// Nothing is trusted.
        pub fn add_ca(&mut self, _: File) {}

        /// See [`Trust::add_ca`].
        pub fn drop_built_in(&mut self) {}

        /// Says that there is no TLS.
        pub fn pin(&mut self, _: &str) -> Result<(), TlsError> {
            Err(TlsError::NotBuilt)
        }

        /// Nothing is accepted.
        pub fn accept_any(&mut self) {}

        /// There is no certificate to believe a date for.
        pub fn learn_date(&mut self, _: u64) {}

        /// See [`Trust::learn_date`].
        pub fn believe_date(&mut self) {}

        /// No times are looked at.
        pub fn looks_at_times(&self) -> bool {
            false
        }

        /// None is told.
        pub fn knows_the_date(&self) -> bool {
            false
        }

        /// None is believed.
        pub fn believes_dates(&self) -> bool {
            false
        }
    }
}
