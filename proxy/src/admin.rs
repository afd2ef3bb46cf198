//! The admin listener: metrics, liveness, readiness.

use std::convert::Infallible;
use std::net::TcpListener as StdListener;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;

use crate::catalogue::Dump;
use crate::metrics::Metrics;
use crate::worker::Stage;

/// Connections at once.
const MAX_CONNECTIONS: usize = 64;

/// For a connection, from the first byte to the last.
const CONNECTION_BOUND: Duration = Duration::from_secs(60);

const HEADER_TIMEOUT: Duration = Duration::from_secs(10);

const INDEX: &str = "sprat\n\n/metrics  Prometheus metrics\n/livez    the process runs\n\
                     /readyz   it takes requests (503 while it drains)\n\
                     /endpoints       which endpoints are used, and why not\n\
                     /catalogue       what the catalogue of sizes holds\n\
                     /catalogue/dump  its entries as JSON lines\n\
                     /config   when it was read, and what was wrong with the last that was not\n";

/// Serves until the server is cut, or replaced, on the calling thread.
pub(crate) fn run(socket: StdListener, metrics: &Arc<Metrics>, stage: watch::Receiver<Stage>) {
    let runtime = match Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return tracing::error!(%error, "the admin listener cannot start"),
    };
    let mut end = stage.clone();
    runtime.block_on(async {
        tokio::select! {
            // An error means that the server is gone.
            _ = end.wait_for(|stage| *stage >= Stage::Replaced) => {}
            () = accept(socket, metrics, stage) => {}
        }
    });
}

async fn accept(socket: StdListener, metrics: &Arc<Metrics>, stage: watch::Receiver<Stage>) {
    let socket = match TcpListener::from_std(socket) {
        Ok(socket) => socket,
        Err(error) => return tracing::error!(%error, "the admin listener cannot start"),
    };
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let Ok((stream, _)) = socket.accept().await else {
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
            continue;
        };
        let (metrics, stage) = (Arc::clone(metrics), stage.clone());
        tokio::spawn(async move {
            let _place = place;
            let service = service_fn(move |request: Request<Incoming>| {
                let response = answer(&request, &metrics, *stage.borrow());
                async move { Ok::<_, Infallible>(response) }
            });
            let mut http = http1::Builder::new();
            http.timer(TokioTimer::new())
                .header_read_timeout(HEADER_TIMEOUT);
            let connection = http.serve_connection(TokioIo::new(stream), service);
            // Whatever went wrong, whoever asked knows.
            let _ = timeout(CONNECTION_BOUND, connection).await;
        });
    }
}

fn answer(
    request: &Request<Incoming>,
    metrics: &Metrics,
    stage: Stage,
) -> Response<Either<Full<Bytes>, Dump>> {
    let typed = |body, content_type| {
        let mut response = Response::new(body);
        let content_type = HeaderValue::from_static(content_type);
        response.headers_mut().insert(CONTENT_TYPE, content_type);
        response
    };
    let json = |text: String| typed(Either::Left(Full::from(text)), "application/json");
    let plain = |status, text: &'static str| {
        let body = Either::Left(Full::from(text));
        let mut response = typed(body, "text/plain; charset=utf-8");
        *response.status_mut() = status;
        response
    };
    if request.method() != Method::GET && request.method() != Method::HEAD {
        let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n");
        let allowed = HeaderValue::from_static("GET, HEAD");
        response.headers_mut().insert(ALLOW, allowed);
        return response;
    }
    match request.uri().path() {
        "/" => plain(StatusCode::OK, INDEX),
        "/livez" => plain(StatusCode::OK, "ok\n"),
        "/readyz" if stage == Stage::Serving => plain(StatusCode::OK, "ok\n"),
        "/readyz" => plain(StatusCode::SERVICE_UNAVAILABLE, "draining\n"),
        "/metrics" => {
            let openmetrics = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            typed(Either::Left(Full::from(metrics.text())), openmetrics)
        }
        "/endpoints" => json(metrics.endpoints()),
        "/catalogue" => json(metrics.catalogue().json()),
        "/config" => json(metrics.reloads().json()),
        "/catalogue/dump" => {
            let dump = Dump::new(metrics.catalogue().catalogue());
            typed(Either::Right(dump), "application/x-ndjson")
        }
        _ => plain(StatusCode::NOT_FOUND, "no such page; / lists them\n"),
    }
}
