//! A lease that ends with what the endpoint sends of its response, however slow the client is.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Waker;

use bytes::Bytes;
use http_body::Body;
use sprat_config::resolved::BufferedBody;
use sprat_net::buffer::Buffers;
use sprat_net::read_ahead::{ReadAhead, ReadEnd};
use tokio::time::Instant;

use super::lease::Lease;
use super::upstream::Upstream;

/// A lease that is shared by the response's record and the task that reads ahead.
pub struct Held {
    lease: RefCell<Option<Lease>>,
    /// The task that waits until the endpoint has sent all.
    waits: RefCell<Option<Waker>>,
}

impl Held {
    /// Returns whether other requests need the lease's place, if it still holds one.
    pub fn is_wanted(&self) -> bool {
        self.lease.borrow().as_ref().is_some_and(Lease::is_wanted)
    }

    /// Ends the lease and frees its place, since the endpoint has sent a body of `bytes` bytes.
    pub fn release(&self, now: Instant, bytes: u64) {
        if let Some(lease) = self.lease.take() {
            lease.release(now, bytes);
        }
        if let Some(waker) = self.waits.take() {
            waker.wake();
        }
    }

    /// Wakes a task when the endpoint has sent all, unless it has already.
    pub fn tell_end(&self, waker: &Waker) {
        let is_held = self.lease.borrow().is_some();
        let mut waits = self.waits.borrow_mut();
        if is_held && !waits.as_ref().is_some_and(|own| own.will_wake(waker)) {
            *waits = Some(waker.clone());
        }
    }

    /// Notes that the endpoint has broken off the response, as [`Lease::ends_badly`] does.
    pub fn ends_badly(&self) {
        if let Some(lease) = &mut *self.lease.borrow_mut() {
            lease.ends_badly();
        }
    }

    /// Ends the lease as the reading of the response's body has ended.
    fn end(&self, end: ReadEnd) {
        match end {
            ReadEnd::Whole(bytes) => self.release(Instant::now(), bytes),
            ReadEnd::BrokenOff => {
                self.ends_badly();
                self.cancel();
            }
            ReadEnd::Excused => self.cancel(),
        }
    }

    /// Drops the lease, which cancels what the endpoint does for it.
    pub fn cancel(&self) {
        drop(self.lease.take());
    }
}

impl Held {
    fn new(lease: Lease) -> Rc<Self> {
        Rc::new(Self {
            lease: RefCell::new(Some(lease)),
            waits: RefCell::default(),
        })
    }
}

/// Holds a lease for a body that comes as it is asked for.
pub fn hold(lease: Lease) -> Rc<Held> {
    Held::new(lease)
}

/// Buffers the body of a lease's response, as its route is configured. The lease ends when
/// nothing more of the body comes.
pub fn buffer<B>(
    body: B,
    lease: Lease,
    rules: &BufferedBody,
    buffers: &Arc<Buffers>,
) -> (ReadAhead<B>, Rc<Held>)
where
    B: Body<Data = Bytes> + Unpin + 'static,
{
    let held = Held::new(lease);
    let at_end = {
        let held = Rc::clone(&held);
        move |end| held.end(end)
    };
    (ReadAhead::buffered(body, rules, buffers, at_end), held)
}

impl Upstream {
    /// Reads the body of a lease's response ahead of its client, as the cluster is configured.
    pub fn read_ahead<B>(&self, body: B, lease: Lease) -> (ReadAhead<B>, Rc<Held>)
    where
        B: Body<Data = Bytes> + Unpin + 'static,
    {
        let held = Held::new(lease);
        let body = match self.config.read_ahead {
            None => ReadAhead::none(body),
            Some(bounds) => {
                let at_end = {
                    let held = Rc::clone(&held);
                    move |end| held.end(end)
                };
                let room = self.shared.read_ahead.none(bounds.total);
                ReadAhead::new(body, bounds.per_response, room, at_end)
            }
        };
        (body, held)
    }

    /// Returns whether other requests need the places that requests hold here, if their number
    /// is bounded.
    pub fn is_short_of_places(&self) -> bool {
        self.is_bounded() && self.station.is_short_of_places()
    }

    /// Returns whether there is a bound on the requests that are served at a time.
    pub fn is_bounded(&self) -> bool {
        self.config.max_requests < usize::MAX
            || self.config.resilience.max_requests < usize::MAX
            || self.station.limits_classes()
    }
}
