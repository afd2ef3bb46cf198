//! The times at which certificates are asked for: pure, in seconds since 1970.

/// The divisor for the part of a lifetime that is left at renewal: a third.
const LEFT_WHEN_RENEWED: i64 = 3;

/// The divisor for the part of a lifetime by which renewal may be earlier, at random: a sixtieth.
/// So certificates that were issued together are not renewed together.
const EARLIER: u64 = 60;

/// The longest wait after a failure, before the random part.
const LONGEST_WAIT_S: i64 = 6 * 3600;

/// The divisor for the part of a wait that may be added to it, at random: a quarter.
const LONGER: i64 = 4;

/// The time in which a certificate is valid, in seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Validity {
    pub(crate) not_before_s: i64,
    pub(crate) not_after_s: i64,
}

impl Validity {
    /// Returns the time at which the certificate is to be renewed, in seconds since 1970.
    pub(crate) fn renew_at_s(self, random: u64) -> i64 {
        let lifetime_s = (self.not_after_s - self.not_before_s).max(0);
        let earlier = (lifetime_s as u64 / EARLIER).max(1);
        let jitter_s = i64::try_from(random % earlier).unwrap_or(0);
        self.not_after_s - lifetime_s / LEFT_WHEN_RENEWED - jitter_s
    }
}

/// The cause of an attempt's failure, as far as the wait depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The authority could not be reached, so the attempt was no burden on it.
    Unreachable,
    /// The authority refused, or could not see the proof; it counts such failures.
    Refused,
    /// The fault is on this side: the storage or the command.
    Local,
}

/// Returns the wait in seconds after so many failures in a row, the last with this cause. Each wait
/// is twice the one before, plus up to a quarter at random.
pub(crate) fn wait_s(failures: u32, cause: Cause, random: u64) -> i64 {
    let first_s: i64 = match cause {
        Cause::Unreachable => 10,
        // Let's Encrypt bears five failures an hour for each name.
        Cause::Refused | Cause::Local => 120,
    };
    let doublings = failures.saturating_sub(1).min(16);
    let wait_s = (first_s << doublings).min(LONGEST_WAIT_S);
    wait_s + i64::try_from(random % ((wait_s / LONGER) as u64 + 1)).unwrap_or(0)
}

/// Returns whether an attempt that was put off until `retry_at_s` may be made now.
pub(crate) fn may_retry(retry_at_s: i64, now_s: i64) -> bool {
    let left_s = retry_at_s.saturating_sub(now_s);
    // No wait is longer: the clock was ahead when that was noted.
    left_s <= 0 || left_s > LONGEST_WAIT_S + LONGEST_WAIT_S / LONGER
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY_S: i64 = 86_400;

    #[test]
    fn a_certificate_is_renewed_when_a_third_of_its_time_is_left() {
        let ninety_days = Validity {
            not_before_s: 0,
            not_after_s: 90 * DAY_S,
        };
        assert_eq!(ninety_days.renew_at_s(0), 60 * DAY_S);
        let earliest = ninety_days.renew_at_s(90 * DAY_S as u64 / 60 - 1);
        assert_eq!(earliest, 60 * DAY_S - 90 * DAY_S / 60 + 1);
        let seconds = Validity {
            not_before_s: 100,
            not_after_s: 130,
        };
        assert_eq!(seconds.renew_at_s(7), 120);
        let reversed = Validity {
            not_before_s: 10,
            not_after_s: 0,
        };
        assert_eq!(reversed.renew_at_s(5), 0);
    }

    #[test]
    fn waits_double_up_to_a_bound() {
        let refused = (1..=9).map(|count| wait_s(count, Cause::Refused, 0));
        let expected = [120, 240, 480, 960, 1920, 3840, 7680, 15_360, LONGEST_WAIT_S];
        assert_eq!(refused.collect::<Vec<_>>(), expected);
        assert_eq!(wait_s(1, Cause::Unreachable, 0), 10);
        assert_eq!(wait_s(u32::MAX, Cause::Unreachable, 0), LONGEST_WAIT_S);
        assert_eq!(wait_s(1, Cause::Local, 30), 150);
        assert_eq!(wait_s(1, Cause::Local, 31), 120);
    }

    #[test]
    fn a_time_to_retry_that_no_wait_reaches_is_no_reason_to_wait() {
        let now_s = 1_800_000_000;
        assert!(may_retry(0, now_s));
        assert!(may_retry(now_s, now_s));
        assert!(!may_retry(now_s + 1, now_s));
        let most = LONGEST_WAIT_S as u64 / 4;
        let longest_s = wait_s(u32::MAX, Cause::Refused, most);
        assert_eq!(longest_s, LONGEST_WAIT_S + LONGEST_WAIT_S / 4);
        assert!(!may_retry(now_s + longest_s, now_s));
        assert!(may_retry(now_s + longest_s + 1, now_s));
        // What a damaged file may say.
        assert!(may_retry(i64::MAX, 0));
        assert!(may_retry(i64::MIN, now_s));
    }
}
