//! Routes as they are written: which requests they are for, and what they do with them.

use super::{
    BasicAuth, Compressor, Cors, DocumentRoot, ExtAuthz, HeadProbe, HedgePolicy, RateLimit,
    RbacRule, RetryPolicy, RouteBuffer, Timeout,
};
use crate::actions::{
    BodyText, EditedName, HeaderTemplate, MediaTypeText, ParameterName, Pattern, RedirectCode,
    RedirectTarget, StatusRange, Substitution,
};
use crate::addresses::{Cidr, Host, HostHeader, UrlPath};
use crate::containers::{List, Or, Seldom};
use crate::names::{FilePath, Name, Protocol};
use crate::patterns::{HeaderName, MethodName, ValuePattern};
use crate::record::record;
use crate::scalars::{Bytes, Count, Flag, MAX_SIZE, Off, Time, Unlimited};

record! {
    /// Which requests go where, or how they are answered: a route has one of `cluster`,
    /// `weighted_clusters`, `redirect` and `direct_response`.
    closed struct Route {
        /// What a request must look like; every request if absent.
        default("{}") matches as "match": RouteMatch,
        /// The cluster that requests go to.
        optional cluster: Name,
        /// Clusters that requests go to by chance: each cluster gets its share of the requests.
        optional weighted_clusters: List<WeightedCluster, 1>,
        /// Where requests go while their cluster has no endpoint that is well.
        optional fallback: Name,
        /// The client is sent elsewhere.
        optional redirect: Seldom<Redirect>,
        /// Sprat answers by itself.
        optional direct_response: Seldom<DirectResponse>,
        /// From the end of the request's head to the end of the response.
        default("off") timeout: Or<Off, Timeout>,
        /// From the end of the request to the response's head.
        default("60s") response_timeout: Timeout,
        /// Without a byte of progress, while a response is open and it is the
        /// backend that keeps it waiting.
        default("60s") idle_timeout: Timeout,
        /// Which requests are repeated, and when.
        default("{}") retry_policy: Or<Off, RetryPolicy>,
        /// A second attempt beside a first one that is slow.
        default("off") hedge_policy: Or<Off, Seldom<HedgePolicy>>,
        /// Requests of each client over time.
        default("off") rate_limit: Or<Off, Seldom<RateLimit>>,
        /// Bytes of a request's body, in place of the listener's bound.
        optional max_request_body: Or<Unlimited, Bytes<0, MAX_SIZE>>,
        /// Replaces the matched `prefix` (or `path`).
        optional prefix_rewrite: UrlPath,
        /// Replaces what a regular expression matches in the path.
        optional regex_rewrite: Seldom<RegexRewrite>,
        /// Replaces the `Host` that the backend sees.
        optional host_rewrite: HostHeader,
        /// Fields that the backend gets beside those of the request.
        default("[]") request_headers_to_add: List<HeaderValue, 0>,
        /// Fields that the backend gets in place of those of the same name.
        default("[]") request_headers_to_set: List<HeaderValue, 0>,
        /// Fields of the request that the backend does not get.
        default("[]") request_headers_to_remove: List<EditedName, 0>,
        /// Fields that the client gets beside those of the response.
        default("[]") response_headers_to_add: List<HeaderValue, 0>,
        /// Fields that the client gets in place of those of the same name.
        default("[]") response_headers_to_set: List<HeaderValue, 0>,
        /// Fields of the response that the client does not get.
        default("[]") response_headers_to_remove: List<EditedName, 0>,
        /// Clusters that get a copy of requests, whose answers are thrown away. A
        /// mirrored request is of the class `background`; the client waits for none.
        default("[]") request_mirror_policies: List<MirrorPolicy, 0>,
        /// What clients get in place of answers with these statuses; of two for one
        /// status the first counts.
        default("[]") error_pages: List<ErrorPage, 0>,
        /// Answer 503 to all but a few, with a page of `error_pages` if there is one; as
        /// the file's own `maintenance` says if absent.
        optional maintenance: Or<Off, Seldom<Maintenance>>,
        /// Which web pages of other origins may use it; without it that is left to the
        /// backends.
        optional cors: Seldom<Cors>,
        /// Clients must name a user with a password.
        optional basic_auth: Seldom<BasicAuth>,
        /// A server is asked about each request.
        optional ext_authz: Seldom<ExtAuthz>,
        /// Rules about who may ask, of which the first that fits decides; a request that
        /// none fits is answered 403.
        default("[]") rbac: List<RbacRule, 0>,
        /// Compress responses to clients that take it; as the file's own `compressor` says
        /// if absent.
        optional compressor: Or<Off, Seldom<Compressor>>,
        /// Keep of bodies what their clients have not sent or taken yet, so that no
        /// backend waits for them.
        default("{}") buffer: RouteBuffer,
        /// A directory that holds what the backends serve, so that sizes are
        /// known before the first response.
        default("off") document_root: Or<Off, Seldom<DocumentRoot>>,
        /// Ask the backend for sizes by HEAD, where the order of waiting
        /// requests or the choice of an endpoint depends on them. For
        /// backends that answer HEAD as they would GET, and cheaply.
        default("off") head_probe: Or<Off, Seldom<HeadProbe>>,
        /// Requests that switch to another protocol (RFC 9110 7.8), after which
        /// Sprat passes on bytes in both directions. `off` serves them as if
        /// they had not asked.
        default("{}") upgrade: Or<Off, Upgrade>,
    }

    /// What a request must look like to take a route; every key that is given must hold.
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
        /// Header fields that it must all have.
        optional headers: List<HeaderMatch, 1>,
        /// Parameters of the query that it must all have. Names and values are
        /// compared once they are decoded.
        optional query_parameters: List<ParameterMatch, 1>,
        /// Cookies that it must all have.
        optional cookies: List<HeaderMatch, 1>,
        /// The client's address is in one of these.
        optional clients: List<Cidr, 1>,
    }

    /// A header field or a cookie that a request must have.
    closed struct HeaderMatch {
        /// The name of the field or the cookie.
        required name: HeaderName,
        /// The value, or the beginning of it before a `*`; any if absent.
        optional value: ValuePattern,
        /// A regular expression that matches its whole value.
        optional safe_regex: Pattern,
        /// The request must not have it.
        default("false") invert_match: Flag,
    }

    /// A parameter that a request's query must have.
    closed struct ParameterMatch {
        /// The name of the parameter.
        required name: ParameterName,
        /// The value, or the beginning of it before a `*`; any if absent.
        optional value: ValuePattern,
        /// A regular expression that matches its whole value.
        optional safe_regex: Pattern,
        /// The request must not have it.
        default("false") invert_match: Flag,
    }

    /// One of the clusters that share a route's requests.
    closed struct WeightedCluster {
        /// The cluster that gets a share.
        required cluster: Name,
        /// The share, relative to the others'.
        required weight: Count<0, 1_000_000>,
    }

    /// Where a client is sent; what is not given stays as it was asked for.
    closed struct Redirect {
        /// To the same URL over TLS. The port is left out, unless `port_redirect`
        /// gives one.
        default("false") https_redirect: Flag,
        /// To this host; its port is left out with the old host.
        optional host_redirect: HostHeader,
        /// To this port of the host.
        optional port_redirect: Count<1, 65_535>,
        /// To this path; its own query, if it has one, replaces the old one.
        optional path_redirect: RedirectTarget,
        /// To a path where this replaces the matched `prefix` (or `path`).
        optional prefix_rewrite: UrlPath,
        /// To a path where what a regular expression matches is replaced.
        optional regex_rewrite: RegexRewrite,
        /// Leave the query out.
        default("false") strip_query: Flag,
        /// The status: 301, 302, 303, 307 or 308.
        default("301") response_code: RedirectCode,
    }

    /// An answer of Sprat's own, with a body from the configuration or from a file.
    closed struct DirectResponse {
        /// The status of the answer.
        required status: Count<200, 599>,
        /// The body as text.
        optional body: BodyText,
        /// A file that has the body; read when Sprat starts and at each reload, 1 MB
        /// at most.
        optional file: FilePath,
        /// The type of the body.
        default("text/plain; charset=utf-8") content_type: MediaTypeText,
    }

    /// A replacement in a path.
    closed struct RegexRewrite {
        /// What is replaced, wherever it stands in the path.
        required pattern: Pattern,
        /// What stands in its place: `\1` is the pattern's first group, `\0` all that
        /// it matched, `\\` a backslash.
        required substitution: Substitution,
    }

    /// A header field with its value.
    closed struct HeaderValue {
        /// The name of the field.
        required name: EditedName,
        /// The field's value. `%REQ(X-Name)%` is a field of the request, `%RESP(X-Name)%` one of
        /// the response, `%REQ(:PATH)%`, `%REQ(:METHOD)%`, `%REQ(:AUTHORITY)%` and
        /// `%REQ(:SCHEME)%` are what was asked for,
        /// `%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%` is the client's address; see
        /// docs/routes.md for all of them. `%%` is a percent sign. A field whose value is
        /// empty is left out.
        required value: HeaderTemplate,
    }

    /// A cluster that gets copies of requests.
    closed struct MirrorPolicy {
        /// The cluster that copies go to.
        required cluster: Name,
        /// How many of a hundred requests are copied.
        default("100") percent: Count<1, 100>,
    }

    /// What clients get in place of an answer.
    closed struct ErrorPage {
        /// The statuses: `503`, or `5xx` for all from 500 to 599.
        required status: List<StatusRange, 1>,
        /// The page as text.
        optional body: BodyText,
        /// A file that has the page; read when Sprat starts and at each reload, 1 MB at
        /// most.
        optional file: FilePath,
        /// The type of the page.
        default("text/html; charset=utf-8") content_type: MediaTypeText,
        /// The status that the client gets instead.
        optional response_code: Count<200, 599>,
        /// Replace what backends answer with these statuses, too, and not Sprat's own
        /// answers alone.
        default("false") intercept: Flag,
    }

    /// While it is given, a few clients alone are served.
    closed struct Maintenance {
        /// Clients that are served as ever.
        default("[]") exempt: List<Cidr, 0>,
        /// After how long the others are told to come again.
        default("5m") retry_after: Time<1_000>,
    }

    /// Requests that switch to another protocol.
    closed struct Upgrade {
        /// The protocols that may be switched to. No rule and no bound on requests
        /// holds for what is inside; what goes to the client has its turn in the
        /// class of the request that switched.
        default("[websocket]") protocols: List<Protocol, 1>,
        /// Without a byte in either direction.
        default("5m") idle_timeout: Timeout,
        /// Memory for what has been read and not yet written, in each
        /// direction.
        default("8KB") buffer_size: Bytes<1_024, 1_048_576>,
    }
}
