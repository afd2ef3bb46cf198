//! The bounds that a search for the rate must not break.

use super::measured::MeasuredNetwork;
use super::outcome::NetworkOutcome;
use super::system::System;

/// The least goodput, over that of `unlimited`.
const GOODPUT_LEAST: f64 = 0.99;

/// The most mean response time, over the better of `fair` and `unlimited`.
const MEAN_MOST: f64 = 1.05;

/// The most mean response time of the largest 1%, over that of `unlimited`.
const LARGEST_MOST: f64 = 1.3;

/// The figures of a system, compared with doing nothing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct SystemVerdict {
    /// The goodput over that of `unlimited`.
    pub(super) goodput: f64,
    /// The mean response time over the better of `fair` and `unlimited`.
    pub(super) mean: f64,
    /// The mean response time of the largest 1% over that of `unlimited`.
    pub(super) largest: f64,
}

impl SystemVerdict {
    /// Judges a system's outcome; `None` unless `unlimited` was measured.
    pub(super) fn of(measured: &MeasuredNetwork, outcome: &NetworkOutcome) -> Option<Self> {
        let of = |wanted: System| {
            let found = measured
                .outcomes
                .iter()
                .find(|(system, _)| *system == wanted);
            found.map(|(_, outcome)| outcome)
        };
        let unlimited = of(System::Unlimited)?;
        let best_ms = of(System::Fair).map_or(f64::INFINITY, |fair| fair.mean_ms);
        Some(Self {
            goodput: outcome.goodput_mbit_per_s / unlimited.goodput_mbit_per_s,
            mean: outcome.mean_ms / best_ms.min(unlimited.mean_ms),
            largest: outcome.largest1_ms / unlimited.largest1_ms,
        })
    }

    /// Returns the bounds that the system breaks, in words.
    pub(super) fn breaches(&self) -> Vec<&'static str> {
        let mut breaches = Vec::new();
        if self.goodput < GOODPUT_LEAST {
            breaches.push("goodput");
        }
        if self.mean > MEAN_MOST {
            breaches.push("mean");
        }
        if self.largest > LARGEST_MOST {
            breaches.push("largest 1%");
        }
        breaches
    }
}
