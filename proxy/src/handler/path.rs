//! A request's path in the form that rules are matched with, and that endpoints get.

use std::borrow::Cow;

use http::HeaderValue;
use http::request::Parts;
use sprat_config::paths::{Abnormal, PathRules};

use crate::error::{Advice, Reason};
use crate::record::Record;
use crate::routing;

/// Puts the path of a request's target in normal form; the log tells of it if it was not.
pub(super) fn normalize(
    rules: &PathRules,
    parts: &mut Parts,
    record: &mut Record,
) -> Result<(), Reason> {
    let normal = rules.normal(parts.uri.path()).map_err(refusal)?;
    let path = match normal.path {
        Cow::Owned(path) if path != parts.uri.path() => path,
        _ => return Ok(()),
    };
    if normal.redirects {
        record.advice = location(&path, parts.uri.query())
            .map(Advice::elsewhere)
            .map(Box::new);
        return Err(Reason::PathRedirect);
    }
    parts.uri = routing::with_path(&parts.uri, &path).ok_or(Reason::InvalidTarget)?;
    record.matched(path);
    Ok(())
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
