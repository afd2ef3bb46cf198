//! The order in which flows get the uplink.

use crate::queue::Rank;
use crate::{Cutoffs, Size, SizeClasses, Time};

/// A scheduling discipline and its parameters.
#[derive(Clone, Debug, PartialEq)]
pub enum Discipline {
    /// First come, first served: the null policy.
    Fcfs,
    /// Round robin by bytes, what an unmodified server and kernel amount to
    /// (TOCS03's FAIR).
    Fair,
    /// Shortest remaining size first (Schrage and Miller 1966).
    Srpt,
    /// SRPT with a key that ages: remaining bytes + `ageing` x arrival time.
    /// The key of a waiting flow does not change, so ageing needs no re-sort,
    /// and no flow waits for one that arrived more than remaining / `ageing`
    /// after it.
    SrptAged {
        /// Bytes of advantage that each second of waiting gives.
        ageing_bytes_per_s: u64,
    },
    /// Strict priority between size classes, fair within each (TOCS03 2.2).
    Bands(Cutoffs),
}

/// What a discipline may look at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlowView {
    pub(crate) level: u8,
    pub(crate) seq: u64,
    pub(crate) arrival: Time,
    pub(crate) size: Size,
    /// Bytes sent so far.
    pub(crate) attained: u64,
    /// The flow's place in a round robin by bytes.
    pub(crate) turn: u64,
}

impl FlowView {
    /// Bytes left, as far as known; what was attained if not known, or if the
    /// flow has outgrown its estimate (it then never jumps ahead again).
    fn remaining(&self) -> u64 {
        match self.size {
            Size::Exact(bytes) => bytes.saturating_sub(self.attained),
            Size::Estimate { bytes, .. } if self.attained < bytes => bytes - self.attained,
            Size::Estimate { .. } | Size::Unknown => self.attained,
        }
    }
}

/// A discipline with the state it learns.
#[derive(Clone, Debug)]
pub(crate) struct Ranker {
    discipline: Discipline,
    classes: Option<SizeClasses>,
}

impl Ranker {
    pub(crate) fn new(discipline: Discipline) -> Self {
        let classes = match &discipline {
            Discipline::Bands(cutoffs) => Some(SizeClasses::new(cutoffs)),
            _ => None,
        };
        Self {
            discipline,
            classes,
        }
    }

    /// Whether [`FlowView::turn`] takes part in the rank.
    pub(crate) fn takes_turns(&self) -> bool {
        matches!(self.discipline, Discipline::Fair | Discipline::Bands(_))
    }

    pub(crate) fn band(&self, flow: &FlowView) -> u8 {
        self.classes
            .as_ref()
            .map_or(0, |classes| classes.class(flow.remaining()))
    }

    pub(crate) fn rank(&self, flow: &FlowView) -> Rank {
        let key = match self.discipline {
            Discipline::Fcfs => 0,
            Discipline::Fair | Discipline::Bands(_) => flow.turn,
            Discipline::Srpt => flow.remaining(),
            Discipline::SrptAged { ageing_bytes_per_s } => {
                let nanos = u128::from(flow.arrival.as_nanos());
                let age = nanos * u128::from(ageing_bytes_per_s) / 1_000_000_000;
                u64::try_from(age + u128::from(flow.remaining())).unwrap_or(u64::MAX)
            }
        };
        Rank {
            level: flow.level,
            band: self.band(flow),
            key,
            seq: flow.seq,
        }
    }

    /// Notes the whole size of a response.
    pub(crate) fn observe(&mut self, bytes: u64) {
        if let Some(classes) = &mut self.classes {
            classes.observe(bytes);
        }
    }

    pub(crate) fn cutoffs(&self) -> &[u64] {
        self.classes
            .as_ref()
            .map_or(&[], |classes| classes.cutoffs())
    }
}
