//! The account of what a gate was told of a socket, so that it hears of each byte once.
//!
//! A driver follows some sockets for some of the time. What leaves the others it tells at once as
//! overhead, or not at all while the search rests. So the gate learns of a socket in the middle of
//! its stream, and what is under way then was told before, or was not.

use crate::WireCost;

/// The bytes that have left a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone {
    /// The stream's bytes that have left, each counted once: `tcpi_bytes_sent -
    /// tcpi_bytes_retrans`.
    pub first_sent: u64,
    /// The bytes that have left on the wire, those sent again included.
    pub wire_bytes: u64,
}

/// The account of what a gate was told of a followed socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Told {
    wire_bytes: u64,
    first_sent: u64,
    passed_over: u64,
}

/// A report that bytes of a socket have left the host.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// The number of the socket, as in [`Write::socket`](super::Write::socket).
    pub socket: u64,
    /// The client's network, as in [`Write::network`](super::Write::network).
    pub network: u64,
    /// The stream's bytes that have left, as in [`Gone::first_sent`].
    pub first_sent: u64,
    /// The bytes acknowledged at the same moment, the kernel's `tcpi_bytes_acked`.
    pub bytes_acked: u64,
    /// The segments sent again, the kernel's `tcpi_total_retrans`.
    pub repeated: u32,
    /// The part of what has left that the gate was not told of before.
    pub news: News,
}

/// The part of what has left a socket that a gate was not told of before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct News {
    /// The wire bytes that have left since the socket's last report, those sent again included.
    pub wire_bytes: u64,
    /// The stream's bytes that had left by that report; before the first one, by the write with
    /// which the account began.
    pub left_before: u64,
    /// The position in the stream up to which the gate was told by
    /// [`on_overhead`](super::Gate::on_overhead) alone; zero if it never was.
    pub passed_over: u64,
}

impl Told {
    /// Begins an account with a write of `bytes`, after which the socket has taken `written` bytes.
    /// What left before that write is no news. Up to `passed_over` the gate was told of the
    /// stream's bytes as they were written.
    pub fn begin(cost: WireCost, gone: Gone, written: u64, bytes: u64, passed_over: u64) -> Self {
        let left_before = gone.first_sent.min(written.saturating_sub(bytes));
        let new = cost.segment_bytes(gone.first_sent - left_before);
        let ahead = cost.segment_bytes(passed_over.saturating_sub(gone.first_sent));
        Self {
            wire_bytes: gone.wire_bytes.saturating_sub(new) + ahead,
            first_sent: left_before,
            passed_over,
        }
    }

    /// Notes that the gate was told of wire bytes of the socket by
    /// [`on_overhead`](super::Gate::on_overhead), which have yet to leave.
    pub fn pass_over(&mut self, wire_bytes: u64) {
        self.wire_bytes += wire_bytes;
    }

    /// Notes that the gate learns of the last report's wire bytes by
    /// [`on_overhead`](super::Gate::on_overhead) alone, as it does of what comes too fast.
    pub fn reported_as_overhead(&mut self) {
        self.passed_over = self.first_sent;
    }

    /// Returns what is to be reported, if anything is.
    pub fn report(&mut self, gone: Gone) -> Option<News> {
        let news = News {
            wire_bytes: gone.wire_bytes.saturating_sub(self.wire_bytes),
            left_before: self.first_sent,
            passed_over: self.passed_over,
        };
        if news.wire_bytes == 0 {
            return None;
        }
        self.wire_bytes = gone.wire_bytes;
        self.first_sent = gone.first_sent;
        Some(news)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COST: WireCost = WireCost::ETHERNET_IPV4;
    const SEGMENT_BYTES: u64 = 1448;

    /// Returns what has left a socket that has sent `segments` full segments.
    fn gone(segments: u64) -> Gone {
        let first_sent = segments * SEGMENT_BYTES;
        Gone {
            first_sent,
            wire_bytes: COST.segment_bytes(first_sent),
        }
    }

    fn begin(gone: Gone, written: u64, new: u64, passed_over: u64) -> Told {
        let bytes = |segments: u64| segments * SEGMENT_BYTES;
        Told::begin(COST, gone, bytes(written), bytes(new), bytes(passed_over))
    }

    fn news(segments: u64, left_before: u64, passed_over: u64) -> Option<News> {
        Some(News {
            wire_bytes: COST.segment_bytes(segments * SEGMENT_BYTES),
            left_before: left_before * SEGMENT_BYTES,
            passed_over: passed_over * SEGMENT_BYTES,
        })
    }

    #[test]
    fn what_left_before_the_first_write_is_no_news() {
        // Of a write of 4 segments 2 have left, and 10 left before.
        let mut told = begin(gone(12), 14, 4, 0);
        assert_eq!(told.report(gone(12)), news(2, 10, 0));
        assert_eq!(told.report(gone(12)), None);
        assert_eq!(told.report(gone(14)), news(2, 12, 0));
    }

    #[test]
    fn what_was_held_back_before_the_first_write_is_news() {
        // Nothing of the write has left, and 3 segments before it wait, too.
        let mut told = begin(gone(7), 14, 4, 0);
        assert_eq!(told.report(gone(7)), None);
        assert_eq!(told.report(gone(11)), news(4, 7, 0));
        assert_eq!(told.report(gone(14)), news(3, 11, 0));
    }

    #[test]
    fn what_was_passed_over_is_told_once() {
        // The gate was told of 10 segments when they were written, of which 7 have left.
        let mut told = begin(gone(7), 14, 4, 10);
        assert_eq!(told.report(gone(10)), None);
        assert_eq!(told.report(gone(12)), news(2, 7, 10));
        told.pass_over(COST.segment_bytes(SEGMENT_BYTES));
        assert_eq!(told.report(gone(14)), news(1, 12, 10));
    }

    #[test]
    fn what_was_reported_as_overhead_was_passed_over() {
        let mut told = begin(gone(12), 12, 2, 0);
        assert_eq!(told.report(gone(12)), news(2, 10, 0));
        told.reported_as_overhead();
        assert_eq!(told.report(gone(13)), news(1, 12, 12));
    }

    #[test]
    fn segments_that_are_sent_again_are_news() {
        let mut told = begin(gone(12), 12, 2, 0);
        assert_eq!(told.report(gone(12)), news(2, 10, 0));
        let again = Gone {
            wire_bytes: gone(13).wire_bytes,
            ..gone(12)
        };
        assert_eq!(told.report(again), news(1, 12, 0));
    }
}
