//! The counts of a cluster, which go on when another station takes over.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sprat_config::resolved::Class;
use sprat_scheduler::health::{Ejection, Health};
use sprat_scheduler::srq;
use sprat_scheduler::station::{ClassStats, Station};

/// The counts of what has happened at all stations of a cluster.
#[derive(Debug, Default)]
struct ClusterTotals {
    /// The counters of each class, by its name.
    classes: HashMap<String, ClassStats>,
    incidents: Incidents,
}

/// The counts of what belongs to no class.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Incidents {
    /// The number of repetitions that the budget did not allow.
    pub(super) repeats_denied: u64,
    /// The number of ejections by cause, at [`Ejection::index`].
    pub(super) ejections: [u64; Ejection::ALL.len()],
    /// The number of ejections that the bound on them has prevented.
    pub(super) ejections_prevented: u64,
    /// The counts of SRQ's queues, without their present members.
    pub(super) queues: srq::Stats,
}

impl Incidents {
    fn of(station: &Station, health: &Health) -> Self {
        Self {
            repeats_denied: station.repeats_denied(),
            ejections: health.ejections(),
            ejections_prevented: health.ejections_prevented(),
            queues: (station.queues()).map_or_else(srq::Stats::default, |(own, _)| *own.stats()),
        }
    }

    /// Adds what the counters of a station have grown by since `before`.
    fn grow(&mut self, now: &Self, before: &Self) {
        self.repeats_denied += now.repeats_denied - before.repeats_denied;
        grow_each(&mut self.ejections, &now.ejections, &before.ejections);
        self.ejections_prevented += now.ejections_prevented - before.ejections_prevented;
        let (total, now, before) = (&mut self.queues, &now.queues, &before.queues);
        grow_each(&mut total.done, &now.done, &before.done);
        grow_each(&mut total.moved, &now.moved, &before.moved);
        total.splits += now.splits - before.splits;
        total.merges += now.merges - before.merges;
        total.grown += now.grown - before.grown;
        total.shrunk += now.shrunk - before.shrunk;
    }
}

/// Adds what a station's counters of a class have grown by since `before`.
fn grow(total: &mut ClassStats, now: &ClassStats, before: &ClassStats) {
    total.arrived += now.arrived - before.arrived;
    total.started += now.started - before.started;
    total.waited += now.waited - before.waited;
    grow_each(&mut total.refused, &now.refused, &before.refused);
}

fn grow_each(totals: &mut [u64], now: &[u64], before: &[u64]) {
    for (total, (now, before)) in totals.iter_mut().zip(now.iter().zip(before)) {
        *total += now - before;
    }
}

/// A station's share of its cluster's counts. What the station counts is added to them when they
/// are asked for, and at once after another station has taken over: then this one is not asked
/// any more.
#[derive(Debug)]
pub(super) struct Account {
    cluster: Arc<Mutex<ClusterTotals>>,
    /// The names of the classes, in the order of the station's.
    names: Vec<String>,
    /// The station's counters of the classes, as far as the cluster's have them.
    classes: Vec<ClassStats>,
    /// The station's other counters, as far as the cluster's have them.
    incidents: Incidents,
    is_succeeded: bool,
}

impl Account {
    /// Creates the account of a station that has counted nothing, of a cluster whose counts
    /// those of `before` are, too.
    pub(super) fn new(classes: &[Class], before: Option<&Self>) -> Self {
        let names: Vec<_> = classes.iter().map(|class| class.name.clone()).collect();
        let cluster = before.map_or_else(Arc::default, |before| Arc::clone(&before.cluster));
        let mut totals = lock(&cluster);
        for name in &names {
            totals.classes.entry(name.clone()).or_default();
        }
        drop(totals);
        Self {
            cluster,
            classes: vec![ClassStats::default(); names.len()],
            names,
            incidents: Incidents::default(),
            is_succeeded: false,
        }
    }

    /// Returns the counters of each class, in the order of the station's. Those of the present
    /// are the station's own.
    pub(super) fn stats(&mut self, station: &Station, health: &Health) -> Vec<ClassStats> {
        self.add(station, health);
        let totals = lock(&self.cluster);
        let class = |(name, now): (&String, &ClassStats)| ClassStats {
            waiting: now.waiting,
            running: now.running,
            ..totals.classes.get(name).copied().unwrap_or_default()
        };
        self.names.iter().zip(station.stats()).map(class).collect()
    }

    /// Returns the counts of what belongs to no class.
    pub(super) fn incidents(&mut self, station: &Station, health: &Health) -> Incidents {
        self.add(station, health);
        lock(&self.cluster).incidents
    }

    /// Notes that another station takes over.
    pub(super) fn succeed(&mut self, station: &Station, health: &Health) {
        self.is_succeeded = true;
        self.add(station, health);
    }

    /// Notes that the ejections that this station has taken over were counted by the other.
    pub(super) fn skip(&mut self, health: &Health) {
        self.incidents.ejections = health.ejections();
        self.incidents.ejections_prevented = health.ejections_prevented();
    }

    /// Follows the station after a change, if another has taken over.
    pub(super) fn follow(&mut self, station: &Station, health: &Health) {
        if self.is_succeeded {
            self.add(station, health);
        }
    }

    /// Adds to the cluster's counts what the station has counted since the last time.
    fn add(&mut self, station: &Station, health: &Health) {
        let mut totals = lock(&self.cluster);
        let classes = self.names.iter().zip(station.stats());
        for ((name, now), before) in classes.zip(&mut self.classes) {
            if let Some(total) = totals.classes.get_mut(name) {
                grow(total, now, before);
            }
            *before = *now;
        }
        let now = Incidents::of(station, health);
        totals.incidents.grow(&now, &self.incidents);
        self.incidents = now;
    }
}

/// Locks a cluster's counts, always after the decisions of the station that adds to them.
fn lock(totals: &Mutex<ClusterTotals>) -> MutexGuard<'_, ClusterTotals> {
    totals.lock().unwrap_or_else(PoisonError::into_inner)
}
