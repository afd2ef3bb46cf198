//! The check of requests to the admin listener by the host that they name.
//!
//! A web page can have a name of its own lead to this address (DNS rebinding); a
//! browser then takes the answers for the page's own. It sends that name as `Host`,
//! so that names are answered only if they are known.

use std::net::IpAddr;

use http::header::HOST;
use http::{Request, StatusCode, Version};
use sprat_config::fields::host_without_port;
use sprat_config::resolved::HostPattern;

/// The status and the text for a request that is not answered.
pub(super) type Refusal = (StatusCode, &'static str);

const UNKNOWN: Refusal = (
    StatusCode::MISDIRECTED_REQUEST,
    "this host is not known here: ask by an IP address or `localhost`, \
     or list the name in the configuration (`admin.hosts`)\n",
);

const NOT_ONE: Refusal = (
    StatusCode::BAD_REQUEST,
    "a request has one `Host`, with a name or an IP address\n",
);

/// Checks that a request is for an IP address, `localhost` or one of `hosts`. A request of
/// HTTP/1.0 may name none: no browser sends such a request.
pub(super) fn check<B>(request: &Request<B>, hosts: &[HostPattern]) -> Result<(), Refusal> {
    let mut fields = request.headers().get_all(HOST).iter();
    let field = match (fields.next(), fields.next()) {
        (Some(field), None) => Some(field.to_str().map_err(|_| NOT_ONE)?),
        (None, _) => None,
        (Some(_), Some(_)) => return Err(NOT_ONE),
    };
    // A target in absolute form has the last word (RFC 9112 3.2.2).
    let authority = request.uri().authority().map(|own| own.as_str()).or(field);
    let Some(authority) = authority else {
        return match request.version() {
            Version::HTTP_10 => Ok(()),
            _ => Err(NOT_ONE),
        };
    };
    let host = host_without_port(authority).ok_or(NOT_ONE)?;
    let known = host.parse::<IpAddr>().is_ok()
        || host.eq_ignore_ascii_case("localhost")
        || hosts.iter().any(|pattern| pattern.matches(host));
    known.then_some(()).ok_or(UNKNOWN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(target: &str, version: Version, fields: &[&str]) -> u16 {
        let mut request = Request::get(target).version(version);
        for field in fields {
            request = request.header(HOST, *field);
        }
        let known = [
            HostPattern::Exact("proxy.example".to_owned()),
            HostPattern::Suffix(".metrics.example".to_owned()),
        ];
        let checked = check(&request.body(()).unwrap(), &known);
        checked.map_or_else(|(status, _)| status.as_u16(), |()| 200)
    }

    #[test]
    fn known_hosts_are_answered() {
        for (host, expected) in [
            ("127.0.0.1:9900", 200),
            ("10.1.2.3", 200),
            ("[::1]:9900", 200),
            ("localhost:9900", 200),
            ("LOCALHOST", 200),
            ("proxy.example:9900", 200),
            ("Proxy.Example.", 200),
            ("a.metrics.example", 200),
            ("metrics.example", 421),
            ("rebound.example", 421),
            ("localhost.rebound.example", 421),
            ("127.0.0.1.rebound.example", 421),
            ("", 400),
            ("a b", 400),
            ("127.0.0.1:http", 400),
        ] {
            assert_eq!(
                status("/metrics", Version::HTTP_11, &[host]),
                expected,
                "{host}"
            );
        }
    }

    #[test]
    fn a_request_names_one_host() {
        let (http10, http11) = (Version::HTTP_10, Version::HTTP_11);
        assert_eq!(status("/", http11, &[]), 400);
        assert_eq!(status("/", http10, &[]), 200);
        assert_eq!(status("/", http10, &["rebound.example"]), 421);
        assert_eq!(status("/", http11, &["127.0.0.1", "127.0.0.1"]), 400);
        assert_eq!(
            status("http://rebound.example/", http11, &["127.0.0.1"]),
            421
        );
        assert_eq!(status("http://127.0.0.1/", http11, &["127.0.0.1"]), 200);
    }
}
