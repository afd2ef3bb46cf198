//! The demo's web page, and the stream of events that keeps it up to date.

use std::convert::Infallible;
use std::net::TcpListener as StdListener;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body::{Body, Frame};
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Interval;

use super::Demo;
use super::clients::SNAPSHOT_EVERY;

/// The most connections to the page at once; the server closes any more.
const CONNECTIONS_MAX: usize = 64;

/// The time that a client may take for the head of a request.
const HEAD_WITHIN: Duration = Duration::from_secs(10);

const PAGE: &str = include_str!("index.html");
const STYLE: &str = include_str!("demo.css");
const SCRIPT: &str = include_str!("demo.js");

type PageReply = Response<Either<Full<Bytes>, EventStream>>;

/// Serves the page until the process ends.
///
/// # Errors
/// When the listener cannot be used.
pub(super) async fn serve(listener: StdListener, demo: Arc<Demo>) -> anyhow::Result<()> {
    listener.set_nonblocking(true)?;
    let listener = TcpListener::from_std(listener).context("cannot serve the page")?;
    let seats = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(SNAPSHOT_EVERY).await;
            continue;
        };
        let Ok(seat) = seats.clone().try_acquire_owned() else {
            continue;
        };
        tokio::spawn(connection(TokioIo::new(stream), demo.clone(), seat));
    }
}

async fn connection(
    stream: TokioIo<tokio::net::TcpStream>,
    demo: Arc<Demo>,
    _seat: OwnedSemaphorePermit,
) {
    let service = service_fn(|request: Request<Incoming>| {
        let reply = answer(request.method(), request.uri().path(), &demo);
        async move { Ok::<_, Infallible>(reply) }
    });
    // A browser may leave at any time: that is no error of ours.
    let _ = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_WITHIN)
        .serve_connection(stream, service)
        .await;
}

fn answer(method: &Method, path: &str, demo: &Arc<Demo>) -> PageReply {
    if method != Method::GET && method != Method::HEAD {
        return text(StatusCode::METHOD_NOT_ALLOWED, "text/plain", "GET alone\n");
    }
    match path {
        "/" => text(StatusCode::OK, "text/html; charset=utf-8", PAGE),
        "/demo.css" => text(StatusCode::OK, "text/css; charset=utf-8", STYLE),
        "/demo.js" => text(StatusCode::OK, "text/javascript; charset=utf-8", SCRIPT),
        "/events" => {
            let mut reply = Response::new(Either::Right(EventStream::new(demo.clone())));
            let stream = HeaderValue::from_static("text/event-stream");
            reply.headers_mut().insert(header::CONTENT_TYPE, stream);
            reply
        }
        _ => text(StatusCode::NOT_FOUND, "text/plain", "not here\n"),
    }
}

fn text(status: StatusCode, media_type: &'static str, text: &'static str) -> PageReply {
    let mut reply = Response::new(Either::Left(Full::from(text)));
    *reply.status_mut() = status;
    let headers = reply.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static("default-src 'self'; img-src 'self' data:"),
    );
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    reply
}

/// A stream of events for the page: the state of all systems, once every [`SNAPSHOT_EVERY`].
struct EventStream {
    demo: Arc<Demo>,
    ticks: Interval,
}

impl EventStream {
    fn new(demo: Arc<Demo>) -> Self {
        Self {
            demo,
            ticks: tokio::time::interval(SNAPSHOT_EVERY),
        }
    }
}

impl Body for EventStream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        ready!(self.ticks.poll_tick(cx));
        let event = format!("data: {}\n\n", self.demo.state());
        Poll::Ready(Some(Ok(Frame::data(event.into()))))
    }
}
