//! Routes after every check: the requests that each takes, and what it does with them.

use std::sync::Arc;
use std::time::Duration;

use super::{
    Access, Action, Cluster, Compressor, Conditions, DocumentRoot, ErrorPage, HeadProbe,
    HeaderEdits, HostPattern, Maintenance, PathPattern, RateLimit, RegexRewrite, RetryPolicy,
    RouteBuffer, Weighted, host_matches,
};

/// A route: the requests that it takes, and where they go or how they are answered.
#[derive(Clone, Debug, PartialEq)]
pub struct Route {
    /// The host and the path that a request must have.
    pub matches: RouteMatch,
    /// The conditions that a request must meet beyond its host and path.
    pub conditions: Conditions,
    /// The action that the route takes on requests.
    pub action: Action,
    /// The longest time from the end of the request's head to the end of the response; `None` is
    /// without bound.
    pub timeout: Option<Duration>,
    /// The longest time from the end of the request to the response's head.
    pub response_timeout: Duration,
    /// The longest time between two chunks of the response's body, or of the request's if the
    /// endpoint does not take it.
    pub idle_timeout: Duration,
    /// The rules by which requests are repeated and hedged.
    pub retry: RetryPolicy,
    /// The limit on requests of each client over time.
    pub rate_limit: Option<RateLimit>,
    /// The most bytes of a request's body; none leaves the listener's bound.
    pub max_request_body: Option<BodyBound>,
    /// The path that replaces the matched prefix; none leaves the path as it is.
    pub prefix_rewrite: Option<String>,
    /// The replacement of what an expression matches in the path; none leaves the path as it is.
    pub regex_rewrite: Option<RegexRewrite>,
    /// The `Host` that the endpoint sees in place of the request's.
    pub host_rewrite: Option<String>,
    /// The changes to the heads of requests.
    pub request_headers: HeaderEdits,
    /// The changes to the heads of responses.
    pub response_headers: HeaderEdits,
    /// The pages that clients get in place of other answers.
    pub error_pages: Vec<ErrorPage>,
    /// The maintenance, in which a few clients alone are served; none if there is none.
    pub maintenance: Option<Maintenance>,
    /// The checks on requests before they are served.
    pub access: Access,
    /// The compression of responses; none if they are not compressed.
    pub compressor: Option<Compressor>,
    /// The buffering of bodies for slow clients.
    pub buffer: RouteBuffer,
    /// The directory that holds what the endpoints serve; none if sizes are not read from files.
    pub document_root: Option<DocumentRoot>,
    /// The HEAD requests that ask an endpoint for sizes; none if there are none.
    pub head_probe: Option<HeadProbe>,
    /// The rules for requests that switch to another protocol; none if no request may.
    pub upgrade: Option<Upgrade>,
}

impl Route {
    /// Creates a route of all requests to a cluster, with the defaults of a file that says nothing
    /// else.
    pub fn to(cluster: Arc<Cluster>) -> Self {
        Self {
            matches: RouteMatch::default(),
            conditions: Conditions::default(),
            action: Action::to(cluster),
            timeout: None,
            response_timeout: Duration::from_secs(60),
            idle_timeout: Duration::from_secs(60),
            retry: RetryPolicy::default(),
            rate_limit: None,
            max_request_body: None,
            prefix_rewrite: None,
            regex_rewrite: None,
            host_rewrite: None,
            request_headers: HeaderEdits::default(),
            response_headers: HeaderEdits::default(),
            error_pages: Vec::new(),
            maintenance: None,
            access: Access::default(),
            compressor: None,
            buffer: RouteBuffer::default(),
            document_root: None,
            head_probe: None,
            upgrade: Some(Upgrade {
                protocols: vec!["websocket".to_owned()],
                idle_timeout: Duration::from_secs(300),
                buffer_bytes: 8 << 10,
            }),
        }
    }

    /// Returns the clusters that share the requests; none if Sprat answers them.
    pub fn clusters(&self) -> &[Weighted] {
        match &self.action {
            Action::Forward(forward) => &forward.clusters,
            Action::Redirect(_) | Action::Respond(_) => &[],
        }
    }
}

/// A bound on the bytes of a request's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyBound {
    /// There is no bound.
    Unlimited,
    /// A bound of this number of bytes.
    Bytes(u64),
}

/// The rules for requests that switch to another protocol (RFC 9110 7.8).
#[derive(Clone, Debug, PartialEq)]
pub struct Upgrade {
    /// The protocols that clients may switch to, in lower case, without a version.
    pub protocols: Vec<String>,
    /// The longest time without a byte in either direction.
    pub idle_timeout: Duration,
    /// The most bytes that have been read and not yet written, in each direction.
    pub buffer_bytes: usize,
}

/// The hosts and the path that a request must have to take a route.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct RouteMatch {
    /// The hosts of which one is the request's, in lower case, without port; empty for every host.
    pub hosts: Vec<HostPattern>,
    /// The pattern of the path.
    pub path: PathPattern,
}

impl RouteMatch {
    /// Returns whether a request with this host (without port) and path matches.
    pub fn matches(&self, host: &str, path: &str) -> bool {
        host_matches(&self.hosts, host) && self.path.matches(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_that_says_nothing_else_is_as_a_file_has_it() {
        let text = "version: 1\nlisteners: [{address: '127.0.0.1:8080'}]\n\
                    clusters: {a: {endpoints: ['127.0.0.1:1']}}\nroutes: [{cluster: a}]\n";
        let config = crate::parse(text, "test.yaml", &|_| None).unwrap().config;
        let cluster = Arc::clone(&config.clusters[0]);
        assert_eq!(config.routes, [Route::to(cluster)]);
    }

    #[test]
    fn a_route_takes_its_hosts_and_paths() {
        let hosts = vec![
            HostPattern::Exact("a.test".to_owned()),
            HostPattern::Suffix(".example.org".to_owned()),
        ];
        let route = |path| RouteMatch {
            hosts: hosts.clone(),
            path,
        };
        let exact = route(PathPattern::Exact("/a".to_owned()));
        let prefix = route(PathPattern::Prefix("/a".to_owned()));
        let any = RouteMatch::default();
        for (host, path, matches) in [
            ("a.test", "/a", [true, true, true]),
            ("A.Test", "/a/b", [false, true, true]),
            ("b.a.test", "/a", [false, false, true]),
            ("www.example.org", "/a", [true, true, true]),
            ("x.WWW.Example.org", "/ab", [false, false, true]),
            ("example.org", "/a", [false, false, true]),
            (".example.org", "/a", [false, false, true]),
            ("wwwexample.org", "/a", [false, false, true]),
            ("org", "/a", [false, false, true]),
            ("a.test", "/", [false, false, true]),
        ] {
            let told = [&exact, &prefix, &any].map(|own| own.matches(host, path));
            assert_eq!(told, matches, "{host} {path}");
        }
    }
}
