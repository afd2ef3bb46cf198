//! The times for which a client's socket takes no more.

use std::cell::Cell;
use std::time::Duration;

use tokio::time::Instant;

/// The times for which a socket has been full: the present one, and those before.
#[derive(Debug, Default)]
pub(super) struct Blocked {
    since: Cell<Option<Instant>>,
    /// The sum of the earlier times for which the socket was full.
    before: Cell<Duration>,
}

impl Blocked {
    /// Returns since when the socket has been full; none if it is not.
    pub(super) fn since(&self) -> Option<Instant> {
        self.since.get()
    }

    /// Notes that the socket is full, and counts the present time from `now` on.
    pub(super) fn begin(&self, now: Instant) {
        self.end(now);
        self.since.set(Some(now));
    }

    /// Notes that the socket takes more; returns whether it was full until now.
    pub(super) fn end(&self, now: Instant) -> bool {
        let total = self.total(now);
        self.before.set(total);
        self.since.take().is_some()
    }

    /// Returns how long the socket has been full in all.
    pub(super) fn total(&self, now: Instant) -> Duration {
        let present = self.since.get();
        let present = present.map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
        self.before.get() + present
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_add_up() {
        let start = Instant::now();
        let at = |s| start + Duration::from_secs(s);
        let total = |blocked: &Blocked, s| blocked.total(at(s)).as_secs();
        let blocked = Blocked::default();
        assert!(!blocked.end(at(0)));
        blocked.begin(at(1));
        assert_eq!(total(&blocked, 3), 2);
        blocked.begin(at(4));
        assert_eq!((blocked.since(), total(&blocked, 4)), (Some(at(4)), 3));
        assert!(blocked.end(at(5)));
        assert_eq!((blocked.since(), total(&blocked, 9)), (None, 4));
        blocked.begin(at(10));
        assert_eq!(total(&blocked, 11), 5);
    }
}
