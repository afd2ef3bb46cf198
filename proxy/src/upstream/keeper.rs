//! A thread that looks after the clusters' endpoints: it lets those back that
//! were ejected, and asks those that are to be asked. One for all workers and
//! all configurations.

use std::io;
use std::pin::pin;
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
use sprat_config::resolved::{EndpointAddress, HealthChecks, HttpHealthCheck};
use sprat_scheduler::health::jittered;
use tokio::runtime::Builder;
use tokio::sync::{Semaphore, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, sleep_until, timeout};

use super::members::Member;
use super::{SharedCluster, SharedStation, connect};
use crate::background::Background;

/// Checks at a time, over all clusters.
const CHECKS_MAX: usize = 64;

/// The first checks spread over this much time, or an interval if that is less.
const FIRST_WITHIN: Duration = Duration::from_secs(1);

/// How often a cluster is looked at that has nothing due.
const LOOK_AGAIN: Duration = Duration::from_secs(10);

/// What the checks say they are.
const AGENT: HeaderValue = HeaderValue::from_static("sprat-health-check");

/// Looks after the clusters that are served by at present.
pub(crate) struct Keeper {
    present: watch::Sender<Clusters>,
    /// None as long as there was nothing to do.
    thread: Option<Background>,
}

type Clusters = Vec<Arc<SharedCluster>>;

impl Keeper {
    /// Begins with these.
    ///
    /// # Errors
    ///
    /// There can be no thread for it.
    pub(crate) fn start(clusters: &[Arc<SharedCluster>]) -> io::Result<Self> {
        let mut keeper = Self {
            present: watch::Sender::new(Vec::new()),
            thread: None,
        };
        keeper.prepare(clusters)?;
        keeper.follow(clusters);
        Ok(keeper)
    }

    /// Makes sure that there is a thread if these need one.
    ///
    /// # Errors
    ///
    /// There can be none.
    pub(crate) fn prepare(&mut self, clusters: &[Arc<SharedCluster>]) -> io::Result<()> {
        if self.thread.is_some() || !clusters.iter().any(|own| needs_keeping(own)) {
            return Ok(());
        }
        let (end, ended) = oneshot::channel();
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let present = self.present.subscribe();
        let work = async move {
            tokio::select! {
                () = keep(present) => {}
                // An error is the end, too.
                _ = ended => {}
            }
        };
        let thread = Thread::new().name("health".to_owned());
        let thread = thread.spawn(move || runtime.block_on(work))?;
        self.thread = Some(Background::of(thread, end));
        Ok(())
    }

    /// Goes on with these. Those that it has already are not disturbed; those
    /// that are no longer among them are not asked any more.
    pub(crate) fn follow(&self, clusters: &[Arc<SharedCluster>]) {
        self.present.send_replace(clusters.to_vec());
    }

    /// Ends it.
    pub(crate) fn join(self) {
        self.thread.into_iter().for_each(Background::join);
    }
}

fn needs_keeping(cluster: &SharedCluster) -> bool {
    let resilience = &cluster.config.resilience;
    resilience.outlier_detection.is_some() || resilience.health_checks.is_some()
}

/// A cluster that is looked after.
struct Kept {
    cluster: Arc<SharedCluster>,
    /// Dropped with it, which ends them.
    _checks: JoinSet<()>,
}

/// Looks after clusters, whichever they are, until there is nobody left to say.
async fn keep(mut present: watch::Receiver<Clusters>) {
    let places = Arc::new(Semaphore::new(CHECKS_MAX));
    let mut kept: Vec<Kept> = Vec::new();
    // A station may outlive its configuration, as long as requests wait there.
    let mut tended: Vec<Weak<SharedStation>> = Vec::new();
    loop {
        let clusters = present.borrow_and_update().clone();
        let known = |all: &[Kept], one| all.iter().any(|kept| Arc::ptr_eq(&kept.cluster, one));
        kept.retain(|own| clusters.iter().any(|one| Arc::ptr_eq(one, &own.cluster)));
        tended.retain(|station| station.strong_count() > 0);
        for cluster in clusters.iter().filter(|one| needs_keeping(one)) {
            if !known(&kept, cluster) {
                kept.push(Kept {
                    cluster: Arc::clone(cluster),
                    _checks: checks(cluster, &places),
                });
            }
            let station = Arc::downgrade(&cluster.station);
            if !tended.iter().any(|own| own.ptr_eq(&station)) {
                tokio::spawn(tend(station.clone()));
                tended.push(station);
            }
        }
        drop(clusters);
        if present.changed().await.is_err() {
            return;
        }
    }
}

/// A task that has a cluster's endpoints asked, if they are to be.
fn checks(cluster: &Arc<SharedCluster>, places: &Arc<Semaphore>) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    if let Some(checks) = &cluster.config.resilience.health_checks {
        let (cluster, places) = (Arc::clone(cluster), Arc::clone(places));
        tasks.spawn(check_all(cluster, checks.clone(), places));
    }
    tasks
}

/// Has a cluster's endpoints asked, whichever it has.
async fn check_all(cluster: Arc<SharedCluster>, checks: HealthChecks, places: Arc<Semaphore>) {
    // Each with its task, which ends when it is dropped.
    let mut asked: Vec<(usize, Arc<Member>, JoinSet<()>)> = Vec::new();
    loop {
        let mut replaced = pin!(cluster.station.replaced());
        // Before looking, or a change meanwhile is missed.
        replaced.as_mut().enable();
        let members = cluster.station.members();
        let is_known = |slot: usize, member: &Arc<Member>, asked: &(usize, Arc<Member>, _)| {
            asked.0 == slot && Arc::ptr_eq(&asked.1, member)
        };
        asked.retain(|own| {
            members
                .present()
                .any(|(slot, member)| is_known(slot, member, own))
        });
        for (slot, member) in members.present() {
            if asked.iter().any(|own| is_known(slot, member, own)) {
                continue;
            }
            let checked = Checked {
                cluster: Arc::clone(&cluster),
                checks: checks.clone(),
                member: Arc::clone(member),
                slot,
            };
            let mut task = JoinSet::new();
            task.spawn(checked.run(Arc::clone(&places)));
            asked.push((slot, Arc::clone(member), task));
        }
        replaced.await;
    }
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
    cluster: Arc<SharedCluster>,
    checks: HealthChecks,
    member: Arc<Member>,
    slot: usize,
}

impl Checked {
    async fn run(self, places: Arc<Semaphore>) {
        let first = self.checks.interval.min(FIRST_WITHIN);
        sleep(jittered(first, 100, fastrand::u64(..))).await;
        while let Ok(place) = places.acquire().await {
            let asking = timeout(self.checks.timeout, self.passes());
            let passed = asking.await.unwrap_or(false);
            drop(place);
            let counts = &self.member.counts;
            counts.checks[usize::from(!passed)].fetch_add(1, Relaxed);
            self.cluster.station.checked(self.slot, passed);
            let random = fastrand::u64(..);
            let share = self.checks.jitter_percent;
            sleep(jittered(self.checks.interval, share, random)).await;
        }
    }

    /// Whether the endpoint is well. The caller bounds the time.
    async fn passes(&self) -> bool {
        let cluster = &self.cluster;
        // Where endpoints are told of clients, this is for none of them.
        let tls = cluster.tls.as_deref();
        let Ok(stream) = connect::transport(&cluster.config, tls, &self.member, None).await else {
            return false;
        };
        let Some(http) = &self.checks.http else {
            return true;
        };
        let Some(request) = request(http, &self.member.address) else {
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

#[cfg(test)]
mod tests {
    use sprat_config::resolved::Config;

    use super::*;

    /// Two endpoints that are judged, and checked with these settings.
    fn clusters(checks: &str, before: &[Arc<SharedCluster>]) -> Vec<Arc<SharedCluster>> {
        let text = format!(
            "version: 1\nlisteners: [{{address: 127.0.0.1:0}}]\nroutes: [{{cluster: farm}}]\n\
             clusters:\n  farm:\n    endpoints: [127.0.0.1:1, 127.0.0.1:2]\n    \
             outlier_detection: {{}}\n    health_checks: {{tcp_health_check: {{}}, \
             {checks}}}\n"
        );
        let loaded = sprat_config::parse(&text, "test.yaml", &|_| None);
        let config: Config = loaded.unwrap().config;
        let before = before.first().map(|own| &**own);
        let cluster = SharedCluster::new(&config.clusters[0], &config, before);
        vec![Arc::new(cluster.unwrap())]
    }

    #[tokio::test]
    async fn reloads_leave_no_task_behind() {
        let tasks = || {
            tokio::runtime::Handle::current()
                .metrics()
                .num_alive_tasks()
        };
        let settled = async |expected: usize| {
            for _ in 0..1000 {
                tokio::task::yield_now().await;
            }
            assert_eq!(tasks(), expected);
        };
        let kinds = ["interval: 1h", "interval: 2h", "unhealthy_threshold: 7"];
        let mut present = clusters(kinds[0], &[]);
        let (sender, receiver) = watch::channel(present.clone());
        tokio::spawn(keep(receiver));
        // The keeper, a station, two endpoints.
        settled(4).await;
        for reload in 0..20 {
            // The last has another station, too.
            present = clusters(kinds[reload % 3], &present);
            sender.send_replace(present.clone());
            settled(4).await;
        }
        sender.send_replace(Vec::new());
        drop(present);
        settled(1).await;
        drop(sender);
        settled(0).await;
    }
}
