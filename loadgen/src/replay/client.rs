//! The client of a replay, which makes one request over one connection as cheaply as possible.

use std::cell::RefCell;
use std::collections::HashMap;
use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use sprat_measure::wire::Connection;
use tokio::io::{AsyncRead as _, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::client::TlsStream;

use super::http2::Http2;
use super::plan::Replay;
use super::received::Received;
use super::response::{ResponseEnd, ResponseReader};
use super::target::Target;
use crate::results::{Failure, Outcome};
use crate::trace::Request;

/// The bytes of the buffer that all connections read into, one at a time.
const BUFFER_BYTES: usize = 256 * 1024;

/// A connection to the server.
enum ServerConnection {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// The address that a request comes from; `None` if the kernel picks it.
pub(crate) type Source = Option<Ipv4Addr>;

/// A client that makes requests, and times and checks the responses.
pub(crate) struct ReplayClient {
    target: Target,
    connection: Connection,
    fields: String,
    timeout: Duration,
    begun: Instant,
    http2: Option<Http2>,
    /// The idle connections, by the address that they come from.
    idle: RefCell<HashMap<Source, Vec<ServerConnection>>>,
    buffer: RefCell<Box<[u8]>>,
}

impl ReplayClient {
    /// Makes a client; `begun` is the moment from which starts are counted.
    pub(crate) fn new(plan: &Replay, begun: Instant) -> Self {
        Self {
            target: plan.target.clone(),
            connection: plan.connection,
            fields: plan.fields.clone(),
            timeout: plan.timeout,
            begun,
            http2: plan
                .http2
                .map(|connections| Http2::new(plan.target.clone(), &plan.fields, connections)),
            idle: RefCell::default(),
            buffer: RefCell::new(vec![0; BUFFER_BYTES].into()),
        }
    }

    /// Makes a request, and times and checks the response.
    pub(super) async fn fetch(&self, request: &Request, from: Source) -> Outcome {
        let received = Received::new(&request.path, request.bytes);
        self.fetch_into(received, request, from).await
    }

    /// Fetches like [`Self::fetch`], but into `received`, such as one that is watched.
    pub(crate) async fn fetch_into(
        &self,
        mut received: Received,
        request: &Request,
        from: Source,
    ) -> Outcome {
        let start = Instant::now();
        let (result, received, status) = match &self.http2 {
            Some(http2) => {
                let result = self
                    .bounded(http2.fetch(&request.path, &mut received))
                    .await;
                (result, received.bytes, received.status)
            }
            None => {
                let mut reader = ResponseReader::new(received);
                let result = self
                    .bounded(self.attempt(&request.path, from, &mut reader))
                    .await;
                (result, reader.received(), reader.status())
            }
        };
        let response = start.elapsed();
        Outcome {
            received,
            status,
            ..self.outcome(request, start, response, result.err())
        }
    }

    /// Returns the attempt's result, or a failure once its time is over.
    async fn bounded(
        &self,
        attempt: impl Future<Output = Result<(), Failure>>,
    ) -> Result<(), Failure> {
        match tokio::time::timeout(self.timeout, attempt).await {
            Ok(result) => result,
            Err(_) => Err(Failure::Timeout),
        }
    }

    /// Returns the outcome of a request that was not made because too many were open.
    pub(super) fn refuse(&self, request: &Request) -> Outcome {
        self.outcome(
            request,
            Instant::now(),
            Duration::ZERO,
            Some(Failure::Connect),
        )
    }

    /// Makes the outcome of a request without a response; times are kept to the microsecond.
    fn outcome(
        &self,
        request: &Request,
        start: Instant,
        response: Duration,
        error: Option<Failure>,
    ) -> Outcome {
        let start = start.saturating_duration_since(self.begun);
        Outcome {
            t_s: request.t_s,
            bytes: request.bytes,
            path: request.path.clone(),
            start_s: start.as_micros() as f64 / 1e6,
            response_ms: response.as_micros() as f64 / 1e3,
            received: 0,
            status: 0,
            error,
        }
    }

    async fn attempt(
        &self,
        path: &str,
        from: Source,
        reader: &mut ResponseReader,
    ) -> Result<(), Failure> {
        let head = self.head(path);
        // The server may close an idle connection just as it is used again:
        // that is no failure of the request, which goes on a new one.
        let idle = self.idle.borrow_mut().get_mut(&from).and_then(Vec::pop);
        if let Some(link) = idle {
            match self.exchange(link, from, &head, reader).await {
                Err(Failure::Reset) if !reader.has_begun() => {}
                result => return result,
            }
        }
        let stream = self.connect(from).await.map_err(|_| Failure::Connect)?;
        // Without it a request in two writes would wait for an ACK; ours is
        // one write, so that a failure here is harmless.
        let _ = stream.set_nodelay(true);
        let link = match &self.target.tls {
            None => ServerConnection::Plain(stream),
            Some(tls) => {
                let secured = tls.connect(stream).await;
                ServerConnection::Tls(Box::new(secured.map_err(|_| Failure::Connect)?))
            }
        };
        self.exchange(link, from, &head, reader).await
    }

    async fn connect(&self, from: Source) -> io::Result<TcpStream> {
        let Some(from) = from else {
            return TcpStream::connect(self.target.address).await;
        };
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::from((from, 0)))?;
        socket.connect(self.target.address).await
    }

    fn head(&self, path: &str) -> Vec<u8> {
        let close = match self.connection {
            Connection::New | Connection::NewTls => "Connection: close\r\n",
            Connection::Keep => "",
        };
        let authority = &self.target.authority;
        let fields = &self.fields;
        format!("GET {path} HTTP/1.1\r\nHost: {authority}\r\nUser-Agent: sprat-loadgen\r\nAccept: */*\r\n{fields}{close}\r\n")
            .into_bytes()
    }

    /// Sends `head` and reads the response. Dropping the link closes it.
    async fn exchange(
        &self,
        mut link: ServerConnection,
        from: Source,
        head: &[u8],
        reader: &mut ResponseReader,
    ) -> Result<(), Failure> {
        let end = match &mut link {
            ServerConnection::Plain(stream) => {
                stream.write_all(head).await.map_err(|_| Failure::Reset)?;
                loop {
                    stream.readable().await.map_err(|_| Failure::Reset)?;
                    if let Some(end) = self.read_some(stream, reader)? {
                        break end;
                    }
                }
            }
            ServerConnection::Tls(stream) => {
                stream.write_all(head).await.map_err(|_| Failure::Reset)?;
                stream.flush().await.map_err(|_| Failure::Reset)?;
                loop {
                    if let Some(end) = poll_fn(|cx| self.poll_sealed(stream, reader, cx)).await? {
                        break end;
                    }
                }
            }
        };
        if end.keep && self.connection == Connection::Keep {
            // No more than were ever open at once, which is bounded.
            self.idle.borrow_mut().entry(from).or_default().push(link);
        }
        Ok(())
    }

    /// Reads once from a TLS connection, and feeds the bytes to the reader; `Some` once the
    /// response is complete.
    fn poll_sealed(
        &self,
        stream: &mut TlsStream<TcpStream>,
        reader: &mut ResponseReader,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<ResponseEnd>, Failure>> {
        let mut buffer = self.buffer.borrow_mut();
        let mut part = ReadBuf::new(&mut buffer);
        let read = ready!(Pin::new(stream).poll_read(cx, &mut part));
        Poll::Ready(match read {
            Ok(()) if part.filled().is_empty() => reader.closed().map(Some),
            Ok(()) => reader.feed(part.filled()),
            // An end that was not said: where the length is known, all is there.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => reader.closed().map(Some),
            Err(_) => Err(Failure::Reset),
        })
    }

    /// Reads once from a plain connection without waiting, and feeds the bytes to the reader;
    /// `Some` once the response is complete.
    fn read_some(
        &self,
        stream: &TcpStream,
        reader: &mut ResponseReader,
    ) -> Result<Option<ResponseEnd>, Failure> {
        let mut buffer = self.buffer.borrow_mut();
        match stream.try_read(&mut buffer) {
            Ok(0) => reader.closed().map(Some),
            Ok(length) => reader.feed(&buffer[..length]),
            Err(error) => transient(&error).map(|()| None),
        }
    }
}

fn transient(error: &io::Error) -> Result<(), Failure> {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::Interrupted => Ok(()),
        _ => Err(Failure::Reset),
    }
}
