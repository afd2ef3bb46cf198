//! An uplink that several instances send on, as it is written.

use crate::addresses::RedisUrl;
use crate::names::KeyPrefix;
use crate::record::record;
use crate::scalars::{Count, Time};

record! {
    /// A link that several instances send on.
    closed struct SharedUplink {
        /// The store that all instances reach, over the Redis protocol.
        required url: RedisUrl,
        /// The key in the store that stands for the link, the same for all instances.
        default("'sprat:uplink'") key: KeyPrefix,
        /// An instance that the store has not heard of for this time is gone, and its share
        /// goes to the others. Each instance reports three times in a lease. At most 1 minute.
        default("3s") lease: LeaseTime,
        /// Number of instances that `rate` is divided among until the store has told of them.
        /// Give the most that there will be.
        default("1") instances: Count<1, 1000>,
    }
}

/// A span that an instance is believed to live for.
pub(crate) type LeaseTime = Time<300>;
