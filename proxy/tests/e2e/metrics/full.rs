//! Configurations that together have every metric.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sprat_config::resolved::*;
use sprat_net::metrics::Per;
use sprat_scheduler::{Discipline, srq};

use crate::common::dns::{NameServer, loopback};
use crate::common::tls::{Authority, file, listener_tls};
use crate::common::*;

/// A proxy with everything that there are metrics of, and all that it needs.
pub(crate) struct Full {
    proxy: Proxy,
    counts: [usize; Per::ALL.len()],
    _origin: Origin,
    _authority: Authority,
    _directory: tempfile::TempDir,
    _names: NameServer,
}

impl Full {
    /// Starts a proxy whose clients share the link.
    pub(crate) fn sharing() -> Self {
        Self::start(|config| config.uplink.share = Some(ClientBy::Client))
    }

    /// Starts a proxy whose responses stand in queues, and its requests in service as well.
    pub(crate) fn with_queues() -> Self {
        Self::start(|config| {
            config.uplink.policy = Discipline::Srq(Box::new(srq::Config::bytes()));
            with_cluster(config, |cluster| {
                cluster.wait_queue.order = WaitOrder::Srq(Box::default());
            });
        })
    }

    fn start(change: impl FnOnce(&mut Config)) -> Self {
        let origin = Origin::http(|request| match request.start.contains("/unannounced") {
            true => "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
                .to_owned(),
            false => ok("hello"),
        });
        let names = NameServer::start();
        names.set("web.test", 60, &[1, 2, 3].map(loopback));
        let (authority, directory) = (Authority::new(), tempfile::tempdir().unwrap());
        let mut config = config(&[origin.address]);
        config.runtime.workers = 2;
        config.admin = Some(admin());
        config.uplink.rate = Rate::Fixed(10_000_000);
        config.uplink.shared = Some(SharedUplink {
            url: format!("redis://{}/0", free_address()),
            key: "test".to_owned(),
            lease: PATIENCE,
            instances: 1,
        });
        change(&mut config);
        with_cluster(&mut config, |cluster| {
            cluster.wait_queue.scope = WaitScope::Endpoint;
            cluster.wait_for_endpoint = Some(Duration::from_millis(1));
            cluster.stateful_session = Some(StatefulSession {
                cookie: "at".to_owned(),
                attributes: String::new(),
                strict: false,
                key_file: None,
            });
        });
        add_listener(&mut config, &authority, directory.path());
        add_clusters(&mut config, &names, directory.path());
        add_stores(&mut config, directory.path());
        config.tracing = Some(tracing());
        let proxy = Proxy::start(&config);
        let count = |per| match per {
            Per::Cluster => config.clusters.len(),
            // One at the origin, one that is not there, three by name, one in a file.
            Per::Endpoint => 6,
            Per::Class => config.classes.list.len(),
            Per::Listener => config.listeners.len(),
            Per::Name => 1,
            Per::Manifest => config.catalogue.manifests.len(),
            Per::Certificate => 3,
            Per::Network => config.uplink.counterfactual_networks,
        };
        proxy.wait_metric(&["sprat_dns_addresses"], 3.0);
        wait_for("the thread that keeps certificates", || {
            proxy.metric(&["sprat_acme_certificate_not_after"]) > 0.0
        });
        Self {
            proxy,
            counts: Per::ALL.map(count),
            _origin: origin,
            _authority: authority,
            _directory: directory,
            _names: names,
        }
    }

    /// Returns the running proxy.
    pub(crate) fn proxy(&self) -> &Proxy {
        &self.proxy
    }

    /// Returns how many of these things the configuration has.
    pub(crate) fn count(&self, per: Per) -> usize {
        self.counts[per as usize]
    }

    /// Returns the text of a scrape.
    pub(crate) fn scrape(&self) -> String {
        self.proxy.server.as_ref().unwrap().metrics()
    }
}

/// Returns the tracing settings for a collector that is not there.
fn tracing() -> Tracing {
    let address = free_address();
    Tracing {
        sampling_ppm: 0,
        parent_based: true,
        otlp: Otlp {
            endpoint: CollectorEndpoint {
                is_secure: false,
                host: address.ip().to_string(),
                port: address.port(),
                authority: address.to_string(),
                path: "/v1/traces".to_owned(),
                span: Span::default(),
            },
            headers: Vec::new(),
            ca_file: None,
            resource: Vec::new(),
            timeout: PATIENCE,
            max_queue_size: 1,
            max_export_batch_size: 1,
            schedule_delay: PATIENCE,
        },
    }
}

fn add_listener(config: &mut Config, authority: &Authority, directory: &Path) {
    let mut listener = config.listeners[0].clone();
    listener.name = "announced".to_owned();
    listener.tls = Some(issued(config, authority, directory));
    listener.proxy_protocol = Some(ProxyProtocol {
        trusted: Vec::new(),
        others_direct: true,
        timeout: PATIENCE,
        max_bytes: 1024,
    });
    config.listeners.push(listener);
}

/// Adds certificates that an authority has issued, and that are not due for renewal. Returns the
/// TLS settings of a listener that shows them.
fn issued(config: &mut Config, authority: &Authority, directory: &Path) -> ListenerTls {
    let acme = Acme {
        directory_url: format!("https://{}/directory", free_address()),
        email: None,
        storage: file(&directory.join("acme")),
        challenge: Challenge::Http01,
        ca_file: None,
    };
    std::fs::create_dir_all(acme.certificates()).unwrap();
    let certificates = ["one.test", "two.test", "three.test"].map(|name| {
        let issued = IssuedCertificate::new(&acme, vec![name.to_owned()], Span::default());
        let files = authority.issue(name, &[name]);
        let [key, chain] = [&files.key, &files.chain].map(|path| std::fs::read(path).unwrap());
        std::fs::write(&issued.file.path, [key, chain].concat()).unwrap();
        ListenerCertificate::Issued(issued)
    });
    config.acme = Some(acme);
    ListenerTls {
        certificates: certificates.into(),
        ..listener_tls(&[])
    }
}

/// Adds three clusters: one whose endpoint is not there, for `/dead/`, one by name, and one of a
/// file.
fn add_clusters(config: &mut Config, names: &NameServer, directory: &Path) {
    let farm = Cluster::clone(&config.clusters[0]);
    let endpoint = |address| Endpoint {
        address,
        ..farm.endpoints[0].clone()
    };
    let dead = Arc::new(Cluster {
        name: "dead".to_owned(),
        endpoints: vec![endpoint(EndpointAddress::Ip(free_address()))],
        ..farm.clone()
    });
    let mut to_dead = route(&dead);
    to_dead.matches.path = PathPattern::Prefix("/dead".to_owned());
    config.routes.insert(0, to_dead);
    let host = "web.test".to_owned();
    let named = Arc::new(Cluster {
        name: "named".to_owned(),
        endpoints: vec![endpoint(EndpointAddress::Name { host, port: 80 })],
        dns: names.dns(),
        ..farm.clone()
    });
    let path = directory.join("listed.endpoints");
    std::fs::write(&path, farm.endpoints[0].address.to_string()).unwrap();
    let at = FileAt {
        path,
        span: Span::default(),
    };
    let listed = Arc::new(Cluster {
        name: "listed".to_owned(),
        endpoints: Vec::new(),
        endpoints_file: Some(EndpointsFile {
            at,
            interval: PATIENCE,
        }),
        ..farm.clone()
    });
    config.clusters.extend([dead, named, listed]);
}

/// Adds manifests, and a shared store that is not there.
fn add_stores(config: &mut Config, directory: &Path) {
    let manifest = |name| {
        let path = directory.join(name);
        std::fs::write(&path, "/a,5\n").unwrap();
        Manifest {
            path,
            format: ManifestFormat::Csv,
            cluster: Some("farm".to_owned()),
            max_bytes: 1000,
            reload_interval: PATIENCE,
            span: Span::default(),
        }
    };
    config.catalogue.manifests = ["a.csv", "b.csv", "c.csv", "d.csv"].map(manifest).into();
    config.catalogue.shared = Some(SharedStore {
        url: format!("redis://{}/0", free_address()),
        prefix: "test:".to_owned(),
        phrase: "farm".to_owned(),
        budget: Duration::from_millis(1),
        max_queued: 1,
        pause: PATIENCE,
        span: Span::default(),
    });
}
