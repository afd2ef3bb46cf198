//! The proofs for the authority in the storage: written by the process that asks, given by the
//! workers of all.

use bytes::Bytes;
use instant_acme::KeyAuthorization;
use rcgen::{CertificateParams, CustomExtension, KeyPair};
use sprat_net::tls::{Answers, challenge_certificate};

use crate::storage::{Answer, Storage};

/// The suffix of a file that holds the answer to an HTTP request.
const TOKEN: &str = ".token";

/// The suffix of a file that holds the certificate for a handshake.
const CERTIFICATE: &str = ".pem";

/// Puts the answer to a request for `token` into the storage.
///
/// # Errors
///
/// The token is empty, too long or of odd characters, or the storage cannot be written.
pub(crate) fn put_token(
    storage: &Storage,
    token: &str,
    answer: &KeyAuthorization,
) -> anyhow::Result<Answer> {
    // It becomes the name of a file (RFC 8555 8.3 says what is in it).
    let valid = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    anyhow::ensure!(
        (1..=200).contains(&token.len()) && token.bytes().all(valid),
        "the authority has sent a token that is none"
    );
    let text = answer.as_str().as_bytes();
    Ok(storage.put_answer(&format!("{token}{TOKEN}"), text)?)
}

/// Puts the certificate for the authority's handshakes about `domain` into the storage (RFC 8737
/// 3).
///
/// # Errors
///
/// The certificate cannot be made, or the storage cannot be written.
pub(crate) fn put_certificate(
    storage: &Storage,
    domain: &str,
    answer: &KeyAuthorization,
) -> anyhow::Result<Answer> {
    let mut parameters = CertificateParams::new([domain.to_owned()])?;
    let digest = answer.digest();
    let proof = CustomExtension::new_acme_identifier(digest.as_ref());
    parameters.custom_extensions.push(proof);
    let key = KeyPair::generate()?;
    let certificate = parameters.self_signed(&key)?;
    let text = key.serialize_pem() + &certificate.pem();
    Ok(storage.put_answer(&format!("{domain}{CERTIFICATE}"), text.as_bytes())?)
}

/// Reads all answers in the storage. Logs and skips a certificate that cannot be used.
pub(crate) fn read(storage: &Storage) -> Answers {
    let mut answers = Answers::default();
    for (name, text) in storage.all_answers() {
        if let Some(token) = name.strip_suffix(TOKEN) {
            answers.tokens.insert(token.to_owned(), Bytes::from(text));
        } else if let Some(domain) = name.strip_suffix(CERTIFICATE) {
            match challenge_certificate(&text) {
                Ok(own) => drop(answers.certificates.insert(domain.to_owned(), own)),
                Err(error) => tracing::warn!(name, error, "an answer for ACME cannot be used"),
            }
        }
    }
    answers
}
