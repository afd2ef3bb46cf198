//! Flows as requests with deadlines and values: what moves them in the order besides their
//! grants. A key changes when a value falls, SRQ's queues change once an interval, and SRQ itself
//! is on or off by what waits.
//!
//! None of it needs a wake-up: the order counts only when a grant is made, and all changes that
//! are due by then are made before it.

use std::time::Duration;

use super::place::Place;
use super::ready::Ready;
use super::turns::Turns;
use super::{FlowOrder, MAX_BANDS};
use crate::egress::flows::{Flow, Flows};
use crate::egress::link::Link;
use crate::queue::Rank;
use crate::srq::{Progress, Queues};
use crate::{Size, Time};

impl FlowOrder {
    /// Returns SRQ's queues, and whether they order; none under another discipline.
    pub(crate) fn queues(&self) -> Option<(&Queues, bool)> {
        self.ranker.requests()?.queues()
    }

    /// Gives a flow that is opened its place among SRQ's queues: the first queue, or the one that
    /// its sent bytes have brought it to. A flow in the fast path's lane is in none.
    pub(super) fn enter_queues(&mut self, flow: &mut Flow) {
        if flow.is_express {
            return;
        }
        let queues = self.ranker.requests_mut().and_then(|own| own.queues_mut());
        if let Some(queues) = queues {
            flow.view.progress = match flow.view.attained {
                0 => queues.arrive(),
                attained => queues.place(attained),
            };
        }
    }

    /// Takes a flow that is over out of SRQ's queues: as done if it is complete, or else as
    /// cancelled.
    pub(super) fn leave_queues(&mut self, flow: &mut Flow) {
        let view = &mut flow.view;
        let progress = std::mem::take(&mut view.progress);
        let queues = self.ranker.requests_mut().and_then(|own| own.queues_mut());
        let Some(queues) = queues.filter(|_| !flow.is_express) else {
            return;
        };
        let is_whole = matches!(view.size, Size::Exact(bytes) if bytes <= view.attained);
        match flow.is_complete || is_whole {
            true => queues.done(progress, view.attained, view.attained),
            false => queues.cancel(progress),
        }
    }

    /// Lets a flow go on after a pause as a response of its own. The response before has ended,
    /// with this progress and the `attained` bytes.
    pub(crate) fn begin_anew(&mut self, flow: &mut Flow, progress: Progress, attained: u64) {
        if let Some(queues) = self.ranker.requests_mut().and_then(|own| own.queues_mut()) {
            queues.done(progress, attained, attained);
            flow.view.progress = queues.arrive();
        }
    }

    /// Moves a flow to the queue that its sent bytes have brought it to.
    pub(super) fn advance(&mut self, now: Time, flow: &mut Flow) {
        let Some(requests) = self.ranker.requests_mut() else {
            return;
        };
        requests.set_now(now);
        if let Some(queues) = requests.queues_mut() {
            queues.served(&mut flow.view.progress, flow.view.attained);
        }
    }

    /// Notes the time at which a waiting flow is to be ranked anew.
    pub(super) fn await_change(&mut self, flow: &Flow, slot: u32) {
        let requests = self.ranker.requests();
        match requests.and_then(|own| own.changes_at(&flow.view)) {
            Some(at) => self.changes.insert(
                slot,
                Rank {
                    level: 0,
                    band: 0,
                    key: at.as_nanos(),
                    seq: flow.view.seq,
                },
            ),
            None => self.forget_change(slot),
        }
    }

    /// Forgets the time at which a flow was to be ranked anew.
    pub(super) fn forget_change(&mut self, slot: u32) {
        self.changes.remove(slot);
    }

    /// Makes all changes that are due by `now`, before a grant.
    pub(super) fn catch_up(&mut self, now: Time, flows: &mut Flows, link: &Link) {
        let Some(requests) = self.ranker.requests_mut() else {
            return;
        };
        requests.set_now(now);
        let least = Ready::grant_bytes(link.pacer());
        let queues = requests.queues_mut();
        let is_merged = queues.is_some_and(|queues| queues.is_due(now) && queues.adapt(least));
        if is_merged {
            self.renew_places(now, flows, link);
        }
        // Each flow's value changes a bounded number of times, each time later than before.
        while let Some((rank, slot)) = self.changes.first() {
            if rank.key > now.as_nanos() {
                break;
            }
            self.changes.remove(slot);
            self.insert(now, flows, link, slot);
        }
    }

    /// Moves the flows of a last queue that no longer exists.
    fn renew_places(&mut self, now: Time, flows: &mut Flows, link: &Link) {
        for slot in flows.slots() {
            // One that is closed or in the fast path's lane is in the first queue, and stays.
            let flow = &mut flows[slot];
            let before = flow.view.progress.queue();
            if let Some((queues, _)) = self.queues() {
                queues.renew(&mut flow.view.progress);
            }
            if flow.waits() && flow.view.progress.queue() != before {
                self.insert(now, flows, link, slot);
            }
        }
    }

    /// Returns whether the order depends on what waits; see [`FlowOrder::observe`].
    pub(crate) fn observes(&self) -> bool {
        self.ranker.requests().is_some_and(|own| own.observes())
    }

    /// Notes what waits, as time on the link and as a number of flows. If that begins or ends a
    /// busy period, the waiting flows take their places in the other order, and a round begins.
    pub(crate) fn observe(&mut self, now: Time, flows: &mut Flows, link: &Link, backlog: Duration) {
        let waiting = self.len();
        let requests = self.ranker.requests_mut();
        if !requests.is_some_and(|own| own.observe(now, backlog, waiting)) {
            return;
        }
        self.turns = Turns::new(self.classes.len() * MAX_BANDS);
        self.places.iter_mut().for_each(Place::leave_round);
        for slot in flows.slots() {
            if flows[slot].waits() {
                self.insert(now, flows, link, slot);
            }
        }
    }
}
