//! A cluster as one worker sees it: its endpoints, the connections it keeps
//! to them, and the choice between them.

mod breaker;
mod check;
mod condition;
mod connect;
mod keeper;
mod lease;
mod multiplexed;
mod probe;
mod sender;
mod shared;
mod sizes;
mod station;
mod transport;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

use bytes::Bytes;
use http::HeaderValue;
use hyper::client::conn::{http1, http2};
use sprat_config::resolved::{Cluster, Dispatch, HashKey};
pub(crate) use sprat_scheduler::dispatch::stable_hash;
use sprat_scheduler::health::Outcome;
use sprat_scheduler::station::{Arrival, Refusal, Ticket, Verdict};
use tokio::sync::Notify;

use crate::proxy_protocol::Ends;
use crate::stats::{ClusterStats, EndpointStats};
use crate::tls::ClusterTls;
use crate::upload::RequestBody;
use connect::Local;

pub(crate) use breaker::Breaker;
pub(crate) use condition::{Condition, EndpointCondition};
pub(crate) use connect::Slot as ConnectionPlace;
pub(crate) use keeper::Keeper as HealthKeeper;
pub(crate) use lease::Lease;
use multiplexed::Pool;
pub(crate) use sender::{Refused, Sender};
pub(crate) use shared::{SharedCluster, SharedEndpoint};
use station::Waiting;
pub(crate) use station::{SharedStation, station_config};

/// What all workers know of an endpoint.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    /// Requests in progress.
    pub(crate) outstanding: AtomicUsize,
    /// Open connections, idle ones included.
    pub(crate) connections: AtomicUsize,
    /// Idle connections.
    pub(crate) idle: AtomicUsize,
    /// Active checks that passed, and that failed.
    pub(crate) checks: [AtomicU64; 2],
    /// Requests that wait for another worker's idle connection to be closed,
    /// because no further one may be opened.
    wanted: AtomicUsize,
    /// Told when a connection is closed while one is wanted.
    freed: Notify,
}

impl Shared {
    /// Whether some of the connections are neither idle nor in use: they are
    /// being closed.
    fn is_closing(&self, bound: usize) -> bool {
        self.outstanding
            .load(Relaxed)
            .saturating_sub(self.wanted.load(Relaxed))
            < bound
    }

    /// Whether some of the connections are idle, or being closed.
    fn has_spare(&self) -> bool {
        let busy = self.outstanding.load(Relaxed);
        self.idle.load(Relaxed) > 0
            || self.connections.load(Relaxed) > busy.saturating_sub(self.wanted.load(Relaxed))
    }
}

/// Takes one of at most `bound`; false if there is none left.
fn take_one(count: &AtomicUsize, bound: usize) -> bool {
    count
        .fetch_update(Relaxed, Relaxed, |now| (now < bound).then_some(now + 1))
        .is_ok()
}

/// A kept connection.
struct Idle {
    sender: http1::SendRequest<RequestBody>,
    since: Instant,
    /// Whose requests it carries, if the endpoint was told.
    ends: Option<Box<Ends>>,
}

struct Endpoint {
    shared: Arc<Shared>,
    /// The `Host` for a request that came without one.
    authority: HeaderValue,
    /// The most recently used at the back.
    idle: RefCell<VecDeque<Idle>>,
    /// With HTTP/2, all.
    pool: Pool,
}

/// A cluster as one worker sees it.
pub(crate) struct Upstream {
    config: Arc<Cluster>,
    /// What the other workers know, too.
    shared: Arc<SharedCluster>,
    /// This worker's counters.
    stats: ClusterStats,
    endpoints: Vec<Endpoint>,
    station: Arc<SharedStation>,
    breaker: Arc<Breaker>,
    /// What browsers get with a 503.
    pub(crate) overload_page: Option<Bytes>,
    /// None for plain text.
    tls: Option<Arc<ClusterTls>>,
    http: http1::Builder,
    /// If HTTP/2 is spoken.
    http2: Option<http2::Builder<Local>>,
    /// Has every worker call [`Upstream::give_way`].
    reclaim: Arc<Notify>,
    /// A configuration without it has come.
    retired: Cell<bool>,
}

impl Upstream {
    /// A worker's part in a cluster.
    pub(crate) fn new(
        shared: &Arc<SharedCluster>,
        stats: ClusterStats,
        reclaim: Arc<Notify>,
    ) -> Self {
        let endpoint = |endpoint: &SharedEndpoint| Endpoint {
            shared: Arc::clone(&endpoint.counts),
            authority: endpoint.authority.clone(),
            idle: RefCell::default(),
            pool: Pool::default(),
        };
        let config = Arc::clone(&shared.config);
        let mut http = http1::Builder::new();
        http.max_header_size(config.max_header_bytes);
        Self {
            endpoints: shared.endpoints.iter().map(endpoint).collect(),
            station: Arc::clone(&shared.station),
            breaker: Arc::clone(&shared.breaker),
            overload_page: shared.overload_page.clone(),
            tls: shared.tls.clone(),
            http2: config
                .http2
                .as_ref()
                .map(|http2| connect::http2(Local, &config, http2)),
            config,
            shared: Arc::clone(shared),
            stats,
            http,
            reclaim,
            retired: Cell::new(false),
        }
    }

    /// Whether it is a part in this cluster.
    pub(crate) fn is_of(&self, shared: &Arc<SharedCluster>) -> bool {
        Arc::ptr_eq(&self.shared, shared)
    }

    /// No further request comes: keeps no connection for one.
    pub(crate) fn retire(&self) {
        self.retired.set(true);
        self.close_idle();
    }

    /// Its configuration.
    pub(crate) fn cluster(&self) -> Arc<Cluster> {
        Arc::clone(&self.config)
    }

    /// The `Host` of an endpoint, for a request that came without one.
    pub(crate) fn authority(&self, endpoint: usize) -> &HeaderValue {
        &self.endpoints[endpoint].authority
    }

    /// This worker's counters of an endpoint.
    pub(crate) fn stats(&self, endpoint: usize) -> &EndpointStats {
        &self.stats.endpoints[endpoint]
    }

    /// This worker's counters of the cluster.
    pub(crate) fn counters(&self) -> &ClusterStats {
        &self.stats
    }

    /// Whether HTTP/2 is spoken.
    pub(crate) fn is_http2(&self) -> bool {
        self.http2.is_some()
    }

    /// What a request's hash is made of, if it matters.
    pub(crate) fn hash_key(&self) -> Option<HashKey> {
        let hashes = matches!(self.config.dispatch, Dispatch::RingHash | Dispatch::Maglev);
        hashes.then_some(self.config.hash_key)
    }

    /// Finds an endpoint, or waits for one.
    ///
    /// # Errors
    ///
    /// The request is turned away.
    pub(crate) async fn dispatch(self: &Rc<Self>, arrival: &Arrival) -> Result<Lease, Refusal> {
        let verdict = self.station.arrive(arrival);
        self.lease(verdict, arrival.class).await
    }

    async fn lease(self: &Rc<Self>, verdict: Verdict, class: usize) -> Result<Lease, Refusal> {
        let (ticket, endpoint) = match verdict {
            Verdict::Start { ticket, endpoint } => (ticket, endpoint),
            Verdict::Wait { ticket } => (ticket, Waiting::new(&self.station, ticket, class).await?),
            Verdict::Refuse(refusal) => return Err(refusal),
        };
        Ok(Lease::new(self, ticket, endpoint, class))
    }

    /// A second attempt beside the one with this ticket, if there may be one.
    pub(crate) fn hedge(self: &Rc<Self>, ticket: Ticket, class: usize) -> Option<Lease> {
        let (ticket, endpoint) = self.station.hedge(ticket)?;
        Some(Lease::new(self, ticket, endpoint, class))
    }

    /// How a request went at an endpoint.
    pub(crate) fn observe(&self, endpoint: usize, outcome: impl FnOnce() -> Outcome) {
        if self.station.observes() {
            self.station.observe(endpoint, outcome());
        }
    }

    /// Whether endpoints are told whose each connection is.
    pub(crate) fn tells_clients(&self) -> bool {
        self.config.proxy_protocol.is_some()
    }

    /// The most recently used connection that still lives, of those for `ends`.
    fn take_idle(&self, endpoint: usize, ends: Option<&Ends>) -> Option<Sender> {
        let endpoint = &self.endpoints[endpoint];
        if let Some(http2) = &self.config.http2 {
            let stream = endpoint.pool.take(http2.max_streams)?;
            return Some(Sender::Http2(Box::new(stream)));
        }
        let mut idle = endpoint.idle.borrow_mut();
        while let Some(at) = idle.iter().rposition(|kept| kept.ends.as_deref() == ends) {
            let kept = idle.remove(at)?;
            endpoint.shared.idle.fetch_sub(1, Relaxed);
            if kept.sender.is_ready() && kept.since.elapsed() < self.config.idle_timeout {
                return Some(Sender::Http1(kept.sender));
            }
        }
        None
    }

    fn keep(&self, endpoint: usize, sender: Sender, ends: Option<Box<Ends>>) {
        let Sender::Http1(sender) = sender else {
            // Dropped, it makes room for another request.
            return;
        };
        // Not ready: the request's body is not through, though the answer is.
        if self.retired.get() || !sender.is_ready() {
            return;
        }
        let endpoint = &self.endpoints[endpoint];
        let mut idle = endpoint.idle.borrow_mut();
        if !take_one(&endpoint.shared.idle, self.config.max_idle_connections) {
            // Those of clients that have gone make way for those that are here.
            if ends.is_none() || idle.pop_front().is_none() {
                return;
            }
        }
        idle.push_back(Idle {
            sender,
            since: Instant::now(),
            ends,
        });
    }

    /// Closes connections that were idle for too long or are dead.
    pub(crate) fn reap(&self, now: Instant) {
        for endpoint in &self.endpoints {
            endpoint.pool.reap(now, self.config.idle_timeout);
            let mut idle = endpoint.idle.borrow_mut();
            let before = idle.len();
            idle.retain(|kept| {
                !kept.sender.is_closed() && now < kept.since + self.config.idle_timeout
            });
            endpoint.shared.idle.fetch_sub(before - idle.len(), Relaxed);
        }
    }

    /// Closes an idle connection to each endpoint where another worker wants
    /// to open one and may not, or to each if it may open none at all.
    pub(crate) fn give_way(&self) {
        for endpoint in &self.endpoints {
            let wanted = &endpoint.shared.wanted;
            if (wanted.load(Relaxed) > 0 || self.breaker.is_wanted())
                && !endpoint.pool.close_one()
                && endpoint.idle.borrow_mut().pop_front().is_some()
            {
                endpoint.shared.idle.fetch_sub(1, Relaxed);
            }
        }
    }

    /// Closes every idle connection.
    pub(crate) fn close_idle(&self) {
        for endpoint in &self.endpoints {
            let closed = std::mem::take(&mut *endpoint.idle.borrow_mut());
            endpoint.shared.idle.fetch_sub(closed.len(), Relaxed);
            endpoint.pool.close();
        }
    }
}

/// What affinity goes by, for a request of a client.
pub(crate) fn affinity_hash(key: HashKey, client: &[u8], host: &str, uri: &http::Uri) -> u64 {
    match key {
        HashKey::Client => stable_hash(&[client]),
        HashKey::Url => {
            let query = uri.query().unwrap_or("");
            stable_hash(&[host.as_bytes(), uri.path().as_bytes(), query.as_bytes()])
        }
    }
}
