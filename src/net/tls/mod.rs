//! TLS 1.3 (RFC 8446) and 1.2 (RFC 5246) as a client, by rustls' unbuffered API: bytes of records in and out of buffers of ours.

mod crypto;
mod der;
mod pem;
mod roots;
pub mod trust;

use crate::error::{Error, NetError, TlsError};
use crate::net::Transport;
use crate::net::tls::crypto::provider;
use crate::net::tls::trust::{CertFacts, Trust, Verifier};
use crate::sys::time::Deadline;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use rustls::client::{ClientConnectionData, Resumption, UnbufferedClientConnection};
use rustls::pki_types::ServerName;
use rustls::unbuffered::{ConnectionState, EncodeError, EncodeTlsData, UnbufferedStatus};
use rustls::{AlertDescription, CertificateError, ClientConfig, InvalidMessage, PeerIncompatible, ProtocolVersion};

/// Most bytes of content in a record (RFC 8446 section 5.1).
const CONTENT_MAX: usize = 1 << 14;
/// A record as large as we send one: header, content, and what encryption adds (RFC 8446 section 5.2: at most 256).
const OUTGOING: usize = 5 + CONTENT_MAX + 256;
/// A record as large as it may come: TLS 1.2 allows encryption to add 2048 bytes (RFC 5246 section 6.2.3).
const INCOMING: usize = 5 + CONTENT_MAX + 2048;
/// The same when a message of the handshake needs several records, which must lie in one piece: 64 KB, which is the most that
/// rustls takes of one (a chain of certificates is 2 to 6 KB), and what its records add.
const INCOMING_MAX: usize = 64 * 1024 + INCOMING;
/// The same when several are to be sent at once: a handshake with a client's chain of certificates.
const OUTGOING_MAX: usize = 2 * OUTGOING;
/// Milliseconds that a last word (an alert, `close_notify`) may take.
const LAST_WORD_MS: u64 = 500;
/// Milliseconds for reading what is there already.
const AT_HAND_MS: u64 = 100;
/// Reads after which [`Transport::readable`] says that there is nothing, though records that carry no data keep coming.
const AT_HAND_READS: usize = 16;

/// A TLS session over a plain transport.
pub struct Tls<'a> {
    plain: &'a mut dyn Transport,
    conn: UnbufferedClientConnection,
    verifier: Arc<Verifier>,
    incoming: Vec<u8>,
    /// Bytes of `incoming` that are filled.
    filled: usize,
    /// Records to be sent, in order: those bytes from `sent` to `queued`.
    outgoing: Vec<u8>,
    sent: usize,
    queued: usize,
    /// Content that came and was not taken yet: at most what one `incoming` holds.
    text: Vec<u8>,
    /// Bytes of `text` that were taken.
    taken: usize,
    is_established: bool,
    /// Whether a whole record came.
    is_tls: bool,
    /// Whether sending ended by an error, maybe within a record: nothing can follow it.
    is_broken: bool,
    /// How it ended: by `close_notify`, or by an error that stays.
    end: Option<Result<(), TlsError>>,
}

/// Where the session stands when rustls has nothing more to say.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    /// The handshake waits for the peer.
    Blocked,
    /// Content may be sent.
    Traffic,
    /// Content came.
    Text,
    /// The peer said that nothing more comes; seen once.
    Closed,
    /// Both sides said so.
    Over,
}

impl<'a> Tls<'a> {
    /// Makes the handshake with the server `host` (a DNS name, or an IP address without brackets; a zone is cut off). What its
    /// certificate says of itself is written to `facts` as soon as it came, whether it is trusted or not.
    #[inline(never)] // the handshake's room on the stack is not the session's
    pub fn connect(
        plain: &'a mut dyn Transport,
        host: &str,
        trust: &Trust,
        facts: &mut CertFacts,
        deadline: Deadline,
    ) -> Result<Self, Error> {
        let verifier = Arc::new(trust.verifier());
        let mut tls = Self::new(plain, host, verifier).map_err(Error::Tls)?;
        let result = tls.handshake(deadline);
        if let Some(seen) = tls.verifier.seen() {
            *facts = seen.facts;
        }
        result.map(|()| tls)
    }

    fn new(plain: &'a mut dyn Transport, host: &str, verifier: Arc<Verifier>) -> Result<Self, TlsError> {
        let host = host.split_once('%').map_or(host, |(address, _)| address);
        let name = ServerName::try_from(host).map_err(|_| TlsError::BadName)?.to_owned();
        let builder = ClientConfig::builder_with_details(Arc::new(provider()), verifier.clone())
            .with_protocol_versions(rustls::ALL_VERSIONS)
            .map_err(|_| TlsError::Protocol)?
            .dangerous()
            .with_custom_certificate_verifier(verifier.clone());
        let mut config = builder.with_client_cert_resolver(verifier.clone());
        config.resumption = Resumption::disabled();
        Ok(Self {
            plain,
            conn: UnbufferedClientConnection::new(Arc::new(config), name).map_err(|error| map(&error))?,
            verifier,
            incoming: vec![0; INCOMING],
            filled: 0,
            outgoing: vec![0; OUTGOING],
            sent: 0,
            queued: 0,
            text: Vec::new(),
            taken: 0,
            is_established: false,
            is_tls: false,
            is_broken: false,
            end: None,
        })
    }

    fn handshake(&mut self, deadline: Deadline) -> Result<(), Error> {
        loop {
            match self.step(deadline)? {
                Step::Blocked => self.fill(deadline)?,
                Step::Text | Step::Closed => {}
                Step::Traffic => break,
                Step::Over => return Err(self.fail(TlsError::HandshakeCut)),
            }
        }
        self.is_established = true;
        Ok(())
    }

    /// Lets rustls work on what came until it needs something, and sends what it wants to have sent.
    fn step(&mut self, deadline: Deadline) -> Result<Step, Error> {
        loop {
            let filled = self.incoming.get_mut(..self.filled).unwrap_or_default();
            let UnbufferedStatus { mut discard, state } = self.conn.process_tls_records(filled);
            let mut is_due = false;
            let step = match state {
                Ok(ConnectionState::EncodeTlsData(mut record)) => {
                    if !queue(&mut record, &mut self.outgoing, &mut self.queued) {
                        return Err(self.fail(TlsError::TooLarge));
                    }
                    None
                }
                Ok(ConnectionState::TransmitTlsData(sending)) => {
                    sending.done();
                    is_due = true;
                    None
                }
                Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                    while let Some(Ok(record)) = traffic.next_record() {
                        discard = discard.saturating_add(record.discard);
                        self.text.extend_from_slice(record.payload);
                    }
                    Some(Step::Text)
                }
                Ok(ConnectionState::WriteTraffic(_)) => Some(Step::Traffic),
                Ok(ConnectionState::PeerClosed) => {
                    self.end = Some(Ok(()));
                    Some(Step::Closed)
                }
                Ok(ConnectionState::Closed) => {
                    self.end.get_or_insert(Ok(()));
                    Some(Step::Over)
                }
                Ok(ConnectionState::BlockedHandshake) => Some(Step::Blocked),
                Ok(_) => return Err(self.fail(TlsError::Protocol)),
                Err(error) => {
                    let error = self.explain(&error);
                    // rustls goes on from where it was in what came: it must find the same there.
                    discard_front(&mut self.incoming, &mut self.filled, discard);
                    self.last_alert();
                    return Err(self.fail(error));
                }
            };
            self.is_tls |= discard > 0;
            discard_front(&mut self.incoming, &mut self.filled, discard);
            if let Some(step) = step {
                return Ok(step);
            }
            if is_due {
                match self.flush(deadline) {
                    // It stays in the queue.
                    Ok(()) | Err(Error::Net(NetError::PeerSpoke)) => {}
                    Err(error) => return Err(error),
                }
            }
        }
    }

    /// Receives what is there, or waits for something.
    fn fill(&mut self, deadline: Deadline) -> Result<(), Error> {
        if self.filled >= self.incoming.len() {
            if self.incoming.len() >= INCOMING_MAX {
                return Err(self.fail(TlsError::TooLarge));
            }
            self.incoming.resize(INCOMING_MAX, 0);
        }
        // A peer that sends without end must not hold us beyond the deadline.
        if deadline.passed() {
            return Err(Error::Net(NetError::Timeout));
        }
        let free = self.incoming.get_mut(self.filled..).unwrap_or_default();
        match self.plain.recv(free, deadline)? {
            0 if self.is_established => Err(self.fail(TlsError::Truncated)),
            0 => Err(self.fail(TlsError::HandshakeCut)),
            len => {
                self.filled = self.filled.saturating_add(len);
                Ok(())
            }
        }
    }

    /// Encrypts content, or without any the `close_notify`, and sends it.
    fn write(&mut self, content: Option<&[u8]>, deadline: Deadline) -> Result<(), Error> {
        // What came is worked on first, so that rustls gives the word to write.
        while matches!(self.step(deadline)?, Step::Text | Step::Closed) {}
        let filled = self.incoming.get_mut(..self.filled).unwrap_or_default();
        let UnbufferedStatus { discard, state } = self.conn.process_tls_records(filled);
        let Ok(ConnectionState::WriteTraffic(mut traffic)) = state else {
            return Err(self.fail(TlsError::Protocol));
        };
        let free = self.outgoing.get_mut(self.queued..).unwrap_or_default();
        let len = match content {
            Some(content) => traffic.encrypt(content, free),
            None => traffic.queue_close_notify(free),
        };
        discard_front(&mut self.incoming, &mut self.filled, discard);
        let Ok(len) = len else { return Err(self.fail(TlsError::Protocol)) };
        self.queued = self.queued.saturating_add(len);
        loop {
            match self.flush(deadline) {
                Err(Error::Net(NetError::PeerSpoke)) if !self.hear(deadline)? => {}
                done => {
                    self.is_broken |= done.is_err();
                    return done;
                }
            }
        }
    }

    /// Sends what is queued. Ends with [`NetError::PeerSpoke`], and some of it still queued, when the peer takes nothing.
    fn flush(&mut self, deadline: Deadline) -> Result<(), Error> {
        while let Some(rest) = self.outgoing.get(self.sent..self.queued).filter(|rest| !rest.is_empty()) {
            match self.plain.push(rest, deadline) {
                Ok(0) => return Err(Error::Net(NetError::PeerSpoke)),
                Ok(len) => self.sent = self.sent.saturating_add(len),
                Err(error) => {
                    self.is_broken = true;
                    return Err(error);
                }
            }
        }
        (self.sent, self.queued) = (0, 0);
        Ok(())
    }

    /// Receives what a peer has said that takes nothing more; whether there is something in it for [`Transport::recv`].
    fn hear(&mut self, deadline: Deadline) -> Result<bool, Error> {
        self.fill(deadline)?;
        match self.step(deadline) {
            Ok(step) => Ok(matches!(step, Step::Text | Step::Closed | Step::Over)),
            Err(_) if self.end.is_some() => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Remembers what ended the session.
    #[cold]
    fn fail(&mut self, error: TlsError) -> Error {
        self.end = Some(Err(error));
        Error::Tls(error)
    }

    #[cold]
    fn explain(&self, error: &rustls::Error) -> TlsError {
        let refusal = self.verifier.seen().and_then(|seen| seen.refusal);
        match error {
            rustls::Error::InvalidCertificate(_) if refusal.is_some() => refusal.unwrap_or(TlsError::BadCertificate),
            rustls::Error::AlertReceived(alert) => self.refused((*alert).into()).unwrap_or_else(|| map(error)),
            rustls::Error::InvalidMessage(_) if !self.is_tls => match self.incoming.first() {
                Some(20..=24) => TlsError::BadRecord,
                _ => TlsError::NotTls,
            },
            _ => map(error),
        }
    }

    /// What a peer means by an alert, where that depends on what was before.
    fn refused(&self, alert: u8) -> Option<TlsError> {
        const HANDSHAKE_FAILURE: u8 = 40;
        let is_tls12 = self.conn.protocol_version() == Some(ProtocolVersion::TLSv1_2);
        match alert {
            // rustls refuses to negotiate anew, and some peers can then but end. In TLS 1.3 there is no such thing.
            HANDSHAKE_FAILURE if self.is_established && is_tls12 => Some(TlsError::SecondHandshake),
            // Of certificates and access (RFC 8446 section 6.2). In TLS 1.3 they come after our side of the handshake.
            HANDSHAKE_FAILURE | 42..=46 | 48 | 49 | 116 => {
                self.verifier.client_refusal(alert).or(self.is_established.then_some(TlsError::Alert(alert)))
            }
            _ => None,
        }
    }

    /// Sends the alert that rustls has for an error of its own. It is asked once: asked again it would work on what came again.
    #[cold]
    fn last_alert(&mut self) {
        let filled = self.incoming.get_mut(..self.filled).unwrap_or_default();
        if let Ok(ConnectionState::EncodeTlsData(mut record)) = self.conn.process_tls_records(filled).state {
            queue(&mut record, &mut self.outgoing, &mut self.queued);
            let _ = self.flush(Deadline::after_ms(LAST_WORD_MS));
        }
    }
}

impl Transport for Tls<'_> {
    fn send(&mut self, bytes: &[u8], deadline: Deadline) -> Result<(), Error> {
        for content in bytes.chunks(CONTENT_MAX) {
            self.write(Some(content), deadline)?;
        }
        Ok(())
    }

    fn recv(&mut self, buf: &mut [u8], deadline: Deadline) -> Result<usize, Error> {
        loop {
            let text = self.text.get(self.taken..).unwrap_or_default();
            let len = text.len().min(buf.len());
            if let (Some(to), Some(from)) = (buf.get_mut(..len).filter(|to| !to.is_empty()), text.get(..len)) {
                to.copy_from_slice(from);
                self.taken = self.taken.saturating_add(len);
                if self.taken == self.text.len() {
                    self.text.clear();
                    self.taken = 0;
                }
                return Ok(len);
            }
            if let Some(end) = self.end {
                return end.map(|()| 0).map_err(Error::Tls);
            }
            if matches!(self.step(deadline)?, Step::Traffic | Step::Blocked) {
                self.fill(deadline)?;
            }
        }
    }

    fn readable(&mut self) -> bool {
        for _ in 0..AT_HAND_READS {
            if !self.text.is_empty() || self.end.is_some() {
                return true;
            }
            let deadline = Deadline::after_ms(AT_HAND_MS);
            match self.step(deadline) {
                Ok(Step::Text | Step::Closed | Step::Over) => return true,
                Ok(_) if !self.plain.readable() => return false,
                Ok(_) => {}
                Err(_) => return true,
            }
            if self.fill(deadline).is_err() {
                return true;
            }
        }
        false
    }

    fn finish(&mut self) {
        if !self.is_broken && !matches!(self.end, Some(Err(_))) {
            let _ = self.write(None, Deadline::after_ms(LAST_WORD_MS));
        }
        self.plain.finish();
    }
}

/// Appends what rustls wants to have sent, as long as it fits.
fn queue(record: &mut EncodeTlsData<'_, ClientConnectionData>, outgoing: &mut Vec<u8>, queued: &mut usize) -> bool {
    let free = outgoing.get_mut(*queued..).unwrap_or_default();
    let len = match record.encode(free) {
        Err(EncodeError::InsufficientSize(lack)) => {
            let needed = queued.saturating_add(lack.required_size);
            if needed > OUTGOING_MAX {
                return false;
            }
            outgoing.resize(needed, 0);
            record.encode(outgoing.get_mut(*queued..).unwrap_or_default())
        }
        len => len,
    };
    *queued = queued.saturating_add(*len.as_ref().unwrap_or(&0));
    len.is_ok()
}

/// Removes `len` bytes from the front of what is filled.
fn discard_front(incoming: &mut [u8], filled: &mut usize, len: usize) {
    if len > 0 && len <= *filled {
        incoming.copy_within(len..*filled, 0);
        *filled = filled.saturating_sub(len);
    }
}

/// Our word for rustls' error. Its own texts are not linked.
#[cold]
fn map(error: &rustls::Error) -> TlsError {
    use rustls::Error::{
        AlertReceived, DecryptError, FailedToGetRandomBytes, InvalidCertificate, NoCertificatesPresented,
        PeerSentOversizedRecord,
    };
    match error {
        AlertReceived(AlertDescription::ProtocolVersion) => TlsError::OldVersion,
        AlertReceived(AlertDescription::HandshakeFailure | AlertDescription::InsufficientSecurity) => {
            TlsError::NothingInCommon
        }
        AlertReceived(alert) => TlsError::Alert((*alert).into()),
        rustls::Error::PeerIncompatible(
            PeerIncompatible::ServerDoesNotSupportTls12Or13 | PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig,
        ) => TlsError::OldVersion,
        rustls::Error::PeerIncompatible(_) => TlsError::NothingInCommon,
        rustls::Error::InvalidMessage(
            InvalidMessage::HandshakePayloadTooLarge | InvalidMessage::CertificatePayloadTooLarge,
        ) => TlsError::TooLarge,
        rustls::Error::InvalidMessage(_) | DecryptError | PeerSentOversizedRecord => TlsError::BadRecord,
        InvalidCertificate(CertificateError::BadSignature) => TlsError::BadSignature,
        InvalidCertificate(CertificateError::BadEncoding) | NoCertificatesPresented => TlsError::BadCertificate,
        InvalidCertificate(_) => TlsError::BadCertificate,
        FailedToGetRandomBytes => TlsError::NoRandom,
        _ => TlsError::Protocol,
    }
}

#[cfg(test)]
mod tests;
