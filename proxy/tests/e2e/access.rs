//! Tests of access over real sockets: rules, users with passwords, an authorisation server, and
//! pages of other origins.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::common::*;
use base64::Engine as _;

/// Starts a proxy with the clusters `app` and `auth` and these routes.
fn serve(app: &Origin, auth: &Origin, routes: &str) -> Proxy {
    serve_with(app, &format!("endpoints: ['{}']", auth.address), routes)
}

/// Starts a proxy as [`serve`] does, with these keys for the cluster `auth`.
fn serve_with(app: &Origin, auth: &str, routes: &str) -> Proxy {
    let text = format!(
        "version: 1\nadmin: off\nruntime: {{workers: 1}}\nuplink: {{rate: unlimited}}\n\
         listeners: [{{address: 127.0.0.1:0}}]\n\
         clusters: {{app: {{endpoints: ['{}']}}, auth: {{{auth}}}}}\n{routes}\n",
        app.address
    );
    let loaded = sprat_config::parse(&text, "test", &|_| None);
    Proxy::logging(loaded.unwrap_or_else(|errors| panic!("{errors}")).config)
}

/// Starts an origin that answers with the request's head.
fn echo() -> Origin {
    Origin::http(|request| {
        let fields = request.fields.iter();
        let fields: String = fields
            .map(|(name, value)| format!("\n{name}: {value}"))
            .collect();
        ok(&format!("{}{fields}", request.start))
    })
}

fn ask(proxy: &Proxy, line: &str, fields: &str) -> Message {
    let request = format!("{line} HTTP/1.1\r\nHost: www.example.org\r\n{fields}\r\n");
    proxy.connect().ask(request)
}

fn basic(user: &str, password: &str) -> String {
    let coded = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}"));
    format!("Authorization: Basic {coded}\r\n")
}

/// Writes a file of users whose hashes take little time.
fn users(directory: &Path, names: &[(&str, &str)]) -> String {
    let line = |(name, password): &(&str, &str)| {
        format!("{name}:{}\n", bcrypt::hash(password, 4).unwrap())
    };
    let path = directory.join("users");
    std::fs::write(&path, names.iter().map(line).collect::<String>()).unwrap();
    path.display().to_string()
}

#[test]
fn the_first_rule_that_fits_decides() {
    let (app, auth) = (echo(), echo());
    let proxy = serve(
        &app,
        &auth,
        "routes:\n- cluster: app\n  rbac:\n  - {action: deny, headers: [{name: X-Bad}]}\n  \
         - {action: allow, clients: [127.0.0.1]}\n  \
         - {action: allow, headers: [{name: X-Key, value: s3cret}]}",
    );
    assert_eq!(ask(&proxy, "GET /", "").status(), 200);
    let bad = ask(&proxy, "GET /", "X-Bad: 1\r\n");
    assert_eq!(bad.status(), 403);
    let other = |fields: &str| {
        let request = format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        proxy.connect_from([127, 0, 0, 2]).ask(request).status()
    };
    assert_eq!(other(""), 403);
    assert_eq!(other("X-Key: s3cret\r\n"), 200);
    assert_eq!(other("X-Key: s3cret!\r\n"), 403);
    let lines = proxy.log_lines(5);
    assert_eq!(lines[1]["reason"], "forbidden");
}

#[test]
fn users_name_themselves_with_a_password() {
    let (app, auth) = (echo(), echo());
    let directory = tempfile::tempdir().unwrap();
    let file = users(directory.path(), &[("anna", "right"), ("ben", "p:w")]);
    let proxy = serve(
        &app,
        &auth,
        &format!(
            "routes:\n- cluster: app\n  match: {{prefix: /admin}}\n  basic_auth: {{users_file: '{file}'}}\n  \
             rbac: [{{action: allow, users: [an*]}}]\n\
             - cluster: app\n  basic_auth: {{users_file: '{file}', realm: staff, forward_username_header: X-User}}\n  \
             request_headers_to_remove: [Authorization]"
        ),
    );
    let asked = ask(&proxy, "GET /", "");
    assert_eq!(asked.status(), 401);
    let challenge = "Basic realm=\"staff\", charset=\"UTF-8\"";
    assert_eq!(asked.field("www-authenticate"), Some(challenge));
    for _ in 0..2 {
        let served = ask(
            &proxy,
            "GET /",
            &(basic("anna", "right") + "X-User: root\r\n"),
        );
        assert_eq!(served.status(), 200);
        let text = served.text();
        assert!(text.contains("x-user: anna"), "{text}");
        assert!(
            !text.contains("root") && !text.contains("authorization"),
            "{text}"
        );
    }
    assert_eq!(ask(&proxy, "GET /", &basic("ben", "p:w")).status(), 200);
    for (user, password) in [
        ("anna", "wrong"),
        ("anna", ""),
        ("eve", "right"),
        ("anna", "p:w"),
    ] {
        let denied = ask(&proxy, "GET /", &basic(user, password));
        assert_eq!(denied.status(), 401, "{user} {password}");
    }
    assert_eq!(
        ask(&proxy, "GET /", "Authorization: Bearer x\r\n").status(),
        401
    );
    assert_eq!(
        ask(&proxy, "GET /admin", &basic("anna", "right")).status(),
        200
    );
    assert_eq!(
        ask(&proxy, "GET /admin", &basic("ben", "p:w")).status(),
        403
    );
    assert_eq!(
        ask(&proxy, "GET /%61dmin", &basic("ben", "p:w")).status(),
        403
    );
    let lines = proxy.log_lines(12);
    assert_eq!(lines[1]["user"], "anna", "{}", lines[1]);
    assert_eq!(lines[0]["reason"], "unauthenticated");
}

#[test]
fn a_file_of_users_that_cannot_be_used_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("sprat.yaml");
    let file = directory.path().join("users");
    std::fs::write(&file, "anna:$apr1$x$y\n").unwrap();
    let text = format!(
        "version: 1\nlisteners: [{{address: 127.0.0.1:0}}]\nclusters: {{a: {{endpoints: [127.0.0.1:1]}}}}\n\
         routes: [{{cluster: a, basic_auth: {{users_file: '{}'}}}}]\n",
        file.display()
    );
    std::fs::write(&path, text).unwrap();
    let check = binary::sprat(&["check", path.to_str().unwrap()])
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&check.stderr);
    assert!(!check.status.success(), "{told}");
    assert!(
        told.contains("hashed by neither bcrypt nor argon2"),
        "{told}"
    );
    assert!(told.contains("sprat.yaml:4:"), "{told}");
}

#[test]
fn a_server_is_asked_about_each_request() {
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    let auth = Origin::http(move |request| {
        counted.fetch_add(1, Ordering::Relaxed);
        let told = |name: &str| request.field(name).unwrap_or("-").to_owned();
        assert_eq!(request.start, "GET /check HTTP/1.1");
        assert_eq!(request.field("x-other"), None);
        match told("cookie").as_str() {
            "session=1" => format!(
                "HTTP/1.1 200 OK\r\nX-User: anna\r\nX-Saw: {} {} {} {}\r\nX-Private: 1\r\nContent-Length: 2\r\n\r\nok",
                told("x-forwarded-method"),
                told("x-forwarded-host"),
                told("x-forwarded-uri"),
                told("x-forwarded-for")
            ),
            _ => "HTTP/1.1 302 Found\r\nLocation: https://login.example/\r\nSet-Cookie: a=b\r\nContent-Length: 5\r\n\r\nlogin".to_owned(),
        }
    });
    let app = echo();
    let proxy = serve(
        &app,
        &auth,
        "routes:\n- cluster: app\n  ext_authz:\n    cluster: auth\n    path: /check\n    \
         allowed_upstream_headers: [X-User, X-Saw]\n    user_header: X-User",
    );
    let refused = ask(&proxy, "GET /a?b", "X-Other: 1\r\n");
    assert_eq!(
        (refused.status(), refused.text()),
        (302, "login".to_owned())
    );
    assert_eq!(refused.field("location"), Some("https://login.example/"));
    assert_eq!(refused.field("set-cookie"), Some("a=b"));
    let body = "Content-Length: 2\r\nCookie: session=1\r\nX-User: root\r\n";
    let served = proxy.connect().ask(format!(
        "POST /a/../%62?c HTTP/1.1\r\nHost: www.example.org:80\r\n{body}\r\nhi"
    ));
    assert_eq!(served.status(), 200);
    let text = served.text();
    assert!(
        text.contains("x-user: anna") && !text.contains("root"),
        "{text}"
    );
    assert!(
        text.contains("x-saw: POST www.example.org:80 /a/../%62?c 127.0.0.1"),
        "{text}"
    );
    assert!(!text.contains("x-private"), "{text}");
    assert_eq!(asked.load(Ordering::Relaxed), 2);
    let lines = proxy.log_lines(2);
    assert_eq!(lines[0]["reason"], "authz_denied");
    assert_eq!(lines[1]["user"], "anna");
}

/// Checks that a client can neither remove nor forge the fields about its user: not by
/// `Connection`, not by a name that backends take for the same, and not where the route sets the
/// field.
#[test]
fn what_is_told_of_a_user_is_what_was_found_out() {
    let auth = Origin::http(|_| {
        "HTTP/1.1 200 OK\r\nX-Tenant: blue\r\nContent-Length: 0\r\n\r\n".to_owned()
    });
    let app = echo();
    let directory = tempfile::tempdir().unwrap();
    let file = users(directory.path(), &[("anna", "right")]);
    let proxy = serve(
        &app,
        &auth,
        &format!(
            "routes:\n- cluster: app\n  \
             basic_auth: {{users_file: '{file}', forward_username_header: X-User}}\n  \
             ext_authz: {{cluster: auth, path: /, allowed_upstream_headers: [X-Tenant]}}\n  \
             request_headers_to_set: [{{name: X-Remote, value: '%REQ(X-User)%'}}]\n  \
             response_headers_to_set: [{{name: X-Seen, value: '%REQ(X-Tenant)%'}}]"
        ),
    );
    let forged = "X-User: root\r\nX_User: root\r\nX-Tenant: red\r\nx_tenant: red\r\n\
                  Connection: X-User, X-Tenant, keep-alive\r\n";
    let served = ask(&proxy, "GET /", &(basic("anna", "right") + forged));
    assert_eq!(served.status(), 200);
    assert_eq!(served.field("x-seen"), Some("blue"));
    let text = served.text();
    for told in ["x-user: anna", "x-tenant: blue", "x-remote: anna"] {
        assert!(text.contains(told), "{told}: {text}");
    }
    assert!(!text.contains("root") && !text.contains("red"), "{text}");
}

#[test]
fn a_server_is_told_more_and_its_user_has_a_class() {
    let auth = Origin::http(|request| {
        let told = request.field("x-original").unwrap_or("nothing");
        let user = request.field("cookie").unwrap_or("nobody");
        format!("HTTP/1.1 200 OK\r\nX-User: {user}\r\nX-Saw: {told}\r\nContent-Length: 0\r\n\r\n")
    });
    let app = echo();
    let proxy = serve(
        &app,
        &auth,
        "classes: {gold: {level: 1}, other: {level: 2}}\n\
         class_rules:\n- {match: {users: [anna*]}, class: gold}\n\
         - {match: {prefix: /other}, class: other}\n- {match: {users: [ben]}, class: gold}\n\
         routes:\n- cluster: app\n  ext_authz:\n    cluster: auth\n    path: /check\n    \
         headers_to_add: [{name: X-Original, value: '%REQ(:METHOD)% %REQ(:PATH)% %REQ(X-A)%'}]\n    \
         allowed_upstream_headers: [X-Saw]\n    user_header: X-User",
    );
    let text = ask(&proxy, "GET /a?b", "X-A: 1\r\nCookie: anna-2\r\n").text();
    assert!(text.contains("x-saw: GET /a?b 1"), "{text}");
    ask(&proxy, "GET /other", "Cookie: ben\r\n");
    ask(&proxy, "GET /other", "Cookie: anna\r\n");
    ask(&proxy, "GET /", "Cookie: carla\r\n");
    let lines = proxy.log_lines(4);
    let classes: Vec<_> = lines.iter().map(|line| &line["class"]).collect();
    assert_eq!(classes, ["gold", "other", "gold", "default"]);
}

#[test]
fn explain_says_what_is_decided_of_a_user() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("sprat.yaml");
    let file = users(directory.path(), &[("anna", "right"), ("ben", "p:w")]);
    let text = format!(
        "version: 1\nadmin: off\nlisteners: [{{address: '127.0.0.1:8080'}}]\n\
         clusters: {{app: {{endpoints: ['127.0.0.1:8000']}}}}\n\
         classes: {{gold: {{level: 1}}, other: {{level: 5}}}}\n\
         class_rules:\n- {{match: {{users: [anna*]}}, class: gold}}\n\
         - {{match: {{prefix: /other}}, class: other}}\n\
         - {{match: {{users: [ben]}}, class: gold}}\n\
         routes:\n- {{match: {{prefix: /open}}, cluster: app}}\n\
         - cluster: app\n  basic_auth: {{users_file: '{file}'}}\n  \
         rbac: [{{action: allow, users: [an*, ben]}}]\n"
    );
    std::fs::write(&path, text).unwrap();
    let explain = |at: &str, user: &[&str]| {
        let request = format!("GET http://a{at}");
        let arguments = [
            "explain",
            "-c",
            path.to_str().unwrap(),
            "--request",
            &request,
        ];
        let mut command = binary::sprat(&arguments);
        let output = command.args(user).output().unwrap();
        let all = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(all).unwrap())
    };
    for (at, user, class, verdict) in [
        (
            "/",
            None,
            "default, level 3",
            "refuses this request, as no user's: 403",
        ),
        (
            "/",
            Some("anna-2"),
            "gold, level 1",
            "lets this request pass",
        ),
        (
            "/other",
            Some("anna"),
            "gold, level 1",
            "lets this request pass",
        ),
        (
            "/other",
            Some("ben"),
            "other, level 5",
            "lets this request pass",
        ),
        ("/", Some("ben"), "gold, level 1", "lets this request pass"),
        (
            "/",
            Some("carla"),
            "default, level 3",
            "refuses this request: 403",
        ),
    ] {
        let user: Vec<_> = user.iter().flat_map(|own| ["--user", own]).collect();
        let (is_told, text) = explain(at, &user);
        assert!(is_told, "{text}");
        for line in [
            format!("class     {class}\n"),
            format!("access    rbac {verdict}"),
            format!("access    basic_auth: a user of {file}\n"),
        ] {
            assert!(text.contains(&line), "{at} {user:?}: {line}\n{text}");
        }
    }
    let (is_told, text) = explain("/open", &["--user", "anna"]);
    assert!(!is_told);
    assert!(
        text.contains("finds out no user: leave `--user` out"),
        "{text}"
    );
}

#[test]
fn a_server_that_does_not_answer_opens_nothing_unless_it_is_said() {
    let app = echo();
    let silent = Origin::start(|peer| {
        std::thread::sleep(Duration::from_secs(20));
        drop(peer);
    });
    let proxy = serve(
        &app,
        &silent,
        "routes:\n- {match: {path: /open}, cluster: app, ext_authz: {cluster: auth, path: /, timeout: 100ms, failure_mode_allow: true}}\n\
         - {cluster: app, ext_authz: {cluster: auth, path: /, timeout: 100ms}}",
    );
    assert_eq!(ask(&proxy, "GET /", "").status(), 503);
    assert_eq!(ask(&proxy, "GET /open", "").status(), 200);
}

/// Checks that an authorisation request goes to another endpoint if its own is not there: to a
/// busier one, or to one that stands by.
#[test]
fn questions_go_to_the_endpoint_that_is_there() {
    let app = echo();
    // While it thinks, the cluster takes the other one for the one with less to do.
    let auth = Origin::http(|request| {
        std::thread::sleep(Duration::from_millis(50));
        let status = match request.field("cookie") {
            Some(_) => "200 OK",
            None => "403 Forbidden",
        };
        format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n")
    });
    let dead = free_address();
    let outliers = "outlier_detection: {consecutive_local_origin_failure: 3}";
    for endpoints in [
        format!("['{}', '{dead}']", auth.address),
        format!("['{dead}', {{address: '{}', priority: 1}}]", auth.address),
    ] {
        let keys = format!("endpoints: {endpoints}, {outliers}");
        let proxy = serve_with(
            &app,
            &keys,
            "routes:\n- cluster: app\n  \
             ext_authz: {cluster: auth, path: /, failure_mode_allow: true}",
        );
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..4 {
                        let served = ask(&proxy, "GET /", "Cookie: session=1\r\n");
                        assert_eq!(served.status(), 200, "{endpoints}");
                        let refused = ask(&proxy, "GET /", "");
                        assert_eq!(refused.status(), 403, "{endpoints}");
                    }
                });
            }
        });
        let label = format!("endpoint=\"{dead}\"");
        let refused = proxy.metric(&["sprat_upstream_errors", &label, "connection_refused"]);
        assert!(refused >= 3.0, "{endpoints}: {refused}");
        // So it is asked no more.
        assert_eq!(proxy.metric(&["sprat_endpoint_ejected", &label]), 1.0);
        proxy.assert_no_leak();
    }
}

#[test]
fn a_question_is_asked_again_if_its_kept_connection_was_closed() {
    let app = echo();
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    let auth = Origin::start(move |mut peer| {
        let mut is_first = true;
        while peer.try_message(true).is_some() {
            counted.fetch_add(1, Ordering::SeqCst);
            if !std::mem::take(&mut is_first) {
                return;
            }
            peer.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        }
    });
    let proxy = serve(
        &app,
        &auth,
        "routes: [{cluster: app, ext_authz: {cluster: auth, path: /}}]",
    );
    for questions in [1, 3, 5] {
        assert_eq!(ask(&proxy, "GET /", "").status(), 200);
        assert_eq!(asked.load(Ordering::SeqCst), questions);
        let kept = ["sprat_upstream_idle_connections", "cluster=\"auth\""];
        proxy.wait_metric(&kept, 1.0);
    }
    assert_eq!(proxy.metric(&["sprat_upstream_errors"]), 0.0);
    proxy.assert_no_leak();
}

#[test]
fn an_endpoint_that_does_not_answer_questions_is_ejected() {
    let app = echo();
    let auth = Origin::http(|_| ok(""));
    let doings: [fn(Peer); 2] = [
        |peer| {
            std::thread::sleep(Duration::from_secs(20));
            drop(peer);
        },
        |mut peer| drop(peer.try_message(true)),
    ];
    for doing in doings {
        let bad = Origin::start(doing);
        let keys = format!(
            "endpoints: ['{}', '{}'], dispatch: round_robin, \
             outlier_detection: {{consecutive_local_origin_failure: 1}}",
            bad.address, auth.address
        );
        let proxy = serve_with(
            &app,
            &keys,
            "routes: [{cluster: app, ext_authz: {cluster: auth, path: /, timeout: 500ms}}]",
        );
        let statuses = [(); 6].map(|()| ask(&proxy, "GET /", "").status());
        let failed = statuses.iter().filter(|&&status| status == 503);
        assert_eq!(failed.count(), 1, "{statuses:?}");
        assert_eq!(proxy.metric(&["sprat_endpoint_ejected"]), 1.0);
        proxy.assert_no_leak();
    }
}

#[test]
fn pages_of_other_origins_are_told_what_they_may() {
    let app = Origin::http(|_| {
        let body = "ok";
        format!(
            "HTTP/1.1 200 OK\r\nAccess-Control-Allow-Origin: *\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
    });
    let auth = echo();
    let directory = tempfile::tempdir().unwrap();
    let file = users(directory.path(), &[("anna", "right")]);
    let proxy = serve(
        &app,
        &auth,
        &format!(
            "routes:\n- cluster: app\n  basic_auth: {{users_file: '{file}'}}\n  cors:\n    \
             allow_origins: ['https://*.example.org', 'https://one.test']\n    allow_methods: [PUT]\n    \
             allow_headers: [X-Key]\n    expose_headers: [X-Cost]\n    allow_credentials: true\n    max_age: 1h"
        ),
    );
    let preflight = |origin: &str| {
        let fields = format!(
            "Origin: {origin}\r\nAccess-Control-Request-Method: PUT\r\nAccess-Control-Request-Headers: x-key\r\n"
        );
        let mut client = proxy.connect();
        client.send(format!("OPTIONS /a HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
        client.try_message(false).unwrap()
    };
    let told = preflight("https://app.example.org");
    assert_eq!(told.status(), 204);
    assert_eq!(
        told.field("access-control-allow-origin"),
        Some("https://app.example.org")
    );
    assert_eq!(
        told.field("access-control-allow-methods"),
        Some("GET, HEAD, POST, PUT")
    );
    assert_eq!(told.field("access-control-allow-headers"), Some("X-Key"));
    assert_eq!(told.field("access-control-allow-credentials"), Some("true"));
    assert_eq!(told.field("access-control-max-age"), Some("3600"));
    assert_eq!(told.field("vary"), Some("Origin"));
    assert_eq!(preflight("https://example.org.evil.test").status(), 403);
    // A page must be able to read that it is refused.
    let refused = ask(&proxy, "GET /", "Origin: https://one.test\r\n");
    assert_eq!(refused.status(), 401);
    assert_eq!(
        refused.field("access-control-allow-origin"),
        Some("https://one.test")
    );
    let from = |origin: &str| ask(&proxy, "GET /", &(basic("anna", "right") + origin));
    let served = from("Origin: https://one.test\r\n");
    assert_eq!(
        served.field("access-control-allow-origin"),
        Some("https://one.test")
    );
    assert_eq!(
        served.field("access-control-expose-headers"),
        Some("X-Cost")
    );
    let other = from("Origin: https://evil.test\r\n");
    assert_eq!(
        (other.status(), other.field("access-control-allow-origin")),
        (200, None)
    );
    assert_eq!(other.field("vary"), Some("Origin"));
}
