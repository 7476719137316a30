//! SHA-2 (FIPS 180-4) and HMAC (RFC 2104) for rustls, which builds HKDF and the PRF of TLS 1.2 on them.

use alloc::boxed::Box;
use core::marker::PhantomData;
use hmac::{KeyInit, Mac, SimpleHmac};
use rustls::crypto::{hash, hmac as tls_hmac};
use sha2::digest::{Digest, block_api::BlockSizeUser};
use sha2::{Sha256, Sha384};

/// SHA-256, and HMAC with it.
pub(super) static SHA256: Sha<Sha256> = Sha(PhantomData);
/// SHA-384, and HMAC with it.
pub(super) static SHA384: Sha<Sha384> = Sha(PhantomData);

/// One member of the family, `D`.
pub(super) struct Sha<D>(PhantomData<D>);

trait Member: Digest + BlockSizeUser + Clone + Send + Sync + 'static {
    const NAME: hash::HashAlgorithm;
}

impl Member for Sha256 {
    const NAME: hash::HashAlgorithm = hash::HashAlgorithm::SHA256;
}

impl Member for Sha384 {
    const NAME: hash::HashAlgorithm = hash::HashAlgorithm::SHA384;
}

impl<D: Member> hash::Hash for Sha<D> {
    fn start(&self) -> Box<dyn hash::Context> {
        Box::new(Running(D::new()))
    }

    fn hash(&self, data: &[u8]) -> hash::Output {
        hash::Output::new(&D::digest(data))
    }

    fn output_len(&self) -> usize {
        <D as Digest>::output_size()
    }

    fn algorithm(&self) -> hash::HashAlgorithm {
        D::NAME
    }
}

struct Running<D>(D);

impl<D: Member> hash::Context for Running<D> {
    fn fork_finish(&self) -> hash::Output {
        hash::Output::new(&self.0.clone().finalize())
    }

    fn fork(&self) -> Box<dyn hash::Context> {
        Box::new(Running(self.0.clone()))
    }

    fn finish(self: Box<Self>) -> hash::Output {
        hash::Output::new(&self.0.finalize())
    }

    fn update(&mut self, data: &[u8]) {
        self.0.update(data);
    }
}

impl<D: Member> tls_hmac::Hmac for Sha<D> {
    fn with_key(&self, key: &[u8]) -> Box<dyn tls_hmac::Key> {
        // HMAC takes a key of any length: there is no error to come.
        match <SimpleHmac<D> as KeyInit>::new_from_slice(key) {
            Ok(keyed) => Box::new(Keyed(keyed)),
            Err(_) => unreachable!(),
        }
    }

    fn hash_output_len(&self) -> usize {
        <D as Digest>::output_size()
    }
}

struct Keyed<D: Member>(SimpleHmac<D>);

impl<D: Member> tls_hmac::Key for Keyed<D> {
    fn sign_concat(&self, first: &[u8], middle: &[&[u8]], last: &[u8]) -> tls_hmac::Tag {
        let mut mac = self.0.clone();
        mac.update(first);
        for part in middle {
            mac.update(part);
        }
        mac.update(last);
        tls_hmac::Tag::new(&mac.finalize().into_bytes())
    }

    fn tag_len(&self) -> usize {
        <D as Digest>::output_size()
    }
}
