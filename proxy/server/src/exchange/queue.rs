//! The wait for an endpoint that has a place, and what a client is told if there is none.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;

use http::HeaderMap;
use sprat_net::error::{Advice, Denial, Reason, accepts_html};
use sprat_scheduler::station::{Refusal, RefusalReason};
use sprat_upstream::SessionOutcome;
use tokio::time::timeout_at;

use super::upstream_request::Exchange;
use crate::exchange::record::Record;

impl Exchange<'_> {
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
        let _noted = self
            .plan
            .trace
            .as_ref()
            .and_then(|own| own.wait("endpoint"));
        let deadline = self.plan.deadline(record);
        let waits = &self.plan.upstream.counters().queue_waits;
        let _waiting = record.upstream.wait(Some(waits));
        self.plan.stream.wait();
        match deadline {
            None => Ok(dispatched.await),
            Some(at) => {
                let outcome = timeout_at(at, dispatched).await;
                outcome.map_err(|_| Reason::RouteTimeout)
            }
        }
    }

    /// Returns why the cluster does not take the request, and what its client is told.
    pub(super) fn turned_away(
        &self,
        record: &mut Record,
        refusal: &Refusal,
        asked: &HeaderMap,
    ) -> Denial {
        let upstream = self.plan.upstream;
        let is_unhealthy = refusal.reason == RefusalReason::NoHealthyEndpoint;
        if is_unhealthy && self.plan.session.is_some() && upstream.has_strict_sessions() {
            self.plan.count_session(record, SessionOutcome::Refused);
        }
        let page = upstream.overload_page.as_ref();
        let advice = Advice {
            page: page.filter(|_| accepts_html(asked)).cloned(),
            ..Advice::later(refusal.retry_after_s())
        };
        Denial::with(Reason::of_refusal(refusal.reason), advice)
    }
}

/// Polls a future once, and returns its output if it is ready.
async fn poll_once<T>(mut future: Pin<&mut impl Future<Output = T>>) -> Option<T> {
    poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}
