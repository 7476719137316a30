//! The errors: one small `Copy` enum a layer, gathered in [`Error`]. The sentences for people are
//! in `run`.

use crate::sys::Errno;

/// An error of any layer below `run`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
// Eight bytes: a result without a value is returned in a register as it is. Six bytes would be
// packed there and unpacked again (-2.7 KB).
#[repr(align(8))]
pub enum Error {
    /// Reaching the peer, or talking to it.
    Net(NetError),
    /// The TLS session or the peer's certificate.
    Tls(TlsError),
    /// The HTTP exchange.
    Http(HttpError),
    /// A cloud's service, beyond the HTTP exchange itself.
    Cloud(CloudError),
    /// The journal as a whole. (A broken entry is a warning, not an error.)
    Journal(JournalError),
    /// The fallback configuration.
    Fallback(FallbackError),
    /// The compressor refused: a defect in rdreport.
    Gzip,
    /// Writing to standard output, a device or a file.
    Output(Errno),
}

/// Errors of sockets and name resolution.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NetError {
    /// The host is neither an address nor a known name.
    Unresolved,
    /// The host is a name, and there is no nameserver on the command line or in any of the places
    /// ([`crate::net::NAMESERVER_PLACES`]).
    NoNameserver,
    /// The host is a name, and this build has no DNS client.
    NoLookup,
    /// No nameserver answered in time.
    NameserverSilent,
    /// The nameservers answered with this error code (RFC 1035 section 4.1.1), or with [`NO_CODE`].
    NameserverFailed(u8),
    /// The nameservers answered for only one of IPv4 and IPv6, and said that it has no address.
    NameserverHalf,
    /// The socket could not be made or connected.
    Connect(Errno),
    /// Nothing answered the connection in time.
    ConnectTimeout,
    /// No address or route to the peer appeared before the deadline.
    NoRoute,
    /// The interface that the host names as its zone (`%eth0`) did not appear before the deadline.
    NoInterface,
    /// The deadline had passed before a connection was tried.
    NoTime,
    /// The host is this machine or on its link, where only a remote one is allowed.
    Near,
    /// Sending failed.
    Send(Errno),
    /// Receiving failed.
    Recv(Errno),
    /// The peer sent or took nothing for too long, or the deadline passed.
    Timeout,
    /// Not a failure of the connection: the peer takes no more data, and has sent some. Most likely
    /// that is an early answer; reading it is up to the caller ([`crate::net::Transport::send`]).
    PeerSpoke,
}

/// The code of a [`NetError::NameserverFailed`] whose answer has no error code, but cannot be
/// relied on (a referral, endless aliases, a broken message).
pub const NO_CODE: u8 = 0;

/// Errors of TLS. Certificate errors are distinguished as far as a user can act on the difference.
/// The certificate's own facts are in `net::trust::CertFacts`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TlsError {
    /// The certificate has expired.
    Expired,
    /// The certificate is not valid yet.
    NotYetValid,
    /// The certificate is for another name.
    WrongName,
    /// No trusted root signed the chain.
    UnknownIssuer,
    /// The certificate is self-signed and not trusted.
    SelfSigned,
    /// The certificate's key is not one of the pinned keys.
    WrongPin,
    /// A signature in the chain or the handshake is wrong.
    BadSignature,
    /// A signature in the chain uses an algorithm that is not supported.
    UnsupportedSignature,
    /// An RSA key is smaller or larger than accepted.
    KeySize,
    /// The certificate is of X.509 version 1 or 2.
    OldCertificate,
    /// The certificate has an unknown critical extension.
    CriticalExtension,
    /// The certificate's extended key usage does not include servers.
    WrongUsage,
    /// The server's certificate is that of a CA.
    CaAsServer,
    /// The issuer of a certificate is no CA.
    IssuerNotCa,
    /// An issuer allows fewer issuers below itself than there are (path length).
    PathLength,
    /// An issuer's name constraints exclude a name of the certificate.
    NameConstraint,
    /// An issuer has name constraints on directory names, which are not supported.
    DirectoryConstraint,
    /// The chain has more certificates, or more possible paths, than are tried.
    TangledChain,
    /// The certificate cannot be read.
    BadCertificate,
    /// The peer supports only TLS 1.1 or older.
    OldVersion,
    /// No cipher suite, group or signature algorithm in common.
    NothingInCommon,
    /// The peer refused with this alert (RFC 8446 section 6).
    Alert(u8),
    /// The peer asked for a client certificate, and refused the session without one.
    ClientWanted,
    /// The peer asked for a client certificate, and refused the one sent with this alert.
    ClientRefused(u8),
    /// The peer wanted to renegotiate within the session, which is not supported.
    SecondHandshake,
    /// The first bytes of the peer are not TLS.
    NotTls,
    /// The peer closed the connection during the handshake, without an alert.
    HandshakeCut,
    /// The connection ended without `close_notify`: the data may have been cut.
    Truncated,
    /// A record is not TLS, or was changed on the way.
    BadRecord,
    /// The handshake needs more memory than it may use, or there are too many pins.
    TooLarge,
    /// The client certificate cannot be read.
    BadClientCertificate,
    /// The client key cannot be read, is of a kind that is not supported, or does not fit the
    /// certificate.
    BadClientKey,
    /// A pin cannot be read, and the peer's key matches none of the others.
    BadPin,
    /// The host is not a name that a certificate can be for.
    BadName,
    /// The kernel provided no random numbers.
    NoRandom,
    /// The peer broke the protocol, or rdreport has a defect.
    Protocol,
    /// This build has no TLS.
    NotBuilt,
}

/// Errors of the HTTP exchange.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HttpError {
    /// An answer with a status other than 2xx.
    Status(u16),
    /// An answer of the proxy itself with a status other than 2xx.
    Proxy(u16),
    /// A redirect that would turn the POST into a GET.
    RedirectRefused(u16),
    /// More redirects than are followed.
    TooManyRedirects,
    /// A redirect without a usable location.
    BadLocation,
    /// A redirect from TLS to a plain connection.
    Downgrade,
    /// The URL cannot be used.
    BadUrl,
    /// The header section of the answer is larger than its buffer.
    HeadTooLarge,
    /// The answer is not HTTP/1.x.
    NotHttp,
    /// The length of a body that is needed is not clear.
    BadFraming,
    /// More interim answers (1xx) than are skipped.
    TooManyInterim,
    /// The connection ended before the whole answer came, or before the server had taken the whole
    /// body.
    Cut,
    /// The body is longer or shorter than announced.
    WrongLength,
    /// An answer that is needed is compressed, with the coding of this index in
    /// [`crate::http::head::CODINGS`].
    Compressed(u8),
    /// A final answer came before the whole body was sent. Never leaves `http`.
    Answered,
}

/// Errors of reports to a cloud.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CloudError {
    /// An answer that should be JSON is not.
    NotJson,
    /// An answer that should be XML is not.
    NotXml,
    /// An answer lacks a field that is needed.
    NoField,
    /// The file with a setting's value cannot be read, or is not text.
    NoSecret,
    /// A request is larger than the service or its buffer allows.
    TooLong,
    /// A stack is set without its resource.
    NoResource,
    /// The URL of a signal does not show which form it has.
    NoForm,
    /// The hypervisor is not VMware's.
    NoVmware,
    /// VMware's hypervisor accepts no message.
    NoChannel,
    /// VMware's hypervisor does not do what the message asks for.
    Rejected,
    /// Hyper-V's key-value exchange is not available.
    NoExchange,
    /// The file or device of Hyper-V's key-value exchange cannot be written or read.
    Exchange(Errno),
    /// The host did not ask for the record.
    NotAsked,
}

/// Errors of the journal as a whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JournalError {
    /// No journal file was found.
    None,
    /// A folder or file could not be opened.
    Open(Errno),
}

/// Errors of a fallback configuration that was received.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FallbackError {
    /// The configuration is larger than accepted.
    TooLarge,
    /// The configuration is empty.
    Empty,
    /// The hash of the configuration is not the one that is set.
    WrongHash,
}

impl From<NetError> for Error {
    fn from(e: NetError) -> Self {
        Error::Net(e)
    }
}

impl From<TlsError> for Error {
    fn from(e: TlsError) -> Self {
        Error::Tls(e)
    }
}

impl From<HttpError> for Error {
    fn from(e: HttpError) -> Self {
        Error::Http(e)
    }
}

impl From<CloudError> for Error {
    fn from(e: CloudError) -> Self {
        Error::Cloud(e)
    }
}

impl From<FallbackError> for Error {
    fn from(e: FallbackError) -> Self {
        Error::Fallback(e)
    }
}

impl From<JournalError> for Error {
    fn from(e: JournalError) -> Self {
        Error::Journal(e)
    }
}

const _: () = assert!(size_of::<Error>() <= 8, "errors are passed by value everywhere");
