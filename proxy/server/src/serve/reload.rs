//! Another configuration in the place of the present one, while requests go on.
//!
//! All of it is made before anything changes: sockets are bound, files read,
//! parts built. Then it is handed to the workers, and requests that begin from
//! then on are served by it. What fails leaves all as it is.

use std::io;
use std::os::fd::AsFd as _;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use sprat_acme::PreparedThread;
use sprat_config::resolved::{Config, Tracing};
use sprat_net::background::Background;
use sprat_net::handover::{Inherited, Lent, LentAdmin};
use sprat_net::listening::ListeningSocket;
use sprat_net::tls;
use sprat_sizes::{Keeper, PreparedThreads};
use sprat_traces::{Exporter, TraceStats, Tracer};
use sprat_uplink::{PreparedUplink, SharedUplink};
use sprat_upstream::{HealthKeeper, PreparedHealth};
use tokio::sync::mpsc::UnboundedSender;

use crate::observe::access_log::{LogWriter, Logs};
use crate::observe::metrics::Metrics;
use crate::serve::changes::Changes;
use crate::serve::worker::{Order, Serve};
use crate::setup::assembly::{Assembly, Outlets};
use crate::setup::listener::{self, Bound};

/// The time that the workers have to take a configuration over, until the log says
/// that one has not.
const TAKEN_WITHIN: Duration = Duration::from_secs(10);

/// A server's present parts, and their exchange for others.
pub(crate) struct Reloader {
    present: Mutex<Option<Present>>,
    /// The lock that the reload under way holds. What takes long is done under this lock,
    /// and not under the other, which a server that stops needs.
    turn: Mutex<()>,
}

/// A check that the server may still be reloaded; its error says why not.
pub(crate) type Serves<'a> = &'a dyn Fn() -> anyhow::Result<()>;

/// The sockets for a process that is to replace this one.
pub(crate) struct LentAll {
    pub(crate) listeners: Vec<Lent>,
    pub(crate) admin: Option<LentAdmin>,
}

/// The parts of a server that are kept while it serves by a configuration.
pub(crate) struct Present {
    pub(crate) assembly: Arc<Assembly>,
    pub(crate) workers: Vec<UnboundedSender<Order>>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) keeper: Keeper,
    /// The thread that looks at the files for TLS, if there are any.
    pub(crate) tls: Option<Background>,
    /// The keeper that looks after the endpoints.
    pub(crate) health: HealthKeeper,
    /// The keeper of the certificates that listeners want issued.
    pub(crate) acme: sprat_acme::Keeper,
    /// A second hold on the admin listener's socket.
    pub(crate) admin: Option<ListeningSocket>,
    /// The log's writers, the present one last: the others end with the last
    /// request that they log.
    pub(crate) logs: Vec<LogWriter>,
    /// The threads that send traces, in the order of the logs' writers.
    pub(crate) exporters: Vec<Exporter>,
}

impl Reloader {
    /// Makes the reloader of a server that has started.
    pub(crate) fn new(present: Present) -> Arc<Self> {
        Arc::new(Self {
            present: Mutex::new(Some(present)),
            turn: Mutex::new(()),
        })
    }

    /// Locks the present parts. A panic in a reload leaves what was there before.
    fn lock(&self) -> MutexGuard<'_, Option<Present>> {
        self.present.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the server serve by another configuration; returns notes on what has to wait
    /// for a restart.
    ///
    /// # Errors
    ///
    /// Fails if something that it names cannot be had: all is as before.
    pub(crate) fn reload(
        &self,
        config: &Config,
        serves: Serves<'_>,
    ) -> anyhow::Result<Vec<String>> {
        let (notes, taken) = self.begin(config, serves)?;
        // The workers are at it; nothing can go wrong any more.
        if taken.recv_timeout(TAKEN_WITHIN) == Err(RecvTimeoutError::Timeout) {
            tracing::warn!("a worker has not yet taken the new configuration");
        }
        Ok(notes)
    }

    /// Begins a reload, and does not wait for its end. The receiver disconnects once every
    /// worker has switched.
    ///
    /// # Errors
    ///
    /// Fails as [`Reloader::reload`] does.
    pub(crate) fn begin(
        &self,
        config: &Config,
        serves: Serves<'_>,
    ) -> anyhow::Result<(Vec<String>, Receiver<()>)> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        serves()?;
        let (own, workers) = {
            let present = self.lock();
            let present = present.as_ref().context("the server is stopping")?;
            (Arc::clone(&present.assembly), present.workers.len())
        };
        let mut config = config.duplicate();
        let changes = Changes::prepare(&mut config, &own.config);
        let next = NextPresent::prepare(&own, config, workers)?;
        drop(own);
        let mut present = self.lock();
        // It may have begun to stop meanwhile.
        serves()?;
        let present = present.as_mut().context("the server is stopping")?;
        let ready = present.prepare(next)?;
        Ok((
            changes.until_restart().to_vec(),
            present.commit(ready, &changes),
        ))
    }

    /// Returns the number of the listener at this place in the configuration, which its
    /// sockets go by.
    pub(crate) fn listener(&self, index: usize) -> Option<u64> {
        let present = self.lock();
        let listeners = &present.as_ref()?.assembly.listeners;
        listeners.get(index).map(|listener| listener.id)
    }

    /// Returns the uplink; nothing once the server has stopped.
    pub(crate) fn uplink(&self) -> Option<SharedUplink> {
        let present = self.lock();
        present.as_ref().map(|own| own.assembly.uplink.clone())
    }

    /// Gives the worker with this number an order.
    ///
    /// # Errors
    ///
    /// Fails if the worker has ended, or if there is none.
    pub(crate) fn order(&self, worker: usize, order: Order) -> anyhow::Result<()> {
        let present = self.lock();
        let worker = present
            .as_ref()
            .and_then(|present| present.workers.get(worker));
        let sent = worker.map(|worker| worker.send(order));
        sent.and_then(Result::ok).context("the worker has ended")
    }

    /// Returns how long a drain may take.
    pub(crate) fn drain_timeout(&self) -> Duration {
        let present = self.lock();
        let bound = |present: &Present| present.assembly.config.runtime.drain_timeout;
        present.as_ref().map_or(Duration::ZERO, bound)
    }

    /// Returns all listening sockets, and the admin listener's, for a process that
    /// is to replace this one. What was learnt is saved for it.
    ///
    /// # Errors
    ///
    /// Fails if no descriptors can be had, or if the server is stopping.
    pub(crate) fn lend(&self) -> anyhow::Result<LentAll> {
        let present = self.lock();
        let present = present.as_ref().context("the server is stopping")?;
        present.keeper.save();
        let (to, lent) = channel();
        for worker in &present.workers {
            let order = Order::Lend(to.clone());
            worker.send(order).ok().context("a worker is gone")?;
        }
        drop(to);
        let mut listeners = Vec::new();
        while let Ok(lent) = lent.recv_timeout(TAKEN_WITHIN) {
            listeners.push(lent.context("a listening socket")?);
        }
        let lend = |own: &ListeningSocket| {
            io::Result::Ok(LentAdmin {
                socket: own.as_fd().try_clone_to_owned()?,
                has_file: own.file().is_some(),
            })
        };
        let admin = present.admin.as_ref().map(lend);
        let admin = admin.transpose().context("the admin listener's socket")?;
        Ok(LentAll { listeners, admin })
    }

    /// Leaves the rest to another process, which has taken over: that saves what is learnt
    /// from now on, and the files of Unix sockets are its own.
    pub(crate) fn leave(&self) {
        if let Some(present) = self.lock().as_ref() {
            present.keeper.leave_saving();
            let listeners = present.assembly.listeners.iter();
            let files = listeners.filter_map(|own| own.shared.file());
            files.for_each(|file| file.leave());
            let admin = present.admin.as_ref().and_then(ListeningSocket::file);
            admin.into_iter().for_each(|file| file.leave());
        }
    }

    /// Makes the access logs open their files anew.
    pub(crate) fn reopen_log(&self) {
        if let Some(present) = self.lock().as_ref() {
            present.logs.iter().for_each(LogWriter::reopen);
        }
    }

    /// Ends all of the server but the workers, which have ended.
    pub(crate) fn close(&self) {
        let Some(present) = self.lock().take() else {
            return;
        };
        // The logs' writers end once nothing is left that can send them lines.
        drop((present.assembly, present.workers));
        present.logs.into_iter().for_each(LogWriter::join);
        for exporter in present.exporters {
            if let Err(error) = exporter.join() {
                tracing::error!(%error, "traces may be lost");
            }
        }
        present.keeper.join();
        present.tls.into_iter().for_each(Background::join);
        present.health.join();
        present.acme.join();
    }
}

/// Another configuration, made ready to be served by.
struct NextPresent {
    assembly: Arc<Assembly>,
    /// The writers of the access logs, if they are others.
    writers: Vec<LogWriter>,
    /// The thread that sends traces, if they go elsewhere.
    exporter: Option<Exporter>,
    /// The sockets of new listeners, by worker.
    sockets: Vec<Vec<Bound>>,
    tls: Option<Background>,
}

impl NextPresent {
    /// Makes a configuration ready for this number of workers. Nothing changes yet for
    /// requests that are served.
    fn prepare(own: &Assembly, config: Config, workers: usize) -> anyhow::Result<Self> {
        let (log, writers) = match &config.access_log {
            same if *same == own.config.access_log => (own.log.clone(), Vec::new()),
            logs => Logs::start(logs)?,
        };
        let trace_stats = Arc::clone(&own.trace_stats);
        let (tracer, exporter) = match &config.tracing {
            same if *same == own.config.tracing => (own.tracer.clone(), None),
            other => start_tracer(other.as_ref(), &trace_stats)?,
        };
        let outlets = Outlets {
            log,
            tracer,
            trace_stats,
        };
        let assembly = Arc::new(own.prepare(config, outlets)?);
        let known = |id| own.listeners.iter().any(|listener| listener.id == id);
        let fresh = assembly.listeners.iter();
        let fresh: Vec<_> = fresh
            .filter(|listener| !known(listener.id))
            .cloned()
            .collect();
        let mut inherited = Inherited::default();
        let sockets = listener::bind_all(&fresh, workers, &mut inherited, &own.listeners)?;
        let tls = tls::watch(&assembly.tls(), &assembly.cluster_tls())
            .context("cannot start a thread")?;
        Ok(Self {
            assembly,
            writers,
            exporter,
            sockets,
            tls,
        })
    }
}

/// Starts to send traces, if there are to be any.
///
/// # Errors
///
/// Fails if the collector's authorities cannot be read, or if no thread can be had.
pub(crate) fn start_tracer(
    config: Option<&Tracing>,
    stats: &Arc<TraceStats>,
) -> anyhow::Result<(Option<Tracer>, Option<Exporter>)> {
    let started = config.map(|own| Tracer::start(own, stats)).transpose();
    Ok(started.context("cannot send traces")?.unzip())
}

/// Another configuration, with all that the present parts need for it.
struct Ready {
    next: NextPresent,
    uplink: PreparedUplink,
    health: PreparedHealth,
    acme: PreparedThread,
    sizes: PreparedThreads,
}

impl Present {
    /// Prepares the threads that the present parts need for another configuration.
    ///
    /// # Errors
    ///
    /// Fails if a thread cannot be had; all is as before.
    fn prepare(&self, next: NextPresent) -> anyhow::Result<Ready> {
        let (assembly, config) = (&next.assembly, &next.assembly.config);
        let uplink = assembly.uplink.prepare(&config.uplink, &config.classes);
        let health = self.health.prepare(&assembly.clusters);
        let acme = self.acme.prepare(config);
        Ok(Ready {
            uplink: uplink.context("cannot change the uplink")?,
            health: health.context("cannot start a thread")?,
            acme: acme.context("cannot start a thread")?,
            sizes: self
                .keeper
                .prepare(&assembly.catalogue, &config.catalogue)?,
            next,
        })
    }

    /// Commits each part to another configuration, and hands that to the workers. The receiver
    /// that it returns disconnects once they have all taken it.
    fn commit(&mut self, ready: Ready, changes: &Changes) -> Receiver<()> {
        let NextPresent {
            assembly,
            writers,
            exporter,
            sockets,
            tls,
        } = ready.next;
        self.keeper.commit(&assembly.catalogue, ready.sizes);
        tls::commit(&assembly.tls(), &assembly.cluster_tls());
        assembly.uplink.commit(ready.uplink);
        // Before the workers begin with them, the stations take over.
        self.metrics.commit(assembly.sources());
        let (done, taken) = channel();
        for (worker, sockets) in self.workers.iter().zip(sockets) {
            let order = Order::Serve(Serve {
                assembly: Arc::clone(&assembly),
                sockets,
                done: done.clone(),
            });
            // A worker that drains takes no order any more.
            if worker.send(order).is_err() {
                tracing::warn!("a worker has ended, or begun to");
            }
        }
        self.health.commit(&assembly.clusters, ready.health);
        self.acme.commit(&assembly.config, ready.acme);
        if let Some(before) = std::mem::replace(&mut self.tls, tls) {
            before.join();
        }
        assembly.buffers.commit(assembly.config.buffer);
        listener::commit(&self.assembly.listeners, &assembly.listeners);
        changes.tell();
        self.assembly = assembly;
        self.logs.retain(|log| !log.is_over());
        self.logs.extend(writers);
        self.exporters.retain(|own| !own.is_over());
        self.exporters.extend(exporter);
        taken
    }
}
