//! The flows that are ready, and how much one of them may write.

use std::time::Duration;

use super::arbiter::{Arbiter, SlotTurn, need_arbiter};
use crate::classes::ClassSpec;
use crate::queue::{Positions, Rank};
use crate::srq::Line;
use crate::{Pacer, Time, WireCost};

/// The time for which a quantum occupies the link, about: a small response that arrives just
/// after a grant waits for so long.
const QUANTUM: Duration = Duration::from_micros(300);

/// The most wire bytes of a quantum, so that no flow puts more in flight. They have room for the
/// most that the proxy reads at once from a backend (408 KB), which then is written as it was
/// read.
const QUANTUM_MAX_BYTES: u64 = 448 << 10;

/// The least payload of a grant in classes that take what others leave, or have a rate of
/// their own: 578 bytes on the wire. At low rates a segment occupies the link for longer
/// than a quantum should, and these writes are what the others wait for. Other classes get
/// a segment at least, for headers cost more the smaller a grant is.
const BACKGROUND_MIN_BYTES: u64 = 512;

/// The flow that is next, if any may be granted.
pub(crate) enum Next {
    /// The slot whose flow is next, which is no longer ready.
    Slot(u32),
    /// The earliest time at which a flow may be granted anything.
    At(Time),
    /// The queue has no flow that may be granted anything.
    Idle,
}

/// The flows that are ready, in order.
#[derive(Clone, Debug)]
pub(super) enum Ready {
    /// A line of all flows by rank, which begins with the class's level.
    Ranked(Box<(Line, Positions)>),
    /// An arbiter, which chooses the class first, then a flow in it.
    Arbited(Box<Arbiter>),
}

impl Ready {
    /// Creates the set of ready flows, which is empty. If the first queue has a share, flows are
    /// in queues; see [`Line`]. `by_terms` compares classes by deadlines and values.
    pub(super) fn new(
        classes: &[ClassSpec],
        by_terms: bool,
        link: &Pacer,
        first_share_percent: Option<u8>,
    ) -> Self {
        if need_arbiter(classes, by_terms) {
            let arbiter = Arbiter::new(classes, link, first_share_percent);
            Self::Arbited(Box::new(arbiter))
        } else {
            let line = Line::new(first_share_percent);
            Self::Ranked(Box::new((line, Positions::default())))
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::Ranked(own) => own.0.len(),
            Self::Arbited(arbiter) => arbiter.len(),
        }
    }

    /// Takes the flow that is next on a link that is free.
    pub(super) fn next(&mut self, now: Time) -> Next {
        match self {
            Self::Ranked(own) => match own.0.first() {
                None => Next::Idle,
                Some((_, slot)) => {
                    own.0.remove(&mut own.1, slot);
                    Next::Slot(slot)
                }
            },
            Self::Arbited(arbiter) => match arbiter.take(now) {
                SlotTurn::Slot(slot) => Next::Slot(slot),
                SlotTurn::Idle { until: Some(until) } => Next::At(until),
                SlotTurn::Idle { until: None } => Next::Idle,
            },
        }
    }

    /// Returns two facts of the flow that is next once the link is free: whether its class takes
    /// what others leave, and its rank.
    pub(super) fn first(&self, now: Time) -> Option<(bool, Rank)> {
        match self {
            Self::Ranked(own) => own.0.first().map(|(rank, _)| (false, rank)),
            Self::Arbited(arbiter) => arbiter.first(now),
        }
    }

    /// Returns the least turn among the ready flows with the class and band of `like`. It is
    /// known only if that flow is the first of all flows here, or of its class.
    pub(super) fn least_turn(&self, class: usize, like: Rank) -> Option<u64> {
        let first = match self {
            Self::Ranked(own) => own.0.first().map(|(rank, _)| rank),
            Self::Arbited(arbiter) => arbiter.least(class),
        };
        // Without an arbiter a level is one class's.
        let first = first.filter(|rank| (rank.level, rank.band) == (like.level, like.band))?;
        Some(first.key)
    }

    /// Returns the payload bytes of one grant: whole segments, at least one.
    pub(super) fn quantum(&self, link: &Pacer, class: usize, cost: WireCost) -> u64 {
        let (own, background) = match self {
            Self::Ranked(_) => (None, false),
            Self::Arbited(arbiter) => arbiter.bounds(class),
        };
        let mut wire_bytes = link.bytes_in(QUANTUM).min(QUANTUM_MAX_BYTES);
        if let Some(own) = own {
            wire_bytes = wire_bytes.min(own.bytes_in(QUANTUM));
        }
        let mss = u64::from(cost.mss.max(1));
        let overhead = u64::from(cost.segment_overhead);
        let segments = wire_bytes / (mss + overhead);
        if background && segments == 0 {
            let overhead = overhead + u64::from(cost.record_overhead);
            let bytes = wire_bytes.saturating_sub(overhead);
            return bytes.max(BACKGROUND_MIN_BYTES).min(cost.payload_in(1));
        }
        cost.payload_in(segments.max(1))
    }

    pub(super) fn insert(&mut self, now: Time, class: usize, slot: u32, rank: Rank) {
        match self {
            Self::Ranked(own) => own.0.insert(&mut own.1, slot, rank),
            Self::Arbited(arbiter) => arbiter.insert(now, class, slot, rank),
        }
    }

    pub(super) fn remove(&mut self, class: usize, slot: u32) {
        match self {
            Self::Ranked(own) => {
                own.0.remove(&mut own.1, slot);
            }
            Self::Arbited(arbiter) => arbiter.remove(class, slot),
        }
    }

    /// Charges the queue of a flow of this rank; see [`Line::charge`].
    pub(super) fn charge(&mut self, class: usize, rank: &Rank, wire_bytes: u64) {
        match self {
            Self::Ranked(own) => own.0.charge(rank, wire_bytes),
            Self::Arbited(arbiter) => arbiter.charge(class, rank, wire_bytes),
        }
    }

    /// Takes back bytes that a queue was charged with; see [`Line::refund`].
    pub(super) fn refund_queue(&mut self, class: usize, rank: &Rank, wire_bytes: u64) {
        match self {
            Self::Ranked(own) => own.0.refund(rank, wire_bytes),
            Self::Arbited(arbiter) => arbiter.refund_queue(class, rank, wire_bytes),
        }
    }

    /// Returns about how many payload bytes a grant of full segments has on a link: those of one
    /// segment at least.
    pub(super) fn grant_bytes(link: &Pacer) -> u64 {
        let bytes = link.bytes_in(QUANTUM).min(QUANTUM_MAX_BYTES);
        bytes.max(WireCost::ETHERNET_IPV4.payload_in(1))
    }

    /// Returns whether classes take turns.
    pub(super) fn is_arbited(&self) -> bool {
        matches!(self, Self::Arbited(_))
    }

    /// Returns whether a class bounds how many of its flows are served at a time.
    pub(super) fn is_limited(&self, class: usize) -> bool {
        match self {
            Self::Ranked(_) => false,
            Self::Arbited(arbiter) => arbiter.is_limited(class),
        }
    }

    /// Returns whether a flow has no place in its class's pool, and needs one to be served.
    pub(super) fn lacks_place(&self, class: usize, slot: u32) -> bool {
        match self {
            Self::Ranked(_) => false,
            Self::Arbited(arbiter) => arbiter.lacks_place(class, slot),
        }
    }

    /// Returns whether a flow has a place in its class's pool that another one waits for.
    pub(super) fn is_place_wanted(&self, class: usize, slot: u32) -> bool {
        match self {
            Self::Ranked(_) => false,
            Self::Arbited(arbiter) => arbiter.is_place_wanted(class, slot),
        }
    }

    /// Returns the earliest time at which a ready flow may send on a link that is free.
    pub(super) fn next_at(&self) -> Option<Time> {
        match self {
            Self::Ranked(own) => own.0.first().map(|_| Time::ZERO),
            Self::Arbited(arbiter) => arbiter.next_turn_at(),
        }
    }

    /// Returns whether a class's own rate lets it send.
    pub(super) fn may_send(&self, class: usize, now: Time) -> bool {
        match self {
            Self::Ranked(_) => true,
            Self::Arbited(arbiter) => arbiter.may_send(class, now),
        }
    }

    /// Returns the flow that is given the next place in a class's pool, if one is free.
    pub(super) fn next_for_pool(&self, class: usize) -> Option<u32> {
        match self {
            Self::Ranked(_) => None,
            Self::Arbited(arbiter) => arbiter.next_for_pool(class),
        }
    }

    // What only classes need to know.

    pub(super) fn open(&mut self, now: Time, class: usize) {
        if let Self::Arbited(arbiter) = self {
            arbiter.open(now, class);
        }
    }

    pub(super) fn take_over(&mut self, now: Time, before: &Self) {
        if let (Self::Arbited(arbiter), Self::Arbited(before)) = (self, before) {
            arbiter.take_over(now, before);
        }
    }

    pub(super) fn seat(&mut self, class: usize, slot: u32) {
        if let Self::Arbited(arbiter) = self {
            arbiter.seat(class, slot);
        }
    }

    pub(super) fn close(&mut self, class: usize, slot: u32) {
        if let Self::Arbited(arbiter) = self {
            arbiter.close(class, slot);
        }
    }

    pub(super) fn announce(&mut self, now: Time) {
        if let Self::Arbited(arbiter) = self {
            arbiter.announce(now);
        }
    }

    pub(super) fn retract(&mut self) {
        if let Self::Arbited(arbiter) = self {
            arbiter.retract();
        }
    }

    pub(super) fn debit(&mut self, now: Time, class: usize, wire_bytes: u64, link: &Pacer) {
        if let Self::Arbited(arbiter) = self {
            arbiter.debit(now, class, wire_bytes, link.time_for(wire_bytes));
        }
    }

    pub(super) fn refund(&mut self, now: Time, class: usize, wire_bytes: u64) {
        if let Self::Arbited(arbiter) = self {
            arbiter.refund(now, class, wire_bytes);
        }
    }
}
