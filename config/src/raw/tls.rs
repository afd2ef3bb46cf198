//! TLS as it is written.

use super::{Limit, ListenerCertificate, Timeout};
use crate::addresses::ServerName;
use crate::containers::{List, Or};
use crate::names::FilePath;
use crate::record::{choices, record};
use crate::resolved::{ClientCertificateMode, ExpiredCrl, TlsVersion};
use crate::scalars::{Count, Flag};
use crate::words::{Off, words};

record! {
    /// How Sprat speaks TLS with clients.
    closed struct ListenerTls {
        /// Certificates of the listener. A client gets the first one that is for the name it asks
        /// for (SNI), those with a wildcard last, and of a kind that it accepts. If it asks for no
        /// name, or no certificate is for that name, it gets the first that it accepts.
        required certificates: List<ListenerCertificate, 1>,
        /// The oldest version of TLS that Sprat accepts.
        default("TLSv1_2") minimum_version: TlsVersion,
        /// Ask clients for certificates.
        default("off") client_certificates: Or<Off, ClientCertificates>,
        /// Time from the connection's start to the end of the handshake.
        default("10s") handshake_timeout: Timeout,
        /// Handshakes in progress; a connection over it is closed.
        default("1024") max_handshakes: Limit,
        /// Tickets that a client gets for each new session, to resume it under TLS 1.3. Each takes
        /// about 250 bytes on the uplink. 0 switches resumption off.
        default("2") session_tickets: Count<0, 8>,
    }

    /// A certificate and its key. Sprat reads the files again when they change.
    closed struct TlsCertificate {
        /// File with the certificate in PEM, followed by the intermediate certificates up to a
        /// known authority. The certificate is for the names in its subjectAltName.
        required certificate_chain: FilePath,
        /// File with the certificate's private key in PEM, without a pass phrase.
        required private_key: FilePath,
    }

    /// How Sprat speaks TLS with backends.
    closed struct ClusterTls {
        /// File with the certificate authorities that Sprat trusts, in PEM. `system` trusts those
        /// that the system trusts.
        default("system") trusted_ca: Or<System, FilePath>,
        /// Name that Sprat asks for (SNI), and that the backend's certificate must be for. The
        /// endpoint's host if absent.
        optional sni: ServerName,
        /// Certificate that Sprat shows to a backend that asks for one.
        optional client_certificate: TlsCertificate,
        /// The oldest version of TLS that Sprat accepts.
        default("TLSv1_2") minimum_version: TlsVersion,
        /// Accept any certificate. An attacker between Sprat and the backend can then read and
        /// change everything.
        default("false") insecure_skip_verify: Flag,
    }

    /// Certificates that clients show (mutual TLS).
    closed struct ClientCertificates {
        /// File with the certificate authorities that Sprat trusts, in PEM.
        required trusted_ca: FilePath,
        /// Whether a client without a certificate is served.
        default("required") mode: ClientCertificateMode,
        /// Files with certificate revocation lists (CRL), in PEM or one in DER. If there are any,
        /// each authority from a client's certificate up to the one in `trusted_ca` needs a list.
        default("[]") crl_files: List<FilePath, 0>,
        /// What to do with clients when the time of a revocation list (`nextUpdate`) is over.
        default("deny") expired_crl: ExpiredCrl,
    }
}

words! {
    /// The word `system`: what this system has.
    System = "system",
}

choices! {
    TlsVersion as "TlsVersion": "a version" {
        /// TLS 1.2 (RFC 5246), only with forward secrecy and AEAD ciphers.
        "TLSv1_2" => Self::V1_2,
        /// TLS 1.3 (RFC 8446).
        "TLSv1_3" => Self::V1_3,
    }

    ExpiredCrl as "ExpiredCrl": "what an expired list means" {
        /// Sprat accepts no certificate of that authority until there is a newer list.
        "deny" => Self::Deny,
        /// Sprat goes on using the list.
        "use" => Self::Use,
    }

    ClientCertificateMode as "ClientCertificateMode": "a mode" {
        /// Without a valid certificate the handshake fails.
        "required" => Self::Required,
        /// A client may show no certificate. With an invalid one the handshake fails.
        "optional" => Self::Optional,
    }
}
