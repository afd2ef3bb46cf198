//! Health checks, which ask an endpoint whether it is well.

use std::cell::RefCell;
use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use bytes::Bytes;
use http::header::{HOST, USER_AGENT};
use http::uri::Scheme;
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::rt::Executor;
use hyper_util::rt::TokioIo;
use sprat_config::resolved::{EndpointAddress, HealthChecks, HttpHealthCheck, UpstreamHttp2};
use sprat_net::error::Reason;
use sprat_scheduler::health::jittered;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Duration, sleep, timeout};

use super::members::Member;
use super::shared::SharedCluster;
use super::transport::Transport;
use super::{connect, sender};

/// The time over which the first checks are spread, or an interval if that is less.
const FIRST_WITHIN: Duration = Duration::from_secs(1);

/// The most checks of a cluster's endpoints at a time. Each holds a socket, for all of its
/// time-out if the endpoint does not answer.
const CHECKS_MAX: usize = 256;

/// The `User-Agent` of every check.
const AGENT: HeaderValue = HeaderValue::from_static("sprat-health-check");

/// The reason why a check failed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Failure {
    /// The endpoint answered with a status that no well endpoint has.
    Status(StatusCode),
    /// The endpoint gave no answer, for this reason.
    Reason(Reason),
}

impl Failure {
    /// Returns whether the check took all of its time.
    fn is_silence(self) -> bool {
        let Self::Reason(reason) = self else {
            return false;
        };
        matches!(reason, Reason::ResponseTimeout | Reason::ConnectionTimeout)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(status) => write!(f, "status {}", status.as_u16()),
            Self::Reason(reason) => f.write_str(reason.name()),
        }
    }
}

impl From<Reason> for Failure {
    fn from(reason: Reason) -> Self {
        Self::Reason(reason)
    }
}

impl From<hyper::Error> for Failure {
    fn from(error: hyper::Error) -> Self {
        Self::Reason(sender::reason(&error))
    }
}

/// The places for a cluster's checks. A check of an endpoint that does not answer keeps neither
/// another cluster's checks waiting, nor those of endpoints that do answer.
struct Places {
    /// Places for endpoints whose last check did not time out, or that had none yet.
    heard: Semaphore,
    /// Places for endpoints whose last check timed out.
    silent: Semaphore,
}

impl Places {
    fn new() -> Self {
        Self {
            heard: Semaphore::new(CHECKS_MAX),
            silent: Semaphore::new(CHECKS_MAX),
        }
    }
}

/// An endpoint that is checked.
pub(super) struct Checked {
    cluster: Arc<SharedCluster>,
    checks: HealthChecks,
    member: Arc<Member>,
    slot: usize,
}

impl Checked {
    /// Starts the task that checks a cluster's endpoints, if they are to be checked.
    pub(super) fn all(cluster: &Arc<SharedCluster>) -> JoinSet<()> {
        let mut tasks = JoinSet::new();
        if let Some(checks) = &cluster.config.resilience.health_checks {
            tasks.spawn_local(Self::each(Arc::clone(cluster), checks.clone()));
        }
        tasks
    }

    /// Checks each endpoint that a cluster has, in a task that ends when the endpoint goes.
    async fn each(cluster: Arc<SharedCluster>, checks: HealthChecks) {
        let places = Rc::new(Places::new());
        // With its task, which ends when it is dropped.
        let mut asked: Vec<(usize, Arc<Member>, JoinSet<()>)> = Vec::new();
        loop {
            let mut replaced = pin!(cluster.station.replaced());
            // Before looking, or a change meanwhile is missed.
            replaced.as_mut().enable();
            let members = cluster.station.members();
            let same = |own: &(usize, Arc<Member>, _), (slot, member): (usize, &Arc<Member>)| {
                own.0 == slot && Arc::ptr_eq(&own.1, member)
            };
            asked.retain(|own| members.present().any(|one| same(own, one)));
            for (slot, member) in members.present() {
                if asked.iter().any(|own| same(own, (slot, member))) {
                    continue;
                }
                let checked = Self {
                    cluster: Arc::clone(&cluster),
                    checks: checks.clone(),
                    member: Arc::clone(member),
                    slot,
                };
                let mut task = JoinSet::new();
                task.spawn_local(checked.run(Rc::clone(&places)));
                asked.push((slot, Arc::clone(member), task));
            }
            replaced.await;
        }
    }

    async fn run(self, places: Rc<Places>) {
        let first = self.checks.interval.min(FIRST_WITHIN);
        sleep(jittered(first, 100, fastrand::u64(..))).await;
        let mut own_places = &places.heard;
        while let Ok(place) = own_places.acquire().await {
            let asking = timeout(self.checks.timeout, self.ask());
            let asked = asking.await;
            let outcome = asked.unwrap_or(Err(Reason::ResponseTimeout.into()));
            drop(place);
            own_places = match outcome {
                Err(failure) if failure.is_silence() => &places.silent,
                _ => &places.heard,
            };
            // Where nothing could be asked, nothing has been heard.
            if !matches!(outcome, Err(Failure::Reason(reason)) if reason.is_shortage()) {
                let counts = &self.member.counts;
                counts.checks[usize::from(outcome.is_err())].fetch_add(1, Relaxed);
                let station = &self.cluster.station;
                station.checked(self.slot, &self.member, outcome);
            }
            let random = fastrand::u64(..);
            let share = self.checks.jitter_percent;
            sleep(jittered(self.checks.interval, share, random)).await;
        }
    }

    /// Asks whether the endpoint is well. The caller bounds the time.
    async fn ask(&self) -> Result<(), Failure> {
        let (config, tls) = (&self.cluster.config, self.cluster.tls.as_deref());
        // Where endpoints are told of clients, this is for none of them.
        let within = self.checks.timeout;
        let stream = connect::transport(config, tls, &self.member, None, within).await?;
        let Some(http) = &self.checks.http else {
            return Ok(());
        };
        let request = request(http, &self.member.address).ok_or(Reason::InvalidTarget)?;
        let status = match &config.http2 {
            None => over_http1(stream, request).await?,
            Some(http2) => self.over_http2(stream, request, http2).await?,
        };
        let mut expected = http.expected_statuses.iter();
        match expected.any(|&(from, to)| (from..=to).contains(&status.as_u16())) {
            true => Ok(()),
            false => Err(Failure::Status(status)),
        }
    }

    async fn over_http2(
        &self,
        stream: Transport,
        mut request: Request<Empty<Bytes>>,
        http2: &UpstreamHttp2,
    ) -> Result<StatusCode, Failure> {
        let scheme = match self.cluster.tls {
            None => Scheme::HTTP,
            Some(_) => Scheme::HTTPS,
        };
        sender::translate(&mut request, &scheme)?;
        let tasks = CheckTasks::default();
        let http = connect::http2(tasks.executor(), &self.cluster.config, http2);
        let (mut sender, connection) = http.handshake(TokioIo::new(stream)).await?;
        status(sender.send_request(request), connection).await
    }
}

async fn over_http1(
    stream: Transport,
    request: Request<Empty<Bytes>>,
) -> Result<StatusCode, Failure> {
    let handshake = http1::handshake(TokioIo::new(stream));
    let (mut sender, connection) = handshake.await?;
    status(sender.send_request(request), connection).await
}

/// Returns the status of an answer, and drives its connection meanwhile.
async fn status(
    answer: impl Future<Output = hyper::Result<Response<Incoming>>>,
    connection: impl Future<Output = hyper::Result<()>>,
) -> Result<StatusCode, Failure> {
    let mut answer = pin!(answer);
    let answered = tokio::select! {
        answered = &mut answer => answered,
        // It may have ended with the answer.
        _ = connection => answer.await,
    };
    Ok(answered?.status())
}

/// Makes the request of a check; `None` if the configuration's words make none, which its own
/// validation excludes.
fn request(check: &HttpHealthCheck, address: &EndpointAddress) -> Option<Request<Empty<Bytes>>> {
    let host = check.host.clone().unwrap_or_else(|| address.authority());
    Request::builder()
        .method(check.method.as_str())
        .uri(check.path.as_str())
        .header(HOST, host)
        .header(USER_AGENT, AGENT)
        .body(Empty::new())
        .ok()
}

/// The tasks of an HTTP/2 connection beside its own, which end with the check.
#[derive(Default)]
struct CheckTasks(Rc<RefCell<JoinSet<()>>>);

#[derive(Clone)]
struct Spawn(Rc<RefCell<JoinSet<()>>>);

impl CheckTasks {
    fn executor(&self) -> Spawn {
        Spawn(Rc::clone(&self.0))
    }
}

impl Drop for CheckTasks {
    fn drop(&mut self) {
        self.0.borrow_mut().abort_all();
    }
}

impl<F: Future<Output = ()> + 'static> Executor<F> for Spawn {
    fn execute(&self, task: F) {
        self.0.borrow_mut().spawn_local(task);
    }
}
