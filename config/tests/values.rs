//! Tests that given values replace every default in what a file resolves to, and that values at
//! their bounds are taken.

// Clippy's exception for tests does not reach the functions that they call.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sprat_config::parse;
use sprat_config::resolved::*;
use sprat_scheduler::Discipline;
use sprat_scheduler::dispatch::Intervals;
use sprat_scheduler::srq::{self, Trigger, Weight};

const FARM: &str = "clusters: {farm: {endpoints: [10.0.0.1:80]}}\n";

/// Returns the configuration that a file with these keys resolves to.
fn file(keys: &str) -> Config {
    let text = format!("version: 1\n{keys}\n");
    match parse(&text, "test", &|_| None) {
        Ok(loaded) => loaded.config,
        Err(errors) => panic!("{text}\n{errors}"),
    }
}

/// Returns the configuration of a file with these keys, a listener, a cluster and a route.
fn with(keys: &str) -> Config {
    let listeners = "listeners: [{address: 127.0.0.1:80}]\n";
    file(&format!(
        "{listeners}{FARM}routes: [{{cluster: farm}}]\n{keys}"
    ))
}

/// Returns the listener of a file whose listener has these keys.
fn listener(keys: &str) -> Listener {
    let listeners = format!("listeners: [{{address: 127.0.0.1:80, {keys}}}]\n");
    let mut config = file(&format!("{listeners}{FARM}routes: [{{cluster: farm}}]"));
    config.listeners.remove(0)
}

/// Returns the cluster with these keys, or the complaints about it.
fn cluster(keys: &str) -> Result<Arc<Cluster>, Vec<String>> {
    let text = format!(
        "version: 1\nlisteners: [{{address: 127.0.0.1:80}}]\nroutes: [{{cluster: farm}}]\n\
         clusters:\n  farm: {{{keys}}}\n"
    );
    match parse(&text, "test", &|_| None) {
        Ok(loaded) => Ok(Arc::clone(&loaded.config.clusters[0])),
        Err(errors) => Err(errors.lines().collect()),
    }
}

/// Returns two routes of a file with these keys: one for a path, with `own` keys, and one for all
/// other requests.
fn routes(own: &str, keys: &str) -> [Route; 2] {
    let listeners = "listeners: [{address: 127.0.0.1:80}]\n";
    let routes =
        format!("routes: [{{match: {{path: /a}}, cluster: farm, {own}}}, {{cluster: farm}}]");
    let config = file(&format!("{listeners}{FARM}{routes}\n{keys}"));
    config.routes.try_into().unwrap()
}

fn network(text: &str, prefix_len: u8) -> Network {
    Network {
        address: text.parse().unwrap(),
        prefix_len,
    }
}

fn at(path: &str) -> FileAt {
    FileAt {
        path: path.into(),
        span: Span::default(),
    }
}

#[test]
fn a_connection_has_room_for_the_window_of_each_of_its_streams() {
    for (keys, expected) in [
        ("", 100 * (64 << 10)),
        ("max_concurrent_streams: 7", 7 * (64 << 10)),
        ("initial_stream_window_size: 1MB", 100 << 20),
        ("initial_stream_window_size: 1GB", 0x7fff_ffff),
        ("initial_connection_window_size: auto", 100 * (64 << 10)),
        ("initial_connection_window_size: 1MB", 1 << 20),
    ] {
        let http2 = listener(&format!("http2: {{{keys}}}")).http2;
        assert_eq!(http2.unwrap().connection_window_bytes, expected, "{keys}");
    }
}

#[test]
fn load_balancers_before_a_listener() {
    assert_eq!(listener("proxy_protocol: off").proxy_protocol, None);
    for (others, others_direct) in [("refuse", false), ("direct", true)] {
        let own = listener(&format!(
            "proxy_protocol: {{trusted: [10.0.0.0/8], others: {others}, timeout: 1s, max_size: 2KB}}"
        ));
        let expected = ProxyProtocol {
            trusted: vec![network("10.0.0.0", 8)],
            others_direct,
            timeout: Duration::from_secs(1),
            max_bytes: 2048,
        };
        assert_eq!(own.proxy_protocol, Some(expected));
    }
}

#[test]
fn bounds_on_a_listener_s_clients() {
    let own = listener(
        "max_requests: 7, per_client: {max_connections: 3, max_requests: 2, ipv4_prefix: 24, \
         ipv6_prefix: 56}, min_rates: off, rate_limit: {key: {header: X-Key}, token_bucket: \
         {max_tokens: 5, tokens_per_fill: 4, fill_interval: 1s}, max_keys: 100}",
    );
    let expected = ListenerLimits {
        max_requests: Some(7),
        per_client: PerClient {
            max_connections: Some(3),
            max_requests: Some(2),
            ipv4_prefix: 24,
            ipv6_prefix: 56,
        },
        min_rates: MinRates::default(),
        rate_limit: Some(RateLimit {
            key: ClientBy::Header("x-key".to_owned()),
            bucket: Bucket {
                max_tokens: 5,
                interval: Duration::from_millis(250),
            },
            max_keys: 100,
        }),
    };
    assert_eq!(own.limits, expected);
}

#[test]
fn identifiers_of_requests() {
    assert_eq!(listener("request_id: off").request_id, None);
    let own =
        listener("request_id: {header: X-Trace, preserve_external: false, in_response: true}");
    let expected = RequestId {
        header: "x-trace".to_owned(),
        preserve_external: false,
        in_response: true,
    };
    assert_eq!(own.request_id, Some(expected));
}

#[test]
fn what_a_listener_shows_and_asks_for() {
    let own = listener(
        "tls: {certificates: [{certificate_chain: /a.pem, private_key: /a.key}, \
         {certificate_chain: /b.pem, private_key: /b.key}], minimum_version: TLSv1_3, \
         client_certificates: {trusted_ca: /ca.pem, mode: optional, crl_files: [/1.crl, \
         /2.crl], expired_crl: use}, handshake_timeout: 3s, max_handshakes: 9, \
         session_tickets: 0}",
    );
    let files = |chain: &str, key: &str| {
        ListenerCertificate::Files(TlsCertificate {
            chain: at(chain),
            key: at(key),
        })
    };
    let expected = ListenerTls {
        certificates: vec![files("/a.pem", "/a.key"), files("/b.pem", "/b.key")],
        minimum_version: TlsVersion::V1_3,
        client_certificates: Some(ClientCertificates {
            trusted_ca: at("/ca.pem"),
            mode: ClientCertificateMode::Optional,
            crl_files: vec![at("/1.crl"), at("/2.crl")],
            expired_crl: ExpiredCrl::Use,
        }),
        handshake_timeout: Duration::from_secs(3),
        max_handshakes: 9,
        session_tickets: 0,
        http2: true,
        http1: true,
    };
    assert_eq!(own.tls, Some(expected));
    for (http2, both) in [
        ("off", (false, true)),
        ("{}", (true, true)),
        ("{required: true}", (true, false)),
    ] {
        let tls = "certificates: [{certificate_chain: /a.pem, private_key: /a.key}]";
        let own = listener(&format!("http2: {http2}, tls: {{{tls}}}"));
        let tls = own.tls.unwrap();
        assert_eq!((tls.http2, tls.http1), both, "{http2}");
    }
}

#[test]
fn pages_of_other_origins() {
    let cors = |keys: &str| {
        routes(&format!("cors: {{{keys}}}"), "")[0]
            .access
            .cors
            .clone()
    };
    let with_credentials = cors(
        "allow_origins: ['https://app.example'], allow_methods: [PUT], allow_headers: [X-A], \
         expose_headers: [X-B], allow_credentials: true, max_age: 1s",
    );
    let expected = Cors {
        origins: vec![AllowedOrigin::Exact("https://app.example".to_owned())],
        methods: vec!["PUT".to_owned()],
        headers: vec!["X-A".to_owned()],
        exposed: vec!["X-B".to_owned()],
        credentials: true,
        max_age: Duration::from_secs(1),
    };
    assert_eq!(with_credentials, Some(expected));
    let of_all = cors("allow_origins: ['*']").unwrap();
    assert_eq!(of_all.origins, [AllowedOrigin::Any]);
    assert!(!of_all.credentials);
}

#[test]
fn a_route_says_whom_it_serves_or_the_file_does() {
    let maintenance = |exempt: &[Network], retry_after_s| {
        Some(Maintenance {
            exempt: exempt.to_vec(),
            retry_after: Duration::from_secs(retry_after_s),
        })
    };
    let all = "maintenance: {exempt: [192.0.2.0/24], retry_after: 1m}";
    let of_file = maintenance(&[network("192.0.2.0", 24)], 60);
    for (own, expected) in [
        ("timeout: 5s", of_file.clone()),
        ("maintenance: off", None),
        ("maintenance: {retry_after: 9s}", maintenance(&[], 9)),
    ] {
        let [first, other] = routes(own, all);
        assert_eq!(first.maintenance, expected, "{own}");
        assert_eq!(other.maintenance, of_file, "{own}");
    }
}

#[test]
fn a_route_says_what_it_compresses_or_the_file_does() {
    let of_file = Compressor {
        algorithms: vec![Algorithm::Gzip],
        min_content_length: 10,
        content_types: vec![TextPattern::Prefix("text/".to_owned())],
        exact_up_to: 2048,
        max_streams: 3,
    };
    let all = "compressor: {algorithms: [gzip], min_content_length: 10B, content_types: \
               [text/*], exact_up_to: 2KB, max_streams: 3}";
    let [off, other] = routes("compressor: off", all);
    assert_eq!(off.compressor, None);
    assert_eq!(other.compressor, Some(of_file));
    let [own, none] = routes("compressor: {algorithms: [br, zstd]}", "");
    let own = own.compressor.unwrap();
    assert_eq!(own.algorithms, [Algorithm::Brotli, Algorithm::Zstd]);
    assert_eq!(own.min_content_length, 1024);
    assert_eq!(none.compressor, None);
}

#[test]
fn a_route_says_what_it_buffers_or_the_file_does() {
    let all = "buffer: {request: {memory: 1MB, file: {path: /tmp, max_size: 2GB}}, response: \
               off, max_total_memory: 3MB, max_total_file: 4GB}";
    let body = |memory_bytes, file| BufferedBody { memory_bytes, file };
    let of_file = RouteBuffer {
        request: Some(body(
            1 << 20,
            Some(BufferFile {
                directory: at("/tmp"),
                max_bytes: 2 << 30,
            }),
        )),
        response: ResponseBuffer::Off,
    };
    for (own, expected) in [
        ("timeout: 5s", of_file.clone()),
        (
            "buffer: {request: off, response: {memory: 5KB}}",
            RouteBuffer {
                request: None,
                response: ResponseBuffer::On(body(5 << 10, None)),
            },
        ),
        (
            "buffer: {request: {memory: 6KB}, response: auto}",
            RouteBuffer {
                request: Some(body(6 << 10, None)),
                response: ResponseBuffer::Auto,
            },
        ),
    ] {
        let [first, other] = routes(own, all);
        assert_eq!(first.buffer, expected, "{own}");
        assert_eq!(other.buffer, of_file, "{own}");
    }
    let totals = BufferTotals {
        memory_bytes: 3 << 20,
        file_bytes: 4 << 30,
    };
    assert_eq!(with(all).buffer, totals);
    assert_eq!(with("").buffer, BufferTotals::default());
}

#[test]
fn what_requests_of_a_route_look_like() {
    let config = file(&format!(
        "listeners: [{{address: 127.0.0.1:80}}]\n{FARM}routes: [{{match: {{methods: [PUT], \
         clients: [10.0.0.0/8], headers: [{{name: X-A, value: b*}}]}}, cluster: farm}}]"
    ));
    let expected = Conditions {
        methods: vec!["PUT".to_owned()],
        clients: vec![network("10.0.0.0", 8)],
        headers: vec![ValueMatch {
            name: "x-a".to_owned(),
            value: ValueIs::Text(TextPattern::Prefix("b".to_owned())),
            invert: false,
        }],
        ..Conditions::default()
    };
    assert_eq!(config.routes[0].conditions, expected);
}

#[test]
fn a_manifest_s_name_says_how_it_is_written() {
    let config = with(
        "catalogue: {manifests: [{path: /a.csv}, {path: /a.jsonl}, {path: /csv}, \
         {path: /b.csv, format: json_lines}, {path: /b, format: csv, cluster: farm}]}",
    );
    let manifests = config.catalogue.manifests.iter();
    let read: Vec<_> = manifests
        .map(|own| (own.path.as_path(), own.format, own.cluster.as_deref()))
        .collect();
    let expected = [
        (Path::new("/a.csv"), ManifestFormat::Csv, None),
        (Path::new("/a.jsonl"), ManifestFormat::JsonLines, None),
        (Path::new("/csv"), ManifestFormat::JsonLines, None),
        (Path::new("/b.csv"), ManifestFormat::JsonLines, None),
        (Path::new("/b"), ManifestFormat::Csv, Some("farm")),
    ];
    assert_eq!(read, expected);
}

#[test]
fn names_in_clients_certificates() {
    let config = with(
        "class_rules: [{match: {client_certificate: {dns: ['*.a.example'], uris: \
         ['spiffe://a/*'], common_names: [b]}}, class: background}]",
    );
    let expected = CertificateMatch {
        dns: vec![HostPattern::Suffix(".a.example".to_owned())],
        uris: vec![TextPattern::Prefix("spiffe://a/".to_owned())],
        common_names: vec![TextPattern::Exact("b".to_owned())],
    };
    let matches = &config.classes.rules[0].matches;
    assert_eq!(matches.certificate, Some(expected));
}

#[test]
fn as_many_connections_may_be_idle_as_may_be_open() {
    let bounds = |idle: usize| {
        let keys = format!("endpoints: [a:1], max_connections: 4, max_idle_connections: {idle}");
        cluster(&keys).map(|own| (own.max_connections, own.max_idle_connections))
    };
    assert_eq!(bounds(3), Ok((4, 3)));
    assert_eq!(bounds(4), Ok((4, 4)));
    let said = "test:5:70: more idle connections than the 4 that may be open (lower it, or raise \
                `max_connections`)";
    assert_eq!(bounds(5), Err(vec![said.to_owned()]));
}

#[test]
fn an_interval_of_sizes_may_be_one_size() {
    let range = |keys: &str| {
        let keys = format!("endpoints: [{{address: a:1, size_range: {{{keys}}}}}]");
        cluster(&keys).map(|own| own.endpoints[0].size_range.unwrap())
    };
    assert_eq!(range("from: 1KB, to: 2KB"), Ok((1024, 2048)));
    assert_eq!(range("from: 2KB, to: 2KB"), Ok((2048, 2048)));
    assert_eq!(range("from: 2KB"), Ok((2048, u64::MAX)));
    let said = "test:5:49: the smallest size is above the largest (write `{from: 0B, to: 10KB}`, \
                or leave out `to` for all above `from`)";
    assert_eq!(range("from: 2049B, to: 2KB"), Err(vec![said.to_owned()]));
}

#[test]
fn intervals_are_given_or_learnt() {
    let dispatch = |keys: &str| cluster(keys).map(|own| own.dispatch.clone());
    let three = "endpoints: [a:1, b:1, c:1]";
    let learnt = dispatch(&format!("{three}, dispatch: sita"));
    assert_eq!(learnt, Ok(Dispatch::Sita(Intervals::Learnt)));
    let given = dispatch(&format!(
        "{three}, dispatch: {{name: sita, cutoffs: [1KB, 10KB]}}"
    ));
    let fixed = Dispatch::Sita(Intervals::Fixed(vec![1 << 10, 10 << 10]));
    assert_eq!(given, Ok(fixed));
    let said = "test:5:70: the cutoffs do not ascend (write them from small to large, each once, \
                such as [1KB, 10KB])";
    for cutoffs in ["[10KB, 1KB]", "[1KB, 1KB]"] {
        let given = dispatch(&format!(
            "{three}, dispatch: {{name: sita, cutoffs: {cutoffs}}}"
        ));
        assert_eq!(given, Err(vec![said.to_owned()]), "{cutoffs}");
    }
    let of_each = "endpoints: [{address: a:1, size_range: {to: 1KB}}, {address: b:1, \
                   size_range: {from: 1KB}}]";
    let each = dispatch(&format!("{of_each}, dispatch: sita"));
    let fixed = Dispatch::Sita(Intervals::Fixed(vec![1 << 10, u64::MAX]));
    assert_eq!(each, Ok(fixed));
    let of_some = "endpoints: [{address: a:1, size_range: {to: 1KB}}, b:1]";
    let said = "test:5:77: some endpoints have a `size_range` and some have none (give each \
                endpoint one, or none and let the intervals be learnt)";
    let some = dispatch(&format!("{of_some}, dispatch: sita"));
    assert_eq!(some, Err(vec![said.to_owned()]));
}

#[test]
fn requests_are_refused_no_later_than_connections() {
    let manager = |requests: f64, connections: f64| {
        with(&format!(
            "overload_manager: {{max_heap_size: 1GB, stop_accepting_requests: {requests}, \
             stop_accepting_connections: {connections}, refresh_interval: 1s}}"
        ))
        .overload_manager
        .unwrap()
    };
    for (requests, connections) in [(0.5, 0.75), (0.5, 0.5)] {
        let expected = OverloadManager {
            heap: HeapBounds {
                max_bytes: 1 << 30,
                stop_accepting_requests: requests,
                stop_accepting_connections: connections,
            },
            refresh_interval: Duration::from_secs(1),
        };
        assert_eq!(manager(requests, connections), expected);
    }
}

#[test]
fn a_link_is_leased_for_up_to_a_minute() {
    let config = with(
        "uplink: {rate: 1mbit, shared: {url: 'redis://store.example', key: k, lease: 60s, \
         instances: 4}}",
    );
    let shared = config.uplink.shared.unwrap();
    assert_eq!((&*shared.key, shared.instances), ("k", 4));
    assert_eq!(shared.lease, Duration::from_secs(60));
}

#[test]
fn every_parameter_of_srq() {
    let config = with(
        "uplink: {policy: {name: srq, alpha: 0.75, interval: 2s, t_fail: 0.5, t_split: 3, \
         t_desc: 4, adj_i: 5, adj_d: 0.25, soft_deadline: 6s, deadline: 7s, first_share: 80%, \
         quanta: [1KB, 1024GB], queues: {min: 3, max: 8}, samples_min: 9, trigger: {backlog: \
         200ms}}}",
    );
    let expected = srq::Config {
        alpha: Weight::from_ratio(0.75),
        interval: Duration::from_secs(2),
        t_fail: 0.5,
        t_split: 3.0,
        t_desc: 4.0,
        adj_i: 5.0,
        adj_d: 0.25,
        soft_deadline: Duration::from_secs(6),
        deadline: Duration::from_secs(7),
        first_share_percent: 80,
        // The second is the largest that there may be.
        quanta: vec![1 << 10, srq::MAX_QUANTUM],
        queues: (3, 8),
        quantum_bounds: srq::Config::bytes().quantum_bounds,
        samples_min: 9,
        trigger: Trigger::Backlog(Duration::from_millis(200)),
    };
    assert_eq!(config.uplink.policy, Discipline::Srq(Box::new(expected)));
}

#[test]
fn every_parameter_of_srq_before_endpoints() {
    let order = |keys: &str| {
        let order = format!("wait_queue: {{order: {keys}}}");
        let farm = cluster(&format!(
            "endpoints: [10.0.0.1:80], max_requests: 8, {order}"
        ));
        farm.unwrap().wait_queue.order.clone()
    };
    assert_eq!(order("srq"), WaitOrder::Srq(Box::default()));
    let own = order(
        "{name: srq, alpha: 0.75, interval: 2s, t_fail: 0.5, t_split: 3, t_desc: 4, adj_i: 5, \
         adj_d: 0.25, soft_deadline: 6s, deadline: 7s, first_share: 80%, max_overcommit: 3, \
         quanta: [1ms, 18m], queues: {min: 3, max: 8}, samples_min: 9, statistics: elapsed, \
         use_estimates: 2KB, trigger: {max_requests: 10}}",
    );
    let queues = srq::Config {
        alpha: Weight::from_ratio(0.75),
        interval: Duration::from_secs(2),
        t_fail: 0.5,
        t_split: 3.0,
        t_desc: 4.0,
        adj_i: 5.0,
        adj_d: 0.25,
        soft_deadline: Duration::from_secs(6),
        deadline: Duration::from_secs(7),
        first_share_percent: 80,
        quanta: vec![1_000_000, 18 * 60 * 1_000_000_000],
        queues: (3, 8),
        quantum_bounds: srq::Config::nanoseconds().quantum_bounds,
        samples_min: 9,
        trigger: Trigger::Waiting(10),
    };
    let expected = SrqOrder {
        queues,
        max_overcommit: Some(3),
        statistics: Measured::Elapsed,
        large_bytes: Some(2 << 10),
    };
    assert_eq!(own, WaitOrder::Srq(Box::new(expected)));
}

#[test]
fn connections_bound_what_goes_beyond_the_places() {
    let beyond = |keys: &str| {
        let keys = format!("endpoints: [10.0.0.1:80], {keys}");
        match &cluster(&keys).unwrap().wait_queue.order {
            WaitOrder::Srq(order) => order.max_overcommit,
            other => panic!("{other:?}"),
        }
    };
    for (keys, expected) in [
        ("max_connections: 16, wait_queue: {order: srq}", None),
        ("max_connections: 15, wait_queue: {order: srq}", Some(7)),
        ("max_connections: 5, wait_queue: {order: srq}", Some(0)),
        (
            "max_connections: 12, wait_queue: {order: {name: srq, max_overcommit: 5}}",
            Some(4),
        ),
        (
            "max_connections: 12, wait_queue: {order: {name: srq, max_overcommit: 3}}",
            Some(3),
        ),
        (
            "max_connections: 2, http2: {max_concurrent_streams: 6}, wait_queue: {order: srq}",
            Some(4),
        ),
    ] {
        assert_eq!(
            beyond(&format!("max_requests: 8, {keys}")),
            expected,
            "{keys}"
        );
    }
}
