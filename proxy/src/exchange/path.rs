//! A request's path in the form that rules are matched with, and that endpoints get.

use std::borrow::Cow;

use http::HeaderValue;
use http::request::Parts;
use sprat_config::classify::{Asked, Classifier};
use sprat_config::fields::Fields;
use sprat_config::paths::{Abnormal, PathRules};
use sprat_net::error::{Advice, Reason};

use crate::exchange::record::Record;
use crate::setup::routing::{self, Route, Routes};

/// Puts the path of a request's target in normal form; the log tells of it if it was not.
/// Returns the path's other reading, if it has one that rules may be for.
pub(super) fn normalize(
    rules: &PathRules,
    parts: &mut Parts,
    record: &mut Record,
) -> Result<Option<String>, Reason> {
    let normal = rules.normal(parts.uri.path()).map_err(refusal)?;
    let other = normal.other_reading;
    let path = match normal.path {
        Cow::Owned(path) if path != parts.uri.path() => path,
        _ => return Ok(other),
    };
    if normal.redirects {
        record.advice = location(&path, parts.uri.query())
            .map(Advice::elsewhere)
            .map(Box::new);
        return Err(Reason::PathRedirect);
    }
    parts.uri = routing::with_path(&parts.uri, &path).ok_or(Reason::InvalidTarget)?;
    record.matched(path);
    Ok(other)
}

/// Returns whether the rules for a request are those for its path's other reading, too:
/// an endpoint may read it so.
pub(crate) fn has_same_rules<F: Fields>(
    routes: &Routes,
    classifier: &Classifier,
    asked: &Asked<'_, F>,
    other: &str,
) -> bool {
    let route = routes.find(asked.host, asked.path);
    let other_route = routes.find(asked.host, other);
    // Who writes a route for `/a%2Fb` says how it is to be read.
    let is_for_this = route.is_some_and(Route::names_escaped_slash);
    let class = |path: &str| classifier.classify(&Asked { path, ..*asked }).class;
    (is_for_this || route.map(|own| own.index) == other_route.map(|own| own.index))
        && class(asked.path) == class(other)
}

/// Why a request whose path has no normal form is refused.
pub(crate) fn refusal(abnormal: Abnormal) -> Reason {
    match abnormal {
        Abnormal::AboveRoot => Reason::PathAboveRoot,
        Abnormal::EscapedSlash => Reason::EscapedSlash,
        Abnormal::Malformed => Reason::InvalidTarget,
    }
}

/// Where a client is sent instead.
fn location(path: &str, query: Option<&str>) -> Option<HeaderValue> {
    // Two slashes at the beginning would name another host (RFC 3986 4.2).
    let start = if path.starts_with("//") { "/." } else { "" };
    let query = query.map_or(String::new(), |query| format!("?{query}"));
    HeaderValue::try_from(format!("{start}{path}{query}")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_redirect_leaves_the_host() {
        for (path, query, expected) in [
            ("/a/b", None, "/a/b"),
            ("/a/b", Some("c=%2f"), "/a/b?c=%2f"),
            ("//evil.example/", None, "/.//evil.example/"),
        ] {
            assert_eq!(location(path, query).unwrap(), expected);
        }
    }
}
