//! Requests to the authority: a connection for each, with bounds on its time and the answer's
//! bytes.

use std::error::Error as StdError;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use http::header::HOST;
use http::{HeaderValue, Request, Response, Uri};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_util::rt::TokioIo;
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use rustls::pki_types::ServerName;
use sprat_config::resolved::{Acme, TrustedCa};
use sprat_net::tls;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// The time for a request and its answer, including the look-up of the name and the handshake.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The most bytes of an answer's body.
const MAX_BYTES: usize = 1 << 20;

type BoxedError = Box<dyn StdError + Send + Sync>;

/// The client that asks the authority over HTTPS.
pub(crate) struct Https(TlsConnector);

impl Https {
    /// Creates a client that trusts the configured authorities, as their file is now.
    pub(crate) fn new(acme: &Acme) -> anyhow::Result<Self> {
        let trusted = match &acme.ca_file {
            None => TrustedCa::System(acme.storage.span.clone()),
            Some(file) => TrustedCa::File(file.clone()),
        };
        let client = tls::client_config(trusted);
        let client = client.map_err(|problem| anyhow::anyhow!("{problem}"))?;
        Ok(Self(TlsConnector::from(client)))
    }
}

impl HttpClient for Https {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let asking = ask(self.0.clone(), request);
        Box::pin(async move {
            match timeout(TIMEOUT, asking).await {
                Ok(answer) => answer.map(BytesResponse::from).map_err(Error::Other),
                Err(_) => Err(Error::Other("no answer within 30 s".into())),
            }
        })
    }
}

async fn ask(
    tls: TlsConnector,
    mut request: Request<BodyWrapper<Bytes>>,
) -> Result<Response<Full<Bytes>>, BoxedError> {
    let uri = request.uri().clone();
    let authority = uri.authority().ok_or("a URL without a host")?;
    if uri.scheme_str() != Some("https") {
        return Err(format!("{uri} is not https").into());
    }
    let host = authority.host().trim_matches(['[', ']']).to_owned();
    let port = authority.port_u16().unwrap_or(443);
    let at = |error: BoxedError| -> BoxedError { format!("{authority}: {error}").into() };
    let stream = TcpStream::connect((host.as_str(), port)).await;
    let stream = stream.map_err(|error| at(error.into()))?;
    let name = ServerName::try_from(host)?;
    let stream = tls.connect(name, stream).await;
    let stream = stream.map_err(|error| at(error.into()))?;
    let headers = request.headers_mut();
    headers.insert(HOST, HeaderValue::from_str(authority.as_str())?);
    let path = uri.path_and_query().map_or("/", |own| own.as_str());
    *request.uri_mut() = path.parse::<Uri>()?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let driven = tokio::spawn(connection);
    let answer = async {
        let (parts, body) = sender.send_request(request).await?.into_parts();
        let body = Limited::new(body, MAX_BYTES).collect().await?.to_bytes();
        Ok::<_, BoxedError>(Response::from_parts(parts, Full::new(body)))
    };
    let answer = answer.await;
    // Nothing else is asked on it.
    driven.abort();
    answer.map_err(at)
}
