//! Routes as they are written: which requests they are for, and what they do with them.

use super::{
    BasicAuth, Compressor, Cors, DocumentRoot, ExtAuthz, HeadProbe, HedgePolicy, RateLimit,
    RbacRule, RetryPolicy, RouteBuffer, Timeout,
};
use crate::actions::{
    BodyText, EditedName, ErrorStatuses, HeaderTemplate, MediaTypeText, ParameterName, Pattern,
    RedirectCode, RedirectTarget, Substitution,
};
use crate::addresses::{Cidr, Host, HostHeader, UrlPath};
use crate::containers::{List, Or, Seldom};
use crate::names::{FilePath, Name, Protocol};
use crate::patterns::{HeaderName, MethodName, ValuePattern};
use crate::record::record;
use crate::scalars::{Bytes, Count, Flag, MAX_SIZE, Time};
use crate::words::{Off, Unlimited};

record! {
    /// A route: which requests it takes, and what happens to them. It has exactly one of `cluster`,
    /// `weighted_clusters`, `redirect` and `direct_response`.
    closed struct Route {
        /// Conditions that a request must meet. Every request meets them if absent.
        default("{}") matches as "match": RouteMatch,
        /// The cluster that requests go to.
        optional cluster: Name,
        /// Clusters that share the requests at random, each by its `weight`.
        optional weighted_clusters: List<WeightedCluster, 1>,
        /// The cluster that requests go to while their own cluster has no healthy endpoint.
        optional fallback: Name,
        /// Answer with a redirect to another URL.
        optional redirect: Seldom<Redirect>,
        /// Answer with a fixed status and body, without a backend.
        optional direct_response: Seldom<DirectResponse>,
        /// Time from the end of the request's head to the end of the response.
        default("off") timeout: Or<Off, Timeout>,
        /// Time from the end of the request to the end of the response's head.
        default("60s") response_timeout: Timeout,
        /// Time without a byte of progress while Sprat waits for the backend: for more of the
        /// response, or until it takes more of the request's body.
        default("60s") idle_timeout: Timeout,
        /// Which failed requests are sent again (retried), and when.
        default("{}") retry_policy: Or<Off, RetryPolicy>,
        /// Make a second attempt while the first one is slow.
        default("off") hedge_policy: Or<Off, Seldom<HedgePolicy>>,
        /// Limit the rate of each client's requests.
        default("off") rate_limit: Or<Off, Seldom<RateLimit>>,
        /// Bytes of a request's body, in place of the listener's `max_request_body`.
        optional max_request_body: Or<Unlimited, Bytes<0, MAX_SIZE>>,
        /// Path that replaces the matched `prefix` (or `path`) in the request to the backend.
        optional prefix_rewrite: UrlPath,
        /// Replace the parts of the path that match a regular expression.
        optional regex_rewrite: Seldom<RegexRewrite>,
        /// `Host` that the backend gets, in place of the request's own.
        optional host_rewrite: HostHeader,
        /// Header fields to add to the request for the backend. Fields of the same name stay.
        default("[]") request_headers_to_add: List<HeaderValue, 0>,
        /// Header fields to set in the request for the backend. They replace fields of the same
        /// name.
        default("[]") request_headers_to_set: List<HeaderValue, 0>,
        /// Header fields to remove from the request for the backend.
        default("[]") request_headers_to_remove: List<EditedName, 0>,
        /// Header fields to add to the response for the client. Fields of the same name stay.
        default("[]") response_headers_to_add: List<HeaderValue, 0>,
        /// Header fields to set in the response for the client. They replace fields of the same
        /// name.
        default("[]") response_headers_to_set: List<HeaderValue, 0>,
        /// Header fields to remove from the response for the client.
        default("[]") response_headers_to_remove: List<EditedName, 0>,
        /// Clusters that get copies of the requests. Sprat discards their answers, and the client
        /// does not wait for them. A copy has the class `background`.
        default("[]") request_mirror_policies: List<MirrorPolicy, 0>,
        /// Pages that clients get in place of answers with certain statuses. If two pages are for
        /// one status, the first one counts.
        default("[]") error_pages: List<ErrorPage, 0>,
        /// Answer 503 to all clients but those of `exempt`, with a page of `error_pages` if there
        /// is one. If absent, the top-level `maintenance` applies.
        optional maintenance: Or<Off, Seldom<Maintenance>>,
        /// Which web pages of other origins may use the route. If absent, the backends decide.
        optional cors: Seldom<Cors>,
        /// Ask clients for the name of a user and a password.
        optional basic_auth: Seldom<BasicAuth>,
        /// Ask an authorization server about each request.
        optional ext_authz: Seldom<ExtAuthz>,
        /// Access rules. The first rule that matches a request decides. If there are rules and none
        /// matches, the request is answered 403.
        default("[]") rbac: List<RbacRule, 0>,
        /// Compress responses to clients that accept it. If absent, the top-level `compressor`
        /// applies.
        optional compressor: Or<Off, Seldom<Compressor>>,
        /// Buffer bodies that clients send or take slowly, so that no backend waits for a client.
        default("{}") buffer: RouteBuffer,
        /// Directory with the files that the backends serve. Sprat looks up their sizes, so that it
        /// knows a size before the first response.
        default("off") document_root: Or<Off, Seldom<DocumentRoot>>,
        /// Ask the backend for sizes by HEAD, where the order of waiting requests or the choice of
        /// an endpoint depends on them. Only for backends that answer HEAD cheaply, and with the
        /// same head as GET.
        default("off") head_probe: Or<Off, Seldom<HeadProbe>>,
        /// Requests to switch to another protocol (RFC 9110 7.8), such as WebSocket. After the
        /// switch Sprat passes bytes in both directions. `off` serves such requests as if they had
        /// not asked.
        default("{}") upgrade: Or<Off, Upgrade>,
    }

    /// Conditions for a route. A request must meet all of those that are given.
    closed struct RouteMatch {
        /// Any of these hosts, without port; `*.example.org` is every name
        /// below `example.org`. Every host if absent.
        optional hosts: List<Host, 1>,
        /// This path and no other.
        optional path: UrlPath,
        /// This path and all below it: `/a` matches `/a` and `/a/b`, not
        /// `/ab`.
        optional prefix: UrlPath,
        /// A regular expression that matches the whole path, without the query.
        optional safe_regex: Pattern,
        /// Any of these methods.
        optional methods: List<MethodName, 1>,
        /// Header fields. The request must have all of them.
        optional headers: List<HeaderMatch, 1>,
        /// Parameters of the query. The request must have all of them. Names and values are
        /// compared after decoding.
        optional query_parameters: List<ParameterMatch, 1>,
        /// Cookies. The request must have all of them.
        optional cookies: List<HeaderMatch, 1>,
        /// The client's address is in one of these.
        optional clients: List<Cidr, 1>,
    }

    /// A header field or a cookie that a request must have.
    closed struct HeaderMatch {
        /// The name of the field or the cookie.
        required name: HeaderName,
        /// The value. A `*` at its end stands for any text. Any value if absent.
        optional value: ValuePattern,
        /// A regular expression that matches the whole value.
        optional safe_regex: Pattern,
        /// Match requests that have no such field or cookie.
        default("false") invert_match: Flag,
    }

    /// A parameter that a request's query must have.
    closed struct ParameterMatch {
        /// The name of the parameter.
        required name: ParameterName,
        /// The value. A `*` at its end stands for any text. Any value if absent.
        optional value: ValuePattern,
        /// A regular expression that matches the whole value.
        optional safe_regex: Pattern,
        /// Match requests that have no such parameter.
        default("false") invert_match: Flag,
    }

    /// One of the clusters that share a route's requests.
    closed struct WeightedCluster {
        /// The cluster that gets a share.
        required cluster: Name,
        /// The cluster's share of the requests, relative to the shares of the others.
        required weight: Count<0, 1_000_000>,
    }

    /// The URL that a client is redirected to. Parts that are not given stay as in the request.
    closed struct Redirect {
        /// Redirect to `https`. The port is left out, unless `port_redirect` or `host_redirect`
        /// gives one.
        default("false") https_redirect: Flag,
        /// Host of the new URL, with a port if it needs one. The old port is left out with the old
        /// host.
        optional host_redirect: HostHeader,
        /// Port of the new URL.
        optional port_redirect: Count<1, 65_535>,
        /// Path of the new URL. If it has a query, this replaces the request's query.
        optional path_redirect: RedirectTarget,
        /// Path that replaces the matched `prefix` (or `path`) in the new URL.
        optional prefix_rewrite: UrlPath,
        /// Replace the parts of the path that match a regular expression.
        optional regex_rewrite: RegexRewrite,
        /// Leave the query out of the new URL.
        default("false") strip_query: Flag,
        /// The status: 301, 302, 303, 307 or 308.
        default("301") response_code: RedirectCode,
    }

    /// An answer from Sprat itself, with a body from the configuration or from a file.
    closed struct DirectResponse {
        /// The status of the answer.
        required status: Count<200, 599>,
        /// Text of the body.
        optional body: BodyText,
        /// File with the body, 1 MB at most. Sprat reads it at the start and at each reload.
        optional file: FilePath,
        /// `Content-Type` of the body.
        default("text/plain; charset=utf-8") content_type: MediaTypeText,
    }

    /// A replacement in a path.
    closed struct RegexRewrite {
        /// A regular expression. Every match in the path is replaced.
        required pattern: Pattern,
        /// Text in place of each match: `\1` is the pattern's first group, `\0` the whole match,
        /// `\\` a backslash.
        required substitution: Substitution,
    }

    /// A header field with its value.
    closed struct HeaderValue {
        /// The name of the field.
        required name: EditedName,
        /// The field's value. `%REQ(X-Name)%` is a field of the request, `%RESP(X-Name)%` one of
        /// the response. `%REQ(:PATH)%`, `%REQ(:METHOD)%`, `%REQ(:AUTHORITY)%` and `%REQ(:SCHEME)%`
        /// are those of the client's request, before any rewrite.
        /// `%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%` is the client's address. docs/routes.md has
        /// all variables. `%%` is a percent sign. A field with an empty value is left out.
        required value: HeaderTemplate,
    }

    /// A cluster that gets copies of requests.
    closed struct MirrorPolicy {
        /// The cluster that copies go to.
        required cluster: Name,
        /// Percentage of the requests that are copied.
        default("100") percent: Count<1, 100>,
    }

    /// A page that clients get in place of an answer.
    closed struct ErrorPage {
        /// The statuses: `503`, or `5xx` for all from 500 to 599.
        required status: List<ErrorStatuses, 1>,
        /// Text of the page.
        optional body: BodyText,
        /// File with the page, 1 MB at most. Sprat reads it at the start and at each reload.
        optional file: FilePath,
        /// `Content-Type` of the page.
        default("text/html; charset=utf-8") content_type: MediaTypeText,
        /// Status that the client gets in place of the answer's own. If absent, the status stays.
        optional response_code: Count<200, 599>,
        /// Replace the backends' answers with these statuses, too. With `false` only Sprat's own
        /// answers are replaced.
        default("false") intercept: Flag,
    }

    /// Maintenance, in which Sprat answers 503 to all clients but a few.
    closed struct Maintenance {
        /// Clients that Sprat serves as usual.
        default("[]") exempt: List<Cidr, 0>,
        /// Time after which the other clients should try again (`Retry-After`).
        default("5m") retry_after: Time<1_000>,
    }

    /// Requests that switch to another protocol.
    closed struct Upgrade {
        /// Protocols that requests may switch to. After the switch no rule and no bound on requests
        /// applies to the data inside. Data to the client is scheduled in the class of the request.
        default("[websocket]") protocols: List<Protocol, 1>,
        /// Time without a byte in either direction. Then Sprat closes the connection.
        default("5m") idle_timeout: Timeout,
        /// Memory in each direction for data that Sprat has read and not yet written.
        default("8KB") buffer_size: Bytes<1_024, 1_048_576>,
    }
}
