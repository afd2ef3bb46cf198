//! Identities of routes, by which one configuration's route is found in another.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher as _};

use crate::resolved::{Conditions, Route, RouteMatch};

/// A route's identity over reloads: the requests that it takes and its first cluster, whatever its
/// place in the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Identity<'a> {
    matches: &'a RouteMatch,
    conditions: &'a Conditions,
    cluster: Option<&'a str>,
}

impl<'a> Identity<'a> {
    /// Returns a route's identity.
    pub fn of(route: &'a Route) -> Self {
        Self {
            matches: &route.matches,
            conditions: &route.conditions,
            cluster: route.clusters().first().map(|own| &*own.cluster.name),
        }
    }

    /// Returns a number for the identity, which stays the same as long as the process lives.
    pub fn number(self) -> usize {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish() as usize
    }

    /// Returns the index of the first route of each identity.
    pub fn places(routes: &'a [Route]) -> HashMap<Self, usize> {
        let mut places = HashMap::with_capacity(routes.len());
        for (at, route) in routes.iter().enumerate() {
            places.entry(Self::of(route)).or_insert(at);
        }
        places
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "
version: 1
listeners: [{address: 127.0.0.1:80}]
clusters: {a: {endpoints: [a:1]}, b: {endpoints: [b:1]}}
routes:
  - {match: {path: /a}, cluster: a}
  - {match: {path: /b}, cluster: a}
  - {match: {path: /c, methods: [GET]}, cluster: a}
  - {match: {path: /c}, cluster: a}
";

    fn routes(text: &str) -> Vec<Route> {
        crate::parse(text, "test", &|_| None).unwrap().config.routes
    }

    #[test]
    fn a_route_is_known_by_its_requests_and_its_cluster() {
        let before = routes(FILE);
        // Another order, another timeout, and one that goes elsewhere.
        let after = routes(
            &FILE
                .replace("/b}, cluster: a", "/x}, cluster: a, timeout: 7s")
                .replace("/a}, cluster: a", "/b}, cluster: a, timeout: 7s")
                .replace("/x}", "/a}")
                .replace("/c}, cluster: a", "/c}, cluster: b"),
        );
        let places = Identity::places(&before);
        let found = after
            .iter()
            .map(|route| places.get(&Identity::of(route)).copied());
        let found: Vec<_> = found.collect();
        assert_eq!(found, [Some(1), Some(0), Some(2), None]);
    }

    #[test]
    fn of_routes_that_are_the_same_the_first_counts() {
        let mut all = routes(FILE);
        all.extend_from_within(..2);
        let places = Identity::places(&all);
        assert_eq!(places.len(), 4);
        for (at, route) in all.iter().enumerate() {
            assert_eq!(places[&Identity::of(route)], at % 4);
        }
    }

    #[test]
    fn a_number_tells_a_route_from_others() {
        let (once, again) = (routes(FILE), routes(FILE));
        let numbers = |routes: &[Route]| -> Vec<usize> {
            let numbers = routes.iter().map(|route| Identity::of(route).number());
            numbers.collect()
        };
        assert_eq!(numbers(&once), numbers(&again));
        let different: std::collections::HashSet<_> = numbers(&once).into_iter().collect();
        assert_eq!(different.len(), 4);
    }
}
