//! From a request's host and path to its route.

mod table;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use http::uri::PathAndQuery;
use http::{HeaderValue, Uri};
pub(crate) use sprat_config::fields::host_without_port;
use sprat_config::resolved::{Config, PathPattern, RetryPolicy, RouteMatch, Upgrade};

use self::table::Table;
use crate::setup::limits::RateLimiter;

/// A route as a worker uses it.
#[derive(Debug)]
pub(crate) struct Route {
    /// Its place among the routes.
    pub(crate) index: usize,
    matches: RouteMatch,
    /// Index into the configuration's clusters.
    pub(crate) cluster: usize,
    /// See [`sprat_config::resolved::Route::timeout`]; so the next two.
    pub(crate) timeout: Option<Duration>,
    /// From the end of the request to the response's head.
    pub(crate) response_timeout: Duration,
    /// Between two chunks.
    pub(crate) idle_timeout: Duration,
    /// Which requests are repeated, and when.
    pub(crate) retry: RetryPolicy,
    /// Requests of each client over time.
    pub(crate) rate: Option<Arc<RateLimiter>>,
    prefix_rewrite: Option<String>,
    /// Replaces the `Host` that the upstream sees.
    pub(crate) host_rewrite: Option<HeaderValue>,
    /// See [`sprat_config::resolved::Route::upgrade`].
    pub(crate) upgrade: Option<Upgrade>,
}

/// The routes of a configuration, in order, and an index of what they match.
#[derive(Debug)]
pub(crate) struct Routes {
    list: Box<[Route]>,
    table: Table,
}

impl Routes {
    /// The routes of a configuration, with their `rates`.
    ///
    /// # Errors
    ///
    /// A cluster that is not there, or a host that no header field can hold.
    pub(crate) fn new(config: &Config, rates: &[Option<Arc<RateLimiter>>]) -> anyhow::Result<Self> {
        let names = config.clusters.iter().map(|cluster| &*cluster.name);
        let clusters: HashMap<&str, usize> = names.zip(0..).collect();
        let route = |(index, route): (usize, &sprat_config::resolved::Route)| {
            let name = &*route.cluster.name;
            let cluster = clusters.get(name).copied();
            anyhow::Ok(Route {
                index,
                matches: route.matches.clone(),
                cluster: cluster
                    .ok_or_else(|| anyhow::anyhow!("a route names the unknown cluster `{name}`"))?,
                timeout: route.timeout,
                response_timeout: route.response_timeout,
                idle_timeout: route.idle_timeout,
                retry: route.retry.clone(),
                rate: rates.get(index).cloned().flatten(),
                prefix_rewrite: route.prefix_rewrite.clone(),
                host_rewrite: match &route.host_rewrite {
                    Some(host) => Some(HeaderValue::from_str(host)?),
                    None => None,
                },
                upgrade: route.upgrade.clone(),
            })
        };
        let list = config.routes.iter().enumerate().map(route);
        Ok(Self::of(list.collect::<Result<_, _>>()?))
    }

    fn of(list: Box<[Route]>) -> Self {
        let table = Table::new(list.iter().map(|route| &route.matches));
        Self { list, table }
    }

    /// Returns the first route that matches; `host` is without port, empty if there is
    /// none.
    pub(crate) fn find(&self, host: &str, path: &str) -> Option<&Route> {
        self.table.first(host, path).map(|index| &self.list[index])
    }

    /// Returns the requests over time of the route at this place.
    pub(crate) fn rate(&self, index: usize) -> Option<&Arc<RateLimiter>> {
        self.list[index].rate.as_ref()
    }
}

/// A target with another path in normal form, and its own query. None if that is no
/// valid target.
pub(crate) fn with_path(uri: &Uri, path: &str) -> Option<Uri> {
    let target = match uri.query() {
        Some(query) => format!("{path}?{query}").try_into().ok()?,
        None => PathAndQuery::try_from(path).ok()?,
    };
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(target);
    Uri::from_parts(parts).ok()
}

impl Route {
    /// Whether it is for a path with an encoded slash or backslash.
    pub(crate) fn names_escaped_slash(&self) -> bool {
        let (PathPattern::Exact(path) | PathPattern::Prefix(path)) = &self.matches.path else {
            return false;
        };
        path.contains("%2F") || path.contains("%5C")
    }

    /// The target that the upstream gets: origin-form, the matched prefix
    /// replaced. None if the rewritten path is no valid target.
    pub(crate) fn target(&self, uri: &Uri) -> Option<Uri> {
        let Some(rewrite) = &self.prefix_rewrite else {
            if uri.scheme().is_none() && uri.authority().is_none() {
                return Some(uri.clone());
            }
            let path = uri.path_and_query().cloned();
            return Some(Uri::from(
                path.unwrap_or_else(|| PathAndQuery::from_static("/")),
            ));
        };
        if uri.path() == "*" {
            return Some(Uri::from_static("*"));
        }
        let rest = match &self.matches.path {
            PathPattern::Any => uri.path(),
            PathPattern::Exact(_) => "",
            PathPattern::Prefix(prefix) => uri.path().strip_prefix(prefix.as_str())?,
        };
        let mut target = String::with_capacity(rewrite.len() + rest.len() + 16);
        target.push_str(rewrite.strip_suffix('/').unwrap_or(rewrite));
        if !rest.is_empty() || rewrite.ends_with('/') {
            if !rest.starts_with('/') {
                target.push('/');
            }
            target.push_str(rest);
        }
        if !target.starts_with('/') {
            target.insert(0, '/');
        }
        if let Some(query) = uri.query() {
            target.push('?');
            target.push_str(query);
        }
        target.parse::<PathAndQuery>().ok().map(Uri::from)
    }
}

#[cfg(test)]
mod tests {
    use sprat_config::resolved::HostPattern;

    use super::*;

    fn route(hosts: &[HostPattern], path: PathPattern, rewrite: Option<&str>) -> Route {
        Route {
            index: 0,
            matches: RouteMatch {
                hosts: hosts.to_vec(),
                path,
            },
            cluster: 0,
            timeout: None,
            response_timeout: Duration::ZERO,
            idle_timeout: Duration::ZERO,
            retry: RetryPolicy::none(),
            rate: None,
            prefix_rewrite: rewrite.map(str::to_owned),
            host_rewrite: None,
            upgrade: None,
        }
    }

    fn prefix(text: &str) -> PathPattern {
        PathPattern::Prefix(text.to_owned())
    }

    #[test]
    fn the_first_match_wins() {
        let suffix = HostPattern::Suffix(".example.org".to_owned());
        let exact = HostPattern::Exact("www.example.org".to_owned());
        let mut routes = vec![
            route(
                std::slice::from_ref(&exact),
                PathPattern::Exact("/a".to_owned()),
                None,
            ),
            route(&[suffix], prefix("/a"), None),
            route(&[exact], PathPattern::Any, None),
        ];
        for (index, route) in routes.iter_mut().enumerate() {
            route.cluster = index;
        }
        let routes = Routes::of(routes.into());
        let find = |host, path| routes.find(host, path).map(|route| route.cluster);
        assert_eq!(find("WWW.example.org", "/a"), Some(0));
        assert_eq!(find("www.Example.org", "/a/b"), Some(1));
        assert_eq!(find("www.example.org", "/ab"), Some(2));
        assert_eq!(find("x.example.org", "/ab"), None);
        assert_eq!(find("example.org", "/a"), None);
        assert_eq!(find("", "/a"), None);
    }

    #[test]
    fn prefixes_end_at_a_slash() {
        for (pattern, path, matches) in [
            ("/a", "/a", true),
            ("/a", "/a/", true),
            ("/a", "/ab", false),
            ("/a/", "/a/b", true),
            ("/a/", "/a", false),
            ("/", "/x", true),
        ] {
            let route = route(&[], prefix(pattern), None);
            assert_eq!(
                route.matches.path.matches(path),
                matches,
                "{pattern} {path}"
            );
        }
    }

    #[test]
    fn prefixes_are_rewritten() {
        for (pattern, rewrite, target, rewritten) in [
            ("/a", "/b", "/a/c?q=1", "/b/c?q=1"),
            ("/a", "/", "/a/c", "/c"),
            ("/a", "/", "/a", "/"),
            ("/a/", "/b", "/a/c", "/b/c"),
            ("/a/", "/b/", "/a/", "/b/"),
            ("/", "/b", "/c", "/b/c"),
            ("/a", "/b", "/a", "/b"),
        ] {
            let route = route(&[], prefix(pattern), Some(rewrite));
            let uri = route.target(&target.parse().unwrap()).unwrap();
            assert_eq!(uri, rewritten, "{pattern} {rewrite} {target}");
        }
        let absolute: Uri = "http://h:80/x?y".parse().unwrap();
        let plain = route(&[], PathPattern::Any, None);
        assert_eq!(plain.target(&absolute).unwrap(), "/x?y");
        let any = route(&[], PathPattern::Any, Some("/b"));
        assert_eq!(any.target(&absolute).unwrap(), "/b/x?y");
        assert_eq!(any.target(&Uri::from_static("*")).unwrap(), "*");
    }

    #[test]
    fn hosts_lose_their_port() {
        for (authority, host) in [
            ("example.org", Some("example.org")),
            ("example.org:8080", Some("example.org")),
            ("example.org:", Some("example.org")),
            ("example.org.:80", Some("example.org")),
            (".", Some(".")),
            ("[::1]:80", Some("::1")),
            ("[::1]", Some("::1")),
            ("a%c3%A4", Some("a%c3%A4")),
            ("a%zz", None),
            ("a%", None),
            ("a%c", None),
            ("%%41", None),
            ("a:b", None),
            ("a:99999", None),
            ("[::1", None),
            ("[]", None),
            ("[::1]80", None),
            ("", None),
            (":80", None),
            ("user@host", None),
            ("a b", None),
            ("a/b", None),
        ] {
            assert_eq!(host_without_port(authority), host, "{authority}");
        }
    }
}
