//! The cryptography under TLS: RustCrypto's crates, in the shapes that rustls asks for. Nothing is implemented here.

mod aead;
mod hash;
mod kx;
#[cfg(feature = "client-auth")]
mod sign;
#[cfg(test)]
mod tests;
mod verify;

use crate::sys;
use aead::Aead;
use alloc::sync::Arc;
use alloc::vec::Vec;
use p256::elliptic_curve::point::AffineCoordinates;
use rdreport_aead::Algorithm;
use rustls::crypto::tls13::HkdfUsingHmac;
use rustls::crypto::{CipherSuiteCommon, CryptoProvider, GetRandomFailed, KeyProvider, SecureRandom};
use rustls::pki_types::PrivateKeyDer;
use rustls::sign::SigningKey;
use rustls::{CipherSuite, Error, SupportedCipherSuite, Tls13CipherSuite};
#[cfg(feature = "tls12")]
use rustls::{SignatureScheme, Tls12CipherSuite, crypto::KeyExchangeAlgorithm, crypto::tls12::PrfUsingHmac};

/// What a client's certificate needs.
#[cfg(feature = "client-auth")]
pub(super) use sign::{certified, client_key};
/// Signature algorithms that certificates and handshakes are checked with, and how they are checked.
pub(super) use verify::{ALGORITHMS, refused_rsa_bits, verify};

/// Records that may be sent with one key of AES-GCM (RFC 8446 section 5.5: 2^24.5 of full size).
const AES_GCM_LIMIT: u64 = 1 << 24;

/// All of it, in order of preference.
pub(super) fn provider() -> CryptoProvider {
    CryptoProvider {
        cipher_suites: SUITES.to_vec(),
        // P-384 too: in TLS 1.2 a certificate's curve must be among the groups (RFC 8422 section 5.1).
        kx_groups: Vec::from([&kx::X25519 as _, &kx::P256 as _, &kx::P384 as _]),
        signature_verification_algorithms: ALGORITHMS,
        secure_random: &SystemRandom,
        key_provider: &NoKeys,
    }
}

static SUITES: &[SupportedCipherSuite] = &[
    SupportedCipherSuite::Tls13(&TLS13_CHACHA20),
    SupportedCipherSuite::Tls13(&TLS13_AES_128),
    SupportedCipherSuite::Tls13(&TLS13_AES_256),
    #[cfg(feature = "tls12")]
    SupportedCipherSuite::Tls12(&ECDSA_CHACHA20),
    #[cfg(feature = "tls12")]
    SupportedCipherSuite::Tls12(&ECDSA_AES_128),
    #[cfg(feature = "tls12")]
    SupportedCipherSuite::Tls12(&ECDSA_AES_256),
    #[cfg(all(feature = "tls12", feature = "rsa"))]
    SupportedCipherSuite::Tls12(&RSA_CHACHA20),
    #[cfg(all(feature = "tls12", feature = "rsa"))]
    SupportedCipherSuite::Tls12(&RSA_AES_128),
    #[cfg(all(feature = "tls12", feature = "rsa"))]
    SupportedCipherSuite::Tls12(&RSA_AES_256),
];

const AES_128: Aead = Aead(Algorithm::Aes128Gcm);
const AES_256: Aead = Aead(Algorithm::Aes256Gcm);
const CHACHA20: Aead = Aead(Algorithm::ChaCha20Poly1305);

static TLS13_AES_128: Tls13CipherSuite = Tls13CipherSuite {
    common: common(CipherSuite::TLS13_AES_128_GCM_SHA256, AES_128),
    hkdf_provider: &HkdfUsingHmac(&hash::SHA256),
    aead_alg: &AES_128,
    quic: None,
};

static TLS13_AES_256: Tls13CipherSuite = Tls13CipherSuite {
    common: common(CipherSuite::TLS13_AES_256_GCM_SHA384, AES_256),
    hkdf_provider: &HkdfUsingHmac(&hash::SHA384),
    aead_alg: &AES_256,
    quic: None,
};

static TLS13_CHACHA20: Tls13CipherSuite = Tls13CipherSuite {
    common: common(CipherSuite::TLS13_CHACHA20_POLY1305_SHA256, CHACHA20),
    hkdf_provider: &HkdfUsingHmac(&hash::SHA256),
    aead_alg: &CHACHA20,
    quic: None,
};

#[cfg(feature = "tls12")]
static ECDSA_AES_128: Tls12CipherSuite = tls12(CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, &AES_128, ECDSA);
#[cfg(feature = "tls12")]
static ECDSA_AES_256: Tls12CipherSuite = tls12(CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, &AES_256, ECDSA);
#[cfg(feature = "tls12")]
static ECDSA_CHACHA20: Tls12CipherSuite =
    tls12(CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, &CHACHA20, ECDSA);
#[cfg(all(feature = "tls12", feature = "rsa"))]
static RSA_AES_128: Tls12CipherSuite = tls12(CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, &AES_128, RSA);
#[cfg(all(feature = "tls12", feature = "rsa"))]
static RSA_AES_256: Tls12CipherSuite = tls12(CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384, &AES_256, RSA);
#[cfg(all(feature = "tls12", feature = "rsa"))]
static RSA_CHACHA20: Tls12CipherSuite = tls12(CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256, &CHACHA20, RSA);

#[cfg(feature = "tls12")]
static ECDSA: &[SignatureScheme] = &[SignatureScheme::ECDSA_NISTP256_SHA256, SignatureScheme::ECDSA_NISTP384_SHA384];
#[cfg(all(feature = "tls12", feature = "rsa"))]
static RSA: &[SignatureScheme] = &[
    SignatureScheme::RSA_PSS_SHA256,
    SignatureScheme::RSA_PSS_SHA384,
    SignatureScheme::RSA_PSS_SHA512,
    SignatureScheme::RSA_PKCS1_SHA256,
    SignatureScheme::RSA_PKCS1_SHA384,
    SignatureScheme::RSA_PKCS1_SHA512,
];

#[cfg(feature = "tls12")]
static PRF_SHA256: PrfUsingHmac<'static> = PrfUsingHmac(&hash::SHA256);
#[cfg(feature = "tls12")]
static PRF_SHA384: PrfUsingHmac<'static> = PrfUsingHmac(&hash::SHA384);

#[cfg(feature = "tls12")]
const fn tls12(suite: CipherSuite, aead: &'static Aead, sign: &'static [SignatureScheme]) -> Tls12CipherSuite {
    Tls12CipherSuite {
        common: common(suite, *aead),
        prf_provider: match aead.0 {
            Algorithm::Aes256Gcm => &PRF_SHA384,
            _ => &PRF_SHA256,
        },
        kx: KeyExchangeAlgorithm::ECDHE,
        sign,
        aead_alg: aead,
    }
}

/// In all nine suites AES-256 goes with SHA-384, the others with SHA-256.
const fn common(suite: CipherSuite, aead: Aead) -> CipherSuiteCommon {
    match aead.0 {
        Algorithm::Aes128Gcm => {
            CipherSuiteCommon { suite, hash_provider: &hash::SHA256, confidentiality_limit: AES_GCM_LIMIT }
        }
        Algorithm::Aes256Gcm => {
            CipherSuiteCommon { suite, hash_provider: &hash::SHA384, confidentiality_limit: AES_GCM_LIMIT }
        }
        Algorithm::ChaCha20Poly1305 => {
            CipherSuiteCommon { suite, hash_provider: &hash::SHA256, confidentiality_limit: u64::MAX }
        }
    }
}

/// A point of a curve from its uncompressed form (SEC 1 section 2.3.3), which is the only one in TLS 1.3 (RFC 8446 section 4.2.8.2)
/// and the one that certificates have; the others would need square roots (7 KB). None where it is not on the curve.
fn point<P: AffineCoordinates<FieldRepr: for<'a> TryFrom<&'a [u8]>>>(bytes: &[u8]) -> Option<P> {
    let (&UNCOMPRESSED, coordinates) = bytes.split_first()? else { return None };
    let (x, y) = coordinates.split_at_checked(coordinates.len() / 2)?;
    P::from_coordinates(&x.try_into().ok()?, &y.try_into().ok()?).into()
}

/// First byte of a point in uncompressed form.
const UNCOMPRESSED: u8 = 4;

/// The kernel's generator.
struct SystemRandom;

impl SystemRandom {
    fn bytes(buf: &mut [u8]) -> Result<(), GetRandomFailed> {
        sys::random::fill(buf).map_err(|_| GetRandomFailed)
    }
}

impl SecureRandom for SystemRandom {
    fn fill(&self, buf: &mut [u8]) -> Result<(), GetRandomFailed> {
        Self::bytes(buf)
    }
}

/// Client's keys do not come this way: `sign::certified` makes them.
struct NoKeys;

debug_nothing!(SystemRandom, NoKeys);

impl KeyProvider for NoKeys {
    fn load_private_key(&self, _: PrivateKeyDer<'static>) -> Result<Arc<dyn SigningKey>, Error> {
        Err(Error::HandshakeNotComplete)
    }
}
