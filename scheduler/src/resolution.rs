//! The addresses of a name, and when to ask for them again.
//!
//! A driver asks for the name when [`Resolution::is_due`] says so, reports the answer
//! ([`Resolution::learn`]), and looks again at [`Resolution::next_wakeup`]. It asks one question at
//! a time: until the question has an answer, the name is due.

use std::time::Duration;

use crate::Time;
use crate::health::{Backoff, lengthened};

/// The rules for when a name is asked for again, and how long its addresses stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResolutionConfig {
    /// Whether an answer's time to live counts.
    pub respect_ttl: bool,
    /// The time until a name is asked for again where the time to live does not count.
    pub refresh: Duration,
    /// The shortest time to live.
    pub min_ttl: Duration,
    /// The longest time to live, not below the shortest.
    pub max_ttl: Duration,
    /// The most by which each wait may be longer, in percent.
    pub jitter_percent: u8,
    /// The waits after failures in a row.
    pub failure: Backoff,
    /// The time for which addresses stand after the name is to be asked for
    /// again (RFC 8767 5); `None` is without bound.
    pub max_stale: Option<Duration>,
    /// The most addresses that are used; of more, the lowest are.
    pub max_addresses: usize,
}

/// The answer to a question for a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer<A> {
    /// The name has addresses. The list may be empty, if the name has none of this kind (IPv4 or
    /// IPv6) and some of the other.
    Addresses {
        /// The addresses in any order, perhaps some twice.
        addresses: Vec<A>,
        /// The time for which the addresses are good; `None` if the source has not said.
        ttl: Option<Duration>,
    },
    /// The name has no address.
    Nothing,
    /// The question had no answer: no name server could give one.
    Failed,
}

/// The addresses of type `A` that a name has, and when to ask for it again.
#[derive(Clone, Debug)]
pub struct Resolution<A> {
    config: ResolutionConfig,
    /// The addresses in ascending order, each once.
    addresses: Vec<A>,
    /// The number of addresses of the last answer beyond the bound.
    unused: usize,
    /// The time until which the last answer that had addresses was good.
    good_until: Option<Time>,
    /// The answers without an address since then, in a row.
    failures: u32,
    due: Time,
}

impl<A: Ord> Resolution<A> {
    /// Creates the state of a name that nothing is known of: it is due.
    pub fn new(now: Time, config: ResolutionConfig) -> Self {
        Self {
            config,
            addresses: Vec::new(),
            unused: 0,
            good_until: None,
            failures: 0,
            due: now,
        }
    }

    /// Returns whether the name is to be asked for.
    pub fn is_due(&self, now: Time) -> bool {
        self.due <= now
    }

    /// Returns when to look again: the name is due then, or its addresses too old.
    pub fn next_wakeup(&self) -> Time {
        self.stale_at().map_or(self.due, |at| at.min(self.due))
    }

    /// Takes in an answer that came at `now`, and returns whether the addresses are others than
    /// before. `random` is a number drawn for the next wait.
    pub fn learn(&mut self, now: Time, answer: Answer<A>, random: u64) -> bool {
        let Answer::Addresses { addresses, ttl } = answer else {
            // What is known may be too old by now.
            let changed = self.expire(now);
            self.due = now + self.config.failure.before(self.failures, random);
            self.failures = self.failures.saturating_add(1);
            return changed;
        };
        let wait = self.wait(ttl);
        self.due = now + lengthened(wait, self.config.jitter_percent, random);
        self.good_until = Some(self.due);
        self.failures = 0;
        self.set(addresses)
    }

    /// Forgets addresses that have stood for too long. Returns whether there were any.
    pub fn expire(&mut self, now: Time) -> bool {
        let is_stale = self.stale_at().is_some_and(|at| at <= now);
        is_stale && self.set(Vec::new())
    }

    /// Returns the addresses that are used, ascending.
    pub fn addresses(&self) -> &[A] {
        &self.addresses
    }

    /// Returns how many more addresses the last answer had than are used.
    pub fn unused(&self) -> usize {
        self.unused
    }

    /// Returns the number of answers without an address in a row.
    pub fn failures(&self) -> u32 {
        self.failures
    }

    fn set(&mut self, mut addresses: Vec<A>) -> bool {
        addresses.sort_unstable();
        addresses.dedup();
        self.unused = addresses.len().saturating_sub(self.config.max_addresses);
        addresses.truncate(self.config.max_addresses);
        let changed = addresses != self.addresses;
        self.addresses = addresses;
        changed
    }

    fn wait(&self, ttl: Option<Duration>) -> Duration {
        let ttl = ttl.filter(|_| self.config.respect_ttl);
        ttl.map_or(self.config.refresh, |ttl| {
            ttl.max(self.config.min_ttl).min(self.config.max_ttl)
        })
    }

    fn stale_at(&self) -> Option<Time> {
        let stands = !self.addresses.is_empty();
        Some(self.good_until.filter(|_| stands)? + self.config.max_stale?)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CONFIG: ResolutionConfig = ResolutionConfig {
        respect_ttl: true,
        refresh: Duration::from_secs(5),
        min_ttl: Duration::from_secs(2),
        max_ttl: Duration::from_secs(60),
        jitter_percent: 0,
        failure: Backoff {
            base: Duration::from_secs(1),
            max: Duration::from_secs(6),
        },
        max_stale: None,
        max_addresses: 3,
    };

    /// The random number that draws the longest wait.
    const MOST: u64 = u64::MAX;

    fn at(s: u64) -> Time {
        Time::ZERO + Duration::from_secs(s)
    }

    fn found(addresses: &[u32], ttl_s: u64) -> Answer<u32> {
        Answer::Addresses {
            addresses: addresses.to_vec(),
            ttl: Some(Duration::from_secs(ttl_s)),
        }
    }

    /// Returns when the name is due, in seconds, rounded up: what is drawn is just below its bound.
    fn due_s(name: &Resolution<u32>) -> u64 {
        name.due.since(Time::ZERO).as_millis().div_ceil(1000) as u64
    }

    #[test]
    fn the_next_question_comes_when_the_answer_is_over() {
        let mut name = Resolution::new(at(7), CONFIG);
        assert!(name.is_due(at(7)) && !name.is_due(at(6)));
        for (ttl_s, wait_s) in [(30, 30), (0, 2), (1, 2), (2, 2), (60, 60), (86_400, 60)] {
            name.learn(at(100), found(&[1], ttl_s), 0);
            assert_eq!(due_s(&name), 100 + wait_s, "{ttl_s}");
            assert_eq!(name.next_wakeup(), name.due);
            assert!(!name.is_due(at(99 + wait_s)) && name.is_due(at(100 + wait_s)));
        }
        let timeless = Answer::Addresses {
            addresses: vec![1],
            ttl: None,
        };
        name.learn(at(200), timeless, 0);
        assert_eq!(due_s(&name), 205);
    }

    #[test]
    fn a_time_to_live_need_not_count() {
        let config = ResolutionConfig {
            respect_ttl: false,
            ..CONFIG
        };
        let mut name = Resolution::new(at(0), config);
        name.learn(at(0), found(&[1], 30), 0);
        assert_eq!(due_s(&name), 5);
    }

    #[test]
    fn a_wait_is_longer_by_its_jitter_at_most() {
        let config = ResolutionConfig {
            jitter_percent: 50,
            ..CONFIG
        };
        let mut name = Resolution::new(at(0), config);
        for (random, due) in [(0, 20), (1 << 63, 25), (MOST, 30)] {
            name.learn(at(0), found(&[1], 20), random);
            assert_eq!(due_s(&name), due);
        }
    }

    #[test]
    fn failures_back_off_and_leave_what_was_known() {
        let mut name = Resolution::new(at(0), CONFIG);
        assert!(name.learn(at(0), found(&[2, 1], 10), 0));
        let mut now = at(10);
        let mut waits = Vec::new();
        for answer in [0, 1, 0, 0, 1].map(|nothing| match nothing {
            1 => Answer::Nothing,
            _ => Answer::Failed,
        }) {
            assert!(!name.learn(now, answer, MOST));
            assert_eq!(name.addresses(), [1, 2]);
            waits.push(name.due.since(now).as_millis().div_ceil(1000));
            now = name.due;
        }
        assert_eq!((waits, name.failures()), (vec![1, 2, 4, 6, 6], 5));
        // The next answer starts anew.
        assert!(!name.learn(now, found(&[1, 2], 10), 0));
        assert_eq!(name.failures(), 0);
        name.learn(now, Answer::Failed, MOST);
        assert_eq!(name.due.since(now).as_millis().div_ceil(1000), 1);
    }

    #[test]
    fn what_was_known_stands_for_its_time() {
        let config = ResolutionConfig {
            max_stale: Some(Duration::from_secs(10)),
            ..CONFIG
        };
        let mut name = Resolution::new(at(0), config);
        name.learn(at(0), Answer::Failed, MOST);
        assert!(!name.expire(at(1000)), "nothing was known");
        name.learn(at(1000), found(&[1], 10), 0);
        assert_eq!(name.next_wakeup(), at(1010));
        name.learn(at(1017), Answer::Failed, MOST);
        name.learn(at(1018), Answer::Nothing, MOST);
        name.learn(at(1018), Answer::Failed, MOST);
        // Due at 1022, too old before.
        assert_eq!((due_s(&name), name.next_wakeup()), (1022, at(1020)));
        assert!(!name.expire(at(1019)));
        assert!(name.expire(at(1020)) && name.addresses().is_empty());
        assert!(!name.expire(at(1020)), "it is gone already");
        assert_eq!(name.next_wakeup(), name.due);
        assert!(name.learn(at(1022), found(&[1], 10), 0));
        // An answer that comes late ends it as well.
        assert!(name.learn(at(1042), Answer::Failed, 0));
        assert!(name.addresses().is_empty());
    }

    #[test]
    fn an_answer_stands_while_it_is_good() {
        let config = ResolutionConfig {
            max_stale: Some(Duration::ZERO),
            ..CONFIG
        };
        let mut name = Resolution::new(at(0), config);
        name.learn(at(0), found(&[1], 60), 0);
        assert_eq!((name.next_wakeup(), name.expire(at(59))), (at(60), false));
        assert!(name.expire(at(60)));
    }

    #[test]
    fn addresses_are_a_set_and_the_lowest_are_used() {
        let mut name = Resolution::new(at(0), CONFIG);
        assert!(name.learn(at(0), found(&[3, 1, 3], 10), 0));
        assert_eq!((name.addresses(), name.unused()), (&[1, 3][..], 0));
        assert!(!name.learn(at(0), found(&[1, 3, 1], 10), 0), "the same");
        assert!(name.learn(at(0), found(&[9, 3, 7, 1, 8], 10), 0));
        assert_eq!((name.addresses(), name.unused()), (&[1, 3, 7][..], 2));
        assert!(!name.learn(at(0), found(&[1, 3, 7, 8], 10), 0), "the same");
        assert_eq!(name.unused(), 1);
    }

    fn answers() -> impl Strategy<Value = Answer<u32>> {
        let addresses = proptest::collection::vec(0..8_u32, 1..6);
        let ttl = proptest::option::of((0..100_u64).prop_map(Duration::from_secs));
        prop_oneof![
            (addresses, ttl).prop_map(|(addresses, ttl)| Answer::Addresses { addresses, ttl }),
            Just(Answer::Nothing),
            Just(Answer::Failed),
        ]
    }

    proptest! {
        #[test]
        fn questions_are_bounded_and_addresses_are_of_the_last_answer(
            steps in proptest::collection::vec((answers(), any::<u64>()), 1..40),
        ) {
            let config = ResolutionConfig {
                jitter_percent: 100,
                max_stale: Some(Duration::from_secs(30)),
                ..CONFIG
            };
            let mut name = Resolution::new(at(0), config);
            let mut now = at(0);
            // The last answer, when it came, and until when it stands.
            let mut last: Option<(Time, Vec<u32>)> = None;
            let mut stands = at(0);
            for (answer, random) in steps {
                if let Answer::Addresses { addresses, .. } = &answer {
                    let mut set = addresses.clone();
                    set.sort_unstable();
                    set.dedup();
                    set.truncate(CONFIG.max_addresses);
                    last = Some((now, set));
                }
                let is_answer = matches!(answer, Answer::Addresses { .. });
                name.learn(now, answer, random);
                if is_answer {
                    stands = name.due + Duration::from_secs(30);
                }
                let wait = name.due.since(now);
                prop_assert!(wait <= CONFIG.max_ttl * 2);
                let fresh = last.as_ref().filter(|_| now < stands);
                let expected = fresh.map_or(&[][..], |(_, set)| set);
                prop_assert_eq!(name.addresses(), expected);
                prop_assert_eq!(name.failures() == 0, wait >= CONFIG.min_ttl
                    && last.as_ref().is_some_and(|(at, _)| *at == now));
                now = name.due;
            }
        }
    }
}
