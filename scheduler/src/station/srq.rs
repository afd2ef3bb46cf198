//! SRQ for the places of endpoints (SRQ06): the queues of requests in service, by the time that
//! each has been there, and what frees a place before a request is over.
//!
//! What was started cannot be paused. So a request that is under way beyond its quantum is demoted
//! instead: of all that are, no more than a small part of the places count as taken, and others
//! start in their stead. That helps where an endpoint shares its capacity among the requests that
//! it has; where it serves in order, those that are started wait there.
//!
//! Queues, priorities, adaptation and trigger are those of [`crate::srq`], with nanoseconds for
//! bytes.

use std::time::Duration;

use super::config::{Measured, SrqOrder};
use super::places::Overcommit;
use super::waiting::Placing;
use super::{RequestState, Slot, Station};
use crate::classes::ClassSpec;
use crate::discipline::FlowView;
use crate::queue::{Rank, RankQueue};
use crate::srq::{Progress, Queues, Ranking};
use crate::{Discipline, Mark, Size, Time};

/// SRQ's state at a station. A request is in a queue while it is in service.
#[derive(Clone, Debug)]
pub(super) struct SrqState {
    ranking: Ranking,
    overcommit: Overcommit,
    statistics: Measured,
    large_bytes: Option<u64>,
    /// The requests in service, by slot; what was left by others elsewhere.
    served: Vec<InService>,
    /// The requests in service that are not in the last queue, by the time at which their quanta
    /// are used up.
    demotions: RankQueue,
    /// Whether the trigger has turned since the waiting requests took their places.
    has_turned: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct InService {
    progress: Progress,
    started: Time,
    seq: u64,
}

impl SrqState {
    pub(super) fn new(
        order: &SrqOrder,
        max_requests: usize,
        classes: &[ClassSpec],
    ) -> Option<Self> {
        let discipline = Discipline::Srq(Box::new(order.queues.clone()));
        Some(Self {
            ranking: Ranking::new(&discipline, classes)?,
            overcommit: order.overcommit(max_requests),
            statistics: order.statistics,
            large_bytes: order.large_bytes,
            served: Vec::new(),
            demotions: RankQueue::default(),
            has_turned: false,
        })
    }

    /// Returns the queues, and whether they order.
    pub(super) fn queues(&self) -> Option<(&Queues, bool)> {
        self.ranking.queues()
    }

    fn is_on(&self) -> bool {
        self.queues().is_some_and(|(_, is_on)| is_on)
    }

    /// Returns by how much endpoints may be overcommitted now: not at all while the trigger is off.
    pub(super) fn overcommit(&self) -> Option<Overcommit> {
        self.is_on().then_some(self.overcommit)
    }

    /// Returns whether a response of this size is known to be large.
    pub(super) fn is_large(&self, size: Size) -> bool {
        let bytes = size.bytes().zip(self.large_bytes);
        bytes.is_some_and(|(bytes, large_bytes)| bytes >= large_bytes)
    }

    /// Returns a waiting request's place among those of its level, by the time noted last.
    pub(super) fn placing(&self, slot: &Slot) -> Placing {
        let request = FlowView {
            level: 0,
            seq: slot.seq,
            arrival: slot.arrived,
            size: Size::Unknown,
            attained: 0,
            // While the trigger is off all are equal, and the first to come goes first.
            turn: 0,
            mark: Mark::In,
            // There are no more than 32 classes.
            class: slot.class as u8,
            progress: Progress::default(),
        };
        Placing {
            band: u8::from(slot.is_large && self.is_on()),
            key: self.ranking.key(&request),
            changes_at: self.ranking.changes_at(&request),
        }
    }

    /// Notes the time by which waiting requests have their places.
    pub(super) fn set_now(&mut self, now: Time) {
        self.ranking.set_now(now);
    }

    /// Notes that so many requests wait since `now`.
    fn observe(&mut self, now: Time, waiting: usize) {
        self.ranking.set_now(now);
        self.has_turned |= self.ranking.observe(now, Duration::ZERO, waiting);
    }

    /// Takes a request that starts into a queue; returns whether that is not the first.
    pub(super) fn start(&mut self, now: Time, number: u32, slot: &Slot) -> bool {
        let Some(queues) = self.ranking.queues_mut() else {
            return false;
        };
        let progress = match slot.is_large {
            true => queues.arrive_in_second(),
            false => queues.arrive(),
        };
        let index = number as usize;
        if self.served.len() <= index {
            self.served.resize(index + 1, InService::default());
        }
        self.served[index] = InService {
            progress,
            started: now,
            seq: slot.seq,
        };
        self.await_demotion(now, number);
        progress.queue() > 0
    }

    /// Takes a request that came at `arrived` out of its queue, since its response has ended
    /// `whole`, or else counts nowhere. Returns whether the queue was not the first.
    pub(super) fn end(&mut self, now: Time, number: u32, arrived: Time, whole: bool) -> bool {
        self.demotions.remove(number);
        let own = self.served[number as usize];
        let attained = nanos(now.since(own.started));
        let measured = match self.statistics {
            Measured::Attained => attained,
            Measured::Elapsed => nanos(now.since(arrived)),
        };
        if let Some(queues) = self.ranking.queues_mut() {
            match whole {
                true => queues.done(own.progress, attained, measured),
                false => queues.cancel(own.progress),
            }
        }
        own.progress.queue() > 0
    }

    /// Notes when a request in service will have used up its quantum: never in the last queue. If
    /// that is past, for the quantum has shrunk, now.
    fn await_demotion(&mut self, now: Time, number: u32) {
        let own = self.served[number as usize];
        let queues = self.ranking.queues();
        let Some(after) = queues.and_then(|(queues, _)| queues.moves_at(&own.progress)) else {
            self.demotions.remove(number);
            return;
        };
        let at = (own.started + Duration::from_nanos(after)).max(now);
        let rank = Rank {
            level: 0,
            band: 0,
            key: at.as_nanos(),
            seq: own.seq,
        };
        self.demotions.insert(number, rank);
    }

    /// Moves the first request whose quantum is used up by `now` to the next queue. Its number is
    /// returned, and whether it was in the first queue before. The time that counts is when
    /// the quantum was used up, however late this is called.
    fn demote(&mut self, now: Time) -> Option<(u32, bool)> {
        let (rank, number) = self.demotions.first()?;
        let at = Time::from_nanos(rank.key);
        if at > now {
            return None;
        }
        let own = &mut self.served[number as usize];
        let attained = nanos(at.since(own.started));
        let was_first = own.progress.queue() == 0;
        if let Some(queues) = self.ranking.queues_mut() {
            queues.served(&mut own.progress, attained);
        }
        self.await_demotion(at, number);
        Some((number, was_first))
    }

    /// Returns when the present interval ended, if that was by `now`. The first call begins the
    /// first interval.
    fn ended_at(&mut self, now: Time) -> Option<Time> {
        let queues = self.ranking.queues_mut()?;
        let Some(end) = queues.adapts_at() else {
            queues.is_due(now);
            return None;
        };
        (end <= now).then_some(end)
    }

    /// Adapts the queues at the end of an interval, and begins the next.
    fn adapt(&mut self, end: Time) {
        if let Some(queues) = self.ranking.queues_mut() {
            queues.is_due(end);
            queues.adapt(0);
        }
    }

    /// Passes over the next intervals that end by `now` without a demotion: nothing has left a
    /// queue in them, so they change nothing, and after a quiet night there are many.
    fn skip_intervals(&mut self, now: Time) {
        let next = self.next_demotion().filter(|&next| next <= now);
        // What happens at the end of an interval belongs to it.
        let until = next.map_or(now, |next| next - Duration::from_nanos(1));
        if let Some(queues) = self.ranking.queues_mut() {
            queues.is_due(until);
        }
    }

    /// Brings a request in service up to queues that were adapted.
    fn renew(&mut self, now: Time, number: u32) {
        if let Some((queues, _)) = self.ranking.queues() {
            queues.renew(&mut self.served[number as usize].progress);
        }
        self.await_demotion(now, number);
    }

    /// Returns when the next request will have used up its quantum.
    fn next_demotion(&self) -> Option<Time> {
        let (rank, _) = self.demotions.first()?;
        Some(Time::from_nanos(rank.key))
    }

    /// Returns when a place may become free though no request ends: at a demotion, which a quantum
    /// that shrinks may bring about at the end of an interval, or when the trigger turns on.
    fn next_change(&self) -> Option<Time> {
        let Some((queues, true)) = self.queues() else {
            return self.ranking.turns_on_at();
        };
        let demotion = self.next_demotion()?;
        Some(queues.adapts_at().map_or(demotion, |at| at.min(demotion)))
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl Station {
    /// Returns SRQ's queues, and whether they order; none under another order.
    pub fn queues(&self) -> Option<(&Queues, bool)> {
        self.srq.as_ref()?.queues()
    }

    /// Goes on with the quanta that another station has come to under the same parameters.
    pub fn inherit_queues(&mut self, before: &Self) {
        let own = self.srq.as_mut().and_then(|own| own.ranking.queues_mut());
        if let (Some(own), Some((before, _))) = (own, before.queues()) {
            own.inherit(before);
        }
    }

    /// Returns when a waiting request may be able to start though none ends: a driver then calls
    /// [`Station::expire`]. `None` under another order than SRQ, and while no request waits.
    pub fn next_demotion(&self) -> Option<Time> {
        let srq = self.srq.as_ref().filter(|_| self.queues.total() > 0);
        srq?.next_change()
    }

    /// Makes the changes of SRQ's queues that are due by `now`, each at its time, and starts the
    /// requests that may start for that. Every call of the driver that may start a request begins
    /// with this.
    pub(super) fn catch_up(&mut self, now: Time) {
        self.observe_waiting(now);
        let Some(srq) = &mut self.srq else { return };
        let has_turned = std::mem::take(&mut srq.has_turned);
        let mut freed = Vec::new();
        while let Some(end) = self.srq.as_mut().and_then(|srq| srq.ended_at(now)) {
            self.demote_due(end, &mut freed);
            self.adapt_queues(end);
            if let Some(srq) = &mut self.srq {
                srq.skip_intervals(now);
            }
        }
        self.demote_due(now, &mut freed);
        if has_turned {
            self.reorder(now);
            return self.fill_all(now);
        }
        freed.sort_unstable();
        freed.dedup();
        for endpoint in freed {
            self.fill(now, Some(endpoint));
        }
    }

    /// Tells SRQ's trigger how many requests wait. In the middle of a change the number is wrong:
    /// some may be put aside.
    pub(super) fn observe_waiting(&mut self, now: Time) {
        if let Some(srq) = &mut self.srq {
            srq.observe(now, self.queues.total());
        }
    }

    /// Demotes the requests whose quanta are used up by `now`, and adds their endpoints to those at
    /// which a place was `freed`.
    fn demote_due(&mut self, now: Time, freed: &mut Vec<usize>) {
        let Some(srq) = &mut self.srq else { return };
        while let Some((number, was_first)) = srq.demote(now) {
            if let (RequestState::Running(endpoint), true) = (self.slots[number].state, was_first) {
                self.endpoints.demote(endpoint);
                freed.push(endpoint);
            }
        }
    }

    /// Adapts the queues at the end of an interval. Requests that quanta which have shrunk have
    /// overtaken are demoted then.
    fn adapt_queues(&mut self, end: Time) {
        let Some(srq) = &mut self.srq else { return };
        srq.adapt(end);
        for number in self.slots.numbers() {
            let is_running = matches!(self.slots[number].state, RequestState::Running(_));
            if self.slots.is_taken(number) && is_running {
                srq.renew(end, number);
            }
        }
    }

    /// Gives all waiting requests their places anew, since the trigger has turned.
    fn reorder(&mut self, now: Time) {
        let overcommit = self.srq.as_deref().and_then(SrqState::overcommit);
        self.endpoints.set_overcommit(overcommit);
        for queue in 0..self.queues.count() {
            for slot in self.queues.members(queue) {
                let entry = self.entry(slot);
                self.queues.remove(queue, entry.class, slot);
                self.queues.insert(now, queue, slot, &entry);
            }
        }
    }
}
