//! The algorithms, versions and protocols that a handshake may agree on.

use std::sync::Arc;

use rustls::crypto::{CryptoProvider, ring};
use rustls::{SupportedProtocolVersion, version};
use sprat_config::resolved::TlsVersion;

/// The name of HTTP/1.1 in a handshake (RFC 7301 6).
pub(super) const HTTP_1: &[u8] = b"http/1.1";

/// The name of HTTP/2 in a handshake (RFC 9113 3.2).
pub(super) const HTTP_2: &[u8] = b"h2";

/// Returns the provider of cryptographic algorithms, ring.
pub(super) fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// Returns the versions of TLS from `minimum` on, the newest first.
pub(super) fn versions(minimum: TlsVersion) -> &'static [&'static SupportedProtocolVersion] {
    static ALL: [&SupportedProtocolVersion; 2] = [&version::TLS13, &version::TLS12];
    match minimum {
        TlsVersion::V1_2 => &ALL,
        TlsVersion::V1_3 => &ALL[..1],
    }
}
