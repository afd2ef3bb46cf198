use super::*;

fn specs(weights: &[u32]) -> Vec<EndpointSpec> {
    let spec = |(index, &weight): (usize, &u32)| EndpointSpec {
        weight,
        reserved: false,
        size_range: None,
        identity: mix(index as u64),
        priority: 0,
    };
    weights.iter().enumerate().map(spec).collect()
}

fn views(weights: &[u32]) -> Vec<View> {
    let view = |&weight: &u32| View {
        usable: true,
        weight: u64::from(weight),
        ..View::default()
    };
    weights.iter().map(view).collect()
}

const ASKED: Asked = Asked {
    bytes: 1000,
    highest: false,
    hash: 0,
    random: 0,
    rotation: 0,
};

/// Returns the endpoints that are picked one after the other, as letters.
fn order(dispatch: &Dispatch, weights: &[u32], picks: usize) -> String {
    let mut balancer = Balancer::new(dispatch, &specs(weights));
    let views = views(weights);
    let picks = (0..picks).map(|_| balancer.pick(&views, &ASKED).unwrap());
    picks.map(|index| char::from(b'A' + index as u8)).collect()
}

#[test]
fn some_have_a_request_wait_for_its_endpoint_and_some_count_work() {
    let sita = || Dispatch::Sita(Intervals::Learnt);
    for (dispatch, has_affinity, counts_work) in [
        (Dispatch::RoundRobin, false, false),
        (Dispatch::Random, false, false),
        (Dispatch::P2c, false, false),
        (Dispatch::LeastRequest, false, false),
        (Dispatch::Psqf, false, false),
        (Dispatch::Rpsq { reserved: 1 }, true, false),
        (Dispatch::LeastWork, false, true),
        (sita(), true, true),
        (Dispatch::RingHash, true, false),
        (Dispatch::Maglev, true, false),
    ] {
        assert_eq!(dispatch.has_affinity(), has_affinity, "{dispatch:?}");
        assert_eq!(dispatch.counts_work(), counts_work, "{dispatch:?}");
    }
}

/// Checks the first numbers of SplitMix64 from the seed 0, as its authors publish them.
#[test]
fn numbers_are_mixed_as_splitmix_does() {
    let golden = 0x9e37_79b9_7f4a_7c15_u64;
    let states = [0, golden, golden.wrapping_mul(2)];
    assert_eq!(
        states.map(mix),
        [
            0xe220_a839_7b1d_cdaf,
            0x6e78_9e6a_a1b9_65f4,
            0x06c4_5d18_8009_454f
        ]
    );
}

#[test]
fn in_turn_by_weight_without_bursts() {
    assert_eq!(order(&Dispatch::RoundRobin, &[1, 1, 1], 7), "ABCABCA");
    assert_eq!(
        order(&Dispatch::RoundRobin, &[5, 1, 1], 14),
        "AABACAAAABACAA"
    );
}

#[test]
fn every_cycle_of_a_rotation_gives_exact_shares() {
    for weights in [[1, 2, 3], [7, 1, 4], [10, 10, 1]] {
        let total: u32 = weights.iter().sum();
        let picks = order(&Dispatch::RoundRobin, &weights, total as usize);
        for (letter, &weight) in ('A'..).zip(&weights) {
            let share = picks.matches(letter).count();
            assert_eq!(share, weight as usize, "{letter} of {weights:?}");
        }
    }
}

#[test]
fn equals_take_turns() {
    for dispatch in [
        Dispatch::LeastRequest,
        Dispatch::LeastWork,
        Dispatch::Psqf,
        Dispatch::RoundRobin,
    ] {
        assert_eq!(order(&dispatch, &[1, 1, 1], 5), "ABCAB", "{dispatch:?}");
    }
}

#[test]
fn where_all_are_idle_the_weights_decide() {
    for dispatch in [Dispatch::LeastRequest, Dispatch::LeastWork, Dispatch::Psqf] {
        assert_eq!(order(&dispatch, &[1, 3], 8), "BABBBABB", "{dispatch:?}");
        let picks = order(&dispatch, &[1, 9], 100);
        assert_eq!(picks.matches('A').count(), 10, "{dispatch:?}");
    }
}

/// Returns one dispatch of each kind.
fn all() -> [Dispatch; 10] {
    [
        Dispatch::RoundRobin,
        Dispatch::Random,
        Dispatch::P2c,
        Dispatch::LeastRequest,
        Dispatch::Psqf,
        Dispatch::Rpsq { reserved: 1 },
        Dispatch::LeastWork,
        Dispatch::Sita(Intervals::Learnt),
        Dispatch::RingHash,
        Dispatch::Maglev,
    ]
}

#[test]
fn unusable_endpoints_are_left_out_by_all() {
    for dispatch in all() {
        let mut balancer = Balancer::new(&dispatch, &specs(&[1, 1, 1]));
        let mut views = views(&[1, 1, 1]);
        for only in [1, 2] {
            views.iter_mut().for_each(|view| view.usable = false);
            views[only].usable = true;
            for hash in 0..50 {
                let asked = Asked {
                    hash,
                    random: mix(hash),
                    bytes: hash * 1000,
                    ..ASKED
                };
                assert_eq!(balancer.pick(&views, &asked), Some(only), "{dispatch:?}");
            }
            views[only].usable = false;
            assert_eq!(balancer.pick(&views, &ASKED), None, "{dispatch:?}");
        }
        let mut none = Balancer::new(&dispatch, &[]);
        assert_eq!(none.pick(&[], &ASKED), None, "{dispatch:?}");
    }
}

#[test]
fn the_least_for_the_weight_wins() {
    let weights = [1, 4, 2];
    let loaded = |loads: [u64; 3], field: fn(&mut View) -> &mut u64| {
        let mut views = views(&weights);
        for (view, load) in views.iter_mut().zip(loads) {
            *field(view) = load;
        }
        views
    };
    type Field = fn(&mut View) -> &mut u64;
    let fields: [(Dispatch, Field); 3] = [
        (Dispatch::LeastRequest, |view| &mut view.requests),
        (Dispatch::Psqf, |view| &mut view.requests_ahead),
        (Dispatch::LeastWork, |view| &mut view.work_bytes),
    ];
    for (dispatch, field) in fields {
        let mut balancer = Balancer::new(&dispatch, &specs(&weights));
        // 2/1, 4/4, 3/2.
        let views = loaded([2, 4, 3], field);
        assert_eq!(balancer.pick(&views, &ASKED), Some(1), "{dispatch:?}");
        // 2/1, 9/4, 3/2.
        let mut views = loaded([2, 9, 3], field);
        assert_eq!(balancer.pick(&views, &ASKED), Some(2), "{dispatch:?}");
        views[2].usable = false;
        assert_eq!(balancer.pick(&views, &ASKED), Some(0), "{dispatch:?}");
    }
}

/// Returns draws spread over the whole range.
fn draws() -> impl Iterator<Item = Asked> {
    (0..4000).map(|n| Asked {
        random: mix(n),
        hash: n,
        ..ASKED
    })
}

fn shares(dispatch: &Dispatch, weights: &[u32]) -> Vec<f64> {
    let mut balancer = Balancer::new(dispatch, &specs(weights));
    let views = views(weights);
    let mut counts = vec![0.0; weights.len()];
    for asked in draws() {
        counts[balancer.pick(&views, &asked).unwrap()] += 1.0 / 4000.0;
    }
    counts
}

#[test]
fn draws_and_hashes_follow_the_weights() {
    for dispatch in [Dispatch::Random, Dispatch::RingHash, Dispatch::Maglev] {
        let shares = shares(&dispatch, &[1, 2, 5]);
        for (share, wanted) in shares.iter().zip([0.125, 0.25, 0.625]) {
            assert!((share - wanted).abs() < 0.06, "{dispatch:?}: {shares:?}");
        }
    }
}

#[test]
fn of_two_choices_the_less_loaded_is_taken() {
    let mut balancer = Balancer::new(&Dispatch::P2c, &specs(&[1, 1]));
    let mut views = views(&[1, 1]);
    views[1].requests = 1;
    assert!(draws().all(|asked| balancer.pick(&views, &asked) == Some(0)));
}

#[test]
fn a_resource_keeps_its_endpoint_and_few_move() {
    for dispatch in [Dispatch::RingHash, Dispatch::Maglev] {
        let mut four = Balancer::new(&dispatch, &specs(&[1, 1, 1, 1]));
        let mut five = Balancer::new(&dispatch, &specs(&[1, 1, 1, 1, 1]));
        let (views_4, views_5) = (views(&[1; 4]), views(&[1; 5]));
        let moved = draws()
            .filter(|asked| four.pick(&views_4, asked) != five.pick(&views_5, asked))
            .count();
        // A fifth belongs to the new one; Maglev moves a few more.
        assert!(
            (400..1400).contains(&moved),
            "{dispatch:?}: {moved} of 4000"
        );
    }
}

#[test]
fn reserved_endpoints_are_for_the_highest_level() {
    let mut balancer = Balancer::new(&Dispatch::Rpsq { reserved: 1 }, &specs(&[1, 1]));
    let mut views = views(&[1, 1]);
    views[1].requests_ahead = 9;
    assert_eq!(balancer.pick(&views, &ASKED), Some(1));
    let highest = Asked {
        highest: true,
        ..ASKED
    };
    assert_eq!(balancer.pick(&views, &highest), Some(0));
    // The last one is for all.
    let one = &views[..1];
    balancer.replace(&Dispatch::Rpsq { reserved: 1 }, &specs(&[1]));
    assert_eq!(balancer.pick(one, &ASKED), Some(0));
    balancer.replace(&Dispatch::Rpsq { reserved: 1 }, &specs(&[]));
    assert_eq!(balancer.pick(&[], &ASKED), None);
}

#[test]
fn where_there_is_no_endpoint_none_is_chosen() {
    for dispatch in all() {
        let mut balancer = Balancer::new(&dispatch, &[]);
        assert_eq!(balancer.pick(&[], &ASKED), None, "{dispatch:?}");
    }
}

fn sized(bytes: u64) -> Asked {
    Asked { bytes, ..ASKED }
}

#[test]
fn each_size_has_its_endpoint() {
    let fixed = Dispatch::Sita(Intervals::Fixed(vec![1000, 10_000]));
    let mut balancer = Balancer::new(&fixed, &specs(&[1, 1, 1]));
    let mut views = views(&[1, 1, 1]);
    let of = |balancer: &mut Balancer, views: &[View], bytes| balancer.pick(views, &sized(bytes));
    for (bytes, endpoint) in [(0, 0), (1000, 0), (1001, 1), (10_000, 1), (u64::MAX, 2)] {
        assert_eq!(of(&mut balancer, &views, bytes), Some(endpoint), "{bytes}");
    }
    // Up when one is out, down when there is nothing above.
    views[1].usable = false;
    assert_eq!(of(&mut balancer, &views, 5000), Some(2));
    views[2].usable = false;
    assert_eq!(of(&mut balancer, &views, 5000), Some(0));
}

#[test]
fn an_interval_is_known_by_its_place() {
    let fixed = Intervals::Fixed(vec![1000, 10_000]);
    let ranges = [0, 1, 2, 3].map(|index| fixed.range(index, 3));
    let expected = [
        Some((0, 1000)),
        Some((1001, 10_000)),
        Some((10_001, u64::MAX)),
        None,
    ];
    assert_eq!(ranges, expected);
    assert_eq!(Intervals::Learnt.range(0, 3), None);
}

#[test]
fn endpoints_of_one_range_share_it_by_work() {
    let mut specs = specs(&[1, 1, 1]);
    specs[0].size_range = Some((0, 1000));
    specs[1].size_range = Some((1001, u64::MAX));
    specs[2].size_range = Some((1001, u64::MAX));
    let sita = Dispatch::Sita(Intervals::Fixed(vec![1000, 1000]));
    let mut balancer = Balancer::new(&sita, &specs);
    let mut views = views(&[1, 1, 1]);
    views[1].work_bytes = 10;
    assert_eq!(balancer.pick(&views, &sized(5000)), Some(2));
    views[2].work_bytes = 20;
    assert_eq!(balancer.pick(&views, &sized(5000)), Some(1));
    assert_eq!(balancer.pick(&views, &sized(10)), Some(0));
}

#[test]
fn learnt_intervals_have_equal_loads() {
    let mut balancer = Balancer::new(&Dispatch::Sita(Intervals::Learnt), &specs(&[1; 4]));
    let views = views(&[1; 4]);
    // Heavy-tailed: a Pareto distribution of index 1.2 from 100 B to 10 MB.
    let sizes = |n: u64| {
        let uniform = (mix(n) >> 11) as f64 / (1u64 << 53) as f64;
        (100.0 * (1.0 - uniform).powf(-1.0 / 1.2)).min(1e7) as u64
    };
    for n in 0..60_000 {
        balancer.observe(sizes(n));
    }
    let mut loads = [0.0; 4];
    for n in 0..60_000 {
        let bytes = sizes(n);
        loads[balancer.pick(&views, &sized(bytes)).unwrap()] += (bytes + 512) as f64;
    }
    let total: f64 = loads.iter().sum();
    for load in loads {
        assert!((load / total - 0.25).abs() < 0.08, "{loads:?}");
    }
    let ranges = balancer.intervals().unwrap();
    assert!(
        ranges.windows(2).all(|pair| pair[0].1 < pair[1].0),
        "{ranges:?}"
    );
}

#[test]
fn learnt_intervals_are_let_go_of_where_all_usable_endpoints_share() {
    let mut balancer = Balancer::new(&Dispatch::Sita(Intervals::Learnt), &specs(&[1; 3]));
    let mut views = views(&[1; 3]);
    for (view, work_bytes) in views.iter_mut().zip([20, 5, 10]) {
        view.work_bytes = work_bytes;
    }
    let small = sized(10);
    assert_eq!(balancer.pick(&views, &small), Some(0));
    views[0].shared = true;
    views[1].shared = true;
    assert_eq!(balancer.pick(&views, &small), Some(0));
    // The third does not, but may not be chosen either.
    views[2].usable = false;
    assert_eq!(balancer.pick(&views, &small), Some(1));
    // What the operator has fixed stays.
    let fixed = Dispatch::Sita(Intervals::Fixed(vec![100, 1000]));
    let mut balancer = Balancer::new(&fixed, &specs(&[1; 3]));
    assert_eq!(balancer.pick(&views, &small), Some(0));
}

#[test]
fn a_rotation_that_there_is_not_is_the_last() {
    let mut balancer = Balancer::new(&Dispatch::RoundRobin, &specs(&[1, 1]));
    let asked = Asked {
        rotation: 7,
        ..ASKED
    };
    let views = views(&[1, 1]);
    let picks = [asked, ASKED, asked].map(|asked| balancer.pick(&views, &asked));
    assert_eq!(picks, [Some(0), Some(1), Some(0)]);
}

#[test]
fn a_hash_tells_parts_apart() {
    let parts: [&[&[u8]]; 5] = [
        &[],
        &[b"ab", b"c"],
        &[b"a", b"bc"],
        &[b"abc"],
        &[b"abc", b""],
    ];
    let hashes = parts.map(stable_hash);
    for (index, hash) in hashes.iter().enumerate() {
        assert!(hashes[index + 1..].iter().all(|other| other != hash));
    }
}

#[test]
fn a_point_on_the_ring_is_its_endpoints() {
    let specs = specs(&[1; 8]);
    let mut balancer = Balancer::new(&Dispatch::RingHash, &specs);
    let views = views(&[1; 8]);
    for (index, spec) in specs.iter().enumerate() {
        // An endpoint's first point is its identity, mixed; so is a request's hash.
        let asked = Asked {
            hash: spec.identity,
            ..ASKED
        };
        assert_eq!(balancer.pick(&views, &asked), Some(index));
    }
}

#[test]
fn where_no_endpoint_is_usable_each_is_asked_once_and_no_table_is_walked() {
    let specs = specs(&[1; 8]);
    let asked = std::cell::Cell::new(0);
    let unusable = |_: usize| {
        asked.set(asked.get() + 1);
        false
    };
    assert_eq!(Ring::new(&specs).pick(7, specs.len(), unusable), None);
    assert_eq!(asked.take(), 8);
    assert_eq!(Maglev::new(&specs).pick(7, specs.len(), unusable), None);
    assert_eq!(asked.take(), 8);
}

#[test]
fn a_size_without_an_endpoint_goes_to_the_next_above() {
    let fixed = Dispatch::Sita(Intervals::Fixed(vec![1000, 10_000]));
    let mut balancer = Balancer::new(&fixed, &specs(&[1, 1, 1]));
    let mut views = views(&[1, 1, 1]);
    views[0].usable = false;
    assert_eq!(balancer.pick(&views, &sized(500)), Some(1));
}

#[test]
fn the_last_interval_has_the_rest() {
    let fixed = Intervals::Fixed(vec![10, 20, 30]);
    assert_eq!(fixed.range(0, 2), Some((0, 10)));
    assert_eq!(fixed.range(1, 2), Some((11, u64::MAX)));
}

#[test]
fn learnt_intervals_are_revised_after_each_512_sizes() {
    let mut balancer = Balancer::new(&Dispatch::Sita(Intervals::Learnt), &specs(&[1, 1]));
    let bound = |balancer: &Balancer| balancer.intervals().unwrap()[0].1;
    let mut bounds = Vec::new();
    for (bytes, count) in [
        (100_000, 511),
        (100_000, 1),
        (1_000_000, 511),
        (1_000_000, 1),
    ] {
        for _ in 0..count {
            balancer.observe(bytes);
        }
        bounds.push(bound(&balancer));
    }
    // At first a guess. Then the step after 98,303 has all of the load, and after as many
    // larger sizes the one after 983,039 nearly all: each goes to the second endpoint.
    assert_eq!(bounds, [1024, 98_303, 98_303, 983_039]);
}
