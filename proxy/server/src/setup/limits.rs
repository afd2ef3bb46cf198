//! Bounds on what one client may take, shared by the workers of a listener.
//!
//! The core counts; here are its locks, its clock, and what clients are told.
//! A listener without such bounds has none of this: one look at an `Option`
//! for each request.

mod overload;
mod rate;

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::HeaderMap;
use sprat_config::resolved::Listener;
use sprat_net::client::{ClientKey, Prefixes};
use sprat_net::error::{Advice, Denial, Reason};
use sprat_net::permit::{Count, Counted, Permit};
use sprat_scheduler::Time;
use sprat_scheduler::limits::{Shortage, Tallies};
use tokio::time::Instant;

pub(crate) use self::overload::Overload;
pub(crate) use self::rate::RateLimiter;

/// The time after which to ask again after a refusal for want of a place, in
/// seconds: places come free all the time.
const RETRY_AFTER_S: u64 = 1;

/// Returns the denial of a request that finds no place.
pub(crate) fn no_place(reason: Reason) -> Denial {
    Denial::with(reason, Advice::later(RETRY_AFTER_S))
}

/// The bounds on what the clients of a listener may take.
#[derive(Debug)]
pub(crate) struct ListenerLimits {
    prefixes: Prefixes,
    connections: Option<Mutex<Tallies<ClientKey>>>,
    requests: Option<Mutex<Tallies<ClientKey>>>,
    max_requests: usize,
    /// The number of requests in progress.
    open_requests: Count,
    /// Whether requests were turned away for want of a place a short while ago.
    shortage: Mutex<Shortage>,
    epoch: Instant,
    rate: Option<RateLimiter>,
}

impl ListenerLimits {
    /// Makes the bounds that a listener's configuration asks for; `None` if it asks for none.
    pub(crate) fn new(config: &Listener) -> Option<Arc<Self>> {
        let limits = &config.limits;
        let client = &limits.per_client;
        let asked = client.max_connections.is_some()
            || client.max_requests.is_some()
            || limits.max_requests.is_some()
            || limits.rate_limit.is_some();
        let prefixes = Prefixes::new(client);
        let tallies = |bound: Option<usize>| bound.map(|bound| Mutex::new(Tallies::new(bound)));
        asked.then(|| {
            Arc::new(Self {
                prefixes,
                connections: tallies(client.max_connections),
                requests: tallies(client.max_requests),
                max_requests: limits.max_requests.unwrap_or(usize::MAX),
                open_requests: Count::default(),
                shortage: Mutex::default(),
                epoch: Instant::now(),
                rate: limits.rate_limit.as_ref().map(RateLimiter::new),
            })
        })
    }

    /// Takes a place for a connection of this client; `None` if it has as many as
    /// it may.
    pub(crate) fn connect(self: &Arc<Self>, ip: IpAddr) -> Option<ConnectionPlace> {
        let client = self.prefixes.key(ip);
        let fits = (self.connections.as_ref()).is_none_or(|open| lock(open).enter(client));
        fits.then(|| ConnectionPlace {
            limits: Arc::clone(self),
            client,
        })
    }

    /// Returns whether requests need the places that others hold: all are taken, and
    /// one was turned away a short while ago.
    pub(crate) fn is_short_of_places(&self) -> bool {
        let is_full = self.open_requests.used() >= self.max_requests;
        is_full && lock(&self.shortage).lasts(self.now())
    }

    fn now(&self) -> Time {
        Time::ZERO + self.epoch.elapsed()
    }

    /// Admits a request with these header fields, or returns the denial of the bound that
    /// it is over.
    pub(crate) fn admit(
        self: &Arc<Self>,
        ip: IpAddr,
        headers: &HeaderMap,
    ) -> Result<RequestPlace, Denial> {
        let client = self.prefixes.key(ip);
        if let Some(rate) = &self.rate {
            rate.admit(client, headers)?;
        }
        self.request(client).map_err(no_place)
    }

    /// Takes a place for a request of this client.
    fn request(self: &Arc<Self>, client: ClientKey) -> Result<RequestPlace, Reason> {
        let Some(open) = Permit::take(OpenRequests(Arc::clone(self)), 1, self.max_requests) else {
            lock(&self.shortage).miss(self.now());
            return Err(Reason::ListenerFull);
        };
        if let Some(own) = &self.requests
            && !lock(own).enter(client)
        {
            return Err(Reason::ClientFull);
        }
        Ok(RequestPlace { open, client })
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    // Whatever panicked left a count; it is no less right than before.
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A connection's place among those of its client, until this is dropped.
#[derive(Debug)]
pub(crate) struct ConnectionPlace {
    limits: Arc<ListenerLimits>,
    client: ClientKey,
}

impl Drop for ConnectionPlace {
    fn drop(&mut self) {
        if let Some(open) = &self.limits.connections {
            lock(open).leave(&self.client);
        }
    }
}

/// A request's place among those in progress, until this is dropped.
#[derive(Debug)]
pub(crate) struct RequestPlace {
    open: Permit<OpenRequests>,
    client: ClientKey,
}

impl Drop for RequestPlace {
    fn drop(&mut self) {
        let OpenRequests(limits) = self.open.of();
        if let Some(own) = &limits.requests {
            lock(own).leave(&self.client);
        }
    }
}

/// A handle on the number of requests in progress.
#[derive(Debug)]
struct OpenRequests(Arc<ListenerLimits>);

impl Counted for OpenRequests {
    fn count(&self) -> &Count {
        &self.0.open_requests
    }
}
