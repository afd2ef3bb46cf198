//! Complaints about routes and their keys.

use sprat_config::parse;

use super::brief;

/// The part of a file before the third route.
const BEFORE: &str = "version: 1\nlisteners: [{address: 0.0.0.0:80}]\n\
                      clusters: {a: {endpoints: [d:1]}, b: {endpoints: [d:2]}}\nroutes:\n\
                      - {cluster: a, match: {path: /a}}\n- {cluster: b, match: {path: /b}}\n";

/// Returns the complaints about a file.
fn of_file(text: &str) -> Vec<String> {
    match parse(text, "sprat.yaml", &|_| None) {
        Ok(loaded) => brief(&loaded.warnings),
        Err(errors) => brief(&errors),
    }
}

/// Returns the complaints about a third route.
fn of(route: &str) -> Vec<String> {
    of_file(&format!("{BEFORE}- {route}\n"))
}

#[test]
fn a_route_has_one_action() {
    for (route, expected) in [
        (
            "{timeout: 5s}",
            "7:3 this route does nothing | give it one of `cluster`, `weighted_clusters`, \
             `redirect` or `direct_response`",
        ),
        (
            "{cluster: a, direct_response: {status: 200}}",
            "7:33 a route takes `cluster` or `direct_response`, not both | make two routes of it, \
             or remove one of them",
        ),
        (
            "{weighted_clusters: [{cluster: a, weight: 0}]}",
            "7:23 no cluster has a weight: no request could go anywhere | give one of them a \
             weight of 1 or more",
        ),
        (
            "{weighted_clusters: [{cluster: c, weight: 1}]}",
            "7:34 there is no cluster `c` | the clusters are `a` and `b`",
        ),
        (
            "{cluster: a, fallback: c}",
            "7:26 there is no cluster `c` | the clusters are `a` and `b`",
        ),
        (
            "{redirect: {response_code: 302}}",
            "7:14 this redirect leads to where the client is | give it `https_redirect`, \
             `host_redirect`, `port_redirect`, `path_redirect`, `prefix_rewrite` or \
             `regex_rewrite`",
        ),
        (
            "{redirect: {https_redirect: true, response_code: 300}}",
            "7:52 expected 301, 302, 303, 307 or 308, found `300`",
        ),
        (
            "{redirect: {path_redirect: /a, prefix_rewrite: /b}}",
            "7:50 a redirect takes `path_redirect` or `prefix_rewrite`, not both | remove one of \
             them",
        ),
        (
            "{direct_response: {status: 204, body: a}}",
            "7:30 an answer with the status 204 has no body | leave `body` and `file` out, or \
             give another status",
        ),
        (
            "{direct_response: {status: 200, body: a, file: /b}}",
            "7:50 a page takes `body` or `file`, not both | remove one of them",
        ),
        (
            "{cluster: a, prefix_rewrite: /a, regex_rewrite: {pattern: b, substitution: c}}",
            "7:51 a route takes `prefix_rewrite` or `regex_rewrite`, not both | remove one of them",
        ),
        (
            "{cluster: a, error_pages: [{status: [503]}]}",
            "7:30 this page changes nothing | give it a `body`, a `file` or a `response_code`",
        ),
        (
            "{cluster: a, error_pages: [{status: [200], body: x}]}",
            "7:40 expected a status from 400 to 599, 4xx or 5xx, found `200`",
        ),
        (
            "{direct_response: {status: 200}, timeout: 5s}",
            "7:45 warning: `timeout` has no effect here: Sprat answers these requests itself | \
             remove it",
        ),
    ] {
        assert_eq!(of(route), [expected], "{route}");
    }
}

#[test]
fn a_route_that_sprat_answers_has_a_bound_on_bodies() {
    for action in [
        "direct_response: {status: 200}",
        "redirect: {https_redirect: true}",
    ] {
        let route = format!("{{match: {{path: /c}}, {action}, max_request_body: 1KB}}");
        assert_eq!(of(&route), [""; 0], "{route}");
    }
}

#[test]
fn matches_and_values_are_checked() {
    for (route, expected) in [
        (
            "{cluster: a, match: {path: /a, safe_regex: b}}",
            "7:46 a route takes `path` or `safe_regex`, not both | make two routes of it, or \
             remove one of them",
        ),
        (
            "{cluster: a, match: {safe_regex: 'a(b'}}",
            "7:36 `a(b` is no regular expression: unclosed group | the syntax is that of RE2 and \
             the Rust crate regex, without look-around and backreferences",
        ),
        (
            "{cluster: a, match: {headers: [{name: a, value: b, safe_regex: c}]}}",
            "7:66 `value` and `safe_regex` cannot both be given | remove one of them",
        ),
        (
            "{cluster: a, regex_rewrite: {pattern: '(a)', substitution: '\\2'}}",
            "7:62 `\\2` names a group, of which the pattern has 1 | `\\1` is the pattern's first \
             group, `\\0` all that it matched, `\\\\` a backslash",
        ),
        (
            "{cluster: a, request_headers_to_set: [{name: Host, value: b}]}",
            "7:48 `Host` cannot be edited | `host_rewrite` says which `Host` the backend sees",
        ),
        (
            "{cluster: a, response_headers_to_remove: [Content-Length]}",
            "7:45 `Content-Length` cannot be edited | Sprat writes it itself, as the message and \
             the connection need it",
        ),
        (
            "{cluster: a, request_headers_to_set: [{name: a, value: '%RESPONSE_CODE%'}]}",
            "7:58 a request knows nothing of its response | use what the request tells, or make \
             it a field of the response",
        ),
        (
            "{cluster: a, request_headers_to_set: [{name: a, value: '%REQ(:PTH)%'}]}",
            "7:58 there is no variable `%REQ(:PTH)%` | did you mean `%REQ(:PATH)%`? (`%%` is a \
             percent sign)",
        ),
        (
            "{cluster: a, request_headers_to_set: [{name: a, value: 5%}]}",
            "7:58 a `%` begins a variable that does not end | write `%%` for a percent sign",
        ),
    ] {
        assert_eq!(of(route), [expected], "{route}");
    }
}

#[test]
fn who_may_ask_is_checked() {
    for (route, expected) in [
        (
            "{cluster: a, rbac: [{action: allow, users: [anna]}]}",
            "7:46 nothing finds out here who the user is | give the route `basic_auth`, or \
             `ext_authz` with a `user_header`",
        ),
        (
            "{cluster: a, cors: {allow_origins: ['*'], allow_credentials: true}}",
            "7:64 every page could act as the user that it is shown to | list the origins, or \
             leave `allow_credentials` out",
        ),
        (
            "{cluster: a, cors: {allow_origins: ['https://a.example/x']}}",
            "7:39 expected an origin, such as https://app.example.org or https://*.example.org, \
             or *, found `https://a.example/x` | an origin has no path: write https://a.example",
        ),
        (
            "{cluster: a, cors: {allow_origins: [a.example]}}",
            "7:39 expected an origin, such as https://app.example.org or https://*.example.org, \
             or *, found `a.example` | write https://a.example",
        ),
        (
            "{cluster: a, ext_authz: {cluster: c, path: /}}",
            "7:37 there is no cluster `c` | the clusters are `a` and `b`",
        ),
        (
            "{cluster: a, rbac: [{action: permit}]}",
            "7:32 expected what is done with a request: `allow` or `deny`, found `permit`",
        ),
    ] {
        let told = of(route);
        assert!(
            told.iter().any(|told| told == expected),
            "{route}: {told:?}"
        );
    }
}

#[test]
fn a_route_that_never_matches_is_told() {
    let never = "7:3 warning: this route can never match | the route on line 5 takes all its \
                 requests: put this one before it";
    assert_eq!(
        of("{cluster: a, match: {path: /a, methods: [GET]}}"),
        [never]
    );
    // Those before it take some of its requests only.
    let narrow = format!(
        "{BEFORE}- {{cluster: a, match: {{methods: [GET]}}}}\n- {{cluster: b, match: {{methods: [POST]}}}}\n\
         - {{cluster: b, match: {{methods: [PUT], path: /c}}}}\n"
    );
    assert_eq!(of_file(&narrow), [""; 0]);
    let same = format!(
        "{BEFORE}- {{cluster: a, match: {{methods: [GET]}}}}\n- {{cluster: b, match: {{methods: [GET]}}}}\n"
    );
    assert_eq!(of_file(&same).len(), 1);
    // What comes over TLS goes past a redirect to TLS; another redirect takes all.
    for (redirect, told) in [("https_redirect: true", 0), ("host_redirect: a.example", 1)] {
        let file = format!(
            "{BEFORE}- {{redirect: {{{redirect}}}}}\n- {{cluster: a, match: {{path: /c}}}}\n"
        );
        assert_eq!(of_file(&file).len(), told, "{redirect}");
    }
}

#[test]
fn other_proxies_words_are_told_ours() {
    for (route, expected) in [
        (
            "{cluster: a, add_header: b}",
            "7:16 unknown key `add_header` | in Sprat this is `response_headers_to_add` of a \
             route, a list of `{name, value}`",
        ),
        (
            "{return: 404}",
            "7:4 unknown key `return` | in Sprat this is `direct_response: {status: ..., body: \
             ...}`, or `redirect`, of a route",
        ),
    ] {
        assert!(of(route).iter().any(|told| told == expected), "{route}");
    }
    let file = BEFORE.replace("[d:2]", "[d:2], dispatch: leastconn");
    let told = of_file(&file);
    assert!(
        told[0].ends_with("| in Sprat this is `dispatch: least_request`"),
        "{told:?}"
    );
}
