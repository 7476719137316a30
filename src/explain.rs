//! The sentences that a person at a serial console reads: what happened, and which setting would change it.

#[cfg(feature = "tls")]
use crate::date::rfc3339;
use crate::error::{CloudError, Error, FallbackError, HttpError, JournalError, NO_CODE, NetError, TlsError};
use crate::http::head::CODINGS;
use crate::net::NAMESERVER_PLACES;
use crate::net::tls::trust::CertFacts;
use crate::sys::Errno;
use crate::sys::file::NOT_OURS;
use crate::sys::process::Ended;
use crate::text::Text;

/// Says what an error means. `cert` is what the server's certificate says of itself, if one came.
pub fn error(error: Error, cert: &CertFacts, out: &mut Text<'_>) {
    match error {
        Error::Net(e) => net(e, out),
        Error::Tls(e) => tls(e, cert, out),
        Error::Http(e) => http(e, out),
        Error::Cloud(e) => cloud(e, out),
        Error::Journal(e) => journal(e, out),
        Error::Fallback(e) => fallback(e, out),
        Error::Gzip => {
            out.str("the compressor failed: a defect of rdreport");
        }
        Error::Output(e) => {
            out.str("the output was refused: ");
            errno(e, out);
        }
    }
}

/// Says what an error means that a cloud's service ended with, whose address no setting holds; and what to do about it.
pub fn service(e: Error, hint: &str, cert: &CertFacts, out: &mut Text<'_>) {
    match e {
        Error::Net(NetError::Connect(e)) => {
            out.str("cannot connect: ");
            errno(e, out);
        }
        Error::Net(NetError::ConnectTimeout | NetError::Timeout) => {
            out.str("no answer in time");
        }
        Error::Http(HttpError::Status(code)) => {
            out.str("the service answered ").dec(code.into());
        }
        Error::Http(HttpError::Compressed(_)) => {
            out.str("the service compressed its answer although asked not to");
        }
        e => error(e, cert, out),
    }
    out.str("; ").str(hint);
}

/// Says what an error means that came about between this machine and the proxy.
pub fn proxy(e: Error, out: &mut Text<'_>) {
    match e {
        Error::Net(NetError::Connect(e)) => {
            out.str("cannot connect: ");
            errno(e, out);
        }
        Error::Net(NetError::Unresolved) => {
            out.str("the proxy's host name does not exist");
        }
        Error::Net(NetError::ConnectTimeout | NetError::Timeout) => {
            out.str("the proxy did not answer in time");
        }
        Error::Http(HttpError::NotHttp) => {
            out.str("the proxy does not speak HTTP/1.1");
        }
        Error::Http(HttpError::Cut) => {
            out.str("the proxy closed the connection without an answer");
        }
        Error::Http(HttpError::HeadTooLarge | HttpError::TooManyInterim) => {
            out.str("the head of the proxy's answer is too large");
        }
        Error::Net(NetError::Send(e) | NetError::Recv(e)) => {
            out.str("the proxy broke the connection: ");
            errno(e, out);
        }
        e => return error(e, &CertFacts::default(), out),
    }
    out.str("; check rd.report.proxy=");
}

/// Says that no process could be made.
pub fn no_process<'a, 'b>(not_done: &str, e: Errno, out: &'a mut Text<'b>) -> &'a mut Text<'b> {
    out.str(not_done).str(": no process can be made for it: ");
    errno(e, out);
    out
}

/// Says what a system call's error means.
pub fn errno(e: Errno, out: &mut Text<'_>) {
    let known = match e {
        Errno::NOENT => "no such file",
        Errno::ACCESS | Errno::PERM => "permission denied",
        Errno::NOTDIR => "not a folder",
        Errno::ISDIR => "not a file",
        Errno::BADMSG => "it is not what it should be",
        Errno::LOOP => "a symbolic link, which is not followed",
        NOT_OURS => "it belongs to another user, or others can write to it",
        Errno::NAMETOOLONG => "the name is too long",
        Errno::NODEV | Errno::NXIO => "no such device",
        Errno::BUSY => "busy",
        Errno::CONNREFUSED => "connection refused",
        Errno::CONNRESET | Errno::CONNABORTED => "connection reset by the server",
        Errno::PIPE => "connection closed by the server",
        Errno::NETUNREACH => "network unreachable",
        Errno::NETDOWN => "the network interface is down",
        Errno::NETRESET => "the network dropped the connection",
        Errno::HOSTUNREACH => "host unreachable",
        Errno::HOSTDOWN => "host is down",
        Errno::ADDRNOTAVAIL => "no local address or port is free for it",
        Errno::ADDRINUSE => "address already in use",
        Errno::AFNOSUPPORT => "the kernel does not support this kind of address (is IPv6 off?)",
        Errno::PROTONOSUPPORT | Errno::PROTOTYPE | Errno::SOCKTNOSUPPORT | Errno::NOPROTOOPT | Errno::OPNOTSUPP => {
            "the kernel does not support this protocol"
        }
        Errno::PROTO => "protocol error",
        Errno::MSGSIZE => "the message is too long",
        Errno::INVAL => "the kernel does not take this value",
        Errno::MFILE => "too many open files in this process (raise its limit, ulimit -n)",
        Errno::NFILE => "too many open files in the system",
        Errno::TIMEDOUT => "timed out",
        Errno::IO => "input/output error",
        Errno::NOSPC => "no space left",
        Errno::NOMEM => "no memory left",
        Errno::NOBUFS => "no buffer space left in the kernel",
        Errno::AGAIN => "not now, as there are too many",
        Errno::ROFS => "read-only file system",
        Errno::NOSYS => "the kernel does not have this system call",
        _ => {
            out.str("error ").dec(e.raw_os_error().unsigned_abs().into()).str(" (see errno(3))");
            return;
        }
    };
    out.str(known);
}

/// Says how a sink's process ended that had no words of its own.
pub fn ended<'a, 'b>(not_done: &str, ended: Ended, out: &'a mut Text<'b>) -> &'a mut Text<'b> {
    const SIGKILL: i32 = 9;
    out.str(not_done);
    match ended {
        Ended::Exit(code) => out.str(": its process ended with status ").dec(code.into()),
        Ended::Signal(SIGKILL) => out.str(": its process was killed (signal 9), maybe since there is no memory left"),
        Ended::Signal(signal) => out.str(": its process died of signal ").dec(signal.unsigned_abs().into()),
        Ended::Late => out.str(" in time; raise rd.report.timeout="),
        Ended::Stopped => out.str(": rdreport was told to end (SIGTERM, SIGINT or SIGHUP)"),
    }
}

fn net(error: NetError, out: &mut Text<'_>) {
    match error {
        NetError::Unresolved => out.str("the host name does not exist; check the URL, or set rd.report.dns="),
        NetError::NoLookup => {
            out.str("this build asks no nameservers and /etc/hosts has no such name; use an address in the URL")
        }
        NetError::NoNameserver => {
            out.str("no nameserver is known for the host name (looked at rd.report.dns=, ip=, nameserver=");
            for place in NAMESERVER_PLACES {
                out.str(", ").str(place);
            }
            out.str("); use an address in the URL, or set rd.report.dns=")
        }
        NetError::NameserverSilent => {
            out.str("no nameserver answered; use an address in the URL, or set rd.report.dns=")
        }
        NetError::NameserverFailed(code) => {
            match code {
                NO_CODE => out.str("the nameservers gave no usable answer (a referral, aliases in a circle, or a broken message)"),
                _ => out.str("the nameservers answered with error ").dec(code.into()),
            };
            let known = match code {
                1 => " (format error)",
                2 => " (server failure)",
                4 => " (not implemented)",
                5 => " (refused)",
                _ => "",
            };
            out.str(known).str("; use an address in the URL, or set rd.report.dns=")
        }
        NetError::NameserverHalf => out.str(
            "the nameservers answered only for one of IPv4 and IPv6, and know no address there; use an address in the URL, or set rd.report.dns=",
        ),
        NetError::Connect(e) => {
            out.str("cannot connect: ");
            match e {
                Errno::ACCESS | Errno::PERM => {
                    out.str("a firewall or route of this machine forbids it");
                }
                Errno::INVAL => {
                    out.str("the kernel does not take this address, or a blackhole route leads to it");
                }
                e => errno(e, out),
            }
            out.str(connect_hint(e))
        }
        NetError::ConnectTimeout => {
            out.str("cannot connect: nothing answers; check host and port of the URL, or raise rd.report.timeout=")
        }
        NetError::NoRoute => {
            out.str("no network: no address or route in time; set rd.neednet=1 ip=dhcp, or raise rd.report.timeout=")
        }
        NetError::NoInterface => {
            out.str("no interface has the name or number behind the % in the URL; correct it, or raise rd.report.timeout=")
        }
        NetError::NoTime => out.str("no time was left to connect; raise rd.report.timeout="),
        NetError::Send(e) => {
            out.str("sending failed: ");
            errno(e, out);
            out
        }
        NetError::Recv(e) => {
            out.str("no answer: ");
            errno(e, out);
            out
        }
        NetError::Timeout => out.str("the server did not answer in time; raise rd.report.timeout="),
        NetError::Near => out.str(
            "the server redirects to this machine or its link, which is not followed; put its target into the URL",
        ),
        NetError::PeerSpoke => out.str("the server stopped taking the body without an answer"),
    };
}

/// What to do about a connection that could not be made.
fn connect_hint(e: Errno) -> &'static str {
    match e {
        Errno::ACCESS | Errno::PERM => "; change its rules, or the URL",
        Errno::AFNOSUPPORT => "; use an IPv4 address in the URL, or turn IPv6 on",
        Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM => "",
        Errno::NETDOWN => "; set rd.neednet=1 ip=dhcp",
        _ => "; check host and port of the URL",
    }
}

fn http(error: HttpError, out: &mut Text<'_>) {
    match error {
        HttpError::Status(code) => {
            out.str("the server answered ").dec(code.into());
            out.str(match code {
                400 => " (bad request)",
                401 => " (unauthorized); set rd.report.header=, or user:password@ in the URL",
                403 => " (forbidden); check rd.report.cert=, and the credentials in rd.report.header= or in the URL",
                404 => " (not found); check the path of the URL",
                405 => " (method not allowed); check the path of the URL",
                411 => " (length required); for a journal write put+ before the URL: rd.report.journal=put+http…",
                413 => " (too large); raise the server's limit, or set rd.report.journal.max=",
                415 => " (unsupported media type)",
                429 => " (too many requests)",
                501 => {
                    " (not implemented); if it takes no chunked body, write put+ before the URL: rd.report.journal=put+http…"
                }
                500..=599 => " (server error)",
                _ => "",
            })
        }
        // Some say 401 where there are wrong ones.
        HttpError::Proxy(code @ (401 | 407)) => out
            .str("the proxy wants credentials (")
            .dec(code.into())
            .str("); put user:password@ into rd.report.proxy=, or correct them"),
        HttpError::Proxy(code) => out
            .str("the proxy answered ")
            .dec(code.into())
            .str("; check that it lets us reach the host of the URL, or rd.report.proxy="),
        HttpError::RedirectRefused(code) => out
            .str("the server answered ")
            .dec(code.into())
            .str(", a redirect that would drop the body; put its target into the URL"),
        HttpError::TooManyRedirects => out.str("the server redirects in circles; put the last target into the URL"),
        HttpError::BadLocation => out.str("the server redirects to nowhere; check the URL"),
        HttpError::Downgrade => {
            out.str("the server redirects from https to http, which is not followed; put its target into the URL")
        }
        HttpError::BadUrl => out.str("the URL cannot be used"),
        HttpError::HeadTooLarge => out.str("the head of the server's answer is too large"),
        HttpError::NotHttp => {
            out.str("the server does not speak HTTP/1.1; check port and https:// or http:// of the URL")
        }
        HttpError::BadFraming => out.str("the length of the server's answer is not clear from its header fields"),
        HttpError::WrongLength => {
            out.str("its length changed while it was sent; use a URL without put+, which needs no length")
        }
        HttpError::Compressed(coding) => {
            let method = CODINGS.get(usize::from(coding)).copied().unwrap_or_default();
            out.str("the server compressed the configuration (").str(method);
            out.str(") although asked not to; serve it without Content-Encoding")
        }
        HttpError::TooManyInterim => out.str("the server sends interim answers without end"),
        HttpError::Cut | HttpError::Answered => {
            out.str("the server closed the connection before it had answered in full")
        }
    };
}

fn cloud(error: CloudError, out: &mut Text<'_>) {
    let known = match error {
        CloudError::NotJson => "the service's answer is not JSON",
        CloudError::NotXml => "the service's answer is not XML",
        CloudError::NoField => "the service's answer lacks what is needed from it",
        CloudError::NoSecret => "the file or credential that a setting names cannot be read, or is no text",
        CloudError::TooLong => "the request is too long",
        CloudError::NoResource => "rd.report.aws.resource= is not set",
        CloudError::NoForm => "the URL does not show how it is signalled: set rd.report.openstack.signal=",
        CloudError::NoVmware => "the hypervisor is not VMware's",
        CloudError::NoChannel => "VMware's hypervisor takes no message",
        CloudError::Rejected => "VMware's hypervisor refused the message",
        CloudError::NoExchange => "no key-value exchange is here",
        CloudError::NotAsked => "the host has not asked for the record",
        CloudError::Exchange(e) => {
            out.str("the key-value exchange: ");
            return errno(e, out);
        }
    };
    out.str(known);
}

fn fallback(error: FallbackError, out: &mut Text<'_>) {
    match error {
        FallbackError::TooLarge => out.str("the configuration is larger than 8 MiB; make it smaller"),
        FallbackError::Empty => out.str("the configuration is empty; check the URL"),
        FallbackError::WrongHash => {
            out.str("the configuration does not have the hash in rd.report.fallback.sha512=; correct one of them")
        }
    };
}

fn journal(error: JournalError, out: &mut Text<'_>) {
    match error {
        JournalError::None => {
            out.str("no journal file under /run/log/journal or /var/log/journal");
        }
        JournalError::Open(e) => {
            out.str("the journal cannot be opened: ");
            errno(e, out);
        }
    }
}

#[cfg(not(feature = "tls"))]
fn tls(_: TlsError, _: &CertFacts, out: &mut Text<'_>) {
    out.str("this build has no TLS");
}

#[cfg(feature = "tls")]
fn tls(error: TlsError, cert: &CertFacts, out: &mut Text<'_>) {
    let time = |s: u64, out: &mut Text<'_>| {
        out.str(core::str::from_utf8(&rfc3339(s)).unwrap_or_default());
    };
    let subject = |out: &mut Text<'_>| {
        out.str(if cert.is_issuers { "an issuer of the certificate" } else { "the certificate" });
        if !cert.name().is_empty() {
            out.str(" of ").str(cert.name());
        }
    };
    match error {
        TlsError::Expired => {
            subject(out);
            out.str(" was valid until ");
            time(cert.not_after_s, out);
            out.str(", and it is ");
            time(cert.now_s, out);
            out.str(if cfg!(feature = "net-extra") {
                " here; renew it, set the clock, or set rd.report.clock=lenient or rd.report.pin="
            } else {
                " here; renew it, set the clock, or set rd.report.pin="
            })
        }
        TlsError::NotYetValid => {
            subject(out);
            out.str(" is valid from ");
            time(cert.not_before_s, out);
            out.str(", and it is ");
            time(cert.now_s, out);
            out.str(" here; set the clock, or set rd.report.pin=")
        }
        TlsError::WrongName => {
            subject(out);
            match cert.has_alternative_names {
                true => out.str(" is not for the host of the URL; change the URL, or set rd.report.pin="),
                false => out.str(" names no host (no subject alternative name); make a new one, or set rd.report.pin="),
            }
        }
        TlsError::UnknownIssuer => {
            subject(out);
            out.str(" comes from an issuer that is not trusted; set rd.report.ca= to the issuer's certificate")
        }
        TlsError::SelfSigned => {
            subject(out);
            out.str(" is self-signed and not trusted; set rd.report.ca= to it, or rd.report.pin=")
        }
        TlsError::WrongPin => out.str("the server's key is none of those in rd.report.pin="),
        TlsError::BadPin => {
            out.str("the server's key is none of those in rd.report.pin=, of which one is no sha256:BASE64; correct it")
        }
        TlsError::BadSignature => {
            out.str("a signature of ");
            subject(out);
            out.str(" is wrong: somebody may be in between; check rd.report.ca=")
        }
        TlsError::UnsupportedSignature
        | TlsError::KeySize
        | TlsError::OldCertificate
        | TlsError::CriticalExtension
        | TlsError::WrongUsage
        | TlsError::CaAsServer
        | TlsError::IssuerNotCa
        | TlsError::PathLength
        | TlsError::NameConstraint
        | TlsError::DirectoryConstraint
        | TlsError::TangledChain
        | TlsError::BadCertificate => {
            subject(out);
            certificate(error, cert, out);
            out
        }
        TlsError::OldVersion => {
            out.str("the server speaks no TLS 1.2 or 1.3; change the server, or use http:// in the URL")
        }
        TlsError::NothingInCommon => {
            out.str("no cipher suite, group or signature in common with the server; change the server")
        }
        TlsError::Alert(code) => {
            alert(code, out);
            out
        }
        TlsError::ClientWanted => {
            out.str("the server asks for a client certificate, and refused us without one; ");
            out.str(match cfg!(feature = "client-auth") {
                true => "set rd.report.cert= and rd.report.key=",
                false => "this build has none",
            })
        }
        TlsError::ClientRefused(code) => {
            out.str("the server refused our client certificate: ");
            alert(code, out);
            out.str("; check rd.report.cert=")
        }
        TlsError::SecondHandshake => out.str(
            "the server wanted a second handshake (renegotiation), as it does for a client certificate that only some \
             paths need; that is not supported: let the server ask for it at once (Apache: SSLVerifyClient outside of \
             <Location>), and set rd.report.cert=",
        ),
        TlsError::NotTls => out.str("the server does not speak TLS on this port; check port and https:// of the URL"),
        TlsError::HandshakeCut => out.str("the server closed the connection within the TLS handshake"),
        TlsError::Truncated => out.str("the connection ended without a TLS close: the answer may have been cut"),
        TlsError::BadRecord => out.str("a TLS record was broken on its way"),
        TlsError::TooLarge => out.str("the handshake is too large (64 KB at most for the server's certificates)"),
        TlsError::BadClientCertificate => out.str("no certificate in PEM"),
        TlsError::BadClientKey => out.str(match cfg!(feature = "client-auth-rsa") {
            true => "no key of the certificate in rd.report.cert= (P-256 or RSA, PEM, without a password)",
            false => "no key of the certificate in rd.report.cert= (P-256, PEM, without a password)",
        }),
        TlsError::BadName => out.str("the host of the URL is no name that a certificate can be for"),
        TlsError::NoRandom => out.str("the kernel gives no random numbers"),
        TlsError::Protocol => out.str("the server breaks the TLS protocol"),
        TlsError::NotBuilt => out.str("this build has no TLS"),
    };
}

/// What is wrong with a certificate or its issuer, and what helps.
#[cfg(feature = "tls")]
fn certificate(error: TlsError, cert: &CertFacts, out: &mut Text<'_>) {
    out.str(match error {
        TlsError::KeySize => {
            out.str(" has an RSA key of ").dec(cert.rsa_bits.into());
            out.str(" bits; make a new one of 2048 to 8192 bits");
            return;
        }
        TlsError::OldCertificate if cert.is_issuers => {
            " is of X.509 version 1, which is trusted as rd.report.ca= alone; set that to it, or set rd.report.pin="
        }
        TlsError::OldCertificate => {
            " is of X.509 version 1, which names no host; make one of version 3 with a subjectAltName \
             (openssl x509 -req -extfile), or set rd.report.pin="
        }
        TlsError::UnsupportedSignature => {
            " is signed by an algorithm that is not supported (RSA, P-256 and P-384 with SHA-256, 384 and 512 are); \
             make a new one, or set rd.report.pin="
        }
        TlsError::CriticalExtension => {
            " has a critical extension that is not supported; make one without it, or set rd.report.pin="
        }
        TlsError::WrongUsage => {
            " is not for a server (extendedKeyUsage without serverAuth); make a new one, or set rd.report.pin="
        }
        TlsError::CaAsServer => {
            " is a CA's own (basicConstraints CA:TRUE), which is for no server; make one for the server, or set \
             rd.report.ca= to this one, or rd.report.pin="
        }
        TlsError::IssuerNotCa => {
            " is no CA (basicConstraints without CA:TRUE); let a CA sign, or set rd.report.pin="
        }
        TlsError::PathLength => {
            " allows fewer CAs below it than there are (pathlen of basicConstraints); let a CA nearer to it sign, or set \
             rd.report.pin="
        }
        TlsError::NameConstraint => {
            " has nameConstraints that exclude a name of it; change its names, or set rd.report.pin="
        }
        TlsError::DirectoryConstraint => {
            " has nameConstraints of directoryName, which are not supported; use another CA, or set rd.report.pin="
        }
        TlsError::TangledChain => {
            " comes with more certificates, or more ways through them, than are tried; send fewer, or set rd.report.pin="
        }
        _ => " cannot be read as X.509 (RFC 5280); make a new one, or set rd.report.pin=",
    });
}

/// Says with which alert a server refused us.
#[cfg(feature = "tls")]
fn alert(code: u8, out: &mut Text<'_>) {
    out.str("the server ended TLS with alert ").dec(code.into());
    out.str(match code {
        40 => " (handshake failure)",
        42 => " (bad certificate)",
        43 => " (unsupported certificate)",
        44 => " (certificate revoked)",
        45 => " (certificate expired)",
        46 => " (certificate not acceptable)",
        48 => " (our certificate's issuer is not known there)",
        49 => " (access denied)",
        70 => " (protocol version)",
        80 => " (internal error)",
        112 => " (host name not known there); check the host of the URL",
        116 => " (certificate required)",
        _ => "",
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(e: NetError) -> String {
        let mut buf = [0; 512];
        let mut out = Text::new(&mut buf);
        net(e, &mut out);
        out.as_str().to_owned()
    }

    /// Errors of socket(2), connect(2), bind(2), send(2) and recv(2), and of what lies below them.
    #[test]
    fn errors_of_sockets_have_words() {
        for e in [
            Errno::ACCESS,
            Errno::PERM,
            Errno::ADDRINUSE,
            Errno::ADDRNOTAVAIL,
            Errno::AFNOSUPPORT,
            Errno::AGAIN,
            Errno::CONNABORTED,
            Errno::CONNREFUSED,
            Errno::CONNRESET,
            Errno::HOSTDOWN,
            Errno::HOSTUNREACH,
            Errno::INVAL,
            Errno::MFILE,
            Errno::MSGSIZE,
            Errno::NETDOWN,
            Errno::NETRESET,
            Errno::NETUNREACH,
            Errno::NFILE,
            Errno::NOBUFS,
            Errno::NODEV,
            Errno::NOMEM,
            Errno::NOPROTOOPT,
            Errno::NOSYS,
            Errno::OPNOTSUPP,
            Errno::PIPE,
            Errno::PROTO,
            Errno::PROTONOSUPPORT,
            Errno::PROTOTYPE,
            Errno::SOCKTNOSUPPORT,
            Errno::TIMEDOUT,
        ] {
            for e in [NetError::Connect(e), NetError::Send(e), NetError::Recv(e)] {
                assert!(!said(e).contains("errno(3)"), "{e:?}: {}", said(e));
            }
        }
        assert_eq!(
            said(NetError::Connect(Errno::from_raw_os_error(4095))),
            "cannot connect: error 4095 (see errno(3)); check host and port of the URL"
        );
    }
}
