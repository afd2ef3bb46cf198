//! The parameters of a station.

use std::time::Duration;

use super::admission::Admission;
use super::repeats::RetryBudget;
use crate::classes::ClassSpec;
use crate::dispatch::{Dispatch, EndpointSpec};

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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
