//! Whence a response comes, as a number that the uplink carries with it.

use sprat_scheduler::dispatch::stable_hash;

/// The number of what comes from no cluster.
pub(crate) const NO_CLUSTER: u32 = 0;

/// Returns the number of a cluster's responses: the same in every configuration, so that
/// one that outlives a reload is told of as what it is.
pub(crate) fn origin(cluster: &str) -> u32 {
    let hash = stable_hash(&[cluster.as_bytes()]);
    (hash as u32).max(NO_CLUSTER + 1)
}
