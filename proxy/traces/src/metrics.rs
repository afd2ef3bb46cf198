//! Counters of the spans on their way to the collector.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sprat_net::metrics::{Labels, Row, Topic};

/// The reason why spans did not get to the collector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dropped {
    /// The queue was full.
    QueueFull,
    /// The collector refused the spans.
    Rejected,
    /// The collector could not be reached, or put the spans off, for too long.
    Failed,
    /// The process ended, or its configuration was replaced, before the spans were sent.
    Shutdown,
}

impl Dropped {
    const ALL: [Self; 4] = [
        Self::QueueFull,
        Self::Rejected,
        Self::Failed,
        Self::Shutdown,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::QueueFull => "queue_full",
            Self::Rejected => "rejected",
            Self::Failed => "failed",
            Self::Shutdown => "shutdown",
        }
    }
}

/// Counts of spans, kept through reloads even if a reload changes the collector.
#[derive(Debug, Default)]
pub struct TraceStats {
    exported: AtomicU64,
    dropped: [AtomicU64; Dropped::ALL.len()],
    failures: AtomicU64,
    queued: AtomicU64,
}

impl TraceStats {
    pub(crate) fn exported(&self, spans: usize) {
        self.exported.fetch_add(spans as u64, Ordering::Relaxed);
    }

    pub(crate) fn dropped(&self, why: Dropped, spans: usize) {
        self.dropped[why as usize].fetch_add(spans as u64, Ordering::Relaxed);
    }

    pub(crate) fn failed(&self) {
        self.failures.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn queued(&self, spans: usize) {
        self.queued.fetch_add(spans as u64, Ordering::Relaxed);
    }

    pub(crate) fn unqueued(&self, spans: usize) {
        self.queued.fetch_sub(spans as u64, Ordering::Relaxed);
    }
}

fn get(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

/// The metrics of spans on their way to the collector.
#[rustfmt::skip]
pub static TRACES: Topic<Arc<TraceStats>> = Topic { title: "Traces", rows: &[
    Row::counter("sprat_traces_exported_total", Labels::NONE,
        "Spans that the collector has taken",
        |own, out| out.one(get(&own.exported))),
    Row::counter("sprat_traces_dropped_total", Labels::NONE.and("reason", 4),
        "Spans that the collector did not get: queue_full, rejected by it, failed for too long, or shutdown came first",
        |own, out| for why in Dropped::ALL {
            out.put(&[why.name()], get(&own.dropped[why as usize]));
        }),
    Row::counter("sprat_traces_export_failures_total", Labels::NONE,
        "Requests to the collector that it did not answer with 2xx; most are made again",
        |own, out| out.one(get(&own.failures))),
    Row::gauge("sprat_traces_queued", Labels::NONE,
        "Spans that wait to be sent",
        |own, out| out.one(get(&own.queued))),
] };
