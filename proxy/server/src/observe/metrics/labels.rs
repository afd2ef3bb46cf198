//! The labels that several topics of the metrics have.

use sprat_net::metrics::{Labels, Per};

/// Classes of status codes, by [`sprat_upstream::ClusterStats::responses`].
pub(super) const CODES: [&str; 6] = ["1xx", "2xx", "3xx", "4xx", "5xx", "none"];

/// The label of what each priority class has.
pub(super) const CLASS: Labels = Labels::NONE.per("class", Per::Class);

/// The label of what each cluster has.
pub(super) const CLUSTER: Labels = Labels::NONE.per("cluster", Per::Cluster);

/// The label of what each listener has.
pub(super) const LISTENER: Labels = Labels::NONE.per("listener", Per::Listener);
