//! The admin listener: metrics, liveness, readiness, and the dashboard.
//!
//! It has a thread of its own. Large pages are made on another ([`renderings`]), and so is
//! what watchers are sent ([`watchers`]): a probe's answer waits for nothing.

mod answer;
mod changes;
mod dashboard;
mod hosts;
mod live;
mod renderings;
mod rights;
mod seats;
mod watchers;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http::header::{ACCEPT, ALLOW, CACHE_CONTROL};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use socket2::SockRef;
use sprat_net::listening::{Accepting, ListeningSocket};
use sprat_sizes::Dump;
use tokio::net::TcpStream;
use tokio::runtime::Builder;
use tokio::sync::watch;
use tokio::time::{Instant, interval};

use self::answer::{AdminAnswer, plain, typed};
use self::live::{Live, MOST_FLOWS};
use self::renderings::{AdminPage, Renderings};
pub(crate) use self::rights::{Rights, inspect};
use self::seats::{Answering, Seat, Seats};
use self::watchers::Watchers;
use crate::observe::metrics::{Exposition, Metrics};
use crate::observe::stage::Stage;

const INDEX: &str = "sprat\n\n/         the dashboard, for a browser\n\
                     /metrics  Prometheus metrics\n/livez    the process runs\n\
                     /readyz   it takes requests (503 while it drains)\n\
                     /gain     how much longer responses would take under policy fair\n\
                     /stats    the present figures as JSON\n\
                     /flows    the responses that are sent or wait, as JSON\n\
                     /events   both as they change (text/event-stream)\n\
                     POST /drain      stops as SIGTERM does\n\
                     POST /log-level  {\"level\": \"debug\"}\n\
                     POST /endpoints/drain    no further requests to an endpoint:\n\
                     \x20                        {\"cluster\": \"farm\", \"endpoint\": \"10.0.0.1:80\"}\n\
                     POST /endpoints/undrain  requests to it again\n\
                     POST /endpoints/weight   another share of the requests:\n\
                     \x20                        {\"cluster\": ..., \"endpoint\": ..., \"weight\": 10}\n\
                     /endpoints       which endpoints are used, and why not\n\
                     /catalogue       what the catalogue of sizes holds\n\
                     /catalogue/dump  its entries as JSON lines\n\
                     /config   the configuration that is served by, when it was read,\n\
                     \x20         and what was wrong with the last that was not\n\
                     /config.yaml  all of its values and where each comes from\n";

/// The admin pages of a server, and the clients that ask for them.
pub(crate) struct Desk {
    metrics: Arc<Metrics>,
    stage: watch::Receiver<Stage>,
    rights: Rights,
    /// The call that stops the server as SIGTERM does.
    drain: Box<dyn Fn() + Send + Sync>,
    seats: Arc<Seats>,
    renderings: Renderings,
    live: Arc<Live>,
    watchers: Watchers,
}

impl Desk {
    /// Makes the admin pages of a server.
    pub(crate) fn new(
        metrics: &Arc<Metrics>,
        stage: watch::Receiver<Stage>,
        rights: Rights,
        drain: Box<dyn Fn() + Send + Sync>,
    ) -> Self {
        Self {
            metrics: Arc::clone(metrics),
            live: Arc::new(Live::new(metrics, stage.clone())),
            watchers: Watchers::default(),
            stage,
            rights,
            drain,
            seats: Arc::default(),
            renderings: Renderings::default(),
        }
    }

    /// Serves until the server is cut, or replaced, on the calling thread.
    pub(crate) fn run(self, socket: ListeningSocket) {
        let runtime = match Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => return tracing::error!(%error, "the admin listener cannot start"),
        };
        let mut end = self.stage.clone();
        runtime.block_on(async {
            tokio::select! {
                // An error means that the server is gone.
                _ = end.wait_for(|stage| *stage >= Stage::Replaced) => {}
                () = self.serve(socket) => {}
            }
        });
    }
}

/// The most bytes of an answer that the kernel holds unsent. So a slow watcher gets what is
/// as new as may be, and one that takes nothing is soon known.
const MAX_UNSENT_BYTES: u32 = 16 << 10;

/// The most bytes of an answer that hyper holds for the kernel.
const BUFFER_BYTES: usize = 64 << 10;

async fn accept(socket: ListeningSocket, desk: Arc<Desk>) {
    let socket = match Accepting::from_socket(socket) {
        Ok(socket) => socket,
        Err(error) => return tracing::error!(%error, "the admin listener cannot start"),
    };
    let mut rounds = interval(Duration::from_secs(1));
    loop {
        tokio::select! {
            accepted = socket.accept() => match accepted {
                Ok((stream, _)) => {
                    let _ = SockRef::from(&stream).set_tcp_notsent_lowat(MAX_UNSENT_BYTES);
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

/// Answers the requests of a connection; its errors are the client's to see.
async fn serve(stream: TcpStream, desk: Arc<Desk>, seat: Arc<Seat>) {
    let service = service_fn(|request: Request<Incoming>| {
        let (desk, seat) = (Arc::clone(&desk), Arc::clone(&seat));
        async move {
            seat.until_silent().await;
            let answering = seat.answer(Instant::now());
            Ok::<_, Infallible>(desk.answer(request, answering).await)
        }
    });
    let mut http = http1::Builder::new();
    // The seats' bounds hold.
    http.header_read_timeout(None).max_buf_size(BUFFER_BYTES);
    let _ = http.serve_connection(TokioIo::new(stream), service).await;
}

impl Desk {
    async fn serve(self, socket: ListeningSocket) {
        let desk = Arc::new(self);
        tokio::join!(
            accept(socket, Arc::clone(&desk)),
            desk.watchers.serve(&desk.live)
        );
    }

    async fn answer(
        &self,
        request: Request<Incoming>,
        answering: Answering,
    ) -> Response<AdminAnswer> {
        if let Err((status, why)) = self.rights.ask(&request) {
            return plain(status, why, answering);
        }
        let path = request.uri().path();
        let (is_get, is_change) = (
            matches!(*request.method(), Method::GET | Method::HEAD),
            changes::is_change(path),
        );
        match (is_get, is_change, request.method() == Method::POST) {
            (_, true, true) => self.change(request, answering).await,
            (true, false, _) => self.show(&request, answering).await,
            (_, true, false) => not_allowed("POST", "only POST\n", answering),
            (false, false, _) => not_allowed("GET, HEAD", "only GET and HEAD\n", answering),
        }
    }

    async fn show(
        &self,
        request: &Request<Incoming>,
        answering: Answering,
    ) -> Response<AdminAnswer> {
        let stage = *self.stage.borrow();
        let page = match request.uri().path() {
            "/" if !dashboard::is_wanted(request) => {
                return plain(StatusCode::OK, INDEX, answering);
            }
            path if dashboard::is_part(path) => return dashboard::part(request, answering),
            "/livez" => return plain(StatusCode::OK, "ok\n", answering),
            "/readyz" if stage == Stage::Serving => {
                return plain(StatusCode::OK, "ok\n", answering);
            }
            "/readyz" => return plain(StatusCode::SERVICE_UNAVAILABLE, "draining\n", answering),
            "/catalogue/dump" => {
                let dump = Dump::new(self.metrics.catalogue().catalogue());
                return typed(AdminAnswer::Dump(dump, answering), "application/x-ndjson");
            }
            "/metrics" => {
                let accept = request.headers().get_all(ACCEPT);
                AdminPage::Metrics(Exposition::preferred(accept.iter()))
            }
            "/events" => return self.watch(answering),
            "/stats" => AdminPage::Stats,
            "/flows" => AdminPage::Flows,
            "/endpoints" => AdminPage::Endpoints,
            "/catalogue" => AdminPage::Catalogue,
            "/gain" => AdminPage::Gain,
            "/config" => AdminPage::Config,
            "/config.yaml" => AdminPage::Effective,
            _ => {
                let unknown = "no such page; / lists them\n";
                return plain(StatusCode::NOT_FOUND, unknown, answering);
            }
        };
        self.page(page, answering).await
    }

    /// Lets a client watch what happens, or turns it away if enough clients watch.
    fn watch(&self, answering: Answering) -> Response<AdminAnswer> {
        match self.watchers.join(answering) {
            Ok(watching) => {
                let mut response = typed(AdminAnswer::Events(watching), "text/event-stream");
                let no_store = HeaderValue::from_static("no-store");
                response.headers_mut().insert(CACHE_CONTROL, no_store);
                response
            }
            Err(answering) => {
                let full = "as many watch as may; close another dashboard\n";
                plain(StatusCode::SERVICE_UNAVAILABLE, full, answering)
            }
        }
    }

    async fn page(&self, page: AdminPage, answering: Answering) -> Response<AdminAnswer> {
        let (metrics, live) = (Arc::clone(&self.metrics), Arc::clone(&self.live));
        let render = move || match page {
            AdminPage::Stats => live.stats() + "\n",
            AdminPage::Flows => live.flows(MOST_FLOWS) + "\n",
            AdminPage::Metrics(format) => metrics.text(format),
            AdminPage::Endpoints => metrics.endpoints(),
            AdminPage::Catalogue => metrics.catalogue().json(),
            AdminPage::Config => metrics.config(),
            AdminPage::Effective => metrics.effective(),
            AdminPage::Gain => metrics.gain(),
        };
        let content_type = match page {
            AdminPage::Metrics(format) => format.content_type(),
            AdminPage::Effective => "application/yaml",
            _ => "application/json",
        };
        let reading = self.renderings.read(page, &self.seats, answering, render);
        match reading.await {
            Some(reading) => typed(AdminAnswer::whole(reading), content_type),
            None => {
                let mut response = typed(AdminAnswer::Text(None), "text/plain; charset=utf-8");
                *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
                response
            }
        }
    }
}

fn not_allowed(
    allowed: &'static str,
    why: &'static str,
    answering: Answering,
) -> Response<AdminAnswer> {
    let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, why, answering);
    let allowed = HeaderValue::from_static(allowed);
    response.headers_mut().insert(ALLOW, allowed);
    response
}
