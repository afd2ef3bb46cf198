//! An index of routes: by host, then by the segments of the path. It finds the first
//! route of the configuration that matches, as a walk through the list would, in time
//! that depends on the request and not on the number of routes.

use std::borrow::Cow;
use std::collections::HashMap;

use sprat_config::resolved::{HostPattern, PathPattern, RouteMatch};

/// An index of what routes match. Every number in it is a route's place in the
/// configuration; where two routes claim the same, the first is kept.
#[derive(Debug, Default)]
pub(super) struct Table {
    /// Routes for every host.
    any_host: Paths,
    /// By name in lower case.
    hosts: HashMap<Box<str>, Paths>,
    /// By what a name ends in, with its dot: `.example.org`.
    suffixes: HashMap<Box<str>, Paths>,
    /// Bytes of the longest suffix.
    max_suffix_len: usize,
}

impl Table {
    /// Indexes what routes match, in the order of the configuration.
    pub(super) fn new<'a>(routes: impl IntoIterator<Item = &'a RouteMatch>) -> Self {
        let mut table = Self::default();
        for (route, matches) in routes.into_iter().enumerate() {
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

    /// Returns the first route that matches a host, without port, and a path.
    pub(super) fn first(&self, host: &str, path: &str) -> Option<usize> {
        let mut first = self.any_host.first(path);
        if self.hosts.is_empty() && self.suffixes.is_empty() {
            return first;
        }
        let host = lower(host);
        if let Some(paths) = self.hosts.get(&*host) {
            first = earlier(first, paths.first(path));
        }
        if !self.suffixes.is_empty() {
            // A suffix has a name before it.
            let from = host.len().saturating_sub(self.max_suffix_len).max(1);
            let ends = host.bytes().enumerate().skip(from);
            for (at, _) in ends.filter(|&(_, byte)| byte == b'.') {
                if let Some(paths) = self.suffixes.get(&host[at..]) {
                    first = earlier(first, paths.first(path));
                }
            }
        }
        first
    }
}

fn lower(host: &str) -> Cow<'_, str> {
    match host.bytes().any(|byte| byte.is_ascii_uppercase()) {
        true => Cow::Owned(host.to_ascii_lowercase()),
        false => Cow::Borrowed(host),
    }
}

fn earlier(one: Option<usize>, other: Option<usize>) -> Option<usize> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

/// The paths of one host's routes: a tree whose edges are segments.
#[derive(Debug)]
struct Paths {
    /// The route for every path.
    any: Option<usize>,
    /// The root first; side by side, for a path may have any number of segments.
    nodes: Vec<Node>,
}

/// What matches at the end of a path's first segments.
#[derive(Debug, Default)]
struct Node {
    /// The route for the path that ends here.
    exact: Option<usize>,
    /// The route for this path and all below it: the prefix `/a`.
    prefix: Option<usize>,
    /// The route for what is below it alone: the prefix `/a/`.
    below: Option<usize>,
    /// The node after one more segment.
    next: HashMap<Box<str>, usize>,
}

impl Default for Paths {
    fn default() -> Self {
        Self {
            any: None,
            nodes: vec![Node::default()],
        }
    }
}

impl Paths {
    fn add(&mut self, route: usize, pattern: &PathPattern) {
        let place = match pattern {
            PathPattern::Any => &mut self.any,
            PathPattern::Exact(path) => &mut self.at(path).exact,
            PathPattern::Prefix(prefix) => match prefix.strip_suffix('/') {
                Some(parent) => &mut self.at(parent).below,
                None => &mut self.at(prefix).prefix,
            },
        };
        place.get_or_insert(route);
    }

    /// The node at the end of a path, made if it is not there.
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

    fn first(&self, path: &str) -> Option<usize> {
        let mut first = self.any;
        let mut node = &self.nodes[0];
        let mut segments = path.split('/').peekable();
        while let Some(segment) = segments.next() {
            let Some(&next) = node.next.get(segment) else {
                return first;
            };
            node = &self.nodes[next];
            first = earlier(first, node.prefix);
            let ends = segments.peek().is_none();
            first = earlier(first, if ends { node.exact } else { node.below });
        }
        first
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
            routes in prop::collection::vec(any_match(), 0..24),
            asked in prop::collection::vec((host(), path()), 1..24),
        ) {
            let table = Table::new(&routes);
            for (host, path) in asked {
                let listed = routes.iter().position(|own| own.matches(&host, &path));
                prop_assert_eq!(table.first(&host, &path), listed, "{} {}", host, path);
            }
        }
    }

    #[test]
    fn a_path_and_a_host_of_separators_alone_find_their_end() {
        let routes = [RouteMatch {
            hosts: vec![HostPattern::Suffix(".x".to_owned())],
            path: PathPattern::Prefix("/a".to_owned()),
        }];
        let table = Table::new(&routes);
        assert_eq!(table.first(&".".repeat(60_000), &"/".repeat(60_000)), None);
    }
}
