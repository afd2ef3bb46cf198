//! Header fields, and what they tell, wherever they come from: the proxy's parser, or a host that a
//! filter runs in.

use sprat_scheduler::catalogue::{KeyHasher, MAX_VARY};

/// The header fields of a request or a response.
pub trait Fields {
    /// Calls `see` with each value of the fields of this name until it returns true; returns
    /// whether it did. The name is in lower case. Bytes that are no text are shown as replacement
    /// characters: they must not hide a value from the rules.
    fn any(&self, name: &str, see: &mut dyn FnMut(&str) -> bool) -> bool;

    /// Returns whether there is a field of this name, whatever its value.
    fn contains(&self, name: &str) -> bool {
        self.any(name, &mut |_| true)
    }
}

/// Fields as pairs of a name in lower case and a value.
impl Fields for [(&str, &str)] {
    fn any(&self, name: &str, see: &mut dyn FnMut(&str) -> bool) -> bool {
        self.iter().any(|(own, value)| *own == name && see(value))
    }
}

/// Returns hashes of the values of the request's fields in `vary`, which may tell variants of a
/// resource apart.
pub fn variant_values(
    hasher: &KeyHasher,
    vary: &[String],
    request: &(impl Fields + ?Sized),
) -> [u32; MAX_VARY] {
    let mut values = [0; MAX_VARY];
    for (value, name) in values.iter_mut().zip(vary) {
        request.any(name, &mut |text| {
            *value ^= hasher.value(text.as_bytes());
            false
        });
    }
    values
}

/// Returns which of the fields in `vary` a response's `Vary` names: bit `n` for the `n`-th.
pub fn varies_by(vary: &[String], response: &(impl Fields + ?Sized)) -> u8 {
    let mut fields = 0;
    response.any("vary", &mut |text| {
        for named in text.split(',') {
            let same = |name: &String| name.eq_ignore_ascii_case(named.trim());
            if let Some(index) = vary.iter().position(same) {
                fields |= 1 << index;
            }
        }
        false
    });
    fields
}

/// Returns the length of a body that a head announces, if it does so once and plainly.
pub fn announced_length(head: &(impl Fields + ?Sized)) -> Option<u64> {
    let (mut length, mut count) = (None, 0);
    head.any("content-length", &mut |text| {
        let text = text.trim();
        let plain = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        length = plain.then(|| text.parse().ok()).flatten();
        count += 1;
        false
    });
    let alone = count == 1 && !head.contains("transfer-encoding");
    length.filter(|_| alone)
}

/// Returns the size of the response to a GET, if the response to a HEAD request tells it.
pub fn probed_size(status: u16, head: &(impl Fields + ?Sized)) -> Option<u64> {
    announced_length(head).filter(|_| status == 200)
}

/// The fields of a client's request that a probe leaves out: they change what the response is
/// about, or belong to the request's body. A probe asks for the size of the whole.
pub const NOT_PROBED: [&str; 14] = [
    "accept-ranges",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "expect",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "range",
    "te",
    "transfer-encoding",
];

/// Returns whether a client whose request has these fields takes problem details (RFC 9457).
pub fn accepts_json(request: &(impl Fields + ?Sized)) -> bool {
    let ranges = ["*/*", "application/*", "json"];
    !request.contains("accept")
        || request.any("accept", &mut |value| {
            ranges.iter().any(|range| value.contains(range))
        })
}

/// Returns the content type and the body of an answer of Sprat's own: problem details (RFC 9457),
/// or text if the client takes no JSON.
pub fn problem(
    accepts_json: bool,
    status: u16,
    title: &str,
    detail: &str,
    reason: &str,
) -> (&'static str, String) {
    match accepts_json {
        true => (
            "application/problem+json",
            format!(
                "{{\"type\":\"about:blank\",\"title\":\"{title}\",\"status\":{status},\
                 \"detail\":\"{detail}\",\"reason\":\"{reason}\"}}\n"
            ),
        ),
        false => (
            "text/plain; charset=utf-8",
            format!("{status} {title}: {detail}\n"),
        ),
    }
}

/// Returns the host in a `Host` field or an authority; none if it is no host. The result lacks the
/// port, the brackets of an IPv6 address, and the dot that may end a name (RFC 3986 3.2.2: the same
/// name).
pub fn host_without_port(authority: &str) -> Option<&str> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, after) = rest.split_once(']')?;
            let address = host
                .bytes()
                .all(|b| b.is_ascii_hexdigit() || b":.".contains(&b));
            if host.is_empty() || !address {
                return None;
            }
            (host, after)
        }
        None => {
            let end = authority.find(':').unwrap_or(authority.len());
            let (host, port) = authority.split_at(end);
            if host.is_empty() || !is_name(host) {
                return None;
            }
            (without_root(host), port)
        }
    };
    let port_is_valid = match port.strip_prefix(':') {
        Some(digits) => digits.is_empty() || is_port(digits),
        None => port.is_empty(),
    };
    port_is_valid.then_some(host)
}

/// Returns whether a host is a reg-name (RFC 3986 3.2.2). Every request asks this, so bytes are
/// told apart by a bit, not by a search.
fn is_name(host: &str) -> bool {
    let mut is_encoded = false;
    for byte in host.bytes() {
        match byte {
            b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'-' | b'.' | b'_' | b'~' => {}
            b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'*' | b'+' | b',' | b';' | b'=' => {}
            b'%' => is_encoded = true,
            _ => return false,
        }
    }
    let has_digits = |rest: &str| {
        let digits = rest.as_bytes().get(..2);
        digits.is_some_and(|two| two.iter().all(u8::is_ascii_hexdigit))
    };
    !is_encoded || host.split('%').skip(1).all(has_digits)
}

/// Returns whether a text is a port's digits and nothing else (RFC 3986 3.2.3): `parse` would take
/// a sign.
pub(crate) fn is_port(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit()) && text.parse::<u16>().is_ok()
}

/// Returns a name without the dot of DNS's root, which may end it.
pub(crate) fn without_root(name: &str) -> &str {
    match name.strip_suffix('.') {
        Some(host) if !host.is_empty() => host,
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_plain_answer_tells_a_size() {
        let of = |status, fields: &[(&str, &str)]| probed_size(status, fields);
        assert_eq!(of(200, &[("content-length", "12")]), Some(12));
        assert_eq!(of(200, &[("content-length", "0")]), Some(0));
        assert_eq!(of(200, &[]), None);
        assert_eq!(of(405, &[("content-length", "12")]), None);
        assert_eq!(of(302, &[("content-length", "12")]), None);
        for wrong in ["", "+1", "-1", "x", "1.5", "99999999999999999999"] {
            assert_eq!(of(200, &[("content-length", wrong)]), None, "{wrong}");
        }
        let two = [("content-length", "1"), ("content-length", "2")];
        assert_eq!(of(200, &two), None);
        let both = [("content-length", "1"), ("transfer-encoding", "chunked")];
        assert_eq!(of(200, &both), None);
    }

    #[test]
    fn vary_names_the_fields_that_count() {
        let vary = ["accept-encoding".to_owned(), "origin".to_owned()];
        let of = |fields: &[(&str, &str)]| varies_by(&vary, fields);
        assert_eq!(of(&[]), 0);
        assert_eq!(of(&[("vary", "Cookie, Origin")]), 0b10);
        assert_eq!(of(&[("vary", "origin"), ("vary", "Accept-Encoding")]), 0b11);
        let hasher = KeyHasher::new(1, 2);
        let values = variant_values(&hasher, &vary, &[("origin", "a")][..]);
        assert_eq!(values, [0, hasher.value(b"a"), 0, 0]);
    }

    #[test]
    fn who_takes_json() {
        let takes = |fields: &[(&str, &str)]| accepts_json(fields);
        assert!(takes(&[]));
        assert!(!takes(&[("accept", "text/html")]));
        assert!(takes(&[("accept", "text/html"), ("accept", "*/*;q=0.1")]));
    }

    #[test]
    fn values_of_one_field_count_together() {
        let vary = ["origin".to_owned()];
        let hasher = KeyHasher::new(1, 2);
        let of = |fields: &[(&str, &str)]| variant_values(&hasher, &vary, fields)[0];
        let both = hasher.value(b"a") ^ hasher.value(b"b");
        assert_eq!(of(&[("origin", "a"), ("origin", "b")]), both);
        assert_eq!(of(&[("origin", "a"), ("origin", "a")]), 0);
    }

    #[test]
    fn an_answer_of_ours_says_the_same_as_json_and_as_text() {
        let answer = |json| problem(json, 503, "Service Unavailable", "no endpoint", "down");
        let (json, text) = (answer(true), answer(false));
        assert_eq!(json.0, "application/problem+json");
        assert_eq!(
            json.1,
            "{\"type\":\"about:blank\",\"title\":\"Service Unavailable\",\"status\":503,\
             \"detail\":\"no endpoint\",\"reason\":\"down\"}\n"
        );
        assert_eq!(text.0, "text/plain; charset=utf-8");
        assert_eq!(text.1, "503 Service Unavailable: no endpoint\n");
    }

    #[test]
    fn the_root_s_dot_ends_a_name_and_is_none() {
        assert_eq!(without_root("a.example."), "a.example");
        assert_eq!(without_root("a.example"), "a.example");
        assert_eq!(without_root("a.."), "a.");
        assert_eq!(without_root("."), ".");
        assert_eq!(without_root(""), "");
    }

    #[test]
    fn hosts_lose_their_port() {
        for (authority, host) in [
            ("example.org", Some("example.org")),
            ("example.org:8080", Some("example.org")),
            ("example.org:", Some("example.org")),
            ("example.org.:80", Some("example.org")),
            (".", Some(".")),
            ("[::1]:80", Some("::1")),
            ("[::1]", Some("::1")),
            ("a%c3%A4", Some("a%c3%A4")),
            ("a%zz", None),
            ("a%", None),
            ("a%c", None),
            ("%%41", None),
            ("a:b", None),
            ("a:99999", None),
            ("a:+80", None),
            ("[::1]:+80", None),
            ("a%2:80", None),
            ("[::1", None),
            ("[]", None),
            ("[::1]80", None),
            ("", None),
            (":80", None),
            ("user@host", None),
            ("a b", None),
            ("a/b", None),
            ("A-z_0.~9:80", Some("A-z_0.~9")),
            ("!$&'()*+,;=", Some("!$&'()*+,;=")),
            ("[fe80::1%25eth0]", None),
            ("[]:80", None),
            ("[1.2.3.4]", Some("1.2.3.4")),
        ] {
            assert_eq!(host_without_port(authority), host, "{authority}");
        }
    }
}
