//! Every case of up to five flows, served to the end in virtual time.

use crate::driver::{Arrival, Driver, UNIT, disciplines, ms, run};
use sprat_scheduler::{Discipline, Time};

const SIZES: [u64; 3] = [1, 2, 4];
const GAPS_MS: [u64; 3] = [0, 1, 3];

/// Calls `check` with each case of one to five flows: every order of sizes
/// from [`SIZES`], every distance in time between neighbours from [`GAPS_MS`].
fn for_each_case(mut check: impl FnMut(&[Arrival])) {
    for flows in 1..=5u32 {
        let cases = 3usize.pow(2 * flows - 1);
        for case in 0..cases {
            let mut digits = case;
            let mut digit = || {
                let digit = digits % 3;
                digits /= 3;
                digit
            };
            let mut at_ms = 0;
            let arrivals: Vec<Arrival> = (0..flows)
                .map(|flow| {
                    let bytes = SIZES[digit()];
                    at_ms += if flow == 0 { 0 } else { GAPS_MS[digit()] };
                    Arrival {
                        at: ms(at_ms),
                        bytes,
                    }
                })
                .collect();
            check(&arrivals);
        }
    }
}

fn assert_all_served(driver: &Driver, arrivals: &[Arrival]) {
    let mut bytes = vec![0; arrivals.len()];
    for service in &driver.services {
        assert!(service.at >= arrivals[service.flow].at);
        bytes[service.flow] += service.bytes;
    }
    let sizes: Vec<u64> = arrivals.iter().map(|arrival| arrival.bytes).collect();
    assert_eq!(bytes, sizes);
    assert_eq!(driver.egress.stats().granted_bytes, sizes.iter().sum());
    assert_eq!(driver.egress.open_flows(), 0);
}

/// When a link that never idles while something waits serves, whatever the
/// order: one byte a millisecond.
fn busy_times(arrivals: &[Arrival]) -> Vec<Time> {
    let mut free_at = ms(0);
    let mut times = Vec::new();
    for arrival in arrivals {
        free_at = free_at.max(arrival.at);
        for _ in 0..arrival.bytes {
            times.push(free_at);
            free_at = free_at + ms(1).since(ms(0));
        }
    }
    times
}

#[test]
fn all_is_served_without_idling() {
    for_each_case(|arrivals| {
        let busy = busy_times(arrivals);
        for discipline in disciplines() {
            let driver = run(&discipline, UNIT, arrivals);
            assert_all_served(&driver, arrivals);
            let times: Vec<Time> = driver.services.iter().map(|service| service.at).collect();
            assert_eq!(times, busy, "{discipline:?} {arrivals:?}");
        }
    });
}

/// With unit quanta SRPT is optimal (Schrage 1968).
#[test]
fn no_discipline_has_a_lower_mean_than_srpt() {
    let disciplines = disciplines();
    let mut beaten = vec![0; disciplines.len()];
    for_each_case(|arrivals| {
        let of = |discipline| run(discipline, UNIT, arrivals).response_time_sum_nanos();
        let srpt = of(&Discipline::Srpt);
        for (discipline, beaten) in disciplines.iter().zip(&mut beaten) {
            let other = of(discipline);
            assert!(srpt <= other, "{discipline:?} {arrivals:?}");
            *beaten += u32::from(srpt < other);
        }
    });
    // The others do differ, or this would prove nothing.
    for (discipline, beaten) in disciplines.iter().zip(beaten) {
        assert_eq!(
            beaten > 0,
            *discipline != Discipline::Srpt,
            "{discipline:?}"
        );
    }
}

#[test]
fn the_same_calls_give_the_same_grants() {
    for_each_case(|arrivals| {
        for discipline in disciplines() {
            let first = run(&discipline, UNIT, arrivals).services;
            let second = run(&discipline, UNIT, arrivals).services;
            assert_eq!(first, second, "{discipline:?} {arrivals:?}");
        }
    });
}

/// An order that is total does not depend on where a flow is kept: neither
/// the slots that earlier flows left nor the heap's shape change a grant.
#[test]
fn the_order_does_not_depend_on_earlier_flows() {
    for_each_case(|arrivals| {
        for discipline in disciplines() {
            let mut driver = Driver::new(discipline.clone(), UNIT);
            let earlier: Vec<usize> = (0..5).map(|_| driver.arrive(1)).collect();
            for flow in [3, 0, 4, 1, 2] {
                driver.egress.close(ms(0), driver.clients[earlier[flow]].id);
            }
            for arrival in arrivals {
                driver.run_until(arrival.at);
                driver.arrive(arrival.bytes);
            }
            driver.serve_the_rest();
            let mut services = driver.services;
            for service in &mut services {
                service.flow -= earlier.len();
            }
            let fresh = run(&discipline, UNIT, arrivals).services;
            assert_eq!(services, fresh, "{discipline:?} {arrivals:?}");
        }
    });
}
