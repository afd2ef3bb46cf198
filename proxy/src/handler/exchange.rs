//! A request to an upstream, from dispatch to the head of the answer.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;

use http::{HeaderMap, Request, Response, StatusCode};
use hyper::body::Incoming;
use sprat_scheduler::station::Refusal;
use tokio::time::{Instant, timeout_at};

use super::Plan;
use super::attempt::Due;
use super::retry::{Answer, Next};
use crate::error::{Advice, Reason, accepts_html};
use crate::headers;
use crate::record::Record;
use crate::upload::{RequestBody, Upload};

/// A request to an upstream, until its answer comes.
pub(super) struct Exchange<'a> {
    pub(super) plan: Plan<'a>,
    pub(super) request: std::cell::Cell<Option<Request<RequestBody>>>,
    pub(super) upload: Option<Rc<Upload>>,
}

impl Exchange<'_> {
    /// Sends the request, again where that is safe, and waits for the head of
    /// the answer.
    pub(super) async fn fetch(&self, record: &mut Record) -> Result<Response<Incoming>, Reason> {
        let mut request = self.request.take().ok_or(Reason::ProtocolError)?;
        let upstream = self.plan.upstream;
        let arrival = self.plan.arrival(record, &request).await;
        let dispatched = upstream.dispatch(&arrival);
        let mut lease = match self.queue(record, dispatched).await? {
            Ok(lease) => lease,
            Err(refusal) => return Err(self.turned_away(record, &refusal, request.headers())),
        };
        let due = Due {
            deadline: self.plan.deadline(record),
            own_timers: false,
        };
        let mut repeats = 0;
        loop {
            record.endpoint = Some(Rc::clone(lease.endpoint()));
            let outcome = match self.plan.route.retry.hedge_delay {
                None => self.attempt(lease, request, due).await,
                Some(delay) => Box::pin(self.hedged(lease, request, due, delay)).await,
            };
            let failed = match outcome {
                Ok(answer) => return self.accept(record, answer),
                Err(failed) => failed,
            };
            record.endpoint = Some(Rc::clone(failed.lease.endpoint()));
            match Box::pin(self.repeat(record, *failed, repeats)).await? {
                Next::Attempt(next, again) => (lease, request) = (next, again),
                Next::Answer(answer) => return self.accept(record, answer),
            }
            repeats += 1;
        }
    }

    /// Waits for an endpoint as long as the route allows.
    pub(super) async fn queue<T>(
        &self,
        record: &mut Record,
        dispatched: impl Future<Output = T>,
    ) -> Result<T, Reason> {
        let mut dispatched = pin!(dispatched);
        // The common case: there is one.
        if let Some(outcome) = poll_once(dispatched.as_mut()).await {
            return Ok(outcome);
        }
        let began = Instant::now();
        let deadline = self.plan.deadline(record);
        self.plan.stream.wait();
        let outcome = match deadline {
            None => Ok(dispatched.await),
            Some(at) => timeout_at(at, dispatched).await,
        };
        record.queue_wait += began.elapsed();
        let stats = self.plan.upstream.counters();
        stats.waited(began.elapsed());
        outcome.map_err(|_| Reason::RouteTimeout)
    }

    /// The cluster does not take the request.
    pub(super) fn turned_away(
        &self,
        record: &mut Record,
        refusal: &Refusal,
        asked: &HeaderMap,
    ) -> Reason {
        let page = self.plan.upstream.overload_page.as_ref();
        record.advice = Some(Box::new(Advice {
            page: page.filter(|_| accepts_html(asked)).cloned(),
            ..Advice::later(refusal.retry_after_s())
        }));
        Reason::of_refusal(refusal.reason)
    }

    /// Makes the upstream's header fields those of the response, unless it
    /// switches protocols.
    fn accept(&self, record: &mut Record, answer: Answer) -> Result<Response<Incoming>, Reason> {
        let Answer {
            mut response,
            lease,
        } = answer;
        record.endpoint = Some(Rc::clone(lease.endpoint()));
        record.lease = Some(lease);
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            let offer = self.plan.offer.as_ref();
            let asked = offer.is_some_and(|offer| offer.has(response.headers()));
            return asked.then_some(response).ok_or(Reason::ProtocolError);
        }
        let hop = headers::strip_hop_by_hop(response.headers_mut());
        if hop.unknown_coding {
            return Err(Reason::ProtocolError);
        }
        Ok(response)
    }
}

/// What a future has to say at once.
async fn poll_once<T>(mut future: Pin<&mut impl Future<Output = T>>) -> Option<T> {
    poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}
