//! The catalogue of sizes in a filter. Its sources in order: the sizes that this worker has learnt,
//! the configuration's manifest, the sizes that the workers share, and estimates by kind.
//!
//! Workers share buckets of sixteen entries under a fixed number of keys, so that neither clients
//! nor time can make them grow. A worker looks there for a size that it does not know itself, and
//! writes new sizes there.

use std::sync::Arc;

use sprat_config::fields::{Fields, varies_by};
use sprat_config::resolved::FilterCatalogue;
use sprat_scheduler::Size;
use sprat_scheduler::catalogue::{
    Estimator, Groups, KeyHasher, Known, Packed, Resource, Table, WIDEST_SPLIT,
};

use crate::host::Host;
use crate::keys::{Asked, Keys};
use crate::metrics::Counter;
use crate::source::Source;

/// The confidence in a size that is stated, not seen: by the manifest or by a probe's answer.
const WRITTEN_DOWN: f32 = 0.9;

/// Returns a size that is stated, not seen. Its confidence is below 1: files change, and backends
/// compress.
pub(crate) fn written_down(bytes: u64) -> Size {
    let confidence = WRITTEN_DOWN;
    Known { bytes, confidence }.into()
}

/// The bytes of a table with one set of sixteen entries.
const BUCKET_TABLE_BYTES: usize = 288;

/// The bytes of an entry in a shared bucket: two words, and whether it was asked for again.
const ENTRY_BYTES: usize = 17;

/// The memory that a shared bucket takes, in bytes, including its key and bookkeeping.
const BUCKET_BYTES: usize = 16 * ENTRY_BYTES + 128;

/// The key that the secret of all keys is shared under.
const SECRET: &str = "sprat.secret";

/// The most attempts at one write, while other workers' writes come before it.
const ATTEMPTS: usize = 3;

/// The properties of a response that its size is learnt under, kept until its end tells the size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lesson {
    /// The keys of the resource asked for, with the response's kind.
    pub(crate) asked: Asked,
    /// The fields that the response varies by: bit `n` for the `n`-th that may tell variants apart.
    varies_by: u8,
}

/// The catalogue of one worker, or of all workers together.
#[derive(Debug)]
pub(crate) struct Sizes {
    keys: Arc<Keys>,
    learnt: Table,
    ttl_s: u32,
    /// The number of shared buckets; 0 if there is no other worker to share with.
    buckets: usize,
    estimator: Option<Estimator>,
}

impl Sizes {
    /// Creates the catalogue of a worker that shares its sizes with others. The hasher `own` makes
    /// the keys if no worker has shared its secret yet.
    pub(crate) fn of_worker(config: &FilterCatalogue, own: KeyHasher, host: &mut dyn Host) -> Self {
        Self {
            buckets: (config.max_bytes / BUCKET_BYTES).min(WIDEST_SPLIT),
            ..Self::of_all(config, shared_hasher(own, host))
        }
    }

    /// Creates the catalogue of all workers together.
    pub(crate) fn of_all(config: &FilterCatalogue, hasher: KeyHasher) -> Self {
        let ttl_s = u32::try_from(config.ttl.as_secs()).unwrap_or(u32::MAX);
        Self {
            keys: Arc::new(Keys::new(config, hasher)),
            learnt: Table::new(config.max_bytes, ttl_s.max(1)),
            ttl_s: ttl_s.max(1),
            buckets: 0,
            estimator: config.estimator.clone().map(Estimator::new),
        }
    }

    /// Returns the keys under which sizes are known.
    pub(crate) fn keys(&self) -> &Arc<Keys> {
        &self.keys
    }

    /// Takes over the sizes that another catalogue has learnt under the same keys.
    pub(crate) fn learn_from(&mut self, other: &mut Self, now_s: u32) {
        if !self.keys.agree_with(&other.keys) {
            return;
        }
        for (entry, again) in other.learnt.entries(now_s) {
            self.learnt.restore(entry, again, now_s);
        }
    }

    /// Returns the size of the response to a request as far as it is known, and the source that
    /// knows it.
    pub(crate) fn look_up(
        &mut self,
        asked: &Asked,
        listed: Option<u64>,
        now_s: u32,
        host: &mut dyn Host,
    ) -> (Size, Source) {
        if let Some(known) = self.learnt.look_up(&asked.resource, now_s) {
            return (known.into(), Source::Learnt);
        }
        if let Some(bytes) = listed {
            return (written_down(bytes), Source::Manifest);
        }
        if let Some(known) = self.ask_others(&asked.resource, now_s, host) {
            return (known.into(), Source::Shared);
        }
        self.estimate(asked)
    }

    /// Returns the size that is estimated from responses of the same kind.
    pub(crate) fn estimate(&self, asked: &Asked) -> (Size, Source) {
        let estimator = self.estimator.as_ref();
        match estimator.and_then(|own| own.estimate(&asked.groups)) {
            Some(known) => (known.into(), Source::Estimator),
            None => (Size::Unknown, Source::Unknown),
        }
    }

    /// Returns a size that another worker has learnt, and keeps it in this worker's table.
    fn ask_others(
        &mut self,
        resource: &Resource,
        now_s: u32,
        host: &mut dyn Host,
    ) -> Option<Known> {
        let key = self.bucket_key(resource)?;
        let (value, _) = host.shared(&key);
        let mut bucket = self.bucket(value.as_deref().unwrap_or_default(), now_s);
        let known = bucket.look_up(resource, now_s)?;
        let entries: Vec<(Packed, bool)> = bucket.entries(now_s).collect();
        let own = entries
            .iter()
            .find(|(packed, _)| packed.key() == resource.url);
        let variant = own.map_or(resource.url, |(own, _)| resource.variant(own.fields()));
        for (packed, again) in entries {
            if [resource.url, variant].contains(&packed.key()) {
                self.learnt.restore(packed, again, now_s);
            }
        }
        Some(known)
    }

    /// Stores the size of a response whose head has these fields, and shares it if it is new.
    pub(crate) fn learn(
        &mut self,
        asked: &Asked,
        response: &(impl Fields + ?Sized),
        bytes: u64,
        now_s: u32,
        host: &mut dyn Host,
    ) {
        let fields = varies_by(&self.keys.vary, response);
        self.observe(&self.kind(asked, response), bytes);
        self.note(asked, fields, bytes, now_s, host);
    }

    /// Returns the kind and variants that a response's head tells, to learn its size later.
    pub(crate) fn lesson(&self, asked: &Asked, response: &(impl Fields + ?Sized)) -> Lesson {
        Lesson {
            asked: Asked {
                groups: self.kind(asked, response),
                ..*asked
            },
            varies_by: varies_by(&self.keys.vary, response),
        }
    }

    /// Stores a size that became known at the response's end, with the lesson of its head.
    pub(crate) fn learn_late(
        &mut self,
        lesson: &Lesson,
        bytes: u64,
        now_s: u32,
        host: &mut dyn Host,
    ) {
        self.observe(&lesson.asked.groups, bytes);
        self.note(&lesson.asked, lesson.varies_by, bytes, now_s, host);
    }

    fn kind(&self, asked: &Asked, response: &(impl Fields + ?Sized)) -> Groups {
        let mut groups = asked.groups;
        response.any("content-type", &mut |text| {
            groups = asked.groups.with_content_type(asked.group, text);
            true
        });
        groups
    }

    fn observe(&mut self, groups: &Groups, bytes: u64) {
        if let Some(estimator) = &mut self.estimator {
            estimator.observe(groups, bytes);
        }
    }

    fn note(&mut self, asked: &Asked, fields: u8, bytes: u64, now_s: u32, host: &mut dyn Host) {
        let resource = &asked.resource;
        let before = self.learnt.look_up(resource, now_s);
        self.learnt.learn(resource, bytes, fields, now_s);
        if before.is_none_or(|known| known.bytes != bytes) {
            self.tell_others(resource, bytes, fields, now_s, host);
        }
    }

    fn tell_others(
        &mut self,
        resource: &Resource,
        bytes: u64,
        fields: u8,
        now_s: u32,
        host: &mut dyn Host,
    ) {
        let Some(key) = self.bucket_key(resource) else {
            return;
        };
        for _ in 0..ATTEMPTS {
            let (value, version) = host.shared(&key);
            let mut bucket = self.bucket(value.as_deref().unwrap_or_default(), now_s);
            bucket.learn(resource, bytes, fields, now_s);
            let mut packed = Vec::with_capacity(16 * ENTRY_BYTES);
            for (entry, again) in bucket.entries(now_s) {
                entry
                    .0
                    .iter()
                    .for_each(|word| packed.extend(word.to_le_bytes()));
                packed.push(u8::from(again));
            }
            if host.set_shared(&key, &packed, version) {
                host.count(Counter::Shared, 1);
                return;
            }
            host.count(Counter::Conflicts, 1);
        }
    }

    fn bucket_key(&self, resource: &Resource) -> Option<String> {
        let part = |buckets| Table::part_of(resource.url, buckets);
        (self.buckets > 0).then(|| format!("sprat.size.{}", part(self.buckets)))
    }

    /// Reads a bucket into a table, without entries that no worker can have written.
    fn bucket(&self, value: &[u8], now_s: u32) -> Table {
        let mut table = Table::new(BUCKET_TABLE_BYTES, self.ttl_s);
        for entry in value.chunks_exact(ENTRY_BYTES).take(16) {
            let word = |at: usize| entry[at..at + 8].try_into().map(u64::from_le_bytes);
            if let (Ok(first), Ok(second)) = (word(0), word(8)) {
                table.restore(Packed([first, second]), entry[16] != 0, now_s);
            }
        }
        table
    }
}

/// Returns the hasher of the keys of all workers: that of the first worker's secret.
fn shared_hasher(own: KeyHasher, host: &mut dyn Host) -> KeyHasher {
    let parse = |value: &[u8]| {
        let word = |at: usize| {
            value
                .get(at..at + 8)?
                .try_into()
                .map(u64::from_le_bytes)
                .ok()
        };
        Some(KeyHasher::new(word(0)?, word(8)?))
    };
    for _ in 0..ATTEMPTS {
        let (value, version) = host.shared(SECRET);
        if let Some(hasher) = value.as_deref().and_then(parse) {
            return hasher;
        }
        let secret = own.secret().map(u64::to_le_bytes).concat();
        if host.set_shared(SECRET, &secret, version) {
            return own;
        }
    }
    own
}
