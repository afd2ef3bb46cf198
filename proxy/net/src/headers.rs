//! Header fields that a proxy takes away, and those that it adds.

pub mod names;

use std::fmt::Write as _;
use std::net::IpAddr;

use http::header::{
    CONNECTION, CONTENT_LENGTH, FORWARDED, HOST, TE, TRAILER, TRANSFER_ENCODING, UPGRADE, VIA,
};
use http::header::{Entry, InvalidHeaderValue};
use http::{HeaderMap, HeaderName, HeaderValue, Version};
use sprat_config::fields::Fields;
use sprat_config::resolved::{Forwarding, HeadersWithUnderscores};

/// The fields that are for one hop, whatever `Connection` names. A static: constants of this type
/// would be made anew with each head.
static HOP_BY_HOP: [HeaderName; 6] = [
    CONNECTION,
    TE,
    TRANSFER_ENCODING,
    UPGRADE,
    KEEP_ALIVE,
    PROXY_CONNECTION,
];

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");
const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const X_REAL_IP: HeaderName = HeaderName::from_static("x-real-ip");

/// Returns whether a field is always meant for the next hop only (RFC 9110 7.6.1).
fn is_hop_by_hop(name: &HeaderName) -> bool {
    *name == CONNECTION
        || *name == TE
        || *name == TRANSFER_ENCODING
        || *name == UPGRADE
        || *name == KEEP_ALIVE
        || *name == PROXY_CONNECTION
}

/// Returns whether a field tells of a client, so that a client that sends it speaks for itself:
/// `Forwarded`, every `X-Forwarded-` (frameworks believe `-Port` and `-Prefix`, too), and
/// `X-Real-IP`, which nginx has taught backends to believe. An underscore counts as a hyphen:
/// backends that follow CGI's rules (RFC 3875 4.1.18; so do WSGI's and PHP's) see the same name.
fn is_of_a_client(name: &HeaderName) -> bool {
    let name = name.as_str().as_bytes();
    if !matches!(name.first(), Some(b'f' | b'x')) {
        return false;
    }
    let begins = |known: &str| {
        let same = |(own, known): (&u8, u8)| *own == known || (*own == b'_' && known == b'-');
        name.len() >= known.len() && name.iter().zip(known.bytes()).all(same)
    };
    begins(FORWARDED.as_str())
        || begins("x-forwarded")
        || (begins(X_REAL_IP.as_str()) && name.len() == X_REAL_IP.as_str().len())
}

/// The most fields in a head with which comparing names costs less than hashing one.
const FEW_FIELDS: usize = 12;

/// A map of header fields, as the code that is shared with the filters reads it.
pub struct Head<'a>(pub &'a HeaderMap);

impl Fields for Head<'_> {
    fn any(&self, name: &str, see: &mut dyn FnMut(&str) -> bool) -> bool {
        // One byte beyond ASCII must not hide a value from the rules.
        let mut is_seen = |value: &HeaderValue| match value.to_str() {
            Ok(text) => see(text),
            Err(_) => see(&String::from_utf8_lossy(value.as_bytes())),
        };
        if self.0.len() > FEW_FIELDS {
            return self.0.get_all(name).iter().any(is_seen);
        }
        let mut fields = self.0.iter();
        fields.any(|(own, value)| own.as_str() == name && is_seen(value))
    }

    fn contains(&self, name: &str) -> bool {
        if self.0.len() > FEW_FIELDS {
            return self.0.contains_key(name);
        }
        self.0.keys().any(|own| own.as_str() == name)
    }
}

/// The facts about a message that its hop-by-hop fields tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HopByHop {
    /// Whether there is `Transfer-Encoding: chunked`.
    pub chunked: bool,
    /// Whether there is a transfer coding other than chunked, or chunked twice.
    pub unknown_coding: bool,
    /// Whether there is `TE: trailers`.
    pub takes_trailers: bool,
}

/// Removes the fields that are meant for this hop: the hop-by-hop ones, and those that
/// `Connection` names. Returns what they told.
pub fn strip_hop_by_hop(headers: &mut HeaderMap) -> HopByHop {
    let mut found = HopByHop::default();
    if !headers.keys().any(is_hop_by_hop) {
        return found;
    }
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    found.chunked = codings.any(is_chunked);
    found.unknown_coding = has_unknown_coding(headers);
    found.takes_trailers = headers
        .get_all(TE)
        .iter()
        .any(|value| tokens(value).any(|token| token.eq_ignore_ascii_case("trailers")));
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .flat_map(tokens)
        .filter_map(|token| HeaderName::from_bytes(token.as_bytes()).ok())
        .filter(may_be_named)
        .collect();
    for name in named {
        headers.remove(name);
    }
    for name in &HOP_BY_HOP {
        headers.remove(name);
    }
    found
}

/// Returns whether a message has a transfer coding other than chunked, or chunked twice.
pub fn has_unknown_coding(headers: &HeaderMap) -> bool {
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    codings.next().is_some_and(|first| !is_chunked(first)) || codings.next().is_some()
}

fn is_chunked(coding: &HeaderValue) -> bool {
    coding.as_bytes().eq_ignore_ascii_case(b"chunked")
}

/// Removes from trailers what has no place there (RFC 9110 6.5.1, RFC 9113 8.2.2): fields of the
/// connection, which an HTTP/2 peer does not take; fields that frame or route a message; fields
/// that tell of a client, which belong in the head; and names that backends take for others.
pub fn clean_trailers(trailers: &mut HeaderMap, underscores: HeadersWithUnderscores) {
    strip_hop_by_hop(trailers);
    names::remove_mistaken(trailers, underscores);
    let has_no_place = |name: &HeaderName| {
        *name == CONTENT_LENGTH || *name == HOST || *name == TRAILER || is_of_a_client(name)
    };
    remove_all(trailers, has_no_place);
}

/// Removes a field, and all fields whose names backends take for the same: WSGI, Rack and PHP
/// read `X_User` as `X-User`.
pub fn remove_alike(headers: &mut HeaderMap, name: &HeaderName) {
    let same = |(own, known): (u8, u8)| own == known || (own == b'_' && known == b'-');
    remove_all(headers, |own| {
        let (own, name) = (own.as_str(), name.as_str());
        own.len() == name.len() && own.bytes().zip(name.bytes()).all(same)
    });
}

fn remove_all(headers: &mut HeaderMap, is_one: impl Fn(&HeaderName) -> bool) {
    let names: Vec<_> = headers
        .keys()
        .filter(|name| is_one(name))
        .cloned()
        .collect();
    for name in names {
        headers.remove(name);
    }
}

/// Returns whether `Connection` may take a field away: not one whose loss would change the
/// message's meaning or its addressee.
fn may_be_named(name: &HeaderName) -> bool {
    *name != CONTENT_LENGTH && *name != HOST && *name != TRAILER && *name != VIA
}

/// Returns the members of a comma-separated list.
pub fn tokens(value: &HeaderValue) -> impl Iterator<Item = &str> {
    let text = value.to_str().unwrap_or("");
    text.split(',')
        .map(str::trim)
        .filter(|token| !token.is_empty())
}

/// A client, as the forwarding headers tell of it.
pub struct Client<'a> {
    /// The address of the client.
    pub ip: IpAddr,
    /// The address as text.
    pub text: &'a HeaderValue,
    /// The `Host` that the client asked for.
    pub host: Option<&'a HeaderValue>,
    /// The version of HTTP that the client speaks.
    pub version: Version,
    /// Whether the client speaks TLS.
    pub secure: bool,
}

impl Client<'_> {
    fn scheme(&self) -> &'static str {
        match self.secure {
            true => "https",
            false => "http",
        }
    }
}

/// The writer of the fields that tell backends about clients.
#[derive(Debug)]
pub struct Forwarder {
    config: Forwarding,
    /// The members added to `Via` for a client that speaks HTTP/1.0, 1.1 and 2.
    via: Option<[HeaderValue; 3]>,
}

impl Forwarder {
    /// Creates a forwarder as configured.
    ///
    /// # Errors
    ///
    /// The configured pseudonym cannot stand in a header field.
    pub fn new(config: &Forwarding) -> Result<Self, InvalidHeaderValue> {
        let via = match &config.via {
            Some(pseudonym) => Some([
                HeaderValue::try_from(format!("1.0 {pseudonym}"))?,
                HeaderValue::try_from(format!("1.1 {pseudonym}"))?,
                HeaderValue::try_from(format!("2.0 {pseudonym}"))?,
            ]),
            None => None,
        };
        Ok(Self {
            config: config.clone(),
            via,
        })
    }

    /// Returns whether the client spoke TLS to the proxy before Sprat, if that proxy is trusted
    /// and says so.
    pub fn was_secure(&self, headers: &HeaderMap, client: IpAddr) -> bool {
        let trusted = &self.config.trusted;
        let is_trusted = || trusted.iter().any(|network| network.contains(client));
        if trusted.is_empty() || !is_trusted() {
            return false;
        }
        let proto = headers.get(X_FORWARDED_PROTO);
        proto.is_some_and(|own| own.as_bytes().eq_ignore_ascii_case(b"https"))
    }

    /// Adds the fields that tell of a client. They replace what an untrusted client says about
    /// itself, and follow what a trusted one says.
    pub fn add(&self, headers: &mut HeaderMap, client: &Client<'_>) {
        let trusted = &self.config.trusted;
        if headers.keys().any(is_of_a_client)
            && !trusted.iter().any(|network| network.contains(client.ip))
        {
            remove_all(headers, is_of_a_client);
        }
        if self.config.x_forwarded {
            append(headers, X_FORWARDED_FOR, client.text);
            headers
                .entry(X_FORWARDED_PROTO)
                .or_insert(HeaderValue::from_static(client.scheme()));
            if let Some(host) = client.host {
                headers
                    .entry(X_FORWARDED_HOST)
                    .or_insert_with(|| host.clone());
            }
        }
        if self.config.forwarded
            && let Some(element) = forwarded_element(client)
        {
            append(headers, FORWARDED, &element);
        }
        if let Some(via) = &self.via {
            let spoken = match client.version {
                Version::HTTP_10 => 0,
                Version::HTTP_2 => 2,
                _ => 1,
            };
            append(headers, VIA, &via[spoken]);
        }
    }
}

/// Returns an element of `Forwarded` (RFC 7239 4), such as
/// `for=192.0.2.1;host="example.org:80";proto=http`.
fn forwarded_element(client: &Client<'_>) -> Option<HeaderValue> {
    let mut element = String::with_capacity(64);
    // Writing to a string does not fail.
    let _ = match client.ip.to_canonical() {
        IpAddr::V4(ip) => write!(element, "for={ip}"),
        IpAddr::V6(ip) => write!(element, "for=\"[{ip}]\""),
    };
    if let Some(host) = client.host.and_then(|host| host.to_str().ok()) {
        let token = !host.is_empty() && host.bytes().all(is_token_byte);
        // A valid host has neither quotes nor backslashes.
        let _ = match token {
            true => write!(element, ";host={host}"),
            false => write!(element, ";host=\"{host}\""),
        };
    }
    element.push_str(";proto=");
    element.push_str(client.scheme());
    HeaderValue::try_from(element).ok()
}

fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Adds a member to a field that is a list, in one field line.
fn append(headers: &mut HeaderMap, name: HeaderName, value: &HeaderValue) {
    let mut known = match headers.entry(name) {
        Entry::Vacant(place) => {
            place.insert(value.clone());
            return;
        }
        Entry::Occupied(known) => known,
    };
    let mut list = Vec::new();
    for member in known.iter().chain([value]) {
        if !list.is_empty() {
            list.extend_from_slice(b", ");
        }
        list.extend_from_slice(member.as_bytes());
    }
    // Joined valid values are valid.
    if let Ok(list) = HeaderValue::from_bytes(&list) {
        known.insert_mult(list);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(fields: &[(&str, &str)]) -> HeaderMap {
        fields
            .iter()
            .map(|(name, value)| {
                let name: HeaderName = name.parse().unwrap();
                (name, HeaderValue::from_str(value).unwrap())
            })
            .collect()
    }

    fn text(headers: &HeaderMap) -> Vec<String> {
        let mut fields: Vec<_> = headers
            .iter()
            .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
            .collect();
        fields.sort();
        fields
    }

    #[test]
    fn fields_are_found_in_small_maps_and_in_large_ones() {
        for others in [0, 2 * FEW_FIELDS] {
            let mut map = HeaderMap::new();
            for n in 0..others {
                let name = HeaderName::try_from(format!("x-{n}")).unwrap();
                map.insert(name, HeaderValue::from_static("other"));
            }
            map.append("vary", HeaderValue::from_static("accept"));
            map.append("vary", HeaderValue::from_bytes(b"no \xff text").unwrap());
            map.append("vary", HeaderValue::from_static("cookie"));
            let head = Head(&map);
            let mut seen = Vec::new();
            let mut see = |text: &str| {
                seen.push(text.to_owned());
                false
            };
            assert!(!head.any("vary", &mut see));
            assert!(!head.any("var", &mut see));
            assert_eq!(seen, ["accept", "no \u{fffd} text", "cookie"]);
            assert!(head.any("vary", &mut |text| text == "accept"));
            assert!(head.contains("vary") && !head.contains("accept"));
        }
    }

    #[test]
    fn a_field_goes_with_all_that_backends_take_for_it() {
        let mut headers = map(&[
            ("x-user", "1"),
            ("x_user", "2"),
            ("x-users", "3"),
            ("xxuser", "4"),
        ]);
        remove_alike(&mut headers, &HeaderName::from_static("x-user"));
        let mut left: Vec<_> = headers.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["x-users", "xxuser"]);
    }

    #[test]
    fn hop_by_hop_fields_and_those_named_go() {
        let mut headers = map(&[
            ("connection", "close, X-Secret"),
            ("connection", "content-length, Host"),
            ("x-secret", "1"),
            ("keep-alive", "timeout=5"),
            ("te", "gzip, trailers"),
            ("transfer-encoding", "Chunked"),
            ("upgrade", "websocket"),
            ("proxy-connection", "keep-alive"),
            ("host", "a"),
            ("trailer", "x-sum"),
            ("accept", "*/*"),
        ]);
        let found = strip_hop_by_hop(&mut headers);
        assert!(found.chunked && found.takes_trailers && !found.unknown_coding);
        assert_eq!(text(&headers), ["accept: */*", "host: a", "trailer: x-sum"]);
        let gzip = strip_hop_by_hop(&mut map(&[("transfer-encoding", "gzip, chunked")]));
        assert!(gzip.unknown_coding);
    }

    #[test]
    fn chunked_once_is_the_only_transfer_coding_known() {
        for (values, is_unknown) in [
            (&[][..], false),
            (&["chunked"], false),
            (&["Chunked"], false),
            (&["gzip, chunked"], true),
            (&["chunked, chunked"], true),
            (&["chunked", "chunked"], true),
            (&["x", "chunked"], true),
            (&["xchunked"], true),
            (&[""], true),
        ] {
            let fields: Vec<_> = values
                .iter()
                .map(|value| ("transfer-encoding", *value))
                .collect();
            assert_eq!(has_unknown_coding(&map(&fields)), is_unknown, "{values:?}");
        }
    }

    #[test]
    fn others_than_those_of_a_client_are_not_taken_for_them() {
        for name in [
            "x-real-ip-2",
            "x-real",
            "x_ray",
            "forward",
            "xx-forwarded-for",
            "from",
        ] {
            assert!(!is_of_a_client(&name.parse().unwrap()), "{name}");
        }
    }

    #[test]
    fn trailers_have_neither_framing_nor_routing_nor_a_clients_word() {
        let mut trailers = map(&[
            ("connection", "close, x-named"),
            ("x-named", "1"),
            ("keep-alive", "1"),
            ("te", "gzip"),
            ("transfer-encoding", "chunked"),
            ("content-length", "99"),
            ("host", "evil"),
            ("trailer", "x-sum"),
            ("x-forwarded-for", "198.51.100.1"),
            ("transfer_encoding", "chunked"),
            ("proxy", "http://198.51.100.1"),
            ("x_tier", "gold"),
            ("grpc-status", "0"),
            ("x-sum", "42"),
        ]);
        clean_trailers(&mut trailers, HeadersWithUnderscores::Allow);
        let left = ["grpc-status: 0", "x-sum: 42", "x_tier: gold"];
        assert_eq!(text(&trailers), left);
        clean_trailers(&mut trailers, HeadersWithUnderscores::DropHeader);
        assert_eq!(text(&trailers), left[..2]);
    }

    fn forwarding(trusted: &str) -> Forwarding {
        Forwarding {
            x_forwarded: true,
            forwarded: true,
            trusted: vec![sprat_config::resolved::Network {
                address: trusted.parse().unwrap(),
                prefix_len: 32,
            }],
            via: Some("sprat".to_owned()),
        }
    }

    fn forward(headers: &mut HeaderMap, forwarding: &Forwarding, ip: &str, host: &str) {
        let client = Client {
            ip: ip.parse().unwrap(),
            text: &HeaderValue::from_str(ip).unwrap(),
            host: Some(&HeaderValue::from_str(host).unwrap()),
            version: Version::HTTP_11,
            secure: host.starts_with("secure"),
        };
        Forwarder::new(forwarding).unwrap().add(headers, &client);
    }

    const SPOOFED: [(&str, &str); 7] = [
        ("x-forwarded-port", "8443"),
        ("x-real-ip", "198.51.100.1"),
        ("x-forwarded-for", "198.51.100.1"),
        ("x-forwarded-proto", "https"),
        ("x-forwarded-host", "a.example"),
        ("forwarded", "for=198.51.100.1"),
        ("via", "1.1 edge"),
    ];

    /// Names that backends take for the same, by CGI's rules or by themselves.
    const ALIASES: [&str; 6] = [
        "x_forwarded_for",
        "x-forwarded_proto",
        "x_real_ip",
        "forwarded_for",
        "x-forwarded",
        "forwarded-for",
    ];

    #[test]
    fn an_untrusted_client_is_not_believed() {
        let mut headers = map(&SPOOFED);
        headers.extend(map(&ALIASES.map(|name| (name, "198.51.100.1"))));
        forward(
            &mut headers,
            &forwarding("192.0.2.1"),
            "192.0.2.2",
            "b.example:80",
        );
        assert_eq!(
            text(&headers),
            [
                "forwarded: for=192.0.2.2;host=\"b.example:80\";proto=http",
                "via: 1.1 edge, 1.1 sprat",
                "x-forwarded-for: 192.0.2.2",
                "x-forwarded-host: b.example:80",
                "x-forwarded-proto: http",
            ]
        );
    }

    #[test]
    fn a_trusted_client_is_appended_to() {
        let mut headers = map(&SPOOFED);
        forward(
            &mut headers,
            &forwarding("192.0.2.1"),
            "192.0.2.1",
            "b.example",
        );
        assert_eq!(
            text(&headers),
            [
                "forwarded: for=198.51.100.1, for=192.0.2.1;host=b.example;proto=http",
                "via: 1.1 edge, 1.1 sprat",
                "x-forwarded-for: 198.51.100.1, 192.0.2.1",
                "x-forwarded-host: a.example",
                "x-forwarded-port: 8443",
                "x-forwarded-proto: https",
                "x-real-ip: 198.51.100.1",
            ]
        );
    }

    #[test]
    fn tls_is_told_of() {
        let mut headers = HeaderMap::new();
        let forwarding = forwarding("192.0.2.1");
        forward(&mut headers, &forwarding, "192.0.2.2", "secure.example");
        let told = text(&headers);
        let element = "forwarded: for=192.0.2.2;host=secure.example;proto=https";
        assert!(told.contains(&element.to_owned()), "{told:?}");
        assert!(
            told.contains(&"x-forwarded-proto: https".to_owned()),
            "{told:?}"
        );
    }

    #[test]
    fn ipv6_is_quoted() {
        let mut headers = HeaderMap::new();
        forward(
            &mut headers,
            &forwarding("192.0.2.1"),
            "2001:db8::1",
            "[::1]:80",
        );
        assert_eq!(
            headers[FORWARDED],
            "for=\"[2001:db8::1]\";host=\"[::1]:80\";proto=http"
        );
    }
}
