//! Which route of one configuration is which of another.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher as _};

use crate::resolved::{Conditions, Route, RouteMatch};

/// A route's identity over reloads: its requests and its first cluster, wherever it
/// stands.
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

    /// Returns a number for it, the same as long as this process lives.
    pub fn number(self) -> usize {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish() as usize
    }

    /// Returns the place of the first route of each identity.
    pub fn places(routes: &'a [Route]) -> HashMap<Self, usize> {
        let mut places = HashMap::with_capacity(routes.len());
        for (at, route) in routes.iter().enumerate() {
            places.entry(Self::of(route)).or_insert(at);
        }
        places
    }
}
