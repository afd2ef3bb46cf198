//! Origins that speak HTTP/2, by a library or frame by frame.

use std::convert::Infallible;
use std::future::Future;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::{Request, Response};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use sprat_config::resolved::*;

use super::client::*;
use crate::common::*;

/// An origin that speaks HTTP/2 with prior knowledge and nothing else.
pub(super) struct Http2Origin {
    pub(super) address: SocketAddr,
    connections: Arc<AtomicUsize>,
}

impl Http2Origin {
    pub(super) fn start<F>(answer: impl Fn(Request<Incoming>) -> F + Clone + Send + 'static) -> Self
    where
        F: Future<Output = Response<AnyBody>> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        listener.set_nonblocking(true).unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&connections);
        let serve = async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            while let Ok((stream, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::SeqCst);
                let answer = answer.clone();
                let service = service_fn(move |request| {
                    let answered = answer(request);
                    async move { Ok::<_, Infallible>(answered.await) }
                });
                let served = http2::Builder::new(TokioExecutor::new())
                    .serve_connection(TokioIo::new(stream), service);
                tokio::spawn(served);
            }
        };
        std::thread::spawn(move || {
            let mut runtime = tokio::runtime::Builder::new_current_thread();
            runtime.enable_all().build().unwrap().block_on(serve);
        });
        Self {
            address,
            connections,
        }
    }

    pub(super) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

/// Answers with the request that reached the origin, trailers included.
pub(super) async fn mirror(request: Request<Incoming>) -> Response<AnyBody> {
    let (parts, body) = request.into_parts();
    let mut text = format!("{} {} {:?}\n", parts.method, parts.uri, parts.version);
    let body = body.collect().await.unwrap();
    let trailers = body.trailers().cloned().unwrap_or_default();
    for (name, value) in parts.headers.iter().chain(&trailers) {
        text += &format!("{name}: {}\n", value.to_str().unwrap());
    }
    text += "\n";
    text += std::str::from_utf8(&body.to_bytes()).unwrap();
    Response::new(full(text))
}

pub(super) fn over_http2(origin: SocketAddr, max_streams: usize) -> Config {
    let mut config = config(&[origin]);
    with_cluster(&mut config, |cluster| {
        cluster.http2 = Some(UpstreamHttp2 {
            max_streams,
            stream_window_bytes: 256 << 10,
        });
    });
    config
}

/// Starts an origin whose frames a test writes by hand. Each connection is given to `serve` with
/// its number, after the preface and both sides' settings.
pub(super) fn raw_origin(serve: impl Fn(usize, Raw) + Send + Sync + 'static) -> Origin {
    let count = AtomicUsize::new(0);
    Origin::start(move |peer| {
        use std::io::Read as _;
        let mut stream = peer.stream().try_clone().unwrap();
        stream.set_nodelay(true).unwrap();
        stream.read_exact(&mut [0; PREFACE.len()]).unwrap();
        let mut raw = Raw { stream };
        raw.frame(SETTINGS, 0, 0, &[]);
        raw.find(|frame| frame.kind == SETTINGS && frame.flags == 0)
            .unwrap();
        raw.frame(SETTINGS, ACK, 0, &[]);
        serve(count.fetch_add(1, Ordering::SeqCst), raw);
    })
}

pub(super) fn is_request(frame: &RawFrame) -> bool {
    frame.kind == HEADERS
}

/// The header block of `:status: 200`, by the static table.
pub(super) const OK: &[u8] = &[0x88];

pub(super) const REFUSED_STREAM: u32 = 7;

pub(super) const ENHANCE_YOUR_CALM: u32 = 11;

impl Raw {
    pub(super) fn go_away(&mut self, last_stream: u32, error: u32) {
        let said = [last_stream, error].map(u32::to_be_bytes).concat();
        self.frame(GOAWAY, 0, 0, &said);
    }
}
