//! The answers to an authority that asks whether a name is ours (RFC 8555 8, RFC 8737).

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;
use bytes::Bytes;
use rustls::ServerConfig;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use super::pem;
use super::protocols::provider;

/// The application protocol of a handshake in which an authority asks whether a name is ours.
pub const ACME_TLS: &[u8] = b"acme-tls/1";

/// The path under which an authority asks by a request; a token follows it.
const ACME_PATH: &str = "/.well-known/acme-challenge/";

/// Returns the certificate that answers an authority in a handshake, from a text in PEM with a
/// key and its certificate.
///
/// # Errors
///
/// The text has no key, or no certificate, or they cannot be used.
pub fn challenge_certificate(text: &[u8]) -> Result<ChallengeCertificate, String> {
    let (chain, key) = pem::bundle(text)?;
    let key = provider().key_provider.load_private_key(key);
    let key = key.map_err(|error| error.to_string())?;
    Ok(ChallengeCertificate(Arc::new(CertifiedKey::new(
        chain, key,
    ))))
}

/// A certificate that answers an authority's question, with its key.
#[derive(Clone, Debug)]
pub struct ChallengeCertificate(Arc<CertifiedKey>);

impl ResolvesServerCert for ChallengeCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0))
    }
}

/// The answers that there are at a time. The caller that fills them in bounds their number.
#[derive(Default)]
pub struct Answers {
    /// The bodies of answers to requests, by token.
    pub tokens: HashMap<String, Bytes>,
    /// The certificates shown in handshakes, by the name that is asked for, in lower case.
    pub certificates: HashMap<String, ChallengeCertificate>,
}

/// The answers to an authority's questions, for all workers.
#[derive(Default)]
pub struct Challenges(ArcSwap<Answers>);

impl fmt::Debug for Challenges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Challenges").finish_non_exhaustive()
    }
}

impl Challenges {
    /// Replaces all answers by these.
    pub fn replace(&self, answers: Answers) {
        self.0.store(Arc::new(answers));
    }

    /// Returns the body for a request with this path, if it is a question with a known answer.
    pub fn body(&self, path: &str) -> Option<Bytes> {
        let token = path.strip_prefix(ACME_PATH)?;
        self.0.load().tokens.get(token).cloned()
    }

    /// Returns the settings for a handshake in which the client asks whether a name is ours.
    /// Returns `None` if this client does not ask, or the answer is not known.
    pub fn server(&self, hello: &ClientHello<'_>) -> Option<Arc<ServerConfig>> {
        // Nothing else beside it (RFC 8737 3).
        if !hello.alpn()?.eq([ACME_TLS]) {
            return None;
        }
        let name = hello.server_name()?.to_ascii_lowercase();
        let answer = self.0.load().certificates.get(&name)?.clone();
        let mut server = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .ok()?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(answer));
        server.alpn_protocols = vec![ACME_TLS.to_vec()];
        Some(Arc::new(server))
    }
}
