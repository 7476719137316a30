//! Mozilla's root certificates, which `build.rs` has written out as plain bytes: of each the subject's name, the public key and the name
//! constraints in DER (RFC 5280), each behind its length in two bytes.

use alloc::vec::Vec;
use rustls::pki_types::{Der, TrustAnchor};

#[cfg(feature = "roots")]
static FLAT: [u8; include_bytes!(concat!(env!("OUT_DIR"), "/roots")).len()] =
    *include_bytes!(concat!(env!("OUT_DIR"), "/roots"));
#[cfg(not(feature = "roots"))]
static FLAT: [u8; 0] = [];

/// Bytes of a root, a little less than there are on average, for room for all of them at once.
const USUAL: usize = 400;

/// All of them; their names and keys are not copied.
pub(super) fn built_in() -> Vec<TrustAnchor<'static>> {
    let mut roots = Vec::with_capacity(FLAT.len() / USUAL);
    let mut rest: &'static [u8] = &FLAT;
    let mut field = || {
        let (len, behind) = rest.split_first_chunk()?;
        let (field, behind) = behind.split_at_checked(u16::from_le_bytes(*len).into())?;
        rest = behind;
        Some(Der::from_slice(field))
    };
    while let (Some(subject), Some(subject_public_key_info), Some(constraints)) = (field(), field(), field()) {
        let name_constraints = Some(constraints).filter(|constraints| !constraints.is_empty());
        roots.push(TrustAnchor { subject, subject_public_key_info, name_constraints });
    }
    roots
}

#[cfg(all(test, feature = "roots"))]
mod tests {
    use super::*;

    #[test]
    fn they_are_what_was_written() {
        let roots = built_in();
        // As many as Mozilla has had for years, and each with what it must have.
        assert!((80..400).contains(&roots.len()), "{}", roots.len());
        let is_sequence = |der: &Der<'_>| der.first() == Some(&0x30) || der.first() == Some(&0x31);
        for root in &roots {
            assert!(is_sequence(&root.subject) && is_sequence(&root.subject_public_key_info));
        }
        let len: usize = roots.iter().map(|root| root.subject.len() + root.subject_public_key_info.len() + 6).sum();
        let constraints: usize = roots.iter().flat_map(|root| &root.name_constraints).map(|der| der.len()).sum();
        assert_eq!(len + constraints, FLAT.len());
        assert!(roots.iter().any(|root| root.subject.windows(12).any(|part| part == b"ISRG Root X1")));
    }
}
