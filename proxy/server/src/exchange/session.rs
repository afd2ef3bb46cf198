//! Sessions: the one that a client's cookie names, and the cookie that the client gets.

use http::header::{CACHE_CONTROL, HeaderName, SET_COOKIE};
use http::{HeaderMap, HeaderValue};
use sprat_net::headers::tokens;
use sprat_upstream::SessionOutcome;

use super::plan::Plan;
use crate::exchange::record::Record;

/// Fields that tell shared caches more than `Cache-Control` does (RFC 9213).
const TARGETED: [HeaderName; 2] = [
    HeaderName::from_static("cdn-cache-control"),
    HeaderName::from_static("surrogate-control"),
];

impl Plan<'_> {
    /// Leads the client back, by a cookie, to the endpoint that has answered it, if the
    /// cluster keeps sessions.
    pub(super) fn keep_session(&self, record: &mut Record, headers: &mut HeaderMap) {
        let Some(endpoint) = record.upstream.endpoint() else {
            return;
        };
        let Some(kept) = self.upstream.kept_session(self.session, endpoint) else {
            return;
        };
        if let Some(cookie) = kept.set_cookie {
            headers.append(SET_COOKIE, cookie);
            make_private(headers);
        }
        self.count_session(record, kept.outcome);
    }

    /// Counts the outcome of a request's session, and keeps it for the log.
    pub(super) fn count_session(&self, record: &mut Record, outcome: SessionOutcome) {
        record.keep_session(outcome);
        self.upstream.counters().sessions[outcome.index()].increment();
    }
}

/// Keeps caches from giving a response, and with it the cookie, to others than its client.
fn make_private(headers: &mut HeaderMap) {
    for field in TARGETED {
        headers.remove(field);
    }
    let fields = headers.get_all(CACHE_CONTROL).iter();
    let directives = fields.flat_map(tokens).map(str::to_owned);
    let mut directives: Vec<String> = directives.collect();
    let is = |directive: &String, name: &str| {
        let own = directive.split('=').next().unwrap_or_default().trim();
        own.eq_ignore_ascii_case(name)
    };
    let is_whole = |own: &String| own.eq_ignore_ascii_case("private") || is(own, "no-store");
    if directives.iter().any(is_whole) {
        return;
    }
    // `private="field"` is of that field alone, and a list of fields may be cut by a comma:
    // what is left of one is no directive, and means nothing.
    directives.retain(|own| {
        let others = ["public", "private", "s-maxage"];
        !others.iter().any(|name| is(own, name))
    });
    directives.push("private".to_owned());
    if let Ok(value) = HeaderValue::try_from(directives.join(", ")) {
        headers.insert(CACHE_CONTROL, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_with_a_session_is_for_one_client() {
        for (before, after) in [
            (None, "private"),
            (Some("max-age=60"), "max-age=60, private"),
            (
                Some("public, max-age=60, s-maxage=600"),
                "max-age=60, private",
            ),
            (Some("Public"), "private"),
            (Some("no-cache"), "no-cache, private"),
            (Some("private, max-age=5"), "private, max-age=5"),
            (Some("no-store"), "no-store"),
            (Some("private=\"x-a\", max-age=5"), "max-age=5, private"),
        ] {
            let mut headers = HeaderMap::new();
            if let Some(before) = before {
                headers.insert(CACHE_CONTROL, HeaderValue::from_static(before));
            }
            headers.insert("cdn-cache-control", HeaderValue::from_static("public"));
            make_private(&mut headers);
            assert_eq!(headers[CACHE_CONTROL], after, "{before:?}");
            assert!(!headers.contains_key("cdn-cache-control"));
        }
    }
}
