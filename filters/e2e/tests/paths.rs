//! What nginx and Envoy make of the spellings of a path that `docs/paths.md` has in its
//! table, by asking them. `UPDATE=1` writes the table's columns.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use serde_json::json;
use sprat_filter_e2e::{Bootstrap, Envoy, PATIENCE, checkout};

/// The table's columns that are made here, behind what is sent and what Sprat makes of it.
const COLUMNS: [&str; 3] = [
    "nginx matches",
    "Envoy by default",
    "Envoy, with all its keys on",
];

/// Answers each request with its target, on a free port until the process ends.
fn mirror() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            std::thread::spawn(move || reflect(stream.unwrap()));
        }
    });
    address
}

fn reflect(stream: TcpStream) -> Option<()> {
    let mut writer = stream.try_clone().ok()?;
    let mut lines = BufReader::new(stream).lines();
    while let Some(Ok(start)) = lines.next() {
        let target = start.split(' ').nth(1)?;
        lines
            .by_ref()
            .find(|line| line.as_ref().is_ok_and(String::is_empty))?
            .ok()?;
        let length = target.len();
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{target}");
        writer.write_all(answer.as_bytes()).ok()?;
    }
    None
}

/// The answer to a request for a path.
struct Answer {
    status: u16,
    head: String,
    /// The path that reached the origin, if it answered.
    forwarded: String,
}

impl Answer {
    fn field(&self, name: &str) -> Option<&str> {
        let mut fields = self.head.lines().filter_map(|line| line.split_once(": "));
        let field = fields.find(|(own, _)| own.eq_ignore_ascii_case(name));
        field.map(|(_, value)| value)
    }
}

/// Asks for a path as its bytes are, which a library would look at.
fn ask(server: SocketAddr, path: &str) -> Answer {
    let mut stream = TcpStream::connect(server).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = Vec::new();
    stream.read_to_end(&mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    Answer {
        status: head.split(' ').nth(1).unwrap().parse().unwrap(),
        head: head.to_owned(),
        forwarded: body.to_owned(),
    }
}

struct Nginx {
    process: Child,
    address: SocketAddr,
}

impl Nginx {
    /// Starts nginx with its own settings, before an origin; it says what it matches locations
    /// with.
    fn start(origin: SocketAddr, directory: &Path) -> Self {
        let address = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = address.local_addr().unwrap();
        let at = directory.display();
        let config = format!(
            "daemon off; master_process off; pid {at}/pid; error_log {at}/log;\n\
             events {{}}\n\
             http {{ access_log off; client_body_temp_path {at}/b; proxy_temp_path {at}/p;\n\
             fastcgi_temp_path {at}/f; uwsgi_temp_path {at}/u; scgi_temp_path {at}/s;\n\
             server {{ listen {address}; location / {{ add_header X-Matched $uri;\n\
             proxy_pass http://{origin}; proxy_http_version 1.1; }} }} }}\n"
        );
        let file = directory.join("nginx.conf");
        std::fs::write(&file, config).unwrap();
        let process = Command::new("nginx")
            .arg("-c")
            .arg(&file)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("nginx is installed by scripts/setup-test.sh");
        let nginx = Self { process, address };
        let start = Instant::now();
        while TcpStream::connect(address).is_err() {
            let log = || std::fs::read_to_string(directory.join("log"));
            assert!(
                start.elapsed() < PATIENCE,
                "nginx does not start: {:?}",
                log()
            );
            std::thread::sleep(PATIENCE / 1000);
        }
        nginx
    }

    /// Returns what nginx matches, or the status of its refusal.
    fn cell(&self, path: &str) -> String {
        let answer = ask(self.address, path);
        if answer.status != 200 {
            return answer.status.to_string();
        }
        assert_eq!(answer.forwarded, path, "nginx forwards what it got");
        format!("`{}`", answer.field("x-matched").unwrap())
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Starts an Envoy before an origin, with these keys of its connection manager; it says what it
/// matches routes with.
async fn envoy(origin: SocketAddr, keys: &[(&str, serde_json::Value)]) -> (Envoy, SocketAddr) {
    let mut bootstrap = Bootstrap::new(&[origin]);
    for (key, value) in keys {
        bootstrap.manager[*key] = value.clone();
    }
    bootstrap.virtual_host = json!({"response_headers_to_add": [
        {"header": {"key": "x-matched", "value": "%REQ(:PATH)%"}},
    ]});
    let envoy = Envoy::start(&bootstrap).await.unwrap();
    let address = envoy.listener("main").await.unwrap();
    (envoy, address)
}

/// Returns what Envoy matches and forwards, or its refusal's status.
fn envoy_cell(address: SocketAddr, path: &str) -> String {
    let answer = ask(address, path);
    match answer.status {
        200 => {
            let matched = answer.field("x-matched").unwrap();
            assert_eq!(answer.forwarded, matched, "Envoy forwards what it matches");
            format!("`{matched}`")
        }
        status @ 300..400 => format!("{status} to `{}`", answer.field("location").unwrap()),
        status => status.to_string(),
    }
}

fn keys(action: &str) -> [(&'static str, serde_json::Value); 3] {
    [
        ("normalize_path", true.into()),
        ("merge_slashes", true.into()),
        ("path_with_escaped_slashes_action", action.into()),
    ]
}

/// Returns the cells of a row.
fn cells(row: &str) -> Vec<&str> {
    let row = row.strip_prefix('|').and_then(|row| row.strip_suffix('|'));
    row.unwrap().split('|').map(str::trim).collect()
}

/// Returns the text between backquotes.
fn code(cell: &str) -> &str {
    cell.strip_prefix('`')
        .and_then(|cell| cell.strip_suffix('`'))
        .unwrap()
}

#[tokio::test]
async fn the_document_says_what_nginx_and_envoy_make_of_each_spelling() {
    let origin = mirror();
    let directory = tempfile::tempdir().unwrap();
    let nginx = Nginx::start(origin, directory.path());
    let (plain, plain_address) = envoy(origin, &[]).await;
    let (keyed, keyed_address) = envoy(origin, &keys("KEEP_UNCHANGED")).await;
    let file = checkout().join("docs/paths.md");
    let document = std::fs::read_to_string(&file).unwrap();
    let lines: Vec<_> = document.lines().collect();
    let header = lines.iter().position(|line| line.starts_with("| Sent |"));
    let header = header.unwrap();
    assert_eq!(cells(lines[header])[2..], COLUMNS);
    let rows = lines[header + 2..].iter();
    let rows = rows.take_while(|line| line.starts_with('|'));
    let made: Vec<_> = rows
        .map(|row| {
            let cells = cells(row);
            let path = code(cells[0]);
            format!(
                "| {} | {} | {} | {} | {} |",
                cells[0],
                cells[1],
                nginx.cell(path),
                envoy_cell(plain_address, path),
                envoy_cell(keyed_address, path),
            )
        })
        .collect();
    assert!(made.len() >= 18, "{made:?}");
    let before = lines[..header + 2].iter().copied();
    let after = lines[header + 2 + made.len()..].iter().copied();
    let made = before.chain(made.iter().map(String::as_str)).chain(after);
    let made: String = made.flat_map(|line| [line, "\n"]).collect();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&file, &made).unwrap();
    }
    assert_eq!(
        made,
        std::fs::read_to_string(&file).unwrap(),
        "UPDATE=1 writes it"
    );
    plain.stop().await.unwrap();
    keyed.stop().await.unwrap();
}

#[tokio::test]
async fn the_document_says_what_envoy_does_with_escaped_slashes() {
    let origin = mirror();
    let document = std::fs::read_to_string(checkout().join("docs/paths.md")).unwrap();
    for action in [
        "KEEP_UNCHANGED",
        "REJECT_REQUEST",
        "UNESCAPE_AND_REDIRECT",
        "UNESCAPE_AND_FORWARD",
    ] {
        let (envoy, address) = envoy(origin, &keys(action)).await;
        let own = action.to_lowercase();
        let row = document
            .lines()
            .find(|line| line.starts_with(&format!("| `{own}`")));
        let said = *cells(row.unwrap()).last().unwrap();
        let cells =
            ["/api/group%2fproject", "/api/..%2fsecret"].map(|path| envoy_cell(address, path));
        assert_eq!(said, cells.join("; "), "{action}");
        envoy.stop().await.unwrap();
    }
}
