use clap::Parser;

use super::*;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: WaitingArgs,
}

fn args(line: &str) -> WaitingArgs {
    let words = std::iter::once("waiting").chain(line.split_whitespace());
    Line::parse_from(words).args
}

fn served(args: &WaitingArgs, order: Order) -> Vec<ServedRequest> {
    let grid = args.common.sizes.grid();
    farm::simulate(&plan(args, &grid, args.load[0], order)).unwrap()
}

#[track_caller]
fn agrees(line: &str, order: &Order) {
    let args = args(line);
    let grid = args.common.sizes.grid();
    let expected = expected(&args, &grid, args.load[0], order).unwrap();
    let plan = plan(&args, &grid, args.load[0], order.clone());
    let bytes_per_s = plan.service.bytes_per_s;
    let found = SimulatedMeasures::of(&served(&args, order.clone()), &args.common.sizes);
    let expected_ms = expected.response_bytes / bytes_per_s * 1e3;
    let off = (found.mean_ms.mean - expected_ms).abs();
    assert!(
        off < 1.5 * found.mean_ms.half_width,
        "{line} {order:?}: {found:?} for {expected_ms}"
    );
    assert!(found.mean_ms.half_width < 0.25 * expected_ms, "{found:?}");
}

#[test]
fn the_station_agrees_with_theory() {
    let one = "--concurrency 1 --requests 60000 --load 0.8";
    agrees(&format!("{one} --sizes exponential"), &Order::Fcfs);
    agrees(&format!("{one} --sizes exponential"), &Order::Size);
    agrees(&format!("{one} --sizes pareto:2.5,1KB,100KB"), &Order::Size);
    let eight = "--concurrency 8 --requests 60000 --load 0.8 --fixed 0";
    agrees(&format!("{eight} --sizes exponential"), &Order::Fcfs);
}

#[test]
fn there_is_no_formula_for_the_general_case() {
    let args = args("--load 0.9");
    let grid = args.common.sizes.grid();
    for (order, _) in ORDERS {
        assert_eq!(expected(&args, &grid, 0.9, &order), None);
    }
}

#[test]
fn each_order_gives_what_it_is_for() {
    let args = args("--requests 30000 --load 0.9");
    let of = |order| served(&args, order);
    let (fcfs, size) = (of(Order::Fcfs), of(Order::Size));
    let (edf, value) = (of(Order::Edf), of(Order::Value));
    let mean = |served: &[ServedRequest]| {
        SimulatedMeasures::of(served, &args.common.sizes)
            .mean_ms
            .mean
    };
    assert!(mean(&size) < 0.5 * mean(&fcfs));
    assert!(late_percent(&edf) < 0.8 * late_percent(&fcfs));
    let [tight, ordinary, loose] = by_class(&value)[..] else {
        panic!("three classes")
    };
    assert!(tight.1 < ordinary.1 && ordinary.1 < loose.1);
    // Neither looks at sizes: what one class gains another pays.
    let off = mean(&value) / mean(&fcfs) - 1.0;
    assert!(off.abs() < 0.15, "{off}");
}
