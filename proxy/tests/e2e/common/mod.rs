//! Origins, clients and configurations for tests over real sockets.

pub(crate) mod binary;
pub(crate) mod dns;
pub(crate) mod pebble;
pub(crate) mod tls;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use sprat_config::resolved::*;
use sprat_scheduler::Discipline;
use sprat_scheduler::health::Thresholds;
use sprat_server::server::Server;

/// The longest wait for an event that must happen, but at no particular time.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// An origin, which gives each connection to `serve` on a thread of its own.
pub(crate) struct Origin {
    pub(crate) address: SocketAddr,
    pub(crate) connections: Arc<AtomicUsize>,
}

impl Origin {
    pub(crate) fn start(serve: impl Fn(Peer) + Send + Sync + 'static) -> Self {
        Self::on(TcpListener::bind("127.0.0.1:0").unwrap(), serve)
    }

    /// Starts an origin on a socket that listens already.
    pub(crate) fn on(listener: TcpListener, serve: impl Fn(Peer) + Send + Sync + 'static) -> Self {
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let (count, serve) = (Arc::clone(&connections), Arc::new(serve));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else { return };
                count.fetch_add(1, Ordering::SeqCst);
                let serve = Arc::clone(&serve);
                std::thread::spawn(move || serve(Peer::new(stream)));
            }
        });
        Self {
            address,
            connections,
        }
    }

    /// Starts an origin that answers every request with the text that `answer` returns.
    pub(crate) fn http(answer: impl Fn(&Message) -> String + Send + Sync + 'static) -> Self {
        Self::start(move |mut peer| {
            while let Some(request) = peer.try_message(true) {
                peer.send(answer(&request));
            }
        })
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

/// A head and a body, as they came over the wire.
#[derive(Debug, Clone, Default)]
pub(crate) struct Message {
    pub(crate) start: String,
    /// The fields, with names in lower case.
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    pub(crate) trailers: Vec<(String, String)>,
}

impl Message {
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let mut found = self.fields.iter().filter(|(n, _)| n == name);
        let value = found.next().map(|(_, value)| value.as_str());
        assert!(found.next().is_none(), "more than one {name}: {self:?}");
        value
    }

    pub(crate) fn status(&self) -> u16 {
        self.start.split(' ').nth(1).unwrap().parse().unwrap()
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// The test's end of a connection.
pub(crate) struct Peer<S: Read + Write = TcpStream> {
    pub(crate) reader: BufReader<S>,
}

impl Peer {
    pub(crate) fn new(stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Self::over(stream)
    }

    pub(crate) fn connect(address: SocketAddr) -> Self {
        Self::new(TcpStream::connect(address).unwrap())
    }

    pub(crate) fn stream(&self) -> &TcpStream {
        self.reader.get_ref()
    }

    pub(crate) fn half_close(&self) {
        let _ = self.stream().shutdown(Shutdown::Write);
    }
}

impl<S: Read + Write> Peer<S> {
    pub(crate) fn over(stream: S) -> Self {
        Self {
            reader: BufReader::new(stream),
        }
    }

    /// Sends bytes to the peer. Returns false if the peer has gone, which is no error here.
    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.reader.get_mut().write_all(bytes.as_ref()).is_ok()
    }

    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        match self.reader.read_line(&mut line) {
            Ok(0) | Err(_) => None,
            Ok(_) => Some(line.trim_end().to_owned()),
        }
    }

    fn fields(&mut self) -> Option<Vec<(String, String)>> {
        let mut fields = Vec::new();
        loop {
            let line = self.line()?;
            if line.is_empty() {
                return Some(fields);
            }
            let (name, value) = line.split_once(':')?;
            fields.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
    }

    pub(crate) fn head(&mut self) -> Option<Message> {
        Some(Message {
            start: self.line()?,
            fields: self.fields()?,
            ..Message::default()
        })
    }

    /// Reads a whole message, without interim responses before it. Returns none if the connection
    /// ends before the message does.
    pub(crate) fn try_message(&mut self, has_body: bool) -> Option<Message> {
        let mut message = self.head()?;
        while message.start.starts_with("HTTP/1.1 10") && !message.start.contains(" 101 ") {
            message = self.head()?;
        }
        if !has_body
            || [" 304 ", " 204 "]
                .iter()
                .any(|code| message.start.contains(code))
        {
            return Some(message);
        }
        if message.field("transfer-encoding") == Some("chunked") {
            loop {
                let line = self.line()?;
                let size = usize::from_str_radix(&line, 16).ok()?;
                if size == 0 {
                    message.trailers = self.fields()?;
                    return Some(message);
                }
                let start = message.body.len();
                message.body.resize(start + size, 0);
                self.reader.read_exact(&mut message.body[start..]).ok()?;
                self.line()?;
            }
        }
        match message.field("content-length").map(str::to_owned) {
            Some(length) => {
                message.body = vec![0; length.parse().ok()?];
                self.reader.read_exact(&mut message.body).ok()?;
            }
            None if message.start.starts_with("HTTP/") => {
                self.reader.read_to_end(&mut message.body).ok()?;
            }
            None => {}
        }
        Some(message)
    }

    /// Reads a whole message, which must come.
    pub(crate) fn message(&mut self) -> Message {
        self.try_message(true).expect("a whole message")
    }

    /// Sends a request, and reads its answer.
    pub(crate) fn ask(&mut self, request: impl AsRef<[u8]>) -> Message {
        assert!(self.send(request));
        self.message()
    }

    /// Reads to the end, and returns whether the connection has been closed.
    pub(crate) fn is_closed(&mut self) -> bool {
        let mut rest = Vec::new();
        // A reset is a close, a time-out is not.
        match self.reader.read_to_end(&mut rest) {
            Ok(_) => true,
            Err(error) => error.kind() != std::io::ErrorKind::WouldBlock,
        }
    }
}

/// Ends a connection with a reset.
pub(crate) fn reset(peer: Peer) {
    let socket = socket2::SockRef::from(peer.stream());
    socket.set_linger(Some(Duration::ZERO)).unwrap();
    drop(peer);
}

pub(crate) fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: test.example\r\n\r\n")
}

pub(crate) fn ok(body: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Returns an address that no socket uses, and that none gets by chance. Its port is below those
/// that the kernel chooses from: otherwise a connection could get it before a test listens there.
pub(crate) fn free_address() -> SocketAddr {
    const LOWEST: u32 = 10_000;
    const PORTS: u32 = 20_000;
    static ASKED: AtomicUsize = AtomicUsize::new(0);
    // Tests that run at the same time begin far apart.
    let begin = std::process::id().wrapping_mul(251);
    loop {
        let asked = ASKED.fetch_add(1, Ordering::Relaxed) as u32;
        let port = LOWEST + begin.wrapping_add(asked) % PORTS;
        let address = SocketAddr::from(([127, 0, 0, 1], port as u16));
        if TcpListener::bind(address).is_ok() {
            return address;
        }
    }
}

/// Makes an address take no further connection, so that what is sent there is lost. Returns the
/// sockets that keep it so.
pub(crate) fn black_hole(listener: &TcpListener) -> Vec<TcpStream> {
    // The shortest queue there is, of those that wait to be accepted.
    socket2::SockRef::from(listener).listen(0).unwrap();
    let address = listener.local_addr().unwrap();
    let connect = || TcpStream::connect_timeout(&address, Duration::from_millis(200)).ok();
    std::iter::from_fn(connect).collect()
}

pub(crate) fn endpoint(address: SocketAddr) -> Endpoint {
    Endpoint {
        address: EndpointAddress::Ip(address),
        weight: 1,
        size_range: None,
        reserved: false,
        priority: 0,
    }
}

/// Returns a configuration of one listener, one route and one cluster of these origins, with
/// generous bounds.
pub(crate) fn config(origins: &[SocketAddr]) -> Config {
    let cluster = Arc::new(Cluster {
        name: "farm".to_owned(),
        endpoints: origins.iter().map(|&address| endpoint(address)).collect(),
        dns: dns::dns(),
        dispatch: Dispatch::RoundRobin,
        hash_key: HashKey::Url,
        stateful_session: None,
        wait_for_endpoint: None,
        endpoints_file: None,
        max_requests: usize::MAX,
        read_ahead: Some(ReadAhead {
            per_response: 256 << 10,
            total: 64 << 20,
        }),
        wait_queue: WaitQueue {
            order: WaitOrder::Size,
            scope: WaitScope::Cluster,
            max_requests: 100,
            timeout: Some(Duration::from_secs(30)),
        },
        slow_start: Duration::ZERO,
        resilience: Resilience::default(),
        overload_page: None,
        connect_timeout: Duration::from_secs(10),
        max_connections: 1024,
        max_idle_connections: 64,
        idle_timeout: Duration::from_secs(60),
        max_response_headers: 64 << 10,
        tls: None,
        proxy_protocol: None,
        http2: None,
    });
    Config {
        runtime: Runtime {
            workers: 1,
            drain_timeout: Duration::from_secs(30),
            reload_interval: None,
        },
        admin: None,
        listeners: vec![Listener {
            name: "test".to_owned(),
            address: "127.0.0.1:0".parse().unwrap(),
            mode: 0o660,
            owner: SocketOwner::default(),
            max_connections: 1024,
            max_request_headers: 64 << 10,
            max_headers_count: 100,
            max_request_body: None,
            request_headers_timeout: Duration::from_secs(30),
            idle_timeout: Duration::from_secs(60),
            stream_idle_timeout: Duration::from_secs(60),
            max_tunnels: 1024,
            abort_on_close: false,
            max_unsent_bytes: 128 << 10,
            limits: ListenerLimits::default(),
            forwarding: Forwarding {
                x_forwarded: true,
                forwarded: false,
                trusted: Vec::new(),
                via: Some("sprat".to_owned()),
            },
            http2: Some(Http2 {
                max_streams: 100,
                stream_window_bytes: 64 << 10,
                connection_window_bytes: 100 * (64 << 10),
                priorities: Priorities::All,
                required: false,
            }),
            paths: PathRules::default(),
            request_id: None,
            headers_with_underscores: HeadersWithUnderscores::default(),
            tls: None,
            proxy_protocol: None,
        }],
        uplink: Uplink {
            adapt: true,
            rate: Rate::Unlimited,
            policy: Discipline::Srpt,
            engine: Engine::Pace,
            max_flows: 100_000,
            guard_factor: 10.0,
            floor_percent: 5,
            counterfactual: true,
            counterfactual_networks: 16,
            share: None,
            marking: None,
            shared: None,
        },
        routes: vec![route(&cluster)],
        clusters: vec![cluster],
        classes: Classes::default(),
        admission: Admission::default(),
        access_log: Vec::new(),
        catalogue: Catalogue {
            max_bytes: 1 << 20,
            ttl: Duration::from_secs(600),
            vary: vec!["accept-encoding".to_owned()],
            snapshot: None,
            manifests: Vec::new(),
            shared: None,
            estimator: None,
        },
        acme: None,
        tracing: None,
        overload_manager: None,
        buffer: BufferTotals::default(),
        shown: sprat_config::Shown::default(),
    }
}

/// Returns an admin listener that accepts requests as [`get`] makes them.
pub(crate) fn admin() -> Admin {
    Admin {
        address: "127.0.0.1:0".parse().unwrap(),
        mode: 0o600,
        owner: SocketOwner::default(),
        hosts: vec![HostPattern::Exact("test.example".to_owned())],
        token_file: None,
    }
}

pub(crate) fn route(cluster: &Arc<Cluster>) -> Route {
    Route {
        response_timeout: Duration::from_secs(30),
        idle_timeout: Duration::from_secs(30),
        upgrade: Some(Upgrade {
            protocols: vec!["websocket".to_owned()],
            idle_timeout: Duration::from_secs(60),
            buffer_bytes: 8 << 10,
        }),
        ..Route::to(Arc::clone(cluster))
    }
}

/// Changes the only cluster of a configuration.
pub(crate) fn with_cluster(config: &mut Config, change: impl FnOnce(&mut Cluster)) {
    let mut cluster = Cluster::clone(&config.clusters[0]);
    change(&mut cluster);
    let cluster = Arc::new(cluster);
    for route in &mut config.routes {
        route.action = Action::to(Arc::clone(&cluster));
    }
    config.clusters = vec![cluster];
}

/// Returns frequent checks of `/healthz`, one of which decides about an endpoint.
pub(crate) fn health_checks(timeout: Duration) -> HealthChecks {
    HealthChecks {
        http: Some(HttpHealthCheck {
            path: "/healthz".to_owned(),
            host: None,
            method: "GET".to_owned(),
            expected_statuses: vec![(200, 299)],
        }),
        interval: Duration::from_millis(20),
        jitter_percent: 0,
        timeout,
        thresholds: Thresholds {
            healthy: 1,
            unhealthy: 1,
        },
    }
}

/// A running server, which is stopped when this is dropped.
pub(crate) struct Proxy {
    pub(crate) server: Option<Server>,
    pub(crate) address: SocketAddr,
    pub(crate) log: Option<std::path::PathBuf>,
    _directory: Option<tempfile::TempDir>,
}

impl Proxy {
    pub(crate) fn start(config: &Config) -> Self {
        let server = Server::start(config).unwrap();
        Self {
            address: server.addresses()[0],
            server: Some(server),
            log: None,
            _directory: None,
        }
    }

    /// Starts a server with an access log in JSON.
    pub(crate) fn logging(mut config: Config) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("access.log");
        config.access_log = vec![AccessLog {
            target: LogTarget::File(path.clone()),
            span: Span::default(),
            format: LogFormat::Json,
            filters: Vec::new(),
        }];
        let mut proxy = Self::start(&config);
        proxy.log = Some(path);
        proxy._directory = Some(directory);
        proxy
    }

    pub(crate) fn of(origins: &[&Origin]) -> Self {
        Self::logging(config(
            &origins.iter().map(|o| o.address).collect::<Vec<_>>(),
        ))
    }

    pub(crate) fn connect(&self) -> Peer {
        Peer::connect(self.address)
    }

    /// Connects from another address of this host.
    pub(crate) fn connect_from(&self, address: [u8; 4]) -> Peer {
        use socket2::{Domain, Socket, Type};
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::from((address, 0)).into()).unwrap();
        socket.connect(&self.address.into()).unwrap();
        Peer::new(socket.into())
    }

    /// Returns the sum of the samples whose name and labels hold all of `parts`.
    pub(crate) fn metric(&self, parts: &[&str]) -> f64 {
        metric(&self.server.as_ref().unwrap().metrics(), parts)
    }

    /// Waits until a metric has this value.
    pub(crate) fn wait_metric(&self, parts: &[&str], value: f64) {
        wait_for(&format!("{parts:?} to be {value}"), || {
            self.metric(parts) == value
        });
    }

    /// Checks that every gauge is back at zero, so that nothing has leaked.
    pub(crate) fn assert_no_leak(&self) {
        for gauge in [
            "sprat_open_connections",
            "sprat_open_requests",
            "sprat_upstream_outstanding",
        ] {
            self.wait_metric(&[gauge], 0.0);
        }
        wait_for("upstream connections to be idle or closed", || {
            self.metric(&["sprat_upstream_connections"])
                == self.metric(&["sprat_upstream_idle_connections"])
        });
    }

    /// Checks that the log's only line and the metric have this reason, and that nothing has
    /// leaked.
    pub(crate) fn assert_told(&self, metric: &str, reason: &str, status: Option<u16>) {
        self.wait_metric(&[metric, &format!("reason=\"{reason}\"")], 1.0);
        let line = self.log_lines(1).remove(0);
        assert_eq!(line["reason"], reason, "{line}");
        if let Some(status) = status {
            assert_eq!(line["status"], status, "{line}");
        }
        self.assert_no_leak();
    }

    /// Waits for exactly so many lines of the log, and returns them.
    pub(crate) fn log_lines(&self, count: usize) -> Vec<serde_json::Value> {
        let lines = self.log_lines_at_least(count);
        assert_eq!(lines.len(), count, "{lines:?}");
        lines
    }

    /// Waits for at least so many lines of the log, and returns all.
    pub(crate) fn log_lines_at_least(&self, count: usize) -> Vec<serde_json::Value> {
        let path = self.log.as_ref().unwrap();
        let read = || -> Vec<serde_json::Value> {
            let text = std::fs::read_to_string(path).unwrap();
            text.lines()
                .filter_map(|line| serde_json::from_str(line).ok())
                .collect()
        };
        wait_for(&format!("{count} lines in the log"), || {
            read().len() >= count
        });
        read()
    }

    /// Stops the server at once, and fails if the server has failed.
    pub(crate) fn stop(mut self) {
        let server = self.server.take().unwrap();
        server.control().cut();
        server.join().unwrap();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            server.control().cut();
            let ended = server.join();
            if !std::thread::panicking() {
                ended.unwrap();
            }
        }
    }
}

pub(crate) fn metric(text: &str, parts: &[&str]) -> f64 {
    text.lines()
        .filter(|line| !line.starts_with('#') && parts.iter().all(|part| line.contains(part)))
        .map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap())
        .sum()
}

pub(crate) fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
