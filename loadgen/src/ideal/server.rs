//! One link as a queueing-theory server: shortest remaining processing time,
//! and processor sharing.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

/// A work-conserving server in virtual time. Times are nanoseconds since the
/// start of the trace, work is nanoseconds of the whole link.
///
/// The caller keeps events in order: it takes every job that is done by a
/// time before it lets a job arrive at that time.
pub(crate) trait VirtualServer {
    /// Lets `job` arrive at `now_ns` with `work_ns` of work.
    fn arrive(&mut self, now_ns: u64, job: usize, work_ns: u64);
    /// Returns when the next job will be done if none arrives before; `None` if idle.
    fn next_done_ns(&self) -> Option<u64>;
    /// Advances to the end of the next job, and removes that job; `None` if idle.
    fn take_done(&mut self) -> Option<usize>;
}

/// Preemptive shortest remaining processing time (Schrage and Miller 1966):
/// the whole link serves the job with the least work left, of equals the one
/// that comes first in the trace. All arithmetic is in whole nanoseconds.
#[derive(Default)]
pub(crate) struct Srpt {
    now_ns: u64,
    /// The jobs by the work left, in ns: the one with the least is on top, and in service.
    waiting: BinaryHeap<Reverse<(u64, usize)>>,
}

impl VirtualServer for Srpt {
    fn arrive(&mut self, now_ns: u64, job: usize, work_ns: u64) {
        let served_ns = now_ns - self.now_ns;
        if let Some(mut top) = self.waiting.peek_mut() {
            // The job in service stays on top: its key only shrinks.
            top.0.0 = top.0.0.saturating_sub(served_ns);
        }
        self.now_ns = now_ns;
        self.waiting.push(Reverse((work_ns, job)));
    }

    fn next_done_ns(&self) -> Option<u64> {
        let Reverse((left_ns, _)) = self.waiting.peek()?;
        Some(self.now_ns + left_ns)
    }

    fn take_done(&mut self) -> Option<usize> {
        let Reverse((left_ns, job)) = PeekMut::pop(self.waiting.peek_mut()?);
        self.now_ns += left_ns;
        Some(job)
    }
}

/// Processor sharing: each of `n` jobs always gets 1/n of the link.
///
/// Each job's end is known on arrival in *virtual time*, which runs at 1/n of
/// real time (the fluid model of generalised processor sharing, Parekh and
/// Gallager 1993), so that an arrival moves no other job in the heap.
#[derive(Default)]
pub(crate) struct Sharing {
    /// The start of the busy period. The times below count from it, so that floating point stays
    /// fine-grained however long the trace is.
    busy_since_ns: u64,
    /// The real time of the last event, since the busy period's start.
    at_ns: f64,
    /// The virtual time of the last event, since the busy period's start.
    virtual_ns: f64,
    /// The jobs by their end in virtual time, the earliest on top.
    waiting: BinaryHeap<Reverse<VirtualEnd>>,
}

/// The end of a job in virtual time. Of equal ends, the job that comes first in the trace is first.
#[derive(PartialEq)]
struct VirtualEnd {
    virtual_ns: f64,
    job: usize,
}

impl Eq for VirtualEnd {}

impl PartialOrd for VirtualEnd {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for VirtualEnd {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_time = self.virtual_ns.total_cmp(&other.virtual_ns);
        by_time.then(self.job.cmp(&other.job))
    }
}

/// The error of floating point, in ns, that is forgiven when a time is rounded up to whole
/// nanoseconds.
const ROUNDING_NS: f64 = 1e-3;

impl Sharing {
    /// Returns the real time, in ns since the busy period's start, at which a job ends if no other
    /// arrives before.
    fn end_at_ns(&self, end: &VirtualEnd) -> f64 {
        let share = self.waiting.len() as f64;
        self.at_ns + (end.virtual_ns - self.virtual_ns).max(0.0) * share
    }
}

impl VirtualServer for Sharing {
    fn arrive(&mut self, now_ns: u64, job: usize, work_ns: u64) {
        if self.waiting.is_empty() {
            self.busy_since_ns = now_ns;
            self.at_ns = 0.0;
            self.virtual_ns = 0.0;
        } else {
            let now_ns = (now_ns - self.busy_since_ns) as f64;
            let passed_ns = (now_ns - self.at_ns).max(0.0);
            self.virtual_ns += passed_ns / self.waiting.len() as f64;
            self.at_ns += passed_ns;
        }
        self.waiting.push(Reverse(VirtualEnd {
            virtual_ns: self.virtual_ns + work_ns as f64,
            job,
        }));
    }

    fn next_done_ns(&self) -> Option<u64> {
        let Reverse(end) = self.waiting.peek()?;
        let at_ns = (self.end_at_ns(end) - ROUNDING_NS).ceil();
        Some(self.busy_since_ns + at_ns as u64)
    }

    fn take_done(&mut self) -> Option<usize> {
        let Reverse(end) = self.waiting.peek()?;
        let at_ns = self.end_at_ns(end);
        let Reverse(end) = self.waiting.pop()?;
        self.at_ns = at_ns;
        self.virtual_ns = end.virtual_ns;
        Some(end.job)
    }
}
