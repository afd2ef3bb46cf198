//! Tests of TLS towards clients, over real sockets.

use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use crate::common::tls::*;
use crate::common::*;
use rustls::HandshakeKind;
use rustls::version::{TLS12, TLS13};
use sprat_config::resolved::*;
use sprat_scheduler::Discipline;

const NAME: &str = "test.example";

fn secure(origin: &Origin, tls: ListenerTls) -> Config {
    let mut config = config(&[origin.address]);
    config.listeners[0].tls = Some(tls);
    config
}

/// Starts an origin that answers with the protocol that the client is said to speak.
fn echo() -> Origin {
    Origin::http(|request| ok(request.field("x-forwarded-proto").unwrap()))
}

fn handshakes(proxy: &Proxy, version: &str, result: &str) -> f64 {
    let (version, result) = (
        format!("version=\"{version}\""),
        format!("result=\"{result}\""),
    );
    proxy.metric(&["sprat_tls_handshakes_total", &version, &result])
}

fn wait_handshakes(proxy: &Proxy, version: &str, result: &str, count: f64) {
    wait_for(&format!("{count} {version} {result}"), || {
        handshakes(proxy, version, result) == count
    });
}

#[test]
fn both_versions_serve_and_resume() {
    let (origin, authority) = (echo(), Authority::new());
    let issued = authority.issue("site", &[NAME]);
    let proxy = Proxy::logging(secure(&origin, listener_tls(&[&issued])));
    for (version, label) in [(&TLS12, "1.2"), (&TLS13, "1.3")] {
        let client = TlsClient::with(&authority, &[version], None);
        let mut first = client.connect(proxy.address, NAME);
        assert_eq!(first.session().handshake_kind(), Some(HandshakeKind::Full));
        assert_eq!(first.ask(get("/a")).text(), "https");
        assert_eq!(
            first.ask(get("/b")).text(),
            "https",
            "the connection is kept"
        );
        let mut second = client.connect(proxy.address, NAME);
        assert_eq!(
            second.session().handshake_kind(),
            Some(HandshakeKind::Resumed)
        );
        let last = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        assert_eq!(second.ask(last).text(), "https");
        assert!(second.ends_cleanly());
        assert_eq!(handshakes(&proxy, label, "full"), 1.0);
        assert_eq!(handshakes(&proxy, label, "resumed"), 1.0);
    }
    proxy.assert_no_leak();
    assert_eq!(proxy.log_lines(6)[0]["status"], 200);
}

#[test]
fn older_versions_and_strangers_are_refused_and_counted() {
    let (origin, authority) = (echo(), Authority::new());
    let mut tls = listener_tls(&[&authority.issue("site", &[NAME])]);
    tls.minimum_version = TlsVersion::V1_3;
    let proxy = Proxy::start(&secure(&origin, tls));
    let old = TlsClient::with(&authority, &[&TLS12], None);
    assert!(old.try_connect(proxy.address, NAME).is_err());
    wait_handshakes(&proxy, "", "incompatible", 1.0);
    // A client that believes another authority.
    let stranger = TlsClient::new(&Authority::new());
    assert!(stranger.try_connect(proxy.address, NAME).is_err());
    wait_handshakes(&proxy, "", "refused_by_client", 1.0);
    // Not TLS at all.
    let mut plain = proxy.connect();
    assert!(plain.send(get("/")));
    let answer = plain.message();
    assert_eq!(answer.status(), 400);
    assert_eq!(
        answer.text(),
        "400 Bad Request: this port speaks TLS: ask for an https URL\n"
    );
    assert!(plain.is_closed());
    wait_handshakes(&proxy, "", "plain_http", 1.0);
    proxy.wait_metric(&["sprat_bad_requests_total", "\"plain_http\""], 1.0);
    let mut garbage = proxy.connect();
    assert!(garbage.send(b"\x01 no TLS\r\n\r\n"));
    assert!(garbage.is_closed());
    wait_handshakes(&proxy, "", "malformed", 1.0);
    drop(proxy.connect());
    wait_handshakes(&proxy, "", "closed", 1.0);
    proxy.assert_no_leak();
}

#[test]
fn without_tickets_nothing_is_resumed() {
    let (origin, authority) = (echo(), Authority::new());
    let mut tls = listener_tls(&[&authority.issue("site", &[NAME])]);
    tls.session_tickets = 0;
    let proxy = Proxy::start(&secure(&origin, tls));
    for version in [&TLS12, &TLS13] {
        let client = TlsClient::with(&authority, &[version], None);
        for _ in 0..2 {
            let mut peer = client.connect(proxy.address, NAME);
            assert_eq!(peer.session().handshake_kind(), Some(HandshakeKind::Full));
            assert_eq!(peer.ask(get("/")).text(), "https");
        }
    }
}

#[test]
fn the_name_that_is_asked_for_decides_what_is_shown() {
    let (origin, authority) = (echo(), Authority::new());
    let first = authority.issue("first", &["first.example"]);
    let wild = authority.issue("wild", &["*.wild.example", "wild.example"]);
    let exact = authority.issue("exact", &["exact.wild.example"]);
    let proxy = Proxy::start(&secure(&origin, listener_tls(&[&first, &wild, &exact])));
    let shown = |name: &str| {
        // Which certificate comes is told, whether the client takes it or not.
        let output = openssl(&proxy, &["-servername", name]);
        let pem = output
            .split_inclusive("-----END CERTIFICATE-----")
            .next()
            .unwrap();
        let start = pem.find("-----BEGIN CERTIFICATE-----").unwrap();
        let found = authority.directory().join("found.pem");
        std::fs::write(&found, &pem[start..]).unwrap();
        first_in(&found)
    };
    assert_eq!(shown("first.example"), first_in(&first.chain));
    assert_eq!(shown("a.wild.example"), first_in(&wild.chain));
    assert_eq!(shown("A.Wild.Example"), first_in(&wild.chain));
    assert_eq!(shown("wild.example"), first_in(&wild.chain));
    assert_eq!(shown("exact.wild.example"), first_in(&exact.chain));
    // A wildcard stands for one label.
    assert_eq!(shown("a.b.wild.example"), first_in(&first.chain));
    assert_eq!(shown("other.example"), first_in(&first.chain));
}

/// Returns the output of `openssl s_client` for a connection to the proxy.
fn openssl(proxy: &Proxy, arguments: &[&str]) -> String {
    let address = proxy.address.to_string();
    let output = Command::new("openssl")
        .args(["s_client", "-connect", &address])
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn only_ciphers_with_forward_secrecy_are_agreed_on() {
    let (origin, authority) = (echo(), Authority::new());
    let issued = authority.issue("site", &[NAME]);
    let proxy = Proxy::start(&secure(&origin, listener_tls(&[&issued])));
    let good = openssl(
        &proxy,
        &["-tls1_2", "-cipher", "ECDHE-ECDSA-AES128-GCM-SHA256"],
    );
    assert!(
        good.contains("Cipher is ECDHE-ECDSA-AES128-GCM-SHA256"),
        "{good}"
    );
    for bad in ["ECDHE-ECDSA-AES128-SHA", "AES128-GCM-SHA256"] {
        let refused = openssl(&proxy, &["-tls1_2", "-cipher", bad]);
        assert!(refused.contains("Cipher is (NONE)"), "{refused}");
    }
    let protocol = openssl(&proxy, &["-alpn", "http/1.1,http/1.0"]);
    assert!(protocol.contains("ALPN protocol: http/1.1"), "{protocol}");
}

#[test]
fn where_http2_is_required_nothing_else_is_offered() {
    let (origin, authority) = (echo(), Authority::new());
    let issued = authority.issue("site", &[NAME]);
    let mut config = secure(&origin, listener_tls(&[&issued]));
    let listener = &mut config.listeners[0];
    listener.http2.as_mut().unwrap().required = true;
    listener.tls.as_mut().unwrap().http1 = false;
    let proxy = Proxy::start(&config);
    let taken = openssl(&proxy, &["-alpn", "http/1.1,h2"]);
    assert!(taken.contains("ALPN protocol: h2"), "{taken}");
    let refused = openssl(&proxy, &["-alpn", "http/1.1"]);
    assert!(refused.contains("No ALPN negotiated"), "{refused}");
}

#[test]
fn curl_is_served() {
    let (origin, authority) = (echo(), Authority::new());
    let issued = authority.issue("site", &[NAME]);
    let proxy = Proxy::start(&secure(&origin, listener_tls(&[&issued])));
    let resolve = format!("{NAME}:{}:127.0.0.1", proxy.address.port());
    let url = format!("https://{NAME}:{}/", proxy.address.port());
    let output = Command::new("curl")
        .args([
            "--silent",
            "--show-error",
            "--http1.1",
            "--resolve",
            &resolve,
        ])
        .arg("--cacert")
        .arg(authority.file())
        .args([&url, &url])
        .output()
        .unwrap();
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "httpshttps",
        "{output:?}"
    );
}

#[test]
fn clients_show_certificates_and_rules_go_by_them() {
    let (origin, authority) = (Origin::http(|_| ok("fine")), Authority::new());
    let believed = Authority::new();
    let (site, ca) = (authority.issue("site", &[NAME]), believed.file());
    let file = format!(
        "version: 1\nadmin: off\nruntime: {{workers: 1}}\nlisteners:\n\
         - address: 127.0.0.1:0\n  tls:\n    \
         certificates: [{{certificate_chain: '{}', private_key: '{}'}}]\n    \
         client_certificates: {{trusted_ca: '{}', mode: optional}}\n\
         uplink: {{rate: unlimited}}\n\
         clusters: {{farm: {{endpoints: ['{}']}}}}\nroutes: [{{cluster: farm}}]\n\
         classes: {{gold: {{level: 0}}, silver: {{level: 1}}, any: {{level: 2}}}}\n\
         class_rules:\n\
         - {{match: {{client_certificate: {{uris: ['spiffe://farm/gold*']}}}}, class: gold}}\n\
         - {{match: {{client_certificate: {{common_names: [ann]}}}}, class: silver}}\n\
         - {{match: {{client_certificate: {{}}}}, class: any}}\n",
        site.chain.display(),
        site.key.display(),
        ca.display(),
        origin.address,
    );
    let mut config = sprat_config::parse(&file, "test", &|_| None)
        .unwrap()
        .config;
    let optional = Proxy::logging(config.clone());
    let shown = [
        (
            Some(believed.client("gold", "ann", "spiffe://farm/gold/1")),
            "gold",
        ),
        (
            Some(believed.client("silver", "ann", "spiffe://farm/else")),
            "silver",
        ),
        (
            Some(believed.client("other", "bob", "spiffe://farm/else")),
            "any",
        ),
        (None, "default"),
    ];
    for (shown, _) in &shown {
        let client = TlsClient::with(&authority, &[&TLS13], shown.as_ref());
        // Resumed, a session has the same certificate.
        for _ in 0..2 {
            let mut peer = client.connect(optional.address, NAME);
            assert_eq!(peer.ask(get("/")).text(), "fine");
        }
    }
    let classes: Vec<String> = (optional.log_lines(8).iter())
        .map(|line| line["class"].as_str().unwrap().to_owned())
        .collect();
    let expected: Vec<_> = shown.iter().flat_map(|(_, class)| [*class; 2]).collect();
    assert_eq!(classes, expected);
    assert_eq!(handshakes(&optional, "1.3", "resumed"), 4.0);
    let forged = authority.client("forged", "ann", "spiffe://farm/gold/1");
    let forger = TlsClient::with(&authority, &[&TLS13], Some(&forged));
    refused(&forger, &optional);
    wait_handshakes(&optional, "", "certificate_invalid", 1.0);

    let tls = config.listeners[0].tls.as_mut().unwrap();
    tls.client_certificates.as_mut().unwrap().mode = ClientCertificateMode::Required;
    let required = Proxy::start(&config);
    refused(&TlsClient::new(&authority), &required);
    wait_handshakes(&required, "", "certificate_required", 1.0);
    let client = TlsClient::with(&authority, &[&TLS12], shown[0].0.as_ref());
    let mut peer = client.connect(required.address, NAME);
    assert_eq!(peer.ask(get("/")).text(), "fine");
}

#[test]
fn a_client_whose_certificate_is_revoked_is_refused() {
    let (origin, authority, believed) = (echo(), Authority::new(), Authority::new());
    let client = |serial: u64| {
        let label = format!("client-{serial}");
        let shown = believed.issue_with(&label, &["client.example"], |parameters| {
            parameters.serial_number = Some(serial.into());
        });
        // Of TLS 1.2 the handshake tells whether the client is believed.
        TlsClient::with(&authority, &[&TLS12], Some(&shown))
    };
    let (one, two) = (client(1), client(2));
    let mut tls = listener_tls(&[&authority.issue("site", &[NAME])]);
    tls.client_certificates = Some(ClientCertificates {
        trusted_ca: file(&believed.file()),
        mode: ClientCertificateMode::Required,
        crl_files: vec![file(&believed.revoke("clients", &[1]))],
        expired_crl: ExpiredCrl::Deny,
    });
    let mut config = secure(&origin, tls);
    config.listeners[0].address = free_address().into();
    let proxy = Proxy::start(&config);
    let serves = |client: &TlsClient| client.try_connect(proxy.address, NAME).is_ok();
    assert!(!serves(&one));
    assert!(serves(&two));
    wait_handshakes(&proxy, "", "certificate_invalid", 1.0);
    // Another list, and sessions from before it are not resumed.
    believed.revoke("clients", &[2]);
    reload(&proxy, &config);
    assert!(serves(&one));
    assert!(!serves(&two));
    // A list whose time is over.
    let over = SystemTime::now() - Duration::from_secs(60);
    believed.revoke_until("clients", &[2], over);
    reload(&proxy, &config);
    assert!(!serves(&one));
    let tls = config.listeners[0].tls.as_mut().unwrap();
    tls.client_certificates.as_mut().unwrap().expired_crl = ExpiredCrl::Use;
    reload(&proxy, &config);
    assert!(serves(&one));
    assert!(!serves(&two));
    // What is no list changes nothing.
    std::fs::write(believed.directory().join("clients.crl"), "nothing").unwrap();
    reload(&proxy, &config);
    assert!(serves(&one));
    assert!(!serves(&two));
}

#[test]
fn a_client_that_is_refused_hears_why_whatever_it_sends() {
    let (origin, authority) = (echo(), Authority::new());
    let believed = Authority::new();
    let mut tls = listener_tls(&[&authority.issue("site", &[NAME])]);
    tls.client_certificates = Some(ClientCertificates {
        trusted_ca: file(&believed.file()),
        mode: ClientCertificateMode::Required,
        crl_files: Vec::new(),
        expired_crl: ExpiredCrl::Deny,
    });
    let proxy = Proxy::start(&secure(&origin, tls));
    let forged = authority.client("forged", "ann", "spiffe://farm/gold/1");
    for (shown, alert, result) in [
        // Its authority has the name of one that is believed, and another key.
        (Some(&forged), "DecryptError", "certificate_invalid"),
        (None, "CertificateRequired", "certificate_required"),
    ] {
        let client = TlsClient::with(&authority, &[&TLS13], shown);
        for _ in 0..4 {
            let mut peer = client.connect(proxy.address, NAME);
            // What is sent when it has been refused is still taken.
            for part in ["POST / HTTP/1.1\r\n", "Host: a\r\n", "\r\n"] {
                assert!(peer.send(part));
                std::thread::sleep(Duration::from_millis(20));
            }
            let error = peer.reader.read_to_end(&mut Vec::new()).unwrap_err();
            assert!(error.to_string().contains(alert), "{error}");
        }
        wait_handshakes(&proxy, "", result, 4.0);
    }
    // But not for ever, nor without end.
    let client = TlsClient::with(&authority, &[&TLS13], None);
    let mut greedy = client.connect(proxy.address, NAME);
    while greedy.send([0; 16 << 10]) {}
    let _idle = client.connect(proxy.address, NAME);
    proxy.assert_no_leak();
}

/// Checks that the proxy refuses a client. Under TLS 1.3 the client learns of that when it reads.
fn refused(client: &TlsClient, proxy: &Proxy) {
    if let Ok(mut peer) = client.try_connect(proxy.address, NAME) {
        peer.send(get("/"));
        assert!(peer.try_message(true).is_none());
    }
}

#[test]
fn new_files_are_taken_bad_ones_refused() {
    let (origin, authority) = (echo(), Authority::new());
    let issued = authority.issue("site", &[NAME]);
    let old = first_in(&issued.chain);
    let proxy = Proxy::start(&secure(&origin, listener_tls(&[&issued])));
    let client = TlsClient::new(&authority);
    let mut kept = client.connect(proxy.address, NAME);
    assert_eq!(kept.shown(), old);
    authority.issue("site", &[NAME]);
    let new = first_in(&issued.chain);
    assert_ne!(old, new);
    let fresh = || TlsClient::new(&authority).connect(proxy.address, NAME);
    wait_for("the new certificate", || fresh().shown() == new);
    // Nobody notices.
    assert_eq!(kept.ask(get("/")).text(), "https");
    let mut resumed = client.connect(proxy.address, NAME);
    assert_eq!(resumed.ask(get("/")).text(), "https");
    // A key that is not the certificate's, then none at all.
    let other = authority.issue("other", &[NAME]);
    std::fs::copy(&other.key, &issued.key).unwrap();
    std::thread::sleep(Duration::from_millis(2500));
    assert_eq!(fresh().shown(), new);
    std::fs::remove_file(&issued.key).unwrap();
    authority.issue("site", &[NAME, "last.example"]);
    let last = first_in(&issued.chain);
    wait_for("the last certificate", || fresh().shown() == last);
    assert!(proxy.metric(&["sprat_tls_certificate_not_after_timestamp_seconds"]) > 0.0);
}

fn reload(proxy: &Proxy, config: &Config) {
    let control = proxy.server.as_ref().unwrap().control();
    control.reload(config).unwrap();
}

fn kind(client: &TlsClient, proxy: &Proxy) -> HandshakeKind {
    let mut peer = client.connect(proxy.address, NAME);
    assert_eq!(peer.ask(get("/")).text(), "https");
    peer.session().handshake_kind().unwrap()
}

#[test]
fn a_reload_takes_new_files_at_once_and_those_that_stay_not_again() {
    let (origin, authority) = (echo(), Authority::new());
    let issued = authority.issue("site", &[NAME]);
    let mut tls = listener_tls(&[&issued]);
    let believed = Authority::new();
    tls.client_certificates = Some(ClientCertificates {
        trusted_ca: file(&believed.file()),
        mode: ClientCertificateMode::Optional,
        crl_files: Vec::new(),
        expired_crl: ExpiredCrl::Deny,
    });
    let config = secure(&origin, tls);
    let proxy = Proxy::start(&config);
    authority.issue("site", &[NAME]);
    reload(&proxy, &config);
    let client = TlsClient::with(&authority, &[&TLS13], None);
    let fresh = client.connect(proxy.address, NAME);
    assert_eq!(fresh.shown(), first_in(&issued.chain));
    assert_eq!(kind(&client, &proxy), HandshakeKind::Full);
    reload(&proxy, &config);
    // The files are looked at once more meanwhile: nothing has changed.
    std::thread::sleep(Duration::from_millis(2500));
    assert_eq!(kind(&client, &proxy), HandshakeKind::Resumed);
}

#[test]
fn sessions_and_the_count_of_handshakes_outlive_a_change_of_settings() {
    let (origin, authority) = (echo(), Authority::new());
    let mut tls = listener_tls(&[&authority.issue("site", &[NAME])]);
    tls.max_handshakes = 2;
    let mut config = secure(&origin, tls);
    config.listeners[0].address = free_address().into();
    let proxy = Proxy::start(&config);
    let clients = [&TLS12, &TLS13].map(|version| TlsClient::with(&authority, &[version], None));
    for client in &clients {
        assert_eq!(kind(client, &proxy), HandshakeKind::Full);
    }
    config.listeners[0].name = "another".to_owned();
    config.listeners[0].tls.as_mut().unwrap().session_tickets = 3;
    reload(&proxy, &config);
    for client in &clients {
        assert_eq!(kind(client, &proxy), HandshakeKind::Resumed);
    }
    proxy.wait_metric(&["sprat_open_connections"], 0.0);
    let _silent = [proxy.connect(), proxy.connect()];
    proxy.wait_metric(&["sprat_open_connections"], 2.0);
    config.listeners[0].name = "a third".to_owned();
    reload(&proxy, &config);
    let mut third = proxy.connect();
    wait_handshakes(&proxy, "", "overflow", 1.0);
    assert!(third.is_closed());
    // Whom the authorities believe may be others.
    let tls = config.listeners[0].tls.as_mut().unwrap();
    tls.max_handshakes = 100;
    tls.client_certificates = Some(ClientCertificates {
        trusted_ca: file(&authority.file()),
        mode: ClientCertificateMode::Optional,
        crl_files: Vec::new(),
        expired_crl: ExpiredCrl::Deny,
    });
    reload(&proxy, &config);
    for client in &clients {
        assert_eq!(kind(client, &proxy), HandshakeKind::Full);
    }
}

#[test]
fn a_client_that_says_nothing_does_not_hold_up_a_drain() {
    let (origin, authority) = (echo(), Authority::new());
    let mut tls = listener_tls(&[&authority.issue("site", &[NAME])]);
    tls.handshake_timeout = 3 * PATIENCE;
    let mut config = secure(&origin, tls);
    config.runtime.drain_timeout = 3 * PATIENCE;
    let proxy = Proxy::start(&config);
    let mut silent = proxy.connect();
    proxy.wait_metric(&["sprat_open_connections"], 1.0);
    proxy.server.as_ref().unwrap().control().drain();
    assert!(silent.is_closed());
    wait_handshakes(&proxy, "", "shutdown", 1.0);
    proxy.assert_no_leak();
}

#[test]
fn handshakes_are_bounded_in_time_and_number() {
    let (origin, authority) = (echo(), Authority::new());
    let mut tls = listener_tls(&[&authority.issue("site", &[NAME])]);
    tls.max_handshakes = 2;
    tls.handshake_timeout = Duration::from_millis(800);
    let proxy = Proxy::start(&secure(&origin, tls));
    let mut silent = [proxy.connect(), proxy.connect()];
    proxy.wait_metric(&["sprat_open_connections"], 2.0);
    let mut third = proxy.connect();
    assert!(third.is_closed());
    assert_eq!(handshakes(&proxy, "", "overflow"), 1.0);
    for peer in &mut silent {
        assert!(peer.is_closed());
    }
    wait_handshakes(&proxy, "", "timeout", 2.0);
    // Their places are free; on a busy machine one try may take too long.
    wait_for("a handshake in time", || {
        TlsClient::new(&authority)
            .try_connect(proxy.address, NAME)
            .is_ok()
    });
    proxy.assert_no_leak();
    // A handshake that has not ended does not hold up a shutdown.
    let _open = proxy.connect();
    proxy.wait_metric(&["sprat_open_connections"], 1.0);
    proxy.stop();
}

#[test]
fn an_idle_connection_is_closed_with_a_word() {
    let (origin, authority) = (echo(), Authority::new());
    let mut config = secure(&origin, listener_tls(&[&authority.issue("site", &[NAME])]));
    config.listeners[0].idle_timeout = Duration::from_millis(100);
    let proxy = Proxy::start(&config);
    let mut peer = TlsClient::new(&authority).connect(proxy.address, NAME);
    assert_eq!(peer.ask(get("/")).text(), "https");
    assert!(peer.ends_cleanly());
}

#[test]
fn a_session_that_was_parked_goes_on() {
    let (origin, authority) = (echo(), Authority::new());
    let config = secure(&origin, listener_tls(&[&authority.issue("site", &[NAME])]));
    let proxy = Proxy::start(&config);
    let mut peer = TlsClient::new(&authority).connect(proxy.address, NAME);
    for _ in 0..2 {
        assert_eq!(peer.ask(get("/")).text(), "https");
        proxy.wait_metric(&["sprat_parked_connections"], 1.0);
    }
    drop(peer);
    proxy.assert_no_leak();
}

fn pattern(bytes: usize) -> String {
    "0123456789abcdef-".chars().cycle().take(bytes).collect()
}

/// Starts an origin that answers `/SIZE` with so many bytes, in a pattern.
fn farm() -> Origin {
    Origin::http(|request| {
        let path = request.start.split(' ').nth(1).unwrap();
        ok(&pattern(path[1..].parse().unwrap()))
    })
}

#[test]
fn the_uplink_orders_and_counts_what_goes_out_in_records() {
    let (origin, authority) = (farm(), Authority::new());
    let issued = authority.issue("site", &[NAME]);
    for (version, overhead) in [(&TLS13, 22), (&TLS12, 29)] {
        let mut config = secure(&origin, listener_tls(&[&issued]));
        config.uplink.rate = Rate::Fixed(8_000_000);
        config.uplink.policy = Discipline::Srpt;
        let proxy = Proxy::start(&config);
        let client = TlsClient::with(&authority, &[version], None);
        let mut large = client.connect(proxy.address, NAME);
        assert!(large.send(get("/400000")));
        proxy.wait_metric(&["sprat_uplink_open_flows"], 1.0);
        let mut small = client.connect(proxy.address, NAME);
        assert_eq!(small.ask(get("/3000")).text(), pattern(3000));
        // The large one is not through.
        assert_eq!(proxy.metric(&["sprat_uplink_open_flows"]), 1.0);
        assert_eq!(large.message().text(), pattern(400_000));
        drop((small, large));
        proxy.assert_no_leak();
        // A grant fills whole segments: each has a record of its own, and the
        // next one does not hold a few bytes.
        let payload = 403_000.0;
        let records = payload / (1448.0 - f64::from(overhead));
        let wire = proxy.metric(&["sprat_uplink_wire_bytes_total"]);
        let least = payload + records * (66.0 + f64::from(overhead));
        assert!(wire > least, "{wire} {least}");
        // Acknowledgements and handshakes are the rest.
        assert!(wire < 1.1 * least, "{wire} {least}");
    }
}

#[test]
fn every_rate_and_engine_passes_large_bodies_unchanged() {
    let (origin, authority) = (farm(), Authority::new());
    let issued = authority.issue("site", &[NAME]);
    for rate in [Rate::Unlimited, Rate::Fixed(10_000_000_000), Rate::Auto] {
        let mut config = secure(&origin, listener_tls(&[&issued]));
        config.uplink.rate = rate;
        let proxy = Proxy::start(&config);
        let client = TlsClient::new(&authority);
        let mut peer = client.connect(proxy.address, NAME);
        for bytes in [1, 20_000, 3_000_000] {
            let answer = peer.ask(get(&format!("/{bytes}")));
            assert!(answer.text() == pattern(bytes), "{rate:?} {bytes}");
        }
        // A client that reads slowly.
        assert!(peer.send(get("/5000000")));
        std::thread::sleep(Duration::from_millis(300));
        assert!(peer.message().text() == pattern(5_000_000), "{rate:?}");
        drop(peer);
        proxy.assert_no_leak();
    }
}

#[test]
fn a_body_that_a_client_sends_arrives() {
    let origin = Origin::http(|request| ok(&request.body.len().to_string()));
    let authority = Authority::new();
    let issued = authority.issue("site", &[NAME]);
    let proxy = Proxy::start(&secure(&origin, listener_tls(&[&issued])));
    let mut peer = TlsClient::new(&authority).connect(proxy.address, NAME);
    let body = vec![b'x'; 1_000_000];
    let head = format!(
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let stream = peer.reader.get_mut();
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(&body).unwrap();
    assert_eq!(peer.message().text(), "1000000");
}

#[test]
fn a_client_that_leaves_in_the_middle_gives_everything_back() {
    let (origin, authority) = (farm(), Authority::new());
    let issued = authority.issue("site", &[NAME]);
    let mut config = secure(&origin, listener_tls(&[&issued]));
    config.uplink.rate = Rate::Fixed(2_000_000);
    let proxy = Proxy::start(&config);
    let mut gone = TlsClient::new(&authority).connect(proxy.address, NAME);
    assert!(gone.send(get("/10000000")));
    gone.reader.read_exact(&mut [0; 1000]).unwrap();
    drop(gone);
    proxy.assert_no_leak();
    proxy.wait_metric(&["sprat_uplink_open_flows"], 0.0);
}
