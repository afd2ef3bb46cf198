//! A server and its parts, put together: sockets, workers, the admin listener, shutdown.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread::JoinHandle;

use anyhow::Context as _;
use sprat_config::resolved::{Config, ListenAddress};
use sprat_net::handover::Inherited;
use sprat_net::listening::{FileRights, ListeningSocket};
use sprat_net::tls;
use sprat_sizes::Keeper;
use sprat_uplink::SharedUplink;
use sprat_upstream::HealthKeeper;
use tokio::runtime::Builder;
use tokio::sync::{mpsc, watch};

use crate::observe::access_log::Logs;
use crate::observe::admin::{Desk, Rights};
use crate::observe::metrics::{Exposition, Metrics};
use crate::observe::reloads::Reloads;
use crate::observe::stage::Stage;
use crate::observe::stats::{Heartbeat, WorkerStats};
use crate::serve::reload::{LentAll, Present, Reloader, start_tracer};
use crate::serve::worker::{Order, Seed, Serve};
use crate::setup::assembly::{Assembly, Outlets};
use crate::setup::listener::{self, Bound, ListenerState, bind};

/// A server in operation. Dropped, it goes on; [`Server::join`] waits for its
/// end, which [`Control::drain`] or [`Control::cut`] brings about.
pub struct Server {
    places: Vec<ListenAddress>,
    admin: Option<ListenAddress>,
    control: Control,
    workers: Vec<JoinHandle<anyhow::Result<()>>>,
    admin_thread: Option<JoinHandle<()>>,
    metrics: Arc<Metrics>,
}

/// A handle by which any thread tells a server to stop, or to serve by another configuration.
#[derive(Clone)]
pub struct Control {
    stage: Arc<watch::Sender<Stage>>,
    reloader: Arc<Reloader>,
    reloads: Arc<Reloads>,
    workers: Arc<[Arc<WorkerStats>]>,
}

impl Control {
    /// Drains the server: it stops accepting, and what is open goes on until it is done, or cut.
    pub fn drain(&self) {
        self.stage.send_if_modified(|stage| {
            let begins = *stage == Stage::Serving;
            if begins {
                *stage = Stage::Draining;
            }
            begins
        });
    }

    /// Waits until the server has begun to stop.
    pub(crate) async fn drained(&self) {
        let mut stage = self.stage.subscribe();
        let begun = stage.wait_for(|stage| *stage >= Stage::Draining).await;
        if begun.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Returns the listening sockets, for a process that is to replace this one.
    pub(crate) fn lend(&self) -> anyhow::Result<LentAll> {
        self.reloader.lend()
    }

    /// Drains the server, since another process has taken over.
    pub(crate) fn replaced(&self) {
        self.reloader.leave();
        self.stage.send_if_modified(|stage| {
            let begins = *stage < Stage::Replaced;
            if begins {
                *stage = Stage::Replaced;
            }
            begins
        });
    }

    /// Cuts the server: ends everything at once, what is under way too.
    pub fn cut(&self) {
        self.stage.send_replace(Stage::Cut);
    }

    /// Opens the access log's file anew before the next line.
    pub fn reopen_log(&self) {
        self.reloader.reopen_log();
    }

    /// Makes the server serve requests that begin from now on by another configuration;
    /// returns notes on what has to wait for a restart.
    ///
    /// # Errors
    ///
    /// Fails if something that it names cannot be had: all is as before.
    pub fn reload(&self, config: &Config) -> anyhow::Result<Vec<String>> {
        let outcome = self.try_reload(config);
        let noted = outcome.as_ref().map(drop);
        self.note_reload(noted.map_err(|error| format!("{error:#}")));
        outcome
    }

    /// Reloads as [`Control::reload`] does, but notes no outcome.
    pub(crate) fn try_reload(&self, config: &Config) -> anyhow::Result<Vec<String>> {
        self.reloader.reload(config, &|| self.is_serving())
    }

    /// Checks that the server has not begun to stop. A socket that is bound for a server
    /// that stops is not accepted from, and no other process can have it.
    pub(crate) fn is_serving(&self) -> anyhow::Result<()> {
        let serves = *self.stage.borrow() == Stage::Serving;
        anyhow::ensure!(serves, "the server is stopping");
        Ok(())
    }

    /// Begins a reload as [`Control::reload`] does, but neither waits for the
    /// workers nor notes the outcome.
    pub(crate) fn begin_reload(&self, config: &Config) -> anyhow::Result<()> {
        let begun = self.reloader.begin(config, &|| self.is_serving());
        begun.map(drop)
    }

    /// Returns the bytes on the wire that the uplink was debited for, as
    /// [`crate::serve::simulation::Simulated::debited_wire_bytes`] does.
    pub(crate) fn debited_wire_bytes(&self) -> Option<u64> {
        match self.reloader.uplink()? {
            SharedUplink::Paced(link) => Some(link.debited_wire_bytes()),
            SharedUplink::Unlimited | SharedUplink::Kernel(_) => None,
        }
    }

    /// Returns the number of the listener at this place in the configuration, which its
    /// sockets go by.
    pub(crate) fn listener(&self, index: usize) -> Option<u64> {
        self.reloader.listener(index)
    }

    /// Gives the worker with this number an order.
    pub(crate) fn order(&self, worker: usize, order: Order) -> anyhow::Result<()> {
        self.reloader.order(worker, order)
    }

    /// Returns the watch that tells, as often as it is asked, whether the workers are alive.
    pub(crate) fn heartbeat(&self) -> Heartbeat {
        Heartbeat::new(Arc::clone(&self.workers))
    }

    /// Notes that a reload has ended, with what was wrong if it failed: for the
    /// metrics and the admin listener.
    pub(crate) fn note_reload(&self, outcome: Result<(), String>) {
        self.reloads.note(outcome);
    }
}

impl Server {
    /// Binds every socket and starts every thread.
    ///
    /// # Errors
    ///
    /// Fails if a socket cannot be bound, a log cannot be opened, or a thread cannot be
    /// started: with the address or path concerned.
    pub fn start(config: &Config) -> anyhow::Result<Self> {
        Self::start_with(config, &mut Inherited::default())
    }

    /// Starts a server as [`Server::start`] does, on sockets that are there already
    /// as far as they are wanted.
    ///
    /// # Errors
    ///
    /// Fails as [`Server::start`] does.
    pub fn start_with(config: &Config, inherited: &mut Inherited) -> anyhow::Result<Self> {
        let Parts {
            seeds,
            control,
            metrics,
            places,
            admin: socket,
        } = Parts::build(config, inherited)?;
        let workers = seeds.into_iter().map(|seed| {
            let thread = std::thread::Builder::new().name(format!("worker-{}", seed.index));
            let started = thread.spawn(|| seed.run());
            started.context("cannot start a worker")
        });
        let workers = workers.collect::<Result<_, _>>()?;
        let admin = socket.as_ref().map(ListeningSocket::address);
        let admin = admin.transpose()?;
        let admin_thread = match socket {
            Some(socket) => {
                let rights = Rights::of(config.admin.as_ref(), &socket.address()?)?;
                let (stage, drained) = (control.stage.subscribe(), control.clone());
                let drain = Box::new(move || drained.drain());
                let desk = Desk::new(&metrics, stage, rights, drain);
                let thread = std::thread::Builder::new().name("admin".to_owned());
                Some(thread.spawn(move || desk.run(socket))?)
            }
            None => None,
        };
        Ok(Self {
            places,
            admin,
            control,
            workers,
            admin_thread,
            metrics,
        })
    }

    /// Returns where the listeners stood at the start, in the order of the
    /// configuration; with the ports that the kernel chose where none was given.
    pub fn places(&self) -> &[ListenAddress] {
        &self.places
    }

    /// Returns the addresses where listeners stood at the start, of those on IP addresses.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.places.iter().filter_map(ListenAddress::ip).collect()
    }

    /// Returns where the admin listener stands, if there is one.
    pub fn admin_place(&self) -> Option<&ListenAddress> {
        self.admin.as_ref()
    }

    /// Returns the IP address where the admin listener stands, if it stands on one.
    pub fn admin_address(&self) -> Option<SocketAddr> {
        self.admin.as_ref()?.ip()
    }

    /// Returns a handle for other threads.
    pub fn control(&self) -> Control {
        self.control.clone()
    }

    /// Returns the metrics in Prometheus' text format.
    pub fn metrics(&self) -> String {
        self.metrics.text(Exposition::Text)
    }

    /// Waits for the server's end; once it drains, for the configured time at most.
    ///
    /// # Errors
    ///
    /// Fails if a worker failed or panicked.
    pub fn join(self) -> anyhow::Result<()> {
        let control = self.control.clone();
        let guard = std::thread::Builder::new()
            .name("drain".to_owned())
            .spawn(move || bound_drain(&control))?;
        let mut failure = None;
        for worker in self.workers {
            let ended = worker
                .join()
                .unwrap_or_else(|_| Err(anyhow::anyhow!("a worker panicked; see the log")));
            failure = failure.or(ended.err());
        }
        // Whatever ended the workers, nothing else goes on.
        self.control.cut();
        if guard.join().is_err() {
            tracing::error!("the drain timer panicked");
        }
        if let Some(thread) = self.admin_thread
            && thread.join().is_err()
        {
            tracing::error!("the admin listener panicked");
        }
        self.control.reloader.close();
        failure.map_or(Ok(()), Err)
    }
}

/// Returns the places that listeners stand at.
fn places(
    listeners: &[Arc<ListenerState>],
    sockets: &[Vec<Bound>],
) -> anyhow::Result<Vec<ListenAddress>> {
    let address = |listener: &Arc<ListenerState>| {
        let mut bound = sockets.iter().flatten();
        let (_, socket) = bound
            .find(|(id, _)| *id == listener.id)
            .context("a listener has a socket")?;
        Ok(socket.address()?)
    };
    listeners.iter().map(address).collect()
}

/// Takes over or binds the admin listener's socket, if there is to be one.
fn admin_socket(
    config: &Config,
    inherited: &mut Inherited,
) -> anyhow::Result<Option<ListeningSocket>> {
    let there = inherited.take_admin();
    let Some(admin) = &config.admin else {
        return Ok(None);
    };
    let rights = || FileRights::of(admin.mode, &admin.owner);
    if let Some(there) = there {
        listener::renew_rights(&there, "admin", rights());
        return Ok(Some(there));
    }
    let bound = match &admin.address {
        ListenAddress::Ip(address) => bind(*address, false),
        ListenAddress::Unix(path) => {
            rights().and_then(|rights| ListeningSocket::unix(path, rights))
        }
    };
    let bound = bound.with_context(|| format!("cannot listen on {} (admin)", admin.address))?;
    Ok(Some(bound))
}

/// All of a server but its threads.
pub(crate) struct Parts {
    /// The seeds that the workers start with.
    pub(crate) seeds: Vec<Seed>,
    pub(crate) control: Control,
    pub(crate) metrics: Arc<Metrics>,
    places: Vec<ListenAddress>,
    /// The admin listener's socket.
    admin: Option<ListeningSocket>,
}

impl Parts {
    /// Builds the parts of a server, and binds every socket that is not inherited.
    ///
    /// # Errors
    ///
    /// Fails as [`Server::start`] does.
    pub(crate) fn build(config: &Config, inherited: &mut Inherited) -> anyhow::Result<Self> {
        let stage = Arc::new(watch::channel(Stage::Serving).0);
        let (log, writers) = Logs::start(&config.access_log)?;
        let trace_stats = Arc::default();
        let (tracer, exporter) = start_tracer(config.tracing.as_ref(), &trace_stats)?;
        let outlets = Outlets {
            log,
            tracer,
            trace_stats,
        };
        let assembly = Arc::new(Assembly::new(config, outlets)?);
        let count = assembly.stats.len();
        let sockets = listener::bind_all(&assembly.listeners, count, inherited, &[])?;
        let places = places(&assembly.listeners, &sockets)?;
        let admin = admin_socket(config, inherited)?;
        let (seeds, orders) = seeds(&assembly, sockets, &stage);
        let stats: Vec<_> = seeds.iter().map(|seed| Arc::clone(&seed.stats)).collect();
        let reloads = Arc::new(Reloads::default());
        let workers = Arc::from(stats.as_slice());
        let metrics = Arc::new(Metrics::new(stats, &reloads, assembly.sources()));
        let reloader = Reloader::new(Present {
            keeper: Keeper::start(&assembly.catalogue, &config.catalogue)?,
            tls: tls::watch(&assembly.tls(), &assembly.cluster_tls())?,
            health: HealthKeeper::start(&assembly.clusters)?,
            acme: sprat_acme::Keeper::start(config, &assembly.acme)?,
            assembly,
            workers: orders,
            metrics: Arc::clone(&metrics),
            admin: admin.as_ref().map(ListeningSocket::try_clone).transpose()?,
            logs: writers,
            exporters: exporter.into_iter().collect(),
        });
        let control = Control {
            stage,
            reloader,
            reloads,
            workers,
        };
        Ok(Self {
            seeds,
            control,
            metrics,
            places,
            admin,
        })
    }
}

/// Makes the seed of a worker, and the sender of its orders, for each row of
/// sockets.
fn seeds(
    assembly: &Arc<Assembly>,
    sockets: Vec<Vec<Bound>>,
    stage: &watch::Sender<Stage>,
) -> (Vec<Seed>, Vec<mpsc::UnboundedSender<Order>>) {
    let reclaim = Arc::default();
    let seed = |(index, sockets)| {
        let (sender, receiver) = mpsc::unbounded_channel();
        let seed = Seed {
            index,
            stats: Arc::default(),
            reclaim: Arc::clone(&reclaim),
            first: Serve {
                assembly: Arc::clone(assembly),
                sockets,
                done: channel().0,
            },
            orders: receiver,
            stage: stage.subscribe(),
        };
        (seed, sender)
    };
    sockets.into_iter().enumerate().map(seed).unzip()
}

/// Cuts what is still open when the bound on a drain has passed.
fn bound_drain(control: &Control) {
    let stage = &control.stage;
    let runtime = Builder::new_current_thread().enable_time().build();
    let Ok(runtime) = runtime else {
        tracing::error!("no timer for the drain: it is unbounded");
        return;
    };
    let mut seen = stage.subscribe();
    runtime.block_on(async {
        // The sender is alive: it is borrowed here.
        let _ = seen.wait_for(|stage| *stage >= Stage::Draining).await;
        let bound = control.reloader.drain_timeout();
        let cut = seen.wait_for(|stage| *stage == Stage::Cut);
        if tokio::time::timeout(bound, cut).await.is_err() {
            stage.send_replace(Stage::Cut);
        }
    });
}
