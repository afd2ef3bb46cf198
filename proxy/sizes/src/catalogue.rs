//! The catalogue as a whole: the layers that look-ups go through, and those that learn.

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
    /// Creates the catalogue from the snapshot and the manifests. A file that cannot be read is
    /// left out, and the log says why. Keys are made with `drawn`, unless the configuration or the
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

    /// Prepares the catalogue of another configuration; `own` is the present configuration. Learnt
    /// sizes stay, unless their keys are made in another way.
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

    /// Returns the catalogue's view of a request with these header fields; none if no layer could
    /// know its size.
    pub fn asked(&self, to: &Destination<'_>, fields: &HeaderMap) -> Option<Box<Asked>> {
        if self.is_off() {
            return None;
        }
        let with_names = self.sources.go_by_names(to.route);
        Some(Box::new(self.memory.asked(to, fields, with_names)))
    }

    /// Returns the part of a response with these header fields that the catalogue learns from.
    pub fn lesson(&self, asked: &Asked, fields: &HeaderMap) -> Lesson {
        self.memory.lesson(asked, fields)
    }

    /// Returns whether every layer is switched off.
    fn is_off(&self) -> bool {
        self.memory.learnt.is_off() && self.estimator.is_none() && self.sources.are_none()
    }

    /// Looks up the size of the response to a request, and the layer that knows it. Waits for the
    /// layers that `patience` allows.
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

    /// Looks up the size of a response whose head is there, and the layer that knows it. The head
    /// may tell more of the response's kind than the request does.
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

    /// Teaches the size of a response to the layers that learn: the table, the estimator, the
    /// store.
    pub fn learn(&self, lesson: &Lesson, bytes: u64) {
        self.memory.note(lesson, bytes);
        if let Some(estimator) = &self.estimator {
            lock(estimator).observe(&lesson.asked.groups, bytes);
        }
        if let Some(store) = &self.sources.store {
            store.teach(&lesson.asked.resource, bytes, lesson.fields);
        }
    }

    /// Tells the route's probes whether a response had the size that its probe had told.
    pub fn compare_probe(&self, lesson: &Lesson, was_right: bool) {
        if let Some(probes) = &self.sources.probes[lesson.asked.route] {
            probes.compare(&lesson.asked, was_right);
        }
    }
}

/// Returns the hasher of keys that all instances with the same shared store use; none without a
/// store.
fn shared_hasher(config: &config::Catalogue) -> Option<KeyHasher> {
    let shared = config.shared.as_ref()?;
    Some(KeyHasher::from_phrase(shared.phrase.as_bytes()))
}

fn new_estimator(config: EstimatorConfig) -> Arc<Mutex<Estimator>> {
    Arc::new(Mutex::new(Estimator::new(config)))
}

/// Locks a value that workers share. A panic in the middle of a change leaves it sound: it is plain
/// numbers.
fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
