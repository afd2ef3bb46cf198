//! The parameters of a station.

use std::time::Duration;

use super::admission::Admission;
use super::places::Overcommit;
use super::repeats::RetryBudget;
use crate::classes::ClassSpec;
use crate::dispatch::{Dispatch, EndpointSpec};
use crate::srq;

/// The parameters with which a station is created.
#[derive(Clone, Debug, PartialEq)]
pub struct StationConfig {
    /// The rule by which an endpoint is chosen.
    pub dispatch: Dispatch,
    /// The endpoints, at least one.
    pub endpoints: Vec<EndpointSpec>,
    /// The most requests in service at each endpoint.
    pub max_requests: usize,
    /// The classes, at least one.
    pub classes: Vec<ClassSpec>,
    /// The order of the waiting requests of one level.
    pub order: Order,
    /// The endpoints that a waiting request waits for.
    pub scope: Scope,
    /// The most requests that wait in each queue: for the cluster, or for each
    /// endpoint.
    pub max_waiting: usize,
    /// The time after which an endpoint that has come back gets its full share.
    pub slow_start: Duration,
    /// The rules by which requests are turned away.
    pub admission: Admission,
    /// The share of endpoints that are not out, in percent, below which all are
    /// used: those that are left would be overrun.
    pub healthy_panic_percent: u8,
    /// The most requests in service, waiting or between two attempts, together.
    pub max_active: usize,
    /// The most requests that wait, in all queues together.
    pub max_pending: usize,
    /// The bound on requests that are repeated at a time.
    pub retry_budget: RetryBudget,
}

impl StationConfig {
    /// Creates parameters for one queue in the order of sizes: no bound but on
    /// requests that wait, no slow start, no panic.
    pub fn new(
        dispatch: Dispatch,
        endpoints: Vec<EndpointSpec>,
        classes: Vec<ClassSpec>,
        max_waiting: usize,
    ) -> Self {
        Self {
            dispatch,
            endpoints,
            max_requests: usize::MAX,
            classes,
            order: Order::default(),
            scope: Scope::default(),
            max_waiting,
            slow_start: Duration::ZERO,
            admission: Admission::default(),
            healthy_panic_percent: 0,
            max_active: usize::MAX,
            max_pending: usize::MAX,
            retry_budget: RetryBudget::default(),
        }
    }
}

/// The order of the waiting requests of one level; equals go first come, first
/// served.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Order {
    /// The smallest expected response first. A response of unknown size is taken for the mean.
    #[default]
    Size,
    /// The first to come is the first served.
    Fcfs,
    /// The earliest soft deadline first; requests without a deadline come last.
    Edf,
    /// The greatest value over soft deadline first, as values fall (SRQ06's VRD); requests without
    /// a deadline come last.
    Vrd,
    /// The highest value first.
    Value,
    /// SRQ's queues by time in service, of which all that wait are in the first unless their
    /// responses are known to be large; in each by deadline and value (SRQ06).
    Srq(Box<SrqOrder>),
}

/// The endpoints that a waiting request waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// Any endpoint: the first to have room takes the first request of the one queue. No endpoint
    /// idles while a request waits.
    #[default]
    Cluster,
    /// The endpoint that was chosen when the request came, as in SDIS02. Needed where requests
    /// belong to endpoints.
    Endpoint,
}

/// The parameters of SRQ for the places of endpoints.
#[derive(Clone, Debug, PartialEq)]
pub struct SrqOrder {
    /// The queues, whose quanta are nanoseconds since a request was started.
    pub queues: srq::Config,
    /// The most requests in service at an endpoint beyond `max_requests`; `None` is as many again.
    pub max_overcommit: Option<usize>,
    /// The value that the queues' statistics take of a request.
    pub statistics: Measured,
    /// The size in bytes from which a response that is known beforehand is large, so that its
    /// request begins in the second queue; `None` if all begin in the first.
    pub large_bytes: Option<u64>,
}

impl Default for SrqOrder {
    fn default() -> Self {
        Self {
            queues: srq::Config::nanoseconds(),
            max_overcommit: None,
            statistics: Measured::default(),
            large_bytes: None,
        }
    }
}

impl SrqOrder {
    /// Returns by how much an endpoint of so many places may be overcommitted.
    pub(super) fn overcommit(&self, max_requests: usize) -> Overcommit {
        let share = u128::from(self.queues.first_share_percent.clamp(1, 100));
        // No more than the places: the share is 100 percent at most.
        let first = (max_requests as u128 * share / 100) as usize;
        Overcommit {
            rest: max_requests - first,
            beyond: self.max_overcommit.unwrap_or(max_requests),
        }
    }
}

/// The value of a finished request that a queue's statistics take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Measured {
    /// The time in service, which quanta are compared with.
    #[default]
    Attained,
    /// The time since the request came, its wait included: the paper's.
    Elapsed,
}
