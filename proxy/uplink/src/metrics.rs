//! The uplink's part of `/metrics`.

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;
use sprat_net::encoding::{count, gauge};
use sprat_scheduler::Mark;

use super::link::{LinkStatus, PacedLink, QueueStatus};

/// A paced uplink's present values and counters.
#[derive(Debug)]
pub struct UplinkView {
    link: Arc<PacedLink>,
    /// Names of the priority classes.
    classes: Vec<String>,
}

impl UplinkView {
    /// Creates the metrics of an uplink with these classes.
    pub fn new(link: &Arc<PacedLink>, classes: Vec<String>) -> Self {
        Self {
            link: Arc::clone(link),
            classes,
        }
    }

    fn classes(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let status = self.link.class_status();
        let help = "Responses in progress on the uplink, by priority class";
        let kind = MetricType::Gauge;
        let mut metric = encoder.encode_descriptor("uplink_class_flows", help, None, kind)?;
        for (class, stats) in self.classes.iter().zip(&status) {
            let labels = [("class", class.as_str())];
            let mut metric = metric.encode_family(&labels)?;
            metric.encode_gauge(&(stats.open_flows as u64))?;
        }
        let help = "How long the response has waited that has gone longest without a turn, by priority class";
        let name = "uplink_longest_wait_seconds";
        let mut metric = encoder.encode_descriptor(name, help, None, kind)?;
        for (class, wait) in self.classes.iter().zip(self.link.longest_waits()) {
            let labels = [("class", class.as_str())];
            metric
                .encode_family(&labels)?
                .encode_gauge(&wait.as_secs_f64())?;
        }
        let help = "Bytes of responses that were given a turn, by priority class";
        let kind = MetricType::Counter;
        let mut metric = encoder.encode_descriptor("uplink_class_bytes", help, None, kind)?;
        for (class, stats) in self.classes.iter().zip(&status) {
            let labels = [("class", class.as_str())];
            count(&mut metric.encode_family(&labels)?, stats.granted_bytes)?;
        }
        Ok(())
    }
}

impl Collector for UplinkView {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let status = self.link.status();
        let stats = status.stats;
        let gauges = [
            (
                "uplink_open_flows",
                "Responses in progress on the uplink",
                status.open_flows as u64,
            ),
            (
                "uplink_waiting_flows",
                "Responses that wait for their turn on the uplink",
                status.waiting_flows as u64,
            ),
        ];
        rates(&status, &mut encoder)?;
        let help = "What waits on the link behind the pacer, as far as is known";
        let name = "uplink_queue_seconds";
        let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        metric.encode_gauge(&status.queue.as_secs_f64())?;
        for (name, help, value) in gauges {
            gauge(&mut encoder, name, help, value)?;
        }
        if let Some(clients) = status.clients {
            let help = "Clients that share the uplink and have responses in progress, counted once in each priority class; no sample where responses are in one order for all";
            gauge(&mut encoder, "uplink_clients", help, clients as u64)?;
        }
        let counters = [
            ("uplink_grants", "Turns given on the uplink", stats.grants),
            (
                "uplink_granted_bytes",
                "Bytes of responses that were given a turn",
                stats.granted_bytes,
            ),
            (
                "uplink_overhead_bytes",
                "Bytes on the wire outside turns: set-up, heads that went ahead, acknowledgements, retransmissions",
                stats.overhead_bytes,
            ),
            (
                "uplink_wire_bytes",
                "Bytes on the wire, all headers and retransmissions included",
                stats.wire_bytes,
            ),
            (
                "uplink_guard_trips",
                "Times that arrivals on the fast path jumped far above their average",
                stats.guard_trips,
            ),
            (
                "uplink_fast_path_refusals",
                "Small responses and heads that wanted to go ahead and had to wait for their turn",
                stats.fast_path_refusals,
            ),
        ];
        for (name, help, value) in counters {
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            count(&mut metric, value)?;
        }
        if let Some(status) = self.link.queues() {
            queues(&status, &mut encoder)?;
        }
        let help = "Bytes of responses that were given a turn, by mark; none where responses are not marked";
        let name = "uplink_marked_bytes";
        let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for mark in Mark::ALL {
            let labels = [("mark", mark.name())];
            let bytes = status.marked_bytes[mark.index()];
            count(&mut metric.encode_family(&labels)?, bytes)?;
        }
        self.classes(&mut encoder)
    }
}

/// What `policy: srq` does.
fn queues(status: &QueueStatus, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let (stats, count_of_queues) = (&status.stats, status.quanta.len() + 1);
    let help = "Queues of policy srq";
    gauge(encoder, "uplink_queues", help, count_of_queues as u64)?;
    let help = "Whether the queues of policy srq order: 0 while its trigger is off";
    gauge(
        encoder,
        "uplink_queues_active",
        help,
        u64::from(status.is_on),
    )?;
    let help = "What a response may have in a queue of policy srq before it goes to the next, by queue; the last has none";
    let kind = MetricType::Gauge;
    let mut metric = encoder.encode_descriptor("uplink_queue_quantum_bytes", help, None, kind)?;
    for (queue, quantum) in status.quanta.iter().enumerate() {
        let labels = [("queue", queue.to_string())];
        metric.encode_family(&labels)?.encode_gauge(quantum)?;
    }
    let help = "Responses in progress, by queue of policy srq";
    let mut metric = encoder.encode_descriptor("uplink_queue_flows", help, None, kind)?;
    for (queue, members) in stats.members.iter().take(count_of_queues).enumerate() {
        let labels = [("queue", queue.to_string())];
        metric.encode_family(&labels)?.encode_gauge(members)?;
    }
    // All queues that there may be: the counters of one that was merged stay.
    let by_queue = [
        (
            "uplink_queue_completed",
            "Responses that were complete, by queue of policy srq",
            &stats.done,
        ),
        (
            "uplink_queue_moved",
            "Responses that used up their quantum, by queue of policy srq",
            &stats.moved,
        ),
    ];
    for (name, help, values) in by_queue {
        let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (queue, &value) in values.iter().enumerate() {
            let labels = [("queue", queue.to_string())];
            count(&mut metric.encode_family(&labels)?, value)?;
        }
    }
    let changes = [
        ("split", stats.splits),
        ("merged", stats.merges),
        ("grown", stats.grown),
        ("shrunk", stats.shrunk),
    ];
    let help = "Changes of the queues of policy srq, by what became of a queue or a quantum";
    let name = "uplink_queue_changes";
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    for (change, value) in changes {
        count(&mut metric.encode_family(&[("change", change)])?, value)?;
    }
    Ok(())
}

/// Where nothing is held back there is no rate, and no sample.
fn rates(status: &LinkStatus, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let rates = [
        (
            "uplink_rate_bytes_per_second",
            "Rate at which responses are sent now, all headers counted; none while nothing is held back",
            status.rate_bits_per_s,
        ),
        (
            "uplink_effective_rate_bytes_per_second",
            "What the link is known to carry, all headers counted: what it is named, or what was found; none while it is not known",
            status.effective_rate_bits_per_s,
        ),
    ];
    for (name, help, bits_per_s) in rates {
        if let Some(bits_per_s) = bits_per_s {
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            metric.encode_gauge(&(bits_per_s as f64 / 8.0))?;
        }
    }
    Ok(())
}
