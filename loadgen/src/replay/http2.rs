//! Requests as streams of a few HTTP/2 connections, with prior knowledge.

use std::cell::Cell;

use bytes::Bytes;
use http::header::{HeaderName, HeaderValue};
use http::{HeaderMap, Request, Version};
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http2;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::sync::Mutex;

use super::received::Received;
use super::target::Target;
use crate::origin::LocalExecutor;
use crate::results::Failure;

/// The bytes that a stream may have under way: as many as in browsers, so that the client's flow
/// control is not what limits a response.
const STREAM_WINDOW_BYTES: u32 = 6 * 1024 * 1024;
const CONNECTION_WINDOW_BYTES: u32 = 15 * 1024 * 1024;

type StreamSender = http2::SendRequest<Empty<Bytes>>;

/// A client whose requests are streams of its connections in turn.
pub(super) struct Http2 {
    authority: String,
    fields: HeaderMap,
    connections: Connections,
    next: Cell<usize>,
}

impl Http2 {
    /// Makes a client with so many `connections`; `fields` are header lines as HTTP/1.1 has them.
    pub(super) fn new(target: Target, fields: &str, connections: u32) -> Self {
        Self {
            authority: target.authority.clone(),
            fields: header_map(fields),
            connections: Connections::new(target, connections),
            next: Cell::new(0),
        }
    }

    /// Requests `path` on the next connection in turn, and judges the response.
    pub(super) async fn fetch(&self, path: &str, received: &mut Received) -> Result<(), Failure> {
        let turn = self.next.replace(self.next.get().wrapping_add(1));
        let mut sender = self.connections.sender(turn).await?;
        let uri = format!("http://{}{path}", self.authority);
        let mut request = Request::new(Empty::new());
        *request.uri_mut() = uri.parse().map_err(|_| Failure::Corrupt)?;
        *request.version_mut() = Version::HTTP_2;
        *request.headers_mut() = self.fields.clone();
        let response = sender.send_request(request).await;
        let response = response.map_err(|_| Failure::Reset)?;
        received.status = response.status().as_u16();
        if let Some(encoding) = response.headers().get(http::header::CONTENT_ENCODING) {
            received.encoding(encoding.to_str().unwrap_or("?"));
        }
        let mut body = response.into_body();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|_| Failure::Reset)?;
            if let Ok(data) = frame.into_data() {
                received.body(&data);
            }
        }
        received.verdict()
    }
}

/// HTTP/2 connections that are opened when they are first used, and again when they have ended.
pub(crate) struct Connections {
    target: Target,
    open: Vec<Mutex<Option<StreamSender>>>,
}

impl Connections {
    pub(crate) fn new(target: Target, connections: u32) -> Self {
        Self {
            target,
            open: (0..connections.max(1)).map(|_| Mutex::default()).collect(),
        }
    }

    /// Returns the sender of the connection whose turn it is, which is opened if need be.
    ///
    /// # Errors
    /// `Connect` if it is not open and cannot be opened.
    pub(crate) async fn sender(&self, turn: usize) -> Result<StreamSender, Failure> {
        let mut slot = self.open[turn % self.open.len()].lock().await;
        if let Some(sender) = slot.as_mut()
            && sender.ready().await.is_ok()
        {
            return Ok(sender.clone());
        }
        let mut sender = connect(&self.target).await?;
        sender.ready().await.map_err(|_| Failure::Connect)?;
        Ok(slot.insert(sender).clone())
    }
}

async fn connect(target: &Target) -> Result<StreamSender, Failure> {
    let stream = TcpStream::connect(target.address)
        .await
        .map_err(|_| Failure::Connect)?;
    let _ = stream.set_nodelay(true);
    let (sender, connection) = http2::Builder::new(LocalExecutor)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(|_| Failure::Connect)?;
    tokio::task::spawn_local(async move { drop(connection.await) });
    Ok(sender)
}

/// Parses lines of header fields, which the command line has checked.
fn header_map(lines: &str) -> HeaderMap {
    lines
        .lines()
        .filter_map(|line| line.split_once(':'))
        .filter_map(|(name, value)| {
            let name: HeaderName = name.parse().ok()?;
            let value: HeaderValue = value.trim().parse().ok()?;
            Some((name, value))
        })
        .collect()
}
