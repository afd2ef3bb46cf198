//! Waits before repetitions, and jitter that spreads out what would come all at once.

use std::time::Duration;

/// The waits before repetitions. Each is drawn between zero and a time that doubles, up to a bound
/// (full jitter), so that attempts which failed together do not come back together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The longest wait before the first repetition.
    pub base: Duration,
    /// The longest wait before any repetition.
    pub max: Duration,
}

impl Backoff {
    /// Returns the wait before repetition `number` (from 0); `random` is a number drawn for it.
    pub fn before(&self, number: u32, random: u64) -> Duration {
        let factor = 1_u32.checked_shl(number).unwrap_or(u32::MAX);
        fraction(self.base.saturating_mul(factor).min(self.max), random)
    }
}

/// Shortens `time` by `share_percent` of it at most; `random` says by how much.
pub fn jittered(time: Duration, share_percent: u8, random: u64) -> Duration {
    let share = time.mul_f64(f64::from(share_percent.min(100)) / 100.0);
    time.saturating_sub(fraction(share, random))
}

/// Lengthens `time` by `share_percent` of it at most; `random` says by how much.
pub fn lengthened(time: Duration, share_percent: u8, random: u64) -> Duration {
    let share = time.mul_f64(f64::from(share_percent.min(100)) / 100.0);
    time.saturating_add(fraction(share, random))
}

/// Returns the part `random` / 2^64 of `time`.
pub(super) fn fraction(time: Duration, random: u64) -> Duration {
    let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let drawn = (u128::from(nanos) * u128::from(random)) >> 64;
    // Below `nanos`, so it fits.
    Duration::from_nanos(drawn as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_repetition_may_wait_twice_as_long_to_a_bound() {
        let backoff = Backoff {
            base: Duration::from_millis(25),
            max: Duration::from_millis(120),
        };
        let longest = |number| backoff.before(number, u64::MAX).as_micros().div_ceil(1000);
        assert_eq!([0, 1, 2, 3, 40].map(longest), [25, 50, 100, 120, 120]);
        assert_eq!(backoff.before(3, 0), Duration::ZERO);
        let half = backoff.before(0, 1 << 63);
        assert_eq!(half, Duration::from_micros(12_500));
    }

    #[test]
    fn jitter_shortens_by_its_share_at_most() {
        let second = Duration::from_secs(1);
        assert_eq!(jittered(second, 20, 0), second);
        assert_eq!(jittered(second, 20, 1 << 63), Duration::from_millis(900));
        assert!(jittered(second, 20, u64::MAX) >= Duration::from_millis(800));
        assert_eq!(jittered(second, 0, u64::MAX), second);
    }
}
