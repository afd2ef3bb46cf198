//! A request's path in the form that rules are matched with, and that endpoints get.

use std::borrow::Cow;

use http::request::Parts;
use http::{HeaderValue, Method, Uri};
use sprat_config::paths::{Abnormal, PathRules};
use sprat_net::error::{Advice, Denial, Reason};

use crate::client::connection::Connection;
use crate::exchange::record::Routing;
use crate::setup::routing as routes;

/// The target of a request before its path was put in normal form.
#[derive(Default)]
pub(super) struct Before {
    /// The target as it was, if it is another now.
    pub(super) target: Option<Uri>,
    /// The path's other reading, if it has one that rules may be for.
    pub(super) other_reading: Option<String>,
}

/// Refuses a target without a path, and puts the path of any other in normal form, as its
/// listener says.
pub(super) fn check_and_normalize(
    connection: &Connection,
    parts: &mut Parts,
    routing: &mut Routing,
) -> Result<Before, Denial> {
    let path = parts.uri.path();
    if path == "*" && parts.method == Method::OPTIONS {
        return Ok(Before::default());
    }
    if !path.starts_with('/') {
        return Err(Reason::InvalidTarget.into());
    }
    normalize(&connection.listener.config.paths, parts, routing)
}

/// Puts the path of a request's target in normal form, and notes for the log that it was not.
fn normalize(
    rules: &PathRules,
    parts: &mut Parts,
    routing: &mut Routing,
) -> Result<Before, Denial> {
    let normal = rules.normal(parts.uri.path()).map_err(refusal)?;
    let other_reading = normal.other_reading;
    let path = match normal.path {
        Cow::Owned(path) if path != parts.uri.path() => path,
        _ => {
            return Ok(Before {
                target: None,
                other_reading,
            });
        }
    };
    if normal.redirects {
        let elsewhere = location(&path, parts.uri.query()).map(Advice::elsewhere);
        return Err(Denial {
            advice: elsewhere.map(Box::new),
            ..Reason::PathRedirect.into()
        });
    }
    let uri = routes::with_path(&parts.uri, &path).ok_or(Reason::InvalidTarget)?;
    routing.matches(path);
    Ok(Before {
        target: Some(std::mem::replace(&mut parts.uri, uri)),
        other_reading,
    })
}

/// Returns why a request whose path has no normal form is refused.
pub fn refusal(abnormal: Abnormal) -> Reason {
    match abnormal {
        Abnormal::AboveRoot => Reason::PathAboveRoot,
        Abnormal::EscapedSlash => Reason::EscapedSlash,
        Abnormal::Malformed => Reason::InvalidTarget,
    }
}

/// Returns the location to which a client is redirected, whose path is in normal form.
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
