//! An index of routes: by host, then by the segments of the path. It finds the first route
//! of the configuration that matches, as a walk through the list would. The time that this
//! takes depends on the request, not on the number of routes, but for those that are for
//! the same hosts and the same path under other conditions.

use std::borrow::Cow;
use std::collections::HashMap;

use sprat_config::resolved::{HostPattern, PathPattern, RouteMatch};

/// An index of what routes match. Every number in it is a route's place in the
/// configuration; of those that claim the same, none is kept behind one that takes all.
#[derive(Debug, Default)]
pub(super) struct Table {
    /// Routes for every host.
    any_host: Paths,
    /// The paths of hosts, by name in lower case.
    hosts: HashMap<Box<str>, Paths>,
    /// The paths of hosts, by what a name ends in, with its dot: `.example.org`.
    suffixes: HashMap<Box<str>, Paths>,
    /// The bytes of the longest suffix.
    max_suffix_len: usize,
}

impl Table {
    /// Indexes what routes match, in the order of the configuration, and whether each takes
    /// all that it matches.
    pub(super) fn new<'a>(routes: impl IntoIterator<Item = (&'a RouteMatch, bool)>) -> Self {
        let mut table = Self::default();
        for (place, (matches, takes_all)) in routes.into_iter().enumerate() {
            let route = Claim { place, takes_all };
            if matches.hosts.is_empty() {
                table.any_host.add(route, &matches.path);
            }
            for host in &matches.hosts {
                let paths = match host {
                    HostPattern::Exact(name) => table.hosts.entry(lower(name).into()).or_default(),
                    HostPattern::Suffix(suffix) => {
                        table.max_suffix_len = table.max_suffix_len.max(suffix.len());
                        table.suffixes.entry(lower(suffix).into()).or_default()
                    }
                };
                paths.add(route, &matches.path);
            }
        }
        table
    }

    /// Returns the first route that matches a host, without port, and a path. `fits` says
    /// of a route that does not take all whether it takes this request.
    pub(super) fn first(
        &self,
        host: &str,
        path: &str,
        fits: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let mut search = Search { first: None, fits };
        self.any_host.search(path, &mut search);
        if self.hosts.is_empty() && self.suffixes.is_empty() {
            return search.first;
        }
        let host = lower(host);
        if let Some(paths) = self.hosts.get(&*host) {
            paths.search(path, &mut search);
        }
        if !self.suffixes.is_empty() {
            // A suffix has a name before it.
            let from = host.len().saturating_sub(self.max_suffix_len).max(1);
            let ends = host.bytes().enumerate().skip(from);
            for (at, _) in ends.filter(|&(_, byte)| byte == b'.') {
                if let Some(paths) = self.suffixes.get(&host[at..]) {
                    paths.search(path, &mut search);
                }
            }
        }
        search.first
    }
}

fn lower(host: &str) -> Cow<'_, str> {
    match host.bytes().any(|byte| byte.is_ascii_uppercase()) {
        true => Cow::Owned(host.to_ascii_lowercase()),
        false => Cow::Borrowed(host),
    }
}

/// A route that claims a place in the index.
#[derive(Clone, Copy, Debug)]
struct Claim {
    /// The route's place in the configuration.
    place: usize,
    /// Whether the route has no condition beside its hosts and its path.
    takes_all: bool,
}

/// Routes that claim the same hosts and the same path, in order: all but the last have
/// conditions.
#[derive(Debug, Default)]
struct Claims(Vec<Claim>);

impl Claims {
    fn add(&mut self, claim: Claim) {
        if self.0.last().is_none_or(|last| !last.takes_all) {
            self.0.push(claim);
        }
    }
}

/// A search for the first route that takes a request, with the first one found so far.
struct Search<F> {
    first: Option<usize>,
    fits: F,
}

impl<F: Fn(usize) -> bool> Search<F> {
    /// Looks for an earlier route among these claims.
    fn look(&mut self, claims: &Claims) {
        let before = self.first.unwrap_or(usize::MAX);
        let earlier = claims.0.iter().take_while(|own| own.place < before);
        let mut fitting = earlier.filter(|own| own.takes_all || (self.fits)(own.place));
        if let Some(found) = fitting.next() {
            self.first = Some(found.place);
        }
    }
}

/// The paths of one host's routes: a tree whose edges are segments.
#[derive(Debug)]
struct Paths {
    /// The routes for every path.
    any: Claims,
    /// The nodes of the tree, the root first. They lie side by side, for a path may have
    /// any number of segments.
    nodes: Vec<Node>,
}

/// The routes that match at the end of a path's first segments.
#[derive(Debug, Default)]
struct Node {
    /// The routes for the path that ends here.
    exact: Claims,
    /// The routes for this path and all below it: the prefix `/a`.
    prefix: Claims,
    /// The routes for the paths below this one alone: the prefix `/a/`.
    below: Claims,
    /// The place of the node after one more segment.
    next: HashMap<Box<str>, usize>,
}

impl Default for Paths {
    fn default() -> Self {
        Self {
            any: Claims::default(),
            nodes: vec![Node::default()],
        }
    }
}

impl Paths {
    fn add(&mut self, route: Claim, pattern: &PathPattern) {
        let claims = match pattern {
            PathPattern::Any => &mut self.any,
            PathPattern::Exact(path) => &mut self.at(path).exact,
            PathPattern::Prefix(prefix) => match prefix.strip_suffix('/') {
                Some(parent) => &mut self.at(parent).below,
                None => &mut self.at(prefix).prefix,
            },
        };
        claims.add(route);
    }

    /// Returns the node at the end of a path, made if it is not there.
    fn at(&mut self, path: &str) -> &mut Node {
        let mut node = 0;
        for segment in path.split('/') {
            let fresh = self.nodes.len();
            node = *self.nodes[node].next.entry(segment.into()).or_insert(fresh);
            if node == fresh {
                self.nodes.push(Node::default());
            }
        }
        &mut self.nodes[node]
    }

    fn search<F: Fn(usize) -> bool>(&self, path: &str, search: &mut Search<F>) {
        search.look(&self.any);
        let mut node = &self.nodes[0];
        let mut segments = path.split('/').peekable();
        while let Some(segment) = segments.next() {
            let Some(&next) = node.next.get(segment) else {
                return;
            };
            node = &self.nodes[next];
            search.look(&node.prefix);
            let ends = segments.peek().is_none();
            search.look(if ends { &node.exact } else { &node.below });
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn path() -> impl Strategy<Value = String> {
        let part = prop_oneof![Just("/"), Just("/a"), Just("/b"), Just("/ab"), Just("b")];
        prop::collection::vec(part, 0..5).prop_map(|parts| parts.concat())
    }

    fn host() -> impl Strategy<Value = String> {
        let part = prop_oneof![Just("x"), Just("Y"), Just("xy"), Just("")];
        prop::collection::vec(part, 0..4).prop_map(|parts| parts.join("."))
    }

    fn any_match() -> impl Strategy<Value = RouteMatch> {
        let host = prop_oneof![
            host().prop_map(|name| HostPattern::Exact(name.to_ascii_lowercase())),
            host().prop_map(|name| HostPattern::Suffix(format!(".{}", name.to_ascii_lowercase()))),
        ];
        let path = prop_oneof![
            1 => Just(PathPattern::Any),
            3 => path().prop_map(PathPattern::Exact),
            3 => path().prop_map(PathPattern::Prefix),
        ];
        let hosts = prop::collection::vec(host, 0..3);
        (hosts, path).prop_map(|(hosts, path)| RouteMatch { hosts, path })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn the_first_of_the_list_is_found(
            routes in prop::collection::vec((any_match(), any::<bool>()), 0..24),
            asked in prop::collection::vec((host(), path(), any::<u32>()), 1..24),
        ) {
            let table = Table::new(routes.iter().map(|(own, takes_all)| (own, *takes_all)));
            for (host, path, fitting) in asked {
                let fits = |at: usize| fitting & (1 << at) != 0;
                let mut listed = routes.iter().enumerate();
                let listed = listed.position(|(at, (own, takes_all))| {
                    own.matches(&host, &path) && (*takes_all || fits(at))
                });
                prop_assert_eq!(table.first(&host, &path, fits), listed, "{} {}", host, path);
            }
        }
    }

    #[test]
    fn a_path_and_a_host_of_separators_alone_find_their_end() {
        let routes = [RouteMatch {
            hosts: vec![HostPattern::Suffix(".x".to_owned())],
            path: PathPattern::Prefix("/a".to_owned()),
        }];
        let table = Table::new(routes.iter().map(|own| (own, true)));
        let (host, path) = (".".repeat(60_000), "/".repeat(60_000));
        assert_eq!(table.first(&host, &path, |_| true), None);
    }
}
