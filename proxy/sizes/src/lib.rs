//! The catalogue: what is known of a response's size before it begins.
//!
//! Its layers are asked in the order of [`Layer`], each if it is configured.
//! The decisions are [`sprat_scheduler::catalogue`]'s; here are the locks, the
//! files and the sockets.

#![forbid(unsafe_code)]

mod asked;
#[cfg(test)]
#[path = "../../../scheduler/tests/operations/corpus.rs"]
mod corpus;
mod document_root;
pub mod dump;
mod found;
mod keeper;
mod learnt;
mod manifest;
mod metrics;
pub mod offline;
mod persist;
mod probe;
pub mod snapshot;
mod sources;
mod store;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use sprat_config::resolved as config;
use sprat_net::clock;
use sprat_scheduler::catalogue::{Estimator, EstimatorConfig, KeyHasher};

pub use asked::{Asked, Destination, Lesson};
pub use dump::Dump;
pub use found::{Found, Patience};
pub use keeper::Keeper;
use learnt::Learnt;
pub use metrics::{CATALOGUE, CatalogueNow, CatalogueView, LayerStats};
pub use probe::{Probe, Prober, Probing};
use sources::Sources;
pub use sources::{Layer, inspect};
use sprat_config::identity::Identity;
use tokio::time::Instant;

/// The catalogue of sizes, shared by all workers.
#[derive(Debug)]
pub struct Catalogue {
    learnt: Arc<Learnt>,
    sources: Sources,
    /// The kind that the estimates of each route go by.
    kinds: Vec<usize>,
    estimator: Option<Arc<Mutex<Estimator>>>,
    hasher: KeyHasher,
    vary: Vec<String>,
    clusters: Vec<String>,
    started: Instant,
    /// The moment `started`, in seconds of Unix time.
    started_unix_s: u32,
}

impl Catalogue {
    /// Creates the catalogue from the snapshot and the manifests. What cannot be read is left
    /// out, and the log says why.
    ///
    /// # Errors
    ///
    /// The address of a store that makes no sense, or no thread for it.
    pub fn new(config: &config::Config, random: (u64, u64)) -> anyhow::Result<Self> {
        let own = &config.catalogue;
        let (started, unix) = (Instant::now(), SystemTime::UNIX_EPOCH.elapsed());
        let mut catalogue = Self {
            learnt: Arc::new(Learnt::new(own.max_bytes, own.ttl)),
            sources: Sources::default(),
            kinds: kinds(config),
            estimator: own.estimator.clone().map(new_estimator),
            hasher: shared_hasher(own).unwrap_or(KeyHasher::new(random)),
            vary: own.vary.clone(),
            clusters: names(config),
            started,
            started_unix_s: unix.map_or(0, seconds),
        };
        if let Some(snapshot) = &own.snapshot {
            catalogue.restore(&snapshot.path, own.shared.is_some());
        }
        // After the snapshot, for it may bring the secret of the keys.
        catalogue.sources = Sources::prepare(config, catalogue.hasher, None)?;
        Ok(catalogue)
    }

    /// Prepares the same for another configuration; `own` is its present one. What was
    /// learnt stays, unless its keys are made in another way.
    ///
    /// # Errors
    ///
    /// The address of a store that makes no sense, or no thread for it.
    pub fn prepare(&self, own: &config::Config, config: &config::Config) -> anyhow::Result<Self> {
        let (before, after) = (&own.catalogue, &config.catalogue);
        let hasher = shared_hasher(after).unwrap_or(self.hasher);
        let estimator = match before.estimator == after.estimator {
            true => self.estimator.clone(),
            false => after.estimator.clone().map(new_estimator),
        };
        let same_keys = hasher == self.hasher && before.vary == after.vary;
        let same_table = before.max_bytes == after.max_bytes && before.ttl == after.ttl;
        let learnt = match (same_keys, same_table) {
            (true, true) => Arc::clone(&self.learnt),
            (true, false) => Arc::new(self.moved(Learnt::new(after.max_bytes, after.ttl))),
            (false, _) => {
                tracing::warn!("learnt sizes are forgotten: their keys are made in another way");
                Arc::new(Learnt::new(after.max_bytes, after.ttl))
            }
        };
        Ok(Self {
            learnt,
            sources: Sources::prepare(config, hasher, Some((&self.sources, own)))?,
            kinds: kinds(config),
            estimator,
            hasher,
            vary: after.vary.clone(),
            clusters: names(config),
            started: self.started,
            started_unix_s: self.started_unix_s,
        })
    }

    /// Takes what was learnt into a table of another size.
    fn moved(&self, table: Learnt) -> Learnt {
        let now_s = self.now_s();
        for part in 0..self.learnt.parts() {
            for (packed, asked_again) in self.learnt.entries(part, now_s) {
                table.restore(packed, asked_again, now_s);
            }
        }
        table
    }

    /// Returns the time now, in seconds of Unix time that never go back.
    pub(crate) fn now_s(&self) -> u32 {
        self.started_unix_s
            .saturating_add(seconds(clock::now() - self.started))
    }

    /// Returns whether no layer could know anything.
    fn is_off(&self) -> bool {
        self.learnt.is_off() && self.estimator.is_none() && self.sources.are_none()
    }

    /// Looks up what is known of the size of the response to a request, and which layer knows
    /// it. Waits for the layers that `patience` allows.
    pub async fn lookup_with_source(
        self: &Arc<Self>,
        asked: &Asked,
        patience: Patience<'_>,
        stats: &LayerStats,
    ) -> Option<Found> {
        if let Some(found) = self.in_memory(asked, stats) {
            return Some(found);
        }
        let asking = self.sources.ask_around(self, asked, &patience, stats);
        if let Some(found) = asking.await {
            return Some(found);
        }
        let estimator = self.estimator.as_ref()?;
        let known = lock(estimator).estimate(&asked.groups);
        stats.count(Layer::Estimator, known.is_some());
        known.map(|known| Found::new(Layer::Estimator, known))
    }

    /// Does as [`Catalogue::lookup_with_source`] once a response is there, whose head tells
    /// more of its kind.
    pub async fn lookup_of_response(
        self: &Arc<Self>,
        lesson: &Lesson,
        stats: &LayerStats,
    ) -> Option<Found> {
        self.lookup_with_source(&lesson.asked, Patience::Budgets, stats)
            .await
    }

    fn in_memory(&self, asked: &Asked, stats: &LayerStats) -> Option<Found> {
        if !self.learnt.is_off() {
            let known = self.learnt.look_up(&asked.resource, self.now_s());
            stats.count(Layer::Learnt, known.is_some());
            if let Some(known) = known {
                return Some(Found::new(Layer::Learnt, known));
            }
        }
        self.sources.in_memory(asked, &self.hasher, stats)
    }

    /// Remembers the size of a response.
    pub fn learn(&self, lesson: &Lesson, bytes: u64) {
        self.note(lesson, bytes);
        if let Some(estimator) = &self.estimator {
            lock(estimator).observe(&lesson.asked.groups, bytes);
        }
        if let Some(store) = &self.sources.store {
            store.teach(&lesson.asked.resource, bytes, lesson.fields);
        }
    }

    /// Remembers a size that was told, not seen.
    fn note(&self, lesson: &Lesson, bytes: u64) {
        let resource = &lesson.asked.resource;
        self.learnt
            .learn(resource, bytes, lesson.fields, self.now_s());
    }

    /// Notes whether a response has the size that a probe had told.
    pub fn compare_probe(&self, lesson: &Lesson, was_right: bool) {
        if let Some(probes) = &self.sources.probes[lesson.asked.route] {
            probes.compare(&lesson.asked, was_right);
        }
    }
}

/// Returns the keys' hasher of the instances that share a store: theirs must be the same.
fn shared_hasher(config: &config::Catalogue) -> Option<KeyHasher> {
    let shared = config.shared.as_ref()?;
    Some(KeyHasher::from_phrase(shared.phrase.as_bytes()))
}

fn new_estimator(config: EstimatorConfig) -> Arc<Mutex<Estimator>> {
    Arc::new(Mutex::new(Estimator::new(config)))
}

/// Returns the kind that the estimates of each route go by.
fn kinds(config: &config::Config) -> Vec<usize> {
    let number = |route| Identity::of(route).number();
    config.routes.iter().map(number).collect()
}

/// Returns the names of the clusters.
fn names(config: &config::Config) -> Vec<String> {
    let clusters = config.clusters.iter();
    clusters.map(|cluster| cluster.name.clone()).collect()
}

fn seconds(duration: Duration) -> u32 {
    u32::try_from(duration.as_secs()).unwrap_or(u32::MAX)
}

/// Locks what workers share. After a panic in the middle of a change it is sound: plain numbers.
fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
