//! TLS after every check that needs no file.

use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use super::IssuedCertificate;

/// A place in the configuration, in bytes: for
/// [`Errors::add`](crate::Errors::add).
#[derive(Clone, Debug, Default)]
pub struct Span(pub Range<usize>);

/// Any two spans are equal: where something stands does not change what it means.
impl PartialEq for Span {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// A file that the configuration names.
#[derive(Clone, Debug, PartialEq)]
pub struct FileAt {
    /// The path of the file.
    pub path: PathBuf,
    /// The place in the configuration where it is named.
    pub span: Span,
}

/// The TLS that a listener speaks with clients.
#[derive(Clone, Debug, PartialEq)]
pub struct ListenerTls {
    /// The certificates, at least one; the first is for names that none is for.
    pub certificates: Vec<ListenerCertificate>,
    /// The oldest version that is spoken.
    pub minimum_version: TlsVersion,
    /// The certificates that clients are asked for; none if they are not asked.
    pub client_certificates: Option<ClientCertificates>,
    /// The time from the connection's start to the end of the handshake.
    pub handshake_timeout: Duration,
    /// The most handshakes in progress.
    pub max_handshakes: usize,
    /// Tickets for each new session under TLS 1.3; 0 is no resumption at all.
    pub session_tickets: usize,
    /// Whether HTTP/2 is offered (ALPN `h2`).
    pub http2: bool,
    /// Whether HTTP/1.1 is offered (ALPN `http/1.1`).
    pub http1: bool,
}

/// A certificate that a listener shows.
#[derive(Clone, Debug, PartialEq)]
pub enum ListenerCertificate {
    /// A certificate in files that are there.
    Files(TlsCertificate),
    /// A certificate that an authority issues.
    Issued(IssuedCertificate),
}

impl ListenerCertificate {
    /// Returns the file that has the certificate.
    pub fn chain(&self) -> &FileAt {
        match self {
            Self::Files(own) => &own.chain,
            Self::Issued(own) => &own.file,
        }
    }

    /// Returns the file that has its key.
    pub fn key(&self) -> &FileAt {
        match self {
            Self::Files(own) => &own.key,
            Self::Issued(own) => &own.file,
        }
    }
}

/// A certificate and its key, in PEM.
#[derive(Clone, Debug, PartialEq)]
pub struct TlsCertificate {
    /// The certificate, then those that lead to an authority.
    pub chain: FileAt,
    /// The file of the private key.
    pub key: FileAt,
}

/// The certificates that clients are asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientCertificates {
    /// The authorities that are believed.
    pub trusted_ca: FileAt,
    /// Whether a client must show one.
    pub mode: ClientCertificateMode,
    /// The lists of what the authorities have revoked; empty if that is not looked at.
    pub crl_files: Vec<FileAt>,
    /// The meaning of a list whose time is over.
    pub expired_crl: ExpiredCrl,
}

/// The meaning of a list of revoked certificates whose time is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpiredCrl {
    /// Certificates of the list's authority are not taken.
    Deny,
    /// The list is believed all the same.
    Use,
}

/// Whether a client must show a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientCertificateMode {
    /// A client must show a certificate.
    Required,
    /// A client may show a certificate.
    Optional,
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TlsVersion {
    /// TLS 1.2, as in RFC 5246.
    V1_2,
    /// TLS 1.3, as in RFC 8446.
    V1_3,
}

/// The TLS that is spoken with the backends of a cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterTls {
    /// The authorities that are believed.
    pub trusted_ca: TrustedCa,
    /// The name that is asked for, in lower case; the endpoint's host if none.
    pub sni: Option<String>,
    /// The certificate that is shown to a backend that asks.
    pub client_certificate: Option<TlsCertificate>,
    /// The oldest version that is spoken.
    pub minimum_version: TlsVersion,
    /// Whether the backends' certificates are looked at.
    pub verify: bool,
    /// Whether HTTP/2 is spoken and nothing else.
    pub http2: bool,
}

/// The authorities whose certificates are believed.
#[derive(Clone, Debug, PartialEq)]
pub enum TrustedCa {
    /// The authorities that this system believes; the span is where that is said, or left open.
    System(Span),
    /// The authorities in a file.
    File(FileAt),
}
