//! The types that a driver and an uplink exchange.

use crate::counterfactual::Network;
use crate::slots::SlotKey;
use crate::{ClassSpec, Discipline, MAX_CLASSES, Marking, Size, Time, WireCost};

/// The identity of an open flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlowId(pub(super) SlotKey);

impl FlowId {
    /// Returns a small integer, unique among the open flows, for the driver's tables.
    pub fn index(self) -> usize {
        self.0.index()
    }

    /// Returns the number of the flow's slot.
    pub(super) fn slot(self) -> u32 {
        self.0.slot()
    }
}

/// The identity of an open group of flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GroupId(pub(super) SlotKey);

impl GroupId {
    /// Returns a small integer, unique among the open groups, for a driver's tables.
    pub(crate) fn index(self) -> usize {
        self.0.index()
    }
}

/// The precedence that a client gives to a response (RFC 9218 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Precedence {
    /// The urgency: 0 is served before 7, and more than 7 counts as 7.
    pub urgency: u8,
    /// Whether the response is of use before it is complete. Incremental responses of the same
    /// urgency share, byte by byte, and come after the others.
    pub incremental: bool,
}

impl Default for Precedence {
    /// Returns the precedence of a response for which the client gives none.
    fn default() -> Self {
        Self {
            urgency: 3,
            incremental: false,
        }
    }
}

/// A flow's properties, as its driver states them when it opens the flow.
#[derive(Clone, Copy, Debug)]
pub struct FlowSpec {
    /// The index into [`EgressPolicy::classes`]; one past the end means the last class.
    pub class: usize,
    /// Bytes that the flow is going to write, response head included.
    pub size: Size,
    /// The cost of the flow's bytes on the wire.
    pub cost: WireCost,
    /// The number of the client that the flow belongs to, a hash perhaps, for
    /// [`EgressPolicy::share_between_clients`]; none if that is not known.
    pub client: Option<u64>,
    /// The network that the flow's client is in, for the sums of a
    /// [`Counterfactual`](crate::Counterfactual); it decides nothing.
    pub network: Option<Network>,
    /// The lane that the flow waits in.
    pub lane: Lane,
    /// The number by which the driver knows the flow again in a [`Survey`](crate::Survey); it
    /// decides nothing.
    pub origin: u32,
}

impl FlowSpec {
    /// Returns a flow of no known client, by itself in the order.
    pub fn new(class: usize, size: Size, cost: WireCost) -> Self {
        Self {
            class,
            size,
            cost,
            client: None,
            network: None,
            lane: Lane::Ordered,
            origin: 0,
        }
    }

    /// Returns the same flow with the number of its client, if that is known.
    #[must_use]
    pub fn of_client(self, client: Option<u64>) -> Self {
        Self { client, ..self }
    }

    /// Returns the same flow with the network of its client, if that is known.
    #[must_use]
    pub fn of_network(self, network: Option<Network>) -> Self {
        Self { network, ..self }
    }

    /// Returns the same flow with a number for surveys.
    #[must_use]
    pub fn of_origin(self, origin: u32) -> Self {
        Self { origin, ..self }
    }

    /// Returns the same flow in another lane.
    #[must_use]
    pub fn in_lane(self, lane: Lane) -> Self {
        Self { lane, ..self }
    }
}

/// The lane that a flow waits in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lane {
    /// The discipline's order, in which the flow stands by itself.
    #[default]
    Ordered,
    /// The discipline's order, in which the flow stands with others of its connection; the client
    /// gives it this precedence among them. If a class bounds how many of its flows are served at
    /// a time, the precedence does not count.
    Grouped(GroupId, Precedence),
    /// The fast path's lane, for what [`Egress::fast_path`] has refused. It has half of what is
    /// granted while other flows wait. Neither class nor size counts.
    ///
    /// [`Egress::fast_path`]: crate::Egress::fast_path
    Express,
}

/// The answer to the question whose turn it is: a grant to a flow, or how long to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grant {
    /// A grant: `flow` writes `bytes` now. It has left the queue: call
    /// [`Egress::written`], then [`Egress::offer`] if it has more.
    ///
    /// [`Egress::written`]: crate::Egress::written
    /// [`Egress::offer`]: crate::Egress::offer
    Send {
        /// The flow that is granted bytes.
        flow: FlowId,
        /// The bytes granted: at least 1, at most what it has offered.
        bytes: u64,
    },
    /// The link is busy, or a class waits for its rate: ask again at `until`.
    Wait {
        /// The time at which a flow may be granted bytes, in the future.
        until: Time,
    },
    /// The order has no flow that may be granted anything: ask again after the next
    /// [`Egress::offer`] (or, if a class's pool is full, [`Egress::close`]).
    ///
    /// [`Egress::offer`]: crate::Egress::offer
    /// [`Egress::close`]: crate::Egress::close
    Idle,
}

/// The error that as many flows are open as may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{max_flows} flows are open, as many as `max_flows` allows")]
pub struct AtCapacity {
    /// The most flows that may be open.
    pub max_flows: usize,
}

/// The policy by which an uplink orders its flows, all of which may change while it is in use.
#[derive(Clone, Debug, PartialEq)]
pub struct EgressPolicy {
    /// The discipline, which says whose turn it is within a class.
    pub discipline: Discipline,
    /// The most flows that are open at a time.
    pub max_flows: usize,
    /// The factor of the guard against floods, see [`Guard::new`](crate::Guard::new).
    pub guard_factor: f64,
    /// The priority classes, [`MAX_CLASSES`] at most; an empty list is one class of level 0.
    /// After a change each class has the number that it had, and one that is missing at the end
    /// is of level 0.
    pub classes: Vec<ClassSpec>,
    /// The percentage of the link, [`MAX_FLOOR_PERCENT`](crate::MAX_FLOOR_PERCENT) at most, for
    /// the flow that has gone longest without a grant; 0 is the discipline's order alone. Where
    /// classes have rates, weights or pools of their own it is that part of each class's share.
    /// Under disciplines that let no flow starve, such as `fcfs` and `fair`, it is for lower
    /// levels alone.
    pub floor_percent: u8,
    /// Whether clients ([`FlowSpec::client`]) share each class's part of the link, whatever
    /// numbers of flows they have. A flow of no known client is one by itself. A class with a
    /// bound on the flows that are served at a time keeps the discipline's order, and so does
    /// what goes ahead of everything. Under `fair`, `bands`, `srq` and `sfd`, which have flows
    /// take turns, it changes nothing.
    pub share_between_clients: bool,
    /// The bytes that a grant covers.
    pub grants: Grants,
    /// The rule that marks flows under an order that does not ask for marks.
    /// [`Discipline::Sfd`] marks them by its own rule.
    pub marking: Option<Marking>,
}

impl EgressPolicy {
    /// Returns the policy of a discipline alone: no classes, no floor and no shares, for 65,536
    /// flows.
    pub fn new(discipline: Discipline) -> Self {
        Self {
            discipline,
            max_flows: 65_536,
            guard_factor: 4.0,
            classes: Vec::new(),
            floor_percent: 0,
            share_between_clients: false,
            grants: Grants::Quanta,
            marking: None,
        }
    }

    /// Applies the bounds, and adds classes of level 0 until there are as many as the `known`
    /// ones.
    pub(super) fn bounded(mut self, known: usize) -> Self {
        self.max_flows = self.max_flows.min(u32::MAX as usize - 1);
        self.classes.truncate(MAX_CLASSES);
        let classes = self.classes.len().max(known).max(1);
        self.classes.resize(classes, ClassSpec::default());
        self
    }
}

/// The bytes that a grant covers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Grants {
    /// Bytes that occupy the link for some 300 us, a segment at least.
    #[default]
    Quanta,
    /// All that a flow has offered, for a driver that cannot cut what it has to write: an
    /// Envoy filter lets a chunk go whole, or holds it.
    Whole,
}

/// Counts of what an uplink has granted and debited so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EgressStats {
    /// The number of grants made so far.
    pub grants: u64,
    /// Payload bytes granted, less what was refunded.
    pub granted_bytes: u64,
    /// Wire bytes debited outside grants: set-up, heads, acknowledgements.
    pub overhead_bytes: u64,
    /// All wire bytes that the link's clock was debited, less what was
    /// refunded: how far the uplink has come. Overhead beyond the bound of
    /// [`Egress::debit`](crate::Egress::debit) is not in it.
    /// [`RateControl`](crate::RateControl) measures the link in it.
    pub wire_bytes: u64,
    /// The number of times that the fast path's guard tripped.
    pub guard_trips: u64,
    /// The number of arrivals that wanted to go ahead of all flows and had to wait for their
    /// turns.
    pub fast_path_refusals: u64,
}

/// Counts of a class's flows, and of what they were granted so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EgressClassStats {
    /// The number of flows that are open now.
    pub open_flows: usize,
    /// The number of flows opened so far.
    pub opened: u64,
    /// Payload bytes granted, less what was refunded.
    pub granted_bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that no flow gets the last number of a slot, which stands for none. The last number
    /// of a place in a heap stands for none, too.
    #[test]
    fn flows_are_fewer_than_slots_have_numbers() {
        let bounded = |max_flows| {
            let policy = EgressPolicy {
                max_flows,
                ..EgressPolicy::new(Discipline::Srpt)
            };
            policy.bounded(0).max_flows
        };
        assert_eq!(bounded(7), 7);
        assert_eq!(bounded(usize::MAX), u32::MAX as usize - 1);
    }
    #[test]
    fn open_groups_are_numbered_from_0_and_numbers_come_again() {
        let policy = EgressPolicy::new(Discipline::Srpt);
        let mut egress = crate::Egress::new(crate::Pacer::exact(8_000_000), policy);
        let groups: [GroupId; 3] = std::array::from_fn(|_| egress.open_group());
        assert_eq!(groups.map(GroupId::index), [0, 1, 2]);
        egress.close_group(Time::ZERO, groups[1]);
        assert_eq!(egress.open_group().index(), 1);
    }
}
