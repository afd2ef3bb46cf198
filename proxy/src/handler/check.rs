//! What must hold for any request, wherever it goes.

use http::header::{CONTENT_LENGTH, EXPECT, HOST};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Version};

use crate::connection::Connection;
use crate::error::Reason;
use crate::framing::Slips;
use crate::routing::host_without_port;

/// Refuses what no backend is to see; `slips` are what was wrong with the head
/// before it was parsed.
pub(super) fn check(connection: &Connection, parts: &Parts, slips: Slips) -> Result<(), Reason> {
    if slips.both_lengths {
        return Err(Reason::ConflictingFraming);
    }
    if slips.bare_line_feed {
        return Err(Reason::BareLineFeed);
    }
    if slips.fragment || !is_plain(&parts.uri) {
        return Err(Reason::InvalidTarget);
    }
    if parts
        .headers
        .get_all(EXPECT)
        .iter()
        .any(|value| !value.as_bytes().eq_ignore_ascii_case(b"100-continue"))
    {
        return Err(Reason::UnknownExpectation);
    }
    if parts.method == Method::CONNECT || parts.method == Method::TRACE {
        return Err(Reason::MethodRefused);
    }
    if let Some(bound) = connection.listener.config.max_body_bytes
        && content_length(&parts.headers).is_some_and(|length| length > bound)
    {
        return Err(Reason::BodyTooLarge);
    }
    Ok(())
}

/// The `Host` that the request is for: its target's, if that has one (RFC 9112
/// 3.2.2), as HTTP/2's `:authority` is. None is right in HTTP/1.0 only.
pub(super) fn requested_host(parts: &Parts) -> Result<Option<HeaderValue>, Reason> {
    let mut hosts = parts.headers.get_all(HOST).iter();
    let host = hosts.next();
    let may_lack = match parts.version {
        Version::HTTP_2 => parts.uri.authority().is_some(),
        version => version < Version::HTTP_11,
    };
    if hosts.next().is_some() || (host.is_none() && !may_lack) {
        return Err(Reason::InvalidHost);
    }
    let Some(authority) = parts.uri.authority() else {
        return Ok(host.cloned());
    };
    // It does not count, but must be one (RFC 9112 3.2).
    let is_host = |value: &HeaderValue| {
        value
            .to_str()
            .is_ok_and(|text| host_without_port(text).is_some())
    };
    if host.is_some_and(|host| !is_host(host)) {
        return Err(Reason::InvalidHost);
    }
    let scheme = parts.uri.scheme_str();
    if !matches!(scheme, Some("http" | "https")) || authority.as_str().contains('@') {
        return Err(Reason::InvalidTarget);
    }
    HeaderValue::from_str(authority.as_str())
        .map(Some)
        .map_err(|_| Reason::InvalidTarget)
}

/// Whether servers agree on what a target names. Not if it has what RFC 3986
/// does not allow and some take for something else: quotes, angle brackets, bytes
/// past ASCII, in its path a backslash; nor if an encoding in its path is none, or
/// is that of a NUL. (In a query browsers send a backslash as it is, and it
/// separates nothing there: <https://url.spec.whatwg.org/#query-percent-encode-set>.)
fn is_plain(target: &http::Uri) -> bool {
    let odd = |byte: &u8| matches!(byte, b'"' | b'<' | b'>' | 0x80..);
    let bytes = target
        .path_and_query()
        .map_or("", |text| text.as_str())
        .as_bytes();
    let path = target.path().as_bytes();
    let encoding = |at: usize| {
        let digits = path.get(at + 1..at + 3);
        digits.is_some_and(|two| two.iter().all(u8::is_ascii_hexdigit) && two != b"00")
    };
    let mut percents = (0..path.len()).filter(|&at| path[at] == b'%');
    !bytes.iter().any(odd) && !path.contains(&b'\\') && percents.all(encoding)
}

pub(super) fn content_length(headers: &HeaderMap) -> Option<u64> {
    headers
        .get(CONTENT_LENGTH)?
        .to_str()
        .ok()?
        .trim()
        .parse()
        .ok()
}
