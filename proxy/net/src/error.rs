//! The reasons why Sprat answers a request by itself, or ends a response before its end.
//!
//! Every failure of a request has a [`Reason`]; what the client, the log and
//! the metrics are told about it stands in one table, [`Reason::facts`].

mod advice;
mod denial;

use bytes::Bytes;
use http::header::{ACCEPT, ALLOW, CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use sprat_config::fields::problem;
use sprat_scheduler::station::RefusalReason;

pub use advice::{Advice, RateStatus};
pub use denial::Denial;

/// The name of the field `Proxy-Status` (RFC 9209).
const PROXY_STATUS: HeaderName = HeaderName::from_static("proxy-status");

/// The methods that are passed on: the value of `Allow` in a 405 (RFC 9110 10.2.1).
pub const ALLOWED_METHODS: &str = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS";

/// The reason why a request was not served, or not to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Reason {
    // The request was wrong.
    /// The head could not be parsed, or its lengths contradict each other.
    MalformedHead,
    /// A request over HTTP/2 is malformed, or what should be HTTP/2 is not.
    MalformedHttp2,
    /// The connection ended in the middle of a head.
    TruncatedHead,
    /// The connection ended in the middle of a request's body.
    TruncatedBody,
    /// The head is larger than the listener allows.
    HeadTooLarge,
    /// The target is longer than any server takes.
    TargetTooLong,
    /// The head did not arrive in time.
    HeadTimeout,
    /// The client stopped sending its body.
    BodyTimeout,
    /// The body is larger than the listener allows.
    BodyTooLarge,
    /// The request has no `Host`, or more than one, or one that is no host.
    InvalidHost,
    /// The target has a form that is not served.
    InvalidTarget,
    /// The path's dot segments lead above the root.
    PathAboveRoot,
    /// The path has an encoded slash or backslash.
    EscapedSlash,
    /// The client is to ask for the path with its encoded slashes decoded.
    PathRedirect,
    /// The request has both `Transfer-Encoding` and `Content-Length`.
    ConflictingFraming,
    /// A line of the head ends in a bare LF.
    BareLineFeed,
    /// The line before a chunk of the body is malformed.
    MalformedChunk,
    /// The request's major version of HTTP is not spoken.
    VersionNotSupported,
    /// The client sends HTTP in plain text where TLS is spoken.
    PlainHttp,
    /// A field's name has an underscore.
    UnderscoreInName,
    /// The request has an `Expect` other than 100-continue.
    UnknownExpectation,
    /// The request has a transfer coding other than chunked.
    UnknownTransferCoding,
    /// The method is `CONNECT` or `TRACE`.
    MethodRefused,
    /// The connection has too many HTTP/2 frames that cost work and bring nothing.
    Http2Flood,
    // Nothing is configured for it.
    /// The request matches no route.
    NoRoute,
    /// The route is in maintenance, and serves a few clients alone.
    Maintenance,
    /// The client has sent no credentials, or wrong ones.
    Unauthenticated,
    /// The route's access rules deny the request.
    Forbidden,
    /// The authorization server has refused the request.
    AuthzDenied,
    /// The authorization server does not answer.
    AuthzUnavailable,
    /// The proxy has as many passwords to check as it may.
    AuthBusy,
    // The upstream could not be reached.
    /// The endpoint refused the connection.
    ConnectionRefused,
    /// The endpoint did not accept the connection in time.
    ConnectionTimeout,
    /// The endpoint cannot be reached: there is no way to it.
    Unreachable,
    /// The endpoint's name has no address.
    NameNotFound,
    /// The endpoint has as many busy connections as are allowed.
    ConnectionLimit,
    /// The system has no descriptor, port or memory for a connection.
    NoSocket,
    /// The endpoint's certificate is not trusted.
    TlsCertificateError,
    /// The endpoint ended the TLS handshake.
    TlsAlertReceived,
    /// The endpoint does not speak TLS, or no kind of it that the proxy speaks.
    TlsProtocolError,
    // The upstream misbehaved.
    /// The upstream closed the connection before it answered.
    ConnectionTerminated,
    /// The upstream ended the request's stream of HTTP/2 before it answered.
    StreamReset,
    /// The upstream's answer is not HTTP.
    ProtocolError,
    /// The upstream's head is larger than the cluster allows.
    ResponseHeadTooLarge,
    /// The upstream did not answer in time.
    ResponseTimeout,
    /// The upstream did not answer in the time for one attempt.
    PerTryTimeout,
    /// The upstream stopped taking the request's body.
    UpstreamWriteTimeout,
    /// The upstream stopped sending in the middle of the body.
    UpstreamIdleTimeout,
    /// The exchange took longer than the route allows.
    RouteTimeout,
    /// The upstream ended the body before its end.
    ResponseIncomplete,
    // This proxy.
    /// A buffered body cannot be read from its file, or the file does not take it.
    BufferLost,
    /// The uplink has as many responses in progress as it may.
    UplinkFull,
    /// The response got no turn on the uplink within the time that its class waits.
    UplinkTimeout,
    /// The cluster's wait queue is long, and the request is of a low class.
    EarlyDiscard,
    /// The wait queue of the cluster is full.
    QueueFull,
    /// The request's place in a full wait queue went to a request of a higher class.
    Displaced,
    /// The cluster has as many requests in progress as it may.
    MaxRequests,
    /// Every endpoint of the cluster is out of use.
    NoHealthyEndpoint,
    /// The request has waited for as long as it may, and no endpoint became free.
    QueueTimeout,
    /// The response would begin after its deadline.
    Late,
    /// The uplink is overloaded.
    ChannelOverload,
    /// The listener has as many tunnels open as it may.
    TunnelLimit,
    /// The tunnel carried nothing, in either direction, for too long.
    TunnelIdle,
    /// The client went away.
    ClientClosed,
    /// The client stopped reading.
    ClientStalled,
    /// The time allowed for a graceful shutdown has passed.
    Shutdown,
    // Bounds on what one client may take.
    /// The client sends its body too slowly.
    BodyTooSlow,
    /// The client takes the response too slowly.
    ResponseTooSlow,
    /// The client asks too often.
    RateLimited,
    /// The client has as many requests in progress as it may.
    ClientFull,
    /// The listener has as many requests in progress as it may.
    ListenerFull,
    /// The process has no memory to spare.
    HeapFull,
}

/// The party that is at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The request or the client is at fault.
    Client,
    /// An endpoint is at fault.
    Upstream,
    /// The proxy's configuration or state is at fault.
    Proxy,
}

impl Fault {
    /// Returns how many reasons have this fault.
    pub const fn reasons(self) -> usize {
        match self {
            Self::Client => 33,
            Self::Upstream => 19,
            Self::Proxy => 20,
        }
    }
}

/// The facts about a [`Reason`] that the client, the log and the metrics are given.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// The name in logs and labels.
    pub name: &'static str,
    /// The status of the answer, or the one that is logged where none can be sent.
    pub status: StatusCode,
    /// The party that is at fault.
    pub fault: Fault,
    /// RFC 9209's error type and details, as the value of `Proxy-Status`.
    pub proxy_status: &'static str,
    /// The words for a human reader.
    pub detail: &'static str,
}

/// Returns status 499, which is logged for a client that went away, and is never sent.
fn client_closed_request() -> StatusCode {
    StatusCode::from_u16(499).expect("499 is a valid status code")
}

macro_rules! facts {
    ($name:literal, $status:expr, $fault:ident, $error:literal, $detail:literal) => {
        Facts {
            name: $name,
            status: $status,
            fault: Fault::$fault,
            proxy_status: concat!("sprat; error=", $error, "; details=\"", $detail, "\""),
            detail: $detail,
        }
    };
}

impl Reason {
    /// All reasons, in the order of their numbers.
    pub const ALL: [Self; 72] = [
        Self::MalformedHead,
        Self::MalformedHttp2,
        Self::TruncatedHead,
        Self::TruncatedBody,
        Self::HeadTooLarge,
        Self::TargetTooLong,
        Self::HeadTimeout,
        Self::BodyTimeout,
        Self::BodyTooLarge,
        Self::InvalidHost,
        Self::InvalidTarget,
        Self::PathAboveRoot,
        Self::EscapedSlash,
        Self::PathRedirect,
        Self::ConflictingFraming,
        Self::BareLineFeed,
        Self::MalformedChunk,
        Self::VersionNotSupported,
        Self::PlainHttp,
        Self::UnderscoreInName,
        Self::UnknownExpectation,
        Self::UnknownTransferCoding,
        Self::MethodRefused,
        Self::Http2Flood,
        Self::NoRoute,
        Self::Maintenance,
        Self::Unauthenticated,
        Self::Forbidden,
        Self::AuthzDenied,
        Self::AuthzUnavailable,
        Self::AuthBusy,
        Self::ConnectionRefused,
        Self::ConnectionTimeout,
        Self::Unreachable,
        Self::NameNotFound,
        Self::ConnectionLimit,
        Self::NoSocket,
        Self::TlsCertificateError,
        Self::TlsAlertReceived,
        Self::TlsProtocolError,
        Self::ConnectionTerminated,
        Self::StreamReset,
        Self::ProtocolError,
        Self::ResponseHeadTooLarge,
        Self::ResponseTimeout,
        Self::PerTryTimeout,
        Self::UpstreamWriteTimeout,
        Self::UpstreamIdleTimeout,
        Self::RouteTimeout,
        Self::ResponseIncomplete,
        Self::BufferLost,
        Self::UplinkFull,
        Self::UplinkTimeout,
        Self::EarlyDiscard,
        Self::QueueFull,
        Self::Displaced,
        Self::MaxRequests,
        Self::NoHealthyEndpoint,
        Self::QueueTimeout,
        Self::Late,
        Self::ChannelOverload,
        Self::TunnelLimit,
        Self::TunnelIdle,
        Self::ClientClosed,
        Self::ClientStalled,
        Self::Shutdown,
        Self::BodyTooSlow,
        Self::ResponseTooSlow,
        Self::RateLimited,
        Self::ClientFull,
        Self::ListenerFull,
        Self::HeapFull,
    ];

    /// Returns the reason's place in [`Reason::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }

    /// Returns the name in logs and labels.
    pub fn name(self) -> &'static str {
        self.facts().name
    }

    /// Returns the facts that the client, the log and the metrics are given.
    #[rustfmt::skip]
    pub fn facts(self) -> Facts {
        use StatusCode as S;
        match self {
            Self::MalformedHead => facts!("malformed_head", S::BAD_REQUEST, Client, "http_request_error", "the request's head is not valid HTTP/1.1"),
            Self::MalformedHttp2 => facts!("malformed_http2", S::BAD_REQUEST, Client, "http_request_error", "the request is not valid HTTP/2"),
            Self::TruncatedHead => facts!("truncated_head", S::BAD_REQUEST, Client, "http_request_error", "the connection ended in the middle of the request's head"),
            Self::TruncatedBody => facts!("truncated_body", S::BAD_REQUEST, Client, "http_request_error", "the connection ended in the middle of the request's body"),
            Self::HeadTooLarge => facts!("head_too_large", S::REQUEST_HEADER_FIELDS_TOO_LARGE, Client, "http_request_error", "the request's head is too large"),
            Self::TargetTooLong => facts!("target_too_long", S::URI_TOO_LONG, Client, "http_request_error", "the request's target is too long"),
            Self::HeadTimeout => facts!("head_timeout", S::REQUEST_TIMEOUT, Client, "http_request_error", "the request's head did not arrive in time"),
            Self::BodyTimeout => facts!("body_timeout", S::REQUEST_TIMEOUT, Client, "http_request_error", "the request's body did not arrive in time"),
            Self::BodyTooLarge => facts!("body_too_large", S::PAYLOAD_TOO_LARGE, Client, "http_request_error", "the request's body is too large"),
            Self::InvalidHost => facts!("invalid_host", S::BAD_REQUEST, Client, "http_request_error", "the request needs exactly one valid Host"),
            Self::InvalidTarget => facts!("invalid_target", S::BAD_REQUEST, Client, "http_request_error", "the request's target is not one that is served here"),
            Self::PathAboveRoot => facts!("path_above_root", S::BAD_REQUEST, Client, "http_request_error", "the request's path leads above the root"),
            Self::EscapedSlash => facts!("escaped_slash", S::BAD_REQUEST, Client, "http_request_error", "an encoded slash or backslash is not allowed in the request's path"),
            Self::PathRedirect => facts!("path_redirect", S::TEMPORARY_REDIRECT, Client, "http_request_denied", "the request's path has encoded slashes: ask for it with plain ones"),
            Self::ConflictingFraming => facts!("conflicting_framing", S::BAD_REQUEST, Client, "http_request_error", "Transfer-Encoding and Content-Length contradict each other"),
            Self::BareLineFeed => facts!("bare_line_feed", S::BAD_REQUEST, Client, "http_request_error", "a line of the request's head ends in LF without CR"),
            Self::MalformedChunk => facts!("malformed_chunk", S::BAD_REQUEST, Client, "http_request_error", "a chunk of the request's body does not begin as chunks do"),
            Self::VersionNotSupported => facts!("version_not_supported", S::HTTP_VERSION_NOT_SUPPORTED, Client, "http_request_error", "the versions of HTTP that are spoken here are 1.0, 1.1 and 2"),
            Self::PlainHttp => facts!("plain_http", S::BAD_REQUEST, Client, "http_request_error", "this port speaks TLS: ask for an https URL"),
            Self::UnderscoreInName => facts!("underscore_in_name", S::BAD_REQUEST, Client, "http_request_error", "a header field has an underscore in its name"),
            Self::UnknownExpectation => facts!("unknown_expectation", S::EXPECTATION_FAILED, Client, "http_request_error", "the only expectation known is 100-continue"),
            Self::UnknownTransferCoding => facts!("unknown_transfer_coding", S::NOT_IMPLEMENTED, Client, "http_request_error", "the only transfer coding known is chunked"),
            Self::MethodRefused => facts!("method_refused", S::METHOD_NOT_ALLOWED, Client, "http_request_denied", "the method is not passed on"),
            Self::Http2Flood => facts!("http2_flood", S::TOO_MANY_REQUESTS, Client, "http_request_denied", "the connection has too many control frames, or cancelled requests"),
            Self::NoRoute => facts!("no_route", S::NOT_FOUND, Proxy, "destination_not_found", "no route matches the request"),
            Self::Maintenance => facts!("maintenance", S::SERVICE_UNAVAILABLE, Proxy, "http_request_denied", "this is being worked on: come again later"),
            Self::Unauthenticated => facts!("unauthenticated", S::UNAUTHORIZED, Client, "http_request_denied", "say who asks, with a name and a password"),
            Self::Forbidden => facts!("forbidden", S::FORBIDDEN, Client, "http_request_denied", "the client may not ask for this"),
            Self::AuthzDenied => facts!("authz_denied", S::FORBIDDEN, Client, "http_request_denied", "the authorization server has refused the request"),
            Self::AuthzUnavailable => facts!("authz_unavailable", S::SERVICE_UNAVAILABLE, Proxy, "proxy_internal_error", "the authorization server does not answer"),
            Self::AuthBusy => facts!("auth_busy", S::SERVICE_UNAVAILABLE, Proxy, "http_request_denied", "too many passwords are being checked"),
            Self::ConnectionRefused => facts!("connection_refused", S::BAD_GATEWAY, Upstream, "connection_refused", "the endpoint refused the connection"),
            Self::ConnectionTimeout => facts!("connection_timeout", S::GATEWAY_TIMEOUT, Upstream, "connection_timeout", "the endpoint did not accept the connection in time"),
            Self::Unreachable => facts!("unreachable", S::BAD_GATEWAY, Upstream, "destination_ip_unroutable", "the endpoint cannot be reached"),
            Self::NameNotFound => facts!("name_not_found", S::BAD_GATEWAY, Upstream, "dns_error", "the endpoint's name has no address"),
            Self::ConnectionLimit => facts!("connection_limit", S::SERVICE_UNAVAILABLE, Upstream, "connection_limit_reached", "every connection to the endpoint is busy"),
            Self::NoSocket => facts!("no_socket", S::SERVICE_UNAVAILABLE, Proxy, "proxy_internal_error", "the proxy has no socket to spare"),
            Self::TlsCertificateError => facts!("tls_certificate_error", S::BAD_GATEWAY, Upstream, "tls_certificate_error", "the endpoint's certificate is not believed"),
            Self::TlsAlertReceived => facts!("tls_alert_received", S::BAD_GATEWAY, Upstream, "tls_alert_received", "the endpoint ended the TLS handshake"),
            Self::TlsProtocolError => facts!("tls_protocol_error", S::BAD_GATEWAY, Upstream, "tls_protocol_error", "the endpoint does not speak TLS, or not a kind that is spoken here"),
            Self::ConnectionTerminated => facts!("connection_terminated", S::BAD_GATEWAY, Upstream, "connection_terminated", "the endpoint closed the connection before it answered"),
            Self::StreamReset => facts!("stream_reset", S::BAD_GATEWAY, Upstream, "http_protocol_error", "the endpoint reset the stream before it answered"),
            Self::ProtocolError => facts!("protocol_error", S::BAD_GATEWAY, Upstream, "http_protocol_error", "the endpoint's answer is not valid HTTP"),
            Self::ResponseHeadTooLarge => facts!("response_head_too_large", S::BAD_GATEWAY, Upstream, "http_response_header_section_size", "the head of the endpoint's answer is too large"),
            Self::ResponseTimeout => facts!("response_timeout", S::GATEWAY_TIMEOUT, Upstream, "http_response_timeout", "the endpoint did not answer in time"),
            Self::PerTryTimeout => facts!("per_try_timeout", S::GATEWAY_TIMEOUT, Upstream, "http_response_timeout", "the endpoint did not answer in the time for one attempt"),
            Self::UpstreamWriteTimeout => facts!("upstream_write_timeout", S::GATEWAY_TIMEOUT, Upstream, "connection_write_timeout", "the endpoint stopped taking the request's body"),
            Self::UpstreamIdleTimeout => facts!("upstream_idle_timeout", S::GATEWAY_TIMEOUT, Upstream, "connection_read_timeout", "the endpoint stopped in the middle of its answer"),
            Self::RouteTimeout => facts!("route_timeout", S::GATEWAY_TIMEOUT, Upstream, "http_response_timeout", "the exchange took longer than the route allows"),
            Self::ResponseIncomplete => facts!("response_incomplete", S::BAD_GATEWAY, Upstream, "http_response_incomplete", "the endpoint ended its answer too early"),
            Self::BufferLost => facts!("buffer_lost", S::INTERNAL_SERVER_ERROR, Proxy, "proxy_internal_error", "what is buffered of a body cannot be written or read in time"),
            Self::UplinkTimeout => facts!("uplink_timeout", S::SERVICE_UNAVAILABLE, Proxy, "http_request_denied", "the link was not free in time"),
            Self::UplinkFull => facts!("uplink_full", S::SERVICE_UNAVAILABLE, Proxy, "http_request_denied", "too many responses are in progress"),
            Self::EarlyDiscard => facts!("early_discard", S::SERVICE_UNAVAILABLE, Proxy, "http_request_denied", "many requests wait, and this one is of a low class"),
            Self::QueueFull => facts!("queue_full", S::SERVICE_UNAVAILABLE, Proxy, "http_request_denied", "as many requests wait as may"),
            Self::Displaced => facts!("displaced", S::SERVICE_UNAVAILABLE, Proxy, "http_request_denied", "as many requests wait as may, and this one is of a low class"),
            Self::MaxRequests => facts!("max_requests", S::SERVICE_UNAVAILABLE, Proxy, "http_request_denied", "as many requests are in progress as may be"),
            Self::NoHealthyEndpoint => facts!("no_healthy_endpoint", S::SERVICE_UNAVAILABLE, Upstream, "destination_unavailable", "no endpoint is healthy"),
            Self::QueueTimeout => facts!("queue_timeout", S::SERVICE_UNAVAILABLE, Proxy, "http_request_denied", "no endpoint became free in time"),
            Self::Late => facts!("late", S::SERVICE_UNAVAILABLE, Proxy, "http_request_denied", "the response would begin too late to be of use"),
            Self::ChannelOverload => facts!("channel_overload", S::SERVICE_UNAVAILABLE, Proxy, "http_request_denied", "the link to the clients is overloaded"),
            Self::TunnelLimit => facts!("tunnel_limit", S::SERVICE_UNAVAILABLE, Proxy, "connection_limit_reached", "as many connections as may have switched to another protocol"),
            Self::TunnelIdle => facts!("tunnel_idle", S::GATEWAY_TIMEOUT, Proxy, "connection_read_timeout", "nothing was sent in either direction for too long"),
            Self::ClientClosed => facts!("client_closed", client_closed_request(), Client, "http_request_error", "the client closed the connection"),
            Self::ClientStalled => facts!("client_stalled", client_closed_request(), Client, "http_request_error", "the client stopped reading"),
            Self::Shutdown => facts!("shutdown", S::SERVICE_UNAVAILABLE, Proxy, "proxy_internal_response", "the proxy is shutting down"),
            Self::BodyTooSlow => facts!("body_too_slow", S::REQUEST_TIMEOUT, Client, "http_request_error", "the request's body came too slowly"),
            Self::ResponseTooSlow => facts!("response_too_slow", client_closed_request(), Client, "http_request_error", "the client took the response too slowly"),
            Self::RateLimited => facts!("rate_limited", S::TOO_MANY_REQUESTS, Client, "http_request_denied", "the client asks too often"),
            Self::ClientFull => facts!("client_full", S::TOO_MANY_REQUESTS, Client, "http_request_denied", "the client has as many requests in progress as it may"),
            Self::ListenerFull => facts!("listener_full", S::SERVICE_UNAVAILABLE, Proxy, "http_request_denied", "too many requests are in progress"),
            Self::HeapFull => facts!("heap_full", S::SERVICE_UNAVAILABLE, Proxy, "http_request_denied", "the proxy has no memory to spare"),
        }
    }

    /// Returns the reason for a request that a cluster's station has turned away.
    pub fn of_refusal(reason: RefusalReason) -> Self {
        match reason {
            RefusalReason::EarlyDiscard => Self::EarlyDiscard,
            RefusalReason::QueueFull => Self::QueueFull,
            RefusalReason::Displaced => Self::Displaced,
            RefusalReason::Timeout => Self::QueueTimeout,
            RefusalReason::Late => Self::Late,
            RefusalReason::ChannelOverload => Self::ChannelOverload,
            RefusalReason::MaxRequests => Self::MaxRequests,
            RefusalReason::NoHealthyEndpoint => Self::NoHealthyEndpoint,
            RefusalReason::NoEndpoint => Self::Unreachable,
        }
    }

    /// Returns whether the proxy had no connection to give, which says nothing of the endpoint.
    pub fn is_shortage(self) -> bool {
        matches!(self, Self::ConnectionLimit | Self::NoSocket)
    }

    /// Returns whether the rest of the connection can't be used: the request's end is
    /// unknown, or the client is still sending a body that the proxy will not read.
    pub fn ends_connection(self) -> bool {
        match self {
            Self::MethodRefused
            | Self::PathRedirect
            | Self::RateLimited
            | Self::ClientFull
            | Self::Unauthenticated
            | Self::Forbidden
            | Self::AuthzDenied => false,
            // A connection takes memory.
            Self::HeapFull => true,
            _ => self.facts().fault == Fault::Client,
        }
    }

    /// Returns the answer to the request: problem details (RFC 9457), or text if the client
    /// takes no JSON.
    pub fn response(self, accepts_json: bool) -> Response<Bytes> {
        let facts = self.facts();
        let title = facts.status.canonical_reason().unwrap_or("Error");
        let status = facts.status.as_u16();
        let (content_type, body) = problem(accepts_json, status, title, facts.detail, facts.name);
        let mut response = Response::new(Bytes::from(body));
        *response.status_mut() = facts.status;
        let length = response.body().len();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
        headers.insert(PROXY_STATUS, HeaderValue::from_static(facts.proxy_status));
        if self == Self::MethodRefused {
            headers.insert(ALLOW, HeaderValue::from_static(ALLOWED_METHODS));
        }
        response
    }
}

/// Returns whether the client takes HTML, as a browser that shows pages does.
pub fn accepts_html(request: &HeaderMap) -> bool {
    let mut values = request.get_all(ACCEPT).iter();
    values.any(|value| value.to_str().is_ok_and(|v| v.contains("text/html")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_holds_every_reason_at_its_index() {
        for (index, reason) in Reason::ALL.into_iter().enumerate() {
            assert_eq!(reason.index(), index);
        }
        assert_eq!(Reason::HeapFull.index() + 1, Reason::ALL.len());
        for fault in [Fault::Client, Fault::Upstream, Fault::Proxy] {
            let own = Reason::ALL.iter().filter(|own| own.facts().fault == fault);
            assert_eq!(own.count(), fault.reasons(), "{fault:?}");
        }
    }

    #[test]
    fn names_are_unique_and_proxy_status_is_ascii() {
        let mut names: Vec<_> = Reason::ALL.iter().map(|reason| reason.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Reason::ALL.len());
        for reason in Reason::ALL {
            let response = reason.response(true);
            let body: serde_json::Value = serde_json::from_slice(response.body()).unwrap();
            assert_eq!(body["status"], response.status().as_u16());
            let status = response.headers()[PROXY_STATUS].to_str().unwrap();
            assert!(status.starts_with("sprat; error="), "{status}");
        }
    }

    #[test]
    fn text_for_a_client_that_takes_no_json() {
        let response = Reason::NoRoute.response(false);
        assert_eq!(
            response.headers()[CONTENT_TYPE],
            "text/plain; charset=utf-8"
        );
    }

    #[test]
    fn a_refusal_is_told_as_the_filters_tell_it() {
        for refusal in RefusalReason::ALL {
            let facts = Reason::of_refusal(refusal).facts();
            assert_eq!(facts.detail, refusal.detail());
            if refusal != RefusalReason::NoEndpoint {
                assert_eq!(facts.name, refusal.name());
            }
        }
    }
}
