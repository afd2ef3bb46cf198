//! Requests that wait for an endpoint where none can be reached.

use std::sync::Arc;

use http::HeaderMap;
use sprat_net::error::Denial;
use sprat_scheduler::station::{Arrival, RefusalReason};
use sprat_upstream::{Awaiting, Lease};
use tokio::time::Instant;

use super::outcome::{Failed, Next};
use super::upstream_request::Exchange;
use crate::exchange::record::Record;

/// A request's wait for an endpoint, if it has to wait: from the first attempt that failed.
#[derive(Default)]
pub(super) struct EndpointPatience(Option<Awaiting>);

impl EndpointPatience {
    /// Notes that an endpoint has answered.
    pub(super) fn served(&mut self) {
        self.0.iter_mut().for_each(Awaiting::served);
    }
}

impl Exchange<'_> {
    /// Finds an endpoint for a request. If all are away, the request waits for one, where
    /// the cluster has it wait.
    pub(super) async fn place(
        &self,
        record: &mut Record,
        arrival: &Arrival,
        patience: &mut EndpointPatience,
        asked: &HeaderMap,
    ) -> Result<Lease, Denial> {
        let upstream = self.plan.upstream;
        let dispatched = upstream.dispatch(arrival, self.plan.session);
        let refusal = match self.queue(record, dispatched).await? {
            Ok(lease) => return Ok(lease),
            Err(refusal) => refusal,
        };
        if refusal.reason == RefusalReason::NoHealthyEndpoint && upstream.waits_for_endpoint() {
            let waits = Box::pin(self.await_endpoint(record, arrival, patience, asked));
            if let Some(lease) = waits.await? {
                return Ok(lease);
            }
        }
        Err(self.turned_away(record, &refusal, asked))
    }

    /// Finds the next attempt for a request of which nothing was sent, since its endpoint is
    /// away (`Step::Wait`). The next endpoint is one that it has not tried, or any that is back
    /// while the request may wait.
    pub(super) async fn wait_out(
        &self,
        record: &mut Record,
        mut failed: Failed,
        arrival: &Arrival,
        patience: &mut EndpointPatience,
    ) -> Result<Next, Denial> {
        let Some(request) = failed.request.take() else {
            return Ok(failed.end(&mut None)?);
        };
        failed.lease.unreached();
        // However the wait ends, which is not this endpoint's doing.
        failed.count();
        record.upstream.blame_no_more();
        let stats = Arc::clone(&failed.lease.endpoint().stats);
        let found = match failed.lease.step_back(false) {
            Some((away, true)) => self.queue(record, away.again()).await?.ok(),
            _ => None,
        };
        let found = match found {
            Some(lease) => Some(lease),
            None => {
                let asked = request.headers();
                self.await_endpoint(record, arrival, patience, asked)
                    .await?
            }
        };
        let Some(lease) = found else {
            return Ok(failed.end(&mut None)?);
        };
        stats.retries.increment();
        Ok(Next::Attempt(lease, request))
    }

    /// Asks for an endpoint again and again. Returns none if the time is up, or if as many
    /// requests wait as may.
    async fn await_endpoint(
        &self,
        record: &mut Record,
        arrival: &Arrival,
        EndpointPatience(patience): &mut EndpointPatience,
        asked: &HeaderMap,
    ) -> Result<Option<Lease>, Denial> {
        let upstream = self.plan.upstream;
        let began = Instant::now();
        if patience.is_none() {
            *patience = upstream.await_endpoint(began);
        }
        let Some(awaiting) = patience else {
            return Ok(None);
        };
        loop {
            self.plan.stream.wait();
            let deadline = self.plan.deadline(record);
            let waiting = record.upstream.wait(None);
            let goes_on = awaiting.pause(deadline).await;
            drop(waiting);
            if !goes_on {
                return Ok(None);
            }
            let dispatched = upstream.dispatch(arrival, self.plan.session);
            match self.queue(record, dispatched).await? {
                Ok(lease) => return Ok(Some(lease)),
                Err(refusal) if refusal.reason == RefusalReason::NoHealthyEndpoint => {}
                Err(refusal) => return Err(self.turned_away(record, &refusal, asked)),
            }
        }
    }
}
