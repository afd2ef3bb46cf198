//! The catalogue as a whole: which layers are asked, and who learns.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::HeaderMap;
use sprat_config::resolved as config;
use sprat_scheduler::catalogue::{Estimator, EstimatorConfig, KeyHasher};

use super::asked::{Asked, Destination, Lesson};
use super::found::Found;
use super::layer::Layer;
use super::layer_stats::LayerStats;
use super::memory::Memory;
use super::patience::Patience;
use super::sources::Sources;

/// The catalogue of sizes, shared by all workers.
#[derive(Debug)]
pub struct Catalogue {
    pub(super) memory: Arc<Memory>,
    pub(super) sources: Sources,
    estimator: Option<Arc<Mutex<Estimator>>>,
}

impl Catalogue {
    /// Creates the catalogue from the snapshot and the manifests. What cannot be read is left
    /// out, and the log says why. Keys are made with `drawn`, unless the configuration or the
    /// snapshot has a secret.
    ///
    /// # Errors
    ///
    /// The address of a store that makes no sense, or no thread for it.
    pub fn new(config: &config::Config, drawn: KeyHasher) -> anyhow::Result<Self> {
        let own = &config.catalogue;
        let hasher = shared_hasher(own).unwrap_or(drawn);
        let mut memory = Memory::new(config, hasher);
        if let Some(snapshot) = &own.snapshot {
            memory.restore(&snapshot.path, own.shared.is_some());
        }
        Ok(Self {
            // After the snapshot, for it may bring the secret of the keys.
            sources: Sources::prepare(config, memory.hasher, None)?,
            estimator: own.estimator.clone().map(new_estimator),
            memory: Arc::new(memory),
        })
    }

    /// Prepares the same for another configuration; `own` is its present one. What was
    /// learnt stays, unless its keys are made in another way.
    ///
    /// # Errors
    ///
    /// The address of a store that makes no sense, or no thread for it.
    pub fn prepare(&self, own: &config::Config, config: &config::Config) -> anyhow::Result<Self> {
        let (before, after) = (&own.catalogue, &config.catalogue);
        let hasher = shared_hasher(after).unwrap_or(self.memory.hasher);
        let estimator = match before.estimator == after.estimator {
            true => self.estimator.clone(),
            false => after.estimator.clone().map(new_estimator),
        };
        Ok(Self {
            memory: Arc::new(self.memory.prepare(before, config, hasher)),
            sources: Sources::prepare(config, hasher, Some((&self.sources, own)))?,
            estimator,
        })
    }

    /// Returns what a request with these header fields asks for; none if no layer could know it.
    pub fn asked(&self, to: &Destination<'_>, fields: &HeaderMap) -> Option<Box<Asked>> {
        if self.is_off() {
            return None;
        }
        let with_names = self.sources.go_by_names(to.route);
        Some(Box::new(self.memory.asked(to, fields, with_names)))
    }

    /// Returns what a response with these header fields teaches.
    pub fn lesson(&self, asked: &Asked, fields: &HeaderMap) -> Lesson {
        self.memory.lesson(asked, fields)
    }

    /// Returns whether no layer could know anything.
    fn is_off(&self) -> bool {
        self.memory.learnt.is_off() && self.estimator.is_none() && self.sources.are_none()
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
        let asking = self
            .sources
            .ask_around(&self.memory, asked, &patience, stats);
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
        if !self.memory.learnt.is_off() {
            let known = self.memory.look_up(asked);
            stats.count(Layer::Learnt, known.is_some());
            if let Some(known) = known {
                return Some(Found::new(Layer::Learnt, known));
            }
        }
        self.sources.in_memory(asked, &self.memory.hasher, stats)
    }

    /// Remembers the size of a response.
    pub fn learn(&self, lesson: &Lesson, bytes: u64) {
        self.memory.note(lesson, bytes);
        if let Some(estimator) = &self.estimator {
            lock(estimator).observe(&lesson.asked.groups, bytes);
        }
        if let Some(store) = &self.sources.store {
            store.teach(&lesson.asked.resource, bytes, lesson.fields);
        }
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

/// Locks what workers share. After a panic in the middle of a change it is sound: plain numbers.
fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
