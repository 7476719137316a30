//! Signing as a client: ECDSA on P-256 (FIPS 186-5, nonces by RFC 6979), and by a feature of its own, since it is large, RSA PSS and
//! PKCS#1 v1.5 (RFC 8017), with SHA-256.
//!
//! Keys are read from PKCS#8 (RFC 5958), SEC 1 (RFC 5915) and PKCS#1 (RFC 8017 appendix A.1.2).

#[cfg(feature = "client-auth-rsa")]
use crate::net::tls::crypto::{SystemRandom, verify};
use crate::net::tls::der::{BIT_STRING, Der, INTEGER, OCTET_STRING, OID, SEQUENCE};
use crate::net::tls::pem::Label;
use crate::net::tls::trust::Certificate;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
#[cfg(feature = "client-auth-rsa")]
use core::fmt;
use p256::ecdsa::signature::hazmat::PrehashSigner;
#[cfg(feature = "client-auth-rsa")]
use rsa::BoxedUint;
#[cfg(feature = "client-auth-rsa")]
use rsa::rand_core::{TryCryptoRng, TryRng};
use rustls::pki_types::CertificateDer;
use rustls::sign::{CertifiedKey, Signer, SigningKey};
use rustls::{Error, SignatureAlgorithm, SignatureScheme};
use sha2::{Digest, Sha256};

/// The key in a PEM block; none where it is of no kind that is known.
pub(in crate::net) fn client_key(label: Label, der: &[u8]) -> Option<Key> {
    match label {
        Label::Pkcs8 => pkcs8(der),
        Label::Sec1 => sec1(der),
        #[cfg(feature = "client-auth-rsa")]
        Label::Pkcs1 => pkcs1(der),
        _ => None,
    }
}

/// Both together; none where the key is not the first certificate's.
pub(in crate::net) fn certified(chain: Vec<CertificateDer<'static>>, key: Key) -> Option<CertifiedKey> {
    let public = subject_key(chain.first()?)?;
    let is_its = match &key {
        Key::Ecdsa(key) => key.verifying_key().to_sec1_point(false).as_bytes() == public,
        #[cfg(feature = "client-auth-rsa")]
        Key::Rsa(key) => verify::rsa_key(public)? == rsa::PublicKey::from(&**key),
    };
    is_its.then(|| CertifiedKey::new(chain, Arc::new(key)))
}

/// The public key of a certificate, as the algorithm writes it.
fn subject_key<'a>(cert: &'a CertificateDer<'_>) -> Option<&'a [u8]> {
    let mut spki = Der(Certificate::read(cert)?.key).enter(SEQUENCE)?;
    spki.take(SEQUENCE)?;
    // Its first byte says how many bits of the last one do not count: none.
    spki.take(BIT_STRING)?.strip_prefix(&[0])
}

/// A private key.
pub(in crate::net) enum Key {
    Ecdsa(Arc<p256::ecdsa::SigningKey>),
    #[cfg(feature = "client-auth-rsa")]
    Rsa(Arc<rsa::PrivateKey>),
}

/// `OneAsymmetricKey`: the version, the algorithm, and in an `OCTET STRING` the key in its own form. What may follow is not used.
fn pkcs8(der: &[u8]) -> Option<Key> {
    let mut body = Der(der).enter(SEQUENCE)?;
    body.take(INTEGER)?;
    let mut algorithm = body.enter(SEQUENCE)?;
    let key = body.take(OCTET_STRING)?;
    match (algorithm.take(OID)?, algorithm.take(OID)) {
        #[cfg(feature = "client-auth-rsa")]
        (verify::RSA_ENCRYPTION, _) => pkcs1(key),
        (EC_PUBLIC_KEY, Some(P256)) => sec1(key),
        _ => None,
    }
}

/// `ECPrivateKey`: the version and the secret. Its curve is taken to be P-256; on another, the certificate's key is another one.
fn sec1(der: &[u8]) -> Option<Key> {
    let mut body = Der(der).enter(SEQUENCE)?;
    body.take(INTEGER)?;
    p256::ecdsa::SigningKey::from_slice(body.take(OCTET_STRING)?).ok().map(|key| Key::Ecdsa(Arc::new(key)))
}

#[cfg(feature = "client-auth-rsa")]
/// `RSAPrivateKey`: the version, modulus, exponents, the two primes. What follows is computed anew.
fn pkcs1(der: &[u8]) -> Option<Key> {
    let mut body = Der(der).enter(SEQUENCE)?;
    body.take(INTEGER)?;
    let mut number = || body.positive().map(BoxedUint::from_be_slice_vartime);
    let (modulus, exponent, secret, primes) = (number()?, number()?, number()?, [number()?, number()?]);
    let key = rsa::PrivateKey::from_components(modulus, exponent, secret, Vec::from(primes)).ok()?;
    Some(Key::Rsa(Arc::new(key)))
}

/// 1.2.840.10045.2.1
const EC_PUBLIC_KEY: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
/// 1.2.840.10045.3.1.7
const P256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];

debug_nothing!(Key, Chosen);

impl SigningKey for Key {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        let ours: &[_] = match self {
            Self::Ecdsa(_) => &[SignatureScheme::ECDSA_NISTP256_SHA256],
            #[cfg(feature = "client-auth-rsa")]
            Self::Rsa(_) => &[SignatureScheme::RSA_PSS_SHA256, SignatureScheme::RSA_PKCS1_SHA256],
        };
        let scheme = *ours.iter().find(|scheme| offered.contains(scheme))?;
        let key = match self {
            Self::Ecdsa(key) => Self::Ecdsa(key.clone()),
            #[cfg(feature = "client-auth-rsa")]
            Self::Rsa(key) => Self::Rsa(key.clone()),
        };
        Some(Box::new(Chosen(key, scheme)))
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        match self {
            Self::Ecdsa(_) => SignatureAlgorithm::ECDSA,
            #[cfg(feature = "client-auth-rsa")]
            Self::Rsa(_) => SignatureAlgorithm::RSA,
        }
    }
}

/// A key, and the scheme that the server and it have in common.
struct Chosen(Key, SignatureScheme);

impl Signer for Chosen {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Error> {
        let digest = Sha256::digest(message);
        let signature = match (&self.0, self.1) {
            (Key::Ecdsa(key), _) => {
                let signature: Option<p256::ecdsa::Signature> = key.sign_prehash(&digest).ok();
                signature.map(|signature| ecdsa_sig_value(&signature.to_bytes()))
            }
            #[cfg(feature = "client-auth-rsa")]
            (Key::Rsa(key), SignatureScheme::RSA_PSS_SHA256) => {
                key.pss_sign_prehash_with_rng::<Sha256, _>(&mut SystemRandom, &digest).ok()
            }
            #[cfg(feature = "client-auth-rsa")]
            (Key::Rsa(key), _) => key.pkcs1v15_sign_prehash_with_rng::<Sha256, _>(&mut SystemRandom, &digest).ok(),
        };
        signature.ok_or(Error::FailedToGetRandomBytes)
    }

    fn scheme(&self) -> SignatureScheme {
        self.1
    }
}

/// `Ecdsa-Sig-Value` (RFC 3279 section 2.2.3): r and s, of which `both` holds one half each, in their shortest form.
fn ecdsa_sig_value(both: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    for number in both.chunks(both.len() / 2) {
        let first = number.iter().position(|byte| *byte != 0).unwrap_or(number.len());
        let number = number.get(first..).unwrap_or_default();
        let is_high = number.first().is_none_or(|byte| *byte >= 0x80);
        body.extend_from_slice(&[INTEGER, (number.len() as u8).saturating_add(is_high.into())]);
        body.extend_from_slice(if is_high { &[0] } else { &[] });
        body.extend_from_slice(number);
    }
    // At most 2 * (2 + 33) bytes: the length is one byte.
    body.splice(0..0, [SEQUENCE, body.len() as u8]);
    body
}

#[cfg(feature = "client-auth-rsa")]
/// For blinding and salts.
impl TryRng for SystemRandom {
    type Error = fmt::Error;

    fn try_next_u32(&mut self) -> Result<u32, fmt::Error> {
        let mut bytes = [0; 4];
        self.try_fill_bytes(&mut bytes)?;
        Ok(u32::from_ne_bytes(bytes))
    }

    fn try_next_u64(&mut self) -> Result<u64, fmt::Error> {
        let mut bytes = [0; 8];
        self.try_fill_bytes(&mut bytes)?;
        Ok(u64::from_ne_bytes(bytes))
    }

    fn try_fill_bytes(&mut self, buf: &mut [u8]) -> Result<(), fmt::Error> {
        Self::bytes(buf).map_err(|_| fmt::Error)
    }
}

#[cfg(feature = "client-auth-rsa")]
impl TryCryptoRng for SystemRandom {}
