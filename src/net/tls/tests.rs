//! Handshakes with OpenSSL: every suite with every kind of certificate, and each refusal.

use super::*;
use crate::net::tls::pem::tests::file_of;
use crate::net::tls::trust::{Scan, scan};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::cell::{Cell, RefCell};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::string::{String, ToString};
use std::sync::OnceLock;
use std::time::Duration;
use std::{fs, thread};

/// Milliseconds that anything here may take.
const PATIENCE_MS: u64 = 20_000;

/// The plain transport of the tests.
struct Socket(TcpStream);

impl Transport for Socket {
    fn send(&mut self, bytes: &[u8], _: Deadline) -> Result<(), Error> {
        self.0.write_all(bytes).map_err(|_| Error::Net(NetError::Timeout))
    }

    fn recv(&mut self, buf: &mut [u8], deadline: Deadline) -> Result<usize, Error> {
        self.0.set_read_timeout(Some(Duration::from_millis(deadline.left_ms().max(1)))).unwrap();
        match self.0.read(buf) {
            Ok(len) => Ok(len),
            Err(e) if e.kind() == ErrorKind::ConnectionReset => Ok(0),
            Err(_) => Err(Error::Net(NetError::Timeout)),
        }
    }

    fn readable(&mut self) -> bool {
        self.0.set_nonblocking(true).unwrap();
        let result = self.0.peek(&mut [0]);
        self.0.set_nonblocking(false).unwrap();
        !matches!(result, Err(e) if e.kind() == ErrorKind::WouldBlock)
    }

    fn finish(&mut self) {
        let _ = self.0.shutdown(std::net::Shutdown::Write);
    }
}

/// A transport that ends, changes a byte or takes nothing for a moment.
struct Meddling {
    socket: Socket,
    /// Bytes that are received before the end.
    left: usize,
    /// The received byte, counted from the beginning, that is changed.
    flip: Option<usize>,
    came: usize,
    /// How often nothing is taken.
    stalls: Rc<Cell<usize>>,
    /// What was sent.
    said: Rc<RefCell<Vec<u8>>>,
}

impl Meddling {
    fn new(server: &Server) -> Self {
        Self {
            socket: server.socket(),
            left: usize::MAX,
            flip: None,
            came: 0,
            stalls: Rc::default(),
            said: Rc::default(),
        }
    }
}

impl Transport for Meddling {
    fn send(&mut self, bytes: &[u8], deadline: Deadline) -> Result<(), Error> {
        self.socket.send(bytes, deadline)
    }

    fn push(&mut self, bytes: &[u8], deadline: Deadline) -> Result<usize, Error> {
        if self.stalls.get() > 0 {
            self.stalls.set(self.stalls.get() - 1);
            return Ok(0);
        }
        // In small pieces, to see that all are sent.
        let piece = &bytes[..bytes.len().min(1000)];
        self.said.borrow_mut().extend_from_slice(piece);
        self.socket.send(piece, deadline).map(|()| piece.len())
    }

    fn recv(&mut self, buf: &mut [u8], deadline: Deadline) -> Result<usize, Error> {
        let len = buf.len().min(self.left - self.came);
        if len == 0 {
            return Ok(0);
        }
        let len = self.socket.recv(&mut buf[..len], deadline)?;
        if let Some(flip) = self.flip.and_then(|flip| flip.checked_sub(self.came)).filter(|flip| *flip < len) {
            buf[flip] ^= 0x10;
        }
        self.came += len;
        Ok(len)
    }

    fn readable(&mut self) -> bool {
        self.came == self.left || self.socket.readable()
    }

    fn finish(&mut self) {
        self.socket.finish();
    }
}

/// The folder with the certificates of `tests/harness/pki.sh`.
fn pki() -> &'static PathBuf {
    static DIR: OnceLock<PathBuf> = OnceLock::new();
    DIR.get_or_init(|| {
        let dir = std::env::temp_dir().join(std::format!("rdreport-pki-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/harness/pki.sh");
        let status = Command::new("sh").arg(script).arg(&dir).status().unwrap();
        assert!(status.success(), "see {}/pki.log", dir.display());
        dir
    })
}

fn pem(name: &str) -> Vec<u8> {
    fs::read(pki().join(std::format!("{name}.pem"))).unwrap()
}

fn trusting(name: &str) -> Trust {
    let mut trust = Trust::new();
    trust.add_ca(file_of(&pem(name)));
    trust
}

/// `openssl s_server` with a certificate, sending each line back reversed.
struct Server {
    child: Child,
    port: u16,
}

impl Server {
    fn new(cert: &str, args: &str) -> Self {
        let file = |end: &str| pki().join(std::format!("{cert}.{end}"));
        let mut child = Command::new("openssl")
            .args(["s_server", "-accept", "127.0.0.1:0"])
            .args((!args.contains("-www")).then_some("-rev"))
            .arg("-cert_chain")
            .args([file("pem"), "-cert".into(), file("pem"), "-key".into(), file("key")])
            .args(args.split_whitespace())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let accepts = lines.find_map(|line| line.unwrap().strip_prefix("ACCEPT ").map(ToString::to_string));
        let port = accepts.unwrap().rsplit(':').next().unwrap().parse().unwrap();
        thread::spawn(move || lines.count());
        Self { child, port }
    }

    fn socket(&self) -> Socket {
        Socket(TcpStream::connect(("127.0.0.1", self.port)).unwrap())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn patience() -> Deadline {
    Deadline::after_ms(PATIENCE_MS)
}

/// Connects, sends a line, reads it back, and says which version and suite it went over.
fn exchange(server: &Server, host: &str, trust: &Trust) -> Result<String, Error> {
    let mut socket = server.socket();
    let mut tls = Tls::connect(&mut socket, host, trust, &mut CertFacts::default(), patience())?;
    tls.send(b"hello\n", patience())?;
    let mut answer = Vec::new();
    while answer.len() < 6 {
        let mut buf = [0; 4];
        let len = tls.recv(&mut buf, patience())?;
        assert_ne!(len, 0);
        answer.extend_from_slice(&buf[..len]);
    }
    assert_eq!(answer, b"olleh\n");
    assert!(!tls.readable());
    let used = std::format!(
        "{:?} {:?} {:?}",
        tls.conn.protocol_version().unwrap(),
        tls.conn.negotiated_cipher_suite().unwrap().suite(),
        tls.conn.negotiated_key_exchange_group().unwrap().name(),
    );
    tls.finish();
    Ok(used)
}

/// The refusal of a server, and what its certificate said.
fn refused(server: &Server, host: &str, trust: &Trust) -> (TlsError, CertFacts) {
    let mut facts = CertFacts::default();
    let mut socket = server.socket();
    match Tls::connect(&mut socket, host, trust, &mut facts, patience()) {
        Ok(_) => panic!("{host} was not refused"),
        Err(Error::Tls(error)) => (error, facts),
        Err(other) => panic!("{other:?}"),
    }
}

#[test]
fn every_suite_of_tls13_with_every_certificate() {
    let trust = trusting("roots");
    for suite in ["TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"] {
        for cert in ["rsa", "rsa512", "rsapss", "p256", "p384", "p256by384", "chained"] {
            let server = Server::new(cert, &std::format!("-tls1_3 -ciphersuites {suite}"));
            let expected = std::format!("TLSv1_3 {} X25519", suite.replacen("TLS_", "TLS13_", 1));
            assert_eq!(exchange(&server, "localhost", &trust).as_deref(), Ok(&*expected), "{cert}");
        }
    }
}

#[cfg(feature = "tls12")]
#[test]
fn every_suite_of_tls12_with_every_certificate() {
    let trust = trusting("roots");
    for (kind, certs) in [("ECDSA", &["p256", "p384", "chained"][..]), ("RSA", &["rsa", "rsapss"])] {
        for (theirs, ours) in [
            ("AES128-GCM-SHA256", "AES_128_GCM_SHA256"),
            ("AES256-GCM-SHA384", "AES_256_GCM_SHA384"),
            ("CHACHA20-POLY1305", "CHACHA20_POLY1305_SHA256"),
        ] {
            for cert in certs {
                let server = Server::new(cert, &std::format!("-tls1_2 -cipher ECDHE-{kind}-{theirs}"));
                let expected = std::format!("TLSv1_2 TLS_ECDHE_{kind}_WITH_{ours} X25519");
                assert_eq!(exchange(&server, "localhost", &trust).as_deref(), Ok(&*expected), "{cert}");
            }
        }
    }
}

#[test]
fn every_signature_scheme() {
    let trust = trusting("roots");
    for (cert, schemes) in [
        ("rsa", &["RSA-PSS+SHA256", "RSA-PSS+SHA384", "RSA-PSS+SHA512"][..]),
        ("p256", &["ECDSA+SHA256"]),
        ("p384", &["ECDSA+SHA384"]),
    ] {
        for scheme in schemes {
            let server = Server::new(cert, &std::format!("-tls1_3 -sigalgs {scheme}"));
            assert!(exchange(&server, "localhost", &trust).is_ok(), "{scheme}");
        }
    }
    if cfg!(feature = "tls12") {
        for (cert, schemes) in [
            ("rsa", &["RSA+SHA256", "RSA+SHA384", "RSA+SHA512", "RSA-PSS+SHA256", "RSA-PSS+SHA512"][..]),
            ("p256", &["ECDSA+SHA256", "ECDSA+SHA384"]),
            ("p384", &["ECDSA+SHA256", "ECDSA+SHA384"]),
        ] {
            for scheme in schemes {
                let server = Server::new(cert, &std::format!("-tls1_2 -sigalgs {scheme}"));
                assert!(exchange(&server, "localhost", &trust).is_ok(), "{cert} {scheme}");
            }
        }
    }
}

#[test]
fn every_group_some_of_them_by_hello_retry_request() {
    let trust = trusting("ca");
    for (theirs, ours) in [("X25519", "X25519"), ("P-256", "secp256r1"), ("P-384", "secp384r1")] {
        for version in ["1_3", "1_2"] {
            if version == "1_2" && !cfg!(feature = "tls12") {
                continue;
            }
            let server = Server::new("p256", &std::format!("-tls{version} -groups {theirs}"));
            let used = exchange(&server, "localhost", &trust).unwrap();
            assert!(used.ends_with(ours), "{used}");
        }
    }
}

#[test]
fn addresses_are_names_too() {
    let server = Server::new("p256", "");
    for host in ["127.0.0.1", "::1", "::1%lo", "LOCALHOST"] {
        assert!(exchange(&server, host, &trusting("ca")).is_ok(), "{host}");
    }
    for host in ["127.0.0.2", "::2", "example.com"] {
        assert_eq!(refused(&server, host, &trusting("ca")).0, TlsError::WrongName, "{host}");
    }
    for host in ["", "a b", "[::1]", "-"] {
        assert_eq!(refused(&server, host, &trusting("ca")).0, TlsError::BadName, "{host}");
    }
}

#[test]
fn a_wildcard_is_for_one_label() {
    let server = Server::new("other", "");
    assert!(exchange(&server, "a.wild.example", &trusting("ca")).is_ok());
    for host in ["wild.example", "a.b.wild.example"] {
        assert_eq!(refused(&server, host, &trusting("ca")).0, TlsError::WrongName, "{host}");
    }
}

#[test]
fn refusals_say_what_is_wrong() {
    let trust = trusting("ca");
    for (cert, error, name) in [
        ("expired", TlsError::Expired, "localhost"),
        ("future", TlsError::NotYetValid, "localhost"),
        ("other", TlsError::WrongName, "other.example"),
        ("nosan", TlsError::WrongName, "localhost"),
        ("unknown", TlsError::UnknownIssuer, "localhost"),
        ("rsa", TlsError::UnknownIssuer, "localhost"),
        ("self", TlsError::SelfSigned, "localhost"),
        ("selfca", TlsError::SelfSigned, "localhost"),
        ("oldchain", TlsError::Expired, "localhost"),
        ("client", TlsError::WrongUsage, "localhost"),
    ] {
        let server = Server::new(cert, "");
        let (found, facts) = refused(&server, "localhost", &trust);
        assert_eq!((found, facts.name()), (error, name), "{cert}");
        assert!(facts.not_before_s < facts.not_after_s || facts.is_issuers, "{cert}");
        assert_eq!(facts.is_self_signed, cert.starts_with("self"), "{cert}");
        assert_eq!(facts.has_alternative_names, cert != "nosan", "{cert}");
        assert_eq!(facts.is_issuers, cert == "oldchain", "{cert}");
        if error == TlsError::Expired {
            // 2020-01-02T03:04:05Z
            assert_eq!(facts.not_after_s, 1_577_934_245, "{cert}");
        }
    }
}

#[test]
fn each_fault_of_a_chain_has_its_own_word() {
    for (cert, error, is_issuers) in [
        ("v1", TlsError::OldCertificate, false),
        ("asca", TlsError::CaAsServer, false),
        ("critical", TlsError::CriticalExtension, false),
        ("sha1", TlsError::UnsupportedSignature, true),
        ("rsa1024", TlsError::KeySize, false),
        ("rsa2047", TlsError::KeySize, false),
        ("weakca", TlsError::KeySize, true),
        ("notca", TlsError::IssuerNotCa, true),
        ("pathlen", TlsError::PathLength, true),
        ("onlycorp", TlsError::NameConstraint, true),
        ("directory", TlsError::DirectoryConstraint, true),
    ] {
        if !cfg!(feature = "rsa") && (cert.starts_with("rsa") || cert == "weakca") {
            continue;
        }
        let server = Server::new(cert, "-cipher DEFAULT@SECLEVEL=0");
        let (found, facts) = refused(&server, "localhost", &trusting("ca"));
        assert_eq!((found, facts.is_issuers), (error, is_issuers), "{cert}");
        let bits = if cert == "rsa2047" { 2047 } else { 1024 };
        assert_eq!(facts.rsa_bits, if error == TlsError::KeySize { bits } else { 0 }, "{cert}");
        // Of all that, nothing counts with the key's pin, or where anybody is accepted: but the key must be one that can be used.
        let mut trust = Trust::new();
        trust.accept_any();
        assert!(exchange(&server, "localhost", &trust).is_ok(), "{cert}");
        trust.pin(&pin_of(cert)).unwrap();
        match exchange(&server, "localhost", &trust) {
            Err(Error::Tls(TlsError::KeySize)) if cert.starts_with("rsa") => {}
            result => assert!(result.is_ok(), "{cert}: {result:?}"),
        }
    }
}

#[test]
fn certificates_of_version_1() {
    // Its own `ca`: it names no host. A root, without extensions, is one.
    assert_eq!(refused(&Server::new("v1", ""), "localhost", &trusting("v1")).0, TlsError::OldCertificate);
    assert!(exchange(&Server::new("byv1", ""), "localhost", &trusting("v1ca")).is_ok());
}

#[test]
fn a_signature_by_another_key_is_none() {
    let der = rustls::pki_types::CertificateDer::from_pem_slice(&pem("v1")).unwrap();
    let key = crate::net::tls::trust::Certificate::read(&der).unwrap().key;
    for scheme in [rustls::SignatureScheme::ECDSA_NISTP256_SHA256, rustls::SignatureScheme::RSA_PSS_SHA256] {
        for is_tls13 in [true, false] {
            assert_eq!(
                crate::net::tls::crypto::verify(key, scheme, is_tls13, b"message", &[0x30, 6, 2, 1, 1, 2, 1, 1]),
                None
            );
        }
    }
}

#[test]
fn a_pin_that_cannot_be_read_is_no_server_s() {
    let server = Server::new("p256", "");
    let mut trust = trusting("ca");
    assert_eq!(trust.pin("sha256:AAAA"), Err(TlsError::BadPin));
    trust.accept_any();
    assert_eq!(refused(&server, "localhost", &trust).0, TlsError::BadPin);
    trust.pin(&pin_of("p256")).unwrap();
    assert!(exchange(&server, "localhost", &trust).is_ok());
}

#[test]
fn what_openssl_keeps_beside_a_certificate() {
    let server = Server::new("p256", "");
    assert!(exchange(&server, "localhost", &trusting("ca-trusted")).is_ok());
    assert_eq!(refused(&server, "localhost", &trusting("ca-rejected")).0, TlsError::UnknownIssuer);
}

#[cfg(feature = "tls12")]
#[test]
fn the_server_is_told_why() {
    for (cert, alert) in [("expired", 45), ("unknown", 48), ("other", 42)] {
        let server = Server::new(cert, "-tls1_2");
        let mut plain = Meddling::new(&server);
        let said = plain.said.clone();
        let result = Tls::connect(&mut plain, "localhost", &trusting("ca"), &mut CertFacts::default(), patience());
        assert!(result.is_err());
        // In TLS 1.2 the alert goes in the clear: fatal, and its number.
        assert!(said.borrow().ends_with(&[21, 3, 3, 0, 2, 2, alert]), "{cert} {:x?}", said.borrow());
    }
}

#[test]
fn the_built_in_roots_alone_trust_none_of_ours() {
    let server = Server::new("p256", "");
    assert_eq!(refused(&server, "localhost", &Trust::new()).0, TlsError::UnknownIssuer);
}

#[test]
fn a_certificate_that_was_added_is_trusted_by_itself() {
    for cert in ["self", "selfca", "unknown"] {
        let server = Server::new(cert, "");
        assert!(exchange(&server, "localhost", &trusting(cert)).is_ok(), "{cert}");
        assert_eq!(refused(&server, "example.com", &trusting(cert)).0, TlsError::WrongName, "{cert}");
    }
    for (cert, error) in [("expired", TlsError::Expired), ("future", TlsError::NotYetValid)] {
        let server = Server::new(cert, "");
        assert_eq!(refused(&server, "localhost", &trusting(cert)).0, error);
    }
}

/// The pin of a certificate's key, made by openssl and coreutils alone.
fn pin_of(cert: &str) -> String {
    let command =
        "openssl x509 -in $0 -pubkey -noout | openssl pkey -pubin -outform der | openssl dgst -sha256 -binary | base64";
    let output = Command::new("sh").args(["-c", command]).arg(pki().join(std::format!("{cert}.pem"))).output().unwrap();
    std::format!("sha256:{}", std::str::from_utf8(&output.stdout).unwrap().trim())
}

#[test]
fn with_a_pin_the_key_alone_counts() {
    for cert in ["p256", "rsa", "expired", "other", "unknown", "selfca"] {
        let server = Server::new(cert, "");
        let mut trust = Trust::new();
        trust.pin(&pin_of("p384")).unwrap();
        assert_eq!(refused(&server, "localhost", &trust).0, TlsError::WrongPin, "{cert}");
        trust.pin(&pin_of(cert)).unwrap();
        assert!(exchange(&server, "localhost", &trust).is_ok(), "{cert}");
    }
    // Another key is refused though its chain is trusted.
    let mut trust = trusting("ca");
    trust.pin(&pin_of("p384")).unwrap();
    assert_eq!(refused(&Server::new("p256", ""), "localhost", &trust).0, TlsError::WrongPin);
}

#[test]
fn any_certificate_is_accepted_when_asked_for() {
    let mut trust = Trust::new();
    trust.accept_any();
    for cert in ["expired", "other", "unknown", "selfca"] {
        assert!(exchange(&Server::new(cert, ""), "localhost", &trust).is_ok(), "{cert}");
    }
    // As with curl, a pin is stronger.
    trust.pin(&pin_of("p384")).unwrap();
    assert_eq!(refused(&Server::new("p256", ""), "localhost", &trust).0, TlsError::WrongPin);
}

#[test]
fn old_versions_and_nothing_in_common() {
    let trust = trusting("roots");
    let server = Server::new("p256", "-tls1_1 -cipher DEFAULT@SECLEVEL=0");
    assert_eq!(refused(&server, "localhost", &trust).0, TlsError::OldVersion);
    let server = Server::new("p256", "-tls1_3 -groups P-521");
    assert_eq!(refused(&server, "localhost", &trust).0, TlsError::NothingInCommon);
    let server = Server::new("rsa", "-tls1_2 -cipher AES128-SHA");
    let expected = if cfg!(feature = "tls12") { TlsError::NothingInCommon } else { TlsError::OldVersion };
    assert_eq!(refused(&server, "localhost", &trust).0, expected);
}

#[test]
fn a_client_certificate_that_is_asked_for_and_missing() {
    let server = Server::new("p256", "-tls1_3 -Verify 1");
    let mut socket = server.socket();
    let mut tls =
        Tls::connect(&mut socket, "localhost", &trusting("ca"), &mut CertFacts::default(), patience()).unwrap();
    // In TLS 1.3 the refusal comes after our side of the handshake is done: certificate_required.
    assert_eq!(tls.recv(&mut [0; 8], patience()), Err(Error::Tls(TlsError::ClientWanted)));
    assert_eq!(tls.recv(&mut [0; 8], patience()), Err(Error::Tls(TlsError::ClientWanted)));
}

#[cfg(feature = "client-auth")]
#[test]
fn a_client_certificate_is_shown() {
    let read = |name: &str| fs::read(pki().join(name)).unwrap();
    for version in ["1_3", "1_2"] {
        if version == "1_2" && !cfg!(feature = "tls12") {
            continue;
        }
        let asking = std::format!("-tls{version} -Verify 2 -verify_return_error -CAfile {}/ca.pem", pki().display());
        for (cert, key, schemes) in [
            ("client.pem", "client.key", ""),
            ("client.pem", "client-sec1.key", ""),
            ("clientrsa.pem", "clientrsa.key", ""),
            ("clientrsa.pem", "clientrsa-pkcs1.key", "-client_sigalgs RSA-PSS+SHA256"),
            ("clientrsa.pem", "clientrsa.key", "-client_sigalgs RSA+SHA256"),
        ] {
            if cert == "clientrsa.pem" && !cfg!(feature = "client-auth-rsa") {
                continue;
            }
            if version == "1_3" && schemes.ends_with("RSA+SHA256") {
                continue; // RFC 8446 section 4.4.3: not in handshakes
            }
            let mut trust = trusting("ca");
            assert_eq!(trust.set_client(&file_of(&read(cert)), &file_of(&read(key))), Ok(()), "{cert} {key}");
            let server = Server::new("p256", &std::format!("{asking} {schemes}"));
            assert!(exchange(&server, "localhost", &trust).is_ok(), "{version} {cert} {key} {schemes}");
        }
        // One that the server's CA has not signed.
        let mut trust = trusting("ca");
        trust.set_client(&file_of(&read("self.pem")), &file_of(&read("self.key"))).unwrap();
        let result = exchange(&Server::new("p256", &asking), "localhost", &trust);
        assert!(matches!(result, Err(Error::Tls(TlsError::ClientRefused(_)))), "{result:?}");
    }
}

#[cfg(feature = "client-auth")]
#[test]
fn client_keys_that_cannot_be_used() {
    let read = |name: &str| fs::read(pki().join(name)).unwrap();
    for (cert, key, error) in [
        ("client.key", "client.key", TlsError::BadClientCertificate),
        ("client.pem", "client.pem", TlsError::BadClientKey),
        ("client.pem", "clientrsa.key", TlsError::BadClientKey),
        ("clientrsa.pem", "client.key", TlsError::BadClientKey),
        ("client.pem", "self.key", TlsError::BadClientKey),
        ("clientrsa.pem", "rsaca.key", TlsError::BadClientKey),
        ("p384.pem", "p384.key", TlsError::BadClientKey),
    ] {
        assert_eq!(Trust::new().set_client(&file_of(&read(cert)), &file_of(&read(key))), Err(error), "{cert} {key}");
    }
    // Keys that are cut or changed: nothing may panic.
    let (cert, key) = match cfg!(feature = "client-auth-rsa") {
        true => (read("clientrsa.pem"), read("clientrsa-pkcs1.key")),
        false => (read("client.pem"), read("client.key")),
    };
    for at in (60..key.len() - 40).step_by(7) {
        let mut changed = key.clone();
        changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
        let result = Trust::new().set_client(&file_of(&cert), &file_of(&changed));
        assert!(matches!(result, Ok(()) | Err(TlsError::BadClientKey)), "{at}");
        assert!(Trust::new().set_client(&file_of(&cert), &file_of(&key[..at])).is_err(), "{at}");
    }
}

#[test]
fn what_pem_files_hold() {
    let holds = |text: &[u8]| {
        let Scan { usable, unusable, is_whole } = scan(&file_of(text)).unwrap();
        assert!(is_whole);
        (usable, unusable)
    };
    assert_eq!(holds(b""), (0, 0));
    assert_eq!(holds(&fs::read(pki().join("p256.key")).unwrap()), (0, 0));
    let bad = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    assert_eq!(holds(bad), (0, 1));
    let cut = pem("ca");
    assert_eq!(holds(&cut[..cut.len() / 2]), (0, 1));
    assert_eq!(holds(&pem("roots")), (3, 0));
    assert_eq!(holds(&[&pem("roots"), &bad[..], &pem("roots"), bad].concat()), (6, 2));
    assert_eq!(
        scan(&crate::sys::file::Root::new(None).unwrap().file("/tmp").unwrap()).err(),
        Some(crate::sys::Errno::ISDIR)
    );
}

#[test]
fn an_issuer_is_found_in_a_whole_system_s_bundle() {
    let many: Vec<u8> = [pem("stranger").repeat(200), pem("roots"), pem("stranger").repeat(200)].concat();
    assert!(many.len() > 220 << 10);
    let server = Server::new("p256", "");
    let mut trust = Trust::new();
    trust.add_ca(file_of(&many));
    trust.drop_built_in();
    assert!(exchange(&server, "localhost", &trust).is_ok());
    let mut trust = Trust::new();
    trust.add_ca(file_of(&pem("stranger").repeat(400)));
    assert_eq!(refused(&server, "localhost", &trust).0, TlsError::UnknownIssuer);
}

/// A handshake, a line and its answer over a meddling transport; how many bytes came in all.
fn meddled(plain: &mut Meddling, trust: &Trust) -> Result<usize, Error> {
    let deadline = Deadline::after_ms(2_000);
    let mut answer = Vec::new();
    let mut tls = Tls::connect(plain, "localhost", trust, &mut CertFacts::default(), deadline)?;
    tls.send(b"hello\n", deadline)?;
    while answer.len() < 6 {
        let mut buf = [0; 16];
        match tls.recv(&mut buf, deadline)? {
            0 => panic!("an end that nobody said"),
            len => answer.extend_from_slice(&buf[..len]),
        }
    }
    assert_eq!(answer, b"olleh\n");
    tls.finish();
    Ok(plain.came)
}

#[test]
fn an_end_without_close_notify_is_no_end() {
    let trust = trusting("rsaca");
    for version in ["1_3", "1_2"] {
        if version == "1_2" && !cfg!(feature = "tls12") {
            continue;
        }
        // RSA, since its signatures are all of one length.
        let server = Server::new("rsa", &std::format!("-tls{version}"));
        let mut whole = Meddling::new(&server);
        let all = meddled(&mut whole, &trust).unwrap();
        let mut found = Vec::new();
        for left in (0..all).step_by(97).chain(all - 20..all) {
            let mut plain = Meddling { left, ..Meddling::new(&server) };
            let error = meddled(&mut plain, &trust).unwrap_err();
            assert!(matches!(error, Error::Tls(TlsError::HandshakeCut | TlsError::Truncated)), "{left}: {error:?}");
            if found.last() != Some(&error) {
                found.push(error);
            }
        }
        // First the handshake is cut, then, within a record or between two, what was said.
        assert_eq!(found, [Error::Tls(TlsError::HandshakeCut), Error::Tls(TlsError::Truncated)]);
    }
}

#[test]
fn a_server_that_dies_within_its_answer() {
    let server = Server::new("p256", "");
    let mut socket = server.socket();
    let mut tls =
        Tls::connect(&mut socket, "localhost", &trusting("ca"), &mut CertFacts::default(), patience()).unwrap();
    tls.send(b"a\n", patience()).unwrap();
    assert_eq!(tls.recv(&mut [0; 2], patience()), Ok(2));
    drop(server);
    for _ in 0..2 {
        assert_eq!(tls.recv(&mut [0; 2], patience()), Err(Error::Tls(TlsError::Truncated)));
    }
    assert!(tls.readable());
}

#[test]
fn a_close_notify_is_an_end() {
    // -www answers with a page, and closes as it should.
    let server = Server::new("p256", "-www");
    let mut socket = server.socket();
    let mut tls =
        Tls::connect(&mut socket, "localhost", &trusting("ca"), &mut CertFacts::default(), patience()).unwrap();
    tls.send(b"GET / HTTP/1.0\r\n\r\n", patience()).unwrap();
    let mut page = Vec::new();
    let mut buf = [0; 100];
    loop {
        match tls.recv(&mut buf, patience()).unwrap() {
            0 => break,
            len => page.extend_from_slice(&buf[..len]),
        }
    }
    assert!(page.starts_with(b"HTTP/1.0 200") && page.len() > 1000);
    assert_eq!(tls.recv(&mut buf, patience()), Ok(0));
    assert!(tls.readable());
}

#[test]
fn a_changed_byte_is_noticed() {
    let trust = trusting("rsaca");
    let server = Server::new("rsa", "");
    let mut whole = Meddling::new(&server);
    let all = meddled(&mut whole, &trust).unwrap();
    for flip in (0..all).step_by(151).chain([all - 1, all - 10]) {
        let mut plain = Meddling { flip: Some(flip), left: all, ..Meddling::new(&server) };
        let error = meddled(&mut plain, &trust).unwrap_err();
        assert!(matches!(error, Error::Tls(_) | Error::Net(NetError::Timeout)), "{flip}: {error:?}");
        if flip >= all - 10 {
            assert_eq!(error, Error::Tls(TlsError::BadRecord));
        }
    }
}

#[test]
fn what_lies_unread_when_a_peer_takes_nothing() {
    let server = Server::new("p256", "-tls1_3");
    let mut plain = Meddling::new(&server);
    let (stalls, said, watch) = (plain.stalls.clone(), plain.said.clone(), plain.socket.0.try_clone().unwrap());
    let trust = trusting("ca");
    let mut tls = Tls::connect(&mut plain, "localhost", &trust, &mut CertFacts::default(), patience()).unwrap();
    let read = |tls: &mut Tls<'_>, len: usize| {
        let mut all = vec![0; len];
        let mut at = 0;
        while at < len {
            at += tls.recv(&mut all[at..], patience()).unwrap();
        }
        all
    };

    // Tickets: they are no answer, so what remains of the record is sent.
    watch.peek(&mut [0]).unwrap();
    stalls.set(1);
    tls.send(b"hello\n", patience()).unwrap();
    assert_eq!(stalls.get(), 0);
    assert_eq!(read(&mut tls, 6), b"olleh\n");

    // An answer: it is kept, and sending is over.
    tls.send(b"one\n", patience()).unwrap();
    watch.peek(&mut [0]).unwrap();
    stalls.set(1);
    assert_eq!(tls.send(b"two\n", patience()), Err(Error::Net(NetError::PeerSpoke)));
    assert!(tls.readable());
    assert_eq!(read(&mut tls, 4), b"eno\n");
    let before = said.borrow().len();
    tls.finish();
    assert_eq!(said.borrow().len(), before, "a close_notify within a record");
}

#[test]
fn content_of_any_length() {
    let server = Server::new("p256", "");
    let mut plain = Meddling::new(&server);
    let trust = trusting("ca");
    let mut tls = Tls::connect(&mut plain, "localhost", &trust, &mut CertFacts::default(), patience()).unwrap();
    // s_server reverses 16 KB at most; each line is a record or two.
    for len in [1, 2, 1_000, 16_000] {
        let line: Vec<u8> = (0..len - 1).map(|i| b'a' + (i % 23) as u8).chain([b'\n']).collect();
        tls.send(&line, patience()).unwrap();
        let mut back = vec![0; len];
        let mut at = 0;
        while at < len {
            at += tls.recv(&mut back[at..], patience()).unwrap();
        }
        let expected: Vec<u8> = line[..len - 1].iter().rev().copied().chain([b'\n']).collect();
        assert_eq!(back, expected);
    }
}

#[test]
fn chains_that_are_long_and_too_long() {
    let dir = pki();
    let inter = pem("inter");
    for (copies, result) in [(40, Ok(())), (250, Err(TlsError::TooLarge))] {
        let chain = dir.join(std::format!("long{copies}.pem"));
        fs::write(&chain, [pem("chained"), inter.repeat(copies)].concat()).unwrap();
        fs::copy(dir.join("chained.key"), dir.join(std::format!("long{copies}.key"))).unwrap();
        let server = Server::new(&std::format!("long{copies}"), "");
        let found = exchange(&server, "localhost", &trusting("ca")).map(|_| ());
        assert_eq!(found, result.map_err(Error::Tls), "{copies}");
    }
}

#[test]
fn servers_that_do_not_speak_tls() {
    for (words, expected) in [
        (&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], TlsError::NotTls),
        (b"220 mail.example ESMTP\r\n", TlsError::NotTls),
        (b"\x16\x03\x03\xff\xff\x00\x00", TlsError::BadRecord),
        (b"\x15\x03\x01\x00\x02\x02\x46", TlsError::OldVersion),
        (b"\x15\x03\x01\x00\x02\x02\x28", TlsError::NothingInCommon),
        (b"\x15\x03\x03\x00\x02\x02\x70", TlsError::Alert(112)),
        (b"", TlsError::HandshakeCut),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let peer = thread::spawn(move || {
            let mut stream = listener.accept().unwrap().0;
            let _ = stream.read(&mut [0; 1000]).unwrap();
            stream.write_all(words).unwrap();
            let _ = stream.shutdown(std::net::Shutdown::Write);
            let _ = stream.read_to_end(&mut Vec::new());
        });
        let mut socket = Socket(TcpStream::connect(address).unwrap());
        let result = Tls::connect(&mut socket, "localhost", &Trust::new(), &mut CertFacts::default(), patience());
        assert_eq!(result.err(), Some(Error::Tls(expected)), "{words:x?}");
        drop(socket);
        peer.join().unwrap();
    }
}

#[test]
fn a_server_that_never_answers() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut socket = Socket(TcpStream::connect(listener.local_addr().unwrap()).unwrap());
    let deadline = Deadline::after_ms(200);
    let result = Tls::connect(&mut socket, "localhost", &Trust::new(), &mut CertFacts::default(), deadline);
    assert_eq!(result.err(), Some(Error::Net(NetError::Timeout)));
}

#[test]
fn facts_of_mutilated_certificates() {
    let der = |name: &str| CertificateDer::from_pem_slice(&pem(name)).unwrap().to_vec();
    let facts = CertFacts::read(&der("nosan"));
    assert_eq!((facts.name(), facts.has_alternative_names, facts.is_self_signed), ("localhost", false, false));
    let facts = CertFacts::read(&der("future"));
    // 2120-01-01 and 2130-01-01
    assert_eq!((facts.not_before_s, facts.not_after_s), (4_733_510_400, 5_049_129_600));
    let whole = der("other");
    // A pseudo-random walk (xorshift) over cuts and changed bytes: nothing may panic, and names stay printable.
    let mut state = 88_172_645_463_325_252_u64;
    let mut next = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % below as u64).unwrap()
    };
    for _ in 0..20_000 {
        let mut bytes = whole.clone();
        bytes.truncate(next(whole.len() + 1));
        for _ in 0..next(4) {
            if !bytes.is_empty() {
                let at = next(bytes.len());
                bytes[at] = next(256) as u8;
            }
        }
        let facts = CertFacts::read(&bytes);
        assert!(facts.name().bytes().all(|b| (b' '..=b'~').contains(&b)));
    }
}
