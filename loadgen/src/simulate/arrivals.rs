//! The arrivals of a simulation: requests with their times, sizes and classes.

use sprat_scheduler::Time;

use super::sizes::SizeDistribution;
use crate::workload::Dice;

/// A request of a simulation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct SimulatedRequest {
    pub(super) at: Time,
    pub(super) bytes: u64,
    /// The draw of the resource among all, smallest first, uniform in [0, 1).
    pub(super) resource: f64,
    /// The draw of the class, uniform in [0, 1).
    pub(super) class: f64,
    /// A number for the choices that the core leaves to chance.
    pub(super) random: u64,
}

/// Poisson arrivals of independent requests, from a seed.
pub(super) struct Arrivals {
    dice: Dice,
    sizes: SizeDistribution,
    gap_ns: f64,
    /// The time of the last arrival, in floating point so that rounding does not add up.
    at_ns: f64,
    left: usize,
}

impl Arrivals {
    /// Makes the arrivals of `count` requests, one in `gap_s` seconds on average.
    pub(super) fn new(seed: u64, sizes: SizeDistribution, gap_s: f64, count: usize) -> Self {
        Self {
            dice: Dice::new(seed),
            sizes,
            gap_ns: gap_s * 1e9,
            at_ns: 0.0,
            left: count,
        }
    }
}

impl Iterator for Arrivals {
    type Item = SimulatedRequest;

    fn next(&mut self) -> Option<SimulatedRequest> {
        self.left = self.left.checked_sub(1)?;
        self.at_ns += self.dice.exponential() * self.gap_ns;
        let resource = self.dice.uniform();
        Some(SimulatedRequest {
            at: Time::from_nanos(self.at_ns as u64),
            bytes: self.sizes.quantile_bytes(resource),
            resource,
            class: self.dice.uniform(),
            random: self.dice.bits(),
        })
    }
}
