//! The actions of routes on requests, as a worker takes them.

use std::collections::HashMap;

use http::{HeaderValue, StatusCode, Uri};
use sprat_config::resolved::{self, PathPattern, RedirectPath};

use super::pages::Page;
use super::replace_prefix;

/// The action that a route takes with a request.
#[derive(Debug)]
pub enum Action {
    /// The request goes to a cluster.
    Forward(Forward),
    /// The client is sent elsewhere.
    Redirect(Redirect),
    /// Sprat answers by itself.
    Respond {
        /// The status of the answer.
        status: StatusCode,
        /// The body; none if it is empty.
        page: Option<Page>,
    },
}

impl Action {
    /// Returns the action that a configuration asks for; `places` are those of its
    /// clusters.
    ///
    /// # Errors
    ///
    /// Fails if a cluster is not there, or if a page cannot be read.
    pub(super) fn of(
        action: &resolved::Action,
        places: &HashMap<&str, usize>,
    ) -> anyhow::Result<Self> {
        Ok(match action {
            resolved::Action::Forward(forward) => Self::Forward(Forward::of(forward, places)?),
            resolved::Action::Redirect(redirect) => Self::Redirect(Redirect(redirect.clone())),
            resolved::Action::Respond(direct) => Self::Respond {
                status: StatusCode::from_u16(direct.status)?,
                page: direct.page.as_ref().map(Page::of).transpose()?,
            },
        })
    }
}

/// The clusters that a route's requests go to, by their places in the configuration.
#[derive(Debug)]
pub struct Forward {
    /// The clusters, each with the sum of the weights up to its own.
    shares: Box<[(u64, usize)]>,
    /// The cluster that requests go to while their own has no endpoint that is well.
    pub(crate) fallback: Option<usize>,
    /// The clusters that get copies, each with the percentage of requests that it gets.
    pub(crate) mirrors: Box<[(usize, u32)]>,
}

impl Forward {
    fn of(forward: &resolved::Forward, places: &HashMap<&str, usize>) -> anyhow::Result<Self> {
        let place = |cluster: &resolved::Cluster| {
            let name = &*cluster.name;
            let unknown = || anyhow::anyhow!("a route names the unknown cluster `{name}`");
            places.get(name).copied().ok_or_else(unknown)
        };
        let mut sum = 0;
        let shares = forward.clusters.iter().map(|own| {
            sum += u64::from(own.weight);
            anyhow::Ok((sum, place(&own.cluster)?))
        });
        let shares: Box<[_]> = shares.collect::<Result<_, _>>()?;
        anyhow::ensure!(sum > 0, "a route has no cluster with a weight");
        let mirrors = forward.mirrors.iter();
        let mirrors = mirrors.map(|own| anyhow::Ok((place(&own.cluster)?, own.percent)));
        Ok(Self {
            shares,
            fallback: forward.fallback.as_deref().map(place).transpose()?,
            mirrors: mirrors.collect::<Result<_, _>>()?,
        })
    }

    /// Returns the cluster that a request goes to, picked by weight with a random number.
    pub fn pick(&self, random: u64) -> usize {
        match &self.shares[..] {
            [(_, only)] => *only,
            shares => {
                let sum = shares.last().map_or(1, |(sum, _)| *sum);
                let drawn = random % sum;
                let at = shares.partition_point(|(upto, _)| *upto <= drawn);
                shares[at].1
            }
        }
    }
}

/// A redirect, which says where a client is sent.
#[derive(Debug)]
pub struct Redirect(resolved::Redirect);

impl Redirect {
    /// Returns the status of the answer.
    pub fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.0.status).unwrap_or(StatusCode::FOUND)
    }

    /// Returns whether the redirect leads from plain text to TLS.
    pub(super) fn is_to_https(&self) -> bool {
        self.0.https
    }

    /// Returns the URL that a client is sent to which asked for `target` at `authority`, by
    /// a route with this pattern; none if it is no URL.
    pub fn location(
        &self,
        authority: Option<&str>,
        is_secure: bool,
        target: &Uri,
        pattern: &PathPattern,
    ) -> Option<HeaderValue> {
        let path = target.path();
        let (path, query) = match &self.0.path {
            RedirectPath::Same => (path.to_owned(), target.query()),
            RedirectPath::Fixed(fixed) => match fixed.split_once('?') {
                Some((path, query)) => (path.to_owned(), Some(query)),
                None => (fixed.clone(), target.query()),
            },
            RedirectPath::Prefix(prefix) => {
                (replace_prefix(pattern, path, prefix)?, target.query())
            }
            RedirectPath::Regex(rewrite) => {
                let rewritten = rewrite.rewrite(path);
                (rewritten.unwrap_or_else(|| path.to_owned()), target.query())
            }
        };
        let keeps_query = !self.0.strip_query
            || matches!(&self.0.path, RedirectPath::Fixed(own) if own.contains('?'));
        let query = query.filter(|_| keeps_query);
        let query = query.map_or(String::new(), |query| format!("?{query}"));
        let base = self.base(authority, is_secure);
        // Without a host, two slashes would name one (RFC 3986 4.2).
        let start = match (&base, path.starts_with("//")) {
            (None, true) => "/.",
            _ => "",
        };
        let slash = if path.starts_with('/') { "" } else { "/" };
        let base = base.unwrap_or_default();
        HeaderValue::try_from(format!("{base}{start}{slash}{path}{query}")).ok()
    }

    /// Returns the scheme and the host of the new URL; none if neither the client nor
    /// the configuration names a host.
    fn base(&self, authority: Option<&str>, is_secure: bool) -> Option<String> {
        let scheme = match self.0.https || is_secure {
            true => "https",
            false => "http",
        };
        let from = self.0.host.as_deref().or(authority)?;
        let (host, port) = split_port(from);
        let is_same_port = self.0.host.is_some() || !self.0.https || is_secure;
        let port = match (self.0.port, port) {
            (Some(own), _) => Some(own.to_string()),
            (None, Some(port)) if is_same_port => Some(port.to_owned()),
            (None, _) => None,
        };
        let usual = if scheme == "https" { "443" } else { "80" };
        Some(match port.filter(|port| port != usual) {
            Some(port) => format!("{scheme}://{host}:{port}"),
            None => format!("{scheme}://{host}"),
        })
    }
}

/// Splits an authority into host and port.
fn split_port(authority: &str) -> (&str, Option<&str>) {
    match authority.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => {
            (host, Some(port).filter(|own| !own.is_empty()))
        }
        _ => (authority, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain() -> resolved::Redirect {
        resolved::Redirect {
            https: false,
            host: None,
            port: None,
            path: RedirectPath::Same,
            strip_query: false,
            status: 301,
        }
    }

    fn location(redirect: resolved::Redirect, authority: &str, target: &str) -> String {
        let authority = Some(authority).filter(|own| !own.is_empty());
        let pattern = PathPattern::Prefix("/old".to_owned());
        let target: Uri = target.parse().unwrap();
        let location = Redirect(redirect).location(authority, false, &target, &pattern);
        location.unwrap().to_str().unwrap().to_owned()
    }

    #[test]
    fn what_is_not_given_stays() {
        let https = resolved::Redirect {
            https: true,
            ..plain()
        };
        let to = |authority, target| location(https.clone(), authority, target);
        assert_eq!(to("a.example", "/old?x=y"), "https://a.example/old?x=y");
        assert_eq!(to("a.example:8080", "/"), "https://a.example/");
        assert_eq!(to("[::1]:8080", "/"), "https://[::1]/");
        let port = resolved::Redirect {
            port: Some(8443),
            ..https.clone()
        };
        assert_eq!(
            location(port, "a.example:80", "/"),
            "https://a.example:8443/"
        );
        let host = resolved::Redirect {
            host: Some("b.example:81".to_owned()),
            ..plain()
        };
        assert_eq!(
            location(host, "a.example:8080", "/x"),
            "http://b.example:81/x"
        );
    }

    #[test]
    fn paths_are_replaced() {
        let with = |path, strip_query| resolved::Redirect {
            path,
            strip_query,
            ..plain()
        };
        let fixed = |text: &str| RedirectPath::Fixed(text.to_owned());
        let to = |redirect, target| location(redirect, "a.example", target);
        assert_eq!(
            to(with(fixed("/n"), false), "/old?x"),
            "http://a.example/n?x"
        );
        assert_eq!(
            to(with(fixed("/n?y"), false), "/old?x"),
            "http://a.example/n?y"
        );
        assert_eq!(
            to(with(fixed("/n?y"), true), "/old?x"),
            "http://a.example/n?y"
        );
        assert_eq!(to(with(fixed("/n"), true), "/old?x"), "http://a.example/n");
        let prefix = with(RedirectPath::Prefix("/new".to_owned()), false);
        assert_eq!(to(prefix, "/old/a?x"), "http://a.example/new/a?x");
        let pattern = resolved::SafeRegex::new("^/old/(.*)$").unwrap();
        let rewrite = resolved::RegexRewrite::new(pattern, r"/\1/new").unwrap();
        let regex = with(RedirectPath::Regex(rewrite), false);
        assert_eq!(to(regex, "/old/a/b"), "http://a.example/a/b/new");
    }

    #[test]
    fn without_a_host_the_path_alone_is_told() {
        let fixed = resolved::Redirect {
            path: RedirectPath::Fixed("//evil.example".to_owned()),
            ..plain()
        };
        assert_eq!(location(fixed, "", "/old"), "/.//evil.example");
    }

    #[test]
    fn clusters_get_their_shares() {
        let forward = Forward {
            shares: Box::new([(0, 7), (3, 8), (3, 9), (10, 10)]),
            fallback: None,
            mirrors: Box::default(),
        };
        let picked: Vec<_> = (0..10).map(|random| forward.pick(random)).collect();
        assert_eq!(picked, [8, 8, 8, 10, 10, 10, 10, 10, 10, 10]);
        assert_eq!(forward.pick(u64::MAX), 10);
    }
}
