//! Health and failure as they are written: ejection, checks, breakers,
//! retries.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::{Limit, Timeout};
use crate::addresses::{ENCODE, HostHeader, from_slash};
use crate::containers::{List, Or};
use crate::decode::Class;
use crate::patterns::MethodName;
use crate::record::{choices, record};
use crate::resolved::RetryOn;
use crate::scalars::{Count, Fault, Flag, Leaf, Off, Time, Unlimited};

/// A share in percent.
pub(crate) type Percent = Count<0, 100>;

record! {
    /// Endpoints whose answers are bad get no requests for a while.
    closed struct OutlierDetection {
        /// Responses in a row that are 5xx, or none at all, until an endpoint
        /// is ejected.
        default("5") consecutive_5xx: Or<Off, Limit>,
        /// In a row that are 502, 503 or 504, or none at all.
        default("5") consecutive_gateway_failure: Or<Off, Limit>,
        /// Requests in a row without a response: the endpoint could not be
        /// reached, was too slow, or cut the connection.
        default("5") consecutive_local_origin_failure: Or<Off, Limit>,
        /// The interval between looks at success rates. An endpoint that was not ejected
        /// for one has one ejection less to its account.
        default("10s") interval: Timeout,
        /// An ejection takes this times the number of ejections on the
        /// endpoint's account.
        default("30s") base_ejection_time: Timeout,
        /// An ejection takes no longer.
        default("300s") max_ejection_time: Timeout,
        /// A random time up to this is added, so that not all endpoints return
        /// at once.
        default("0s") max_ejection_time_jitter: Time<0>,
        /// Endpoints ejected at a time. One of several may be in any case, the
        /// last one never is.
        default("50") max_ejection_percent: Percent,
        /// An endpoint is ejected if its success rate over an interval is below
        /// the mean of all by so many thousandths of the standard deviation.
        default("1900") success_rate_stdev_factor: Or<Off, Count<1, 100_000>>,
        /// Endpoints that must have enough requests before rates are compared.
        default("5") success_rate_minimum_hosts: Count<2, 100_000>,
        /// Requests in an interval that are enough.
        default("100") success_rate_request_volume: Limit,
    }

    /// Endpoints are asked whether they are well: by HTTP or by opening a
    /// connection; one of the two is needed.
    closed struct HealthChecks {
        /// Send a request, and look at the response's status.
        optional http_health_check: HttpHealthCheck,
        /// Open a connection, and no more.
        optional tcp_health_check: TcpHealthCheck,
        /// Between two checks of an endpoint.
        default("5s") interval: Timeout,
        /// An interval is shorter by up to this share, at random, so that the
        /// checks spread out.
        default("10") interval_jitter_percent: Percent,
        /// For a whole check.
        default("2s") timeout: Timeout,
        /// Checks in a row that pass, until an endpoint is used again.
        default("2") healthy_threshold: Count<1, 1000>,
        /// Checks in a row that fail, until an endpoint is no longer used.
        default("3") unhealthy_threshold: Count<1, 1000>,
    }

    /// A request that an endpoint is to answer.
    closed struct HttpHealthCheck {
        /// What to ask for; with a query, if need be.
        default("/") path: RequestTarget,
        /// The `Host`; the endpoint's address if absent.
        optional host: HostHeader,
        /// The method that checks use.
        default("GET") method: CheckMethod,
        /// Status codes of an endpoint that is well, such as 204 or 200-399.
        default("[200-299]") expected_statuses: List<StatusRange, 1>,
    }

    /// A connection that an endpoint is to accept.
    closed struct TcpHealthCheck {}

    /// Bounds on a cluster as a whole. What is over one is answered 503 at
    /// once, or not repeated.
    closed struct CircuitBreakers {
        /// Connections to all endpoints together.
        default("unlimited") max_connections: Or<Unlimited, Limit>,
        /// Requests that wait, in all wait queues together.
        default("unlimited") max_pending_requests: Or<Unlimited, Limit>,
        /// Requests in service and waiting together.
        default("unlimited") max_requests: Or<Unlimited, Limit>,
        /// Requests that are being repeated.
        default("unlimited") max_retries: Or<Unlimited, Count<0, 10_000_000>>,
        /// The same as a share of the requests there are.
        default("{}") retry_budget: RetryBudget,
    }

    /// Requests that are being repeated, as a share of the requests there are.
    closed struct RetryBudget {
        /// Retries, of the requests in progress.
        default("20") budget_percent: Percent,
        /// So many in any case.
        default("10") min_retry_concurrency: Count<0, 10_000_000>,
    }

    /// Which requests are repeated, and when. Where another endpoint has not
    /// been tried it is tried at once; where all have been, after a while.
    closed struct RetryPolicy {
        /// What leads to a repetition.
        default("[connect-failure, refused-stream]") retry_on: List<RetryOn, 1>,
        /// Repetitions of a request.
        default("2") num_retries: Count<0, 100>,
        /// From when an attempt has sent the request in full to its response's
        /// head; then another endpoint is tried. Needs `reset` in `retry_on`.
        default("off") per_try_timeout: Or<Off, Timeout>,
        /// Status codes that lead to a repetition, with
        /// `retriable-status-codes`.
        default("[]") retriable_status_codes: List<Count<400, 599>, 0>,
        /// Repeat requests whose method is not idempotent, too, such as POST:
        /// an endpoint may then do twice what was asked once.
        default("false") retry_non_idempotent: Flag,
        /// How long to wait before an endpoint is tried again.
        default("{}") retry_back_off: RetryBackOff,
    }

    /// The wait before a repetition: at random, up to a bound that doubles.
    closed struct RetryBackOff {
        /// The bound for the first.
        default("25ms") base_interval: Timeout,
        /// The bound for any.
        default("250ms") max_interval: Timeout,
    }

    /// A second attempt beside a first one that is slow: the first answer is
    /// taken, the other one cancelled. For requests without a body, of
    /// idempotent methods.
    closed struct HedgePolicy {
        /// How slow: without a response's head for so long.
        required delay: Timeout,
    }
}

choices! {
    RetryOn as "RetryOn": "what leads to a repetition" {
        /// No connection to the endpoint can be opened.
        "connect-failure" => Self::ConnectFailure,
        /// The endpoint, or the connection's end, left the request untouched.
        "refused-stream" => Self::RefusedStream,
        /// The connection ended, or time was up, before a response began.
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

    fn parse(text: &str, _: Class) -> Result<Self, Fault> {
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

    fn parse(text: &str, class: Class) -> Result<Self, Fault> {
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

    fn parse(text: &str, _: Class) -> Result<Self, Fault> {
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
