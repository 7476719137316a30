//! Record protection: AES-GCM (NIST SP 800-38D) and ChaCha20-Poly1305 (RFC 8439) in the shape of TLS 1.3 (RFC 8446
//! section 5.2) and of TLS 1.2 (RFC 5288 section 3, RFC 7905 section 2).

use alloc::boxed::Box;
use rdreport_aead::{Algorithm, Cipher, TAG_LEN};
use rustls::crypto::cipher::{
    AeadKey, InboundOpaqueMessage, InboundPlainMessage, Iv, MessageDecrypter, MessageEncrypter, NONCE_LEN, Nonce,
    OutboundOpaqueMessage, OutboundPlainMessage, PrefixedPayload, Tls13AeadAlgorithm, UnsupportedOperationError,
    make_tls13_aad,
};
#[cfg(feature = "tls12")]
use rustls::crypto::cipher::{KeyBlockShape, Tls12AeadAlgorithm, make_tls12_aad};
use rustls::{ConnectionTrafficSecrets, ContentType, Error, ProtocolVersion};

/// The part of an AES-GCM nonce that TLS 1.2 sends with each record (RFC 5288 section 3).
#[cfg(feature = "tls12")]
const EXPLICIT_LEN: usize = 8;
/// The part that it does not send.
#[cfg(feature = "tls12")]
const SALT_LEN: usize = 4;
/// Most bytes of content in a record (RFC 8446 section 5.1, RFC 5246 section 6.2.1).
#[cfg(feature = "tls12")]
const CONTENT_MAX: usize = 1 << 14;

/// An algorithm of the suites. Each is used for both versions.
#[derive(Clone, Copy)]
pub(super) struct Aead(pub(super) Algorithm);

impl Aead {
    /// The algorithm with a key of its length; with another length, which rustls never gives, nothing works.
    pub(super) fn keyed(self, key: &[u8]) -> Box<dyn Cipher> {
        self.0.keyed(key).unwrap_or_else(|| Box::new(Unkeyed))
    }
}

struct Unkeyed;

impl Cipher for Unkeyed {
    fn seal(&self, _: &[u8; NONCE_LEN], _: &[u8], _: &mut [u8]) -> Option<[u8; TAG_LEN]> {
        None
    }

    fn open(&self, _: &[u8; NONCE_LEN], _: &[u8], _: &mut [u8]) -> Option<usize> {
        None
    }
}

impl Tls13AeadAlgorithm for Aead {
    fn encrypter(&self, key: AeadKey, iv: Iv) -> Box<dyn MessageEncrypter> {
        Box::new(Tls13 { cipher: self.keyed(key.as_ref()), iv })
    }

    fn decrypter(&self, key: AeadKey, iv: Iv) -> Box<dyn MessageDecrypter> {
        Box::new(Tls13 { cipher: self.keyed(key.as_ref()), iv })
    }

    fn key_len(&self) -> usize {
        self.0.key_len()
    }

    fn extract_keys(&self, _: AeadKey, _: Iv) -> Result<ConnectionTrafficSecrets, UnsupportedOperationError> {
        Err(UnsupportedOperationError)
    }
}

struct Tls13 {
    cipher: Box<dyn Cipher>,
    iv: Iv,
}

impl MessageEncrypter for Tls13 {
    fn encrypt(&mut self, msg: OutboundPlainMessage<'_>, seq: u64) -> Result<OutboundOpaqueMessage, Error> {
        let len = self.encrypted_payload_len(msg.payload.len());
        let mut payload = PrefixedPayload::with_capacity(len);
        payload.extend_from_chunks(&msg.payload);
        payload.extend_from_slice(&[msg.typ.into()]);
        let nonce = Nonce::new(&self.iv, seq).0;
        let tag = self.cipher.seal(&nonce, &make_tls13_aad(len), payload.as_mut()).ok_or(Error::EncryptError)?;
        payload.extend_from_slice(&tag);
        Ok(OutboundOpaqueMessage::new(ContentType::ApplicationData, ProtocolVersion::TLSv1_2, payload))
    }

    fn encrypted_payload_len(&self, len: usize) -> usize {
        len.saturating_add(1 + TAG_LEN)
    }
}

impl MessageDecrypter for Tls13 {
    fn decrypt<'a>(&mut self, mut msg: InboundOpaqueMessage<'a>, seq: u64) -> Result<InboundPlainMessage<'a>, Error> {
        let nonce = Nonce::new(&self.iv, seq).0;
        let aad = make_tls13_aad(msg.payload.len());
        let len = self.cipher.open(&nonce, &aad, &mut msg.payload).ok_or(Error::DecryptError)?;
        msg.payload.truncate(len);
        msg.into_tls13_unpadded_message()
    }
}

#[cfg(feature = "tls12")]
impl Tls12AeadAlgorithm for Aead {
    fn encrypter(&self, key: AeadKey, salt: &[u8], explicit: &[u8]) -> Box<dyn MessageEncrypter> {
        Box::new(Tls12 { cipher: self.keyed(key.as_ref()), iv: join(salt, explicit), is_explicit: self.is_explicit() })
    }

    fn decrypter(&self, key: AeadKey, salt: &[u8]) -> Box<dyn MessageDecrypter> {
        Box::new(Tls12 { cipher: self.keyed(key.as_ref()), iv: join(salt, &[]), is_explicit: self.is_explicit() })
    }

    fn key_block_shape(&self) -> KeyBlockShape {
        let (fixed_iv_len, explicit_nonce_len) =
            if self.is_explicit() { (SALT_LEN, EXPLICIT_LEN) } else { (NONCE_LEN, 0) };
        KeyBlockShape { enc_key_len: self.0.key_len(), fixed_iv_len, explicit_nonce_len }
    }

    fn extract_keys(
        &self,
        _: AeadKey,
        _: &[u8],
        _: &[u8],
    ) -> Result<ConnectionTrafficSecrets, UnsupportedOperationError> {
        Err(UnsupportedOperationError)
    }
}

#[cfg(feature = "tls12")]
impl Aead {
    /// Whether TLS 1.2 sends a part of the nonce with each record.
    fn is_explicit(self) -> bool {
        self.0 != Algorithm::ChaCha20Poly1305
    }
}

#[cfg(feature = "tls12")]
struct Tls12 {
    cipher: Box<dyn Cipher>,
    /// Both parts of the starting nonce; where the peer sends the explicit part, that part is zero here.
    iv: Iv,
    is_explicit: bool,
}

/// A nonce of which `salt` and `explicit` are the beginning, and the rest is zero.
#[cfg(feature = "tls12")]
fn join(salt: &[u8], explicit: &[u8]) -> Iv {
    let mut iv = [0; NONCE_LEN];
    for (to, from) in iv.iter_mut().zip(salt.iter().chain(explicit)) {
        *to = *from;
    }
    Iv::new(iv)
}

#[cfg(feature = "tls12")]
impl Tls12 {
    fn explicit_len(&self) -> usize {
        if self.is_explicit { EXPLICIT_LEN } else { 0 }
    }
}

#[cfg(feature = "tls12")]
impl MessageEncrypter for Tls12 {
    fn encrypt(&mut self, msg: OutboundPlainMessage<'_>, seq: u64) -> Result<OutboundOpaqueMessage, Error> {
        let len = msg.payload.len();
        let explicit_len = self.explicit_len();
        let mut payload = PrefixedPayload::with_capacity(self.encrypted_payload_len(len));
        // The starting nonce xor the sequence number is never used twice with one key, also in its explicit part.
        let nonce = Nonce::new(&self.iv, seq).0;
        let explicit = nonce.get(NONCE_LEN.saturating_sub(explicit_len)..).unwrap_or_default();
        payload.extend_from_slice(explicit);
        payload.extend_from_chunks(&msg.payload);
        let aad = make_tls12_aad(seq, msg.typ, msg.version, len);
        let text = payload.as_mut().get_mut(explicit_len..).ok_or(Error::EncryptError)?;
        let tag = self.cipher.seal(&nonce, &aad, text).ok_or(Error::EncryptError)?;
        payload.extend_from_slice(&tag);
        Ok(OutboundOpaqueMessage::new(msg.typ, msg.version, payload))
    }

    fn encrypted_payload_len(&self, len: usize) -> usize {
        len.saturating_add(self.explicit_len().saturating_add(TAG_LEN))
    }
}

#[cfg(feature = "tls12")]
impl MessageDecrypter for Tls12 {
    fn decrypt<'a>(&mut self, mut msg: InboundOpaqueMessage<'a>, seq: u64) -> Result<InboundPlainMessage<'a>, Error> {
        let explicit_len = self.explicit_len();
        let content_len = msg.payload.len().checked_sub(explicit_len.saturating_add(TAG_LEN));
        let content_len = content_len.ok_or(Error::DecryptError)?;
        let (explicit, text) = msg.payload.split_at_mut_checked(explicit_len).ok_or(Error::DecryptError)?;
        let nonce = match explicit {
            [] => Nonce::new(&self.iv, seq).0,
            sent => {
                let salt = self.iv.as_ref().get(..SALT_LEN).unwrap_or_default();
                *join(salt, sent).as_ref().first_chunk().ok_or(Error::DecryptError)?
            }
        };
        let aad = make_tls12_aad(seq, msg.typ, msg.version, content_len);
        self.cipher.open(&nonce, &aad, text).ok_or(Error::DecryptError)?;
        if content_len > CONTENT_MAX {
            return Err(Error::PeerSentOversizedRecord);
        }
        Ok(msg.into_plain_message_range(explicit_len..explicit_len.saturating_add(content_len)))
    }
}
