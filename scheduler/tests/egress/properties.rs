//! What holds for every workload: rate, ageing's bound, fairness, optimality.

use std::time::Duration;

use proptest::prelude::*;
use sprat_scheduler::{Cutoffs, Discipline, FlowSpec, Grant, Pacer, Size, Time, WireCost};

use crate::driver::{Arrival, Driver, Link, UNIT, disciplines, egress, plain, run};

const WIRE: Link = Link {
    rate_bits_per_s: 10_000_000,
    cost: WireCost::ETHERNET_IPV4,
};

/// Up to `flows` arrivals of up to `bytes_max` each, up to `gap_max` apart.
fn arrivals(
    flows: usize,
    bytes_max: u64,
    gap_max: Duration,
) -> impl Strategy<Value = Vec<Arrival>> {
    let gap_max = gap_max.as_nanos() as u64;
    prop::collection::vec((1..=bytes_max, 0..=gap_max), 1..=flows).prop_map(|flows| {
        let mut at = Time::ZERO;
        let arrivals = flows.into_iter().map(|(bytes, gap)| {
            at = at + Duration::from_nanos(gap);
            Arrival { at, bytes }
        });
        arrivals.collect()
    })
}

fn any_discipline() -> impl Strategy<Value = Discipline> {
    prop::sample::select(disciplines())
}

/// By how many bytes on the wire `flow` is ahead of `other`, after each of
/// their services from when both are there until one has finished.
fn lead(driver: &Driver, flow: usize, other: usize) -> Vec<i64> {
    let clients = [&driver.clients[flow], &driver.clients[other]];
    let from = clients.map(|client| client.arrived_at).into_iter().max();
    let until = clients.iter().filter_map(|client| client.finished_at).min();
    let mut lead = vec![0];
    for service in &driver.services {
        let over = until.is_some_and(|until| service.at >= until);
        if Some(service.at) < from || over {
            continue;
        }
        let wire_bytes = driver.wire_bytes(service) as i64;
        let before = lead.last().copied().unwrap_or(0);
        if service.flow == flow {
            lead.push(before + wire_bytes);
        } else if service.flow == other {
            lead.push(before - wire_bytes);
        }
    }
    lead
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// N bytes on the wire take N / rate, to a nanosecond a grant.
    #[test]
    fn the_link_runs_at_its_rate(
        discipline in any_discipline(),
        rate_bits_per_s in 1_000u64..10_000_000_000,
        sizes in prop::collection::vec(1u64..200_000, 1..20),
    ) {
        let link = Link { rate_bits_per_s, ..WIRE };
        let arrivals: Vec<Arrival> = sizes
            .iter()
            .map(|&bytes| Arrival { at: Time::ZERO, bytes })
            .collect();
        let driver = run(&discipline, link, &arrivals);
        let wire_bytes: u64 = driver.services.iter().map(|s| driver.wire_bytes(s)).sum();
        let last = driver.clients.iter().filter_map(|client| client.finished_at).max();
        let took = u128::from(last.unwrap().as_nanos());
        let ideal = u128::from(wire_bytes) * 8_000_000_000 / u128::from(rate_bits_per_s);
        // Fractions of a nanosecond: one a grant, and 2^-20 a byte.
        let rounding = driver.services.len() as u128 + u128::from(wire_bytes >> 20) + 1;
        prop_assert!(took <= ideal && ideal <= took + rounding, "{took} ns, ideal {ideal}");
    }

    /// Timers that are late, within what the pacer allows for, cost nothing.
    #[test]
    fn late_timers_do_not_slow_the_link(
        lateness_nanos in prop::collection::vec(0u64..=200_000, 300),
    ) {
        let mut egress = egress(Discipline::Fcfs, Pacer::new(WIRE.rate_bits_per_s));
        let spec = FlowSpec::new(0, Size::Unknown, WIRE.cost);
        let flow = egress.open(Time::ZERO, spec).unwrap();
        let start = Time::from_nanos(1_000_000_000);
        let mut now = start;
        for lateness in &lateness_nanos {
            egress.offer(now, flow, u64::MAX);
            now = now.max(egress.pacer().next_grant_at()) + Duration::from_nanos(*lateness);
            let granted = egress.grant(now);
            prop_assert_eq!(granted, Grant::Send { flow, bytes: 1448 });
        }
        let quantum = egress.pacer().time_for(1514);
        let ideal = start + quantum * 300;
        let free_at = egress.pacer().next_grant_at();
        prop_assert!(free_at.since(ideal) <= quantum && ideal.since(free_at) <= quantum);
    }

    /// A driver that is later than its timers is made up for as long as something waits; time in
    /// which nothing waited is not, however late the driver is then.
    #[test]
    fn a_late_driver_does_not_slow_a_link_that_is_awaited(
        lateness_nanos in prop::collection::vec(0u64..=9_000_000, 300),
        idle_ms in 10u64..1000,
    ) {
        let mut egress = egress(Discipline::Fcfs, Pacer::new(WIRE.rate_bits_per_s));
        let spec = FlowSpec::new(0, Size::Unknown, WIRE.cost);
        let flow = egress.open(Time::ZERO, spec).unwrap();
        let mut now = Time::from_nanos(1_000_000_000);
        let idle = Duration::from_millis(idle_ms);
        for _ in 0..2 {
            prop_assert_eq!(egress.grant(now), Grant::Idle);
            now = now + idle;
            let start = now.max(egress.pacer().free_at());
            let mut bytes = 0;
            for lateness in &lateness_nanos {
                egress.offer(now, flow, u64::MAX);
                loop {
                    match egress.grant(now) {
                        Grant::Send { bytes: granted, .. } => {
                            bytes += granted / 1448 * 1514;
                            break;
                        }
                        Grant::Wait { until } => now = until + Duration::from_nanos(*lateness),
                        Grant::Idle => unreachable!("the flow has much to send"),
                    }
                }
            }
            egress.offer(now, flow, 0);
            let took = egress.pacer().free_at().since(start);
            let ideal = egress.pacer().time_for(bytes);
            let timers = Duration::from_micros(201);
            prop_assert!(took <= ideal && ideal - took <= timers, "{took:?} of {ideal:?}");
            now = now.max(egress.pacer().free_at());
        }
    }

    /// What a late driver owes goes to the flow whose turn it is: those behind it do not overtake it
    /// while it writes what it has been granted, and cannot ask again.
    #[test]
    fn a_late_driver_keeps_the_order(
        lateness_nanos in prop::collection::vec(0u64..=9_000_000, 1..50),
    ) {
        let mut egress = egress(Discipline::Fcfs, Pacer::new(WIRE.rate_bits_per_s));
        let spec = FlowSpec::new(0, Size::Unknown, WIRE.cost);
        let start = Time::from_nanos(1_000_000_000);
        let first = egress.open(start, spec).unwrap();
        let second = egress.open(start, spec).unwrap();
        egress.offer(start, second, u64::MAX);
        let mut now = start;
        for lateness in &lateness_nanos {
            egress.offer(now, first, u64::MAX);
            loop {
                match egress.grant(now) {
                    Grant::Send { flow, .. } => {
                        prop_assert_eq!(flow, first);
                        break;
                    }
                    Grant::Wait { until } => now = until + Duration::from_nanos(*lateness),
                    Grant::Idle => unreachable!("two flows have much to send"),
                }
            }
            let then = egress.grant(now);
            prop_assert!(matches!(then, Grant::Wait { .. }), "{:?} after {} ns", then, lateness);
        }
    }

    /// Work-conserving: any two disciplines are busy at the same times.
    #[test]
    fn the_link_is_busy_while_anything_waits(
        discipline in any_discipline(),
        arrivals in arrivals(15, 20, Duration::from_millis(30)),
    ) {
        let times = |discipline| -> Vec<Time> {
            let driver = run(discipline, UNIT, &arrivals);
            driver.services.iter().map(|service| service.at).collect()
        };
        prop_assert_eq!(times(&discipline), times(&Discipline::Fcfs));
    }

    /// With unit quanta SRPT is optimal (Schrage 1968).
    #[test]
    fn srpt_has_the_lowest_mean(
        arrivals in arrivals(20, 30, Duration::from_millis(20)),
    ) {
        let of = |discipline: &Discipline| run(discipline, UNIT, &arrivals).response_time_sum_nanos();
        let srpt = of(&Discipline::Srpt);
        for discipline in disciplines() {
            prop_assert!(srpt <= of(&discipline), "{:?}", discipline);
        }
    }

    /// With whole segments it may lose at most a quantum a flow.
    #[test]
    fn srpt_has_the_lowest_mean_within_a_quantum_of_segments(
        arrivals in arrivals(30, 40_000, Duration::from_millis(20)),
    ) {
        let of = |discipline: &Discipline| run(discipline, WIRE, &arrivals).response_time_sum_nanos();
        let quantum = Pacer::exact(WIRE.rate_bits_per_s).time_for(1514).as_nanos();
        let srpt = of(&Discipline::Srpt);
        for other in [Discipline::Fcfs, Discipline::Fair, Discipline::Bands(Cutoffs::paper())] {
            prop_assert!(srpt <= of(&other) + quantum * arrivals.len() as u128, "{:?}", other);
        }
    }

    /// No flow waits for one that arrived more than remaining / ageing later.
    #[test]
    fn ageing_bounds_the_wait(
        ageing_bytes_per_s in 1u64..5_000_000,
        arrivals in arrivals(15, 60_000, Duration::from_millis(15)),
    ) {
        let driver = run(&Discipline::SrptAged { ageing_bytes_per_s }, WIRE, &arrivals);
        let mut left: Vec<u64> = arrivals.iter().map(|arrival| arrival.bytes).collect();
        for service in &driver.services {
            let served_at = driver.clients[service.flow].arrived_at;
            for (waiting, client) in driver.clients.iter().enumerate() {
                if client.arrived_at > service.at || left[waiting] == 0 {
                    continue;
                }
                let later = served_at.since(client.arrived_at).as_nanos();
                let aged = later * u128::from(ageing_bytes_per_s);
                let bound = u128::from(left[waiting]) * 1_000_000_000;
                prop_assert!(aged <= bound, "{} waits for {}", waiting, service.flow);
            }
            left[service.flow] -= service.bytes;
        }
    }

    /// Between two flows that are both there, over any interval, the shares
    /// of the wire differ by at most a quantum of each (Goyal, Vin and Cheng
    /// 1996, for start-time fair queueing).
    #[test]
    fn fair_shares_differ_by_a_quantum_of_each(
        flows in prop::collection::vec((1u32..3000, 0u32..100, 1u64..60_000, 0u64..20_000_000), 2..8),
    ) {
        let mut driver = Driver::new(Discipline::Fair, WIRE);
        let mut quantum = Vec::new();
        for (mss, overhead, bytes, gap) in flows {
            driver.run_until(driver.now + Duration::from_nanos(gap));
            let cost = plain(mss, overhead);
            driver.arrive_over(cost, 0, Size::Unknown, bytes);
            let wire_max = 375.max(cost.bytes(u64::from(mss)));
            quantum.push(wire_max as i64);
        }
        driver.serve_the_rest();
        for flow in 0..quantum.len() {
            for other in 0..flow {
                let lead = lead(&driver, flow, other);
                let spread = lead.iter().max().unwrap() - lead.iter().min().unwrap();
                prop_assert!(spread <= quantum[flow] + quantum[other], "{lead:?}");
            }
        }
    }

    /// However a flow comes and goes, it gets no more over any interval than
    /// one that stays, and those that stay do not feel it between them.
    #[test]
    fn a_flow_that_comes_and_goes_gains_nothing(
        away in prop::collection::vec((0u8..4, 1usize..9), 1..60),
        unsent in prop::collection::vec(0u64..=1448, 1..9),
    ) {
        let mut driver = Driver::new(Discipline::Fair, WIRE);
        let many = 1 << 40;
        driver.arrive(many);
        driver.arrive(many);
        let guest = driver.arrive(many);
        for (what, grants) in away {
            match what {
                0 => driver.pause(guest),
                1 => driver.resume(guest),
                2 => {
                    driver.pause(guest);
                    driver.resume(guest);
                }
                _ => {
                    driver.serve_in_part(unsent[grants % unsent.len()]);
                }
            }
            driver.serve(grants);
        }
        let quantum = 2 * 1514;
        let between = lead(&driver, 0, 1);
        let spread = between.iter().max().unwrap() - between.iter().min().unwrap();
        prop_assert!(spread <= quantum);
        let gain = lead(&driver, guest, 0);
        let mut least = 0;
        for gain in gain {
            least = least.min(gain);
            prop_assert!(gain - least <= quantum, "ahead by {}", gain - least);
        }
    }
}
