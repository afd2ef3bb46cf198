use std::time::Duration;

use crate::Time;

/// The time for which places stay short after a request found none: clients
/// that were turned away ask again within seconds.
const LASTS: Duration = Duration::from_secs(10);

/// A shortage of places, which lasts for a while after each request that found
/// none.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shortage {
    missed_at: Option<Time>,
}

impl Shortage {
    /// Notes that a request found no place.
    pub fn miss(&mut self, now: Time) {
        self.missed_at = Some(now);
    }

    /// Returns whether a request found no place within the last 10 s.
    pub fn lasts(&self, now: Time) -> bool {
        self.missed_at.is_some_and(|at| now.since(at) < LASTS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shortage_lasts_for_ten_seconds_after_the_last_miss() {
        let at = |ms| Time::ZERO + Duration::from_millis(ms);
        let mut shortage = Shortage::default();
        // A clock that has just begun is not taken for a miss.
        assert!(!shortage.lasts(at(0)));
        shortage.miss(at(0));
        assert!(shortage.lasts(at(9_999)));
        assert!(!shortage.lasts(at(10_000)));
        shortage.miss(at(20_000));
        shortage.miss(at(25_000));
        assert!(shortage.lasts(at(34_999)));
        assert!(!shortage.lasts(at(35_000)));
    }
}
