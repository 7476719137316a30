//! Which servers are trusted: roots, pinned keys and the time (RFC 5280 section 6, RFC 6125; the work is webpki's), and what a
//! refused certificate says of itself.

use super::der::{Der, GENERALIZED_TIME, INTEGER, OCTET_STRING, OID, SEQUENCE, SET, UTC_TIME};
use super::provider::ALGORITHMS;
#[cfg(feature = "client-auth")]
use super::provider::{Client, certified, client_key};
use super::roots::built_in;
use crate::build_date::BUILD_DATE_S;
use crate::error::TlsError;
use crate::sys::time::realtime_s;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;
use once_cell::race::OnceBox;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::{PemObject, SectionKind};
use rustls::pki_types::{CertificateDer, ServerName, TrustAnchor, UnixTime};
use rustls::time_provider::TimeProvider;
use rustls::{CertificateError, DigitallySignedStruct, Error, SignatureScheme};
use sha2::{Digest, Sha256};
use webpki::{EndEntityCert, KeyUsage, anchor_from_trusted_cert};
#[cfg(feature = "client-auth")]
use zeroize::Zeroizing;

/// Most bytes of a PEM file: some forty certificates with their texts, far more than one's own CAs.
pub const PEM_MAX: usize = 64 * 1024;
/// Most roots added to the built-in ones.
pub const ROOTS_MAX: usize = 32;
/// Most pinned keys: one in use and one to come, for some servers.
pub const PINS_MAX: usize = 16;
/// Most certificates of ours that are shown: itself and its issuers.
#[cfg(feature = "client-auth")]
const CLIENT_CHAIN_MAX: usize = 8;
/// Most bytes that are kept of a certificate's name.
const NAME_MAX: usize = 64;

/// What PEM files are read as: one type alone, so that there is one reader.
type Section = (SectionKind, Vec<u8>);

/// What is trusted. Shared with the connections it was given to, and with its clones until they are changed.
#[derive(Clone)]
pub struct Trust(Arc<Policy>);

/// What a certificate says of itself, for messages. Nothing of it was checked.
#[derive(Clone, Copy, Default)]
pub struct CertFacts {
    name: Name,
    /// Seconds since 1970 from which it is valid.
    pub not_before_s: u64,
    /// Seconds since 1970 until which it is valid.
    pub not_after_s: u64,
    /// The time it was checked against, seconds since 1970.
    pub now_s: u64,
    /// Whether it names servers by the subject alternative name extension; the common name is not looked at (RFC 9525).
    pub has_alternative_names: bool,
    /// Whether its issuer is its subject.
    pub is_self_signed: bool,
    /// Whether the times are those of another certificate of the chain, since that one is the reason of the refusal.
    pub is_issuers_time: bool,
}

impl Default for Trust {
    fn default() -> Self {
        Self::new()
    }
}

impl Trust {
    /// The built-in roots and the system's clock.
    pub fn new() -> Self {
        Self(Arc::new(Policy::default()))
    }

    /// Adds the certificates of a PEM file as roots, and as servers that are trusted by themselves; gives how many there were.
    /// Sections that are no certificates are passed over.
    pub fn add_pem(&mut self, pem: &[u8]) -> Result<usize, TlsError> {
        if pem.len() > PEM_MAX {
            return Err(TlsError::TooLarge);
        }
        let policy = Arc::make_mut(&mut self.0);
        let mut added = 0usize;
        for section in Section::pem_slice_iter(pem) {
            let (kind, der) = section.map_err(|_| TlsError::BadRoot)?;
            if kind != SectionKind::Certificate {
                continue;
            }
            let der = CertificateDer::from(der);
            if policy.roots.len() >= ROOTS_MAX {
                return Err(TlsError::TooLarge);
            }
            policy.roots.push(anchor_from_trusted_cert(&der).map_err(|_| TlsError::BadRoot)?.to_owned());
            policy.exact.push(Sha256::digest(&der).into());
            added = added.saturating_add(1);
        }
        Ok(added)
    }

    /// Trusts the server whose public key (`SubjectPublicKeyInfo`) has this SHA-256: `sha256:BASE64`, or as curl writes it,
    /// `sha256//BASE64`, several with `;` between them. Once there is a pin, the key alone counts: neither issuer, name nor time.
    pub fn pin(&mut self, text: &str) -> Result<(), TlsError> {
        let policy = Arc::make_mut(&mut self.0);
        for pin in text.split(';') {
            let digest = pin.strip_prefix("sha256").and_then(|rest| rest.strip_prefix(':').or(rest.strip_prefix("//")));
            let digest = digest.and_then(base64_digest).ok_or(TlsError::BadPin)?;
            if policy.pins.len() >= PINS_MAX {
                return Err(TlsError::TooLarge);
            }
            policy.pins.push(digest);
        }
        Ok(())
    }

    /// Trusts whoever answers, unless there are pins.
    pub fn accept_any(&mut self) {
        Arc::make_mut(&mut self.0).is_insecure = true;
    }

    /// Shows servers that ask for one a certificate of ours: the PEM of it, followed by its issuers', and of its key.
    #[cfg(feature = "client-auth")]
    pub fn set_client(&mut self, cert: &[u8], key: &[u8]) -> Result<(), TlsError> {
        if cert.len() > PEM_MAX || key.len() > PEM_MAX {
            return Err(TlsError::TooLarge);
        }
        let mut chain = Vec::new();
        for section in Section::pem_slice_iter(cert) {
            match section {
                Ok((SectionKind::Certificate, der)) if chain.len() < CLIENT_CHAIN_MAX => chain.push(der.into()),
                Ok(_) => {}
                Err(_) => return Err(TlsError::BadClientCertificate),
            }
        }
        if chain.is_empty() {
            return Err(TlsError::BadClientCertificate);
        }
        let key = Section::pem_slice_iter(key).find_map(|section| {
            let (kind, der) = section.ok()?;
            client_key(kind, &Zeroizing::new(der))
        });
        let client = key.and_then(|key| certified(chain, key)).ok_or(TlsError::BadClientKey)?;
        Arc::make_mut(&mut self.0).client = Some(Arc::new(client));
        Ok(())
    }

    /// Takes note of the time that a server told in plain, seconds since 1970: it is used where the system's clock is before this
    /// program's making; see [`Trust::believe_date`].
    pub fn learn_date(&mut self, date_s: u64) {
        Arc::make_mut(&mut self.0).clock.told_s = date_s;
    }

    /// Lets a certificate pass that is over by the system's clock and valid at the time that was told, when the clock is ahead of
    /// that. Whoever can change what is told can then use a certificate again that is over.
    pub fn believe_date(&mut self) {
        Arc::make_mut(&mut self.0).clock.is_lenient = true;
    }

    /// Whether a time that was told would matter: neither for pinned keys nor where any certificate is accepted.
    pub fn looks_at_times(&self) -> bool {
        cfg!(feature = "clock") && self.0.pins.is_empty() && !self.0.is_insecure
    }

    /// Whether a time that was told would be used in place of the clock's, were it known.
    pub fn believes_dates(&self) -> bool {
        cfg!(feature = "clock") && self.0.clock.is_lenient && self.0.clock.told_s == 0
    }

    /// Whether a server has told the time.
    pub fn knows_the_date(&self) -> bool {
        self.0.clock.told_s != 0
    }

    /// A check of one connection's certificate.
    pub(super) fn verifier(&self) -> Verifier {
        Verifier { policy: self.0.clone(), seen: OnceBox::new() }
    }
}

impl CertFacts {
    /// The first DNS name of the certificate, else its subject's common name, else nothing; bounded, printable ASCII.
    pub fn name(&self) -> &str {
        self.name.as_str()
    }

    /// Reads what can be read of a certificate (RFC 5280 section 4.1).
    pub(super) fn read(der: &[u8]) -> Self {
        let mut facts = Self::default();
        let _ = facts.walk(der);
        facts
    }

    fn walk(&mut self, der: &[u8]) -> Option<()> {
        let mut body = Der(der).enter(SEQUENCE)?.enter(SEQUENCE)?;
        body.take(VERSION);
        body.take(INTEGER)?;
        body.take(SEQUENCE)?;
        let issuer = body.take(SEQUENCE)?;
        let mut validity = body.enter(SEQUENCE)?;
        self.not_before_s = time(&mut validity).unwrap_or_default();
        self.not_after_s = time(&mut validity).unwrap_or_default();
        let subject = body.take(SEQUENCE)?;
        self.is_self_signed = issuer == subject;
        if let Some(name) = common_name(Der(subject)) {
            self.name = Name::new(name);
        }
        body.take(SEQUENCE)?;
        body.take(ISSUER_ID);
        body.take(SUBJECT_ID);
        let mut extensions = body.enter(EXTENSIONS)?.enter(SEQUENCE)?;
        while let Some(mut extension) = extensions.enter(SEQUENCE) {
            if extension.take(OID) != Some(SUBJECT_ALT_NAME) {
                continue;
            }
            extension.take(BOOLEAN);
            self.has_alternative_names = true;
            let mut names = extension.enter(OCTET_STRING)?.enter(SEQUENCE)?;
            while let Some((tag, value)) = names.any() {
                if tag == DNS_NAME {
                    self.name = Name::new(value);
                    return Some(());
                }
            }
        }
        Some(())
    }
}

#[derive(Clone, Default)]
struct Policy {
    roots: Vec<TrustAnchor<'static>>,
    /// SHA-256 of each certificate that was added.
    exact: Vec<[u8; 32]>,
    /// SHA-256 of each key that is trusted.
    pins: Vec<[u8; 32]>,
    is_insecure: bool,
    clock: Clock,
    #[cfg(feature = "client-auth")]
    client: Option<Arc<Client>>,
}

/// What is known of the time beside the system's clock.
#[derive(Clone, Copy, Default)]
struct Clock {
    /// What a server told, seconds since 1970; 0 is nothing.
    told_s: u64,
    is_lenient: bool,
}

impl Clock {
    /// The time to check against when the system's clock says `system_s`, and the one to try when by that a certificate is over.
    fn times(self, system_s: u64) -> (u64, Option<u64>) {
        if system_s < BUILD_DATE_S {
            return (self.told_s.max(BUILD_DATE_S), None);
        }
        let is_ahead = (BUILD_DATE_S..system_s).contains(&self.told_s);
        (system_s, (self.is_lenient && is_ahead).then_some(self.told_s))
    }
}

impl Policy {
    fn check(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        facts: &mut CertFacts,
    ) -> Result<(), TlsError> {
        let (now_s, other_s) = self.clock.times(realtime_s());
        facts.now_s = now_s;
        if self.is_insecure && self.pins.is_empty() {
            return Ok(());
        }
        let cert = EndEntityCert::try_from(end_entity).map_err(|error| refusal(error, facts))?;
        if !self.pins.is_empty() {
            let key = Sha256::digest(cert.subject_public_key_info());
            return if self.pins.contains(&key.into()) { Ok(()) } else { Err(TlsError::WrongPin) };
        }
        let mut result = self.check_at(now_s, end_entity, &cert, intermediates, facts);
        if let (Err(TlsError::Expired), Some(other_s)) = (result, other_s) {
            let mut anew = *facts;
            if self.check_at(other_s, end_entity, &cert, intermediates, &mut anew).is_ok() {
                (*facts, result) = (anew, Ok(()));
                facts.now_s = other_s;
            }
        }
        result?;
        cert.verify_is_valid_for_subject_name(name).map_err(|error| refusal(error, facts))
    }

    /// Checks at this time the certificate itself, if it was added, else its chain.
    fn check_at(
        &self,
        now_s: u64,
        end_entity: &CertificateDer<'_>,
        cert: &EndEntityCert<'_>,
        intermediates: &[CertificateDer<'_>],
        facts: &mut CertFacts,
    ) -> Result<(), TlsError> {
        // The owner handed us this very certificate. webpki never takes one that is its own root.
        if self.exact.contains(&Sha256::digest(end_entity).into()) {
            return match now_s {
                now if now < facts.not_before_s => Err(TlsError::NotYetValid),
                now if now > facts.not_after_s => Err(TlsError::Expired),
                _ => Ok(()),
            };
        }
        self.check_chain(now_s, cert, intermediates, facts)
    }

    fn check_chain(
        &self,
        now_s: u64,
        cert: &EndEntityCert<'_>,
        intermediates: &[CertificateDer<'_>],
        facts: &mut CertFacts,
    ) -> Result<(), TlsError> {
        let now = UnixTime::since_unix_epoch(Duration::from_secs(now_s));
        let mut result = Err(TlsError::UnknownIssuer);
        for is_owners in [true, false] {
            // Those of the owner first: where they do, the others are not read.
            let others;
            let roots = if is_owners {
                &self.roots
            } else {
                others = built_in();
                &others
            };
            let path =
                cert.verify_for_usage(ALGORITHMS.all, roots, intermediates, now, KeyUsage::server_auth(), None, None);
            result = match path {
                Ok(_) => return Ok(()),
                Err(webpki::Error::UnknownIssuer) => result,
                Err(error) => Err(refusal(error, facts)),
            };
        }
        match result {
            Err(TlsError::UnknownIssuer) if facts.is_self_signed => Err(TlsError::SelfSigned),
            other => other,
        }
    }
}

/// The check of one connection's certificate; afterwards, what was seen.
pub(super) struct Verifier {
    policy: Arc<Policy>,
    seen: OnceBox<Seen>,
}

/// What a certificate said of itself, and why it was refused, if it was.
pub(super) struct Seen {
    pub(super) facts: CertFacts,
    pub(super) refusal: Option<TlsError>,
}

impl Verifier {
    /// The certificate of ours to show.
    #[cfg(feature = "client-auth")]
    pub(super) fn client(&self) -> Option<Arc<Client>> {
        self.policy.client.clone()
    }

    /// What was seen of the end entity's certificate, once it came.
    pub(super) fn seen(&self) -> Option<&Seen> {
        self.seen.get()
    }
}

debug_nothing!(Verifier);

impl TimeProvider for Verifier {
    fn current_time(&self) -> Option<UnixTime> {
        // For the age of tickets, of which none is kept.
        Some(UnixTime::since_unix_epoch(Duration::from_secs(BUILD_DATE_S)))
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let mut facts = CertFacts::read(end_entity);
        let refusal = self.policy.check(end_entity, intermediates, server_name, &mut facts).err();
        let _ = self.seen.set(Box::new(Seen { facts, refusal }));
        match refusal {
            None => Ok(ServerCertVerified::assertion()),
            Some(error) => Err(Error::InvalidCertificate(told_to_peer(error))),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, dss, &ALGORITHMS)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, dss, &ALGORITHMS)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        ALGORITHMS.supported_schemes()
    }
}

/// The reason of rustls' that makes it send the alert which fits (RFC 8446 section 6.2).
fn told_to_peer(error: TlsError) -> CertificateError {
    match error {
        TlsError::Expired | TlsError::NotYetValid => CertificateError::Expired,
        TlsError::WrongName => CertificateError::NotValidForName,
        TlsError::UnknownIssuer | TlsError::SelfSigned => CertificateError::UnknownIssuer,
        TlsError::BadSignature => CertificateError::BadSignature,
        TlsError::UnsupportedCertificate => CertificateError::InvalidPurpose,
        TlsError::WrongPin => CertificateError::ApplicationVerificationFailure,
        _ => CertificateError::BadEncoding,
    }
}

/// Our word for webpki's; where a time is the reason, and it is not the end entity's, that time goes into `facts`.
fn refusal(error: webpki::Error, facts: &mut CertFacts) -> TlsError {
    use webpki::Error::*;
    match error {
        CertExpired { not_after, .. } => {
            facts.is_issuers_time |= not_after.as_secs() != facts.not_after_s;
            facts.not_after_s = not_after.as_secs();
            TlsError::Expired
        }
        CertNotValidYet { not_before, .. } => {
            facts.is_issuers_time |= not_before.as_secs() != facts.not_before_s;
            facts.not_before_s = not_before.as_secs();
            TlsError::NotYetValid
        }
        CertNotValidForName(_) => TlsError::WrongName,
        UnknownIssuer => TlsError::UnknownIssuer,
        CaUsedAsEndEntity if facts.is_self_signed => TlsError::SelfSigned,
        InvalidSignatureForPublicKey => TlsError::BadSignature,
        UnsupportedCertVersion
        | UnsupportedCriticalExtension
        | UnsupportedSignatureAlgorithmContext(_)
        | UnsupportedSignatureAlgorithmForPublicKeyContext(_) => TlsError::UnsupportedCertificate,
        _ => TlsError::BadCertificate,
    }
}

/// `[0]` version, `[1]` issuerUniqueID, `[2]` subjectUniqueID, `[3]` extensions of `TBSCertificate`.
const VERSION: u8 = 0xa0;
const ISSUER_ID: u8 = 0x81;
const SUBJECT_ID: u8 = 0x82;
const EXTENSIONS: u8 = 0xa3;
/// `[2]` dNSName of `GeneralName`.
const DNS_NAME: u8 = 0x82;
const BOOLEAN: u8 = 0x01;
/// 2.5.29.17
const SUBJECT_ALT_NAME: &[u8] = &[0x55, 0x1d, 0x11];
/// 2.5.4.3
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];

/// Bounded, printable ASCII.
#[derive(Clone, Copy)]
struct Name {
    bytes: [u8; NAME_MAX],
    len: usize,
}

impl Default for Name {
    fn default() -> Self {
        Self { bytes: [0; NAME_MAX], len: 0 }
    }
}

impl Name {
    fn new(from: &[u8]) -> Self {
        let mut name = Self::default();
        for (to, from) in name.bytes.iter_mut().zip(from) {
            *to = if (b' '..=b'~').contains(from) { *from } else { b'?' };
            name.len = name.len.saturating_add(1);
        }
        name
    }

    fn as_str(&self) -> &str {
        self.bytes.get(..self.len).and_then(|name| core::str::from_utf8(name).ok()).unwrap_or_default()
    }
}

/// 32 bytes in base64 (RFC 4648 section 4), with the padding or without.
fn base64_digest(text: &str) -> Option<[u8; 32]> {
    crate::text::unbase64(text, &mut [0; 32])?.try_into().ok()
}

/// The first common name of a `Name` (RFC 5280 section 4.1.2.4), of whatever string type.
fn common_name(mut name: Der<'_>) -> Option<&[u8]> {
    while let Some(mut set) = name.enter(SET) {
        while let Some(mut attribute) = set.enter(SEQUENCE) {
            if attribute.take(OID) == Some(COMMON_NAME) {
                return attribute.any().map(|(_, value)| value);
            }
        }
    }
    None
}

/// `Time` of RFC 5280 section 4.1.2.5, in seconds since 1970; what is before is 0.
fn time(der: &mut Der<'_>) -> Option<u64> {
    let (tag, text) = der.any()?;
    let mut text = text.strip_suffix(b"Z")?;
    let mut number = |digits: usize| -> Option<u64> {
        let (head, rest) = text.split_at_checked(digits)?;
        text = rest;
        crate::text::number(head)
    };
    let year = match tag {
        GENERALIZED_TIME => number(4)?,
        UTC_TIME => match number(2)? {
            year @ 50.. => year.saturating_add(1900),
            year => year.saturating_add(2000),
        },
        _ => return None,
    };
    let (month, day) = (number(2)?, number(2)?);
    let (hour, minute, second) = (number(2)?, number(2)?, number(2)?);
    crate::text::since_1970([year, month, day, hour, minute, second])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(tag: u8, text: &str) -> Option<u64> {
        time(&mut Der(&[&[tag, text.len() as u8], text.as_bytes()].concat()))
    }

    #[test]
    fn times_of_certificates() {
        for (text, expected) in [
            ("700101000000Z", Some(0)),
            ("700101000001Z", Some(1)),
            ("000229120000Z", Some(951_825_600)),
            ("260102030405Z", Some(1_767_323_045)),
            ("491231235959Z", Some(2_524_607_999)),
            ("500101000000Z", Some(0)), // 1950
            ("261301000000Z", None),
            ("260100000000Z", None),
            ("260101240000Z", None),
            ("260101000000", None),
            ("2601010000Z", None),
            ("26-101000000Z", None),
            ("", None),
        ] {
            assert_eq!(read(UTC_TIME, text), expected, "{text}");
        }
        assert_eq!(read(GENERALIZED_TIME, "20500101000000Z"), Some(2_524_608_000));
        assert_eq!(read(GENERALIZED_TIME, "99991231235959Z"), Some(253_402_300_799));
        assert_eq!(read(GENERALIZED_TIME, "00000101000000Z"), None);
        assert_eq!(read(INTEGER, "260102030405Z"), None);
    }

    #[test]
    fn the_time_to_check_against() {
        let (before, after) = (BUILD_DATE_S - 1, BUILD_DATE_S + 1_000_000);
        let far = 4_102_444_800; // 2100
        for (told_s, is_lenient, system_s, expected) in [
            (0, false, 0, (BUILD_DATE_S, None)),
            (0, true, before, (BUILD_DATE_S, None)),
            (after, false, 0, (after, None)),
            (before, false, 0, (BUILD_DATE_S, None)),
            (0, false, after, (after, None)),
            (far, true, after, (after, None)),
            (after, false, far, (far, None)),
            (after, true, far, (far, Some(after))),
            (before, true, far, (far, None)),
            (0, true, far, (far, None)),
        ] {
            assert_eq!(Clock { told_s, is_lenient }.times(system_s), expected, "{told_s} {is_lenient} {system_s}");
        }
    }

    #[test]
    fn pins_in_both_notations() {
        let digest = Sha256::digest(b"a key");
        let mut text = Vec::new();
        crate::text::base64(&digest, &mut text).unwrap();
        let text = std::str::from_utf8(&text).unwrap();
        let (colon, slashes) = (std::format!("sha256:{text}"), std::format!("sha256//{text}"));
        let two = std::format!("{slashes};{slashes}");
        for (pin, count) in [(&colon, 1), (&slashes, 1), (&colon.replace('=', ""), 1), (&two, 2)] {
            let mut trust = Trust::new();
            assert_eq!(trust.pin(pin), Ok(()), "{pin}");
            assert_eq!(trust.0.pins, vec![<[u8; 32]>::from(digest); count]);
        }
        for bad in ["", "sha256:", "sha256", text, &colon[..49], &colon.replace('=', "A"), &std::format!("{colon};")] {
            assert_eq!(Trust::new().pin(bad), Err(TlsError::BadPin), "{bad}");
        }
        for strange in [" ", "-", "_", "\u{e9}"] {
            assert_eq!(Trust::new().pin(&colon.replacen(&text[5..6], strange, 1)), Err(TlsError::BadPin), "{strange}");
        }
        // Bits that would be lost.
        assert_eq!(base64_digest(&"/".repeat(43)), None);
        assert_eq!(base64_digest(&std::format!("{}8", "/".repeat(42))), Some([0xff; 32]));
        let many = vec![&*colon; PINS_MAX + 1].join(";");
        assert_eq!(Trust::new().pin(&many), Err(TlsError::TooLarge));
    }

    #[test]
    fn names_are_bounded_and_printable() {
        assert_eq!(Name::new(b"a\x1b[2J\xc3\xa9").as_str(), "a?[2J??");
        assert_eq!(Name::new(&[b'x'; 300]).as_str().len(), NAME_MAX);
    }
}
