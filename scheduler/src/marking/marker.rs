//! A router's marker, which tells flows apart by their packets.

use std::collections::BTreeMap;

use super::{FlowMarks, Mark, Marking};
use crate::Time;

/// A marker of many flows that remembers a bounded number of them. A flow that was forgotten is new
/// again (SFD02 3.2: edge routers need not keep flow state forever).
#[derive(Clone, Debug)]
pub struct Marker<K> {
    marking: Marking,
    max_flows: usize,
    flows: BTreeMap<K, MarkedFlow>,
    /// The flows by their last packet, the oldest first.
    by_use: BTreeMap<u64, K>,
    /// The number of the next packet, by which `by_use` is ordered.
    next_use: u64,
}

#[derive(Clone, Copy, Debug)]
struct MarkedFlow {
    marks: FlowMarks,
    used: u64,
}

impl<K: Ord + Clone> Marker<K> {
    /// Returns a marker that knows no flows, and remembers `max_flows` at most; 0 counts
    /// as 1.
    pub fn new(marking: Marking, max_flows: usize) -> Self {
        Self {
            marking,
            max_flows: max_flows.max(1),
            flows: BTreeMap::new(),
            by_use: BTreeMap::new(),
            next_use: 0,
        }
    }

    /// Marks a packet of `bytes` of a flow; see [`Marking::mark`].
    pub fn mark(&mut self, flow: &K, now: Time, bytes: u64, draw: f64) -> Mark {
        let mut marks = FlowMarks::default();
        match self.flows.get(flow) {
            Some(known) => {
                marks = known.marks;
                self.by_use.remove(&known.used);
            }
            None if self.flows.len() >= self.max_flows => {
                if let Some((_, oldest)) = self.by_use.pop_first() {
                    self.flows.remove(&oldest);
                }
            }
            None => {}
        }
        let mark = self.marking.mark(&mut marks, now, bytes, draw);
        let used = self.next_use;
        self.next_use += 1;
        self.by_use.insert(used, flow.clone());
        self.flows.insert(flow.clone(), MarkedFlow { marks, used });
        mark
    }

    /// Returns the number of flows that are remembered.
    pub fn len(&self) -> usize {
        self.flows.len()
    }

    /// Returns whether no flow is remembered.
    pub fn is_empty(&self) -> bool {
        self.flows.is_empty()
    }
}
