//! A catalogue for another configuration, with all that still holds.

use std::sync::{Arc, Mutex};

use sprat_config::resolved as config;
use sprat_net::background::Background;
use sprat_scheduler::catalogue::{Estimator, EstimatorConfig, KeyHasher};

use super::document_root::DocumentRoot;
use super::learnt::Learnt;
use super::manifest::Manifest;
use super::probe::RouteProbes;
use super::store::Store;
use super::{Catalogue, seconds};
use sprat_config::identity::Identity;

pub(super) type StartedStore = (Arc<Store>, Background);

/// The store that proxies share, if there is one.
pub(super) fn start_store(config: &config::Catalogue) -> anyhow::Result<Option<StartedStore>> {
    let start = |own| Store::start(own, seconds(config.ttl));
    let started = config.shared.as_ref().map(start).transpose()?;
    Ok(started.map(|(store, thread)| (Arc::new(store), thread)))
}

pub(super) fn new_estimator(config: EstimatorConfig) -> Arc<Mutex<Estimator>> {
    Arc::new(Mutex::new(Estimator::new(config)))
}

/// The keys' hasher of those who share: theirs must be the same.
pub(super) fn hasher(config: &config::Catalogue) -> Option<KeyHasher> {
    let shared = config.shared.as_ref()?;
    Some(KeyHasher::from_phrase(shared.phrase.as_bytes()))
}

impl Catalogue {
    /// Prepares the same for another configuration; `own` is its present one. What was
    /// learnt stays, unless its keys are made in another way.
    ///
    /// # Errors
    ///
    /// The address of a store that makes no sense, or no thread for it.
    pub fn prepare(&self, own: &config::Config, config: &config::Config) -> anyhow::Result<Self> {
        let (before, after) = (&own.catalogue, &config.catalogue);
        let (store, store_thread) = match before.shared == after.shared && before.ttl == after.ttl {
            true => (self.store.clone(), None),
            false => start_store(after)?.unzip(),
        };
        let hasher = hasher(after).unwrap_or(self.hasher);
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
        let mut prepared = Self {
            learnt,
            manifests: Vec::new(),
            document_roots: Vec::new(),
            probes: Vec::new(),
            kinds: Vec::new(),
            store,
            store_thread: Mutex::new(store_thread),
            estimator,
            hasher,
            vary: after.vary.clone(),
            clusters: Vec::new(),
            started: self.started,
            started_unix_s: self.started_unix_s,
        };
        prepared.fill(config, Some((self, own)));
        Ok(prepared)
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

    /// Fills in what goes by clusters, routes and files.
    pub(super) fn fill(
        &mut self,
        config: &config::Config,
        before: Option<(&Self, &config::Config)>,
    ) {
        let places = before.map(|(_, config)| Identity::places(&config.routes));
        // The same route as it was before, if it was there.
        let old = |route: &config::Route| {
            let at = *places.as_ref()?.get(&Identity::of(route))?;
            before.map(|(catalogue, config)| (at, catalogue, &config.routes[at]))
        };
        let root = |route: &config::Route| {
            let wanted = route.document_root.as_ref()?;
            let kept = old(route).and_then(|(at, catalogue, old)| {
                let same = old.document_root.as_ref() == Some(wanted);
                catalogue.document_roots[at].clone().filter(|_| same)
            });
            Some(kept.unwrap_or_else(|| DocumentRoot::new(wanted)))
        };
        let probes = |route: &config::Route| {
            let wanted = route.head_probe.as_ref()?;
            let kept = old(route).and_then(|(at, catalogue, old)| {
                let same = old.head_probe.as_ref() == Some(wanted);
                catalogue.probes[at].clone().filter(|_| same)
            });
            Some(kept.unwrap_or_else(|| RouteProbes::new(wanted)))
        };
        let number = |route| Identity::of(route).number();
        self.document_roots = config.routes.iter().map(root).collect();
        self.probes = config.routes.iter().map(probes).collect();
        self.kinds = config.routes.iter().map(number).collect();
        self.clusters = config.clusters.iter().map(|c| c.name.clone()).collect();
        for wanted in &config.catalogue.manifests {
            let named = |name: &String| self.clusters.iter().position(|own| own == name);
            let cluster = wanted.cluster.as_ref().and_then(named);
            let mut known = before
                .iter()
                .flat_map(|(catalogue, _)| &catalogue.manifests);
            let kept = known.find(|(_, manifest)| manifest.is(wanted, &self.hasher));
            let manifest = match kept {
                Some((_, manifest)) => Arc::clone(manifest),
                None => Arc::new(Manifest::new(wanted, self.hasher)),
            };
            self.manifests.push((cluster, manifest));
        }
    }
}
