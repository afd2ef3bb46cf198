//! The check that an endpoint is the one that it should be.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{VerifierBuilderError, WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use x509_parser::certificate::X509Certificate;
use x509_parser::parse_x509_certificate;

use super::protocols::provider;

/// A verifier that trusts what one of these authorities has signed, and the certificate of such
/// an authority itself. webpki does not trust the latter. But `openssl req -x509` makes a
/// certificate that may sign others, where a backend's own is meant; a holder of its key could
/// sign another anyway.
#[derive(Debug)]
pub(super) struct Trusting {
    signed: Arc<WebPkiServerVerifier>,
    authorities: Vec<CertificateDer<'static>>,
}

impl Trusting {
    /// Trusts what the `roots` have signed, and these certificates of `authorities` among them.
    ///
    /// # Errors
    ///
    /// There is no authority among the roots.
    pub(super) fn new(
        roots: RootCertStore,
        authorities: Vec<CertificateDer<'static>>,
    ) -> Result<Self, VerifierBuilderError> {
        let signed = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider());
        Ok(Self {
            signed: signed.build()?,
            authorities,
        })
    }
}

/// Checks the dates and the purpose of an authority's certificate that an endpoint shows. Its
/// name is checked apart.
fn check_authority(certificate: &X509Certificate<'_>, now: UnixTime) -> Result<(), Error> {
    let now_s = now.as_secs() as i64;
    let validity = certificate.validity();
    if now_s < validity.not_before.timestamp() {
        return Err(CertificateError::NotValidYet.into());
    }
    if now_s > validity.not_after.timestamp() {
        return Err(CertificateError::Expired.into());
    }
    match certificate.extended_key_usage() {
        Ok(Some(usage)) if !usage.value.server_auth => Err(CertificateError::InvalidPurpose.into()),
        Ok(_) => Ok(()),
        Err(_) => Err(CertificateError::BadEncoding.into()),
    }
}

impl ServerCertVerifier for Trusting {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if self.authorities.contains(shown)
            && let Ok((_, certificate)) = parse_x509_certificate(shown)
            && certificate.is_ca()
        {
            check_authority(&certificate, now)?;
            verify_server_name(&ParsedCertificate::try_from(shown)?, name)?;
            return Ok(ServerCertVerified::assertion());
        }
        (self.signed).verify_server_cert(shown, others, name, ocsp, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        (self.signed).verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        (self.signed).verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.signed.supported_verify_schemes()
    }
}

/// A verifier that trusts any certificate, for `insecure_skip_verify`. It still checks that the
/// endpoint has the certificate's key.
#[derive(Debug)]
pub(super) struct AnyCertificate(pub(super) Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
