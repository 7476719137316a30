//! AES-GCM (NIST SP 800-38D) and ChaCha20-Poly1305 (RFC 8439) behind one pointer.
//!
//! The crates below are generic, and what is generic is compiled where it is used, with the optimisation of that crate: at
//! `opt-level = "z"`, which the program has, not even an index into a block is inlined. So they are used here, and this crate has
//! an optimisation of its own (in the workspace's `Cargo.toml`).
#![no_std]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

extern crate alloc;

use aes_gcm::AesGcm;
use aes_gcm::aead::consts::{U12, U16};
use aes_gcm::aead::{AeadInOut, KeyInit};
use aes_gcm::aes::{Aes128Enc, Aes256Enc};
use alloc::boxed::Box;
use chacha20poly1305::ChaCha20Poly1305;

/// Bytes of a nonce.
pub const NONCE_LEN: usize = 12;
/// Bytes of the tag that each of the algorithms appends.
pub const TAG_LEN: usize = 16;

/// An algorithm.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    /// AES-128 in Galois/counter mode.
    Aes128Gcm,
    /// AES-256 in Galois/counter mode.
    Aes256Gcm,
    /// ChaCha20 with Poly1305.
    ChaCha20Poly1305,
}

// GCM uses the block cipher in one direction: the other's code and keys are left out.
type Aes128Gcm = AesGcm<Aes128Enc, U12>;
type Aes256Gcm = AesGcm<Aes256Enc, U12>;

/// A keyed algorithm.
pub trait Cipher: Send + Sync {
    /// Encrypts `text` in place; gives its tag. None where it is longer than the algorithm allows (64 GB).
    fn seal(&self, nonce: &[u8; NONCE_LEN], aad: &[u8], text: &mut [u8]) -> Option<[u8; TAG_LEN]>;

    /// Checks the tag at the end of `text` and decrypts what is before it, whose length is given. None where the tag does not fit;
    /// `text` is as it was then.
    fn open(&self, nonce: &[u8; NONCE_LEN], aad: &[u8], text: &mut [u8]) -> Option<usize>;
}

impl Algorithm {
    /// Bytes of a key.
    pub const fn key_len(self) -> usize {
        match self {
            Self::Aes128Gcm => 16,
            Self::Aes256Gcm | Self::ChaCha20Poly1305 => 32,
        }
    }

    /// The algorithm with a key; none where that has another length.
    pub fn keyed(self, key: &[u8]) -> Option<Box<dyn Cipher>> {
        match self {
            Self::Aes128Gcm => Some(Box::new(Aes128Gcm::new_from_slice(key).ok()?)),
            Self::Aes256Gcm => Some(Box::new(Aes256Gcm::new_from_slice(key).ok()?)),
            Self::ChaCha20Poly1305 => Some(Box::new(ChaCha20Poly1305::new_from_slice(key).ok()?)),
        }
    }
}

impl<A: AeadInOut<NonceSize = U12, TagSize = U16> + Send + Sync> Cipher for A {
    fn seal(&self, nonce: &[u8; NONCE_LEN], aad: &[u8], text: &mut [u8]) -> Option<[u8; TAG_LEN]> {
        self.encrypt_inout_detached(nonce.into(), aad, text.into()).ok().map(Into::into)
    }

    fn open(&self, nonce: &[u8; NONCE_LEN], aad: &[u8], text: &mut [u8]) -> Option<usize> {
        let (text, tag) = text.split_last_chunk_mut::<TAG_LEN>()?;
        let len = text.len();
        self.decrypt_inout_detached(nonce.into(), aad, text.into(), (&*tag).into()).ok()?;
        Some(len)
    }
}
