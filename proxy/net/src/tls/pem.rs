//! Certificates and keys in files, and the problems that they may have.

use std::fs::File;
use std::io::Read as _;
use std::time::{SystemTime, UNIX_EPOCH};

use rustls::RootCertStore;
use rustls::pki_types::pem::{Error as PemError, PemObject as _};
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use sprat_config::resolved::FileAt;
use x509_parser::certificate::X509Certificate;
use x509_parser::time::ASN1Time;
use x509_parser::{parse_x509_certificate, parse_x509_crl};

use crate::problem::Problem;

/// The most bytes of a file. A bundle of every public authority has 220 KB.
const MAX_BYTES: u64 = 4 << 20;

/// Returns an error that lists the problems with the TLS of a listener or cluster.
pub(super) fn failure(kind: &str, name: &str, problems: &[Problem]) -> anyhow::Error {
    let problems: Vec<_> = problems.iter().map(ToString::to_string).collect();
    anyhow::anyhow!("TLS of the {kind} `{name}`: {}", problems.join("; "))
}

/// Returns the bytes of a file, of which there may be [`MAX_BYTES`].
pub(super) fn read(file: &FileAt) -> Result<Vec<u8>, Problem> {
    let mut bytes = Vec::new();
    let opened = File::open(&file.path);
    let read = opened.and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut bytes));
    match read {
        Ok(_) if bytes.len() as u64 > MAX_BYTES => {
            Err(Problem::error(file, "it is larger than 4 MB"))
        }
        Ok(_) => Ok(bytes),
        Err(error) => Err(Problem::error(file, error)),
    }
}

fn holds(text: &[u8], label: &str) -> bool {
    text.windows(label.len())
        .any(|part| part == label.as_bytes())
}

/// Returns the problem with a text that is not PEM. The library would show its lines as numbers.
fn not_pem(file: &FileAt, error: &PemError) -> Problem {
    let line = |text: &[u8]| String::from_utf8_lossy(text).trim().to_owned();
    let what = match error {
        PemError::MissingSectionEnd { end_marker } => {
            let kind = line(end_marker);
            format!("a section has no end, no line `-----END {kind}-----`")
        }
        PemError::IllegalSectionStart { line: start } => {
            format!("`{}` begins no section", line(start))
        }
        other => other.to_string(),
    };
    Problem::error(file, format!("it is not PEM: {what}"))
}

/// Returns the certificates in a file: at least one.
pub(super) fn certificates(file: &FileAt) -> Result<Vec<CertificateDer<'static>>, Problem> {
    let text = read(file)?;
    let found: Result<Vec<_>, PemError> = CertificateDer::pem_slice_iter(&text).collect();
    let found = found.map_err(|error| not_pem(file, &error))?;
    match found.is_empty() {
        false => Ok(found),
        true if holds(&text, "PRIVATE KEY-----") => {
            let what = "there is a private key in it, and no certificate";
            Err(Problem::error(file, what).help("are the two files swapped?"))
        }
        true => {
            let path = file.path.display();
            let help = format!(
                "PEM has a line `-----BEGIN CERTIFICATE-----`; for DER: openssl x509 -inform der \
                 -in {path} -out {path}.pem"
            );
            Err(Problem::error(file, "there is no certificate in PEM in it").help(help))
        }
    }
}

/// Returns the private key in a file.
pub(super) fn private_key(file: &FileAt) -> Result<PrivateKeyDer<'static>, Problem> {
    let text = read(file)?;
    if holds(&text, "BEGIN ENCRYPTED PRIVATE KEY") || holds(&text, "Proc-Type: 4,ENCRYPTED") {
        let path = file.path.display();
        let help = format!("take it off: openssl pkey -in {path} -out {path}.plain");
        return Err(Problem::error(file, "the key has a pass phrase").help(help));
    }
    match PrivateKeyDer::from_pem_slice(&text) {
        Ok(key) => Ok(key),
        Err(PemError::NoItemsFound) if holds(&text, "BEGIN CERTIFICATE") => {
            let what = "there is a certificate in it, and no private key";
            Err(Problem::error(file, what).help("are the two files swapped?"))
        }
        Err(PemError::NoItemsFound) => {
            let help = "PEM has a line `-----BEGIN PRIVATE KEY-----`, or one with EC or RSA in it";
            Err(Problem::error(file, "there is no private key in PEM in it").help(help))
        }
        Err(error) => Err(not_pem(file, &error)),
    }
}

/// Returns the certificates and the private key in a text that has both.
///
/// # Errors
///
/// One of them is missing, or is damaged.
pub(super) fn bundle(
    text: &[u8],
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), String> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text).collect();
    let chain = chain.map_err(|error| format!("its certificates are not PEM: {error}"))?;
    let key = PrivateKeyDer::from_pem_slice(text);
    let key = key.map_err(|error| format!("its private key is not PEM: {error}"))?;
    match chain.is_empty() {
        false => Ok((chain, key)),
        true => Err("there is no certificate in it".to_owned()),
    }
}

/// Returns the lists of revoked certificates in a file: those in PEM, or one in DER. A list that
/// is out of date adds a warning.
pub(super) fn revocations(
    file: &FileAt,
    warnings: &mut Vec<Problem>,
) -> Result<Vec<CertificateRevocationListDer<'static>>, Problem> {
    let text = read(file)?;
    let found = match holds(&text, "-----BEGIN ") {
        false => vec![CertificateRevocationListDer::from(text)],
        true => {
            let found: Result<Vec<_>, PemError> =
                CertificateRevocationListDer::pem_slice_iter(&text).collect();
            found.map_err(|error| not_pem(file, &error))?
        }
    };
    if found.is_empty() {
        let what = "there is no list of revoked certificates in it";
        let help = "PEM has a line `-----BEGIN X509 CRL-----`";
        return Err(Problem::error(file, what).help(help));
    }
    let now = ASN1Time::now();
    for list in &found {
        let (_, parsed) = parse_x509_crl(list.as_ref()).map_err(|error| {
            let what = format!("it is no list of revoked certificates: {error}");
            Problem::error(file, what)
        })?;
        if let Some(over) = parsed.next_update().filter(|over| *over < now) {
            let what = format!("the list of revoked certificates is out of date: {over}");
            let help = "fetch the authority's present one";
            warnings.push(Problem::warning(file, what).help(help));
        }
    }
    Ok(found)
}

/// Returns a store of the authorities in a file, whose [`certificates`] are `listed`.
pub(super) fn authorities(
    file: &FileAt,
    listed: &[CertificateDer<'_>],
) -> Result<RootCertStore, Problem> {
    let mut roots = RootCertStore::empty();
    for (index, certificate) in listed.iter().enumerate() {
        roots.add(certificate.clone()).map_err(|error| {
            let what = format!("its certificate {} is no authority: {error}", index + 1);
            Problem::error(file, what)
        })?;
    }
    Ok(roots)
}

/// Parses a certificate of a file.
pub(super) fn parsed<'a>(
    file: &FileAt,
    certificate: &'a CertificateDer<'_>,
) -> Result<X509Certificate<'a>, Problem> {
    match parse_x509_certificate(certificate) {
        Ok((_, parsed)) => Ok(parsed),
        Err(error) => {
            let what = format!("its certificate cannot be read: {error}");
            Err(Problem::error(file, what))
        }
    }
}

/// Returns a warning if the certificate is not valid today.
pub(super) fn check_dates(file: &FileAt, certificate: &X509Certificate<'_>) -> Option<Problem> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    // A clock before 1970 tells nothing.
    let now_s = now.ok()?.as_secs() as i64;
    let validity = certificate.validity();
    if validity.not_after.timestamp() < now_s {
        let what = format!("the certificate has expired: {}", validity.not_after);
        return Some(Problem::warning(file, what).help("renew it; clients refuse it"));
    }
    (validity.not_before.timestamp() > now_s).then(|| {
        let what = format!("the certificate is not valid yet: {}", validity.not_before);
        Problem::warning(file, what).help("is this machine's clock right?")
    })
}
