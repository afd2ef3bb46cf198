//! Networks with the outcome of each system, for comparison.

use super::outcome::NetworkOutcome;
use super::system::System;

/// A network, with the outcome of each system on it.
#[derive(Clone, Debug)]
pub(super) struct MeasuredNetwork {
    pub(super) name: String,
    pub(super) seed: u64,
    /// The least mean response time of any order, where it is known.
    pub(super) bound_ms: Option<f64>,
    /// The outcome of each system, in the systems' order.
    pub(super) outcomes: Vec<(System, NetworkOutcome)>,
}
