//! Priority classes and admission as they are written.

use super::{Limit, SomeBytes, Timeout};
use crate::actions::UserPattern;
use crate::addresses::{Cidr, Host, UrlPath};
use crate::containers::{List, Or};
use crate::names::Name;
use crate::numbers::Share;
use crate::patterns::{Dscp, Extension, HeaderName, MediaType, MethodName, ValuePattern};
use crate::record::record;
use crate::scalars::{BitRate, Count, Flag, Time};
use crate::words::{Off, Unlimited};

/// A priority level; 0 is served first.
pub(crate) type Level = Count<0, 15>;

record! {
    /// A priority class of responses.
    closed struct Class {
        /// Priority level: 0 is served first, in the queue for an endpoint and on the uplink.
        default("3") level: Level,
        /// Share of the uplink, relative to the weights of the other classes of the same level
        /// that have something to send.
        default("1") weight: Count<1, 1000>,
        /// Requests of the class in service at the same time, at each cluster and on the uplink
        /// (EH99's limited pool).
        default("unlimited") max_concurrency: Or<Unlimited, Limit>,
        /// The rate at which the uplink sends all responses of the class together, at most
        /// (EH99).
        default("unlimited") rate: Or<Unlimited, BitRate>,
        /// Send only while no other class has anything to send or a response in progress
        /// (EH99's future work).
        default("false") idle_only: Flag,
        /// When a response must begin, counted from the arrival of its request. Under
        /// `order: edf`, `vrd` and `srq`, waiting requests are ordered by it, or by the
        /// `soft_deadline` if there is one. On the uplink: when a response has no value any
        /// more, counted from when the response is there, for `policy: edf`, `vrd` and `srq`.
        default("off") deadline: Or<Off, Timeout>,
        /// When the value of a response begins to fall, counted as for `deadline`. Used by
        /// `order: edf`, `vrd` and `srq`, and by `policy: edf`, `vrd` and `srq`. If absent, all
        /// of the value is lost at the `deadline`.
        optional soft_deadline: Timeout,
        /// Refuse a request whose response would begin after the `deadline`, instead of
        /// delaying it.
        default("false") drop_late: Flag,
        /// The value of a response. Under `order: value` the waiting request with the highest
        /// value goes first. `order: vrd` and `srq`, and `policy: vrd` and `srq` on the uplink,
        /// use it too.
        default("1") value: Count<0, 1_000_000>,
        /// Refuse some of the class's requests before the wait queue is full
        /// (SDIS02).
        default("off") early_discard: Or<Off, EarlyDiscard>,
        /// How long a request may wait for an endpoint, and then its response for its first
        /// turn on the uplink. Then it is answered 503. If absent, the cluster's
        /// `wait_queue.timeout` bounds the wait for an endpoint.
        optional queue_timeout: Or<Off, Timeout>,
    }

    /// Thresholds of early discard, as shares of the wait queue's bound. The averaged length of
    /// the queue is compared with them (SDIS02 3.2).
    closed struct EarlyDiscard {
        /// Up to this share, no request is refused. Above it, more and more are.
        default("0.5") from: Share,
        /// From this share on, all requests are refused.
        default("1") to: Share,
    }

    /// Which requests belong to a class.
    closed struct ClassRule {
        /// Conditions on the request. All of them must hold.
        required matches as "match": ClassMatch,
        /// The class that matching requests get.
        required class: Name,
    }

    /// Conditions that a request must meet to belong to a class. Every key that is given must
    /// hold.
    closed struct ClassMatch {
        /// The client's address is in one of these.
        optional clients: List<Cidr, 1>,
        /// The first packets of the client's connection have one of these code points (RFC
        /// 2474).
        optional dscp: List<Dscp, 1>,
        /// The client has shown a certificate that the listener trusts, with these names; `{}`
        /// matches any such certificate.
        optional client_certificate: CertificateMatch,
        /// The user that the route's `basic_auth` or `ext_authz` has found is one of these. The
        /// user is known only after the route is chosen; then all rules are tried again.
        optional users: List<UserPattern, 1>,
        /// The request's host is one of these, without port; `*.example.org` is every name
        /// below `example.org`.
        optional hosts: List<Host, 1>,
        /// The request's path is exactly this one.
        optional path: UrlPath,
        /// The request's path is this one or below it.
        optional prefix: UrlPath,
        /// The path's last segment ends in one of these, after a dot.
        optional extensions: List<Extension, 1>,
        /// The request's method is one of these.
        optional methods: List<MethodName, 1>,
        /// The request has all of these header fields.
        optional headers: List<FieldMatch, 1>,
        /// The request has all of these cookies.
        optional cookies: List<FieldMatch, 1>,
        /// The request's body is of one of these types.
        optional content_types: List<MediaType, 1>,
        /// The response is of one of these types. The type is known only when the response's
        /// head has come. So the rule decides the response's place on the uplink, but not how
        /// the request waited for an endpoint before.
        optional response_types: List<MediaType, 1>,
        /// The urgency in the request's `Priority` field is one of these (RFC 9218); 3 if the
        /// client sends none.
        optional urgency: List<Count<0, 7>, 1>,
    }

    /// Names in a client's certificate. Every key that is given must hold.
    closed struct CertificateMatch {
        /// A DNS name in the certificate (subjectAltName) is one of these; `*.example.org` is
        /// every name below `example.org`.
        optional dns: List<Host, 1>,
        /// A URI in the certificate, such as a SPIFFE ID, is one of these.
        optional uris: List<ValuePattern, 1>,
        /// The common name of the certificate's subject is one of these.
        optional common_names: List<ValuePattern, 1>,
    }

    /// A header field or a cookie.
    closed struct FieldMatch {
        /// The name of the header field or the cookie.
        required name: HeaderName,
        /// The value; one that ends in `*` is how the value begins. If absent, any value.
        optional value: ValuePattern,
    }

    /// Which requests Sprat refuses under overload (SDIS02 3.2).
    closed struct Admission {
        /// Time over which the length of wait queues is averaged, so that a short burst
        /// discards no request.
        default("500ms") averaging: Time<0>,
        /// Which requests Sprat refuses when the uplink is overloaded.
        default("off") channel: Or<Off, Channel>,
    }

    /// Requests that Sprat refuses when the uplink is overloaded: large ones of low classes,
    /// and those of a class with `drop_late` that would be late (SDIS02 3.2).
    closed struct Channel {
        /// The uplink is overloaded if it needs longer than this for what open responses have
        /// left to send.
        required max_backlog: Timeout,
        /// A request is large if its response has this size or more, as far as sizes are known.
        default("100KB") large: SomeBytes,
        /// A class is low if its level has this number or a higher one.
        default("4") level: Level,
    }
}
