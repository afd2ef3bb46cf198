//! The metrics of clusters, and of decisions on their requests.

use std::sync::atomic::Ordering::Relaxed;

use sprat_net::counters::{Histogram, Seconds, Total};
use sprat_net::metrics::{Labels, Per, Row, Series, Topic, Value};
use sprat_scheduler::health::Ejection;
use sprat_scheduler::srq::MAX_QUEUES;
use sprat_scheduler::station::{ClassStats, RefusalReason};
use sprat_upstream::{
    ClusterStats, Condition, LISTING_RESULTS, PlaceQueues, SessionOutcome, WAIT_RESULTS,
};

use super::labels::CLUSTER;
use super::snapshot::{ClusterView, Snapshot};

const CLASS: Labels = CLUSTER.per("class", Per::Class);
const QUEUE: Labels = CLUSTER.and("queue", MAX_QUEUES);

#[rustfmt::skip]
pub(super) static CLUSTERS: Topic<Snapshot> = Topic { title: "Clusters", rows: &[
    Row::histogram::<Seconds>("sprat_cluster_duration_seconds", CLUSTER,
        "From the end of the request's head to the response's last byte, of responses that went out whole: the time that clients see",
        |now, out| times(now, out, |own| &own.durations)),
    Row::histogram::<Seconds>("sprat_cluster_head_seconds", CLUSTER,
        "From the end of the request's head to that of an endpoint's answer, waiting, connecting and retries included",
        |now, out| times(now, out, |own| &own.heads)),
    Row::histogram::<Seconds>("sprat_queue_wait_seconds", CLUSTER,
        "How long requests waited for an endpoint (only those that had to wait)",
        |now, out| times(now, out, |own| &own.queue_waits)),
    Row::gauge("sprat_waiting_requests", CLASS,
        "Requests that wait for an endpoint",
        |now, out| each_class(now, |cluster, class, own| out.put(&[cluster, class], own.waiting))),
    Row::counter("sprat_admissions_total", CLASS.and("decision", 2 + RefusalReason::ALL.len()),
        "Decisions on requests: started at once (start), made to wait (wait), or the reason for which they were turned away",
        |now, out| each_class(now, |cluster, class, own| {
            out.put(&[cluster, class, "start"], own.started);
            out.put(&[cluster, class, "wait"], own.waited);
            for reason in RefusalReason::ALL {
                out.put(&[cluster, class, reason.name()], own.refused[reason.index()]);
            }
        })),
    Row::counter("sprat_sessions_total", CLUSTER.and("outcome", SessionOutcome::ALL.len()),
        "Requests to a cluster that keeps sessions: without a session yet (new), answered by the session's endpoint (kept) or by another (moved), or refused because that endpoint is not there",
        |now, out| for (index, cluster) in now.view.clusters.iter().enumerate() {
            if cluster.config.stateful_session.is_none() {
                continue;
            }
            for outcome in SessionOutcome::ALL {
                let counts = now.view.named.iter();
                let counts = counts.map(|own| own.clusters[index].sessions[outcome.index()].get());
                out.put(&[&cluster.name, outcome.name()], counts.sum::<u64>());
            }
        }),
    Row::gauge("sprat_requests_awaiting_endpoint", CLUSTER,
        "Requests that wait because none of a cluster's endpoints can be reached, of clusters with wait_for_endpoint",
        |now, out| for cluster in awaiting(now) {
            out.put(&[&cluster.name], cluster.station.absence.waiting());
        }),
    Row::counter("sprat_endpoint_waits_total", CLUSTER.and("result", WAIT_RESULTS.len()),
        "Requests that waited because none of a cluster's endpoints could be reached: an endpoint answered in time (served), or not (given_up)",
        |now, out| for cluster in awaiting(now) {
            for (result, ended) in WAIT_RESULTS.into_iter().zip(&cluster.station.absence.ends) {
                out.put(&[&cluster.name, result], ended.load(Relaxed));
            }
        }),
    Row::counter("sprat_endpoints_file_reads_total", CLUSTER.and("result", LISTING_RESULTS.len()),
        "New versions of a cluster's endpoints_file that were read: in use (applied), or not, so that the previous endpoints stayed (refused)",
        |now, out| for cluster in listing(now) {
            for (result, reads) in LISTING_RESULTS.into_iter().zip(&cluster.listing.reads) {
                out.put(&[&cluster.name, result], reads.load(Relaxed));
            }
        }),
    Row::gauge("sprat_endpoints_file_good", CLUSTER,
        "Whether a cluster's endpoints_file is in use as it stands",
        |now, out| for cluster in listing(now) {
            out.put(&[&cluster.name], cluster.listing.is_good());
        }),
    Row::gauge("sprat_repeated_requests", CLUSTER,
        "Requests that are being repeated",
        |now, out| each(now, out, |_, own| own.repeated)),
    Row::counter("sprat_retries_denied_total", CLUSTER,
        "Requests not repeated because the budget was spent",
        |now, out| each(now, out, |_, own| own.repeats_denied)),
    Row::counter("sprat_ejections_total", CLUSTER.and("cause", Ejection::ALL.len()),
        "Ejections of endpoints because of their responses (outlier detection)",
        |now, out| for (cluster, own) in now.clusters() {
            for cause in Ejection::ALL {
                out.put(&[&cluster.name, cause.name()], own.ejections[cause.index()]);
            }
        }),
    Row::counter("sprat_ejections_prevented_total", CLUSTER,
        "Ejections that max_ejection_percent prevented",
        |now, out| each(now, out, |_, own| own.ejections_prevented)),
    Row::gauge("sprat_cluster_panic", CLUSTER,
        "Whether so few endpoints are healthy that all are used (healthy_panic_threshold)",
        |now, out| each(now, out, |_, own| own.panics)),
    Row::gauge("sprat_circuit_breaker_open", CLUSTER.and("breaker", 4),
        "Whether a cluster has reached the bound of a circuit breaker, by bound",
        |now, out| for (cluster, own) in now.clusters() {
            for (breaker, is_open) in cluster.breakers(own) {
                out.put(&[&cluster.name, breaker], is_open);
            }
        }),
    Row::gauge("sprat_read_ahead_bytes", CLUSTER,
        "Bytes of responses that have been read ahead of their clients",
        |now, out| each(now, out, |cluster, _| cluster.read_ahead.used())),
] };

#[rustfmt::skip]
pub(super) static QUEUES: Topic<Snapshot> = Topic { title: "Queues of `order: srq`", rows: &[
    Row::gauge("sprat_cluster_queues", CLUSTER,
        "Queues that there are at present before a cluster's endpoints",
        |now, out| for (cluster, own) in queues(now) {
            out.put(&[cluster], own.quanta.len() + 1);
        }),
    Row::gauge("sprat_cluster_queues_active", CLUSTER,
        "Whether the queues order: 0 while their trigger is off, and requests wait as with fcfs",
        |now, out| for (cluster, own) in queues(now) {
            out.put(&[cluster], own.is_on);
        }),
    Row::gauge("sprat_cluster_queue_quantum_seconds", QUEUE,
        "Time that a request may be in service in a queue before it moves to the next; no sample for the last queue",
        |now, out| by_queue(now, out, |own| own.quanta.clone())),
    Row::gauge("sprat_cluster_queue_requests", QUEUE,
        "Requests in service at a cluster's endpoints, by queue",
        |now, out| by_queue(now, out, |own| own.stats.members[..=own.quanta.len()].to_vec())),
    // All queues that there may be: the counters of one that was merged stay.
    Row::counter("sprat_cluster_queue_completed_total", QUEUE,
        "Requests whose responses ended in a queue",
        |now, out| by_queue(now, out, |own| own.stats.done.to_vec())),
    Row::counter("sprat_cluster_queue_moved_total", QUEUE,
        "Requests that used up the quantum of a queue and moved to the next",
        |now, out| by_queue(now, out, |own| own.stats.moved.to_vec())),
    Row::counter("sprat_cluster_queue_changes_total", CLUSTER.and("change", 4),
        "Changes of the queues: a queue was split or merged, a quantum grown or shrunk",
        |now, out| for (cluster, PlaceQueues { stats: own, .. }) in queues(now) {
            let changes = [("split", own.splits), ("merged", own.merges), ("grown", own.grown), ("shrunk", own.shrunk)];
            changes.into_iter().for_each(|(change, value)| out.put(&[cluster, change], value));
        }),
] };

/// Returns the queues of each cluster that has any, with its name.
fn queues(now: &Snapshot) -> impl Iterator<Item = (&str, &PlaceQueues)> {
    let clusters = now.clusters();
    clusters.filter_map(|(cluster, own)| Some((&*cluster.name, own.queues.as_ref()?)))
}

fn by_queue<T: Into<Value>>(
    now: &Snapshot,
    out: &mut Series<'_, '_>,
    of: impl Fn(&PlaceQueues) -> Vec<T>,
) {
    for (cluster, own) in queues(now) {
        for (queue, value) in of(own).into_iter().enumerate() {
            out.put(&[cluster, &queue.to_string()], value);
        }
    }
}

/// Returns the clusters whose endpoints stand in a file.
fn listing(now: &Snapshot) -> impl Iterator<Item = &ClusterView> {
    let clusters = now.view.clusters.iter();
    clusters.filter(|own| own.config.endpoints_file.is_some())
}

/// Returns the clusters whose requests wait where no endpoint can be reached.
fn awaiting(now: &Snapshot) -> impl Iterator<Item = &ClusterView> {
    let clusters = now.view.clusters.iter();
    clusters.filter(|own| own.config.wait_for_endpoint.is_some())
}

impl Snapshot {
    /// Returns each cluster with its condition.
    pub(super) fn clusters(&self) -> impl Iterator<Item = (&ClusterView, &Condition)> {
        self.view.clusters.iter().zip(&self.conditions)
    }
}

fn each<T: Into<Value>>(
    now: &Snapshot,
    out: &mut Series<'_, '_>,
    of: impl Fn(&ClusterView, &Condition) -> T,
) {
    for (cluster, own) in now.clusters() {
        out.put(&[&cluster.name], of(cluster, own));
    }
}

fn times(
    now: &Snapshot,
    out: &mut Series<'_, '_>,
    of: impl Fn(&ClusterStats) -> &Histogram<Seconds>,
) {
    for (index, cluster) in now.view.clusters.iter().enumerate() {
        let parts = now.view.named.iter().map(|own| of(&own.clusters[index]));
        out.put(&[&cluster.name], Total::of(parts));
    }
}

fn each_class(now: &Snapshot, mut each: impl FnMut(&str, &str, &ClassStats)) {
    for (cluster, own) in now.view.clusters.iter().zip(&now.decisions) {
        for (class, own) in now.view.classes.iter().zip(own) {
            each(&cluster.name, class, own);
        }
    }
}
