//! The content of nginx's locations: the cluster that requests go to, or an answer.

use std::time::Duration;

use super::clusters::{Tls, Way, is_unix};
use super::converter::{Block, Converter};
use super::guards::{PASSES_BY, passes_by};
use super::here::Here;
use super::locations::{self, Kind, Location};
use super::parse::Directive;
use super::pass::{Pass, prefix_of};
use super::replacements::{Rewrite, replaced_in, replacement};
use super::variables::{expand, has_variables, variable};
use crate::document::{PathIs, Route};
use crate::patterns::{Pattern, escaped};
use crate::restrict::Delta;
use crate::units::{time, whole};
use crate::yaml::{Map, Value, map, text, word};

impl<'a> Converter<'a, '_> {
    /// Returns the routes to what a location serves.
    pub(super) fn content(
        &mut self,
        place: &Block<'_, 'a>,
        location: &Location<'a>,
        here: &Here<'a>,
    ) -> Vec<Route> {
        let mut serve = |own: &mut Self, here: &Here<'a>| own.handled(place, location, here);
        // It holds within an `if` as well.
        let mut limited = location.directive.inner().iter();
        let Some(limited) = limited.find(|own| own.name == "limit_except") else {
            return self.guarded(here, &mut serve);
        };
        let mut methods: Vec<String> = limited.args.iter().map(|own| own.to_uppercase()).collect();
        if methods.iter().any(|own| own == "GET") {
            methods.push("HEAD".to_owned());
        }
        let Ok(places) = here.restricted(&Delta::Methods(methods)) else {
            return vec![here.respond(403)];
        };
        self.ledger.carried(limited.id);
        let mut out = Vec::new();
        for own in &places {
            out.extend(self.guarded(own, &mut serve));
        }
        let others = Here {
            scope: here.scope.within(limited.inner()),
            ..here.clone()
        };
        out.extend(self.guarded(&others, &mut serve));
        out
    }

    /// Settles the directives of a location that no client can reach.
    pub(super) fn internal(
        &mut self,
        place: &Block<'_, 'a>,
        location: &Location<'a>,
        here: &Here<'a>,
    ) {
        let within = Here {
            depth: 1,
            ..here.clone()
        };
        // Its directives are carried over where others lead to it.
        let _ = self.handled(place, location, &within);
    }

    fn handled(
        &mut self,
        place: &Block<'_, 'a>,
        location: &Location<'a>,
        here: &Here<'a>,
    ) -> Vec<Route> {
        let own = here.scope.own();
        let of = |block: &'a [Directive], names: &[&str]| {
            block.iter().find(|own| names.contains(&&*own.name))
        };
        let passes = ["proxy_pass", "grpc_pass"];
        let pass = of(own, &passes).or_else(|| of(location.directive.inner(), &passes));
        if let Some(pass) = pass {
            return self.passed(place, location, here, pass);
        }
        let others = ["fastcgi_pass", "uwsgi_pass", "scgi_pass", "memcached_pass"];
        let block = location.directive.inner();
        if of(block, &others).is_some() {
            return vec![here.respond(501)];
        }
        if let Some(tried) = of(block, &["try_files"]) {
            return self.tried(place, here, tried);
        }
        vec![here.respond(501)]
    }

    /// Returns the routes of a `try_files` for paths without a file: Sprat has no files, so for all
    /// paths.
    fn tried(
        &mut self,
        place: &Block<'_, 'a>,
        here: &Here<'a>,
        tried: &'a Directive,
    ) -> Vec<Route> {
        let last = tried.args.last().map_or("", String::as_str);
        let path = last.split('?').next().unwrap_or_default();
        let found = match last.strip_prefix('@') {
            Some(_) => locations::named(place.locations, last),
            None => locations::find(place.locations, path).filter(|_| path.starts_with('/')),
        };
        let passes = |own: &&Location<'_>| {
            let names = ["proxy_pass", "grpc_pass"];
            let inner = own.directive.inner();
            inner.iter().any(|own| names.contains(&&*own.name))
        };
        let Some(found) = found.filter(passes).filter(|_| here.depth < 10) else {
            return vec![here.respond(501)];
        };
        let told = "Sprat looks for no files: all requests go on to the last of these";
        self.ledger.nearly(tried.id, told);
        self.ledger.carried(found.directive.id);
        let mut next = Here {
            scope: found.scope.clone(),
            depth: here.depth + 1,
            ..here.clone()
        };
        if next.rates.is_none() && here.scope.one("limit_req").is_some() {
            next.rates = Some(here.scope.clone());
        }
        if !last.starts_with('@') {
            match replaced_in(here.rewrite.as_ref(), &Pattern::new("^.*$", false), last) {
                Ok((rewrite, _)) if !passes_by(place.locations, &rewrite, found) => {
                    next.rewrite = Some(rewrite);
                }
                Ok(_) => {
                    self.ledger.not(tried.id, PASSES_BY);
                    return vec![here.respond(403)];
                }
                Err(_) => return vec![here.respond(501)],
            }
        }
        self.located(place, found, &next)
    }

    fn passed(
        &mut self,
        place: &Block<'_, 'a>,
        location: &Location<'a>,
        here: &Here<'a>,
        pass: &'a Directive,
    ) -> Vec<Route> {
        let mut url = expand(pass.arg(0), &here.constants);
        if pass.name == "grpc_pass" && !url.contains("://") {
            url.insert_str(0, "grpc://");
        }
        if let Some((_, authority)) = url.split_once("://")
            && authority.starts_with('$')
        {
            return self.chosen(place, location, here, pass, &url);
        }
        if let Some(name) = variable(&url) {
            let told = format!("`${name}` is not fixed, so it is not known whom to ask");
            return self.unserved(here, pass, &told);
        }
        let Some(parts) = Pass::read(&url) else {
            return self.unserved(here, pass, "a URL of HTTP is expected");
        };
        if parts.target.is_empty() || has_variables(&parts.target) {
            return self.unserved(here, pass, "it is not known whom to ask");
        }
        match self.forwarded(place, location, here, pass, &parts) {
            Ok(route) => vec![route],
            Err(told) => {
                let told = format!("{told}: answers 403");
                self.ledger.not(pass.id, told);
                vec![here.respond(403)]
            }
        }
    }

    fn unserved(&mut self, here: &Here<'a>, pass: &Directive, told: &str) -> Vec<Route> {
        self.ledger.not(pass.id, format!("{told}: answers 502"));
        vec![here.respond(502)]
    }

    /// Returns the routes to a backend that a variable names. The variable comes from
    /// `split_clients`, or from a `map` over a property that routes can ask.
    fn chosen(
        &mut self,
        place: &Block<'_, 'a>,
        location: &Location<'a>,
        here: &Here<'a>,
        pass: &'a Directive,
        url: &str,
    ) -> Vec<Route> {
        let (scheme, authority) = url.split_once("://").unwrap_or(("http", url));
        let end = authority.find('/').unwrap_or(authority.len());
        let (own, rest) = authority.split_at(end);
        let name = variable(own).unwrap_or_default();
        let is_it = |own: &&&'a Directive| own.arg(1).trim_start_matches('$') == name;
        let of = |kind: &str| {
            let blocks: Vec<&'a Directive> =
                self.http.iter().filter(|own| own.name == kind).collect();
            blocks.iter().find(is_it).copied()
        };
        let with = |value: &str| format!("{scheme}://{value}{rest}");
        if let Some(split) = of("split_clients") {
            return self.shared(place, location, here, pass, split, &with);
        }
        let Some(mapped) = of("map") else {
            return self.unserved(here, pass, "it is not known whom to ask");
        };
        let mut out = Vec::new();
        let mut default = None;
        let mut entries: Vec<&'a Directive> = mapped.inner().iter().collect();
        // nginx asks expressions last, and before them the longest name with a wildcard.
        entries.sort_by_key(|own| match own.name.starts_with("*.") {
            true => (1, usize::MAX - own.name.len()),
            false => (if own.name.starts_with('~') { 2 } else { 0 }, 0),
        });
        for entry in entries {
            match &*entry.name {
                "default" => {
                    default = Some(entry.arg(0));
                    continue;
                }
                "volatile" | "hostnames" if entry.args.is_empty() => continue,
                _ => {}
            }
            let asked = Directive {
                id: mapped.id,
                name: "if".to_owned(),
                args: compare(mapped.arg(0), &entry.name),
                block: None,
                place: entry.place.clone(),
            };
            let condition = super::conditions::read(&asked, here, self.takes_addresses);
            let super::conditions::Condition::When(delta) = condition else {
                return self.unserved(here, pass, "routes cannot ask what the map does");
            };
            let Ok(places) = here.restricted(&delta) else {
                return self.unserved(here, pass, "routes cannot ask what the map does");
            };
            for own in &places {
                out.extend(self.through(place, location, own, pass, &with(entry.arg(0))));
            }
        }
        self.ledger.carried(mapped.id);
        match default {
            Some(value) => {
                out.extend(self.through(place, location, here, pass, &with(value)));
            }
            None => out.push(here.respond(502)),
        }
        out
    }

    fn through(
        &mut self,
        place: &Block<'_, 'a>,
        location: &Location<'a>,
        here: &Here<'a>,
        pass: &'a Directive,
        url: &str,
    ) -> Vec<Route> {
        if !self.step() {
            return Vec::new();
        }
        let parts = Pass::read(url).filter(|own| !own.target.is_empty());
        let Some(parts) = parts.filter(|_| !has_variables(url)) else {
            return self.unserved(here, pass, "it is not known whom to ask");
        };
        match self.forwarded(place, location, here, pass, &parts) {
            Ok(route) => vec![route],
            Err(told) => {
                self.ledger.not(pass.id, format!("{told}: answers 403"));
                vec![here.respond(403)]
            }
        }
    }

    /// Returns the routes that share requests among clusters.
    fn shared(
        &mut self,
        place: &Block<'_, 'a>,
        location: &Location<'a>,
        here: &Here<'a>,
        pass: &'a Directive,
        split: &'a Directive,
        with: &dyn Fn(&str) -> String,
    ) -> Vec<Route> {
        let mut shares = Vec::new();
        let mut route = None;
        let mut left = 10_000_u64;
        for entry in split.inner() {
            let percent = entry.name.strip_suffix('%').and_then(hundredths);
            let weight = match (&*entry.name, percent) {
                ("*", _) => left,
                (_, Some(weight)) => weight,
                _ => return self.unserved(here, pass, "its shares are not known"),
            };
            left = left.saturating_sub(weight);
            let mut routes = self.through(place, location, here, pass, &with(entry.arg(0)));
            let Some(own) = routes.pop() else { continue };
            let named = own.keys.iter().find(|(key, _)| key == "cluster");
            let Some((_, name)) = named.cloned() else {
                return vec![own];
            };
            shares.push(map([("cluster", name), ("weight", word(weight))]));
            route = Some(own);
        }
        let Some(mut route) = route else {
            return self.unserved(here, pass, "it has no shares");
        };
        let told = "each request has its chance: a client is not kept to one share";
        self.ledger.nearly(split.id, told);
        route
            .keys
            .retain(|(key, _)| key != "cluster" && key != "host_rewrite");
        route
            .keys
            .insert(0, ("weighted_clusters".to_owned(), Value::List(shares)));
        vec![route]
    }

    /// Returns the route that passes requests on to a cluster.
    ///
    /// # Errors
    ///
    /// The part that Sprat cannot express, and without which other requests would reach the
    /// backend.
    fn forwarded(
        &mut self,
        place: &Block<'_, 'a>,
        location: &Location<'a>,
        here: &Here<'a>,
        pass: &'a Directive,
        parts: &Pass,
    ) -> Result<Route, String> {
        let mut route = here.route(Map::new());
        let is_whole = has_variables(pass.arg(0));
        let rewrite = rewritten(location, here, parts.uri.as_deref(), is_whole, &mut route)?;
        let way = self.way(here, parts);
        self.ledger.carried(pass.id);
        if parts.tls && !here.scope.is_on(&format!("{}_ssl_verify", prefix_of(pass))) {
            let told = "nginx believes any certificate of the backend, Sprat those that the \
                        system believes: see `trusted_ca` of the cluster's `tls`";
            self.ledger.nearly(pass.id, told);
        }
        let keeps = ["args", "request_uri", "query_string"];
        let drops_query = |uri: &str| is_whole && !keeps.iter().any(|own| uri.contains(own));
        if parts.uri.as_deref().is_some_and(drops_query) {
            self.ledger.nearly(pass.id, "the query is passed on, too");
        }
        self.tell_of_redirects(here, pass, parts);
        let Some(cluster) = self.clusters.lead(&way, pass.id, self.ledger) else {
            return Ok(here.respond(502));
        };
        let mut put = |key: &str, value: Value| route.keys.push((key.to_owned(), value));
        put("cluster", text(cluster));
        if let Some((key, value)) = rewrite {
            put(key, value);
        }
        route.keys.extend(here.access.clone());
        let bounds = self.bound_keys(here, pass);
        let heads = self.request_keys(here, pass, &parts.target);
        route.keys.extend(bounds);
        route.keys.extend(heads);
        route.keys.extend(self.response_keys(&here.scope, None));
        route.keys.extend(self.page_keys(place, &here.scope));
        if let Some(mirrors) = self.mirrors(place, here) {
            route
                .keys
                .push(("request_mirror_policies".to_owned(), mirrors));
        }
        self.classify(here, &route);
        Ok(route)
    }

    /// Notes that Sprat does not change redirects of a backend to its own address, if the backend
    /// does not know the host or path that clients ask for.
    fn tell_of_redirects(&mut self, here: &Here<'a>, pass: &Directive, parts: &Pass) {
        let is_default = here.scope.one("proxy_redirect").is_none();
        let fields = here.scope.all(&["proxy_set_header"]);
        let is_host = |own: &&Directive| {
            own.arg(0).eq_ignore_ascii_case("host") && matches!(own.arg(1), "$host" | "$http_host")
        };
        let passes_host = fields.into_iter().any(|own| is_host(&own));
        // Redirects of a server that is asked who a client is lead nowhere.
        let is_default = is_default && here.scope.one("internal").is_none();
        let is_fixed = pass.name == "proxy_pass" && !has_variables(pass.arg(0));
        if is_fixed && is_default && (parts.uri.is_some() || !passes_host) {
            let told = "nginx has redirects of the backend to its own address lead to this \
                        location; Sprat does not edit `Location`";
            self.ledger.nearly(pass.id, told);
        }
    }

    /// Returns the way in which a location speaks to its backends.
    pub(super) fn way(&mut self, here: &Here<'a>, parts: &Pass) -> Way {
        let scope = &here.scope;
        let kind = if parts.http2 { "grpc" } else { "proxy" };
        let mut settle = |name: &str| {
            let own = scope.one(&format!("{kind}_{name}"))?;
            self.ledger.carried(own.id);
            Some(own)
        };
        let connect = settle("connect_timeout").and_then(|own| time(own.arg(0), 1000));
        let tls = parts.tls.then(|| {
            let host = match parts.target.rsplit_once(':') {
                Some(_) if is_unix(&parts.target) => "localhost",
                Some((host, _)) => host,
                None => &*parts.target,
            };
            let name = settle("ssl_name").map_or(host, |own| own.arg(0));
            settle("ssl_server_name");
            let is_name =
                name.contains(|c: char| c.is_ascii_alphabetic()) && !name.contains([':', '$']);
            let certificate = settle("ssl_certificate").zip(settle("ssl_certificate_key"));
            let pair = |(chain, key): (&Directive, &Directive)| {
                (chain.arg(0).to_owned(), key.arg(0).to_owned())
            };
            Tls {
                sni: is_name.then(|| name.to_owned()),
                trusted_ca: settle("ssl_trusted_certificate").map(|own| own.arg(0).to_owned()),
                certificate: certificate.map(pair),
            }
        });
        if parts.tls && scope.is_on(&format!("{kind}_ssl_verify")) {
            settle("ssl_verify");
        }
        let mut resolvers = Vec::new();
        let is_name =
            !is_unix(&parts.target) && parts.target.contains(|c: char| c.is_ascii_alphabetic());
        if let Some(own) = scope.one("resolver").filter(|_| is_name) {
            let is_address = |arg: &&String| {
                arg.parse::<std::net::IpAddr>().is_ok()
                    || arg.parse::<std::net::SocketAddr>().is_ok()
            };
            let found = own.args.iter().filter(is_address).cloned();
            resolvers.extend(found.take(8));
            match resolvers.is_empty() {
                true => self
                    .ledger
                    .not(own.id, "`dns.resolvers` takes addresses alone"),
                false => self.ledger.carried(own.id),
            }
        }
        if self.clusters.is_upstream(&parts.target) {
            resolvers.clear();
        }
        Way {
            target: parts.target.clone(),
            tls,
            http2: parts.http2,
            connect_timeout: connect.filter(|own| *own > Duration::ZERO),
            resolvers,
        }
    }

    fn mirrors(&mut self, place: &Block<'_, 'a>, here: &Here<'a>) -> Option<Value> {
        let mut found = Vec::new();
        for own in here.scope.all(&["mirror"]) {
            if own.arg(0) == "off" {
                self.ledger.carried(own.id);
                continue;
            }
            let location = locations::find(place.locations, own.arg(0));
            let pass = location.and_then(|own| own.scope.here("proxy_pass").next());
            let url = pass.map(|own| expand(own.arg(0), &here.constants));
            let parts = url.as_deref().and_then(Pass::read);
            let led = parts
                .filter(|own| !own.target.is_empty())
                .and_then(|parts| {
                    let way = self.way(here, &parts);
                    self.clusters.lead(&way, own.id, self.ledger)
                });
            match led {
                Some(cluster) => {
                    let told = "copies go to the same path, with the fields of the request itself";
                    self.ledger.nearly(own.id, told);
                    found.push(map([("cluster", text(cluster))]));
                }
                None => self.ledger.not(own.id, "it is not known where copies go"),
            }
        }
        (!found.is_empty()).then_some(Value::List(found))
    }
}

/// Returns the words of an `if` that compares as a `map` does: without regard to case.
fn compare(variable: &str, value: &str) -> Vec<String> {
    let plain = || value.strip_prefix('\\').unwrap_or(value);
    let (sign, value) = match (value.strip_prefix("~*"), value.strip_prefix('~')) {
        (Some(rest), _) => ("~*", rest.to_owned()),
        (_, Some(rest)) => ("~", rest.to_owned()),
        _ if variable == "$request_method" => ("=", plain().to_ascii_uppercase()),
        _ if plain().chars().any(char::is_alphabetic) && has_case(variable) => {
            ("~*", format!("^{}$", escaped(plain())))
        }
        _ => ("=", plain().to_owned()),
    };
    vec![format!("({variable}"), sign.to_owned(), format!("{value})")]
}

/// Returns whether values of a variable that differ by case alone are different.
fn has_case(variable: &str) -> bool {
    let fields = ["$http_", "$arg_", "$cookie_", "$uri", "$content_type"];
    variable != "$http_host" && fields.iter().any(|start| variable.starts_with(start))
}

/// Returns a percentage in hundredths of a percent.
fn hundredths(text: &str) -> Option<u64> {
    let (units, rest) = text.split_once('.').unwrap_or((text, "0"));
    let rest = format!("{rest:0<2}");
    Some(whole(units)? * 100 + whole(rest.get(..2)?)?).filter(|own| *own <= 10_000)
}

/// Returns the key that replaces the path, if anything does, and changes the route's match to the
/// paths that it can replace. `uri` is the part of `proxy_pass` after the host. If `is_whole`,
/// because there is a variable in it, it replaces the whole path.
fn rewritten(
    location: &Location<'_>,
    here: &Here<'_>,
    uri: Option<&str>,
    is_whole: bool,
    route: &mut Route,
) -> Result<Option<(&'static str, Value)>, String> {
    let uri = uri.map(without_query_variable);
    let same = ["$request_uri", "${request_uri}", "$uri", "${uri}"];
    let uri = uri.filter(|own| !same.contains(own));
    let Some(uri) = uri else {
        return here.rewrite.as_ref().map_or(Ok(None), by_regex);
    };
    if is_whole && !has_variables(uri) && !uri.contains('?') {
        return by_regex(&Rewrite {
            pattern: "^.*$".to_owned(),
            substitution: uri.replace('\\', "\\\\"),
        });
    }
    if let Some(rewrite) = &here.rewrite {
        // What `break` has made is passed on as it is; another location replaces its part.
        let (true, Kind::Prefix { path, .. }) = (here.depth > 0, &location.kind) else {
            return by_regex(rewrite);
        };
        if has_variables(uri) || uri.contains('?') {
            return Err("a replacement of a path, and one with more than a path".to_owned());
        }
        let rest = rewrite.substitution.strip_prefix(path.as_str());
        let rest = rest.ok_or("two replacements of a path in turn")?;
        return by_regex(&Rewrite {
            pattern: rewrite.pattern.clone(),
            substitution: format!("{}{rest}", uri.replace('\\', "\\\\")),
        });
    }
    if uri.contains('?') {
        return Err("a path for the backend with a query of its own".to_owned());
    }
    for lead in same.iter().filter_map(|name| uri.strip_suffix(name)) {
        if !has_variables(lead) {
            let lead = lead.strip_suffix('/').unwrap_or(lead).replace('\\', "\\\\");
            return by_regex(&Rewrite {
                pattern: "^".to_owned(),
                substitution: lead,
            });
        }
    }
    if has_variables(uri) {
        let pattern = here.captures.as_ref();
        let pattern = pattern.ok_or("a path for the backend with a variable")?;
        return by_regex(&replacement(pattern, uri)?.0);
    }
    match &location.kind {
        Kind::Exact(path) if path == uri => Ok(None),
        Kind::Exact(_) if matches!(route.matches.path, PathIs::Exact(_)) => {
            Ok(Some(("prefix_rewrite", text(uri))))
        }
        Kind::Exact(_) => by_regex(&Rewrite {
            pattern: "^.*$".to_owned(),
            substitution: uri.replace('\\', "\\\\"),
        }),
        Kind::Prefix { path, .. } if path == uri => Ok(None),
        Kind::Prefix { path, .. } => {
            let both_end = path.ends_with('/') && uri.ends_with('/');
            let is_prefix = matches!(route.matches.path, PathIs::Prefix(_) | PathIs::Any);
            if both_end && is_prefix {
                route.matches.path = PathIs::Prefix(path.clone());
                return Ok(Some(("prefix_rewrite", text(uri))));
            }
            by_regex(&Rewrite {
                pattern: format!("^{}", locations::spelt_again(path)),
                substitution: uri.replace('\\', "\\\\"),
            })
        }
        _ => Err("a path for the backend, where the location has no fixed one".to_owned()),
    }
}

/// Returns the key that replaces a path by a regular expression.
fn by_regex(rewrite: &Rewrite) -> Result<Option<(&'static str, Value)>, String> {
    let pair = [
        ("pattern", text(&rewrite.pattern)),
        ("substitution", text(&rewrite.substitution)),
    ];
    Ok(Some(("regex_rewrite", map(pair))))
}

/// Returns a path without the variables that keep the query, because Sprat keeps it anyway.
fn without_query_variable(uri: &str) -> &str {
    let ends = [
        "$is_args$args",
        "${is_args}${args}",
        "?$args",
        "?${args}",
        "?$query_string",
    ];
    ends.iter()
        .find_map(|end| uri.strip_suffix(end))
        .unwrap_or(uri)
}
