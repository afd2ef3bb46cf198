//! The round trip without any queue, by client network.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::Time;

/// The most networks that are remembered.
const CAPACITY: usize = 1024;

/// The window of a minimum, which is believed for one to two windows (BBR's min_rtt window is 10 s:
/// draft-ietf-ccwg-bbr, MinRTTFilterLen).
const WINDOW: Duration = Duration::from_secs(10);

/// The time after which a network that was not heard of is new again.
const LIFETIME: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug)]
struct Base {
    current: Duration,
    previous: Duration,
    window_start: Time,
    heard_at: Time,
    trusted: bool,
}

impl Base {
    fn rtt(&self) -> Duration {
        self.current.min(self.previous)
    }
}

/// The base round trips of networks: a windowed minimum for each.
#[derive(Clone, Debug, Default)]
pub(super) struct BaseRtts {
    networks: BTreeMap<u64, Base>,
}

impl BaseRtts {
    /// Returns the least round trip of the network; zero for one not yet known.
    pub(super) fn get(&self, network: u64) -> Duration {
        self.networks
            .get(&network)
            .map_or(Duration::ZERO, Base::rtt)
    }

    /// Returns whether the network was ever heard of without a queue.
    pub(super) fn is_trusted(&self, network: u64) -> bool {
        self.networks.get(&network).is_some_and(|base| base.trusted)
    }

    /// Notes a round trip of a network, and returns whether it is below the one believed by
    /// `notable` at least. `queued` says whether the uplink had a queue. The least round trip of a
    /// network that was only heard of through a queue holds that queue: believed, it would hide the
    /// queue, and each new network a longer one.
    pub(super) fn observe(
        &mut self,
        now: Time,
        network: u64,
        rtt: Duration,
        queued: bool,
        notable: Duration,
    ) -> bool {
        match self.networks.get_mut(&network) {
            Some(base) if now.since(base.heard_at) < LIFETIME => {
                let lower = rtt + notable <= base.rtt();
                if now.since(base.window_start) >= WINDOW {
                    base.previous = base.current;
                    base.current = rtt;
                    base.window_start = now;
                }
                base.current = base.current.min(rtt);
                base.heard_at = now;
                base.trusted |= !queued;
                lower
            }
            _ => {
                self.make_room();
                let base = Base {
                    current: rtt,
                    previous: Duration::MAX,
                    window_start: now,
                    heard_at: now,
                    trusted: !queued,
                };
                self.networks.insert(network, base);
                false
            }
        }
    }

    /// Forgets the network that was silent for longest, if the table is full.
    fn make_room(&mut self) {
        if self.networks.len() < CAPACITY {
            return;
        }
        let oldest = self.networks.iter().min_by_key(|(_, base)| base.heard_at);
        if let Some((&network, _)) = oldest {
            self.networks.remove(&network);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn at(seconds: u64) -> Time {
        Time::from_nanos(seconds * 1_000_000_000)
    }

    #[test]
    fn a_network_heard_of_through_a_queue_is_not_trusted() {
        let mut bases = BaseRtts::default();
        assert!(!bases.observe(at(0), 1, 30 * MS, true, MS));
        assert!(!bases.is_trusted(1));
        assert!(!bases.observe(at(1), 1, 30 * MS, false, MS));
        assert!(bases.is_trusted(1));
        assert!(bases.observe(at(1), 1, 19 * MS, true, MS));
        assert_eq!(bases.get(1), 19 * MS);
        assert_eq!(bases.get(2), Duration::ZERO);
        assert!(!bases.is_trusted(2));
    }

    #[test]
    fn a_minimum_is_forgotten_after_two_windows() {
        let mut bases = BaseRtts::default();
        bases.observe(at(0), 1, 10 * MS, false, MS);
        bases.observe(at(11), 1, 50 * MS, false, MS);
        assert_eq!(bases.get(1), 10 * MS);
        bases.observe(at(22), 1, 60 * MS, false, MS);
        assert_eq!(bases.get(1), 50 * MS);
    }

    #[test]
    fn the_table_is_bounded() {
        let mut bases = BaseRtts::default();
        for network in 0..5000 {
            bases.observe(at(network / 100), network, MS, false, MS);
        }
        assert_eq!(bases.networks.len(), CAPACITY);
        assert_eq!(bases.get(4999), MS);
        assert_eq!(bases.get(0), Duration::ZERO);
    }

    #[test]
    fn a_network_that_was_silent_for_a_minute_is_new() {
        let second = |ms: u64| {
            let mut bases = BaseRtts::default();
            bases.observe(at(0), 1, 10 * MS, false, MS);
            bases.observe(Time::from_nanos(ms * 1_000_000), 1, 50 * MS, true, MS);
            (bases.get(1), bases.is_trusted(1))
        };
        assert_eq!(second(59_999), (10 * MS, true));
        assert_eq!(second(60_000), (50 * MS, false));
    }
}
