//! What is done with requests, rule by rule.

use super::acls::{Acls, Conjunction, Test};
use super::formats;
use super::parse::Line;
use crate::MAX_ROUTES;
use crate::document::{Match, PathIs, Route};
use crate::ledger::{Id, Ledger};
use crate::nginx::read_redirect;
use crate::patterns::{self, Pattern};
use crate::restrict::{Common, Delta, restrict};
use crate::units::whole;
use crate::yaml::{Map, Value, map, text, word};

/// Requests on their way through the rules, and what has been done with them.
#[derive(Clone)]
pub(super) struct Spot {
    pub(super) from: Id,
    pub(super) title: String,
    pub(super) matches: Match,
    /// The expression that all paths have, if they are all that do.
    pub(super) expression: Option<Pattern>,
    pub(super) on_plain: bool,
    pub(super) on_tls: bool,
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
}

impl Spot {
    pub(super) fn new(from: Id, title: String, (on_plain, on_tls): (bool, bool)) -> Self {
        Self {
            from,
            title,
            matches: Match::default(),
            expression: None,
            on_plain,
            on_tls,
            is_plain: false,
            request_set: Vec::new(),
            request_added: Vec::new(),
            request_removed: Vec::new(),
            response_set: Vec::new(),
            response_added: Vec::new(),
            response_removed: Vec::new(),
            host: None,
            rewrite: None,
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

    fn with(&self, delta: &Delta) -> Result<Vec<Self>, ()> {
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
    fn with_test(&self, test: &Test) -> Result<Vec<Self>, ()> {
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

    fn with_all(&self, tests: &[Test]) -> Result<Vec<Self>, ()> {
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

/// The function that makes the routes of requests that all rules have let through.
pub(super) type End<'e> = dyn FnMut(&mut Rules<'_>, &Spot, Option<&Line>) -> Vec<Route> + 'e;

/// The state while rules are gone through.
pub(super) struct Rules<'r> {
    pub(super) ledger: &'r mut Ledger,
    /// Whether listeners tell backends of clients.
    pub(super) x_forwarded: bool,
    /// Places that have been gone through, of which there are [`MAX_ROUTES`] at most.
    pub(super) steps: usize,
}

/// The outcome of a rule.
enum Done {
    /// Requests are answered, or go to a backend.
    Ends(Vec<Route>),
    /// Requests go on, changed.
    GoesOn(Box<Spot>),
    /// Requests go on past all other rules of this kind.
    Allowed,
    /// The rule is passed over: it makes no route, and changes no request.
    Skipped,
}

impl Rules<'_> {
    /// Returns the routes of requests that come to the rules from `at` on.
    pub(super) fn go(
        &mut self,
        spot: &Spot,
        (list, at): (&[&Line], usize),
        acls: &Acls,
        end: &mut End<'_>,
    ) -> Vec<Route> {
        self.steps += 1;
        if self.steps > MAX_ROUTES {
            return Vec::new();
        }
        let Some(line) = list.get(at) else {
            return end(self, spot, None);
        };
        let rest = (list, at + 1);
        let Some(any) = acls.condition(line) else {
            return match self.apply(spot, line, end) {
                Done::Ends(routes) => routes,
                Done::GoesOn(next) => self.go(&next, rest, acls, end),
                Done::Allowed => self.go(spot, (list, allowed(list, at)), acls, end),
                Done::Skipped => self.go(spot, rest, acls, end),
            };
        };
        let mut out = Vec::new();
        for mut own in any {
            if !(spot.on_plain && spot.on_tls) {
                own.settle_tls(spot.on_tls);
            }
            match self.conditional(spot, line, (own, rest), acls, end) {
                Ok(routes) => out.extend(routes),
                Err(Lost::Skip) => {}
                Err(Lost::Refuse) => {
                    out.push(spot.respond(403));
                    return out;
                }
            }
        }
        out.extend(self.go(spot, rest, acls, end));
        out
    }

    /// Returns the routes of requests for which a rule's condition holds.
    fn conditional(
        &mut self,
        spot: &Spot,
        line: &Line,
        (own, rest): (Conjunction, (&[&Line], usize)),
        acls: &Acls,
        end: &mut End<'_>,
    ) -> Result<Vec<Route>, Lost> {
        let mut own = own;
        let mut start = spot.clone();
        if own.tells_tls() {
            if is_told_by_listeners(line) && self.x_forwarded {
                self.ledger.carried(line.id);
                return Err(Lost::Skip);
            }
            if leads_to_tls(line) {
                own = own.beyond_plain();
                start.is_plain = true;
            }
        }
        if own.is_unknown() {
            return Err(self.lost(line, own.counts()));
        }
        let unknown = |rules: &mut Self| rules.lost(line, false);
        let holds = start.with_all(&own.holds).map_err(|()| unknown(self))?;
        let mut out = Vec::new();
        for place in &holds {
            // Those for which the rest does not hold go on before.
            for test in &own.fails {
                let others = place.with_test(test).map_err(|()| unknown(self))?;
                for other in others {
                    let mut other = other;
                    other.is_plain = spot.is_plain;
                    out.extend(self.go(&other, rest, acls, end));
                }
            }
            match self.apply(place, line, end) {
                Done::Ends(routes) => out.extend(routes),
                Done::GoesOn(next) => out.extend(self.go(&next, rest, acls, end)),
                Done::Allowed => {
                    let next = (rest.0, allowed(rest.0, rest.1 - 1));
                    out.extend(self.go(place, next, acls, end));
                }
                Done::Skipped => {}
            }
        }
        Ok(out)
    }

    /// Says of a rule that Sprat cannot ask its condition.
    fn lost(&mut self, line: &Line, counts: bool) -> Lost {
        if counts {
            let told = "what counts over time is `rate_limit` of a route, and `per_client` of a \
                        listener: this rule is left out";
            self.ledger.not(line.id, told);
            return Lost::Skip;
        }
        if guards(line) {
            let told = "routes cannot ask that, and it may keep requests out: all of them are \
                        answered 403 here";
            self.ledger.not(line.id, told);
            return Lost::Refuse;
        }
        self.ledger
            .not(line.id, "routes cannot ask that: this rule is left out");
        Lost::Skip
    }

    /// Does what a rule says, whatever its condition.
    fn apply(&mut self, spot: &Spot, line: &Line, end: &mut End<'_>) -> Done {
        let (kind, action) = kind_and_action(line);
        match (kind, action) {
            ("use_backend", _) => {
                self.ledger.carried(line.id);
                Done::Ends(end(self, spot, Some(line)))
            }
            ("redirect", _) | ("http-request", "redirect") => self.redirect(spot, line),
            ("http-request", "deny" | "tarpit" | "reject" | "silent-drop" | "block") => {
                self.deny(spot, line, action)
            }
            ("http-request", "auth") => {
                let told = "users are in a file of hashes: see `basic_auth` of a route, in place of the \
                            answer 403";
                self.ledger.not(line.id, told);
                Done::Ends(vec![spot.respond(403)])
            }
            ("http-request", "allow") => {
                self.ledger.carried(line.id);
                Done::Allowed
            }
            ("http-request", "return") => self.respond(spot, line),
            ("http-request", "set-path" | "replace-path" | "set-uri" | "replace-uri") => {
                self.rewrite(spot, line)
            }
            (_, "set-header" | "add-header" | "del-header") => {
                self.edit(spot, line, (kind, action))
            }
            ("http-request", "use-service" | "set-dst" | "set-method" | "set-query") => {
                self.ledger
                    .not(line.id, "Sprat has no such thing: answers 403");
                Done::Ends(vec![spot.respond(403)])
            }
            (
                "http-request",
                "normalize-uri" | "set-log-level" | "disable-l7-retry" | "capture",
            ) => {
                self.ledger.carried(line.id);
                Done::Skipped
            }
            _ => {
                self.ledger.not(line.id, advice(action));
                Done::Skipped
            }
        }
    }

    fn deny(&mut self, spot: &Spot, line: &Line, action: &str) -> Done {
        let status = line
            .after("deny_status")
            .or(line.after("status"))
            .and_then(whole);
        match action {
            "deny" | "block" => self.ledger.carried(line.id),
            _ => self.ledger.nearly(
                line.id,
                "the connection stays, and the answer comes at once",
            ),
        }
        let status = status
            .filter(|own| (200..=599).contains(own))
            .unwrap_or(403);
        Done::Ends(vec![spot.respond(status)])
    }

    fn redirect(&mut self, spot: &Spot, line: &Line) -> Done {
        let code = line
            .after("code")
            .and_then(|own| own.parse::<u16>().ok())
            .unwrap_or(302);
        let url = match (
            line.after("scheme"),
            line.after("location"),
            line.after("prefix"),
        ) {
            (Some(scheme), ..) => Ok(format!("{scheme}://$host$request_uri")),
            (_, Some(location), _) => formats::url(location),
            (_, _, Some(prefix)) => formats::url(prefix).map(|own| format!("{own}$request_uri")),
            _ => Err("nothing".to_owned()),
        };
        let url = url.map_err(|name| format!("there is no `{name}` in redirects"));
        let redirect = url.and_then(|url| read_redirect(&url, None));
        match redirect {
            Err(told) => {
                self.ledger.not(line.id, format!("{told}: it answers 403"));
                Done::Ends(vec![spot.respond(403)])
            }
            Ok(redirect) => {
                let on = match spot.is_plain {
                    true => (true, false),
                    false => (spot.on_plain, spot.on_tls),
                };
                let (found, doubt) = redirect.variants(on, code);
                match doubt.or_else(|| line.has("drop-query").then_some("the query is kept")) {
                    Some(told) => self.ledger.nearly(line.id, told),
                    None => self.ledger.carried(line.id),
                }
                if found.is_empty() {
                    return Done::Ends(vec![spot.respond(403)]);
                }
                let route = |(keys, is_for_plain): (Map, bool)| Route {
                    is_for_plain,
                    ..spot.route(keys)
                };
                Done::Ends(found.into_iter().map(route).collect())
            }
        }
    }

    fn respond(&mut self, spot: &Spot, line: &Line) -> Done {
        let status = line.after("status").and_then(whole).unwrap_or(200);
        let mut pairs = vec![("status", word(status))];
        let mut doubt = None;
        if let Some(body) = line.after("string") {
            pairs.push(("body", text(body)));
        } else if let Some(file) = line.after("file") {
            pairs.push(("file", text(file)));
        } else if line.has("lf-string") || line.has("lf-file") || line.has("errorfile") {
            doubt = Some("bodies have no variables, and files no heads: it has none");
        }
        if let (Some(kind), true) = (line.after("content-type"), pairs.len() > 1) {
            pairs.push(("content_type", text(kind)));
        }
        match doubt {
            Some(told) => self.ledger.nearly(line.id, told),
            None => self.ledger.carried(line.id),
        }
        let pairs = pairs
            .into_iter()
            .map(|(key, value)| (key.to_owned(), value));
        let response = Value::Map(pairs.collect());
        let mut spot = spot.clone();
        for at in (0..line.words.len()).filter(|at| line.word(*at) == "hdr") {
            let pair = [
                ("name", text(line.word(at + 1))),
                ("value", text(line.word(at + 2))),
            ];
            spot.response_added.push(map(pair));
        }
        Done::Ends(vec![
            spot.route(vec![("direct_response".to_owned(), response)]),
        ])
    }

    fn rewrite(&mut self, spot: &Spot, line: &Line) -> Done {
        match rewritten(line) {
            Some(rewrite) if spot.rewrite.is_none() => {
                self.ledger.carried(line.id);
                let mut next = spot.clone();
                next.rewrite = Some(rewrite);
                Done::GoesOn(Box::new(next))
            }
            _ => {
                let told = "`regex_rewrite` takes an expression and fixed text, once: other \
                            paths would reach the backend, so it answers 403";
                self.ledger.not(line.id, told);
                Done::Ends(vec![spot.respond(403)])
            }
        }
    }

    fn edit(&mut self, spot: &Spot, line: &Line, (kind, action): (&str, &str)) -> Done {
        let name = line.word(2);
        let value = text(name);
        let is_request = kind == "http-request";
        let mut next = spot.clone();
        if action == "del-header" {
            self.ledger.carried(line.id);
            match is_request {
                true => next.request_removed.push(value),
                false => next.response_removed.push(value),
            }
            return Done::GoesOn(Box::new(next));
        }
        if is_request && name.eq_ignore_ascii_case("host") {
            let fixed = formats::template(line.word(3)).is_ok_and(|own| !own.contains('%'));
            match fixed {
                true => {
                    self.ledger.carried(line.id);
                    next.host = Some(line.word(3).to_owned());
                }
                false => self.ledger.not(line.id, "`host_rewrite` is a fixed one"),
            }
            return Done::GoesOn(Box::new(next));
        }
        if is_request && is_told_by_listeners(line) && self.x_forwarded {
            self.ledger.carried(line.id);
            return Done::Skipped;
        }
        match formats::template(line.word(3)) {
            Ok(template) if !(is_request && template.contains("%RESP")) => {
                self.ledger.carried(line.id);
                let pair = map([("name", value), ("value", text(template))]);
                match (is_request, action) {
                    (true, "set-header") => next.request_set.push(pair),
                    (true, _) => next.request_added.push(pair),
                    (false, "set-header") => next.response_set.push(pair),
                    (false, _) => next.response_added.push(pair),
                }
            }
            Ok(_) => self
                .ledger
                .not(line.id, "a request knows nothing of its response"),
            Err(part) => {
                let told = format!("there is no `{part}` in fields: the field is taken away");
                self.ledger.not(line.id, told);
                match is_request {
                    true => next.request_removed.push(value),
                    false => next.response_removed.push(value),
                }
            }
        }
        Done::GoesOn(Box::new(next))
    }
}

/// The fate of requests whose rule is lost.
enum Lost {
    /// They go on as if there were none.
    Skip,
    /// They are answered 403.
    Refuse,
}

fn kind_and_action(line: &Line) -> (&str, &str) {
    match line.word(0) {
        "block" => ("http-request", "block"),
        kind @ ("redirect" | "use_backend") => (kind, ""),
        kind => (kind, line.word(1)),
    }
}

/// Returns the first rule after those that `allow` has requests pass.
fn allowed(list: &[&Line], at: usize) -> usize {
    let is_request = |line: &&&Line| line.word(0) == "http-request";
    at + list[at..].iter().take_while(is_request).count()
}

/// Returns whether a rule may keep requests from what they would get otherwise.
fn guards(line: &Line) -> bool {
    let (kind, action) = kind_and_action(line);
    let edits = [
        "set-header",
        "add-header",
        "del-header",
        "allow",
        "capture",
        "normalize-uri",
    ];
    matches!(kind, "redirect" | "use_backend")
        || (kind == "http-request"
            && !edits.contains(&action)
            && !action.starts_with("track-")
            && !action.starts_with("sc-")
            && !action.starts_with("set-var")
            && !action.starts_with("set-log"))
}

/// Returns whether a rule sends clients to TLS.
fn leads_to_tls(line: &Line) -> bool {
    line.after("scheme") == Some("https")
        || ["location", "prefix"].iter().any(|own| {
            line.after(own)
                .is_some_and(|url| url.starts_with("https://"))
        })
}

/// Returns whether listeners send the field of a rule by themselves.
fn is_told_by_listeners(line: &Line) -> bool {
    let (_, action) = kind_and_action(line);
    let value = line.word(3);
    matches!(action, "set-header" | "add-header")
        && match &*line.word(2).to_ascii_lowercase() {
            "x-forwarded-proto" => matches!(value, "https" | "http" | "%[ssl_fc,iif(https,http)]"),
            "x-forwarded-for" => matches!(value, "%[src]" | "%ci"),
            "x-forwarded-host" => matches!(
                value,
                "%[req.hdr(host)]" | "%[req.hdr(Host)]" | "%[hdr(host)]"
            ),
            _ => false,
        }
}

/// Returns how a rule replaces paths, if Sprat can do so.
fn rewritten(line: &Line) -> Option<Value> {
    let (expression, replacement) = match line.word(1) {
        "replace-path" => (line.word(2), line.word(3)),
        "set-path" => match line.word(2).strip_prefix("%[path,regsub(") {
            Some(rest) => {
                let (pattern, rest) = rest.split_once(',')?;
                let replacement = rest.strip_suffix(")]")?.trim_end_matches(",g");
                let pattern = pattern.trim_matches(['\'', '"']);
                let rewrite = [
                    ("pattern", text(pattern)),
                    ("substitution", text(replacement)),
                ];
                patterns::check(pattern).ok()?;
                return (!replacement.contains(['%', '?'])).then(|| map(rewrite));
            }
            None => ("^.*$", line.word(2)),
        },
        _ => return None,
    };
    if replacement.contains(['%', '?', '#']) || replacement.is_empty() {
        return None;
    }
    let pattern = Pattern::new(expression, false).whole_for_rewrite();
    patterns::check(&pattern).ok()?;
    Some(map([
        ("pattern", text(pattern)),
        ("substitution", text(replacement)),
    ]))
}

fn advice(action: &str) -> &'static str {
    match action {
        own if own.starts_with("track-sc") || own.starts_with("sc-") => {
            "see `rate_limit` of a route, and `per_client` of a listener"
        }
        "set-bandwidth-limit" => "have a class with a `rate`",
        "cache-use" | "cache-store" => "Sprat keeps no responses: put a cache before or behind it",
        "set-var" | "unset-var" => "Sprat has no variables",
        _ => "Sprat has no such rule",
    }
}
