//! An endpoint as one worker sees it, with the connections that the worker keeps there.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;

use sprat_config::resolved::Cluster;
use sprat_net::permit::Permit;
use sprat_net::proxy_protocol::Ends;
use tokio::time::Instant;

use super::counts::IdleConnections;
use super::members::Member;
use super::multiplexed::Pool;
use super::sender::{Sender, Single};
use super::stats::EndpointStats;

/// A connection that is kept for further requests.
struct Idle {
    sender: Single,
    since: Instant,
    /// The client whose requests the connection carries, if the endpoint was told.
    ends: Option<Box<Ends>>,
    place: Permit<IdleConnections>,
}

/// An endpoint as one worker sees it.
pub struct Endpoint {
    /// The endpoint as all workers know it.
    pub member: Arc<Member>,
    /// This worker's counters of the endpoint.
    pub stats: Arc<EndpointStats>,
    /// The idle connections of HTTP/1.1, the most recently used at the back.
    idle: RefCell<VecDeque<Idle>>,
    /// The connections of HTTP/2, idle or not.
    pub(super) pool: Pool,
}

impl Endpoint {
    /// Creates an endpoint to which the worker with this index has no connection yet.
    pub(super) fn new(member: &Arc<Member>, worker: usize) -> Self {
        Self {
            stats: Arc::clone(&member.stats[worker]),
            member: Arc::clone(member),
            idle: RefCell::default(),
            pool: Pool::default(),
        }
    }

    /// Takes the most recently used idle connection for `ends` that still lives, or a stream of
    /// an HTTP/2 connection.
    pub(super) fn take_idle(
        &self,
        config: &Cluster,
        ends: Option<&Ends>,
        now: Instant,
    ) -> Option<Sender> {
        if let Some(http2) = &config.http2 {
            let stream = self.pool.take(http2.max_streams)?;
            return Some(Sender::Http2(Box::new(stream)));
        }
        let mut idle = self.idle.borrow_mut();
        while let Some(at) = idle.iter().rposition(|kept| kept.ends.as_deref() == ends) {
            let kept = idle.remove(at)?;
            if kept.sender.is_ready() && now < kept.since + config.idle_timeout {
                return Some(Sender::Http1(kept.sender));
            }
        }
        None
    }

    /// Keeps a connection for another request, if there is room for it.
    pub(super) fn keep(
        &self,
        config: &Cluster,
        sender: Sender,
        ends: Option<Box<Ends>>,
        now: Instant,
    ) {
        let Sender::Http1(sender) = sender else {
            // Dropped, it makes room for another request.
            return;
        };
        // Not ready: the request's body is not through, though the answer is.
        if self.pool.is_retired() || !sender.is_ready() {
            return;
        }
        let mut idle = self.idle.borrow_mut();
        let counts = IdleConnections(Arc::clone(&self.member.counts));
        let mut place = Permit::take(counts, 1, config.max_idle_connections);
        if place.is_none() && ends.is_some() {
            // Those of clients that have gone make way for those that are here.
            place = idle.pop_front().map(|oldest| oldest.place);
        }
        if let Some(place) = place {
            idle.push_back(Idle {
                sender,
                since: now,
                ends,
                place,
            });
        }
    }

    /// Closes connections that have been idle for too long, or are dead.
    pub(super) fn reap(&self, config: &Cluster, now: Instant) {
        if self.pool.is_retired() {
            // Those that have become idle since.
            return self.close_idle();
        }
        self.pool.reap(now, config.idle_timeout);
        let mut idle = self.idle.borrow_mut();
        idle.retain(|kept| !kept.sender.is_closed() && now < kept.since + config.idle_timeout);
    }

    /// Closes an idle connection, if there is one.
    pub(super) fn close_one(&self) {
        if !self.pool.close_one() {
            self.idle.borrow_mut().pop_front();
        }
    }

    /// Closes every idle connection.
    pub(super) fn close_idle(&self) {
        self.idle.take();
        self.pool.close_idle();
    }

    /// Sets whether the endpoint is retired. A retired endpoint gets no further requests, and no
    /// connection is kept for them.
    pub(super) fn set_retired(&self, retired: bool) {
        self.pool.set_retired(retired);
        if retired {
            self.close_idle();
        }
    }
}
