//! The state of a name's addresses. If both kinds of addresses are used, each has a state of its
//! own: a kind that no server can tell stays what it was, and the other goes on.

use std::net::IpAddr;

use sprat_scheduler::Time;
use sprat_scheduler::resolution::{Answer, Resolution, ResolutionConfig};

/// The result of asking for a name.
pub(super) struct Asked {
    /// One answer, or one for each kind of address.
    pub(super) answers: Vec<Answer<IpAddr>>,
    /// The error, if a lookup failed or found nothing.
    pub(super) error: Option<String>,
}

impl Asked {
    /// Combines the results of asking for both kinds. If one kind has no addresses and the other
    /// has some, that is an answer, and good for as long.
    pub(super) fn both(mut v4: Self, mut v6: Self) -> Self {
        complete(&mut v4, &v6);
        complete(&mut v6, &v4);
        let error = match v6.is_failure() {
            true => v6.error.or(v4.error),
            false => v4.error.or(v6.error),
        };
        Self {
            answers: [v4.answers, v6.answers].concat(),
            error,
        }
    }

    /// Returns whether no server could answer, for one kind or all.
    pub(super) fn is_failure(&self) -> bool {
        self.answers.contains(&Answer::Failed)
    }

    /// Returns whether there are any addresses.
    pub(super) fn has_addresses(&self) -> bool {
        let mut answers = self.answers.iter();
        answers.any(|answer| matches!(answer, Answer::Addresses { .. }))
    }
}

/// Makes the lack of addresses an answer, if the other kind has some.
fn complete(own: &mut Asked, other: &Asked) {
    if let ([Answer::Nothing], [Answer::Addresses { ttl, .. }]) = (&*own.answers, &*other.answers) {
        let addresses = Vec::new();
        own.answers = vec![Answer::Addresses {
            addresses,
            ttl: *ttl,
        }];
        own.error = None;
    }
}

/// The state of a name: its addresses, and when to ask for them again.
pub(super) struct Known {
    /// The state of each part; there are as many parts as answers.
    parts: Vec<Resolution<IpAddr>>,
    max_addresses: usize,
}

impl Known {
    /// Creates a state with this number of parts, of which nothing is known: the name is due.
    pub(super) fn new(now: Time, config: ResolutionConfig, parts: usize) -> Self {
        Self {
            parts: vec![Resolution::new(now, config); parts],
            max_addresses: config.max_addresses,
        }
    }

    /// Returns whether the name is to be asked for.
    pub(super) fn is_due(&self, now: Time) -> bool {
        self.parts.iter().any(|part| part.is_due(now))
    }

    /// Returns when to look again.
    pub(super) fn next_wakeup(&self) -> Option<Time> {
        self.parts.iter().map(Resolution::next_wakeup).min()
    }

    /// Learns what the answers say that have come now; `random` is a number drawn for this.
    /// Returns whether the addresses have changed.
    pub(super) fn learn(&mut self, now: Time, asked: Asked, random: u64) -> bool {
        let parts = self.parts.iter_mut().zip(asked.answers);
        let changed = parts.map(|(part, answer)| part.learn(now, answer, random));
        changed.fold(false, |any, one| any | one)
    }

    /// Forgets addresses that have stood for too long; returns whether there were any.
    pub(super) fn expire(&mut self, now: Time) -> bool {
        let parts = self.parts.iter_mut();
        let expired = parts.map(|part| part.expire(now));
        expired.fold(false, |any, one| any | one)
    }

    /// Returns the addresses that are used, ascending.
    pub(super) fn addresses(&self) -> Vec<IpAddr> {
        let mut all = self.all();
        all.truncate(self.max_addresses);
        all
    }

    /// Returns how many addresses there were beyond those that are used.
    pub(super) fn unused(&self) -> usize {
        let beyond: usize = self.parts.iter().map(Resolution::unused).sum();
        beyond + self.all().len().saturating_sub(self.max_addresses)
    }

    /// Returns the most answers in a row that any part was missing from.
    pub(super) fn failures(&self) -> u32 {
        let failures = self.parts.iter().map(Resolution::failures);
        failures.max().unwrap_or_default()
    }

    fn all(&self) -> Vec<IpAddr> {
        let mut all: Vec<_> = (self.parts.iter())
            .flat_map(|part| part.addresses().iter().copied())
            .collect();
        all.sort_unstable();
        all
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sprat_scheduler::health::Backoff;

    use super::*;

    const CONFIG: ResolutionConfig = ResolutionConfig {
        respect_ttl: true,
        refresh: Duration::from_secs(5),
        min_ttl: Duration::from_secs(1),
        max_ttl: Duration::from_secs(60),
        jitter_percent: 0,
        failure: Backoff {
            base: Duration::from_secs(1),
            max: Duration::from_secs(6),
        },
        max_stale: None,
        max_addresses: 3,
    };

    fn at(s: u64) -> Time {
        Time::ZERO + Duration::from_secs(s)
    }

    fn ips(texts: &[&str]) -> Vec<IpAddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    fn one(answer: Answer<IpAddr>) -> Asked {
        let error = match answer {
            Answer::Addresses { .. } => None,
            Answer::Nothing => Some("nothing".to_owned()),
            Answer::Failed => Some("failed".to_owned()),
        };
        Asked {
            answers: vec![answer],
            error,
        }
    }

    fn found(addresses: &[&str]) -> Asked {
        one(Answer::Addresses {
            addresses: ips(addresses),
            ttl: Some(Duration::from_secs(10)),
        })
    }

    fn nothing() -> Asked {
        one(Answer::Nothing)
    }

    fn failed() -> Asked {
        one(Answer::Failed)
    }

    fn both() -> Known {
        Known::new(at(0), CONFIG, 2)
    }

    #[test]
    fn a_kind_that_nobody_can_tell_leaves_what_it_was() {
        let mut name = both();
        let first = Asked::both(found(&["10.0.0.1"]), found(&["::1"]));
        assert!(!first.is_failure() && name.learn(at(0), first, 0));
        assert_eq!(name.addresses(), ips(&["10.0.0.1", "::1"]));
        // The other kind goes on.
        let half = Asked::both(found(&["10.0.0.2"]), failed());
        assert!(half.is_failure() && half.has_addresses());
        assert_eq!(half.error.as_deref(), Some("failed"));
        assert!(name.learn(at(10), half, 0));
        assert_eq!(name.addresses(), ips(&["10.0.0.2", "::1"]));
        assert_eq!(name.failures(), 1);
        // It is asked for again as after any failure.
        assert!(name.is_due(at(11)));
        let half = Asked::both(failed(), found(&["::2"]));
        assert!(name.learn(at(11), half, 0));
        assert_eq!(name.addresses(), ips(&["10.0.0.2", "::2"]));
        let whole = Asked::both(found(&["10.0.0.2"]), found(&["::2"]));
        assert!(!name.learn(at(12), whole, 0));
        assert_eq!((name.failures(), name.is_due(at(21))), (0, false));
    }

    #[test]
    fn the_first_time_there_is_what_can_be_had() {
        let mut name = both();
        assert!(name.learn(at(0), Asked::both(found(&["10.0.0.1"]), failed()), 0));
        assert_eq!(name.addresses(), ips(&["10.0.0.1"]));
        assert_eq!(name.failures(), 1);
    }

    #[test]
    fn none_of_one_kind_is_an_answer_beside_some_of_the_other() {
        let mut name = both();
        name.learn(at(0), Asked::both(found(&["10.0.0.1"]), found(&["::1"])), 0);
        let v6_only = Asked::both(nothing(), found(&["::1"]));
        assert_eq!((v6_only.is_failure(), &v6_only.error), (false, &None));
        assert!(name.learn(at(10), v6_only, 0));
        assert_eq!(name.addresses(), ips(&["::1"]));
        assert_eq!(name.failures(), 0);
        assert!(!name.is_due(at(19)) && name.is_due(at(20)));
        // None of either is not: what was known stands.
        let none = Asked::both(nothing(), nothing());
        assert!(!none.has_addresses() && !none.is_failure());
        assert!(!name.learn(at(20), none, 0));
        assert_eq!(name.addresses(), ips(&["::1"]));
    }

    #[test]
    fn what_stood_for_too_long_goes_and_the_other_kind_stays() {
        let config = ResolutionConfig {
            max_stale: Some(Duration::from_secs(20)),
            ..CONFIG
        };
        let mut name = Known::new(at(0), config, 2);
        name.learn(at(0), Asked::both(found(&["10.0.0.1"]), found(&["::1"])), 0);
        for s in [10, 20, 29] {
            name.learn(at(s), Asked::both(found(&["10.0.0.1"]), failed()), u64::MAX);
        }
        assert!(!name.expire(at(29)) && name.expire(at(30)));
        assert_eq!(name.addresses(), ips(&["10.0.0.1"]));
    }

    #[test]
    fn the_lowest_of_both_kinds_are_used() {
        let mut name = both();
        let v4 = found(&["10.0.0.4", "10.0.0.3", "10.0.0.2", "10.0.0.1"]);
        name.learn(at(0), Asked::both(v4, found(&["::1", "::2"])), 0);
        assert_eq!(name.addresses(), ips(&["10.0.0.1", "10.0.0.2", "10.0.0.3"]));
        assert_eq!(name.unused(), 3);
    }
}
