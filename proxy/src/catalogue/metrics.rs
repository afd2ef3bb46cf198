//! What the catalogue counts, and how it is told.

use std::fmt;
use std::sync::Arc;

use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;
use serde::Serialize;

use super::{Catalogue, Layer};
use crate::metrics::{count, gauge};
use crate::stats::{Counter, WorkerStats};

/// How one layer's look-ups ended.
#[derive(Debug, Default)]
struct Outcomes {
    hits: Counter,
    misses: Counter,
}

/// A worker's look-ups, by [`Layer::index`].
#[derive(Debug, Default)]
pub(crate) struct LayerStats([Outcomes; Layer::ALL.len()]);

impl LayerStats {
    /// A layer was asked; by the owning worker only.
    pub(super) fn count(&self, layer: Layer, hit: bool) {
        let outcomes = &self.0[layer.index()];
        match hit {
            true => outcomes.hits.increment(),
            false => outcomes.misses.increment(),
        }
    }
}

/// The catalogue's part of the metrics.
#[derive(Debug)]
pub(crate) struct CatalogueView {
    catalogue: Arc<Catalogue>,
    workers: Vec<Arc<WorkerStats>>,
}

/// What the admin listener tells of the catalogue.
#[derive(Debug, Serialize)]
struct Summary {
    entries: usize,
    capacity: usize,
    bytes: usize,
    insertions: u64,
    evictions: u64,
    expired: u64,
    layers: Vec<LayerSummary>,
}

#[derive(Debug, Serialize)]
struct LayerSummary {
    layer: &'static str,
    hits: u64,
    misses: u64,
}

impl CatalogueView {
    pub(crate) fn new(catalogue: &Arc<Catalogue>, workers: &[Arc<WorkerStats>]) -> Self {
        Self {
            catalogue: Arc::clone(catalogue),
            workers: workers.to_vec(),
        }
    }

    /// The catalogue.
    pub(crate) fn catalogue(&self) -> &Arc<Catalogue> {
        &self.catalogue
    }

    fn sum(&self, layer: Layer, of: impl Fn(&Outcomes) -> &Counter) -> u64 {
        let workers = self.workers.iter();
        workers
            .map(|worker| of(&worker.catalogue.0[layer.index()]).get())
            .sum()
    }

    /// As JSON.
    pub(crate) fn json(&self) -> String {
        let stats = self.catalogue.learnt.stats();
        let (bytes, capacity) = self.catalogue.learnt.bytes_and_capacity();
        let layer = |layer: Layer| LayerSummary {
            layer: layer.name(),
            hits: self.sum(layer, |outcomes| &outcomes.hits),
            misses: self.sum(layer, |outcomes| &outcomes.misses),
        };
        let summary = Summary {
            entries: stats.entries,
            capacity,
            bytes,
            insertions: stats.insertions,
            evictions: stats.evictions,
            expired: stats.expired,
            layers: Layer::ALL.map(layer).into(),
        };
        serde_json::to_string_pretty(&summary).unwrap_or_default() + "\n"
    }

    /// Adds it to the metrics.
    pub(crate) fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Look-ups of a response's size, by the catalogue's layer and result";
        let kind = MetricType::Counter;
        let mut metric = encoder.encode_descriptor("catalogue_lookups", help, None, kind)?;
        for layer in Layer::ALL {
            let mut one = |result, value| {
                let labels = [("layer", layer.name()), ("result", result)];
                count(&mut metric.encode_family(&labels)?, value)
            };
            one("hit", self.sum(layer, |outcomes| &outcomes.hits))?;
            one("miss", self.sum(layer, |outcomes| &outcomes.misses))?;
        }
        let stats = self.catalogue.learnt.stats();
        let counters = [
            (
                "catalogue_insertions",
                "Learnt sizes added",
                stats.insertions,
            ),
            (
                "catalogue_evictions",
                "Learnt sizes that gave way to others",
                stats.evictions,
            ),
            (
                "catalogue_expired",
                "Look-ups that found a learnt size too old to be believed",
                stats.expired,
            ),
        ];
        for (name, help, value) in counters {
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            count(&mut metric, value)?;
        }
        let (bytes, capacity) = self.catalogue.learnt.bytes_and_capacity();
        let gauges = [
            (
                "catalogue_entries",
                "Learnt sizes that are held",
                stats.entries,
            ),
            (
                "catalogue_capacity",
                "Learnt sizes that there is room for",
                capacity,
            ),
            ("catalogue_bytes", "Memory of the learnt sizes", bytes),
        ];
        for (name, help, value) in gauges {
            gauge(encoder, name, help, value as u64)?;
        }
        Ok(())
    }
}
