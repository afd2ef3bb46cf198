//! Resolves TLS: everything but the contents of the files.

use super::values::{count, file, maybe, time};
use crate::containers::{List, Or};
use crate::decode::Field;
use crate::diagnostic::Reporter;
use crate::names::FilePath;
use crate::raw;
use crate::resolved::*;

/// Resolves a listener's TLS, with `http2` or without; `Some(None)` if it is off.
pub(super) fn listener<W>(
    raw: &Field<Or<W, raw::ListenerTls>>,
    http2: Option<&Http2>,
    acme: Option<Option<&Acme>>,
    reporter: &mut Reporter<'_>,
) -> Option<Option<ListenerTls>> {
    let Some(raw) = raw.get()?.value() else {
        return Some(None);
    };
    Some(Some(ListenerTls {
        certificates: certificates(&raw.certificates, acme, reporter)?,
        minimum_version: raw.minimum_version.copied()?,
        client_certificates: maybe(raw.client_certificates.get()?.value(), |asked| {
            Some(ClientCertificates {
                trusted_ca: file(&asked.trusted_ca)?,
                mode: asked.mode.copied()?,
                crl_files: crl_files(&asked.crl_files)?,
                expired_crl: asked.expired_crl.copied()?,
            })
        })?,
        handshake_timeout: time(&raw.handshake_timeout)?,
        max_handshakes: count(&raw.max_handshakes)?,
        session_tickets: count(&raw.session_tickets)?,
        http2: http2.is_some(),
        http1: !http2.is_some_and(|http2| http2.required),
    }))
}

/// Resolves a cluster's TLS, with `http2` or without; `Some(None)` if it is off.
pub(super) fn cluster<W>(
    raw: &Field<Or<W, raw::ClusterTls>>,
    http2: bool,
    reporter: &mut Reporter<'_>,
) -> Option<Option<ClusterTls>> {
    let Some(raw) = raw.get()?.value() else {
        return Some(None);
    };
    let verify = !raw.insecure_skip_verify.copied()?.0;
    if !verify {
        let message = "the backends' certificates are not looked at".to_owned();
        let help = "name their authority in `trusted_ca`, and leave this out";
        let span = &raw.insecure_skip_verify.span;
        reporter.warning(span, message, Some(help.to_owned()));
    }
    let trusted = &raw.trusted_ca;
    Some(Some(ClusterTls {
        trusted_ca: match trusted.get()? {
            Or::Word(_) => TrustedCa::System(Span(trusted.span.clone())),
            Or::Value(path) => TrustedCa::File(FileAt {
                path: path.0.clone(),
                span: Span(trusted.span.clone()),
            }),
        },
        sni: raw.sni.optional()?.map(|name| name.0.clone()),
        client_certificate: maybe(raw.client_certificate.optional()?, certificate)?,
        minimum_version: raw.minimum_version.copied()?,
        verify,
        http2,
    }))
}

/// Resolves the certificates that a listener shows. Each is checked, whatever is wrong with the
/// others.
fn certificates(
    raw: &Field<List<raw::ListenerCertificate, 1>>,
    acme: Option<Option<&Acme>>,
    reporter: &mut Reporter<'_>,
) -> Option<Vec<ListenerCertificate>> {
    let mut one = |raw: &Field<raw::ListenerCertificate>| match raw.get()? {
        raw::ListenerCertificate::Files(own) => certificate(own).map(ListenerCertificate::Files),
        raw::ListenerCertificate::Issued(own) => {
            super::acme::certificate(&own.acme, acme, reporter).map(ListenerCertificate::Issued)
        }
    };
    let all: Vec<_> = raw.get()?.0.iter().map(&mut one).collect();
    all.into_iter().collect()
}

fn crl_files(raw: &Field<List<FilePath, 0>>) -> Option<Vec<FileAt>> {
    raw.get()?.0.iter().map(file).collect()
}

fn certificate(raw: &raw::TlsCertificate) -> Option<TlsCertificate> {
    Some(TlsCertificate {
        chain: file(&raw.certificate_chain)?,
        key: file(&raw.private_key)?,
    })
}
