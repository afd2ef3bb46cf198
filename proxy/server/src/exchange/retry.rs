//! Repetitions after attempts that failed: whether, where and when a request is tried again.

use std::rc::Rc;
use std::time::Duration;

use http::Request;
use sprat_net::error::{Denial, Reason};
use sprat_net::upload::RequestBody;
use sprat_scheduler::retries::Step;
use sprat_scheduler::station::RefusalReason;
use sprat_upstream::Lease;
use tokio::time::{Instant, sleep, timeout};

use super::outcome::{Answer, Due, Failed, HeldAnswer, Next, Sent};
use super::spare::Spare;
use super::upstream_request::Exchange;
use crate::exchange::record::Record;

impl Exchange<'_> {
    /// Finds the next attempt at a request, if that is the next step and the budget allows
    /// it. It is at another endpoint, or at the same after a pause.
    pub(super) async fn repeat(
        &self,
        record: &mut Record,
        mut failed: Failed,
        held: &mut HeldAnswer,
    ) -> Result<Next, Denial> {
        let policy = &self.plan.route.retry;
        if self
            .plan
            .deadline(record)
            .is_some_and(|at| at <= Instant::now())
        {
            // The route's time is up, for whatever reason the attempt ended.
            *held = None;
        }
        let Step::Repeat { sent, unreached } = failed.step else {
            return Ok(failed.end(held)?);
        };
        let Some(request) = failed.request.take() else {
            return Ok(failed.end(held)?);
        };
        let endpoint = Rc::clone(failed.lease.endpoint());
        if unreached {
            failed.lease.unreached();
        }
        let Some((away, elsewhere)) = failed.lease.step_back(sent) else {
            return Ok(failed.end(held)?);
        };
        // However the wait for the next attempt ends, which is not this endpoint's doing: its
        // client may leave meanwhile.
        failed.count();
        record.upstream.blame_no_more();
        let stats = &endpoint.stats;
        if !elsewhere {
            let random = fastrand::u64(..);
            let pause = policy.back_off.before(self.history.get().repeats, random);
            if !self.pause(record, pause).await {
                return Ok(failed.end(held)?);
            }
        }
        match self.queue(record, away.again()).await? {
            Ok(lease) => {
                stats.retries.increment();
                if let Some((trace, word)) = self.plan.trace.as_ref().zip(failed.word(policy)) {
                    trace.again(word);
                }
                if let Some(response) = failed.response {
                    *held = Some(Box::new(Answer::now(response, failed.lease)));
                }
                Ok(Next::Attempt(lease, request))
            }
            Err(None) => Ok(failed.end(held)?),
            Err(Some(refusal)) if failed.response.is_some() || held.is_some() => {
                tracing::debug!(reason = refusal.reason.name(), "a request is not repeated");
                Ok(failed.end(held)?)
            }
            Err(Some(refusal)) if refusal.reason == RefusalReason::NoEndpoint => {
                Ok(failed.end(held)?)
            }
            Err(Some(refusal)) => Err(self.turned_away(record, &refusal, request.headers())),
        }
    }

    /// Waits before an endpoint is tried again; returns false if the route's time does not
    /// allow for it.
    async fn pause(&self, record: &Record, pause: Duration) -> bool {
        let now = Instant::now();
        if self
            .plan
            .deadline(record)
            .is_some_and(|at| at <= now + pause)
        {
            return false;
        }
        self.plan.stream.wait();
        sleep(pause).await;
        true
    }

    /// Makes an attempt, and a second one beside it if the first is slow. The first answer
    /// is taken; the other attempt is cancelled.
    pub(super) async fn hedged(
        &self,
        lease: Lease,
        request: Box<Request<RequestBody>>,
        due: Due<'_>,
        delay: Duration,
    ) -> Result<Answer, Box<Failed>> {
        let upstream = self.plan.upstream;
        let ticket = lease.ticket();
        // A body can go to one endpoint at a time.
        let ticket = ticket.filter(|_| self.upload.is_none() && self.is_safe(&request));
        let Some((ticket, class)) = ticket else {
            return self.attempt(lease, request, due).await;
        };
        let spare = Spare::of(&request);
        let due = Due {
            own_timers: true,
            ..due
        };
        let sent = Sent::with(&lease);
        let seen = Due {
            sent: Some(&sent),
            ..due
        };
        let mut first = Box::pin(self.attempt(lease, request, seen));
        if let Ok(outcome) = timeout(delay, first.as_mut()).await {
            return outcome;
        }
        let Some(second) = upstream.hedge(ticket, class) else {
            return first.await;
        };
        second.endpoint().stats.hedges.increment();
        if let Some(trace) = &self.plan.trace {
            trace.again("hedge");
        }
        let mut second = Box::pin(self.attempt(second, spare.request(), due));
        let (mut failed, other) = tokio::select! {
            outcome = &mut first => match outcome {
                Ok(answer) => return Ok(answer),
                Err(failed) => (failed, second),
            },
            outcome = &mut second => match outcome {
                Ok(answer) => {
                    sent.overtaken_by(&answer);
                    return Ok(answer);
                }
                Err(failed) => (failed, first),
            },
        };
        // A response that is not wanted is better than none; else what came
        // last counts, as with repetitions, but time that is up is up.
        let stands = failed.response.is_some() || failed.reason == Reason::RouteTimeout;
        if !stands {
            failed.count();
            // Its place is free while the other attempt goes on.
            drop(failed);
            return other.await;
        }
        other.await.map_err(|other| {
            let (told, mut untold) = match other.response {
                None => (failed, other),
                Some(_) => (other, failed),
            };
            untold.count();
            told
        })
    }
}
