//! What is made of configurations of HAProxy.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod common;

use std::time::Duration;

use common::Memory;
use proptest::prelude::*;
use sprat_config::resolved::{Account, Action, Config, Route, TlsVersion};
use sprat_import::{Imported, Note, Options, Outcome, haproxy};

fn import(text: &str) -> Imported {
    let mut files = Memory::of(&[("haproxy.cfg", text)]);
    let imported = haproxy("haproxy.cfg", &mut files, &Options::default());
    imported.unwrap_or_else(|fault| panic!("{fault}"))
}

fn parsed(imported: &Imported) -> Config {
    let loaded = sprat_config::parse(&imported.yaml, "imported", &|_| None);
    loaded
        .unwrap_or_else(|errors| panic!("{errors}\n{}", imported.yaml))
        .config
}

fn forwards(route: &Route) -> bool {
    matches!(route.action, Action::Forward(_))
}

/// A frontend with these lines, before a backend.
fn frontend(lines: &str) -> String {
    format!(
        "defaults\n mode http\nfrontend f\n bind :80\n{lines}\n default_backend b\n\
         backend b\n server a 10.0.0.1:80\nbackend c\n server a 10.0.0.2:80\n"
    )
}

/// The routes, in YAML, without comments and titles.
fn routes(lines: &str) -> String {
    let yaml = import(&frontend(lines)).yaml;
    let (_, routes) = yaml.split_once("\nroutes:\n").unwrap();
    let lines = routes
        .lines()
        .filter(|line| !line.trim_start().starts_with('#'));
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn a_farm_is_accepted_and_every_exception_is_told() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/farms/shop.cfg");
    let imported = import(&std::fs::read_to_string(path).unwrap());
    let config = parsed(&imported);
    assert_eq!((config.listeners.len(), config.clusters.len()), (1, 4));
    for note in imported.summary.exceptions() {
        assert!(imported.yaml.contains(&format!("# {note}\n")), "{note}");
        assert!(!note.told.is_empty(), "{note}");
    }
}

#[test]
fn conditions_choose_the_backend() {
    let found = routes(
        " acl api path_beg /api/\n acl mine hdr(host) -i a.example b.example\n\
         use_backend c if api mine or { method PURGE }\n",
    );
    let expected = "  \
  - match: {hosts: [a.example, b.example], prefix: /api/}
    cluster: c
  - match: {methods: [PURGE]}
    cluster: c
  - cluster: b";
    assert_eq!(
        found
            .lines()
            .filter(|line| !line.contains("dispatch"))
            .collect::<Vec<_>>()
            .join("\n"),
        expected
    );
}

#[test]
fn those_that_a_rule_is_not_for_go_on_before_it() {
    let found =
        routes(" acl office src 192.0.2.0/24\n http-request deny if { path_beg /admin } !office\n");
    let expected = "  \
  - match: {safe_regex: '/admin.*', clients: ['192.0.2.0/24']}
    cluster: b
  - match: {safe_regex: '/admin.*'}
    direct_response: {status: 403}
  - cluster: b";
    assert_eq!(found, expected);
}

#[test]
fn what_guards_and_cannot_be_said_refuses() {
    for guard in [
        "http-request auth unless { http_auth(users) }",
        "http-request deny if { src -f /etc/blocked }",
        "http-request deny unless { ssl_c_used }",
        "acl x lua.check\n http-request deny if !x",
        "http-request set-path %[path,lower]",
        "redirect location /login if { req.cook(a),base64 x }",
        "http-response deny if { res.hdr(x-secret) -m found }",
        "tcp-response content reject",
    ] {
        let imported = import(&frontend(guard));
        assert!(
            !parsed(&imported).routes.iter().any(forwards),
            "{guard}\n{}",
            imported.yaml
        );
        assert!(imported.summary.count(Outcome::Not) > 0, "{guard}");
    }
    // What counts over time is left out, and told.
    let counted = import(&frontend(
        "stick-table type ip size 1m store http_req_rate(10s)\n http-request track-sc0 src\n\
         http-request deny if { sc_http_req_rate(0) gt 20 }",
    ));
    assert!(parsed(&counted).routes.iter().any(forwards));
    assert_eq!(counted.summary.count(Outcome::Not), 3);
}

#[test]
fn plain_text_leads_to_tls() {
    let text = "defaults\n mode http\nfrontend p\n bind *:80\n http-request redirect scheme https code 301 unless { ssl_fc }\n\
        frontend s\n bind *:443 ssl crt /c.pem alpn h2,http/1.1\n default_backend b\nbackend b\n server a 10.0.0.1:80";
    let config = parsed(&import(text));
    assert_eq!((config.listeners.len(), config.routes.len()), (2, 2));
    let first = matches!(&config.routes[0].action, Action::Redirect(own) if own.https);
    assert!(first && forwards(&config.routes[1]));
    let one = "defaults\n mode http\nfrontend p\n bind *:80\n bind *:443 ssl crt /c.pem\n\
        redirect scheme https code 301 if !{ ssl_fc }\n http-request set-header X-Forwarded-Proto https if { ssl_fc }\n option forwardfor\n\
        default_backend b\nbackend b\n server a 10.0.0.1:80";
    let imported = import(one);
    let config = parsed(&imported);
    assert_eq!(config.routes.len(), 2, "{}", imported.yaml);
    assert!(
        config
            .listeners
            .iter()
            .all(|own| own.forwarding.x_forwarded)
    );
}

/// Checks that a client whose certificate HAProxy refuses as revoked is refused here, too.
#[test]
fn revoked_certificates_stay_revoked() {
    let text = "defaults\n mode http\nfrontend s\n \
        bind *:443 ssl crt /c.pem ca-file /ca.pem verify required crl-file /crl.pem\n \
        default_backend b\nbackend b\n server a 10.0.0.1:80";
    let imported = import(text);
    let config = parsed(&imported);
    let tls = config.listeners[0].tls.as_ref().unwrap();
    let clients = tls.client_certificates.as_ref().unwrap();
    let lists = clients.crl_files.iter().map(|own| own.path.to_str());
    assert_eq!(lists.collect::<Vec<_>>(), [Some("/crl.pem")]);
}

#[test]
fn backends_become_clusters() {
    let imported = import(
        "defaults\n mode http\n timeout connect 3s\n timeout server 30s\nlisten l\n bind 127.0.0.1:8080\n balance source\n option httpchk GET /up\n\
         http-check expect status 200,204\n default-server check inter 3s fall 2 maxconn 9\n server a a.example:80 weight 3\n server b 10.0.0.2:443 ssl verify required ca-file /ca sni str(b.example) backup\n",
    );
    let config = parsed(&imported);
    let cluster = &config.clusters[0];
    assert_eq!(
        (
            config.clusters.len(),
            cluster.max_requests,
            cluster.connect_timeout.as_secs()
        ),
        (1, 9, 3)
    );
    assert_eq!(cluster.endpoints[1].priority, 1, "{}", imported.yaml);
    assert!(
        cluster.resilience.health_checks.is_some(),
        "{}",
        imported.yaml
    );
    assert_eq!(config.routes[0].response_timeout.as_secs(), 30);
}

/// Checks that health checks ask what HAProxy asks, and take the answers that it takes.
#[test]
fn checks_ask_and_expect_the_same() {
    let import_of = |lines: &str| {
        import(&format!(
            "defaults\n mode http\nlisten l\n bind :80\n {lines}\n server a 10.0.0.1:80 check\n"
        ))
    };
    let exceptions = |imported: &Imported| {
        let is_one =
            |own: &&Note| own.directive.contains("chk") || own.directive.contains("check ");
        imported.summary.exceptions().filter(is_one).count()
    };
    let host = Some("a.example");
    for (lines, method, path, host, statuses) in [
        ("option httpchk", "OPTIONS", "/", None, vec![(200, 399)]),
        (
            "option httpchk /up",
            "OPTIONS",
            "/up",
            None,
            vec![(200, 399)],
        ),
        (
            "option httpchk GET /up HTTP/1.1\\r\\nHost:\\ a.example",
            "GET",
            "/up",
            host,
            vec![(200, 399)],
        ),
        (
            "option httpchk GET /up HTTP/1.1 a.example\n http-check expect status 200,300-310",
            "GET",
            "/up",
            host,
            vec![(200, 200), (300, 310)],
        ),
        (
            "option httpchk\n http-check send meth HEAD uri /host ver HTTP/1.1 hdr Host a.example",
            "HEAD",
            "/host",
            host,
            vec![(200, 399)],
        ),
    ] {
        let imported = import_of(lines);
        let config = parsed(&imported);
        let checks = config.clusters[0].resilience.health_checks.as_ref();
        let http = checks.unwrap().http.as_ref().unwrap();
        assert_eq!(
            (&*http.method, &*http.path, http.host.as_deref()),
            (method, path, host),
            "{lines}"
        );
        assert_eq!(http.expected_statuses, statuses, "{lines}");
        assert_eq!(exceptions(&imported), 0, "{lines}");
    }
    // What Sprat would refuse takes nothing else away.
    for (lines, method, path) in [
        (
            "option httpchk OPTIONS * HTTP/1.1\\r\\nHost:\\ www",
            "OPTIONS",
            "/",
        ),
        ("option httpchk get /up", "GET", "/up"),
        ("option httpchk CONNECT /up", "OPTIONS", "/up"),
        ("option httpchk GET /up\n http-check send uri *", "GET", "/"),
        ("option httpchk GET /up HTTP/1.1 10.0.0.300", "GET", "/up"),
        ("option httpchk GET /up HTTP/1.1 ::1", "GET", "/up"),
        ("option httpchk GET /up HTTP/1.1 www:", "GET", "/up"),
        (
            "option httpchk\n http-check send meth HEAD uri /a\n http-check send uri /b",
            "HEAD",
            "/a",
        ),
    ] {
        let imported = import_of(lines);
        let config = parsed(&imported);
        let checks = config.clusters[0].resilience.health_checks.as_ref();
        let http = checks.unwrap().http.as_ref().unwrap();
        assert_eq!((&*http.method, &*http.path), (method, path), "{lines}");
        assert_eq!(exceptions(&imported), 1, "{lines}");
    }
    // What checks cannot send or ask is told, and takes nothing else away.
    for lines in [
        "http-check send hdr X-A b",
        "http-check send hdr Host %[src]",
        "http-check send meth POST uri / body x",
        "http-check send uri-lf /%[src]",
        "http-check expect ! status 500",
        "http-check expect status 100",
        "http-check expect status 200\n http-check expect string ok",
    ] {
        let imported = import_of(&format!("option httpchk\n {lines}"));
        assert_eq!(exceptions(&imported), 1, "{lines}");
        let config = parsed(&imported);
        assert!(config.clusters[0].resilience.health_checks.is_some());
    }
}

/// Checks that a slow answer fails a check when it fails HAProxy's.
#[test]
fn a_check_may_last_an_interval() {
    let text = "defaults\n mode http\nlisten l\n bind :80\n server a 10.0.0.1:80 check inter 7s\n";
    let lasts = |text: &str| {
        let config = parsed(&import(text));
        let checks = config.clusters[0].resilience.health_checks.as_ref();
        checks.unwrap().timeout.as_secs()
    };
    assert_eq!(lasts(text), 7);
    assert_eq!(lasts(&text.replace(" bind", " timeout check 3s\n bind")), 3);
}

#[test]
fn sessions_are_kept_by_a_cookie() {
    let text = "defaults\n mode http\nlisten l\n bind 127.0.0.1:8080\n \
                cookie SRV insert secure domain a.example\n \
                server a 10.0.0.1:80 cookie a\n server b 10.0.0.2:80 cookie b\n";
    let imported = import(text);
    let config = parsed(&imported);
    let kept = config.clusters[0].stateful_session.as_ref().unwrap();
    assert_eq!(kept.cookie, "SRV");
    let expected = "; Path=/; HttpOnly; Secure; Domain=a.example";
    assert_eq!(kept.attributes, expected, "{}", imported.yaml);
    let other = import(&text.replace("insert", "rewrite"));
    assert!(parsed(&other).clusters[0].stateful_session.is_none());
}

#[test]
fn bad_input_is_told_with_its_place() {
    for (text, expected) in [
        (
            "bind :80",
            "haproxy.cfg:1: expected a section, such as `frontend web`, found `bind`",
        ),
        (
            "frontend f\n bind ':80",
            "haproxy.cfg:2: expected a closing '",
        ),
        (
            "frontend f\n mode tcp\n bind :80",
            "haproxy.cfg:1: nothing here listens for HTTP: expected an address and a port",
        ),
    ] {
        let mut files = Memory::of(&[("haproxy.cfg", text)]);
        let fault = haproxy("haproxy.cfg", &mut files, &Options::default()).unwrap_err();
        assert_eq!(fault.to_string(), expected);
    }
}

/// Checks that connections which HAProxy rejects are not served here.
#[test]
fn rejected_connections_are_answered_403() {
    for lines in [
        "tcp-request connection reject if !{ src 10.0.0.0/8 }",
        "tcp-request session reject unless { src 10.0.0.0/8 }",
        "tcp-request connection accept if { src 10.0.0.0/8 }\n tcp-request connection reject",
        "tcp-request content accept if HTTP { src 10.0.0.0/8 }\n tcp-request content reject",
    ] {
        let expected = "  \
  - match: {clients: ['10.0.0.0/8']}
    cluster: b
  - direct_response: {status: 403}";
        assert_eq!(routes(lines), expected, "{lines}");
    }
    // What accepts connections lets them go on to the rules for requests.
    let found = routes(
        "tcp-request connection accept if { src 10.0.0.0/8 }\n tcp-request connection reject\n \
         tcp-request content reject if { path /x }\n http-request deny if { path /y }",
    );
    let expected = "  \
  - match: {path: /x, clients: ['10.0.0.0/8']}
    direct_response: {status: 403}
  - match: {path: /y, clients: ['10.0.0.0/8']}
    direct_response: {status: 403}
  - match: {clients: ['10.0.0.0/8']}
    cluster: b
  - direct_response: {status: 403}";
    assert_eq!(found, expected);
    for lines in [
        "tcp-request connection reject unless { src -f /etc/allowed }",
        "tcp-request content accept if { req_ssl_sni x }\n tcp-request content reject",
        "tcp-request content lua.check",
        "http-request lua.check",
        // Connections come from the proxy before, which no route sees.
        "bind :81 accept-proxy\n tcp-request connection reject if !{ src 10.0.0.0/8 }",
    ] {
        let imported = import(&frontend(lines));
        let is_open = parsed(&imported).routes.iter().any(forwards);
        assert!(!is_open, "{lines}\n{}", imported.yaml);
        assert!(imported.summary.count(Outcome::Not) > 0, "{lines}");
    }
    let counted = routes("tcp-request connection reject if { src_conn_rate ge 10 }");
    assert_eq!(counted, "  - cluster: b");
    let monitored =
        routes("monitor-uri /up\n tcp-request connection reject if !{ src 10.0.0.0/8 }");
    let expected = "  \
  - match: {path: /up, clients: ['10.0.0.0/8']}
    direct_response: {status: 200}
  - match: {path: /up}
    direct_response: {status: 403}";
    assert!(monitored.starts_with(expected), "{monitored}");
}

/// Checks that the rules of `defaults` come before a section's own.
#[test]
fn rules_of_defaults_come_first() {
    let text = "defaults d\n mode http\n acl bad path /a\n http-request deny if bad\n \
                default-server ssl verify required ca-file /ca.pem\n\
                frontend f\n bind :80\n acl bad path /b\n http-request deny deny_status 404 if bad\n \
                default_backend b\nbackend b\n default-server maxconn 50\n server a 10.0.0.1:443\n";
    let imported = import(text);
    let (_, found) = imported.yaml.split_once("\nroutes:\n").unwrap();
    let order = ["path: /a}", "status: 403", "path: /b}", "status: 404"];
    let places: Vec<usize> = order.iter().map(|own| found.find(own).unwrap()).collect();
    assert!(places.is_sorted(), "{found}");
    let config = parsed(&imported);
    assert_eq!(config.clusters[0].max_requests, 50);
    assert!(config.clusters[0].tls.is_some(), "{}", imported.yaml);
    // One server may take it back.
    let plain = text.replace(":443", ":80 no-ssl");
    assert!(parsed(&import(&plain)).clusters[0].tls.is_none());
    // `defaults` begin afresh.
    let two = text.replace("frontend f", "defaults e\n mode http\nfrontend f");
    let yaml = import(&two).yaml;
    assert!(!yaml.contains("path: /a}"), "{yaml}");
}

/// Checks that requests for which one alternative does not hold are asked the others.
#[test]
fn alternatives_are_asked_in_turn() {
    let found =
        routes("http-request deny if !{ hdr(host) -i www.example.org } or { path_beg /admin/ }\n");
    let expected = "  \
  - match: {hosts: [www.example.org], prefix: /admin/}
    direct_response: {status: 403}
  - match: {hosts: [www.example.org]}
    cluster: b
  - direct_response: {status: 403}";
    assert_eq!(found, expected);
    let found = routes("http-request deny if !{ method GET } or !{ hdr(host) a.example }");
    let expected = "  \
  - match: {hosts: [a.example], methods: [GET]}
    cluster: b
  - match: {methods: [GET]}
    direct_response: {status: 403}
  - direct_response: {status: 403}";
    assert_eq!(found, expected);
}

/// Checks that a rule for many hosts counts for one of them alone, and the other way round.
#[test]
fn conditions_on_hosts_narrow_each_other() {
    let denied = "  \
  - match: {hosts: [b.example.org]}
    direct_response: {status: 403}
  - cluster: b";
    for condition in [
        "{ hdr(host) b.example.org } { hdr_end(host) .example.org }",
        "{ hdr_end(host) .example.org } { hdr(host) b.example.org }",
    ] {
        let found = routes(&format!("http-request deny if {condition}"));
        assert_eq!(found, denied, "{condition}");
    }
    // A backend denies what a host leads there.
    let text = "defaults\n mode http\nfrontend f\n bind :80\n \
                use_backend d if { hdr(host) b.example.org }\n default_backend c\n\
                backend d\n http-request deny if { hdr_end(host) .example.org }\n \
                server a 10.0.0.3:80\nbackend c\n server a 10.0.0.2:80\n";
    let config = parsed(&import(text));
    let first = &config.routes[0];
    assert!(!forwards(first) && first.matches.hosts.len() == 1);
    // Who is excepted from the rule stays so.
    let excepted =
        routes("http-request deny if { hdr(host) b.example.org } !{ hdr_end(host) .example.org }");
    let expected = "  \
  - match: {hosts: [b.example.org]}
    cluster: b
  - cluster: b";
    assert_eq!(excepted, expected);
}

/// Checks that conditions on what earlier rules have changed are not asked of what came.
#[test]
fn conditions_look_at_what_rules_have_changed() {
    for lines in [
        "http-request set-path /x\n http-request deny if { path_beg /admin }",
        "http-request replace-path /a(.*) /\\1\n use_backend c if { path_beg /b }",
        "http-request set-pathq /x",
        "http-request set-header X-A %[src]\n http-request deny unless { req.hdr(x-a) 1 }",
        "http-request add-header X-A 1\n http-request deny if { hdr(X-A) 1 }",
        "http-request del-header X-A\n http-request deny unless { hdr(x-a) -m found }",
        "http-request replace-header X-A a b\n http-request deny unless { hdr(x-a) a }",
        "http-request set-header X-A 1 if { ssl_c_verify 0 }\n \
         http-request deny unless { hdr(x-a) 1 }",
        "http-request set-header Host a.example\n http-request deny if { hdr(host) b.example }",
        "http-request set-header Host %[src]\n http-request deny if { hdr_beg(host) b }",
        "http-request del-header Cookie\n http-request deny unless { cook(a) b }",
        "tcp-request connection set-src hdr(x)\n tcp-request session reject if { src 10.0.0.0/8 }",
        "http-request set-src hdr(x-real-ip)\n http-request deny unless { src 10.0.0.0/8 }",
        "option forwardfor\n http-request set-header X-Forwarded-For %[src]\n \
         http-request deny unless { hdr(x-forwarded-for) 10.0.0.1 }",
        "http-request del-header x- -m beg",
    ] {
        let imported = import(&frontend(lines));
        let is_open = parsed(&imported).routes.iter().any(forwards);
        assert!(!is_open, "{lines}\n{}", imported.yaml);
    }
    // A field that a rule may set is not one that clients set.
    let lost = routes("http-request set-header X-A 1 if { ssl_c_verify 0 }");
    let expected = "  \
  - cluster: b
    request_headers_to_remove: [X-A]";
    assert_eq!(lost, expected);
    let taken = routes("http-request set-header X-A 1\n http-request del-header x-a");
    assert_eq!(taken, expected.replace("X-A", "x-a"));
}

/// Checks that no condition holds for fewer requests than HAProxy's.
#[test]
fn criteria_match_no_less() {
    for criterion in [
        "url /a",
        "url_end .php",
        "url_sub x=1",
        "url_reg ^/a$",
        "url_beg /a?x",
        "capture.req.uri -m sub x",
        "path_reg ^/a (?=b)",
        "path_dom /",
        "src_is_local",
        "src_port 80",
        "sc0_get_gpt0 gt 0",
        "src -m sub 10.",
        "method -m reg ^P",
        "hdr(x),field(1,:) a",
        "hdr(x,-1) a",
    ] {
        let imported = import(&frontend(&format!(
            "http-request deny if {{ {criterion} }}"
        )));
        let is_open = parsed(&imported).routes.iter().any(forwards);
        assert!(!is_open, "{criterion}\n{}", imported.yaml);
    }
    let takes = |criterion: &str| {
        let found = routes(&format!("http-request deny if {{ {criterion} }}"));
        found.lines().next().unwrap_or_default().trim().to_owned()
    };
    for (criterion, expected) in [
        ("url_beg /a/", "- match: {prefix: /a/}"),
        (
            "hdr_end(host) .a.example",
            "- match: {hosts: ['*.a.example']}",
        ),
        (
            "hdr(host) b.example a.example:80",
            "- match: {headers: [{name: host, safe_regex: '(?i:b\\.example)'}]}",
        ),
        (
            "hdr(host) admin.example 10.0.0.300",
            "- match: {headers: [{name: host, safe_regex: '(?i:admin\\.example)'}]}",
        ),
        (
            "hdr_end(host) .0.0.1",
            "- match: {headers: [{name: host, safe_regex: '.*(?i:\\.0\\.0\\.1)'}]}",
        ),
        (
            "hdr(host) a..b",
            "- match: {headers: [{name: host, safe_regex: '(?i:a\\.\\.b)'}]}",
        ),
        ("hdr(host) 10.0.0.1", "- match: {hosts: [10.0.0.1]}"),
        (
            "hdr_end(host) a.example",
            "- match: {headers: [{name: host, safe_regex: '.*(?i:a\\.example)'}]}",
        ),
    ] {
        assert_eq!(takes(criterion), expected);
    }
    for (criterion, text, holds) in [
        ("hdr_dom(host) -i admin", "www.admin.example", true),
        ("hdr_dom(host) -i admin", "admin", true),
        ("hdr_dom(host) -i admin", "ADMIN:80", true),
        ("hdr_dom(host) -i admin", "myadmin.example", false),
        (
            "hdr_dom(referer) -i a.example",
            "https://www.a.example/x",
            true,
        ),
        (
            "hdr_dom(referer) -i a.example",
            "https://a.example.org?x",
            true,
        ),
        (
            "hdr_dom(referer) -i a.example",
            "https://a.examples/",
            false,
        ),
        ("hdr_dir(x) a", "/b/a?c", true),
        ("hdr(x) a", "b, a", true),
        ("hdr(x) a", "a", true),
        ("hdr(x) a", "ab, ba", false),
        ("hdr_beg(x) 10.", "192.0.2.1, 10.0.0.1", true),
        ("hdr_end(x) .1", "10.0.0.1 ,10.0.0.2", true),
        ("hdr_end(x) .1", "10.0.0.12", false),
    ] {
        let own = routes(&format!("http-request deny if {{ {criterion} }}"));
        let (_, regex) = own.split_once("safe_regex: ").expect(&own);
        let end = regex.find(['}', '\n']).unwrap();
        let regex = regex[..end].trim_matches('\'');
        let regex = sprat_config::resolved::SafeRegex::new(regex).unwrap();
        assert_eq!(regex.matches_all_of(text), holds, "{criterion}: {text}");
    }
}

/// Checks that a backend whose name only a request tells is told of.
#[test]
fn backends_named_by_requests_are_told() {
    for (lines, name) in [
        ("use_backend %[req.hdr(host),lower]", "use_backend %["),
        (
            "use_backend b-%[path] if { method GET }",
            "use_backend b-%[",
        ),
        ("use_backend none", "use_backend none"),
    ] {
        let imported = import(&frontend(lines));
        let mut notes = imported.summary.exceptions();
        let note = notes.find(|own| own.directive.starts_with(name)).unwrap();
        assert_eq!(note.outcome, Outcome::Not);
        assert!(note.told.contains("503"), "{note}");
    }
}

/// Checks that a backend does not lose its TLS because Sprat would not accept it.
#[test]
fn what_cannot_be_encrypted_is_not_sent() {
    let text = "defaults\n mode http\nlisten l\n bind :80\n \
                server a 10.0.0.1:443 ssl verify required sni str(a..b)\n";
    let imported = import(text);
    let config = parsed(&imported);
    assert!(!config.routes.iter().any(forwards), "{}", imported.yaml);
    let mut notes = imported.summary.exceptions();
    assert!(notes.any(|own| own.told.ends_with("it is left out")));
}

/// Checks that paths are replaced as HAProxy does, and otherwise reach no backend.
#[test]
fn paths_are_replaced_as_haproxy_does() {
    let of_path = |converters: &str| format!("set-path \"%[path,{converters}]\"");
    for (action, path, expected) in [
        (of_path("regsub(^/api/,/)"), "/api/a/api/b", "/a/api/b"),
        (of_path("regsub(^/API/,/,i)"), "/api/a", "/a"),
        (of_path("regsub(/a,/b)"), "/x/a/a", "/x/b/a"),
        (of_path("regsub(/a,/b,g)"), "/x/a/a", "/x/b/b"),
        (of_path("regsub(/A,/b,ig)"), "/x/a/a", "/x/b/b"),
        (
            of_path(r"regsub('/(a)(b)','/\2\1')"),
            "/x/ab/ab",
            "/x/ba/ab",
        ),
        (r"replace-path /(a)b \0/\1".to_owned(), "/x/ab/c", "/ab/a"),
    ] {
        let imported = import(&frontend(&format!("http-request {action}")));
        let config = parsed(&imported);
        let rewrite = config.routes[0].regex_rewrite.as_ref();
        let rewritten = rewrite.and_then(|own| own.rewrite(path));
        assert_eq!(rewritten.as_deref(), Some(expected), "{action}");
        assert_eq!(imported.summary.count(Outcome::Not), 0, "{action}");
    }
    for converters in [
        "regsub(/a,/b),regsub(/c,/d)",
        "regsub(/a,/b),lower",
        "regsub(/a,/b,x)",
        r"regsub('/(a)',/\9)",
        r"regsub(/a,/\x41,g)",
    ] {
        let action = of_path(converters);
        let imported = import(&frontend(&format!("http-request {action}")));
        assert!(!parsed(&imported).routes.iter().any(forwards), "{action}");
        let mut notes = imported.summary.notes.iter();
        let note = notes.find(|own| own.directive.starts_with("http-request"));
        assert_eq!(note.unwrap().outcome, Outcome::Not, "{action}");
    }
}

/// Checks that servers get the certificate that they ask for, and that every other name is told of.
#[test]
fn tls_to_servers_is_kept_or_told_of() {
    let of = |servers: &str| {
        import(&format!(
            "defaults\n mode http\nlisten l\n bind :80\n{servers}"
        ))
    };
    let server = |words: &str| format!(" server a b.example:443 ssl verify required {words}\n");
    let shown = of(&server("crt /c.pem sni str(c.example)"));
    assert_eq!(shown.summary.exceptions().count(), 0, "{}", shown.yaml);
    let config = parsed(&shown);
    let tls = config.clusters[0].tls.as_ref().unwrap();
    assert!(tls.client_certificate.is_some());
    let certificate = "{certificate_chain: /c.pem, private_key: /c.pem}";
    assert!(shown.yaml.contains(certificate), "{}", shown.yaml);
    let plain = " server b b.example:80\n";
    for (servers, told) in [
        (server("sni req.hdr(host)"), "no request tells"),
        (
            server("sni str(c.example) verifyhost d.example"),
            "not for the name",
        ),
        (server("crl-file /crl.pem"), "revoked"),
        (server("ca-file /ca.pem"), "as it is written"),
        (
            server("") + &server("crt /c.pem").replace(":443", ":444"),
            "the same TLS",
        ),
        (server("") + plain, "the same TLS"),
        (plain.to_owned() + &server(""), "the same TLS"),
    ] {
        let imported = of(&servers);
        parsed(&imported);
        let note = imported.summary.exceptions().last().unwrap();
        assert!(note.told.contains(told), "{note}");
    }
}

/// Checks that a server's options are carried over or told of.
#[test]
fn what_a_server_asks_for_is_given_or_told_of() {
    let of = |servers: &str| {
        let imported = import(&format!(
            "defaults\n mode http\nlisten l\n bind :80\n{servers}"
        ));
        let config = parsed(&imported);
        let told = imported.summary.exceptions().map(|own| own.told.clone());
        (
            config.clusters[0].clone(),
            told.collect::<Vec<_>>().join("\n"),
        )
    };
    let server = |words: &str| format!(" server a 10.0.0.1:80 {words}\n");
    let verified = "ssl verify required sni str(a.example)";
    for words in [
        "check inter 2s no-backup id 7 tfo cookie a",
        "check check-ssl ssl verify required sni str(a.example)",
        "send-proxy check-send-proxy check",
    ] {
        assert_eq!(of(&server(words)).1, "", "{words}");
    }
    for (words, told) in [
        ("source 10.0.0.9", "the system chooses the address"),
        ("maxqueue 9", "`wait_queue`"),
        ("proto fcgi", "speaks HTTP"),
        ("observe layer7", "`outlier_detection`"),
        ("check check-ssl", "checks go as requests do"),
        ("on-marked-down shutdown-sessions", "go on"),
        ("frobnicate", "does not know `frobnicate`"),
        ("cookie observe frobnicate", "does not know `frobnicate`"),
    ] {
        let words = of(&server(words)).1;
        assert!(words.contains(told), "{words}");
        assert!(!words.contains('\n') && !words.contains(';'), "{words}");
    }
    let cluster = of(&(server("slowstart 5s") + " server b 10.0.0.2:80 slowstart 20s\n")).0;
    assert_eq!(cluster.slow_start, Duration::from_secs(20));
    let cluster = of(&server(&format!("{verified} ssl-min-ver TLSv1.3"))).0;
    assert_eq!(
        cluster.tls.as_ref().unwrap().minimum_version,
        TlsVersion::V1_3
    );
    let with_defaults = |defaults: &str, words: &str| {
        of(&(format!(" default-server {defaults}\n") + &server(words))).0
    };
    let older = with_defaults(
        &format!("{verified} ssl-min-ver TLSv1.3"),
        "ssl-min-ver TLSv1.2",
    );
    assert_ne!(
        older.tls.as_ref().unwrap().minimum_version,
        TlsVersion::V1_3
    );
    for (defaults, words, version) in [
        ("send-proxy-v2", "no-send-proxy-v2", None),
        ("send-proxy", "send-proxy-v2", Some("v2")),
        ("send-proxy-v2", "no-send-proxy-v2 send-proxy", Some("v1")),
    ] {
        let cluster = with_defaults(defaults, words);
        let spoken = cluster
            .proxy_protocol
            .map(|own| format!("{own:?}").to_lowercase());
        assert_eq!(spoken.as_deref(), version, "{defaults} {words}");
    }
    // Values are no options, though they may be written as one.
    for words in ["cookie backup", "cookie disabled", "disabled enabled"] {
        let cluster = of(&(server(words) + " server b 10.0.0.2:80\n")).0;
        let priorities: Vec<u32> = cluster
            .endpoints
            .iter()
            .map(|own| own.priority.into())
            .collect();
        assert_eq!(priorities, [0, 0], "{words}");
    }
    let (cluster, told) = of(&(server("proto h2") + " server b 10.0.0.2:80 send-proxy\n"));
    assert!(told.contains("those of the last one"), "{told}");
    assert!(cluster.http2.is_none() && cluster.proxy_protocol.is_some());
}

/// Checks that no address is lost without a word, and that none is open to more clients.
#[test]
fn addresses_are_listened_on_or_told_of() {
    for (bind, expected, outcome) in [
        (
            ":8000-8002",
            "0.0.0.0:8000 0.0.0.0:8001 0.0.0.0:8002",
            Outcome::Carried,
        ),
        (":9899-9900", "0.0.0.0:9899 0.0.0.0:9900", Outcome::Nearly),
        ("10.0.0.1:9900", "10.0.0.1:9900", Outcome::Carried),
        (":81,:8000-9999", "0.0.0.0:81", Outcome::Not),
        (":8000-9999", "", Outcome::Not),
        (":82-81", "", Outcome::Not),
        (":81 interface eth0", "127.0.0.1:81", Outcome::Not),
        ("[::]:81 namespace x", "[::1]:81", Outcome::Not),
        ("10.0.0.1:81 interface eth0", "10.0.0.1:81", Outcome::Not),
        (
            ":81 interface eth0\n bind 127.0.0.1:81",
            "127.0.0.1:81",
            Outcome::Carried,
        ),
        (":::81 v6only", "[::1]:81", Outcome::Not),
        (":::80 v6only", "[::]:80", Outcome::Carried),
        (
            ":::81 v6only\n bind :81",
            "0.0.0.0:81 [::]:81",
            Outcome::Carried,
        ),
        (":81,:::81 v6only", "0.0.0.0:81 [::]:81", Outcome::Carried),
        (
            ":::81 v6only\n bind :81 interface eth0",
            "[::1]:81 127.0.0.1:81",
            Outcome::Not,
        ),
        ("[::ffff:10.0.0.1]:81", "10.0.0.1:81", Outcome::Carried),
        ("ipv6@:81", "[::]:81", Outcome::Carried),
        (":::81", "[::]:81", Outcome::Carried),
        ("2001:db8::1:81", "[2001:db8::1]:81", Outcome::Carried),
        (":80", "", Outcome::Nearly),
        (":81 ssl crt /c.pem", "0.0.0.0:81", Outcome::Carried),
        (":81 ssl crt /c.pem crt-list /l", "0.0.0.0:81", Outcome::Not),
        (":81 ssl crt /c.pem crt /d", "0.0.0.0:81", Outcome::Nearly),
        (":81 ssl crt /c.pem verify required", "", Outcome::Not),
    ] {
        let imported = import(&frontend(&format!(" bind {bind}")));
        let config = parsed(&imported);
        let addresses = config.listeners.iter().map(|own| own.address.to_string());
        let addresses: Vec<String> = addresses.collect();
        assert_eq!(addresses[1..].join(" "), expected, "{bind}");
        let note = imported
            .summary
            .notes
            .iter()
            .rfind(|own| own.directive.starts_with("bind "));
        let note = note.unwrap();
        assert_eq!(note.outcome, outcome, "{note}");
    }
    let text = frontend(" bind :81 ssl crt /c.pem ca-verify-file /ca.pem verify required");
    let config = parsed(&import(&text));
    let tls = config.listeners[1].tls.as_ref().unwrap();
    assert!(tls.client_certificates.is_some());
}

/// Checks that a listener does what a `bind` asks for, or that the import says what it does not.
#[test]
fn what_a_bind_asks_for_is_given_or_told_of() {
    let of = |options: &str| {
        let imported = import(&frontend(&format!(" bind :81 ssl crt /c.pem {options}")));
        let config = parsed(&imported);
        let mut notes = imported.summary.notes.into_iter();
        let note = notes.rfind(|own| own.directive.starts_with("bind "));
        let note = note.unwrap();
        (config.listeners[1].clone(), note.outcome, note.told)
    };
    for (options, outcome, told) in [
        ("alpn h2,http/1.1 name x tfo", Outcome::Carried, ""),
        ("ssl-max-ver TLSv1.3", Outcome::Carried, ""),
        ("ssl-max-ver TLSv1.2", Outcome::Nearly, "TLS 1.3, too"),
        (
            "ssl-min-ver TLSv1.1",
            Outcome::Nearly,
            "TLS 1.2 and 1.3 alone",
        ),
        ("strict-sni", Outcome::Nearly, "get the first one"),
        ("ciphers strict-sni", Outcome::Nearly, "without `ciphers`"),
        ("transparent", Outcome::Not, "without `transparent`"),
        ("frobnicate", Outcome::Nearly, "does not know `frobnicate`"),
    ] {
        let (_, found, words) = of(options);
        assert_eq!(found, outcome, "{options}: {words}");
        assert!(words.contains(told), "{options}: {words}");
        let is_told = words.contains("`strict-sni`");
        assert_eq!(is_told, options == "strict-sni", "{options}: {words}");
    }
    for options in ["ssl-min-ver TLSv1.3", "force-tlsv13", "no-tlsv12"] {
        let tls = of(options).0.tls.unwrap();
        assert_eq!(tls.minimum_version, TlsVersion::V1_3, "{options}");
    }
    for (options, is_offered) in [
        ("alpn h2,http/1.1", true),
        ("", true),
        ("alpn http/1.1", false),
        ("no-alpn", false),
        ("proto h1", false),
    ] {
        assert_eq!(of(options).0.http2.is_some(), is_offered, "{options}");
    }
    for (frontend, bound) in [(100, 9), (5, 5)] {
        let words = format!("maxconn 9\n maxconn {frontend}");
        assert_eq!(of(&words).0.max_connections, bound, "{frontend}");
    }
    assert_eq!(of("maxconn 9").0.max_connections, 9);
    let certificates = of("default-crt /d.pem").0.tls.unwrap().certificates;
    assert_eq!(certificates[0].chain().path.to_str(), Some("/d.pem"));
}

/// Checks that a listener at the admin listener's usual port does not bring the import down.
#[test]
fn the_admin_listener_gives_way() {
    for (bind, expected) in [
        (":9890-9910", "127.0.0.1:9911"),
        ("127.0.0.1:9900", "127.0.0.1:9901"),
        (":81", "127.0.0.1:9900"),
    ] {
        let config = parsed(&import(&frontend(&format!(" bind {bind}"))));
        let admin = config.admin.unwrap();
        assert_eq!(admin.address.to_string(), expected, "{bind}");
    }
}

/// Checks that a bound which counts for each address by itself is told of.
#[test]
fn a_bound_for_several_addresses_is_told_of() {
    for (lines, outcome) in [
        (" maxconn 9", Outcome::Carried),
        (" bind :8000-8001\n maxconn 9", Outcome::Nearly),
    ] {
        let imported = import(&frontend(lines));
        let config = parsed(&imported);
        let mut listeners = config.listeners.iter();
        assert!(listeners.all(|own| own.max_connections == 9), "{lines}");
        let mut notes = imported.summary.notes.iter();
        let note = notes.find(|own| own.directive.starts_with("maxconn"));
        assert_eq!(note.unwrap().outcome, outcome, "{lines}");
    }
}

/// Checks that frontends whose addresses become the same one are imported all the same.
#[test]
fn an_address_of_two_frontends_is_listened_on_once() {
    let text = "defaults\n mode http\nfrontend f\n bind :80 interface a\n default_backend b\n\
                frontend g\n bind :80 interface b ssl crt /c.pem\n bind :443 ssl crt /c.pem\n \
                default_backend b\nbackend b\n server a 10.0.0.1:80\n";
    let config = parsed(&import(text));
    let addresses = config.listeners.iter().map(|own| own.address.to_string());
    let addresses: Vec<String> = addresses.collect();
    assert_eq!(addresses, ["0.0.0.0:443", "127.0.0.1:80"]);
}

/// Checks that a hash of another part of requests than HAProxy's is told of.
#[test]
fn hashes_of_other_parts_are_told_of() {
    for (balance, told) in [
        ("uri", Some("the hash is of the host and the query, too")),
        ("uri whole", Some("the hash is of the host, too")),
        (
            "uri depth 2",
            Some("the hash is of the host and the query, too, and of the whole path"),
        ),
        ("source", None),
        ("random(2)", None),
    ] {
        let imported = import(&frontend("").replace(
            "\nbackend b\n",
            &format!("\nbackend b\n balance {balance}\n"),
        ));
        let mut notes = imported.summary.exceptions();
        let note = notes.find(|own| own.directive.starts_with("balance"));
        let expected = told.map(|told| (Outcome::Nearly, told));
        let found = note.map(|own| (own.outcome, &*own.told));
        assert_eq!(found, expected, "{balance}");
        let is_hash = imported.yaml.contains("maglev");
        assert_eq!(is_hash, balance != "random(2)", "{}", imported.yaml);
    }
}

fn line() -> impl Strategy<Value = String> {
    let condition = proptest::sample::select(
        &[
            "",
            "if a",
            "if !a",
            "unless a",
            "if a b or c",
            "if a !b !c",
            "if { path /x }",
            "if { hdr(x) -m found }",
            "if !{ src 10.0.0.0/8 } or { hdr_dom(host) a }",
            "unless { url_beg /a /b }",
            "unless { ssl_fc }",
            "if { src 10.0.0.0/8 } { method POST }",
            "if { unknown 1 }",
            "unless a or b",
            "if",
            "if {",
            "if !",
            "if { sc0_conn_cur gt 5 }",
            "if TRUE !FALSE",
        ][..],
    );
    let action = proptest::sample::select(
        &[
            "http-request deny",
            "http-request deny deny_status 999",
            "http-request redirect scheme https",
            "redirect location /x code 301",
            "redirect prefix https://a.example",
            "http-request redirect location https://%[hdr(host)]/%[rand]",
            "use_backend c",
            "use_backend none",
            "http-request allow",
            "tcp-request connection reject",
            "tcp-request content accept",
            "tcp-request content set-src hdr(x)",
            "http-request replace-header x a b",
            "http-request set-header X %[src]",
            "http-request set-header X-A %[src]",
            "http-request set-header Host b.example",
            "http-request del-header 'a b'",
            "http-request replace-path (.*) /a\\1",
            "http-request set-path /x",
            "http-request return status 200 string 'a b'",
            "http-request tarpit",
            "http-response set-header X-B %[status]",
            "http-request track-sc0 src",
            "http-request auth",
            "http-response deny",
            "unknown x",
            "http-request set-header Connection %[rand]",
            "block",
        ][..],
    );
    let other = proptest::sample::select(
        &[
            "acl a path_beg /a /b/",
            "acl a path_end .css",
            "acl b hdr(host) -i a.example",
            "acl b hdr_end(host) .example",
            "acl b hdr_reg(host) ^a",
            "acl c method GET",
            "acl c src 10.0.0.0/8 x",
            "acl c cook(x) y",
            "acl a path_reg [",
            "acl a",
            "acl b url_param(x) -m reg ^1$",
            "maxconn 0",
            "timeout client 0",
            "timeout http-request 5s",
            "option forwardfor",
            "compression algo gzip",
            "monitor-uri /up",
            "filter bwlim-out x default-limit 1m default-period 1s",
            "errorfile 503 /x",
            "acl c nbsrv(b) lt 1",
            "é",
        ][..],
    );
    prop_oneof![
        (action, condition).prop_map(|(action, condition)| format!("{action} {condition}")),
        other.prop_map(str::to_owned),
    ]
}

#[test]
fn unix_sockets_are_taken_over() {
    let text = "defaults\n mode http\nfrontend f\n bind :80\n bind unix@/run/f.sock mode 660 user www-data gid 33\n \
                default_backend b\nbackend b\n server a unix@/run/a.sock\n server c /run/c.sock\n \
                server d abns@d\n";
    let mut files = Memory::of(&[("haproxy.cfg", text)]);
    let imported = haproxy("haproxy.cfg", &mut files, &Options::default()).unwrap();
    let loaded = sprat_config::parse(&imported.yaml, "imported", &|_| None);
    let config = loaded.unwrap().config;
    let listener = config
        .listeners
        .iter()
        .find(|own| own.address.path().is_some());
    let listener = listener.expect("the path is listened on");
    assert_eq!(listener.address.to_string(), "unix:/run/f.sock");
    assert_eq!(listener.mode, 0o660);
    let user = listener.owner.user.as_ref().map(|own| &own.account);
    let group = listener.owner.group.as_ref().map(|own| &own.account);
    assert_eq!(user, Some(&Account::Name("www-data".to_owned())));
    assert_eq!(group, Some(&Account::Number(33)));
    let endpoints = config.clusters[0]
        .endpoints
        .iter()
        .map(|own| own.address.to_string());
    assert_eq!(
        endpoints.collect::<Vec<_>>(),
        ["unix:/run/a.sock", "unix:/run/c.sock"]
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn what_comes_out_is_accepted(own in proptest::collection::vec(line(), 0..12), of_backend in proptest::collection::vec(line(), 0..4), tls in any::<bool>()) {
        let bind = if tls { " bind :443 ssl crt /c.pem\n" } else { "" };
        let text = format!(
            "defaults\n mode http\nfrontend f\n bind :80\n{bind} {}\n default_backend b\nbackend b\n {}\n server a 10.0.0.1:80\nbackend c\n server x unix@/x\n server y 10.0.0.2:80 backup weight 300\n",
            own.join("\n "), of_backend.join("\n "),
        );
        let mut files = Memory::of(&[("haproxy.cfg", &text)]);
        let imported = haproxy("haproxy.cfg", &mut files, &Options::default());
        let imported = imported.unwrap_or_else(|fault| panic!("{fault}\n{text}"));
        let loaded = sprat_config::parse(&imported.yaml, "imported", &|_| None);
        prop_assert!(loaded.is_ok(), "{}\n{}", loaded.unwrap_err(), imported.yaml);
        for note in imported.summary.exceptions() {
            let line = format!("# {}\n", note.to_string().replace(char::is_control, " "));
            prop_assert!(imported.yaml.contains(&line), "{line}\n{}", imported.yaml);
        }
    }

    #[test]
    fn no_text_brings_it_down(text in "(frontend|backend|listen|bind :80|acl a|if|[a-z{}!'\"\\\\ \n#%()])\\PC{0,80}") {
        let mut files = Memory::of(&[("haproxy.cfg", &text)]);
        let _ = haproxy("haproxy.cfg", &mut files, &Options::default());
    }
}
