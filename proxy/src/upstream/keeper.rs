//! A thread that looks after the clusters' endpoints: it lets those back that
//! were ejected, and asks those that are to be asked. One for all workers.

use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};
use std::thread::Builder as Thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{HOST, USER_AGENT};
use http::{HeaderValue, Request};
use http_body_util::Empty;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use sprat_config::resolved::{Cluster, EndpointAddress, HealthChecks, HttpHealthCheck};
use sprat_scheduler::health::jittered;
use tokio::runtime::Builder;
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinSet;
use tokio::time::{sleep, sleep_until, timeout};

use super::{Shared, SharedCluster, SharedStation, connect};
use crate::background::Background;
use crate::tls::ClusterTls;

/// Checks at a time, over all clusters.
const CHECKS_MAX: usize = 64;

/// The first checks spread over this much time, or an interval if that is less.
const FIRST_WITHIN: Duration = Duration::from_secs(1);

/// How often a cluster is looked at that has nothing due.
const LOOK_AGAIN: Duration = Duration::from_secs(10);

/// What the checks say they are.
const AGENT: HeaderValue = HeaderValue::from_static("sprat-health-check");

/// Looks after clusters, as long as the thread is not ended or their stations
/// are there; `None` if there is nothing to do.
///
/// # Errors
///
/// There can be no thread for it.
pub(crate) fn keep(
    clusters: &[Arc<Cluster>],
    shared: &[SharedCluster],
) -> io::Result<Option<Background>> {
    let places = Arc::new(Semaphore::new(CHECKS_MAX));
    let mut tended = Vec::new();
    let mut checked = Vec::new();
    for (config, shared) in clusters.iter().zip(shared) {
        let resilience = &config.resilience;
        let station = Arc::downgrade(&shared.station);
        if resilience.outlier_detection.is_some() {
            tended.push(station.clone());
        }
        let Some(checks) = &resilience.health_checks else {
            continue;
        };
        let endpoints = config.endpoints.iter().zip(&shared.endpoints);
        for (slot, (endpoint, shared_endpoint)) in endpoints.enumerate() {
            checked.push(Checked {
                address: endpoint.address.clone(),
                checks: checks.clone(),
                station: station.clone(),
                tls: shared.tls.clone(),
                cluster: Arc::clone(config),
                slot,
                shared: Arc::downgrade(shared_endpoint),
            });
        }
    }
    if tended.is_empty() && checked.is_empty() {
        return Ok(None);
    }
    let (end, ended) = oneshot::channel();
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let work = async move {
        // Dropped at the end, which ends them.
        let mut tasks = JoinSet::new();
        for station in tended {
            tasks.spawn(tend(station));
        }
        for checked in checked {
            tasks.spawn(checked.run(Arc::clone(&places)));
        }
        // An error is the end, too.
        let _: Result<(), _> = ended.await;
    };
    let thread = Thread::new().name("health".to_owned());
    let thread = thread.spawn(move || runtime.block_on(work))?;
    Ok(Some(Background::of(thread, end)))
}

/// Does what is due for a station's endpoints, until it is gone.
async fn tend(station: Weak<SharedStation>) {
    loop {
        let Some((next, changed)) = station
            .upgrade()
            .map(|station| (station.tend(), Arc::clone(&station.changed)))
        else {
            return;
        };
        let latest = Instant::now() + LOOK_AGAIN;
        let next = next.map_or(latest, |next| next.min(latest));
        tokio::select! {
            () = sleep_until(next.into()) => {}
            () = changed.notified() => {}
        }
    }
}

/// An endpoint that is asked.
struct Checked {
    address: EndpointAddress,
    checks: HealthChecks,
    station: Weak<SharedStation>,
    tls: Option<Arc<ClusterTls>>,
    cluster: Arc<Cluster>,
    slot: usize,
    shared: Weak<Shared>,
}

impl Checked {
    async fn run(self, places: Arc<Semaphore>) {
        let first = self.checks.interval.min(FIRST_WITHIN);
        sleep(jittered(first, 100, fastrand::u64(..))).await;
        while let (Ok(place), Some(shared)) = (places.acquire().await, self.shared.upgrade()) {
            let asking = timeout(self.checks.timeout, self.passes());
            let passed = asking.await.unwrap_or(false);
            drop(place);
            let Some(station) = self.station.upgrade() else {
                return;
            };
            shared.checks[usize::from(!passed)].fetch_add(1, Relaxed);
            station.checked(self.slot, passed);
            drop((shared, station));
            let random = fastrand::u64(..);
            sleep(jittered(
                self.checks.interval,
                self.checks.jitter_percent,
                random,
            ))
            .await;
        }
    }

    /// Whether the endpoint is well. The caller bounds the time.
    async fn passes(&self) -> bool {
        let connected = connect::transport(
            &self.cluster,
            self.tls.as_deref(),
            &self.address,
            // Where endpoints are told of clients, this is for none of them.
            None,
        )
        .await;
        let Ok(stream) = connected else {
            return false;
        };
        let Some(http) = &self.checks.http else {
            return true;
        };
        let Some(request) = request(http, &self.address) else {
            return false;
        };
        let handshake = http1::handshake(TokioIo::new(stream));
        let Ok((mut sender, connection)) = handshake.await else {
            return false;
        };
        let mut connection = std::pin::pin!(connection);
        let mut answer = std::pin::pin!(sender.send_request(request));
        let answered = tokio::select! {
            answered = &mut answer => answered,
            // It may have ended with the answer.
            _ = &mut connection => answer.await,
        };
        answered.is_ok_and(|answer| {
            let status = answer.status().as_u16();
            let mut expected = http.expected_statuses.iter();
            expected.any(|&(from, to)| (from..=to).contains(&status))
        })
    }
}

/// None if the configuration's words make no request, which its check excludes.
fn request(check: &HttpHealthCheck, address: &EndpointAddress) -> Option<Request<Empty<Bytes>>> {
    let host = check.host.clone().unwrap_or_else(|| address.to_string());
    Request::builder()
        .method(check.method.as_str())
        .uri(check.path.as_str())
        .header(HOST, host)
        .header(USER_AGENT, AGENT)
        .body(Empty::new())
        .ok()
}
