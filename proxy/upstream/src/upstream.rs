//! One worker's part in a cluster.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue};
use hyper::client::conn::http1;
use sprat_config::resolved::{Cluster, Dispatch, HashKey};
use sprat_net::tls::ClusterTls;
use sprat_scheduler::dispatch::stable_hash;
use sprat_scheduler::health::Outcome;
use sprat_scheduler::station::Session;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::absence::Awaiting;
use super::breaker::Breaker;
use super::endpoint::Endpoint;
use super::sessions::{SessionId, SessionOutcome};
use super::shared::SharedCluster;
use super::station::SharedStation;
use super::stats::ClusterStats;

/// The outcome that a request had for its session, and the cookie for the client.
#[derive(Debug)]
pub struct KeptSession {
    /// The outcome: the session is new, kept or moved.
    pub outcome: SessionOutcome,
    /// The `Set-Cookie` field for the client, if it is to have one.
    pub set_cookie: Option<HeaderValue>,
}

/// A cluster as one worker sees it.
pub struct Upstream {
    pub(super) config: Arc<Cluster>,
    /// The cluster as all workers know it.
    pub(super) shared: Arc<SharedCluster>,
    /// The counters of this worker.
    pub(super) stats: Arc<ClusterStats>,
    /// The index of this worker.
    pub(super) worker: usize,
    /// The endpoints by the station's slots, as of `version`.
    pub(super) endpoints: RefCell<Vec<Rc<Endpoint>>>,
    version: Cell<u64>,
    /// The labels of the present endpoints, by the sessions that cookies name.
    pub(super) sessions: RefCell<HashMap<SessionId, String>>,
    pub(super) station: Arc<SharedStation>,
    pub(super) breaker: Arc<Breaker>,
    /// The page that browsers get with a 503.
    pub overload_page: Option<Bytes>,
    /// The TLS to endpoints; `None` for plain text.
    pub(super) tls: Option<Arc<ClusterTls>>,
    pub(super) http: http1::Builder,
    /// The signal to every worker to call [`Upstream::give_way`].
    pub(super) reclaim: Arc<Notify>,
    /// Whether a later generation goes on without this.
    retired: Cell<bool>,
}

impl Upstream {
    /// Creates the part that the worker with this index has in a cluster.
    pub fn new(
        shared: &Arc<SharedCluster>,
        stats: Arc<ClusterStats>,
        worker: usize,
        reclaim: Arc<Notify>,
    ) -> Self {
        let config = Arc::clone(&shared.config);
        let mut http = http1::Builder::new();
        http.max_header_size(config.max_response_headers);
        let own = Self {
            worker,
            endpoints: RefCell::default(),
            version: Cell::new(0),
            sessions: RefCell::default(),
            station: Arc::clone(&shared.station),
            breaker: Arc::clone(&shared.breaker),
            overload_page: shared.overload_page.clone(),
            tls: shared.tls.clone(),
            config,
            shared: Arc::clone(shared),
            stats,
            http,
            reclaim,
            retired: Cell::new(false),
        };
        own.follow_members();
        own
    }

    /// Takes over the endpoints that the station has now.
    fn follow_members(&self) {
        let members = self.station.members();
        let mut endpoints = self.endpoints.borrow_mut();
        for (slot, member) in members.by_slot.iter().enumerate() {
            match endpoints.get_mut(slot) {
                Some(own) if Arc::ptr_eq(&own.member, member) => {}
                Some(own) => {
                    own.set_retired(true);
                    *own = Rc::new(Endpoint::new(member, self.worker));
                }
                None => endpoints.push(Rc::new(Endpoint::new(member, self.worker))),
            }
        }
        for (slot, endpoint) in endpoints.iter().enumerate() {
            endpoint.set_retired(self.retired.get() || !members.present.contains(&slot));
        }
        if let Some(sessions) = &self.shared.sessions {
            let labels = members.present().map(|(_, member)| &member.label);
            let known = labels.map(|label| (sessions.id(label), label.clone()));
            self.sessions.replace(known.collect());
        }
        self.version.set(members.version);
    }

    /// Returns the endpoint in a slot that the station has given out.
    pub(super) fn endpoint(&self, slot: usize) -> Rc<Endpoint> {
        if self.version.get() != self.station.version() {
            self.follow_members();
        }
        Rc::clone(&self.endpoints.borrow()[slot])
    }

    /// Returns the address of the part that all workers share, which tells the cluster from
    /// others.
    pub fn shared_by(&self) -> *const SharedCluster {
        Arc::as_ptr(&self.shared)
    }

    /// Notes that no further request comes, so that no connection is kept for one.
    pub fn retire(&self) {
        self.retired.set(true);
        let endpoints = self.endpoints.borrow();
        endpoints
            .iter()
            .for_each(|endpoint| endpoint.set_retired(true));
    }

    /// Returns the configuration of the cluster.
    pub fn cluster(&self) -> Arc<Cluster> {
        Arc::clone(&self.config)
    }

    /// Returns the name of the cluster.
    pub fn name(&self) -> &str {
        &self.config.name
    }

    /// Returns whether an endpoint is in use: one that is well, or any if so few are well that
    /// all are used.
    pub fn has_endpoint(&self) -> bool {
        self.station.in_use(0).is_some()
    }

    /// Returns this worker's counters of the cluster.
    pub fn counters(&self) -> &ClusterStats {
        &self.stats
    }

    /// Returns the most bytes that the head of a response may have.
    pub fn max_response_headers(&self) -> usize {
        self.config.max_response_headers
    }

    /// Returns whether HTTP/2 is spoken with the endpoints.
    pub fn is_http2(&self) -> bool {
        self.config.http2.is_some()
    }

    /// Returns whether TLS is spoken with the endpoints.
    pub fn is_secured(&self) -> bool {
        self.tls.is_some()
    }

    /// Returns what a request's hash is made of, if the dispatch uses one.
    pub fn hash_key(&self) -> Option<HashKey> {
        let hashes = matches!(self.config.dispatch, Dispatch::RingHash | Dispatch::Maglev);
        hashes.then_some(self.config.hash_key)
    }

    /// Returns the session that a request has with this cluster, by its cookies.
    pub fn find_session(&self, headers: &HeaderMap) -> Option<SessionId> {
        self.shared.sessions.as_ref()?.find(headers)
    }

    /// Returns a session as the station takes it.
    pub(super) fn session(&self, id: SessionId) -> Option<Session> {
        let sessions = self.shared.sessions.as_ref()?;
        if self.version.get() != self.station.version() {
            self.follow_members();
        }
        let labels = self.sessions.borrow();
        Some(sessions.session(id, labels.get(&id).map(String::as_str)))
    }

    /// Returns the outcome for a session, a request of which `endpoint` has answered; `None` if
    /// the cluster keeps no sessions.
    pub fn kept_session(&self, had: Option<SessionId>, endpoint: &Endpoint) -> Option<KeptSession> {
        let sessions = self.shared.sessions.as_ref()?;
        let id = sessions.id(&endpoint.member.label);
        let outcome = match had {
            None => SessionOutcome::New,
            Some(had) if had == id => SessionOutcome::Kept,
            Some(_) => SessionOutcome::Moved,
        };
        let is_kept = outcome == SessionOutcome::Kept;
        Some(KeptSession {
            outcome,
            set_cookie: (!is_kept).then(|| sessions.set_cookie(id)).flatten(),
        })
    }

    /// Returns whether a session's requests are refused if its endpoint is not available.
    pub fn has_strict_sessions(&self) -> bool {
        let sessions = self.shared.sessions.as_ref();
        sessions.is_some_and(|own| own.is_strict())
    }

    /// Returns whether requests wait for an endpoint if none can be reached.
    pub fn waits_for_endpoint(&self) -> bool {
        self.config.wait_for_endpoint.is_some()
    }

    /// Returns a place among the requests that wait; `None` if as many wait as may.
    pub fn await_endpoint(&self, now: Instant) -> Option<Awaiting> {
        let within = self.config.wait_for_endpoint?;
        let pending = self.config.resilience.max_pending_requests;
        let bound = self.config.wait_queue.max_requests.min(pending);
        self.station.absence.join(bound, now + within)
    }

    /// Returns whether the station has a use for the outcomes of requests.
    pub fn observes(&self) -> bool {
        self.station.observes()
    }

    /// Notes the outcome of a request at the endpoint in a slot.
    pub(super) fn observe(&self, slot: usize, outcome: impl FnOnce() -> Outcome) {
        if self.observes() {
            self.station.observe(slot, outcome());
        }
    }

    /// Returns whether endpoints are told which client each connection is for.
    pub fn tells_clients(&self) -> bool {
        self.config.proxy_protocol.is_some()
    }

    /// Closes connections that have been idle for too long or are dead, and idle ones to
    /// endpoints that are gone or out of use: dead connections may be what put these out.
    pub fn reap(&self, now: Instant) {
        if self.version.get() != self.station.version() {
            self.follow_members();
        }
        let endpoints = self.endpoints.borrow();
        for endpoint in &*endpoints {
            endpoint.reap(&self.config, now);
        }
        for slot in self.station.out_of_use() {
            endpoints
                .get(slot)
                .inspect(|endpoint| endpoint.close_idle());
        }
    }

    /// Closes an idle connection to each endpoint to which another worker wants to open one and
    /// may not, or to every endpoint if the cluster may have no more.
    pub fn give_way(&self) {
        for endpoint in &*self.endpoints.borrow() {
            let wanted = &endpoint.member.counts.wanted;
            if wanted.used() > 0 || self.breaker.is_wanted() {
                endpoint.close_one();
            }
        }
    }

    /// Closes every idle connection.
    pub fn close_idle(&self) {
        let endpoints = self.endpoints.borrow();
        endpoints.iter().for_each(|endpoint| endpoint.close_idle());
    }
}

/// Returns the hash that affinity goes by, for a request of a client.
pub fn affinity_hash(key: HashKey, client: &[u8], host: &str, uri: &http::Uri) -> u64 {
    match key {
        HashKey::Client => stable_hash(&[client]),
        HashKey::Url => {
            let query = uri.query().unwrap_or("");
            stable_hash(&[host.as_bytes(), uri.path().as_bytes(), query.as_bytes()])
        }
    }
}
