//! An endpoint's part in a request: from its choice until its connection is free again.

use std::rc::Rc;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use sprat_net::clock;
use sprat_net::counters::{Histogram, Seconds};
use sprat_net::error::Reason;
use sprat_upstream::{Endpoint, Held, Lease, Member};
use tokio::time::Instant;

/// The endpoint of a request, and what the request holds of it.
#[derive(Default)]
pub(crate) struct UpstreamPart {
    /// The endpoint, once chosen.
    endpoint: Option<Rc<Endpoint>>,
    /// The upstream connection, while it is in use.
    lease: Option<Lease>,
    /// The lease once it is shared with the reader ahead, which may end it before the
    /// client has all of the response.
    held: Option<Rc<Held>>,
    /// Whether the attempt at the endpoint has failed, and is counted: what follows is not its
    /// doing.
    is_counted: bool,
    /// The time that the request waited for an endpoint.
    queue_wait: Duration,
}

/// A wait for an endpoint that lasts until this is dropped: its client may leave meanwhile.
#[must_use]
pub(crate) struct EndpointWait<'a> {
    part: &'a mut UpstreamPart,
    began: Instant,
    /// The histogram that counts the wait, if it is one of those that are counted.
    counted: Option<&'a Histogram<Seconds>>,
}

impl Drop for EndpointWait<'_> {
    fn drop(&mut self) {
        let waited = clock::now() - self.began;
        self.part.queue_wait += waited;
        if let Some(waits) = self.counted {
            waits.took(waited);
        }
    }
}

impl UpstreamPart {
    /// Notes the endpoint that is asked now.
    pub(crate) fn ask(&mut self, endpoint: &Rc<Endpoint>) {
        self.endpoint = Some(Rc::clone(endpoint));
        self.is_counted = false;
    }

    /// Notes the connection on which the answer has begun.
    pub(crate) fn begin(&mut self, lease: Lease) {
        self.ask(lease.endpoint());
        self.lease = Some(lease);
    }

    /// Returns the endpoint that was asked last, once one was.
    pub(crate) fn endpoint(&self) -> Option<&Rc<Endpoint>> {
        self.endpoint.as_ref()
    }

    /// Notes that the request waits for an endpoint from now on, and has the wait `counted`, if
    /// there is a histogram for it.
    pub(crate) fn wait<'a>(
        &'a mut self,
        counted: Option<&'a Histogram<Seconds>>,
    ) -> EndpointWait<'a> {
        EndpointWait {
            part: self,
            began: clock::now(),
            counted,
        }
    }

    /// Returns how long the request has waited for an endpoint, in all.
    pub(super) fn waited(&self) -> Duration {
        self.queue_wait
    }

    /// Returns the connection while the answer comes on it, and nothing else holds it.
    pub(crate) fn lease(&self) -> Option<&Lease> {
        self.lease.as_ref()
    }

    /// Takes the connection out; the caller ends its use.
    pub(crate) fn take_lease(&mut self) -> Option<Lease> {
        self.lease.take()
    }

    /// Returns the endpoint as the configuration has it.
    pub(super) fn member(&self) -> Option<&Arc<Member>> {
        self.endpoint.as_ref().map(|own| &own.member)
    }

    /// Returns the endpoint's name, as logs tell it.
    pub(super) fn label(&self) -> Option<&str> {
        self.member().map(|own| own.label.as_str())
    }

    /// Ends the endpoint's part: its connection serves the next request.
    pub(super) fn release(&mut self, now: Instant, bytes: u64) {
        if let Some(lease) = self.lease.take() {
            lease.release(now, bytes);
        }
        if let Some(held) = self.held.take() {
            held.release(now, bytes);
        }
    }

    /// Shares the lease with the reader ahead: the part may be over before the client has
    /// all of the response.
    pub(super) fn hold(&mut self, held: Rc<Held>) {
        self.held = Some(held);
    }

    /// Registers a task to be woken when the endpoint has sent all, if that may be before the
    /// client has it.
    pub(super) fn tell_end(&self, waker: &Waker) {
        if let Some(held) = &self.held {
            held.tell_end(waker);
        }
    }

    /// Tells the cluster that the endpoint has not given all of its response, by its own doing.
    pub(crate) fn ends_badly(&mut self) {
        if let Some(lease) = &mut self.lease {
            lease.ends_badly();
        }
        if let Some(held) = &self.held {
            held.ends_badly();
        }
    }

    /// Ends the endpoint's part before the client has all of the response, and cancels what the
    /// endpoint still does for it.
    pub(crate) fn cancel(&mut self) {
        drop(self.lease.take());
        if let Some(held) = self.held.take() {
            held.cancel();
        }
    }

    /// Notes that the failure of the attempt at the endpoint has been counted. Until an endpoint is
    /// asked again, no error is this one's.
    pub(crate) fn blame_no_more(&mut self) {
        self.is_counted = true;
    }

    /// Counts an error of the endpoint, if it is the one that is asked now.
    pub(super) fn count_error(&self, reason: Reason) {
        if let Some(endpoint) = self.endpoint.as_ref().filter(|_| !self.is_counted) {
            endpoint.stats.errors[reason.index()].increment();
        }
    }
}
