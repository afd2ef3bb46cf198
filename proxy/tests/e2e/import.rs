//! Tests that compare nginx or HAProxy with Sprat under the configuration that `sprat import` makes
//! of theirs. Both get the same requests, in front of the same origins. The tests are skipped if
//! the other proxy is not installed.
//!
//! The allowed differences are stated in [`Seen::of`], and in docs/import.md.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::common::tls::*;
use crate::common::*;
use crate::http2::client as http2;
use sprat_import::{Files, Options};

/// The number of requests to each farm.
const REQUESTS: usize = 200;

struct Other(Child);

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The text of the only file of an import.
struct Text(String);

impl Files for Text {
    fn read(&mut self, _: &str, _: usize) -> Result<String, String> {
        Ok(self.0.clone())
    }

    fn names(&mut self, _: &str) -> Vec<String> {
        Vec::new()
    }
}

/// Starts an origin that answers with its name and the request.
fn echo(name: usize) -> Origin {
    Origin::http(move |request| {
        let fields = request.fields.iter();
        let fields: String = fields
            .map(|(name, value)| format!("\n{name}: {value}"))
            .collect();
        let body = format!("{name} {}{fields}\n\n{}", request.start, request.text());
        let status = match request.start.contains("missing") {
            true => "404 Not Found",
            false => "200 OK",
        };
        let length = if request.start.starts_with("HEAD") {
            0
        } else {
            body.len()
        };
        let body = if length == 0 { "" } else { &body };
        // A server that is asked who the client is.
        if request.start.contains(" /check") {
            let knows = request
                .field("cookie")
                .is_some_and(|own| own.contains("session=1"));
            let told = request.field("x-original-uri").unwrap_or("nothing");
            return match knows {
                true => format!(
                    "HTTP/1.1 200 OK\r\nX-Auth-User: anna\r\nX-Seen: {told}\r\nContent-Length: 0\r\n\r\n"
                ),
                false => "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Bearer\r\n\
                          Content-Length: 0\r\n\r\n"
                    .to_owned(),
            };
        }
        format!(
            "HTTP/1.1 {status}\r\nContent-Type: text/x-echo\r\nX-Powered-By: echo\r\n\
             X-Runtime: 1\r\nContent-Length: {length}\r\n\r\n{body}"
        )
    })
}

/// The protocol by which clients reach a farm.
#[derive(Clone, Copy, PartialEq)]
enum Over {
    Plain,
    Tls,
    /// The client speaks HTTP/2 over TLS.
    Http2,
}

/// Returns a farm's configuration with this test's addresses, and with TLS or HTTP/2 if need be.
fn farm(name: &str, (listen, over): (SocketAddr, Over), origins: &[Origin]) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../import/tests/farms");
    let mut text = std::fs::read_to_string(path.join(name)).unwrap();
    let more = match over {
        Over::Plain => "",
        Over::Tls => " ssl",
        Over::Http2 => " ssl http2",
    };
    text = text.replace("listen 8080", &format!("listen {listen}{more}"));
    text = text.replace("bind 127.0.0.1:8080", &format!("bind {listen}"));
    text = text.replace("bind 127.0.0.1:8404", &format!("bind {}", free_address()));
    for (number, origin) in origins.iter().enumerate() {
        let known = format!("127.0.0.1:900{}", number + 1);
        text = text.replace(&known, &origin.address.to_string());
    }
    text
}

/// Returns the configuration with this certificate for all of its servers.
fn with_certificate(text: &str, issued: &Issued) -> String {
    let (chain, key) = (issued.chain.display(), issued.key.display());
    let own = format!("http {{\n    ssl_certificate {chain};\n    ssl_certificate_key {key};");
    text.replacen("http {", &own, 1)
}

/// Starts nginx with a configuration; returns none if there is no nginx.
fn nginx(text: &str, directory: &Path, address: SocketAddr) -> Option<Other> {
    let at = directory.display();
    let own = ["user ", "pid ", "worker_processes "];
    let lines = text
        .lines()
        .filter(|line| !own.iter().any(|start| line.starts_with(start)));
    let text: Vec<&str> = lines.collect();
    let paths = format!(
        "http {{ access_log off; client_body_temp_path {at}/b; proxy_temp_path {at}/p;\n\
         fastcgi_temp_path {at}/f; uwsgi_temp_path {at}/u; scgi_temp_path {at}/s;"
    );
    let text = text.join("\n").replacen("http {", &paths, 1);
    let head = format!("daemon off; master_process off; pid {at}/pid; error_log {at}/log;\n");
    std::fs::write(directory.join("config"), head + &text).unwrap();
    let mut command = Command::new("nginx");
    command
        .arg("-e")
        .arg(directory.join("log"))
        .arg("-c")
        .arg(directory.join("config"));
    let child = command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let nginx = Other(child);
    wait_for("nginx to start", || TcpStream::connect(address).is_ok());
    Some(nginx)
}

/// Starts HAProxy with a configuration; returns none if there is no HAProxy.
fn haproxy(text: &str, directory: &Path, address: SocketAddr) -> Option<Other> {
    let own = ["log ", "stats socket "];
    let lines = text
        .lines()
        .filter(|line| !own.iter().any(|start| line.trim().starts_with(start)));
    let text: Vec<&str> = lines.collect();
    std::fs::write(directory.join("config"), text.join("\n") + "\n").unwrap();
    let mut command = Command::new("haproxy");
    command.arg("-db").arg("-f").arg(directory.join("config"));
    let child = command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let haproxy = Other(child);
    wait_for("HAProxy to start", || TcpStream::connect(address).is_ok());
    Some(haproxy)
}

/// Starts Sprat with the configuration that is made of another proxy's.
fn imported(name: &str, text: &str) -> Proxy {
    let files = &mut Text(text.to_owned());
    let options = Options::default();
    let imported = match name.ends_with(".cfg") {
        true => sprat_import::haproxy(name, files, &options).unwrap(),
        false => sprat_import::nginx(name, files, &options).unwrap(),
    };
    let loaded = sprat_config::parse(&imported.yaml, "imported", &|_| None);
    let mut config = loaded.unwrap_or_else(|errors| panic!("{errors}")).config;
    config.admin = None;
    config.access_log = Vec::new();
    config.runtime.workers = 1;
    for listener in &mut config.listeners {
        listener.address = "127.0.0.1:0".parse().unwrap();
    }
    Proxy::start(&config)
}

/// A source of requests that are likely to match a configuration, made of its own words.
struct Source {
    random: fastrand::Rng,
    words: Vec<String>,
    paths: Vec<String>,
    hosts: Vec<String>,
}

impl Source {
    fn of(text: &str, seed: u64) -> Self {
        let code: Vec<&str> = text
            .lines()
            .map(|line| line.split(" #").next().unwrap())
            .collect();
        let words: BTreeSet<String> = code
            .iter()
            .flat_map(|line| {
                line.split(|c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '_')
            })
            .filter(|word| (1..20).contains(&word.len()))
            .map(str::to_owned)
            .collect();
        let after = |name: &str| -> Vec<String> {
            let lines = code
                .iter()
                .filter_map(|line| line.trim().strip_prefix(name));
            lines.map(str::to_owned).collect()
        };
        let mut paths: Vec<String> = after("location ")
            .into_iter()
            .chain(after("rewrite "))
            .map(|line| sample(&line))
            .collect();
        // Of conditions of HAProxy.
        let quoted = |text: &&str| text.starts_with('/') && !text.contains(['\\', '%']);
        let conditions = code.iter().flat_map(|line| line.split(' '));
        paths.extend(conditions.filter(quoted).map(str::to_owned));
        paths.extend(["/data/12.json", "/"].map(str::to_owned));
        let names = after("server_name ");
        let names = names
            .iter()
            .flat_map(|line| line.trim_end_matches(';').split(' '));
        let mut hosts: Vec<String> = names
            .flat_map(|name| match name.split_at(1) {
                ("*", rest) => vec![format!("x{rest}"), format!("y.x{rest}")],
                (".", rest) => vec![rest.to_owned(), format!("z.{rest}")],
                ("~", _) => vec!["m.example.net".to_owned(), "mobile.example.net".to_owned()],
                _ => vec![name.replace('*', "other.example")],
            })
            .filter(|host| host != "_")
            .collect();
        let named = code
            .iter()
            .filter_map(|line| line.split("hdr(host) -i ").nth(1));
        let named = named.filter_map(|rest| rest.split(' ').next());
        hosts.extend(named.map(str::to_owned));
        hosts.extend(["unknown.example", "a.example.org", "b.example.org"].map(str::to_owned));
        Self {
            random: fastrand::Rng::with_seed(seed),
            words: words.into_iter().collect(),
            paths,
            hosts,
        }
    }

    fn one<'a>(random: &mut fastrand::Rng, list: &[&'a str]) -> &'a str {
        list[random.usize(..list.len())]
    }

    fn path(&mut self) -> String {
        const ENDS: [&str; 14] = [
            "",
            "/",
            "x",
            "/x",
            "/a/b",
            ".php",
            "/x.php",
            "/p.css",
            ".JPG",
            ".zip",
            "/12.mp4",
            "/.git/config",
            "/missing",
            "/users/42",
        ];
        let random = &mut self.random;
        let mut path = match random.usize(..3) {
            0 => (0..random.usize(1..4))
                .map(|_| format!("/{}", self.words[random.usize(..self.words.len())]))
                .collect(),
            _ => self.paths[random.usize(..self.paths.len())].clone(),
        };
        if random.bool() {
            path.push_str(Self::one(random, &ENDS));
        } else if random.usize(..8) == 0 {
            path.pop();
        }
        if !path.starts_with('/') {
            path.insert(0, '/');
        }
        // Several slashes are one for both, and nginx passes on what it was sent.
        while path.contains("//") {
            path = path.replace("//", "/");
        }
        path
    }

    /// Returns a request, and whether normalising changes its path.
    fn request(&mut self) -> (String, bool) {
        let mut path = self.path();
        let random = &mut self.random;
        let mut is_odd = path.ends_with("/.") || path.contains("/./");
        if random.usize(..10) == 0 {
            is_odd = true;
            path = match random.usize(..3) {
                0 => format!("/x/..{path}"),
                1 => format!("/{path}"),
                _ => path.replace('p', "%70"),
            };
        }
        let query = Self::one(random, &["", "", "", "?a=b", "?token=1&x=%2F", "?token="]);
        let method = Self::one(
            random,
            &[
                "GET", "GET", "GET", "HEAD", "POST", "PUT", "DELETE", "PURGE",
            ],
        );
        let host = &self.hosts[random.usize(..self.hosts.len())];
        let mut text =
            format!("{method} {path}{query} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n");
        for field in [
            "X-Tier: free",
            "Cookie: session=1; a=b",
            "User-Agent: docker/1.4.1 x",
            "Accept-Encoding: gzip",
            "X_Under: 1",
            "X-Real-IP: 198.51.100.7",
            "Upgrade: h2c",
        ] {
            if random.usize(..4) == 0 {
                text.push_str(field);
                text.push_str("\r\n");
            }
        }
        match method {
            "POST" | "PUT" => text.push_str("Content-Length: 5\r\n\r\nhello"),
            _ => text.push_str("\r\n"),
        }
        (text, is_odd)
    }
}

/// Returns a path that is likely to match a line of a location or a rewrite.
fn sample(line: &str) -> String {
    let words = line
        .split_whitespace()
        .map(|word| word.trim_matches(['"', ';']));
    let mut words = words.filter(|word| !["=", "~", "~*", "^~", "{"].contains(word));
    let mut path = words.next().unwrap_or("/").to_owned();
    for (part, text) in [
        (r"(?:\.php|\.x)", ".php"),
        (r"(?:$|/)", "/"),
        ("(?<name>.+)", "name"),
        (r"(\d{4})", "2026"),
        (r"(\d{2})", "11"),
        (r"(\d+)", "7"),
        (r"([^/]+)", "group"),
        ("(.+)", "film"),
        ("(.*)", "rest/of"),
        ("?:", ""),
        (r"\", ""),
        ("^", ""),
        ("$", ""),
        (".*", "any"),
        ("/?", "/"),
        ("e?", "e"),
        ("2?", ""),
    ] {
        path = path.replace(part, text);
    }
    // The first of alternatives.
    while let (Some(from), Some(to)) = (path.find('('), path.find(')')) {
        let first = path[from + 1..to].split('|').next().unwrap().to_owned();
        path.replace_range(from..=to, &first);
    }
    path
}

/// The parts of an answer that a client sees, and of the request that an origin saw.
#[derive(Debug, PartialEq)]
struct Seen {
    status: u16,
    fields: BTreeMap<String, Vec<String>>,
    /// The request as it reached the origin, or the body of the proxy's own answer.
    body: Vec<String>,
}

impl Seen {
    /// Extracts the parts that must be equal. It leaves out a server's fields about itself and the
    /// connection, error pages, ports of redirects, and names of origins that share an upstream. It
    /// also leaves out the differences in `add_header`, `expires` and `X-Forwarded-*` that
    /// docs/import.md states.
    fn of(
        answer: &Message,
        host: &str,
        (is_odd, shares): (bool, bool),
        maybe: &BTreeSet<String>,
    ) -> Self {
        let status = answer.status();
        let is_echo = answer
            .fields
            .iter()
            .any(|(_, value)| value == "text/x-echo");
        let is_good = [200, 201, 204, 206, 301, 302, 303, 304, 307, 308].contains(&status);
        let mut fields: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (name, value) in &answer.fields {
            let framing = [
                "server",
                "date",
                "connection",
                "content-length",
                "transfer-encoding",
                "expires",
                "content-encoding",
            ];
            let own_page = !is_echo && status != 200 && name == "content-type";
            let is_own = name == "cache-control" && !is_echo;
            let is_doubtful = maybe.contains(name) && (!is_good || is_own);
            if framing.contains(&&**name) || own_page || is_doubtful {
                continue;
            }
            let value = match &**name {
                // The target holds the path as it was sent.
                "location" if is_odd => String::new(),
                // HAProxy leaves out what was asked for.
                "location" if value.starts_with('/') => format!("http://{host}{value}"),
                "location" => without_port(value),
                _ => value.clone(),
            };
            fields.entry(name.clone()).or_default().push(value);
        }
        let text = answer.text();
        let body = match (is_echo, status) {
            (true, _) => asked(&text, is_odd, shares),
            (false, 200) => vec![text],
            (false, _) => Vec::new(),
        };
        Self {
            status,
            fields,
            body,
        }
    }
}

/// Returns the request that an origin reports, in a form that can be compared.
fn asked(text: &str, is_odd: bool, shares: bool) -> Vec<String> {
    let (head, body) = text.split_once("\n\n").unwrap_or((text, ""));
    let mut lines = head.lines();
    let start = lines.next().unwrap_or_default();
    let mut words: Vec<&str> = start.split(' ').collect();
    // nginx speaks HTTP/1.0 to backends unless it is told otherwise.
    words.pop();
    if shares && !words.is_empty() {
        words.remove(0);
    }
    if is_odd {
        words.pop();
    }
    let mut start = words.join(" ");
    // nginx repeats the query within the path where that is made of `$request_uri`.
    if let (Some(from), Some(to)) = (start.find("%3F"), start.find('?')) {
        start.replace_range(from..to, "");
    }
    let mut out = vec![start, body.to_owned()];
    let own = [
        "connection",
        "x-forwarded-host",
        "x-forwarded-proto",
        "x-forwarded-for",
        "upgrade",
    ];
    let mut fields: Vec<String> = lines
        // What a client says of itself, which Sprat does not pass on.
        .filter(|line| *line != "x-real-ip: 198.51.100.7")
        .filter(|line| !own.iter().any(|name| line.starts_with(&format!("{name}:"))))
        .map(str::to_owned)
        .collect();
    fields.sort();
    out.extend(fields);
    out
}

/// Returns the forwarding fields that an origin reports.
fn forwarded(answer: &Message) -> BTreeMap<String, String> {
    let text = answer.text();
    let lines = text.lines().filter_map(|line| line.split_once(": "));
    let told = lines.filter(|(name, _)| name.starts_with("x-forwarded-"));
    told.map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

fn without_port(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return url.to_owned();
    };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = authority.split(':').next().unwrap_or_default();
    format!(
        "{scheme}://{host}{}",
        if path.is_empty() { "/" } else { path }
    )
}

/// Sends a request on a new connection, and returns the answer.
fn ask(address: SocketAddr, request: &str, (over, client): (Over, &TlsClient)) -> Message {
    let has_body = !request.starts_with("HEAD");
    let answer = match over {
        Over::Plain => {
            let mut peer = Peer::connect(address);
            assert!(peer.send(request));
            peer.try_message(has_body)
        }
        Over::Tls => {
            let mut peer = client.connect(address, NAME);
            assert!(peer.send(request));
            peer.try_message(has_body)
        }
        Over::Http2 => Some(ask_http2(address, request, client)),
    };
    answer.unwrap_or_else(|| panic!("no answer to {request}"))
}

/// The name in the test's certificate.
const NAME: &str = "farm.example";

/// Sends a request by HTTP/2 that is written as one of HTTP/1.1.
fn ask_http2(address: SocketAddr, request: &str, client: &TlsClient) -> Message {
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    let mut lines = head.lines();
    let mut words = lines.next().unwrap().split(' ');
    let (method, target) = (words.next().unwrap(), words.next().unwrap());
    let fields: Vec<(&str, &str)> = lines.filter_map(|line| line.split_once(": ")).collect();
    let host = fields.iter().find(|(name, _)| *name == "Host").unwrap().1;
    let mut asked = http::Request::builder().method(method);
    asked = asked.uri(format!("https://{host}{target}"));
    let of_connections = ["Host", "Connection", "Upgrade", "Content-Length"];
    for (name, value) in fields
        .iter()
        .filter(|(name, _)| !of_connections.contains(name))
    {
        asked = asked.header(*name, *value);
    }
    let asked = asked.body(http2::full(body.to_owned())).unwrap();
    let mut config = (*client.config).clone();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let answer = http2::run(async {
        let sender = http2::connect_tls(address, NAME, config).await;
        http2::ask(&sender, asked).await
    });
    let fields = answer.headers.iter().map(|(name, value)| {
        let value = String::from_utf8_lossy(value.as_bytes());
        (name.as_str().to_owned(), value.into_owned())
    });
    Message {
        start: format!("HTTP/2 {}", answer.status),
        fields: fields.collect(),
        body: answer.body.to_vec(),
        trailers: Vec::new(),
    }
}

/// Returns the names of the fields that nginx adds to successful answers alone.
fn added_to_good(text: &str) -> BTreeSet<String> {
    let lines = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.ends_with("always;"));
    let names = lines.filter_map(|line| line.strip_prefix("add_header "));
    let names = names.filter_map(|rest| rest.split(' ').next());
    let mut names: BTreeSet<String> = names.map(str::to_ascii_lowercase).collect();
    // HAProxy's own answers have one.
    if text.contains("expires") || text.contains("\nfrontend ") {
        names.insert("cache-control".to_owned());
    }
    names
}

/// Checks that Sprat serves a farm as the other proxy does. Returns false if that is not installed.
fn serves_the_same(name: &str, over: Over) -> bool {
    let origins = [echo(1), echo(2), echo(3)];
    let directory = tempfile::tempdir().unwrap();
    let address = free_address();
    let authority = Authority::new();
    let client = &TlsClient::new(&authority);
    let mut text = farm(name, (address, over), &origins);
    if over != Over::Plain {
        text = with_certificate(&text, &authority.issue("farm", &[NAME]));
    }
    let of_haproxy = name.ends_with(".cfg");
    let other = match of_haproxy {
        true => haproxy(&text, directory.path(), address),
        false => nginx(&text, directory.path(), address),
    };
    let Some(_other) = other else {
        return false;
    };
    let proxy = imported(name, &text);
    let maybe = added_to_good(&text);
    let shares = text.matches("    server 127.0.0.1").count() > 1;
    let mut source = Source::of(&text, 0x51DE);
    let mut differ = Vec::new();
    let (mut echoed, mut own) = (0, 0);
    while echoed + own < REQUESTS {
        let (request, is_odd) = source.request();
        // HAProxy goes by what was sent, Sprat by its normal form.
        if of_haproxy && is_odd {
            continue;
        }
        let of = |address| ask(address, &request, (over, client));
        let (theirs, ours) = (of(address), of(proxy.address));
        let (told, telling) = (forwarded(&theirs), forwarded(&ours));
        let host = request
            .split("Host: ")
            .nth(1)
            .unwrap()
            .lines()
            .next()
            .unwrap();
        let seen = |answer| Seen::of(answer, host, (is_odd, shares), &maybe);
        let (mut their, our) = (seen(&theirs), seen(&ours));
        // What came over TLS is not led out of it.
        for url in their.fields.get_mut("location").into_iter().flatten() {
            if over != Over::Plain {
                *url = url.replacen("http://", "https://", 1);
            }
        }
        let is_told = told
            .iter()
            .all(|(name, value)| telling.get(name) == Some(value));
        if their != our || !is_told {
            differ.push(format!(
                "{request}\ntheirs {their:?} {told:?}\nours {our:?} {telling:?}"
            ));
        }
        match their.body.len() > 1 {
            true => echoed += 1,
            false => own += 1,
        }
    }
    assert!(
        echoed > 20,
        "{echoed} of {REQUESTS} requests came to an origin"
    );
    assert!(
        own > 10,
        "{own} of {REQUESTS} requests were answered by the proxy"
    );
    let count = differ.len();
    differ.truncate(5);
    assert!(
        count == 0,
        "{name}: {count} differ\n{}",
        differ.join("\n\n")
    );
    proxy.assert_no_leak();
    true
}

macro_rules! farms {
    ($($over:ident {$($name:ident = $file:literal,)*})*) => {$($(
        #[test]
        fn $name() {
            if !serves_the_same($file, Over::$over) {
                eprintln!("skipped: the other proxy is not installed");
            }
        }
    )*)*};
}

farms! {
    Plain {
        wordpress_is_served_the_same = "wordpress.conf",
        nextcloud_is_served_the_same = "nextcloud.conf",
        grafana_is_served_the_same = "grafana.conf",
        gitlab_is_served_the_same = "gitlab.conf",
        an_application_and_its_api_are_served_the_same = "spa.conf",
        a_static_site_is_served_the_same = "static.conf",
        a_chat_is_served_the_same = "websocket.conf",
        services_of_grpc_are_served_the_same = "grpc.conf",
        media_are_served_the_same = "media.conf",
        many_hosts_are_served_the_same = "hosts.conf",
        an_intranet_is_served_the_same = "intranet.conf",
        a_shop_of_haproxy_is_served_the_same = "shop.cfg",
    }
    Tls {
        wordpress_is_served_the_same_over_tls = "wordpress.conf",
        nextcloud_is_served_the_same_over_tls = "nextcloud.conf",
        grafana_is_served_the_same_over_tls = "grafana.conf",
        gitlab_is_served_the_same_over_tls = "gitlab.conf",
        an_application_and_its_api_are_served_the_same_over_tls = "spa.conf",
        a_static_site_is_served_the_same_over_tls = "static.conf",
        a_chat_is_served_the_same_over_tls = "websocket.conf",
        services_of_grpc_are_served_the_same_over_tls = "grpc.conf",
        media_are_served_the_same_over_tls = "media.conf",
        many_hosts_are_served_the_same_over_tls = "hosts.conf",
        an_intranet_is_served_the_same_over_tls = "intranet.conf",
    }
    Http2 {
        wordpress_is_served_the_same_by_http2 = "wordpress.conf",
        nextcloud_is_served_the_same_by_http2 = "nextcloud.conf",
        grafana_is_served_the_same_by_http2 = "grafana.conf",
        gitlab_is_served_the_same_by_http2 = "gitlab.conf",
        an_application_and_its_api_are_served_the_same_by_http2 = "spa.conf",
        a_static_site_is_served_the_same_by_http2 = "static.conf",
        a_chat_is_served_the_same_by_http2 = "websocket.conf",
        services_of_grpc_are_served_the_same_by_http2 = "grpc.conf",
        media_are_served_the_same_by_http2 = "media.conf",
        many_hosts_are_served_the_same_by_http2 = "hosts.conf",
        an_intranet_is_served_the_same_by_http2 = "intranet.conf",
    }
}

/// Runs `sprat import` on a file with this text. Returns its standard output, its standard error,
/// and whether it succeeds.
fn run(text: &str, more: &[&str]) -> (String, String, bool) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("nginx.conf");
    std::fs::write(&path, text).unwrap();
    let path = path.to_str().unwrap();
    let mut arguments = vec!["import", "nginx", path];
    arguments.extend(more);
    let output = binary::sprat(&arguments).output().unwrap();
    let text = |bytes| {
        String::from_utf8(bytes)
            .unwrap()
            .replace(path, "nginx.conf")
    };
    (
        text(output.stdout),
        text(output.stderr),
        output.status.success(),
    )
}

#[test]
fn a_backup_takes_over_from_a_server_that_is_away() {
    let (away, backup) = (free_address(), echo(0));
    let nginx = format!(
        "http {{ upstream u {{ server {away}; server {} backup; }}\n\
         server {{ listen 80; location / {{ proxy_pass http://u; }} }} }}",
        backup.address
    );
    let haproxy = format!(
        "defaults\n mode http\nlisten l\n bind :80\n server a {away}\n server b {} backup\n",
        backup.address
    );
    for (name, text) in [("nginx.conf", nginx), ("haproxy.cfg", haproxy)] {
        let proxy = imported(name, &text);
        for _ in 0..5 {
            assert_eq!(proxy.connect().ask(get("/")).status(), 200, "{name}");
        }
    }
}

#[test]
fn the_command_prints_the_configuration_and_tells_what_is_lost() {
    let text = "http { server { listen 80; sub_filter a b;\n location / { proxy_pass http://10.0.0.1; } } }";
    let (yaml, told, succeeds) = run(text, &[]);
    assert!(
        succeeds && sprat_config::parse(&yaml, "imported", &|_| None).is_ok(),
        "{yaml}"
    );
    assert!(
        told.contains("6 directives: 4 carried over, 1 nearly, 1 not supported\n"),
        "{told}"
    );
    assert!(
        told.contains("nginx.conf:1: sub_filter a b: not supported: "),
        "{told}"
    );
    let (same, strict, succeeds) = run(text, &["--strict"]);
    assert!(!succeeds && same == yaml);
    assert!(
        strict.contains("1 directives are not carried over"),
        "{strict}"
    );
    let (nothing, wrong, succeeds) = run("http {\n server", &[]);
    assert!(!succeeds && nothing.is_empty());
    assert!(
        wrong.contains("nginx.conf:2: expected `;` or `{` after `server`"),
        "{wrong}"
    );
}

/// Widely used log formats: nginx's own, that of its packages, and one with times.
const FORMATS: [(&str, &str); 3] = [
    ("combined", ""),
    (
        "main",
        r#"log_format main '$remote_addr - $remote_user [$time_local] "$request" '
           '$status $body_bytes_sent "$http_referer" '
           '"$http_user_agent" "$http_x_forwarded_for"';"#,
    ),
    (
        "timed",
        r#"log_format timed '$msec $request_time $scheme://$http_host$request_uri '
           '$request_method $server_protocol $status 100% "$sent_http_content_type"';"#,
    ),
];

/// Returns a line of a log without its times.
fn timeless(line: &str) -> String {
    let day = |word: &str| word.starts_with('[') || word.ends_with("]");
    let seconds = |word: &str| {
        let is_number = word.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        is_number && word.contains('.') && word.matches('.').count() == 1
    };
    let words = line.split(' ').map(|word| match word {
        word if day(word) => "TIME",
        word if seconds(word) => "SECONDS",
        word => word,
    });
    words.collect::<Vec<_>>().join(" ")
}

#[test]
fn logs_have_the_lines_that_nginx_writes() {
    for (name, log_format) in FORMATS {
        let origin = Origin::http(|_| {
            "HTTP/1.1 200 OK\r\nContent-Type: text/a\r\nContent-Length: 5\r\n\r\nhello".to_owned()
        });
        let directory = tempfile::tempdir().unwrap();
        let (theirs, ours) = (
            directory.path().join("nginx"),
            directory.path().join("sprat"),
        );
        let listen = free_address();
        let text = format!(
            "events {{}}\nhttp {{\n{log_format}\nserver {{ listen {listen}; server_name a.example;\n\
             access_log {} {name};\nlocation / {{ proxy_pass http://{}; }} }} }}\n",
            theirs.display(),
            origin.address,
        );
        let Some(_nginx) = nginx(&text, directory.path(), listen) else {
            eprintln!("skipped: there is no nginx");
            return;
        };
        let files = &mut Text(text.clone());
        let made = sprat_import::nginx("nginx.conf", files, &Options::default()).unwrap();
        let exceptions: Vec<_> = made.summary.exceptions().map(ToString::to_string).collect();
        let of_logs = exceptions.iter().filter(|own| own.contains("log"));
        assert_eq!(of_logs.count(), 0, "{exceptions:?}");
        let loaded = sprat_config::parse(&made.yaml, "imported", &|_| None);
        let mut config = loaded.unwrap_or_else(|errors| panic!("{errors}")).config;
        config.admin = None;
        config.runtime.workers = 1;
        config.listeners[0].address = "127.0.0.1:0".parse().unwrap();
        let log = &mut config.access_log[0];
        assert_eq!(
            log.target,
            sprat_config::resolved::LogTarget::File(theirs.clone())
        );
        log.target = sprat_config::resolved::LogTarget::File(ours.clone());
        let proxy = Proxy::start(&config);
        for request in [
            "GET /a?b=%20c HTTP/1.1\r\nHost: a.example\r\nUser-Agent: x \"y\" \\ \u{e9}\r\nReferer: http://r/\r\n",
            "GET /x/../a HTTP/1.1\r\nHost: a.example:80\r\nX-Forwarded-For: 192.0.2.1\r\n",
            "GET /old HTTP/1.0\r\nHost: a.example\r\n",
        ] {
            for address in [listen, proxy.address] {
                let answer = Peer::connect(address).ask(format!("{request}\r\n"));
                assert_eq!(answer.status(), 200);
            }
        }
        let lines = |path: &Path| -> Vec<String> {
            wait_for("three lines", || {
                std::fs::read_to_string(path).is_ok_and(|own| own.lines().count() == 3)
            });
            let text = std::fs::read_to_string(path).unwrap();
            text.lines().map(timeless).collect()
        };
        assert_eq!(lines(&ours), lines(&theirs), "{name}");
    }
}
