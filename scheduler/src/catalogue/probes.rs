//! The rules for HEAD probes: never two for one resource, never many at once, and none where they
//! proved of no use.

use std::collections::BTreeSet;
use std::time::Duration;

use super::answers::plain;
use super::circuit::Circuit;
use super::key::Key;
use super::table::Table;
use crate::Time;

/// The number of useless or failed probes in a row after which a route's probes pause; also of
/// wrong ones, which are counted apart.
const USELESS_MAX: u32 = 5;

/// The bounds on a route's probes.
#[derive(Clone, Debug)]
pub struct ProbesConfig {
    /// The most probes that are under way at a time.
    pub max_concurrent: usize,
    /// The time for which probes pause: for a resource, after a useless or wrong probe; for a
    /// route, after five useless or failed ones in a row, or five wrong ones.
    pub negative_ttl: Duration,
    /// The memory for the resources that are left alone, in bytes.
    pub max_bytes: usize,
}

/// The decision on a probe for a resource whose size is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeDecision {
    /// The caller is to send a probe, and to tell [`Probes::end`] how it went.
    Ask,
    /// A probe for the resource is under way, whose answer will do.
    Join,
    /// A recent probe for the resource told no size, or a wrong one.
    Useless,
    /// The route's probes pause, because several in a row were of no use.
    Paused,
    /// The route has as many probes under way as it may.
    Busy,
}

/// The outcome of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeOutcome {
    /// The answer told a size.
    Told,
    /// The answer told no size, and the next would not either.
    Useless,
    /// The probe got no answer, which says nothing of the resource.
    Failed,
    /// The sender gave the probe up, which says nothing of the source either.
    Abandoned,
}

/// The probes of one route.
#[derive(Clone, Debug)]
pub struct Probes {
    max_concurrent: usize,
    under_way: BTreeSet<Key>,
    useless: Table,
    circuit: Circuit,
    /// The number of wrong answers in a row, as far as the responses have told.
    wrong: u32,
}

impl Probes {
    /// Creates a schedule with no probe under way.
    pub fn new(config: &ProbesConfig) -> Self {
        let ttl_s = u32::try_from(config.negative_ttl.as_secs()).unwrap_or(u32::MAX);
        Self {
            max_concurrent: config.max_concurrent,
            under_way: BTreeSet::new(),
            // Sizes go to the table of learnt ones; here are the others.
            useless: Table::new(config.max_bytes, ttl_s.max(1)),
            circuit: Circuit::new(USELESS_MAX, config.negative_ttl),
            wrong: 0,
        }
    }

    /// Decides whether to send a probe for a resource whose size is wanted. After
    /// [`ProbeDecision::Ask`], call [`Probes::end`] whatever happens.
    pub fn begin(&mut self, now: Time, key: Key) -> ProbeDecision {
        if self.under_way.contains(&key) {
            return ProbeDecision::Join;
        }
        if self.useless.look_up(&plain(key), seconds(now)).is_some() {
            return ProbeDecision::Useless;
        }
        if self.under_way.len() >= self.max_concurrent {
            return ProbeDecision::Busy;
        }
        if !self.circuit.admit(now) {
            return ProbeDecision::Paused;
        }
        self.under_way.insert(key);
        ProbeDecision::Ask
    }

    /// Notes that a probe is over, and its outcome.
    pub fn end(&mut self, now: Time, key: Key, outcome: ProbeOutcome) {
        self.under_way.remove(&key);
        match outcome {
            ProbeOutcome::Told => self.circuit.succeed(),
            ProbeOutcome::Useless => {
                self.remember(now, key);
                self.circuit.fail(now);
            }
            ProbeOutcome::Failed => self.circuit.fail(now),
            ProbeOutcome::Abandoned => {}
        }
    }

    /// Notes that the response had another size than its probe had told. Such probes are counted
    /// apart, since each seemed of use when its answer came.
    pub fn lied(&mut self, now: Time, key: Key) {
        self.remember(now, key);
        self.wrong = self.wrong.saturating_add(1);
        if self.wrong >= USELESS_MAX {
            self.circuit.open(now);
        } else {
            self.circuit.fail(now);
        }
    }

    /// Notes that the response had the size that its probe had told.
    pub fn was_right(&mut self) {
        self.wrong = 0;
    }

    fn remember(&mut self, now: Time, key: Key) {
        self.useless.learn(&plain(key), 0, 0, seconds(now));
    }

    /// Returns the number of probes under way.
    pub fn under_way(&self) -> usize {
        self.under_way.len()
    }

    /// Returns whether the route's probes pause.
    pub fn is_paused(&self) -> bool {
        self.circuit.is_open()
    }
}

fn seconds(now: Time) -> u32 {
    u32::try_from(now.as_nanos() / 1_000_000_000).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::ProbeDecision::{Ask, Busy, Join, Paused, Useless as LeftAlone};
    use super::ProbeOutcome::{Abandoned, Failed, Told, Useless};
    use super::*;

    fn at(s: u64) -> Time {
        Time::from_nanos(s * 1_000_000_000)
    }

    fn key(n: u64) -> Key {
        Key::from_bits(n)
    }

    fn probes() -> Probes {
        Probes::new(&ProbesConfig {
            max_concurrent: 2,
            negative_ttl: Duration::from_secs(60),
            max_bytes: 10_000,
        })
    }

    #[test]
    fn one_for_each_resource_and_few_at_a_time() {
        let mut probes = probes();
        assert_eq!(probes.begin(at(0), key(1)), Ask);
        assert_eq!(probes.begin(at(0), key(1)), Join);
        assert_eq!(probes.begin(at(0), key(2)), Ask);
        assert_eq!(probes.begin(at(0), key(3)), Busy);
        assert_eq!(probes.under_way(), 2);
        probes.end(at(0), key(1), Told);
        assert_eq!(probes.begin(at(0), key(3)), Ask);
        probes.end(at(0), key(3), Failed);
        assert_eq!(probes.begin(at(0), key(3)), Ask);
    }

    #[test]
    fn what_told_nothing_is_left_alone_for_a_while() {
        let mut probes = probes();
        assert_eq!(probes.begin(at(0), key(1)), Ask);
        probes.end(at(0), key(1), Useless);
        assert_eq!(probes.begin(at(59), key(1)), LeftAlone);
        assert_eq!(probes.begin(at(60), key(1)), Ask);
    }

    /// All of the memory is for them, 24 bytes each with what finds them.
    #[test]
    fn all_of_the_memory_remembers_useless_probes() {
        let probes = probes();
        assert!(
            probes.useless.bytes() > 10_000 / 2,
            "{:?}",
            probes.useless.bytes()
        );
        assert!(probes.useless.bytes() <= 10_000);
    }

    #[test]
    fn a_route_where_probes_are_useless_pauses() {
        let mut probes = probes();
        for n in 0..5 {
            assert!(!probes.is_paused());
            assert_eq!(probes.begin(at(n), key(n)), Ask);
            probes.end(at(n), key(n), Useless);
        }
        assert!(probes.is_paused());
        assert_eq!(probes.begin(at(10), key(10)), Paused);
        // One trial, which goes well.
        assert_eq!(probes.begin(at(64), key(11)), Ask);
        assert_eq!(probes.begin(at(64), key(12)), Paused);
        probes.end(at(65), key(11), Told);
        assert_eq!(probes.begin(at(65), key(12)), Ask);
    }

    #[test]
    fn those_that_are_given_up_are_no_failures() {
        let mut probes = probes();
        for n in 0..20 {
            assert_eq!(probes.begin(at(n), key(1)), Ask);
            probes.end(at(n), key(1), Abandoned);
            assert_eq!(probes.under_way(), 0);
        }
        assert!(!probes.is_paused());
        // Nor are they a success.
        for n in 20..24 {
            assert_eq!(probes.begin(at(n), key(n)), Ask);
            probes.end(at(n), key(n), Failed);
        }
        assert_eq!(probes.begin(at(24), key(1)), Ask);
        probes.end(at(24), key(1), Abandoned);
        assert_eq!(probes.begin(at(25), key(25)), Ask);
        probes.end(at(25), key(25), Failed);
        assert!(probes.is_paused());
    }

    #[test]
    fn lies_count_as_useless() {
        let mut probes = probes();
        let lie = |probes: &mut Probes, n| {
            assert_eq!(probes.begin(at(n), key(n)), Ask);
            probes.end(at(n), key(n), Told);
            probes.lied(at(n), key(n));
            assert!([LeftAlone, Paused].contains(&probes.begin(at(n), key(n))));
        };
        (0..4).for_each(|n| lie(&mut probes, n));
        probes.was_right();
        (4..8).for_each(|n| lie(&mut probes, n));
        assert!(!probes.is_paused());
        // The fifth in a row, though each was of use when it came.
        lie(&mut probes, 8);
        assert!(probes.is_paused());
        assert_eq!(probes.begin(at(9), key(9)), Paused);
        // So is the trial, until one is right.
        lie(&mut probes, 68);
        assert_eq!(probes.begin(at(70), key(70)), Paused);
        assert_eq!(probes.begin(at(128), key(128)), Ask);
        probes.end(at(128), key(128), Told);
        probes.was_right();
        (129..133).for_each(|n| lie(&mut probes, n));
        assert!(!probes.is_paused());
    }
}
