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
    /// The priority classes, and the rules that give requests a class.
    pub classes: Classes,
    /// The sources that tell a response's size before it begins; none if they are off.
    pub catalogue: Option<FilterCatalogue>,
    /// The scarce link towards the clients.
    pub uplink: FilterUplink,
    /// The rules by which admission turns requests away under overload.
    pub admission: Admission,
    /// The clusters; the first that matches a request gets it.
    pub clusters: Vec<FilterCluster>,
    /// The field of the response's head that tells what the filter did, in lower case; none if that
    /// is off.
    pub response_header: Option<String>,
}

/// The scarce link towards the clients.
#[derive(Clone, Debug, PartialEq)]
pub struct FilterUplink {
    /// The rate in bits per second on the wire; `None` is unlimited.
    pub rate_bits_per_s: Option<u64>,
    /// The order in which responses are sent.
    pub policy: Discipline,
    /// The part of a response that is held until its turn; none holds what is safe in the filter's
    /// host.
    pub hold: Option<Hold>,
    /// The most responses in progress; one over it is sent unpaced.
    pub max_flows: usize,
    /// The part of the link for the response that has waited longest, in percent.
    pub floor_percent: u8,
}

/// The part of a response that a filter holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// The response's head is held; its body passes.
    Heads,
    /// The response's head is held, and each part of its body.
    Bodies,
}

/// The sources that tell a response's size before the response begins.
#[derive(Clone, Debug, PartialEq)]
pub struct FilterCatalogue {
    /// The most bytes of memory for learnt sizes; zero switches them off.
    pub max_bytes: usize,
    /// The time for which a learnt size is believed.
    pub ttl: Duration,
    /// The fields that tell variants apart, see [`Catalogue::vary`](super::Catalogue::vary).
    pub vary: Vec<String>,
    /// The sizes that the configuration lists.
    pub manifest: Vec<ListedSize>,
    /// The estimates by kind; none if they are off.
    pub estimator: Option<EstimatorConfig>,
}

/// A resource whose size the configuration lists.
#[derive(Clone, Debug, PartialEq)]
pub struct ListedSize {
    /// The host of requests for the resource; none is every host.
    pub host: Option<HostPattern>,
    /// The path of the resource, with its query if there is one.
    pub target: String,
    /// The size of the response in bytes.
    pub bytes: u64,
}

/// A group of Envoy's clusters that serve the same things.
#[derive(Clone, Debug, PartialEq)]
pub struct FilterCluster {
    /// The name, which no other cluster has.
    pub name: String,
    /// The requests that the cluster is for.
    pub matches: RouteMatch,
    /// The pools, at least one.
    pub pools: Vec<Pool>,
    /// The request header field that names the pool, in lower case.
    pub header: String,
    /// The key in the metadata of `envoy.lb` that also names the pool.
    pub metadata_key: Option<String>,
    /// The rule by which a pool is chosen.
    pub dispatch: Dispatch,
    /// The part of a request that is hashed, if `dispatch` goes by a hash.
    pub hash_key: HashKey,
    /// The most requests in service at each pool; `usize::MAX` is without bound.
    pub max_requests: usize,
    /// The order and the bounds of requests that wait for a pool.
    pub wait_queue: WaitQueue,
    /// The HEAD requests that ask a pool for sizes; none if there are none.
    pub head_probe: Option<FilterProbe>,
}

/// A pool: one of Envoy's clusters.
#[derive(Clone, Debug, PartialEq)]
pub struct Pool {
    /// The name that Envoy knows the cluster by.
    pub name: String,
    /// The pool's share, relative to the others; at least 1.
    pub weight: u32,
    /// The sizes in bytes, from and to (inclusive), that the pool is for.
    pub size_range: Option<(u64, u64)>,
    /// Whether the pool is for requests of the highest class alone.
    pub reserved: bool,
}

/// The settings of HEAD requests that ask a pool for sizes.
#[derive(Clone, Debug, PartialEq)]
pub struct FilterProbe {
    /// The cluster of Envoy's that is asked.
    pub cluster: String,
    /// The bounds on probes: their times, their number and their memory.
    pub bounds: HeadProbe,
}
