//! HAProxy's rules: what each does with requests, and the routes that come of it.

use super::acls::{Acls, Conjunction};
use super::formats;
use super::parse::Line;
use super::replacements::rewritten;
use super::spot::{Spot, is_of};
use crate::document::Route;
use crate::ledger::Ledger;
use crate::limits::MAX_ROUTES;
use crate::nginx::read_redirect;
use crate::transports::Transports;
use crate::units::whole;
use crate::yaml::{Map, Value, map, text, word};

/// The function that makes the routes of requests that all rules have let through.
pub(super) type End<'e> = dyn FnMut(&mut Rules<'_>, &Spot, Option<&Line>) -> Vec<Route> + 'e;

/// The state while HAProxy's rules are followed.
pub(super) struct Rules<'r> {
    pub(super) ledger: &'r mut Ledger,
    /// Whether listeners tell backends about clients in `X-Forwarded-*`.
    pub(super) x_forwarded: bool,
    /// The number of places that have been followed, at most [`MAX_ROUTES`].
    pub(super) steps: usize,
}

/// The outcome of a rule.
enum Done {
    /// The rule answers the requests, or sends them to a backend.
    Ends(Vec<Route>),
    /// The rule changes the requests, and the next rule is asked.
    GoesOn(Box<Spot>),
    /// The requests pass all other rules of this kind.
    Allowed,
    /// The rule is passed over: it makes no route, and changes no request.
    Skipped,
}

impl Rules<'_> {
    /// Returns the routes of requests that have all rules of `list` still before them.
    pub(super) fn go(
        &mut self,
        spot: &Spot,
        list: &[&Line],
        acls: &Acls<'_>,
        end: &mut End<'_>,
    ) -> Vec<Route> {
        self.steps += 1;
        if self.steps > MAX_ROUTES {
            return Vec::new();
        }
        let Some((line, rest)) = list.split_first() else {
            return end(self, spot, None);
        };
        let Some(mut any) = acls.condition(line) else {
            return match self.apply(spot, line, end) {
                Done::Ends(routes) => routes,
                Done::GoesOn(next) => self.go(&next, rest, acls, end),
                Done::Allowed => self.go(spot, past_set(line, rest), acls, end),
                Done::Skipped => self.go(spot, rest, acls, end),
            };
        };
        for own in &mut any {
            if !(spot.transports.plain && spot.transports.tls) {
                own.settle_tls(spot.transports.tls);
            }
            if spot.is_proxied && is_of_connections(line) {
                own.forget_clients();
            }
        }
        self.go_by(spot, line, &any, rest, acls, end)
    }

    /// Returns the routes of requests that come to a rule with several conditions, any of which is
    /// enough. The conditions are tried in turn; requests for which none holds go on past the rule.
    fn go_by(
        &mut self,
        spot: &Spot,
        line: &Line,
        any: &[Conjunction],
        rest: &[&Line],
        acls: &Acls<'_>,
        end: &mut End<'_>,
    ) -> Vec<Route> {
        let Some((_, others)) = any.split_first() else {
            return self.go(spot, rest, acls, end);
        };
        if self.steps > MAX_ROUTES {
            return Vec::new();
        }
        match self.conditional(spot, line, any, rest, acls, end) {
            Ok((routes, true)) => routes,
            Ok((mut routes, false)) => {
                routes.extend(self.go_by(spot, line, others, rest, acls, end));
                routes
            }
            Err(Lost::Skip) => {
                let mut spot = spot.clone();
                spot.note_change(line);
                self.go_by(&spot, line, others, rest, acls, end)
            }
            Err(Lost::Strip) => {
                let mut spot = spot.clone();
                spot.note_change(line);
                let name = line.word(2);
                spot.request_removed.retain(|own| own != &text(name));
                spot.request_removed.push(text(name));
                self.go_by(&spot, line, others, rest, acls, end)
            }
            Err(Lost::Refuse) => vec![spot.respond(403)],
        }
    }

    /// Returns the routes of requests for which the first of a rule's conditions holds, and whether
    /// that is all requests.
    fn conditional(
        &mut self,
        spot: &Spot,
        line: &Line,
        any: &[Conjunction],
        rest: &[&Line],
        acls: &Acls<'_>,
        end: &mut End<'_>,
    ) -> Result<(Vec<Route>, bool), Lost> {
        let Some((own, others)) = any.split_first() else {
            return Err(Lost::Skip);
        };
        let mut own = own.clone();
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
        let (mut out, mut is_all) = (Vec::new(), false);
        'places: for place in &holds {
            // Those for which the rest does not hold go on before.
            for test in &own.fails {
                for mut other in place.with_test(test).map_err(|()| unknown(self))? {
                    other.is_plain = spot.is_plain;
                    out.extend(self.go_by(&other, line, others, rest, acls, end));
                    if other.matches == place.matches {
                        is_all |= place.matches == spot.matches;
                        continue 'places;
                    }
                }
            }
            let done = self.apply(place, line, end);
            let passes = match &done {
                Done::Ends(routes) => routes.iter().any(|own| own.is_for_plain),
                Done::Skipped => true,
                Done::GoesOn(_) | Done::Allowed => false,
            };
            is_all |= !passes && !start.is_plain && place.matches == spot.matches;
            match done {
                Done::Ends(routes) => out.extend(routes),
                Done::GoesOn(next) => out.extend(self.go(&next, rest, acls, end)),
                Done::Allowed => {
                    out.extend(self.go(place, past_set(line, rest), acls, end));
                }
                Done::Skipped => {}
            }
        }
        Ok((out, is_all))
    }

    /// Notes that routes cannot ask a rule's condition, and returns the fate of its requests.
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
        // What clients say there themselves backends would take for the rule's.
        let (kind, action) = line.kind_and_action();
        let name = line.word(2).to_ascii_lowercase();
        let is_own = name == "host" || (self.x_forwarded && name.starts_with("x-forwarded-"));
        if kind == "http-request" && matches!(action, "set-header" | "del-header") && !is_own {
            let told = "routes cannot ask that: the field is taken away from all requests";
            self.ledger.not(line.id, told);
            return Lost::Strip;
        }
        self.ledger
            .not(line.id, "routes cannot ask that: this rule is left out");
        Lost::Skip
    }

    /// Applies a rule, without its condition.
    fn apply(&mut self, spot: &Spot, line: &Line, end: &mut End<'_>) -> Done {
        let (kind, action) = line.kind_and_action();
        match (kind, action) {
            ("use_backend", _) => {
                self.ledger.carried(line.id);
                Done::Ends(end(self, spot, Some(line)))
            }
            ("redirect", _) | ("http-request", "redirect") => self.redirect(spot, line),
            (
                "http-request" | "tcp-request",
                "deny" | "tarpit" | "reject" | "silent-drop" | "block",
            ) => self.deny(spot, line, action),
            _ if keeps_responses(line) => {
                let told = "routes keep no responses of backends back: answers 403";
                self.ledger.not(line.id, told);
                Done::Ends(vec![spot.respond(403)])
            }
            ("http-request", "auth") => {
                let told = "users are in a file of hashes: see `basic_auth` of a route, in place of the \
                            answer 403";
                self.ledger.not(line.id, told);
                Done::Ends(vec![spot.respond(403)])
            }
            ("http-request", "allow") | ("tcp-request", "accept") => {
                self.ledger.carried(line.id);
                Done::Allowed
            }
            ("http-request", "return") => self.respond(spot, line),
            (
                "http-request",
                "set-path" | "replace-path" | "set-pathq" | "replace-pathq" | "set-uri"
                | "replace-uri",
            ) => self.rewrite(spot, line),
            (_, "set-header" | "add-header" | "del-header") => self.edit(spot, line),
            (
                "http-request" | "tcp-request",
                "use-service" | "set-dst" | "set-method" | "set-query",
            ) => {
                self.ledger
                    .not(line.id, "Sprat has no such thing: answers 403");
                Done::Ends(vec![spot.respond(403)])
            }
            ("http-request" | "tcp-request", own) if own.starts_with("lua.") => {
                let told = "Sprat runs no scripts, and this one may refuse requests: answers 403";
                self.ledger.not(line.id, told);
                Done::Ends(vec![spot.respond(403)])
            }
            (
                "http-request" | "tcp-request",
                "normalize-uri" | "set-log-level" | "disable-l7-retry" | "capture",
            ) => {
                self.ledger.carried(line.id);
                Done::Skipped
            }
            _ => {
                self.ledger.not(line.id, advice(action));
                let mut next = spot.clone();
                next.note_change(line);
                match next.changed == spot.changed && next.is_moved == spot.is_moved {
                    true => Done::Skipped,
                    false => Done::GoesOn(Box::new(next)),
                }
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
                    true => Transports::PLAIN,
                    false => spot.transports,
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

    fn edit(&mut self, spot: &Spot, line: &Line) -> Done {
        let (kind, action) = line.kind_and_action();
        let name = line.word(2);
        let value = text(name);
        let is_request = kind == "http-request";
        let mut next = spot.clone();
        next.note_change(line);
        let is_by_name = line.after("-m").is_none_or(|how| how == "str");
        if is_request && action == "del-header" && !is_by_name {
            let told = "fields are taken away by name, and backends may trust these: answers 403";
            self.ledger.not(line.id, told);
            return Done::Ends(vec![spot.respond(403)]);
        }
        if action == "del-header" {
            match is_by_name {
                true => self.ledger.carried(line.id),
                false => self.ledger.not(line.id, "fields are taken away by name"),
            }
            let is_other = |own: &Value| !is_of(own, name);
            match is_request {
                true => {
                    // They would be set after it is taken away.
                    next.request_set.retain(is_other);
                    next.request_added.retain(is_other);
                    next.request_removed.push(value);
                }
                false => {
                    next.response_set.retain(is_other);
                    next.response_added.retain(is_other);
                    next.response_removed.push(value);
                }
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
            return Done::GoesOn(Box::new(next));
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

/// The fate of requests that come to a rule whose condition is lost.
enum Lost {
    /// The requests go on as if there were no rule.
    Skip,
    /// The requests go on without the field that the rule edits.
    Strip,
    /// The requests are answered 403.
    Refuse,
}

/// Returns the rules that come after an `allow` or `accept`: `line` is that rule, and `rest` all
/// after it. The other rules of its set are passed.
fn past_set<'r, 'l>(line: &Line, rest: &'r [&'l Line]) -> &'r [&'l Line] {
    let is_same = |other: &&&Line| set_of(other) == set_of(line);
    &rest[rest.iter().take_while(is_same).count()..]
}

/// Returns the name of the set of rules that a rule belongs to.
fn set_of(line: &Line) -> (&str, &str) {
    match line.word(0) {
        kind @ "tcp-request" => (kind, line.word(1)),
        kind => (kind, ""),
    }
}

/// Returns whether HAProxy applies a rule before it reads a PROXY header.
fn is_of_connections(line: &Line) -> bool {
    line.word(0) == "tcp-request" && line.word(1) == "connection"
}

/// Returns whether a rule may keep requests from what they would reach without it.
fn guards(line: &Line) -> bool {
    let (kind, action) = line.kind_and_action();
    let edits = [
        "set-header",
        "add-header",
        "del-header",
        "accept",
        "allow",
        "capture",
        "normalize-uri",
    ];
    matches!(kind, "redirect" | "use_backend")
        || keeps_responses(line)
        || (matches!(kind, "http-request" | "tcp-request")
            && !edits.contains(&action)
            && !action.starts_with("track-")
            && !action.starts_with("sc-")
            && !action.starts_with("set-var")
            && !action.starts_with("set-log"))
}

/// Returns whether a rule may keep responses of backends from clients.
pub(super) fn keeps_responses(line: &Line) -> bool {
    let (kind, action) = line.kind_and_action();
    let is_one = matches!(
        action,
        "deny" | "reject" | "silent-drop" | "close" | "return"
    );
    matches!(kind, "http-response" | "tcp-response") && (is_one || action.starts_with("lua."))
}

/// Returns whether a rule redirects clients to TLS.
fn leads_to_tls(line: &Line) -> bool {
    line.after("scheme") == Some("https")
        || ["location", "prefix"].iter().any(|own| {
            line.after(own)
                .is_some_and(|url| url.starts_with("https://"))
        })
}

/// Returns whether listeners send the field that a rule sets by themselves.
fn is_told_by_listeners(line: &Line) -> bool {
    let (_, action) = line.kind_and_action();
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

fn advice(action: &str) -> &'static str {
    match action {
        own if own.starts_with("track-sc") || own.starts_with("sc-") => {
            "see `rate_limit` of a route, and `per_client` of a listener"
        }
        "set-bandwidth-limit" => "have a class with a `rate`",
        "cache-use" | "cache-store" => "Sprat keeps no responses: put a cache before or behind it",
        own if own.starts_with("set-var") || own.starts_with("unset-var") => {
            "Sprat has no variables"
        }
        "set-src" => "see `trusted` of the listener's `forwarding`",
        "expect-proxy" => "see `trusted` of the listener's `proxy_protocol`",
        _ => "Sprat has no such rule",
    }
}
