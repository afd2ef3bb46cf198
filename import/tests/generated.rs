//! Whatever an operator of nginx has written, what comes out is a configuration of
//! Sprat's, in which every directive that is not carried over is told.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod common;

use common::Memory;
use proptest::prelude::*;
use sprat_import::{Options, Outcome, nginx};

fn words(list: &'static [&'static str]) -> impl Strategy<Value = String> {
    proptest::sample::select(list).prop_map(str::to_owned)
}

fn value() -> impl Strategy<Value = String> {
    words(&[
        "$host",
        "$http_host",
        "$remote_addr",
        "$proxy_add_x_forwarded_for",
        "$scheme",
        "a",
        "\"a b\"",
        "$http_x_a",
        "$request_uri",
        "100%",
        "'${x}'",
        "$geo",
        "\"\"",
        "é",
        "$upstream_http_a",
        "12",
        "off",
        "$1",
        "\"a\\nb\"",
        "*",
        "{{x}}",
    ])
    .prop_map(|own| {
        if own.contains('{') && !own.starts_with('\'') {
            format!("'{own}'")
        } else {
            own
        }
    })
}

fn path() -> impl Strategy<Value = String> {
    words(&[
        "/",
        "/a",
        "/a/",
        "/a/b/",
        "/x y",
        "/é/",
        "/a%20b",
        "/.well-known/",
        "/a.php",
        "a",
        "/a/b/c",
        "/$x",
        "/A?b",
    ])
    .prop_map(|own| format!("\"{own}\""))
}

fn regex() -> impl Strategy<Value = String> {
    words(&[
        "\\.php$",
        "^/a/(.*)$",
        "^/(?!b)",
        "(?i)\\.jpg",
        "^/(a|b)/(\\d+)",
        "[",
        "/a|/b$",
        "^",
        ".*",
        "(a)\\1",
        "^/é",
        "x{2,3}",
        "(?<n>a)",
        "\\",
        "^/a(?=b)c",
    ])
    .prop_map(|own| format!("\"{}\"", own.replace('\\', "\\\\")))
}

fn target() -> impl Strategy<Value = String> {
    words(&[
        "http://u",
        "http://u/",
        "http://u/c/",
        "http://10.0.0.1:81/x",
        "https://b.example",
        "http://$host",
        "http://u$request_uri",
        "http://u/$1",
        "http://unix:/a:/b",
        "http://[::1]:80/",
        "u",
        "http://",
        "http://m",
        "http://u/a?b",
        "https://u:99999",
        "http://a_b.example",
        "http://-",
        "grpc://u",
        "http://$tenant/x/",
    ])
}

/// A directive of a location or a server.
fn directive() -> BoxedStrategy<String> {
    let simple = |name: &'static str, own: BoxedStrategy<String>| {
        own.prop_map(move |own| format!("{name} {own};")).boxed()
    };
    let pair = |name: &'static str| {
        (
            words(&[
                "Host",
                "X-A",
                "X-Forwarded-For",
                "Connection",
                "Upgrade",
                "a b",
                "é",
                "Content-Length",
                "Set-Cookie",
            ]),
            value(),
        )
            .prop_map(move |(own, value)| format!("{name} '{own}' {value};"))
            .boxed()
    };
    prop_oneof![
        simple("proxy_pass", target().boxed()),
        simple(
            "return",
            words(&[
                "204",
                "404",
                "444",
                "301 /x",
                "302 https://$host$request_uri",
                "200 'a $host'",
                "99",
                "600",
                "301 $scheme://$host$uri",
                "301 http://x y",
                "307 //a b"
            ])
            .boxed()
        ),
        pair("proxy_set_header"),
        pair("add_header"),
        (
            regex(),
            words(&[
                "/b/$1",
                "/b?x=1",
                "https://c.example/$1",
                "/a/b/x",
                "b",
                "$1",
                "/\\\\x"
            ]),
            words(&["", "last", "break", "redirect", "permanent"])
        )
            .prop_map(|(regex, target, flag)| format!("rewrite {regex} '{target}' {flag};")),
        simple(
            "allow",
            words(&[
                "all",
                "10.0.0.0/8",
                "10.0.0.1/8",
                "::1",
                "x",
                "unix:",
                "10.0.0.0/99"
            ])
            .boxed()
        ),
        simple(
            "deny",
            words(&["all", "10.0.0.0/8", "192.0.2.1", "x"]).boxed()
        ),
        simple(
            "client_max_body_size",
            words(&["0", "1m", "8k", "1.5m", "x", "99999999999g"]).boxed()
        ),
        simple(
            "proxy_read_timeout",
            words(&["0", "1s", "1h30m", "99y", "x"]).boxed()
        ),
        simple(
            "expires",
            words(&["1d", "-1", "max", "off", "epoch", "$x"]).boxed()
        ),
        simple(
            "limit_req",
            words(&["zone=z burst=5", "zone=gone", "zone=z burst=x"]).boxed()
        ),
        simple("limit_rate", words(&["0", "1k", "1m", "$x", "99g"]).boxed()),
        simple(
            "error_page",
            words(&[
                "404 /404.html",
                "500 502 =200 /x",
                "404 = @n",
                "301 /x",
                "404 http://a",
                "/x",
                "404 =x /a"
            ])
            .boxed()
        ),
        simple(
            "proxy_next_upstream",
            words(&["off", "error http_500", "http_502 non_idempotent", "x"]).boxed()
        ),
        simple(
            "try_files",
            words(&["$uri @n", "$uri /a.php", "$uri =404", "x", "@n"]).boxed()
        ),
        simple("mirror", words(&["/m", "off", "/a/"]).boxed()),
        simple(
            "set",
            words(&["$x http://u", "$x $host", "$x ''", "x y"]).boxed()
        ),
        words(&[
            "internal;",
            "auth_basic a;",
            "auth_basic off;",
            "satisfy any;",
            "gzip on;",
            "root /srv;",
            "root srv;",
            "fastcgi_pass x:1;",
            "unknown_thing 1 2 'é\n';",
            "proxy_intercept_errors on;",
            "index a;",
            "break;",
            "proxy_ssl_name 1.2.3.4;",
            "resolver 10.0.0.53 x;",
            "default_type text/html;",
            "default_type x;",
            "proxy_hide_header 'a b';",
            "limit_conn c 5;",
            "proxy_connect_timeout 0;"
        ]),
        (
            words(&[
                "$request_method = POST",
                "$request_method !~ ^(GET|HEAD)$",
                "$http_x_a ~ \"a*\"",
                "$host = b.example",
                "$host !~ ^(a\\.example|b\\.example)$",
                "$scheme = http",
                "$scheme != https",
                "-f $request_filename",
                "$arg_x = ''",
                "$unknown = 1",
                "$uri ~ ^/b",
                "$http_a = \"a*b\"",
                "$remote_addr != 10.0.0.1",
                "$x",
                "a b c",
                "$cookie_a"
            ]),
            words(&[
                "return 403;",
                "return 301 https://$host$request_uri;",
                "set $a b;",
                "proxy_pass http://u;",
                "rewrite ^ /b;",
                "deny all;",
                "",
                "add_header A b;",
                "break;"
            ])
        )
            .prop_map(|(test, inner)| format!("if ({test}) {{ {inner} }}")),
        words(&["GET", "POST PUT", "get", "a b c d"])
            .prop_map(|own| format!("limit_except {own} {{ deny all; }}")),
    ]
    .boxed()
}

fn location(depth: u32) -> BoxedStrategy<String> {
    let head = prop_oneof![
        path(),
        path().prop_map(|own| format!("= {own}")),
        path().prop_map(|own| format!("^~ {own}")),
        regex().prop_map(|own| format!("~ {own}")),
        regex().prop_map(|own| format!("~* {own}")),
        Just("@n".to_owned()),
    ];
    let inner = match depth {
        0 => Just(Vec::new()).boxed(),
        _ => proptest::collection::vec(location(depth - 1), 0..3).boxed(),
    };
    (head, proptest::collection::vec(directive(), 0..5), inner)
        .prop_map(|(head, own, inner)| {
            format!(
                "location {head} {{\n{}\n{}\n}}",
                own.join("\n"),
                inner.join("\n")
            )
        })
        .boxed()
}

fn server() -> impl Strategy<Value = String> {
    let listen = words(&[
        "80",
        "443 ssl",
        "80 default_server",
        "[::]:80",
        "127.0.0.1:8080",
        "443 ssl http2",
        "8443 ssl",
        "80 proxy_protocol",
        "unix:/x",
        "localhost:80",
        "443 quic",
        "0",
    ]);
    let names = words(&[
        "a.example",
        "b.example www.b.example",
        "*.example",
        ".c.example",
        "_",
        "~^(?<x>a)\\.b$",
        "www.*",
        "\"\"",
        "1.2.3.4",
        "é.example",
        "a_b.example",
        "*.a.example a.example",
    ]);
    let tls = words(&[
        "",
        "ssl_certificate /c; ssl_certificate_key /k;",
        "ssl_certificate /c; ssl_certificate_key /k; ssl_client_certificate /ca; ssl_verify_client on;",
        "ssl_certificate $x; ssl_certificate_key /k; ssl_protocols TLSv1.3;",
    ]);
    (
        proptest::collection::vec(listen, 0..3),
        names,
        tls,
        proptest::collection::vec(directive(), 0..3),
        proptest::collection::vec(location(1), 0..5),
    )
        .prop_map(|(listens, names, tls, own, locations)| {
            let listens: String = listens
                .iter()
                .map(|own| format!("listen {own};\n"))
                .collect();
            format!(
                "server {{\n{listens}server_name {names};\n{tls}\n{}\n{}\n}}",
                own.join("\n"),
                locations.join("\n")
            )
        })
}

const HTTP: &str = "upstream u { server 10.0.0.1:8000; server b.example backup weight=2000; hash $x; keepalive 0; }
    upstream m { server unix:/x; }
    map $http_x_a $tenant { default u; ~^a m; b 10.0.0.9; }
    limit_req_zone $binary_remote_addr zone=z:10m rate=5r/m;
    server { listen 80; location /m { internal; proxy_pass http://u; } }\n";

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn what_comes_out_is_accepted(servers in proptest::collection::vec(server(), 1..4), all in proptest::collection::vec(directive(), 0..3)) {
        let all: Vec<String> = all.into_iter().filter(|own| !own.starts_with("if ")).collect();
        let text = format!("http {{\n{HTTP}{}\n{}\n}}", all.join("\n"), servers.join("\n"));
        let mut files = Memory::of(&[("nginx.conf", &text)]);
        let imported = nginx("nginx.conf", &mut files, &Options::default());
        let imported = imported.unwrap_or_else(|fault| panic!("{fault}\n{text}"));
        let loaded = sprat_config::parse(&imported.yaml, "imported", &|_| None);
        prop_assert!(loaded.is_ok(), "{}\n{}", loaded.unwrap_err(), imported.yaml);
        for note in imported.summary.exceptions() {
            let line = format!("# {}\n", note.to_string().replace(char::is_control, " "));
            prop_assert!(imported.yaml.contains(&line), "{line}\n{}", imported.yaml);
            prop_assert!(note.outcome != Outcome::Carried);
        }
    }

    #[test]
    fn no_text_brings_it_down(text in "[a-z/{};\"'\\\\$#~ \n(){}=é]{0,200}") {
        let mut files = Memory::of(&[("nginx.conf", &text)]);
        let _ = nginx("nginx.conf", &mut files, &Options::default());
    }
}
