//! Certificates that an authority issues: everything but what is in the storage.

use std::ops::Range;

use super::values::{file, optional_file, time};
use crate::addresses::CertificateName;
use crate::containers::{List, Or};
use crate::decode::Field;
use crate::diagnostic::Reporter;
use crate::raw;
use crate::resolved::*;

/// The most names of a certificate: Let's Encrypt's bound.
const MAX_NAMES: usize = 100;

/// Resolves the certificate authority; `Some(None)` if it is off.
pub(super) fn resolve<W>(raw: &Field<Or<W, raw::Acme>>) -> Option<Option<Acme>> {
    let Some(raw) = raw.get()?.value() else {
        return Some(None);
    };
    Some(Some(Acme {
        directory_url: raw.directory_url.get()?.0.clone(),
        email: raw.email.optional()?.map(|email| email.0.clone()),
        storage: file(&raw.storage)?,
        challenge: match raw.challenge.get()? {
            Or::Word(_) => Challenge::Http01,
            Or::Value(Or::Word(_)) => Challenge::TlsAlpn01,
            Or::Value(Or::Value(own)) => Challenge::Dns01(ChallengeCommand {
                program: file(&own.command)?,
                timeout: time(&own.timeout)?,
            }),
        },
        ca_file: optional_file(&raw.ca_file)?,
    }))
}

/// Resolves a certificate that `acme` is to issue for these names. `None` as `acme` means that the
/// authority has errors of its own; `Some(None)` that there is none, which is reported.
pub(super) fn certificate(
    names: &Field<List<CertificateName, 1>>,
    acme: Option<Option<&Acme>>,
    reporter: &mut Reporter<'_>,
) -> Option<IssuedCertificate> {
    let list = &names.get()?.0;
    let acme = acme?;
    let Some(acme) = acme else {
        let message = "there is no authority that could issue this certificate".to_owned();
        let help = "give one in `acme`, at the top of the file".to_owned();
        reporter.error(&names.span, message, Some(help));
        return None;
    };
    if let Some(extra) = list.get(MAX_NAMES) {
        let message = format!("there are more than {MAX_NAMES} names");
        let help = "put this one and those after it into another certificate".to_owned();
        reporter.error(&extra.span, message, Some(help));
        return None;
    }
    let mut good = true;
    let mut all: Vec<String> = Vec::new();
    for name in list {
        let text = name.get()?.0.clone();
        if text.starts_with("*.") && !matches!(acme.challenge, Challenge::Dns01(_)) {
            wildcard(&name.span, reporter);
            good = false;
        }
        if !all.contains(&text) {
            all.push(text);
        }
    }
    let span = Span(names.span.clone());
    good.then(|| IssuedCertificate::new(acme, all, span))
}

/// Reports a wildcard that is not proved by a record in its zone: authorities accept no other
/// proof.
fn wildcard(span: &Range<usize>, reporter: &mut Reporter<'_>) {
    let message = "a wildcard is issued for a record in its zone alone".to_owned();
    let help = "have a command put it there: `challenge: {command: PROGRAM}` in `acme`, or list \
                the names one by one";
    reporter.error(span, message, Some(help.to_owned()));
}
