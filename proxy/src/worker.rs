//! One thread's part of the server: its event loop, its listening sockets and
//! the connections that it accepts.

use std::cell::RefCell;
use std::io;
use std::net::{IpAddr, TcpListener as StdListener};
use std::os::fd::AsFd as _;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use hyper::server::conn::http1;
use slab::Slab;
use sprat_config::classify::Classifier;
use sprat_config::resolved::{Config, Listener};
use sprat_scheduler::limits::HeapState;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};
use tokio::task::spawn_local;
use tokio::time::{interval, sleep, timeout};

use crate::access_log;
use crate::catalogue::Catalogue;
use crate::connection::{self, Connection};
use crate::error::Reason;
use crate::headers::Forwarder;
use crate::limits::{self, ConnectionPlace, ListenerLimits, Overload};
use crate::proxy_protocol;
use crate::routing::Route;
use crate::stats::WorkerStats;
use crate::tls::ListenerTls;
use crate::uplink::Uplink;
use crate::upstream::Upstream;

/// Header fields that hyper parses without an allocation.
const DEFAULT_MAX_HEADERS: usize = 100;

/// How often idle upstream connections are looked at.
const REAP_INTERVAL: Duration = Duration::from_secs(1);

/// After an accept that failed for want of descriptors or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How long connections that are cut get to end.
const CUT_BOUND: Duration = Duration::from_secs(2);

/// What a server is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// -> start.
    Serving,
    /// -> asked to stop: no new connections, open requests go on.
    Draining,
    /// -> asked again, or the bound passed: everything ends now.
    Cut,
}

/// A listener as a worker sees it.
pub(crate) struct ListenerState {
    /// Its configuration.
    pub(crate) config: Listener,
    /// Tells backends about its clients.
    pub(crate) forwarder: Forwarder,
    /// Serves its connections.
    pub(crate) http: http1::Builder,
    /// What all workers have of it.
    pub(crate) shared: ListenerShared,
}

/// What all workers have of a listener.
#[derive(Clone)]
pub(crate) struct ListenerShared {
    /// None for plain text.
    pub(crate) tls: Option<Arc<ListenerTls>>,
    /// None without bounds on clients.
    pub(crate) limits: Option<Arc<ListenerLimits>>,
    /// Open connections.
    open: Arc<AtomicUsize>,
    /// Connections that have not told yet whose they are.
    announced: Arc<AtomicUsize>,
}

impl ListenerShared {
    /// Of each listener of a configuration.
    ///
    /// # Errors
    ///
    /// Certificates that cannot be used.
    pub(crate) fn all(config: &Config) -> anyhow::Result<Vec<Self>> {
        let shared = |config: &Listener| {
            Ok(Self {
                tls: ListenerTls::of(config)?,
                limits: ListenerLimits::new(config),
                open: Arc::default(),
                announced: Arc::default(),
            })
        };
        config.listeners.iter().map(shared).collect()
    }
}

impl ListenerState {
    /// A worker's view of it.
    ///
    /// # Errors
    ///
    /// A pseudonym for `Via` that no header field can hold.
    pub(crate) fn new(config: &Listener, shared: ListenerShared) -> anyhow::Result<Self> {
        let mut http = http1::Builder::new();
        // The connection has a timer of its own.
        http.header_read_timeout(None);
        http.max_header_size(config.max_header_bytes);
        if config.max_header_fields != DEFAULT_MAX_HEADERS {
            http.max_headers(config.max_header_fields);
        }
        Ok(Self {
            forwarder: Forwarder::new(&config.forwarding)?,
            config: config.clone(),
            http,
            shared,
        })
    }
}

/// One thread's part of the server.
pub(crate) struct Worker {
    /// Its counters.
    pub(crate) stats: Arc<WorkerStats>,
    /// In order.
    pub(crate) routes: Vec<Route>,
    /// From requests to classes.
    pub(crate) classifier: Arc<Classifier>,
    /// In the order of the configuration's clusters.
    pub(crate) upstreams: Vec<Rc<Upstream>>,
    /// What responses go out through.
    pub(crate) uplink: Uplink,
    /// What is known of sizes.
    pub(crate) catalogue: Arc<Catalogue>,
    /// None if nobody watches the memory.
    pub(crate) overload: Option<Arc<Overload>>,
    /// None if there is no access log.
    pub(crate) log: Option<access_log::Sender>,
    /// Open connections.
    pub(crate) connections: RefCell<Slab<Rc<Connection>>>,
    /// Told when a worker wants a connection that another keeps idle.
    pub(crate) reclaim: Arc<Notify>,
    /// Told when the last connection ends.
    pub(crate) emptied: Notify,
}

/// Accepts and serves until the stage says otherwise and all is over.
pub(crate) async fn run(
    worker: Rc<Worker>,
    listeners: Vec<(Rc<ListenerState>, StdListener)>,
    mut stage: watch::Receiver<Stage>,
) -> io::Result<()> {
    let mut accepting = Vec::new();
    for (state, socket) in listeners {
        let socket = TcpListener::from_std(socket)?;
        worker.uplink.listen(&socket);
        accepting.push(spawn_local(accept(
            Rc::clone(&worker),
            state,
            socket,
            stage.clone(),
        )));
    }
    let reaper = spawn_local(reap(Rc::clone(&worker)));
    let watch = spawn_local(limits::watch(Rc::clone(&worker)));
    let uplink = worker.uplink.clone();
    let granting = spawn_local(async move { uplink.run().await });
    // An error means that the server is gone: the same as a cut.
    let _ = stage.wait_for(|stage| *stage >= Stage::Draining).await;
    for task in accepting {
        // An accept loop ends by itself; it does not panic.
        let _ = task.await;
    }
    each(&worker, Connection::drain);
    tokio::select! {
        () = emptied(&worker) => {}
        _ = stage.wait_for(|stage| *stage == Stage::Cut) => {
            each(&worker, |connection| connection.cut(Reason::Shutdown));
            if timeout(CUT_BOUND, emptied(&worker)).await.is_err() {
                tracing::warn!("some connections did not end in time");
            }
        }
    }
    reaper.abort();
    watch.abort();
    granting.abort();
    for upstream in &worker.upstreams {
        upstream.close_idle();
    }
    Ok(())
}

fn each(worker: &Worker, act: impl Fn(&Connection)) {
    for (_, connection) in &*worker.connections.borrow() {
        act(connection);
    }
}

async fn emptied(worker: &Worker) {
    while !worker.connections.borrow().is_empty() {
        worker.emptied.notified().await;
    }
}

async fn reap(worker: Rc<Worker>) {
    let mut ticks = interval(REAP_INTERVAL);
    loop {
        tokio::select! {
            _ = ticks.tick() => {
                let now = Instant::now();
                worker.upstreams.iter().for_each(|upstream| upstream.reap(now));
            }
            () = worker.reclaim.notified() => {
                worker.upstreams.iter().for_each(|upstream| upstream.give_way());
            }
        }
    }
}

async fn accept(
    worker: Rc<Worker>,
    listener: Rc<ListenerState>,
    socket: TcpListener,
    mut stage: watch::Receiver<Stage>,
) {
    let mut complained = false;
    loop {
        let accepted = tokio::select! {
            biased;
            // An error means that the server is gone.
            _ = stage.wait_for(|stage| *stage >= Stage::Draining) => None,
            accepted = socket.accept() => Some(accepted),
        };
        match accepted {
            None => break,
            Some(Ok((stream, peer))) => {
                complained = false;
                arrive(&worker, &listener, stream, peer, &stage);
            }
            Some(Err(error)) => {
                worker.stats.accept_errors.increment();
                if !std::mem::replace(&mut complained, true) {
                    let listener = &listener.config.name;
                    tracing::error!(%error, listener, "a connection cannot be accepted");
                }
                // Without descriptors the next accept would fail at once.
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    // What the kernel has accepted for this socket would be reset otherwise.
    while let Some(Ok((stream, peer))) = now_or_never(socket.accept()).await {
        arrive(&worker, &listener, stream, peer, &stage);
    }
}

/// Admits a connection once it has told whose it is, if it has to.
fn arrive(
    worker: &Rc<Worker>,
    listener: &Rc<ListenerState>,
    mut stream: TcpStream,
    peer: std::net::SocketAddr,
    stage: &watch::Receiver<Stage>,
) {
    if listener.config.proxy_protocol.is_none() {
        return admit(worker, listener, stream, peer);
    }
    let announced = &listener.shared.announced;
    if announced.fetch_add(1, Relaxed) >= listener.config.max_connections {
        announced.fetch_sub(1, Relaxed);
        worker.stats.refused_connections.increment();
        return;
    }
    let (worker, listener, stage) = (Rc::clone(worker), Rc::clone(listener), stage.clone());
    spawn_local(async move {
        let client = match &listener.config.proxy_protocol {
            Some(config) => {
                let stats = &worker.stats.proxy_headers;
                proxy_protocol::receive(config, stats, &mut stream, peer).await
            }
            None => Some(peer),
        };
        listener.shared.announced.fetch_sub(1, Relaxed);
        // One whose header comes later has not got as far as to be drained.
        if let Some(client) = client.filter(|_| *stage.borrow() == Stage::Serving) {
            admit(&worker, &listener, stream, client);
        }
    });
}

/// The future's output if it has one at once.
async fn now_or_never<T>(future: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        output = future => Some(output),
        () = std::future::ready(()) => None,
    }
}

/// A place for a connection of this client, if its listener counts them.
fn place(
    worker: &Worker,
    listener: &ListenerState,
    ip: IpAddr,
) -> Result<Option<ConnectionPlace>, ()> {
    let overload = worker.overload.as_ref();
    if overload.is_some_and(|overload| overload.state() >= HeapState::NoConnections) {
        worker.stats.overload_connections.increment();
        return Err(());
    }
    let Some(limits) = &listener.shared.limits else {
        return Ok(None);
    };
    let place = limits.connect(ip);
    if place.is_none() {
        worker.stats.client_connections.increment();
    }
    place.map(Some).ok_or(())
}

fn admit(
    worker: &Rc<Worker>,
    listener: &Rc<ListenerState>,
    stream: TcpStream,
    peer: std::net::SocketAddr,
) {
    if listener.shared.open.fetch_add(1, Relaxed) >= listener.config.max_connections {
        listener.shared.open.fetch_sub(1, Relaxed);
        worker.stats.refused_connections.increment();
        return;
    }
    let Ok(place) = place(worker, listener, peer.ip()) else {
        listener.shared.open.fetch_sub(1, Relaxed);
        return;
    };
    if let Err(error) = stream.set_nodelay(true) {
        // The client has gone already.
        tracing::debug!(%error, "an accepted socket does not take TCP_NODELAY");
    }
    worker.stats.connections.increment();
    worker.stats.open_connections.increment();
    // Not to be had: the client has gone already.
    let dscp = (worker.classifier.wants_dscp())
        .then(|| {
            // Of the socket: the client may be elsewhere.
            let is_ipv6 = stream.local_addr().ok()?.is_ipv6();
            crate::sys::received_tos(stream.as_fd(), is_ipv6).ok()
        })
        .flatten()
        .map(|tos| tos >> 2);
    let told = worker.upstreams.iter().any(|own| own.tells_clients());
    let local = told.then(|| stream.local_addr().ok()).flatten();
    let outlet = worker.uplink.accept(&stream);
    let connection = Rc::new(Connection::new(
        Rc::clone(worker),
        Rc::clone(listener),
        peer,
        local,
        dscp,
        outlet,
    ));
    let key = worker
        .connections
        .borrow_mut()
        .insert(Rc::clone(&connection));
    let (worker, listener) = (Rc::clone(worker), Rc::clone(listener));
    spawn_local(async move {
        connection::serve(connection, stream).await;
        drop(place);
        worker.connections.borrow_mut().remove(key);
        worker.stats.open_connections.decrement();
        listener.shared.open.fetch_sub(1, Relaxed);
        if worker.connections.borrow().is_empty() {
            worker.emptied.notify_one();
        }
    });
}
