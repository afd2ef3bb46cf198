use super::points::Who;
use super::*;

fn args() -> Sdis02Args {
    Sdis02Args {
        seed: 7,
        requests: 20_000,
        cache_hits: 0.8,
        media: Media::Traffic,
        channel: 80_000_000,
        averaging: Duration::from_millis(100),
        discard_all: 0.75,
        output: None,
    }
}

fn one(setup: Setup, share: f64) -> Curve {
    let rates = [share * STATIC_CAPACITY];
    let curves = points::run(vec![("one".to_owned(), setup)], &rates).unwrap();
    curves.into_iter().next().unwrap()
}

#[test]
fn priority_protects_at_saturation() {
    let base = base(&args());
    let half = one(base.clone(), 0.45).points[0];
    assert!(half.high.mean_s < 0.3, "{half:?}");
    assert!(half.low.mean_s > 5.0 * half.high.mean_s, "{half:?}");
    let plain = Setup {
        prioritized: false,
        ..base
    };
    let plain = one(plain, 0.45).points[0];
    assert!(half.high.mean_s < plain.all.mean_s);
    // Of two classes that the servers do not tell apart, none is better off.
    let ratio = plain.high.mean_s / plain.low.mean_s;
    assert!((0.9..1.1).contains(&ratio), "{plain:?}");
}

#[test]
fn the_shortest_queue_is_ahead_of_turns() {
    let schemes = assignments(&base(&args()));
    let curves = points::run(schemes, &[0.4 * STATIC_CAPACITY]).unwrap();
    let ms = |scheme: usize, who| 1e3 * curves[scheme].points[0].of(who).mean_s;
    for who in [Who::High, Who::Low] {
        assert!(ms(1, who) < ms(0, who), "sqf, {who:?}");
        assert!(ms(2, who) < ms(0, who), "psqf, {who:?}");
    }
    // Two of four reserved.
    assert!(ms(4, Who::Low) > 2.0 * ms(2, Who::Low), "rpsq");
}

#[test]
fn early_discard_and_time_outs_keep_places_for_high_priority() {
    let base = Setup {
        queue: SHORT_QUEUE,
        dispatch: Dispatch::LeastRequest,
        ..base(&args())
    };
    // Far beyond capacity, high priority alone well below it.
    let plain = one(base.clone(), 0.7).points[0];
    assert!(plain.high.rejected > 0.05, "{plain:?}");
    let guarded = Setup {
        thresholds: Some((0.5, 0.75)),
        timeout: Duration::from_secs(2),
        ..base.clone()
    };
    let guarded = one(guarded, 0.7).points[0];
    assert!(
        guarded.high.rejected < 0.2 * plain.high.rejected,
        "{guarded:?}"
    );
    let displacing = Setup {
        displace: true,
        ..base
    };
    let displacing = one(displacing, 0.7).points[0];
    assert_eq!(displacing.high.rejected, 0.0);
    assert!(displacing.low.rejected > 0.3);
}

#[test]
fn everybody_meets_a_fate_in_a_flood() {
    // The dispatcher itself is overrun, and what is let in times out.
    let setup = Setup {
        timeout: Duration::from_millis(400),
        queue: 10,
        ..base(&args())
    };
    let flood = one(setup, 2.0).points[0];
    assert!(flood.all.rejected > 0.5, "{flood:?}");
    assert!(flood.all.aborted > 0.0, "{flood:?}");
    let served = 1.0 - flood.all.rejected - flood.all.aborted;
    assert!((flood.all.in_time - served).abs() < 1e-9, "{flood:?}");
}

#[test]
fn the_seed_decides_everything() {
    let setup = base(&args());
    let first = one(setup.clone(), 0.4).points;
    assert_eq!(first, one(setup.clone(), 0.4).points);
    let other = Setup { seed: 8, ..setup };
    assert_ne!(first, one(other, 0.4).points);
}

#[test]
fn the_csv_has_a_line_for_each_priority_of_each_point() {
    let outcome = |mean_s| points::ClassOutcome {
        mean_s,
        p95_s: 0.830_936_028,
        rejected: 0.0,
        aborted: 0.25,
        in_time: 0.997_732_426_303_854_8,
    };
    let curve = |name: &str| Curve {
        name: name.to_owned(),
        setup: base(&args()),
        points: vec![points::RatePoint {
            rate: 200.0,
            high: outcome(1.5),
            low: outcome(f64::NAN),
            all: outcome(2.0),
        }],
    };
    let curves = Curves {
        plain: curve("no priorities"),
        ratios: Vec::new(),
        assignments: vec![curve("rpsq, 1"), curve("0.5")],
        discards: Vec::new(),
        timeouts: Vec::new(),
        displacing: curve("sqf, displacing"),
    };
    let rest = "0.830936028,0,0.25,0.9977324263038548";
    let mut expected =
        "experiment,system,rate,priority,mean_s,p95_s,rejected,aborted,within_2s\n".to_owned();
    for who in [
        "no-priorities,no priorities",
        "assignment,rpsq-1",
        "assignment,0.5",
        "displacement,sqf-displacing",
    ] {
        for (priority, mean_s) in [("high", "1.5"), ("low", "NaN"), ("all", "2")] {
            expected += &format!("{who},200,{priority},{mean_s},{rest}\n");
        }
    }
    let mut out = Vec::new();
    figures::write_csv(&curves, &mut out).unwrap();
    assert_eq!(String::from_utf8(out).unwrap(), expected);
}
