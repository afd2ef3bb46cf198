//! Tests that a real Prometheus accepts the metrics and the documents' queries.

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use sprat_net::metrics::Kind;

use crate::common::*;
use crate::metrics::full::Full;
use crate::metrics::{dashboard, queries, rows, series_names};

/// Returns the path of a program of Prometheus, where `scripts/setup-test.sh` puts it.
fn tool(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let path = root.join(".tools/prometheus").join(name);
    let help = "scripts/setup-test.sh unpacks Prometheus";
    assert!(path.exists(), "{name} is missing: {help}");
    path
}

#[test]
fn promtool_finds_nothing_to_complain_of() {
    for full in [Full::sharing(), Full::with_queues()] {
        assert_eq!(full.proxy().connect().ask(get("/")).status(), 200);
        let mut promtool = Command::new(tool("promtool"))
            .args(["check", "metrics"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = promtool.stdin.take().unwrap();
        input.write_all(full.scrape().as_bytes()).unwrap();
        drop(input);
        let output = promtool.wait_with_output().unwrap();
        let said =
            String::from_utf8_lossy(&output.stderr) + String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.trim().is_empty(), "{said}");
    }
}

/// A Prometheus that scrapes the admin listener, and is killed when this is dropped.
struct Prometheus {
    child: Child,
    address: SocketAddr,
    directory: tempfile::TempDir,
}

impl Prometheus {
    fn start(target: SocketAddr) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let address = free_address();
        let file = directory.path().join("prometheus.yml");
        let config = format!(
            "global: {{scrape_interval: 200ms, scrape_timeout: 200ms}}\n\
             scrape_configs:\n\
             - job_name: sprat\n  static_configs: [{{targets: ['{target}']}}]\n"
        );
        std::fs::write(&file, config).unwrap();
        let log = std::fs::File::create(directory.path().join("log")).unwrap();
        let child = Command::new(tool("prometheus"))
            .arg(format!("--config.file={}", file.display()))
            .arg(format!(
                "--storage.tsdb.path={}",
                directory.path().join("data").display()
            ))
            .arg(format!("--web.listen-address={address}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        Self {
            child,
            address,
            directory,
        }
    }

    /// Returns the answer to a query; none while Prometheus does not answer.
    fn answer(&self, query: &str) -> Option<serde_json::Value> {
        let code = |byte: u8| format!("%{byte:02X}");
        let query: String = query.bytes().map(code).collect();
        let stream = std::net::TcpStream::connect(self.address).ok()?;
        let mut client = Peer::new(stream);
        client.send(get(&format!("/api/v1/query?query={query}")));
        let answer = client.try_message(true)?;
        serde_json::from_slice(&answer.body).ok()
    }

    /// Returns the numbers in the answer to a query; none while Prometheus does not answer.
    fn numbers(&self, query: &str) -> Option<Vec<f64>> {
        let answer = self.answer(query)?;
        assert_eq!(answer["status"], "success", "{query}: {answer}");
        let result = answer["data"]["result"].as_array()?;
        let values = result.iter().map(|series| &series["value"][1]);
        let numbers = values.filter_map(|value| value.as_str()?.parse().ok());
        Some(numbers.filter(|number: &f64| number.is_finite()).collect())
    }

    /// Waits until the answer to a query has a number, while `meanwhile` is called.
    fn wait_number(&self, query: &str, mut meanwhile: impl FnMut()) -> f64 {
        let patience = Instant::now() + 3 * PATIENCE;
        loop {
            let numbers = self.numbers(query).unwrap_or_default();
            if let Some(number) = numbers.first() {
                return *number;
            }
            let log = || std::fs::read_to_string(self.directory.path().join("log")).unwrap();
            assert!(
                Instant::now() < patience,
                "no number for {query}: {}",
                log()
            );
            meanwhile();
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the first metric that a text names and that does not exist.
fn unknown(text: &str) -> Option<&str> {
    let is_known = |name: &str| {
        rows().any(|row| {
            let is_histogram = matches!(row.kind, Kind::Histogram(_));
            series_names(row).iter().any(|own| own == name) || (is_histogram && row.name == name)
        })
    };
    queries::names(text).find(|name| !is_known(name))
}

#[test]
fn a_prometheus_answers_the_queries_of_the_documents() {
    let quoted = queries::quoted();
    let shown = dashboard::queries();
    for query in quoted.iter().map(|own| &own.text).chain(&shown) {
        assert_eq!(unknown(query), None, "{query:?}");
    }
    assert_eq!(unknown("rate(sprat_requests[5m])"), Some("sprat_requests"));
    assert_eq!(
        unknown("sprat_requests_total_sum"),
        Some("sprat_requests_total_sum")
    );
    let full = Full::sharing();
    let proxy = full.proxy();
    let admin = proxy.server.as_ref().unwrap().admin_address().unwrap();
    let prometheus = Prometheus::start(admin);
    let serve = || {
        assert_eq!(proxy.connect().ask(get("/")).status(), 200);
        assert_eq!(proxy.connect().ask(get("/unannounced")).text(), "abc");
        assert_eq!(proxy.connect().ask(get("/dead/")).status(), 502);
    };
    prometheus.wait_number("sum(sprat_requests_total{code=\"2xx\"}) > 0", serve);
    let useful: Vec<_> = quoted
        .iter()
        .filter(|own| own.page == "metrics.md" && own.text.contains('('))
        .collect();
    assert!(
        useful.len() >= 10 && quoted.len() >= 80,
        "{} {}",
        useful.len(),
        quoted.len()
    );
    for query in useful {
        let number = prometheus.wait_number(&query.text, serve);
        assert!(number >= 0.0, "{query:?}: {number}");
    }
    for query in &quoted {
        assert!(prometheus.numbers(&query.text).is_some(), "{query:?}");
    }
    for query in &shown {
        let number = prometheus.wait_number(query, serve);
        assert!(number.is_finite(), "{query:?}: {number}");
    }
}
