//! Warnings about routes that no request reaches, because an earlier route takes them all.
//!
//! A table of 10,000 routes is compared by what two of them must have in common for one to take all
//! of the other's requests: paths by a tree of their segments, a host and its domains, and
//! conditions, which are the same or none.

use std::collections::HashMap;
use std::hash::Hash;
use std::ops::Range;

use crate::diagnostic::Reporter;
use crate::resolved::{HostPattern, PathPattern, RouteMatch};

/// The most looks at kept matches for one match. A hostile table of long paths below each other may
/// want more; the check of a match ends there.
const MAX_LOOKS: usize = 10_000;

/// The number that stands for every host, or for no condition.
const NONE: usize = 0;

/// The earlier matches of a table of routes, with their conditions, indexed.
pub(super) struct Earlier<C> {
    /// The matches that are kept, each with the byte at which it is written.
    kept: Vec<(RouteMatch, usize)>,
    /// The nodes of the tree of paths: each leads from a segment to the node below.
    segments: Vec<HashMap<Box<str>, usize>>,
    hosts: HashMap<String, usize>,
    /// The numbers of domains, such as `.example.org`, whose hosts match.
    domains: HashMap<String, usize>,
    conditions: HashMap<C, usize>,
    /// The indices in `kept` of the matches that end at a path, a host and conditions.
    ends: HashMap<End, Vec<usize>>,
    /// Whether a path ends at each node of the tree.
    is_end: Vec<bool>,
}

/// The key of a match in the index: a path, a host and conditions, by their numbers.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct End {
    path: PathEnd,
    host: usize,
    conditions: usize,
}

/// The path of a match, by its node in the tree.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum PathEnd {
    Any,
    Exact(usize),
    Prefix(usize),
}

impl<C: Clone + Default + Eq + Hash> Earlier<C> {
    /// Returns an empty table.
    pub(super) fn new() -> Self {
        Self {
            kept: Vec::new(),
            segments: vec![HashMap::new()],
            hosts: HashMap::new(),
            domains: HashMap::new(),
            conditions: HashMap::from([(C::default(), NONE)]),
            ends: HashMap::new(),
            is_end: vec![false],
        }
    }

    /// Warns of a route (or other `what`) whose requests an earlier one takes all; returns whether
    /// it gets any.
    pub(super) fn check(
        &self,
        what: &str,
        matches: &RouteMatch,
        conditions: &C,
        span: &Range<usize>,
        reporter: &mut Reporter<'_>,
    ) -> bool {
        match self.first_taking_all(matches, conditions) {
            Some(first) => {
                warn(what, self.kept[first].1, span, reporter);
                false
            }
            None => true,
        }
    }

    /// Keeps a match, written at byte `start`, to compare later ones with it.
    pub(super) fn keep(&mut self, matches: &RouteMatch, conditions: &C, start: usize) {
        let path = match &matches.path {
            PathPattern::Any => PathEnd::Any,
            PathPattern::Exact(path) => PathEnd::Exact(self.node(path)),
            PathPattern::Prefix(path) => PathEnd::Prefix(self.node(path)),
        };
        let conditions = numbered(&mut self.conditions, conditions);
        let mut hosts: Vec<_> = (matches.hosts.iter())
            .map(|host| match host {
                // A host and a domain never have the same number, nor has either none.
                HostPattern::Exact(host) => 1 + 2 * numbered(&mut self.hosts, host),
                HostPattern::Suffix(domain) => 2 + 2 * numbered(&mut self.domains, domain),
            })
            .collect();
        if hosts.is_empty() {
            hosts.push(NONE);
        }
        for host in hosts {
            let end = End {
                path,
                host,
                conditions,
            };
            self.ends.entry(end).or_default().push(self.kept.len());
        }
        self.kept.push((matches.clone(), start));
    }

    /// Returns the node that a path ends at, and makes it if there is none.
    fn node(&mut self, path: &str) -> usize {
        let mut node = 0;
        for segment in path.split('/') {
            let next = self.segments.len();
            let known = self.segments[node].get(segment);
            node = known.copied().unwrap_or_else(|| {
                self.segments[node].insert(segment.into(), next);
                self.segments.push(HashMap::new());
                self.is_end.push(false);
                next
            });
        }
        self.is_end[node] = true;
        node
    }

    /// Returns the index of the first kept match that takes every request of this one.
    fn first_taking_all(&self, matches: &RouteMatch, conditions: &C) -> Option<usize> {
        let own = self.conditions.get(conditions).copied();
        let conditions = || [NONE].into_iter().chain(own.filter(|own| *own != NONE));
        let hosts = self.hosts_above(matches.hosts.first());
        let paths = self.paths_above(&matches.path);
        let ends = paths.iter().flat_map(|path| {
            hosts.iter().flat_map(move |host| {
                conditions().map(move |conditions| End {
                    path: *path,
                    host: *host,
                    conditions,
                })
            })
        });
        let mut left = MAX_LOOKS;
        let first_of = |end: End| {
            left = left.saturating_sub(1);
            let mut kept = self.ends.get(&end)?.iter();
            let first = kept.find(|kept| {
                left = left.saturating_sub(1);
                left == 0 || covers(&self.kept[**kept].0, matches)
            });
            first.copied().filter(|_| left > 0)
        };
        ends.take(MAX_LOOKS).filter_map(first_of).min()
    }

    /// Returns the numbers of the kept hosts and domains that cover a host.
    fn hosts_above(&self, host: Option<&HostPattern>) -> Vec<usize> {
        let mut above = vec![NONE];
        let (name, from) = match host {
            None => return above,
            Some(HostPattern::Exact(host)) => {
                above.extend(self.hosts.get(host).map(|own| 1 + 2 * own));
                (host, 1)
            }
            Some(HostPattern::Suffix(domain)) => (domain, 0),
        };
        if !self.domains.is_empty() {
            let dots = name.match_indices('.').filter(|(at, _)| *at >= from);
            let known = dots.filter_map(|(at, _)| self.domains.get(&name[at..]));
            above.extend(known.map(|own| 2 + 2 * own));
        }
        above
    }

    /// Returns the kept paths that cover a path.
    fn paths_above(&self, path: &PathPattern) -> Vec<PathEnd> {
        let mut above = vec![PathEnd::Any];
        let below = |node: usize, segment: &str| self.segments[node].get(segment).copied();
        let (text, is_exact) = match path {
            PathPattern::Any => {
                // `/` has every path.
                let root = below(0, "").and_then(|node| below(node, ""));
                above.extend(root.map(PathEnd::Prefix));
                return above;
            }
            PathPattern::Exact(path) => (path, true),
            PathPattern::Prefix(path) => (path, false),
        };
        let mut add = |node: usize| {
            if self.is_end[node] {
                above.push(PathEnd::Prefix(node));
            }
        };
        let mut node = 0;
        let mut segments = text.split('/').peekable();
        while let Some(segment) = segments.next() {
            match below(node, segment) {
                Some(next) => node = next,
                None => return above,
            }
            add(node);
            // A prefix that ends in `/` has what is below it, and not the path without.
            if let Some(slash) = segments.peek().and_then(|_| below(node, "")) {
                add(slash);
            }
        }
        if is_exact {
            above.push(PathEnd::Exact(node));
        }
        above
    }
}

/// The earlier matches of a short table without conditions, which are compared one by one. An index
/// would be code that the filter for Envoy carries for a few clusters.
#[derive(Default)]
pub(super) struct Few(Vec<(RouteMatch, usize)>);

impl Few {
    /// The most matches that later ones are compared with, as the cost is quadratic.
    const MAX: usize = 1000;

    /// Warns of a match whose requests an earlier one takes all; otherwise keeps it.
    pub(super) fn check(
        &mut self,
        what: &str,
        matches: &RouteMatch,
        span: &Range<usize>,
        reporter: &mut Reporter<'_>,
    ) {
        match self.0.iter().find(|(own, _)| covers(own, matches)) {
            Some((_, first)) => warn(what, *first, span, reporter),
            None if self.0.len() < Self::MAX => self.0.push((matches.clone(), span.start)),
            None => {}
        }
    }
}

fn warn(what: &str, first: usize, span: &Range<usize>, reporter: &mut Reporter<'_>) {
    let line = reporter.line_of(first);
    let message = format!("this {what} can never match");
    let help = format!("the {what} on line {line} takes all its requests: put this one before it");
    reporter.warning(span, message, Some(help));
}

/// Returns the number of a key, and gives an unknown one the next number.
fn numbered<K: Clone + Eq + Hash>(known: &mut HashMap<K, usize>, key: &K) -> usize {
    let next = known.len();
    match known.get(key) {
        Some(number) => *number,
        None => {
            known.insert(key.clone(), next);
            next
        }
    }
}

/// Returns whether `a` matches every request that `b` matches.
fn covers(a: &RouteMatch, b: &RouteMatch) -> bool {
    let below = |path: &str, prefix: &str| {
        path.strip_prefix(prefix)
            .is_some_and(|rest| rest.is_empty() || prefix.ends_with('/') || rest.starts_with('/'))
    };
    let path = match (&a.path, &b.path) {
        (PathPattern::Any, _) => true,
        (PathPattern::Prefix(a), PathPattern::Any) => a == "/",
        (PathPattern::Prefix(a), PathPattern::Exact(b) | PathPattern::Prefix(b)) => below(b, a),
        (PathPattern::Exact(a), PathPattern::Exact(b)) => a == b,
        (PathPattern::Exact(_), _) => false,
    };
    let host = |b: &HostPattern| {
        a.hosts.iter().any(|a| match (a, b) {
            (HostPattern::Exact(a), HostPattern::Exact(b)) => a == b,
            (HostPattern::Suffix(a), HostPattern::Exact(b)) => {
                b.len() > a.len() && b.ends_with(a.as_str())
            }
            (HostPattern::Suffix(a), HostPattern::Suffix(b)) => b.ends_with(a.as_str()),
            (HostPattern::Exact(_), HostPattern::Suffix(_)) => false,
        })
    };
    path && (a.hosts.is_empty() || (!b.hosts.is_empty() && b.hosts.iter().all(host)))
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;
    use crate::sources::Sources;

    fn host() -> impl Strategy<Value = HostPattern> {
        let names = select(&["a.b.c", "x.a.b.c", "b.c", "c", "a", "y.b.c"][..]);
        (names, any::<bool>()).prop_map(|(name, is_exact)| match is_exact {
            true => HostPattern::Exact(name.to_owned()),
            false => HostPattern::Suffix(format!(".{name}")),
        })
    }

    fn path() -> impl Strategy<Value = PathPattern> {
        let text = vec(select(&["", "a", "b", "ab"][..]), 1..4)
            .prop_map(|segments| format!("/{}", segments.join("/")));
        prop_oneof![
            1 => Just(PathPattern::Any),
            4 => text.clone().prop_map(PathPattern::Exact),
            4 => text.prop_map(PathPattern::Prefix),
        ]
    }

    fn matches() -> impl Strategy<Value = (RouteMatch, u8)> {
        let hosts = vec(host(), 0..4);
        (hosts, path(), 0_u8..3)
            .prop_map(|(hosts, path, conditions)| (RouteMatch { hosts, path }, conditions))
    }

    #[test]
    fn a_prefix_has_what_is_below_it() {
        let (every, exact, prefix) = (
            || PathPattern::Any,
            |path: &str| PathPattern::Exact(path.to_owned()),
            |path: &str| PathPattern::Prefix(path.to_owned()),
        );
        for (a, b, takes_all) in [
            (every(), every(), true),
            (every(), exact("/a"), true),
            (exact("/a"), every(), false),
            (prefix("/"), every(), true),
            (prefix("/a"), every(), false),
            (exact("/a"), exact("/a"), true),
            (exact("/a"), exact("/a/b"), false),
            (exact("/a"), prefix("/a"), false),
            (prefix("/a"), exact("/a"), true),
            (prefix("/a"), prefix("/a"), true),
            (prefix("/a"), prefix("/a/b"), true),
            (prefix("/a"), exact("/ab"), false),
            (prefix("/a/"), exact("/a/b"), true),
            (prefix("/a/"), exact("/a"), false),
            (prefix("/a/b"), prefix("/a"), false),
        ] {
            let of = |path: &PathPattern| RouteMatch {
                hosts: Vec::new(),
                path: path.clone(),
            };
            assert_eq!(covers(&of(&a), &of(&b)), takes_all, "{a:?} {b:?}");
        }
    }

    #[test]
    fn a_domain_has_what_is_below_it() {
        let (exact, suffix) = (
            |host: &str| HostPattern::Exact(host.to_owned()),
            |host: &str| HostPattern::Suffix(host.to_owned()),
        );
        for (a, b, takes_all) in [
            (vec![], vec![], true),
            (vec![], vec![exact("c")], true),
            (vec![exact("c")], vec![], false),
            (vec![exact("c")], vec![exact("c")], true),
            (vec![exact("c")], vec![exact("c"), exact("d")], false),
            (vec![exact("c"), exact("d")], vec![exact("d")], true),
            (vec![suffix(".c")], vec![exact("b.c")], true),
            // No name is left of its dot.
            (vec![suffix(".c")], vec![exact(".c")], false),
            (vec![suffix(".c")], vec![exact("c")], false),
            (vec![suffix(".c")], vec![suffix(".c")], true),
            (vec![suffix(".c")], vec![suffix(".b.c")], true),
            (vec![suffix(".b.c")], vec![suffix(".c")], false),
            (vec![exact("b.c")], vec![suffix(".c")], false),
        ] {
            let of = |hosts: &[HostPattern]| RouteMatch {
                hosts: hosts.to_vec(),
                path: PathPattern::Any,
            };
            assert_eq!(covers(&of(&a), &of(&b)), takes_all, "{a:?} {b:?}");
        }
    }

    #[test]
    fn later_ones_are_compared_with_the_first_thousand() {
        let sources = Sources::of("test", &"x".repeat(2 * Few::MAX));
        let mut reporter = Reporter::new(&sources);
        let mut few = Few::default();
        let mut check = |number: usize| {
            let own = RouteMatch {
                hosts: vec![HostPattern::Exact(number.to_string())],
                path: PathPattern::Any,
            };
            few.check("cluster", &own, &(number..number + 1), &mut reporter);
        };
        (0..=Few::MAX).for_each(&mut check);
        check(Few::MAX);
        check(Few::MAX - 1);
        let warnings = reporter.finish().unwrap();
        let places = warnings.diagnostics().iter().map(|own| own.place.as_ref());
        let columns: Vec<_> = places.map(|own| own.unwrap().column).collect();
        assert_eq!(columns, [Few::MAX]);
    }

    proptest! {
        #[test]
        fn the_index_finds_what_comparing_all_finds(table in vec(matches(), 0..40)) {
            let mut earlier = Earlier::new();
            let mut kept: Vec<(RouteMatch, u8)> = Vec::new();
            for (matches, conditions) in table {
                let found = earlier.first_taking_all(&matches, &conditions);
                let takes_all = |(other, own): &(RouteMatch, u8)| {
                    covers(other, &matches) && (*own == 0 || *own == conditions)
                };
                prop_assert_eq!(found, kept.iter().position(takes_all));
                if found.is_none() {
                    earlier.keep(&matches, &conditions, 0);
                    kept.push((matches, conditions));
                }
            }
        }
    }

    #[test]
    fn a_table_that_wants_too_many_looks_is_left_unchecked() {
        let mut earlier = Earlier::new();
        let of = |hosts: &[String]| RouteMatch {
            hosts: hosts.iter().cloned().map(HostPattern::Exact).collect(),
            path: PathPattern::Any,
        };
        let shared = "a".to_owned();
        for own in 0..=MAX_LOOKS {
            earlier.keep(&of(&[shared.clone(), own.to_string()]), &(), own);
        }
        assert_eq!(
            earlier.first_taking_all(&of(std::slice::from_ref(&shared)), &()),
            Some(0)
        );
        let last = of(&[shared, MAX_LOOKS.to_string()]);
        assert_eq!(earlier.first_taking_all(&last, &()), None);
    }
}
