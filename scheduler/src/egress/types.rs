//! What a driver tells an uplink, and is told.

use crate::{ClassSpec, Discipline, Pacer, Size, Time, WireCost};

#[cfg(doc)]
use crate::{Egress, Guard};

/// An open flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlowId {
    pub(super) slot: u32,
    pub(super) generation: u32,
}

impl FlowId {
    /// A small integer, unique among the open flows, for the driver's tables.
    pub fn index(self) -> usize {
        self.slot as usize
    }
}

/// What a driver says of a flow when it opens it.
#[derive(Clone, Copy, Debug)]
pub struct FlowSpec {
    /// Index into [`EgressConfig::classes`]; the last one if past it.
    pub class: usize,
    /// Bytes that the flow is going to write, response head included.
    pub size: Size,
    /// What its bytes cost on the wire.
    pub cost: WireCost,
    /// Whose it is, by a number that the driver gives clients (a hash will do), for
    /// [`Egress::share_between_clients`]; none if that is not known.
    pub client: Option<u64>,
}

/// Whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grant {
    /// `flow` writes `bytes` now. It has left the queue: call
    /// [`Egress::sent`], then [`Egress::ready`] if it has more.
    Send {
        /// The flow.
        flow: FlowId,
        /// At least 1, at most what it said was ready.
        bytes: u64,
    },
    /// The link is busy: ask again at `until`.
    Wait {
        /// In the future.
        until: Time,
    },
    /// No flow is ready: ask again after the next [`Egress::ready`] (or, if a
    /// class's pool is full, [`Egress::close`]).
    Idle,
}

/// As many flows are open as may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{max_flows} flows are open, as many as `max_flows` allows")]
pub struct AtCapacity {
    /// The bound.
    pub max_flows: usize,
}

/// An uplink's parameters.
#[derive(Clone, Debug)]
pub struct EgressConfig {
    /// Whom to serve first.
    pub discipline: Discipline,
    /// The link.
    pub pacer: Pacer,
    /// Flows open at a time.
    pub max_flows: usize,
    /// See [`Guard::new`].
    pub guard_factor: f64,
    /// Priority classes, [`MAX_CLASSES`](crate::classes::MAX_CLASSES) at most; none is one class of level
    /// 0.
    pub classes: Vec<ClassSpec>,
}

/// What may become of an uplink's order while it is in use; see
/// [`Egress::reconfigure`].
#[derive(Clone, Debug, PartialEq)]
pub struct EgressChange {
    /// Whom to serve first. What one has learnt is kept if it is the same.
    pub discipline: Discipline,
    /// Flows open at a time; those that are, stay.
    pub max_flows: usize,
    /// See [`Guard::new`].
    pub guard_factor: f64,
    /// Priority classes, each under the number that it had; one that is
    /// missing at the end becomes one of level 0.
    pub classes: Vec<ClassSpec>,
}

/// What happened so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EgressStats {
    /// Grants made.
    pub grants: u64,
    /// Payload bytes granted, less what was refunded.
    pub granted_bytes: u64,
    /// Wire bytes debited outside grants: set-up, heads, acknowledgements.
    pub overhead_bytes: u64,
    /// All wire bytes that the link's clock was debited, less what was
    /// refunded: how far the uplink has come. Overhead beyond the bound of
    /// [`Egress::debit`] is not in it. [`RateControl`](crate::RateControl) measures the link in it.
    pub wire_bytes: u64,
    /// Times that the fast path's guard tripped.
    pub guard_trips: u64,
    /// What wanted to go ahead of all flows and had to wait for its turn.
    pub fast_path_refusals: u64,
}

/// What happened so far in a class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EgressClassStats {
    /// Flows open now.
    pub open_flows: usize,
    /// Flows opened so far.
    pub opened: u64,
    /// Payload bytes granted, less what was refunded.
    pub granted_bytes: u64,
}
