//! Sessions: the cookie that a client gets.

use super::values::optional_file;
use crate::containers::Or;
use crate::decode::Field;
use crate::diagnostic::Reporter;
use crate::raw;
use crate::resolved::*;

/// Resolves the sessions of a cluster; `Some(None)` if they are off.
pub(super) fn resolve<W>(
    raw: &Field<Or<W, raw::StatefulSession>>,
    reporter: &mut Reporter<'_>,
) -> Option<Option<StatefulSession>> {
    let Some(raw) = raw.get()?.value() else {
        return Some(None);
    };
    let cookie = raw.cookie.get()?;
    Some(Some(StatefulSession {
        cookie: cookie.name.get()?.0.clone(),
        attributes: attributes(cookie, reporter)?,
        strict: raw.strict.copied()?.0,
        key_file: optional_file(&raw.key_file)?,
    }))
}

/// Returns the attributes of the cookie: what `Set-Cookie` has after the value.
fn attributes(cookie: &raw::SessionCookie, reporter: &mut Reporter<'_>) -> Option<String> {
    let (name, path) = (&cookie.name.get()?.0, &cookie.path.get()?.0);
    let mut said = format!("; Path={path}; HttpOnly");
    let ttl_s = cookie.ttl.copied()?.0.as_millis().div_ceil(1000);
    if ttl_s > 0 {
        said = format!("{said}; Max-Age={ttl_s}");
    }
    let list = &cookie.attributes.get()?.0;
    let mut given = Vec::new();
    let mut good = true;
    for field in list {
        let raw = field.get()?;
        let attribute = raw.name.copied()?;
        let value = raw.value.optional()?.map(|value| value.0.as_str());
        if let Err((message, help)) = check(attribute, value, &given) {
            reporter.error(&field.span, message, Some(help.to_owned()));
            good = false;
        }
        given.push(attribute);
        match value {
            // It is said already.
            None if attribute == CookieAttributeName::HttpOnly => {}
            None => said = format!("{said}; {}", attribute.name()),
            Some(value) => said = format!("{said}; {}={value}", attribute.name()),
        }
    }
    let has = |attribute| given.contains(&attribute);
    let is_cross_site = said.contains("; SameSite=None") || has(CookieAttributeName::Partitioned);
    let wrong = match has(CookieAttributeName::Secure) {
        false if is_cross_site => {
            Some("browsers take a cookie for other sites' requests over TLS alone")
        }
        false if name.starts_with("__Secure-") || name.starts_with("__Host-") => {
            Some("browsers take a cookie of this name over TLS alone")
        }
        _ => None,
    };
    if let Some(message) = wrong {
        let help = "add {name: Secure} to its attributes".to_owned();
        reporter.error(&cookie.name.span, message.to_owned(), Some(help));
        good = false;
    }
    if name.starts_with("__Host-") && (has(CookieAttributeName::Domain) || path != "/") {
        let message = "browsers take a cookie of this name for `/` and one host alone".to_owned();
        let help = "leave out `path` and `Domain`, or call it otherwise".to_owned();
        reporter.error(&cookie.name.span, message, Some(help));
        good = false;
    }
    good.then_some(said)
}

/// Checks an attribute of the cookie; `given` are those before it.
fn check(
    attribute: CookieAttributeName,
    value: Option<&str>,
    given: &[CookieAttributeName],
) -> Result<(), (String, &'static str)> {
    let name = attribute.name();
    if given.contains(&attribute) {
        return Err((format!("`{name}` is given twice"), "remove one of them"));
    }
    match (attribute, value) {
        (CookieAttributeName::SameSite, Some("Strict" | "Lax" | "None")) => Ok(()),
        (CookieAttributeName::SameSite, _) => {
            let message = "`SameSite` is Strict, Lax or None".to_owned();
            Err((message, "write {name: SameSite, value: Lax}"))
        }
        (CookieAttributeName::Domain, Some(_)) => Ok(()),
        (CookieAttributeName::Domain, None) => {
            let message = "`Domain` wants a value".to_owned();
            Err((message, "write {name: Domain, value: example.org}"))
        }
        (_, None) => Ok(()),
        (_, Some(_)) => Err((format!("`{name}` has no value"), "leave `value` out")),
    }
}
