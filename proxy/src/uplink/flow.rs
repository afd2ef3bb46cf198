//! A response's place on the uplink.

use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use sprat_scheduler::{
    AtCapacity, Egress, FlowId, FlowSpec, GroupId, Precedence, Size, Time, WireCost,
};

use super::link::{Waiter, WorkerLink};

/// A response's place on the uplink, given up when dropped.
pub(crate) struct Flow {
    worker: Rc<WorkerLink>,
    id: FlowId,
    /// Bytes the flow is in the queue with.
    asked: u64,
    asked_at: Time,
    waited: Duration,
}

impl Flow {
    /// A new flow that has nothing to send yet; in HTTP/2, with its place
    /// among those of its connection.
    pub(crate) fn open(
        worker: &Rc<WorkerLink>,
        spec: FlowSpec,
        place: Option<(GroupId, Precedence)>,
    ) -> Result<Self, AtCapacity> {
        Self::enter(worker, |egress, now| match place {
            None => egress.open(now, spec),
            Some((group, precedence)) => egress.open_in(now, spec, group, precedence),
        })
    }

    /// A new flow of `bytes` that the fast path refused.
    pub(crate) fn open_express(
        worker: &Rc<WorkerLink>,
        class: usize,
        bytes: u64,
        cost: WireCost,
    ) -> Result<Self, AtCapacity> {
        let size = Size::Exact(bytes);
        let spec = FlowSpec {
            class,
            size,
            cost,
            // It goes ahead, or in the order of those that wanted to.
            client: None,
        };
        Self::enter(worker, |egress, now| egress.open_express(now, spec))
    }

    fn enter(
        worker: &Rc<WorkerLink>,
        open: impl FnOnce(&mut Egress, Time) -> Result<FlowId, AtCapacity>,
    ) -> Result<Self, AtCapacity> {
        let now = worker.link.now();
        let mut state = worker.link.lock();
        let id = open(&mut state.egress, now)?;
        if state.waiters.len() <= id.index() {
            state.waiters.resize_with(id.index() + 1, Waiter::default);
        }
        Ok(Self {
            worker: Rc::clone(worker),
            id,
            asked: 0,
            asked_at: now,
            waited: Duration::ZERO,
        })
    }

    /// Asks for the link with `available` bytes to send; ready with how many
    /// of them may be written now.
    pub(crate) fn poll_grant(&mut self, cx: &mut Context<'_>, available: u64) -> Poll<u64> {
        let now = self.worker.link.now();
        let mut state = self.worker.link.lock();
        let mut woken = Vec::new();
        if self.asked == 0 {
            self.asked_at = now;
        }
        if state.waiters[self.id.index()].granted == 0 && self.asked != available {
            state.egress.ready(now, self.id, available);
            self.asked = available;
            // Without a waker: a grant made here is fetched below.
            state.waiters[self.id.index()].waker = None;
            woken = self.worker.grant_due(&mut state, now);
        } else if state.timer_at.is_none() {
            // The worker whose timer was armed is gone.
            woken = self.worker.grant_due(&mut state, now);
        }
        let waiter = &mut state.waiters[self.id.index()];
        let granted = std::mem::take(&mut waiter.granted);
        if granted == 0 && !waiter.is_woken_by(cx.waker()) {
            waiter.waker = Some(cx.waker().clone());
        }
        drop(state);
        woken.into_iter().for_each(Waker::wake);
        if granted == 0 {
            return Poll::Pending;
        }
        self.asked = 0;
        self.waited += now.since(self.asked_at);
        Poll::Ready(granted)
    }

    /// The backend has nothing more for now.
    pub(crate) fn pause(&mut self) {
        let now = self.worker.link.now();
        self.worker.link.lock().egress.pause(now, self.id);
    }

    /// How long its bytes have waited for the uplink.
    pub(crate) fn waited(&self) -> Duration {
        self.waited
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        let now = self.worker.link.now();
        let mut state = self.worker.link.lock();
        let unused = std::mem::take(&mut state.waiters[self.id.index()]).granted;
        if unused == 0 {
            state.egress.sent(now, self.id, u64::MAX);
        }
        state.egress.close(now, self.id);
        let woken = self.worker.grant_due(&mut state, now);
        drop(state);
        woken.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::Arc;

    use sprat_scheduler::{Discipline, EgressConfig, Pacer};
    use tokio::task::{LocalSet, spawn_local};
    use tokio::time::timeout;

    use super::*;
    use crate::uplink::link::PacedLink;

    const MS: Duration = Duration::from_millis(1);

    fn open(worker: &Rc<WorkerLink>) -> Flow {
        let spec = FlowSpec {
            class: 0,
            size: Size::Exact(100_000),
            cost: WireCost::ETHERNET_IPV4,
            client: None,
        };
        Flow::open(worker, spec, None).unwrap()
    }

    async fn grant(flow: &mut Flow) -> u64 {
        poll_fn(|cx| flow.poll_grant(cx, 1_000)).await
    }

    #[tokio::test]
    async fn who_waits_for_the_timer_of_a_worker_that_ends_is_served_all_the_same() {
        let link = PacedLink::new(EgressConfig {
            discipline: Discipline::Srpt,
            // 1,000 bytes take about 0.2 s.
            pacer: Pacer::exact(40_000),
            max_flows: 8,
            guard_factor: 4.0,
            classes: Vec::new(),
        });
        let work = LocalSet::new();
        let served = work.run_until(async {
            let one = WorkerLink::new(Arc::clone(&link)).unwrap();
            let other = WorkerLink::new(Arc::clone(&link)).unwrap();
            let grants = spawn_local(Rc::clone(&other).run());
            let (mut first, mut second) = (open(&one), open(&other));
            grant(&mut first).await;
            // The first to wait arms the timer of its worker.
            assert!(timeout(MS, grant(&mut first)).await.is_err());
            let waits = spawn_local(async move { grant(&mut second).await });
            tokio::time::sleep(MS).await;
            drop((first, one));
            let served = timeout(10_000 * MS, waits).await;
            grants.abort();
            served
        });
        assert_eq!(served.await.unwrap().unwrap(), 1_000);
    }
}
