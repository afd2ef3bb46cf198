//! A request's hold on an endpoint, and its state between two attempts.

use std::rc::Rc;

use http::HeaderValue;
use sprat_net::error::Reason;
use sprat_net::permit::{Count, Counted, Permit};
use sprat_net::proxy_protocol::Ends;
use sprat_scheduler::Size;
use sprat_scheduler::health::Outcome;
use sprat_scheduler::station::{Again, Arrival, Refusal, Ticket};
use tokio::time::Instant;

use super::connect::{self, Slot as ConnectionPlace};
use super::endpoint::Endpoint;
use super::sender::Sender;
use super::sessions::SessionId;
use super::station::Placed;
use super::upstream::Upstream;

/// A request's hold on an endpoint, which counts the request as outstanding while this lives.
/// When it is dropped, the connection under it closes, which cancels what the endpoint is doing.
/// [`Lease::release`] keeps the connection instead.
pub struct Lease {
    upstream: Rc<Upstream>,
    endpoint: Rc<Endpoint>,
    /// The request's part of what the endpoint has in progress; none once it is over.
    outstanding: Option<Permit<Outstanding>>,
    /// The endpoint's slot in the station.
    slot: usize,
    /// The class of the request.
    class: usize,
    /// The request's ticket; none once it has been given back.
    ticket: Option<Ticket>,
    sender: Option<Sender>,
    /// Whether the connection is good for this request only ([`Lease::spend`]).
    is_spent: bool,
    /// The client whose request it is, if the endpoint is told.
    ends: Option<Box<Ends>>,
    /// Whether the response has the head of a success ([`Lease::begins_well`]).
    began_well: bool,
}

/// A handle on the number of requests that an endpoint has in progress.
struct Outstanding(Rc<Endpoint>);

impl Counted for Outstanding {
    fn count(&self) -> &Count {
        &self.0.member.counts.outstanding
    }
}

/// The endpoint of an attempt, as another attempt of the request sees it meanwhile.
pub struct Place {
    upstream: Rc<Upstream>,
    slot: usize,
}

impl Place {
    /// Notes the outcome of the request at this endpoint.
    pub fn observe(&self, outcome: impl FnOnce() -> Outcome) {
        self.upstream.observe(self.slot, outcome);
    }

    /// Returns whether a connection to this endpoint may be opened now.
    pub fn may_connect(&self) -> bool {
        let config = &self.upstream.config;
        let counts = &self.upstream.endpoint(self.slot).member.counts;
        let of_cluster = config.resilience.max_connections;
        counts.connections.used() < config.max_connections
            && !self.upstream.breaker.is_open(of_cluster)
    }
}

impl Upstream {
    /// Finds an endpoint for a request, or waits for one: the session's, if there is one.
    ///
    /// # Errors
    ///
    /// The request is turned away.
    pub async fn dispatch(
        self: &Rc<Self>,
        arrival: &Arrival,
        session: Option<SessionId>,
    ) -> Result<Lease, Refusal> {
        let session = session.and_then(|id| self.session(id));
        let placed = self.station.arrive(arrival, session)?;
        self.lease(placed, arrival.class).await
    }

    async fn lease(self: &Rc<Self>, placed: Placed, class: usize) -> Result<Lease, Refusal> {
        let (ticket, slot) = match placed {
            Placed::Now(ticket, slot) => (ticket, slot),
            Placed::Waits(waiting) => (waiting.ticket, waiting.await?),
        };
        Ok(Lease::new(self, ticket, slot, class))
    }

    /// Begins a second attempt, a hedge, beside the one with this ticket, if there may be one.
    pub fn hedge(self: &Rc<Self>, ticket: Ticket, class: usize) -> Option<Lease> {
        let (ticket, slot) = self.station.hedge(ticket)?;
        Some(Lease::new(self, ticket, slot, class))
    }
}

impl Lease {
    /// Creates the lease of a place that the station has given at an endpoint.
    pub(super) fn new(upstream: &Rc<Upstream>, ticket: Ticket, slot: usize, class: usize) -> Self {
        let endpoint = upstream.endpoint(slot);
        Self {
            upstream: Rc::clone(upstream),
            outstanding: Some(Permit::add(Outstanding(Rc::clone(&endpoint)), 1)),
            endpoint,
            slot,
            class,
            ticket: Some(ticket),
            sender: None,
            is_spent: false,
            ends: None,
            began_well: false,
        }
    }

    /// Returns the endpoint that is leased.
    pub fn endpoint(&self) -> &Rc<Endpoint> {
        &self.endpoint
    }

    /// Returns the `Host` of the endpoint, for a request that came without one.
    pub fn authority(&self) -> &HeaderValue {
        &self.endpoint.member.authority
    }

    /// Notes the outcome of the request at the leased endpoint.
    pub fn observe(&self, outcome: impl FnOnce() -> Outcome) {
        self.upstream.observe(self.slot, outcome);
    }

    /// Notes that the response has the head of a success. The success is counted when the
    /// response is over: at its end, or when a party other than the endpoint ends it.
    pub fn begins_well(&mut self) {
        self.began_well = true;
    }

    /// Notes that the endpoint has broken off a response. One that began well then counts as if
    /// there had been no head.
    pub fn ends_badly(&mut self) {
        if std::mem::take(&mut self.began_well) {
            self.observe(|| Outcome::NoResponse);
        }
    }

    fn end_well(&mut self) {
        if std::mem::take(&mut self.began_well) {
            self.observe(|| Outcome::Success);
        }
    }

    /// Returns the place of the request's attempt.
    pub fn place(&self) -> Place {
        Place {
            upstream: Rc::clone(&self.upstream),
            slot: self.slot,
        }
    }

    /// Notes that the endpoint is to be told of the client whose request it is.
    pub fn tell(&mut self, ends: Ends) {
        self.ends = Some(Box::new(ends));
    }

    /// Takes a kept connection; returns false if there is none.
    pub fn reuse(&mut self, now: Instant) -> bool {
        let config = &self.upstream.config;
        let ends = self.ends.as_deref();
        self.sender = self.endpoint.take_idle(config, ends, now);
        self.sender.is_some()
    }

    /// Opens a connection to the endpoint, in the place of any that the lease has.
    pub async fn connect(&mut self) -> Result<(), Reason> {
        self.sender = None;
        let sender = connect::connect(&self.upstream, &self.endpoint, self.ends.as_deref()).await?;
        self.sender = Some(sender);
        if let Some(ticket) = self.ticket {
            self.upstream.station.reached(ticket);
        }
        Ok(())
    }

    /// Notes that the endpoint could not be reached, for which it is to blame.
    pub fn unreached(&self) {
        if let Some(ticket) = self.ticket {
            self.upstream.station.unreached(ticket);
        }
    }

    /// Gives back the place at the endpoint, since the attempt has failed; `sent` says that the
    /// endpoint has got something of the request. Returns the request, and whether it may be
    /// tried elsewhere (true), or here after a while (false). Returns `None` if the retry budget
    /// is spent, or no endpoint can be reached.
    pub fn step_back(&mut self, sent: bool) -> Option<(Away, bool)> {
        let ticket = self.ticket.take()?;
        let again = self.upstream.station.step_back(ticket, sent);
        let is_over = matches!(again, Again::Nowhere | Again::Denied);
        let away = Away {
            upstream: Rc::clone(&self.upstream),
            class: self.class,
            ticket: (!is_over).then_some(ticket),
        };
        match again {
            Again::Elsewhere => Some((away, true)),
            Again::Here => Some((away, false)),
            Again::Nowhere | Again::Denied => None,
        }
    }

    /// Ends the request, since the connection has switched to another protocol. The place at the
    /// endpoint is free for others, and what is returned counts the connection as open.
    pub fn into_tunnel(self) -> ConnectionPlace {
        ConnectionPlace::keep(&self.upstream, &self.endpoint.member.counts)
    }

    /// Returns the ticket and the class that [`Upstream::hedge`] needs.
    pub fn ticket(&self) -> Option<(Ticket, usize)> {
        Some((self.ticket?, self.class))
    }

    /// Returns whether other requests need this request's place.
    pub(super) fn is_wanted(&self) -> bool {
        self.ticket.is_some() && self.upstream.station.is_short_of_places()
    }

    /// Tells the station the response's size, once it is known.
    pub fn resize(&self, size: Size) {
        if let Some(ticket) = self.ticket
            && self.upstream.wants_size()
        {
            self.upstream.station.resize(ticket, size);
        }
    }

    /// Returns the connection, if [`Lease::reuse`] or [`Lease::connect`] has found one.
    pub fn sender(&mut self) -> Option<&mut Sender> {
        self.sender.as_mut()
    }

    /// Gives up the request, since the endpoint had its time to answer. A connection over which
    /// nothing was heard meanwhile gets no further request.
    pub fn give_up(&mut self) {
        self.sender.iter_mut().for_each(Sender::give_up);
    }

    /// Notes that the connection is good for this request only.
    pub fn spend(&mut self) {
        self.is_spent = true;
    }

    /// Ends a complete exchange, with a body of `bytes`, and keeps the connection for another
    /// request.
    pub fn release(mut self, now: Instant, bytes: u64) {
        self.end_well();
        // First, for it may serve whom the station starts now.
        if let Some(sender) = self.sender.take().filter(|_| !self.is_spent) {
            let config = &self.upstream.config;
            let ends = self.ends.take();
            self.endpoint.keep(config, sender, ends, now);
        }
        // Before another is started, which sees by this count whether a connection is closing.
        self.outstanding = None;
        if let Some(ticket) = self.ticket.take() {
            self.upstream.station.finish(now, ticket, bytes);
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.end_well();
        // First, for the station may start another request there.
        self.outstanding = None;
        if let Some(ticket) = self.ticket.take() {
            self.upstream.station.cancel(ticket);
        }
    }
}

/// A request between two attempts, which holds no place. When this is dropped, the request is
/// over.
pub struct Away {
    upstream: Rc<Upstream>,
    class: usize,
    ticket: Option<Ticket>,
}

impl Away {
    /// Finds an endpoint for the next attempt, perhaps after a wait.
    ///
    /// # Errors
    ///
    /// There is no endpoint for the request.
    pub async fn again(mut self) -> Result<Lease, Option<Refusal>> {
        let ticket = self.ticket.take().ok_or(None)?;
        let placed = self.upstream.station.again(ticket, self.class);
        let lease = self.upstream.lease(placed.map_err(Some)?, self.class);
        lease.await.map_err(Some)
    }
}

impl Drop for Away {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            self.upstream.station.cancel(ticket);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    use std::task::{Context, Wake, Waker};
    use std::time::Duration;

    use tokio::sync::Notify;

    use super::*;
    use crate::counts::EndpointCounts;
    use crate::dns::Names;
    use crate::{ClusterStats, SharedCluster};

    /// Makes a worker's part in a cluster of one endpoint, which serves one request at a time.
    fn upstream() -> Rc<Upstream> {
        let text = "version: 1\nlisteners: [{address: 127.0.0.1:0}]\nroutes: [{cluster: farm}]\n\
             clusters:\n  farm:\n    endpoints: [127.0.0.1:1]\n    max_requests: 1\n    \
             wait_queue: {timeout: 1m}\n";
        let loaded = sprat_config::parse(text, "test.yaml", &|_| None);
        let config = loaded.unwrap().config;
        let shared = SharedCluster::new(&config.clusters[0], &config, &Names::default());
        let shared = Arc::new(shared.unwrap());
        let stats = Arc::new(ClusterStats::default());
        Rc::new(Upstream::new(&shared, stats, 0, Arc::new(Notify::new())))
    }

    /// A waker that notes how many requests the endpoint has in progress when it wakes.
    struct Noting {
        counts: Arc<EndpointCounts>,
        noted: AtomicUsize,
    }

    impl Wake for Noting {
        fn wake(self: Arc<Self>) {
            self.noted.store(self.counts.outstanding.used(), Relaxed);
        }
    }

    #[tokio::test]
    async fn a_request_that_is_over_does_not_count_when_the_next_is_woken() {
        let upstream = upstream();
        let arrival = Arrival {
            class: 0,
            size: Size::Unknown,
            hash: 0,
            random: 0,
            channel_backlog: Duration::ZERO,
            channel_ahead: Duration::ZERO,
        };
        for is_released in [true, false] {
            let lease = upstream.dispatch(&arrival, None).await;
            let lease = lease.expect("the endpoint is free");
            let noting = Arc::new(Noting {
                counts: Arc::clone(&lease.endpoint().member.counts),
                noted: AtomicUsize::new(usize::MAX),
            });
            let waker = Waker::from(Arc::clone(&noting));
            let mut next = pin!(upstream.dispatch(&arrival, None));
            let polled = next.as_mut().poll(&mut Context::from_waker(&waker));
            assert!(polled.is_pending());
            match is_released {
                true => lease.release(Instant::now(), 0),
                false => drop(lease),
            }
            assert_eq!(noting.noted.load(Relaxed), 0);
        }
    }
}
