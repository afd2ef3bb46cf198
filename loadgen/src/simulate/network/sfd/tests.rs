use sprat_scheduler::Time;

use super::*;

fn args(seconds: u32) -> SfdArgs {
    SfdArgs {
        load: SessionLoad::Medium,
        gap: None,
        first_window: 2,
        tcp: SfdTcp::Today,
        seconds,
        runs: 1,
        seed: 7,
        output: None,
    }
}

#[test]
fn the_sessions_are_the_papers() {
    let length = Duration::from_secs(20_000);
    let asked = requests(7, length, 15.0);
    assert!(asked.is_sorted_by_key(|own| own.at));
    let of_sessions = asked
        .iter()
        .filter(|own| !traffic::PROBES_BYTES.contains(&own.bytes));
    let sizes: Vec<u64> = of_sessions.map(|own| own.bytes).collect();
    // 1,000 s over a gap of 15 s, a page each 10 s, three objects: 20 a second.
    let rate = sizes.len() as f64 / length.as_secs_f64();
    assert!((17.0..25.0).contains(&rate), "{rate}");
    let is_short = |bytes: &&u64| **bytes <= traffic::THRESHOLD_BYTES;
    let short = sizes.iter().filter(is_short).count() as f64 / sizes.len() as f64;
    assert!((short - 0.907).abs() < 0.003, "{short}");
    let sum = |sizes: &mut dyn Iterator<Item = &u64>| sizes.sum::<u64>() as f64;
    let bytes = sum(&mut sizes.iter().filter(is_short)) / sum(&mut sizes.iter());
    // The cut tail leaves the short ones a little more than 25%.
    assert!((0.19..0.36).contains(&bytes), "{bytes}");
}

#[test]
fn long_flows_are_left_out_or_in_pieces() {
    let request = |bytes| PlannedRequest {
        at: Time::ZERO,
        client: 1,
        bytes,
        after: None,
    };
    let asked = [request(100), request(40_000), request(15_360)];
    let sizes =
        |way: SfdWay| -> Vec<u64> { way.asked(&asked).iter().map(|own| own.bytes).collect() };
    assert_eq!(sizes(SfdWay::Droptail), [100, 40_000, 15_360]);
    assert_eq!(sizes(SfdWay::NoLong), [100, 15_360]);
    assert_eq!(sizes(SfdWay::Pieces), [100, 15_360, 15_360, 9_280, 15_360]);
    // One piece after the other.
    let after: Vec<Option<u32>> = (SfdWay::Pieces.asked(&asked).iter())
        .map(|own| own.after)
        .collect();
    assert_eq!(after, [None, None, Some(1), Some(2), None]);
}

#[test]
fn the_papers_queue_counts_both_classes_and_the_other_reading_each_alone() {
    let average = |way: SfdWay| match way.queue() {
        QueueSettings::Virtual { average, .. } => Some(average),
        _ => None,
    };
    for variant in [Variant::Sfd, Variant::PSfd, Variant::SSfd] {
        assert_eq!(average(SfdWay::Virtual(variant)), Some(Average::Coupled));
        let other = SfdWay::Decoupled(variant);
        assert_eq!(average(other), Some(Average::Decoupled));
        assert_eq!(other.marking(), SfdWay::Virtual(variant).marking());
        assert_eq!(
            other.name(),
            format!("{}, decoupled", SfdWay::Virtual(variant).name())
        );
    }
    assert_eq!(average(SfdWay::Threshold(25)), Some(Average::Coupled));
    assert_eq!(average(SfdWay::Priority), None);
}

#[test]
fn every_way_serves_all_and_marks_where_it_is_to() {
    for way in SfdWay::ALL {
        let own = measure(&args(60), way, 20.0).unwrap();
        assert!((0.1..0.9).contains(&own.utilisation), "{own:?}");
        assert!(own.latencies.short().mean > 0.04, "{own:?}");
    }
}

#[test]
fn a_long_flow_beyond_the_threshold_is_marked_out_and_a_short_one_is_not() {
    // One at a time, with room for all: nothing is dropped.
    for (bytes, is_out) in [(10_000, false), (100_000, true)] {
        let request = PlannedRequest {
            at: Time::ZERO,
            client: 0,
            bytes,
            after: None,
        };
        let plan = plan(7, SfdWay::Virtual(Variant::Sfd), &[request], &args(60));
        let (outcome, took) = world::run_each(&plan, System::Fair).unwrap();
        assert_eq!(outcome.dropped, 0);
        // 80 ms of round trips, and the first packet alone half of that.
        assert!(took.transmission[0] > Duration::from_millis(40), "{took:?}");
        assert_eq!(outcome.marked_out > 0, is_out, "{outcome:?}");
    }
}

#[test]
fn findings_name_the_papers_numbers() {
    let measured: Vec<_> = SfdWay::ALL
        .into_iter()
        .map(|way| measure(&args(120), way, 20.0).unwrap())
        .collect();
    let rows = findings(&measured, SessionLoad::Medium);
    assert_eq!(rows.len(), 15);
    assert!(rows.iter().all(|row| row.len() == 5));
    assert_eq!(table_of(&measured).len(), 11);
}

#[test]
fn the_csv_quotes_every_cell() {
    let rows = [["queue", "40 KB", "used"], ["DT", "", "0.397"]];
    let rows = rows.map(|row| row.map(str::to_owned).to_vec());
    let mut out = Vec::new();
    write_csv(&rows, &mut out).unwrap();
    assert_eq!(
        String::from_utf8(out).unwrap(),
        "\"queue\",\"40 KB\",\"used\"\n\"DT\",\"\",\"0.397\"\n"
    );
}
