//! The sources of sizes beside the learnt ones: their order, what a reload keeps of them, and the
//! check of their configuration.
//!
//! Each source has a file of its own. A new source needs a row in most parts of this file.

use std::sync::{Arc, Mutex, PoisonError};

use sprat_config::identity::Identity;
use sprat_config::resolved as config;
use sprat_net::background::Background;
use sprat_net::problem::{Problem, Purpose};
use sprat_scheduler::catalogue::KeyHasher;

use super::asked::Asked;
use super::document_root::{self, DocumentRoot};
use super::found::{Answer, Found};
use super::layer::Layer;
use super::layer_stats::LayerStats;
use super::learnt::seconds;
use super::manifest::{self, Manifest};
use super::memory::Memory;
use super::patience::Patience;
use super::probe::RouteProbes;
use super::snapshot;
use super::store::{self, Store};

/// The sources that a configuration names, shared by all workers.
#[derive(Debug, Default)]
pub(super) struct Sources {
    /// The manifests, each with the index of its cluster; none for every cluster.
    pub(super) manifests: Vec<(Option<usize>, Arc<Manifest>)>,
    /// The document root of each route.
    pub(super) document_roots: Vec<Option<Arc<DocumentRoot>>>,
    /// The probes of each route.
    pub(super) probes: Vec<Option<Arc<RouteProbes>>>,
    pub(super) store: Option<Arc<Store>>,
    /// The thread that speaks to the store, until [`Keeper`](super::Keeper) takes it.
    pub(super) store_thread: Mutex<Option<Background>>,
}

/// The sources in use, and the configuration that they were made from.
pub(super) type Present<'a> = (&'a Sources, &'a config::Config);

impl Sources {
    /// Creates the sources of a configuration. Takes over those of the present ones that are the
    /// same.
    ///
    /// # Errors
    ///
    /// The address of a store that makes no sense, or no thread for it.
    pub(super) fn prepare(
        config: &config::Config,
        hasher: KeyHasher,
        present: Option<Present<'_>>,
    ) -> anyhow::Result<Self> {
        let places = present.map(|(_, config)| Identity::places(&config.routes));
        // The same route as it was before, if it was there.
        let old = |route: &config::Route| {
            let at = *places.as_ref()?.get(&Identity::of(route))?;
            present.map(|(sources, config)| (at, sources, &config.routes[at]))
        };
        let root = |route: &config::Route| {
            let wanted = route.document_root.as_ref()?;
            let kept = old(route).and_then(|(at, sources, old)| {
                let same = old.document_root.as_ref() == Some(wanted);
                sources.document_roots[at].clone().filter(|_| same)
            });
            Some(kept.unwrap_or_else(|| DocumentRoot::new(wanted)))
        };
        let probes = |route: &config::Route| {
            let wanted = route.head_probe.as_ref()?;
            let kept = old(route).and_then(|(at, sources, old)| {
                let same = old.head_probe.as_ref() == Some(wanted);
                sources.probes[at].clone().filter(|_| same)
            });
            Some(kept.unwrap_or_else(|| RouteProbes::new(wanted)))
        };
        let (store, thread) = prepare_store(&config.catalogue, present)?;
        Ok(Self {
            manifests: prepare_manifests(config, hasher, present),
            document_roots: config.routes.iter().map(root).collect(),
            probes: config.routes.iter().map(probes).collect(),
            store,
            store_thread: Mutex::new(thread),
        })
    }

    /// Hands over the thread that speaks to the store, unless it was handed over before.
    pub(super) fn take_store_thread(&self) -> Option<Background> {
        let mut thread = self
            .store_thread
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        thread.take()
    }

    /// Returns whether there is no source at all.
    pub(super) fn are_none(&self) -> bool {
        self.manifests.is_empty()
            && self.store.is_none()
            && self.document_roots.iter().all(Option::is_none)
            && self.probes.iter().all(Option::is_none)
    }

    /// Returns whether a source for the route needs the resource's names, not their hashes alone.
    pub(super) fn go_by_names(&self, route: usize) -> bool {
        !self.manifests.is_empty() || self.document_roots[route].is_some()
    }

    /// Returns whether a source makes requests of the route wait.
    fn make_wait(&self, route: usize) -> bool {
        self.document_roots[route].is_some() || self.probes[route].is_some() || self.store.is_some()
    }

    /// Asks the sources that answer at once: the manifests.
    pub(super) fn in_memory(
        &self,
        asked: &Asked,
        hasher: &KeyHasher,
        stats: &LayerStats,
    ) -> Option<Found> {
        let names = asked.names.as_ref()?;
        let covers = |cluster: &Option<usize>| cluster.is_none_or(|own| own == asked.cluster);
        let mut manifests = self.manifests.iter().filter(|(cluster, _)| covers(cluster));
        let first = manifests.next()?;
        let keys = manifest::keys(hasher, &names.host, names.target.as_str());
        let listed = std::iter::once(first).chain(manifests);
        let bytes = listed
            .filter_map(|(_, manifest)| manifest.get(&keys))
            .next();
        stats.count(Layer::Manifest, bytes.is_some());
        bytes.map(|bytes| Found::written_down(Layer::Manifest, bytes))
    }

    /// Asks the sources that make a request wait, unless `patience` rules them out.
    pub(super) async fn ask_around(
        &self,
        memory: &Arc<Memory>,
        asked: &Asked,
        patience: &Patience<'_>,
        stats: &LayerStats,
    ) -> Option<Found> {
        if matches!(patience, Patience::None) || !self.make_wait(asked.route) {
            return None;
        }
        Box::pin(self.ask_each(memory, asked, patience, stats)).await
    }

    async fn ask_each(
        &self,
        memory: &Arc<Memory>,
        asked: &Asked,
        patience: &Patience<'_>,
        stats: &LayerStats,
    ) -> Option<Found> {
        let names = asked.names.as_ref();
        if let (Some(root), Some(names)) = (&self.document_roots[asked.route], names) {
            let path = names.upstream.path();
            let key = memory.hasher.url("", "", path);
            let answer = root.look_up(key, path, memory.now_s()).await;
            stats.count_answer(Layer::DocumentRoot, answer);
            if let Answer::Size(bytes) = answer {
                return Some(Found::written_down(Layer::DocumentRoot, bytes));
            }
        }
        if let (Some(probes), Patience::Probe(prober)) = (&self.probes[asked.route], patience) {
            let answer = probes.look_up(memory, asked, prober).await;
            stats.count_answer(Layer::HeadProbe, answer);
            if let Answer::Size(bytes) = answer {
                return Some(Found::written_down(Layer::HeadProbe, bytes));
            }
        }
        let told = self.store.as_ref()?.look_up(&asked.resource).await;
        let Ok(told) = told else {
            stats.count_answer(Layer::Shared, Answer::Failed);
            return None;
        };
        stats.count(Layer::Shared, told.is_some());
        let told = told?;
        // The next request need not ask.
        let (bytes, fields, now_s) = (told.known.bytes, told.fields, memory.now_s());
        memory.learnt.learn(&asked.resource, bytes, fields, now_s);
        Some(Found::new(Layer::Shared, told.known))
    }
}

type StartedStore = (Option<Arc<Store>>, Option<Background>);

fn prepare_store(
    wanted: &config::Catalogue,
    present: Option<Present<'_>>,
) -> anyhow::Result<StartedStore> {
    if let Some((sources, config)) = present
        && (&config.catalogue.shared, config.catalogue.ttl) == (&wanted.shared, wanted.ttl)
    {
        return Ok((sources.store.clone(), None));
    }
    let Some(own) = &wanted.shared else {
        return Ok((None, None));
    };
    let (store, thread) = Store::start(own, seconds(wanted.ttl))?;
    Ok((Some(Arc::new(store)), Some(thread)))
}

fn prepare_manifests(
    config: &config::Config,
    hasher: KeyHasher,
    present: Option<Present<'_>>,
) -> Vec<(Option<usize>, Arc<Manifest>)> {
    let present = present.map_or(&[][..], |(sources, _)| &sources.manifests);
    let mut prepared: Vec<(Option<usize>, Arc<Manifest>)> = Vec::new();
    for wanted in &config.catalogue.manifests {
        let named = |name: &String| config.clusters.iter().position(|own| own.name == *name);
        let cluster = wanted.cluster.as_ref().and_then(named);
        // One file that is listed for several clusters is read once.
        let mut known = present.iter().chain(&prepared);
        let manifest = match known.find(|(_, own)| own.is(wanted, &hasher)) {
            Some((_, manifest)) => Arc::clone(manifest),
            None => Arc::new(Manifest::new(wanted, hasher)),
        };
        prepared.push((cluster, manifest));
    }
    prepared
}

/// Returns the problems of the files, directories and stores that `config` names for the catalogue.
pub fn inspect(config: &config::Config, purpose: Purpose) -> Vec<Problem> {
    let own = &config.catalogue;
    let mut problems = Vec::new();
    // A server reads them itself, by the same function, and its log says what is
    // wrong: a large one is not to be read twice.
    if purpose == Purpose::Check {
        problems.extend(own.manifests.iter().flat_map(manifest::inspect));
    }
    let roots = config
        .routes
        .iter()
        .filter_map(|route| route.document_root.as_ref());
    problems.extend(roots.filter_map(document_root::inspect));
    problems.extend(own.snapshot.iter().flat_map(snapshot::inspect));
    problems.extend(own.shared.iter().filter_map(store::inspect));
    problems
}
