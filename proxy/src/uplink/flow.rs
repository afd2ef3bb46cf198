//! A response's place on the uplink.

use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use sprat_scheduler::{AtCapacity, FlowId, FlowSpec, GroupId, Precedence, Size, Time, WireCost};

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
        class: usize,
        size: Size,
        cost: WireCost,
        place: Option<(GroupId, Precedence)>,
    ) -> Result<Self, AtCapacity> {
        let now = worker.link.now();
        let mut state = worker.link.lock();
        let spec = FlowSpec { class, size, cost };
        let id = match place {
            None => state.egress.open(now, spec)?,
            Some((group, precedence)) => state.egress.open_in(now, spec, group, precedence)?,
        };
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
