//! A generation: a worker's part of one configuration, by which it serves requests.
//!
//! A request takes the present generation when it begins and keeps it to its
//! end, so that a reload changes nothing under it.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;

use sprat_config::classify::Classifier;
use sprat_config::resolved::{Config, Marking, Uplink as UplinkConfig};
use sprat_sizes::Catalogue;
use sprat_traces::Tracer;
use sprat_uplink::{FirstTurn, Uplink};
use sprat_upstream::Upstream;
use tokio::sync::Notify;

use crate::observe::access_log::Logs;
use crate::observe::origin::{NO_CLUSTER, origin};
use crate::observe::stats::ClassCounters;
use crate::setup::assembly::Assembly;
use crate::setup::routing::Routes;
use sprat_net::buffer::Buffers;
use sprat_net::client::ClientNumbers;
use sprat_net::places::Places;
use sprat_net::tls::Challenges;

/// The parts of a configuration that a worker serves requests by.
pub(crate) struct Generation {
    /// The routes, which lead from requests to clusters.
    pub(crate) routes: Arc<Routes>,
    /// The classifier, which gives requests their classes.
    pub(crate) classifier: Arc<Classifier>,
    /// The upstreams, in the order of the configuration's clusters.
    pub(crate) upstreams: Vec<Rc<Upstream>>,
    /// The uplink that responses go out through.
    pub(crate) uplink: Uplink,
    /// The code points that responses bear; none if they bear none.
    pub(crate) marking: Option<Marking>,
    /// Whether the gain is counted by the clients' networks.
    pub(crate) tells_networks: bool,
    /// The numbers that tell clients apart that share the uplink; none if they do not.
    pub(crate) sharing: Option<ClientNumbers>,
    /// The catalogue of sizes.
    pub(crate) catalogue: Arc<Catalogue>,
    /// The proofs for authorities that ask whether names are this server's.
    pub(crate) challenges: Arc<Challenges>,
    /// The access logs; none if the configuration has none.
    pub(crate) log: Option<Logs>,
    /// The tracer, which gives requests their part in traces; none if they have none.
    pub(crate) tracer: Option<Tracer>,
    /// This worker's counters, in the order of the configuration's classes.
    pub(crate) classes: Vec<Arc<ClassCounters>>,
    /// The room for bodies that are buffered.
    pub(crate) buffers: Arc<Buffers>,
    /// The places of copies of requests that are under way.
    pub(crate) mirrors: Places,
    /// The places of responses that are compressed on their way.
    pub(crate) compressing: Places,
    /// The first turns of responses on the uplink, in the same order as the classes.
    first_turns: Vec<FirstTurn>,
    /// The number of each cluster's responses on the uplink.
    origins: Vec<u32>,
}

impl Generation {
    /// Makes the part of the worker with this index. What `before` has of clusters
    /// that are the same stays in use, its idle connections with it.
    pub(crate) fn new(
        assembly: &Assembly,
        worker: usize,
        uplink: Uplink,
        reclaim: &Arc<Notify>,
        before: Option<&Self>,
    ) -> Self {
        let stats = &assembly.stats[worker];
        let clusters = assembly.clusters.iter().zip(&stats.clusters);
        let before_all = before.iter().flat_map(|before| &before.upstreams);
        let known: HashMap<_, _> = before_all.map(|own| (own.shared_by(), own)).collect();
        let upstreams = clusters.map(|(shared, stats)| {
            let same = known.get(&Arc::as_ptr(shared)).copied();
            same.map_or_else(
                || {
                    Rc::new(Upstream::new(
                        shared,
                        Arc::clone(stats),
                        worker,
                        Arc::clone(reclaim),
                    ))
                },
                Rc::clone,
            )
        });
        Self {
            routes: Arc::clone(&assembly.routes),
            classifier: Arc::clone(&assembly.classifier),
            upstreams: upstreams.collect(),
            sharing: uplink.sharing(assembly.config.uplink.share.as_ref()),
            uplink,
            tells_networks: tells_networks(&assembly.config.uplink),
            marking: assembly.config.uplink.marking,
            catalogue: Arc::clone(&assembly.catalogue),
            challenges: Arc::clone(&assembly.acme.challenges),
            log: assembly.log.clone(),
            tracer: assembly.tracer.clone(),
            classes: stats.classes.clone(),
            buffers: Arc::clone(&assembly.buffers),
            mirrors: before.map(|own| own.mirrors.clone()).unwrap_or_default(),
            compressing: before
                .map(|own| own.compressing.clone())
                .unwrap_or_default(),
            first_turns: first_turns(&assembly.config),
            origins: (assembly.config.clusters.iter())
                .map(|cluster| origin(&cluster.name))
                .collect(),
        }
    }

    /// Returns the first turn on the uplink of a response of this class, for this client.
    pub(crate) fn first_turn(&self, class: usize, client: Option<u64>) -> FirstTurn {
        FirstTurn {
            client,
            ..self.first_turns[class]
        }
    }

    /// Returns the number that responses of a cluster have on the uplink.
    pub(crate) fn origin(&self, cluster: Option<usize>) -> u32 {
        cluster.map_or(NO_CLUSTER, |cluster| self.origins[cluster])
    }

    /// Gives way to the next generation: an upstream that it has not taken over keeps no
    /// connection for requests to come.
    pub(crate) fn give_way_to(&self, next: &Self) {
        let kept: HashSet<_> = next.upstreams.iter().map(Rc::as_ptr).collect();
        for upstream in &self.upstreams {
            if !kept.contains(&Rc::as_ptr(upstream)) {
                upstream.retire();
            }
        }
    }
}

/// Returns whether the gain is counted by the clients' networks.
fn tells_networks(uplink: &UplinkConfig) -> bool {
    uplink.counterfactual && uplink.counterfactual_networks > 0
}

fn first_turns(config: &Config) -> Vec<FirstTurn> {
    let classes = config.classes.list.iter().enumerate();
    let turns = classes.map(|(class, own)| FirstTurn {
        class,
        client: None,
        network: None,
        origin: NO_CLUSTER,
        // A cluster's own is for its endpoints.
        timeout: own.queue_timeout.or(None),
        idle_only: own.spec.idle_only,
    });
    turns.collect()
}
