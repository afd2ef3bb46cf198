//! TLS to a cluster's endpoints, shared by all workers.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use arc_swap::ArcSwap;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::ServerName;
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, Error, RootCertStore};
use sprat_config::resolved::{
    self as config, Cluster, EndpointAddress, FileAt, Span, TlsVersion, TrustedCa,
};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::certificates::Served;
use super::files::{Files, Reloadable};
use super::pem;
use super::protocols::{HTTP_1, HTTP_2, provider, versions};
use super::shown::{EndpointStream, REFUSALS, Shown, with_asked};
use super::verifier::{AnyCertificate, Trusting};
use crate::error::Reason;
use crate::problem::Problem;

/// The TLS that is spoken with a cluster's endpoints.
pub struct ClusterTls {
    /// The name of the cluster.
    name: String,
    config: config::ClusterTls,
    files: Files,
    current: ArcSwap<ClientConfig>,
    /// Whether the log was told that a handshake failed, and no endpoint was heard since.
    complained: AtomicBool,
}

impl fmt::Debug for ClusterTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ClusterTls").field(&self.name).finish()
    }
}

impl ClusterTls {
    /// Returns the TLS of a cluster, if it has any.
    ///
    /// # Errors
    ///
    /// A file cannot be used.
    pub fn of(cluster: &Cluster) -> anyhow::Result<Option<Arc<Self>>> {
        let Some(config) = &cluster.tls else {
            return Ok(None);
        };
        match Self::new(&cluster.name, config) {
            Ok((own, _)) => Ok(Some(Arc::new(own))),
            Err(problems) => Err(pem::failure("cluster", &cluster.name, &problems)),
        }
    }

    /// Reads the files of the cluster `name`; returns its TLS, with warnings.
    ///
    /// # Errors
    ///
    /// A file cannot be used.
    pub(crate) fn new(
        name: &str,
        config: &config::ClusterTls,
    ) -> Result<(Self, Vec<Problem>), Vec<Problem>> {
        let files = Files::now(files(config));
        let (current, warnings) = read(config)?;
        let own = Self {
            name: name.to_owned(),
            config: config.clone(),
            files,
            current: ArcSwap::from_pointee(current),
            complained: AtomicBool::new(false),
        };
        Ok((own, warnings))
    }

    /// Does the handshake with an endpoint. The caller bounds the time.
    ///
    /// # Errors
    ///
    /// The endpoint is not trusted, or the handshake fails.
    pub async fn connect(
        &self,
        address: &EndpointAddress,
        stream: TcpStream,
    ) -> Result<EndpointStream, Reason> {
        let name = self
            .server_name(address)
            .ok_or(Reason::TlsCertificateError)?;
        let connector = TlsConnector::from(self.current.load_full());
        let (secured, asked) = with_asked(connector.connect(name, stream)).await;
        let secured = secured.map(|stream| EndpointStream { stream, asked });
        let checked = secured.and_then(|secured| self.checked(secured));
        checked.map_err(|error| {
            let reason = reason(&error);
            self.complain(address, reason, &error);
            reason
        })
    }

    /// Warns of a failed handshake in the log, once until an endpoint is heard again: there may
    /// be many attempts.
    fn complain(&self, address: &EndpointAddress, reason: Reason, error: &io::Error) {
        if !self.complained.swap(true, Relaxed) {
            let (cluster, reason) = (&self.name, reason.name());
            tracing::warn!(%address, cluster, reason, %error, "no TLS with an endpoint");
        }
    }

    /// Notes that an endpoint was heard after a handshake. (With TLS 1.3, the end of the
    /// handshake does not say that the endpoint goes on.)
    pub fn proven(&self) {
        // A read first: the line is shared by all workers.
        if self.complained.load(Relaxed) {
            self.complained.store(false, Relaxed);
        }
    }

    /// Returns whether an error in the place of an endpoint's first bytes says that it rejects
    /// our certificate.
    pub fn is_refusal(&self, address: &EndpointAddress, error: &io::Error) -> bool {
        let is_refusal = match tls_error(error) {
            Some(Error::AlertReceived(alert)) => REFUSALS.contains(alert),
            _ => false,
        };
        if is_refusal {
            self.complain(address, Reason::TlsAlertReceived, error);
        }
        is_refusal
    }

    /// Rejects a connection on which no application protocol was agreed on, unless it is to be
    /// HTTP/1.1.
    fn checked(&self, secured: EndpointStream) -> io::Result<EndpointStream> {
        match secured.stream.get_ref().1.alpn_protocol() {
            None if self.config.http2 => {
                let error = Error::NoApplicationProtocol;
                Err(io::Error::new(io::ErrorKind::InvalidData, error))
            }
            _ => Ok(secured),
        }
    }

    /// Returns the name that the endpoint's certificate must be for.
    fn server_name(&self, address: &EndpointAddress) -> Option<ServerName<'static>> {
        match (&self.config.sni, address) {
            (Some(name), _) => ServerName::try_from(name.clone()).ok(),
            (None, EndpointAddress::Name { host, .. }) => ServerName::try_from(host.clone()).ok(),
            (None, EndpointAddress::Ip(address)) => Some(ServerName::from(address.ip())),
            // The configuration names it.
            (None, EndpointAddress::Unix(_)) => None,
        }
    }
}

impl Reloadable for ClusterTls {
    fn title(&self) -> String {
        format!("TLS to the cluster `{}`", self.name)
    }

    fn files(&self) -> &Files {
        &self.files
    }

    fn has_more(&self) -> bool {
        // The system's authorities are wherever the system has them.
        self.config.verify && matches!(self.config.trusted_ca, TrustedCa::System(_))
    }

    fn lacks(&self) -> bool {
        false
    }

    fn reload(&self, _: bool) -> Result<Vec<Problem>, Vec<Problem>> {
        let (current, warnings) = read(&self.config)?;
        self.current.store(Arc::new(current));
        Ok(warnings)
    }
}

/// Returns the settings for TLS, with HTTP/1.1 in it, to servers whose certificates these
/// authorities have signed.
///
/// # Errors
///
/// The authorities cannot be read.
pub fn client_config(trusted_ca: TrustedCa) -> Result<Arc<ClientConfig>, Problem> {
    let config = config::ClusterTls {
        trusted_ca,
        sni: None,
        client_certificate: None,
        minimum_version: TlsVersion::V1_2,
        verify: true,
        http2: false,
    };
    let made = read(&config);
    made.map(|(client, _)| Arc::new(client))
        .map_err(|mut problems| problems.swap_remove(0))
}

/// Returns all files of a cluster's TLS; the system's authorities are not among them.
fn files(config: &config::ClusterTls) -> impl Iterator<Item = &FileAt> {
    let own = match &config.trusted_ca {
        TrustedCa::System(_) => None,
        TrustedCa::File(file) => Some(file),
    };
    let shown = config.client_certificate.iter();
    own.into_iter()
        .chain(shown.flat_map(|shown| [&shown.chain, &shown.key]))
}

/// Reads the files of a cluster's TLS; returns its settings with warnings, or all errors.
fn read(config: &config::ClusterTls) -> Result<(ClientConfig, Vec<Problem>), Vec<Problem>> {
    let mut warnings = Vec::new();
    let mut errors = Vec::new();
    let verifier: Result<Arc<dyn ServerCertVerifier>, Problem> =
        match (&config.trusted_ca, config.verify) {
            (_, false) => Ok(Arc::new(AnyCertificate(provider()))),
            (TrustedCa::System(span), true) => trusting_system(span),
            (TrustedCa::File(file), true) => trusting(file),
        };
    let verifier = kept(verifier, &mut errors);
    let shown = config.client_certificate.as_ref();
    let shown = shown.map(|shown| Served::read(shown, &mut warnings));
    let shown = shown.transpose().unwrap_or_else(|problems| {
        errors.extend(problems);
        None
    });
    let Some(verifier) = verifier.filter(|_| errors.is_empty()) else {
        return Err(errors);
    };
    let shown = shown.map(|shown| Arc::new(CertifiedKey::clone(&shown.key)));
    let mut client = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(versions(config.minimum_version))
        .expect("ring speaks both versions")
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_client_cert_resolver(Arc::new(Shown(shown)));
    let protocol = if config.http2 { HTTP_2 } else { HTTP_1 };
    client.alpn_protocols = vec![protocol.to_vec()];
    Ok((client, warnings))
}

/// Returns the value of a result, or adds its problem to `errors`.
fn kept<T>(result: Result<T, Problem>, errors: &mut Vec<Problem>) -> Option<T> {
    result.map_err(|problem| errors.push(problem)).ok()
}

/// Returns a verifier that trusts the authorities in a file.
fn trusting(file: &FileAt) -> Result<Arc<dyn ServerCertVerifier>, Problem> {
    let listed = pem::certificates(file)?;
    let trusting = Trusting::new(pem::authorities(file, &listed)?, listed);
    Ok(Arc::new(
        trusting.map_err(|error| Problem::error(file, error))?,
    ))
}

/// Returns a verifier that trusts the authorities that this system trusts.
fn trusting_system(span: &Span) -> Result<Arc<dyn ServerCertVerifier>, Problem> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    // Some systems have certificates that no user can read: they are passed over.
    let (taken, _) = roots.add_parsable_certificates(found.certs);
    if taken > 0 {
        let trusting = Trusting::new(roots, Vec::new());
        return Ok(Arc::new(
            trusting.map_err(|error| Problem::at(span, error.to_string()))?,
        ));
    }
    let why = found.errors.first();
    let why = why.map_or_else(|| "none was found".to_owned(), ToString::to_string);
    let message = format!("this system's authorities cannot be read: {why}");
    let help = "install the package ca-certificates, or name a file in `trusted_ca`";
    Err(Problem::at(span, message).help(help))
}

/// Returns the reason why a handshake failed.
fn reason(error: &io::Error) -> Reason {
    match tls_error(error) {
        None => Reason::ConnectionTerminated,
        Some(Error::InvalidCertificate(_) | Error::NoCertificatesPresented) => {
            Reason::TlsCertificateError
        }
        Some(Error::AlertReceived(_)) => Reason::TlsAlertReceived,
        Some(_) => Reason::TlsProtocolError,
    }
}

/// Returns the error of TLS that an I/O error holds, if it holds one.
fn tls_error(error: &io::Error) -> Option<&Error> {
    error.get_ref().and_then(|inner| inner.downcast_ref())
}
