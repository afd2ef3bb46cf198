//! Priority classes: what a class means on the uplink and before a backend (SDIS02 section 2;
//! EH99).
//!
//! The uplink serves classes by strict level, then by weight. A class may have an aggregate rate
//! and a limited pool; an `idle_only` class takes what all the others leave. Inside a class the
//! discipline orders.

use std::time::Duration;

/// The number of priority levels; level 0 is served before level 1.
pub const MAX_LEVELS: usize = 16;

/// The most classes: few, because each is looked at to find who is next.
pub const MAX_CLASSES: usize = 32;

/// A priority class of requests and responses.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassSpec {
    /// Priority level, below [`MAX_LEVELS`]; 0 is served first.
    pub level: u8,
    /// The class's share of the uplink relative to the other classes of its level that have
    /// something to send; at least 1.
    pub weight: u32,
    /// The most requests in service at a time (EH99 4, the limited pool): at a station, over all
    /// its endpoints; on the uplink, responses that have begun and are not over.
    pub max_concurrency: usize,
    /// The rate that all responses of the class together get of the uplink, in bits per second on
    /// the wire (EH99 4, the third mechanism).
    pub rate_bits_per_s: Option<u64>,
    /// Whether the class sends only while no other class has anything ready, or begun and not yet
    /// over (EH99 7).
    pub idle_only: bool,
    /// The longest that a request may wait before it is refused, so that a starved request frees
    /// what it holds (SDIS02 5.5).
    pub timeout: Option<Duration>,
    /// The two shares of the queue's bound between which early discard takes more and more of the
    /// class's requests. From the second on it takes all, and an endpoint's queue is closed to
    /// the class (SDIS02 3.2).
    pub drop_thresholds: (f64, f64),
    /// The hard deadline (SRQ06's D), for ordering by deadline: the time from arrival after which
    /// a response that has not begun has no value.
    pub deadline: Option<Duration>,
    /// The soft deadline (SRQ06's D'): the time from arrival after which a response's value
    /// falls; the hard deadline if absent.
    pub soft_deadline: Option<Duration>,
    /// Whether a request that would begin after its deadline is refused, not delayed.
    pub drop_late: bool,
    /// The value of a request, for ordering by value: the highest first (SRQ06's C).
    pub value: u32,
}

impl Default for ClassSpec {
    fn default() -> Self {
        Self {
            level: 0,
            weight: 1,
            max_concurrency: usize::MAX,
            rate_bits_per_s: None,
            idle_only: false,
            timeout: None,
            drop_thresholds: (1.0, 1.0),
            deadline: None,
            soft_deadline: None,
            drop_late: false,
            value: 1,
        }
    }
}
