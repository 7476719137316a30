//! Reading PEM files (RFC 7468) in pieces: the blocks of a file of any length, one at a time, in bounded memory.
//!
//! As lenient as OpenSSL, and a little more: a byte order mark, blanks before a line, CR, LF or both at its end, lines of any length, and
//! text between the blocks are passed over. A broken block costs itself alone.

use crate::net::tls::der::{Der, OID, SEQUENCE};
use crate::sys::Errno;
use crate::sys::file::File;
use alloc::vec::Vec;
use zeroize::Zeroizing;

/// Bytes that are read at once.
const PIECE: usize = 4096;
/// Most bytes of a block once decoded: certificates and keys are 0.3 to 3 KB, those with hundreds of names 10.
const BLOCK_MAX: usize = 16 * 1024;
/// Most bytes of a line that begins or ends a block; longer ones do neither.
const LABEL_MAX: usize = 64;
/// Most bytes of a file: 20 times a system's whole bundle.
pub(super) const FILE_MAX: u64 = 4 << 20;

/// What a block's label says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Label {
    /// An X.509 certificate.
    Certificate,
    /// A private key in PKCS#8.
    Pkcs8,
    /// A private key in SEC 1.
    Sec1,
    /// A private key in PKCS#1.
    Pkcs1,
}

/// Calls `visit` with each block of a certificate or an unencrypted key, until it wants no more: its label, and its DER, or `None` where
/// the block is broken. Returns whether the file was read to its end, which a file beyond [`FILE_MAX`] is not.
pub(super) fn blocks(file: &File, visit: &mut dyn FnMut(Label, Option<&[u8]>) -> bool) -> Result<bool, Errno> {
    let mut piece = Zeroizing::new([0; PIECE]);
    let mut reader = Reader::new();
    let mut at = 0;
    while at < FILE_MAX {
        let len = file.read_at(at, &mut *piece)?;
        for byte in piece.get(..len).unwrap_or_default() {
            if !reader.take(*byte, visit) {
                return Ok(true);
            }
        }
        at = at.saturating_add(len as u64);
        if len < PIECE {
            let _ = reader.take(b'\n', visit) && reader.end(visit);
            return Ok(true);
        }
    }
    Ok(file.size()? <= FILE_MAX)
}

/// What is known of the file up to some byte.
struct Reader {
    /// The beginning of this line, without the blanks before it.
    line: Vec<u8>,
    /// The block that this byte is in.
    block: Option<Block>,
    /// The block's bytes. Of full size from the beginning: a vector that grows would leave copies of a key behind.
    der: Zeroizing<Vec<u8>>,
}

struct Block {
    /// `None` for a block that nobody wants.
    label: Option<Label>,
    /// Whether OpenSSL's trust settings follow the certificate.
    has_settings: bool,
    is_broken: bool,
    /// Bits of base64 that are not a byte yet, and their number.
    bits: u32,
    held: u32,
    is_padded: bool,
}

impl Reader {
    fn new() -> Self {
        Self { line: Vec::with_capacity(LABEL_MAX), block: None, der: Zeroizing::new(Vec::with_capacity(BLOCK_MAX)) }
    }

    /// Takes the next byte; whether more is wanted.
    fn take(&mut self, byte: u8, visit: &mut dyn FnMut(Label, Option<&[u8]>) -> bool) -> bool {
        const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
        match byte {
            b'\r' | b'\n' => {
                let goes_on = self.line_ends(visit);
                self.line.clear();
                return goes_on;
            }
            b' ' | b'\t' if self.line.is_empty() => return true,
            // One more byte than the longest label, so that a longer line is not taken for one.
            _ if self.line.len() <= LABEL_MAX => self.line.push(byte),
            _ => {}
        }
        if self.line == BYTE_ORDER_MARK {
            self.line.clear();
        } else if self.line.first() != Some(&b'-')
            && let Some(block) = &mut self.block
        {
            block.take(byte, &mut self.der);
        }
        true
    }

    fn line_ends(&mut self, visit: &mut dyn FnMut(Label, Option<&[u8]>) -> bool) -> bool {
        let line = self.line.trim_ascii_end();
        if let Some(label) = line.strip_prefix(b"-----BEGIN ").and_then(|rest| rest.strip_suffix(b"-----")) {
            let block = Block::new(label);
            // A block that another one begins in has lost its end.
            let goes_on = self.end(visit);
            self.block = Some(block);
            return goes_on;
        }
        if line.starts_with(b"-----END ") && line.ends_with(b"-----") {
            return match self.block.take() {
                Some(block) => block.end(&mut self.der, visit),
                None => true,
            };
        }
        if let (Some(block), Some(b'-')) = (&mut self.block, line.first()) {
            block.is_broken = true;
        }
        true
    }

    /// Ends a block without its last line.
    fn end(&mut self, visit: &mut dyn FnMut(Label, Option<&[u8]>) -> bool) -> bool {
        let Some(mut block) = self.block.take() else { return true };
        block.is_broken = true;
        block.end(&mut self.der, visit)
    }
}

impl Block {
    fn new(label: &[u8]) -> Self {
        // One comparison at run time, and not one for each label.
        const KNOWN: [(&[u8], Label); 6] = [
            (b"CERTIFICATE", Label::Certificate),
            (b"X509 CERTIFICATE", Label::Certificate),
            (b"TRUSTED CERTIFICATE", Label::Certificate),
            (b"PRIVATE KEY", Label::Pkcs8),
            (b"EC PRIVATE KEY", Label::Sec1),
            (b"RSA PRIVATE KEY", Label::Pkcs1),
        ];
        let known = KNOWN.iter().find(|(known, _)| label == *known).map(|(_, known)| *known);
        Self {
            label: known,
            has_settings: known == Some(Label::Certificate) && label.starts_with(b"T"),
            is_broken: false,
            bits: 0,
            held: 0,
            is_padded: false,
        }
    }

    fn take(&mut self, byte: u8, der: &mut Vec<u8>) {
        let six = match byte {
            b' ' | b'\t' => return,
            b'=' => {
                self.is_padded = true;
                return;
            }
            byte => crate::escape::base64_value(byte).filter(|_| !self.is_padded && der.len() < BLOCK_MAX),
        };
        let Some(six) = six else {
            self.is_broken = true;
            return;
        };
        self.bits = self.bits << 6 | u32::from(six);
        self.held = self.held.saturating_add(6);
        if self.held >= 8 {
            self.held = self.held.saturating_sub(8);
            der.push((self.bits >> self.held) as u8);
            self.bits &= (1 << self.held) - 1;
        }
    }

    fn end(self, der: &mut Vec<u8>, visit: &mut dyn FnMut(Label, Option<&[u8]>) -> bool) -> bool {
        let Some(label) = self.label else {
            der.clear();
            return true;
        };
        let whole = Some(der.as_slice()).filter(|der| !self.is_broken && self.bits == 0 && !der.is_empty());
        let whole = if self.has_settings { whole.and_then(for_servers) } else { whole };
        let goes_on = visit(label, whole);
        der.clear();
        goes_on
    }
}

/// The certificate of a `TRUSTED CERTIFICATE`, behind which OpenSSL's settings say what it is trusted for and what not; none where a
/// server is not among it, or the settings cannot be read.
fn for_servers(der: &[u8]) -> Option<&[u8]> {
    /// `[0]` of `X509_CERT_AUX`: what it must not be used for.
    const REJECTED: u8 = 0xa0;
    let mut rest = Der(der);
    let cert = rest.whole(SEQUENCE)?;
    if rest.is_empty() {
        return Some(cert);
    }
    let mut settings = rest.enter(SEQUENCE)?;
    let trusted = settings.enter(SEQUENCE);
    let rejected = settings.enter(REJECTED);
    let is_trusted = trusted.is_none_or(names_servers);
    (is_trusted && !rejected.is_some_and(names_servers)).then_some(cert)
}

/// Whether a list of uses has that of a server, or any.
fn names_servers(mut uses: Der<'_>) -> bool {
    /// 1.3.6.1.5.5.7.3.1
    const SERVER_AUTH: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 3, 1];
    /// 2.5.29.37.0
    const ANY: &[u8] = &[0x55, 0x1d, 0x25, 0];
    while let Some(usage) = uses.take(OID) {
        if usage == SERVER_AUTH || usage == ANY {
            return true;
        }
    }
    false
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::sys::file::Root;
    use std::format;
    use std::string::String;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// An open file that holds `content`.
    pub(in crate::net) fn file_of(content: &[u8]) -> File {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("rdreport-pem-{}-{number}", std::process::id()));
        std::fs::write(&path, content).unwrap();
        let file = Root::new(None).unwrap().file(path.to_str().unwrap()).unwrap();
        std::fs::remove_file(path).unwrap();
        file
    }

    /// The blocks of a text, read from a file.
    fn read(text: &[u8]) -> Vec<(Label, Option<Vec<u8>>)> {
        let file = file_of(text);
        let mut found = Vec::new();
        let result = blocks(&file, &mut |label, der| {
            found.push((label, der.map(<[u8]>::to_vec)));
            true
        });
        assert_eq!(result, Ok(true));
        found
    }

    fn block(label: &str, body: &str) -> String {
        format!("-----BEGIN {label}-----\n{body}\n-----END {label}-----\n")
    }

    #[test]
    fn forms_of_one_block() {
        let plain = block("CERTIFICATE", "MAMC\nAQU=");
        let expected = [(Label::Certificate, Some(vec![0x30, 3, 2, 1, 5]))];
        for text in [
            plain.clone(),
            format!("\u{feff}{plain}"),
            plain.replace('\n', "\r\n"),
            plain.replace('\n', "\r"),
            plain.replace('\n', " \t\n"),
            plain.replace('\n', "\n   "),
            plain.replace('\n', "\n\n"),
            format!("Subject: CN=x\n-----\n{plain}\ntext"),
            String::from(plain.trim_end()),
            plain.replace("CERTIFICATE", "X509 CERTIFICATE"),
            plain.replace("CERTIFICATE", "TRUSTED CERTIFICATE"),
            block("CERTIFICATE", "MAMCAQU="),
            block("CERTIFICATE", "M A M C A Q U"),
            format!("{}{plain}", block("X509 CRL", "AAAA")),
            format!("-----BEGIN DH PARAMETERS-----\nAAAA\n{plain}"),
        ] {
            assert_eq!(read(text.as_bytes()), expected, "{text:?}");
        }
    }

    #[test]
    fn a_broken_block_costs_itself_alone() {
        let good = block("CERTIFICATE", "MAMCAQU=");
        for bad in [
            block("CERTIFICATE", "MA*C"),
            block("CERTIFICATE", ""),
            block("CERTIFICATE", "MAMCAQV="),
            block("CERTIFICATE", "MA==MCAQ"),
            block("CERTIFICATE", "MAMC\n-----\nAQU="),
            block("CERTIFICATE", &"A".repeat(BLOCK_MAX * 2)),
            String::from("-----BEGIN CERTIFICATE-----\nMAMCAQU=\n"),
        ] {
            let found = read(format!("{good}{bad}{good}").as_bytes());
            let whole: Vec<bool> = found.iter().map(|(_, der)| der.is_some()).collect();
            assert_eq!(whole, [true, false, true], "{bad:.80}");
        }
        assert_eq!(read(b"-----BEGIN CERTIFICATE-----\nMAMCAQU=\n"), [(Label::Certificate, None)]);
        assert_eq!(read(b"-----BEGIN CERTIFICATE-----"), [(Label::Certificate, None)]);
        assert_eq!(read(format!("{}-----BEGIN CERTIFICATE-----\n", "x".repeat(99)).as_bytes()), []);
    }

    #[test]
    fn labels() {
        for (label, found) in [
            ("PRIVATE KEY", Some(Label::Pkcs8)),
            ("EC PRIVATE KEY", Some(Label::Sec1)),
            ("RSA PRIVATE KEY", Some(Label::Pkcs1)),
            ("ENCRYPTED PRIVATE KEY", None),
            ("EC PARAMETERS", None),
            ("certificate", None),
        ] {
            let labels: Vec<Label> = read(block(label, "MAMCAQU=").as_bytes()).iter().map(|(l, _)| *l).collect();
            assert_eq!(labels.first().copied(), found, "{label}");
        }
        let encrypted = block("RSA PRIVATE KEY", "Proc-Type: 4,ENCRYPTED\n\nMAMCAQU=");
        assert_eq!(read(encrypted.as_bytes()), [(Label::Pkcs1, None)]);
    }

    #[test]
    fn what_openssl_trusts_a_certificate_for() {
        const CERT: &[u8] = &[0x30, 3, 2, 1, 5];
        let server = [&[6, 8][..], &[0x2b, 6, 1, 5, 5, 7, 3, 1]].concat();
        let mail = [&[6, 8][..], &[0x2b, 6, 1, 5, 5, 7, 3, 4]].concat();
        let tagged = |tag: u8, body: &[u8]| [&[tag, body.len() as u8], body].concat();
        for (settings, is_for_servers) in [
            (vec![], true),
            (tagged(0x30, &[]), true),
            (tagged(0x30, &tagged(0x30, &server)), true),
            (tagged(0x30, &tagged(0x30, &mail)), false),
            (tagged(0x30, &tagged(0x30, &[&mail[..], &server].concat())), true),
            (tagged(0x30, &tagged(0xa0, &server)), false),
            (tagged(0x30, &tagged(0xa0, &mail)), true),
            (tagged(0x30, &tagged(0x0c, b"alias")), true),
            (vec![1, 2, 3], false),
        ] {
            let der = [CERT, &settings].concat();
            assert_eq!(for_servers(&der), is_for_servers.then_some(CERT), "{settings:x?}");
        }
    }

    #[test]
    fn a_file_is_read_to_its_limit() {
        let good = block("CERTIFICATE", "MAMCAQU=");
        let count = |text: &[u8]| {
            let mut count = 0;
            let result = blocks(&file_of(text), &mut |_, der| {
                count += usize::from(der.is_some());
                true
            });
            (result, count)
        };
        // Across the pieces that are read.
        assert_eq!(count(good.repeat(1000).as_bytes()), (Ok(true), 1000));
        let large = format!("{good}{}{good}", " ".repeat(FILE_MAX as usize));
        assert_eq!(count(large.as_bytes()), (Ok(false), 1));
        assert_eq!(count(&large.as_bytes()[..FILE_MAX as usize]), (Ok(true), 1));
        let mut seen = 0;
        let result = blocks(&file_of(good.repeat(3).as_bytes()), &mut |_, _| {
            seen += 1;
            seen < 2
        });
        assert_eq!((result, seen), (Ok(true), 2));
    }

    #[test]
    fn random_bytes_do_no_harm() {
        let text = block("TRUSTED CERTIFICATE", "MAMCAQUwDjAMBgorBgEFBQcDAQ==").repeat(3);
        for at in 0..text.len() {
            for byte in [0, b'-', b'\n', b'=', 0xff] {
                let mut bytes = text.clone().into_bytes();
                bytes[at] = byte;
                assert!(read(&bytes).len() <= 4);
            }
        }
    }
}
