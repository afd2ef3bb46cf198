//! The outcomes of handshakes with clients, and what the two ends agree on in them.

use std::io;

use rustls::{Error, HandshakeKind, ProtocolVersion, ServerConnection};

use super::certificates::PeerNames;
use super::protocols::HTTP_2;
use crate::counters::Counter;

/// The result of a handshake: the client's names, the protocol and the terms.
#[derive(Debug)]
pub struct Secured {
    /// The names in the client's certificate, if it has shown one.
    pub peer: Option<PeerNames>,
    /// The application protocol (RFC 7301); none if the client asked for none.
    pub protocol: Option<Vec<u8>>,
    /// The version and the cipher suite.
    pub terms: TlsTerms,
}

/// The version and the cipher suite of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TlsTerms {
    /// The version, such as `TLSv1.3`.
    pub version: &'static str,
    /// The name of the cipher suite.
    pub cipher: &'static str,
}

impl TlsTerms {
    /// Returns the version and the cipher suite that a session agreed on.
    pub fn of(session: &ServerConnection) -> Self {
        let suite = session.negotiated_cipher_suite();
        Self {
            version: match session.protocol_version() {
                Some(ProtocolVersion::TLSv1_3) => "TLSv1.3",
                Some(ProtocolVersion::TLSv1_2) => "TLSv1.2",
                _ => "other",
            },
            cipher: suite
                .and_then(|own| own.suite().as_str())
                .unwrap_or("other"),
        }
    }
}

impl Secured {
    /// Returns whether the application protocol is HTTP/2.
    pub fn is_http2(&self) -> bool {
        self.protocol.as_deref() == Some(HTTP_2)
    }
}

/// The way in which a handshake ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Outcome {
    /// A new session was begun, with TLS 1.2.
    Full12,
    /// A new session was begun, with TLS 1.3.
    Full13,
    /// An earlier session of the client's was resumed, with TLS 1.2.
    Resumed12,
    /// An earlier session of the client's was resumed, with TLS 1.3.
    Resumed13,
    /// The two ends have no version, cipher suite or protocol in common.
    Incompatible,
    /// Sprat has no certificate yet: the first is still to be issued.
    NoCertificate,
    /// The client has shown no certificate where one is needed.
    CertificateRequired,
    /// The client's certificate is not trusted.
    CertificateInvalid,
    /// The client ended the handshake by an alert: it does not trust our certificate, for
    /// example.
    RefusedByClient,
    /// The client has sent something other than TLS, or TLS that is malformed.
    Malformed,
    /// The client has sent HTTP in plain text.
    PlainHttp,
    /// The client closed the connection.
    Closed,
    /// The handshake took too long.
    Timeout,
    /// The listener had as many handshakes in progress as it may.
    Overflow,
    /// The proxy is shutting down.
    Shutdown,
}

impl Outcome {
    /// All outcomes, in the order of their numbers.
    pub(super) const ALL: [Self; 15] = [
        Self::Full12,
        Self::Full13,
        Self::Resumed12,
        Self::Resumed13,
        Self::Incompatible,
        Self::NoCertificate,
        Self::CertificateRequired,
        Self::CertificateInvalid,
        Self::RefusedByClient,
        Self::Malformed,
        Self::PlainHttp,
        Self::Closed,
        Self::Timeout,
        Self::Overflow,
        Self::Shutdown,
    ];

    /// Returns the labels: the version (empty if the handshake failed) and the result.
    pub(super) fn labels(self) -> (&'static str, &'static str) {
        match self {
            Self::Full12 => ("1.2", "full"),
            Self::Full13 => ("1.3", "full"),
            Self::Resumed12 => ("1.2", "resumed"),
            Self::Resumed13 => ("1.3", "resumed"),
            Self::Incompatible => ("", "incompatible"),
            Self::NoCertificate => ("", "no_certificate"),
            Self::CertificateRequired => ("", "certificate_required"),
            Self::CertificateInvalid => ("", "certificate_invalid"),
            Self::RefusedByClient => ("", "refused_by_client"),
            Self::Malformed => ("", "malformed"),
            Self::PlainHttp => ("", "plain_http"),
            Self::Closed => ("", "closed"),
            Self::Timeout => ("", "timeout"),
            Self::Overflow => ("", "overflow"),
            Self::Shutdown => ("", "shutdown"),
        }
    }

    /// Returns the outcome of a handshake that was completed.
    pub fn of_success(session: &ServerConnection) -> Self {
        let newer = session.protocol_version() == Some(ProtocolVersion::TLSv1_3);
        let resumed = session.handshake_kind() == Some(HandshakeKind::Resumed);
        match (newer, resumed) {
            (false, false) => Self::Full12,
            (true, false) => Self::Full13,
            (false, true) => Self::Resumed12,
            (true, true) => Self::Resumed13,
        }
    }

    /// Returns whether the outcome is a refusal of ours, of which an alert tells the client.
    pub fn is_told(self) -> bool {
        let certificate = matches!(self, Self::CertificateRequired | Self::CertificateInvalid);
        let own = matches!(self, Self::Incompatible | Self::NoCertificate);
        certificate || own || self == Self::Malformed
    }

    /// Returns the outcome of a handshake that failed, as far as its error tells.
    pub fn of_failure(error: &io::Error) -> Self {
        let inner = error.get_ref();
        if inner.is_some_and(|inner| inner.is::<PlainHttp>()) {
            return Self::PlainHttp;
        }
        match inner.and_then(|inner| inner.downcast_ref()) {
            None => Self::Closed,
            Some(Error::PeerIncompatible(_) | Error::NoApplicationProtocol) => Self::Incompatible,
            Some(Error::NoCertificatesPresented) => Self::CertificateRequired,
            Some(Error::InvalidCertificate(_)) => Self::CertificateInvalid,
            Some(Error::AlertReceived(_)) => Self::RefusedByClient,
            Some(_) => Self::Malformed,
        }
    }
}

/// The counts of a worker's handshakes, by outcome.
#[derive(Debug, Default)]
pub struct HandshakeStats([Counter; Outcome::ALL.len()]);

impl HandshakeStats {
    /// Counts a handshake. Only the owning worker may call this.
    pub fn count(&self, outcome: Outcome) {
        self.0[outcome as usize].increment();
    }

    /// Returns how many handshakes had this outcome.
    pub(super) fn of(&self, outcome: Outcome) -> u64 {
        self.0[outcome as usize].get()
    }
}

/// The error of a client that sends HTTP in plain text where TLS is spoken.
#[derive(Debug, thiserror::Error)]
#[error("HTTP in plain text, where TLS is spoken")]
pub struct PlainHttp;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_holds_every_outcome_at_its_number() {
        for (index, outcome) in Outcome::ALL.into_iter().enumerate() {
            assert_eq!(outcome as usize, index);
        }
        assert_eq!(Outcome::Shutdown as usize + 1, Outcome::ALL.len());
    }
}
