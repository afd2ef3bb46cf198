//! A cluster as one worker sees it: its endpoints, the connections it keeps
//! to them, and the choice between them.

mod connect;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

use http::HeaderValue;
use hyper::client::conn::http1::{self, SendRequest};
use sprat_config::resolved::{Cluster, Dispatch};
use sprat_scheduler::dispatch::{LeastRequest, RoundRobin};
use tokio::sync::Notify;

use crate::error::Reason;
use crate::stats::{EndpointStats, WorkerStats};
use crate::upload::RequestBody;

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
    sender: SendRequest<RequestBody>,
    since: Instant,
}

struct Endpoint {
    shared: Arc<Shared>,
    /// The `Host` for a request that came without one.
    authority: HeaderValue,
    /// The most recently used at the back.
    idle: RefCell<VecDeque<Idle>>,
}

enum Balancer {
    RoundRobin(RoundRobin),
    LeastRequest(LeastRequest),
}

/// A cluster as one worker sees it.
pub(crate) struct Upstream {
    config: Arc<Cluster>,
    index: usize,
    stats: Arc<WorkerStats>,
    endpoints: Vec<Endpoint>,
    balancer: RefCell<Balancer>,
    http: http1::Builder,
    /// Has every worker call [`Upstream::give_way`].
    reclaim: Arc<Notify>,
}

/// Endpoints that a request has already tried, by index.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tried(u128);

impl Tried {
    /// Not this one again (past the 128th endpoint: perhaps again).
    pub(crate) fn add(&mut self, endpoint: usize) {
        self.0 |= 1u128.checked_shl(endpoint as u32).unwrap_or(0);
    }

    /// How many there are.
    pub(crate) fn count(self) -> usize {
        self.0.count_ones() as usize
    }

    fn has(self, endpoint: usize) -> bool {
        self.0 & 1u128.checked_shl(endpoint as u32).unwrap_or(0) != 0
    }
}

impl Upstream {
    /// The cluster at `index`; `shared` has one for each endpoint.
    pub(crate) fn new(
        config: &Arc<Cluster>,
        index: usize,
        shared: &[Arc<Shared>],
        stats: Arc<WorkerStats>,
        reclaim: Arc<Notify>,
    ) -> anyhow::Result<Self> {
        let weights: Vec<u32> = config.endpoints.iter().map(|e| e.weight).collect();
        let endpoint = |(endpoint, shared): (&sprat_config::resolved::Endpoint, &Arc<Shared>)| {
            anyhow::Ok(Endpoint {
                shared: Arc::clone(shared),
                authority: HeaderValue::try_from(endpoint.address.to_string())?,
                idle: RefCell::default(),
            })
        };
        let mut http = http1::Builder::new();
        http.max_header_size(config.max_header_bytes);
        Ok(Self {
            endpoints: config
                .endpoints
                .iter()
                .zip(shared)
                .map(endpoint)
                .collect::<Result<_, _>>()?,
            balancer: RefCell::new(match config.dispatch {
                Dispatch::RoundRobin => Balancer::RoundRobin(RoundRobin::new(&weights)),
                Dispatch::LeastRequest => Balancer::LeastRequest(LeastRequest::new(&weights)),
            }),
            config: Arc::clone(config),
            index,
            stats,
            http,
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

    /// Chooses an endpoint and counts the request as outstanding there; none
    /// if all have been tried.
    pub(crate) fn dispatch(self: &Rc<Self>, tried: Tried) -> Option<Lease> {
        let usable = |endpoint| !tried.has(endpoint);
        let outstanding =
            |endpoint: usize| self.endpoints[endpoint].shared.outstanding.load(Relaxed);
        let endpoint = match &mut *self.balancer.borrow_mut() {
            Balancer::RoundRobin(rotation) => rotation.pick(usable),
            Balancer::LeastRequest(choice) => choice.pick(outstanding, usable),
        }?;
        let shared = &self.endpoints[endpoint].shared;
        shared.outstanding.fetch_add(1, Relaxed);
        Some(Lease {
            upstream: Rc::clone(self),
            endpoint,
            sender: None,
        })
    }

    /// The most recently used connection that still lives.
    fn take_idle(&self, endpoint: usize) -> Option<SendRequest<RequestBody>> {
        let endpoint = &self.endpoints[endpoint];
        let mut idle = endpoint.idle.borrow_mut();
        while let Some(kept) = idle.pop_back() {
            endpoint.shared.idle.fetch_sub(1, Relaxed);
            if kept.sender.is_ready() && kept.since.elapsed() < self.config.idle_timeout {
                return Some(kept.sender);
            }
        }
        None
    }

    fn keep(&self, endpoint: usize, sender: SendRequest<RequestBody>) {
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
        }
    }
}

/// A request's hold on an endpoint: it counts as outstanding while this
/// lives. Dropped, it closes the connection under it, which cancels what the
/// upstream is doing; [`Lease::release`] keeps the connection instead.
pub(crate) struct Lease {
    upstream: Rc<Upstream>,
    endpoint: usize,
    sender: Option<SendRequest<RequestBody>>,
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
        let sender = connect::connect(&self.upstream, self.endpoint).await?;
        self.sender = Some(sender);
        Ok(())
    }

    /// The connection: after [`Lease::reuse`] or [`Lease::connect`].
    pub(crate) fn sender(&mut self) -> Option<&mut SendRequest<RequestBody>> {
        self.sender.as_mut()
    }

    /// The exchange is complete: keeps the connection for another.
    pub(crate) fn release(mut self) {
        if let Some(sender) = self.sender.take() {
            self.upstream.keep(self.endpoint, sender);
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let shared = &self.upstream.endpoints[self.endpoint].shared;
        shared.outstanding.fetch_sub(1, Relaxed);
    }
}
