//! Times that workers share who have no memory in common, by a clock of the
//! host's that may be set back.

use std::time::Duration;

use sprat_scheduler::{Pacer, Time};

/// The most bytes that are debited ahead of the link. Beyond that a record is from a clock that has
/// been set back since.
const AHEAD_BYTES: u64 = 1 << 20;

/// Returns the latest time to which the link may be debited.
pub(crate) fn latest(link: &Pacer, now: Time) -> Time {
    now + link.time_for(AHEAD_BYTES)
}

/// Returns whether `at` is less than `within` ago, and no more than that ahead.
pub(crate) fn is_recent(now: Time, at: Time, within: Duration) -> bool {
    now.since(at) < within && at <= now + within
}
