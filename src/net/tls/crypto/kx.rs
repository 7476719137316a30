//! Key exchange: X25519 (RFC 7748), and ECDH on P-256 and P-384 (SEC 1; RFC 8446 section 4.2.8.2).
//!
//! P-384 is here since a server of TLS 1.2 uses a certificate on that curve only with clients that name it as a group, too.

use crate::net::tls::crypto::{SystemRandom, point};
use alloc::boxed::Box;
use alloc::vec::Vec;
use p256::elliptic_curve::ecdh::diffie_hellman;
use p256::elliptic_curve::sec1::ToSec1Point;
use rustls::crypto::{ActiveKeyExchange, SharedSecret, SupportedKxGroup};
use rustls::{Error, NamedGroup, PeerMisbehaved};
use x25519_dalek::X25519_BASEPOINT_BYTES;
use zeroize::Zeroizing;

/// Random secrets that are tried: any fits X25519; one in 2^32 does not fit P-256, fewer P-384.
const TRIES: usize = 8;
/// Bytes of the longest secret, P-384's.
const SECRET_MAX: usize = 48;

/// X25519.
pub(super) static X25519: Group = Group { name: NamedGroup::X25519, len: 32, public: x25519_public, shared: x25519 };
/// P-256.
pub(super) static P256: Group = Group { name: NamedGroup::secp256r1, len: 32, public: p256_public, shared: p256 };
/// P-384.
pub(super) static P384: Group = Group { name: NamedGroup::secp384r1, len: 48, public: p384_public, shared: p384 };

/// A group, and what is done in it.
#[derive(Clone, Copy)]
pub(super) struct Group {
    name: NamedGroup,
    /// Bytes of a secret.
    len: usize,
    /// The public value of a secret; none when it is no secret of this group.
    public: fn(&[u8]) -> Option<Vec<u8>>,
    /// What a secret and the peer's public value share; none when that value is not one to use.
    shared: fn(&[u8], &[u8]) -> Option<SharedSecret>,
}

impl Group {
    /// An exchange with this secret.
    pub(super) fn exchange(self, secret: Zeroizing<Vec<u8>>) -> Option<Exchange> {
        let public = (self.public)(&secret)?;
        Some(Exchange { group: self, secret, public })
    }
}

debug_nothing!(Group);

impl SupportedKxGroup for Group {
    fn start(&self) -> Result<Box<dyn ActiveKeyExchange>, Error> {
        for _ in 0..TRIES {
            let mut secret = Zeroizing::new(Vec::from([0; SECRET_MAX]));
            secret.truncate(self.len);
            SystemRandom::bytes(&mut secret)?;
            if let Some(exchange) = self.exchange(secret) {
                return Ok(Box::new(exchange));
            }
        }
        Err(Error::FailedToGetRandomBytes)
    }

    fn name(&self) -> NamedGroup {
        self.name
    }
}

/// A secret and what goes with it.
pub(super) struct Exchange {
    group: Group,
    secret: Zeroizing<Vec<u8>>,
    public: Vec<u8>,
}

impl ActiveKeyExchange for Exchange {
    fn complete(self: Box<Self>, peer: &[u8]) -> Result<SharedSecret, Error> {
        (self.group.shared)(&self.secret, peer).ok_or_else(|| PeerMisbehaved::InvalidKeyShare.into())
    }

    fn pub_key(&self) -> &[u8] {
        &self.public
    }

    fn group(&self) -> NamedGroup {
        self.group.name
    }
}

fn x25519_public(secret: &[u8]) -> Option<Vec<u8>> {
    let secret = Zeroizing::new(*secret.as_array()?);
    Some(x25519_dalek::x25519(*secret, X25519_BASEPOINT_BYTES).to_vec())
}

fn x25519(secret: &[u8], peer: &[u8]) -> Option<SharedSecret> {
    let secret = Zeroizing::new(*secret.as_array()?);
    let shared = Zeroizing::new(x25519_dalek::x25519(*secret, *peer.as_array()?));
    // RFC 8446 section 7.4.2: zero is refused. Then it is no secret, so the comparison may take any time.
    shared.iter().any(|byte| *byte != 0).then(|| SharedSecret::from(&shared[..]))
}

fn p256_public(secret: &[u8]) -> Option<Vec<u8>> {
    let secret = p256::SecretKey::from_slice(secret).ok()?;
    Some(secret.public_key().to_sec1_point(false).as_bytes().to_vec())
}

fn p256(secret: &[u8], peer: &[u8]) -> Option<SharedSecret> {
    let secret = p256::SecretKey::from_slice(secret).ok()?;
    let peer = p256::PublicKey::from_affine(point(peer)?).ok()?;
    let shared = diffie_hellman(secret.to_nonzero_scalar(), peer.as_affine());
    Some(SharedSecret::from(&shared.raw_secret_bytes()[..]))
}

fn p384_public(secret: &[u8]) -> Option<Vec<u8>> {
    let secret = p384::SecretKey::from_slice(secret).ok()?;
    Some(secret.public_key().to_sec1_point(false).as_bytes().to_vec())
}

fn p384(secret: &[u8], peer: &[u8]) -> Option<SharedSecret> {
    let secret = p384::SecretKey::from_slice(secret).ok()?;
    let peer = p384::PublicKey::from_affine(point(peer)?).ok()?;
    let shared = diffie_hellman(secret.to_nonzero_scalar(), peer.as_affine());
    Some(SharedSecret::from(&shared.raw_secret_bytes()[..]))
}
