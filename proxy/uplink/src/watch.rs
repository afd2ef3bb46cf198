//! A watch that says in the log when a link's rate is not what its name says.

use std::time::Duration;

use sprat_scheduler::Time;

/// The part of its named rate by which a link may fall short and still count as it is named.
const TOLERATED: f64 = 0.03;

/// The least time that a difference lasts before the log tells of it.
const LASTS: Duration = Duration::from_secs(10);

/// The state of the log's remarks on a link whose rate is named.
#[derive(Debug)]
pub(super) struct Watch {
    named_bits_per_s: u64,
    /// Whether the last remark was that the link is slower than its name.
    is_slower: bool,
    /// The time since which the opposite of the last remark has held.
    changed_at: Option<Time>,
}

/// A remark on the link, for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Remark {
    /// The link carries this many bits per second, less than its name says.
    Slower(u64),
    /// The link carries what its name says again.
    AsNamed,
}

impl Watch {
    /// Creates the watch of a link of this named rate, in bits per second, with no remark so
    /// far.
    pub(super) fn new(named_bits_per_s: u64) -> Self {
        Self {
            named_bits_per_s,
            is_slower: false,
            changed_at: None,
        }
    }

    /// Notes the rate that the link was found to carry, in bits per second; `None` if that is as
    /// it is named. Returns the remark that is due.
    pub(super) fn on_rate(&mut self, now: Time, found_bits_per_s: Option<u64>) -> Option<Remark> {
        let named = self.named_bits_per_s as f64;
        let slower = found_bits_per_s.filter(|&found| (found as f64) < (1.0 - TOLERATED) * named);
        if slower.is_some() == self.is_slower {
            self.changed_at = None;
            return None;
        }
        if now.since(*self.changed_at.get_or_insert(now)) < LASTS {
            return None;
        }
        self.is_slower = slower.is_some();
        self.changed_at = None;
        Some(slower.map_or(Remark::AsNamed, Remark::Slower))
    }

    /// Writes the remark to the log.
    pub(super) fn say(&self, remark: Remark) {
        let named_bits_per_s = self.named_bits_per_s;
        match remark {
            Remark::Slower(found_bits_per_s) => tracing::warn!(
                named_bits_per_s,
                found_bits_per_s,
                "the link carries less than `uplink.rate` says: responses are paced at what \
                 it carries"
            ),
            Remark::AsNamed => tracing::info!(
                named_bits_per_s,
                "the link carries what `uplink.rate` says again"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(s: u64) -> Time {
        Time::ZERO + Duration::from_secs(s)
    }

    #[test]
    fn what_lasts_is_said_once() {
        let mut watch = Watch::new(11_000_000);
        assert_eq!(watch.on_rate(at(0), Some(10_000_000)), None);
        assert_eq!(watch.on_rate(at(9), Some(9_900_000)), None);
        let remark = watch.on_rate(at(10), Some(10_000_000));
        assert_eq!(remark, Some(Remark::Slower(10_000_000)));
        assert_eq!(watch.on_rate(at(30), Some(10_000_000)), None);
        assert_eq!(watch.on_rate(at(31), None), None);
        assert_eq!(watch.on_rate(at(41), None), Some(Remark::AsNamed));
        assert_eq!(watch.on_rate(at(60), None), None);
    }

    #[test]
    fn what_comes_and_goes_or_is_little_is_not_said() {
        let mut watch = Watch::new(10_000_000);
        for s in (0..100).step_by(2) {
            assert_eq!(watch.on_rate(at(s), Some(9_000_000)), None);
            assert_eq!(watch.on_rate(at(s + 1), Some(9_800_000)), None);
        }
    }
}
