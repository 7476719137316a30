//! Which servers are trusted: roots, pinned keys and the time (RFC 5280 section 6, RFC 6125; the work is webpki's), and what a
//! refused certificate says of itself.

use crate::error::TlsError;
use crate::net::tls::crypto::{ALGORITHMS, refused_rsa_bits, verify};
#[cfg(feature = "client-auth")]
use crate::net::tls::crypto::{certified, client_key};
use crate::net::tls::der::{BIT_STRING, Der, GENERALIZED_TIME, INTEGER, OCTET_STRING, OID, SEQUENCE, SET, UTC_TIME};
use crate::net::tls::pem::{Label, blocks};
use crate::net::tls::roots::built_in;
use crate::sys::Errno;
use crate::sys::build_date::BUILD_DATE_S;
use crate::sys::file::File;
use crate::sys::time::realtime_s;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use once_cell::race::OnceBox;
use rustls::client::ResolvesClientCert;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, TrustAnchor, UnixTime};
use rustls::sign::CertifiedKey;
use rustls::time_provider::TimeProvider;
use rustls::{CertificateError, DigitallySignedStruct, Error, SignatureScheme};
use sha2::{Digest, Sha256};
use webpki::{EndEntityCert, KeyUsage};

/// Most roots of the owner's that a chain is checked with. Only those are kept that the chain's certificates name as their issuer.
const ROOTS_MAX: usize = 32;
/// Most pinned keys: one in use and one to come, for some servers.
pub const PINS_MAX: usize = 16;
/// Most certificates of ours that are shown: itself and its issuers.
#[cfg(feature = "client-auth")]
const CLIENT_CHAIN_MAX: usize = 8;
/// Most bytes that are kept of a certificate's name.
const NAME_MAX: usize = 64;

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
    /// Whether another certificate of the chain is the reason of the refusal: the times are then that one's.
    pub is_issuers: bool,
    /// Bits of the RSA key that is the reason of the refusal.
    pub rsa_bits: u32,
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

    /// Trusts the certificates of a PEM file as roots, and as servers by themselves. The file is read anew for each chain, by the process
    /// that checks it.
    pub fn add_ca(&mut self, file: File) {
        Arc::make_mut(&mut self.0).ca.push(Arc::new(file));
    }

    /// Trusts no built-in root.
    pub fn drop_built_in(&mut self) {
        Arc::make_mut(&mut self.0).has_no_built_in = true;
    }

    /// Trusts the server whose public key (`SubjectPublicKeyInfo`) has this SHA-256: `sha256:BASE64`, or as curl writes it,
    /// `sha256//BASE64`, several with `;` between them. Once there is a pin, the key alone counts: neither issuer, name nor time. A pin
    /// that cannot be read is one that no key has.
    pub fn pin(&mut self, text: &str) -> Result<(), TlsError> {
        let policy = Arc::make_mut(&mut self.0);
        policy.is_pinned = true;
        let mut result = Ok(());
        for pin in text.split(';') {
            let digest = pin.strip_prefix("sha256").and_then(|rest| rest.strip_prefix(':').or(rest.strip_prefix("//")));
            match digest.and_then(base64_digest) {
                Some(digest) if policy.pins.len() < PINS_MAX => policy.pins.push(digest),
                Some(_) => return Err(TlsError::TooLarge),
                None => result = Err(TlsError::BadPin),
            }
        }
        policy.has_bad_pin |= result.is_err();
        result
    }

    /// Trusts whoever answers, unless there are pins.
    pub fn accept_any(&mut self) {
        Arc::make_mut(&mut self.0).is_insecure = true;
    }

    /// Shows servers that ask for one a certificate of ours: the PEM of it, followed by its issuers', and of its key.
    #[cfg(feature = "client-auth")]
    pub fn set_client(&mut self, cert: &File, key: &File) -> Result<(), TlsError> {
        let (mut chain, mut is_broken) = (Vec::new(), false);
        let read = blocks(cert, &mut |label, der| {
            match der {
                _ if label != Label::Certificate => {}
                Some(der) if chain.len() < CLIENT_CHAIN_MAX => chain.push(CertificateDer::from(der.to_vec())),
                Some(_) => {}
                None => is_broken = true,
            }
            true
        });
        if read.is_err() || is_broken || chain.is_empty() {
            return Err(TlsError::BadClientCertificate);
        }
        let mut found = None;
        let _ = blocks(key, &mut |label, der| {
            found = der.and_then(|der| client_key(label, der));
            found.is_none()
        });
        let client = found.and_then(|key| certified(chain, key)).ok_or(TlsError::BadClientKey)?;
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
        cfg!(feature = "net-extra") && !self.0.is_pinned && !self.0.is_insecure
    }

    /// Whether a time that was told would be used in place of the clock's, were it known.
    pub fn believes_dates(&self) -> bool {
        cfg!(feature = "net-extra") && self.0.clock.is_lenient && self.0.clock.told_s == 0
    }

    /// Whether a server has told the time.
    pub fn knows_the_date(&self) -> bool {
        self.0.clock.told_s != 0
    }

    /// A check of one connection's certificate.
    pub(super) fn verifier(&self) -> Verifier {
        Verifier { policy: self.0.clone(), seen: OnceBox::new(), is_client_asked: AtomicBool::new(false) }
    }
}

/// What a PEM file holds that is to be trusted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Scan {
    /// Number of certificates that are trusted.
    pub usable: u16,
    /// Number of those that cannot be read, or that OpenSSL's settings keep from servers.
    pub unusable: u16,
    /// Whether the file was read to its end.
    pub is_whole: bool,
}

/// Looks through a PEM file as a check of a chain does.
pub fn scan(file: &File) -> Result<Scan, Errno> {
    let mut scan = Scan { usable: 0, unusable: 0, is_whole: true };
    scan.is_whole = blocks(file, &mut |label, der| {
        if label == Label::Certificate {
            let is_usable = der.is_some_and(|der| anchor(der).is_some());
            let count = if is_usable { &mut scan.usable } else { &mut scan.unusable };
            *count = count.saturating_add(1);
        }
        true
    })?;
    Ok(scan)
}

/// A certificate's parts (RFC 5280 section 4.1), found without a look at what they say: of any version, and whatever is wrong with it.
pub(in crate::net) struct Certificate<'a> {
    issuer: &'a [u8],
    validity: Der<'a>,
    subject: &'a [u8],
    /// `SubjectPublicKeyInfo`, whole.
    pub(in crate::net) key: &'a [u8],
    extensions: Der<'a>,
    /// Whether nothing stands beside these parts, so that no extension is overlooked.
    is_whole: bool,
}

impl<'a> Certificate<'a> {
    pub(in crate::net) fn read(der: &'a [u8]) -> Option<Self> {
        let mut body = Der(der).enter(SEQUENCE)?.enter(SEQUENCE)?;
        body.take(VERSION);
        body.take(INTEGER)?;
        body.take(SEQUENCE)?;
        let issuer = body.take(SEQUENCE)?;
        let validity = body.enter(SEQUENCE)?;
        let subject = body.take(SEQUENCE)?;
        let key = body.whole(SEQUENCE)?;
        body.take(ISSUER_ID);
        body.take(SUBJECT_ID);
        let mut all = body.enter(EXTENSIONS);
        let extensions = all.as_mut().and_then(|all| all.enter(SEQUENCE)).unwrap_or(Der(&[]));
        // What could not be entered is still there.
        let is_whole = body.is_empty() && all.is_none_or(|all| all.is_empty());
        Some(Self { issuer, validity, subject, key, extensions, is_whole })
    }

    /// The value of an extension.
    fn extension(&self, oid: &[u8]) -> Option<Der<'a>> {
        let mut extensions = self.extensions;
        while let Some(mut extension) = extensions.enter(SEQUENCE) {
            if extension.take(OID) == Some(oid) {
                extension.take(BOOLEAN);
                return extension.enter(OCTET_STRING);
            }
        }
        None
    }

    /// See [`refused_rsa_bits`].
    fn refused_rsa_bits(&self) -> Option<usize> {
        refused_rsa_bits(Der(self.key).enter(SEQUENCE)?)
    }
}

/// The root that the owner's certificate stands for (RFC 5280 section 6.1.1). webpki's own function would be a second copy of its
/// parser, 3 KB. `None` for what is not read to its end: constraints in there would be overlooked.
fn anchor(der: &[u8]) -> Option<TrustAnchor<'_>> {
    let mut all = Der(der);
    let mut parts = all.enter(SEQUENCE)?;
    parts.take(SEQUENCE)?;
    parts.take(SEQUENCE)?;
    parts.take(BIT_STRING)?;
    let cert = Certificate::read(der).filter(|cert| cert.is_whole && parts.is_empty() && all.is_empty())?;
    let mut name_constraints = None;
    let mut extensions = cert.extensions;
    while !extensions.is_empty() {
        let mut extension = extensions.enter(SEQUENCE)?;
        let oid = extension.take(OID)?;
        extension.take(BOOLEAN);
        let mut value = extension.enter(OCTET_STRING).filter(|_| extension.is_empty())?;
        if oid == NAME_CONSTRAINTS && name_constraints.replace(value.take(SEQUENCE)?.into()).is_some() {
            return None;
        }
    }
    let subject_public_key_info = Der(cert.key).take(SEQUENCE)?.into();
    Some(TrustAnchor { subject: cert.subject.into(), subject_public_key_info, name_constraints })
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
        let mut cert = Certificate::read(der)?;
        self.not_before_s = time(&mut cert.validity).unwrap_or_default();
        self.not_after_s = time(&mut cert.validity).unwrap_or_default();
        self.is_self_signed = cert.issuer == cert.subject;
        if let Some(name) = common_name(Der(cert.subject)) {
            self.name = Name::new(name);
        }
        let mut names = cert.extension(SUBJECT_ALT_NAME)?;
        self.has_alternative_names = true;
        let mut names = names.enter(SEQUENCE)?;
        while let Some((tag, value)) = names.any() {
            if tag == DNS_NAME {
                self.name = Name::new(value);
                break;
            }
        }
        Some(())
    }
}

#[derive(Clone, Default)]
struct Policy {
    /// PEM files of roots.
    ca: Vec<Arc<File>>,
    has_no_built_in: bool,
    /// Whether keys alone count; those are `pins`, which may be empty.
    is_pinned: bool,
    /// Whether one of them could not be read.
    has_bad_pin: bool,
    /// SHA-256 of each key that is trusted.
    pins: Vec<[u8; 32]>,
    is_insecure: bool,
    clock: Clock,
    client: Option<Arc<CertifiedKey>>,
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

/// What the owner's files hold for one chain.
#[derive(Default)]
struct Owners {
    /// Those roots that a certificate of the chain names as its issuer.
    roots: Vec<TrustAnchor<'static>>,
    /// Whether the server's certificate itself is there.
    has_server: bool,
}

/// What a server sent.
struct Chain<'a> {
    end_entity: &'a CertificateDer<'a>,
    cert: EndEntityCert<'a>,
    intermediates: &'a [CertificateDer<'a>],
    owners: Owners,
}

impl Policy {
    /// Whether nothing of a certificate counts.
    fn accepts_any(&self) -> bool {
        self.is_insecure && !self.is_pinned
    }

    fn check(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        facts: &mut CertFacts,
    ) -> Result<(), TlsError> {
        let (now_s, other_s) = self.clock.times(realtime_s());
        facts.now_s = now_s;
        if self.accepts_any() {
            return Ok(());
        }
        let parts = Certificate::read(end_entity).ok_or(TlsError::BadCertificate)?;
        if self.is_pinned && !self.pins.contains(&Sha256::digest(parts.key).into()) {
            return Err(if self.has_bad_pin { TlsError::BadPin } else { TlsError::WrongPin });
        }
        if let Some(bits) = parts.refused_rsa_bits() {
            facts.rsa_bits = bits as u32;
            return Err(TlsError::KeySize);
        }
        if self.is_pinned {
            return Ok(());
        }
        let chain = Chain {
            end_entity,
            cert: EndEntityCert::try_from(end_entity).map_err(|error| refusal(error, facts))?,
            intermediates,
            owners: self.owners(end_entity, intermediates),
        };
        let mut result = self.check_at(now_s, &chain, facts);
        if let (Err(TlsError::Expired), Some(other_s)) = (result, other_s) {
            let mut anew = *facts;
            if self.check_at(other_s, &chain, &mut anew).is_ok() {
                (*facts, result) = (anew, Ok(()));
                facts.now_s = other_s;
            }
        }
        result?;
        chain.cert.verify_is_valid_for_subject_name(name).map_err(|error| refusal(error, facts))
    }

    /// Looks through the owner's files for what this chain needs.
    fn owners(&self, end_entity: &CertificateDer<'_>, intermediates: &[CertificateDer<'_>]) -> Owners {
        let sent = core::iter::once(end_entity).chain(intermediates);
        let issuers: Vec<&[u8]> = sent.filter_map(|der| Certificate::read(der)).map(|cert| cert.issuer).collect();
        let mut owners = Owners::default();
        for file in &self.ca {
            // What cannot be read is not trusted. That it cannot was said before.
            let _ = blocks(file, &mut |label, der| {
                let Some(der) = der.filter(|_| label == Label::Certificate) else { return true };
                owners.has_server |= der == &**end_entity;
                if let Some(root) = anchor(der)
                    && issuers.contains(&root.subject.as_ref())
                    && owners.roots.len() < ROOTS_MAX
                {
                    owners.roots.push(root.to_owned());
                }
                true
            });
        }
        owners
    }

    /// Checks at this time the certificate itself, if it was added, else its chain.
    fn check_at(&self, now_s: u64, chain: &Chain<'_>, facts: &mut CertFacts) -> Result<(), TlsError> {
        // The owner handed us this very certificate. webpki never takes one that is its own root.
        if chain.owners.has_server {
            return match now_s {
                now if now < facts.not_before_s => Err(TlsError::NotYetValid),
                now if now > facts.not_after_s => Err(TlsError::Expired),
                _ => Ok(()),
            };
        }
        let now = UnixTime::since_unix_epoch(Duration::from_secs(now_s));
        // Alone first, with nothing that it could be signed by: what is wrong then is its own fault.
        match chain.verify(&[], &[], now) {
            Err(webpki::Error::UnknownIssuer) | Ok(()) => {}
            Err(error) => return Err(refusal(error, facts)),
        }
        let mut result = Err(TlsError::UnknownIssuer);
        for is_owners in [true, false] {
            // Those of the owner first: where they do, the others are not read.
            let others;
            let roots = match is_owners {
                true => &chain.owners.roots,
                false if self.has_no_built_in => break,
                false => {
                    others = built_in();
                    &others
                }
            };
            result = match chain.verify(roots, chain.intermediates, now) {
                Ok(()) => return Ok(()),
                Err(webpki::Error::UnknownIssuer) => result,
                Err(error) => Err(chain.refusal(error, facts)),
            };
        }
        match result {
            Err(TlsError::UnknownIssuer) if facts.is_self_signed => Err(TlsError::SelfSigned),
            other => other,
        }
    }
}

impl Chain<'_> {
    fn verify(
        &self,
        roots: &[TrustAnchor<'_>],
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), webpki::Error> {
        let usage = KeyUsage::server_auth();
        self.cert.verify_for_usage(ALGORITHMS.all, roots, intermediates, now, usage, None, None).map(|_| ())
    }

    /// Why a chain is refused whose first certificate, alone, has no fault.
    fn refusal(&self, error: webpki::Error, facts: &mut CertFacts) -> TlsError {
        facts.is_issuers = true;
        match refusal(error, facts) {
            TlsError::BadSignature => {
                // The signature of an issuer whose key is refused is never computed.
                let owners = self.owners.roots.iter().map(|root| Der(&root.subject_public_key_info));
                let keys = owners.filter_map(refused_rsa_bits);
                match keys.chain(self.issuers().filter_map(|cert| cert.refused_rsa_bits())).next() {
                    Some(bits) => {
                        facts.rsa_bits = bits as u32;
                        TlsError::KeySize
                    }
                    None => TlsError::BadSignature,
                }
            }
            TlsError::NameConstraint => {
                let owners = self.owners.roots.iter().filter_map(|root| root.name_constraints.as_deref().map(Der));
                let sent = self.issuers().filter_map(|cert| cert.extension(NAME_CONSTRAINTS)?.enter(SEQUENCE));
                match owners.chain(sent).any(constrains_directory_names) {
                    true => TlsError::DirectoryConstraint,
                    false => TlsError::NameConstraint,
                }
            }
            error => error,
        }
    }

    /// The certificates that were sent and that another one names as its issuer.
    fn issuers(&self) -> impl Iterator<Item = Certificate<'_>> {
        let sent =
            || core::iter::once(self.end_entity).chain(self.intermediates).filter_map(|der| Certificate::read(der));
        let is_named = move |cert: &Certificate<'_>| sent().any(|other| other.issuer == cert.subject);
        self.intermediates.iter().filter_map(|der| Certificate::read(der)).filter(is_named)
    }
}

/// Whether name constraints (RFC 5280 section 4.2.1.10) speak of `directoryName`, which webpki refuses for every certificate.
fn constrains_directory_names(mut constraints: Der<'_>) -> bool {
    /// `[4]` of `GeneralName`.
    const DIRECTORY_NAME: u8 = 0xa4;
    while let Some((_, subtrees)) = constraints.any() {
        let mut subtrees = Der(subtrees);
        while let Some(mut subtree) = subtrees.enter(SEQUENCE) {
            if subtree.take(DIRECTORY_NAME).is_some() {
                return true;
            }
        }
    }
    false
}

/// The check of one connection's certificate; afterwards, what was seen.
pub(super) struct Verifier {
    policy: Arc<Policy>,
    seen: OnceBox<Seen>,
    /// Whether the server asked for a certificate of ours.
    is_client_asked: AtomicBool,
}

/// What a certificate said of itself, and why it was refused, if it was.
pub(super) struct Seen {
    pub(super) facts: CertFacts,
    pub(super) refusal: Option<TlsError>,
}

impl Verifier {
    /// What a server that refuses us says by that, where it asked for a certificate of ours.
    pub(super) fn client_refusal(&self, alert: u8) -> Option<TlsError> {
        self.is_client_asked.load(Ordering::Relaxed).then_some(match self.policy.client {
            Some(_) => TlsError::ClientRefused(alert),
            None => TlsError::ClientWanted,
        })
    }

    /// What was seen of the end entity's certificate, once it came.
    pub(super) fn seen(&self) -> Option<&Seen> {
        self.seen.get()
    }
}

debug_nothing!(Verifier);

impl ResolvesClientCert for Verifier {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.is_client_asked.store(true, Ordering::Relaxed);
        self.policy.client.clone()
    }

    fn has_certs(&self) -> bool {
        self.policy.client.is_some()
    }
}

impl Verifier {
    /// Checks the handshake's signature by the key alone: what else the certificate says was looked at before, or does not count.
    fn verify_signature(
        &self,
        is_tls13: bool,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        // Where any key is accepted, a signature by one proves nothing.
        let is_valid = self.policy.accepts_any()
            || Certificate::read(cert)
                .and_then(|cert| verify(cert.key, signed.scheme, is_tls13, message, signed.signature()))
                .is_some();
        match is_valid {
            true => Ok(HandshakeSignatureValid::assertion()),
            false => Err(Error::InvalidCertificate(CertificateError::BadSignature)),
        }
    }
}

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
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verify_signature(false, message, cert, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verify_signature(true, message, cert, signed)
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
        TlsError::UnsupportedSignature
        | TlsError::KeySize
        | TlsError::OldCertificate
        | TlsError::CriticalExtension
        | TlsError::WrongUsage => CertificateError::InvalidPurpose,
        TlsError::WrongPin | TlsError::BadPin => CertificateError::ApplicationVerificationFailure,
        _ => CertificateError::BadEncoding,
    }
}

/// Our word for webpki's; a time that is the reason goes into `facts`.
fn refusal(error: webpki::Error, facts: &mut CertFacts) -> TlsError {
    use webpki::Error::*;
    match error {
        CertExpired { not_after, .. } => {
            facts.not_after_s = not_after.as_secs();
            TlsError::Expired
        }
        CertNotValidYet { not_before, .. } => {
            facts.not_before_s = not_before.as_secs();
            TlsError::NotYetValid
        }
        CertNotValidForName(_) => TlsError::WrongName,
        UnknownIssuer => TlsError::UnknownIssuer,
        CaUsedAsEndEntity if facts.is_self_signed => TlsError::SelfSigned,
        CaUsedAsEndEntity => TlsError::CaAsServer,
        EndEntityUsedAsCa => TlsError::IssuerNotCa,
        PathLenConstraintViolated => TlsError::PathLength,
        NameConstraintViolation => TlsError::NameConstraint,
        RequiredEkuNotFoundContext(_) | EmptyEkuExtension => TlsError::WrongUsage,
        InvalidSignatureForPublicKey => TlsError::BadSignature,
        UnsupportedCertVersion => TlsError::OldCertificate,
        UnsupportedCriticalExtension => TlsError::CriticalExtension,
        UnsupportedSignatureAlgorithmContext(_) | UnsupportedSignatureAlgorithmForPublicKeyContext(_) => {
            TlsError::UnsupportedSignature
        }
        MaximumSignatureChecksExceeded
        | MaximumPathBuildCallsExceeded
        | MaximumPathDepthExceeded
        | MaximumNameConstraintComparisonsExceeded => TlsError::TangledChain,
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
/// 2.5.29.30
const NAME_CONSTRAINTS: &[u8] = &[0x55, 0x1d, 0x1e];
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
    crate::escape::unbase64(text, &mut [0; 32])?.try_into().ok()
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
    crate::date::since_1970([year, month, day, hour, minute, second])
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
        crate::escape::base64(&digest, &mut text).unwrap();
        let text = std::str::from_utf8(&text).unwrap();
        let (colon, slashes) = (std::format!("sha256:{text}"), std::format!("sha256//{text}"));
        let two = std::format!("{slashes};{slashes}");
        for (pin, count) in [(&colon, 1), (&slashes, 1), (&colon.replace('=', ""), 1), (&two, 2)] {
            let mut trust = Trust::new();
            assert_eq!(trust.pin(pin), Ok(()), "{pin}");
            assert_eq!(trust.0.pins, vec![<[u8; 32]>::from(digest); count]);
        }
        let mut trust = Trust::new();
        assert_eq!(trust.pin(&std::format!("{colon};nonsense;{slashes}")), Err(TlsError::BadPin));
        assert_eq!(trust.0.pins.len(), 2);
        for bad in ["", "sha256:", "sha256", text, &colon[..49], &colon.replace('=', "A"), &std::format!("{colon};")] {
            let mut trust = Trust::new();
            assert_eq!(trust.pin(bad), Err(TlsError::BadPin), "{bad}");
            assert!(trust.0.is_pinned && trust.0.has_bad_pin, "{bad}");
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
