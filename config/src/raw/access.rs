//! The checks on requests, as they are written.

use super::{CertificateMatch, HeaderMatch, HeaderValue, Timeout};
use crate::actions::{EditedName, OriginPattern, Realm, UserPattern};
use crate::addresses::{Cidr, UrlPath};
use crate::containers::{List, Or};
use crate::names::{FilePath, Name};
use crate::patterns::{HeaderName, MethodName};
use crate::record::{choices, record};
use crate::resolved::Verdict;
use crate::scalars::{Count, Flag, Off, Time};

record! {
    /// A rule about who may ask; every key that is given must hold.
    closed struct RbacRule {
        /// What is done with requests that the rule is for.
        required action: Verdict,
        /// The client's address is in one of these.
        optional clients: List<Cidr, 1>,
        /// The client has shown a certificate that its listener believes, with
        /// these names; `{}` is any.
        optional client_certificate: CertificateMatch,
        /// Header fields that the request must all have.
        optional headers: List<HeaderMatch, 1>,
        /// The user that `basic_auth` or `ext_authz` has found is one of these.
        optional users: List<UserPattern, 1>,
    }

    /// Users with passwords (RFC 7617). Give it over TLS alone: passwords pass as they
    /// are.
    closed struct BasicAuth {
        /// A file as `htpasswd -B` writes it: `name:hash` a line, hashed by bcrypt or
        /// argon2. It is read when Sprat starts and at each reload.
        required users_file: FilePath,
        /// What a browser shows when it asks for the password.
        default("restricted") realm: Realm,
        /// A field that tells the backend who asks; what the client sends under that
        /// name is dropped.
        optional forward_username_header: EditedName,
        /// How long a password that was right is not hashed again; a hash takes tens of
        /// milliseconds.
        default("5m") cache_ttl: Or<Off, Timeout>,
        /// Passwords that are hashed at a time, on threads beside the workers'.
        default("2") max_concurrent_hashes: Count<1, 64>,
        /// Requests that wait for a hash; one over it is answered 503.
        default("64") max_waiting: Count<1, 100_000>,
    }

    /// A server that is asked whether a request is served, as `auth_request` of nginx and
    /// `forwardAuth` of Traefik have it: with status 200 to 299 it is, else the client
    /// gets the server's answer.
    closed struct ExtAuthz {
        /// The cluster that is asked.
        required cluster: Name,
        /// The path that it is asked for, by GET.
        required path: UrlPath,
        /// From the question to the answer's head.
        default("5s") timeout: Timeout,
        /// Fields of the request that it is told, beside `X-Forwarded-Method`, `-Proto`,
        /// `-Host`, `-Uri` and `-For`.
        default("[Authorization, Cookie, Origin]") allowed_headers: List<HeaderName, 0>,
        /// More fields that it is told, in place of those of the same name: values as in
        /// `request_headers_to_set`.
        default("[]") headers_to_add: List<HeaderValue, 0>,
        /// Fields of its answer that the backend gets; what the client sends under these
        /// names is dropped.
        default("[]") allowed_upstream_headers: List<EditedName, 0>,
        /// The field of its answer that names the user, for `rbac`, class rules and the
        /// access log.
        optional user_header: HeaderName,
        /// Serve requests while it cannot be asked; else they are answered 503.
        default("false") failure_mode_allow: Flag,
    }

    /// Which web pages of other origins may use what is served (the Fetch standard, CORS).
    closed struct Cors {
        /// The origins, such as `https://app.example.org`; `https://*.example.org` is every
        /// host below, `*` is every origin.
        required allow_origins: List<OriginPattern, 1>,
        /// Methods beside GET, HEAD and POST.
        default("[]") allow_methods: List<MethodName, 0>,
        /// Fields that requests may have beside the simple ones.
        default("[]") allow_headers: List<HeaderName, 0>,
        /// Fields of responses that pages may read beside the simple ones.
        default("[]") expose_headers: List<HeaderName, 0>,
        /// Pages may send cookies and passwords.
        default("false") allow_credentials: Flag,
        /// How long browsers remember the answer.
        default("10m") max_age: Time<0>,
    }
}

choices! {
    Verdict as "Verdict": "what is done with a request" {
        /// The request is served.
        "allow" => Verdict::Allow,
        /// The request is answered 403.
        "deny" => Verdict::Deny,
    }
}
