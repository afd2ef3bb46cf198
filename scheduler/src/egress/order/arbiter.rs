//! The choice of the class that sends next: strict levels, then weights; rate limits, limited
//! pools, and classes that take what the others leave.
//!
//! Weights are start-time fair queueing over classes (Goyal, Vin and Cheng 1996), in bytes: a
//! class that has nothing to send, or may not, saves up nothing.

mod idle;

use std::time::Duration;

use crate::classes::{ClassSpec, MAX_LEVELS};
use crate::queue::{Positions, Rank};
use crate::srq::Line;
use crate::{Pacer, Time};
use idle::IdleGate;

/// The number of bits of fraction in a class's virtual time, so that a byte counts at any weight.
const FRACTION: u32 = 10;

/// The time over which a class catches up with its own rate, if it could not send because the
/// link was taken.
const RATE_HOLDS_OVER: Duration = Duration::from_secs(1);

/// The slot whose turn it is, if any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SlotTurn {
    /// The slot whose flow is next, which is no longer in the queue.
    Slot(u32),
    /// The link stays idle until `until`; without one, until something else happens.
    Idle { until: Option<Time> },
}

/// A class's place in the order: the least goes first. The order of the fields is the
/// policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ClassKey {
    idle_only: bool,
    level: u8,
    virtual_time: u128,
    index: usize,
}

/// The flows that are ready, by class.
#[derive(Clone, Debug)]
pub(super) struct Arbiter {
    classes: Vec<Class>,
    /// The virtual time of the class served last at each level.
    virtual_times: [u128; MAX_LEVELS],
    /// The position of each flow, by slot.
    positions: Positions,
    /// Whether each slot's flow has a place in its class's pool, where that is limited.
    seated: Vec<bool>,
    ready: usize,
    gate: IdleGate,
}

/// A flow that is the first of its class: of several the least.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct FirstFlow {
    rank: Rank,
    slot: u32,
    /// Whether the flow has a place in its class's pool.
    seated: bool,
}

#[derive(Clone, Debug)]
struct Class {
    level: u8,
    weight: u32,
    idle_only: bool,
    /// Whether the class's responses hold the background back.
    foreground: bool,
    /// The virtual clock of the class's aggregate rate.
    pacer: Option<Pacer>,
    /// The time at which a flow of the class last came, or was granted bytes.
    active_at: Time,
    /// The bytes sent over the weight. 64 bits would be full after a fortnight at 100 Gbit/s, and
    /// classes at the end of time are no longer told apart.
    virtual_time: u128,
    /// The number of places in the class's pool; `usize::MAX` if it has no limit.
    pool: usize,
    /// The number of places in the pool that are taken.
    taken: usize,
    /// The ready flows with a place; all of them if the pool is not limited.
    seated: Line,
    /// The ready flows that wait for a place.
    unseated: Line,
}

impl Class {
    fn new(spec: &ClassSpec, link: &Pacer, first_share_percent: Option<u8>) -> Self {
        let pacer = |rate| {
            // Runs ahead as much as the link's own.
            let mut pacer = link.clone();
            pacer.change_rate(Time::ZERO, rate);
            pacer.with_credit(RATE_HOLDS_OVER)
        };
        Self {
            level: spec.level.min(MAX_LEVELS as u8 - 1),
            weight: spec.weight.max(1),
            idle_only: spec.idle_only,
            // One with a limit of its own waits for that, not for the link.
            foreground: !spec.idle_only && spec.rate_bits_per_s.is_none(),
            pacer: spec.rate_bits_per_s.map(pacer),
            active_at: Time::ZERO,
            virtual_time: 0,
            pool: spec.max_concurrency,
            taken: 0,
            seated: Line::new(first_share_percent),
            unseated: Line::new(first_share_percent),
        }
    }

    fn is_limited(&self) -> bool {
        self.pool < usize::MAX
    }

    /// Returns the first of the class's flows that may send.
    fn first(&self) -> Option<FirstFlow> {
        let flow = |rank, slot, seated| FirstFlow { rank, slot, seated };
        let seated = self.seated.first();
        let seated = seated.map(|(rank, slot)| flow(rank, slot, true));
        let next = self.next_for_pool();
        let next = next.map(|(rank, slot)| flow(rank, slot, false));
        seated.into_iter().chain(next).min()
    }

    /// Returns the flow that is given the next place, if one is free.
    fn next_for_pool(&self) -> Option<(Rank, u32)> {
        self.unseated.first().filter(|_| self.taken < self.pool)
    }

    /// Returns whether the class's own rate lets it send.
    fn may_send(&self, now: Time) -> bool {
        let at = self.pacer.as_ref().map(Pacer::next_grant_at);
        at.is_none_or(|at| at <= now)
    }

    /// Notes that a flow comes. If the class had none, its own rate is lost for that time.
    fn wake(&mut self, now: Time) {
        let idle = now.since(std::mem::replace(&mut self.active_at, now));
        if let Some(pacer) = &mut self.pacer
            && self.seated.len() + self.unseated.len() == 0
        {
            pacer.skip(now, idle);
        }
    }

    fn virtual_bytes(&self, wire_bytes: u64) -> u128 {
        (u128::from(wire_bytes) << FRACTION) / u128::from(self.weight)
    }
}

impl Arbiter {
    /// Creates an arbiter with no flow ready; `link` is the uplink's pacer, not yet used. If the
    /// first queue has a share, flows of a class are in queues.
    pub(super) fn new(specs: &[ClassSpec], link: &Pacer, first_share_percent: Option<u8>) -> Self {
        let class = |spec| Class::new(spec, link, first_share_percent);
        Self {
            classes: specs.iter().map(class).collect(),
            virtual_times: [0; MAX_LEVELS],
            positions: Positions::default(),
            seated: Vec::new(),
            ready: 0,
            gate: IdleGate::new(),
        }
    }

    /// Takes over what classes owe their own rates from the arbiter before; no flow is ready here
    /// yet.
    pub(super) fn take_over(&mut self, now: Time, before: &Self) {
        for (own, before) in self.classes.iter_mut().zip(&before.classes) {
            if let (Some(pacer), Some(of_before)) = (&mut own.pacer, &before.pacer) {
                let rate = pacer.rate_bits_per_s();
                pacer.clone_from(of_before);
                pacer.change_rate(now, rate);
                own.active_at = before.active_at;
            }
        }
    }

    /// Gives a place to a flow that has begun and is not ready, even if none is free.
    pub(super) fn seat(&mut self, class: usize, slot: u32) {
        let class = &mut self.classes[class];
        if !class.is_limited() {
            return;
        }
        let index = slot as usize;
        if self.seated.len() <= index {
            self.seated.resize(index + 1, false);
        }
        if !std::mem::replace(&mut self.seated[index], true) {
            class.taken += 1;
        }
    }

    /// Counts the flows that are ready.
    pub(super) fn len(&self) -> usize {
        self.ready
    }

    /// Notes that a flow has been opened.
    pub(super) fn open(&mut self, now: Time, class: usize) {
        if self.classes[class].foreground {
            self.gate.enter(now);
        }
    }

    /// Lets go of a flow that is over, and not ready.
    pub(super) fn close(&mut self, class: usize, slot: u32) {
        let class = &mut self.classes[class];
        if class.foreground {
            self.gate.leave();
        }
        if let Some(seated) = self.seated.get_mut(slot as usize)
            && std::mem::take(seated)
        {
            class.taken -= 1;
        }
    }

    /// Notes that a response in the foreground is to come.
    pub(super) fn announce(&mut self, now: Time) {
        self.gate.enter(now);
    }

    /// Notes that the announced response has come, or will not.
    pub(super) fn retract(&mut self) {
        self.gate.leave();
    }

    /// Makes a flow ready, or gives it another rank.
    pub(super) fn insert(&mut self, now: Time, class: usize, slot: u32, rank: Rank) {
        let class = &mut self.classes[class];
        class.wake(now);
        if class.foreground {
            self.gate.alive(now);
        }
        let index = slot as usize;
        if class.is_limited() && self.seated.len() <= index {
            self.seated.resize(index + 1, false);
        }
        let has_place = !class.is_limited() || self.seated[index];
        let heap = if has_place {
            &mut class.seated
        } else {
            &mut class.unseated
        };
        let before = heap.len();
        heap.insert(&mut self.positions, slot, rank);
        self.ready += heap.len() - before;
    }

    /// Returns the least rank of a class's ready flows, whether they have a place or not.
    pub(super) fn least(&self, class: usize) -> Option<Rank> {
        let class = &self.classes[class];
        let heaps = [class.seated.first(), class.unseated.first()];
        heaps.into_iter().flatten().map(|(rank, _)| rank).min()
    }

    /// Removes a flow from the ready ones, if it is among them.
    pub(super) fn remove(&mut self, class: usize, slot: u32) {
        let class = &mut self.classes[class];
        let has_place = !class.is_limited() || self.seated.get(slot as usize) == Some(&true);
        let heap = if has_place {
            &mut class.seated
        } else {
            &mut class.unseated
        };
        if heap.remove(&mut self.positions, slot) {
            self.ready -= 1;
        }
    }

    /// Takes the flow whose turn it is, now that the link is free.
    pub(super) fn take(&mut self, now: Time) -> SlotTurn {
        let mut until: Option<Time> = None;
        let mut wait = |at: Time| until = Some(until.map_or(at, |until| until.min(at)));
        let mut best: Option<(ClassKey, FirstFlow)> = None;
        for (index, class) in self.classes.iter().enumerate() {
            let Some(first) = class.first() else {
                continue;
            };
            if let Some(pacer) = &class.pacer
                && pacer.next_grant_at() > now
            {
                wait(pacer.next_grant_at());
                continue;
            }
            let reached = self.virtual_times[usize::from(class.level)];
            let key = ClassKey {
                idle_only: class.idle_only,
                level: class.level,
                virtual_time: class.virtual_time.max(reached),
                index,
            };
            if best.is_none_or(|(other, _)| key < other) {
                best = Some((key, first));
            }
        }
        let Some((key, first)) = best else {
            return SlotTurn::Idle { until };
        };
        if key.idle_only
            && let Some(at) = self.gate.hold(now)
        {
            wait(at);
            return SlotTurn::Idle { until };
        }
        self.gate.settle(now);
        self.virtual_times[usize::from(key.level)] = key.virtual_time;
        self.classes[key.index].virtual_time = key.virtual_time;
        self.take_out(key.index, first.slot, first.seated);
        SlotTurn::Slot(first.slot)
    }

    /// Returns two facts of the first flow of all classes that may send, weights aside: whether
    /// its class takes what others leave, and its rank.
    pub(super) fn first(&self, now: Time) -> Option<(bool, Rank)> {
        let classes = self.classes.iter().filter(|class| class.may_send(now));
        let first = classes.filter_map(|class| Some((class.idle_only, class.first()?.rank)));
        first.min()
    }

    fn take_out(&mut self, class: usize, slot: u32, seated: bool) {
        let class = &mut self.classes[class];
        self.ready -= 1;
        if seated {
            class.seated.remove(&mut self.positions, slot);
            return;
        }
        class.unseated.remove(&mut self.positions, slot);
        class.taken += 1;
        self.seated[slot as usize] = true;
    }

    /// Charges a class with a grant of `wire_bytes`, which occupy the link for `time`.
    pub(super) fn debit(&mut self, now: Time, class: usize, wire_bytes: u64, time: Duration) {
        let class = &mut self.classes[class];
        let bytes = class.virtual_bytes(wire_bytes);
        class.virtual_time = class.virtual_time.saturating_add(bytes);
        class.active_at = now;
        if let Some(pacer) = &mut class.pacer {
            pacer.debit(now, wire_bytes);
        }
        if class.idle_only {
            self.gate.earn(time);
        }
    }

    /// Charges the queue of a flow of this rank; see [`Line::charge`].
    pub(super) fn charge(&mut self, class: usize, rank: &Rank, wire_bytes: u64) {
        self.classes[class].seated.charge(rank, wire_bytes);
    }

    /// Takes back bytes that a queue was charged with; see [`Line::refund`].
    pub(super) fn refund_queue(&mut self, class: usize, rank: &Rank, wire_bytes: u64) {
        self.classes[class].seated.refund(rank, wire_bytes);
    }

    /// Takes back `wire_bytes` of a grant that a flow of the class did not send.
    pub(super) fn refund(&mut self, now: Time, class: usize, wire_bytes: u64) {
        let class = &mut self.classes[class];
        let bytes = class.virtual_bytes(wire_bytes);
        class.virtual_time = class.virtual_time.saturating_sub(bytes);
        if let Some(pacer) = &mut class.pacer {
            pacer.refund(now, wire_bytes);
        }
    }

    /// Returns what bounds the size of a class's grants: the clock of its own rate, if it has
    /// one, and whether it is in no hurry, because it holds no other class back.
    pub(super) fn bounds(&self, class: usize) -> (Option<&Pacer>, bool) {
        let class = &self.classes[class];
        (class.pacer.as_ref(), !class.foreground)
    }

    /// Returns whether a class's own rate lets it send.
    pub(super) fn may_send(&self, class: usize, now: Time) -> bool {
        self.classes[class].may_send(now)
    }

    /// Returns the flow that is given the next place in a class's pool, if one is free.
    pub(super) fn next_for_pool(&self, class: usize) -> Option<u32> {
        let next = self.classes[class].next_for_pool();
        next.map(|(_, slot)| slot)
    }

    /// Returns whether a flow has no place in its class's pool, and needs one to be served.
    pub(super) fn lacks_place(&self, class: usize, slot: u32) -> bool {
        self.classes[class].is_limited() && self.seated.get(slot as usize) != Some(&true)
    }

    /// Returns whether a flow has a place in its class's pool that another one waits for.
    pub(super) fn is_place_wanted(&self, class: usize, slot: u32) -> bool {
        let class = &self.classes[class];
        let has_place = self.seated.get(slot as usize) == Some(&true);
        has_place && class.taken >= class.pool && class.unseated.len() > 0
    }

    /// Returns whether a class's pool has a bound.
    pub(super) fn is_limited(&self, class: usize) -> bool {
        self.classes[class].is_limited()
    }

    /// Returns the earliest time at which a class with a ready flow may send, as far as its own
    /// rate says.
    pub(super) fn next_turn_at(&self) -> Option<Time> {
        let ready = self.classes.iter().filter(|class| class.first().is_some());
        let at = ready.map(|class| {
            class
                .pacer
                .as_ref()
                .map_or(Time::ZERO, Pacer::next_grant_at)
        });
        at.min()
    }
}

/// Returns whether the uplink's order by class is more than an order by level: then a
/// single queue, whose ranks begin with the level, is not enough. Where classes are compared
/// by their deadlines and values (`by_terms`), those of one level and weight share a queue.
pub(super) fn need_arbiter(classes: &[ClassSpec], by_terms: bool) -> bool {
    let shared = |(index, class): (usize, &ClassSpec)| {
        let mut others = classes[index + 1..].iter();
        others
            .any(|other| other.level == class.level && !(by_terms && other.weight == class.weight))
    };
    let limited = |class: &ClassSpec| {
        class.idle_only || class.rate_bits_per_s.is_some() || class.max_concurrency < usize::MAX
    };
    classes.iter().any(limited) || classes.iter().enumerate().any(shared)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_alone_need_no_arbiter() {
        let level = |level| ClassSpec {
            level,
            ..ClassSpec::default()
        };
        assert!(!need_arbiter(&[], false));
        assert!(!need_arbiter(&[level(3), level(0), level(15)], false));
        assert!(need_arbiter(&[level(3), level(0), level(3)], false));
        assert!(!need_arbiter(&[level(3), level(0), level(3)], true));
        let heavy = ClassSpec {
            weight: 2,
            ..level(3)
        };
        assert!(need_arbiter(&[level(3), level(0), heavy], true));
        let with = |change: fn(&mut ClassSpec)| {
            let mut class = level(1);
            change(&mut class);
            need_arbiter(&[level(0), class], false)
        };
        assert!(with(|class| class.idle_only = true));
        assert!(with(|class| class.rate_bits_per_s = Some(1)));
        assert!(with(|class| class.max_concurrency = 5));
        assert!(!with(|class| class.value = 5));
    }

    #[test]
    fn the_least_of_a_class_is_so_without_a_place_too() {
        let limited = ClassSpec {
            max_concurrency: 1,
            ..ClassSpec::default()
        };
        let classes = [limited, ClassSpec::default()];
        let mut arbiter = Arbiter::new(&classes, &Pacer::exact(8_000), None);
        let rank = |key| Rank {
            level: 0,
            band: 0,
            key,
            seq: key,
        };
        assert_eq!(arbiter.least(0), None);
        for (slot, key) in [(0, 3), (1, 5)] {
            arbiter.insert(Time::ZERO, 0, slot, rank(key));
        }
        assert_eq!(arbiter.least(0), Some(rank(3)));
        // That has the only place; the other one waits for it.
        assert_eq!(arbiter.take(Time::ZERO), SlotTurn::Slot(0));
        assert_eq!(arbiter.least(0), Some(rank(5)));
        arbiter.insert(Time::ZERO, 0, 0, rank(4));
        assert_eq!(arbiter.least(0), Some(rank(4)));
        assert_eq!(arbiter.least(1), None);
    }
}
