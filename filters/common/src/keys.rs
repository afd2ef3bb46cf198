//! The keys under which sizes are known, and the sizes that the configuration lists.
//!
//! Neither changes while a filter runs.

use sprat_config::fields::{Fields, variant_values};
use sprat_config::resolved::{FilterCatalogue, HostPattern};
use sprat_scheduler::catalogue::{Groups, Key, KeyHasher, Resource};

/// The keys of the resource that a request asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    pub(crate) resource: Resource,
    pub(crate) groups: Groups,
    pub(crate) group: usize,
}

/// The means to make keys, and the sizes that the configuration lists under some of them.
#[derive(Debug)]
pub(crate) struct Keys {
    pub(crate) vary: Vec<String>,
    hasher: KeyHasher,
    /// The listed sizes in ascending order of their keys: of host and target, or of the target
    /// alone.
    manifest: Vec<(Key, u64)>,
    /// The listed sizes of a target on all hosts below a name.
    below: Vec<(HostPattern, Key, u64)>,
}

impl Keys {
    /// Creates the keys of this hasher.
    pub(crate) fn new(config: &FilterCatalogue, hasher: KeyHasher) -> Self {
        let (mut manifest, mut below) = (Vec::new(), Vec::new());
        for listed in &config.manifest {
            match &listed.host {
                None => manifest.push((hasher.url("", "", &listed.target), listed.bytes)),
                Some(HostPattern::Exact(name)) => {
                    manifest.push((hasher.url("", name, &listed.target), listed.bytes));
                }
                Some(suffix @ HostPattern::Suffix(_)) => {
                    let key = hasher.url("", "", &listed.target);
                    below.push((suffix.clone(), key, listed.bytes));
                }
            }
        }
        manifest.sort_by_key(|(key, _)| *key);
        Self {
            vary: config.vary.clone(),
            hasher,
            manifest,
            below,
        }
    }

    /// Returns whether equal keys of both stand for the same resource.
    pub(crate) fn agree_with(&self, other: &Self) -> bool {
        self.hasher == other.hasher && self.vary == other.vary
    }

    /// Returns the keys of the resource that a request asks for. The `target` is its path and
    /// query, and `group` the number of its group of pools.
    pub(crate) fn asked(
        &self,
        group: usize,
        host: &str,
        target: &str,
        request: &(impl Fields + ?Sized),
    ) -> Asked {
        let path = target.split('?').next().unwrap_or(target);
        Asked {
            resource: Resource {
                url: self.hasher.url("", host, target),
                values: variant_values(&self.hasher, &self.vary, request),
            },
            groups: Groups::new(group, path),
            group,
        }
    }

    /// Returns the size that the configuration's manifest lists for a target on a host.
    pub(crate) fn listed(&self, host: &str, target: &str) -> Option<u64> {
        if self.manifest.is_empty() && self.below.is_empty() {
            return None;
        }
        let path = target.split('?').next().unwrap_or(target);
        let any = |text: &str| self.hasher.url("", "", text);
        for text in [target, path] {
            for key in [self.hasher.url("", host, text), any(text)] {
                if let Ok(at) = self.manifest.binary_search_by_key(&key, |(own, _)| *own) {
                    return Some(self.manifest[at].1);
                }
            }
        }
        let keys = [any(target), any(path)];
        let mut below = self.below.iter();
        let fits = below.find(|(own, key, _)| keys.contains(key) && own.matches(host));
        fits.map(|(.., bytes)| *bytes)
    }
}
