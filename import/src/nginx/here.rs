//! A place in a server or a location while its directives are gone through: which
//! requests come there, and what has been done with them.

use super::replacements::Rewrite;
use super::scope::Scope;
use super::variables::Constants;
use crate::document::{Match, PathIs, Route};
use crate::ledger::Id;
use crate::patterns::Pattern;
use crate::restrict::{Common, Delta, restrict};
use crate::transports::Transports;
use crate::yaml::{Map, Value, map, word};

/// A place, with the requests that come there.
#[derive(Clone, Debug)]
pub(super) struct Here<'a> {
    pub(super) scope: Scope<'a>,
    pub(super) from: Id,
    pub(super) title: String,
    pub(super) matches: Match,
    /// The text that all paths begin with, if they are all that do.
    pub(super) prefix: Option<String>,
    /// The expression that all paths have, if they are all that do.
    pub(super) expression: Option<Pattern>,
    /// The expression whose groups `$1` and so on are.
    pub(super) captures: Option<Pattern>,
    pub(super) constants: Constants,
    pub(super) rewrite: Option<Rewrite>,
    /// The keys of the route that ask requests for authorization, beyond their addresses.
    pub(super) access: Map,
    /// The scope of the first location on the way here that bounds rates: nginx asks no other.
    pub(super) rates: Option<Scope<'a>>,
    /// The ways in which the server is reached.
    pub(super) transports: Transports,
    /// Directives that have led here from elsewhere.
    pub(super) depth: usize,
}

impl<'a> Here<'a> {
    /// Returns a route for the requests that come here.
    pub(super) fn route(&self, keys: Vec<(String, Value)>) -> Route {
        Route {
            from: self.from,
            title: self.title.clone(),
            matches: self.matches.clone(),
            keys,
            is_for_plain: false,
        }
    }

    /// Returns a route that answers by itself.
    pub(super) fn respond(&self, status: u16) -> Route {
        let response = map([("status", word(status))]);
        self.route(vec![("direct_response".to_owned(), response)])
    }

    fn common(&self) -> Common<'_> {
        match (&self.prefix, &self.expression) {
            (Some(prefix), _) => Common::Prefix(prefix),
            (None, Some(pattern)) => Common::Expression(pattern),
            (None, None) => Common::Nothing,
        }
    }

    /// Returns the places for the requests that meet a condition, too; none if no
    /// request does. An error is that they cannot be told.
    pub(super) fn restricted(&self, delta: &Delta) -> Result<Vec<Here<'a>>, ()> {
        let of = |matches: Match| Here {
            matches,
            ..self.clone()
        };
        if let (Delta::Path(pattern), Some(rewrite)) = (delta, &self.rewrite) {
            // The match has the path of the request, the condition is on the new one.
            return match rewrite.meets(pattern) {
                Some(true) => Ok(vec![self.clone()]),
                Some(false) => Ok(Vec::new()),
                None => Err(()),
            };
        }
        let found = restrict(&self.matches, delta, self.common())?;
        let mut places: Vec<Here<'a>> = found.into_iter().map(of).collect();
        for place in &mut places {
            match delta {
                Delta::Plain => place.transports.tls = false,
                Delta::Path(pattern) => {
                    place.captures = Some(pattern.clone());
                    if !matches!(place.matches.path, PathIs::Exact(_)) {
                        let is_all = self.matches.path == PathIs::Any;
                        place.prefix = None;
                        place.expression = is_all.then(|| pattern.clone());
                    }
                }
                _ => {}
            }
        }
        Ok(places)
    }
}
