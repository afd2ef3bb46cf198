//! Routes, and the way from a request's head to one of them.

mod access;
mod action;
mod edits;
mod pages;
mod table;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use sprat_config::classify::Asked;
use sprat_config::fields::Fields;
pub use sprat_config::fields::host_without_port;
use sprat_config::paths::has_dots;
use sprat_config::resolved::{
    BodyBound, Compressor, Conditions, Config, Maintenance, PathPattern, RegexRewrite, RetryPolicy,
    RouteBuffer, RouteMatch, Upgrade,
};

pub(crate) use self::access::{Access, Authz, Basic, Denied, Granted, VouchedField};
pub use self::action::{Action, Forward, Redirect};
pub(crate) use self::edits::{EditNeeds, Edits, Peer, Subject, Telling};
pub(crate) use self::pages::ErrorPages;
pub use self::pages::Page;
use self::table::Table;
use crate::setup::limits::RateLimiter;
use sprat_net::disposal::FreedAside;
use sprat_net::error::Reason;
use sprat_net::problem::Problem;

/// The verdict of a route's rules (`rbac`) on a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The request may pass.
    Passes,
    /// The request is refused.
    Refused,
    /// The request is refused, and its user, whom the rules ask for, is not known.
    RefusedWithoutUser,
}

/// A route as a worker uses it.
#[derive(Debug)]
pub struct Route {
    /// The route's place among the routes.
    pub index: usize,
    matches: RouteMatch,
    /// The conditions of the route; none if every request meets them.
    conditions: Option<Box<Conditions>>,
    /// Whether the route takes only requests that came in plain text: it sends them to TLS.
    is_for_plain: bool,
    /// The action that the route takes with requests.
    pub action: Action,
    /// The maintenance during which only some clients are served; none if all are.
    maintenance: Option<Maintenance>,
    /// The longest time from the end of the request's head to the end of the response; none
    /// is without bound.
    pub(crate) timeout: Option<Duration>,
    /// The longest time from the end of the request to the response's head.
    pub(crate) response_timeout: Duration,
    /// The longest pause between two chunks of a body.
    pub(crate) idle_timeout: Duration,
    /// The rules on which requests are repeated, and when.
    pub(crate) retry: RetryPolicy,
    /// The limit on the rate of each client's requests; none if there is none.
    pub(crate) rate: Option<Arc<RateLimiter>>,
    /// The bound on the bytes of a request's body; none if the listener's bound counts.
    pub(crate) max_request_body: Option<BodyBound>,
    prefix_rewrite: Option<String>,
    regex_rewrite: Option<RegexRewrite>,
    /// The `Host` that the upstream sees in place of the client's.
    pub(crate) host_rewrite: Option<HeaderValue>,
    /// The protocols that may be switched to; see [`sprat_config::resolved::Route::upgrade`].
    pub(crate) upgrade: Option<Upgrade>,
    /// The changes of heads; none if the route makes none.
    pub(crate) edits: Option<Box<RouteEdits>>,
    /// The pages that clients get in place of answers.
    pub(crate) pages: ErrorPages,
    /// The rules on which clients may ask; none if all may.
    pub(crate) access: Option<Box<Access>>,
    /// The compression of responses; none if they are not compressed.
    pub(crate) compressor: Option<Box<Compressor>>,
    /// The rules on what is kept of bodies for slow clients.
    pub(crate) buffer: RouteBuffer,
}

/// Returns the problems with the files that routes name.
pub(crate) fn inspect(config: &Config) -> impl Iterator<Item = Problem> {
    pages::inspect(config).chain(access::inspect(config))
}

/// The changes that a route makes to the heads of its requests and of their responses.
#[derive(Debug)]
pub(crate) struct RouteEdits {
    /// The changes of requests to endpoints.
    pub(crate) request: Option<Edits>,
    /// The changes of responses to clients.
    pub(crate) response: Option<Edits>,
    /// The facts of a request that the changes tell.
    pub(crate) needs: EditNeeds,
}

impl RouteEdits {
    fn of(route: &sprat_config::resolved::Route) -> anyhow::Result<Option<Box<Self>>> {
        let request = Edits::of(&route.request_headers)?;
        let response = Edits::of(&route.response_headers)?;
        if request.is_none() && response.is_none() {
            return Ok(None);
        }
        Ok(Some(Box::new(Self {
            needs: EditNeeds::of([request.as_ref(), response.as_ref()]),
            request,
            response,
        })))
    }
}

/// A request, as far as routes go by it.
pub struct Sought<'a, F: ?Sized> {
    /// The request, as classes go by it too; its path is in normal form.
    pub asked: &'a Asked<'a, F>,
    /// The query of the target, empty if it has none.
    pub query: &'a str,
    /// Whether the request came over TLS, to Sprat or to a trusted proxy before it.
    pub is_secure: bool,
}

/// The routes of a configuration, in order, and an index of what they match.
#[derive(Debug)]
pub struct Routes {
    // The last to hold them is a worker.
    list: FreedAside<Box<[Route]>>,
    table: FreedAside<Table>,
}

impl Routes {
    /// Makes the routes of a configuration without rate limiters, so that no request is counted.
    ///
    /// # Errors
    ///
    /// Fails if a cluster is not there, if a page cannot be read, or if no header field can
    /// hold a host.
    pub fn uncounted(config: &Config) -> anyhow::Result<Self> {
        Self::new(config, &[])
    }

    /// Makes the routes of a configuration, with their rate limiters, `rates`.
    ///
    /// # Errors
    ///
    /// Fails if a cluster is not there, if a page cannot be read, or if no header field can
    /// hold a host.
    pub(crate) fn new(config: &Config, rates: &[Option<Arc<RateLimiter>>]) -> anyhow::Result<Self> {
        let names = config.clusters.iter().map(|cluster| &*cluster.name);
        let clusters: HashMap<&str, usize> = names.zip(0..).collect();
        let route = |(index, route): (usize, &sprat_config::resolved::Route)| {
            let action = Action::of(&route.action, &clusters)?;
            anyhow::Ok(Route {
                index,
                matches: route.matches.clone(),
                conditions: (!route.conditions.are_none())
                    .then(|| Box::new(route.conditions.clone())),
                is_for_plain: matches!(&action, Action::Redirect(own) if own.is_to_https()),
                action,
                maintenance: route.maintenance.clone(),
                timeout: route.timeout,
                response_timeout: route.response_timeout,
                idle_timeout: route.idle_timeout,
                retry: route.retry.clone(),
                rate: rates.get(index).cloned().flatten(),
                max_request_body: route.max_request_body,
                prefix_rewrite: route.prefix_rewrite.clone(),
                regex_rewrite: route.regex_rewrite.clone(),
                host_rewrite: match &route.host_rewrite {
                    Some(host) => Some(HeaderValue::from_str(host)?),
                    None => None,
                },
                upgrade: route.upgrade.clone(),
                edits: RouteEdits::of(route)?,
                pages: ErrorPages::of(&route.error_pages)?,
                access: Access::of(&route.access, &clusters)?,
                compressor: route.compressor.clone().map(Box::new),
                buffer: route.buffer.clone(),
            })
        };
        let list = config.routes.iter().enumerate().map(route);
        Ok(Self::of(list.collect::<Result<_, _>>()?))
    }

    fn of(list: Box<[Route]>) -> Self {
        let table = Table::new(list.iter().map(|own| (&own.matches, own.takes_all())));
        Self {
            list: FreedAside::new(list),
            table: FreedAside::new(table),
        }
    }

    /// Returns the first route that a request fits.
    pub(crate) fn find<F: Fields + ?Sized>(&self, sought: &Sought<'_, F>) -> Option<&Route> {
        let (host, path) = (sought.asked.host, sought.asked.path);
        let fits = |index: usize| self.list[index].fits(sought);
        let first = self.table.first(host, path, fits);
        first.map(|index| &self.list[index])
    }

    /// Returns the route at this place.
    pub(crate) fn at(&self, index: usize) -> &Route {
        &self.list[index]
    }
}

/// Returns a target with another path in normal form, and its own query. None if
/// that is no valid target.
pub fn with_path(uri: &Uri, path: &str) -> Option<Uri> {
    let target = match uri.query() {
        Some(query) => format!("{path}?{query}").try_into().ok()?,
        None => PathAndQuery::try_from(path).ok()?,
    };
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(target);
    Uri::from_parts(parts).ok()
}

impl Route {
    /// Returns whether the route takes every request for its hosts and its path.
    fn takes_all(&self) -> bool {
        self.conditions.is_none() && !self.is_for_plain
    }

    /// Returns whether the route takes this request for its hosts and its path.
    fn fits<F: Fields + ?Sized>(&self, sought: &Sought<'_, F>) -> bool {
        !(self.is_for_plain && sought.is_secure)
            && (self.conditions.as_ref()).is_none_or(|own| own.hold(sought.asked, sought.query))
    }

    /// Returns the pattern of the route's path.
    pub fn pattern(&self) -> &PathPattern {
        &self.matches.path
    }

    /// Returns the verdict of the route's rules on a request; none if it has no rules.
    pub fn verdict<F: Fields + ?Sized>(&self, asked: &Asked<'_, F>) -> Option<Verdict> {
        let access = self.access.as_deref().filter(|own| own.has_rules())?;
        let lacks_user = access.asks_for_user() && asked.user.is_none();
        Some(match (access.allows(asked), lacks_user) {
            (true, _) => Verdict::Passes,
            (false, false) => Verdict::Refused,
            (false, true) => Verdict::RefusedWithoutUser,
        })
    }

    /// Returns the status of the answer to a preflight, by which a browser asks what a page of
    /// another origin may do, or the reason to refuse it. None for any other request, and if the
    /// route says nothing of pages (`cors`).
    pub fn preflight(
        &self,
        method: &Method,
        request: &HeaderMap,
    ) -> Option<Result<StatusCode, Reason>> {
        let access = self.access.as_deref()?;
        access.cors.as_ref()?.preflight(method, request)
    }

    /// Returns the maintenance for which the route is closed to a client, if it is.
    pub fn closed_to(&self, client: std::net::IpAddr) -> Option<&Maintenance> {
        let closed = self.maintenance.as_ref()?;
        let is_exempt = closed.exempt.iter().any(|network| network.contains(client));
        (!is_exempt).then_some(closed)
    }

    /// Returns whether the route is for a path with an encoded slash or backslash.
    pub(crate) fn names_escaped_slash(&self) -> bool {
        let (PathPattern::Exact(path) | PathPattern::Prefix(path)) = &self.matches.path else {
            return false;
        };
        path.contains("%2F") || path.contains("%5C")
    }

    /// Returns the target that the upstream gets: origin-form, rewritten. None if the
    /// rewritten path is no valid target.
    pub fn target(&self, uri: &Uri) -> Option<Uri> {
        if uri.path() == "*" {
            return Some(Uri::from_static("*"));
        }
        let rewritten = match (&self.prefix_rewrite, &self.regex_rewrite) {
            (Some(rewrite), _) => Some(replace_prefix(&self.matches.path, uri.path(), rewrite)?),
            (None, Some(rewrite)) => rewrite.rewrite(uri.path()),
            (None, None) => None,
        };
        let Some(mut target) = rewritten else {
            if uri.scheme().is_none() && uri.authority().is_none() {
                return Some(uri.clone());
            }
            let path = uri.path_and_query().cloned();
            return Some(Uri::from(
                path.unwrap_or_else(|| PathAndQuery::from_static("/")),
            ));
        };
        if !target.starts_with('/') {
            target.insert(0, '/');
        }
        // An expression may cut a segment, so that its rest leads out of the prefix that the
        // rewritten path begins with: `/img..` by `^/img(.*)$` to `/assets/\1`.
        if self.regex_rewrite.is_some() && has_dots(&target) && !has_dots(uri.path()) {
            return None;
        }
        if let Some(query) = uri.query() {
            target.push('?');
            target.push_str(query);
        }
        target.parse::<PathAndQuery>().ok().map(Uri::from)
    }
}

/// Returns a path with what a pattern matches replaced; none if it does not match.
fn replace_prefix(pattern: &PathPattern, path: &str, rewrite: &str) -> Option<String> {
    let rest = match pattern {
        PathPattern::Any => path,
        PathPattern::Exact(_) => "",
        PathPattern::Prefix(prefix) => path.strip_prefix(prefix.as_str())?,
    };
    let mut out = String::with_capacity(rewrite.len() + rest.len() + 16);
    out.push_str(rewrite.strip_suffix('/').unwrap_or(rewrite));
    if !rest.is_empty() || rewrite.ends_with('/') {
        if !rest.starts_with('/') {
            out.push('/');
        }
        out.push_str(rest);
    }
    Some(out)
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
            conditions: None,
            is_for_plain: false,
            action: Action::Respond {
                status: StatusCode::OK,
                page: None,
            },
            maintenance: None,
            timeout: None,
            response_timeout: Duration::ZERO,
            idle_timeout: Duration::ZERO,
            retry: RetryPolicy::none(),
            rate: None,
            max_request_body: None,
            prefix_rewrite: rewrite.map(str::to_owned),
            regex_rewrite: None,
            host_rewrite: None,
            upgrade: None,
            edits: None,
            pages: ErrorPages::of(&[]).unwrap(),
            access: None,
            compressor: None,
            buffer: RouteBuffer::default(),
        }
    }

    /// Returns the place of the route that a GET takes.
    fn find(routes: &Routes, host: &str, path: &str, is_secure: bool) -> Option<usize> {
        let asked = Asked {
            client: None,
            dscp: None,
            certificate: None,
            user: None,
            host,
            path,
            method: "GET",
            fields: &[][..],
        };
        let sought = Sought {
            asked: &asked,
            query: "",
            is_secure,
        };
        routes.find(&sought).map(|route| route.index)
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
            route.index = index;
        }
        let routes = Routes::of(routes.into());
        let find = |host, path| find(&routes, host, path, false);
        assert_eq!(find("WWW.example.org", "/a"), Some(0));
        assert_eq!(find("www.Example.org", "/a/b"), Some(1));
        assert_eq!(find("www.example.org", "/ab"), Some(2));
        assert_eq!(find("x.example.org", "/ab"), None);
        assert_eq!(find("example.org", "/a"), None);
        assert_eq!(find("", "/a"), None);
    }

    #[test]
    fn a_route_that_does_not_take_a_request_leaves_it_to_the_next() {
        let post = Conditions {
            methods: vec!["POST".to_owned()],
            ..Conditions::default()
        };
        let mut list: Vec<_> = (0..4).map(|_| route(&[], prefix("/a"), None)).collect();
        list[0].conditions = Some(Box::new(post));
        list[1].is_for_plain = true;
        list[3].matches.path = PathPattern::Any;
        for (index, route) in list.iter_mut().enumerate() {
            route.index = index;
        }
        let routes = Routes::of(list.into());
        assert_eq!(find(&routes, "h", "/a", false), Some(1));
        assert_eq!(find(&routes, "h", "/a", true), Some(2));
        assert_eq!(find(&routes, "h", "/b", true), Some(3));
    }

    #[test]
    fn a_regex_rewrites_the_path_and_keeps_the_query() {
        let pattern = sprat_config::resolved::SafeRegex::new("^/u/([0-9]+)").unwrap();
        let mut route = route(&[], PathPattern::Any, None);
        route.regex_rewrite = Some(RegexRewrite::new(pattern, r"/user-\1").unwrap());
        let target = |uri: &str| route.target(&uri.parse().unwrap()).unwrap().to_string();
        assert_eq!(target("/u/12/x?y=/u/1"), "/user-12/x?y=/u/1");
        assert_eq!(target("http://h/v/12"), "/v/12");
    }

    #[test]
    fn a_regex_does_not_lead_out_of_a_directory() {
        let pattern = sprat_config::resolved::SafeRegex::new("^/img(.*)$").unwrap();
        let mut route = route(&[], PathPattern::Any, None);
        route.regex_rewrite = Some(RegexRewrite::new(pattern, r"/assets/\1").unwrap());
        let target = |uri: &str| route.target(&uri.parse().unwrap());
        assert!(target("/img/a..b").is_some() && target("/img/...").is_some());
        for out in ["/img../secret/x", "/img..", "/img..%2Fsecret", "/img.?a"] {
            assert_eq!(target(out), None, "{out}");
        }
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
}
