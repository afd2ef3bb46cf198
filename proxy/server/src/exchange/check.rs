//! The checks that every request has to pass, wherever it goes.

use http::header::{CONTENT_LENGTH, EXPECT, HOST, MAX_FORWARDS};
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Method, Uri, Version};
use sprat_net::error::Reason;
use sprat_net::framing::Slips;
use sprat_net::headers::has_unknown_coding;

use crate::setup::routing::host_without_port;

/// Refuses a request that no endpoint is to see; `slips` are what was wrong with the head
/// before it was parsed.
///
/// # Errors
///
/// Fails if the head is malformed, or asks for what is not done.
pub fn check(parts: &Parts, slips: Slips) -> Result<(), Reason> {
    if slips.other_version {
        return Err(Reason::VersionNotSupported);
    }
    if slips.both_lengths {
        return Err(Reason::ConflictingFraming);
    }
    if slips.bare_line_feed {
        return Err(Reason::BareLineFeed);
    }
    if slips.bad_chunk {
        return Err(Reason::MalformedChunk);
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
    // Here rather than where it is sent on: the answer may be Sprat's own, after which the
    // connection would go on.
    if has_unknown_coding(&parts.headers) {
        return Err(Reason::UnknownTransferCoding);
    }
    if parts.method == Method::CONNECT || parts.method == Method::TRACE {
        return Err(Reason::MethodRefused);
    }
    Ok(())
}

/// Makes `OPTIONS http://a.example` what a client of `a.example` would have sent,
/// `OPTIONS *` (RFC 9112 3.2.4): a target in absolute form without path and query.
pub(super) fn make_asterisk(parts: &mut Parts, slips: Slips) {
    let is_bare = |own: &PathAndQuery| own.as_str() == "/";
    if parts.method == Method::OPTIONS
        && slips.three_slashes
        && parts.uri.authority().is_some()
        && parts.uri.path_and_query().is_some_and(is_bare)
    {
        let mut own = parts.uri.clone().into_parts();
        own.path_and_query = Some(PathAndQuery::from_static("*"));
        if let Ok(uri) = Uri::from_parts(own) {
            parts.uri = uri;
        }
    }
}

/// Counts this hop off the `Max-Forwards` of an OPTIONS request (RFC 9110 7.6.2); returns
/// whether the request is to go no further. (TRACE goes nowhere, and for other methods the
/// field has no meaning.)
pub(super) fn is_last_hop(parts: &mut Parts) -> bool {
    if parts.method != Method::OPTIONS {
        return false;
    }
    let mut values = parts.headers.get_all(MAX_FORWARDS).iter();
    let (Some(value), None) = (values.next(), values.next()) else {
        return false;
    };
    let digits = value.as_bytes();
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return false;
    }
    // One that does not fit bounds nothing.
    let hops = value
        .to_str()
        .ok()
        .and_then(|text| text.parse::<u64>().ok());
    match hops.unwrap_or(u64::MAX).checked_sub(1) {
        None => true,
        Some(left) => {
            parts.headers.insert(MAX_FORWARDS, HeaderValue::from(left));
            false
        }
    }
}

/// Returns the host that the request is for: its target's, if that has one (RFC 9112 3.2.2),
/// as HTTP/2's `:authority` is, or else that of `Host`. Only in HTTP/1.0 may there be none.
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

/// Returns whether servers agree on what a target names. They do not if it has what RFC
/// 3986 does not allow: quotes, angle brackets, bytes past ASCII or, in its path, a
/// backslash. Nor do they if an encoding in its path is malformed, or is that of a NUL. (In
/// a query browsers send a backslash as it is, and it separates nothing there:
/// <https://url.spec.whatwg.org/#query-percent-encode-set>.)
fn is_plain(target: &Uri) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn options(target: &str, hops: &[&str]) -> Parts {
        let mut request = http::Request::options(target);
        for value in hops {
            request = request.header(MAX_FORWARDS, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn a_coding_other_than_chunked_is_refused_whatever_the_method() {
        for (coding, checked) in [
            ("chunked", Ok(())),
            ("gzip, chunked", Err(Reason::UnknownTransferCoding)),
        ] {
            let request = http::Request::post("/").header("transfer-encoding", coding);
            let mut parts = request.body(()).unwrap().into_parts().0;
            assert_eq!(check(&parts, Slips::default()), checked);
            if checked.is_err() {
                parts.method = Method::TRACE;
                assert_eq!(check(&parts, Slips::default()), checked);
            }
        }
    }

    #[test]
    fn options_without_a_path_asks_the_server_itself() {
        for (target, three_slashes, expected) in [
            ("http://a.example", true, "*"),
            ("http://a.example:8080", true, "*"),
            ("http://a.example/", false, "/"),
            ("http://a.example?b", true, "/"),
            ("/a/", true, "/a/"),
            ("*", false, "*"),
        ] {
            let slips = Slips {
                three_slashes,
                ..Slips::default()
            };
            let mut parts = options(target, &[]);
            make_asterisk(&mut parts, slips);
            assert_eq!(parts.uri.path(), expected, "{target}");
        }
        let mut get = options("http://a.example", &[]);
        get.method = Method::GET;
        let slips = Slips {
            three_slashes: true,
            ..Slips::default()
        };
        make_asterisk(&mut get, slips);
        assert_eq!(get.uri.path(), "/");
    }

    #[test]
    fn hops_are_counted_off() {
        for (hops, is_last, left) in [
            (&[][..], false, None),
            (&["0"], true, Some("0")),
            (&["000"], true, Some("000")),
            (&["1"], false, Some("0")),
            (&["10"], false, Some("9")),
            (
                &["99999999999999999999999"],
                false,
                Some("18446744073709551614"),
            ),
            (&["-1"], false, Some("-1")),
            (&["x"], false, Some("x")),
            (&[""], false, Some("")),
            (&["0", "5"], false, Some("0")),
        ] {
            let mut parts = options("/", hops);
            assert_eq!(is_last_hop(&mut parts), is_last, "{hops:?}");
            let kept = parts.headers.get(MAX_FORWARDS);
            assert_eq!(kept.map(|value| value.to_str().unwrap()), left, "{hops:?}");
        }
        let mut post = options("/", &["0"]);
        post.method = Method::POST;
        assert!(!is_last_hop(&mut post));
    }
}
