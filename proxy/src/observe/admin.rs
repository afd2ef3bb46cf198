//! The admin listener: metrics, liveness, readiness.
//!
//! It has a thread of its own. Large pages are made on another ([`renderings`]), so
//! that a probe's answer waits for nothing.

mod hosts;
mod renderings;
mod seats;

use std::convert::Infallible;
use std::net::TcpListener as StdListener;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, ALLOW, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use sprat_config::resolved::HostPattern;
use sprat_sizes::Dump;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;
use tokio::sync::watch;
use tokio::time::{Instant, interval};

use self::renderings::{Page, Renderings};
use self::seats::{Answering, Seat, Seats};
use crate::observe::metrics::{Exposition, Metrics};
use crate::observe::stage::Stage;

const INDEX: &str = "sprat\n\n/metrics  Prometheus metrics\n/livez    the process runs\n\
                     /readyz   it takes requests (503 while it drains)\n\
                     /gain     how much longer responses would take under policy fair\n\
                     /endpoints       which endpoints are used, and why not\n\
                     /catalogue       what the catalogue of sizes holds\n\
                     /catalogue/dump  its entries as JSON lines\n\
                     /config   the configuration that is served by, when it was read,\n\
                     \x20         and what was wrong with the last that was not\n";

/// What the admin listener tells of, and to whom.
pub(crate) struct Desk {
    metrics: Arc<Metrics>,
    stage: watch::Receiver<Stage>,
    /// Names that it may be asked by.
    hosts: Vec<HostPattern>,
    seats: Arc<Seats>,
    renderings: Renderings,
}

impl Desk {
    /// Of a server.
    pub(crate) fn new(
        metrics: &Arc<Metrics>,
        stage: watch::Receiver<Stage>,
        hosts: Vec<HostPattern>,
    ) -> Self {
        Self {
            metrics: Arc::clone(metrics),
            stage,
            hosts,
            seats: Arc::default(),
            renderings: Renderings::default(),
        }
    }

    /// Serves until the server is cut, or replaced, on the calling thread.
    pub(crate) fn run(self, socket: StdListener) {
        let runtime = match Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => return tracing::error!(%error, "the admin listener cannot start"),
        };
        let mut end = self.stage.clone();
        runtime.block_on(async {
            tokio::select! {
                // An error means that the server is gone.
                _ = end.wait_for(|stage| *stage >= Stage::Replaced) => {}
                () = accept(socket, Arc::new(self)) => {}
            }
        });
    }
}

async fn accept(socket: StdListener, desk: Arc<Desk>) {
    let socket = match TcpListener::from_std(socket) {
        Ok(socket) => socket,
        Err(error) => return tracing::error!(%error, "the admin listener cannot start"),
    };
    let mut rounds = interval(Duration::from_secs(1));
    loop {
        tokio::select! {
            accepted = socket.accept() => match accepted {
                Ok((stream, _)) => {
                    let seat = desk.seats.take(Instant::now());
                    let task = tokio::spawn(serve(stream, Arc::clone(&desk), Arc::clone(&seat)));
                    seat.served_by(task.abort_handle());
                }
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            },
            now = rounds.tick() => desk.seats.close_overdue(now),
        }
    }
}

/// Answers the requests of a connection. Whatever goes wrong, the client sees it.
async fn serve(stream: TcpStream, desk: Arc<Desk>, seat: Arc<Seat>) {
    let service = service_fn(|request: Request<Incoming>| {
        let (desk, seat) = (Arc::clone(&desk), Arc::clone(&seat));
        async move {
            let answering = seat.answer(Instant::now());
            Ok::<_, Infallible>(desk.answer(&request, answering).await)
        }
    });
    let mut http = http1::Builder::new();
    // The seats' bounds hold.
    http.header_read_timeout(None);
    let _ = http.serve_connection(TokioIo::new(stream), service).await;
}

impl Desk {
    async fn answer(&self, request: &Request<Incoming>, answering: Answering) -> Response<Answer> {
        if let Err((status, why)) = hosts::check(request, &self.hosts) {
            return plain(status, why, answering);
        }
        if request.method() != Method::GET && request.method() != Method::HEAD {
            let status = StatusCode::METHOD_NOT_ALLOWED;
            let mut response = plain(status, "only GET and HEAD\n", answering);
            let allowed = HeaderValue::from_static("GET, HEAD");
            response.headers_mut().insert(ALLOW, allowed);
            return response;
        }
        let stage = *self.stage.borrow();
        let page = match request.uri().path() {
            "/" => return plain(StatusCode::OK, INDEX, answering),
            "/livez" => return plain(StatusCode::OK, "ok\n", answering),
            "/readyz" if stage == Stage::Serving => {
                return plain(StatusCode::OK, "ok\n", answering);
            }
            "/readyz" => return plain(StatusCode::SERVICE_UNAVAILABLE, "draining\n", answering),
            "/catalogue/dump" => {
                let dump = Dump::new(self.metrics.catalogue().catalogue());
                return typed(Answer::Dump(dump, answering), "application/x-ndjson");
            }
            "/metrics" => {
                let accept = request.headers().get_all(ACCEPT);
                Page::Metrics(Exposition::preferred(accept.iter()))
            }
            "/endpoints" => Page::Endpoints,
            "/catalogue" => Page::Catalogue,
            "/gain" => Page::Gain,
            "/config" => Page::Config,
            _ => {
                let unknown = "no such page; / lists them\n";
                return plain(StatusCode::NOT_FOUND, unknown, answering);
            }
        };
        self.page(page, answering).await
    }

    async fn page(&self, page: Page, answering: Answering) -> Response<Answer> {
        let metrics = Arc::clone(&self.metrics);
        let render = move || match page {
            Page::Metrics(format) => metrics.text(format),
            Page::Endpoints => metrics.endpoints(),
            Page::Catalogue => metrics.catalogue().json(),
            Page::Config => metrics.config(),
            Page::Gain => metrics.gain(),
        };
        let content_type = match page {
            Page::Metrics(format) => format.content_type(),
            _ => "application/json",
        };
        let reading = self.renderings.read(page, &self.seats, answering, render);
        match reading.await {
            Some(reading) => typed(Answer::whole(reading), content_type),
            None => {
                let mut response = typed(Answer::Text(None), "text/plain; charset=utf-8");
                *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
                response
            }
        }
    }
}

fn typed(answer: Answer, content_type: &'static str) -> Response<Answer> {
    let mut response = Response::new(answer);
    let content_type = HeaderValue::from_static(content_type);
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response
}

fn plain(status: StatusCode, text: &'static str, answering: Answering) -> Response<Answer> {
    let answer = Answer::whole(Short(text, answering));
    let mut response = typed(answer, "text/plain; charset=utf-8");
    *response.status_mut() = status;
    response
}

/// A page of one text.
struct Short(
    &'static str,
    #[expect(dead_code, reason = "its end is told when it is dropped")] Answering,
);

impl AsRef<[u8]> for Short {
    fn as_ref(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

/// The body of a response of the admin listener.
enum Answer {
    Text(Option<Bytes>),
    Dump(
        Dump,
        #[expect(dead_code, reason = "its end is told when it is dropped")] Answering,
    ),
}

impl Answer {
    /// A text that is kept, with what else it holds, until the socket has it all.
    fn whole(text: impl AsRef<[u8]> + Send + 'static) -> Self {
        Self::Text(Some(Bytes::from_owner(text)))
    }
}

impl Body for Answer {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Self::Text(text) => Poll::Ready(text.take().map(|text| Ok(Frame::data(text)))),
            Self::Dump(dump, _) => Pin::new(dump).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Text(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Text(text) => SizeHint::with_exact(text.as_ref().map_or(0, Bytes::len) as u64),
            Self::Dump(..) => SizeHint::default(),
        }
    }
}
