//! The origin of a response: its cluster, as a number that the uplink carries with it.

use sprat_scheduler::dispatch::stable_hash;

/// The number of responses that come from no cluster.
pub(crate) const NO_CLUSTER: u32 = 0;

/// Returns the number of a cluster's responses. It is the same in every configuration, so
/// that a response that outlives a reload is told of as what it is.
pub(crate) fn origin(cluster: &str) -> u32 {
    let hash = stable_hash(&[cluster.as_bytes()]);
    (hash as u32).max(NO_CLUSTER + 1)
}
