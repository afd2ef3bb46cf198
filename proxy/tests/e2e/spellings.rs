//! Tests that rules hold for every spelling of a path and of a field's name, over HTTP/1.1 and
//! HTTP/2.

use crate::common::*;
use crate::http2::client;
use sprat_config::resolved::{
    AccessLog, Config, HeadersWithUnderscores, LogFormat, LogTarget, Span,
};

/// Starts an origin that answers with its name and the request's target.
fn named(name: &'static str) -> Origin {
    Origin::http(move |request| {
        let target = request.start.split(' ').nth(1).unwrap();
        ok(&format!("{name} {target}"))
    })
}

const RULES: &str = "
routes:
  - {match: {prefix: /admin}, cluster: vault}
  - {match: {prefix: /files/a%2Fb}, cluster: vault}
  - {match: {prefix: /api}, prefix_rewrite: /v1/public, cluster: farm}
  - match: {prefix: /login}
    cluster: farm
    rate_limit: {token_bucket: {max_tokens: 1, fill_interval: 1h}}
  - {cluster: farm}
classes: {gold: {level: 0}, bulk: {level: 9}}
class_rules:
  - {match: {prefix: /gold}, class: gold}
  - {match: {prefix: /bulk}, class: bulk}
catalogue: {estimator: off}
uplink: {rate: unlimited}
";

struct World {
    _origins: [Origin; 2],
    proxy: Proxy,
}

impl World {
    /// Starts a proxy and its origins. The `keys` are the listener's.
    fn start(keys: &str) -> Self {
        let origins = [named("farm"), named("vault")];
        let text = format!(
            "version: 1\nadmin: off\nruntime: {{workers: 1}}\n\
             listeners: [{{address: '127.0.0.1:0'{keys}}}]\n\
             clusters: {{farm: {{endpoints: ['{}']}}, vault: {{endpoints: ['{}']}}}}\n{RULES}",
            origins[0].address, origins[1].address,
        );
        let loaded = sprat_config::parse(&text, "test", &|_| None);
        let config: Config = loaded.unwrap_or_else(|errors| panic!("{errors}")).config;
        Self {
            proxy: Proxy::logging(config),
            _origins: origins,
        }
    }

    /// Returns the status and text of the answer over HTTP/1.1.
    fn http1(&self, target: &str) -> (u16, String) {
        let answer = self.proxy.connect().ask(get(target));
        (answer.status(), answer.text())
    }

    /// Returns the status and text of the answer over HTTP/2.
    fn http2(&self, target: &str) -> (u16, String) {
        let answer = client::run(async {
            let sender = client::connect(self.proxy.address).await;
            client::ask(&sender, client::request(target)).await
        });
        (answer.status, answer.text().to_owned())
    }

    /// Checks the answer's status and text over both versions.
    fn assert_gets(&self, target: &str, status: u16, text: &str) {
        for (version, (got, said)) in [(1, self.http1(target)), (2, self.http2(target))] {
            assert_eq!(got, status, "{target} over HTTP/{version}: {said}");
            if status == 200 {
                assert_eq!(said, text, "{target} over HTTP/{version}");
            } else {
                assert!(said.contains(text), "{target} over HTTP/{version}: {said}");
            }
        }
    }
}

#[test]
fn a_rule_holds_for_every_spelling() {
    let world = World::start("");
    for (target, text) in [
        ("/api/key", "farm /v1/public/key"),
        ("/api/../secret/key", "farm /secret/key"),
        ("/api/%2e%2e/secret/key", "farm /secret/key"),
        ("/api/.%2E/secret/key", "farm /secret/key"),
        ("/api/x/..", "farm /v1/public/"),
        (
            "/%61pi/a%2Bb%c3%a9?q=%2f..//",
            "farm /v1/public/a%2Bb%C3%A9?q=%2f..//",
        ),
        ("/admin/", "vault /admin/"),
        ("/%61dmin/", "vault /admin/"),
        ("//admin/", "vault /admin/"),
        ("/x/../admin/", "vault /admin/"),
        ("/./%2e/admin//x", "vault /admin/x"),
        ("/%2561dmin/", "farm /%2561dmin/"),
    ] {
        world.assert_gets(target, 200, text);
    }
}

#[test]
fn a_path_above_the_root_is_refused() {
    let world = World::start("");
    for target in ["/../admin", "/api/../../x", "/%2e%2e/x", "/.."] {
        world.assert_gets(target, 400, "path_above_root");
    }
}

#[test]
fn an_encoded_slash_is_kept_where_no_rule_depends_on_how_it_is_read() {
    for keys in ["", ", path_with_escaped_slashes_action: keep"] {
        let world = World::start(keys);
        for (target, text) in [
            ("/api/group%2fproject", "farm /v1/public/group%2Fproject"),
            ("/@npm%2Fcli?x=%2f", "farm /@npm%2Fcli?x=%2f"),
            ("/a%5cb", "farm /a%5Cb"),
            ("/gold/a%2Fb", "farm /gold/a%2Fb"),
            // A route that names it says how it is to be read.
            ("/files/a%2fb", "vault /files/a%2Fb"),
        ] {
            world.assert_gets(target, 200, text);
        }
        // An endpoint that decodes them would serve what another rule is for.
        for target in [
            "/api%2fkey",
            "/admin%2fx",
            "/%61dmin%5Cx",
            "/login%2f",
            "/gold%2fx",
            "/x/%2fadmin/..%2f..%2fadmin",
            "/api/..%2fsecret",
            "/x%5c..%5Cadmin/",
        ] {
            world.assert_gets(target, 400, "escaped_slash");
        }
    }
    for action in ["reject", "reject_request"] {
        let world = World::start(&format!(", path_with_escaped_slashes_action: {action}"));
        for target in ["/api/group%2fproject", "/a%5cb"] {
            world.assert_gets(target, 400, "escaped_slash");
        }
    }
}

#[test]
fn a_rate_limit_is_not_passed_by_another_spelling() {
    let world = World::start("");
    assert_eq!(world.http1("/login").0, 200);
    for target in ["//login", "/./login", "/%6cogin", "/x/../login", "/login"] {
        world.assert_gets(target, 429, "rate_limited");
    }
}

#[test]
fn class_and_log_go_by_the_path_that_is_forwarded() {
    let world = World::start("");
    assert_eq!(world.http1("/gold/../bulk").1, "farm /bulk");
    assert_eq!(world.http2("/%67old/x").1, "farm /gold/x");
    assert_eq!(world.http1("/gold/x?a=/../b").1, "farm /gold/x?a=/../b");
    let lines = world.proxy.log_lines(3);
    let told = |n: usize| {
        let line = &lines[n];
        let text = |key: &str| line[key].as_str().map(str::to_owned);
        (
            text("path").unwrap(),
            text("matched_path"),
            text("class").unwrap(),
        )
    };
    let (path, matched, class) = told(0);
    assert_eq!(
        (&*path, matched.as_deref(), &*class),
        ("/gold/../bulk", Some("/bulk"), "bulk")
    );
    let (path, matched, class) = told(1);
    assert_eq!(
        (&*path, matched.as_deref(), &*class),
        ("/%67old/x", Some("/gold/x"), "gold")
    );
    assert_eq!(
        told(2),
        ("/gold/x?a=/../b".to_owned(), None, "gold".to_owned())
    );
}

#[test]
fn an_absolute_target_and_an_asterisk_are_treated_alike() {
    let world = World::start("");
    let absolute = "GET http://a/x/../%61dmin/ HTTP/1.1\r\nHost: a\r\n\r\n";
    assert_eq!(world.proxy.connect().ask(absolute).text(), "vault /admin/");
    let asterisk = "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n";
    assert_eq!(world.proxy.connect().ask(asterisk).text(), "farm *");
}

#[test]
fn encoded_slashes_are_decoded_if_the_listener_says_so() {
    let forward = World::start(", path_with_escaped_slashes_action: unescape_and_forward");
    forward.assert_gets("/x%2f..%5cadmin%2Fy", 200, "vault /admin/y");
    let forward = World::start(", path_with_escaped_slashes_action: unescape");
    forward.assert_gets("/x%2f..%5cadmin%2Fy", 200, "vault /admin/y");
    let redirect = World::start(", path_with_escaped_slashes_action: unescape_and_redirect");
    let mut client = redirect.proxy.connect();
    let answer = client.ask(get("/x%2f..%2fadmin/?q=%2f"));
    assert_eq!(
        (answer.status(), answer.field("location")),
        (307, Some("/admin/?q=%2f"))
    );
    assert_eq!(answer.field("retry-after"), None);
    assert_eq!(
        client.ask(get("/admin/?q=%2f")).text(),
        "vault /admin/?q=%2f"
    );
    assert_eq!(redirect.http2("/a%2fb").0, 307);
}

#[test]
fn what_is_switched_off_passes_as_it_came() {
    let off = ", normalize_path: false, merge_slashes: false, \
               path_with_escaped_slashes_action: keep_unchanged";
    let world = World::start(off);
    for target in ["/x/../admin/", "//admin/", "/%61dmin/", "/a%2fb", "/../x"] {
        world.assert_gets(target, 200, &format!("farm {target}"));
    }
    let merging = World::start(", normalize_path: false");
    merging.assert_gets("//x//../admin", 200, "farm /x/../admin");
}

#[test]
fn combined_lines_end_with_what_was_matched() {
    let origin = named("farm");
    let mut config = config(&[origin.address]);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("access.log");
    config.access_log = vec![AccessLog {
        target: LogTarget::File(path.clone()),
        format: LogFormat::Combined,
        span: Span::default(),
        filters: Vec::new(),
    }];
    let proxy = Proxy::start(&config);
    assert_eq!(proxy.connect().ask(get("/a/../b")).text(), "farm /b");
    wait_for("the log's line", || {
        std::fs::read_to_string(&path).is_ok_and(|log| log.ends_with(" \"/b\"\n"))
    });
}

/// Starts an origin that answers with the names of the request's fields and trailers.
fn naming() -> Origin {
    Origin::http(|request| {
        let fields = request.fields.iter().chain(&request.trailers);
        let names: Vec<_> = fields.map(|(name, _)| name.as_str()).collect();
        ok(&names.join(" "))
    })
}

const SPELT: [&str; 7] = [
    "transfer_encoding",
    "content_length",
    "keep_alive",
    "proxy_connection",
    "proxy",
    "x_tier",
    "x-tier",
];

/// Returns the names of the fields above that reach the endpoint, sent in the head and in trailers.
/// The first result is over HTTP/1.1, the second over HTTP/2; none if a request is refused.
fn reached(action: HeadersWithUnderscores) -> [Option<Vec<String>>; 2] {
    let origin = naming();
    let mut config = config(&[origin.address]);
    config.listeners[0].headers_with_underscores = action;
    let proxy = Proxy::start(&config);
    let fields: String = SPELT.map(|name| format!("{name}: 1\r\n")).concat();
    // What comes after the body is announced, or the library leaves it out.
    let announced = SPELT.join(", ");
    let old = proxy.connect().ask(format!(
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\
         Trailer: {announced}\r\n{fields}\r\n\
         1\r\nx\r\n0\r\n{fields}\r\n"
    ));
    let map: http::HeaderMap = SPELT
        .map(|name| (name.parse().unwrap(), http::HeaderValue::from_static("1")))
        .into_iter()
        .collect();
    let new = client::run(async {
        let sender = client::connect(proxy.address).await;
        let mut request = http::Request::post("http://test.example/")
            .header("trailer", &announced)
            .body(client::pieces(&["x"], map.clone()))
            .unwrap();
        request.headers_mut().extend(map);
        client::ask(&sender, request).await
    });
    let own = |status: u16, text: &str| {
        let names = text.split(' ').filter(|name| SPELT.contains(name));
        let mut names: Vec<_> = names.map(str::to_owned).collect();
        names.sort();
        (status == 200).then_some(names)
    };
    [own(old.status(), &old.text()), own(new.status, new.text())]
}

#[test]
fn names_that_backends_take_for_others_do_not_reach_them() {
    for names in reached(HeadersWithUnderscores::Allow) {
        assert_eq!(names.unwrap(), ["x-tier", "x-tier", "x_tier", "x_tier"]);
    }
    for names in reached(HeadersWithUnderscores::DropHeader) {
        assert_eq!(names.unwrap(), ["x-tier", "x-tier"]);
    }
    assert_eq!(reached(HeadersWithUnderscores::RejectRequest), [None, None]);
}
