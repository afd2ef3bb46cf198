//! The checks on requests, as they are written.

use super::{CertificateMatch, HeaderMatch, HeaderValue, Timeout};
use crate::actions::{EditedName, OriginPattern, Realm, UserPattern};
use crate::addresses::{Cidr, UrlPath};
use crate::containers::{List, Or};
use crate::names::{FilePath, Name};
use crate::patterns::{HeaderName, MethodName};
use crate::record::{choices, record};
use crate::resolved::Verdict;
use crate::scalars::{Count, Flag, Time};
use crate::words::Off;

record! {
    /// An access rule. A request must meet all conditions that are given.
    closed struct RbacRule {
        /// What to do with requests that the rule matches.
        required action: Verdict,
        /// The client's address is in one of these.
        optional clients: List<Cidr, 1>,
        /// The client has shown a certificate that its listener trusts, with these names; `{}` is
        /// any certificate.
        optional client_certificate: CertificateMatch,
        /// Header fields. The request must have all of them.
        optional headers: List<HeaderMatch, 1>,
        /// The user, as `basic_auth` or `ext_authz` has found it, is one of these.
        optional users: List<UserPattern, 1>,
    }

    /// Users with passwords (RFC 7617). Use it over TLS only: clients send passwords unencrypted.
    closed struct BasicAuth {
        /// A file as `htpasswd -B` writes it: one `name:hash` per line, hashed with bcrypt or
        /// argon2. Sprat reads it at the start and at each reload.
        required users_file: FilePath,
        /// The realm. A browser shows it when it asks for the password.
        default("restricted") realm: Realm,
        /// Header field that tells the backend the user's name. If the client sends a field of that
        /// name, Sprat drops it.
        optional forward_username_header: EditedName,
        /// How long Sprat remembers a correct password, and does not hash it again. A hash takes
        /// tens of milliseconds. `off` hashes every password.
        default("5m") cache_ttl: Or<Off, Timeout>,
        /// Passwords of this route that are hashed at the same time, on threads other than the
        /// workers'.
        default("2") max_concurrent_hashes: Count<1, 64>,
        /// Requests of this route that wait for a hash; one over it is answered 503.
        default("64") max_waiting: Count<1, 100_000>,
    }

    /// An authorization server, which decides whether a request is served, as with `auth_request`
    /// of nginx and `forwardAuth` of Traefik. If its answer has a status from 200 to 299, Sprat
    /// serves the request. Otherwise the client gets the server's answer.
    closed struct ExtAuthz {
        /// The cluster of the authorization server.
        required cluster: Name,
        /// Path of the GET request that Sprat sends to the authorization server.
        required path: UrlPath,
        /// Time from Sprat's request to the head of the server's answer. It includes a wait for an
        /// endpoint.
        default("5s") timeout: Timeout,
        /// Header fields of the client's request that the authorization server gets, beside
        /// `X-Forwarded-Method`, `-Proto`, `-Host`, `-Uri` and `-For`.
        default("[Authorization, Cookie, Origin]") allowed_headers: List<HeaderName, 0>,
        /// More header fields that the authorization server gets. They replace fields of the same
        /// name. Values are as in `request_headers_to_set`.
        default("[]") headers_to_add: List<HeaderValue, 0>,
        /// Header fields of the authorization server's answer that the backend gets. If the client
        /// sends fields of these names, Sprat drops them.
        default("[]") allowed_upstream_headers: List<EditedName, 0>,
        /// Header field of the authorization server's answer that names the user, for `rbac`, class
        /// rules and the access log.
        optional user_header: HeaderName,
        /// Serve a request if the authorization server does not answer. With `false` the request is
        /// answered 503.
        default("false") failure_mode_allow: Flag,
    }

    /// Which web pages of other origins may use the route (the Fetch standard, CORS).
    closed struct Cors {
        /// Allowed origins, such as `https://app.example.org`. `https://*.example.org` is every
        /// host below `example.org`; `*` is every origin.
        required allow_origins: List<OriginPattern, 1>,
        /// Allowed methods, beside GET, HEAD and POST.
        default("[]") allow_methods: List<MethodName, 0>,
        /// Header fields that requests may have, beside those that the Fetch standard always
        /// allows.
        default("[]") allow_headers: List<HeaderName, 0>,
        /// Header fields of responses that pages may read, beside those that the Fetch standard
        /// always allows.
        default("[]") expose_headers: List<HeaderName, 0>,
        /// Let pages send cookies and passwords.
        default("false") allow_credentials: Flag,
        /// How long browsers remember the answer to a preflight request.
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
