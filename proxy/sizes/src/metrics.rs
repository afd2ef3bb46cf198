//! What the catalogue counts, and how it is told.

use std::fmt;
use std::sync::Arc;

use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;
use serde::Serialize;
use sprat_net::counters::{Counter, Histogram};
use sprat_net::encoding::{count, gauge, histogram};

use super::layer::Answer;
use super::probe::ProbeCounts;
use super::{Catalogue, Layer};

/// Upper bounds of how far a size was off, in doublings.
const DOUBLINGS: [f64; 16] = [
    0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 12.0,
];

/// How one layer's look-ups ended.
#[derive(Debug, Default)]
struct Outcomes {
    hits: Counter,
    misses: Counter,
    /// It could not be asked, or did not answer in time.
    errors: Counter,
    /// How far what it said was from the truth, in doublings.
    off: Histogram,
}

/// A worker's look-ups, in the order in which layers are asked.
#[derive(Debug, Default)]
pub struct LayerStats([Outcomes; Layer::ALL.len()]);

impl LayerStats {
    /// A layer was asked; by the owning worker only.
    pub(super) fn count(&self, layer: Layer, hit: bool) {
        let outcomes = &self.0[layer.index()];
        match hit {
            true => outcomes.hits.increment(),
            false => outcomes.misses.increment(),
        }
    }

    /// A layer was asked, and may have failed; by the owning worker only.
    pub(super) fn count_answer(&self, layer: Layer, answer: Answer) {
        match answer {
            Answer::Size(_) => self.count(layer, true),
            Answer::Unknown => self.count(layer, false),
            Answer::Failed => self.0[layer.index()].errors.increment(),
        }
    }

    /// A response had a size of which a layer had said something; by the
    /// owning worker only.
    pub fn compare(&self, layer: Layer, said: u64, bytes: u64) {
        let doublings = (said.max(1) as f64 / bytes.max(1) as f64).log2().abs();
        self.0[layer.index()].off.observe(&DOUBLINGS, doublings);
    }
}

/// The catalogue's part of the metrics.
#[derive(Debug)]
pub struct CatalogueView {
    catalogue: Arc<Catalogue>,
    /// Of each worker.
    look_ups: Vec<Arc<LayerStats>>,
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
    errors: u64,
}

impl CatalogueView {
    /// Returns the view of a catalogue whose workers have counted these look-ups.
    pub fn new(catalogue: &Arc<Catalogue>, look_ups: Vec<Arc<LayerStats>>) -> Self {
        Self {
            catalogue: Arc::clone(catalogue),
            look_ups,
        }
    }

    /// Returns the catalogue that is measured.
    pub fn catalogue(&self) -> &Arc<Catalogue> {
        &self.catalogue
    }

    fn sum(&self, layer: Layer, of: impl Fn(&Outcomes) -> &Counter) -> u64 {
        let workers = self.look_ups.iter();
        workers
            .map(|worker| of(&worker.0[layer.index()]).get())
            .sum()
    }

    /// Returns the figures as JSON.
    pub fn json(&self) -> String {
        let stats = self.catalogue.learnt.stats();
        let (bytes, capacity) = self.catalogue.learnt.bytes_and_capacity();
        let layer = |layer: Layer| LayerSummary {
            layer: layer.name(),
            hits: self.sum(layer, |outcomes| &outcomes.hits),
            misses: self.sum(layer, |outcomes| &outcomes.misses),
            errors: self.sum(layer, |outcomes| &outcomes.errors),
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
    pub fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
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
            one("error", self.sum(layer, |outcomes| &outcomes.errors))?;
        }
        let help = "How far the size that a layer said was from the response's, in doublings";
        let (name, kind) = ("catalogue_error_doublings", MetricType::Histogram);
        let mut metric = encoder.encode_descriptor(name, help, None, kind)?;
        for layer in Layer::ALL {
            let parts = self.look_ups.iter();
            let parts = parts.map(|worker| &worker.0[layer.index()].off);
            let labels = [("layer", layer.name())];
            histogram(&mut metric.encode_family(&labels)?, &DOUBLINGS, parts)?;
        }
        self.manifests(encoder)?;
        self.probes(encoder)?;
        self.store(encoder)?;
        self.learnt(encoder)
    }

    fn manifests(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let manifests = &self.catalogue.manifests;
        let paths = manifests
            .iter()
            .map(|(_, m)| m.config().path.to_string_lossy());
        let paths: Vec<_> = paths.collect();
        let help = "Sizes that a manifest lists";
        let kind = MetricType::Gauge;
        let mut metric =
            encoder.encode_descriptor("catalogue_manifest_entries", help, None, kind)?;
        for ((_, manifest), path) in manifests.iter().zip(&paths) {
            let labels = [("path", path.as_ref())];
            let entries = manifest.len() as u64;
            metric.encode_family(&labels)?.encode_gauge(&entries)?;
        }
        let help = "Times that a manifest was read: the file was good, and taken, or bad";
        let (name, kind) = ("catalogue_manifest_loads", MetricType::Counter);
        let mut metric = encoder.encode_descriptor(name, help, None, kind)?;
        for ((_, manifest), path) in manifests.iter().zip(&paths) {
            let (good, bad) = manifest.loads();
            for (result, value) in [("good", good), ("bad", bad)] {
                let labels = [("path", path.as_ref()), ("result", result)];
                count(&mut metric.encode_family(&labels)?, value)?;
            }
        }
        Ok(())
    }

    fn probes(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let mut all = ProbeCounts::default();
        let routes = self.catalogue.probes.iter().flatten();
        routes.for_each(|probes| all += probes.counts());
        let help = "HEAD probes by what became of them: told a size, useless, failed or lied; \
                    or why none was sent: joined another, busy or paused";
        let (name, kind) = ("catalogue_probes", MetricType::Counter);
        let mut metric = encoder.encode_descriptor(name, help, None, kind)?;
        for (result, value) in [
            ("told", all.told),
            ("useless", all.useless),
            ("failed", all.failed),
            ("lied", all.lied),
            ("joined", all.joined),
            ("busy", all.busy),
            ("paused", all.paused),
        ] {
            count(&mut metric.encode_family(&[("result", result)])?, value)?;
        }
        let (name, help) = ("catalogue_probes_under_way", "HEAD probes under way");
        gauge(encoder, name, help, all.under_way as u64)
    }

    fn store(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let Some(store) = &self.catalogue.store else {
            return Ok(());
        };
        let help = "Sizes written to the shared store, refused by it, or dropped";
        let (name, kind) = ("catalogue_store_writes", MetricType::Counter);
        let mut metric = encoder.encode_descriptor(name, help, None, kind)?;
        let results = ["written", "error", "dropped"];
        for (result, value) in results.into_iter().zip(store.health().writes()) {
            count(&mut metric.encode_family(&[("result", result)])?, value)?;
        }
        let help = "1 while the shared store is left alone";
        let open = u64::from(store.health().is_open());
        gauge(encoder, "catalogue_store_circuit_open", help, open)
    }

    fn learnt(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
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
