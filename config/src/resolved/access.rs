//! The checks that decide which clients a route serves.

use std::sync::Arc;
use std::time::Duration;

use super::{CertificateMatch, Cluster, FileAt, Network, Template, TextPattern, ValueMatch};

/// The checks that a route makes before it passes a request on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Access {
    /// The pages of other origins that may use the route; if none, Sprat leaves that to the
    /// backends.
    pub cors: Option<Cors>,
    /// The users who name themselves with a password.
    pub basic_auth: Option<BasicAuth>,
    /// The server that is asked about each request.
    pub ext_authz: Option<ExtAuthz>,
    /// The rules of access, of which the first that fits a request decides. If there are rules and
    /// none fits, the request is refused.
    pub rbac: Vec<RbacRule>,
}

impl Access {
    /// Returns whether there is no check, so that every client is served.
    pub fn is_open(&self) -> bool {
        *self == Self::default()
    }

    /// Returns whether the checks identify a request's user.
    pub fn finds_user(&self) -> bool {
        let asks = |own: &ExtAuthz| own.user_header.is_some();
        self.basic_auth.is_some() || self.ext_authz.as_ref().is_some_and(asks)
    }
}

/// The decision about a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The request is served.
    Allow,
    /// The request is refused.
    Deny,
}

/// A rule of access; a list that is empty holds for every request.
#[derive(Clone, Debug, PartialEq)]
pub struct RbacRule {
    /// The decision about requests that fit the rule.
    pub verdict: Verdict,
    /// The networks of which one has the client's address.
    pub clients: Vec<Network>,
    /// The names that the client's certificate must have.
    pub certificate: Option<CertificateMatch>,
    /// The conditions on fields, which a request must all meet.
    pub headers: Vec<ValueMatch>,
    /// The patterns of which one fits the user's name.
    pub users: Vec<TextPattern>,
}

/// The users who name themselves with a password (RFC 7617).
#[derive(Clone, Debug, PartialEq)]
pub struct BasicAuth {
    /// The file with the users' names and the hashes of their passwords.
    pub users_file: FileAt,
    /// The realm that a browser shows when it asks for the password.
    pub realm: String,
    /// The field that tells the backend the user's name, in lower case.
    pub username_header: Option<String>,
    /// The time for which a password that was right is not hashed again; none if it is hashed each
    /// time.
    pub cache_ttl: Option<Duration>,
    /// The most passwords that are hashed at a time.
    pub max_concurrent_hashes: usize,
    /// The most requests that wait for a hash.
    pub max_waiting: usize,
}

/// A server that is asked whether requests are served.
#[derive(Clone, Debug, PartialEq)]
pub struct ExtAuthz {
    /// The cluster that is asked.
    pub cluster: Arc<Cluster>,
    /// The path of the request to the server.
    pub path: String,
    /// The longest time from the question to the head of the server's answer.
    pub timeout: Duration,
    /// The fields of the request that the server is told, in lower case.
    pub told: Vec<String>,
    /// The fields that the server is told besides, with their values.
    pub added: Vec<(String, Template)>,
    /// The fields of the server's answer that the backend gets, in lower case.
    pub allowed_upstream_headers: Vec<String>,
    /// The field of the server's answer that names the user, in lower case.
    pub user_header: Option<String>,
    /// Whether requests are served while the server cannot be asked.
    pub failure_mode_allow: bool,
}

/// The pages of other origins that may use a route (CORS).
#[derive(Clone, Debug, PartialEq)]
pub struct Cors {
    /// The origins whose pages may use the route.
    pub origins: Vec<AllowedOrigin>,
    /// The methods that pages may use, beside the simple ones.
    pub methods: Vec<String>,
    /// The fields of requests that pages may set, beside the simple ones.
    pub headers: Vec<String>,
    /// The fields of responses that pages may read.
    pub exposed: Vec<String>,
    /// Whether pages may send cookies and passwords.
    pub credentials: bool,
    /// The time for which browsers remember the answer to a preflight request.
    pub max_age: Duration,
}

/// The origins of pages that CORS allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AllowedOrigin {
    /// Every origin there is.
    Any,
    /// One origin, such as `https://app.example.org`.
    Exact(String),
    /// Every host below a domain. The first part is what stands before the host, with `://`; the
    /// second is what the host ends in, with its dot and the port if there is one.
    Below(String, String),
}

impl AllowedOrigin {
    /// Returns whether the origin that a browser tells is allowed.
    pub fn is(&self, told: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Exact(own) => own.eq_ignore_ascii_case(told),
            Self::Below(start, end) => {
                let told = told.to_ascii_lowercase();
                let host = told.strip_prefix(start.as_str());
                let label = host.and_then(|host| host.strip_suffix(end.as_str()));
                label.is_some_and(|own| !own.is_empty() && !own.contains(['/', '@', ':']))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_below_a_domain_are_told_from_others() {
        let below = AllowedOrigin::Below("https://".to_owned(), ".example.org".to_owned());
        for (told, is) in [
            ("https://a.example.org", true),
            ("https://A.b.Example.org", true),
            ("https://example.org", false),
            ("https://.example.org", false),
            ("http://a.example.org", false),
            ("https://a.example.org:8443", false),
            ("https://evil.test/.example.org", false),
            ("https://evil.test:1@a.example.org", false),
            ("https://aexample.org", false),
            ("null", false),
        ] {
            assert_eq!(below.is(told), is, "{told}");
        }
        assert!(AllowedOrigin::Exact("https://a".to_owned()).is("https://A"));
        assert!(!AllowedOrigin::Exact("https://a".to_owned()).is("https://a.b"));
    }

    #[test]
    fn access_is_open_until_a_rule_is_given() {
        let mut access = Access::default();
        assert!(access.is_open());
        access.rbac.push(RbacRule {
            verdict: Verdict::Allow,
            clients: Vec::new(),
            certificate: None,
            headers: Vec::new(),
            users: Vec::new(),
        });
        assert!(!access.is_open());
    }
}
