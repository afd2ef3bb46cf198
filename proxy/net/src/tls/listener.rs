//! A listener's certificates and settings for TLS, shared by all workers.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::{ArcSwap, Guard};
use rustls::crypto::ring::Ticketer;
use rustls::pki_types::CertificateRevocationListDer;
use rustls::server::{
    NoServerSessionStorage, ProducesTickets, ServerSessionMemoryCache, StoresServerSessions,
    WantsServerCert, WebPkiClientVerifier,
};
use rustls::{ConfigBuilder, RootCertStore, ServerConfig, WantsVerifier};
use sprat_config::resolved::{
    self as config, ClientCertificateMode, ExpiredCrl, FileAt, IssuedCertificate,
    ListenerCertificate, TlsCertificate,
};

use super::certificates::{Certificates, Served};
use super::files::{Files, Reloadable};
use super::pem;
use super::protocols::{HTTP_1, HTTP_2, provider, versions};
use crate::permit::{Permit, Permits};
use crate::problem::Problem;

/// The most sessions that are remembered for clients that take no tickets; each takes about 200
/// bytes.
const SESSIONS_MAX: usize = 1024;

/// The TLS that a listener speaks with clients.
pub struct ListenerTls {
    /// The name of the listener.
    name: String,
    pub(super) config: config::ListenerTls,
    files: Files,
    current: ArcSwap<Current>,
    /// The handshakes in progress, over all workers.
    handshakes: Permits,
}

/// The contents of the files, ready for use.
struct Current {
    server: Arc<ServerConfig>,
    /// The certificates in the order of the configuration; none for one that is still to be
    /// issued.
    served: Vec<Option<Arc<Served>>>,
    /// Whether an issued certificate is not the one in its file, which cannot be used.
    lacks: bool,
}

/// The means of resuming sessions, which outlive a change of the certificates.
#[derive(Clone)]
struct Resumption {
    ticketer: Option<Arc<dyn ProducesTickets>>,
    storage: Arc<dyn StoresServerSessions>,
}

impl Resumption {
    /// Creates new means, with which no session that was begun before can be resumed.
    fn new(config: &config::ListenerTls) -> Result<Self, Vec<Problem>> {
        if config.session_tickets == 0 {
            return Ok(Self {
                ticketer: None,
                storage: Arc::new(NoServerSessionStorage {}),
            });
        }
        // No random numbers: nothing works.
        let ticketer = Ticketer::new()
            .map_err(|error| vec![Problem::error(config.certificates[0].key(), error)])?;
        Ok(Self {
            ticketer: Some(ticketer),
            storage: ServerSessionMemoryCache::new(SESSIONS_MAX),
        })
    }

    fn of(server: &ServerConfig) -> Self {
        let has = server.ticketer.enabled();
        Self {
            ticketer: has.then(|| Arc::clone(&server.ticketer)),
            storage: Arc::clone(&server.session_storage),
        }
    }
}

impl fmt::Debug for ListenerTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ListenerTls").field(&self.name).finish()
    }
}

impl ListenerTls {
    /// Returns how long a client may take for its handshake.
    pub fn handshake_timeout(&self) -> Duration {
        self.config.handshake_timeout
    }

    /// Returns the TLS of a listener, if it has any.
    ///
    /// # Errors
    ///
    /// A file cannot be used.
    pub fn of(listener: &config::Listener) -> anyhow::Result<Option<Arc<Self>>> {
        let Some(config) = &listener.tls else {
            return Ok(None);
        };
        match Self::new(&listener.name, config) {
            Ok((own, _)) => Ok(Some(Arc::new(own))),
            Err(problems) => Err(pem::failure("listener", &listener.name, &problems)),
        }
    }

    /// Prepares the TLS of a listener that takes the place of `before`. Handshakes in progress
    /// stay counted. Sessions can be resumed, unless one of the two asks for clients'
    /// certificates.
    ///
    /// # Errors
    ///
    /// A file cannot be used.
    pub fn prepare(
        before: &Self,
        listener: &config::Listener,
    ) -> anyhow::Result<Option<Arc<Self>>> {
        let Some(config) = &listener.tls else {
            return Ok(None);
        };
        let made = before.resumption_for(config);
        let made = made
            .and_then(|resumption| Self::with(&listener.name, config, resumption, Some(before)));
        match made {
            Ok((own, _)) => Ok(Some(Arc::new(Self {
                handshakes: before.handshakes.clone(),
                ..own
            }))),
            Err(problems) => Err(pem::failure("listener", &listener.name, &problems)),
        }
    }

    /// Returns the means of resuming sessions for a configuration that replaces this one. They
    /// are new if either asks for clients' certificates: other authorities may not trust a
    /// client that was trusted before.
    fn resumption_for(&self, config: &config::ListenerTls) -> Result<Resumption, Vec<Problem>> {
        let own = &self.config;
        let asks = own.client_certificates.is_some() || config.client_certificates.is_some();
        let alike = (own.session_tickets == 0) == (config.session_tickets == 0);
        match !asks && alike {
            true => Ok(Resumption::of(&self.current().server)),
            false => Resumption::new(config),
        }
    }

    /// Reads the files of the listener `name`; returns its TLS, with warnings.
    ///
    /// # Errors
    ///
    /// A file cannot be used.
    pub(crate) fn new(
        name: &str,
        config: &config::ListenerTls,
    ) -> Result<(Self, Vec<Problem>), Vec<Problem>> {
        Self::with(name, config, Resumption::new(config)?, None)
    }

    fn with(
        name: &str,
        config: &config::ListenerTls,
        resumption: Resumption,
        before: Option<&Self>,
    ) -> Result<(Self, Vec<Problem>), Vec<Problem>> {
        let files = Files::now(files(config));
        let (current, warnings) = Current::read(config, resumption, before)?;
        let own = Self {
            name: name.to_owned(),
            files,
            config: config.clone(),
            current: ArcSwap::from_pointee(current),
            handshakes: Permits::default(),
        };
        Ok((own, warnings))
    }

    /// Returns the settings for a connection that comes now.
    pub fn server(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.current().server)
    }

    fn current(&self) -> Guard<Arc<Current>> {
        self.current.load()
    }

    /// Returns the name of the listener.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Returns each certificate that there is, with the end of its validity in seconds since
    /// 1970.
    pub(super) fn expiries(&self) -> Vec<(&ListenerCertificate, i64)> {
        let current = self.current();
        let all = self.config.certificates.iter().zip(&current.served);
        all.filter_map(|(own, served)| Some((own, served.as_ref()?.not_after_s)))
            .collect()
    }

    /// Returns the certificate that is shown as the one that was issued into this file.
    fn shown(&self, issued: &IssuedCertificate) -> Option<Arc<Served>> {
        let current = self.current();
        let mut all = self.config.certificates.iter().zip(&current.served);
        let same = all.find(|(own, _)| own.chain().path == issued.file.path);
        same.and_then(|(_, served)| served.clone())
    }

    /// Returns whether there is a certificate to show; the first may still be to be issued.
    pub fn has_certificate(&self) -> bool {
        self.current().served.iter().any(Option::is_some)
    }

    /// Takes a place for a handshake; none if all are taken.
    pub fn begin(&self) -> Option<Permit> {
        self.handshakes.take(1, self.config.max_handshakes)
    }
}

impl Reloadable for ListenerTls {
    fn title(&self) -> String {
        format!("TLS of the listener `{}`", self.name)
    }

    fn files(&self) -> &Files {
        &self.files
    }

    fn has_more(&self) -> bool {
        false
    }

    fn lacks(&self) -> bool {
        self.current().lacks
    }

    fn reload(&self, is_new: bool) -> Result<Vec<Problem>, Vec<Problem>> {
        let resumption = match is_new {
            true => self.resumption_for(&self.config)?,
            // Those who are trusted to sign clients' certificates are the same.
            false => Resumption::of(&self.current().server),
        };
        let (current, warnings) = Current::read(&self.config, resumption, Some(self))?;
        self.current.store(Arc::new(current));
        Ok(warnings)
    }
}

impl Current {
    /// Reads the files; returns what they hold with warnings, or all errors. An issued
    /// certificate that they do not hold is the one that is shown by `before`.
    fn read(
        config: &config::ListenerTls,
        resumption: Resumption,
        before: Option<&ListenerTls>,
    ) -> Result<(Self, Vec<Problem>), Vec<Problem>> {
        let (mut served, mut warnings, mut errors) = (Vec::new(), Vec::new(), Vec::new());
        let mut lacks = false;
        for certificate in &config.certificates {
            let certificate = match certificate {
                ListenerCertificate::Files(own) => own,
                ListenerCertificate::Issued(own) => {
                    let read = Served::issued(own, &mut warnings).unwrap_or_else(|problems| {
                        lacks = true;
                        warnings.extend(problems);
                        None
                    });
                    // Until there is another it is better than none.
                    let shown = || before.and_then(|before| before.shown(own));
                    served.push(read.map(Arc::new).or_else(shown));
                    continue;
                }
            };
            match Served::read(certificate, &mut warnings) {
                Ok(one) => {
                    warnings.extend(nameless(certificate, &one));
                    served.push(Some(Arc::new(one)));
                }
                Err(problems) => errors.extend(problems),
            }
        }
        let asked = config.client_certificates.as_ref();
        let asked = asked.map(|asked| Believed::read(asked, &mut warnings));
        let asked = asked.transpose().unwrap_or_else(|problems| {
            errors.extend(problems);
            None
        });
        if !errors.is_empty() {
            return Err(errors);
        }
        let builder = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(versions(config.minimum_version))
            .map_err(|error| vec![Problem::error(config.certificates[0].chain(), error)])?;
        let builder = match asked {
            None => builder.with_no_client_auth(),
            Some(asked) => asked.verifying(builder)?,
        };
        let shown = Certificates::new(served.iter().flatten().map(|own| &**own));
        let mut server = builder.with_cert_resolver(Arc::new(shown));
        // In the order of preference.
        let protocols = [(config.http2, HTTP_2), (config.http1, HTTP_1)];
        let offered = protocols.into_iter().filter(|(offered, _)| *offered);
        server.alpn_protocols = offered.map(|(_, name)| name.to_vec()).collect();
        server.send_tls13_tickets = config.session_tickets;
        server.session_storage = resumption.storage;
        if let Some(ticketer) = resumption.ticketer {
            server.ticketer = ticketer;
        }
        let current = Self {
            server: Arc::new(server),
            served,
            lacks,
        };
        Ok((current, warnings))
    }
}

/// Returns a warning if a certificate has no subjectAltName, and so is for no host: common names
/// do not count (RFC 9525 2).
fn nameless(certificate: &TlsCertificate, served: &Served) -> Option<Problem> {
    (!served.has_names).then(|| {
        let what = "the certificate has no subjectAltName";
        let help = "clients look for their host's name there, and refuse it";
        Problem::warning(&certificate.chain, what).help(help)
    })
}

/// Returns all files of a listener's TLS.
fn files(config: &config::ListenerTls) -> impl Iterator<Item = &FileAt> {
    let shown = config.certificates.iter();
    let shown = shown.flat_map(|one| [one.chain(), one.key()]);
    let asked = config.client_certificates.iter();
    shown.chain(asked.flat_map(|asked| asked.crl_files.iter().chain([&asked.trusted_ca])))
}

/// The authorities that must have signed clients' certificates, and the revoked certificates.
struct Believed<'a> {
    config: &'a config::ClientCertificates,
    roots: RootCertStore,
    revoked: Vec<CertificateRevocationListDer<'static>>,
}

impl<'a> Believed<'a> {
    /// Reads the files; returns all errors if one cannot be used.
    fn read(
        config: &'a config::ClientCertificates,
        warnings: &mut Vec<Problem>,
    ) -> Result<Self, Vec<Problem>> {
        let file = &config.trusted_ca;
        let listed = pem::certificates(file);
        let roots = listed.and_then(|listed| pem::authorities(file, &listed));
        let (mut revoked, mut errors) = (Vec::new(), Vec::new());
        for file in &config.crl_files {
            match pem::revocations(file, warnings) {
                Ok(lists) => revoked.extend(lists),
                Err(problem) => errors.push(problem),
            }
        }
        match roots {
            Ok(roots) if errors.is_empty() => Ok(Self {
                config,
                roots,
                revoked,
            }),
            roots => Err(roots.err().into_iter().chain(errors).collect()),
        }
    }

    /// Makes a listener ask clients for certificates, and verify them.
    fn verifying(
        self,
        builder: ConfigBuilder<ServerConfig, WantsVerifier>,
    ) -> Result<ConfigBuilder<ServerConfig, WantsServerCert>, Vec<Problem>> {
        let roots = Arc::new(self.roots);
        let mut verifier = WebPkiClientVerifier::builder_with_provider(roots, provider());
        verifier = verifier.with_crls(self.revoked);
        if self.config.expired_crl == ExpiredCrl::Deny {
            verifier = verifier.enforce_revocation_expiration();
        }
        if self.config.mode == ClientCertificateMode::Optional {
            verifier = verifier.allow_unauthenticated();
        }
        let verifier = verifier
            .build()
            .map_err(|error| vec![Problem::error(&self.config.trusted_ca, error)])?;
        Ok(builder.with_client_cert_verifier(verifier))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rcgen::{CertificateParams, KeyPair};
    use sprat_config::resolved::{
        ClientCertificateMode, ClientCertificates, ExpiredCrl, Span, TlsVersion,
    };

    use super::super::files::{Occasion, look};
    use super::*;

    const NAME: &str = "www.example.org";

    /// Creates a key with its chain, as an authority could issue it.
    fn issued() -> String {
        let key = KeyPair::generate().unwrap();
        let parameters = CertificateParams::new([NAME.to_owned()]).unwrap();
        key.serialize_pem() + &parameters.self_signed(&key).unwrap().pem()
    }

    #[test]
    fn an_issued_certificate_is_shown_until_another_can_be() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("www.pem");
        let put = |text: &str| {
            let fresh = path.with_extension("fresh");
            fs::write(&fresh, text).unwrap();
            fs::rename(fresh, &path).unwrap();
        };
        let authority = directory.path().join("authority.pem");
        fs::write(&authority, issued()).unwrap();
        let config = config::ListenerTls {
            certificates: vec![ListenerCertificate::Issued(IssuedCertificate {
                names: vec![NAME.to_owned()],
                file: FileAt {
                    path: path.clone(),
                    span: Span::default(),
                },
            })],
            minimum_version: TlsVersion::V1_2,
            client_certificates: Some(ClientCertificates {
                trusted_ca: FileAt {
                    path: authority,
                    span: Span::default(),
                },
                mode: ClientCertificateMode::Optional,
                crl_files: Vec::new(),
                expired_crl: ExpiredCrl::Deny,
            }),
            handshake_timeout: Duration::from_secs(1),
            max_handshakes: 1,
            session_tickets: 1,
            http2: true,
            http1: true,
        };
        put(&issued());
        let (tls, _) = ListenerTls::new("secure", &config).unwrap();
        let shown_by = |tls: &ListenerTls| {
            let served = tls.current().served[0].clone();
            served.map(|own| own.key.cert.clone())
        };
        let first = shown_by(&tls);
        assert!(first.is_some());
        put("no certificate");
        look(&tls, Occasion::Interval);
        assert_eq!(shown_by(&tls), first);
        assert!(tls.lacks());
        // Sessions go on meanwhile, although clients' certificates are asked for.
        let sessions = || Arc::as_ptr(&tls.current().server.session_storage).cast::<()>();
        let before = sessions();
        look(&tls, Occasion::Interval);
        assert_eq!(sessions(), before);
        // Nor does a reload of the configuration lose it.
        let resumption = tls.resumption_for(&config).unwrap();
        let made = ListenerTls::with("secure", &config, resumption, Some(&tls));
        assert_eq!(shown_by(&made.unwrap().0), first);
        fs::remove_file(&path).unwrap();
        look(&tls, Occasion::Interval);
        assert_eq!(shown_by(&tls), first);
        put(&issued());
        look(&tls, Occasion::Interval);
        assert_ne!(shown_by(&tls), first);
        assert!(tls.has_certificate() && !tls.lacks());
    }
}
