//! TLS: everything but what is in the files.

use super::{count, each, time};
use crate::containers::Or;
use crate::decode::Field;
use crate::names::FilePath;
use crate::raw;
use crate::resolved::*;

/// A listener's; `Some(None)` if it is off.
pub(super) fn listener<W>(raw: &Field<Or<W, raw::ListenerTls>>) -> Option<Option<ListenerTls>> {
    let Some(raw) = raw.get()?.value() else {
        return Some(None);
    };
    Some(Some(ListenerTls {
        certificates: each(&raw.certificates, certificate)?,
        minimum_version: raw.minimum_version.copied()?,
        client_certificates: match raw.client_certificates.get()?.value() {
            None => None,
            Some(asked) => Some(ClientCertificates {
                trusted_ca: file(&asked.trusted_ca)?,
                mode: asked.mode.copied()?,
            }),
        },
        handshake_timeout: time(&raw.handshake_timeout)?,
        max_handshakes: count(&raw.max_handshakes)?,
        session_tickets: count(&raw.session_tickets)?,
    }))
}

fn certificate(raw: &raw::TlsCertificate) -> Option<TlsCertificate> {
    Some(TlsCertificate {
        chain: file(&raw.certificate_chain)?,
        key: file(&raw.private_key)?,
    })
}

fn file(raw: &Field<FilePath>) -> Option<FileAt> {
    Some(FileAt {
        path: raw.get()?.0.clone(),
        span: raw.span.clone(),
    })
}
