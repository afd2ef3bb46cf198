//! Priority classes and admission as they are written.

use super::{Limit, SomeBytes, Timeout};
use crate::actions::UserPattern;
use crate::addresses::{Cidr, Host, UrlPath};
use crate::containers::{List, Or};
use crate::names::Name;
use crate::numbers::Share;
use crate::patterns::{Dscp, Extension, HeaderName, MediaType, MethodName, ValuePattern};
use crate::record::record;
use crate::scalars::{BitRate, Count, Flag, Off, Time, Unlimited};

/// A priority level; 0 is served first.
pub(crate) type Level = Count<0, 15>;

record! {
    /// A priority class of responses.
    closed struct Class {
        /// Priority level: 0 is served first, before backends and on the
        /// uplink.
        default("3") level: Level,
        /// Share of the uplink among the classes of one level that have
        /// something to send, relative to theirs.
        default("1") weight: Count<1, 1000>,
        /// Requests of the class in service at a time (EH99's limited pool):
        /// at each cluster, and on the uplink.
        default("unlimited") max_concurrency: Or<Unlimited, Limit>,
        /// What all responses of the class together get of the uplink (EH99).
        default("unlimited") rate: Or<Unlimited, BitRate>,
        /// Send only while no other class has anything to send, or has begun
        /// and not ended a response (EH99's future work).
        default("false") idle_only: Flag,
        /// From a request's arrival to when its response must begin; waiting
        /// requests are ordered by it under `order: edf`. On the uplink, from
        /// when a response is there to when it has no value any more, for
        /// `policy: edf`, `vrd` and `srq`.
        default("off") deadline: Or<Off, Timeout>,
        /// On the uplink, from when a response is there to when its value begins
        /// to fall; the `deadline` if absent, at which all of it is gone at
        /// once.
        optional soft_deadline: Timeout,
        /// Refuse a request that would begin after its deadline, rather than
        /// delay it.
        default("false") drop_late: Flag,
        /// Waiting requests are ordered by it under `order: value`, the
        /// highest first; on the uplink, what a response is worth under
        /// `policy: vrd` and `srq`.
        default("1") value: Count<0, 1_000_000>,
        /// Refuse some of the class's requests before the wait queue is full
        /// (SDIS02).
        default("off") early_discard: Or<Off, EarlyDiscard>,
        /// How long a request may wait for an endpoint; the cluster's
        /// `wait_queue.timeout` if absent.
        optional queue_timeout: Or<Off, Timeout>,
    }

    /// Where early discard begins and where it takes all, as shares of the
    /// wait queue, on its averaged length (SDIS02 3.2).
    closed struct EarlyDiscard {
        /// None is refused up to here; then more and more.
        default("0.5") from: Share,
        /// All are refused from here on.
        default("1") to: Share,
    }

    /// Which requests belong to a class.
    closed struct ClassRule {
        /// What a request must look like: all of these.
        required matches as "match": ClassMatch,
        /// The class that matching requests get.
        required class: Name,
    }

    /// What a request must look like to belong to a class; every key that is
    /// given must hold.
    closed struct ClassMatch {
        /// The client's address is in one of these.
        optional clients: List<Cidr, 1>,
        /// The connection was marked with one of these code points (RFC 2474).
        optional dscp: List<Dscp, 1>,
        /// The client has shown a certificate that its listener believes, with
        /// these names; `{}` is any.
        optional client_certificate: CertificateMatch,
        /// The user that `basic_auth` or `ext_authz` of the route has found out is one of
        /// these. That is known after the route is chosen: rules are tried anew then.
        optional users: List<UserPattern, 1>,
        /// Any of these hosts, without port; `*.example.org` is every name
        /// below `example.org`.
        optional hosts: List<Host, 1>,
        /// The one path that matches.
        optional path: UrlPath,
        /// This path and all below it.
        optional prefix: UrlPath,
        /// The path's last segment ends in one of these, after a dot.
        optional extensions: List<Extension, 1>,
        /// Any of these methods.
        optional methods: List<MethodName, 1>,
        /// Header fields that it must all have.
        optional headers: List<FieldMatch, 1>,
        /// Cookies that it must all have.
        optional cookies: List<FieldMatch, 1>,
        /// The request's body is of one of these types.
        optional content_types: List<MediaType, 1>,
        /// The response is of one of these types. That is known when its head
        /// has come, so that such a rule decides its place on the uplink, and
        /// not who waited for an endpoint before.
        optional response_types: List<MediaType, 1>,
        /// Any of these urgencies (RFC 9218), 3 if the client says nothing.
        optional urgency: List<Count<0, 7>, 1>,
    }

    /// Names in a client's certificate; every key that is given must hold.
    closed struct CertificateMatch {
        /// The request is for one of these hosts; `*.example.org` is every name below
        /// `example.org`.
        optional dns: List<Host, 1>,
        /// One of its URIs, such as a SPIFFE ID, is one of these.
        optional uris: List<ValuePattern, 1>,
        /// The common name of its subject is one of these.
        optional common_names: List<ValuePattern, 1>,
    }

    /// A header field or a cookie.
    closed struct FieldMatch {
        /// The name of the header field.
        required name: HeaderName,
        /// The field's value, or the beginning of it before a `*`; any if absent.
        optional value: ValuePattern,
    }

    /// Whom to turn away when there is too much to do (SDIS02 3.2).
    closed struct Admission {
        /// The time over which the length of wait queues is averaged, so that a burst that
        /// passes discards no request.
        default("500ms") averaging: Time<0>,
        /// What to do when the uplink is overloaded.
        default("off") channel: Or<Off, Channel>,
    }

    /// The uplink is overloaded: large requests of low classes are refused,
    /// and those of a class with `drop_late` that would be late (SDIS02 3.2).
    closed struct Channel {
        /// Overloaded: what open responses have left would take longer.
        required max_backlog: Timeout,
        /// Large: of this size or more, as far as sizes are known.
        default("100KB") large: SomeBytes,
        /// Low: of this level or one after it.
        default("4") level: Level,
    }
}
