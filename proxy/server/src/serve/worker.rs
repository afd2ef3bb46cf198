//! One thread's part of the server: its event loop, its listening sockets and
//! the connections that it accepts.

mod shedding;

use std::cell::{Cell, RefCell};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use anyhow::Context as _;
use slab::Slab;
use sprat_net::error::Reason;
use sprat_net::handover::Lent;
use sprat_net::sys;
use sprat_uplink::{Granting, Uplink};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::spawn_local;
use tokio::time::{Instant, interval, timeout};

use crate::client::connection::Connection;
use crate::observe::stage::Stage;
use crate::observe::stats::WorkerStats;
use crate::serve::accept::Acceptor;
use crate::setup::assembly::Assembly;
use crate::setup::generation::Generation;
use crate::setup::listener::Bound;
use crate::setup::serving::Serving;

/// The time between two looks at idle upstream connections.
const REAP_INTERVAL: Duration = Duration::from_secs(1);

/// The number of times that connections were parked after which memory is given back: they
/// leave some megabytes free, in many pieces.
const GIVES_BACK_AFTER: u64 = 512;

/// The time that connections that are cut have to end.
const CUT_BOUND: Duration = Duration::from_secs(2);

/// An order that a worker is given.
pub(crate) enum Order {
    /// The worker is to serve by this configuration from now on.
    Serve(Serve),
    /// The worker is to hand its listening sockets over.
    Lend(Sender<io::Result<Lent>>),
    /// The worker is to serve a connection that has been accepted elsewhere for a listener.
    Accepted {
        /// The [`ListenerState::id`](crate::setup::listener::ListenerState::id) of the listener.
        listener: u64,
        /// The socket of the connection.
        stream: TcpStream,
        /// The address of the client.
        peer: SocketAddr,
    },
}

/// A configuration that a worker is to serve by.
pub(crate) struct Serve {
    /// The parts that all workers share.
    pub(crate) assembly: Arc<Assembly>,
    /// The sockets of listeners that are new.
    pub(crate) sockets: Vec<Bound>,
    /// A sender that is dropped when the worker has switched.
    pub(crate) done: Sender<()>,
}

/// One thread's part of the server.
pub(crate) struct Worker {
    index: usize,
    /// The counters and the generation by which the worker's connections are served.
    pub(crate) serving: Rc<Serving>,
    /// The tasks that grant for the present uplink, and for those before that are
    /// still sent through.
    granting: RefCell<Vec<Granting>>,
    /// The connections that are open.
    pub(crate) connections: RefCell<Slab<Rc<Connection>>>,
    /// The signal that wakes the workers when one wants a connection that another keeps idle.
    reclaim: Arc<Notify>,
    /// The number of connections that have yet to tell whose they are, by the PROXY protocol.
    pub(crate) arriving: Cell<usize>,
    /// The signal that wakes the worker when its last connection has ended.
    emptied: Notify,
}

/// The parts that a worker's thread begins with.
pub(crate) struct Seed {
    /// The number of the worker.
    pub(crate) index: usize,
    /// The counters of the worker.
    pub(crate) stats: Arc<WorkerStats>,
    /// The worker's `reclaim`, shared by all workers.
    pub(crate) reclaim: Arc<Notify>,
    /// The configuration that the worker serves first.
    pub(crate) first: Serve,
    /// The orders that the worker gets later.
    pub(crate) orders: mpsc::UnboundedReceiver<Order>,
    /// The stage of the server, which tells when the worker is to end.
    pub(crate) stage: watch::Receiver<Stage>,
}

impl Seed {
    /// Runs a worker's thread: it accepts and serves until the server stops, and all its
    /// connections have ended.
    ///
    /// # Errors
    ///
    /// Fails if no event loop or timer can be had.
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build_local(LocalOptions::default())
            .context("cannot start an event loop")?;
        let served = runtime.block_on(self.serve());
        // A look at a file system that hangs is not waited for.
        runtime.shutdown_background();
        served
    }

    /// Runs the worker on an event loop that is there.
    ///
    /// # Errors
    ///
    /// Fails if no timer can be had.
    pub(crate) async fn serve(mut self) -> anyhow::Result<()> {
        // On the event loop, which the uplink's timer joins.
        let uplink = Uplink::new(&self.first.assembly.uplink)?;
        let assembly = &self.first.assembly;
        let generation = Generation::new(assembly, self.index, uplink, &self.reclaim, None);
        let overload = self.first.assembly.overload.clone();
        let worker = Rc::new(Worker {
            index: self.index,
            serving: Rc::new(Serving::new(self.index, self.stats, overload, generation)),
            granting: RefCell::default(),
            connections: RefCell::default(),
            arriving: Cell::default(),
            reclaim: self.reclaim,
            emptied: Notify::new(),
        });
        let granting = worker.serving.generation().uplink.start();
        worker.granting.borrow_mut().push(granting);
        let mut acceptors = Vec::new();
        worker.listen(&mut acceptors, self.first).await?;
        let reaper = spawn_local(reap(Rc::clone(&worker)));
        let watch = spawn_local(shedding::watch(Rc::clone(&worker)));
        loop {
            tokio::select! {
                biased;
                // An error means that the server is gone: the same as a cut.
                _ = self.stage.wait_for(|stage| *stage >= Stage::Draining) => break,
                Some(order) = self.orders.recv() => match order {
                    Order::Serve(serve) => worker.obey(&mut acceptors, serve).await,
                    Order::Lend(to) => lend(&acceptors, &to),
                    Order::Accepted { listener, stream, peer } => {
                        let mut all = acceptors.iter();
                        if let Some(own) = all.find(|own| own.id() == listener) {
                            own.take(&worker, stream, peer);
                        }
                    }
                },
            }
        }
        // An order that is given from now on fails at once.
        drop(self.orders);
        for acceptor in acceptors {
            acceptor.stop().await;
        }
        worker.end(self.stage).await;
        reaper.abort();
        watch.abort();
        for upstream in &worker.serving.generation().upstreams {
            upstream.close_idle();
        }
        Ok(())
    }
}

impl Worker {
    /// Serves by another configuration from now on.
    async fn obey(self: &Rc<Self>, acceptors: &mut Vec<Acceptor>, order: Serve) {
        let before = self.serving.generation();
        let uplink = self.uplink(&order.assembly, &before.uplink);
        let (index, reclaim) = (self.index, &self.reclaim);
        let next = Generation::new(&order.assembly, index, uplink, reclaim, Some(&before));
        before.give_way_to(&next);
        next.uplink.look();
        self.serving.serve_by(next);
        if let Err(error) = self.listen(acceptors, order).await {
            tracing::error!("a new listener's socket is not served: {error:#}");
        }
    }

    /// Returns a hold on the uplink of a configuration. If it is another than before,
    /// connections end with their present request, so that soon nothing goes past it.
    fn uplink(self: &Rc<Self>, assembly: &Assembly, before: &Uplink) -> Uplink {
        if before.is_of(&assembly.uplink) {
            return before.clone();
        }
        match Uplink::new(&assembly.uplink) {
            Ok(uplink) => {
                self.each(Connection::drain);
                self.granting.borrow_mut().push(uplink.start());
                uplink
            }
            Err(error) => {
                tracing::error!(%error, "the uplink stays as it is: the kernel has no timer");
                before.clone()
            }
        }
    }

    /// Listens where the configuration says, and nowhere else.
    async fn listen(
        self: &Rc<Self>,
        acceptors: &mut Vec<Acceptor>,
        order: Serve,
    ) -> anyhow::Result<()> {
        let _done = order.done;
        let listeners = &order.assembly.listeners;
        let mut kept = Vec::new();
        for acceptor in std::mem::take(acceptors) {
            let id = acceptor.id();
            match listeners.iter().find(|listener| listener.id == id) {
                Some(listener) => {
                    acceptor.change(listener);
                    kept.push(acceptor);
                }
                None => {
                    acceptor.stop().await;
                    self.each(|connection| {
                        if connection.listener.id == id {
                            connection.drain();
                        }
                    });
                }
            }
        }
        *acceptors = kept;
        for (id, socket) in order.sockets {
            if let Some(listener) = listeners.iter().find(|listener| listener.id == id) {
                acceptors.push(Acceptor::start(self, listener, socket)?);
            }
        }
        Ok(())
    }

    fn each(&self, act: impl Fn(&Connection)) {
        for (_, connection) in &*self.connections.borrow() {
            act(connection);
        }
    }

    /// Drains the connections that are open, and cuts them once the server is cut.
    async fn end(&self, mut stage: watch::Receiver<Stage>) {
        self.each(Connection::drain);
        tokio::select! {
            () = self.is_empty() => {}
            _ = stage.wait_for(|stage| *stage == Stage::Cut) => {
                self.each(|connection| connection.cut(Reason::Shutdown));
                if timeout(CUT_BOUND, self.is_empty()).await.is_err() {
                    tracing::warn!("some connections did not end in time");
                }
            }
        }
    }

    async fn is_empty(&self) {
        while !self.is_empty_now() {
            self.emptied.notified().await;
        }
    }

    fn is_empty_now(&self) -> bool {
        self.connections.borrow().is_empty() && self.arriving.get() == 0
    }

    /// Notes that a connection has ended.
    pub(crate) fn left(&self) {
        if self.is_empty_now() {
            self.emptied.notify_one();
        }
    }
}

/// Hands the listening sockets over; a receiver that is gone has given up.
fn lend(acceptors: &[Acceptor], to: &Sender<io::Result<Lent>>) {
    for acceptor in acceptors {
        let _ = to.send(acceptor.lend());
    }
}

/// Gives memory back to the kernel if connections were parked often since the count was
/// `parks`. That takes a few milliseconds, so it is done while no request is in progress.
fn give_back(stats: &WorkerStats, parks: &mut u64) {
    let now = stats.parks.get();
    if now >= *parks + GIVES_BACK_AFTER && stats.open_requests.get() == 0 {
        *parks = now;
        sys::release_free_memory();
    }
}

async fn reap(worker: Rc<Worker>) {
    let mut ticks = interval(REAP_INTERVAL);
    let mut parks = 0;
    loop {
        tokio::select! {
            _ = ticks.tick() => {
                worker.serving.stats.rounds.increment();
                let now = Instant::now();
                let generation = worker.serving.generation();
                generation.upstreams.iter().for_each(|upstream| upstream.reap(now));
                worker.granting.borrow_mut().retain(|granting| !granting.is_unused());
                give_back(&worker.serving.stats, &mut parks);
            }
            () = worker.reclaim.notified() => {
                let generation = worker.serving.generation();
                generation.upstreams.iter().for_each(|upstream| upstream.give_way());
            }
        }
    }
}
