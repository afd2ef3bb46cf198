//! The certificate that is shown to an endpoint that asks for one, and the endpoint's reply to
//! it.

use std::cell::Cell;
use std::future::Future;
use std::sync::Arc;

use rustls::client::ResolvesClientCert;
use rustls::sign::CertifiedKey;
use rustls::{AlertDescription, ProtocolVersion, SignatureScheme};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

tokio::task_local! {
    /// Whether the endpoint of the present handshake has asked for a certificate.
    static ASKED: Cell<bool>;
}

/// The alerts by which an endpoint rejects our certificate, or the lack of one (RFC 8446 6.2).
/// Any other alert may be about a request, too.
pub(super) const REFUSALS: [AlertDescription; 10] = [
    AlertDescription::BadCertificate,
    AlertDescription::UnsupportedCertificate,
    AlertDescription::CertificateRevoked,
    AlertDescription::CertificateExpired,
    AlertDescription::CertificateUnknown,
    AlertDescription::UnknownCA,
    AlertDescription::AccessDenied,
    AlertDescription::CertificateRequired,
    AlertDescription::DecryptError,
    AlertDescription::HandshakeFailure,
];

/// A resolver that shows the same certificate to each endpoint that asks, if there is one.
#[derive(Debug)]
pub(super) struct Shown(pub(super) Option<Arc<CertifiedKey>>);

impl ResolvesClientCert for Shown {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        // Outside of a handshake there is no need to know.
        let _ = ASKED.try_with(|asked| asked.set(true));
        self.0.clone()
    }

    fn has_certs(&self) -> bool {
        self.0.is_some()
    }
}

/// Does a handshake; returns its output, and whether the endpoint has asked for a certificate.
pub(super) async fn with_asked<T>(handshake: impl Future<Output = T>) -> (T, bool) {
    let noted = async { (handshake.await, ASKED.with(Cell::get)) };
    ASKED.scope(Cell::new(false), noted).await
}

/// A connection by TLS to an endpoint, once our part of the handshake is done.
pub struct EndpointStream {
    /// The connection that records go over.
    pub stream: TlsStream<TcpStream>,
    /// Whether the endpoint has asked for a certificate.
    pub(super) asked: bool,
}

impl EndpointStream {
    /// Returns whether the endpoint may still reject the certificate that was shown. With TLS
    /// 1.3 it looks at that when the handshake is over for us. An endpoint that has asked for a
    /// certificate sends no ticket before (RFC 8446 4.6.1), and reads no request.
    pub fn may_be_refused(&self) -> bool {
        let (_, session) = self.stream.get_ref();
        self.asked
            && session.protocol_version() == Some(ProtocolVersion::TLSv1_3)
            && session.tls13_tickets_received() == 0
    }
}
