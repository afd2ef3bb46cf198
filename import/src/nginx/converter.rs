//! The conversion of nginx's servers and their locations to routes.

use std::collections::BTreeMap;

use super::clusters::Clusters;
use super::guards::guards;
use super::here::Here;
use super::known;
use super::listeners::{Server, verifies_alone};
use super::locations::{self, Asked, Kind, Location, Turn};
use super::parse::Directive;
use super::variables::Constants;
use crate::document::{Match, PathIs, Route};
use crate::ledger::{Id, Ledger};
use crate::limits::MAX_ROUTES;
use crate::networks::normal_network;
use crate::patterns::{self, Pattern, escaped};
use crate::restrict::Delta;
use crate::transports::Transports;
use crate::yaml::{Map, Value, map, text};

/// The state while routes are made of servers and locations.
pub(super) struct Converter<'a, 'l> {
    pub(super) ledger: &'l mut Ledger,
    pub(super) clusters: Clusters<'a>,
    /// The directives of the block `http`.
    pub(super) http: &'a [Directive],
    /// The bound on bodies that the listeners have.
    pub(super) max_body: Option<u64>,
    /// Whether listeners tell backends about clients in `X-Forwarded-*`.
    pub(super) x_forwarded: bool,
    /// Whether nginx takes clients' addresses from a field, which Sprat does not.
    pub(super) takes_addresses: bool,
    /// The zones of `limit_req_zone`, by name.
    pub(super) zones: BTreeMap<&'a str, &'a Directive>,
    pub(super) classes: Map,
    pub(super) class_rules: Vec<Value>,
    /// The number of places that have been followed, at most [`MAX_ROUTES`].
    pub(super) steps: usize,
}

/// A server, or one of its locations.
#[derive(Clone, Copy)]
pub(super) struct Block<'p, 'a> {
    pub(super) locations: &'p [Location<'a>],
    pub(super) location: Option<&'p Location<'a>>,
}

impl Block<'_, '_> {
    pub(super) fn is_server(&self) -> bool {
        self.location.is_none()
    }

    /// Returns whether the location replaces its path by one of the backend's.
    pub(super) fn replaces_path(&self) -> bool {
        let block = self.location.map_or(&[][..], |own| own.directive.inner());
        let mut passes = block.iter().filter(|own| own.name == "proxy_pass");
        let has_path = |own: &Directive| {
            let rest = own.arg(0).split_once("://").map_or("", |(_, rest)| rest);
            rest.contains('/')
        };
        passes.any(has_path)
    }
}

impl<'a> Converter<'a, '_> {
    /// Returns the routes of a server for these hosts; an empty list is every host.
    pub(super) fn server(
        &mut self,
        server: &Server<'a>,
        all: &[Server<'a>],
        hosts: Vec<String>,
        field: Option<&Pattern>,
    ) -> Vec<Route> {
        let directive = server.directive;
        let title = match hosts.first() {
            Some(host) => format!("{}: server {host}", directive.place),
            None => format!("{}: server", directive.place),
        };
        let mut constants = Constants::new();
        if let Some(name) = server.scope.here("server_name").next() {
            constants.insert("server_name".to_owned(), name.arg(0).to_owned());
        }
        let headers = field.map(|own| crate::restrict::found_in("host", own, false));
        let here = Here {
            scope: server.scope.clone(),
            from: directive.id,
            title,
            matches: Match {
                hosts,
                headers: headers.into_iter().collect(),
                ..Match::default()
            },
            prefix: Some("/".to_owned()),
            expression: None,
            captures: field.cloned(),
            constants,
            rewrite: None,
            access: Map::new(),
            rates: None,
            transports: Transports {
                plain: server.is_on(false),
                tls: server.is_on(true),
            },
            depth: 0,
        };
        if let Some(own) = verifies_alone(server, all) {
            let told = "a listener asks all of its clients for certificates, or none: those of \
                        this server are answered 403; give it an address of its own";
            self.ledger.not(own.id, told);
            return vec![here.respond(403)];
        }
        let locations = locations::read(directive.inner(), &server.scope);
        let place = Block {
            locations: &locations,
            location: None,
        };
        let directives: Vec<&Directive> = directive.inner().iter().collect();
        self.phase(&place, &here, &directives, &mut |own, here| {
            own.locations(&place, here)
        })
    }

    /// Returns the routes of a server's locations.
    fn locations(&mut self, place: &Block<'_, 'a>, here: &Here<'a>) -> Vec<Route> {
        let (order, unreachable) = locations::order(place.locations);
        if order.len() > MAX_ROUTES {
            self.steps = MAX_ROUTES + 1;
            return Vec::new();
        }
        for own in unreachable {
            let told = "nginx never gets here: another location has its paths";
            self.ledger.nearly(own.directive.id, told);
            self.excuse(own.directive.inner());
        }
        let mut out = Vec::new();
        let mut has_root = false;
        for asked in &order {
            has_root |= asked.path == PathIs::Any;
            out.extend(self.asked(place, here, asked));
        }
        if !has_root {
            out.extend(self.rest(here));
        }
        out
    }

    /// Returns the routes of a server's requests that no location takes.
    fn rest(&mut self, here: &Here<'a>) -> Vec<Route> {
        let names = ["root", "try_files", "index"];
        let has_files = names.iter().any(|name| here.scope.one(name).is_some());
        let status = if has_files { 501 } else { 404 };
        self.guarded(here, &mut |_, here| vec![here.respond(status)])
    }

    fn asked(
        &mut self,
        place: &Block<'_, 'a>,
        server: &Here<'a>,
        asked: &Asked<'_, 'a>,
    ) -> Vec<Route> {
        let location = match asked.location {
            Turn::Serve(location) => location,
            Turn::AddSlash(location) => return self.slash(server, location, &asked.path),
        };
        let directive = location.directive;
        let mut here = server.clone();
        here.from = directive.id;
        here.title = format!("{}: location {}", directive.place, directive.args.join(" "));
        here.title = here.title.replace(char::is_control, " ");
        here.scope.clone_from(&location.scope);
        here.matches.path = asked.path.clone();
        here.prefix = match &location.kind {
            Kind::Prefix { path, .. } => {
                Some(path.clone()).filter(|own| !locations::is_spelt_otherwise(own))
            }
            _ => None,
        };
        if let Kind::Regex(pattern) = &location.kind {
            here.captures = Some(pattern.clone());
            here.expression = Some(pattern.clone()).filter(|_| asked.path == location.own_path());
        }
        if !asked.is_exact {
            let told = "it is not known which paths below a longer prefix it is for: all that it \
                        is found in are answered 403";
            self.ledger.not(directive.id, told);
            self.excuse(directive.inner());
            return vec![here.respond(403)];
        }
        if let PathIs::Regex(regex) = &asked.path
            && let Err(told) = patterns::check(regex)
        {
            return self.wrong_regex(&here, location, &told);
        }
        self.ledger.carried(directive.id);
        self.located(place, location, &here)
    }

    /// Returns the routes of the requests that come to a location.
    pub(super) fn located(
        &mut self,
        place: &Block<'_, 'a>,
        location: &Location<'a>,
        here: &Here<'a>,
    ) -> Vec<Route> {
        if !self.step() {
            return Vec::new();
        }
        let within = Block {
            locations: place.locations,
            location: Some(location),
        };
        // nginx asks as soon as it has found the location. What came from another may pass.
        if let Some(own) = here.scope.one("internal").filter(|_| here.depth == 0) {
            self.ledger.carried(own.id);
            self.internal(&within, location, here);
            return self.phase(&within, here, &[], &mut |_, here| vec![here.respond(404)]);
        }
        let is_regex = matches!(location.kind, Kind::Regex(_));
        if let Some(inner) = location.children.first().filter(|_| is_regex) {
            let told = "a location within an expression is not told apart: the one around it \
                        answers 403";
            self.ledger.not(inner.directive.id, told);
            self.excuse(location.directive.inner());
            return vec![here.respond(403)];
        }
        self.phase(
            &within,
            here,
            &location.directive.inner().iter().collect::<Vec<_>>(),
            &mut |own, here| own.content(&within, location, here),
        )
    }

    /// Counts a place that is followed; returns false if there were too many.
    pub(super) fn step(&mut self) -> bool {
        self.steps += 1;
        self.steps <= MAX_ROUTES
    }

    fn unknown_paths(&mut self, here: &Here<'a>, id: Id) -> Vec<Route> {
        self.ledger.not(
            id,
            "its paths are not told apart here: they are answered 403",
        );
        vec![here.respond(403)]
    }

    /// Returns the routes in place of a location whose expression Sprat does not take.
    fn wrong_regex(&mut self, here: &Here<'a>, location: &Location<'a>, told: &str) -> Vec<Route> {
        let id = location.directive.id;
        let Kind::Regex(pattern) = &location.kind else {
            return self.unknown_paths(here, id);
        };
        let wider = pattern.without_look_around().whole();
        let is_known = patterns::check(&wider).is_ok();
        let guards = guards(location);
        self.excuse(location.directive.inner());
        let mut here = here.clone();
        if !guards {
            let told = format!("{told}: its paths go to the locations after it");
            self.ledger.not(id, told);
            return Vec::new();
        }
        if is_known {
            let told = format!(
                "{told}: without that it takes more paths, all of which are answered 403; let \
                 those through that it is not for by a route before"
            );
            self.ledger.not(id, told);
            here.matches.path = PathIs::Regex(wider);
        } else {
            let told = format!("{told}: what it guards is not known, so all is answered 403");
            self.ledger.not(id, told);
            here.matches.path = PathIs::Any;
        }
        vec![here.respond(403)]
    }

    /// Returns the redirect from a path to the same path with a slash at its end.
    fn slash(&mut self, server: &Here<'a>, location: &Location<'a>, path: &PathIs) -> Vec<Route> {
        let PathIs::Exact(short) = path else {
            return Vec::new();
        };
        let mut here = server.clone();
        here.from = location.directive.id;
        here.title = format!("{}: nginx adds the slash", location.directive.place);
        here.scope.clone_from(&location.scope);
        let whole = Pattern::new(&format!("^{}$", escaped(short)), false);
        let found = here.restricted(&Delta::Path(whole));
        let mut out = Vec::new();
        if location.scope.one("internal").is_some() {
            let not_found = |here: Here<'a>| here.respond(404);
            return found
                .unwrap_or_default()
                .into_iter()
                .map(not_found)
                .collect();
        }
        for mut here in found.unwrap_or_default() {
            if here.matches.path != PathIs::Any {
                here.matches.path.clone_from(path);
            }
            let target = map([("path_redirect", text(format!("{short}/")))]);
            let mut keys = vec![("redirect".to_owned(), target)];
            keys.extend(self.response_keys(&here.scope, Some(301)));
            out.push(here.route(keys));
        }
        out
    }

    /// Returns the keys by which a route asks who a client is, as the guards of a place do. None if
    /// Sprat has no key for one of the guards.
    fn asked_who(&mut self, here: &Here<'a>) -> Option<Map> {
        let scope = &here.scope;
        let mut out = Map::new();
        let mut is_known = true;
        for own in known::guards().filter_map(|name| scope.one(name)) {
            if own.arg(0) == "off" {
                self.ledger.carried(own.id);
                continue;
            }
            if own.name == "auth_request" {
                match self.ext_authz(here, own) {
                    Ok(asked) => out.push(("ext_authz".to_owned(), asked)),
                    Err(told) => {
                        self.ledger.not(own.id, format!("{told}: answers 403"));
                        is_known = false;
                    }
                }
                continue;
            }
            let file = scope.one("auth_basic_user_file");
            let file = file.filter(|file| own.name == "auth_basic" && file.arg(0).starts_with('/'));
            let file = file.filter(|file| !file.arg(0).contains('$') && !own.arg(0).contains('$'));
            let Some(file) = file else {
                let told = "Sprat cannot ask that, and lets nothing through that it guards: \
                            answers 403; see `rbac`, `basic_auth` and `ext_authz`, and remove \
                            the `direct_response`";
                self.ledger.not(own.id, told);
                is_known = false;
                continue;
            };
            self.ledger.carried(own.id);
            let told = "hashes are of bcrypt or argon2 alone: others are refused by `sprat check`";
            self.ledger.nearly(file.id, told);
            let basic = [
                ("users_file", text(file.arg(0))),
                ("realm", text(own.arg(0))),
            ];
            out.push(("basic_auth".to_owned(), map(basic)));
        }
        is_known.then_some(out)
    }

    /// Returns the routes for the clients that a place admits; other clients are answered 403.
    pub(super) fn guarded(
        &mut self,
        here: &Here<'a>,
        serve: &mut dyn FnMut(&mut Self, &Here<'a>) -> Vec<Route>,
    ) -> Vec<Route> {
        let scope = &here.scope;
        let access = self.asked_who(here);
        let rules = scope.all(&["allow", "deny"]);
        let any = scope.one("satisfy").filter(|own| own.arg(0) == "any");
        if let Some(own) = scope.one("satisfy") {
            self.ledger.carried(own.id);
        }
        let is_open = access.as_ref().is_some_and(Map::is_empty);
        // Any of addresses and users will do, if there are addresses.
        let is_either = any.is_some() && !rules.is_empty() && !is_open;
        // What has led here was guarded, too, and is asked for still.
        let access = match access.map(|own| together(&here.access, own)) {
            Some(None) => {
                let told = "a route asks for one of each: what leads here asks for another";
                self.ledger.not(here.from, told);
                None
            }
            access => access.flatten(),
        };
        if !is_either && access.is_none() {
            return vec![here.respond(403)];
        }
        let mut asked = here.clone();
        asked.access = access.clone().unwrap_or_default();
        let only_all = rules.iter().all(|own| own.arg(0) == "all");
        if self.takes_addresses && !only_all {
            for own in &rules {
                let told = "nginx takes the client's address from a field, Sprat from the \
                            connection alone: answers 403";
                self.ledger.not(own.id, told);
            }
            return vec![here.respond(403)];
        }
        match is_either {
            true => self.ruled(here, &rules, false, access.as_ref(), serve),
            false => self.ruled(&asked, &rules, true, None, serve),
        }
    }

    /// Returns the routes by `allow` and `deny`, of which the first with a client's address
    /// decides.
    ///
    /// `rest` says whether clients without a rule are admitted. Clients that are not admitted are
    /// answered 403, or have to pass the checks of `else_asked`.
    fn ruled(
        &mut self,
        here: &Here<'a>,
        rules: &[&Directive],
        rest: bool,
        else_asked: Option<&Map>,
        serve: &mut dyn FnMut(&mut Self, &Here<'a>) -> Vec<Route>,
    ) -> Vec<Route> {
        let mut runs: Vec<(bool, Vec<String>)> = Vec::new();
        let mut last = rest;
        for own in rules {
            let allows = own.name == "allow";
            let network = own.arg(0);
            if network == "all" {
                self.ledger.carried(own.id);
                last = allows;
                break;
            }
            let Some(network) = normal_network(network) else {
                let told = match allows {
                    true => "clients are told apart by addresses: this one lets no client in",
                    false => "clients are told apart by addresses: all are kept out",
                };
                self.ledger.not(own.id, told);
                if allows {
                    continue;
                }
                last = false;
                break;
            };
            self.ledger.carried(own.id);
            match runs.last_mut() {
                Some((same, list)) if *same == allows => list.push(network),
                _ => runs.push((allows, vec![network])),
            }
        }
        // What the last says anyway need not be said before.
        while runs.last().is_some_and(|(allows, _)| *allows == last) {
            runs.pop();
        }
        let mut out = Vec::new();
        for (allows, clients) in runs {
            let Ok(places) = here.restricted(&Delta::Clients(clients)) else {
                self.unknown_paths(here, here.from);
                return vec![here.respond(403)];
            };
            for place in places {
                match allows {
                    true => out.extend(serve(self, &place)),
                    false => out.extend(self.denied(&place, else_asked, serve)),
                }
            }
        }
        match last {
            true => out.extend(serve(self, here)),
            false => out.extend(self.denied(here, else_asked, serve)),
        }
        out
    }

    fn denied(
        &mut self,
        here: &Here<'a>,
        else_asked: Option<&Map>,
        serve: &mut dyn FnMut(&mut Self, &Here<'a>) -> Vec<Route>,
    ) -> Vec<Route> {
        let Some(access) = else_asked else {
            return vec![here.respond(403)];
        };
        let mut asked = here.clone();
        asked.access.clone_from(access);
        serve(self, &asked)
    }
}

/// Returns the keys of both places' checks; none if the places have different values for a key.
fn together(before: &Map, own: Map) -> Option<Map> {
    let mut out = before.clone();
    for (key, value) in own {
        match out.iter().find(|(other, _)| *other == key) {
            None => out.push((key, value)),
            Some((_, other)) if *other == value => {}
            Some(_) => return None,
        }
    }
    Some(out)
}
