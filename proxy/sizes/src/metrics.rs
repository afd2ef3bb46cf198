//! The metrics of the catalogue.

use std::borrow::Cow;
use std::sync::Arc;

use serde::Serialize;
use sprat_net::counters::{Counter, Total};
use sprat_net::metrics::{Labels, Per, Row, Topic};
use sprat_scheduler::catalogue::TableStats;

use super::catalogue::Catalogue;
use super::layer::Layer;
use super::layer_stats::{Doublings, LayerStats, Outcomes};
use super::manifest::Manifest;
use super::probe::ProbeCounts;
use super::store::Health;

/// The catalogue as its metrics see it, with the look-ups that workers have counted.
#[derive(Debug)]
pub struct CatalogueView {
    catalogue: Arc<Catalogue>,
    /// The look-ups of each worker.
    look_ups: Vec<Arc<LayerStats>>,
}

/// The figures of the catalogue that the admin listener shows as JSON.
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
        workers.map(|worker| of(worker.of(layer)).get()).sum()
    }

    /// Returns the figures of the catalogue, to be serialised.
    pub fn summary(&self) -> impl Serialize {
        let stats = self.catalogue.memory.learnt.stats();
        let (bytes, capacity) = self.catalogue.memory.learnt.bytes_and_capacity();
        let layer = |layer: Layer| LayerSummary {
            layer: layer.name(),
            hits: self.sum(layer, |outcomes| &outcomes.hits),
            misses: self.sum(layer, |outcomes| &outcomes.misses),
            errors: self.sum(layer, |outcomes| &outcomes.errors),
        };
        Summary {
            entries: stats.entries,
            capacity,
            bytes,
            insertions: stats.insertions,
            evictions: stats.evictions,
            expired: stats.expired,
            layers: Layer::ALL.map(layer).into(),
        }
    }

    /// Returns the figures of the catalogue as JSON.
    pub fn json(&self) -> String {
        serde_json::to_string_pretty(&self.summary()).unwrap_or_default() + "\n"
    }

    /// Returns the state of the catalogue at this moment, for a scrape.
    pub fn now(self: &Arc<Self>) -> CatalogueNow {
        let mut probes = ProbeCounts::default();
        let routes = self.catalogue.sources.probes.iter().flatten();
        routes.for_each(|own| probes += own.counts());
        let (bytes, capacity) = self.catalogue.memory.learnt.bytes_and_capacity();
        CatalogueNow {
            view: Arc::clone(self),
            learnt: self.catalogue.memory.learnt.stats(),
            bytes,
            capacity,
            probes,
        }
    }
}

/// The catalogue at the moment of a scrape.
#[derive(Debug)]
pub struct CatalogueNow {
    view: Arc<CatalogueView>,
    learnt: TableStats,
    bytes: usize,
    capacity: usize,
    probes: ProbeCounts,
}

impl CatalogueNow {
    fn sum(&self, layer: Layer, of: impl Fn(&Outcomes) -> &Counter) -> u64 {
        self.view.sum(layer, of)
    }

    /// Returns each manifest with its path, once, for however many clusters it is listed.
    fn manifests(&self) -> impl Iterator<Item = (Cow<'_, str>, &Manifest)> {
        let all = &self.view.catalogue.sources.manifests;
        let path = |at: usize| &all[at].1.config().path;
        let is_first = move |at: &usize| (0..*at).all(|before| path(before) != path(*at));
        let first = (0..all.len()).filter(is_first);
        first.map(move |at| (path(at).to_string_lossy(), &*all[at].1))
    }

    fn store(&self) -> impl Iterator<Item = &Health> {
        self.view
            .catalogue
            .sources
            .store
            .iter()
            .map(|store| store.health())
    }
}

const LAYER: Labels = Labels::NONE.and("layer", Layer::ALL.len());
const MANIFEST: Labels = Labels::NONE.per("path", Per::Manifest);

/// The metrics of the catalogue of sizes.
#[rustfmt::skip]
pub static CATALOGUE: Topic<CatalogueNow> = Topic { title: "The catalogue of sizes", rows: &[
    Row::counter("sprat_catalogue_lookups_total", LAYER.and("result", 3),
        "Look-ups of a response's size, by layer and result: hit, miss, or error (the layer was not asked, or late)",
        |now, out| for layer in Layer::ALL {
            out.put(&[layer.name(), "hit"], now.sum(layer, |own| &own.hits));
            out.put(&[layer.name(), "miss"], now.sum(layer, |own| &own.misses));
            out.put(&[layer.name(), "error"], now.sum(layer, |own| &own.errors));
        }),
    Row::histogram::<Doublings>("sprat_catalogue_error_doublings", LAYER,
        "Difference between the size that a layer told and the response's, in doublings: 1 is half or double",
        |now, out| for layer in Layer::ALL {
            let parts = now.view.look_ups.iter().map(|worker| &worker.of(layer).off);
            out.put(&[layer.name()], Total::of(parts));
        }),
    Row::gauge("sprat_catalogue_manifest_entries", MANIFEST,
        "Sizes that a manifest lists",
        |now, out| now.manifests().for_each(|(path, own)| out.put(&[&path], own.len()))),
    Row::counter("sprat_catalogue_manifest_loads_total", MANIFEST.and("result", 2),
        "Reads of a manifest: the file was good and is in use, or bad",
        |now, out| for (path, (good, bad)) in now.manifests().map(|(path, own)| (path, own.loads())) {
            out.put(&[&path, "good"], good);
            out.put(&[&path, "bad"], bad);
        }),
    Row::counter("sprat_catalogue_probes_total", Labels::NONE.and("result", 7),
        "HEAD probes by result: told a size, useless, failed or lied; or why none was sent: joined another, busy or paused",
        |CatalogueNow { probes, .. }, out| {
            let sent = [("told", probes.told), ("useless", probes.useless), ("failed", probes.failed), ("lied", probes.lied)];
            let unsent = [("joined", probes.joined), ("busy", probes.busy), ("paused", probes.paused)];
            sent.into_iter().chain(unsent).for_each(|(result, value)| out.put(&[result], value));
        }),
    Row::gauge("sprat_catalogue_probes_under_way", Labels::NONE,
        "HEAD probes under way",
        |now, out| out.one(now.probes.under_way)),
    Row::counter("sprat_catalogue_store_writes_total", Labels::NONE.and("result", 3),
        "Sizes for the shared store: written, refused by it (error), or dropped; no sample without one",
        |now, out| for health in now.store() {
            let results = ["written", "error", "dropped"].into_iter().zip(health.writes());
            results.for_each(|(result, value)| out.put(&[result], value));
        }),
    Row::gauge("sprat_catalogue_store_circuit_open", Labels::NONE,
        "1 while the shared store is not asked because it failed, 0 otherwise",
        |now, out| now.store().for_each(|health| out.one(health.is_open()))),
    Row::counter("sprat_catalogue_insertions_total", Labels::NONE,
        "Learnt sizes added",
        |now, out| out.one(now.learnt.insertions)),
    Row::counter("sprat_catalogue_evictions_total", Labels::NONE,
        "Learnt sizes that were evicted for others",
        |now, out| out.one(now.learnt.evictions)),
    Row::counter("sprat_catalogue_expired_total", Labels::NONE,
        "Look-ups that found a learnt size older than ttl",
        |now, out| out.one(now.learnt.expired)),
    Row::gauge("sprat_catalogue_entries", Labels::NONE,
        "Learnt sizes in the table",
        |now, out| out.one(now.learnt.entries)),
    Row::gauge("sprat_catalogue_capacity", Labels::NONE,
        "Learnt sizes that there is room for",
        |now, out| out.one(now.capacity)),
    Row::gauge("sprat_catalogue_bytes", Labels::NONE,
        "Memory of the learnt sizes",
        |now, out| out.one(now.bytes)),
] };
