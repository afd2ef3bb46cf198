//! The learnt sizes, and the keys that they are found by.

use std::sync::Arc;
use std::time::SystemTime;

use http::HeaderMap;
use sprat_config::fields::{variant_values, varies_by};
use sprat_config::identity::Identity;
use sprat_config::resolved as config;
use sprat_net::clock;
use sprat_net::headers::Head;
use sprat_scheduler::catalogue::{Groups, KeyHasher, Known, Resource};
use tokio::time::Instant;

use super::asked::{Asked, Destination, Lesson, Names};
use super::learnt::{Learnt, seconds};

/// The table of learnt sizes, with the keys of its entries and their clock.
#[derive(Debug)]
pub(super) struct Memory {
    pub(super) learnt: Arc<Learnt>,
    pub(super) hasher: KeyHasher,
    /// The header fields that responses may vary by.
    pub(super) vary: Vec<String>,
    /// The kind that estimates go by, for each route.
    pub(super) kinds: Vec<usize>,
    /// The names of the clusters.
    pub(super) clusters: Vec<String>,
    pub(super) started: Instant,
    /// The moment `started`, in seconds of Unix time.
    pub(super) started_unix_s: u32,
}

impl Memory {
    /// Creates a memory that has learnt nothing, whose keys this hasher makes.
    pub(super) fn new(config: &config::Config, hasher: KeyHasher) -> Self {
        let own = &config.catalogue;
        let (started, unix) = (Instant::now(), SystemTime::UNIX_EPOCH.elapsed());
        Self {
            learnt: Arc::new(Learnt::new(own.max_bytes, own.ttl)),
            hasher,
            vary: own.vary.clone(),
            kinds: kinds(config),
            clusters: names(config),
            started,
            started_unix_s: unix.map_or(0, seconds),
        }
    }

    /// Prepares the memory of another configuration, whose keys this hasher makes; `before` is the
    /// present configuration. Learnt sizes stay, unless their keys are made in another way.
    pub(super) fn prepare(
        &self,
        before: &config::Catalogue,
        config: &config::Config,
        hasher: KeyHasher,
    ) -> Self {
        let after = &config.catalogue;
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
        Self {
            learnt,
            hasher,
            vary: after.vary.clone(),
            kinds: kinds(config),
            clusters: names(config),
            started: self.started,
            started_unix_s: self.started_unix_s,
        }
    }

    /// Copies the learnt sizes into a table of another size.
    fn moved(&self, table: Learnt) -> Learnt {
        let now_s = self.now_s();
        for part in 0..self.learnt.parts() {
            for (packed, asked_again) in self.learnt.entries(part, now_s) {
                table.restore(packed, asked_again, now_s);
            }
        }
        table
    }

    /// Returns the present time in seconds of Unix time, which never go back.
    pub(super) fn now_s(&self) -> u32 {
        self.started_unix_s
            .saturating_add(seconds(clock::now() - self.started))
    }

    /// Returns the size that was learnt for a request.
    pub(super) fn look_up(&self, asked: &Asked) -> Option<Known> {
        self.learnt.look_up(&asked.resource, self.now_s())
    }

    /// Stores the size that a response had, or that a probe has found for it.
    pub(super) fn note(&self, lesson: &Lesson, bytes: u64) {
        let resource = &lesson.asked.resource;
        self.learnt
            .learn(resource, bytes, lesson.fields, self.now_s());
    }

    /// Returns the catalogue's view of a request with these header fields; `with_names` for layers
    /// that do not go by hashes.
    pub(super) fn asked(
        &self,
        to: &Destination<'_>,
        fields: &HeaderMap,
        with_names: bool,
    ) -> Asked {
        let values = variant_values(&self.hasher, &self.vary, &Head(fields));
        let cluster = &self.clusters[to.cluster];
        let url = self.hasher.url(cluster, to.host, to.target.as_str());
        let names = || Names {
            host: to.host.into(),
            target: to.target.clone(),
            upstream: to.upstream.unwrap_or(to.target).clone(),
        };
        Asked {
            resource: Resource { url, values },
            cluster: to.cluster,
            route: to.route,
            kind: self.kinds[to.route],
            groups: Groups::new(self.kinds[to.route], to.target.path()),
            names: with_names.then(names),
        }
    }

    /// Returns the part of a response with these header fields that the catalogue learns from.
    pub(super) fn lesson(&self, asked: &Asked, fields: &HeaderMap) -> Lesson {
        Lesson {
            asked: asked.with_content_type(fields),
            fields: varies_by(&self.vary, &Head(fields)),
        }
    }
}

/// Returns the kind that estimates go by, for each route.
fn kinds(config: &config::Config) -> Vec<usize> {
    let number = |route| Identity::of(route).number();
    config.routes.iter().map(number).collect()
}

/// Returns the names of the clusters.
fn names(config: &config::Config) -> Vec<String> {
    let clusters = config.clusters.iter();
    clusters.map(|cluster| cluster.name.clone()).collect()
}
