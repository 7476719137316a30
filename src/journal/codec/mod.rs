//! Codecs of compressed data objects, each in bounded memory.

#[cfg(feature = "lz4")]
pub(in crate::journal) mod lz4;
#[cfg(feature = "xz")]
pub(in crate::journal) mod xz;
#[cfg(feature = "zstd")]
pub(in crate::journal) mod zstd;
