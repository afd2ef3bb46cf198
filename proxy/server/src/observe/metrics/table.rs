//! The table of metrics: every topic, in the order in which it is told.

use sprat_acme::ACME;
use sprat_net::metrics::{Chapter, Topic};
use sprat_net::tls::TLS;
use sprat_sizes::CATALOGUE;
use sprat_traces::TRACES;

pub(super) use crate::observe::reloads::CONFIGURATION;

use super::clusters::{CLUSTERS, QUEUES};
use super::connections::{CONNECTIONS, LOGS};
use super::endpoints::{ENDPOINTS, NAMES};
use super::process::{BUILD, PROCESS};
use super::requests::{CLASSES, REQUESTS};
use super::snapshot::Snapshot;

/// The topics that are read from a [`Snapshot`].
pub(super) static OWN: [&Topic<Snapshot>; 8] = [
    &REQUESTS,
    &CLASSES,
    &CLUSTERS,
    &QUEUES,
    &ENDPOINTS,
    &NAMES,
    &CONNECTIONS,
    &LOGS,
];

/// Returns every metric that there may be, by topic.
pub fn metrics_table() -> Vec<Chapter> {
    let own = OWN.iter().map(|topic| topic.chapter());
    let uplink = sprat_uplink::TOPICS.iter().map(|topic| topic.chapter());
    let own = own
        .chain([TLS.chapter(), ACME.chapter(), TRACES.chapter()])
        .chain(uplink);
    let rest = [
        CATALOGUE.chapter(),
        CONFIGURATION.chapter(),
        BUILD.chapter(),
        PROCESS.chapter(),
    ];
    own.chain(rest).collect()
}
