use sprat_scheduler::ClassSpec;
use sprat_scheduler::dispatch::Dispatch;
use sprat_scheduler::station::{Order, Scope};

use super::*;
use crate::simulate::measure::SimulatedMeasures;
use crate::simulate::theory;

fn plan(endpoints: usize, max_requests: usize) -> FarmRunPlan {
    FarmRunPlan {
        station: StationConfig {
            max_requests,
            order: Order::Fcfs,
            scope: Scope::Endpoint,
            ..StationConfig::new(
                Dispatch::RoundRobin,
                (0..endpoints).map(endpoint).collect(),
                vec![ClassSpec::default()],
                1_000_000,
            )
        },
        service: EndpointService {
            request_bytes: 0.0,
            bytes_per_s: 5_000.0,
            shares: false,
        },
        seed: 7,
        requests: 40_000,
        sizes: "exponential:5000".parse().unwrap(),
        gap_s: 1.0 / (0.8 * endpoints as f64),
        class_shares: vec![1.0],
    }
}

fn mean_s(plan: &FarmRunPlan) -> (f64, f64) {
    let served = simulate(plan).unwrap();
    let mean = SimulatedMeasures::of(&served, &plan.sizes).mean_ms;
    (mean.mean / 1e3, mean.half_width / 1e3)
}

#[track_caller]
fn agrees(plan: &FarmRunPlan, expected: f64) {
    let (mean, half_width) = mean_s(plan);
    let off = (mean - expected).abs();
    assert!(
        off < 1.5 * half_width,
        "{mean} ±{half_width} for {expected}"
    );
    assert!(half_width < 0.2 * expected);
}

#[test]
fn random_dispatch_makes_queues_of_their_own() {
    // Each is M/M/1 at 0.8: five service times.
    let mut plan = plan(3, 1);
    plan.station.dispatch = Dispatch::Random;
    agrees(&plan, 5.0);
}

#[test]
fn turns_are_better_than_chance_and_one_queue_is_better_than_turns() {
    let mut plan = plan(3, 1);
    let turns = mean_s(&plan).0;
    assert!(turns < 5.0, "{turns}");
    plan.station.scope = Scope::Cluster;
    agrees(&plan, 1.0 + theory::erlang_wait(3, 0.8));
    assert!(mean_s(&plan).0 < turns);
}

#[test]
fn sharing_does_not_mind_the_distribution() {
    let mut plan = plan(2, 1_000_000);
    plan.station.dispatch = Dispatch::Random;
    plan.service.shares = true;
    agrees(&plan, 5.0);
}

#[test]
fn what_breaks_a_promise_is_told() {
    // The station may turn away; a run that counts on everybody says so.
    let mut plan = plan(1, 1);
    plan.station.max_waiting = 1;
    let error = simulate(&plan).unwrap_err().to_string();
    assert!(error.contains("turned away: queue_full"), "{error}");
}

#[test]
fn classes_have_their_shares() {
    let shares = [0.2, 0.5, 0.3];
    let classes = [0.0, 0.19, 0.21, 0.69, 0.71, 0.999_999_9];
    assert_eq!(
        classes.map(|uniform| class_of(&shares, uniform)),
        [0, 0, 1, 1, 2, 2]
    );
    // Rounding must not lead out of the table.
    assert_eq!(class_of(&[0.1, 0.1], 0.9), 1);
}
