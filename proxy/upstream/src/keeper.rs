//! A thread that looks after the clusters' endpoints: it takes ejected ones back, checks those
//! that are to be checked, and looks at files that list endpoints. There is one for all workers
//! and all configurations.

use std::io;
use std::sync::{Arc, Weak};
use std::thread::Builder as Thread;
use std::time::Duration;

use sprat_net::background::Background;
use sprat_net::network;
use tokio::runtime::Builder;
use tokio::sync::{oneshot, watch};
use tokio::task::{JoinSet, LocalSet, spawn_local};
use tokio::time::{Instant, sleep_until};

use super::check::Checked;
use super::relist;
use super::shared::SharedCluster;
use super::station::SharedStation;

/// The longest time between two looks at a cluster that has nothing due.
const LOOK_AGAIN: Duration = Duration::from_secs(10);

/// The keeper of the endpoints of all clusters that are served at present.
pub struct Keeper {
    present: watch::Sender<Clusters>,
    /// Whether the thread, or the task of a simulation, has been started.
    has_begun: bool,
    /// The thread; none in a simulation, where it is a task of the event loop whose time it has.
    thread: Option<Background>,
}

/// The thread that is to look after endpoints, if one has to be started. It waits for its
/// clusters, and ends if this is dropped.
pub enum PreparedHealth {
    /// The present thread will do, or none is needed.
    AsItIs,
    /// A thread that has been started.
    Thread(Background),
    /// A task is to be started, in a simulation.
    Task,
}

type Clusters = Vec<Arc<SharedCluster>>;

impl Keeper {
    /// Starts to look after these clusters.
    ///
    /// # Errors
    ///
    /// The thread cannot be started.
    pub fn start(clusters: &[Arc<SharedCluster>]) -> io::Result<Self> {
        let mut keeper = Self {
            present: watch::Sender::new(Vec::new()),
            has_begun: false,
            thread: None,
        };
        let prepared = keeper.prepare(clusters)?;
        keeper.commit(clusters, prepared);
        Ok(keeper)
    }

    /// Prepares a thread, if these clusters need one and there is none.
    ///
    /// # Errors
    ///
    /// The thread cannot be started.
    pub fn prepare(&self, clusters: &[Arc<SharedCluster>]) -> io::Result<PreparedHealth> {
        if self.has_begun || !clusters.iter().any(|own| needs_keeping(own)) {
            return Ok(PreparedHealth::AsItIs);
        }
        if network::is_simulated() {
            return Ok(PreparedHealth::Task);
        }
        let present = self.present.subscribe();
        let (end, ended) = oneshot::channel();
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let work = async move {
            tokio::select! {
                () = keep(present) => {}
                // An error is the end, too.
                _ = ended => {}
            }
        };
        let thread = Thread::new().name("health".to_owned());
        let thread = thread.spawn(move || LocalSet::new().block_on(&runtime, work))?;
        Ok(PreparedHealth::Thread(Background::of(thread, end)))
    }

    /// Looks after these clusters from now on. Those that were looked after before are not
    /// disturbed; those that are no longer among them are left alone.
    pub fn commit(&mut self, clusters: &[Arc<SharedCluster>], prepared: PreparedHealth) {
        self.has_begun |= !matches!(prepared, PreparedHealth::AsItIs);
        match prepared {
            PreparedHealth::AsItIs => {}
            PreparedHealth::Thread(thread) => self.thread = Some(thread),
            PreparedHealth::Task => drop(spawn_local(keep(self.present.subscribe()))),
        }
        self.present.send_replace(clusters.to_vec());
    }

    /// Ends the thread, and waits for its end.
    pub fn join(self) {
        self.thread.into_iter().for_each(Background::join);
    }
}

fn needs_keeping(cluster: &SharedCluster) -> bool {
    let resilience = &cluster.config.resilience;
    let is_judged = resilience.outlier_detection.is_some() || resilience.health_checks.is_some();
    is_judged || cluster.config.endpoints_file.is_some()
}

/// A cluster that is looked after.
struct Kept {
    cluster: Arc<SharedCluster>,
    /// The tasks that check the cluster's endpoints, which end when this is dropped.
    _checks: JoinSet<()>,
    /// The task that looks at the cluster's file of endpoints, which ends when this is dropped.
    _file: JoinSet<()>,
}

/// Looks after the present clusters, whichever they are, until the keeper is gone.
async fn keep(mut present: watch::Receiver<Clusters>) {
    let mut kept: Vec<Kept> = Vec::new();
    // A station may outlive its configuration, as long as requests wait there.
    let mut tended: Vec<Weak<SharedStation>> = Vec::new();
    loop {
        let clusters = present.borrow_and_update().clone();
        let known = |all: &[Kept], one| all.iter().any(|kept| Arc::ptr_eq(&kept.cluster, one));
        kept.retain(|own| clusters.iter().any(|one| Arc::ptr_eq(one, &own.cluster)));
        tended.retain(|station| station.strong_count() > 0);
        for cluster in clusters.iter().filter(|one| needs_keeping(one)) {
            if !known(&kept, cluster) {
                kept.push(Kept {
                    cluster: Arc::clone(cluster),
                    _checks: Checked::all(cluster),
                    _file: follow_file(cluster),
                });
            }
            let station = Arc::downgrade(&cluster.station);
            if !tended.iter().any(|own| own.ptr_eq(&station)) {
                drop(spawn_local(tend(station.clone())));
                tended.push(station);
            }
        }
        drop(clusters);
        if present.changed().await.is_err() {
            return;
        }
    }
}

/// Starts the task that looks at the file with a cluster's endpoints, if there is one.
fn follow_file(cluster: &Arc<SharedCluster>) -> JoinSet<()> {
    let mut task = JoinSet::new();
    if let Some(file) = &cluster.config.endpoints_file {
        task.spawn_local(relist::follow(Arc::clone(cluster), file.clone()));
    }
    task
}

/// Does what is due for a station's endpoints, until the station is gone.
async fn tend(station: Weak<SharedStation>) {
    loop {
        let Some((next, changed)) = station
            .upgrade()
            .map(|station| (station.tend(), Arc::clone(&station.changed)))
        else {
            return;
        };
        let latest = Instant::now() + LOOK_AGAIN;
        let next = next.map_or(latest, |next| next.min(latest));
        tokio::select! {
            () = sleep_until(next) => {}
            () = changed.notified() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use sprat_config::resolved::Config;
    use tokio::runtime::LocalOptions;

    use super::*;
    use crate::dns::Names;

    /// Makes a cluster of two endpoints that are judged, and checked with these settings.
    fn clusters(checks: &str, before: &[Arc<SharedCluster>]) -> Vec<Arc<SharedCluster>> {
        let text = format!(
            "version: 1\nlisteners: [{{address: 127.0.0.1:0}}]\nroutes: [{{cluster: farm}}]\n\
             clusters:\n  farm:\n    endpoints: [127.0.0.1:1, 127.0.0.1:2]\n    \
             outlier_detection: {{}}\n    health_checks: {{tcp_health_check: {{}}, \
             {checks}}}\n"
        );
        let loaded = sprat_config::parse(&text, "test.yaml", &|_| None);
        let config: Config = loaded.unwrap().config;
        let before = before.first().map(|own| &**own);
        let cluster = SharedCluster::after(&config.clusters[0], &config, &Names::default(), before);
        vec![Arc::new(cluster.unwrap())]
    }

    #[test]
    fn reloads_leave_no_task_behind() {
        let mut runtime = Builder::new_current_thread();
        let runtime = runtime.enable_all().build_local(LocalOptions::default());
        runtime.unwrap().block_on(reload_often());
    }

    async fn reload_often() {
        let tasks = || {
            tokio::runtime::Handle::current()
                .metrics()
                .num_alive_tasks()
        };
        let settled = async |expected: usize| {
            for _ in 0..1000 {
                tokio::task::yield_now().await;
            }
            assert_eq!(tasks(), expected);
        };
        let kinds = ["interval: 1h", "interval: 2h", "unhealthy_threshold: 7"];
        let mut present = clusters(kinds[0], &[]);
        let (sender, receiver) = watch::channel(present.clone());
        spawn_local(keep(receiver));
        // The keeper, a station, a cluster, two endpoints.
        settled(5).await;
        for reload in 0..20 {
            // The last has another station, too.
            present = clusters(kinds[reload % 3], &present);
            sender.send_replace(present.clone());
            settled(5).await;
        }
        sender.send_replace(Vec::new());
        drop(present);
        settled(1).await;
        drop(sender);
        settled(0).await;
    }
}
