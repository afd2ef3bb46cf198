//! The catalogue: what is known of a response's size before it begins.
//!
//! Its layers are asked in the order of [`Layer`], each if it is configured.
//! The decisions are [`sprat_scheduler::catalogue`]'s; here are the locks, the
//! files and the sockets.

mod asked;
mod background;
pub(crate) mod command;
mod document_root;
mod dump;
mod learnt;
mod manifest;
mod metrics;
mod persist;
mod snapshot;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use anyhow::Context as _;
use http::header::HeaderName;
use sprat_config::resolved as config;
use sprat_scheduler::Size;
use sprat_scheduler::catalogue::{Estimator, KeyHasher, Known};

pub(crate) use asked::{Asked, Destination, Lesson};
pub(crate) use background::Background;
use document_root::DocumentRoot;
pub(crate) use dump::Dump;
use learnt::Learnt;
use manifest::Manifest;
pub(crate) use metrics::{CatalogueView, LayerStats};

/// How far a size is trusted that somebody else wrote down: files change, and
/// backends compress.
const WRITTEN_DOWN: f32 = 0.9;

/// Where a size comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layer {
    /// Earlier responses.
    Learnt,
    /// A file that lists sizes.
    Manifest,
    /// The files that the backends serve.
    DocumentRoot,
    /// Other responses of the same kind.
    Estimator,
}

impl Layer {
    /// In the order in which they are asked.
    pub(crate) const ALL: [Self; 4] = [
        Self::Learnt,
        Self::Manifest,
        Self::DocumentRoot,
        Self::Estimator,
    ];

    /// The name in metrics and logs.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Learnt => "learnt",
            Self::Manifest => "manifest",
            Self::DocumentRoot => "document_root",
            Self::Estimator => "estimator",
        }
    }

    /// A small integer, for tables.
    pub(crate) const fn index(self) -> usize {
        self as usize
    }
}

/// What a layer says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    /// So many bytes.
    Size(u64),
    /// It knows none.
    Unknown,
    /// It could not be asked, or did not answer in time.
    Failed,
}

/// What was found, and where.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Found {
    /// An estimate, whatever the layer: a response may differ from what was
    /// said of it.
    pub(crate) size: Size,
    /// Who said it.
    pub(crate) layer: Layer,
}

/// What is known of sizes, shared by all workers.
#[derive(Debug)]
pub(crate) struct Catalogue {
    learnt: Learnt,
    manifests: Vec<Manifest>,
    /// By route.
    document_roots: Vec<Option<Arc<DocumentRoot>>>,
    estimator: Option<Mutex<Estimator>>,
    hasher: KeyHasher,
    vary: Vec<HeaderName>,
    clusters: Vec<String>,
    started: Instant,
    /// Of `started`, seconds of Unix time.
    started_unix_s: u32,
}

impl Catalogue {
    /// What the snapshot has, and the manifests. What cannot be read is left
    /// out, and the log says why.
    ///
    /// # Errors
    ///
    /// A name that no header field has.
    pub(crate) fn new(config: &config::Config, random: (u64, u64)) -> anyhow::Result<Self> {
        let (routes, clusters) = (&config.routes, &config.clusters);
        let config = &config.catalogue;
        let vary = config.vary.iter().map(|name| name.parse::<HeaderName>());
        let root = |route: &config::Route| route.document_root.as_ref().map(DocumentRoot::new);
        let (started, unix) = (Instant::now(), SystemTime::UNIX_EPOCH.elapsed());
        let mut catalogue = Self {
            learnt: Learnt::new(config.max_bytes, config.ttl),
            manifests: Vec::new(),
            document_roots: routes.iter().map(root).collect(),
            estimator: config.estimator.clone().map(Estimator::new).map(Mutex::new),
            hasher: KeyHasher::new(random),
            vary: vary.collect::<Result<_, _>>()?,
            clusters: clusters.iter().map(|c| c.name.clone()).collect(),
            started,
            started_unix_s: unix.map_or(0, seconds),
        };
        if let Some(snapshot) = &config.snapshot {
            catalogue.restore(&snapshot.path);
        }
        // After the snapshot, for it may bring the secret of the keys.
        for manifest in &config.manifests {
            let named = |name: &String| catalogue.clusters.iter().position(|own| own == name);
            let cluster = manifest.cluster.as_ref().and_then(named);
            let manifest = Manifest::new(manifest, cluster, catalogue.hasher);
            catalogue.manifests.push(manifest);
        }
        Ok(catalogue)
    }

    /// Starts what is done at intervals: saving, and looking for changes.
    ///
    /// # Errors
    ///
    /// No thread can be had.
    pub(crate) fn start(
        self: &Arc<Self>,
        config: &config::Catalogue,
    ) -> anyhow::Result<Vec<Background>> {
        let mut threads = Vec::new();
        for index in 0..self.manifests.len() {
            let interval = self.manifests[index].config().reload_interval;
            let catalogue = Arc::clone(self);
            let look = move || catalogue.manifests[index].reload(false);
            threads.push(Background::start(interval, look, || {}));
        }
        if let Some(config::Snapshot { path, interval }) = config.snapshot.clone() {
            let (catalogue, last) = (Arc::clone(self), Arc::clone(self));
            let last_path = path.clone();
            let save = move || catalogue.save_or_complain(&path);
            let end = move || last.save_or_complain(&last_path);
            threads.push(Background::start(interval, save, end));
        }
        let threads = threads.into_iter().collect::<Result<_, _>>();
        threads.context("cannot start a thread of the catalogue")
    }

    /// Now, in seconds of Unix time that never go back.
    pub(crate) fn now_s(&self) -> u32 {
        self.started_unix_s
            .saturating_add(seconds(self.started.elapsed()))
    }

    /// Whether no layer could know anything.
    fn is_off(&self) -> bool {
        self.learnt.is_off()
            && self.estimator.is_none()
            && self.manifests.is_empty()
            && self.document_roots.iter().all(Option::is_none)
    }

    /// Whether a layer goes by more than hashes.
    fn goes_by_names(&self, route: usize) -> bool {
        !self.manifests.is_empty() || self.document_roots[route].is_some()
    }

    /// What is known of the size of the response to a request, and who knows
    /// it. Waits for no longer than the budgets of the layers that wait.
    pub(crate) async fn lookup_with_source(
        &self,
        asked: &Asked,
        stats: &LayerStats,
    ) -> Option<Found> {
        if let Some(found) = self.in_memory(asked, stats) {
            return Some(found);
        }
        if self.waits_on(asked.route)
            && let Some(found) = Box::pin(self.ask_around(asked, stats)).await
        {
            return Some(found);
        }
        let estimator = self.estimator.as_ref()?;
        let known = lock(estimator).estimate(&asked.groups);
        stats.count(Layer::Estimator, known.is_some());
        known.map(|known| found(Layer::Estimator, known))
    }

    /// As [`Catalogue::lookup_with_source`] once a response is there, whose
    /// head tells more of its kind.
    pub(crate) async fn lookup_of_response(
        &self,
        lesson: &Lesson,
        stats: &LayerStats,
    ) -> Option<Found> {
        self.lookup_with_source(&lesson.asked, stats).await
    }

    fn in_memory(&self, asked: &Asked, stats: &LayerStats) -> Option<Found> {
        if !self.learnt.is_off() {
            let known = self.learnt.look_up(&asked.resource, self.now_s());
            stats.count(Layer::Learnt, known.is_some());
            if let Some(known) = known {
                return Some(found(Layer::Learnt, known));
            }
        }
        let names = asked.names.as_ref()?;
        let mut manifests = self.manifests.iter().filter(|m| m.covers(asked.cluster));
        let first = manifests.next()?;
        let keys = manifest::keys(&self.hasher, &names.host, names.target.as_str());
        let listed = std::iter::once(first).chain(manifests);
        let bytes = listed.filter_map(|manifest| manifest.get(&keys)).next();
        stats.count(Layer::Manifest, bytes.is_some());
        bytes.map(|bytes| written_down(Layer::Manifest, bytes))
    }

    /// Whether there is a layer that makes a request wait.
    fn waits_on(&self, route: usize) -> bool {
        self.document_roots[route].is_some()
    }

    /// Asks the layers that make a request wait.
    async fn ask_around(&self, asked: &Asked, stats: &LayerStats) -> Option<Found> {
        let names = asked.names.as_ref()?;
        if let Some(root) = &self.document_roots[asked.route] {
            let path = names.upstream.path();
            let key = self.hasher.url("", "", path);
            let answer = root.look_up(key, path, self.now_s()).await;
            stats.count_answer(Layer::DocumentRoot, answer);
            if let Answer::Size(bytes) = answer {
                return Some(written_down(Layer::DocumentRoot, bytes));
            }
        }
        None
    }

    /// Remembers the size of a response.
    pub(crate) fn learn(&self, lesson: &Lesson, bytes: u64) {
        let resource = &lesson.asked.resource;
        self.learnt
            .learn(resource, bytes, lesson.fields, self.now_s());
        if let Some(estimator) = &self.estimator {
            lock(estimator).observe(&lesson.asked.groups, bytes);
        }
    }
}

fn found(layer: Layer, known: Known) -> Found {
    let size = known.into();
    Found { size, layer }
}

fn written_down(layer: Layer, bytes: u64) -> Found {
    let confidence = WRITTEN_DOWN;
    found(layer, Known { bytes, confidence })
}

fn seconds(duration: Duration) -> u32 {
    u32::try_from(duration.as_secs()).unwrap_or(u32::MAX)
}

/// An estimator is sound after a panic in the middle of a change: its groups
/// are plain numbers.
fn lock(estimator: &Mutex<Estimator>) -> MutexGuard<'_, Estimator> {
    estimator.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
