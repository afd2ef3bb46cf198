//! The dashboard: a page for browsers, with its style and script, all of it in the binary.
//!
//! Nothing of it comes from elsewhere, and its policy (CSP) lets it ask this listener alone.

use std::sync::LazyLock;

use http::header::{
    ACCEPT, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH,
    REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode};
use sprat_scheduler::dispatch::stable_hash;

use super::answer::{AdminAnswer, plain};
use super::seats::Answering;

/// A part of the dashboard.
struct DashboardPart {
    path: &'static str,
    content_type: &'static str,
    text: &'static str,
}

const PARTS: [DashboardPart; 6] = [
    DashboardPart {
        path: "/",
        content_type: "text/html; charset=utf-8",
        text: include_str!("dashboard/index.html"),
    },
    DashboardPart {
        path: "/dashboard.css",
        content_type: "text/css; charset=utf-8",
        text: include_str!("dashboard/dashboard.css"),
    },
    DashboardPart {
        path: "/dashboard.js",
        content_type: "text/javascript; charset=utf-8",
        text: include_str!("dashboard/dashboard.js"),
    },
    DashboardPart {
        path: "/history.js",
        content_type: "text/javascript; charset=utf-8",
        text: include_str!("dashboard/history.js"),
    },
    DashboardPart {
        path: "/drawing.js",
        content_type: "text/javascript; charset=utf-8",
        text: include_str!("dashboard/drawing.js"),
    },
    DashboardPart {
        path: "/dashboard.svg",
        content_type: "image/svg+xml",
        text: include_str!("dashboard/dashboard.svg"),
    },
];

/// The dashboard's content security policy. Scripts and styles come from this listener alone,
/// none stand within the page, and no other site is asked, may frame it, or is sent to.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'; require-trusted-types-for 'script'";

/// The fields of a head that every part bears.
const FIELDS: [(HeaderName, &str); 6] = [
    (CONTENT_SECURITY_POLICY, POLICY),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (X_FRAME_OPTIONS, "DENY"),
    (REFERRER_POLICY, "no-referrer"),
    // Asked for anew each time: another version may be running.
    (CACHE_CONTROL, "no-cache"),
    (VARY, "accept"),
];

/// The entity tags of the parts, made of their texts.
static TAGS: LazyLock<[HeaderValue; PARTS.len()]> = LazyLock::new(|| {
    std::array::from_fn(|part| {
        let hash = stable_hash(&[PARTS[part].text.as_bytes()]);
        let tag = HeaderValue::from_str(&format!("\"{hash:016x}\""));
        tag.expect("a tag is of hexadecimal digits")
    })
});

/// Returns whether a client asks for a page for people: a browser, not `curl` or a probe.
pub(super) fn is_wanted<B>(request: &Request<B>) -> bool {
    let accepts = request.headers().get_all(ACCEPT).iter();
    let mut types = accepts
        .filter_map(|field| field.to_str().ok())
        .flat_map(|field| field.split(','));
    types.any(|range| {
        let (range, parameters) = range.split_once(';').unwrap_or((range, ""));
        range.trim().eq_ignore_ascii_case("text/html") && parameters.trim() != "q=0"
    })
}

/// Returns whether a path is one of the dashboard's.
pub(super) fn is_part(path: &str) -> bool {
    PARTS.iter().any(|part| part.path == path)
}

/// Answers with a part of the dashboard, unless the client has it.
pub(super) fn part<B>(request: &Request<B>, answering: Answering) -> Response<AdminAnswer> {
    let found = PARTS
        .iter()
        .position(|part| part.path == request.uri().path());
    let Some(index) = found else {
        return plain(StatusCode::NOT_FOUND, "no such page\n", answering);
    };
    let (part, tag) = (&PARTS[index], &TAGS[index]);
    let mut response = match is_known(request.headers(), tag) {
        true => plain(StatusCode::NOT_MODIFIED, "", answering),
        false => plain(StatusCode::OK, part.text, answering),
    };
    let headers = response.headers_mut();
    for (name, value) in FIELDS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(part.content_type));
    headers.insert(ETAG, tag.clone());
    response
}

/// Returns whether a client has the part with this tag already (RFC 9110 13.1.2).
fn is_known(headers: &HeaderMap, tag: &HeaderValue) -> bool {
    let fields = headers.get_all(IF_NONE_MATCH).iter();
    let tags = fields
        .filter_map(|field| field.to_str().ok())
        .flat_map(|field| field.split(','));
    tags.map(|own| own.trim().trim_start_matches("W/"))
        .any(|own| own.as_bytes() == tag.as_bytes() || own == "*")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn browsers_alone_want_the_dashboard() {
        for (accept, expected) in [
            ("text/html,application/xhtml+xml,*/*;q=0.8", true),
            ("application/json, TEXT/HTML;q=0.5", true),
            ("*/*", false),
            ("text/plain", false),
            ("text/html;q=0, */*", false),
            ("application/openmetrics-text; version=1.0.0", false),
        ] {
            let request = Request::get("/").header(ACCEPT, accept);
            let is_wanted = is_wanted(&request.body(()).unwrap());
            assert_eq!(is_wanted, expected, "{accept}");
        }
        assert!(!is_wanted(&Request::new(())));
    }

    #[test]
    fn a_part_that_is_known_is_not_sent_again() {
        let tag = HeaderValue::from_static("\"1\"");
        for (field, expected) in [
            ("\"1\"", true),
            ("W/\"1\"", true),
            ("\"0\", \"1\"", true),
            ("*", true),
            ("\"0\"", false),
            ("1", false),
        ] {
            let field = HeaderValue::from_static(field);
            let headers = HeaderMap::from_iter([(IF_NONE_MATCH, field)]);
            assert_eq!(is_known(&headers, &tag), expected);
        }
    }

    /// Checks that no part asks another site for anything: the policy would refuse it,
    /// and a machine without the internet could not have it.
    #[test]
    fn nothing_comes_from_elsewhere() {
        for part in PARTS {
            let text = part.text.replace("http://www.w3.org/2000/svg", "");
            for foreign in ["http://", "https://", "src=\"//", "@import", "style=\""] {
                assert!(!text.contains(foreign), "{}: {foreign}", part.path);
            }
        }
        let page = PARTS[0].text;
        for part in &PARTS[1..] {
            let named = page.contains(&part.path[1..]) || PARTS[2].text.contains(part.path);
            assert!(named, "{} is for nothing", part.path);
        }
    }
}
