//! TLS as it is written.

use super::{Limit, ListenerCertificate, Timeout};
use crate::addresses::ServerName;
use crate::containers::{List, Or, Word};
use crate::names::FilePath;
use crate::record::{choices, record};
use crate::resolved::{ClientCertificateMode, ExpiredCrl, TlsVersion};
use crate::scalars::{Count, Flag, Off};

record! {
    /// How TLS is spoken with clients.
    closed struct ListenerTls {
        /// What the listener shows, by the name that a client asks for (SNI):
        /// the first that is for the name and of a kind that the client takes.
        /// A client that asks for no name, or for one that none is for, gets
        /// the first of all.
        required certificates: List<ListenerCertificate, 1>,
        /// The oldest version that is spoken.
        default("TLSv1_2") minimum_version: TlsVersion,
        /// Ask clients for certificates.
        default("off") client_certificates: Or<Off, ClientCertificates>,
        /// From the connection's start to the end of the handshake.
        default("10s") handshake_timeout: Timeout,
        /// Handshakes in progress; a connection over it is closed.
        default("1024") max_handshakes: Limit,
        /// Tickets that a client gets to resume its session with, under TLS
        /// 1.3; 0 switches resumption off. Each is about 250 bytes on the
        /// uplink for each new session.
        default("2") session_tickets: Count<0, 8>,
    }

    /// A certificate and its key. The files are read again when they change.
    closed struct TlsCertificate {
        /// The certificate in PEM, followed by those that lead from it to a
        /// known authority. It is for the names in its subjectAltName.
        required certificate_chain: FilePath,
        /// The certificate's private key in PEM, without a pass phrase.
        required private_key: FilePath,
    }

    /// How TLS is spoken with backends.
    closed struct ClusterTls {
        /// The authorities that are believed, in PEM; `system` is those that
        /// this system believes.
        default("system") trusted_ca: Or<System, FilePath>,
        /// The name that is asked for, and that the certificate must be for;
        /// the endpoint's host if absent.
        optional sni: ServerName,
        /// What is shown to a backend that asks.
        optional client_certificate: TlsCertificate,
        /// The oldest version that is spoken.
        default("TLSv1_2") minimum_version: TlsVersion,
        /// Believe any certificate: an attacker on the way can read and change everything.
        default("false") insecure_skip_verify: Flag,
    }

    /// What clients have to show.
    closed struct ClientCertificates {
        /// The authorities that are believed, in PEM.
        required trusted_ca: FilePath,
        /// Whether a client without a certificate is served.
        default("required") mode: ClientCertificateMode,
        /// Files with lists of what the authorities have revoked (CRL), in PEM or one in
        /// DER. Where there are any, each authority from a client's certificate up to the
        /// one in `trusted_ca` needs one.
        default("[]") crl_files: List<FilePath, 0>,
        /// What becomes of clients when a list's time (`nextUpdate`) is over.
        default("deny") expired_crl: ExpiredCrl,
    }
}

/// The word `system`: what this system has.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct System;

impl Word for System {
    const WORD: &'static str = "system";
}

choices! {
    TlsVersion as "TlsVersion": "a version" {
        /// TLS 1.2 (RFC 5246), with forward secrecy and AEAD ciphers alone.
        "TLSv1_2" => Self::V1_2,
        /// TLS 1.3 (RFC 8446).
        "TLSv1_3" => Self::V1_3,
    }

    ExpiredCrl as "ExpiredCrl": "what an expired list means" {
        /// No certificate of that authority is taken, until there is a newer list.
        "deny" => Self::Deny,
        /// The list is believed all the same.
        "use" => Self::Use,
    }

    ClientCertificateMode as "ClientCertificateMode": "a mode" {
        /// Without a valid one the handshake fails.
        "required" => Self::Required,
        /// A client may have none; one that is not valid fails.
        "optional" => Self::Optional,
    }
}
