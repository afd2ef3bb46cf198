use proptest::prelude::*;

use super::*;

const S: Duration = Duration::from_secs(1);

fn at(seconds: u32) -> Time {
    Time::ZERO + seconds * S
}

fn took(actual: Duration, fair: Duration) -> Took {
    Took { actual, fair }
}

fn network(number: u32) -> Network {
    let mut bytes = [0; 17];
    bytes[..4].copy_from_slice(&number.to_be_bytes());
    Network(bytes)
}

fn networks(most: usize) -> Networks {
    let mut networks = Networks::default();
    networks.set_most(most);
    networks
}

/// Returns the networks with a place and their responses so far, in order of their numbers,
/// and the responses of all others.
fn told(networks: &Networks) -> (Vec<(Network, u64)>, u64) {
    let each = networks.each(at(0), Span::Start);
    let mut each: Vec<_> = each.map(|(own, it)| (own, it.responses as u64)).collect();
    each.sort();
    let other = networks.other(at(0), Span::Start).unwrap();
    (each, other.responses as u64)
}

impl Networks {
    /// Adds responses of a network, each of 1 s, and 3 s under `fair`.
    fn add_some(&mut self, now: Time, number: u32, responses: usize) {
        for _ in 0..responses {
            self.add(now, Some(network(number)), took(S, 3 * S));
        }
    }
}

#[test]
fn the_first_have_places_and_all_others_share() {
    let mut own = networks(2);
    for (number, responses) in [(1, 3), (2, 2), (3, 1), (4, 1)] {
        own.add_some(at(0), number, responses);
    }
    own.add(at(0), None, took(S, S));
    assert_eq!(told(&own), (vec![(network(1), 3), (network(2), 2)], 3));
    let (_, first) = own.each(at(0), Span::TenMinutes).next().unwrap();
    assert_eq!(first.gain(), Some(3.0));
    let other = own.other(at(0), Span::Start).unwrap();
    assert_eq!((other.actual_s, other.fair_s), (3.0, 7.0));
}

#[test]
fn one_with_twice_as_many_takes_the_least_place() {
    let mut own = networks(2);
    own.add_some(at(0), 1, 5);
    own.add_some(at(0), 2, 2);
    own.add_some(at(1), 3, 4);
    assert_eq!(told(&own).0, [(network(1), 5), (network(2), 2)]);
    own.add_some(at(1), 3, 1);
    // What it had before stays where it was, and what the other had goes there.
    assert_eq!(told(&own), (vec![(network(1), 5), (network(3), 0)], 7));
    own.add_some(at(1), 3, 1);
    assert_eq!(told(&own), (vec![(network(1), 5), (network(3), 1)], 7));
}

#[test]
fn places_change_once_a_minute() {
    let mut own = networks(1);
    own.add_some(at(0), 1, 1);
    own.add_some(at(0), 2, 3);
    own.add_some(at(59), 3, 100);
    assert_eq!(told(&own).0, [(network(2), 0)]);
    own.add_some(at(60), 3, 1);
    assert_eq!(told(&own).0, [(network(3), 0)]);
}

#[test]
fn who_has_gone_loses_the_place_in_time() {
    let mut own = networks(1);
    own.add_some(at(0), 1, 1000);
    own.add_some(at(599), 2, 30);
    // Halved six times: 1000 is 15, and 30 is none.
    own.add_some(at(3600), 2, 30);
    assert_eq!(told(&own), (vec![(network(1), 1000)], 60));
    own.add_some(at(3600), 2, 1);
    assert_eq!(told(&own), (vec![(network(2), 0)], 1061));
}

#[test]
fn fewer_places_keep_the_sums() {
    let mut own = networks(3);
    for number in 1..=3 {
        own.add_some(at(0), number, number as usize);
    }
    own.set_most(1);
    assert_eq!(told(&own), (vec![(network(3), 3)], 3));
    own.set_most(0);
    own.add_some(at(0), 1, 1);
    assert_eq!(own.other(at(0), Span::Start), None);
    assert_eq!(own.each(at(0), Span::Start).count(), 0);
}

#[test]
fn one_with_many_responses_is_found_among_many_networks() {
    let mut own = networks(1);
    own.add_some(at(0), 0, 10);
    // Every tenth response is of one network, the others of one that never comes again.
    for number in 1..2000 {
        let number = if number % 10 == 0 { 1 } else { 1000 + number };
        own.add_some(at(1), number, 1);
    }
    assert_eq!(told(&own).0.first().unwrap().0, network(1));
}

#[test]
fn one_that_gets_a_free_place_is_no_candidate_any_more() {
    let mut own = networks(1);
    for number in 1..=3 {
        own.add_some(at(0), number, 1);
    }
    own.set_most(2);
    own.add_some(at(0), 2, 1);
    assert_eq!(told(&own), (vec![(network(1), 1), (network(2), 1)], 2));
    let candidates = own.candidates.iter().map(|it| it.network);
    assert_eq!(candidates.collect::<Vec<_>>(), [network(3)]);
}

/// Checks the rule of Space-Saving: a newcomer takes the place and the count of the network with
/// the least, and how much of that count is its own is not known.
#[test]
fn what_a_candidate_inherits_is_doubted() {
    let mut own = networks(1);
    own.add_some(at(0), 0, 1);
    for number in 1..=CANDIDATES_MAX as u32 {
        own.add_some(at(0), number, 2);
    }
    own.add_some(at(0), 100, 1);
    let first = |own: &Networks| {
        let it = own.candidates[0];
        (it.network, it.rank, it.doubt)
    };
    assert_eq!(own.candidates.len(), CANDIDATES_MAX);
    assert_eq!(first(&own), (network(100), 3, 2));
    // A rank of 4, of which 2 are certain: not more than twice that of the one with a place.
    own.add_some(at(0), 100, 1);
    assert_eq!(told(&own).0, [(network(0), 1)]);
    own.add_some(at(0), 100, 1);
    assert_eq!(told(&own).0, [(network(100), 0)]);
    assert_eq!(own.placed[0].rank, 3);
    assert_eq!(first(&own), (network(0), 1, 0));
}

proptest! {
    #[test]
    fn memory_is_bounded_and_no_response_is_lost(
        most in 1usize..5,
        steps in prop::collection::vec((0u32..300, 0u32..200), 0..600),
    ) {
        let mut own = networks(most);
        let (mut now, mut other) = (0, 0);
        for (count, (number, pause)) in steps.into_iter().enumerate() {
            now += pause;
            own.add_some(at(now), number, 1);
            prop_assert!(own.placed.len() <= most);
            prop_assert!(own.candidates.len() <= CANDIDATES_MAX);
            let (each, shared) = told(&own);
            let sum: u64 = each.iter().map(|(_, responses)| responses).sum();
            prop_assert_eq!(sum + shared, count as u64 + 1);
            prop_assert!(shared >= other, "a counter that falls");
            other = shared;
        }
    }
}
