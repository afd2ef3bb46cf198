//! nginx's directives that act before it looks for a backend, in the order of the file: `set`,
//! `if`, `return`, `rewrite`.

use super::conditions::{self, Condition};
use super::converter::{Block, Converter};
use super::guards::{PASSES_BY, passes_by};
use super::here::Here;
use super::locations;
use super::parse::Directive;
use super::redirects;
use super::replacements::{Rewrite, replaced_in};
use super::steps::{decides, goes_on, is_step, refuses};
use super::variables::{expand, has_variables};
use crate::document::Route;
use crate::limits::MAX_ROUTES;
use crate::patterns::Pattern;
use crate::restrict::{Common, Delta, restrict, takes_all};
use crate::yaml::{text, word};

/// The most locations that lead from one to another: nginx's own bound.
const MAX_STEPS: usize = 10;

/// The most `if`s after another one that requests go on behind, and whose routes are kept apart:
/// each doubles the routes.
const MAX_BRANCHES: usize = 5;

/// The function that makes the routes of requests that no directive has answered.
pub(super) type Content<'f, 'a> = dyn FnMut(&mut Converter<'a, '_>, &Here<'a>) -> Vec<Route> + 'f;

impl<'a> Converter<'a, '_> {
    /// Returns the routes of a place with these directives.
    pub(super) fn phase(
        &mut self,
        place: &Block<'_, 'a>,
        here: &Here<'a>,
        directives: &[&'a Directive],
        content: &mut Content<'_, 'a>,
    ) -> Vec<Route> {
        let mut routes = self.steps(place, here, directives, content);
        // Answers have the fields and the pages of where they are given.
        for route in routes.iter_mut().filter(|own| own.from == here.from) {
            if let Some(status) = route.answers() {
                let fields = self.response_keys(&here.scope, Some(status));
                route.keys.extend(fields);
                if status >= 400 {
                    route.keys.extend(self.page_keys(place, &here.scope));
                }
            }
        }
        routes
    }

    /// Follows the directives of a place, and returns the routes that they make.
    fn steps(
        &mut self,
        place: &Block<'_, 'a>,
        here: &Here<'a>,
        directives: &[&'a Directive],
        content: &mut Content<'_, 'a>,
    ) -> Vec<Route> {
        if self.steps > MAX_ROUTES {
            return Vec::new();
        }
        let mut here = here.clone();
        let mut out = Vec::new();
        for (index, own) in directives.iter().copied().enumerate() {
            let rest = &directives[index + 1..];
            match &*own.name {
                "set" => self.set(&mut here, own),
                "break" => {
                    self.ledger.carried(own.id);
                    break;
                }
                "return" => {
                    out.extend(self.returned(&here, own));
                    return out;
                }
                "rewrite" => match self.rewrite(place, &here, own, rest, content) {
                    Step::Routes(routes) => out.extend(routes),
                    Step::Ends(routes) => {
                        out.extend(routes);
                        return out;
                    }
                    Step::Rewritten(rewrite) => {
                        here.rewrite = Some(rewrite);
                        break;
                    }
                },
                "if" => {
                    let is_over = self.tested(place, &mut here, own, rest, content, &mut out);
                    if is_over {
                        return out;
                    }
                }
                _ => {}
            }
        }
        out.extend(content(self, &here));
        out
    }

    fn set(&mut self, here: &mut Here<'a>, own: &Directive) {
        let value = expand(own.arg(1), &here.constants);
        let name = own.arg(0).trim_start_matches('$').to_owned();
        match has_variables(&value) {
            true => {
                here.constants.remove(&name);
            }
            false => {
                self.ledger.carried(own.id);
                here.constants.insert(name, value);
            }
        }
    }

    /// Adds the routes of an `if`; returns whether they include those of the directives after it.
    ///
    /// If the condition is met, nginx goes on behind the `if` with the settings of its block,
    /// unless the block ends that.
    fn tested(
        &mut self,
        place: &Block<'_, 'a>,
        here: &mut Here<'a>,
        own: &'a Directive,
        rest: &[&'a Directive],
        content: &mut Content<'_, 'a>,
        out: &mut Vec<Route>,
    ) -> bool {
        let condition = conditions::read(own, here, self.takes_addresses);
        let inner = own.inner();
        let mut within = here.clone();
        // Settings of an `if` before this one do not hold in it; a server's has none.
        if let Some(location) = place.location {
            within.scope = location.scope.within(inner);
        }
        let mut chain: Vec<&'a Directive> = inner.iter().collect();
        let is_needless = place.is_server() && !decides(inner, here.scope.own());
        let too_many = rest.iter().filter(|own| goes_on(own)).count() > MAX_BRANCHES;
        let is_linear = too_many && !rest.iter().any(|own| is_step(own));
        if !is_linear {
            chain.extend(rest);
        }
        let is_left_out = is_needless || (too_many && !is_linear && goes_on(own));
        let places = match &condition {
            Condition::When(delta) => within.restricted(delta).ok(),
            Condition::Unless(_) => Some(vec![within.clone()]),
            Condition::OfFiles | Condition::Unknown => None,
        };
        let Some(places) = places.filter(|_| !is_left_out) else {
            return self.untold(here, own, &condition, out);
        };
        let is_plain = matches!(&condition, Condition::When(Delta::Plain));
        let mut routes = Vec::new();
        for within in &places {
            routes.extend(self.phase(place, within, &chain, content));
        }
        if is_plain && !routes.iter().all(|route| route.is_for_plain) {
            return self.untold(here, own, &condition, out);
        }
        match condition {
            Condition::Unless(delta) => {
                let others = self.phase(place, here, rest, content);
                let mut narrowed = Vec::new();
                for route in others {
                    let found = match &delta {
                        Delta::Methods(_) | Delta::Hosts(_) | Delta::Clients(_) => {
                            restrict(&route.matches, &delta, Common::Nothing)
                        }
                        _ => Err(()),
                    };
                    let Ok(found) = found else {
                        return self.untold(here, own, &Condition::Unknown, out);
                    };
                    narrowed.extend(found.into_iter().map(|matches| Route {
                        matches,
                        ..route.clone()
                    }));
                }
                self.ledger.carried(own.id);
                out.extend(narrowed);
                out.extend(routes);
                true
            }
            Condition::When(Delta::Parameter(_) | Delta::Cookie(_)) => {
                let told = "names of parameters and cookies are taken as they are written";
                self.ledger.nearly(own.id, told);
                out.extend(routes);
                false
            }
            condition => {
                self.ledger.carried(own.id);
                out.extend(routes);
                matches!(condition, Condition::When(Delta::Always(true)))
            }
        }
    }

    /// Notes that routes cannot ask the condition of an `if`. If the `if` may keep requests out,
    /// all are answered 403. Returns whether the place then needs no other routes.
    fn untold(
        &mut self,
        here: &mut Here<'a>,
        own: &Directive,
        condition: &Condition,
        out: &mut Vec<Route>,
    ) -> bool {
        if matches!(condition, Condition::OfFiles) {
            let told = "Sprat looks for no files: it goes on as if this were not there; see \
                        `maintenance` for a switch by hand";
            self.ledger.not(own.id, told);
            self.excuse(own.inner());
            return false;
        }
        if !refuses(own.inner()) {
            self.ledger.not(
                own.id,
                "routes cannot ask that: it is as if this were not there",
            );
            // What is set there has one value or another: no `if` can go by it.
            for own in own.inner().iter().filter(|own| own.name == "set") {
                here.constants.remove(own.arg(0).trim_start_matches('$'));
            }
            self.excuse(own.inner());
            return false;
        }
        let told = "routes cannot ask that, and it may keep requests out: all of them are \
                    answered 403 here";
        self.ledger.not(own.id, told);
        self.excuse(own.inner());
        out.push(here.respond(403));
        true
    }

    /// Notes that the directives in a block are left out with the block.
    pub(super) fn excuse(&mut self, block: &[Directive]) {
        for own in block {
            if !self.ledger.is_settled(own.id) {
                self.ledger
                    .not(own.id, "left out with the block that it stands in");
            }
            self.excuse(own.inner());
        }
    }

    fn returned(&mut self, here: &Here<'a>, own: &Directive) -> Vec<Route> {
        let first = expand(own.arg(0), &here.constants);
        let status = first.parse::<u16>().ok();
        let target = expand(own.arg(1), &here.constants);
        match status {
            None => self.redirected(here, own, 302, &first),
            Some(status @ (301 | 302 | 303 | 307 | 308)) if own.args.len() > 1 => {
                self.redirected(here, own, status, &target)
            }
            Some(444) => {
                let told = "Sprat closes no connection without an answer: it answers 403";
                self.ledger.nearly(own.id, told);
                vec![here.respond(403)]
            }
            Some(status @ 200..=599) => {
                self.ledger.carried(own.id);
                vec![self.respond(here, own, status, &target)]
            }
            Some(_) => {
                self.ledger
                    .not(own.id, "a status is from 200 to 599: it answers 403");
                vec![here.respond(403)]
            }
        }
    }

    fn respond(&mut self, here: &Here<'a>, own: &Directive, status: u16, body: &str) -> Route {
        let mut pairs = vec![("status", word(status))];
        let has_body = !body.is_empty() && !matches!(status, 204 | 205 | 304);
        if has_body && has_variables(body) {
            self.ledger
                .nearly(own.id, "bodies have no variables: it has none");
        } else if has_body {
            pairs.push(("body", text(body)));
            let kind = here.scope.one("default_type");
            if let Some(kind) = kind.filter(|own| own.arg(0).contains('/')) {
                self.ledger.carried(kind.id);
                pairs.push(("content_type", text(kind.arg(0))));
            } else {
                pairs.push(("content_type", text("text/plain")));
            }
        }
        let pairs = pairs
            .into_iter()
            .map(|(key, value)| (key.to_owned(), value));
        let response = crate::yaml::Value::Map(pairs.collect());
        here.route(vec![("direct_response".to_owned(), response)])
    }

    /// Returns the routes that redirect clients.
    fn redirected(
        &mut self,
        here: &Here<'a>,
        own: &Directive,
        status: u16,
        target: &str,
    ) -> Vec<Route> {
        match redirects::read(target, here.captures.as_ref()) {
            Ok(redirect) => {
                let keys = self.response_keys(&here.scope, Some(status));
                let (routes, doubt) = redirect.routes(here, status, &keys);
                match doubt {
                    Some(told) => self.ledger.nearly(own.id, told),
                    None => self.ledger.carried(own.id),
                }
                routes
            }
            Err(told) => {
                let told = format!("{told}: it answers 403");
                self.ledger.not(own.id, told);
                vec![here.respond(403)]
            }
        }
    }

    fn rewrite(
        &mut self,
        place: &Block<'_, 'a>,
        here: &Here<'a>,
        own: &'a Directive,
        rest: &[&'a Directive],
        content: &mut Content<'_, 'a>,
    ) -> Step {
        let (text, caseless) = match own.arg(0).strip_prefix("(?i)") {
            Some(rest) => (rest, true),
            None => (own.arg(0), false),
        };
        let pattern = Pattern::of_path(text, caseless);
        let target = expand(own.arg(1), &here.constants);
        if own.arg(2) == "break" && !place.is_server() {
            let goes_on = rest.iter().any(|own| is_step(own));
            if !goes_on && !place.replaces_path() && here.rewrite.is_none() {
                // What the expression is not found in stays as it is, here and there.
                return self.replaced(here, own, &pattern, &target);
            }
            let Ok(within) = here.restricted(&Delta::Path(pattern.clone())) else {
                return self.unknown(here, own);
            };
            let Step::Rewritten(rewrite) = self.replaced(here, own, &pattern, &target) else {
                return self.unknown(here, own);
            };
            let mut routes = Vec::new();
            for mut within in within {
                within.rewrite = Some(rewrite.clone());
                routes.extend(content(self, &within));
            }
            return match takes_all(&pattern) {
                true => Step::Ends(routes),
                false => Step::Routes(routes),
            };
        }
        // Paths that it is not for go on; all others are rewritten.
        if let Some((excepted, other)) = pattern.exception() {
            let Ok(within) = here.restricted(&Delta::Path(excepted)) else {
                return self.unknown(here, own);
            };
            let mut routes = Vec::new();
            for within in &within {
                routes.extend(self.phase(place, within, rest, content));
            }
            return match self.rewrite_found(place, here, own, rest, &other, &target) {
                Step::Routes(more) | Step::Ends(more)
                    if takes_all(&other) || other.text == "^/" =>
                {
                    routes.extend(more);
                    Step::Ends(routes)
                }
                _ => self.unknown(here, own),
            };
        }
        self.rewrite_found(place, here, own, rest, &pattern, &target)
    }

    fn unknown(&mut self, here: &Here<'a>, own: &Directive) -> Step {
        let told = "the paths that this is for cannot be told: they are answered 403, with all \
                    the others here";
        self.ledger.not(own.id, told);
        Step::Ends(vec![here.respond(403)])
    }

    fn replaced(
        &mut self,
        here: &Here<'a>,
        own: &Directive,
        pattern: &Pattern,
        target: &str,
    ) -> Step {
        match replaced_in(here.rewrite.as_ref(), pattern, target) {
            Ok((rewrite, doubt)) => {
                match doubt {
                    Some(told) => self.ledger.not(own.id, told),
                    None => self.ledger.carried(own.id),
                }
                Step::Rewritten(rewrite)
            }
            Err(told) => {
                self.ledger
                    .not(own.id, format!("{told}: all here is answered 403"));
                Step::Ends(vec![here.respond(403)])
            }
        }
    }

    fn rewrite_found(
        &mut self,
        place: &Block<'_, 'a>,
        here: &Here<'a>,
        own: &'a Directive,
        rest: &[&'a Directive],
        pattern: &Pattern,
        target: &str,
    ) -> Step {
        let target = target.to_owned();
        let flag = own.arg(2);
        let Ok(within) = here.restricted(&Delta::Path(pattern.clone())) else {
            return self.unknown(here, own);
        };
        if within.is_empty() {
            self.ledger.carried(own.id);
            return Step::Routes(Vec::new());
        }
        let absolute = ["http://", "https://", "${scheme}", "$scheme"];
        let leads_away = absolute.iter().any(|start| target.starts_with(start));
        if leads_away || matches!(flag, "redirect" | "permanent") {
            let status = if flag == "permanent" { 301 } else { 302 };
            // nginx adds the query of the request, unless the target ends in `?`.
            let target = match (target.strip_suffix('?'), target.contains('?')) {
                (Some(bare), _) => bare.to_owned(),
                (None, true) => target,
                (None, false) => format!("{target}${{is_args}}${{args}}"),
            };
            let mut routes = Vec::new();
            for within in &within {
                routes.extend(self.redirected(within, own, status, &target));
            }
            return match takes_all(pattern) {
                true => Step::Ends(routes),
                false => Step::Routes(routes),
            };
        }
        match replaced_in(here.rewrite.as_ref(), pattern, &target) {
            Ok((rewrite, doubt)) => {
                let is_last = !flag.is_empty() || !rest.iter().any(|own| is_step(own));
                let routes = match is_last {
                    true => self.elsewhere(place, &within, own, &rewrite, doubt),
                    false => self.further(place, &within, own, rest, &rewrite, doubt),
                };
                match takes_all(pattern) {
                    true => Step::Ends(routes),
                    false => Step::Routes(routes),
                }
            }
            Err(told) => {
                self.ledger
                    .not(own.id, format!("{told}: its paths are answered 403"));
                Step::Routes(within.iter().map(|own| own.respond(403)).collect())
            }
        }
    }

    /// Returns the routes of requests whose path a `rewrite` without a flag replaces. The
    /// directives after it are followed before another location takes the requests.
    fn further(
        &mut self,
        place: &Block<'_, 'a>,
        within: &[Here<'a>],
        own: &'a Directive,
        rest: &[&'a Directive],
        rewrite: &Rewrite,
        doubt: Option<&'static str>,
    ) -> Vec<Route> {
        // The location stays if a `break` follows.
        let breaks = |own: &Directive| own.name == "break" || own.arg(2) == "break";
        let stays = |own: &&Directive| breaks(own) || own.inner().iter().any(breaks);
        let may_stay = !place.is_server() && rest.iter().any(stays);
        let mut routes = Vec::new();
        for here in within {
            if may_stay {
                self.unknown(here, own);
                routes.push(here.respond(403));
                continue;
            }
            if !self.step() {
                break;
            }
            let next = Here {
                rewrite: Some(rewrite.clone()),
                ..here.clone()
            };
            routes.extend(self.phase(place, &next, rest, &mut |all, here| {
                let last = here.rewrite.clone().unwrap_or_else(|| rewrite.clone());
                all.elsewhere(place, std::slice::from_ref(here), own, &last, doubt)
            }));
        }
        routes
    }

    /// Returns the routes of requests whose path is replaced, so that another location takes them.
    fn elsewhere(
        &mut self,
        place: &Block<'_, 'a>,
        within: &[Here<'a>],
        own: &'a Directive,
        rewrite: &Rewrite,
        doubt: Option<&'static str>,
    ) -> Vec<Route> {
        let path = match rewrite.start() {
            (path, true) => path,
            // Any path that the replacement makes goes to one location, it is hoped.
            _ => locations::encoded(&rewrite.substitution.replace('\\', "")),
        };
        let found = locations::find(place.locations, &path);
        let mut routes = Vec::new();
        for here in within {
            let next = Here {
                rewrite: Some(rewrite.clone()),
                depth: here.depth + 1,
                ..here.clone()
            };
            let Some(found) = found.filter(|_| next.depth <= MAX_STEPS) else {
                self.ledger
                    .not(own.id, "no location has what it leads to: it answers 403");
                routes.push(here.respond(403));
                continue;
            };
            if passes_by(place.locations, rewrite, found) {
                self.ledger.not(own.id, PASSES_BY);
                routes.push(here.respond(403));
                continue;
            }
            match doubt {
                Some(told) => self.ledger.not(own.id, told),
                None => self.ledger.nearly(
                    own.id,
                    "the location is found by the new path as far as it is fixed",
                ),
            }
            let next = Here {
                scope: found.scope.clone(),
                prefix: None,
                ..next
            };
            routes.extend(self.located(place, found, &next));
        }
        routes
    }
}

/// The outcome of a `rewrite`.
enum Step {
    /// The rewrite has routes for some requests; the others go on.
    Routes(Vec<Route>),
    /// The rewrite has routes for all requests.
    Ends(Vec<Route>),
    /// The path is replaced, and the location stays the same.
    Rewritten(Rewrite),
}
