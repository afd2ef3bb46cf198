//! Requests on their way through HAProxy's rules.

use super::acls::Test;
use super::parse::Line;
use crate::document::{Match, PathIs, Route};
use crate::ledger::Id;
use crate::patterns::Pattern;
use crate::restrict::{Common, Delta, restrict};
use crate::transports::Transports;
use crate::yaml::{Map, Value, map, text, word};

/// A set of requests on their way through the rules, and the changes made to them so far.
#[derive(Clone)]
pub(super) struct Spot {
    pub(super) from: Id,
    pub(super) title: String,
    pub(super) matches: Match,
    /// An expression that is found in the paths of these requests, and in no other paths.
    pub(super) expression: Option<Pattern>,
    pub(super) transports: Transports,
    /// Whether these are only the requests that came in plain text.
    pub(super) is_plain: bool,
    pub(super) request_set: Vec<Value>,
    pub(super) request_added: Vec<Value>,
    pub(super) request_removed: Vec<Value>,
    pub(super) response_set: Vec<Value>,
    pub(super) response_added: Vec<Value>,
    pub(super) response_removed: Vec<Value>,
    pub(super) host: Option<String>,
    pub(super) rewrite: Option<Value>,
    /// Whether connections come from a proxy's address, and a PROXY header tells the client's.
    pub(super) is_proxied: bool,
    /// The names of fields that rules have changed, in lower case: routes see the fields as they
    /// came.
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

    /// Adds the keys that change requests on their way to a cluster.
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

    /// Returns whether rules have changed the property that a condition looks at.
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

    /// Notes which properties of requests a rule changes, whether it was carried over or not.
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

    /// Returns the sets of requests for which a test holds; an error if routes cannot make the
    /// test.
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

    /// Returns the sets of requests for which all of these tests hold; an error if routes cannot
    /// make one.
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

/// Returns whether a condition on a field, or an edit of one, is about the field of this name.
pub(super) fn is_of(own: &Value, name: &str) -> bool {
    let Value::Map(pairs) = own else {
        return false;
    };
    let is_name = |(key, value): &(String, Value)| {
        key == "name" && matches!(value, Value::Text(own) if own.eq_ignore_ascii_case(name))
    };
    pairs.iter().any(is_name)
}
