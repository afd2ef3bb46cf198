//! Health and failure: ejection, health checks, circuit breakers, retries.

use std::time::Duration;

pub use sprat_scheduler::health::{Backoff, OutlierConfig, SuccessRate, Thresholds};
use sprat_scheduler::retries::Allowance;
pub use sprat_scheduler::station::RetryBudget;

/// The rules by which a cluster's endpoints go out of use, and the bounds on the cluster as a
/// whole.
#[derive(Clone, Debug, PartialEq)]
pub struct Resilience {
    /// The ejection of endpoints whose answers are bad; `None` if there is none.
    pub outlier_detection: Option<OutlierConfig>,
    /// The checks of endpoints; `None` if there are none.
    pub health_checks: Option<HealthChecks>,
    /// The percent of usable endpoints below which all are used.
    pub healthy_panic_percent: u8,
    /// The most connections to all endpoints; `usize::MAX` is without bound, here and in the next
    /// two.
    pub max_connections: usize,
    /// The most requests that wait.
    pub max_pending_requests: usize,
    /// The most requests in service and waiting.
    pub max_requests: usize,
    /// The bound on requests that are being repeated.
    pub retry_budget: RetryBudget,
}

impl Default for Resilience {
    /// Returns the settings of a cluster whose file says nothing of them.
    fn default() -> Self {
        Self {
            outlier_detection: None,
            health_checks: None,
            healthy_panic_percent: 50,
            max_connections: usize::MAX,
            max_pending_requests: usize::MAX,
            max_requests: usize::MAX,
            retry_budget: RetryBudget {
                percent: 20,
                min: 10,
                max: usize::MAX,
            },
        }
    }
}

impl Resilience {
    /// Returns the numbers of health checks in a row that count; none if there are no checks.
    pub fn thresholds(&self) -> Option<Thresholds> {
        let checks = self.health_checks.as_ref();
        checks.map(|checks| checks.thresholds)
    }
}

/// The health checks of a cluster's endpoints.
#[derive(Clone, Debug, PartialEq)]
pub struct HealthChecks {
    /// The request of a check; `None` if it is enough that a connection opens.
    pub http: Option<HttpHealthCheck>,
    /// The time between two checks of an endpoint.
    pub interval: Duration,
    /// The percent by which an interval may be shorter, at random.
    pub jitter_percent: u8,
    /// The longest time of a whole check.
    pub timeout: Duration,
    /// The numbers of checks in a row after which an endpoint is used again, or no longer.
    pub thresholds: Thresholds,
}

/// The request of a health check, and the statuses that answer it well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpHealthCheck {
    /// The path, with a query if there is one; it begins with a slash.
    pub path: String,
    /// The `Host` of the request; `None` stands for the endpoint's address.
    pub host: Option<String>,
    /// The method of the request, such as GET.
    pub method: String,
    /// The ranges of statuses of a healthy endpoint: from and to, inclusive.
    pub expected_statuses: Vec<(u16, u16)>,
}

/// A failure that leads to a repetition of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryOn {
    /// The connection to the endpoint could not be opened.
    ConnectFailure,
    /// The endpoint did not process the request.
    RefusedStream,
    /// The connection ended, or the time was over, before a response began.
    Reset,
    /// The response has a status of 502, 503 or 504.
    GatewayError,
    /// The response has a status of 500 to 599.
    ServerError,
    /// The response has one of the statuses in [`RetryPolicy::status_codes`].
    StatusCodes,
}

/// The rules by which a route's requests are repeated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// The failures after which a request is repeated; any of them is enough.
    pub retry_on: Vec<RetryOn>,
    /// The most repetitions of a request; 0 for none.
    pub num_retries: u32,
    /// The longest time from when an attempt has sent the request in full (without a body: from the
    /// attempt's beginning) to its response's head.
    pub per_try_timeout: Option<Duration>,
    /// The statuses that [`RetryOn::StatusCodes`] means.
    pub status_codes: Vec<u16>,
    /// Whether requests with a method that is not idempotent are repeated, too.
    pub non_idempotent: bool,
    /// The wait before an endpoint is tried again.
    pub back_off: Backoff,
    /// The time after which a hedge is sent beside the first attempt; none if there is no hedge.
    pub hedge_delay: Option<Duration>,
}

impl Default for RetryPolicy {
    /// Returns the policy of a route whose file says nothing of it.
    fn default() -> Self {
        Self {
            retry_on: vec![RetryOn::ConnectFailure, RetryOn::RefusedStream],
            num_retries: 2,
            back_off: Backoff {
                base: Duration::from_millis(25),
                max: Duration::from_millis(250),
            },
            ..Self::none()
        }
    }
}

impl RetryPolicy {
    /// Returns a policy that repeats no request.
    pub fn none() -> Self {
        Self {
            retry_on: Vec::new(),
            num_retries: 0,
            per_try_timeout: None,
            status_codes: Vec::new(),
            non_idempotent: false,
            back_off: Backoff {
                base: Duration::ZERO,
                max: Duration::ZERO,
            },
            hedge_delay: None,
        }
    }

    /// Returns whether a request may be repeated after an endpoint has begun to process it.
    pub fn repeats_what_was_sent(&self) -> bool {
        let unsent = |on| matches!(on, RetryOn::ConnectFailure | RetryOn::RefusedStream);
        self.num_retries > 0 && !self.retry_on.iter().copied().all(unsent)
    }

    /// Returns the failures that lead to a repetition, and the most repetitions, at a cluster whose
    /// requests wait for an absent endpoint or not.
    pub fn allowance(&self, waits_for_endpoint: bool) -> Allowance {
        Allowance {
            repeats_max: self.num_retries,
            connect_failure: self.is_on(RetryOn::ConnectFailure),
            refused_stream: self.is_on(RetryOn::RefusedStream),
            reset: self.is_on(RetryOn::Reset),
            waits_for_endpoint,
        }
    }

    /// Returns whether this kind of failure leads to a repetition.
    pub fn is_on(&self, what: RetryOn) -> bool {
        self.retry_on.contains(&what)
    }

    /// Returns the word of `retry_on` by which a response of this status leads to a repetition:
    /// of several, the narrowest.
    pub fn word_of_status(&self, status: u16) -> Option<&'static str> {
        if self.is_on(RetryOn::StatusCodes) && self.status_codes.contains(&status) {
            Some("retriable-status-codes")
        } else if self.is_on(RetryOn::GatewayError) && (502..=504).contains(&status) {
            Some("gateway-error")
        } else if self.is_on(RetryOn::ServerError) && (500..600).contains(&status) {
            Some("5xx")
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sent_is_repeated_after_failures_that_come_later() {
        use RetryOn::*;
        let none: &[RetryOn] = &[];
        for (num_retries, retry_on, repeats) in [
            (2, none, false),
            (2, &[ConnectFailure, RefusedStream][..], false),
            (2, &[ConnectFailure, Reset], true),
            (1, &[GatewayError], true),
            (1, &[ServerError, RefusedStream], true),
            (1, &[StatusCodes], true),
            (0, &[Reset], false),
            (0, &[ConnectFailure], false),
        ] {
            let policy = RetryPolicy {
                retry_on: retry_on.to_vec(),
                num_retries,
                ..RetryPolicy::none()
            };
            let told = policy.repeats_what_was_sent();
            assert_eq!(told, repeats, "{num_retries} {retry_on:?}");
        }
    }

    #[test]
    fn thresholds_are_those_of_the_checks() {
        let thresholds = Thresholds {
            healthy: 3,
            unhealthy: 4,
        };
        let mut resilience = Resilience::default();
        assert_eq!(resilience.thresholds(), None);
        resilience.health_checks = Some(HealthChecks {
            http: None,
            interval: Duration::from_secs(5),
            jitter_percent: 0,
            timeout: Duration::from_secs(1),
            thresholds,
        });
        assert_eq!(resilience.thresholds(), Some(thresholds));
    }
}
