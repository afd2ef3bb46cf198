//! A place in nginx's servers and locations while its directives are followed: the requests that
//! come there, and the changes made to them.

use super::replacements::Rewrite;
use super::scope::Scope;
use super::variables::Constants;
use crate::document::{Match, PathIs, Route};
use crate::ledger::Id;
use crate::patterns::Pattern;
use crate::restrict::{Common, Delta, restrict};
use crate::transports::Transports;
use crate::yaml::{Map, Value, map, word};

/// A place in a server or a location, with the requests that come there.
#[derive(Clone, Debug)]
pub(super) struct Here<'a> {
    pub(super) scope: Scope<'a>,
    pub(super) from: Id,
    pub(super) title: String,
    pub(super) matches: Match,
    /// The text that the paths of these requests begin with, and no other paths.
    pub(super) prefix: Option<String>,
    /// An expression that is found in the paths of these requests, and in no other paths.
    pub(super) expression: Option<Pattern>,
    /// The expression whose groups `$1` and so on stand for.
    pub(super) captures: Option<Pattern>,
    pub(super) constants: Constants,
    pub(super) rewrite: Option<Rewrite>,
    /// The keys of the route by which it asks who a client is, beside its address.
    pub(super) access: Map,
    /// The scope of the first location on the way here that bounds rates: nginx applies no other
    /// bounds.
    pub(super) rates: Option<Scope<'a>>,
    /// The transports over which requests reach the server.
    pub(super) transports: Transports,
    /// The number of directives that have led here from other places.
    pub(super) depth: usize,
}

impl<'a> Here<'a> {
    /// Returns a route for the requests that come here, with these keys.
    pub(super) fn route(&self, keys: Vec<(String, Value)>) -> Route {
        Route {
            from: self.from,
            title: self.title.clone(),
            matches: self.matches.clone(),
            keys,
            is_for_plain: false,
        }
    }

    /// Returns a route by which Sprat answers with this status.
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

    /// Returns the places for the requests that also meet a condition; the list is empty if no
    /// request does. An error means that routes cannot tell these requests.
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
