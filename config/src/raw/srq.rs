//! The policy `srq` as it is written (SRQ06).

use super::{SomeBytes, Timeout};
use crate::containers::{List, Or};
use crate::numbers::{Factor, Ratio, Share, SharePercent};
use crate::record::record;
use crate::scalars::{Always, Count, Time};

/// The number of queues, within its bounds.
pub(crate) type QueueCount = Count<2, 16>;

record! {
    /// Queues by what a response has had, which adapt to what passes; in each,
    /// deadlines and values (SRQ06).
    closed struct Srq {
        /// The weight of deadlines against values: 1 is the earliest deadline
        /// first in each queue, 0 the highest value first.
        default("0.2") alpha: Share,
        /// How often queues and quanta follow what has passed.
        default("60s") interval: Time<1_000>,
        /// A quantum grows when more than this share of those that leave its
        /// queue go on to the next.
        default("0.6") t_fail: Share,
        /// The last queue is split when the deviation of what ended in it, over
        /// the mean, is above this.
        default("1") t_split: Ratio,
        /// A quantum shrinks when the deviation of what ended in its queue, over
        /// the mean, is above this.
        default("1") t_desc: Ratio,
        /// What a quantum that grows is multiplied by.
        default("2") adj_i: Factor,
        /// What a quantum that shrinks loses, as a part of the mean.
        default("0.2") adj_d: Ratio,
        /// Until when a response has its whole value, where its class has no
        /// `deadline`; from when it is there.
        default("2s") soft_deadline: Timeout,
        /// From when on it has none, where its class has no `deadline`.
        default("2s") deadline: Timeout,
        /// What the first queue that has something to send gets of the link.
        /// The others share the rest by how many responses they have.
        default("90%") first_share: SharePercent,
        /// What a response may have in each queue before it goes to the next,
        /// to begin with: one fewer than there are queues.
        default("[10KB, 100KB]") quanta: List<SomeBytes, 1>,
        /// How many queues there may be.
        default("{}") queues: QueueBounds,
        /// Responses that must have left a queue in an interval for it to
        /// adapt.
        default("20") samples_min: Count<1, 1_000_000>,
        /// When the queues order: `always`, or in busy periods; the order is
        /// that of `fair` otherwise.
        default("always") trigger: Or<Always, Busy>,
    }

    /// How many queues there may be.
    closed struct QueueBounds {
        /// The fewest queues, to which the last are merged.
        default("2") min: QueueCount,
        /// The most queues, to which the last is split.
        default("16") max: QueueCount,
    }

    /// A busy period begins when this is so for a second, and ends when it is
    /// below half of this for five.
    closed struct Busy {
        /// What the open responses have left takes the link longer.
        optional backlog: Timeout,
        /// More responses wait for their turns.
        optional max_requests: Count<1, 10_000_000>,
    }
}
