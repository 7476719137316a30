//! What can go wrong: one small `Copy` enum a layer, gathered in [`Error`]. The words for a person are in `run`.

use crate::sys::Errno;

/// An error of any layer below `run`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
// Eight bytes: a result without a value is returned in a register as it is, where six would be put together there and taken apart again
// (-2.7 KB).
#[repr(align(8))]
pub enum Error {
    /// Reaching the peer, or speaking to it.
    Net(NetError),
    /// The TLS session or the peer's certificate.
    Tls(TlsError),
    /// The HTTP exchange.
    Http(HttpError),
    /// A cloud's service, beyond the exchange itself.
    Cloud(CloudError),
    /// The journal as a whole (a broken entry is a warning, not an error).
    Journal(JournalError),
    /// The fallback configuration.
    Fallback(FallbackError),
    /// The compressor refused; a defect of ours.
    Gzip,
    /// Writing to standard output, a device or a file.
    Output(Errno),
}

/// Errors of sockets and names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NetError {
    /// The name is neither an address nor known.
    Unresolved,
    /// A name, and no nameserver in any of the places ([`crate::net::NAMESERVER_PLACES`] and the command line).
    NoNameserver,
    /// A name, and this build asks no nameservers.
    NoLookup,
    /// No nameserver answered in time.
    NameserverSilent,
    /// The nameservers said that they cannot answer, with this code (RFC 1035 section 4.1.1), or with [`NO_CODE`].
    NameserverFailed(u8),
    /// The nameservers answered for only one of IPv4 and IPv6, that there is no address.
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
    /// The host is this machine or on its link, where only another may be spoken to.
    Near,
    /// Sending failed.
    Send(Errno),
    /// Receiving failed.
    Recv(Errno),
    /// The peer took or gave nothing for too long, or the deadline passed.
    Timeout,
    /// Not a failure of the connection: the peer takes no more, and there is something of it to be received. What it is, an early
    /// answer most likely, is the caller's to read ([`crate::net::Transport::send`]).
    PeerSpoke,
}

/// In [`NetError::NameserverFailed`]: an answer without an error code, but not one to rely on (a referral, aliases without end, a
/// broken message).
pub const NO_CODE: u8 = 0;

/// Errors of TLS. Those about the certificate are told apart as far as a user can act on the difference; what the certificate
/// says of itself is in `net::trust::CertFacts`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TlsError {
    /// The certificate's time is over.
    Expired,
    /// The certificate's time has not begun.
    NotYetValid,
    /// The certificate is for another name.
    WrongName,
    /// No trusted root signed the chain.
    UnknownIssuer,
    /// The certificate signed itself and is not trusted.
    SelfSigned,
    /// The certificate's key is none of those pinned.
    WrongPin,
    /// A signature in the chain or the handshake does not fit.
    BadSignature,
    /// A signature in the chain is made by an algorithm that is not supported.
    UnsupportedSignature,
    /// An RSA key is smaller or larger than is accepted.
    KeySize,
    /// The certificate is of X.509 version 1 or 2.
    OldCertificate,
    /// The certificate has a critical extension that is not known.
    CriticalExtension,
    /// The certificate's extended key usage has no servers in it.
    WrongUsage,
    /// The server's certificate is a CA's.
    CaAsServer,
    /// The issuer of a certificate is no CA.
    IssuerNotCa,
    /// An issuer allows fewer issuers below it than there are.
    PathLength,
    /// An issuer's name constraints exclude a name of the certificate.
    NameConstraint,
    /// An issuer's name constraints speak of directory names, which are not supported.
    DirectoryConstraint,
    /// The chain has more certificates, or more ways through them, than are tried.
    TangledChain,
    /// The certificate cannot be read.
    BadCertificate,
    /// The peer speaks TLS 1.1 or older alone.
    OldVersion,
    /// No cipher suite, group or signature algorithm in common.
    NothingInCommon,
    /// The peer refused with this alert (RFC 8446 section 6).
    Alert(u8),
    /// The peer asked for a client's certificate, and refused us without one.
    ClientWanted,
    /// The peer asked for a client's certificate, and refused ours with this alert.
    ClientRefused(u8),
    /// The peer wanted another handshake within the session, which is not done.
    SecondHandshake,
    /// What the peer sent first is not TLS.
    NotTls,
    /// The peer ended the connection within the handshake, without a word.
    HandshakeCut,
    /// The connection ended without `close_notify`: what came may have been cut.
    Truncated,
    /// A record is not TLS, or was changed on its way.
    BadRecord,
    /// The handshake needs more memory than is given to it, or there are too many pins.
    TooLarge,
    /// A client's certificate cannot be read.
    BadClientCertificate,
    /// A client's key is none, of a kind that is not supported, or not its certificate's.
    BadClientKey,
    /// What should name a key to be trusted does not; the peer's key is none of the others.
    BadPin,
    /// What was asked for is no name that a certificate can be for.
    BadName,
    /// The kernel gave no random numbers.
    NoRandom,
    /// The peer broke the protocol, or a defect of ours.
    Protocol,
    /// This build has no TLS.
    NotBuilt,
}

/// Errors of the HTTP exchange.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HttpError {
    /// An answer other than 2xx.
    Status(u16),
    /// An answer other than 2xx of the proxy itself.
    Proxy(u16),
    /// A redirect that would turn the POST into a GET.
    RedirectRefused(u16),
    /// More redirects than are followed.
    TooManyRedirects,
    /// A redirect without a usable target.
    BadLocation,
    /// A redirect from TLS to a plain connection.
    Downgrade,
    /// The URL cannot be used.
    BadUrl,
    /// The head of the answer is larger than its buffer.
    HeadTooLarge,
    /// What came is not HTTP/1.x.
    NotHttp,
    /// A body that is wanted, and whose length is not clear.
    BadFraming,
    /// More interim answers (1xx) than are skipped.
    TooManyInterim,
    /// The connection ended before the answer was whole, or before the server had taken the whole body.
    Cut,
    /// The body is longer or shorter than the length that was announced for it.
    WrongLength,
    /// An answer that is wanted is compressed, by the method of this number in [`crate::http::head::CODINGS`].
    Compressed(u8),
    /// A final answer came before the body had been sent; never seen outside `http`.
    Answered,
}

/// Errors of reports to a cloud.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CloudError {
    /// What should be JSON is not.
    NotJson,
    /// What should be XML is not.
    NotXml,
    /// An answer lacks what is needed from it.
    NoField,
    /// The file that holds a setting's value cannot be read, or is no text.
    NoSecret,
    /// A request is larger than the service or its buffer takes.
    TooLong,
    /// A stack without its resource.
    NoResource,
    /// A signal's URL that does not show its form.
    NoForm,
    /// The hypervisor is not VMware's.
    NoVmware,
    /// VMware's hypervisor takes no message.
    NoChannel,
    /// It does not do what the message asks for.
    Rejected,
    /// Hyper-V's key-value exchange is not there.
    NoExchange,
    /// Its file or device cannot be written or read.
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

/// Errors of the fallback configuration, once it came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FallbackError {
    /// It is larger than is taken.
    TooLarge,
    /// It holds nothing.
    Empty,
    /// Its hash is another than the one that is set.
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
