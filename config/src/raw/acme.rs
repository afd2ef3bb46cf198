//! Certificates that an authority issues by ACME, as they are written.

use std::borrow::Cow;

use schemars::{Schema, SchemaGenerator, json_schema};

use super::{Timeout, TlsCertificate};
use crate::addresses::{CertificateName, HttpsUrl};
use crate::containers::{List, Or, Word};
use crate::decode::{Context, Decode, Of};
use crate::names::{Email, FilePath};
use crate::record::record;
use crate::tree::{Kind, Node};

record! {
    /// An authority that issues certificates by ACME (RFC 8555).
    closed struct Acme {
        /// The authority's directory. To name it here is to agree to the authority's
        /// terms of service.
        required directory_url: HttpsUrl,
        /// Where the authority writes to about certificates.
        optional email: Email,
        /// The directory for the account, certificates and their keys; it is made if it is
        /// not there. Processes that share it share the certificates: one of them asks
        /// for each.
        required storage: FilePath,
        /// How the authority is shown that a name is ours: `http-01` by answers to
        /// `/.well-known/acme-challenge/` on port 80, `tls-alpn-01` by handshakes on port
        /// 443, or by a command that changes the name's zone (`dns-01`), which alone does
        /// for wildcards.
        default("http-01") challenge: Or<Http01, Or<TlsAlpn01, AcmeCommand>>,
        /// The authorities that are believed about the directory, in PEM; those that this
        /// system believes if absent.
        optional ca_file: FilePath,
    }

    /// A command that puts a record into a name's zone, and takes it away.
    closed struct AcmeCommand {
        /// The program, run as `PROGRAM present DOMAIN NAME VALUE`, and the same with
        /// `cleanup`: NAME is to have a TXT record VALUE. The same is in the environment
        /// as `ACME_ACTION`, `ACME_DOMAIN`, `ACME_NAME` and `ACME_VALUE`. `present` ends
        /// when the record can be seen by all.
        required command: FilePath,
        /// For each run; then the program is killed.
        default("120s") timeout: Timeout,
    }

    /// A certificate that the authority in `acme` issues.
    closed struct AcmeCertificate {
        /// The names that it is for, 100 at most.
        required acme: List<CertificateName, 1>,
    }
}

/// The proof of a name by an answer to a request.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Http01;

impl Word for Http01 {
    const WORD: &'static str = "http-01";
}

/// The proof of a name by a handshake.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TlsAlpn01;

impl Word for TlsAlpn01 {
    const WORD: &'static str = "tls-alpn-01";
}

/// A certificate that a listener shows: one in files, or one that is issued.
#[derive(Clone, Debug)]
pub(crate) enum ListenerCertificate {
    Files(TlsCertificate),
    Issued(AcmeCertificate),
}

impl Decode for ListenerCertificate {
    fn expected() -> Cow<'static, str> {
        "{certificate_chain, private_key}, or {acme: [www.example.org]}".into()
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({"anyOf": [
            generator.subschema_for::<Of<TlsCertificate>>(),
            generator.subschema_for::<Of<AcmeCertificate>>(),
        ]})
    }

    fn decode(node: &Node, cx: &mut Context<'_, '_>) -> Option<Self> {
        match &node.kind {
            Kind::Mapping(entries) if entries.iter().any(|entry| entry.key == "acme") => {
                AcmeCertificate::decode(node, cx).map(Self::Issued)
            }
            Kind::Mapping(_) => TlsCertificate::decode(node, cx).map(Self::Files),
            _ => {
                cx.mapping(node, &Self::expected);
                None
            }
        }
    }
}
