//! An Envoy filter's configuration after every check.

use std::time::Duration;

use sprat_scheduler::Discipline;

use super::{
    Admission, Classes, Dispatch, EstimatorConfig, HashKey, HeadProbe, HostPattern, RouteMatch,
    WaitQueue,
};

/// An Envoy filter's configuration, checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Filter {
    /// Priority classes, and which requests belong to them.
    pub classes: Classes,
    /// What is known of sizes before a response begins; none if switched off.
    pub catalogue: Option<FilterCatalogue>,
    /// The scarce link towards the clients.
    pub uplink: FilterUplink,
    /// Whom to turn away when there is too much to do.
    pub admission: Admission,
    /// The first that matches has a request.
    pub clusters: Vec<FilterCluster>,
    /// The field of the response's head that tells what was done, in lower
    /// case; none if switched off.
    pub response_header: Option<String>,
}

/// The scarce link towards the clients.
#[derive(Clone, Debug, PartialEq)]
pub struct FilterUplink {
    /// In bits per second on the wire; `None` is unlimited.
    pub rate_bits_per_s: Option<u64>,
    /// The order in which responses are sent.
    pub policy: Discipline,
    /// What is held of a response until its turn; none is what is safe in any
    /// host.
    pub hold: Option<Hold>,
    /// Responses in progress; one over it is sent unpaced.
    pub max_flows: usize,
}

/// What a filter holds of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// The response's head is held; its body passes.
    Heads,
    /// The response's head is held, and each part of its body.
    Bodies,
}

/// What is known of sizes before a response begins.
#[derive(Clone, Debug, PartialEq)]
pub struct FilterCatalogue {
    /// Bytes of memory for learnt sizes at most; zero switches them off.
    pub max_bytes: usize,
    /// How long a learnt size is believed.
    pub ttl: Duration,
    /// The fields that tell variants apart, see [`Catalogue::vary`](super::Catalogue::vary).
    pub vary: Vec<String>,
    /// Sizes that are known beforehand.
    pub manifest: Vec<ListedSize>,
    /// Estimates by kind; none if switched off.
    pub estimator: Option<EstimatorConfig>,
}

/// A resource whose size is known beforehand.
#[derive(Clone, Debug, PartialEq)]
pub struct ListedSize {
    /// None is every host.
    pub host: Option<HostPattern>,
    /// Path, and query if there is one.
    pub target: String,
    /// The size of the response in bytes.
    pub bytes: u64,
}

/// A group of Envoy's clusters that serve the same things.
#[derive(Clone, Debug, PartialEq)]
pub struct FilterCluster {
    /// The name, which no other cluster has.
    pub name: String,
    /// Which requests are for it.
    pub matches: RouteMatch,
    /// The pools, at least one.
    pub pools: Vec<Pool>,
    /// The request header field that names the pool, in lower case.
    pub header: String,
    /// The key in the metadata of `envoy.lb` that names the pool too.
    pub metadata_key: Option<String>,
    /// How a pool is chosen.
    pub dispatch: Dispatch,
    /// What is hashed, if `dispatch` goes by affinity.
    pub hash_key: HashKey,
    /// Requests in service at each pool; `usize::MAX` is without bound.
    pub max_requests: usize,
    /// Those that wait for a pool.
    pub wait_queue: WaitQueue,
    /// HEAD requests that ask a pool for sizes.
    pub head_probe: Option<FilterProbe>,
}

/// One of Envoy's clusters.
#[derive(Clone, Debug, PartialEq)]
pub struct Pool {
    /// As Envoy knows it.
    pub name: String,
    /// The pool's share, relative to the others; at least 1.
    pub weight: u32,
    /// The sizes in bytes, from and to (inclusive), that it is for.
    pub size_range: Option<(u64, u64)>,
    /// For requests of the highest class alone.
    pub reserved: bool,
}

/// HEAD requests that ask a pool for sizes.
#[derive(Clone, Debug, PartialEq)]
pub struct FilterProbe {
    /// Envoy's cluster that is asked.
    pub cluster: String,
    /// When, how many, how long.
    pub bounds: HeadProbe,
}
