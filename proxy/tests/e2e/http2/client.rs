//! HTTP/2 for tests: a library's client, and frames written by hand.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::Future;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body::{Body, Frame};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Empty, Full};
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::common::PATIENCE;

pub(crate) type AnyBody = BoxBody<Bytes, Infallible>;
pub(crate) type Sender = SendRequest<AnyBody>;

/// Runs an asynchronous test, and fails if it takes too long.
pub(crate) fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime
        .block_on(async { tokio::time::timeout(PATIENCE, test).await })
        .expect("the test takes too long")
}

/// Connects with prior knowledge of HTTP/2.
pub(crate) async fn connect(address: SocketAddr) -> Sender {
    let stream = tokio::net::TcpStream::connect(address).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let (sender, connection) = hyper::client::conn::http2::Builder::new(TokioExecutor::new())
        .initial_stream_window_size(4 << 20)
        .initial_connection_window_size(8 << 20)
        .handshake(TokioIo::new(stream))
        .await
        .unwrap();
    tokio::spawn(connection);
    sender
}

/// Connects over TLS, with a configuration that offers HTTP/2 alone.
pub(crate) async fn connect_tls(
    address: SocketAddr,
    name: &str,
    config: rustls::ClientConfig,
) -> Sender {
    let stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let name = rustls::pki_types::ServerName::try_from(name.to_owned()).unwrap();
    let connector = tokio_rustls::TlsConnector::from(std::sync::Arc::new(config));
    let stream = connector.connect(name, stream).await.unwrap();
    let (sender, connection) = hyper::client::conn::http2::Builder::new(TokioExecutor::new())
        .handshake(TokioIo::new(stream))
        .await
        .unwrap();
    tokio::spawn(connection);
    sender
}

pub(crate) fn empty() -> AnyBody {
    Empty::new().boxed()
}

pub(crate) fn full(bytes: impl Into<Bytes>) -> AnyBody {
    Full::new(bytes.into()).boxed()
}

/// Returns a body of these pieces, with trailers.
pub(crate) fn pieces(pieces: &[&'static str], trailers: HeaderMap) -> AnyBody {
    let data = pieces.iter().map(|piece| Frame::data(Bytes::from(*piece)));
    Pieces(data.chain([Frame::trailers(trailers)]).collect()).boxed()
}

/// Returns a body, and the sender of its pieces; the body ends when that is dropped.
pub(crate) fn fed() -> (UnboundedSender<Bytes>, AnyBody) {
    let (feed, fed) = unbounded_channel();
    (feed, Fed(fed).boxed())
}

struct Fed(UnboundedReceiver<Bytes>);

impl Body for Fed {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0
            .poll_recv(cx)
            .map(|data| data.map(|data| Ok(Frame::data(data))))
    }
}

struct Pieces(VecDeque<Frame<Bytes>>);

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.pop_front().map(Ok))
    }
}

pub(crate) fn request(path: &str) -> Request<AnyBody> {
    let uri = format!("http://test.example{path}");
    Request::get(uri).body(empty()).unwrap()
}

/// A response with its whole body.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) trailers: Option<HeaderMap>,
}

impl Answer {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}

pub(crate) async fn whole(response: Response<hyper::body::Incoming>) -> Answer {
    let (parts, body) = response.into_parts();
    let body = body.collect().await.unwrap();
    let trailers = body.trailers().cloned();
    Answer {
        status: parts.status.as_u16(),
        headers: parts.headers,
        body: body.to_bytes(),
        trailers,
    }
}

/// Sends a request, and reads its whole answer.
pub(crate) async fn ask(sender: &Sender, request: Request<AnyBody>) -> Answer {
    let mut sender = sender.clone();
    sender.ready().await.unwrap();
    whole(sender.send_request(request).await.unwrap()).await
}

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const PRIORITY: u8 = 2;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;

pub(crate) const END_STREAM: u8 = 0x1;
pub(crate) const ACK: u8 = 0x1;
pub(crate) const END_HEADERS: u8 = 0x4;

pub(crate) const INITIAL_WINDOW_SIZE: u16 = 4;
pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A frame of HTTP/2, as it came.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RawFrame {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

impl RawFrame {
    /// Returns the error code of a RST_STREAM or a GOAWAY.
    pub(crate) fn error(&self) -> u32 {
        let at = if self.kind == GOAWAY { 4 } else { 0 };
        u32::from_be_bytes(self.payload[at..at + 4].try_into().unwrap())
    }

    pub(crate) fn ends_stream(&self) -> bool {
        matches!(self.kind, DATA | HEADERS) && self.flags & END_STREAM != 0
    }

    /// Returns the status of a head, if it is one of HPACK's static table.
    pub(crate) fn status(&self) -> Option<u16> {
        const STATIC: [u16; 7] = [200, 204, 206, 304, 400, 404, 500];
        let index = self.payload.first()?.checked_sub(0x88)?;
        STATIC.get(usize::from(index)).copied()
    }
}

/// Returns a header block of literals, none of them indexed (RFC 7541 6.2.2).
pub(crate) fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    let string = |text: &str, block: &mut Vec<u8>| {
        // A length of 127 and more is continued in parts of seven bits.
        match text.len() {
            short @ ..127 => block.push(short as u8),
            long => {
                block.push(127);
                let mut rest = long - 127;
                while rest >= 128 {
                    block.push((rest % 128) as u8 | 128);
                    rest /= 128;
                }
                block.push(rest as u8);
            }
        }
        block.extend_from_slice(text.as_bytes());
    };
    for (name, value) in fields {
        block.push(0);
        string(name, &mut block);
        string(value, &mut block);
    }
    block
}

/// Returns the header block of a GET for a path, with further fields.
pub(crate) fn get_fields<'a>(path: &'a str, more: &[(&'a str, &'a str)]) -> Vec<u8> {
    let mut fields = vec![
        (":method", "GET"),
        (":scheme", "http"),
        (":authority", "test.example"),
        (":path", path),
    ];
    fields.extend_from_slice(more);
    block(&fields)
}

pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    frame.extend_from_slice(&[kind, flags]);
    frame.extend_from_slice(&stream.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

/// A connection whose frames a test writes by hand.
pub(crate) struct Raw {
    pub(crate) stream: TcpStream,
}

impl Raw {
    /// Connects, and sends the preface and these settings.
    pub(crate) fn connect(address: SocketAddr, settings: &[(u16, u32)]) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        let mut raw = Self { stream };
        let mut payload = Vec::new();
        for (key, value) in settings {
            payload.extend_from_slice(&key.to_be_bytes());
            payload.extend_from_slice(&value.to_be_bytes());
        }
        assert!(raw.send(&[PREFACE, &frame(SETTINGS, 0, 0, &payload)].concat()));
        raw
    }

    /// Sends bytes to the server. Returns false if the server has closed the connection.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).is_ok()
    }

    pub(crate) fn frame(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> bool {
        self.send(&frame(kind, flags, stream, payload))
    }

    /// Sends a GET for a path on this stream.
    pub(crate) fn get(&mut self, stream: u32, path: &str) -> bool {
        let block = get_fields(path, &[]);
        self.frame(HEADERS, END_HEADERS | END_STREAM, stream, &block)
    }

    /// Reads the next frame; none if the server has closed the connection.
    pub(crate) fn read(&mut self) -> Option<RawFrame> {
        let mut header = [0; 9];
        if let Err(error) = self.stream.read_exact(&mut header) {
            assert_ne!(
                error.kind(),
                std::io::ErrorKind::WouldBlock,
                "nothing comes"
            );
            return None;
        }
        let [high, middle, low, kind, flags, ..] = header;
        let length = u32::from_be_bytes([0, high, middle, low]) as usize;
        let mut payload = vec![0; length];
        self.stream.read_exact(&mut payload).ok()?;
        Some(RawFrame {
            kind,
            flags,
            stream: u32::from_be_bytes(header[5..].try_into().unwrap()),
            payload,
        })
    }

    /// Reads up to the next frame that is wanted.
    pub(crate) fn find(&mut self, mut wanted: impl FnMut(&RawFrame) -> bool) -> Option<RawFrame> {
        loop {
            let frame = self.read()?;
            if wanted(&frame) {
                return Some(frame);
            }
        }
    }

    /// Reads a stream to its end, and returns the frame that ends it.
    pub(crate) fn end_of(&mut self, stream: u32) -> Option<RawFrame> {
        self.find(|frame| {
            frame.stream == stream && (frame.ends_stream() || frame.kind == RST_STREAM)
        })
    }
}
