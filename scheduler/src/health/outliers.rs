//! Outlier detection: endpoints whose answers fail too often are ejected for a while.

use std::time::Duration;

use super::backoff::fraction;
use crate::Time;

/// The rules by which an endpoint is an outlier, and for how long.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OutlierConfig {
    /// The number of 5xx or missing responses in a row that ejects; `None`: no number does.
    pub consecutive_5xx: Option<u32>,
    /// The number of responses 502, 503, 504 or missing in a row that ejects; `None`: no number
    /// does.
    pub consecutive_gateway_failure: Option<u32>,
    /// The number of missing responses in a row that ejects, as the endpoint could not be reached,
    /// did not answer in time, or cut the connection; `None`: no number does.
    pub consecutive_local_origin_failure: Option<u32>,
    /// The rule by which a success rate is too far below the others', if there is one.
    pub success_rate: Option<SuccessRate>,
    /// The time between two comparisons of success rates. Each interval throughout which an
    /// endpoint is in use takes one ejection off its account.
    pub interval: Duration,
    /// The length of an endpoint's first ejection; a later one is this times the ejections on its
    /// account.
    pub base_ejection_time: Duration,
    /// The longest ejection before jitter is added; a value below the base counts as the base.
    pub max_ejection_time: Duration,
    /// The most that chance adds to each ejection, so that not all endpoints return at once.
    pub max_ejection_time_jitter: Duration,
    /// The percentage of the endpoints that may be ejected at a time. One of several always may be,
    /// the last one in use never.
    pub max_ejection_percent: u8,
}

/// The rule by which an endpoint's success rate is too low.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SuccessRate {
    /// The number of endpoints that must have had enough requests; below 2 it counts as 2.
    pub minimum_hosts: usize,
    /// The number of requests in an interval that is enough for an endpoint's rate to count.
    pub request_volume: u64,
    /// The distance below the mean beyond which a rate is too low, in thousandths of the
    /// standard deviation.
    pub stdev_factor: u32,
}

/// The outcome of a request at an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A response that is no server error.
    Success,
    /// A response with a 5xx status other than 502, 503 and 504.
    ServerError,
    /// A response with status 502, 503 or 504.
    GatewayError,
    /// The endpoint gave no response: it could not be reached, was too slow, or
    /// cut the connection.
    NoResponse,
}

impl Outcome {
    /// Classifies a response by its status code.
    pub fn of_status(status: u16) -> Self {
        match status {
            502..=504 => Self::GatewayError,
            500..=599 => Self::ServerError,
            _ => Self::Success,
        }
    }
}

/// The reason for which an endpoint was ejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ejection {
    /// Errors in a row reached [`OutlierConfig::consecutive_5xx`].
    Consecutive5xx,
    /// Gateway failures in a row reached [`OutlierConfig::consecutive_gateway_failure`].
    ConsecutiveGatewayFailure,
    /// Missing responses in a row reached [`OutlierConfig::consecutive_local_origin_failure`].
    ConsecutiveLocalOriginFailure,
    /// The endpoint's success rate was too low, see [`OutlierConfig::success_rate`].
    SuccessRate,
}

impl Ejection {
    /// All reasons, in the order of [`Ejection::index`].
    pub const ALL: [Self; 4] = [
        Self::Consecutive5xx,
        Self::ConsecutiveGatewayFailure,
        Self::ConsecutiveLocalOriginFailure,
        Self::SuccessRate,
    ];

    /// Returns the reason's place in [`Ejection::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }

    /// Returns the reason's name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Consecutive5xx => "consecutive_5xx",
            Self::ConsecutiveGatewayFailure => "consecutive_gateway_failure",
            Self::ConsecutiveLocalOriginFailure => "consecutive_local_origin_failure",
            Self::SuccessRate => "success_rate",
        }
    }
}

/// The reason for an ejection, and how many failures led to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offence {
    /// The reason for which the endpoint was ejected.
    pub cause: Ejection,
    /// The number of failures in a row; `None` for a success rate.
    pub in_a_row: Option<u32>,
}

/// The part of outlier detection that all endpoints of a cluster share.
#[derive(Clone, Debug)]
pub(super) struct Outliers {
    config: OutlierConfig,
    next_sweep: Time,
    ejections: [u64; Ejection::ALL.len()],
    prevented: u64,
}

impl Outliers {
    pub(super) fn new(config: OutlierConfig) -> Self {
        Self {
            next_sweep: Time::ZERO + config.interval,
            config,
            ejections: Default::default(),
            prevented: 0,
        }
    }

    /// Takes over the counts of `before`, and its interval that has begun.
    pub(super) fn take_over(&mut self, before: &Self) {
        self.ejections = before.ejections;
        self.prevented = before.prevented;
        self.next_sweep = before.next_sweep;
    }

    pub(super) fn config(&self) -> &OutlierConfig {
        &self.config
    }

    pub(super) fn next_sweep(&self) -> Time {
        self.next_sweep
    }

    pub(super) fn ejections(&self) -> [u64; Ejection::ALL.len()] {
        self.ejections
    }

    pub(super) fn prevented(&self) -> u64 {
        self.prevented
    }

    /// Returns whether an interval is over, and begins the next one if so.
    pub(super) fn sweep_due(&mut self, now: Time) -> bool {
        let due = self.next_sweep <= now;
        if due {
            self.next_sweep = now + self.config.interval;
        }
        due
    }

    /// Returns whether one more endpoint may be ejected, and counts the ejection or its prevention.
    pub(super) fn allows(&mut self, cause: Ejection, ejected: usize, present: usize) -> bool {
        let share = present * usize::from(self.config.max_ejection_percent) / 100;
        let allowed = ejected < share.max(1).min(present.saturating_sub(1));
        match allowed {
            true => self.ejections[cause.index()] += 1,
            false => self.prevented += 1,
        }
        allowed
    }

    /// Returns for each record whether its success rate is too low; empty if rates are
    /// not compared.
    pub(super) fn low_success_rates<'a>(
        &self,
        records: impl Iterator<Item = &'a Record>,
    ) -> Vec<bool> {
        let Some(rule) = self.config.success_rate else {
            return Vec::new();
        };
        let rates: Vec<Option<f64>> = records
            .map(|record| record.success_rate(rule.request_volume))
            .collect();
        let known = || rates.iter().flatten();
        let count = known().count();
        if count < rule.minimum_hosts.max(2) {
            return Vec::new();
        }
        let mean = known().sum::<f64>() / count as f64;
        let variance = known().map(|rate| (rate - mean).powi(2)).sum::<f64>() / count as f64;
        let bound = mean - variance.sqrt() * f64::from(rule.stdev_factor) / 1000.0;
        let low = |rate: &Option<f64>| rate.is_some_and(|rate| rate < bound);
        rates.iter().map(low).collect()
    }
}

/// The account of an endpoint's answers.
#[derive(Clone, Debug, Default)]
pub(super) struct Record {
    errors: u32,
    gateway_failures: u32,
    local_failures: u32,
    succeeded: u64,
    total: u64,
    ejected_until: Option<Time>,
    /// The reason for the last ejection.
    offence: Option<Offence>,
    /// The number of ejections on the account.
    ejections: u32,
    /// Whether the endpoint was ejected at some time in this interval.
    was_ejected: bool,
}

impl Record {
    /// Takes in an outcome, and returns why the endpoint is to be ejected now, if it is.
    pub(super) fn observe(&mut self, config: &OutlierConfig, outcome: Outcome) -> Option<Offence> {
        self.total += 1;
        let none = outcome == Outcome::NoResponse;
        let gateway = none || outcome == Outcome::GatewayError;
        let error = outcome != Outcome::Success;
        self.succeeded += u64::from(!error);
        let count = |counter: &mut u32, counts: bool, bound: Option<u32>| {
            *counter = if counts { counter.saturating_add(1) } else { 0 };
            bound.is_some_and(|bound| *counter >= bound)
        };
        let local = config.consecutive_local_origin_failure;
        let local = count(&mut self.local_failures, none, local);
        let bound = config.consecutive_gateway_failure;
        let gateway = count(&mut self.gateway_failures, gateway, bound);
        let error = count(&mut self.errors, error, config.consecutive_5xx);
        let (locals, gateways) = (self.local_failures, self.gateway_failures);
        let causes = [
            (local, locals, Ejection::ConsecutiveLocalOriginFailure),
            (gateway, gateways, Ejection::ConsecutiveGatewayFailure),
            (error, self.errors, Ejection::Consecutive5xx),
        ];
        let found = causes.into_iter().find(|(reached, ..)| *reached);
        if found.is_some() {
            // If it may not be ejected now, as many more will ask again.
            self.forget_streaks();
        }
        found.map(|(_, count, cause)| Offence {
            cause,
            in_a_row: Some(count),
        })
    }

    fn forget_streaks(&mut self) {
        (self.errors, self.gateway_failures, self.local_failures) = (0, 0, 0);
    }

    pub(super) fn eject(
        &mut self,
        now: Time,
        config: &OutlierConfig,
        offence: Offence,
        random: u64,
    ) {
        self.offence = Some(offence);
        self.ejections = self.ejections.saturating_add(1);
        self.was_ejected = true;
        let time = config.base_ejection_time.saturating_mul(self.ejections);
        let jitter = fraction(config.max_ejection_time_jitter, random);
        let longest = config.max_ejection_time.max(config.base_ejection_time);
        self.ejected_until = Some(now + time.min(longest) + jitter);
    }

    pub(super) fn ejected_until(&self) -> Option<Time> {
        self.ejected_until
    }

    /// Returns the time until which the endpoint is ejected, and why.
    pub(super) fn ejection(&self) -> Option<(Time, Offence)> {
        self.ejected_until.zip(self.offence)
    }

    /// Returns whether the endpoint's ejection is over by `now`.
    pub(super) fn is_over(&self, now: Time) -> bool {
        self.ejected_until.is_some_and(|until| until <= now)
    }

    pub(super) fn readmit(&mut self) {
        self.ejected_until = None;
        self.forget_streaks();
    }

    pub(super) fn begin_interval(&mut self) {
        (self.succeeded, self.total) = (0, 0);
        let ejected = self.ejected_until.is_some();
        if !std::mem::replace(&mut self.was_ejected, ejected) && !ejected {
            self.ejections = self.ejections.saturating_sub(1);
        }
    }

    fn success_rate(&self, volume: u64) -> Option<f64> {
        let known = self.total >= volume.max(1) && self.ejected_until.is_none();
        known.then(|| self.succeeded as f64 / self.total as f64)
    }
}
