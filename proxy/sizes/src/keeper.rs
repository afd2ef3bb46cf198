//! The threads that, at intervals, save the catalogue in use and look for changed manifests.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use anyhow::Context as _;
use arc_swap::ArcSwap;
use sprat_config::resolved as config;
use sprat_net::background::Background;

use super::catalogue::Catalogue;
use super::manifest::Manifest;
use super::store::Store;

/// The threads of the catalogue in use.
pub struct Keeper {
    /// The catalogue that is saved.
    present: Arc<ArcSwap<Catalogue>>,
    /// Whether the catalogue is saved at all.
    saves: Arc<AtomicBool>,
    tasks: Vec<(What, Background)>,
}

/// The work of one thread of the catalogue.
#[derive(Clone)]
enum What {
    /// The thread looks whether the manifest has changed.
    Manifest(Arc<Manifest>),
    /// The thread saves what was learnt.
    Snapshot(config::Snapshot),
    /// The thread speaks to the store.
    Store(Arc<Store>),
}

impl PartialEq for What {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Manifest(own), Self::Manifest(other)) => Arc::ptr_eq(own, other),
            (Self::Snapshot(own), Self::Snapshot(other)) => own == other,
            (Self::Store(own), Self::Store(other)) => Arc::ptr_eq(own, other),
            _ => false,
        }
    }
}

/// The work that the next catalogue needs, and the threads that were started for the new part of
/// it.
pub struct PreparedThreads {
    wanted: Vec<What>,
    fresh: Vec<(What, Background)>,
}

impl Keeper {
    /// Starts the threads of a catalogue that is in use from now on.
    ///
    /// # Errors
    ///
    /// No thread can be had.
    pub fn start(catalogue: &Arc<Catalogue>, config: &config::Catalogue) -> anyhow::Result<Self> {
        let mut keeper = Self {
            present: Arc::new(ArcSwap::new(Arc::clone(catalogue))),
            saves: Arc::new(AtomicBool::new(true)),
            tasks: Vec::new(),
        };
        let prepared = keeper.prepare(catalogue, config)?;
        keeper.commit(catalogue, prepared);
        Ok(keeper)
    }

    /// Starts the threads that another catalogue needs and this one lacks.
    ///
    /// # Errors
    ///
    /// No thread can be had; all is as before.
    pub fn prepare(
        &self,
        catalogue: &Catalogue,
        config: &config::Catalogue,
    ) -> anyhow::Result<PreparedThreads> {
        let manifests = catalogue.sources.manifests.iter();
        let manifests = manifests.map(|(_, manifest)| What::Manifest(Arc::clone(manifest)));
        let snapshot = config.snapshot.iter().cloned().map(What::Snapshot);
        let store = catalogue.sources.store.iter().cloned().map(What::Store);
        let mut wanted: Vec<What> = Vec::new();
        for what in manifests.chain(snapshot).chain(store) {
            // A manifest may be that of several clusters.
            if !wanted.contains(&what) {
                wanted.push(what);
            }
        }
        let mut fresh = Vec::new();
        for what in &wanted {
            if !self.tasks.iter().any(|(running, _)| running == what) {
                fresh.extend(self.begin(what, catalogue)?);
            }
        }
        Ok(PreparedThreads { wanted, fresh })
    }

    /// Puts another catalogue in use: keeps the threads that it needs, and ends the others.
    pub fn commit(&mut self, catalogue: &Arc<Catalogue>, prepared: PreparedThreads) {
        let PreparedThreads { wanted, fresh } = prepared;
        self.present.store(Arc::clone(catalogue));
        let tasks = std::mem::take(&mut self.tasks);
        let (kept, over): (Vec<_>, Vec<_>) = tasks
            .into_iter()
            .partition(|(what, _)| wanted.contains(what));
        over.into_iter().for_each(|(_, thread)| thread.join());
        self.tasks = kept.into_iter().chain(fresh).collect();
    }

    fn begin(
        &self,
        what: &What,
        catalogue: &Catalogue,
    ) -> anyhow::Result<Option<(What, Background)>> {
        let begun = match what {
            What::Manifest(manifest) => {
                let (interval, watched) = (manifest.config().reload_interval, Arc::clone(manifest));
                let look = move || watched.reload(false);
                Some(Background::start("catalogue", interval, look, || {}))
            }
            What::Snapshot(config::Snapshot { path, interval, .. }) => {
                let (present, saves) = (Arc::clone(&self.present), Arc::clone(&self.saves));
                let path = path.clone();
                let save = Arc::new(move || {
                    if saves.load(Relaxed) {
                        present.load().memory.save_or_complain(&path);
                    }
                });
                let last = Arc::clone(&save);
                Some(Background::start(
                    "catalogue",
                    *interval,
                    move || save(),
                    move || last(),
                ))
            }
            What::Store(_) => catalogue.sources.take_store_thread().map(Ok),
        };
        let begun = begun.transpose();
        let thread = begun.context("cannot start a thread of the catalogue")?;
        Ok(thread.map(|thread| (what.clone(), thread)))
    }

    /// Saves the learnt sizes to each configured snapshot, at once.
    pub fn save(&self) {
        for (what, _) in &self.tasks {
            if let What::Snapshot(snapshot) = what {
                self.present.load().memory.save_or_complain(&snapshot.path);
            }
        }
    }

    /// Stops the intervals' saving: another process saves to the same file from now on.
    pub fn leave_saving(&self) {
        self.saves.store(false, Relaxed);
    }

    /// Ends all threads of the catalogue. The snapshots' threads save the learnt sizes before they
    /// end.
    pub fn join(self) {
        let threads = self.tasks.into_iter();
        threads.for_each(|(_, thread)| thread.join());
    }
}
