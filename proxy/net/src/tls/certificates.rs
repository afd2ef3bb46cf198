//! The certificates that are shown to clients, and those that clients show.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{Error, InconsistentKeys};
use sprat_config::classify::Certificate;
use sprat_config::resolved::{FileAt, IssuedCertificate, Span, TlsCertificate};
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::parse_x509_certificate;

use super::pem;
use super::protocols::provider;
use crate::problem::{Gravity, Problem};

/// A certificate that is shown to clients, with its key.
pub(super) struct Served {
    pub(super) key: Arc<CertifiedKey>,
    /// The names of hosts, in lower case; one that begins with `*.` is for any first label.
    names: Vec<String>,
    /// Whether the certificate has a subjectAltName at all.
    pub(super) has_names: bool,
    /// The end of validity, in seconds since 1970.
    pub(super) not_after_s: i64,
}

impl Served {
    /// Reads the chain and the key from their files.
    ///
    /// # Errors
    ///
    /// The files cannot be used. What is doubtful but can be used is added to `warnings`.
    pub(super) fn read(
        config: &TlsCertificate,
        warnings: &mut Vec<Problem>,
    ) -> Result<Self, Vec<Problem>> {
        let (chain, key) = (
            pem::certificates(&config.chain),
            pem::private_key(&config.key),
        );
        match (chain, key) {
            (Ok(chain), Ok(key)) => Self::new(config, chain, key, warnings),
            (chain, key) => Err(chain.err().into_iter().chain(key.err()).collect()),
        }
    }

    /// Reads a certificate that an authority has issued. Returns `None` if it is not issued yet.
    ///
    /// # Errors
    ///
    /// Its file cannot be used. The problems are doubtful, since the certificate is issued anew.
    pub(super) fn issued(
        config: &IssuedCertificate,
        warnings: &mut Vec<Problem>,
    ) -> Result<Option<Self>, Vec<Problem>> {
        let file = &config.file;
        // Key and chain are in one file, and read at once, so that they fit.
        let made = match pem::read(file) {
            Ok(text) => Self::bundled(file, &text, warnings),
            Err(_) if !file.path.exists() => return Ok(None),
            Err(problem) => Err(vec![problem]),
        };
        made.map(Some).map_err(|mut problems| {
            for problem in &mut problems {
                problem.gravity = Gravity::Doubtful;
            }
            problems
        })
    }

    /// Takes the key and the chain from the text of one file.
    fn bundled(
        file: &FileAt,
        text: &[u8],
        warnings: &mut Vec<Problem>,
    ) -> Result<Self, Vec<Problem>> {
        let (chain, key) = pem::bundle(text).map_err(|what| vec![Problem::error(file, what)])?;
        let both = TlsCertificate {
            chain: file.clone(),
            key: file.clone(),
        };
        Self::new(&both, chain, key, warnings)
    }

    fn new(
        config: &TlsCertificate,
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
        warnings: &mut Vec<Problem>,
    ) -> Result<Self, Vec<Problem>> {
        let key = provider().key_provider.load_private_key(key).map_err(|_| {
            let what = "it is damaged, or of a kind that cannot be used";
            let help = "RSA of 2048 to 4096 bits, ECDSA with P-256 or P-384, and Ed25519 can";
            vec![Problem::error(&config.key, what).help(help)]
        })?;
        let (names, has_names, not_after_s) = {
            let first = pem::parsed(&config.chain, &chain[0]).map_err(|problem| vec![problem])?;
            warnings.extend(pem::check_dates(&config.chain, &first));
            let names = PeerNames::of(&first).dns;
            let has_names = !matches!(first.subject_alternative_name(), Ok(None));
            (names, has_names, first.validity().not_after.timestamp())
        };
        let key = CertifiedKey::new(chain, key);
        match key.keys_match() {
            // Some kinds of key cannot be compared.
            Ok(()) | Err(Error::InconsistentKeys(InconsistentKeys::Unknown)) => {}
            Err(_) => {
                let what = format!("the key is not that of {}", config.chain.path.display());
                let help = "the first certificate of the chain is the one that the key is for";
                return Err(vec![Problem::error(&config.key, what).help(help)]);
            }
        }
        Ok(Self {
            key: Arc::new(key),
            names,
            has_names,
            not_after_s,
        })
    }
}

/// Checks that listeners can show what an authority has issued: a private key in PEM and the chain
/// for it, the text of `file`.
///
/// # Errors
///
/// They cannot: a part is missing or damaged, or the key is not that of the certificate.
pub fn check_issued(file: &FileAt, text: &[u8]) -> Result<(), String> {
    let made = Served::bundled(file, text, &mut Vec::new());
    made.map(drop).map_err(|problems| {
        let all: Vec<_> = problems.iter().map(ToString::to_string).collect();
        all.join("; ")
    })
}

/// A resolver that chooses a certificate by the name that a client asks for.
#[derive(Debug, Default)]
pub(super) struct Certificates {
    all: Vec<Arc<CertifiedKey>>,
    /// The indices into `all` of the certificates for each name, in order.
    by_name: HashMap<String, Vec<usize>>,
}

impl Certificates {
    /// Takes the certificates, in the order of the configuration.
    pub(super) fn new<'a>(served: impl Iterator<Item = &'a Served>) -> Self {
        let mut own = Self::default();
        for (index, one) in served.enumerate() {
            own.all.push(Arc::clone(&one.key));
            for name in &one.names {
                own.by_name.entry(name.clone()).or_default().push(index);
            }
        }
        own
    }

    /// Returns the certificates for a name: those that have it, then those with a wildcard for
    /// its first label (RFC 6125 6.4.3), then all.
    fn candidates(&self, name: &str) -> impl Iterator<Item = &Arc<CertifiedKey>> {
        let name = name.to_ascii_lowercase();
        let wildcard = name.split_once('.').map(|(_, rest)| format!("*.{rest}"));
        let listed = |name: &str| self.by_name.get(name).map_or(&[][..], Vec::as_slice);
        let named = listed(&name).iter();
        let named = named.chain(wildcard.as_deref().map_or(&[][..], listed));
        named.map(|&index| &self.all[index]).chain(&self.all)
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let schemes = hello.signature_schemes();
        let mut candidates = self.candidates(hello.server_name().unwrap_or_default());
        let fitting = candidates.find(|own| own.key.choose_scheme(schemes).is_some());
        // Without one the handshake fails, and rustls says why.
        fitting.or(self.all.first()).cloned()
    }
}

/// The names in a certificate.
#[derive(Clone, Debug, Default)]
pub struct PeerNames {
    /// The names of hosts, in lower case.
    dns: Vec<String>,
    uris: Vec<String>,
    common_name: Option<String>,
}

impl PeerNames {
    fn of(certificate: &X509Certificate<'_>) -> Self {
        let common_name = certificate.subject().iter_common_name().next();
        let mut names = Self {
            common_name: common_name.and_then(|name| name.as_str().ok().map(str::to_owned)),
            ..Self::default()
        };
        // One that cannot be parsed has none.
        let alternatives = certificate.subject_alternative_name().ok().flatten();
        for name in alternatives.iter().flat_map(|own| &own.value.general_names) {
            match name {
                GeneralName::DNSName(name) => names.dns.push(name.to_ascii_lowercase()),
                GeneralName::URI(uri) => names.uris.push((*uri).to_owned()),
                _ => {}
            }
        }
        names
    }

    /// Returns the names in the certificate that a peer has shown, and that was verified.
    pub fn of_peer(chain: Option<&[CertificateDer<'_>]>) -> Option<Self> {
        let (_, parsed) = parse_x509_certificate(chain?.first()?).ok()?;
        Some(Self::of(&parsed))
    }

    /// Reads the names in the first certificate of a file in PEM.
    ///
    /// # Errors
    ///
    /// The file has no certificate that can be read.
    pub fn of_file(path: &Path) -> anyhow::Result<Self> {
        let file = FileAt {
            path: path.to_owned(),
            span: Span::default(),
        };
        let of_first =
            |chain: Vec<CertificateDer<'_>>| Ok(Self::of(&pem::parsed(&file, &chain[0])?));
        let names: Result<Self, Problem> = pem::certificates(&file).and_then(of_first);
        names.map_err(|problem| anyhow::anyhow!("{problem}"))
    }

    /// Returns the names as the rules of classes take them.
    pub fn as_certificate(&self) -> Certificate<'_> {
        Certificate {
            dns: &self.dns,
            uris: &self.uris,
            common_name: self.common_name.as_deref(),
        }
    }
}
