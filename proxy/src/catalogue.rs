//! The catalogue: what is known of a response's size before it begins.
//!
//! Its layers are asked in the order of [`Layer`], each if it is configured.
//! The decisions are [`sprat_scheduler::catalogue`]'s; here are the locks, the
//! files and the sockets.

pub(crate) mod command;
mod dump;
mod keeper;
mod learnt;
mod metrics;
mod snapshot;

use std::time::{Duration, Instant, SystemTime};

use http::header::{HeaderName, VARY};
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue};
use sprat_config::resolved as config;
use sprat_scheduler::Size;
use sprat_scheduler::catalogue::{KeyHasher, MAX_VARY, Resource};

pub(crate) use dump::Dump;
pub(crate) use keeper::Keeper;
use learnt::Learnt;
pub(crate) use metrics::{CatalogueView, LayerStats};

/// Where a size comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layer {
    /// Earlier responses.
    Learnt,
}

impl Layer {
    /// In the order in which they are asked.
    pub(crate) const ALL: [Self; 1] = [Self::Learnt];

    /// The name in metrics and logs.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Learnt => "learnt",
        }
    }

    /// A small integer, for tables.
    pub(crate) const fn index(self) -> usize {
        self as usize
    }
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

/// A resource that a request asks for.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    /// Its hashes.
    pub(crate) resource: Resource,
}

/// What a response teaches, once its size is known.
#[derive(Clone, Debug)]
pub(crate) struct Lesson {
    asked: Asked,
    /// The fields that its `Vary` names.
    fields: u8,
}

/// What is known of sizes, shared by all workers.
#[derive(Debug)]
pub(crate) struct Catalogue {
    learnt: Learnt,
    hasher: KeyHasher,
    vary: Vec<HeaderName>,
    clusters: Vec<String>,
    started: Instant,
    /// Of `started`, seconds of Unix time.
    started_unix_s: u32,
}

impl Catalogue {
    /// An empty one, or what the snapshot has; a snapshot that cannot be read
    /// is left alone, and the log says why.
    pub(crate) fn new(config: &config::Config, random: (u64, u64)) -> anyhow::Result<Self> {
        let clusters = config.clusters.iter().map(|cluster| cluster.name.clone());
        let clusters = clusters.collect();
        let config = &config.catalogue;
        let vary = config.vary.iter().map(|name| name.parse::<HeaderName>());
        let (started, unix) = (Instant::now(), SystemTime::UNIX_EPOCH.elapsed());
        let mut catalogue = Self {
            learnt: Learnt::new(config.max_bytes, config.ttl),
            hasher: KeyHasher::new(random),
            vary: vary.collect::<Result<_, _>>()?,
            clusters,
            started,
            started_unix_s: unix.map_or(0, seconds),
        };
        if let Some(snapshot) = &config.snapshot {
            catalogue.restore(&snapshot.path);
        }
        Ok(catalogue)
    }

    /// Now, in seconds of Unix time that never go back.
    pub(crate) fn now_s(&self) -> u32 {
        self.started_unix_s
            .saturating_add(seconds(self.started.elapsed()))
    }

    /// What a request asks for; none if no layer could know it.
    pub(crate) fn asked(
        &self,
        cluster: usize,
        host: &str,
        target: &PathAndQuery,
        headers: &HeaderMap,
    ) -> Option<Box<Asked>> {
        if self.learnt.is_off() {
            return None;
        }
        let mut values = [0; MAX_VARY];
        for (value, name) in values.iter_mut().zip(&self.vary) {
            for part in headers.get_all(name) {
                *value ^= self.hasher.value(part.as_bytes());
            }
        }
        let url = self
            .hasher
            .url(&self.clusters[cluster], host, target.as_str());
        let resource = Resource { url, values };
        Some(Box::new(Asked { resource }))
    }

    /// What is known of the size of the response to a request, and who knows
    /// it.
    pub(crate) fn lookup_with_source(&self, asked: &Asked, stats: &LayerStats) -> Option<Found> {
        let known = self.learnt.look_up(&asked.resource, self.now_s());
        stats.count(Layer::Learnt, known.is_some());
        known.map(|known| Found {
            size: known.into(),
            layer: Layer::Learnt,
        })
    }

    /// What a response with these headers teaches.
    pub(crate) fn lesson(&self, asked: &Asked, headers: &HeaderMap) -> Lesson {
        Lesson {
            asked: asked.clone(),
            fields: self.varies_by(headers.get_all(VARY).iter()),
        }
    }

    fn varies_by<'a>(&self, vary: impl Iterator<Item = &'a HeaderValue>) -> u8 {
        let mut fields = 0;
        let texts = vary.filter_map(|value| value.to_str().ok());
        for named in texts.flat_map(|text| text.split(',')) {
            let same = |name: &HeaderName| name.as_str().eq_ignore_ascii_case(named.trim());
            if let Some(index) = self.vary.iter().position(same) {
                fields |= 1 << index;
            }
        }
        fields
    }

    /// Remembers the size of a response.
    pub(crate) fn learn(&self, lesson: &Lesson, bytes: u64) {
        let resource = &lesson.asked.resource;
        self.learnt
            .learn(resource, bytes, lesson.fields, self.now_s());
    }

    fn restore(&mut self, path: &std::path::Path) {
        let header = match snapshot::verify(path) {
            Ok(Some(header)) => header,
            Ok(None) => return tracing::info!(?path, "no snapshot of sizes yet"),
            Err(error) => {
                return tracing::warn!(?path, "the snapshot of sizes is not used: {error:#}");
            }
        };
        if header.vary != self.vary_names() {
            let then = header.vary.join(", ");
            return tracing::warn!(
                ?path,
                "the snapshot of sizes is not used: it was made with `vary: [{then}]`"
            );
        }
        self.hasher = KeyHasher::new(header.secret);
        let now_s = self.now_s();
        let mut entries = 0_usize;
        let read = snapshot::each(path, |packed, asked_again| {
            entries += usize::from(self.learnt.restore(packed, asked_again, now_s));
        });
        match read {
            Ok(()) => tracing::info!(?path, entries, "sizes restored"),
            Err(error) => tracing::warn!(?path, entries, "the snapshot was cut short: {error:#}"),
        }
    }

    fn vary_names(&self) -> Vec<String> {
        let names = self.vary.iter().map(|name| name.as_str().to_owned());
        names.collect()
    }

    fn header(&self) -> snapshot::Header {
        snapshot::Header {
            secret: self.hasher.secret(),
            saved_s: self.now_s(),
            vary: self.vary_names(),
        }
    }

    /// Writes a snapshot in the place of the one that is there.
    ///
    /// # Errors
    ///
    /// The file cannot be written; the one that is there stays.
    pub(crate) fn save(&self, path: &std::path::Path) -> anyhow::Result<usize> {
        let mut writer = snapshot::Writer::create(path, &self.header())?;
        let (now_s, mut entries) = (self.now_s(), 0);
        for part in 0..self.learnt.parts() {
            let part = self.learnt.entries(part, now_s);
            entries += part.len();
            writer.write(&part)?;
        }
        writer.finish()?;
        Ok(entries)
    }
}

fn seconds(duration: Duration) -> u32 {
    u32::try_from(duration.as_secs()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
