//! The round-trip times of a connection, and how they vary (RFC 6298).

use std::time::Duration;

/// The round-trip times that a sender has seen.
#[derive(Clone, Copy, Debug)]
pub(super) struct RoundTrips {
    /// The smoothed round-trip time; none before the first.
    pub(super) smoothed: Option<Duration>,
    /// The smoothed distance from it.
    pub(super) variance: Duration,
    /// The least of all; [`Duration::MAX`] before the first.
    pub(super) least: Duration,
}

impl RoundTrips {
    pub(super) const NONE: Self = Self {
        smoothed: None,
        variance: Duration::ZERO,
        least: Duration::MAX,
    };

    /// Notes a round trip that took `rtt`.
    pub(super) fn add(&mut self, rtt: Duration) {
        self.least = self.least.min(rtt);
        match &mut self.smoothed {
            Some(smoothed) => {
                let off = rtt.abs_diff(*smoothed);
                self.variance = (3 * self.variance + off) / 4;
                *smoothed = (7 * *smoothed + rtt) / 8;
            }
            None => {
                self.smoothed = Some(rtt);
                self.variance = rtt / 2;
            }
        }
    }
}
