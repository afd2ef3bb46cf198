//! The scheduler's counters as `/metrics` has them: none of them falls.
//!
//! The scheduler takes back what was debited and not sent, so that its sums are exact at any
//! time. But a scraper takes a counter that falls for a restart. What was taken back since the
//! last scrape is therefore set against what comes next.

use sprat_scheduler::{EgressClassStats, EgressStats};

/// The highest values of the counters that were published.
#[derive(Debug, Default)]
pub(super) struct Counters {
    /// The bytes on the wire that became known long after they had left; negative if too much
    /// was debited then.
    past_bytes: i64,
    /// The bytes on the wire, outside grants, for which the scheduler's clock had no room.
    forgotten_bytes: u64,
    told: EgressStats,
    /// The bytes granted in each class, as published.
    told_classes: Vec<u64>,
    /// The bytes granted by mark, as published.
    told_marks: [u64; 2],
}

impl Counters {
    /// Counts bytes on the wire that left long ago; negative if fewer did than were debited.
    pub(super) fn count_past(&mut self, wire_bytes: i64) {
        self.past_bytes = self.past_bytes.saturating_add(wire_bytes);
    }

    /// Counts bytes on the wire that went out and that the scheduler counts as overhead alone.
    pub(super) fn count_forgotten(&mut self, wire_bytes: u64) {
        self.forgotten_bytes = self.forgotten_bytes.saturating_add(wire_bytes);
    }

    /// Returns the exact sums at this moment, which fall if something is taken back.
    pub(super) fn exact(&self, stats: EgressStats) -> EgressStats {
        let past = self.past_bytes;
        let wire_bytes = stats.wire_bytes.saturating_add(self.forgotten_bytes);
        EgressStats {
            overhead_bytes: stats.overhead_bytes.saturating_add_signed(past),
            wire_bytes: wire_bytes.saturating_add_signed(past),
            ..stats
        }
    }

    /// Returns the counters as they are published: none falls.
    pub(super) fn publish(&mut self, stats: EgressStats) -> EgressStats {
        let exact = self.exact(stats);
        let told = &self.told;
        self.told = EgressStats {
            granted_bytes: exact.granted_bytes.max(told.granted_bytes),
            overhead_bytes: exact.overhead_bytes.max(told.overhead_bytes),
            wire_bytes: exact.wire_bytes.max(told.wire_bytes),
            ..exact
        };
        self.told
    }

    /// Returns the marks' counters as they are published: none falls.
    pub(super) fn publish_marks(&mut self, bytes: [u64; 2]) -> [u64; 2] {
        for (told, bytes) in self.told_marks.iter_mut().zip(bytes) {
            *told = bytes.max(*told);
        }
        self.told_marks
    }

    /// Returns the classes' counters as they are published: none falls.
    pub(super) fn publish_classes(
        &mut self,
        mut classes: Vec<EgressClassStats>,
    ) -> Vec<EgressClassStats> {
        let known = self.told_classes.len().max(classes.len());
        self.told_classes.resize(known, 0);
        for (class, told) in classes.iter_mut().zip(&mut self.told_classes) {
            *told = class.granted_bytes.max(*told);
            class.granted_bytes = *told;
        }
        classes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stats(wire_bytes: u64, overhead_bytes: u64, granted_bytes: u64) -> EgressStats {
        EgressStats {
            wire_bytes,
            overhead_bytes,
            granted_bytes,
            ..EgressStats::default()
        }
    }

    #[test]
    fn what_is_taken_back_is_set_against_what_comes_next() {
        let mut counters = Counters::default();
        assert_eq!(counters.publish(stats(900, 200, 700)), stats(900, 200, 700));
        assert_eq!(counters.publish(stats(500, 150, 350)), stats(900, 200, 700));
        assert_eq!(counters.exact(stats(500, 150, 350)), stats(500, 150, 350));
        assert_eq!(counters.publish(stats(950, 190, 760)), stats(950, 200, 760));
        assert_eq!(counters.publish(stats(990, 230, 760)), stats(990, 230, 760));
    }

    #[test]
    fn what_left_long_ago_is_counted() {
        let mut counters = Counters::default();
        counters.count_past(60);
        assert_eq!(counters.publish(stats(900, 200, 700)), stats(960, 260, 700));
        counters.count_past(-100);
        assert_eq!(counters.publish(stats(900, 200, 700)), stats(960, 260, 700));
        assert_eq!(counters.exact(stats(900, 200, 700)), stats(860, 160, 700));
        assert_eq!(
            counters.publish(stats(1100, 400, 700)),
            stats(1060, 360, 700)
        );
    }

    #[test]
    fn what_the_clock_had_no_room_for_is_counted() {
        let mut counters = Counters::default();
        counters.count_forgotten(70);
        assert_eq!(counters.publish(stats(900, 270, 700)), stats(970, 270, 700));
    }

    #[test]
    fn a_classs_bytes_do_not_fall_either() {
        let mut counters = Counters::default();
        let class = |granted_bytes| EgressClassStats {
            granted_bytes,
            ..EgressClassStats::default()
        };
        counters.publish_classes(vec![class(5), class(9)]);
        let told = counters.publish_classes(vec![class(3), class(10), class(1)]);
        assert_eq!(told, [class(5), class(10), class(1)]);
    }
}
