use super::*;
use crate::simulate::statistics::Estimate;

fn sizes(text: &str) -> SizeDistribution {
    text.parse().unwrap()
}

fn plan(
    discipline: Discipline,
    sizes: SizeDistribution,
    load: f64,
    requests: usize,
) -> LinkRunPlan {
    let mean_bytes = sizes.grid().mean_bytes();
    LinkRunPlan {
        discipline,
        seed: 7,
        requests,
        sizes,
        gap_s: mean_bytes * 8.0 / (1e6 * load),
        uplink_bits_per_s: 1_000_000,
        quantum_bytes: (mean_bytes / 32.0) as u32,
        whole_grants: false,
        floor_percent: 0,
        clients: 0,
    }
}

fn measured(
    policy: NamedDiscipline,
    sizes: SizeDistribution,
    load: f64,
    requests: usize,
) -> SimulatedMeasures {
    let plan = LinkRunPlan {
        whole_grants: !policy.interrupts(),
        ..plan(policy.discipline(1250), sizes, load, requests)
    };
    let served = simulate(&plan).unwrap();
    SimulatedMeasures::of(&served, &sizes)
}

/// Checks that a run agrees with theory within one and a half times the interval (99.5%) and half a
/// per cent, for turns of a quantum are not quite processor sharing.
#[track_caller]
fn agrees(policy: NamedDiscipline, text: &str, load: f64, requests: usize) {
    let sizes = sizes(text);
    let expected = policy.theory(&sizes.grid(), load).unwrap();
    let found = measured(policy, sizes, load, requests);
    let close = |found: Estimate, expected: f64| {
        let off = (found.mean - expected).abs();
        assert!(
            off < 1.5 * found.half_width + 0.005 * expected,
            "{policy:?} {text} {load}: {found:?} for {expected}"
        );
        // The interval itself must mean something.
        assert!(found.half_width < 0.25 * expected, "{found:?}");
    };
    close(found.mean_ms, expected.response_bytes * 8e-3);
    // Under turns of a quantum, or of equals, what is no larger than one need not share.
    let quantum = sizes.grid().mean_bytes() / 32.0;
    let shares = matches!(policy, NamedDiscipline::Fair | NamedDiscipline::Las);
    if !shares || sizes.quantile_bytes(0.0) as f64 > 4.0 * quantum {
        close(found.slowdown, expected.slowdown);
    }
}

#[test]
fn the_core_agrees_with_theory() {
    for load in [0.5, 0.8] {
        for sizes in ["pareto:2.5,1000,100000", "exponential", "workload"] {
            agrees(NamedDiscipline::Fair, sizes, load, 60_000);
            agrees(NamedDiscipline::Srpt, sizes, load, 60_000);
            agrees(NamedDiscipline::Las, sizes, load, 60_000);
        }
        agrees(NamedDiscipline::Fcfs, "exponential", load, 60_000);
        agrees(
            NamedDiscipline::Fcfs,
            "pareto:2.5,1000,100000",
            load,
            60_000,
        );
    }
}

#[test]
fn a_wrong_formula_would_be_noticed() {
    let sizes = sizes("exponential");
    let found = measured(NamedDiscipline::Srpt, sizes, 0.8, 60_000);
    let other = theory::processor_sharing(&sizes.grid(), 0.8).response_bytes * 8e-3;
    assert!(found.mean_ms.mean + 10.0 * found.mean_ms.half_width < other);
}

#[test]
fn disciplines_come_in_the_order_of_the_paper() {
    // TOCS03's finding: the more is known of what is left, the better for
    // the mean; and what the largest pay for it is little.
    let of = |policy| measured(policy, sizes("workload"), 0.8, 40_000);
    let order = [
        NamedDiscipline::Srpt,
        NamedDiscipline::Bands,
        NamedDiscipline::BandsTwo,
        NamedDiscipline::Fair,
        NamedDiscipline::Fcfs,
    ];
    let found: Vec<SimulatedMeasures> = order.into_iter().map(of).collect();
    for pair in found.windows(2) {
        assert!(pair[0].mean_ms.mean < pair[1].mean_ms.mean, "{found:?}");
        assert!(pair[0].slowdown.mean < pair[1].slowdown.mean, "{found:?}");
    }
}

#[test]
fn ageing_lies_between_srpt_and_fcfs() {
    let of = |discipline| {
        let plan = plan(discipline, sizes("workload"), 0.8, 20_000);
        let served = simulate(&plan).unwrap();
        served.iter().map(|one| one.response_s).sum::<f64>()
    };
    let aged = |ageing_bytes_per_s| of(Discipline::SrptAged { ageing_bytes_per_s });
    let srpt = of(Discipline::Srpt);
    assert_eq!(aged(0), srpt);
    assert!(srpt < aged(2_000));
    assert!(aged(2_000) < aged(200_000));
    assert!(aged(200_000) < of(Discipline::Fcfs));
}

#[test]
fn the_seed_decides_everything() {
    let one = plan(Discipline::Srpt, sizes("workload"), 0.9, 2_000);
    let other = LinkRunPlan {
        seed: 8,
        ..one.clone()
    };
    assert_eq!(simulate(&one).unwrap(), simulate(&one).unwrap());
    assert_ne!(simulate(&one).unwrap(), simulate(&other).unwrap());
}

#[test]
fn fcfs_is_exact_on_a_single_request() {
    let mut plan = plan(Discipline::Fcfs, sizes("exponential"), 0.5, 1);
    plan.quantum_bytes = 1;
    let served = simulate(&plan).unwrap();
    assert_eq!(served.len(), 1);
    assert!((served[0].response_s - served[0].alone_s).abs() < 1e-6);
}

#[test]
fn whole_grants_cost_small_responses_the_wait_for_a_grant() {
    let interrupted = plan(Discipline::Srpt, sizes("workload"), 0.8, 20_000);
    let whole = LinkRunPlan {
        whole_grants: true,
        ..interrupted.clone()
    };
    let sum = |plan: &LinkRunPlan| {
        let served = simulate(plan).unwrap();
        served.iter().map(|one| one.response_s).sum::<f64>()
    };
    assert!(sum(&interrupted) < sum(&whole));
    let coarse = LinkRunPlan {
        quantum_bytes: 20_000,
        ..whole.clone()
    };
    assert!(sum(&whole) < sum(&coarse));
}

#[test]
fn clients_have_the_mean_of_turns_if_each_asks_for_one_thing_at_a_time() {
    let sizes = sizes("workload");
    let whole = |discipline, clients| {
        let plan = LinkRunPlan {
            whole_grants: true,
            clients,
            ..plan(discipline, sizes, 0.8, 40_000)
        };
        SimulatedMeasures::of(&simulate(&plan).unwrap(), &sizes)
            .mean_ms
            .mean
    };
    let (srpt, fair) = (whole(Discipline::Srpt, 0), whole(Discipline::Fair, 0));
    assert_eq!(whole(Discipline::Srpt, 1), srpt);
    let alone = whole(Discipline::Srpt, u32::MAX);
    assert!((0.95..1.05).contains(&(alone / fair)), "{alone} {fair}");
    let some = whole(Discipline::Srpt, 3);
    assert!(
        1.1 * srpt < some && 1.1 * some < alone,
        "{srpt} {some} {alone}"
    );
}
