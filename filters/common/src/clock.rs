//! The plausibility of times that workers share without common memory: they come from a clock of
//! the host that may be set back.

use std::time::Duration;

use sprat_scheduler::{Pacer, Time};

/// The most bytes that are debited ahead of the link. A record further ahead is from a clock that
/// has been set back since.
const AHEAD_BYTES: u64 = 1 << 20;

/// Returns the latest time to which debits can have moved the link.
pub(crate) fn latest(link: &Pacer, now: Time) -> Time {
    now + link.time_for(AHEAD_BYTES)
}

/// Returns whether `at` is less than `within` ago, and no more than `within` ahead.
pub(crate) fn is_recent(now: Time, at: Time, within: Duration) -> bool {
    now.since(at) < within && at <= now + within
}
