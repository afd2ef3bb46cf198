//! nginx's locations, and the order of routes in which a request finds the location that nginx
//! finds.
//!
//! nginx looks for the longest prefix first. Unless that says `^~`, it then looks for the first
//! expression in the order of the file. The locations within the one found are asked before those
//! around it. Sprat takes the first route that fits. So the order of routes is: exact paths; then
//! prefixes that expressions may not overrule, or that have their own; then the expressions of the
//! server; then prefixes, the longest first.

use std::cell::OnceCell;

use super::parse::Directive;
use super::scope::Scope;
use crate::document::PathIs;
use crate::ledger::Id;
use crate::limits::MAX_ROUTES;
use crate::patterns::{self, Pattern, escaped};

/// The paths that a location is for.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
    /// One path, percent-encoded as requests have it.
    Exact(String),
    /// All paths that begin with `path`. If `is_final`, expressions are not asked.
    Prefix { path: String, is_final: bool },
    /// All paths in which the expression is found.
    Regex(Pattern),
    /// A name without a path: other directives lead there.
    Named(String),
}

/// A location of a server.
#[derive(Clone, Debug)]
pub(super) struct Location<'a> {
    pub(super) directive: &'a Directive,
    pub(super) kind: Kind,
    pub(super) scope: Scope<'a>,
    pub(super) children: Vec<Location<'a>>,
    /// The directives that keep requests out of the location, once they have been looked for.
    pub(super) guards: OnceCell<Vec<Id>>,
}

/// A location with its turn in the order, and the paths for which it is asked then.
pub(super) struct Asked<'l, 'a> {
    pub(super) location: Turn<'l, 'a>,
    pub(super) path: PathIs,
    /// Whether `path` stands for exactly the paths that the location is asked for.
    pub(super) is_exact: bool,
}

/// The action of a location at its turn.
#[derive(Clone, Copy)]
pub(super) enum Turn<'l, 'a> {
    /// The location serves the request.
    Serve(&'l Location<'a>),
    /// The path lacks the slash that this location's prefix ends in: the client is redirected.
    AddSlash(&'l Location<'a>),
}

/// Reads the locations of a block.
pub(super) fn read<'a>(block: &'a [Directive], scope: &Scope<'a>) -> Vec<Location<'a>> {
    let blocks = block.iter().filter(|own| own.name == "location");
    blocks
        .map(|directive| {
            let inner = directive.inner();
            let scope = scope.within(inner);
            Location {
                directive,
                kind: kind(directive),
                children: read(inner, &scope),
                scope,
                guards: OnceCell::new(),
            }
        })
        .collect()
}

fn kind(directive: &Directive) -> Kind {
    let prefix = |path: &str, is_final| Kind::Prefix {
        path: encoded(path),
        is_final,
    };
    match (directive.arg(0), directive.arg(1)) {
        ("=", path) => Kind::Exact(encoded(path)),
        ("^~", path) => prefix(path, true),
        ("~", text) => Kind::Regex(Pattern::of_path(text, false)),
        ("~*", text) => Kind::Regex(Pattern::of_path(text, true)),
        (name, "") if name.starts_with('@') => Kind::Named(name.to_owned()),
        // The sign may stand before the path without a space.
        (one, "") => match (one.strip_prefix('='), one.strip_prefix("^~")) {
            (Some(path), _) => Kind::Exact(encoded(path)),
            (_, Some(path)) => prefix(path, true),
            _ => match (one.strip_prefix("~*"), one.strip_prefix('~')) {
                (Some(text), _) => Kind::Regex(Pattern::of_path(text, true)),
                (_, Some(text)) => Kind::Regex(Pattern::of_path(text, false)),
                _ => prefix(one, false),
            },
        },
        (path, _) => prefix(path, false),
    }
}

/// Returns a decoded path as Sprat matches it: in normal form, percent-encoded.
pub(super) fn encoded(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    if !path.starts_with('/') {
        out.push('/');
    }
    for byte in path.bytes() {
        match byte.is_ascii_graphic() && !b"?#%\"<>\\^`{|}".contains(&byte) {
            true => out.push(char::from(byte)),
            false => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// Returns whether a path has characters that clients may encode or not.
pub(super) fn is_spelt_otherwise(path: &str) -> bool {
    path.contains(|c: char| "!$&'()*+,;=:@".contains(c))
}

/// Returns an expression for all spellings of a path that is encoded where it has to be.
pub(super) fn spelt_again(path: &str) -> String {
    let piece = |c: char| match c {
        '%' => "%".to_owned(),
        c => patterns::spellings(c),
    };
    path.chars().map(piece).collect()
}

impl<'a> Location<'a> {
    fn prefix(&self) -> Option<&str> {
        match &self.kind {
            Kind::Prefix { path, .. } => Some(path),
            _ => None,
        }
    }

    fn is_final(&self) -> bool {
        matches!(self.kind, Kind::Prefix { is_final: true, .. })
    }

    fn expressions(&self) -> impl Iterator<Item = &Location<'a>> {
        expressions(&self.children)
    }

    /// Returns whether the location passes requests on, so that nginx adds a slash that its path
    /// lacks.
    fn passes_on(&self) -> bool {
        let names = [
            "proxy_pass",
            "grpc_pass",
            "fastcgi_pass",
            "uwsgi_pass",
            "scgi_pass",
        ];
        let own = self.directive.inner();
        own.iter().any(|own| names.contains(&&*own.name))
    }

    /// Returns the paths that the location is for.
    pub(super) fn own_path(&self) -> PathIs {
        match &self.kind {
            // What may be encoded in a path, and need not be, is so for clients to choose.
            Kind::Exact(path) if is_spelt_otherwise(path) => PathIs::Regex(spelt_again(path)),
            Kind::Prefix { path, .. } if is_spelt_otherwise(path) => {
                PathIs::Regex(format!("{}.*", spelt_again(path)))
            }
            Kind::Exact(path) => PathIs::Exact(path.clone()),
            Kind::Prefix { path, .. } if path == "/" => PathIs::Any,
            Kind::Prefix { path, .. } if path.ends_with('/') => PathIs::Prefix(path.clone()),
            // `/a` is `/ab`, too.
            Kind::Prefix { path, .. } => PathIs::Regex(format!("{}.*", escaped(path))),
            Kind::Regex(pattern) => PathIs::Regex(pattern.whole()),
            Kind::Named(_) => PathIs::Any,
        }
    }
}

fn expressions<'l, 'a>(list: &'l [Location<'a>]) -> impl Iterator<Item = &'l Location<'a>> {
    let is_one = |own: &&Location<'_>| matches!(own.kind, Kind::Regex(_));
    list.iter().filter(is_one)
}

/// A prefix, with the expressions that are asked before it: its own, then those of the locations
/// around it.
struct Prefix<'l, 'a> {
    location: &'l Location<'a>,
    path: &'l str,
    before: Vec<&'l Location<'a>>,
    /// Whether the expressions of the server are asked, too.
    asks_server: bool,
}

/// Returns the order in which locations are asked, and the locations that nginx never reaches.
pub(super) fn order<'l, 'a>(
    list: &'l [Location<'a>],
) -> (Vec<Asked<'l, 'a>>, Vec<&'l Location<'a>>) {
    let mut exact = Vec::new();
    let mut prefixes = Vec::new();
    collect(list, &[], &[], None, &mut exact, &mut prefixes);
    let mut unreachable = Vec::new();
    let mut keep = |own: &'l Location<'a>, path: &str| {
        let found = find_static(list, path);
        let is_found = found.is_some_and(|other| std::ptr::eq(other, own));
        if !is_found {
            unreachable.push(own);
        }
        is_found
    };
    exact.retain(|(own, path)| keep(own, path));
    prefixes.retain(|own| keep(own.location, own.path));
    let mut out: Vec<Asked<'_, '_>> = Vec::new();
    for (location, _) in &exact {
        out.push(serve(location, location.own_path()));
    }
    add_slashes(list, &exact, &prefixes, &mut out);
    // The longest first; of the same, as nginx has them, there is one.
    prefixes.sort_by_key(|own| std::cmp::Reverse(own.path.len()));
    let server: Vec<&Location<'_>> = expressions(list).collect();
    let has_own = |own: &Prefix<'_, '_>| !own.before.is_empty() || !own.asks_server;
    let early: Vec<bool> = prefixes
        .iter()
        .map(|own| {
            let mut around = prefixes
                .iter()
                .filter(|other| own.path.starts_with(other.path));
            around.any(has_own)
        })
        .collect();
    for (own, _) in prefixes.iter().zip(&early).filter(|(_, early)| **early) {
        let asked = own.before.iter();
        let asked = asked.chain(server.iter().filter(|_| own.asks_server));
        for location in asked {
            within(location, own.path, &mut out);
            if out.len() > MAX_ROUTES {
                break;
            }
        }
        out.push(serve(own.location, own.location.own_path()));
    }
    for location in server {
        out.push(serve(location, location.own_path()));
    }
    for (own, _) in prefixes.iter().zip(&early).filter(|(_, early)| !**early) {
        out.push(serve(own.location, own.location.own_path()));
    }
    (out, unreachable)
}

fn serve<'l, 'a>(location: &'l Location<'a>, path: PathIs) -> Asked<'l, 'a> {
    Asked {
        location: Turn::Serve(location),
        path,
        is_exact: true,
    }
}

/// Adds an expression that is asked only for paths below a prefix.
fn within<'l, 'a>(location: &'l Location<'a>, prefix: &str, out: &mut Vec<Asked<'l, 'a>>) {
    let Kind::Regex(pattern) = &location.kind else {
        return;
    };
    let (found, is_exact) = pattern.within(prefix);
    let is_exact = is_exact && !is_spelt_otherwise(prefix);
    for regex in found {
        out.push(Asked {
            location: Turn::Serve(location),
            path: PathIs::Regex(regex),
            is_exact,
        });
    }
}

type Exact<'l, 'a> = Vec<(&'l Location<'a>, &'l str)>;

/// Collects exact paths and prefixes. `level` has the expressions beside them, and `outer` those
/// further out. `asks_server` is none for the locations of the server itself.
fn collect<'l, 'a>(
    list: &'l [Location<'a>],
    level: &[&'l Location<'a>],
    outer: &[&'l Location<'a>],
    asks_server: Option<bool>,
    exact: &mut Exact<'l, 'a>,
    prefixes: &mut Vec<Prefix<'l, 'a>>,
) {
    for location in list {
        match &location.kind {
            Kind::Exact(path) => exact.push((location, path)),
            Kind::Prefix { path, .. } => {
                // What is final keeps the expressions of its own level from being asked.
                let own_level = if location.is_final() { &[][..] } else { level };
                let around: Vec<&Location<'_>> = own_level.iter().chain(outer).copied().collect();
                let asks_server = asks_server.unwrap_or(!location.is_final());
                let inner: Vec<&Location<'_>> = location.expressions().collect();
                collect(
                    &location.children,
                    &inner,
                    &around,
                    Some(asks_server),
                    exact,
                    prefixes,
                );
                prefixes.push(Prefix {
                    location,
                    path,
                    before: inner.iter().chain(&around).copied().collect(),
                    asks_server,
                });
            }
            // What stands within an expression is refused with it, if it guards anything.
            Kind::Regex(_) | Kind::Named(_) => {}
        }
    }
}

/// Adds the redirects that nginx makes by itself, to paths with a slash at their end.
fn add_slashes<'l, 'a>(
    list: &'l [Location<'a>],
    exact: &Exact<'l, 'a>,
    prefixes: &[Prefix<'l, 'a>],
    out: &mut Vec<Asked<'l, 'a>>,
) {
    let ends: Vec<(&Location<'_>, &str)> = prefixes
        .iter()
        .map(|own| (own.location, own.path))
        .chain(exact.iter().copied())
        .collect();
    for (location, path) in ends {
        let Some(short) = path.strip_suffix('/').filter(|own| !own.is_empty()) else {
            continue;
        };
        let is_taken = exact.iter().any(|(_, own)| *own == short)
            || prefixes.iter().any(|own| own.path == short);
        let around = find_static(list, short);
        // A location that is nested elsewhere is not asked.
        if location.passes_on()
            && !is_taken
            && around.is_none_or(|own| is_around(own, location, list))
        {
            out.push(Asked {
                location: Turn::AddSlash(location),
                path: PathIs::Exact(short.to_owned()),
                is_exact: true,
            });
        }
    }
}

/// Returns whether a path that finds `outer` asks the locations among which `inner` stands.
fn is_around(outer: &Location<'_>, inner: &Location<'_>, list: &[Location<'_>]) -> bool {
    let has = |list: &[Location<'_>]| list.iter().any(|own| std::ptr::eq(own, inner));
    has(list) || has(&outer.children)
}

/// Returns the location that nginx finds for a path before it asks expressions.
fn find_static<'l, 'a>(list: &'l [Location<'a>], path: &str) -> Option<&'l Location<'a>> {
    let exact = list
        .iter()
        .find(|own| own.kind == Kind::Exact(path.to_owned()));
    if exact.is_some() {
        return exact;
    }
    let fits = |own: &&Location<'_>| own.prefix().is_some_and(|prefix| path.starts_with(prefix));
    let longest = list
        .iter()
        .filter(fits)
        .max_by_key(|own| own.prefix().map(str::len))?;
    find_static(&longest.children, path).or(Some(longest))
}

/// Returns the location that nginx finds for a path.
pub(super) fn find<'l, 'a>(list: &'l [Location<'a>], path: &str) -> Option<&'l Location<'a>> {
    let exact = list
        .iter()
        .find(|own| own.kind == Kind::Exact(path.to_owned()));
    if exact.is_some() {
        return exact;
    }
    let fits = |own: &&Location<'_>| own.prefix().is_some_and(|prefix| path.starts_with(prefix));
    let longest = list
        .iter()
        .filter(fits)
        .max_by_key(|own| own.prefix().map(str::len));
    let nested = longest.and_then(|own| find(&own.children, path));
    if nested.is_some_and(|own| own.prefix().is_none()) {
        return nested;
    }
    let expression = expressions(list).find(|own| match &own.kind {
        Kind::Regex(pattern) => patterns::matches(&pattern.whole(), path),
        _ => false,
    });
    match expression.filter(|_| longest.is_none_or(|own| !own.is_final())) {
        Some(found) => find(&found.children, path).or(Some(found)),
        None => nested.or(longest),
    }
}

/// Returns the locations that a path may find if it begins with `start`.
pub(super) fn candidates<'l, 'a>(list: &'l [Location<'a>], start: &str) -> Vec<&'l Location<'a>> {
    let fits = |own: &&Location<'_>| own.prefix().is_some_and(|prefix| start.starts_with(prefix));
    let around = list.iter().filter(fits);
    let longest = around.max_by_key(|own| own.prefix().map(str::len));
    let mut out = Vec::new();
    for own in list {
        let is_longest = longest.is_some_and(|other| std::ptr::eq(own, other));
        let may_be = match &own.kind {
            Kind::Exact(path) => path.starts_with(start),
            Kind::Prefix { path, .. } => is_longest || path.starts_with(start),
            Kind::Regex(pattern) => pattern.may_begin(start),
            Kind::Named(_) => false,
        };
        if may_be {
            out.push(own);
            out.extend(candidates(&own.children, start));
        }
    }
    out
}

/// Returns the location of this name.
pub(super) fn named<'l, 'a>(list: &'l [Location<'a>], name: &str) -> Option<&'l Location<'a>> {
    list.iter()
        .find(|own| own.kind == Kind::Named(name.to_owned()))
}
