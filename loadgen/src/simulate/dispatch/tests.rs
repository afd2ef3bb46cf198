use clap::Parser;

use super::*;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: DispatchArgs,
}

fn slowdowns(line: &str) -> impl Fn(&str) -> f64 {
    let words = std::iter::once("dispatch").chain(line.split_whitespace());
    let args = Line::parse_from(words).args;
    let grid = args.common.sizes.grid();
    let of = |system: DispatchSystem| {
        let plan = plan(&args, &grid, args.load[0], system.dispatch, system.scope);
        let served = farm::simulate(&plan).unwrap();
        let slowdown = SimulatedMeasures::of(&served, &args.common.sizes).slowdown;
        (system.name, slowdown.mean)
    };
    let found: Vec<(&str, f64)> = systems(&args, &grid).into_iter().map(of).collect();
    move |name| found.iter().find(|(found, _)| *found == name).unwrap().1
}

#[test]
fn one_at_a_time_sizes_must_be_kept_apart() {
    let of = slowdowns("--requests 40000 --load 0.7");
    let turns = of("round_robin");
    // What knows nothing is no better than turns.
    for name in ["random", "ring_hash", "maglev"] {
        assert!(of(name) > 0.8 * turns, "{name}: {} {turns}", of(name));
    }
    // What looks at the load is better; what keeps sizes apart, best.
    for name in ["p2c", "least_request", "least_work"] {
        assert!(of(name) < turns, "{name}: {} {turns}", of(name));
    }
    for name in ["sita", "sita, learnt"] {
        assert!(of(name) < 0.5 * of("least_request"), "{name}: {}", of(name));
    }
    assert!(of("least_work") < of("p2c"));
    assert!(of("one queue") < of("round_robin"));
}

#[test]
fn where_capacity_is_shared_the_load_is_what_counts() {
    let of = slowdowns("--requests 20000 --load 0.7 --sharing");
    assert!(of("least_request") < of("p2c"));
    assert!(of("p2c") < of("random"));
    // Under processor sharing sizes do not disturb each other.
    assert!(of("sita") > of("least_request"));
}
