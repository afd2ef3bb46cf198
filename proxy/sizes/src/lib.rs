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
mod inspect;
mod keeper;
mod layer;
mod learnt;
mod manifest;
mod metrics;
pub mod offline;
mod persist;
mod probe;
mod renew;
pub mod snapshot;
mod store;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use sprat_config::resolved as config;
use sprat_net::clock;
use sprat_scheduler::catalogue::{Estimator, KeyHasher};

pub use asked::{Asked, Destination, Lesson};
use document_root::DocumentRoot;
pub use dump::Dump;
pub use inspect::inspect;
pub use keeper::Keeper;
use layer::Answer;
pub use layer::{Found, Layer, Patience};
use learnt::Learnt;
use manifest::Manifest;
pub use metrics::{CATALOGUE, CatalogueNow, CatalogueView, LayerStats};
use probe::RouteProbes;
pub use probe::{Probe, Prober, Probing};
use renew::{hasher, new_estimator, start_store};
use store::Store;
use tokio::time::Instant;

use sprat_net::background::Background;

/// What is known of sizes, shared by all workers.
#[derive(Debug)]
pub struct Catalogue {
    learnt: Arc<Learnt>,
    /// Each with the index of its cluster; none for every one.
    manifests: Vec<(Option<usize>, Arc<Manifest>)>,
    /// The document root of each route.
    document_roots: Vec<Option<Arc<DocumentRoot>>>,
    /// The probes of each route.
    probes: Vec<Option<Arc<RouteProbes>>>,
    /// By route: what its estimates go by.
    kinds: Vec<usize>,
    store: Option<Arc<Store>>,
    /// Until [`Keeper`] takes it.
    store_thread: Mutex<Option<Background>>,
    estimator: Option<Arc<Mutex<Estimator>>>,
    hasher: KeyHasher,
    vary: Vec<String>,
    clusters: Vec<String>,
    started: Instant,
    /// The moment `started`, in seconds of Unix time.
    started_unix_s: u32,
}

impl Catalogue {
    /// What the snapshot has, and the manifests. What cannot be read is left
    /// out, and the log says why.
    ///
    /// # Errors
    ///
    /// A name that no header field has.
    pub fn new(config: &config::Config, random: (u64, u64)) -> anyhow::Result<Self> {
        let own = &config.catalogue;
        let (store, store_thread) = start_store(own)?.unzip();
        let (started, unix) = (Instant::now(), SystemTime::UNIX_EPOCH.elapsed());
        let mut catalogue = Self {
            learnt: Arc::new(Learnt::new(own.max_bytes, own.ttl)),
            manifests: Vec::new(),
            document_roots: Vec::new(),
            probes: Vec::new(),
            kinds: Vec::new(),
            store,
            store_thread: Mutex::new(store_thread),
            estimator: own.estimator.clone().map(new_estimator),
            hasher: hasher(own).unwrap_or(KeyHasher::new(random)),
            vary: own.vary.clone(),
            clusters: Vec::new(),
            started,
            started_unix_s: unix.map_or(0, seconds),
        };
        if let Some(snapshot) = &own.snapshot {
            catalogue.restore(&snapshot.path);
        }
        // After the snapshot, for it may bring the secret of the keys.
        catalogue.fill(config, None);
        Ok(catalogue)
    }

    /// Now, in seconds of Unix time that never go back.
    pub(crate) fn now_s(&self) -> u32 {
        self.started_unix_s
            .saturating_add(seconds(clock::now() - self.started))
    }

    /// Whether no layer could know anything.
    fn is_off(&self) -> bool {
        self.learnt.is_off()
            && self.estimator.is_none()
            && self.manifests.is_empty()
            && self.store.is_none()
            && self.document_roots.iter().all(Option::is_none)
            && self.probes.iter().all(Option::is_none)
    }

    /// Whether a layer goes by more than hashes.
    fn goes_by_names(&self, route: usize) -> bool {
        !self.manifests.is_empty() || self.document_roots[route].is_some()
    }

    /// What is known of the size of the response to a request, and who knows
    /// it. Waits for what it is worth.
    pub async fn lookup_with_source(
        self: &Arc<Self>,
        asked: &Asked,
        patience: Patience<'_>,
        stats: &LayerStats,
    ) -> Option<Found> {
        if let Some(found) = self.in_memory(asked, stats) {
            return Some(found);
        }
        if !matches!(patience, Patience::None)
            && self.waits_on(asked.route)
            && let Some(found) = Box::pin(self.ask_around(asked, &patience, stats)).await
        {
            return Some(found);
        }
        let estimator = self.estimator.as_ref()?;
        let known = lock(estimator).estimate(&asked.groups);
        stats.count(Layer::Estimator, known.is_some());
        known.map(|known| Found::new(Layer::Estimator, known))
    }

    /// As [`Catalogue::lookup_with_source`] once a response is there, whose
    /// head tells more of its kind.
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
        let names = asked.names.as_ref()?;
        let covers = |cluster: &Option<usize>| cluster.is_none_or(|own| own == asked.cluster);
        let mut manifests = self.manifests.iter().filter(|(cluster, _)| covers(cluster));
        let first = manifests.next()?;
        let keys = manifest::keys(&self.hasher, &names.host, names.target.as_str());
        let listed = std::iter::once(first).chain(manifests);
        let bytes = listed
            .filter_map(|(_, manifest)| manifest.get(&keys))
            .next();
        stats.count(Layer::Manifest, bytes.is_some());
        bytes.map(|bytes| Found::written_down(Layer::Manifest, bytes))
    }

    /// Whether there is a layer that makes a request wait.
    fn waits_on(&self, route: usize) -> bool {
        self.document_roots[route].is_some() || self.probes[route].is_some() || self.store.is_some()
    }

    /// Asks the layers that make a request wait.
    async fn ask_around(
        self: &Arc<Self>,
        asked: &Asked,
        patience: &Patience<'_>,
        stats: &LayerStats,
    ) -> Option<Found> {
        let names = asked.names.as_ref();
        if let (Some(root), Some(names)) = (&self.document_roots[asked.route], names) {
            let path = names.upstream.path();
            let key = self.hasher.url("", "", path);
            let answer = root.look_up(key, path, self.now_s()).await;
            stats.count_answer(Layer::DocumentRoot, answer);
            if let Answer::Size(bytes) = answer {
                return Some(Found::written_down(Layer::DocumentRoot, bytes));
            }
        }
        if let (Some(probes), Patience::Probe(prober)) = (&self.probes[asked.route], patience) {
            let answer = probes.look_up(self, asked, prober).await;
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
        // Next time nobody need ask.
        let (bytes, fields) = (told.known.bytes, told.fields);
        self.learnt
            .learn(&asked.resource, bytes, fields, self.now_s());
        Some(Found::new(Layer::Shared, told.known))
    }

    /// Remembers the size of a response.
    pub fn learn(&self, lesson: &Lesson, bytes: u64) {
        self.note(lesson, bytes);
        if let Some(estimator) = &self.estimator {
            lock(estimator).observe(&lesson.asked.groups, bytes);
        }
        if let Some(store) = &self.store {
            store.teach(&lesson.asked.resource, bytes, lesson.fields);
        }
    }

    /// Remembers a size that was told, not seen.
    fn note(&self, lesson: &Lesson, bytes: u64) {
        let resource = &lesson.asked.resource;
        self.learnt
            .learn(resource, bytes, lesson.fields, self.now_s());
    }

    /// A response has another size than a probe had told.
    pub fn probe_lied(&self, lesson: &Lesson) {
        if let Some(probes) = &self.probes[lesson.asked.route] {
            probes.lied(&lesson.asked);
        }
    }
}

fn seconds(duration: Duration) -> u32 {
    u32::try_from(duration.as_secs()).unwrap_or(u32::MAX)
}

/// What is behind these locks is sound after a panic in the middle of a change:
/// plain numbers.
fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
