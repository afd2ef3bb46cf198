//! A cluster as one worker sees it: its endpoints, the connections it keeps
//! to them, and the choice between them.

mod connect;
mod multiplexed;
mod probe;
mod sender;
mod shared;
mod sizes;
mod station;
mod transport;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

use bytes::Bytes;
use http::HeaderValue;
use hyper::client::conn::{http1, http2};
use sprat_config::resolved::{Cluster, Dispatch, HashKey};
use sprat_scheduler::Size;
pub(crate) use sprat_scheduler::dispatch::stable_hash;
use sprat_scheduler::station::{Arrival, Refusal, Ticket, Verdict};
use tokio::sync::Notify;

use crate::error::Reason;
use crate::stats::{EndpointStats, WorkerStats};
use crate::tls::ClusterTls;
use crate::upload::RequestBody;
use connect::Local;

use multiplexed::Pool;
pub(crate) use sender::{Sender, was_refused};
pub(crate) use shared::SharedCluster;
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
    index: usize,
    stats: Arc<WorkerStats>,
    endpoints: Vec<Endpoint>,
    station: Arc<SharedStation>,
    /// What browsers get with a 503.
    pub(crate) overload_page: Option<Bytes>,
    /// None for plain text.
    tls: Option<Arc<ClusterTls>>,
    http: http1::Builder,
    /// If HTTP/2 is spoken.
    http2: Option<http2::Builder<Local>>,
    /// Has every worker call [`Upstream::give_way`].
    reclaim: Arc<Notify>,
}

impl Upstream {
    /// The cluster at `index`.
    pub(crate) fn new(
        config: &Arc<Cluster>,
        index: usize,
        shared: &SharedCluster,
        stats: Arc<WorkerStats>,
        reclaim: Arc<Notify>,
    ) -> anyhow::Result<Self> {
        let endpoint = |(endpoint, shared): (&sprat_config::resolved::Endpoint, &Arc<Shared>)| {
            anyhow::Ok(Endpoint {
                shared: Arc::clone(shared),
                authority: HeaderValue::try_from(endpoint.address.to_string())?,
                idle: RefCell::default(),
                pool: Pool::default(),
            })
        };
        let mut http = http1::Builder::new();
        http.max_header_size(config.max_header_bytes);
        Ok(Self {
            endpoints: config
                .endpoints
                .iter()
                .zip(&shared.endpoints)
                .map(endpoint)
                .collect::<Result<_, _>>()?,
            station: Arc::clone(&shared.station),
            overload_page: shared.overload_page.clone(),
            tls: shared.tls.clone(),
            config: Arc::clone(config),
            index,
            stats,
            http,
            http2: config
                .http2
                .as_ref()
                .map(|http2| connect::http2(config, http2)),
            reclaim,
        })
    }

    /// Its configuration.
    pub(crate) fn cluster(&self) -> Arc<Cluster> {
        Arc::clone(&self.config)
    }

    /// How many endpoints it has.
    pub(crate) fn endpoint_count(&self) -> usize {
        self.endpoints.len()
    }

    /// The `Host` of an endpoint, for a request that came without one.
    pub(crate) fn authority(&self, endpoint: usize) -> &HeaderValue {
        &self.endpoints[endpoint].authority
    }

    /// This worker's counters of an endpoint.
    pub(crate) fn stats(&self, endpoint: usize) -> &EndpointStats {
        &self.stats.clusters[self.index].endpoints[endpoint]
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
        self.endpoints[endpoint]
            .shared
            .outstanding
            .fetch_add(1, Relaxed);
        Ok(Lease {
            upstream: Rc::clone(self),
            endpoint,
            class,
            ticket: Some(ticket),
            sender: None,
        })
    }

    /// The most recently used connection that still lives.
    fn take_idle(&self, endpoint: usize) -> Option<Sender> {
        let endpoint = &self.endpoints[endpoint];
        if let Some(http2) = &self.config.http2 {
            let stream = endpoint.pool.take(http2.max_streams)?;
            return Some(Sender::Http2(Box::new(stream)));
        }
        let mut idle = endpoint.idle.borrow_mut();
        while let Some(kept) = idle.pop_back() {
            endpoint.shared.idle.fetch_sub(1, Relaxed);
            if kept.sender.is_ready() && kept.since.elapsed() < self.config.idle_timeout {
                return Some(Sender::Http1(kept.sender));
            }
        }
        None
    }

    fn keep(&self, endpoint: usize, sender: Sender) {
        let Sender::Http1(sender) = sender else {
            // Dropped, it makes room for another request.
            return;
        };
        let endpoint = &self.endpoints[endpoint];
        let bound = self.config.max_idle_connections;
        // Not ready: the request's body is not through, though the answer is.
        if sender.is_ready() && take_one(&endpoint.shared.idle, bound) {
            endpoint.idle.borrow_mut().push_back(Idle {
                sender,
                since: Instant::now(),
            });
        }
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
    /// to open one and may not.
    pub(crate) fn give_way(&self) {
        for endpoint in &self.endpoints {
            if endpoint.shared.wanted.load(Relaxed) > 0
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

/// A request's hold on an endpoint: it counts as outstanding while this
/// lives. Dropped, it closes the connection under it, which cancels what the
/// upstream is doing; [`Lease::release`] keeps the connection instead.
pub(crate) struct Lease {
    upstream: Rc<Upstream>,
    endpoint: usize,
    /// Of the request.
    class: usize,
    /// None once it has been given back.
    ticket: Option<Ticket>,
    sender: Option<Sender>,
}

impl Lease {
    /// Index of the endpoint.
    pub(crate) fn endpoint(&self) -> usize {
        self.endpoint
    }

    /// Takes a kept connection; false if there is none.
    pub(crate) fn reuse(&mut self) -> bool {
        self.sender = self.upstream.take_idle(self.endpoint);
        self.sender.is_some()
    }

    /// Opens a connection.
    pub(crate) async fn connect(&mut self) -> Result<(), Reason> {
        self.sender = None;
        let sender = connect::connect(&self.upstream, self.endpoint).await?;
        self.sender = Some(sender);
        if let Some(ticket) = self.ticket {
            self.upstream.station.reached(ticket);
        }
        Ok(())
    }

    /// The endpoint could not be reached: a hold on another, perhaps after a
    /// wait.
    ///
    /// # Errors
    ///
    /// There is no other.
    pub(crate) async fn elsewhere(mut self) -> Result<Self, Option<Refusal>> {
        let ticket = self.ticket.take().ok_or(None)?;
        let (upstream, class) = (Rc::clone(&self.upstream), self.class);
        // No longer outstanding here.
        drop(self);
        let verdict = upstream.station.fail(ticket);
        upstream.lease(verdict, class).await.map_err(Some)
    }

    /// The response's size is known now.
    pub(crate) fn resize(&self, size: Size) {
        if let Some(ticket) = self.ticket
            && self.upstream.wants_size()
        {
            self.upstream.station.resize(ticket, size);
        }
    }

    /// The connection: after [`Lease::reuse`] or [`Lease::connect`].
    pub(crate) fn sender(&mut self) -> Option<&mut Sender> {
        self.sender.as_mut()
    }

    /// The exchange is complete, with a body of `bytes`: keeps the connection
    /// for another.
    pub(crate) fn release(mut self, bytes: u64) {
        // First, for it may serve whom the station starts now.
        if let Some(sender) = self.sender.take() {
            self.upstream.keep(self.endpoint, sender);
        }
        if let Some(ticket) = self.ticket.take() {
            self.upstream.station.finish(ticket, bytes);
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let shared = &self.upstream.endpoints[self.endpoint].shared;
        shared.outstanding.fetch_sub(1, Relaxed);
        if let Some(ticket) = self.ticket.take() {
            self.upstream.station.cancel(ticket);
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
