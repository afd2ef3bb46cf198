//! The ledger: what has been granted and debited, and what the open flows have left.

use super::flows::Flow;
use super::types::{EgressClassStats, EgressStats};

/// The sums of an uplink and of its classes.
#[derive(Clone, Debug)]
pub(super) struct Ledger {
    pub(super) stats: EgressStats,
    pub(super) classes: Vec<EgressClassStats>,
    /// The payload bytes granted, less what was given back, by mark.
    pub(super) marked_bytes: [u64; 2],
    /// The payload bytes that the flows of each class have left, as far as known.
    unsent_bytes: Vec<u128>,
    /// The payload bytes that the flows in the fast path's lane have left.
    express_unsent_bytes: u128,
}

impl Ledger {
    /// Creates a ledger in which nothing has been counted.
    pub(super) fn new(classes: usize) -> Self {
        Self {
            stats: EgressStats::default(),
            classes: vec![EgressClassStats::default(); classes],
            marked_bytes: [0; 2],
            unsent_bytes: vec![0; classes],
            express_unsent_bytes: 0,
        }
    }

    /// Follows a change of the classes, of which there are never fewer than before.
    pub(super) fn resize(&mut self, classes: usize) {
        self.classes.resize(classes, EgressClassStats::default());
        self.unsent_bytes.resize(classes, 0);
    }

    /// Counts a flow that is opened.
    pub(super) fn open(&mut self, flow: &mut Flow) {
        self.classes[flow.class()].open_flows += 1;
        self.classes[flow.class()].opened += 1;
        self.recount(flow);
    }

    /// Counts a flow that is closed.
    pub(super) fn close(&mut self, flow: &mut Flow) {
        self.classes[flow.class()].open_flows -= 1;
        self.set_unsent(flow, 0);
    }

    /// Counts a grant of `bytes` to a flow, which are `wire_bytes` on the link.
    pub(super) fn grant(&mut self, flow: &mut Flow, bytes: u64, wire_bytes: u64) {
        self.stats.grants += 1;
        self.extend(flow, bytes, wire_bytes);
    }

    /// Counts a response of `bytes` that was served at once, without a flow.
    pub(super) fn count_at_once(&mut self, class: usize, bytes: u64, wire_bytes: u64) {
        let class = &mut self.classes[class];
        class.opened += 1;
        class.granted_bytes = class.granted_bytes.saturating_add(bytes);
        self.stats.grants += 1;
        self.stats.granted_bytes = self.stats.granted_bytes.saturating_add(bytes);
        self.stats.wire_bytes = self.stats.wire_bytes.saturating_add(wire_bytes);
    }

    /// Counts bytes that were granted, or written beyond a grant.
    pub(super) fn extend(&mut self, flow: &mut Flow, bytes: u64, wire_bytes: u64) {
        let class = &mut self.classes[flow.class()];
        class.granted_bytes = class.granted_bytes.saturating_add(bytes);
        if let Some(mark) = flow.granted_mark {
            let marked = &mut self.marked_bytes[mark.index()];
            *marked = marked.saturating_add(bytes);
        }
        self.stats.granted_bytes = self.stats.granted_bytes.saturating_add(bytes);
        self.stats.wire_bytes = self.stats.wire_bytes.saturating_add(wire_bytes);
        self.recount(flow);
    }

    /// Takes back bytes that were granted and not written.
    pub(super) fn give_back(&mut self, flow: &mut Flow, bytes: u64, wire_bytes: u64) {
        self.classes[flow.class()].granted_bytes -= bytes;
        if let Some(mark) = flow.granted_mark {
            self.marked_bytes[mark.index()] -= bytes;
        }
        self.stats.granted_bytes -= bytes;
        self.stats.wire_bytes = self.stats.wire_bytes.saturating_sub(wire_bytes);
        self.recount(flow);
    }

    /// Counts bytes that no grant covered, of which the link's clock has `taken` so many.
    pub(super) fn debit(&mut self, wire_bytes: u64, taken: u64) {
        self.stats.overhead_bytes = self.stats.overhead_bytes.saturating_add(wire_bytes);
        self.stats.wire_bytes = self.stats.wire_bytes.saturating_add(taken);
    }

    /// Takes back bytes that no grant covered and that did not go out.
    pub(super) fn refund(&mut self, wire_bytes: u64) {
        self.stats.overhead_bytes = self.stats.overhead_bytes.saturating_sub(wire_bytes);
        self.stats.wire_bytes = self.stats.wire_bytes.saturating_sub(wire_bytes);
    }

    /// Updates the sums by what a flow has left.
    pub(super) fn recount(&mut self, flow: &mut Flow) {
        let left = match flow.view.size.bytes() {
            Some(bytes) => {
                bytes.saturating_sub(flow.view.attained.saturating_add(flow.granted_bytes))
            }
            None => 0,
        };
        self.set_unsent(flow, left.max(flow.offered_bytes));
    }

    fn set_unsent(&mut self, flow: &mut Flow, unsent_bytes: u64) {
        let sum = match flow.is_express {
            true => &mut self.express_unsent_bytes,
            false => &mut self.unsent_bytes[flow.class()],
        };
        *sum += u128::from(unsent_bytes);
        *sum -= u128::from(std::mem::replace(&mut flow.unsent_bytes, unsent_bytes));
    }

    /// Sums up the payload bytes that are left in some classes, and in the fast path's
    /// lane.
    pub(super) fn unsent_bytes(&self, counts: impl Fn(usize) -> bool) -> u64 {
        let classes = self.unsent_bytes.iter().enumerate();
        let counted = classes.filter(|&(class, _)| counts(class));
        let bytes: u128 = counted.map(|(_, bytes)| bytes).sum();
        u64::try_from(bytes + self.express_unsent_bytes).unwrap_or(u64::MAX)
    }
}
