//! The labels that several topics of the metrics have.

use sprat_net::metrics::{Labels, Per};

/// The names of the classes of status codes, in the order of
/// [`sprat_upstream::ClusterStats::responses`].
pub(super) const CODES: [&str; 6] = ["1xx", "2xx", "3xx", "4xx", "5xx", "none"];

/// The label of metrics that each priority class has.
pub(super) const CLASS: Labels = Labels::NONE.per("class", Per::Class);

/// The label of metrics that each cluster has.
pub(super) const CLUSTER: Labels = Labels::NONE.per("cluster", Per::Cluster);

/// The label of metrics that each listener has.
pub(super) const LISTENER: Labels = Labels::NONE.per("listener", Per::Listener);
