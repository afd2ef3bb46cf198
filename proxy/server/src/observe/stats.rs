//! The counters of one worker, and of what a configuration names.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use sprat_config::resolved::{Class, Cluster, Config};
use sprat_net::counters::{
    ByReason, Counter, Histogram, SIZE_CLASS_NAMES, Seconds, Slowdowns, size_class,
};
use sprat_net::error::Reason;
use sprat_net::permit::Permits;
use sprat_net::proxy_protocol::HeaderStats;
use sprat_net::tls::HandshakeStats;
use tokio::time::Instant;

use sprat_sizes::LayerStats;
use sprat_upstream::ClusterStats;

/// The number of classes of sizes.
const SIZE_CLASSES: usize = SIZE_CLASS_NAMES.len();

/// The counters of a priority class.
#[derive(Debug, Default)]
pub(crate) struct ClassCounters {
    /// Responses by class of status, as [`ClusterStats::responses`].
    pub(crate) responses: [Counter; 6],
    /// Bytes of bodies that went out whole.
    pub(crate) bytes: Counter,
    /// Seconds from the end of the request's head to the response's last byte.
    pub(crate) durations: Histogram<Seconds>,
}

impl ClassCounters {
    /// Counts a response that went out whole.
    pub(crate) fn observe(&self, bytes: u64, duration: Duration) {
        self.bytes.add(bytes);
        self.durations.took(duration);
    }
}

/// The reason why a connection was closed at once, in the order of [`ListenerStats::refused`].
#[derive(Clone, Copy, Debug)]
pub(crate) enum RefusedConnection {
    /// The listener has as many connections as it may.
    Listener,
    /// The client has as many connections as it may.
    Client,
    /// The process has no memory to spare.
    Heap,
}

impl RefusedConnection {
    /// All the reasons, in the order of their numbers.
    pub(crate) const ALL: [Self; 3] = [Self::Listener, Self::Client, Self::Heap];

    /// Returns the reason's name: that of requests refused for the same reason.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Listener => Reason::ListenerFull.name(),
            Self::Client => Reason::ClientFull.name(),
            Self::Heap => Reason::HeapFull.name(),
        }
    }
}

/// One worker's counters of a listener. They are small, and aligned: those of two workers
/// would share a cache line.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(crate) struct ListenerStats {
    /// Connections that were accepted and are served.
    pub(crate) connections: Counter,
    /// Connections closed at once, by [`RefusedConnection`].
    pub(crate) refused: [Counter; RefusedConnection::ALL.len()],
    /// The number of times that no connection could be accepted.
    pub(crate) accept_errors: Counter,
    /// Responses by hundreds of the status, as [`ClusterStats::responses`].
    pub(crate) responses: [Counter; 6],
}

/// A listener as the metrics see it.
#[derive(Clone, Debug)]
pub(crate) struct ListenerView {
    /// The listener's name in the configuration.
    pub(crate) name: String,
    /// The number of open connections.
    pub(crate) open: Permits,
    /// The counters of each worker.
    pub(crate) stats: Arc<[Arc<ListenerStats>]>,
}

/// One worker's counters of what a configuration names.
#[derive(Clone, Debug, Default)]
pub(crate) struct NamedStats {
    /// The counters of the clusters, in the order of the configuration.
    pub(crate) clusters: Vec<Arc<ClusterStats>>,
    /// The counters of the classes, in the order of the configuration.
    pub(crate) classes: Vec<Arc<ClassCounters>>,
}

impl NamedStats {
    /// Makes the counters of a configuration. A cluster or a class with the same name in
    /// the one before counts on. That cannot fail, and changes nothing of what was before, so that
    /// a reload prepares by it.
    pub(crate) fn new<'a>(config: &Config, before: Option<(&'a Config, &'a Self)>) -> Self {
        let named = |(config, own): (&'a Config, &'a Self)| {
            let names = config.clusters.iter().map(|old| &*old.name);
            names.zip(&own.clusters).collect::<HashMap<&str, _>>()
        };
        let known = before.map(named).unwrap_or_default();
        let cluster = |cluster: &Arc<Cluster>| known.get(&*cluster.name).copied().cloned();
        let class = |class: &Class| {
            let (config, stats) = before?;
            let mut names = config.classes.list.iter().map(|class| &class.name);
            let at = names.position(|name| *name == class.name)?;
            Some(Arc::clone(&stats.classes[at]))
        };
        let clusters = config.clusters.iter();
        let classes = config.classes.list.iter();
        Self {
            clusters: clusters.map(|c| cluster(c).unwrap_or_default()).collect(),
            classes: classes.map(|c| class(c).unwrap_or_default()).collect(),
        }
    }
}

/// The counters of one worker.
#[derive(Debug, Default)]
pub(crate) struct WorkerStats {
    /// Responses without a cluster (no route, bad requests).
    pub(crate) unrouted: [Counter; 6],
    /// Bytes of bodies handed to clients.
    pub(crate) response_bytes: Counter,
    /// Bytes that sockets have taken with the code point of IN, and of OUT.
    pub(crate) marked_bytes: [Counter; 2],
    /// Connections that are open (gauge).
    pub(crate) open_connections: Counter,
    /// Open connections that are parked (gauge).
    pub(crate) parked_connections: Counter,
    /// The number of times that a connection was parked.
    pub(crate) parks: Counter,
    /// Requests in progress (gauge).
    pub(crate) open_requests: Counter,
    /// Requests that failed, by [`Reason::index`].
    pub(crate) failures: ByReason,
    /// Responses that were cut short: by the client, the endpoint, or a time-out.
    pub(crate) aborted: Counter,
    /// Copies of requests that were answered to the end.
    pub(crate) mirrored: Counter,
    /// Copies that were not sent, or not answered to the end.
    pub(crate) mirrors_dropped: Counter,
    /// Responses that were compressed, by [`Algorithm::index`].
    pub(crate) compressed: [Counter; 3],
    /// Bytes of bodies before compression, and after.
    pub(crate) compressor_bytes: [Counter; 2],
    /// Lines that the access log had no room for.
    pub(crate) log_lines_dropped: Counter,
    /// Seconds from the end of the request's head to the response's last byte, by size class.
    pub(crate) durations: [Histogram<Seconds>; SIZE_CLASSES],
    /// Seconds from the end of the request's head until the client had acknowledged all of
    /// the response, by size class.
    pub(crate) acknowledged: [Histogram<Seconds>; SIZE_CLASSES],
    /// The slowdown of responses, by size class: their time over what the uplink alone needs.
    pub(crate) slowdowns: [Histogram<Slowdowns>; SIZE_CLASSES],
    /// Headers of the PROXY protocol.
    pub(crate) proxy_headers: HeaderStats,
    /// The TLS handshakes of the worker's connections.
    pub(crate) handshakes: Arc<HandshakeStats>,
    /// Look-ups of sizes in the catalogue.
    pub(crate) catalogue: Arc<LayerStats>,
    /// Connections that have switched to another protocol so far.
    pub(crate) tunnels: Counter,
    /// Switched connections that are open (gauge).
    pub(crate) open_tunnels: Counter,
    /// Bytes through switched connections, to clients.
    pub(crate) tunnel_bytes_down: Counter,
    /// Bytes through switched connections, from clients.
    pub(crate) tunnel_bytes_up: Counter,
    /// Rounds of the worker's housekeeping, one a second.
    pub(crate) rounds: Counter,
}

/// The watch over whether the workers' event loops go on.
pub(crate) struct Heartbeat {
    workers: Arc<[Arc<WorkerStats>]>,
    /// The rounds of each worker at the last look, and when they were last seen to go on.
    seen: Vec<(u64, Instant)>,
}

impl Heartbeat {
    /// The delay by which a worker is stuck; one that is busy is late by less.
    const LATEST: Duration = Duration::from_secs(3);

    pub(crate) fn new(workers: Arc<[Arc<WorkerStats>]>) -> Self {
        let now = Instant::now();
        let seen = workers.iter().map(|worker| (worker.rounds.get(), now));
        Self {
            seen: seen.collect(),
            workers,
        }
    }

    /// Returns whether every worker has gone on lately.
    pub(crate) fn goes_on(&mut self) -> bool {
        let now = Instant::now();
        let each = self.workers.iter().zip(&mut self.seen);
        let mut all = true;
        for (worker, (rounds, at)) in each {
            let present = worker.rounds.get();
            if std::mem::replace(rounds, present) != present {
                *at = now;
            }
            all &= now.duration_since(*at) < Self::LATEST;
        }
        all
    }
}

impl WorkerStats {
    /// Counts a response that went out whole.
    pub(crate) fn observe(&self, bytes: u64, duration: Duration, slowdown: Option<f64>) {
        let class = size_class(bytes);
        self.durations[class].took(duration);
        if let Some(slowdown) = slowdown {
            self.slowdowns[class].observe(slowdown);
        }
    }

    /// Counts a response of which the client has acknowledged all, `took` after its request.
    pub(crate) fn observe_acknowledged(&self, bytes: u64, took: Duration) {
        self.acknowledged[size_class(bytes)].took(took);
    }
}
