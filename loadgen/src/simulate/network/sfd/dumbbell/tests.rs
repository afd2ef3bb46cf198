use sprat_scheduler::marking::Variant;

use super::*;

fn setup(way: SfdWay) -> DumbbellSetup {
    DumbbellSetup {
        seed: 7,
        way,
        gap_s: 15.0,
        sessions: 1250,
        warm_up: Duration::from_secs(100),
        measured: Duration::from_secs(400),
        clients: vec![(ACCESS_BITS_PER_S, ACCESS); CLIENTS as usize],
        processor: None,
        transfer: None,
    }
}

/// Returns the seconds that a response of `packets` packets takes on an idle network.
fn alone(packets: u32) -> f64 {
    let setup = DumbbellSetup {
        sessions: 1,
        warm_up: Duration::ZERO,
        measured: Duration::from_secs(60),
        transfer: Some((packets, 1_000.0)),
        ..setup(SfdWay::Droptail)
    };
    let run = run(&setup).unwrap();
    let transfer = run.flows.iter().find(|own| own.is_transfer).unwrap();
    transfer.transmission_s
}

#[test]
fn a_flow_takes_its_round_trips() {
    // The handshake's 80 ms, and 40 to the client; each doubling from two is 80 ms more.
    for (packets, least_s) in [(1, 0.120), (2, 0.120), (6, 0.200), (14, 0.280)] {
        let took_s = alone(packets);
        assert!(
            (least_s..least_s + 0.060).contains(&took_s),
            "{packets} packets took {took_s} s"
        );
    }
}

#[test]
fn users_wait_so_that_sessions_never_flood_the_link() {
    let crowded = DumbbellSetup {
        gap_s: 3.0,
        ..setup(SfdWay::Droptail)
    };
    let run = run(&crowded).unwrap();
    assert!(run.utilisation > 0.8, "{}", run.utilisation);
    // A third is lost where pages come whether the last is there or not.
    assert!(run.loss < 0.2, "{}", run.loss);
}

#[test]
fn the_same_setup_comes_to_the_same() {
    let both = [0, 1].map(|_| run(&setup(SfdWay::Virtual(Variant::Sfd))).unwrap());
    assert_eq!(both[0].flows, both[1].flows);
    assert!(both[0].flows.len() > 1_000, "{}", both[0].flows.len());
}

#[test]
fn no_flow_is_long_without_long_ones_or_in_pieces() {
    let longest = |way: SfdWay| {
        let run = run(&setup(way)).unwrap();
        run.flows.iter().map(|own| own.packets).max().unwrap()
    };
    assert!(longest(SfdWay::Droptail) > 100);
    assert_eq!(longest(SfdWay::NoLong), SHORT_PACKETS);
    assert_eq!(longest(SfdWay::Pieces), SHORT_PACKETS);
}

#[test]
fn the_shortest_task_first_is_faster_than_the_first() {
    let mean_s = |shortest| {
        let setup = DumbbellSetup {
            processor: Some(Processor {
                packets_per_s: 50.0,
                shortest,
            }),
            ..setup(SfdWay::Droptail)
        };
        let run = run(&setup).unwrap();
        let short = run.flows.iter().filter(|own| own.packets <= SHORT_PACKETS);
        let (sum, count) = short.fold((0.0, 0.0), |(sum, count), own| {
            assert!(own.response_s > own.transmission_s);
            (sum + own.response_s, count + 1.0)
        });
        sum / count
    };
    assert!(mean_s(true) < mean_s(false));
}

#[test]
fn marks_count_in_the_routers_before_the_clients_too() {
    // Behind slow links of their own the bottleneck has no queue.
    let mean_s = |way| {
        let setup = DumbbellSetup {
            clients: vec![(300_000, ACCESS); CLIENTS as usize],
            ..setup(way)
        };
        let run = run(&setup).unwrap();
        let short = run.flows.iter().filter(|own| own.packets <= SHORT_PACKETS);
        let (sum, count) = short.fold((0.0, 0.0), |(sum, count), own| {
            (sum + own.transmission_s, count + 1.0)
        });
        sum / count
    };
    let (droptail, sfd) = (
        mean_s(SfdWay::Droptail),
        mean_s(SfdWay::Virtual(Variant::Sfd)),
    );
    assert!(sfd < 0.9 * droptail, "{sfd} s, {droptail} s");
}
