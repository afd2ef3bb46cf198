//! Tests that every example loads, and means what a reader takes it to mean.

// Clippy's exception for tests does not reach the functions that they call.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sprat_config::resolved::*;
use sprat_config::{Loaded, load, parse};
use sprat_scheduler::Cutoffs;
use sprat_scheduler::marking::Variant;
use sprat_scheduler::srq::{self, Trigger};
use sprat_scheduler::{Discipline, Sfd};

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples")
}

fn example(name: &str) -> Config {
    match load(&directory().join(name), &|_| None) {
        Ok(Loaded {
            config, warnings, ..
        }) => {
            assert!(warnings.is_empty(), "{warnings}");
            config
        }
        Err(errors) => panic!("{errors}"),
    }
}

#[test]
fn every_example_loads_without_warning() {
    let mut names: Vec<String> = std::fs::read_dir(directory())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert!(names.len() >= 10, "{names:?}");
    for name in names {
        example(&name);
    }
}

#[test]
fn the_design_file_resolves_to_the_defaults() {
    let cluster = Arc::new(Cluster {
        name: "farm".to_owned(),
        endpoints: vec![Endpoint {
            address: EndpointAddress::Ip("127.0.0.1:8000".parse().unwrap()),
            weight: 1,
            size_range: None,
            reserved: false,
            priority: 0,
        }],
        dns: Dns {
            discovery: DnsType::Strict,
            resolvers: None,
            lookup_family: LookupFamily::V4Preferred,
            respect_dns_ttl: true,
            refresh_rate: Duration::from_secs(5),
            min_ttl: Duration::from_secs(1),
            max_ttl: Duration::from_secs(30),
            jitter_percent: 10,
            failure_base_interval: Duration::from_secs(1),
            failure_max_interval: Duration::from_secs(30),
            max_stale: None,
            timeout: Duration::from_secs(5),
            max_addresses: 64,
        },
        dispatch: Dispatch::LeastRequest,
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
            max_requests: 1024,
            timeout: Some(Duration::from_secs(10)),
        },
        slow_start: Duration::ZERO,
        resilience: Resilience::default(),
        overload_page: None,
        connect_timeout: Duration::from_secs(5),
        max_connections: 1024,
        max_idle_connections: 256,
        idle_timeout: Duration::from_secs(60),
        max_response_headers: 65_536,
        tls: None,
        proxy_protocol: None,
        http2: None,
    });
    let rate = MinRate {
        bytes_per_s: 240,
        window: Duration::from_secs(20),
    };
    let rate_under_load = MinRate {
        bytes_per_s: 4 << 10,
        window: Duration::from_secs(5),
    };
    let expected = Config {
        runtime: Runtime {
            workers: std::thread::available_parallelism().unwrap().get(),
            drain_timeout: Duration::from_secs(30),
            reload_interval: None,
        },
        admin: Some(Admin {
            address: "127.0.0.1:9900".parse().unwrap(),
            mode: 0o600,
            owner: SocketOwner::default(),
            hosts: Vec::new(),
            token_file: None,
        }),
        listeners: vec![Listener {
            name: "0.0.0.0:8080".to_owned(),
            address: "0.0.0.0:8080".parse().unwrap(),
            mode: 0o660,
            owner: SocketOwner::default(),
            max_connections: 16_384,
            max_request_headers: 65_536,
            max_headers_count: 100,
            max_request_body: None,
            request_headers_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(75),
            stream_idle_timeout: Duration::from_secs(60),
            max_tunnels: 4096,
            abort_on_close: false,
            max_unsent_bytes: 128 << 10,
            limits: ListenerLimits {
                min_rates: MinRates {
                    request_body: Some(rate),
                    response: Some(rate),
                    request_body_under_load: Some(rate_under_load),
                    response_under_load: Some(rate_under_load),
                },
                ..ListenerLimits::default()
            },
            forwarding: Forwarding {
                x_forwarded: true,
                forwarded: false,
                trusted: vec![],
                via: None,
            },
            http2: Some(Http2 {
                max_streams: 100,
                stream_window_bytes: 64 << 10,
                connection_window_bytes: 100 * (64 << 10),
                priorities: Priorities::Urgency,
                required: false,
            }),
            paths: PathRules::default(),
            request_id: Some(RequestId::default()),
            headers_with_underscores: HeadersWithUnderscores::default(),
            tls: None,
            proxy_protocol: None,
        }],
        uplink: Uplink {
            rate: Rate::Fixed(10_000_000),
            policy: Discipline::Srpt,
            engine: Engine::Pace,
            max_flows: 65_536,
            guard_factor: 4.0,
            adapt: true,
            floor_percent: 5,
            counterfactual: true,
            counterfactual_networks: 16,
            share: None,
            marking: None,
            shared: None,
        },
        clusters: vec![Arc::clone(&cluster)],
        routes: vec![route(cluster)],
        classes: Classes::default(),
        admission: Admission::default(),
        access_log: Vec::new(),
        catalogue: Catalogue {
            max_bytes: 32 << 20,
            ttl: Duration::from_secs(3600),
            vary: vec!["accept-encoding".to_owned()],
            snapshot: None,
            manifests: Vec::new(),
            shared: None,
            estimator: Some(EstimatorConfig {
                max_bytes: 1 << 20,
                quantile_per_mille: 500,
                observations_min: 8,
            }),
        },
        acme: None,
        tracing: None,
        overload_manager: None,
        buffer: BufferTotals::default(),
        shown: example("design.yaml").shown,
    };
    assert_eq!(example("design.yaml"), expected);
}

#[test]
fn policies_and_engines_are_read() {
    let policy = |name| example(name).uplink.policy;
    assert_eq!(
        policy("bands.yaml"),
        Discipline::Bands(Cutoffs::Fixed(vec![1024, 4096, 16_384, 65_536]))
    );
    assert_eq!(
        policy("two-class.yaml"),
        Discipline::Bands(Cutoffs::two_class())
    );
    assert_eq!(
        policy("auto.yaml"),
        Discipline::SrptAged {
            ageing_bytes_per_s: 10_240
        }
    );
    let srq = srq::Config {
        quanta: vec![8 << 10, 64 << 10, 1 << 20],
        queues: (2, 8),
        interval: Duration::from_secs(30),
        trigger: Trigger::Backlog(Duration::from_millis(200)),
        ..srq::Config::bytes()
    };
    assert_eq!(policy("srq.yaml"), Discipline::Srq(Box::new(srq)));
    let classes = example("srq.yaml").classes.list;
    let terms = |index: usize| {
        let class: &ClassSpec = &classes[index].spec;
        let millis = |time: Option<Duration>| time.map(|time| time.as_millis());
        (
            millis(class.soft_deadline),
            millis(class.deadline),
            class.value,
        )
    };
    assert_eq!(terms(0), (Some(1_000), Some(4_000), 1));
    assert_eq!(terms(1), (Some(300), Some(2_000), 3));
    let short_flows = example("short-flows.yaml").uplink;
    assert_eq!(short_flows.policy, Discipline::Sfd(Sfd::PAPER));
    let marking = Marking {
        rule: sprat_scheduler::Marking::PAPER,
        code_points: [10, 14],
    };
    assert_eq!(short_flows.marking, Some(marking));
    assert_eq!(example("auto.yaml").uplink.rate, Rate::Auto);
    assert_eq!(example("unlimited.yaml").uplink.rate, Rate::Unlimited);
    let kernel = example("kernel.yaml").uplink;
    assert_eq!(kernel.policy, Discipline::Bands(Cutoffs::paper()));
    assert_eq!(
        kernel.engine,
        Engine::Kernel(KernelEngine {
            qdisc: Qdisc::Htb,
            device: Some("eth0".to_owned())
        })
    );
}

/// Returns the uplink that a file with this `uplink` resolves to.
fn uplink(yaml: &str) -> Uplink {
    let text = format!(
        "version: 1\nlisteners: [{{address: 0.0.0.0:80}}]\nuplink: {yaml}\n\
         clusters: {{a: {{endpoints: [b:1]}}}}\nroutes: [{{cluster: a}}]\n"
    );
    parse(&text, "test", &|_| None)
        .unwrap_or_else(|errors| panic!("{errors}"))
        .config
        .uplink
}

#[test]
fn short_and_long_forms_mean_the_same() {
    let paper = Discipline::Bands(Cutoffs::paper());
    assert_eq!(uplink("{policy: fcfs}").policy, Discipline::Fcfs);
    assert_eq!(uplink("{policy: {name: fair}}").policy, Discipline::Fair);
    assert_eq!(uplink("{policy: bands}").policy, paper);
    assert_eq!(uplink("{policy: {name: bands}}").policy, paper);
    assert_eq!(
        uplink("{policy: {name: bands, cutoffs: {learnt: 6}}}").policy,
        Discipline::Bands(Cutoffs::Learnt { classes: 6 })
    );
    assert_eq!(uplink("{policy: las}").policy, Discipline::Las);
    assert_eq!(uplink("{policy: sfd}").policy, Discipline::Sfd(Sfd::PAPER));
    assert_eq!(uplink("{}").marking, None);
    let own = "{rate: unlimited, marking: {variant: sfd, threshold: 1B, idle: 5ms, k: 2, in: default, out: 1}}";
    let marking = Marking {
        rule: sprat_scheduler::Marking {
            variant: Variant::Sfd,
            threshold_bytes: 1,
            idle: Duration::from_millis(5),
            k: 2,
        },
        code_points: [0, 1],
    };
    assert_eq!(uplink(own).marking, Some(marking));
    assert_eq!(
        uplink(own).marking,
        uplink(&own.replace("1}", "LE}")).marking
    );
    assert_eq!(uplink("{engine: {name: pace}}").engine, Engine::Pace);
    assert_eq!(uplink("{policy: edf}").policy, Discipline::Edf);
    assert_eq!(uplink("{policy: {name: vrd}}").policy, Discipline::Vrd);
    // By default the parameters are the paper's.
    let paper_srq = Discipline::Srq(Box::new(srq::Config::bytes()));
    assert_eq!(uplink("{policy: srq}").policy, paper_srq);
    // The kernel knows classes only: SRPT becomes the paper's.
    assert_eq!(uplink("{rate: 1mbit, engine: kernel}").policy, paper);
}

#[test]
fn anchors_and_merge_keys_fill_in() {
    let config = example("hosts-and-paths.yaml");
    let timeouts: Vec<_> = config
        .clusters
        .iter()
        .map(|cluster| {
            (
                cluster.connect_timeout.as_secs(),
                cluster.idle_timeout.as_secs(),
            )
        })
        .collect();
    assert_eq!(timeouts, [(10, 30), (10, 30), (5, 60)]);
    let names: Vec<_> = config
        .routes
        .iter()
        .map(|route| &*route.clusters()[0].cluster.name)
        .collect();
    assert_eq!(names, ["images", "images", "reports", "app"]);
    assert_eq!(
        config.routes[0].matches.hosts,
        [
            HostPattern::Exact("img.example.org".to_owned()),
            HostPattern::Suffix(".img.example.org".to_owned()),
        ]
    );
    assert_eq!(
        config.routes[1].matches.path,
        PathPattern::Prefix("/images".to_owned())
    );
    assert_eq!(config.routes[3].timeout, Some(Duration::from_secs(120)));
}

#[test]
fn the_dot_of_the_root_names_the_same_host() {
    let text = "version: 1\nlisteners: [{address: 0.0.0.0:80}]\n\
                clusters: {c: {endpoints: [d:1]}}\n\
                routes: [{cluster: c, match: {hosts: [a.example., '*.A.example.']}}]\n";
    let config = parse(text, "test", &|_| None).unwrap().config;
    assert_eq!(
        config.routes[0].matches.hosts,
        [
            HostPattern::Exact("a.example".to_owned()),
            HostPattern::Suffix(".a.example".to_owned()),
        ]
    );
}

#[test]
fn variables_are_put_in_and_count_as_what_is_needed() {
    let env = |name: &str| match name {
        "WORKERS" => Some("3".to_owned()),
        "RATE" => Some("20".to_owned()),
        "VIA" => Some("77".to_owned()),
        "FLAG" => Some("false".to_owned()),
        "ADMIN" => Some("off".to_owned()),
        _ => None,
    };
    let text = r#"
version: 1
runtime: {workers: "${WORKERS}"}
admin: ${ADMIN}
listeners:
  - address: "${HOST:-127.0.0.1}:8080"
    forwarding: {via: "${VIA}", x_forwarded: "${FLAG}"}
uplink: {rate: "${RATE}mbit"}
clusters:
  a: {endpoints: ["backend:80"]}
routes:
  - cluster: a
    match: {path: "/$${x}"}
"#;
    let config = parse(text, "test", &env)
        .unwrap_or_else(|errors| panic!("{errors}"))
        .config;
    assert_eq!(config.runtime.workers, 3);
    assert_eq!(config.admin, None);
    assert_eq!(config.listeners[0].name, "127.0.0.1:8080");
    assert_eq!(config.listeners[0].forwarding.via.as_deref(), Some("77"));
    assert!(!config.listeners[0].forwarding.x_forwarded);
    assert_eq!(config.uplink.rate, Rate::Fixed(20_000_000));
    assert_eq!(
        config.routes[0].matches.path,
        PathPattern::Exact("/${x}".to_owned())
    );
}

#[test]
fn classes_are_read_and_completed() {
    let classes = example("classes.yaml").classes;
    let names: Vec<_> = classes
        .list
        .iter()
        .map(|class| class.name.as_str())
        .collect();
    assert_eq!(names, ["gold", "default", "background", "bulk"]);
    assert_eq!(classes.default, 1);
    let background = &classes.list[2].spec;
    assert!(background.idle_only);
    assert_eq!(background.max_concurrency, 20);
    assert_eq!(background.drop_thresholds, (0.2, 0.5));
    assert_eq!(classes.list[3].spec.rate_bits_per_s, Some(2_000_000));
    let own = Some(Duration::from_secs(60));
    assert_eq!(classes.list[3].queue_timeout.or(None), own);
    assert_eq!(classes.list[0].queue_timeout.or(own), own);
    let targets: Vec<_> = classes.rules.iter().map(|rule| rule.class).collect();
    assert_eq!(targets, [0, 0, 3, 2, 2]);
    assert_eq!(classes.rules[4].at, None, "prefetches, built in");
    assert!(classes.rules[4].matches.prefetch);

    let built_in = example("quickstart.yaml").classes;
    assert_eq!(built_in, Classes::default());
    let levels: Vec<_> = built_in.list.iter().map(|class| class.spec.level).collect();
    assert_eq!(levels, [3, 15]);
}

/// Returns a route of all requests to a cluster, with the defaults of a file that says nothing
/// else.
fn route(cluster: Arc<Cluster>) -> Route {
    Route {
        matches: RouteMatch::default(),
        conditions: Conditions::default(),
        action: Action::to(cluster),
        timeout: None,
        response_timeout: Duration::from_secs(60),
        idle_timeout: Duration::from_secs(60),
        retry: RetryPolicy::default(),
        rate_limit: None,
        max_request_body: None,
        prefix_rewrite: None,
        regex_rewrite: None,
        host_rewrite: None,
        request_headers: HeaderEdits::default(),
        response_headers: HeaderEdits::default(),
        error_pages: Vec::new(),
        maintenance: None,
        access: Access::default(),
        compressor: None,
        buffer: RouteBuffer::default(),
        document_root: None,
        head_probe: None,
        upgrade: Some(Upgrade {
            protocols: vec!["websocket".to_owned()],
            idle_timeout: Duration::from_secs(300),
            buffer_bytes: 8 << 10,
        }),
    }
}
