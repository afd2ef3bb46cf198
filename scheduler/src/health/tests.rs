use std::time::Duration;

use proptest::prelude::*;

use super::*;

fn at(ms: u64) -> Time {
    Time::from_nanos(ms * 1_000_000)
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Returns rules by which five 5xx, four gateway failures or three missing responses in a row eject
/// for a second, at most half of the endpoints.
fn config() -> OutlierConfig {
    OutlierConfig {
        consecutive_5xx: Some(5),
        consecutive_gateway_failure: Some(4),
        consecutive_local_origin_failure: Some(3),
        success_rate: None,
        interval: ms(10_000),
        base_ejection_time: ms(1000),
        max_ejection_time: ms(2500),
        max_ejection_time_jitter: Duration::ZERO,
        max_ejection_percent: 50,
    }
}

fn health(endpoints: usize) -> Health {
    Health::new(Some(config()), None, endpoints)
}

fn observe(health: &mut Health, now: u64, endpoint: usize, outcome: Outcome, times: usize) {
    for _ in 0..times {
        health.observe(at(now), endpoint, outcome, 0);
    }
}

fn changes(health: &mut Health) -> Vec<(usize, bool)> {
    std::iter::from_fn(|| health.poll())
        .map(|change| (change.endpoint, change.out))
        .collect()
}

#[test]
fn each_kind_of_failure_has_its_bound() {
    for (outcome, bound, cause) in [
        (Outcome::ServerError, 5, Ejection::Consecutive5xx),
        (
            Outcome::GatewayError,
            4,
            Ejection::ConsecutiveGatewayFailure,
        ),
        (
            Outcome::NoResponse,
            3,
            Ejection::ConsecutiveLocalOriginFailure,
        ),
    ] {
        let mut health = health(4);
        observe(&mut health, 0, 1, outcome, bound - 1);
        observe(&mut health, 0, 1, Outcome::Success, 1);
        observe(&mut health, 0, 1, outcome, bound - 1);
        assert_eq!(changes(&mut health), [], "{outcome:?}");
        observe(&mut health, 0, 1, outcome, 1);
        assert_eq!(changes(&mut health), [(1, true)], "{outcome:?}");
        assert_eq!(health.ejections()[cause.index()], 1);
        assert_eq!(health.ejections().iter().sum::<u64>(), 1);
    }
}

#[test]
fn no_response_is_a_5xx_too() {
    let mut health = Health::new(
        Some(OutlierConfig {
            consecutive_gateway_failure: None,
            consecutive_local_origin_failure: None,
            ..config()
        }),
        None,
        2,
    );
    observe(&mut health, 0, 0, Outcome::ServerError, 2);
    observe(&mut health, 0, 0, Outcome::NoResponse, 2);
    assert_eq!(changes(&mut health), []);
    observe(&mut health, 0, 0, Outcome::GatewayError, 1);
    assert_eq!(changes(&mut health), [(0, true)]);
}

#[test]
fn status_codes_are_outcomes() {
    let outcomes = [200, 404, 499, 500, 501, 502, 504, 505, 599].map(Outcome::of_status);
    use Outcome::{GatewayError as G, ServerError as E, Success as S};
    assert_eq!(outcomes, [S, S, S, E, E, G, G, E, E]);
}

#[test]
fn an_ejection_ends_by_itself_and_the_next_is_longer() {
    let mut health = health(4);
    let mut now = 0;
    // One, two, then at most two and a half seconds.
    for expected in [1000, 2000, 2500, 2500] {
        observe(&mut health, now, 0, Outcome::NoResponse, 3);
        assert_eq!(changes(&mut health), [(0, true)]);
        let end = health.endpoint(0).ejected_until.unwrap();
        assert_eq!(end, at(now + expected));
        assert!(health.next_wakeup().unwrap() <= end);
        health.expire(at(now + expected - 1), 0);
        assert_eq!(changes(&mut health), []);
        now += expected;
        health.expire(at(now), 0);
        assert_eq!(changes(&mut health), [(0, false)]);
    }
}

#[test]
fn an_interval_without_an_ejection_takes_one_off_the_account() {
    let mut health = health(4);
    observe(&mut health, 0, 0, Outcome::NoResponse, 3);
    health.expire(at(1000), 0);
    // The interval in which it was ejected, and one without.
    health.expire(at(10_000), 0);
    health.expire(at(20_000), 0);
    observe(&mut health, 20_000, 0, Outcome::NoResponse, 3);
    assert_eq!(health.endpoint(0).ejected_until, Some(at(21_000)));
}

#[test]
fn not_more_than_the_share_are_ejected_and_never_the_last() {
    let mut health = health(4);
    for endpoint in 0..3 {
        observe(&mut health, 0, endpoint, Outcome::NoResponse, 3);
    }
    assert_eq!(changes(&mut health), [(0, true), (1, true)]);
    assert_eq!(health.ejections_prevented(), 1);
    // When there is room again, as many failures eject it.
    health.expire(at(1000), 0);
    changes(&mut health);
    observe(&mut health, 1000, 2, Outcome::NoResponse, 3);
    assert_eq!(changes(&mut health), [(2, true)]);
    let mut health = Health::new(
        Some(OutlierConfig {
            max_ejection_percent: 100,
            ..config()
        }),
        None,
        2,
    );
    for endpoint in 0..2 {
        observe(&mut health, 0, endpoint, Outcome::NoResponse, 3);
    }
    assert_eq!(changes(&mut health), [(0, true)]);
}

#[test]
fn what_is_heard_of_an_ejected_one_does_not_prolong_it() {
    let mut health = health(4);
    observe(&mut health, 0, 0, Outcome::NoResponse, 30);
    assert_eq!(health.ejections().iter().sum::<u64>(), 1);
    health.expire(at(1000), 0);
    assert_eq!(changes(&mut health), [(0, true), (0, false)]);
    // And does not count when it is back.
    observe(&mut health, 1000, 0, Outcome::NoResponse, 2);
    assert_eq!(changes(&mut health), []);
}

#[test]
fn a_low_success_rate_ejects_at_the_end_of_an_interval() {
    let rule = SuccessRate {
        minimum_hosts: 4,
        request_volume: 100,
        stdev_factor: 1500,
    };
    let config = OutlierConfig {
        success_rate: Some(rule),
        consecutive_5xx: None,
        ..config()
    };
    let mut health = Health::new(Some(config), None, 5);
    let interval = |health: &mut Health, end: u64, requests: usize| {
        for endpoint in 0..5 {
            observe(health, 0, endpoint, Outcome::Success, requests / 2);
            let rest = match endpoint {
                3 => Outcome::ServerError,
                _ => Outcome::Success,
            };
            observe(health, 0, endpoint, rest, requests / 2);
        }
        health.expire(at(end), 0);
        changes(health)
    };
    assert_eq!(interval(&mut health, 10_000, 98), [], "too few requests");
    assert_eq!(interval(&mut health, 20_000, 100), [(3, true)]);
    assert_eq!(health.ejections()[Ejection::SuccessRate.index()], 1);
}

#[test]
fn why_an_endpoint_is_out_is_known() {
    let thresholds = Thresholds {
        healthy: 1,
        unhealthy: 1,
    };
    let mut health = Health::new(Some(config()), Some(thresholds), 4);
    assert_eq!(health.cause(0), None);
    observe(&mut health, 0, 0, Outcome::NoResponse, 3);
    let Some(Cause::Ejected(offence, until)) = health.cause(0) else {
        panic!("{:?}", health.cause(0));
    };
    let cause = Ejection::ConsecutiveLocalOriginFailure;
    assert_eq!((offence.cause, offence.in_a_row), (cause, Some(3)));
    assert_eq!(health.endpoint(0).ejected_until, Some(until));
    health.checked(1, false);
    assert_eq!(health.cause(1), Some(Cause::Unhealthy));
    health.checked(1, true);
    assert_eq!(health.cause(1), None);
}

#[test]
fn the_first_check_decides_then_the_thresholds() {
    let thresholds = Thresholds {
        healthy: 2,
        unhealthy: 3,
    };
    let mut health = Health::new(None, Some(thresholds), 2);
    let mut check = |results: &[bool]| {
        for &passed in results {
            health.checked(0, passed);
        }
        (changes(&mut health), health.endpoint(0).passes_checks)
    };
    assert_eq!(check(&[false]), (vec![(0, true)], Some(false)));
    assert_eq!(check(&[true, false, true]), (vec![], Some(false)));
    assert_eq!(check(&[true]), (vec![(0, false)], Some(true)));
    // One that passes ends the row.
    assert_eq!(check(&[false, true, false]), (vec![], Some(true)));
    assert_eq!(check(&[false, true, false, false]), (vec![], Some(true)));
    assert_eq!(check(&[false]), (vec![(0, true)], Some(false)));
}

#[test]
fn one_that_is_ejected_and_fails_checks_is_out_until_both_are_over() {
    let thresholds = Thresholds {
        healthy: 1,
        unhealthy: 1,
    };
    let mut health = Health::new(Some(config()), Some(thresholds), 4);
    observe(&mut health, 0, 0, Outcome::NoResponse, 3);
    health.checked(0, false);
    health.expire(at(1000), 0);
    assert_eq!(changes(&mut health), [(0, true)]);
    health.checked(0, true);
    assert_eq!(changes(&mut health), [(0, false)]);
}

#[test]
fn one_that_has_gone_is_forgotten() {
    let mut health = health(3);
    observe(&mut health, 0, 1, Outcome::NoResponse, 3);
    changes(&mut health);
    health.set_endpoints(&[0, 2, 3]);
    observe(&mut health, 0, 1, Outcome::NoResponse, 3);
    assert_eq!(changes(&mut health), []);
    assert_eq!(health.endpoint(1), EndpointHealth::default());
    observe(&mut health, 0, 3, Outcome::NoResponse, 3);
    assert_eq!(changes(&mut health), [(3, true)]);
}

#[derive(Clone, Debug)]
enum Step {
    Observe(usize, Outcome, u64),
    Check(usize, bool),
    Pass(u64),
    Change(Vec<usize>),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let outcome = prop_oneof![
        Just(Outcome::Success),
        Just(Outcome::ServerError),
        Just(Outcome::GatewayError),
        Just(Outcome::NoResponse),
    ];
    let step = prop_oneof![
        12 => (0..6_usize, outcome, any::<u64>()).prop_map(|(e, o, r)| Step::Observe(e, o, r)),
        4 => (0..6_usize, any::<bool>()).prop_map(|(e, passed)| Step::Check(e, passed)),
        3 => (1..4000_u64).prop_map(Step::Pass),
        1 => proptest::collection::btree_set(0..6_usize, 1..6)
            .prop_map(|slots| Step::Change(slots.into_iter().collect())),
    ];
    proptest::collection::vec(step, 1..200)
}

proptest! {
    /// Checks that changes add up to the state, and that ejections keep to their share and end.
    #[test]
    fn whatever_happens_who_is_out_is_known_and_returns(steps in steps(), percent in 0..=100_u8) {
        let config = OutlierConfig { max_ejection_percent: percent, ..config() };
        let thresholds = Thresholds { healthy: 2, unhealthy: 2 };
        let mut health = Health::new(Some(config), Some(thresholds), 6);
        let mut slots: Vec<usize> = (0..6).collect();
        let mut out = [false; 6];
        let mut now = 0;
        for step in steps {
            match step {
                Step::Observe(endpoint, outcome, random) => {
                    health.observe(at(now), endpoint, outcome, random);
                }
                Step::Check(endpoint, passed) => health.checked(endpoint, passed),
                Step::Pass(passed) => {
                    now += passed;
                    health.expire(at(now), 0);
                }
                Step::Change(changed) => {
                    health.set_endpoints(&changed);
                    for (slot, out) in out.iter_mut().enumerate() {
                        *out &= changed.contains(&slot);
                    }
                    slots = changed;
                }
            }
            while let Some(change) = health.poll() {
                prop_assert_ne!(out[change.endpoint], change.out, "told twice");
                out[change.endpoint] = change.out;
            }
            let ejected = |slot: &&usize| health.endpoint(**slot).ejected_until.is_some();
            let ejected = slots.iter().filter(ejected).count();
            for (slot, &out) in out.iter().enumerate() {
                prop_assert_eq!(health.endpoint(slot).is_out(), out);
            }
            // Endpoints that were ejected before others went are not let back for it.
            if slots.len() == 6 {
                prop_assert!(ejected <= (6 * usize::from(percent) / 100).clamp(1, 5));
            }
        }
        health.expire(at(now + 2500), 0);
        for slot in slots {
            prop_assert_eq!(health.endpoint(slot).ejected_until, None);
        }
    }
}

#[test]
fn what_is_known_goes_on_in_another_order_and_the_rest_is_forgotten() {
    let thresholds = Thresholds {
        healthy: 1,
        unhealthy: 1,
    };
    let mut before = Health::new(Some(config()), Some(thresholds), 4);
    observe(&mut before, 0, 1, Outcome::NoResponse, 3);
    observe(&mut before, 0, 2, Outcome::NoResponse, 2);
    before.checked(3, false);
    assert_eq!(changes(&mut before), [(1, true), (3, true)]);
    // Without the first; the last is new.
    let slots = [Some(3), Some(2), Some(1), None];
    let mut health = Health::new(Some(config()), Some(thresholds), 4);
    health.take_over(&before, &slots);
    assert_eq!(changes(&mut health), [(0, true), (2, true)]);
    assert_eq!(health.ejections(), before.ejections());
    // One more is enough: the two before count.
    observe(&mut health, 1, 1, Outcome::NoResponse, 1);
    assert_eq!(changes(&mut health), [(1, true)]);
    health.expire(at(1000), 0);
    assert_eq!(changes(&mut health), [(2, false)]);
    health.checked(0, true);
    assert_eq!(changes(&mut health), [(0, false)]);
    // What is not looked at any more keeps no endpoint out.
    let mut checks = Health::new(None, Some(thresholds), 4);
    checks.take_over(&before, &slots);
    assert_eq!(changes(&mut checks), [(0, true)]);
    let mut answers = Health::new(Some(config()), None, 4);
    answers.take_over(&before, &slots);
    assert_eq!(changes(&mut answers), [(2, true)]);
}

#[test]
fn reasons_have_an_index_and_a_name() {
    let all = Ejection::ALL.map(|cause| (cause.index(), cause.name()));
    let expected = [
        (0, "consecutive_5xx"),
        (1, "consecutive_gateway_failure"),
        (2, "consecutive_local_origin_failure"),
        (3, "success_rate"),
    ];
    assert_eq!(all, expected);
}

#[test]
fn an_interval_begins_when_the_last_is_seen_to_be_over() {
    let mut health = health(4);
    assert_eq!(health.next_wakeup(), Some(at(10_000)));
    health.expire(at(9_999), 0);
    assert_eq!(health.next_wakeup(), Some(at(10_000)));
    health.expire(at(12_000), 0);
    assert_eq!(health.next_wakeup(), Some(at(22_000)));
    // An ejection that ends earlier is looked at earlier.
    observe(&mut health, 12_000, 0, Outcome::NoResponse, 3);
    assert_eq!(health.next_wakeup(), Some(at(13_000)));
    assert_eq!(Health::new(None, None, 4).next_wakeup(), None);
}

#[test]
fn ejections_that_are_prevented_are_counted() {
    let mut health = health(4);
    assert_eq!(health.ejections_prevented(), 0);
    for (endpoint, prevented) in [(0, 0), (1, 0), (2, 1), (3, 2)] {
        observe(&mut health, 0, endpoint, Outcome::NoResponse, 3);
        assert_eq!(health.ejections_prevented(), prevented);
    }
}

#[test]
fn jitter_is_added_to_an_ejection() {
    let config = OutlierConfig {
        max_ejection_time_jitter: ms(500),
        ..config()
    };
    let mut health = Health::new(Some(config), None, 2);
    for _ in 0..3 {
        health.observe(at(0), 0, Outcome::NoResponse, 1 << 63);
    }
    assert_eq!(health.endpoint(0).ejected_until, Some(at(1250)));
}

#[test]
fn the_interval_of_an_ejection_takes_nothing_off_the_account() {
    let mut health = health(4);
    let mut eject = |now| {
        health.expire(at(now), 0);
        observe(&mut health, now, 0, Outcome::NoResponse, 3);
        health.endpoint(0).ejected_until.unwrap()
    };
    // Over before the interval is, and so the next one is the second on the account.
    assert_eq!(eject(5_000), at(6_000));
    assert_eq!(eject(10_000), at(12_000));
    assert_eq!(eject(20_000), at(22_500));
    // Three are on it. At 30,000 nothing is taken off, at 40,000 and at 50,000 one each.
    for now in [30_000, 40_000, 50_000] {
        health.expire(at(now), 0);
    }
    observe(&mut health, 50_000, 0, Outcome::NoResponse, 3);
    assert_eq!(health.endpoint(0).ejected_until, Some(at(52_000)));
}

/// Returns the endpoints that are ejected at the end of an interval. `answers` has, for each
/// endpoint, its responses and how many of them were no server error.
fn low_rates(rule: SuccessRate, answers: &[(usize, usize)]) -> Vec<usize> {
    let config = OutlierConfig {
        success_rate: Some(rule),
        consecutive_5xx: None,
        ..config()
    };
    let mut health = Health::new(Some(config), None, answers.len());
    for (endpoint, &(total, good)) in answers.iter().enumerate() {
        observe(&mut health, 0, endpoint, Outcome::Success, good);
        observe(&mut health, 0, endpoint, Outcome::ServerError, total - good);
    }
    health.expire(at(10_000), 0);
    changes(&mut health).into_iter().map(|(it, _)| it).collect()
}

#[test]
fn a_success_rate_is_low_below_the_mean_less_the_factor_times_the_deviation() {
    let rule = |stdev_factor| SuccessRate {
        minimum_hosts: 2,
        request_volume: 8,
        stdev_factor,
    };
    // The mean is 3/4 and the deviation 1/4, both exact: one deviation below is 1/2.
    assert_eq!(low_rates(rule(1000), &[(8, 8), (8, 4)]), []);
    assert_eq!(low_rates(rule(999), &[(8, 8), (8, 4)]), [1]);
    // It is the share that counts, not how many there were.
    assert_eq!(low_rates(rule(999), &[(8, 8), (64, 32)]), [1]);
    assert_eq!(low_rates(rule(999), &[(8, 4), (64, 64)]), [0]);
}

#[test]
fn success_rates_are_compared_among_enough_endpoints() {
    let rule = |minimum_hosts| SuccessRate {
        minimum_hosts,
        request_volume: 8,
        stdev_factor: 500,
    };
    let answers = [(8, 8), (8, 8), (8, 4)];
    assert_eq!(low_rates(rule(3), &answers), [2]);
    assert_eq!(low_rates(rule(4), &answers), []);
    // One that has had too few requests is not among them.
    assert_eq!(low_rates(rule(3), &[(8, 8), (7, 7), (8, 4)]), []);
}
