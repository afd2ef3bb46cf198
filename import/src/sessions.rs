//! The sessions that other proxies keep by a cookie of their own.

use std::time::Duration;

use crate::units::time_value;
use crate::yaml::{Map, Value, map, text, word};

/// The key of a cluster's sessions.
pub(crate) const KEY: &str = "stateful_session";

/// A session's cookie, as another proxy sets it.
#[derive(Debug, Default)]
pub(crate) struct Cookie<'a> {
    pub(crate) name: &'a str,
    /// The lifetime of the cookie; without it, browsers keep the cookie until they are closed.
    pub(crate) ttl: Option<Duration>,
    pub(crate) path: Option<&'a str>,
    pub(crate) domain: Option<&'a str>,
    pub(crate) secure: bool,
    pub(crate) same_site: Option<&'static str>,
}

impl Cookie<'_> {
    /// Returns the value of a cluster's `stateful_session` with this cookie.
    pub(crate) fn value(&self) -> Value {
        let mut cookie: Map = vec![("name".to_owned(), text(self.name))];
        if let Some(ttl) = self.ttl.filter(|own| !own.is_zero()) {
            cookie.push(("ttl".to_owned(), time_value(ttl)));
        }
        if let Some(path) = self.path {
            cookie.push(("path".to_owned(), text(path)));
        }
        let mut attributes = Vec::new();
        if self.secure {
            attributes.push(map([("name", word("Secure"))]));
        }
        if let Some(value) = self.same_site {
            attributes.push(map([("name", word("SameSite")), ("value", word(value))]));
        }
        if let Some(domain) = self.domain {
            attributes.push(map([("name", word("Domain")), ("value", text(domain))]));
        }
        if !attributes.is_empty() {
            cookie.push(("attributes".to_owned(), Value::List(attributes)));
        }
        map([("cookie", Value::Map(cookie))])
    }
}

/// Returns a value of `SameSite` in the spelling of browsers; none for an unknown one.
pub(crate) fn same_site(value: &str) -> Option<&'static str> {
    let known = ["Strict", "Lax", "None"].into_iter();
    { known }.find(|own| own.eq_ignore_ascii_case(value))
}
