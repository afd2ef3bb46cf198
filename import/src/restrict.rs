//! Narrowed matches of routes: the requests that take a route and also meet a condition.

use crate::document::{Match, PathIs};
use crate::patterns::{self, Pattern};
use crate::yaml::{Value, text, word};

/// A condition on a request, by which a match can be narrowed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Delta {
    Methods(Vec<String>),
    Hosts(Vec<String>),
    Header(Value),
    Parameter(Value),
    Cookie(Value),
    Clients(Vec<String>),
    Path(Pattern),
    /// The request came in plain text.
    Plain,
    /// The condition holds for every request, or for none.
    Always(bool),
}

/// A property that the paths of a match have in common, and no other paths.
#[derive(Clone, Copy)]
pub(crate) enum Common<'c> {
    /// The text that the paths begin with.
    Prefix(&'c str),
    /// An expression that is found in the paths.
    Expression(&'c Pattern),
    /// The paths have nothing in common that is known.
    Nothing,
}

/// Returns the matches that take the requests of `own` that also meet a condition. An error means
/// that routes cannot ask the condition.
pub(crate) fn restrict(own: &Match, delta: &Delta, common: Common<'_>) -> Result<Vec<Match>, ()> {
    let mut next = own.clone();
    let both = |own: &[String], other: &[String]| -> Vec<String> {
        own.iter()
            .filter(|one| other.contains(one))
            .cloned()
            .collect()
    };
    match delta {
        Delta::Always(holds) => return Ok(if *holds { vec![next] } else { Vec::new() }),
        Delta::Plain => {}
        Delta::Methods(list) if own.methods.is_empty() => next.methods.clone_from(list),
        Delta::Methods(list) => {
            next.methods = both(&own.methods, list);
            if next.methods.is_empty() {
                return Ok(Vec::new());
            }
        }
        Delta::Hosts(list) if own.hosts.is_empty() => next.hosts.clone_from(list),
        Delta::Hosts(list) => {
            next.hosts = shared_hosts(&own.hosts, list);
            if next.hosts.is_empty() {
                return Ok(Vec::new());
            }
        }
        Delta::Header(value) => next.headers.push(value.clone()),
        Delta::Parameter(value) => next.parameters.push(value.clone()),
        Delta::Cookie(value) => next.cookies.push(value.clone()),
        Delta::Clients(list) if own.clients.is_empty() => next.clients.clone_from(list),
        Delta::Clients(list) if own.clients == *list => {}
        Delta::Clients(_) => return Err(()),
        Delta::Path(pattern) => return restrict_path(own, pattern, common),
    }
    Ok(vec![next])
}

fn restrict_path(own: &Match, pattern: &Pattern, common: Common<'_>) -> Result<Vec<Match>, ()> {
    let whole = pattern.whole();
    patterns::check(&whole).map_err(drop)?;
    if takes_all(pattern) {
        return Ok(vec![own.clone()]);
    }
    let with = |path: PathIs| Match {
        path,
        ..own.clone()
    };
    match (&own.path, common) {
        (PathIs::Any, _) => Ok(vec![with(
            pattern.as_path().unwrap_or(PathIs::Regex(whole)),
        )]),
        (PathIs::Exact(path), _) => Ok(match patterns::matches(&whole, path) {
            true => vec![own.clone()],
            false => Vec::new(),
        }),
        (PathIs::Prefix(prefix), _) => within(pattern, prefix, &with),
        (PathIs::Regex(regex), _) if *regex == whole => Ok(vec![own.clone()]),
        (PathIs::Regex(_), Common::Prefix(prefix)) => within(pattern, prefix, &with),
        (PathIs::Regex(_), Common::Expression(around)) => {
            // One of them says how paths begin, and the other is asked below that.
            let (prefixes, asked) = match (pattern.prefixes(), around.prefixes()) {
                (Some(prefixes), _) => (prefixes, around),
                (None, Some(prefixes)) => (prefixes, pattern),
                (None, None) => return Err(()),
            };
            let mut found = Vec::new();
            for prefix in prefixes {
                found.extend(within(asked, &prefix, &with)?);
            }
            Ok(found)
        }
        (PathIs::Regex(_), Common::Nothing) => Err(()),
    }
}

fn within(
    pattern: &Pattern,
    prefix: &str,
    with: &dyn Fn(PathIs) -> Match,
) -> Result<Vec<Match>, ()> {
    let (found, is_exact) = pattern.within(prefix);
    match is_exact {
        true => Ok(found
            .into_iter()
            .map(|own| with(PathIs::Regex(own)))
            .collect()),
        false => Err(()),
    }
}

/// Returns whether an expression is found in every path.
pub(crate) fn takes_all(pattern: &Pattern) -> bool {
    let all = [
        "^", "", ".*", "^.*", "^.*$", "(.*)", "^(.*)", "^(.*)$", "^/", "/", "^/(.*)$", "^/(.*)",
        "^/.*$", "^/.*", "^(/.*)$", ".", "^.+$", "^(.+)$", "^/?(.*)$", "^(.*)/?$",
    ];
    all.contains(&&*pattern.text)
}

/// Returns the patterns of the hosts that both lists have: of each two patterns the narrower one,
/// and none of two without a host in common. Patterns that `others` covers stay as they are, in
/// their order. An empty list is no host here.
fn shared_hosts(own: &[String], others: &[String]) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut put = |host: &String| {
        if !found.contains(host) {
            found.push(host.clone());
        }
    };
    for one in own {
        if others.iter().any(|other| covers(other, one)) {
            put(one);
        } else {
            others
                .iter()
                .filter(|other| covers(one, other))
                .for_each(&mut put);
        }
    }
    found
}

/// Returns whether a pattern of hosts covers all hosts of another.
pub(crate) fn covers(own: &str, other: &str) -> bool {
    match own.strip_prefix('*') {
        Some(suffix) => {
            let other = other.strip_prefix('*').unwrap_or(other);
            other.ends_with(suffix)
        }
        None => own == other,
    }
}

/// Returns a condition on the value of a field, a cookie or a parameter: it is this text.
pub(crate) fn named(name: &str, value: &str, inverted: bool) -> Value {
    let mut pairs = vec![("name".to_owned(), text(name))];
    match value.contains('*') || value.len() > 256 {
        true => pairs.push(("safe_regex".to_owned(), text(patterns::escaped(value)))),
        false => pairs.push(("value".to_owned(), text(value))),
    }
    if inverted {
        pairs.push(("invert_match".to_owned(), word("true")));
    }
    Value::Map(pairs)
}

/// Returns a condition on the value of a field, a cookie or a parameter: an expression is found in
/// it.
pub(crate) fn found_in(name: &str, pattern: &Pattern, inverted: bool) -> Value {
    let mut pairs = vec![
        ("name".to_owned(), text(name)),
        ("safe_regex".to_owned(), text(pattern.whole())),
    ];
    if inverted {
        pairs.push(("invert_match".to_owned(), word("true")));
    }
    Value::Map(pairs)
}

/// Returns a condition that a field, a cookie or a parameter has a value that is not empty. Without
/// `counts_zero` the value may not be `0` either. With `inverted` there is no such value.
pub(crate) fn present(name: &str, counts_zero: bool, inverted: bool) -> Value {
    let some = if counts_zero { ".+" } else { ".{2,}|[^0]" };
    let mut pairs = vec![
        ("name".to_owned(), text(name)),
        ("safe_regex".to_owned(), text(some)),
    ];
    if inverted {
        pairs.push(("invert_match".to_owned(), word("true")));
    }
    Value::Map(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_patterns_of_hosts_the_narrower_stays() {
        let list =
            |text: &str| -> Vec<String> { text.split_whitespace().map(str::to_owned).collect() };
        for (own, others, expected) in [
            ("a.x", "a.x", "a.x"),
            ("a.x", "b.x", ""),
            ("a.x", "*.x", "a.x"),
            ("*.x", "a.x", "a.x"),
            ("*.x", "*.x", "*.x"),
            ("*.x", "*.a.x", "*.a.x"),
            ("*.a.x", "*.x", "*.a.x"),
            ("*.a.x", "*.b.x", ""),
            // A domain is none of the hosts below it, and no host below a longer name.
            ("x", "*.x", ""),
            ("*.x", "x", ""),
            ("a.yx", "*.x", ""),
            ("x *.x", "*.x", "*.x"),
            ("*.x", "x *.x", "*.x"),
            ("x *.x", "x a.x", "x a.x"),
            ("a.x b.x c.y", "*.x", "a.x b.x"),
            ("*.x", "b.x a.x c.y", "b.x a.x"),
            ("*.x *.a.x", "b.a.x", "b.a.x"),
            ("a.x b.x", "b.x a.x", "a.x b.x"),
        ] {
            let found = shared_hosts(&list(own), &list(others));
            assert_eq!(found, list(expected), "{own} and {others}");
        }
    }
}
