//! Requests on their way through the rules.

use super::acls::Test;
use super::parse::Line;
use crate::document::{Match, PathIs, Route};
use crate::ledger::Id;
use crate::patterns::Pattern;
use crate::restrict::{Common, Delta, restrict};
use crate::transports::Transports;
use crate::yaml::{Map, Value, map, text, word};

/// Requests on their way through the rules, and what has been done with them.
#[derive(Clone)]
pub(super) struct Spot {
    pub(super) from: Id,
    pub(super) title: String,
    pub(super) matches: Match,
    /// The expression that all paths have, if they are all that do.
    pub(super) expression: Option<Pattern>,
    pub(super) transports: Transports,
    /// Whether they are those that came in plain text alone.
    pub(super) is_plain: bool,
    pub(super) request_set: Vec<Value>,
    pub(super) request_added: Vec<Value>,
    pub(super) request_removed: Vec<Value>,
    pub(super) response_set: Vec<Value>,
    pub(super) response_added: Vec<Value>,
    pub(super) response_removed: Vec<Value>,
    pub(super) host: Option<String>,
    pub(super) rewrite: Option<Value>,
    /// Whether connections come from another address than the client's, which a PROXY
    /// header tells.
    pub(super) is_proxied: bool,
    /// The fields that rules have changed, in lower case: routes look at those that came.
    pub(super) changed: Vec<String>,
    /// Whether a rule has changed the client's address.
    pub(super) is_moved: bool,
}

impl Spot {
    pub(super) fn new(from: Id, title: String, transports: Transports) -> Self {
        Self {
            from,
            title,
            matches: Match::default(),
            expression: None,
            transports,
            is_plain: false,
            request_set: Vec::new(),
            request_added: Vec::new(),
            request_removed: Vec::new(),
            response_set: Vec::new(),
            response_added: Vec::new(),
            response_removed: Vec::new(),
            host: None,
            rewrite: None,
            is_proxied: false,
            changed: Vec::new(),
            is_moved: false,
        }
    }

    /// Returns a route for these requests.
    pub(super) fn route(&self, keys: Map) -> Route {
        let mut route = Route {
            from: self.from,
            title: self.title.clone(),
            matches: self.matches.clone(),
            keys,
            is_for_plain: false,
        };
        let lists = [
            ("response_headers_to_remove", &self.response_removed),
            ("response_headers_to_set", &self.response_set),
            ("response_headers_to_add", &self.response_added),
        ];
        put_lists(&mut route.keys, &lists);
        route
    }

    pub(super) fn respond(&self, status: u64) -> Route {
        let response = map([("status", word(status))]);
        self.route(vec![("direct_response".to_owned(), response)])
    }

    /// Puts the keys that change requests on their way to a cluster.
    pub(super) fn put_edits(&self, keys: &mut Map) {
        if let Some(rewrite) = &self.rewrite {
            keys.push(("regex_rewrite".to_owned(), rewrite.clone()));
        }
        if let Some(host) = &self.host {
            keys.push(("host_rewrite".to_owned(), text(host)));
        }
        let lists = [
            ("request_headers_to_remove", &self.request_removed),
            ("request_headers_to_set", &self.request_set),
            ("request_headers_to_add", &self.request_added),
        ];
        put_lists(keys, &lists);
    }

    /// Returns whether rules have changed what a condition looks at.
    fn has_changed(&self, delta: &Delta) -> bool {
        let is_changed = |name: &str| self.changed.iter().any(|own| own == name);
        match delta {
            Delta::Path(_) => self.rewrite.is_some(),
            Delta::Clients(_) => self.is_moved,
            Delta::Hosts(_) => is_changed("host"),
            Delta::Cookie(_) => is_changed("cookie"),
            Delta::Header(own) => self.changed.iter().any(|name| is_of(own, name)),
            _ => false,
        }
    }

    /// Notes what a rule changes of requests, done or not.
    pub(super) fn note_change(&mut self, line: &Line) {
        let (kind, action) = line.kind_and_action();
        if !kind.ends_with("-request") {
            return;
        }
        match action {
            "set-header" | "add-header" | "del-header" | "replace-header" | "replace-value" => {
                self.changed.push(line.word(2).to_ascii_lowercase());
            }
            "set-src" | "expect-proxy" | "expect-netscaler-cip" => self.is_moved = true,
            _ => {}
        }
    }

    fn with(&self, delta: &Delta) -> Result<Vec<Self>, ()> {
        if self.has_changed(delta) {
            return Err(());
        }
        let common = self
            .expression
            .as_ref()
            .map_or(Common::Nothing, Common::Expression);
        let found = restrict(&self.matches, delta, common)?;
        let expression = match delta {
            Delta::Path(pattern) if self.matches.path == PathIs::Any => Some(pattern.clone()),
            Delta::Path(_) => None,
            _ => self.expression.clone(),
        };
        let of = |matches: Match| Self {
            matches,
            expression: expression.clone(),
            ..self.clone()
        };
        Ok(found.into_iter().map(of).collect())
    }

    /// Returns the places of requests that a test holds for.
    pub(super) fn with_test(&self, test: &Test) -> Result<Vec<Self>, ()> {
        match test {
            Test::Any(list) => {
                let mut out = Vec::new();
                for delta in list {
                    out.extend(self.with(delta)?);
                }
                Ok(out)
            }
            Test::Tls | Test::Counts | Test::Unknown => Err(()),
        }
    }

    /// Returns the places of requests that all of these tests hold for.
    pub(super) fn with_all(&self, tests: &[Test]) -> Result<Vec<Self>, ()> {
        let mut places = vec![self.clone()];
        for test in tests {
            let mut next = Vec::new();
            for place in &places {
                next.extend(place.with_test(test)?);
            }
            places = next;
        }
        Ok(places)
    }
}

fn put_lists(keys: &mut Map, lists: &[(&str, &Vec<Value>)]) {
    for (key, list) in lists {
        if !list.is_empty() {
            keys.push(((*key).to_owned(), Value::List((*list).clone())));
        }
    }
}

/// Returns whether a condition on a field, or an edit of one, is of the field of this name.
pub(super) fn is_of(own: &Value, name: &str) -> bool {
    let Value::Map(pairs) = own else {
        return false;
    };
    let is_name = |(key, value): &(String, Value)| {
        key == "name" && matches!(value, Value::Text(own) if own.eq_ignore_ascii_case(name))
    };
    pairs.iter().any(is_name)
}
