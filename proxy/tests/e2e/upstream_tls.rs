//! Tests of TLS towards backends, over real sockets.

use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use crate::common::binary::{Running, run, write};
use crate::common::dns::{NameServer, loopback};
use crate::common::tls::*;
use crate::common::*;
use rustls::crypto::CryptoProvider;
use rustls::crypto::cipher::{OutboundChunks, OutboundPlainMessage};
use rustls::crypto::ring::cipher_suite::TLS13_AES_128_GCM_SHA256;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::version::{TLS12, TLS13};
use rustls::{
    AlertDescription, ConnectionTrafficSecrets, ContentType, ProtocolVersion, ServerConfig,
    ServerConnection, StreamOwned, SupportedProtocolVersion,
};
use sprat_config::resolved::*;

static BOTH: [&SupportedProtocolVersion; 2] = [&TLS13, &TLS12];

/// The certificate that a backend shows, and the clients that it accepts.
struct Backend<'a> {
    shown: &'a Issued,
    clients: Option<&'a Authority>,
    /// Whether the backend also accepts clients that show no certificate.
    asks_only: bool,
    versions: &'a [&'static SupportedProtocolVersion],
    protocols: &'a [&'a str],
}

impl<'a> Backend<'a> {
    fn showing(shown: &'a Issued) -> Self {
        Self {
            shown,
            clients: None,
            asks_only: false,
            versions: &BOTH,
            protocols: &[],
        }
    }

    fn config(&self, provider: CryptoProvider) -> ServerConfig {
        let provider = Arc::new(provider);
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(self.versions)
            .unwrap();
        let builder = match self.clients {
            None => builder.with_no_client_auth(),
            Some(authority) => {
                let roots = Arc::new(authority.roots());
                let mut verifier = WebPkiClientVerifier::builder_with_provider(roots, provider);
                if self.asks_only {
                    verifier = verifier.allow_unauthenticated();
                }
                builder.with_client_cert_verifier(verifier.build().unwrap())
            }
        };
        let chain = CertificateDer::pem_file_iter(&self.shown.chain).unwrap();
        let chain = chain.collect::<Result<_, _>>().unwrap();
        let key = PrivateKeyDer::from_pem_file(&self.shown.key).unwrap();
        // Whether or not they belong together.
        let key = rustls::crypto::ring::sign::any_supported_type(&key).unwrap();
        let shown = SingleCertAndKey::from(CertifiedKey::new(chain, key));
        let mut config = builder.with_cert_resolver(Arc::new(shown));
        let protocols = self.protocols.iter();
        config.alpn_protocols = protocols.map(|name| name.as_bytes().to_vec()).collect();
        config
    }

    /// Starts a backend that reads a request on each connection and ends it with an alert, after
    /// sending so many tickets.
    fn alerting(self, alert: AlertDescription, tickets: usize) -> Origin {
        let mut config = self.config(CryptoProvider {
            cipher_suites: vec![TLS13_AES_128_GCM_SHA256],
            ..rustls::crypto::ring::default_provider()
        });
        config.enable_secret_extraction = true;
        config.send_tls13_tickets = tickets;
        let config = Arc::new(config);
        Origin::start(move |peer| {
            let stream: TcpStream = peer.reader.into_inner();
            let session = ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut peer = Peer::over(StreamOwned::new(session, stream));
            if peer.try_message(true).is_some() {
                let (session, stream) = peer.reader.into_inner().into_parts();
                send_alert(session, stream, alert);
            }
        })
    }

    /// Starts a backend that answers each request with the server name that the client asked for.
    fn start(self) -> Origin {
        let config = Arc::new(self.config(rustls::crypto::ring::default_provider()));
        Origin::start(move |peer| {
            let stream: TcpStream = peer.reader.into_inner();
            let session = ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut peer = Peer::over(StreamOwned::new(session, stream));
            while peer.try_message(true).is_some() {
                let asked = peer.reader.get_ref().conn.server_name();
                let asked = asked.unwrap_or("nothing").to_owned();
                peer.send(ok(&asked));
            }
        })
    }
}

/// Sends an alert that rustls itself would send only for reasons of its own.
fn send_alert(session: ServerConnection, mut stream: TcpStream, alert: AlertDescription) {
    let secrets = session.dangerous_extract_secrets().unwrap();
    let (number, ConnectionTrafficSecrets::Aes128Gcm { key, iv }) = secrets.tx else {
        panic!("another cipher");
    };
    let suite = TLS13_AES_128_GCM_SHA256.tls13().unwrap();
    let fatal = [2, u8::from(alert)];
    let message = OutboundPlainMessage {
        typ: ContentType::Alert,
        version: ProtocolVersion::TLSv1_2,
        payload: OutboundChunks::Single(&fatal),
    };
    let mut encrypter = suite.aead_alg.encrypter(key, iv);
    let message = encrypter.encrypt(message, number).unwrap();
    stream.write_all(&message.encode()).unwrap();
}

/// Returns the TLS settings of a cluster that trusts this authority.
fn cluster_tls(authority: &Authority) -> ClusterTls {
    ClusterTls {
        http2: false,
        trusted_ca: TrustedCa::File(file(&authority.file())),
        sni: None,
        client_certificate: None,
        minimum_version: TlsVersion::V1_2,
        verify: true,
    }
}

/// Returns a configuration whose cluster speaks HTTP/2 if the handshake agrees on it.
fn over_http2(origin: SocketAddr, authority: &Authority) -> Config {
    let mut config = config(&[origin]);
    with_cluster(&mut config, |cluster| {
        let mut tls = cluster_tls(authority);
        tls.http2 = true;
        cluster.tls = Some(tls);
        cluster.http2 = Some(UpstreamHttp2 {
            max_streams: 100,
            stream_window_bytes: 256 << 10,
        });
    });
    config
}

fn proxy(origin: &Origin, tls: ClusterTls) -> Proxy {
    let mut config = config(&[origin.address]);
    with_cluster(&mut config, |cluster| cluster.tls = Some(tls));
    Proxy::logging(config)
}

/// Checks that a request fails for this reason, in its answer, the log and the metrics.
fn fails(proxy: &Proxy, reason: &str) {
    let answer = proxy.connect().ask(get("/"));
    assert_eq!(answer.status(), 502);
    let told = answer.field("proxy-status").unwrap();
    assert!(told.contains(&format!("error={reason};")), "{told}");
    let log = proxy.log_lines_at_least(1);
    assert_eq!(log.last().unwrap()["reason"], reason);
    let label = format!("reason=\"{reason}\"");
    proxy.wait_metric(&["sprat_upstream_errors_total", &label], 1.0);
    proxy.assert_no_leak();
}

#[test]
fn a_backend_is_believed_by_its_address_or_its_name() {
    let authority = Authority::new();
    let by_address = authority.issue("address", &["127.0.0.1"]);
    let origin = Backend::showing(&by_address).start();
    let proxy_by_address = proxy(&origin, cluster_tls(&authority));
    let mut client = proxy_by_address.connect();
    // An address is not asked for by name (RFC 6066 3).
    assert_eq!(client.ask(get("/1")).text(), "nothing");
    assert_eq!(client.ask(get("/2")).text(), "nothing");
    assert_eq!(origin.connections(), 1, "the connection is kept");

    let by_name = authority.issue("name", &["backend.example"]);
    for version in [&TLS12, &TLS13] {
        let origin = Backend {
            versions: &[version],
            ..Backend::showing(&by_name)
        }
        .start();
        let mut tls = cluster_tls(&authority);
        tls.sni = Some("backend.example".to_owned());
        let by_name = proxy(&origin, tls);
        assert_eq!(by_name.connect().ask(get("/")).text(), "backend.example");
    }
}

#[test]
fn an_address_of_a_name_is_asked_for_by_the_name() {
    let authority = Authority::new();
    let issued = authority.issue("name", &["backend.example"]);
    let server = NameServer::start();
    server.set("backend.example", 60, &[loopback(1)]);
    for discovery in [DnsType::Strict, DnsType::Logical] {
        let origin = Backend::showing(&issued).start();
        let mut config = config(&[origin.address]);
        with_cluster(&mut config, |cluster| {
            cluster.tls = Some(cluster_tls(&authority));
            cluster.dns = server.dns();
            cluster.dns.discovery = discovery;
            cluster.endpoints[0].address = EndpointAddress::Name {
                host: "backend.example".to_owned(),
                port: origin.address.port(),
            };
        });
        let proxy = Proxy::start(&config);
        assert_eq!(proxy.connect().ask(get("/")).text(), "backend.example");
    }
}

#[test]
fn whoever_is_not_believed_gets_no_request() {
    let authority = Authority::new();
    let other_name = authority.issue("other", &["other.example"]);
    let old = authority.issue_with("old", &["127.0.0.1"], |parameters| {
        parameters.not_after = rcgen::date_time_ymd(2020, 1, 1);
    });
    for shown in [&other_name, &old] {
        let origin = Backend::showing(shown).start();
        fails(
            &proxy(&origin, cluster_tls(&authority)),
            "tls_certificate_error",
        );
    }
    let stranger = Authority::new();
    let issued = stranger.issue("site", &["127.0.0.1"]);
    let origin = Backend::showing(&issued).start();
    fails(
        &proxy(&origin, cluster_tls(&authority)),
        "tls_certificate_error",
    );
    // The system's authorities have not signed it either.
    if std::path::Path::new("/etc/ssl/certs/ca-certificates.crt").exists() {
        let mut tls = cluster_tls(&authority);
        tls.trusted_ca = TrustedCa::System(Span::default());
        fails(&proxy(&origin, tls), "tls_certificate_error");
    }
    // Unless nobody looks.
    let mut tls = cluster_tls(&authority);
    tls.verify = false;
    assert_eq!(proxy(&origin, tls).connect().ask(get("/")).status(), 200);
}

#[test]
fn a_backends_own_certificate_is_believed_where_it_is_listed() {
    use rcgen::{ExtendedKeyUsagePurpose, date_time_ymd};
    let authority = Authority::new();
    let address = "127.0.0.1";
    let own = authority.self_signed("own", address, |_| ());
    let trusting = |listed: &Issued| {
        let mut tls = cluster_tls(&authority);
        tls.trusted_ca = TrustedCa::File(file(&listed.chain));
        tls
    };
    for version in [&TLS12, &TLS13] {
        let origin = Backend {
            versions: &[version],
            ..Backend::showing(&own)
        };
        let answer = proxy(&origin.start(), trusting(&own))
            .connect()
            .ask(get("/"));
        assert_eq!(answer.status(), 200);
    }
    let refused = |shown: &Issued, listed: &Issued| {
        let origin = Backend::showing(shown).start();
        fails(&proxy(&origin, trusting(listed)), "tls_certificate_error");
    };
    let elsewhere = authority.self_signed("elsewhere", "other.example", |_| ());
    refused(&elsewhere, &elsewhere);
    let old = authority.self_signed("old", address, |parameters| {
        parameters.not_after = date_time_ymd(2020, 1, 1);
    });
    refused(&old, &old);
    let early = authority.self_signed("early", address, |parameters| {
        parameters.not_before = date_time_ymd(4000, 1, 1);
    });
    refused(&early, &early);
    let of_a_client = authority.self_signed("of-a-client", address, |parameters| {
        let purpose = ExtendedKeyUsagePurpose::ClientAuth;
        parameters.extended_key_usages.push(purpose);
    });
    refused(&of_a_client, &of_a_client);
    // The same in all but its key and signature.
    let other = authority.self_signed("other", address, |_| ());
    refused(&other, &own);
    // The certificate alone, which anybody can have.
    let stolen = Issued {
        chain: own.chain.clone(),
        key: other.key,
    };
    refused(&stolen, &own);
}

#[test]
fn what_does_not_speak_tls_is_told_apart() {
    let authority = Authority::new();
    let plain = Origin::start(|mut peer| {
        peer.send("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
        peer.is_closed();
    });
    fails(
        &proxy(&plain, cluster_tls(&authority)),
        "tls_protocol_error",
    );
    let closing = Origin::start(drop);
    fails(
        &proxy(&closing, cluster_tls(&authority)),
        "connection_terminated",
    );
    let issued = authority.issue("site", &["127.0.0.1"]);
    let old = Backend {
        versions: &[&TLS12],
        ..Backend::showing(&issued)
    }
    .start();
    let mut tls = cluster_tls(&authority);
    tls.minimum_version = TlsVersion::V1_3;
    fails(&proxy(&old, tls), "tls_alert_received");
}

#[test]
fn a_backend_that_does_not_go_on_is_given_up() {
    let authority = Authority::new();
    let silent = Origin::start(|mut peer| {
        peer.is_closed();
    });
    let mut config = config(&[silent.address]);
    with_cluster(&mut config, |cluster| {
        cluster.tls = Some(cluster_tls(&authority));
        cluster.connect_timeout = Duration::from_millis(200);
    });
    let proxy = Proxy::start(&config);
    assert_eq!(proxy.connect().ask(get("/")).status(), 504);
    proxy.assert_no_leak();
}

#[test]
fn a_route_bounds_the_wait_for_a_connection_that_another_request_opens() {
    let authority = Authority::new();
    let silent = Origin::start(|mut peer| {
        peer.is_closed();
    });
    let mut config = over_http2(silent.address, &authority);
    with_cluster(&mut config, |cluster| {
        cluster.connect_timeout = Duration::from_millis(600);
    });
    // More than one handshake may take, less than two.
    config.routes[0].timeout = Some(Duration::from_millis(900));
    let proxy = Proxy::logging(config);
    let [mut first, mut second] = [(); 2].map(|()| proxy.connect());
    first.send(get("/1"));
    wait_for("the handshake to begin", || silent.connections() == 1);
    second.send(get("/2"));
    assert_eq!(first.message().status(), 504);
    assert_eq!(second.message().status(), 504);
    let reasons = proxy.log_lines(2);
    let reasons: Vec<_> = reasons.iter().map(|line| &line["reason"]).collect();
    assert_eq!(reasons, ["connection_timeout", "route_timeout"]);
    drop((first, second));
    proxy.assert_no_leak();
}

/// Checks that a backend that wants a certificate counts as one that cannot be reached. With TLS
/// 1.3 it says so only when the handshake is over for the proxy.
#[test]
fn a_backend_that_wants_a_certificate_is_one_that_cannot_be_reached() {
    let (authority, believed) = (Authority::new(), Authority::new());
    let issued = authority.issue("site", &["127.0.0.1"]);
    let post = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n";
    for http2 in [false, true] {
        let strict = Backend {
            clients: Some(&believed),
            versions: &[&TLS13],
            protocols: if http2 { &["h2"] } else { &[] },
            ..Backend::showing(&issued)
        };
        let strict = strict.start();
        let mut alone = match http2 {
            true => over_http2(strict.address, &authority),
            false => config(&[strict.address]),
        };
        with_cluster(&mut alone, |cluster| {
            cluster.tls.get_or_insert(cluster_tls(&authority));
        });
        let proxy = Proxy::logging(alone.clone());
        fails(&proxy, "tls_alert_received");
        let retries = ["sprat_upstream_retries"];
        assert_eq!(proxy.metric(&retries), 0.0);
        if http2 {
            continue;
        }
        // Another gets what it did not look at, be it safe or not.
        let good = Backend::showing(&issued).start();
        with_cluster(&mut alone, |cluster| {
            cluster.endpoints.push(endpoint(good.address));
        });
        let proxy = Proxy::logging(alone);
        for request in [get("/").as_str(), post].repeat(2) {
            assert_eq!(proxy.connect().ask(request).status(), 200);
        }
        assert!(strict.connections() > 1);
        assert!(proxy.metric(&retries) >= 1.0);
        proxy.assert_no_leak();
    }
}

/// Checks that a request that a backend has read is not sent again, whatever alert follows: the
/// backend may have acted on it.
#[test]
fn what_a_backend_has_read_is_not_sent_again_for_an_alert() {
    use AlertDescription as Alert;
    let (authority, believed) = (Authority::new(), Authority::new());
    let issued = authority.issue("site", &["127.0.0.1"]);
    let post = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi";
    for (asks, alert, tickets) in [
        (false, Alert::InternalError, 0),
        (false, Alert::AccessDenied, 0),
        (true, Alert::InternalError, 0),
        (true, Alert::AccessDenied, 1),
    ] {
        let bad = Backend {
            clients: asks.then_some(&believed),
            asks_only: true,
            versions: &[&TLS13],
            ..Backend::showing(&issued)
        };
        let bad = bad.alerting(alert, tickets);
        let good = Backend::showing(&issued).start();
        let mut config = config(&[bad.address, good.address]);
        with_cluster(&mut config, |cluster| {
            cluster.tls = Some(cluster_tls(&authority));
        });
        let proxy = Proxy::logging(config);
        for request in [post, &get("/")] {
            let answer = proxy.connect().ask(request);
            assert_eq!(answer.status(), 502, "{asks} {alert:?}");
            // The other's turn.
            assert_eq!(proxy.connect().ask(get("/")).status(), 200);
        }
        assert_eq!(bad.connections(), 2);
        assert_eq!(proxy.metric(&["sprat_upstream_retries"]), 0.0);
        let errors = ["sprat_upstream_errors", "connection_terminated"];
        assert_eq!(proxy.metric(&errors), 2.0);
        proxy.assert_no_leak();
    }
}

#[test]
fn a_certificate_is_shown_to_a_backend_that_asks() {
    let (authority, believed) = (Authority::new(), Authority::new());
    let issued = authority.issue("site", &["127.0.0.1"]);
    let own = believed.client("own", "sprat", "spiffe://farm/sprat");
    let origin = Backend {
        clients: Some(&believed),
        versions: &[&TLS12],
        ..Backend::showing(&issued)
    }
    .start();
    let mut tls = cluster_tls(&authority);
    fails(&proxy(&origin, tls.clone()), "tls_alert_received");
    tls.client_certificate = Some(TlsCertificate {
        chain: file(&own.chain),
        key: file(&own.key),
    });
    assert_eq!(proxy(&origin, tls).connect().ask(get("/")).status(), 200);
}

#[test]
fn authorities_are_read_again_when_they_change() {
    let (authority, next) = (Authority::new(), Authority::new());
    let issued = next.issue("site", &["127.0.0.1"]);
    let origin = Backend::showing(&issued).start();
    let proxy = proxy(&origin, cluster_tls(&authority));
    assert_eq!(proxy.connect().ask(get("/")).status(), 502);
    // Nonsense changes nothing; what is right then is taken.
    std::fs::write(authority.file(), "nonsense").unwrap();
    std::thread::sleep(Duration::from_millis(2500));
    assert_eq!(proxy.connect().ask(get("/")).status(), 502);
    std::fs::copy(next.file(), authority.file()).unwrap();
    wait_for("the new authority to be believed", || {
        proxy.connect().ask(get("/")).status() == 200
    });
}

#[test]
fn large_bodies_pass_both_ways() {
    let authority = Authority::new();
    let issued = authority.issue("site", &["127.0.0.1"]);
    // Answers what it was sent, over TLS on both sides.
    let echo = Origin::http(|request| ok(&request.text()));
    let mut inner = config(&[echo.address]);
    inner.listeners[0].tls = Some(listener_tls(&[&issued]));
    let inner = Proxy::start(&inner);
    let mut outer = config(&[inner.address]);
    outer.listeners[0].tls = Some(listener_tls(&[&issued]));
    with_cluster(&mut outer, |c| c.tls = Some(cluster_tls(&authority)));
    let outer = Proxy::start(&outer);
    let mut peer = TlsClient::new(&authority).connect(outer.address, "127.0.0.1");
    let body = "0123456789abcdef-".repeat(100_000);
    let head = format!(
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    assert!(peer.ask(head + &body).text() == body);
    drop(peer);
    outer.assert_no_leak();
    // Which keeps connections to the other one.
    outer.stop();
    inner.assert_no_leak();
}

#[test]
fn http2_is_spoken_where_the_handshake_agrees_on_it_and_nothing_else_is() {
    let authority = Authority::new();
    let issued = authority.issue("site", &["127.0.0.1"]);
    let echo = Origin::http(|request| ok(&request.text()));
    let mut inner = config(&[echo.address]);
    let mut tls = listener_tls(&[&issued]);
    tls.http1 = false;
    inner.listeners[0].tls = Some(tls);
    inner.listeners[0].http2.as_mut().unwrap().required = true;
    let inner = Proxy::start(&inner);
    let outer = Proxy::logging(over_http2(inner.address, &authority));
    let mut peer = outer.connect();
    for n in 0..20 {
        let body = n.to_string().repeat(10_000);
        let head = format!(
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        assert!(peer.ask(head + &body).text() == body);
    }
    drop(peer);
    outer.assert_no_leak();
    outer.stop();
    inner.assert_no_leak();

    // One that does not know of protocols is not taken to speak it.
    let old = Backend::showing(&issued).start();
    fails(
        &Proxy::logging(over_http2(old.address, &authority)),
        "tls_protocol_error",
    );
}

#[test]
fn the_systems_authorities_are_read_again_at_a_reload() {
    let (stranger, authority) = (Authority::new(), Authority::new());
    let issued = authority.issue("site", &["127.0.0.1"]);
    let origin = Backend::showing(&issued).start();
    let directory = tempfile::tempdir().unwrap();
    let configuration = write(directory.path(), origin.address, "");
    let text = std::fs::read_to_string(&configuration).unwrap();
    let text = text.replace("{endpoints: [", "{tls: {}, endpoints: [");
    std::fs::write(&configuration, text).unwrap();
    let system = directory.path().join("system.pem");
    std::fs::copy(stranger.file(), &system).unwrap();
    let mut command = run(&configuration);
    command.env("SSL_CERT_FILE", &system);
    let running = Running::of(&mut command);
    let mut client = Peer::connect(running.address);
    assert_eq!(client.ask(get("/")).status(), 502);
    std::fs::copy(authority.file(), &system).unwrap();
    running.signal("HUP");
    running.says("serving by the configuration as it is now");
    assert_eq!(client.ask(get("/")).status(), 200);
}
