//! Requests to the collector, over one connection, with bounds on their time and on the answer's
//! bytes.

use std::error::Error as StdError;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST, RETRY_AFTER, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::rt::{Read, Write};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use sprat_config::resolved::{CollectorEndpoint, Otlp, TrustedCa};
use sprat_net::tls::client_config;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::retry::{Outcome, retry_after};

/// The most bytes of an answer that are read.
const MAX_ANSWER: usize = 64 << 10;

type Failure = Box<dyn StdError + Send + Sync>;

/// A collector, and the connection to it while there is one.
pub(crate) struct Collector {
    endpoint: CollectorEndpoint,
    /// The connector for TLS; none for plain text.
    tls: Option<TlsConnector>,
    headers: HeaderMap,
    timeout: Duration,
    connection: Option<SendRequest<Full<Bytes>>>,
}

/// The answer of a collector to a request.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) outcome: Outcome,
}

impl Collector {
    /// Creates the collector of a configuration, without a connection.
    ///
    /// # Errors
    ///
    /// The trusted authorities cannot be read.
    pub(crate) fn new(config: &Otlp) -> anyhow::Result<Self> {
        let endpoint = config.endpoint.clone();
        let tls = match endpoint.is_secure {
            false => None,
            true => {
                let trusted = match &config.ca_file {
                    None => TrustedCa::System(endpoint.span.clone()),
                    Some(file) => TrustedCa::File(file.clone()),
                };
                let client = client_config(trusted);
                let client = client.map_err(|problem| anyhow::anyhow!("{problem}"))?;
                Some(TlsConnector::from(client))
            }
        };
        let mut headers = HeaderMap::new();
        headers.insert(HOST, endpoint.authority.parse()?);
        let agent = concat!("sprat/", env!("CARGO_PKG_VERSION"));
        headers.insert(USER_AGENT, HeaderValue::from_static(agent));
        for (name, value) in &config.headers {
            let mut value: HeaderValue = value.parse()?;
            value.set_sensitive(true);
            headers.insert(name.parse::<HeaderName>()?, value);
        }
        let protobuf = HeaderValue::from_static("application/x-protobuf");
        headers.insert(CONTENT_TYPE, protobuf);
        Ok(Self {
            endpoint,
            tls,
            headers,
            timeout: config.timeout,
            connection: None,
        })
    }

    /// Posts an encoded `ExportTraceServiceRequest`, and returns the collector's answer.
    ///
    /// # Errors
    ///
    /// The collector cannot be reached, or does not answer in time.
    pub(crate) async fn post(&mut self, body: Bytes) -> Result<Answer, Failure> {
        let bound = self.timeout;
        match timeout(bound, self.ask(body)).await {
            Ok(answer) => answer,
            Err(_) => {
                self.connection = None;
                Err(format!("no answer within {bound:?}").into())
            }
        }
    }

    async fn ask(&mut self, body: Bytes) -> Result<Answer, Failure> {
        // A kept connection may have ended meanwhile, which only asking tells.
        let kept = match self.connection.take() {
            Some(kept) => self.exchange(kept, body.clone()).await.ok(),
            None => None,
        };
        let (sender, response) = match kept {
            Some(answered) => answered,
            None => {
                let fresh = self.connect().await?;
                self.exchange(fresh, body).await?
            }
        };
        let (parts, body) = response.into_parts();
        let body = Limited::new(body, MAX_ANSWER).collect().await;
        let body = match body {
            Ok(body) => {
                self.connection = Some(sender);
                body.to_bytes()
            }
            // The status says enough.
            Err(_) => Bytes::new(),
        };
        let after = parts
            .headers
            .get(RETRY_AFTER)
            .and_then(|own| own.to_str().ok());
        let after = after.and_then(|own| retry_after(own, jiff::Timestamp::now()));
        Ok(Answer {
            status: parts.status,
            outcome: Outcome::of(parts.status.as_u16(), after, &body),
        })
    }

    async fn exchange(
        &self,
        mut sender: SendRequest<Full<Bytes>>,
        body: Bytes,
    ) -> Result<(SendRequest<Full<Bytes>>, Response<Incoming>), Failure> {
        sender.ready().await?;
        let mut request = Request::post(self.endpoint.path.as_str()).body(Full::new(body))?;
        *request.headers_mut() = self.headers.clone();
        let response = sender.send_request(request).await?;
        Ok((sender, response))
    }

    async fn connect(&self) -> Result<SendRequest<Full<Bytes>>, Failure> {
        let CollectorEndpoint { host, port, .. } = &self.endpoint;
        let stream = TcpStream::connect((host.as_str(), *port)).await?;
        stream.set_nodelay(true)?;
        match &self.tls {
            None => speak(TokioIo::new(stream)).await,
            Some(tls) => {
                let name = ServerName::try_from(host.clone())?;
                speak(TokioIo::new(tls.connect(name, stream).await?)).await
            }
        }
    }
}

async fn speak<T>(io: T) -> Result<SendRequest<Full<Bytes>>, Failure>
where
    T: Read + Write + Unpin + Send + 'static,
{
    let (sender, connection) = handshake(io).await?;
    // Ends when the sender is dropped; what went wrong the request tells.
    drop(tokio::spawn(async move { drop(connection.await) }));
    Ok(sender)
}
