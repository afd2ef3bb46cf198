//! Puts the parts together: sockets, workers, the admin listener, shutdown.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use socket2::{Domain, Protocol, Socket, Type};
use sprat_config::classify::Classifier;
use sprat_config::resolved::{self as config, Config, Engine, Rate};
use sprat_scheduler::{Discipline, EgressConfig, Pacer};
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::{Notify, watch};

use crate::access_log;
use crate::admin;
use crate::background::Background;
use crate::catalogue::Catalogue;
use crate::limits::{Overload, RateLimiter};
use crate::metrics::Metrics;
use crate::routing;
use crate::stats::WorkerStats;
use crate::tls;
use crate::uplink::kernel::KernelLink;
use crate::uplink::{AutoRate, PacedLink, SharedUplink, Uplink};
use crate::upstream::{self, SharedCluster, Upstream};
use crate::worker::{self, ListenerShared, ListenerState, Stage, Worker};

/// Connections that the kernel holds for a worker that has not accepted them.
const BACKLOG: i32 = 4096;

/// A server in operation. Dropped, it goes on; [`Server::join`] waits for its
/// end, which [`Control::drain`] or [`Control::cut`] brings about.
pub struct Server {
    addresses: Vec<SocketAddr>,
    admin: Option<SocketAddr>,
    stage: Arc<watch::Sender<Stage>>,
    drain_timeout: Duration,
    workers: Vec<JoinHandle<anyhow::Result<()>>>,
    admin_thread: Option<JoinHandle<()>>,
    log: Option<access_log::Writer>,
    background: Vec<Background>,
    metrics: Arc<Metrics>,
}

/// Asks a server to stop, or its log to be reopened; from any thread.
#[derive(Clone)]
pub struct Control {
    stage: Arc<watch::Sender<Stage>>,
    reopen: Option<Arc<AtomicBool>>,
}

impl Control {
    /// Stops accepting; what is open goes on until it is done, or cut.
    pub fn drain(&self) {
        self.stage.send_if_modified(|stage| {
            let begins = *stage == Stage::Serving;
            if begins {
                *stage = Stage::Draining;
            }
            begins
        });
    }

    /// Ends everything now.
    pub fn cut(&self) {
        self.stage.send_replace(Stage::Cut);
    }

    /// Opens the access log's file anew before the next line.
    pub fn reopen_log(&self) {
        if let Some(reopen) = &self.reopen {
            reopen.store(true, Ordering::Relaxed);
        }
    }
}

impl Server {
    /// Binds every socket and starts every thread.
    ///
    /// # Errors
    ///
    /// A socket that cannot be bound, a log that cannot be opened, a thread
    /// that cannot be started: with the address or path concerned.
    pub fn start(config: &Config) -> anyhow::Result<Self> {
        let (stage, _) = watch::channel(Stage::Serving);
        let stage = Arc::new(stage);
        let sockets = bind_all(config)?;
        let addresses = sockets[0]
            .iter()
            .map(TcpListener::local_addr)
            .collect::<Result<_, _>>()?;
        let bind_admin = |admin: &config::Admin| {
            bind(admin.address, false)
                .with_context(|| format!("cannot listen on {} (admin)", admin.address))
        };
        let admin_socket = config.admin.as_ref().map(bind_admin).transpose()?;
        let (log, writer) = match &config.access_log {
            Some(log) => {
                let opened = access_log::Writer::start(log);
                let (log, writer) = opened
                    .with_context(|| format!("cannot open the access log {:?}", log.target))?;
                (Some(log), Some(writer))
            }
            None => (None, None),
        };
        let parts = Parts::new(config, log)?;
        let mut workers = Vec::new();
        let mut stats = Vec::new();
        for (index, sockets) in sockets.into_iter().enumerate() {
            let counters = parts.stats();
            stats.push(Arc::clone(&counters));
            let (parts, config, stage) = (parts.clone(), config.clone(), stage.subscribe());
            let thread = std::thread::Builder::new().name(format!("worker-{index}"));
            let work = move || parts.work(&config, counters, sockets, stage);
            workers.push(thread.spawn(work).context("cannot start a worker")?);
        }
        let tls: Vec<_> = parts.listeners.iter().map(|l| l.tls.clone()).collect();
        let metrics = Arc::new(Metrics::new(
            config,
            stats,
            &parts.shared,
            &parts.catalogue,
            &parts.uplink,
            tls.iter().flatten().cloned().collect(),
        ));
        let mut background = parts.catalogue.start(&config.catalogue)?;
        background.extend(tls::watch(&tls, &parts.shared)?);
        background.extend(upstream::keep(&config.clusters, &parts.shared)?);
        drop(parts);
        let admin = (admin_socket.as_ref().map(TcpListener::local_addr)).transpose()?;
        let admin_thread = match admin_socket {
            Some(socket) => {
                let (metrics, stage) = (Arc::clone(&metrics), stage.subscribe());
                let thread = std::thread::Builder::new().name("admin".to_owned());
                Some(thread.spawn(move || admin::run(socket, &metrics, stage))?)
            }
            None => None,
        };
        Ok(Self {
            addresses,
            admin,
            stage,
            drain_timeout: config.runtime.drain_timeout,
            workers,
            admin_thread,
            log: writer,
            background,
            metrics,
        })
    }

    /// Where the listeners stand, in the order of the configuration; with the
    /// ports that the kernel chose where none was given.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Where the admin listener stands.
    pub fn admin_address(&self) -> Option<SocketAddr> {
        self.admin
    }

    /// A handle for other threads.
    pub fn control(&self) -> Control {
        Control {
            stage: Arc::clone(&self.stage),
            reopen: self.log.as_ref().map(access_log::Writer::reopener),
        }
    }

    /// The metrics in Prometheus' text format.
    pub fn metrics(&self) -> String {
        self.metrics.text()
    }

    /// Waits for the end; once draining, for the configured time at most.
    ///
    /// # Errors
    ///
    /// A worker that failed or panicked.
    pub fn join(self) -> anyhow::Result<()> {
        let (stage, bound) = (Arc::clone(&self.stage), self.drain_timeout);
        let guard = std::thread::Builder::new()
            .name("drain".to_owned())
            .spawn(move || bound_drain(&stage, bound))?;
        let mut failure = None;
        for worker in self.workers {
            let ended = worker
                .join()
                .unwrap_or_else(|_| Err(anyhow::anyhow!("a worker panicked; see the log")));
            failure = failure.or(ended.err());
        }
        // Whatever ended the workers, nothing else goes on.
        self.stage.send_replace(Stage::Cut);
        if guard.join().is_err() {
            tracing::error!("the drain timer panicked");
        }
        if let Some(thread) = self.admin_thread
            && thread.join().is_err()
        {
            tracing::error!("the admin listener panicked");
        }
        if let Some(log) = self.log {
            log.join();
        }
        self.background.into_iter().for_each(Background::join);
        failure.map_or(Ok(()), Err)
    }
}

/// Cuts what is still open when the bound on a drain has passed.
fn bound_drain(stage: &watch::Sender<Stage>, bound: Duration) {
    let runtime = Builder::new_current_thread().enable_time().build();
    let Ok(runtime) = runtime else {
        tracing::error!("no timer for the drain: it is unbounded");
        return;
    };
    let mut seen = stage.subscribe();
    runtime.block_on(async {
        // The sender is alive: it is borrowed here.
        let _ = seen.wait_for(|stage| *stage >= Stage::Draining).await;
        let cut = seen.wait_for(|stage| *stage == Stage::Cut);
        if tokio::time::timeout(bound, cut).await.is_err() {
            stage.send_replace(Stage::Cut);
        }
    });
}

/// For each worker, a socket for each listener.
fn bind_all(config: &Config) -> anyhow::Result<Vec<Vec<TcpListener>>> {
    let mut sockets: Vec<Vec<TcpListener>> = Vec::new();
    let mut addresses: Vec<SocketAddr> = config.listeners.iter().map(|l| l.address).collect();
    for _ in 0..config.runtime.workers.max(1) {
        let mut row = Vec::new();
        for (address, listener) in addresses.iter_mut().zip(&config.listeners) {
            let socket = bind(*address, true).with_context(|| {
                format!("cannot listen on {address} (listener `{}`)", listener.name)
            })?;
            // Port 0: the other workers share the one that the kernel chose.
            *address = socket.local_addr()?;
            row.push(socket);
        }
        sockets.push(row);
    }
    Ok(sockets)
}

fn bind(address: SocketAddr, shared: bool) -> io::Result<TcpListener> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    socket.set_reuse_address(true)?;
    if shared {
        socket.set_reuse_port(true)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// What the workers are made of.
#[derive(Clone)]
struct Parts {
    /// In the order of the configuration's clusters.
    shared: Vec<SharedCluster>,
    /// In the order of the configuration.
    listeners: Vec<ListenerShared>,
    /// For each route, requests over time.
    rates: Vec<Option<Arc<RateLimiter>>>,
    overload: Option<Arc<Overload>>,
    catalogue: Arc<Catalogue>,
    classifier: Arc<Classifier>,
    /// How many.
    classes: usize,
    log: Option<access_log::Sender>,
    reclaim: Arc<Notify>,
    uplink: SharedUplink,
}

impl Parts {
    fn new(config: &Config, log: Option<access_log::Sender>) -> anyhow::Result<Self> {
        let uplink = shared_uplink(&config.uplink, &config.classes)
            .context("cannot start the search for the rate")?;
        let classifier = Classifier::new(&config.classes);
        let random = RandomState::new();
        let catalogue = Catalogue::new(config, (random.hash_one(0), random.hash_one(1)))?;
        let epoch = Instant::now();
        let classes = &config.classes.list;
        let shared = |cluster: &Arc<config::Cluster>| {
            SharedCluster::new(cluster, classes, &config.admission, epoch)
        };
        Ok(Self {
            shared: config
                .clusters
                .iter()
                .map(shared)
                .collect::<Result<_, _>>()?,
            listeners: ListenerShared::all(config)?,
            rates: config.routes.iter().map(RateLimiter::of_route).collect(),
            overload: Overload::of(config),
            catalogue: Arc::new(catalogue),
            classifier: Arc::new(classifier),
            classes: classes.len(),
            log,
            reclaim: Arc::default(),
            uplink,
        })
    }

    fn stats(&self) -> Arc<WorkerStats> {
        let endpoints = self.shared.iter().map(|shared| shared.endpoints.len());
        Arc::new(WorkerStats::new(endpoints, self.classes))
    }

    /// A worker's thread.
    fn work(
        self,
        config: &Config,
        stats: Arc<WorkerStats>,
        sockets: Vec<TcpListener>,
        stage: watch::Receiver<Stage>,
    ) -> anyhow::Result<()> {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build_local(LocalOptions::default())
            .context("cannot start an event loop")?;
        let mut listeners = Vec::new();
        for ((listener, shared), socket) in
            config.listeners.iter().zip(&self.listeners).zip(sockets)
        {
            let state = ListenerState::new(listener, shared.clone())?;
            listeners.push((Rc::new(state), socket));
        }
        runtime.block_on(async {
            // On the event loop, which the uplink's timer joins.
            let worker = Rc::new(self.worker(config, stats)?);
            Ok(worker::run(worker, listeners, stage).await?)
        })
    }

    fn worker(self, config: &Config, stats: Arc<WorkerStats>) -> anyhow::Result<Worker> {
        let mut upstreams = Vec::new();
        for (index, (cluster, shared)) in config.clusters.iter().zip(&self.shared).enumerate() {
            let (stats, reclaim) = (Arc::clone(&stats), Arc::clone(&self.reclaim));
            let upstream = Upstream::new(cluster, index, shared, stats, reclaim)?;
            upstreams.push(Rc::new(upstream));
        }
        Ok(Worker {
            routes: routing::routes(config, &self.rates)?,
            upstreams,
            uplink: Uplink::new(&self.uplink)?,
            catalogue: self.catalogue,
            classifier: self.classifier,
            overload: self.overload,
            log: self.log,
            reclaim: self.reclaim,
            connections: Default::default(),
            emptied: Notify::new(),
            stats,
        })
    }
}

/// The uplink that the workers share.
fn shared_uplink(uplink: &config::Uplink, classes: &config::Classes) -> io::Result<SharedUplink> {
    if let (Engine::Kernel(engine), Discipline::Bands(cutoffs)) = (&uplink.engine, &uplink.policy) {
        let rate_bits_per_s = match uplink.rate {
            Rate::Fixed(bits_per_s) => Some(bits_per_s),
            Rate::Auto | Rate::Unlimited => None,
        };
        let link = KernelLink::new(engine.qdisc, cutoffs, rate_bits_per_s);
        return Ok(SharedUplink::Kernel(link));
    }
    let (rate_bits_per_s, auto) = match uplink.rate {
        Rate::Unlimited => return Ok(SharedUplink::Unlimited),
        Rate::Fixed(bits_per_s) => (bits_per_s, None),
        Rate::Auto => (AutoRate::initial_rate_bits_per_s(), Some(AutoRate::new())),
    };
    let egress = EgressConfig {
        discipline: uplink.policy.clone(),
        pacer: Pacer::new(rate_bits_per_s),
        max_flows: uplink.max_flows,
        guard_factor: uplink.guard_factor,
        classes: classes.list.iter().map(|c| c.spec.clone()).collect(),
    };
    let link = PacedLink::new(egress, auto);
    if link.auto().is_some() {
        AutoRate::start(&link)?;
    }
    Ok(SharedUplink::Paced(link))
}
