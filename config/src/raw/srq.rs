//! The policy `srq` as it is written (SRQ06).

use super::{SomeBytes, Timeout};
use crate::containers::{List, Or};
use crate::numbers::{Factor, Ratio, Share, SharePercent};
use crate::record::record;
use crate::scalars::{Count, Time};
use crate::words::Always;

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
        /// The fewest queues. The last two are merged only while there are more.
        default("2") min: QueueCount,
        /// The most queues. The last one is split only while there are fewer.
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
}
