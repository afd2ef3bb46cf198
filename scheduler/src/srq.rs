//! SRQ: size-adaptive queues with deadlines and values (SRQ06 III).
//!
//! A request begins in the first of a few queues, and goes to the next once it has used up its
//! queue's quantum of service. Most of the service goes to the first queue, the rest to the others
//! by their members ([`Credits`]); within a queue, the request with the least priority goes, a mix
//! of deadline and value ([`Terms`]). Once an interval the queues are adapted to what has passed
//! ([`Queues`]): a last queue in which nothing ends is merged into the one before it, one whose
//! requests differ much is split, and quanta grow or shrink. A [`Switch`] has all of this begin
//! when the system is busy.
//!
//! The driver says what is served, and in which unit: payload bytes on an uplink
//! ([`Discipline::Srq`](crate::Discipline::Srq)), nanoseconds at a server. The same calls give the
//! same answers: shares are credits, not chances, so that orders are exact.

mod credits;
mod line;
mod queues;
mod ranking;
mod server;
mod switch;
mod terms;

use std::time::Duration;

pub use credits::Credits;
pub(crate) use line::Line;
pub use queues::{Progress, Queues, Stats};
pub(crate) use ranking::Ranking;
pub use server::{Server, Used};
pub use switch::{Switch, Trigger};
pub use terms::{Terms, Weight};

/// The most queues that SRQ may have.
pub const MAX_QUEUES: usize = 16;

/// The most that a quantum may grow to: 2^40, bytes or nanoseconds.
pub const MAX_QUANTUM: u64 = 1 << 40;

/// The parameters of SRQ. The defaults are those of SRQ06's table I, where it has them.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The weight of deadlines against values.
    pub alpha: Weight,
    /// The time between two adaptations.
    pub interval: Duration,
    /// The bound on the share of a queue's departures that go on to the next queue; above it the
    /// queue's quantum grows.
    pub t_fail: f64,
    /// The bound on deviation over mean of what ended in the last queue; above it that queue is
    /// split.
    pub t_split: f64,
    /// The bound on deviation over mean of what ended in a queue; above it the queue's quantum
    /// shrinks.
    pub t_desc: f64,
    /// The factor by which a quantum grows; above 1.
    pub adj_i: f64,
    /// The part of the mean by which a quantum shrinks.
    pub adj_d: f64,
    /// The soft deadline of a class that has no deadline of its own.
    pub soft_deadline: Duration,
    /// The hard deadline of a class that has no deadline of its own.
    pub deadline: Duration,
    /// The percentage of service that the first queue with members ready has, from 1 to 100.
    pub first_share_percent: u8,
    /// The quanta to begin with, one less than queues.
    pub quanta: Vec<u64>,
    /// The fewest and the most queues; 2 to [`MAX_QUEUES`].
    pub queues: (usize, usize),
    /// The least and the most that a quantum may come to; the second is [`MAX_QUANTUM`] at
    /// most.
    pub quantum_bounds: (u64, u64),
    /// The number of departures from a queue below which an interval says nothing of the queue.
    pub samples_min: u64,
    /// The condition under which the queues order.
    pub trigger: Trigger,
}

impl Config {
    /// Returns the parameters for an uplink, in bytes: SRQ06's, and where it gives none the
    /// quanta 10 KB and 100 KB, 2 to 16 queues, 20 departures, always on.
    pub fn bytes() -> Self {
        Self {
            alpha: Weight::from_ratio(0.2),
            interval: Duration::from_secs(60),
            t_fail: 0.6,
            t_split: 1.0,
            t_desc: 1.0,
            adj_i: 2.0,
            adj_d: 0.2,
            soft_deadline: Duration::from_secs(2),
            deadline: Duration::from_secs(2),
            first_share_percent: 90,
            quanta: vec![10 << 10, 100 << 10],
            queues: (2, MAX_QUEUES),
            quantum_bounds: (1460, MAX_QUANTUM),
            samples_min: 20,
            trigger: Trigger::Always,
        }
    }

    /// Returns the same parameters for a server, in nanoseconds of service: the quanta are
    /// 50 ms, after which SRQ06's figure 3 has a request lose its priority, and 500 ms.
    pub fn nanoseconds() -> Self {
        const MS: u64 = 1_000_000;
        Self {
            quanta: vec![50 * MS, 500 * MS],
            quantum_bounds: (MS, MAX_QUANTUM),
            ..Self::bytes()
        }
    }

    /// Brings each parameter that has bounds within them.
    fn bounded(mut self) -> Self {
        let (fewest, most) = self.queues;
        let fewest = fewest.clamp(2, MAX_QUEUES);
        self.queues = (fewest, most.clamp(fewest, MAX_QUEUES));
        let (least, largest) = self.quantum_bounds;
        let largest = largest.clamp(1, MAX_QUANTUM);
        self.quantum_bounds = (least.clamp(1, largest), largest);
        self.quanta.truncate(self.queues.1 - 1);
        // The last of them has twice the quantum before it.
        while self.quanta.len() < self.queues.0 - 1 {
            let last = self.quanta.last().map_or(1, |last| last.saturating_mul(2));
            self.quanta.push(last);
        }
        let (least, largest) = self.quantum_bounds;
        for quantum in &mut self.quanta {
            *quantum = (*quantum).clamp(least, largest);
        }
        self.interval = self.interval.max(Duration::from_nanos(1));
        self.first_share_percent = self.first_share_percent.clamp(1, 100);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_servers_quanta_are_times() {
        let config = Config::nanoseconds();
        assert_eq!(config.quanta, [50_000_000, 500_000_000]);
        assert_eq!(config.quantum_bounds, (1_000_000, MAX_QUANTUM));
        assert_eq!(config.first_share_percent, 90);
    }
}
