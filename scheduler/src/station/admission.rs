//! Admission, which turns requests away as they come (SDIS02 3.2 and 5.5).

use std::time::Duration;

use super::arrival::Arrival;
use super::measures::MeanSize;
use crate::classes::ClassSpec;

/// The rules by which requests are turned away.
#[derive(Clone, Debug, PartialEq)]
pub struct Admission {
    /// The time over which the queues' length is averaged, so that a burst
    /// that passes discards no request.
    pub averaging: Duration,
    /// Whether a request of a higher level takes the place of one of a lower level in a full queue.
    /// SDIS02 has no such rule: to simulate its model, this is off.
    pub displace: bool,
    /// The rule for an overloaded uplink, if there is one.
    pub channel: Option<ChannelRule>,
}

impl Default for Admission {
    fn default() -> Self {
        Self {
            averaging: Duration::from_millis(500),
            displace: true,
            channel: None,
        }
    }
}

/// The rule for an overloaded channel, the uplink (SDIS02 3.2). Large requests of low priority are
/// refused, and those of a class with `drop_late` that would begin after their deadline.
#[derive(Clone, Debug, PartialEq)]
pub struct ChannelRule {
    /// The backlog above which the uplink is overloaded: the time for which
    /// what open responses have left would occupy it.
    pub max_backlog: Duration,
    /// The expected size in bytes from which a request is large.
    pub large_bytes: u64,
    /// The level from which on a class counts as of low priority.
    pub level: u8,
}

/// The refusal of a request, and when to ask again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Refusal {
    /// The reason for the refusal.
    pub reason: RefusalReason,
    /// The time that all waiting requests and this one take at the drain rate of late; `None` until
    /// two have been served.
    pub retry_after: Option<Duration>,
}

/// The longest `Retry-After`, in seconds.
const RETRY_AFTER_MAX_S: u64 = 3600;

impl Refusal {
    /// Returns the `Retry-After` that the client gets, in whole seconds, from 1
    /// to 3600 (RFC 9110 10.2.3).
    pub fn retry_after_s(&self) -> u64 {
        let whole_s = self
            .retry_after
            .unwrap_or_default()
            .as_millis()
            .div_ceil(1000);
        let seconds = u64::try_from(whole_s).unwrap_or(u64::MAX);
        seconds.clamp(1, RETRY_AFTER_MAX_S)
    }

    pub(super) fn without_delay(reason: RefusalReason) -> Self {
        Self {
            reason,
            retry_after: None,
        }
    }
}

/// The reason for which a request is turned away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalReason {
    /// The averaged length of the queues is above its class's threshold.
    EarlyDiscard,
    /// The queue is full.
    QueueFull,
    /// The request gave its place in a full queue to a request of a higher level.
    Displaced,
    /// The request has waited for as long as its class may.
    Timeout,
    /// The request would begin after its deadline.
    Late,
    /// The uplink is overloaded, and the request is large and of low priority.
    ChannelOverload,
    /// Every endpoint that can be reached has been tried.
    NoEndpoint,
    /// Every endpoint is out of use.
    NoHealthyEndpoint,
    /// The station has as many requests as it may have.
    MaxRequests,
}

impl RefusalReason {
    /// All reasons, in the order of [`RefusalReason::index`].
    pub const ALL: [Self; 9] = [
        Self::EarlyDiscard,
        Self::QueueFull,
        Self::Displaced,
        Self::Timeout,
        Self::Late,
        Self::ChannelOverload,
        Self::NoEndpoint,
        Self::NoHealthyEndpoint,
        Self::MaxRequests,
    ];

    /// Returns the reason's place in [`RefusalReason::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }

    /// Returns the reason's name in metrics and logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::EarlyDiscard => "early_discard",
            Self::QueueFull => "queue_full",
            Self::Displaced => "displaced",
            Self::Timeout => "queue_timeout",
            Self::Late => "late",
            Self::ChannelOverload => "channel_overload",
            Self::NoEndpoint => "no_endpoint",
            Self::NoHealthyEndpoint => "no_healthy_endpoint",
            Self::MaxRequests => "max_requests",
        }
    }

    /// Returns the reason in words, as the client gets it.
    pub fn detail(self) -> &'static str {
        match self {
            Self::EarlyDiscard => "many requests wait, and this one is of a low class",
            Self::QueueFull => "as many requests wait as may",
            Self::Displaced => "as many requests wait as may, and this one is of a low class",
            Self::Timeout => "no endpoint became free in time",
            Self::Late => "the response would begin too late to be of use",
            Self::ChannelOverload => "the link to the clients is overloaded",
            Self::NoEndpoint => "the endpoint cannot be reached",
            Self::NoHealthyEndpoint => "no endpoint is healthy",
            Self::MaxRequests => "as many requests are in progress as may be",
        }
    }
}

impl Admission {
    /// Admits a request or returns why not, by the rules that depend on no endpoint. `share` is the
    /// averaged number of waiting requests, over the number that may wait.
    pub(super) fn admit(
        &self,
        class: &ClassSpec,
        arrival: &Arrival,
        sizes: &MeanSize,
        share: f64,
    ) -> Result<(), RefusalReason> {
        if let Some(rule) = &self.channel {
            let low = class.level >= rule.level;
            let large = sizes.expected(arrival.size) >= rule.large_bytes;
            if arrival.channel_backlog > rule.max_backlog {
                if low && large {
                    return Err(RefusalReason::ChannelOverload);
                }
                let deadline = class.deadline.filter(|_| class.drop_late);
                if deadline.is_some_and(|deadline| arrival.channel_ahead > deadline) {
                    return Err(RefusalReason::Late);
                }
            }
        }
        let (begin, all) = class.drop_thresholds;
        // Linear from none at the first threshold to all at the second, as RED
        // does (SDIS02 3.2).
        let discard = if share >= all {
            begin < 1.0
        } else if share > begin {
            let drawn = (arrival.random >> 11) as f64 / (1_u64 << 53) as f64;
            drawn < (share - begin) / (all - begin)
        } else {
            false
        };
        if discard {
            Err(RefusalReason::EarlyDiscard)
        } else {
            Ok(())
        }
    }
}
