//! The uplink's part of the table of metrics.

use std::sync::Arc;
use std::time::Duration;

use sprat_net::metrics::{Labels, Per, Row, Series, Topic};
use sprat_scheduler::counterfactual::Tally;
use sprat_scheduler::srq::MAX_QUEUES;
use sprat_scheduler::{EgressClassStats, Mark};

use super::gain::COMPARED;
use super::link::{LinkStatus, PacedLink, QueueStatus};

/// The state of a paced uplink at the moment of a scrape.
#[derive(Debug)]
pub struct LinkView {
    status: LinkStatus,
    /// Each priority class: its name, its counters, and the longest wait in it.
    classes: Vec<(String, EgressClassStats, Duration)>,
    /// The state of SRQ's queues; `None` unless the policy is `srq`.
    queues: Option<QueueStatus>,
    /// The sums of the policy's comparison with `fair`, if it is compared.
    pub(super) tally: Option<Tally>,
}

impl LinkView {
    /// Returns the present state of an uplink with these classes.
    pub fn new(link: &Arc<PacedLink>, classes: &[String]) -> Self {
        let waits = link.longest_waits();
        let each = classes.iter().cloned().zip(link.class_status()).zip(waits);
        Self {
            status: link.status(),
            classes: each.map(|((name, own), wait)| (name, own, wait)).collect(),
            queues: link.queues(),
            tally: link.tally(),
        }
    }
}

const CLASS: Labels = Labels::NONE.per("class", Per::Class);
const QUEUE: Labels = Labels::NONE.and("queue", MAX_QUEUES);

/// The topics of the uplink's metrics, which have no sample if nothing is paced.
pub static TOPICS: [&Topic<LinkView>; 4] = [&UPLINK, &COMPARED, &CLASSES, &QUEUES];

#[rustfmt::skip]
static UPLINK: Topic<LinkView> = Topic { title: "The uplink", rows: &[
    Row::gauge("sprat_uplink_rate_bytes_per_second", Labels::NONE,
        "Rate at which responses are paced now, all headers counted; no sample while nothing is held back",
        |view, out| view.status.rate_bits_per_s.into_iter().for_each(|bits| out.one(bits as f64 / 8.0))),
    Row::gauge("sprat_uplink_effective_rate_bytes_per_second", Labels::NONE,
        "Rate that the link carries, all headers counted: the named rate, or the one that was found; no sample while it is not known",
        |view, out| view.status.effective_rate_bits_per_s.into_iter().for_each(|bits| out.one(bits as f64 / 8.0))),
    Row::gauge("sprat_uplink_queue_seconds", Labels::NONE,
        "Estimated waiting time in the link's queue, behind the pacer",
        |view, out| out.one(view.status.queue)),
    Row::gauge("sprat_uplink_instances", Labels::NONE,
        "Instances that share the uplink's rate, this one included; no sample if the link is not shared",
        |view, out| view.status.divided.into_iter().for_each(|own| out.one(own.instances))),
    Row::counter("sprat_uplink_store_failures_total", Labels::NONE,
        "Failed requests to the store that the instances share; no sample if the link is not shared",
        |view, out| view.status.divided.into_iter().for_each(|own| out.one(own.failures))),
    Row::gauge("sprat_uplink_open_flows", Labels::NONE,
        "Responses in progress on the uplink",
        |view, out| out.one(view.status.open_flows)),
    Row::gauge("sprat_uplink_waiting_flows", Labels::NONE,
        "Responses that wait for their turn on the uplink",
        |view, out| out.one(view.status.waiting_flows)),
    Row::gauge("sprat_uplink_clients", Labels::NONE,
        "Clients with responses in progress that share the uplink, counted once in each priority class; no sample with uplink.clients.share none",
        |view, out| view.status.clients.into_iter().for_each(|clients| out.one(clients))),
    Row::counter("sprat_uplink_grants_total", Labels::NONE,
        "Grants on the uplink",
        |view, out| out.one(view.status.stats.grants)),
    Row::counter("sprat_uplink_granted_bytes_total", Labels::NONE,
        "Bytes of responses that were granted",
        |view, out| out.one(view.status.stats.granted_bytes)),
    Row::counter("sprat_uplink_overhead_bytes_total", Labels::NONE,
        "Bytes on the wire outside grants: set-up, heads that went ahead, acknowledgements, retransmissions",
        |view, out| out.one(view.status.stats.overhead_bytes)),
    Row::counter("sprat_uplink_wire_bytes_total", Labels::NONE,
        "Bytes on the wire, all headers and retransmissions included",
        |view, out| out.one(view.status.stats.wire_bytes)),
    Row::counter("sprat_uplink_guard_trips_total", Labels::NONE,
        "Times that the guard acted: arrivals on the fast path jumped far above their average",
        |view, out| out.one(view.status.stats.guard_trips)),
    Row::counter("sprat_uplink_fast_path_refusals_total", Labels::NONE,
        "Small responses and heads that the fast path refused, so that they waited for a grant",
        |view, out| out.one(view.status.stats.fast_path_refusals)),
    Row::counter("sprat_uplink_marked_bytes_total", Labels::NONE.and("mark", Mark::ALL.len()),
        "Bytes of responses that were granted, by mark; 0 if responses are not marked",
        |view, out| for mark in Mark::ALL {
            out.put(&[mark.name()], view.status.marked_bytes[mark.index()]);
        }),
] };

#[rustfmt::skip]
static CLASSES: Topic<LinkView> = Topic { title: "Priority classes on the uplink", rows: &[
    Row::gauge("sprat_uplink_class_flows", CLASS,
        "Responses in progress on the uplink",
        |view, out| view.classes.iter().for_each(|(name, own, _)| out.put(&[name], own.open_flows))),
    Row::gauge("sprat_uplink_longest_wait_seconds", CLASS,
        "Time since the last grant of the response that has waited longest, by priority class",
        |view, out| view.classes.iter().for_each(|(name, _, wait)| out.put(&[name], *wait))),
    Row::counter("sprat_uplink_class_bytes_total", CLASS,
        "Bytes of responses that were granted",
        |view, out| view.classes.iter().for_each(|(name, own, _)| out.put(&[name], own.granted_bytes))),
] };

#[rustfmt::skip]
static QUEUES: Topic<LinkView> = Topic { title: "Queues of `policy: srq`", rows: &[
    Row::gauge("sprat_uplink_queues", Labels::NONE,
        "Queues that there are at present",
        |view, out| view.queues.iter().for_each(|own| out.one(own.quanta.len() + 1))),
    Row::gauge("sprat_uplink_queues_active", Labels::NONE,
        "Whether the queues order: 0 while their trigger is off, and responses share the link as with fair",
        |view, out| view.queues.iter().for_each(|own| out.one(own.is_on))),
    Row::gauge("sprat_uplink_queue_quantum_bytes", QUEUE,
        "Bytes that a response may send in a queue before it moves to the next; no sample for the last queue",
        |view, out| by_queue(view, out, |own| own.quanta.clone())),
    Row::gauge("sprat_uplink_queue_flows", QUEUE,
        "Responses in progress, by queue",
        |view, out| by_queue(view, out, |own| own.stats.members[..=own.quanta.len()].to_vec())),
    // All queues that there may be: the counters of one that was merged stay.
    Row::counter("sprat_uplink_queue_completed_total", QUEUE,
        "Responses that ended in a queue",
        |view, out| by_queue(view, out, |own| own.stats.done.to_vec())),
    Row::counter("sprat_uplink_queue_moved_total", QUEUE,
        "Responses that used up the quantum of a queue and moved to the next",
        |view, out| by_queue(view, out, |own| own.stats.moved.to_vec())),
    Row::counter("sprat_uplink_queue_changes_total", Labels::NONE.and("change", 4),
        "Changes of the queues: a queue was split or merged, a quantum grown or shrunk",
        |view, out| if let Some(QueueStatus { stats: own, .. }) = &view.queues {
            let changes = [("split", own.splits), ("merged", own.merges), ("grown", own.grown), ("shrunk", own.shrunk)];
            changes.into_iter().for_each(|(change, value)| out.put(&[change], value));
        }),
] };

fn by_queue(view: &LinkView, out: &mut Series<'_, '_>, of: impl Fn(&QueueStatus) -> Vec<u64>) {
    for (queue, value) in view.queues.iter().flat_map(of).enumerate() {
        out.put(&[&queue.to_string()], value);
    }
}
