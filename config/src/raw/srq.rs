//! The policy and the order `srq` as they are written (SRQ06).

use super::{SomeBytes, Timeout};
use crate::containers::{List, Or};
use crate::numbers::{Factor, PlacesPercent, Ratio, Share, SharePercent};
use crate::record::{choices, record};
use crate::resolved::Measured;
use crate::scalars::{Count, Time};
use crate::words::{Always, Off};

/// The number of queues, within its bounds.
pub(crate) type QueueCount = Count<2, 16>;

record! {
    /// Queues by the bytes that each response has sent. The queues adapt to the traffic;
    /// deadlines and values give the order in each queue (SRQ06).
    closed struct Srq {
        /// The weight of deadlines against values in each queue: 1 is the earliest deadline
        /// first, 0 the highest value first.
        default("0.2") alpha: Share,
        /// How often Sprat adapts the queues and their quanta to the responses that have
        /// passed.
        default("60s") interval: Time<1_000>,
        /// A queue's quantum grows if more than this share of the responses that leave the
        /// queue go on to the next one.
        default("0.6") t_fail: Share,
        /// The last queue is split if the sizes of the responses that ended in it have a
        /// standard deviation, divided by their mean, above this.
        default("1") t_split: Ratio,
        /// A queue's quantum shrinks if the sizes of the responses that ended in the queue have
        /// a standard deviation, divided by their mean, above this.
        default("1") t_desc: Ratio,
        /// The factor by which a quantum grows.
        default("2") adj_i: Factor,
        /// The part of the mean size by which a quantum shrinks.
        default("0.2") adj_d: Ratio,
        /// For responses of a class without a `deadline`: time until the value begins to fall,
        /// counted from when the response is there.
        default("2s") soft_deadline: Timeout,
        /// For responses of a class without a `deadline`: time until the value is gone, counted
        /// from when the response is there.
        default("2s") deadline: Timeout,
        /// Share of the link for the first queue that has something to send. The other queues
        /// share the rest by how many responses they have.
        default("90%") first_share: SharePercent,
        /// The quanta at the start: how many bytes a response may send in each queue before it
        /// goes to the next. One fewer than there are queues.
        default("[10KB, 100KB]") quanta: List<SomeBytes, 1>,
        /// Bounds on the number of queues.
        default("{}") queues: QueueBounds,
        /// Responses that must leave a queue in an `interval` before Sprat adapts that queue.
        default("20") samples_min: Count<1, 1_000_000>,
        /// When the queues order responses: `always`, or in busy periods only. At other times
        /// the order is that of `fair`.
        default("always") trigger: Or<Always, Busy>,
    }

    /// Bounds on the number of queues.
    closed struct QueueBounds {
        /// The fewest queues that there may be. The last two are merged only while there are more.
        default("2") min: QueueCount,
        /// The most queues that there may be. The last one is split only while there are fewer.
        default("16") max: QueueCount,
    }

    /// A busy period begins when the load has been above the bound for a second, and ends when
    /// it has been below half of the bound for five seconds. Give one of the two keys.
    closed struct Busy {
        /// The bound on the time that the link needs for what open responses have left to send.
        optional backlog: Timeout,
        /// The bound on the number of responses that wait for their turns.
        optional max_requests: Count<1, 10_000_000>,
    }

    /// Queues by how long each request has been in service. The queues adapt to the traffic. A
    /// request that is in service for longer than its queue's quantum moves to the next queue and
    /// lets another start beside it (SRQ06).
    closed struct SrqOrder {
        /// The weight of deadlines against values among waiting requests: 1 is the earliest
        /// deadline first, 0 the highest value first.
        default("0.2") alpha: Share,
        /// How often Sprat adapts the queues and their quanta to the requests that have passed.
        default("60s") interval: Time<1_000>,
        /// A queue's quantum grows if more than this share of the requests that leave the queue
        /// go on to the next one.
        default("0.6") t_fail: Share,
        /// The last queue is split if the times of the requests that ended in it have a standard
        /// deviation, divided by their mean, above this.
        default("1") t_split: Ratio,
        /// A queue's quantum shrinks if the times of the requests that ended in the queue have a
        /// standard deviation, divided by their mean, above this.
        default("1") t_desc: Ratio,
        /// The factor by which a quantum grows.
        default("2") adj_i: Factor,
        /// The part of the mean time by which a quantum shrinks.
        default("0.2") adj_d: Ratio,
        /// For requests of a class without a `deadline`: time until the value begins to fall,
        /// counted from when the request came.
        default("2s") soft_deadline: Timeout,
        /// For requests of a class without a `deadline`: time until the value is gone, counted
        /// from when the request came.
        default("2s") deadline: Timeout,
        /// Share of an endpoint's places for requests of the first queue. All requests that have
        /// moved to later queues count for the rest of the places at most, rounded up, so that
        /// others start in their stead. With `use_estimates`, also the share of the starts.
        default("90%") first_share: PlacesPercent,
        /// Requests in service at each endpoint beyond `max_requests`, as far as `max_connections`
        /// has room for them. If absent, as many again as `max_requests`.
        optional max_overcommit: Count<0, 10_000_000>,
        /// The quanta at the start: how long a request may be in service in each queue before it
        /// goes to the next. One fewer than there are queues.
        default("[50ms, 500ms]") quanta: List<Timeout, 1>,
        /// Bounds on the number of queues.
        default("{}") queues: QueueBounds,
        /// Requests that must leave a queue in an `interval` before Sprat adapts that queue.
        default("20") samples_min: Count<1, 1_000_000>,
        /// The time that the adaptation takes of each request that has ended.
        default("attained") statistics: Measured,
        /// Requests whose responses are known beforehand to have this size or more begin in the
        /// second queue. `off` has all begin in the first.
        default("off") use_estimates: Or<Off, SomeBytes>,
        /// When the queues order requests: `always`, or in busy periods only. At other times the
        /// order is that of `fcfs`, and `max_requests` is the bound.
        default("always") trigger: Or<Always, BusyQueue>,
    }

    /// A busy period begins when more requests than the bound have waited for a second, and ends
    /// when fewer than half of it have waited for five seconds.
    closed struct BusyQueue {
        /// The bound on the number of requests that wait in the cluster.
        required max_requests: Count<1, 10_000_000>,
    }
}

choices! {
    Measured as "Measured": "a time" {
        /// Time in service, which the quanta are compared with.
        "attained" => Self::Attained,
        /// Time since the request came, its wait included, as in the paper.
        "elapsed" => Self::Elapsed,
    }
}
