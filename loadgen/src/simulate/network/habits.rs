//! Habits of TCP, which differ by its time.

use std::time::Duration;

/// The habits of TCP that differ by its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Habits {
    /// The least timeout beyond a round trip.
    pub(super) rto_least: Duration,
    /// The timeout before a round trip was measured, also of a SYN-ACK.
    pub(super) rto_initial: Duration,
    /// Whether losses are found by time and the end of a burst is probed (RFC 8985); else
    /// by three duplicates alone.
    pub(super) by_time: bool,
    /// The most that a client lets a sender have on the way, in bytes: at first, and in
    /// the end.
    pub(super) receive: (u64, u64),
    /// Whether a connection may have as much in the server's own queue as TCP's pacing lets out of
    /// it in a millisecond, if that is more than three segments.
    pub(super) is_small_queue_timed: bool,
}

impl Habits {
    /// The habits of Linux today: RFC 6298 with its own least timeout, windows that grow by twice
    /// what has come to half of the largest buffer.
    pub(super) const TODAY: Self = Self {
        rto_least: Duration::from_millis(200),
        rto_initial: Duration::from_secs(1),
        by_time: true,
        receive: (64 << 10, 3 << 20),
        is_small_queue_timed: false,
    };

    /// The habits of Linux 2.2: 3 s before a round trip was measured, windows of 32 KB.
    pub(super) const LINUX_2_2: Self = Self {
        rto_least: Duration::from_millis(200),
        rto_initial: Duration::from_secs(3),
        by_time: false,
        receive: (32 << 10, 32 << 10),
        is_small_queue_timed: false,
    };
}
