//! nginx's bounds on requests: times, bodies, rates and repetitions.

use std::time::Duration;

use super::converter::Converter;
use super::here::Here;
use super::parse::Directive;
use super::pass::prefix_of;
use super::scope::Scope;
use crate::document::{PathIs, Route};
use crate::units::{rate_value, size, size_value, time, time_value, whole};
use crate::yaml::{Map, Value, map, text, texts, word};

impl<'a> Converter<'a, '_> {
    /// Returns the keys of a route that bound its requests.
    pub(super) fn bound_keys(&mut self, here: &Here<'a>, pass: &Directive) -> Map {
        let scope = &here.scope;
        let kind = prefix_of(pass);
        let mut out = Map::new();
        let mut put = |key: &str, value: Value| out.push((key.to_owned(), value));
        let read = scope.one(&format!("{kind}_read_timeout"));
        let read = read.and_then(|own| {
            let time = time(own.arg(0), 1000).filter(|own| !own.is_zero());
            match time {
                Some(_) => self.ledger.carried(own.id),
                None => self.ledger.not(own.id, "times are above 0"),
            }
            time
        });
        if let Some(time) = read {
            put("response_timeout", time_value(time));
            put("idle_timeout", time_value(time));
        }
        if let Some(policy) = self.retries(scope, kind) {
            put("retry_policy", policy);
        }
        if let Some(limit) = self.rate_limit(here.rates.as_ref().unwrap_or(scope)) {
            put("rate_limit", limit);
        }
        if let Some(bound) = self.body(scope) {
            put("max_request_body", bound);
        }
        if let Some(buffer) = self.buffer(scope) {
            put("buffer", buffer);
        }
        let upgrades = scope
            .all(&[&format!("{kind}_set_header")])
            .into_iter()
            .any(|own| own.arg(0).eq_ignore_ascii_case("upgrade") && !own.arg(1).is_empty());
        if let (true, Some(time)) = (upgrades, read) {
            put("upgrade", map([("idle_timeout", time_value(time))]));
        }
        out
    }

    /// Returns the bound on bodies, if it differs from that of the listeners.
    fn body(&mut self, scope: &Scope<'a>) -> Option<Value> {
        let own = scope.one("client_max_body_size");
        let bytes = own.map_or(Some(1 << 20), |own| size(own.arg(0)));
        if let Some(own) = own {
            match bytes {
                Some(_) => self.ledger.carried(own.id),
                None => self
                    .ledger
                    .not(own.id, "sizes are whole numbers with k, m or g"),
            }
        }
        let bytes = bytes.filter(|own| *own > 0);
        if bytes == self.max_body {
            return None;
        }
        Some(bytes.map_or(word("unlimited"), size_value))
    }

    fn retries(&mut self, scope: &Scope<'a>, kind: &str) -> Option<Value> {
        let own = scope.one(&format!("{kind}_next_upstream"));
        let tries = scope.one(&format!("{kind}_next_upstream_tries"));
        if let Some(time) = scope.one(&format!("{kind}_next_upstream_timeout")) {
            let told = "`timeout` of the route bounds all of a request, its response as well";
            self.ledger.nearly(time.id, told);
        }
        let count = tries.and_then(|own| whole(own.arg(0)));
        if let Some(own) = tries {
            self.ledger.carried(own.id);
        }
        if own.is_none() && count.is_none_or(|count| count == 0) {
            return None;
        }
        let words: Vec<&str> = match own {
            Some(own) => own.args.iter().map(String::as_str).collect(),
            None => vec!["error", "timeout"],
        };
        if let Some(own) = own {
            self.ledger.carried(own.id);
        }
        if words.contains(&"off") {
            return Some(word("off"));
        }
        let mut reasons = vec!["connect-failure", "refused-stream"];
        if ["error", "timeout", "invalid_header"]
            .iter()
            .any(|own| words.contains(own))
        {
            reasons.push("reset");
        }
        let mut codes: Vec<Value> = Vec::new();
        for own in &words {
            match own.strip_prefix("http_").and_then(whole) {
                Some(code @ 400..=599) => codes.push(word(code)),
                _ => continue,
            }
        }
        if !codes.is_empty() {
            reasons.push("retriable-status-codes");
        }
        let mut pairs = vec![("retry_on".to_owned(), texts(reasons))];
        if !codes.is_empty() {
            pairs.push(("retriable_status_codes".to_owned(), Value::List(codes)));
        }
        if let Some(count) = count.filter(|count| *count > 0) {
            pairs.push(("num_retries".to_owned(), word((count - 1).min(100))));
        }
        if words.contains(&"non_idempotent") {
            pairs.push(("retry_non_idempotent".to_owned(), word("true")));
        }
        Some(Value::Map(pairs))
    }

    /// Returns the bound on how many requests each client may send over time.
    fn rate_limit(&mut self, scope: &Scope<'a>) -> Option<Value> {
        let limits = scope.all(&["limit_req"]);
        let (first, others) = limits.split_first()?;
        for own in others {
            self.ledger.not(own.id, "a route has one `rate_limit`");
        }
        let of = |own: &'a Directive, name: &str| {
            let mut values = own.args.iter().filter_map(|arg| arg.strip_prefix(name));
            values.find_map(|own| own.strip_prefix('='))
        };
        let zone = of(first, "zone").and_then(|name| self.zones.get(name).copied());
        let Some(zone) = zone else {
            self.ledger.not(first.id, "its zone is not there");
            return None;
        };
        let key = match zone.arg(0) {
            "$binary_remote_addr" | "$remote_addr" => Some(word("client")),
            other => other
                .strip_prefix("$http_")
                .map(|name| map([("header", text(name.replace('_', "-")))])),
        };
        let rate = of(zone, "rate").and_then(|rate| {
            let (count, span) = match (rate.strip_suffix("r/s"), rate.strip_suffix("r/m")) {
                (Some(count), _) => (count, Duration::from_secs(1)),
                (_, Some(count)) => (count, Duration::from_secs(60)),
                _ => return None,
            };
            Some((
                whole(count).filter(|count| (1..=1_000_000).contains(count))?,
                span,
            ))
        });
        let (Some(key), Some((count, span))) = (key, rate) else {
            let told = "`rate_limit` counts by client or by a field, a whole number of requests";
            self.ledger.not(first.id, told);
            return None;
        };
        let burst = of(first, "burst").and_then(whole).unwrap_or(0);
        self.ledger.carried(zone.id);
        let told = "each route counts by itself, nothing is delayed, and what is too much is \
                    answered 429";
        self.ledger.nearly(first.id, told);
        Some(map([
            ("key", key),
            (
                "token_bucket",
                map([
                    ("max_tokens", word((burst + 1).min(1_000_000))),
                    ("tokens_per_fill", word(count)),
                    ("fill_interval", time_value(span)),
                ]),
            ),
        ]))
    }

    /// Puts the responses of a route into a class with a rate, if nginx bounds their rate.
    pub(super) fn classify(&mut self, here: &Here<'a>, route: &Route) {
        let Some(own) = here.scope.one("limit_rate") else {
            return;
        };
        let rate = size(own.arg(0));
        if rate == Some(0) {
            return self.ledger.carried(own.id);
        }
        let matches = &route.matches;
        let path = match &matches.path {
            PathIs::Any => None,
            PathIs::Exact(path) => Some(("path", path)),
            PathIs::Prefix(path) => Some(("prefix", path)),
            PathIs::Regex(_) => {
                self.ledger
                    .not(own.id, "classes go by hosts, paths and prefixes");
                return;
            }
        };
        let Some(rate) = rate else {
            return self
                .ledger
                .not(own.id, "the rate of a class is a fixed one");
        };
        let told = "the class has the rate for all of its responses together, not for each; it \
                    counts where the uplink is paced";
        self.ledger.nearly(own.id, told);
        let name = format!("limit-{}", own.arg(0).to_ascii_lowercase());
        if !self.classes.iter().any(|(known, _)| *known == name) {
            let class = map([("rate", rate_value(rate))]);
            self.classes.push((name.clone(), class));
        }
        let mut pairs = Map::new();
        if !matches.hosts.is_empty() {
            pairs.push(("hosts".to_owned(), texts(&matches.hosts)));
        }
        if let Some((key, path)) = path {
            pairs.push((key.to_owned(), text(path)));
        }
        if !matches.methods.is_empty() {
            pairs.push(("methods".to_owned(), texts(&matches.methods)));
        }
        if pairs.is_empty() {
            pairs.push(("prefix".to_owned(), text("/")));
        }
        let rule = map([("match", Value::Map(pairs)), ("class", text(name))]);
        if !self.class_rules.contains(&rule) {
            self.class_rules.push(rule);
        }
    }
}
