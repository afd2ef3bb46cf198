//! Health and failure: ejection, checks, breakers, retries.

use std::time::Duration;

pub use sprat_scheduler::health::{Backoff, OutlierConfig, SuccessRate, Thresholds};
use sprat_scheduler::retries::Allowance;
pub use sprat_scheduler::station::RetryBudget;

/// When a cluster's endpoints are used, and how many requests it takes.
#[derive(Clone, Debug, PartialEq)]
pub struct Resilience {
    /// Ejects those whose answers are bad; `None`: never.
    pub outlier_detection: Option<OutlierConfig>,
    /// Asks them; `None`: never.
    pub health_checks: Option<HealthChecks>,
    /// Below this share of usable endpoints all are used.
    pub panic_percent: u8,
    /// Connections to all endpoints; `usize::MAX` is without bound, so are the
    /// next two.
    pub max_connections: usize,
    /// The most requests that wait.
    pub max_pending_requests: usize,
    /// Requests in service and waiting.
    pub max_requests: usize,
    /// Requests that are being repeated.
    pub retry_budget: RetryBudget,
}

impl Default for Resilience {
    /// As a file has it that says nothing of it.
    fn default() -> Self {
        Self {
            outlier_detection: None,
            health_checks: None,
            panic_percent: 50,
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
    /// How many checks in a row count, if there are any.
    pub fn thresholds(&self) -> Option<Thresholds> {
        let checks = self.health_checks.as_ref();
        checks.map(|checks| checks.thresholds)
    }
}

/// How endpoints are asked whether they are well.
#[derive(Clone, Debug, PartialEq)]
pub struct HealthChecks {
    /// What is asked; `None`: a connection is enough.
    pub http: Option<HttpHealthCheck>,
    /// Between two checks of an endpoint.
    pub interval: Duration,
    /// An interval is shorter by up to this share.
    pub jitter_percent: u8,
    /// For a whole check.
    pub timeout: Duration,
    /// How many in a row count.
    pub thresholds: Thresholds,
}

/// A request that an endpoint is to answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpHealthCheck {
    /// Begins with a slash.
    pub path: String,
    /// `None`: the endpoint's address.
    pub host: Option<String>,
    /// The method of the request, such as GET.
    pub method: String,
    /// The statuses of an endpoint that is well: from and to, inclusive.
    pub expected_statuses: Vec<(u16, u16)>,
}

/// When a request is repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryOn {
    /// No connection to the endpoint can be opened.
    ConnectFailure,
    /// The request was left untouched.
    RefusedStream,
    /// The connection ended, or time was up, before a response began.
    Reset,
    /// 502, 503 or 504.
    GatewayError,
    /// Any status of 500 to 599.
    ServerError,
    /// A status that is one of [`RetryPolicy::status_codes`].
    StatusCodes,
}

/// Which requests of a route are repeated, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// The failures after which a request is repeated: any of these.
    pub retry_on: Vec<RetryOn>,
    /// Repetitions of a request; 0: none.
    pub num_retries: u32,
    /// From when an attempt has sent the request in full (without a body: from its
    /// beginning) to its response's head.
    pub per_try_timeout: Option<Duration>,
    /// The statuses that [`RetryOn::StatusCodes`] means.
    pub status_codes: Vec<u16>,
    /// Methods that are not idempotent, too.
    pub non_idempotent: bool,
    /// Before an endpoint is tried again.
    pub back_off: Backoff,
    /// A second attempt is made beside the first one after so long.
    pub hedge_delay: Option<Duration>,
}

impl Default for RetryPolicy {
    /// As a file has it that says nothing of it.
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

    /// Whether a request may be repeated that an endpoint has looked at.
    pub fn repeats_what_was_sent(&self) -> bool {
        let unsent = |on| matches!(on, RetryOn::ConnectFailure | RetryOn::RefusedStream);
        self.num_retries > 0 && !self.retry_on.iter().copied().all(unsent)
    }

    /// Returns which failures lead to a repetition, and how often.
    pub fn allowance(&self) -> Allowance {
        Allowance {
            repeats_max: self.num_retries,
            connect_failure: self.is_on(RetryOn::ConnectFailure),
            refused_stream: self.is_on(RetryOn::RefusedStream),
            reset: self.is_on(RetryOn::Reset),
        }
    }

    /// Whether something leads to a repetition.
    pub fn is_on(&self, what: RetryOn) -> bool {
        self.retry_on.contains(&what)
    }

    /// Whether a response of this status does.
    pub fn is_on_status(&self, status: u16) -> bool {
        (self.is_on(RetryOn::ServerError) && (500..600).contains(&status))
            || (self.is_on(RetryOn::GatewayError) && (502..=504).contains(&status))
            || (self.is_on(RetryOn::StatusCodes) && self.status_codes.contains(&status))
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
