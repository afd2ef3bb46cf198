//! The terms of a request: what it is worth, and until when (SRQ06 III-C, figure 5).

use std::time::Duration;

use crate::Time;

/// The number of steps in which a value falls from the soft deadline to the hard one. Keys change
/// at each step, and stand still between them.
const STEPS: u128 = 16;

/// The units of a key in a second.
const NANOS: u128 = 1_000_000_000;

/// The number of millionths in a [`Weight`] of 1.
const WHOLE: u32 = 1_000_000;

/// The weight of deadlines against values, from 0 to 1 in millionths: SRQ06's alpha.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weight(u32);

impl Weight {
    /// Returns the weight that is nearest to a ratio. A ratio outside of 0 to 1 gives the nearer
    /// end, and NaN gives 0.
    pub fn from_ratio(ratio: f64) -> Self {
        // Saturates; what is no number is 0.
        Self(((ratio * f64::from(WHOLE)).round() as u32).min(WHOLE))
    }

    /// Returns the weight as a ratio.
    pub fn ratio(self) -> f64 {
        f64::from(self.0) / f64::from(WHOLE)
    }
}

/// A request's deadlines, counted from its arrival, and its value before them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The soft deadline D', until which the value is whole.
    pub soft: Duration,
    /// The hard deadline D, from which on there is no value; the soft one if that is later.
    pub hard: Duration,
    /// The value C until the soft deadline.
    pub value: u32,
}

impl Terms {
    fn hard(&self) -> Duration {
        self.hard.max(self.soft)
    }

    /// Returns the sixteenths of the value that are left at this age: all of them until the
    /// soft deadline, none from the hard one on, and one less at each sixteenth of the way
    /// between them.
    fn sixteenths(&self, age: Duration) -> u128 {
        if age >= self.hard() {
            return 0;
        }
        let Some(past) = age.checked_sub(self.soft) else {
            return STEPS;
        };
        let way = (self.hard() - self.soft).as_nanos().max(1);
        STEPS - past.as_nanos() * STEPS / way
    }

    /// Returns the value V at this age, in sixteenths of a unit.
    pub fn value_sixteenths(&self, age: Duration) -> u64 {
        u64::try_from(u128::from(self.value) * self.sixteenths(age)).unwrap_or(u64::MAX)
    }

    /// Returns SRQ's priority P = alpha x deadline + (1 - alpha) x (`max_value` - V), in
    /// nanoseconds; the least goes first. The deadline is the soft one, counted from the epoch
    /// rather than from `now`. The two differ by `now`, which is the same for all requests; so the
    /// key of a request that waits stands still until its value changes. A unit of value is worth a
    /// second.
    pub fn priority(&self, arrival: Time, now: Time, alpha: Weight, max_value: u32) -> u64 {
        let deadline = u128::from((arrival + self.soft).as_nanos());
        let whole = u128::from(max_value.max(self.value)) * STEPS;
        let value = u128::from(self.value_sixteenths(now.since(arrival)));
        let lost = (whole - value) * (NANOS / STEPS);
        let alpha = u128::from(alpha.0);
        let mixed = alpha * deadline + (u128::from(WHOLE) - alpha) * lost;
        u64::try_from(mixed / u128::from(WHOLE)).unwrap_or(u64::MAX)
    }

    /// Returns the key of earliest deadline first: the soft deadline, also when it is past.
    pub fn edf(&self, arrival: Time) -> u64 {
        (arrival + self.soft).as_nanos()
    }

    /// Returns the key of value over relative deadline: the greatest V / D' goes first
    /// (Haritsa, Carey and Livny 1993, as SRQ06 names it).
    pub fn vrd(&self, arrival: Time, now: Time) -> u64 {
        /// The scale at which deadlines of days can be told apart.
        const SCALE: u128 = 1_000_000_000_000_000;
        let value = u128::from(self.value_sixteenths(now.since(arrival)));
        let density = value * SCALE / self.soft.as_nanos().max(1);
        u64::MAX - u64::try_from(density).unwrap_or(u64::MAX)
    }

    /// Returns when the value of a request changes next, after `now`; `None` once the value is
    /// gone.
    pub fn changes_at(&self, arrival: Time, now: Time) -> Option<Time> {
        let age = now.since(arrival);
        let left = self.sixteenths(age);
        if left == 0 || self.value == 0 {
            return None;
        }
        let way = (self.hard() - self.soft).as_nanos();
        // The first age at which a sixteenth less is left.
        let steps = STEPS - left + 1;
        let after = u64::try_from((way * steps).div_ceil(STEPS)).unwrap_or(u64::MAX);
        let at = arrival + self.soft + Duration::from_nanos(after);
        (at > now).then_some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn terms(soft_ms: u32, hard_ms: u32, value: u32) -> Terms {
        Terms {
            soft: soft_ms * MS,
            hard: hard_ms * MS,
            value,
        }
    }

    fn at(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn the_value_is_whole_until_the_soft_deadline_and_nothing_from_the_hard_one_on() {
        let own = terms(1_600, 3_200, 10);
        let value = |ms: u32| own.value_sixteenths(ms * MS);
        assert_eq!(value(0), 160);
        assert_eq!(value(1_599), 160);
        assert_eq!(value(1_600), 160);
        assert_eq!(value(1_699), 160);
        assert_eq!(value(1_700), 150);
        assert_eq!(value(2_400), 80);
        assert_eq!(value(3_199), 10);
        assert_eq!(value(3_200), 0);
        assert_eq!(value(9_999), 0);
    }

    #[test]
    fn with_one_deadline_for_both_the_value_is_a_step() {
        let own = terms(2_000, 2_000, 1);
        let nano = Duration::from_nanos(1);
        assert_eq!(own.value_sixteenths(2_000 * MS - nano), 16);
        assert_eq!(own.value_sixteenths(2_000 * MS), 0);
        // A hard deadline before the soft one is the soft one.
        let wrong = terms(2_000, 500, 1);
        assert_eq!(wrong.value_sixteenths(2_000 * MS - nano), 16);
        assert_eq!(wrong.value_sixteenths(2_000 * MS), 0);
    }

    #[test]
    fn at_the_end_of_time_no_key_changes() {
        let own = Terms {
            soft: Duration::MAX,
            hard: Duration::MAX,
            value: 1,
        };
        let end = Time::from_nanos(u64::MAX);
        assert_eq!(own.changes_at(at(0), end), None);
        assert_eq!(own.changes_at(at(0), at(1)), Some(end));
    }

    #[test]
    fn a_key_changes_when_it_is_said_to_and_at_no_other_time() {
        for own in [
            terms(100, 100, 1),
            terms(100, 260, 3),
            terms(0, 7, 1),
            terms(5, 12, 2),
        ] {
            let arrival = at(1_000);
            let key = |now| own.priority(arrival, now, Weight::from_ratio(0.2), 3);
            let nano = Duration::from_nanos(1);
            let mut now = arrival;
            let mut changes = 0;
            while let Some(next) = own.changes_at(arrival, now) {
                assert!(next > now);
                assert_eq!(key(now), key(next - nano), "{own:?}");
                assert!(key(next) > key(now), "{own:?}");
                now = next;
                changes += 1;
            }
            assert_eq!(now, arrival + own.hard());
            assert_eq!(changes, if own.hard == own.soft { 1 } else { 16 });
        }
        assert_eq!(terms(1, 2, 0).changes_at(at(0), at(0)), None);
    }

    #[test]
    fn by_default_the_order_is_arrival_and_the_late_are_four_seconds_behind() {
        let own = terms(2_000, 2_000, 1);
        let key = |arrival_ms, now_ms| {
            own.priority(at(arrival_ms), at(now_ms), Weight::from_ratio(0.2), 1)
        };
        assert!(key(0, 1_000) < key(1, 1_000));
        // (1 - 0.2) x 1 over 0.2: four seconds of deadline.
        let now = 10_000;
        assert_eq!(key(4_000, now), key(8_000, 8_000));
        assert!(key(4_001, now) > key(8_000, 8_000));
        assert!(key(3_999, now) < key(8_000, 8_000));
    }

    #[test]
    fn alpha_is_the_weight_of_deadlines() {
        let (cheap, dear) = (terms(10, 99_000, 1), terms(20, 99_000, 5));
        let first = |alpha| {
            let key = |own: Terms| own.priority(at(0), at(0), Weight::from_ratio(alpha), 5);
            key(cheap) < key(dear)
        };
        assert!(!first(0.0), "the highest value first");
        assert!(first(1.0), "the earliest deadline first");
        assert!(!first(0.2));
        assert_eq!(Weight::from_ratio(7.0).ratio(), 1.0);
        assert_eq!(Weight::from_ratio(-1.0).ratio(), 0.0);
        assert_eq!(Weight::from_ratio(f64::NAN).ratio(), 0.0);
    }

    #[test]
    fn value_over_deadline_is_arrival_until_the_deadline_and_last_after_it() {
        let own = terms(2_000, 2_000, 1);
        assert_eq!(own.vrd(at(0), at(10)), own.vrd(at(5), at(10)));
        assert!(own.vrd(at(500), at(2_400)) < own.vrd(at(0), at(2_400)));
        assert!(terms(1_000, 1_000, 1).vrd(at(0), at(1)) < own.vrd(at(0), at(1)));
        assert!(terms(2_000, 2_000, 2).vrd(at(0), at(1)) < own.vrd(at(0), at(1)));
        assert_eq!(own.edf(at(500)), at(2_500).as_nanos());
    }
}
