//! The connections that a server has open, over time.

use sprat_scheduler::Time;

/// The number of open connections: those that were accepted and are not closed yet.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct OpenConnections {
    count: u32,
    /// The time of the last change.
    changed_at: Time,
    /// The seconds that all connections together were open, up to the last change.
    connection_s: f64,
}

impl OpenConnections {
    /// Notes that a connection was accepted.
    pub(super) fn open(&mut self, now: Time) {
        self.connection_s = self.connection_s(now);
        self.changed_at = now;
        self.count += 1;
    }

    /// Notes that a connection was closed.
    pub(super) fn close(&mut self, now: Time) {
        self.connection_s = self.connection_s(now);
        self.changed_at = now;
        self.count -= 1;
    }

    /// Returns the number of connections that are open.
    #[cfg(test)]
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// Returns the mean number of open connections from the start until `now`; zero at the start.
    pub(super) fn mean(&self, now: Time) -> f64 {
        let span_s = now.since(Time::ZERO).as_secs_f64();
        if span_s > 0.0 {
            self.connection_s(now) / span_s
        } else {
            0.0
        }
    }

    fn connection_s(&self, now: Time) -> f64 {
        let since_s = now.since(self.changed_at).as_secs_f64();
        self.connection_s + f64::from(self.count) * since_s
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_is_weighted_by_time() {
        let at = |s: u64| Time::from_nanos(s * 1_000_000_000);
        let mut open = OpenConnections::default();
        assert_eq!(open.mean(at(0)), 0.0);
        open.open(at(2));
        open.open(at(3));
        assert_eq!((open.count(), open.mean(at(4))), (2, 3.0 / 4.0));
        open.close(at(5));
        // One for a second, two for two, one for five.
        assert_eq!((open.count(), open.mean(at(10))), (1, 1.0));
        open.close(at(10));
        assert_eq!((open.count(), open.mean(at(20))), (0, 0.5));
    }
}
