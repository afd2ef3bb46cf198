//! Certificates that an authority issues by ACME, as they are written.

use std::borrow::Cow;

use schemars::{Schema, SchemaGenerator, json_schema};

use super::{Timeout, TlsCertificate};
use crate::addresses::{CertificateName, HttpsUrl};
use crate::containers::{List, Or};
use crate::decode::{Context, Decode, Of};
use crate::names::{Email, FilePath};
use crate::record::record;
use crate::tree::{Kind, Node};
use crate::words::words;

record! {
    /// An authority that issues certificates by ACME (RFC 8555).
    closed struct Acme {
        /// URL of the authority's directory. By giving it, the operator agrees to the authority's
        /// terms of service.
        required directory_url: HttpsUrl,
        /// Address that the authority writes to about certificates.
        optional email: Email,
        /// Directory for the account, the certificates and their keys. Sprat makes it if it does
        /// not exist. Processes that share it share the certificates: one of them asks for each.
        required storage: FilePath,
        /// How Sprat proves to the authority that it controls a name. `http-01` answers requests
        /// for `/.well-known/acme-challenge/` on port 80, and `tls-alpn-01` answers handshakes on
        /// port 443. A command changes the name's zone (`dns-01`); only this works for wildcards.
        default("http-01") challenge: Or<Http01, Or<TlsAlpn01, AcmeCommand>>,
        /// File with the certificate authorities that Sprat trusts for `directory_url`, in PEM.
        /// Those that the system trusts if absent.
        optional ca_file: FilePath,
    }

    /// A command that adds a record to a name's zone, and removes it.
    closed struct AcmeCommand {
        /// The program. Sprat runs `PROGRAM present DOMAIN NAME VALUE`, which gives NAME a TXT
        /// record VALUE, and the same with `cleanup`, which removes it. The environment has the
        /// same as `ACME_ACTION`, `ACME_DOMAIN`, `ACME_NAME` and `ACME_VALUE`. `present` must not
        /// end before all servers of the zone have the record.
        required command: FilePath,
        /// Time for each run. Then Sprat kills the program.
        default("120s") timeout: Timeout,
    }

    /// A certificate that the authority of the top-level `acme` issues.
    closed struct AcmeCertificate {
        /// Names that the certificate is for, 100 at most.
        required acme: List<CertificateName, 1>,
    }
}

words! {
    /// The proof of a name by an answer to a request.
    Http01 = "http-01",
    /// The proof of a name by a handshake.
    TlsAlpn01 = "tls-alpn-01",
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
