//! What is made of configurations of nginx.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod common;

use common::Memory;
use sprat_config::resolved::{Action, Config, PathPattern, Route};
use sprat_import::{Imported, Options, Outcome, nginx};

fn import(text: &str) -> Imported {
    let mut files = Memory::of(&[("nginx.conf", text)]);
    let imported = nginx("nginx.conf", &mut files, &Options::default());
    imported.unwrap_or_else(|fault| panic!("{fault}"))
}

fn parsed(imported: &Imported) -> Config {
    let loaded = sprat_config::parse(&imported.yaml, "imported", &|_| None);
    loaded
        .unwrap_or_else(|errors| panic!("{errors}\n{}", imported.yaml))
        .config
}

/// A server with these directives.
fn server(inner: &str) -> String {
    format!("http {{ server {{ listen 80; server_name a.example;\n{inner}\n}} }}")
}

/// The routes, in YAML, without comments and titles.
fn routes(inner: &str) -> String {
    let yaml = import(&server(inner)).yaml;
    let (_, routes) = yaml.split_once("\nroutes:\n").unwrap();
    let lines = routes
        .lines()
        .filter(|line| !line.trim_start().starts_with('#'));
    let lines: Vec<&str> = lines.collect();
    lines.join("\n")
}

#[test]
fn farms_are_accepted_and_every_exception_is_told() {
    let farms = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/farms");
    let mut count = 0;
    for entry in std::fs::read_dir(farms).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|own| own != "conf") {
            continue;
        }
        let imported = import(&std::fs::read_to_string(&path).unwrap());
        assert!(!parsed(&imported).routes.is_empty());
        for note in imported.summary.exceptions() {
            let line = format!("# {note}\n");
            assert!(imported.yaml.contains(&line), "{line}");
            assert!(!note.told.is_empty(), "{note}");
        }
        count += 1;
    }
    assert_eq!(count, 11);
}

#[test]
fn locations_are_asked_in_the_order_of_nginx() {
    let text = "
        location / { return 201; }
        location /a/ { return 202; }
        location ~ \\.php$ { return 203; }
        location ^~ /a/b/ { return 204; }
        location = /a/b { return 206; }
        location /a/b/c/ { return 208; }
        location ~ ^/x { return 226; }";
    let config = parsed(&import(&server(text)));
    let order: Vec<u16> = config
        .routes
        .iter()
        .filter_map(|route| match &route.action {
            Action::Respond(response) => Some(response.status),
            _ => None,
        })
        .collect();
    // `/a/b/c/` stands within what expressions may not overrule, and may be overruled itself.
    assert_eq!(order, [206, 203, 208, 204, 203, 226, 202, 201]);
}

#[test]
fn what_guards_and_cannot_be_said_refuses() {
    for guard in [
        "auth_basic secret; auth_basic_user_file users/$host;",
        "auth_request /auth;",
        "valid_referers none *.a.example;",
        "access_by_lua_block { local a = {} ngx.exit(403) }",
        "secure_link $arg_md5;",
        "if ($geoip_country = XX) { return 403; }",
        "allow 10.0.0.0/8; allow office.example; deny all; auth_jwt x;",
        "satisfy any; auth_basic x;",
        "rewrite ^/a(?<!b)c$ /d last;",
        "ssl_crl /etc/crl;",
    ] {
        let text = server(&format!(
            "location / {{ {guard} proxy_pass http://10.0.0.1; }}"
        ));
        let imported = import(&text);
        for route in &parsed(&imported).routes {
            let refuses = matches!(&route.action, Action::Respond(own) if own.status == 403);
            assert!(refuses, "{guard}\n{}", imported.yaml);
        }
        assert!(imported.summary.count(Outcome::Not) > 0, "{guard}");
    }
}

#[test]
fn a_server_that_is_asked_is_asked_here_too() {
    let location = |auth: &str| {
        format!(
            "location = /auth {{ {auth} }}
             location / {{
                 auth_request /auth;
                 auth_request_set $user $upstream_http_x_user;
                 proxy_set_header X-User $user;
                 proxy_pass http://10.0.0.1;
             }}"
        )
    };
    let auth = "internal; proxy_pass http://10.0.0.2:8000/check; proxy_pass_request_body off;
        proxy_read_timeout 3s; proxy_set_header X-Original-URI $request_uri;
        proxy_set_header X-Key $http_x_key; proxy_set_header Origin '';";
    let imported = import(&server(&location(auth)));
    let config = parsed(&imported);
    let route = &config.routes[1];
    let asked = route.access.ext_authz.as_ref().unwrap();
    assert_eq!(
        asked.cluster.endpoints[0].address.to_string(),
        "10.0.0.2:8000"
    );
    assert_eq!((&*asked.path, asked.timeout.as_secs()), ("/check", 3));
    assert_eq!(asked.told, ["authorization", "cookie", "x-key"]);
    assert_eq!(asked.allowed_upstream_headers, ["x-user"]);
    assert_eq!(asked.added.len(), 1);
    assert_eq!(imported.summary.count(Outcome::Not), 0, "{}", imported.yaml);
    // What cannot be asked so is refused.
    for auth in [
        "internal; return 204;",
        "proxy_pass http://$host/check;",
        "deny 10.0.0.0/8; proxy_pass http://10.0.0.2;",
        "proxy_pass http://10.0.0.2; proxy_set_header X-Key $secret;",
        "proxy_pass http://10.0.0.2/check?a=b;",
    ] {
        let config = parsed(&import(&server(&location(auth))));
        let last = config.routes.last().unwrap();
        let refuses = matches!(&last.action, Action::Respond(own) if own.status == 403);
        assert!(refuses, "{auth}");
    }
}

#[test]
fn a_guard_of_the_whole_holds_in_its_locations() {
    let text = server(
        "auth_jwt x;
         location / { proxy_pass http://10.0.0.1; }
         location /open/ { auth_jwt off; proxy_pass http://10.0.0.1; }",
    );
    let config = parsed(&import(&text));
    let open: Vec<bool> = config
        .routes
        .iter()
        .map(|route| matches!(route.action, Action::Forward(_)))
        .collect();
    // The redirect to the slash, what is open, and what is not.
    assert_eq!(open, [false, true, false]);
}

#[test]
fn users_with_passwords_are_asked_for() {
    let auth = "auth_basic 'the office'; auth_basic_user_file /etc/users;";
    let own = format!("location / {{ {auth} proxy_pass http://10.0.0.1; }}");
    assert!(routes(&own).contains("basic_auth: {users_file: /etc/users, realm: 'the office'}"));
    let any = "satisfy any; deny 10.1.0.0/16; allow 10.0.0.0/8; deny all;";
    let text = server(&format!(
        "location / {{ {any} {auth} proxy_pass http://10.0.0.1; }}"
    ));
    let config = parsed(&import(&text));
    let asks: Vec<bool> = config
        .routes
        .iter()
        .map(|own| own.access.basic_auth.is_some())
        .collect();
    // Those of `10.1.0.0/16`, the rest of `10.0.0.0/8`, and all others.
    assert_eq!(asks, [true, false, true]);
    assert!(config.routes.iter().all(forwards));
}

#[test]
fn responses_are_compressed() {
    let text = server("gzip on; gzip_types text/css *; location / { proxy_pass http://b; }");
    let imported = import(&text);
    assert!(
        imported
            .yaml
            .contains("compressor: {algorithms: [gzip], content_types: [text/css, text/html]}")
    );
    parsed(&imported);
}

#[test]
fn bodies_are_buffered_as_they_are_told() {
    for (told, expected) in [
        ("proxy_buffering off;", "buffer: {response: off}"),
        (
            "proxy_buffers 8 16k; proxy_buffer_size 4k;",
            "buffer: {response: {memory: 132KB}}",
        ),
        (
            "proxy_max_temp_file_size 10m; proxy_temp_path /tmp;",
            "buffer: {response: {memory: 64KB, file: {path: /tmp, max_size: 10MB}}}",
        ),
        (
            "proxy_buffering on; proxy_max_temp_file_size 0; proxy_temp_path /tmp;",
            "buffer: {response: {memory: 64KB}}",
        ),
        (
            "proxy_request_buffering on; client_body_buffer_size 1m;",
            "buffer: {request: {memory: 1MB}}",
        ),
        (
            "proxy_request_buffering off; proxy_buffering off;",
            "buffer: {request: off, response: off}",
        ),
    ] {
        let imported = import(&server(&format!(
            "location / {{ proxy_pass http://b; {told} }}"
        )));
        assert!(
            imported.yaml.contains(expected),
            "{told}: {}",
            imported.yaml
        );
        parsed(&imported);
    }
    let silent = import(&server("location / { proxy_pass http://b; }"));
    assert!(!silent.yaml.contains("buffer"), "{}", silent.yaml);
}

fn forwards(route: &Route) -> bool {
    matches!(route.action, Action::Forward(_))
}

#[test]
fn networks_are_taken_in_turn() {
    let routes = routes(
        "location / { deny 10.1.0.0/16; allow 10.0.0.0/8; allow 192.0.2.7; deny all;
         proxy_pass http://b.example; }",
    );
    let expected = "  \
  - match: {hosts: [a.example], clients: ['10.1.0.0/16']}
    direct_response: {status: 403}
  - match: {hosts: [a.example], clients: ['10.0.0.0/8', 192.0.2.7]}
    cluster: b.example
    host_rewrite: b.example
  - match: {hosts: [a.example]}
    direct_response: {status: 403}";
    assert_eq!(routes, without_hosts(expected));
}

/// The only server is the default: its routes are for all hosts.
fn without_hosts(text: &str) -> String {
    let text = text.replace("hosts: [a.example], ", "");
    text.replace("- match: {hosts: [a.example]}\n    ", "- ")
}

/// Whether the first route that takes such a request leads to a backend, and the route.
fn taken<'c>(config: &'c Config, path: &str, method: &str) -> &'c Route {
    let fits = |route: &&Route| {
        let takes = match (&route.matches.path, &route.conditions.path) {
            (PathPattern::Any, None) => true,
            (PathPattern::Any, Some(regex)) => regex.matches_all_of(path),
            (own, _) => own.matches(path),
        };
        let methods = &route.conditions.methods;
        takes && (methods.is_empty() || methods.iter().any(|own| own.as_str() == method))
    };
    config.routes.iter().find(fits).unwrap()
}

fn refuses(route: &Route) -> bool {
    matches!(&route.action, Action::Respond(own) if own.status == 403)
}

#[test]
fn what_leads_to_a_location_is_guarded_still() {
    let named = "location @app { proxy_pass http://10.0.0.1; }";
    let auth = "auth_basic x; auth_basic_user_file /etc/users;";
    let first = |guard: &str, named: &str| {
        let text = format!("location /s {{ {guard} try_files $uri @app; }} {named}");
        parsed(&import(&server(&text)))
    };
    let config = first(auth, named);
    assert!(taken(&config, "/s", "GET").access.basic_auth.is_some());
    let config = first(
        &format!("satisfy any; allow 10.0.0.0/8; deny all; {auth}"),
        named,
    );
    let asks: Vec<bool> = config.routes[..2]
        .iter()
        .map(|own| own.access.basic_auth.is_some())
        .collect();
    assert_eq!(asks, [false, true]);
    let config = first(
        "auth_request /auth;",
        &format!("location = /auth {{ internal; proxy_pass http://10.0.0.2; }} {named}"),
    );
    assert!(taken(&config, "/s", "GET").access.ext_authz.is_some());
    // A route asks for one password alone.
    let other = "location @app { auth_basic x; auth_basic_user_file /other; proxy_pass http://a; }";
    assert!(refuses(taken(&first(auth, other), "/s", "GET")));
    let same = format!("location @app {{ {auth} proxy_pass http://10.0.0.1; }}");
    assert!(
        taken(&first(auth, &same), "/s", "GET")
            .access
            .basic_auth
            .is_some()
    );
}

#[test]
fn the_first_location_bounds_the_rate() {
    let text = "http { limit_req_zone $remote_addr zone=z:1m rate=7r/s;
        server { listen 80; location / { limit_req zone=z; try_files $uri @app; }
        location @app { proxy_pass http://10.0.0.1; } } }";
    let imported = import(text);
    assert!(
        imported.yaml.contains("tokens_per_fill: 7"),
        "{}",
        imported.yaml
    );
    parsed(&imported);
}

#[test]
fn what_follows_an_if_that_is_met_holds() {
    let location = |inner: &str| {
        let text = format!("location / {{ {inner} proxy_pass http://10.0.0.1; }}");
        import(&server(&text))
    };
    let imported = location(
        "if ($request_method = POST) { add_header A b; } if ($http_x_token != s) { return 403; }",
    );
    assert!(
        refuses(taken(&parsed(&imported), "/", "POST")),
        "{}",
        imported.yaml
    );
    let imported = location(
        "set $deny 0; if ($remote_addr != 10.0.0.1) { set $deny 1; } if ($deny = 1) { return 403; }",
    );
    let config = parsed(&imported);
    let open: Vec<bool> = config.routes.iter().map(forwards).collect();
    assert_eq!(open, [true, false], "{}", imported.yaml);
    assert_eq!(
        config.routes[0].conditions.clients.len(),
        1,
        "{}",
        imported.yaml
    );
    // At the server, too; what cannot be asked leaves the flag unknown.
    for inner in [
        "set $no 0; if ($query_string ~ x) { set $no 1; } if ($no = 1) { return 403; }
         location / { proxy_pass http://10.0.0.1; }",
        "set $no 0; if ($request_method = POST) { set $no 1; } if ($no = 1) { return 403; }
         location / { proxy_pass http://10.0.0.1; }",
        "set $no 0; if ($request_method = POST) { set $no 1; }
         location / { if ($no = 1) { return 403; } proxy_pass http://10.0.0.1; }",
        "location / { if ($request_method = POST) { rewrite ^/x$ /y break; } return 403; }",
        "location / { if ($request_method = POST) { add_header A b; } proxy_pass http://10.0.0.1;
         limit_except GET { deny all; } }",
        "location / { rewrite ^/a$ /b; if ($request_method = POST) { return 403; }
         proxy_pass http://10.0.0.1; }",
    ] {
        let imported = import(&server(inner));
        for path in ["/", "/x", "/a"] {
            let config = parsed(&imported);
            let route = taken(&config, path, "POST");
            let is_rewritten = inner.contains("/x$") && path == "/x";
            assert!(
                refuses(route) || is_rewritten,
                "{path} {inner}\n{}",
                imported.yaml
            );
        }
    }
    let cached = "set $skip 0; if ($http_x) { set $skip 1; }
        location / { proxy_no_cache $skip; proxy_pass http://10.0.0.1; }";
    assert_eq!(parsed(&import(&server(cached))).routes.len(), 1);
}

#[test]
fn many_ifs_do_not_multiply_routes() {
    let flags = |n| format!("if ($http_x_{n} = a) {{ set $no 1; }}");
    let flags: String = (0..9).map(flags).collect();
    let text = format!(
        "location / {{ set $no 0; {flags} if ($no = 1) {{ return 403; }}
         proxy_pass http://10.0.0.1; }}"
    );
    let config = parsed(&import(&server(&text)));
    assert!(config.routes.iter().all(refuses));
    let passes = |n| format!("if ($http_x = {n}) {{ proxy_pass http://10.0.0.{n}; }}");
    let passes: String = (10..30).map(passes).collect();
    let text = format!("location / {{ {passes} proxy_pass http://10.0.0.1; }}");
    let config = parsed(&import(&server(&text)));
    assert!(config.routes.len() < 100 && config.routes.iter().all(forwards));
}

#[test]
fn rewrites_that_all_match_come_to_an_end() {
    let rewrites = "rewrite ^/x$ /x;".repeat(60);
    let ifs = "if ($http_a != b) { rewrite ^/x$ /x; }".repeat(60);
    for steps in [&rewrites, &ifs] {
        let text = server(&format!("{steps} location / {{ proxy_pass http://a; }}"));
        let mut files = Memory::of(&[("nginx.conf", &text)]);
        if let Ok(imported) = nginx("nginx.conf", &mut files, &Options::default()) {
            parsed(&imported);
        }
    }
}

#[test]
fn an_if_that_is_met_later_has_its_settings() {
    let text = "location / { if ($request_method = POST) { add_header A b; }
        if ($http_x_b = c) { proxy_pass http://10.0.0.2; } proxy_pass http://10.0.0.1; }";
    let imported = import(&server(text));
    let config = parsed(&imported);
    assert_eq!(config.routes.len(), 4);
    let first = taken(&config, "/", "POST");
    assert!(imported.yaml.contains("to-10.0.0.2") && forwards(first));
    // Neither has those of the other.
    assert!(first.response_headers.is_empty(), "{}", imported.yaml);
}

#[test]
fn new_paths_do_not_pass_by_locations_that_guard() {
    let rewrite = "rewrite ^/(?:en|de)/(.*)$ /$1 last;";
    let open = "location / { proxy_pass http://10.0.0.1; }";
    for guard in [
        "location /admin/ { allow 10.0.0.0/8; deny all; proxy_pass http://10.0.0.1; }",
        "location = /admin { internal; proxy_pass http://10.0.0.1; }",
        "location ~ x$ { auth_basic x; auth_basic_user_file /f; proxy_pass http://10.0.0.1; }",
        "location /a/ { location /a/b/ { deny all; } proxy_pass http://10.0.0.1; }",
    ] {
        let imported = import(&server(&format!("{rewrite} {guard} {open}")));
        let config = parsed(&imported);
        assert!(
            refuses(taken(&config, "/en/x", "GET")),
            "{guard}\n{}",
            imported.yaml
        );
        assert!(forwards(taken(&config, "/other", "GET")), "{guard}");
    }
    let elsewhere = "rewrite ^/(?:en|de)/(.*)$ /w/$1 last; location /admin/ { deny all; }";
    let config = parsed(&import(&server(&format!("{elsewhere} {open}"))));
    assert!(forwards(taken(&config, "/en/x", "GET")));
    // What a location asks of the path it asks of the new one.
    let asked = "location /en/ { rewrite ^/en/(.*)$ /$1 last; }
        location / { if ($uri ~ ^/secret) { return 403; } proxy_pass http://10.0.0.1; }";
    let config = parsed(&import(&server(asked)));
    assert!(refuses(taken(&config, "/en/secret", "GET")));
}

#[test]
fn what_is_internal_is_not_there_whatever_it_does() {
    for inner in [
        "location /i/ { internal; return 204; }",
        "location /i/ { internal; location /i/x/ { proxy_pass http://10.0.0.1; } }",
        "location /i/ { internal; if ($http_x = y) { proxy_pass http://10.0.0.2; }
         proxy_pass http://10.0.0.1; }",
        "location /i/ { internal; rewrite ^/i/(.*)$ /$1 last; }",
    ] {
        let config = parsed(&import(&server(&format!(
            "{inner} location / {{ proxy_pass http://10.0.0.1; }}"
        ))));
        let route = taken(&config, "/i/x/y", "GET");
        let is_404 = matches!(&route.action, Action::Respond(own) if own.status == 404);
        assert!(is_404, "{inner}");
    }
}

#[test]
fn paths_that_a_rewrite_is_not_for_go_on() {
    let text = "location / { rewrite ^/public/(.*)$ /$1 break; return 403;
        proxy_pass http://10.0.0.1; }";
    let config = parsed(&import(&server(text)));
    assert!(forwards(taken(&config, "/public/x", "GET")));
    assert!(refuses(taken(&config, "/x", "GET")));
    let text = "location ~ x$ { rewrite y /z break; return 403; proxy_pass http://10.0.0.1; }
        location / { return 204; }";
    let config = parsed(&import(&server(text)));
    assert!(refuses(taken(&config, "/x", "GET")));
    let text = "location / { rewrite ^/a/(.*)$ /$1 break; rewrite ^/b/(.*)$ /$1 break;
        proxy_pass http://10.0.0.1; }";
    let config = parsed(&import(&server(text)));
    for path in ["/a/c", "/b/c"] {
        let rewrite = taken(&config, path, "GET").regex_rewrite.as_ref().unwrap();
        assert_eq!(rewrite.rewrite(path).unwrap(), "/c");
    }
}

#[test]
fn servers_in_plain_text_do_not_take_the_place_of_guarded_ones() {
    let servers = |plain: &str, tls: &str| {
        let text = format!(
            "http {{ ssl_certificate /c; ssl_certificate_key /k;
             server {{ listen 80; server_name a.example; {plain} }}
             server {{ listen 443 ssl; server_name a.example; {tls} }} }}"
        );
        parsed(&import(&text))
    };
    let open = "location / { proxy_pass http://10.0.0.1; }";
    let auth = "auth_basic x; auth_basic_user_file /f;";
    for (plain, tls) in [
        (open.to_owned(), format!("{auth} {open}")),
        (
            open.to_owned(),
            format!("location /admin/ {{ deny all; }} {open}"),
        ),
        (format!("auth_basic off; {open}"), open.to_owned()),
    ] {
        let config = servers(&plain, &tls);
        let is_sent = matches!(&config.routes[0].action, Action::Redirect(own) if own.https);
        assert!(is_sent, "{plain} {tls}");
    }
    for (plain, tls) in [
        (open, open),
        (
            "location /.well-known/acme-challenge/ { proxy_pass http://10.0.0.2; }
             location / { return 301 https://$host$request_uri; }",
            "location / { deny 10.0.0.1; proxy_pass http://10.0.0.1; }",
        ),
        (open, "return 444;"),
    ] {
        let config = servers(plain, tls);
        let of_plain = config.routes.iter().find(|own| forwards(own)).unwrap();
        assert!(of_plain.access.basic_auth.is_none());
        let redirects = |own: &Route| matches!(&own.action, Action::Redirect(own) if own.https);
        assert!(!redirects(&config.routes[0]), "{plain} {tls}");
    }
}

#[test]
fn conditions_on_addresses_from_a_field_are_not_asked() {
    let text = "http { set_real_ip_from 10.0.0.1; real_ip_header X-Forwarded-For;
        server { listen 80; location / { if ($remote_addr != 10.0.0.7) { return 403; }
        proxy_pass http://10.0.0.2; } } }";
    assert!(!parsed(&import(text)).routes.iter().any(forwards));
}

#[test]
fn fields_that_are_not_there_are_empty() {
    let location = |inner: &str| {
        let text = format!("location / {{ {inner} proxy_pass http://10.0.0.1; }}");
        routes(&text)
    };
    let own = location("if ($http_user_agent ~ ^$) { return 403; }");
    let expected = "{name: user-agent, safe_regex: .+, invert_match: true}";
    assert!(own.replace('\'', "").contains(expected), "{own}");
    let own = location("if ($http_user_agent !~ ^$) { return 403; }");
    let expected = "{name: user-agent, safe_regex: .+}";
    assert!(own.replace('\'', "").contains(expected), "{own}");
    for test in ["~* '^$|curl'", "!~ '^(a|)$'", "~ 'x*'"] {
        let own = location(&format!("if ($http_user_agent {test}) {{ return 403; }}"));
        assert_eq!(own, "  - direct_response: {status: 403}", "{test}");
    }
    // A class is of characters that may be encoded, too.
    let class = "location ~ \"[@'();]\" { deny all; } location / { proxy_pass http://a; }";
    let config = parsed(&import(&server(class)));
    for path in ["/a@b", "/a%40b", "/%3B"] {
        assert!(refuses(taken(&config, path, "GET")), "{path}");
    }
    assert!(forwards(taken(&config, "/a", "GET")));
}

#[test]
fn a_path_after_a_variable_is_all_of_a_path() {
    for rest in ["/x.xml", "/"] {
        let own = routes(&format!(
            "set $b h; location /f/ {{ proxy_pass https://$b{rest}; }}"
        ));
        let expected = format!("regex_rewrite: {{pattern: '^.*$', substitution: {rest}}}");
        assert!(own.contains(&expected), "{own}");
    }
}

#[test]
fn maps_ask_for_texts_first_and_without_regard_to_case() {
    let text = "http { map $http_x_a $b { ~^b 10.0.0.1; Blue 10.0.0.2; default 10.0.0.3; }
        server { listen 80; location / { proxy_pass http://$b; } } }";
    let yaml = import(text).yaml;
    let blue = yaml.find("(?i:Blue)").unwrap_or_else(|| panic!("{yaml}"));
    assert!(blue < yaml.find("b.*").unwrap(), "{yaml}");
}

#[test]
fn redirects_of_backends_are_told_of() {
    let notes = |inner: &str| {
        let imported = import(&server(&format!("location /a/ {{ {inner} }}")));
        let mut notes = imported.summary.exceptions();
        notes.any(|own| own.told.contains("`Location`"))
    };
    let host = "proxy_set_header Host $host;";
    assert!(notes("proxy_pass http://b;"));
    assert!(notes(&format!("{host} proxy_pass http://b/c/;")));
    assert!(!notes(&format!("{host} proxy_pass http://b;")));
}

#[test]
fn addresses_from_a_field_are_no_grounds_to_let_anyone_in() {
    let text = "http { set_real_ip_from 10.0.0.1; real_ip_header X-Forwarded-For;
        server { listen 80; location / { allow 10.0.0.0/8; deny all;
        proxy_pass http://10.0.0.2; } } }";
    let imported = import(text);
    let config = parsed(&imported);
    assert!(!config.routes.iter().any(forwards), "{}", imported.yaml);
    assert_eq!(config.listeners[0].forwarding.trusted.len(), 1);
}

#[test]
fn what_is_served_over_tls_alone_is_not_served_in_plain_text() {
    let text = "http {
        server { listen 80; server_name plain.example; location / { return 204; } }
        server { listen 443 ssl; server_name secure.example; ssl_certificate /c; ssl_certificate_key /k;
                 ssl_client_certificate /ca; ssl_verify_client on;
                 location / { proxy_pass http://10.0.0.1; } } }";
    let imported = import(text);
    let config = parsed(&imported);
    let tls = config
        .listeners
        .iter()
        .find_map(|own| own.tls.as_ref())
        .unwrap();
    assert!(tls.client_certificates.is_some());
    let first = config.routes.iter().position(forwards).unwrap();
    let before = &config.routes[first - 1];
    let is_sent = matches!(&before.action, Action::Redirect(own) if own.https);
    assert!(is_sent, "{}", imported.yaml);
}

#[test]
fn certificates_that_one_of_several_servers_wants_refuse_its_clients() {
    let text = "http {
        ssl_certificate /c; ssl_certificate_key /k;
        server { listen 443 ssl; server_name open.example; location / { return 204; } }
        server { listen 443 ssl; server_name closed.example; ssl_client_certificate /ca;
                 ssl_verify_client on; location / { proxy_pass http://10.0.0.1; } } }";
    let config = parsed(&import(text));
    assert!(!config.routes.iter().any(forwards));
}

#[test]
fn servers_of_other_addresses_are_not_reached_by_these() {
    let text = "http {
        server { listen 80; location / { proxy_pass http://10.0.0.1; } }
        server { listen 127.0.0.1:8081; location / { proxy_pass http://10.0.0.2; } } }";
    let config = parsed(&import(text));
    assert_eq!((config.listeners.len(), config.clusters.len()), (1, 1));
    let mut files = Memory::of(&[("nginx.conf", text)]);
    let options = Options { ports: vec![8081] };
    let other = nginx("nginx.conf", &mut files, &options).unwrap();
    let names: Vec<String> = parsed(&other)
        .clusters
        .iter()
        .map(|own| own.name.clone())
        .collect();
    assert_eq!(names, ["to-10.0.0.2"]);
}

#[test]
fn expressions_without_words_here_are_refused_where_they_guard() {
    let guarded = routes("location ~ /\\.(?!well-known) { deny all; } location / { return 204; }");
    assert!(
        guarded
            .starts_with("  - match: {safe_regex: '.*/\\..*'}\n    direct_response: {status: 403}"),
        "{guarded}"
    );
    let served =
        routes("location ~ ^/(?=a) { proxy_pass http://b.example; } location / { return 204; }");
    assert_eq!(served, "  - direct_response: {status: 204}");
}

#[test]
fn paths_are_replaced_as_nginx_does() {
    for (location, pass, expected) in [
        (
            "/a/",
            "http://b/",
            "  - match: {prefix: /a/}\n    cluster: b\n    prefix_rewrite: /\n",
        ),
        (
            "/a",
            "http://b/c",
            "  - match: {safe_regex: '/a.*'}\n    cluster: b\n    regex_rewrite: {pattern: '^/a', substitution: /c}\n",
        ),
        (
            "/a/",
            "http://b/c",
            "  - match: {prefix: /a/}\n    cluster: b\n    regex_rewrite: {pattern: '^/a/', substitution: /c}\n",
        ),
        (
            "= /a",
            "http://b/c",
            "  - match: {path: /a}\n    cluster: b\n    prefix_rewrite: /c\n",
        ),
        ("/", "http://b/", "  - cluster: b\n"),
        ("/", "http://b$request_uri", "  - cluster: b\n"),
        (
            "~ ^/u/(.*)$",
            "http://b/v/$1$is_args$args",
            "  - match: {safe_regex: '/u/(.*)'}\n    cluster: b\n    regex_rewrite: {pattern: '^/u/(.*)$', substitution: '/v/\\1'}\n",
        ),
    ] {
        let own = format!("location {location} {{ proxy_pass {pass}; }}");
        assert!(routes(&own).contains(expected), "{own}\n{}", routes(&own));
    }
    // What would have other requests reach the backend.
    let lost = routes("location / { proxy_pass http://b/x?a=b; }");
    assert_eq!(lost, "  - direct_response: {status: 403}");
}

#[test]
fn what_clients_may_encode_is_matched_in_both_spellings() {
    let config = parsed(&import(&server(
        "location /@admin/ { deny all; location ~ x$ { deny all; } }
         location = /a+b { proxy_pass http://b/c; } location / { return 204; }",
    )));
    let takes = |path: &str| {
        let mut routes = config.routes.iter();
        let fits = |route: &&Route| match (&route.matches.path, &route.conditions.path) {
            (PathPattern::Any, None) => true,
            (PathPattern::Any, Some(regex)) => regex.matches_all_of(path),
            (own, _) => own.matches(path),
        };
        let route = routes.find(fits).unwrap();
        match &route.action {
            Action::Respond(own) => own.status.to_string(),
            _ => route.regex_rewrite.as_ref().unwrap().rewrite(path).unwrap(),
        }
    };
    for path in ["/@admin/y", "/%40admin/y", "/@admin/x", "/%40admin/x"] {
        assert_eq!(takes(path), "403", "{path}");
    }
    assert_eq!(
        (takes("/a+b"), takes("/a%2Bb"), takes("/a")),
        ("/c".to_owned(), "/c".to_owned(), "204".to_owned())
    );
}

#[test]
fn upstreams_become_clusters() {
    let text = "http { upstream u { least_conn; server 10.0.0.1:8000 weight=2 max_conns=9;
        server 10.0.0.2 backup; server unix:/x; server unix:x; keepalive 8; }
        server { listen 80; location / { proxy_pass https://u; proxy_connect_timeout 2s;
        proxy_ssl_verify on; proxy_next_upstream error http_502; } } }";
    let imported = import(text);
    let config = parsed(&imported);
    assert_eq!(config.clusters.len(), 1);
    let cluster = &config.clusters[0];
    let endpoints = cluster.endpoints.iter();
    let endpoints = endpoints.map(|own| (own.address.to_string(), own.weight, own.priority));
    let expected = [
        ("10.0.0.1:8000", 2, 0),
        ("10.0.0.2:443", 1, 1),
        ("unix:/x", 1, 0),
    ];
    assert!(endpoints.eq(expected.map(|(address, weight, priority)| (
        address.to_owned(),
        weight,
        priority
    ))));
    let notes: Vec<_> = imported
        .summary
        .exceptions()
        .map(ToString::to_string)
        .collect();
    assert!(
        notes.iter().any(|own| own.contains("five of seven")),
        "{notes:?}"
    );
    let alone = import(&text.replace("server unix:/x;", ""));
    let mut notes = alone.summary.exceptions().map(ToString::to_string);
    assert!(
        !notes.any(|own| own.contains("five of seven")),
        "{}",
        alone.yaml
    );
    assert_eq!((cluster.max_requests, cluster.max_idle_connections), (9, 8));
    assert_eq!(cluster.connect_timeout.as_secs(), 2);
    assert!(cluster.tls.is_some());
    assert!(
        config.routes[0]
            .retry
            .retry_on
            .contains(&sprat_config::resolved::RetryOn::Reset)
    );
}

/// Checks that a hash of another part of requests than nginx's is told of.
#[test]
fn hashes_of_other_parts_are_told_of() {
    for (key, told) in [
        ("$uri", Some("the hash is of the host and the query, too")),
        ("$request_uri", Some("the hash is of the host, too")),
        (
            "$scheme$proxy_host$request_uri",
            Some("the hash is of the host that clients ask for, and not of the scheme"),
        ),
        ("$host$request_uri", None),
        ("$remote_addr", None),
    ] {
        let imported = import(&format!(
            "http {{ upstream u {{ server 10.0.0.1:80; hash {key}; }}\n\
             server {{ listen 80; server_name a.example; location / {{ proxy_pass http://u; }} }} }}"
        ));
        let mut notes = imported.summary.exceptions();
        let note = notes.find(|own| own.directive.starts_with("hash"));
        let expected = told.map(|told| (Outcome::Nearly, told));
        let found = note.map(|own| (own.outcome, &*own.told));
        assert_eq!(found, expected, "{key}");
        assert!(imported.yaml.contains("maglev"), "{}", imported.yaml);
    }
}

#[test]
fn sessions_are_kept_by_a_cookie() {
    let text = "http { upstream u { server 10.0.0.1:8000; server 10.0.0.2 backup;
        sticky cookie srv expires=1h path=/a secure httponly samesite=strict; }
        server { listen 80; location / { proxy_pass http://u; } } }";
    let imported = import(text);
    let config = parsed(&imported);
    let kept = config.clusters[0].stateful_session.as_ref().unwrap();
    assert_eq!(kept.cookie, "srv");
    assert_eq!(
        kept.attributes,
        "; Path=/a; HttpOnly; Max-Age=3600; Secure; SameSite=Strict"
    );
    let priorities = config.clusters[0].endpoints.iter().map(|own| own.priority);
    assert!(priorities.eq([0, 1]), "a session may be one with a backup");
    let other = import(&text.replace("sticky cookie srv", "sticky route srv"));
    assert!(parsed(&other).clusters[0].stateful_session.is_none());
}

#[test]
fn files_are_included() {
    let mut files = Memory::of(&[
        (
            "/etc/nginx/nginx.conf",
            "http { include mime.types; include sites/*.conf; }",
        ),
        (
            "/etc/nginx/sites/b.conf",
            "server { listen 80; server_name b.example; return 204; }",
        ),
        (
            "/etc/nginx/sites/a.conf",
            "server { listen 80; include snippet; }",
        ),
        ("/etc/nginx/sites/.c.conf", "wrong"),
        ("/etc/nginx/snippet", "location / { return 418; }"),
    ]);
    let imported = nginx("/etc/nginx/nginx.conf", &mut files, &Options::default()).unwrap();
    assert!(
        imported
            .yaml
            .contains("# /etc/nginx/snippet:1: location /\n  - direct_response: {status: 418}")
    );
    // The first server is the default: of `a.conf`.
    assert!(
        imported.yaml.contains("{hosts: [b.example]}"),
        "{}",
        imported.yaml
    );
}

/// Checks that a listener at the admin listener's usual port does not bring the import down.
#[test]
fn the_admin_listener_gives_way() {
    let text = "http { server { listen 9900; location / { proxy_pass http://10.0.0.1; } } }";
    let imported = import(text);
    let admin = parsed(&imported).admin.unwrap();
    assert_eq!(admin.address.to_string(), "127.0.0.1:9901");
    let mut notes = imported.summary.exceptions();
    assert!(notes.any(|own| own.told.contains("127.0.0.1:9901")));
}

#[test]
fn bad_input_is_told_with_its_place() {
    let deep = "a { ".repeat(100);
    let many = format!("http {{ {} }}", "x;".repeat(60_000));
    // Each of these leads to all of them, up to ten times in turn.
    let rewrites = "rewrite ^/a/x$ /a/x last;".repeat(9);
    let loops = server(&format!(
        "location /a/ {{ {rewrites} proxy_pass http://b; }}"
    ));
    let prefixes: String = (0..300)
        .map(|n| format!("location /{n}/ {{ return 204; }}\n"))
        .collect();
    let regexes: String = (0..300)
        .map(|n| format!("location ~ {n}$ {{ return 204; }}\n"))
        .collect();
    let product = server(&format!(
        "location / {{ location ~ x {{ return 204; }} }} {prefixes} {regexes}"
    ));
    for (text, expected) in [
        ("http {", "nginx.conf:1: expected a `}` for `http`"),
        (
            "http { server { listen 80 } }",
            "nginx.conf:1: expected `;` after `listen 80`, found `}`",
        ),
        (
            "http {\n\n}\n}",
            "nginx.conf:4: expected a directive, found `}`",
        ),
        ("a \"b", "nginx.conf:1: expected a closing \""),
        (
            "a 'b'c;",
            "nginx.conf:1: expected a space, `;` or `{` after ', found 'c'",
        ),
        (";", "nginx.conf:1: expected a directive"),
        ("a b", "nginx.conf:1: expected `;` or `{` after `a b`"),
        // A file that is no configuration, such as a log, is not told whole.
        (
            &"a line of a log\n".repeat(100),
            "nginx.conf:1: expected `;` or `{` after `a line of a log a line of a log a line of a \
             log a line of a log a lin...`",
        ),
        (
            "include nginx.conf;",
            "nginx.conf:1: blocks and includes are more than 24 deep here",
        ),
        (
            "include gone.conf;",
            "nginx.conf:1: cannot read `gone.conf`: there is no such file",
        ),
        (
            &deep,
            "nginx.conf:1: blocks and includes are more than 24 deep here",
        ),
        (&many, "nginx.conf:1: there are more than 50000 directives"),
        (
            &loops,
            "nginx.conf:1: more than 10000 routes would come of it",
        ),
        (
            &product,
            "nginx.conf:1: more than 10000 routes would come of it",
        ),
        (
            "http { }",
            "nginx.conf:1: nothing here listens for HTTP: expected an address and a port",
        ),
        (
            "http { } http { }",
            "nginx.conf:1: there is a second `http`",
        ),
        (
            &" ".repeat(5 << 20),
            "nginx.conf:1: the files have more than 4194304 bytes together",
        ),
    ] {
        let mut files = Memory::of(&[("nginx.conf", text)]);
        let fault = nginx("nginx.conf", &mut files, &Options::default()).unwrap_err();
        assert_eq!(fault.to_string(), expected);
    }
}

#[test]
fn variables_of_the_environment_are_none() {
    let text = server(
        "location / { proxy_set_header X-A '${host}$${b}'; add_header X-B '100%'; proxy_pass http://b; }",
    );
    let imported = import(&text);
    let lines = imported
        .yaml
        .lines()
        .filter(|line| !line.trim_start().starts_with('#'));
    assert!(
        lines.into_iter().all(|line| !line.contains("${")),
        "{}",
        imported.yaml
    );
    parsed(&imported);
}

#[test]
fn unix_sockets_are_taken_over() {
    let text = "http { server { listen unix:/run/front.sock; listen 80; location /app/ {
        proxy_pass http://unix:/run/app.sock:/; } location / { proxy_pass http://unix:/run/b.sock; } } }";
    let imported = import(text);
    let config = parsed(&imported);
    let listeners: Vec<_> = config
        .listeners
        .iter()
        .map(|own| own.address.to_string())
        .collect();
    assert_eq!(listeners, ["0.0.0.0:80", "unix:/run/front.sock"]);
    assert_eq!(config.listeners[1].mode, 0o666);
    let endpoints = config
        .clusters
        .iter()
        .map(|own| own.endpoints[0].address.to_string());
    let endpoints: Vec<_> = endpoints.collect();
    assert_eq!(endpoints.len(), 2);
    assert!(
        endpoints.contains(&"unix:/run/app.sock".to_owned()),
        "{endpoints:?}"
    );
    assert!(
        endpoints.contains(&"unix:/run/b.sock".to_owned()),
        "{endpoints:?}"
    );
    // nginx calls such a backend `localhost`.
    assert!(imported.yaml.contains("localhost"), "{}", imported.yaml);
    assert!(
        imported.yaml.contains("prefix_rewrite: /"),
        "{}",
        imported.yaml
    );
}

/// The notes on logs and formats.
fn log_notes(imported: &Imported) -> Vec<String> {
    let all = imported.summary.exceptions();
    let of_logs = all.filter(|own| own.directive.contains("log"));
    of_logs.map(ToString::to_string).collect()
}

#[test]
fn variables_without_a_field_are_named_with_their_line() {
    let text = "http {\nlog_format x '$remote_addr $gzip_ratio $connection '\n  '$host $http_cookie';\n\
                server { listen 80; access_log /var/log/a.log x; location / { return 204; } } }";
    let imported = import(text);
    let notes = log_notes(&imported);
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert!(
        notes[0].starts_with("nginx.conf:2: log_format x"),
        "{notes:?}"
    );
    for part in [
        "no field for `$connection`, `$gzip_ratio`, `$http_cookie`: `-` stands there",
        "`$host` has the port",
    ] {
        assert!(notes[0].contains(part), "{notes:?}");
    }
    let log = "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT% - - %REQ(:AUTHORITY)% -";
    assert!(imported.yaml.contains(log), "{}", imported.yaml);
}

#[test]
fn logs_go_where_nginx_has_them_go() {
    let text = "http { access_log /var/log/a.log; access_log syslog:server=127.0.0.1,tag=web,facility=local1;\n\
                log_format j escape=json '{\"t\":\"$time_iso8601\",\"s\":$status,\"u\":\"$request_uri\"}';\n\
                access_log /dev/stdout j buffer=32k flush=1s;\n\
                server { listen 80; location / { return 204; } location /a { access_log off; return 204; } }\n\
                server { listen 80; server_name b; access_log /var/log/b.log; location / { return 204; } } }";
    let imported = import(text);
    let logs = parsed(&imported).access_log;
    let targets: Vec<_> = logs.iter().map(|own| format!("{:?}", own.target)).collect();
    assert_eq!(targets.len(), 3, "{targets:?}");
    assert!(
        targets[1].contains("127.0.0.1:514") && targets[1].contains("\"web\""),
        "{targets:?}"
    );
    assert!(targets[1].contains("facility: 17"), "{targets:?}");
    assert_eq!(targets[2], "Stdout");
    assert!(
        imported.yaml.contains("s: \"%RESPONSE_CODE%\"")
            || imported.yaml.contains("s: '%RESPONSE_CODE%'"),
        "{}",
        imported.yaml
    );
    let notes = log_notes(&imported);
    let of_b = notes.iter().find(|own| own.contains("/var/log/b.log"));
    assert!(
        of_b.is_some_and(|own| own.contains("the logs of the first server")),
        "{notes:?}"
    );
}
