//! Authorities, certificates and TLS clients for tests.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer, DnType,
    IsCa, KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams, SanType, SerialNumber,
};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use sprat_config::resolved::*;

use super::{PATIENCE, Peer};

/// An authority, with a directory for its certificates.
pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    directory: tempfile::TempDir,
}

/// The files of a certificate and its key.
#[derive(Clone, Debug)]
pub(crate) struct Issued {
    pub(crate) chain: PathBuf,
    pub(crate) key: PathBuf,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut parameters = CertificateParams::new(Vec::new()).unwrap();
        let name = &mut parameters.distinguished_name;
        name.push(DnType::CommonName, "an authority for tests");
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let issuer = CertifiedIssuer::self_signed(parameters, KeyPair::generate().unwrap());
        let own = Self {
            issuer: issuer.unwrap(),
            directory: tempfile::tempdir().unwrap(),
        };
        std::fs::write(own.file(), own.issuer.pem()).unwrap();
        own
    }

    /// Returns the file of the authority's own certificate.
    pub(crate) fn file(&self) -> PathBuf {
        self.directory.path().join("ca.pem")
    }

    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Issues a certificate for these names, in files called `label`.
    pub(crate) fn issue(&self, label: &str, names: &[&str]) -> Issued {
        self.issue_with(label, names, |_| ())
    }

    /// Issues a certificate for these names, with changes to its parameters.
    pub(crate) fn issue_with(
        &self,
        label: &str,
        names: &[&str],
        change: impl FnOnce(&mut CertificateParams),
    ) -> Issued {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut parameters = CertificateParams::new(names).unwrap();
        change(&mut parameters);
        let key = KeyPair::generate().unwrap();
        let certificate = parameters.signed_by(&key, &self.issuer).unwrap();
        let issued = Issued {
            chain: self.directory.path().join(format!("{label}.pem")),
            key: self.directory.path().join(format!("{label}.key")),
        };
        // As tools that renew do it: a new file in the old one's place.
        for (path, text) in [
            (&issued.chain, certificate.pem()),
            (&issued.key, key.serialize_pem()),
        ] {
            let new = path.with_extension("new");
            std::fs::write(&new, text).unwrap();
            std::fs::rename(&new, path).unwrap();
        }
        issued
    }

    /// Creates a certificate that has signed itself and may sign others, as `openssl req -x509`
    /// makes it, in files called `label`.
    pub(crate) fn self_signed(
        &self,
        label: &str,
        name: &str,
        change: impl FnOnce(&mut CertificateParams),
    ) -> Issued {
        let mut parameters = CertificateParams::new([name.to_owned()]).unwrap();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        change(&mut parameters);
        let key = KeyPair::generate().unwrap();
        let issued = Issued {
            chain: self.directory.path().join(format!("{label}.pem")),
            key: self.directory.path().join(format!("{label}.key")),
        };
        std::fs::write(&issued.chain, parameters.self_signed(&key).unwrap().pem()).unwrap();
        std::fs::write(&issued.key, key.serialize_pem()).unwrap();
        issued
    }

    /// Issues a client's certificate, with a common name and a URI.
    pub(crate) fn client(&self, label: &str, common_name: &str, uri: &str) -> Issued {
        self.issue_with(label, &[], |parameters| {
            let name = &mut parameters.distinguished_name;
            name.push(DnType::CommonName, common_name);
            let uri = SanType::URI(uri.try_into().unwrap());
            parameters.subject_alt_names.push(uri);
        })
    }

    /// Writes a list of revoked serial numbers to a file called `label`, valid for an hour.
    pub(crate) fn revoke(&self, label: &str, serials: &[u64]) -> PathBuf {
        let now = SystemTime::now();
        self.revoke_until(label, serials, now + Duration::from_secs(3600))
    }

    /// Writes a list of revoked serial numbers that is valid until this time.
    pub(crate) fn revoke_until(&self, label: &str, serials: &[u64], until: SystemTime) -> PathBuf {
        let revoked = serials.iter().map(|serial| RevokedCertParams {
            serial_number: SerialNumber::from(*serial),
            revocation_time: rcgen::date_time_ymd(2025, 1, 1),
            reason_code: None,
            invalidity_date: None,
        });
        let list = CertificateRevocationListParams {
            this_update: rcgen::date_time_ymd(2025, 1, 1),
            next_update: until.into(),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: revoked.collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let path = self.directory.path().join(format!("{label}.crl"));
        let text = list.signed_by(&self.issuer).unwrap().pem().unwrap();
        let new = path.with_extension("new");
        std::fs::write(&new, text).unwrap();
        std::fs::rename(&new, &path).unwrap();
        path
    }

    pub(crate) fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(self.issuer.der().clone()).unwrap();
        roots
    }
}

/// Returns the TLS settings of a listener that shows these certificates.
pub(crate) fn listener_tls(certificates: &[&Issued]) -> ListenerTls {
    ListenerTls {
        certificates: certificates
            .iter()
            .map(|issued| {
                ListenerCertificate::Files(TlsCertificate {
                    chain: file(&issued.chain),
                    key: file(&issued.key),
                })
            })
            .collect(),
        minimum_version: TlsVersion::V1_2,
        client_certificates: None,
        handshake_timeout: PATIENCE,
        max_handshakes: 100,
        session_tickets: 2,
        http2: true,
        http1: true,
    }
}

pub(crate) fn file(path: &Path) -> FileAt {
    FileAt {
        path: path.to_owned(),
        span: Span::default(),
    }
}

/// A client that speaks TLS with servers whose certificates an authority has issued.
#[derive(Clone)]
pub(crate) struct TlsClient {
    pub(crate) config: Arc<ClientConfig>,
}

pub(crate) type TlsPeer = Peer<StreamOwned<ClientConnection, TcpStream>>;

impl TlsClient {
    pub(crate) fn new(authority: &Authority) -> Self {
        Self::with(
            authority,
            &[&rustls::version::TLS13, &rustls::version::TLS12],
            None,
        )
    }

    pub(crate) fn with(
        authority: &Authority,
        versions: &[&'static rustls::SupportedProtocolVersion],
        shown: Option<&Issued>,
    ) -> Self {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(authority.roots());
        let config = match shown {
            None => builder.with_no_client_auth(),
            Some(shown) => {
                let chain = CertificateDer::pem_file_iter(&shown.chain).unwrap();
                let chain = chain.collect::<Result<_, _>>().unwrap();
                let key = PrivateKeyDer::from_pem_file(&shown.key).unwrap();
                builder.with_client_auth_cert(chain, key).unwrap()
            }
        };
        Self {
            config: Arc::new(config),
        }
    }

    /// Connects and does the handshake, with `name` as the server's.
    pub(crate) fn try_connect(&self, address: SocketAddr, name: &str) -> io::Result<TlsPeer> {
        let stream = TcpStream::connect(address)?;
        self.try_over(stream, name)
    }

    /// Does the handshake on an open connection.
    pub(crate) fn try_over(&self, stream: TcpStream, name: &str) -> io::Result<TlsPeer> {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let mut session = ClientConnection::new(Arc::clone(&self.config), name).unwrap();
        let mut stream = stream;
        while session.is_handshaking() {
            session.complete_io(&mut stream)?;
        }
        Ok(Peer::over(StreamOwned::new(session, stream)))
    }

    pub(crate) fn connect(&self, address: SocketAddr, name: &str) -> TlsPeer {
        self.try_connect(address, name).unwrap()
    }
}

impl TlsPeer {
    pub(crate) fn session(&self) -> &ClientConnection {
        &self.reader.get_ref().conn
    }

    /// Returns the certificate that the server has shown.
    pub(crate) fn shown(&self) -> CertificateDer<'static> {
        self.session().peer_certificates().unwrap()[0]
            .clone()
            .into_owned()
    }

    /// Reads to the end of the stream, and returns whether TLS announced that end.
    pub(crate) fn ends_cleanly(&mut self) -> bool {
        use std::io::Read as _;
        let socket = &self.reader.get_ref().sock;
        socket
            .set_read_timeout(Some(Duration::from_secs(5)))
            .unwrap();
        // rustls makes an error of an end that was not said.
        self.reader.read_to_end(&mut Vec::new()).is_ok()
    }
}

/// Returns the first certificate in a file.
pub(crate) fn first_in(path: &Path) -> CertificateDer<'static> {
    CertificateDer::from_pem_file(path).unwrap()
}
