//! What is made of configurations of HAProxy.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod common;

use common::Memory;
use proptest::prelude::*;
use sprat_config::resolved::{Account, Action, Config, Route};
use sprat_import::{Imported, Options, Outcome, haproxy};

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
