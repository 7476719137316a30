//! Verification of signatures: ECDSA (FIPS 186-5) on P-256 and P-384, RSA PKCS#1 v1.5 and PSS (RFC 8017), with SHA-2.

use crate::net::tls::crypto::point;
#[cfg(feature = "rsa")]
use crate::net::tls::der::{BIT_STRING, OID};
use crate::net::tls::der::{Der, SEQUENCE};
use p256::ecdsa::signature::hazmat::PrehashVerifier;
#[cfg(feature = "rsa")]
use rsa::{BoxedUint, PublicKey};
use rustls::SignatureScheme;
use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::pki_types::{
    AlgorithmIdentifier, InvalidSignature, SignatureVerificationAlgorithm, SubjectPublicKeyInfoDer, alg_id,
};
use sha2::{Digest, Sha256, Sha384, Sha512};
use webpki::RawPublicKeyEntity;

/// Sizes of RSA keys that are accepted, in bits: below is too weak (as with the public's CAs), above too slow.
#[cfg(feature = "rsa")]
const RSA_BITS: core::ops::RangeInclusive<usize> = 2048..=8192;

/// All that can be verified, and which of it each scheme of TLS means. In TLS 1.2 an ECDSA scheme does not say the curve.
pub(in crate::net) static ALGORITHMS: WebPkiSupportedAlgorithms = WebPkiSupportedAlgorithms {
    all: &[
        P256_SHA256,
        P256_SHA384,
        P256_SHA512,
        P384_SHA256,
        P384_SHA384,
        P384_SHA512,
        #[cfg(feature = "rsa")]
        PKCS1_SHA256,
        #[cfg(feature = "rsa")]
        PKCS1_SHA384,
        #[cfg(feature = "rsa")]
        PKCS1_SHA512,
        #[cfg(feature = "rsa")]
        PKCS1_SHA256_ABSENT,
        #[cfg(feature = "rsa")]
        PKCS1_SHA384_ABSENT,
        #[cfg(feature = "rsa")]
        PKCS1_SHA512_ABSENT,
        #[cfg(feature = "rsa")]
        PSS_SHA256,
        #[cfg(feature = "rsa")]
        PSS_SHA384,
        #[cfg(feature = "rsa")]
        PSS_SHA512,
    ],
    mapping: &[
        (SignatureScheme::ECDSA_NISTP256_SHA256, &[P256_SHA256, P384_SHA256]),
        (SignatureScheme::ECDSA_NISTP384_SHA384, &[P384_SHA384, P256_SHA384]),
        #[cfg(feature = "rsa")]
        (SignatureScheme::RSA_PSS_SHA256, &[PSS_SHA256]),
        #[cfg(feature = "rsa")]
        (SignatureScheme::RSA_PSS_SHA384, &[PSS_SHA384]),
        #[cfg(feature = "rsa")]
        (SignatureScheme::RSA_PSS_SHA512, &[PSS_SHA512]),
        #[cfg(feature = "rsa")]
        (SignatureScheme::RSA_PKCS1_SHA256, &[PKCS1_SHA256]),
        #[cfg(feature = "rsa")]
        (SignatureScheme::RSA_PKCS1_SHA384, &[PKCS1_SHA384]),
        #[cfg(feature = "rsa")]
        (SignatureScheme::RSA_PKCS1_SHA512, &[PKCS1_SHA512]),
    ],
};

type Algorithm = &'static dyn SignatureVerificationAlgorithm;

const P256_SHA256: Algorithm = &Scheme(Kind::P256, Hash::Sha256, alg_id::ECDSA_P256, alg_id::ECDSA_SHA256);
const P256_SHA384: Algorithm = &Scheme(Kind::P256, Hash::Sha384, alg_id::ECDSA_P256, alg_id::ECDSA_SHA384);
const P256_SHA512: Algorithm = &Scheme(Kind::P256, Hash::Sha512, alg_id::ECDSA_P256, alg_id::ECDSA_SHA512);
const P384_SHA256: Algorithm = &Scheme(Kind::P384, Hash::Sha256, alg_id::ECDSA_P384, alg_id::ECDSA_SHA256);
const P384_SHA384: Algorithm = &Scheme(Kind::P384, Hash::Sha384, alg_id::ECDSA_P384, alg_id::ECDSA_SHA384);
const P384_SHA512: Algorithm = &Scheme(Kind::P384, Hash::Sha512, alg_id::ECDSA_P384, alg_id::ECDSA_SHA512);
#[cfg(feature = "rsa")]
const PKCS1_SHA256: Algorithm = &rsa(Kind::Pkcs1, Hash::Sha256, alg_id::RSA_PKCS1_SHA256);
#[cfg(feature = "rsa")]
const PKCS1_SHA384: Algorithm = &rsa(Kind::Pkcs1, Hash::Sha384, alg_id::RSA_PKCS1_SHA384);
#[cfg(feature = "rsa")]
const PKCS1_SHA512: Algorithm = &rsa(Kind::Pkcs1, Hash::Sha512, alg_id::RSA_PKCS1_SHA512);
#[cfg(feature = "rsa")]
const PSS_SHA256: Algorithm = &rsa(Kind::Pss, Hash::Sha256, alg_id::RSA_PSS_SHA256);
#[cfg(feature = "rsa")]
const PSS_SHA384: Algorithm = &rsa(Kind::Pss, Hash::Sha384, alg_id::RSA_PSS_SHA384);
#[cfg(feature = "rsa")]
const PSS_SHA512: Algorithm = &rsa(Kind::Pss, Hash::Sha512, alg_id::RSA_PSS_SHA512);
// RFC 4055 section 5: the parameters of these must be NULL, and their absence must be accepted.
#[cfg(feature = "rsa")]
const PKCS1_SHA256_ABSENT: Algorithm = &rsa(Kind::Pkcs1, Hash::Sha256, absent(&SHA256_WITH_RSA));
#[cfg(feature = "rsa")]
const PKCS1_SHA384_ABSENT: Algorithm = &rsa(Kind::Pkcs1, Hash::Sha384, absent(&SHA384_WITH_RSA));
#[cfg(feature = "rsa")]
const PKCS1_SHA512_ABSENT: Algorithm = &rsa(Kind::Pkcs1, Hash::Sha512, absent(&SHA512_WITH_RSA));

#[cfg(feature = "rsa")]
const SHA256_WITH_RSA: [u8; 11] = *b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0b";
#[cfg(feature = "rsa")]
const SHA384_WITH_RSA: [u8; 11] = *b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0c";
#[cfg(feature = "rsa")]
const SHA512_WITH_RSA: [u8; 11] = *b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0d";

#[cfg(feature = "rsa")]
const fn rsa(kind: Kind, hash: Hash, signature: AlgorithmIdentifier) -> Scheme {
    Scheme(kind, hash, alg_id::RSA_ENCRYPTION, signature)
}

#[cfg(feature = "rsa")]
const fn absent(oid: &'static [u8]) -> AlgorithmIdentifier {
    AlgorithmIdentifier::from_slice(oid)
}

/// What makes a signature, over which hash; the identifiers of the key and of the signature.
struct Scheme(Kind, Hash, AlgorithmIdentifier, AlgorithmIdentifier);

debug_nothing!(Scheme);

#[derive(Clone, Copy)]
enum Kind {
    P256,
    P384,
    #[cfg(feature = "rsa")]
    Pkcs1,
    #[cfg(feature = "rsa")]
    Pss,
}

#[derive(Clone, Copy)]
enum Hash {
    Sha256,
    Sha384,
    Sha512,
}

impl SignatureVerificationAlgorithm for Scheme {
    fn verify_signature(&self, key: &[u8], message: &[u8], signature: &[u8]) -> Result<(), InvalidSignature> {
        let Self(kind, hash, ..) = *self;
        let mut digest = [0; 64];
        let digest = hash.of(message, &mut digest);
        let is_valid = match kind {
            Kind::P256 => p256_verify(key, digest, signature),
            Kind::P384 => p384_verify(key, digest, signature),
            #[cfg(feature = "rsa")]
            Kind::Pkcs1 => rsa_key(key).and_then(|key| match hash {
                Hash::Sha256 => key.pkcs1v15_verify_prehash::<Sha256>(digest, signature).ok(),
                Hash::Sha384 => key.pkcs1v15_verify_prehash::<Sha384>(digest, signature).ok(),
                Hash::Sha512 => key.pkcs1v15_verify_prehash::<Sha512>(digest, signature).ok(),
            }),
            #[cfg(feature = "rsa")]
            Kind::Pss => rsa_key(key).and_then(|key| match hash {
                Hash::Sha256 => key.pss_verify_prehash::<Sha256>(digest, signature).ok(),
                Hash::Sha384 => key.pss_verify_prehash::<Sha384>(digest, signature).ok(),
                Hash::Sha512 => key.pss_verify_prehash::<Sha512>(digest, signature).ok(),
            }),
        };
        is_valid.ok_or(InvalidSignature)
    }

    fn public_key_alg_id(&self) -> AlgorithmIdentifier {
        self.2
    }

    fn signature_alg_id(&self) -> AlgorithmIdentifier {
        self.3
    }
}

impl Hash {
    fn of<'a>(self, message: &[u8], out: &'a mut [u8; 64]) -> &'a [u8] {
        fn digest<'a, D: Digest>(message: &[u8], out: &'a mut [u8; 64]) -> &'a [u8] {
            let digest = D::digest(message);
            let out = out.get_mut(..digest.len()).unwrap_or_default();
            out.copy_from_slice(&digest);
            out
        }
        match self {
            Self::Sha256 => digest::<Sha256>(message, out),
            Self::Sha384 => digest::<Sha384>(message, out),
            Self::Sha512 => digest::<Sha512>(message, out),
        }
    }
}

#[inline(never)] // the room on the stack is that of one curve then
fn p256_verify(key: &[u8], digest: &[u8], signature: &[u8]) -> Option<()> {
    let key = p256::ecdsa::VerifyingKey::from_affine(point::<p256::AffinePoint>(key)?).ok()?;
    let (r, s) = scalars(signature)?;
    let signature = p256::ecdsa::Signature::from_scalars(r, s).ok()?;
    key.verify_prehash(digest, &signature).ok()
}

#[inline(never)] // as above
fn p384_verify(key: &[u8], digest: &[u8], signature: &[u8]) -> Option<()> {
    let key = p384::ecdsa::VerifyingKey::from_affine(point::<p384::AffinePoint>(key)?).ok()?;
    let (r, s) = scalars(signature)?;
    let signature = p384::ecdsa::Signature::from_scalars(r, s).ok()?;
    key.verify_prehash(digest, &signature).ok()
}

/// `Ecdsa-Sig-Value` of RFC 3279 section 2.2.3: two positive numbers, here of `N` bytes each with zeros in front.
fn scalars<const N: usize>(signature: &[u8]) -> Option<([u8; N], [u8; N])> {
    let mut outer = Der(signature);
    let mut inner = outer.enter(SEQUENCE)?;
    let mut next = || {
        let value = inner.positive()?;
        let mut padded = [0; N];
        padded.get_mut(N.checked_sub(value.len())?..)?.copy_from_slice(value);
        Some(padded)
    };
    let both = (next()?, next()?);
    (outer.is_empty() && inner.is_empty()).then_some(both)
}

/// Checks a handshake's signature by the key of `spki`, whatever its certificate says. In TLS 1.3 a scheme says the curve as well.
pub(in crate::net) fn verify(
    spki: &[u8],
    scheme: SignatureScheme,
    is_tls13: bool,
    message: &[u8],
    signature: &[u8],
) -> Option<()> {
    use SignatureScheme::{RSA_PKCS1_SHA256, RSA_PKCS1_SHA384, RSA_PKCS1_SHA512};
    let spki = SubjectPublicKeyInfoDer::from(spki);
    let key = RawPublicKeyEntity::try_from(&spki).ok()?;
    let (_, algorithms) = ALGORITHMS.mapping.iter().find(|(known, _)| *known == scheme)?;
    if is_tls13 && matches!(scheme, RSA_PKCS1_SHA256 | RSA_PKCS1_SHA384 | RSA_PKCS1_SHA512) {
        return None; // RFC 8446 section 4.4.3
    }
    let count = if is_tls13 { 1 } else { algorithms.len() };
    // Those for another kind of key than this one fail before anything is computed.
    algorithms
        .iter()
        .take(count)
        .any(|algorithm| key.verify_signature(*algorithm, message, signature).is_ok())
        .then_some(())
}

/// Size in bits of an RSA key (what is inside `SubjectPublicKeyInfo`) that is smaller or larger than is accepted; of others nothing.
#[cfg(feature = "rsa")]
pub(in crate::net) fn refused_rsa_bits(mut spki: Der<'_>) -> Option<usize> {
    spki.enter(SEQUENCE)?.take(OID).filter(|oid| *oid == RSA_ENCRYPTION)?;
    let mut key = Der(spki.take(BIT_STRING)?.strip_prefix(&[0])?).enter(SEQUENCE)?;
    let modulus = key.positive()?;
    let unused = modulus.first()?.leading_zeros() as usize;
    let bits = modulus.len().saturating_mul(8).saturating_sub(unused);
    (!RSA_BITS.contains(&bits)).then_some(bits)
}

/// Without RSA there is no such key.
#[cfg(not(feature = "rsa"))]
pub(in crate::net) fn refused_rsa_bits(_: Der<'_>) -> Option<usize> {
    None
}

/// 1.2.840.113549.1.1.1
#[cfg(feature = "rsa")]
pub(super) const RSA_ENCRYPTION: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];

/// `RSAPublicKey` of RFC 8017 appendix A.1.1.
#[cfg(feature = "rsa")]
pub(super) fn rsa_key(key: &[u8]) -> Option<PublicKey> {
    let mut outer = Der(key);
    let mut inner = outer.enter(SEQUENCE)?;
    let (modulus, exponent) = (inner.positive()?, inner.positive()?);
    if !outer.is_empty() || !inner.is_empty() {
        return None;
    }
    let modulus = BoxedUint::from_be_slice_vartime(modulus);
    let exponent = BoxedUint::from_be_slice_vartime(exponent);
    PublicKey::new_with_size_limits(modulus, exponent, RSA_BITS).ok()
}
