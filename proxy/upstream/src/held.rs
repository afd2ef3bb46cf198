//! A lease that ends when the endpoint has sent all of its response, be the client
//! as slow as it may.

use std::cell::RefCell;
use std::rc::Rc;

use bytes::Bytes;
use http_body::Body;
use sprat_net::read_ahead::{Pool, ReadAhead};
use tokio::time::Instant;

use super::{Lease, Upstream};

/// A lease that is shared by the response's record and the task that reads ahead.
pub struct Held(RefCell<Option<Lease>>);

impl Held {
    /// Whether others need the place that it holds, if it still holds one.
    pub fn is_wanted(&self) -> bool {
        self.0.borrow().as_ref().is_some_and(Lease::is_wanted)
    }

    /// The endpoint has sent a body of so many bytes: the place is free.
    pub fn release(&self, now: Instant, bytes: u64) {
        if let Some(lease) = self.0.take() {
            lease.release(now, bytes);
        }
    }

    /// Ends the lease as [`Lease::ends_badly`] says.
    pub fn ends_badly(&self) {
        if let Some(lease) = &mut *self.0.borrow_mut() {
            lease.ends_badly();
        }
    }

    /// Ends the lease, and what the endpoint does for it.
    pub fn cancel(&self) {
        drop(self.0.take());
    }
}

impl Upstream {
    /// Reads the body that a lease gives ahead of its client, where the places that
    /// leases take are bounded; otherwise the body comes as it is asked for, and the
    /// lease is returned.
    pub fn read_ahead<B>(&self, body: B, lease: Lease) -> (ReadAhead<B>, Result<Rc<Held>, Lease>)
    where
        B: Body<Data = Bytes> + Unpin + 'static,
    {
        if !self.is_bounded() {
            return (ReadAhead::none(body), Err(lease));
        }
        let held = Rc::new(Held(RefCell::new(Some(lease))));
        let body = match self.config.read_ahead {
            None => ReadAhead::none(body),
            Some(bounds) => {
                let at_end = {
                    let held = Rc::clone(&held);
                    move |bytes| held.release(Instant::now(), bytes)
                };
                let pool = &self.shared.read_ahead;
                ReadAhead::new(
                    body,
                    bounds.per_response,
                    Pool::of(pool, bounds.total),
                    at_end,
                )
            }
        };
        (body, Ok(held))
    }

    /// Whether others need the places that requests have here, where these are bounded.
    pub fn is_short_of_places(&self) -> bool {
        self.is_bounded() && self.station.is_short_of_places()
    }

    /// Whether there is a bound on the requests that it serves at a time.
    fn is_bounded(&self) -> bool {
        self.config.max_requests < usize::MAX
            || self.config.resilience.max_requests < usize::MAX
            || self.station.limits_classes()
    }
}
