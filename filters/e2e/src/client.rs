//! A connection to a server: HTTP/1.1, or HTTP/2 with prior knowledge.

use std::net::SocketAddr;

use anyhow::{Context, bail, ensure};
use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use sprat_loadgen::content::Content;
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio::task::JoinHandle;

use crate::PATIENCE;

/// The protocol of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1: one request after the other.
    Http1,
    /// HTTP/2 with prior knowledge: requests in parallel, without TLS.
    Http2,
}

impl Protocol {
    /// The two protocols, for tests that run over each.
    pub const ALL: [Self; 2] = [Self::Http1, Self::Http2];
}

/// A connection to a server, which closes when this is dropped.
#[derive(Debug)]
pub struct Client {
    sender: Sender,
    driver: JoinHandle<()>,
    authority: String,
}

#[derive(Debug)]
enum Sender {
    Http1(Mutex<http1::SendRequest<Full<Bytes>>>),
    Http2(http2::SendRequest<Full<Bytes>>),
}

impl Client {
    /// Opens a connection to a server.
    ///
    /// # Errors
    /// When the server does not accept it, or not in this protocol.
    pub async fn connect(address: SocketAddr, protocol: Protocol) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address)
            .await
            .with_context(|| format!("cannot connect to {address}"))?;
        stream.set_nodelay(true)?;
        let io = TokioIo::new(stream);
        let (sender, driver) = match protocol {
            Protocol::Http1 => {
                let (sender, connection) = http1::handshake(io).await?;
                let driver = tokio::spawn(async move { drop(connection.await) });
                (Sender::Http1(Mutex::new(sender)), driver)
            }
            Protocol::Http2 => {
                let (sender, connection) = http2::handshake(TokioExecutor::new(), io).await?;
                let driver = tokio::spawn(async move { drop(connection.await) });
                (Sender::Http2(sender), driver)
            }
        };
        Ok(Self {
            sender,
            driver,
            authority: address.to_string(),
        })
    }

    /// Sends a request, and returns once the head of its response has come. A URI without an
    /// authority gets the server's.
    ///
    /// # Errors
    /// When the connection fails, or no head comes within [`PATIENCE`].
    pub async fn send(
        &self,
        mut request: Request<Full<Bytes>>,
    ) -> anyhow::Result<http::Response<Incoming>> {
        let path = request.uri().to_string();
        let response = async {
            match &self.sender {
                Sender::Http1(sender) => {
                    let host = http::HeaderValue::from_str(&self.authority)?;
                    request.headers_mut().entry("host").or_insert(host);
                    let mut sender = sender.lock().await;
                    sender.ready().await?;
                    Ok(sender.send_request(request).await?)
                }
                Sender::Http2(sender) => {
                    if request.uri().authority().is_none() {
                        let whole = format!("http://{}{path}", self.authority);
                        *request.uri_mut() = whole.parse()?;
                    }
                    let mut sender = sender.clone();
                    sender.ready().await?;
                    Ok(sender.send_request(request).await?)
                }
            }
        };
        match tokio::time::timeout(PATIENCE, response).await {
            Ok(response) => response,
            Err(_) => bail!("{path}: no head of a response within {PATIENCE:?}"),
        }
    }

    /// Sends a GET for `path`, and reads the whole response.
    ///
    /// # Errors
    /// As [`Self::send`], and when the body is cut short.
    pub async fn get(&self, path: &str) -> anyhow::Result<Response> {
        self.get_with(path, &[]).await
    }

    /// Sends a GET for `path` with these header fields, and reads the whole response.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub async fn get_with(&self, path: &str, fields: &[(&str, &str)]) -> anyhow::Result<Response> {
        let mut request = Request::get(path);
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        let response = self.send(request.body(Full::default())?).await?;
        Response::read(response)
            .await
            .with_context(|| format!("the body of {path}"))
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// A response with its whole body.
#[derive(Clone, Debug)]
pub struct Response {
    /// The status of the response.
    pub status: StatusCode,
    /// The fields of the response's head.
    pub headers: HeaderMap,
    /// The whole body of the response.
    pub body: Bytes,
    /// The trailers, if there were any.
    pub trailers: Option<HeaderMap>,
}

impl Response {
    /// Reads the rest of a response whose head has come.
    ///
    /// # Errors
    /// When the body is cut short, or has not ended within [`PATIENCE`].
    pub async fn read(response: http::Response<Incoming>) -> anyhow::Result<Self> {
        let (head, body) = response.into_parts();
        let Ok(whole) = tokio::time::timeout(PATIENCE, body.collect()).await else {
            bail!("no end within {PATIENCE:?}");
        };
        let whole = whole?;
        let trailers = whole.trailers().cloned();
        Ok(Self {
            status: head.status,
            headers: head.headers,
            body: whole.to_bytes(),
            trailers,
        })
    }

    /// Returns a field of the head as text.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// Checks that the response is the origin's answer to `path`, to the byte.
    ///
    /// # Errors
    /// When anything differs, with the difference.
    pub fn check(&self, path: &str) -> anyhow::Result<()> {
        let content = Content::of_path(path).with_context(|| format!("{path} has no content"))?;
        ensure!(self.status == StatusCode::OK, "{path}: {}", self.status);
        ensure!(
            self.body.len() as u64 == content.bytes,
            "{path}: {} bytes",
            self.body.len()
        );
        ensure!(content.matches(0, &self.body), "{path}: other bytes");
        Ok(())
    }
}
