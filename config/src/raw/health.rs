//! Health and failure as they are written: ejection, checks, breakers,
//! retries.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::{Limit, Timeout};
use crate::addresses::{ENCODE, HostHeader, from_slash};
use crate::containers::{List, Or};
use crate::decode::TextClass;
use crate::patterns::MethodName;
use crate::record::{choices, record};
use crate::resolved::RetryOn;
use crate::scalars::{Count, Fault, Flag, Leaf, Time};
use crate::words::{Off, Unlimited};

/// A share in percent.
pub(crate) type Percent = Count<0, 100>;

record! {
    /// Ejection of endpoints with bad answers: they get no requests for a while.
    closed struct OutlierDetection {
        /// Failures in a row after which an endpoint is ejected: responses of 5xx, or no response
        /// at all.
        default("5") consecutive_5xx: Or<Off, Limit>,
        /// Failures in a row after which an endpoint is ejected: responses of 502, 503 or 504, or
        /// no response at all.
        default("5") consecutive_gateway_failure: Or<Off, Limit>,
        /// Requests in a row without a response after which an endpoint is ejected: it could not be
        /// reached, was too slow, or cut the connection.
        default("5") consecutive_local_origin_failure: Or<Off, Limit>,
        /// Time between two comparisons of success rates. After each interval without an ejection,
        /// an endpoint has one ejection less on its account.
        default("10s") interval: Timeout,
        /// Time of an ejection, multiplied by the number of ejections on the endpoint's account.
        default("30s") base_ejection_time: Timeout,
        /// Longest time of an ejection, without the jitter.
        default("300s") max_ejection_time: Timeout,
        /// A random time up to this is added to each ejection, so that not all endpoints return at
        /// once.
        default("0s") max_ejection_time_jitter: Time<0>,
        /// Percentage of the endpoints that may be ejected at the same time. One of several may be
        /// ejected in any case; the last one never is.
        default("50") max_ejection_percent: Percent,
        /// An endpoint is ejected if its success rate over an interval is too far below the mean of
        /// all endpoints. This is the distance, in thousandths of the standard deviation. `off`
        /// does not compare success rates.
        default("1900") success_rate_stdev_factor: Or<Off, Count<1, 100_000>>,
        /// Endpoints that must have had enough requests before success rates are compared.
        default("5") success_rate_minimum_hosts: Count<2, 100_000>,
        /// Requests to an endpoint in an interval that are enough to compare its success rate.
        default("100") success_rate_request_volume: Limit,
    }

    /// Checks whether endpoints are healthy, by HTTP or by opening a connection. One of the two is
    /// needed.
    closed struct HealthChecks {
        /// Send a request, and check the response's status.
        optional http_health_check: HttpHealthCheck,
        /// Only open a connection to the endpoint.
        optional tcp_health_check: TcpHealthCheck,
        /// Time between two checks of an endpoint.
        default("5s") interval: Timeout,
        /// Percentage by which an interval may be shorter, at random, so that the checks spread
        /// out.
        default("10") interval_jitter_percent: Percent,
        /// Time for a whole check.
        default("2s") timeout: Timeout,
        /// Passed checks in a row after which an endpoint is used again.
        default("2") healthy_threshold: Count<1, 1000>,
        /// Failed checks in a row after which an endpoint is no longer used.
        default("3") unhealthy_threshold: Count<1, 1000>,
    }

    /// The request that a health check sends to an endpoint.
    closed struct HttpHealthCheck {
        /// Path of the request, with a query if need be.
        default("/") path: RequestTarget,
        /// `Host` of the request; the endpoint's address if absent.
        optional host: HostHeader,
        /// Method of the request.
        default("GET") method: CheckMethod,
        /// Status codes of a healthy endpoint, such as 204 or 200-399.
        default("[200-299]") expected_statuses: List<StatusRange, 1>,
    }

    /// A health check that passes if the endpoint accepts a connection.
    closed struct TcpHealthCheck {}

    /// Bounds on a cluster as a whole. A request over one of them is answered 503 at once. A retry
    /// over one of them is not made.
    closed struct CircuitBreakers {
        /// Connections to all endpoints together.
        default("unlimited") max_connections: Or<Unlimited, Limit>,
        /// Requests that wait, in all wait queues together.
        default("unlimited") max_pending_requests: Or<Unlimited, Limit>,
        /// Requests in service and waiting together.
        default("unlimited") max_requests: Or<Unlimited, Limit>,
        /// Requests that are being retried at the same time.
        default("unlimited") max_retries: Or<Unlimited, Count<0, 10_000_000>>,
        /// Retries at the same time, as a share of the requests in progress.
        default("{}") retry_budget: RetryBudget,
    }

    /// Retries at the same time, as a share of the requests in progress.
    closed struct RetryBudget {
        /// Percentage of the requests in progress that may be retries.
        default("20") budget_percent: Percent,
        /// Retries that are allowed in any case, whatever the percentage.
        default("10") min_retry_concurrency: Count<0, 10_000_000>,
    }

    /// Which requests are retried, and when. Sprat tries another endpoint at once, if the request
    /// has not been there yet. Once all endpoints have been tried, it waits first.
    closed struct RetryPolicy {
        /// Failures that lead to a retry.
        default("[connect-failure, refused-stream]") retry_on: List<RetryOn, 1>,
        /// Retries of one request.
        default("2") num_retries: Count<0, 100>,
        /// Time of one attempt, from the end of the request's body (without a body: from the
        /// attempt's beginning) to the response's head. Then Sprat tries another endpoint. Needs
        /// `reset` in `retry_on`.
        default("off") per_try_timeout: Or<Off, Timeout>,
        /// Status codes that lead to a retry, with `retriable-status-codes` in `retry_on`.
        default("[]") retriable_status_codes: List<Count<400, 599>, 0>,
        /// Also retry requests with a method that is not idempotent, such as POST. A backend may
        /// then do twice what the client asked for once.
        default("false") retry_non_idempotent: Flag,
        /// How long to wait before an endpoint is tried again.
        default("{}") retry_back_off: RetryBackOff,
    }

    /// The wait before a retry: a random time, up to a bound that doubles with each retry.
    closed struct RetryBackOff {
        /// Bound on the first wait.
        default("25ms") base_interval: Timeout,
        /// Bound on any wait.
        default("250ms") max_interval: Timeout,
    }

    /// A second attempt while the first one is slow. Sprat takes the first answer, and cancels the
    /// other attempt. For requests without a body, with an idempotent method.
    closed struct HedgePolicy {
        /// Time without a response's head, after which Sprat makes the second attempt.
        required delay: Timeout,
    }
}

choices! {
    RetryOn as "RetryOn": "what leads to a repetition" {
        /// No connection to the endpoint can be opened.
        "connect-failure" => Self::ConnectFailure,
        /// The endpoint did not process the request: it was never sent, or the endpoint refused it.
        "refused-stream" => Self::RefusedStream,
        /// The connection ended, or `per_try_timeout` was over, before a response began.
        "reset" => Self::Reset,
        /// A response of 502, 503 or 504.
        "gateway-error" => Self::GatewayError,
        /// Any response of 5xx.
        "5xx" => Self::ServerError,
        /// A response of one of the `retriable_status_codes`.
        "retriable-status-codes" => Self::StatusCodes,
    }
}

/// The target of a request to a server: a path, and a query if need be (RFC 9112 3.2.1).
#[derive(Clone, Debug)]
pub(crate) struct RequestTarget(pub(crate) String);

impl Leaf for RequestTarget {
    fn expected() -> Cow<'static, str> {
        "a path, and a query if need be, such as /healthz?full=1".into()
    }

    fn accepts() -> Value {
        json!({"type": "string", "pattern": r"^/[!$-;=?-\[\]_a-z~]*$"})
    }

    fn parse(text: &str, _: TextClass) -> Result<Self, Fault> {
        let fits = |c: char| c.is_ascii_graphic() && !"\"#<>\\^`{|}".contains(c);
        let wrong = |c: char| match c {
            '#' => Some("what follows a # is never sent: leave it out"),
            c if !fits(c) => Some(ENCODE),
            _ => None,
        };
        from_slash(text, "what is asked for", wrong).map(Self)
    }
}

/// A method that a check may have.
#[derive(Clone, Debug)]
pub(crate) struct CheckMethod(pub(crate) String);

impl Leaf for CheckMethod {
    fn expected() -> Cow<'static, str> {
        MethodName::expected()
    }

    fn accepts() -> Value {
        let mut accepts = MethodName::accepts();
        accepts["not"] = json!({"pattern": "^CONNECT$"});
        accepts
    }

    fn parse(text: &str, class: TextClass) -> Result<Self, Fault> {
        if text.eq_ignore_ascii_case("CONNECT") {
            let help = "GET, HEAD or OPTIONS will do; `tcp_health_check: {}` opens a connection";
            return Err(Fault::new(
                "a check cannot ask for a tunnel",
                help.to_owned(),
            ));
        }
        MethodName::parse(text, class).map(|method| Self(method.0))
    }
}

/// A status code, or from one to another: of final responses, for what comes
/// before them decides nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StatusRange(pub(crate) (u16, u16));

impl Leaf for StatusRange {
    const NUMBER: bool = true;

    fn expected() -> Cow<'static, str> {
        "a status code, such as 200, or a range, such as 200-399".into()
    }

    fn accepts() -> Value {
        json!({"anyOf": [
            {"type": "integer", "minimum": 200, "maximum": 599},
            {"type": "string", "pattern": "^[2-5][0-9]{2}(-[2-5][0-9]{2})?$"},
        ]})
    }

    fn parse(text: &str, _: TextClass) -> Result<Self, Fault> {
        let code = |text: &str| {
            let code = text.parse().ok().filter(|code| (100..=599).contains(code));
            code.filter(|_| text.len() == 3).ok_or(Fault::PLAIN)
        };
        let (from, to) = text.split_once('-').unwrap_or((text, text));
        let (from, to): (u16, u16) = (code(from)?, code(to)?);
        if from.min(to) < 200 {
            let help = "write 200-299, say".to_owned();
            return Err(Fault::new(
                "a status below 200 is no answer to a check",
                help,
            ));
        }
        if from > to {
            let help = format!("write {to}-{from}");
            return Err(Fault::new("the range ends before it begins", help));
        }
        Ok(Self((from, to)))
    }
}
