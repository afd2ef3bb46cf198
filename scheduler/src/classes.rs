//! Priority classes: what belonging to one means, on the uplink and before a
//! backend (SDIS02 section 2; EH99).
//!
//! On the uplink a class is served by strict level, then by weight, with an
//! aggregate rate and a limited pool if it has them, and `idle_only` classes
//! take what all the others leave. Inside a class the discipline orders.

use std::time::Duration;

/// Levels at most; 0 is served before 1.
pub const MAX_LEVELS: usize = 16;

/// Classes at most: who is next is found by looking at each.
pub const MAX_CLASSES: usize = 32;

/// A priority class of requests and responses.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassSpec {
    /// Priority level, below [`MAX_LEVELS`]; 0 is served first.
    pub level: u8,
    /// Share of the uplink among the classes of one level that have something
    /// to send, relative to theirs; at least 1.
    pub weight: u32,
    /// Requests in service at a time (EH99 4, the limited pool): at a
    /// station, over all its endpoints; on the uplink, responses that have
    /// begun and are not over.
    pub max_concurrency: usize,
    /// The rate that all of its responses together get of the uplink, in bits per second on
    /// the wire (EH99 4, the third mechanism).
    pub rate_bits_per_s: Option<u64>,
    /// Whether it sends only while no other class has anything ready, or begun and not yet
    /// over (EH99 7).
    pub idle_only: bool,
    /// The time that a request may wait before it is refused, so that what starves frees
    /// what it holds (SDIS02 5.5).
    pub timeout: Option<Duration>,
    /// Shares of the queue's bound between which early discard takes more and
    /// more of the class's requests, and past which it takes all. At the
    /// second, an endpoint's queue is closed to the class (SDIS02 3.2).
    pub drop_thresholds: (f64, f64),
    /// The time from arrival to when the response must have begun, for ordering by
    /// deadline: the hard one (SRQ06's D), from which on it has no value.
    pub deadline: Option<Duration>,
    /// The time from arrival to when the value begins to fall: the soft deadline (SRQ06's
    /// D'); the hard one if absent.
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
