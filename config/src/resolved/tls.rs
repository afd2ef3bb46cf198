//! TLS settings after every check that needs no file.

use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use super::IssuedCertificate;

/// A place in the configuration, in bytes, for [`Errors::add`](crate::Errors::add).
#[derive(Clone, Debug, Default)]
pub struct Span(pub Range<usize>);

/// Spans are equal, whatever their bytes: the place of a value does not change its meaning.
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
    /// The place in the configuration that names the file.
    pub span: Span,
}

/// The TLS that a listener speaks with clients.
#[derive(Clone, Debug, PartialEq)]
pub struct ListenerTls {
    /// The certificates, at least one. The first is also for names that no certificate is for.
    pub certificates: Vec<ListenerCertificate>,
    /// The oldest version of TLS that Sprat accepts.
    pub minimum_version: TlsVersion,
    /// The certificates that clients are asked for; none if Sprat does not ask.
    pub client_certificates: Option<ClientCertificates>,
    /// The longest time from the connection's start to the end of the handshake.
    pub handshake_timeout: Duration,
    /// The most handshakes in progress.
    pub max_handshakes: usize,
    /// The tickets for each new session under TLS 1.3; 0 switches resumption off.
    pub session_tickets: usize,
    /// Whether HTTP/2 is offered (ALPN `h2`).
    pub http2: bool,
    /// Whether HTTP/1.1 is offered (ALPN `http/1.1`).
    pub http1: bool,
}

/// A certificate that a listener shows.
#[derive(Clone, Debug, PartialEq)]
pub enum ListenerCertificate {
    /// A certificate in files that the operator provides.
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

    /// Returns the file that has the certificate's private key.
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
    /// The file with the certificate, followed by those that lead to an authority.
    pub chain: FileAt,
    /// The file of the private key.
    pub key: FileAt,
}

/// The certificates that clients are asked for (mutual TLS).
#[derive(Clone, Debug, PartialEq)]
pub struct ClientCertificates {
    /// The file with the authorities that Sprat trusts.
    pub trusted_ca: FileAt,
    /// Whether a client must show a certificate.
    pub mode: ClientCertificateMode,
    /// The files with lists of revoked certificates; empty if revocation is not checked.
    pub crl_files: Vec<FileAt>,
    /// The meaning of a list of revoked certificates whose time is over.
    pub expired_crl: ExpiredCrl,
}

/// The meaning of a list of revoked certificates whose time is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpiredCrl {
    /// Certificates of the list's authority are refused.
    Deny,
    /// The list still counts.
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

/// The TLS that Sprat speaks with the backends of a cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterTls {
    /// The authorities that Sprat trusts.
    pub trusted_ca: TrustedCa,
    /// The name that Sprat asks for (SNI), in lower case; none stands for the endpoint's host.
    pub sni: Option<String>,
    /// The certificate that Sprat shows to a backend that asks for one.
    pub client_certificate: Option<TlsCertificate>,
    /// The oldest version of TLS that Sprat accepts.
    pub minimum_version: TlsVersion,
    /// Whether Sprat verifies the backends' certificates.
    pub verify: bool,
    /// Whether connections speak HTTP/2 alone.
    pub http2: bool,
}

/// The authorities whose certificates Sprat trusts.
#[derive(Clone, Debug, PartialEq)]
pub enum TrustedCa {
    /// The authorities that the system trusts. The span is where the file says so, or leaves it
    /// open.
    System(Span),
    /// The authorities in a file.
    File(FileAt),
}
