//! Checks of requests that came over HTTP/2, and their heads in the form of HTTP/1.1.

use http::header::{CONTENT_LENGTH, COOKIE, HOST};
use http::request::Parts;
use http::{HeaderMap, HeaderValue};
use sprat_net::error::Reason;

use crate::client::connection::Connection;

/// Refuses a head that endpoints may read in another way, and makes its fields those that
/// HTTP/1.1 would have. (Fields of the connection, upper case, and lengths that the body
/// does not have are refused by the library.)
pub(super) fn admit(connection: &Connection, parts: &mut Parts) -> Result<(), Reason> {
    let headers = &mut parts.headers;
    // First: a browser with many cookies has a field for each.
    join_cookies(headers);
    if headers.len() > connection.listener.config.max_headers_count {
        return Err(Reason::HeadTooLarge);
    }
    // RFC 9113 8.2.1: a value neither begins nor ends with white space.
    if headers.values().any(|value| is_padded(value.as_bytes())) {
        return Err(Reason::MalformedHttp2);
    }
    if headers.get_all(CONTENT_LENGTH).iter().nth(1).is_some() {
        return Err(Reason::ConflictingFraming);
    }
    // RFC 9113 8.3.1: they name the same.
    if let (Some(host), Some(authority)) = (headers.get(HOST), parts.uri.authority()) {
        let same = host
            .as_bytes()
            .eq_ignore_ascii_case(authority.as_str().as_bytes());
        if !same {
            return Err(Reason::InvalidHost);
        }
    }
    Ok(())
}

fn is_padded(value: &[u8]) -> bool {
    let blank = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    blank(value.first()) || blank(value.last())
}

/// Joins the fields of a cookie into one: HTTP/2 may send it in several (RFC 9113 8.2.3).
fn join_cookies(headers: &mut HeaderMap) {
    let mut crumbs = headers.get_all(COOKIE).iter();
    let (Some(first), Some(second)) = (crumbs.next(), crumbs.next()) else {
        return;
    };
    let mut cookie = first.as_bytes().to_vec();
    for crumb in std::iter::once(second).chain(crumbs) {
        cookie.extend_from_slice(b"; ");
        cookie.extend_from_slice(crumb.as_bytes());
    }
    // Joined valid values are valid.
    if let Ok(cookie) = HeaderValue::from_bytes(&cookie) {
        headers.insert(COOKIE, cookie);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crumbs_are_one_cookie() {
        let mut headers = HeaderMap::new();
        join_cookies(&mut headers);
        assert!(headers.is_empty());
        for crumb in ["a=1", "b=2; c=3", "d=4"] {
            headers.append(COOKIE, HeaderValue::from_static(crumb));
        }
        join_cookies(&mut headers);
        let cookies: Vec<_> = headers.get_all(COOKIE).iter().collect();
        assert_eq!(cookies, ["a=1; b=2; c=3; d=4"]);
    }
}
