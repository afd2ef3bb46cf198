//! Complaints about sessions, and about the priorities of endpoints beside them.

use sprat_config::parse;

use super::brief;

/// Returns the complaints about a cluster with these keys.
fn of(keys: &str) -> Vec<String> {
    let text = format!(
        "version: 1\nlisteners: [{{address: 0.0.0.0:80}}]\nroutes: [{{cluster: a}}]\n\
         clusters:\n  a:\n    endpoints: [d:1, d:2]\n    {keys}\n"
    );
    match parse(&text, "sprat.yaml", &|_| None) {
        Ok(loaded) => brief(&loaded.warnings),
        Err(errors) => brief(&errors),
    }
}

/// Returns the complaints about a cookie with these keys.
fn of_cookie(keys: &str) -> Vec<String> {
    of(&format!("stateful_session: {{cookie: {{{keys}}}}}"))
}

#[test]
fn a_cookie_is_one_that_browsers_take() {
    let secure = "add {name: Secure} to its attributes";
    for (cookie, message, help) in [
        (
            "name: at, attributes: [{name: SameSite, value: Some}]",
            "`SameSite` is Strict, Lax or None",
            "write {name: SameSite, value: Lax}",
        ),
        (
            "name: at, attributes: [{name: SameSite}]",
            "`SameSite` is Strict, Lax or None",
            "write {name: SameSite, value: Lax}",
        ),
        (
            "name: at, attributes: [{name: Domain}]",
            "`Domain` wants a value",
            "write {name: Domain, value: example.org}",
        ),
        (
            "name: at, attributes: [{name: Secure, value: yes}]",
            "`Secure` has no value",
            "leave `value` out",
        ),
        (
            "name: at, attributes: [{name: Secure}, {name: Secure}]",
            "`Secure` is given twice",
            "remove one of them",
        ),
        (
            "name: at, attributes: [{name: SameSite, value: None}]",
            "browsers take a cookie for other sites' requests over TLS alone",
            secure,
        ),
        (
            "name: at, attributes: [{name: Partitioned}]",
            "browsers take a cookie for other sites' requests over TLS alone",
            secure,
        ),
        (
            "name: __Host-at",
            "browsers take a cookie of this name over TLS alone",
            secure,
        ),
        (
            "name: __Host-at, path: /a, attributes: [{name: Secure}]",
            "browsers take a cookie of this name for `/` and one host alone",
            "leave out `path` and `Domain`, or call it otherwise",
        ),
    ] {
        let told = of_cookie(cookie);
        let (_, text) = told[0].split_once(' ').unwrap();
        assert_eq!(text, format!("{message} | {help}"), "{cookie}");
        assert_eq!(told.len(), 1, "{cookie}");
    }
    for good in [
        "name: at",
        "name: at, ttl: 1h, path: /a, attributes: [{name: HttpOnly}]",
        "name: __Host-at, attributes: [{name: Secure}, {name: SameSite, value: None}]",
    ] {
        assert_eq!(of_cookie(good), [""; 0], "{good}");
    }
    for bad in ["name: 'a b'", "name: at, path: a", "name: at, path: '/;x'"] {
        assert_eq!(of_cookie(bad).len(), 1, "{bad}");
    }
}

#[test]
fn requests_of_sessions_wait_for_their_endpoints() {
    let told = of("stateful_session: {cookie: {name: at}}\n    wait_queue: {scope: cluster}");
    let expected = "8:25 `stateful_session` binds requests to endpoints: they cannot wait for \
                    any | use `scope: endpoint`, or leave it out";
    assert_eq!(told, [expected]);
}

#[test]
fn a_cookie_is_said_as_browsers_read_it() {
    for (cookie, expected) in [
        (
            "ttl: 90m, path: /a, attributes: [{name: SameSite, value: Strict}, {name: HttpOnly}, \
             {name: Secure}, {name: Domain, value: a.example}]",
            "; Path=/a; HttpOnly; Max-Age=5400; SameSite=Strict; Secure; Domain=a.example",
        ),
        ("ttl: 1ms", "; Path=/; HttpOnly; Max-Age=1"),
        // Until the browser ends.
        ("ttl: 0s", "; Path=/; HttpOnly"),
    ] {
        let text = format!(
            "version: 1\nlisteners: [{{address: 0.0.0.0:80}}]\nroutes: [{{cluster: a}}]\n\
             clusters:\n  a:\n    endpoints: [d:1]\n    stateful_session:\n      \
             cookie: {{name: at, {cookie}}}\n"
        );
        let config = parse(&text, "sprat.yaml", &|_| None).unwrap().config;
        let session = config.clusters[0].stateful_session.as_ref().unwrap();
        assert_eq!(session.attributes, expected, "{cookie}");
    }
}

#[test]
fn no_endpoint_stands_by_for_one_with_a_part_of_its_own() {
    for dispatch in ["sita", "rpsq"] {
        let text = format!(
            "version: 1\nlisteners: [{{address: 0.0.0.0:80}}]\nroutes: [{{cluster: a}}]\n\
             clusters:\n  a:\n    endpoints: [d:1, {{address: d:2, priority: 1}}]\n    \
             dispatch: {dispatch}\n"
        );
        let told = brief(&parse(&text, "sprat.yaml", &|_| None).unwrap_err());
        let expected = "7:15 this `dispatch` gives each endpoint its part: none can stand by for \
                        others | use another, such as least_work, or leave `priority` out";
        assert_eq!(told, [expected]);
    }
}
