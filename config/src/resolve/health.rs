//! Resolves health checks, outlier detection and retries.

use super::values::{count, each, maybe, size, time};
use crate::containers::Or;
use crate::decode::Field;
use crate::diagnostic::Reporter;
use crate::raw;
use crate::resolved::*;
use crate::scalars::Count;
use crate::words::{Off, Unlimited};

/// Resolves the checks that take a cluster's endpoints out of use, and the bounds on the cluster.
pub(super) fn resilience(raw: &raw::Cluster, reporter: &mut Reporter<'_>) -> Option<Resilience> {
    let outlier_detection = maybe(raw.outlier_detection.get()?.value(), |outliers| {
        outlier_detection(outliers, reporter)
    })?;
    let health_checks = maybe(raw.health_checks.get()?.value(), |checks| {
        health_checks(checks, &raw.health_checks, reporter)
    })?;
    let breakers = raw.circuit_breakers.get()?;
    let budget = breakers.retry_budget.get()?;
    Some(Resilience {
        outlier_detection,
        health_checks,
        healthy_panic_percent: percent(&raw.healthy_panic_threshold)?,
        max_connections: bound(&breakers.max_connections)?,
        max_pending_requests: bound(&breakers.max_pending_requests)?,
        max_requests: bound(&breakers.max_requests)?,
        retry_budget: RetryBudget {
            percent: percent(&budget.budget_percent)?,
            min: count(&budget.min_retry_concurrency)?,
            max: bound(&breakers.max_retries)?,
        },
    })
}

fn percent(raw: &Field<raw::Percent>) -> Option<u8> {
    u8::try_from(raw.copied()?.0).ok()
}

fn bound<const MIN: u64, const MAX: u64>(
    raw: &Field<Or<Unlimited, Count<MIN, MAX>>>,
) -> Option<usize> {
    let bound = raw.get()?.value();
    Some(bound.map_or(usize::MAX, |bound| size(bound.0)))
}

fn small<const MIN: u64, const MAX: u64>(raw: Count<MIN, MAX>) -> u32 {
    u32::try_from(raw.0).unwrap_or(u32::MAX)
}

/// Resolves a number that may be `off`; `Some(None)` if it is.
fn number<const MIN: u64, const MAX: u64>(
    raw: &Field<Or<Off, Count<MIN, MAX>>>,
) -> Option<Option<u32>> {
    Some(raw.get()?.value().map(|&number| small(number)))
}

fn outlier_detection(
    raw: &raw::OutlierDetection,
    reporter: &mut Reporter<'_>,
) -> Option<OutlierConfig> {
    let (base, longest) = (
        time(&raw.base_ejection_time)?,
        time(&raw.max_ejection_time)?,
    );
    if longest < base {
        let message = "the longest ejection is shorter than the first one".to_owned();
        let help = "raise it to the `base_ejection_time` at least".to_owned();
        let field = match raw.max_ejection_time.given {
            true => &raw.max_ejection_time,
            false => &raw.base_ejection_time,
        };
        reporter.error(&field.span, message, Some(help));
        return None;
    }
    let stdev_factor = number(&raw.success_rate_stdev_factor)?;
    let (minimum_hosts, request_volume) = (
        count(&raw.success_rate_minimum_hosts)?,
        raw.success_rate_request_volume.copied()?.0,
    );
    Some(OutlierConfig {
        consecutive_5xx: number(&raw.consecutive_5xx)?,
        consecutive_gateway_failure: number(&raw.consecutive_gateway_failure)?,
        consecutive_local_origin_failure: number(&raw.consecutive_local_origin_failure)?,
        success_rate: stdev_factor.map(|stdev_factor| SuccessRate {
            minimum_hosts,
            request_volume,
            stdev_factor,
        }),
        interval: time(&raw.interval)?,
        base_ejection_time: base,
        max_ejection_time: longest,
        max_ejection_time_jitter: raw.max_ejection_time_jitter.copied()?.0,
        max_ejection_percent: percent(&raw.max_ejection_percent)?,
    })
}

fn health_checks<W>(
    raw: &raw::HealthChecks,
    place: &Field<Or<W, raw::HealthChecks>>,
    reporter: &mut Reporter<'_>,
) -> Option<HealthChecks> {
    let http = maybe(raw.http_health_check.optional()?, http_health_check)?;
    let tcp = raw.tcp_health_check.optional()?.is_some();
    if http.is_some() == tcp {
        let (message, help) = match tcp {
            true => (
                "endpoints are checked by HTTP or by a connection, not both",
                "leave one of `http_health_check` and `tcp_health_check` out",
            ),
            false => (
                "it is not said how endpoints are checked",
                "write `http_health_check: {path: /healthz}`, or `tcp_health_check: {}`",
            ),
        };
        reporter.error(&place.span, message.to_owned(), Some(help.to_owned()));
        return None;
    }
    Some(HealthChecks {
        http,
        interval: time(&raw.interval)?,
        jitter_percent: percent(&raw.interval_jitter_percent)?,
        timeout: time(&raw.timeout)?,
        thresholds: Thresholds {
            healthy: small(raw.healthy_threshold.copied()?),
            unhealthy: small(raw.unhealthy_threshold.copied()?),
        },
    })
}

fn http_health_check(raw: &raw::HttpHealthCheck) -> Option<HttpHealthCheck> {
    Some(HttpHealthCheck {
        path: raw.path.get()?.0.clone(),
        host: raw.host.optional()?.map(|host| host.0.clone()),
        method: raw.method.get()?.0.clone(),
        expected_statuses: each(&raw.expected_statuses, |range| Some(range.0))?,
    })
}

/// Resolves the policy by which a route's requests are repeated or hedged.
pub(super) fn retry_policy(raw: &raw::Route, reporter: &mut Reporter<'_>) -> Option<RetryPolicy> {
    let hedge_delay = maybe(raw.hedge_policy.get()?.value(), |hedge| time(&hedge.delay))?;
    let Some(policy) = raw.retry_policy.get()?.value() else {
        return Some(RetryPolicy {
            hedge_delay,
            ..RetryPolicy::none()
        });
    };
    let retry_on = each(&policy.retry_on, |on| Some(*on))?;
    let status_codes = each(&policy.retriable_status_codes, |code| {
        u16::try_from(code.0).ok()
    })?;
    if retry_on.contains(&RetryOn::StatusCodes) == status_codes.is_empty() {
        let (place, message, help) = match status_codes.is_empty() {
            true => (
                &policy.retry_on.span,
                "there are no `retriable_status_codes`",
                "add them, such as `retriable_status_codes: [503]`",
            ),
            false => (
                &policy.retriable_status_codes.span,
                "these codes lead to no repetition",
                "add `retriable-status-codes` to `retry_on`",
            ),
        };
        reporter.error(place, message.to_owned(), Some(help.to_owned()));
        return None;
    }
    let per_try_timeout = policy.per_try_timeout.get()?.value().map(|time| time.0);
    if per_try_timeout.is_some() && !retry_on.contains(&RetryOn::Reset) {
        let message = "an attempt that takes longer is not repeated".to_owned();
        let help = "add `reset` to `retry_on`; the route's `timeout` bounds a request".to_owned();
        reporter.error(&policy.per_try_timeout.span, message, Some(help));
        return None;
    }
    let back_off = policy.retry_back_off.get()?;
    let (base, max) = (
        time(&back_off.base_interval)?,
        time(&back_off.max_interval)?,
    );
    if max < base {
        let message = "the longest interval is shorter than the first one".to_owned();
        let help = "raise `max_interval` to the `base_interval` at least".to_owned();
        reporter.error(&policy.retry_back_off.span, message, Some(help));
        return None;
    }
    Some(RetryPolicy {
        retry_on,
        num_retries: small(policy.num_retries.copied()?),
        per_try_timeout,
        status_codes,
        non_idempotent: policy.retry_non_idempotent.copied()?.0,
        back_off: Backoff { base, max },
        hedge_delay,
    })
}
