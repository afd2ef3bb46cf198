use proptest::prelude::*;

use super::*;
use crate::srq::Trigger;

const S: Duration = Duration::from_secs(1);

fn config() -> Config {
    Config {
        quanta: vec![100, 1_000],
        quantum_bounds: (10, 1 << 40),
        ..Config::bytes()
    }
}

fn queues(change: impl FnOnce(&mut Config)) -> Queues {
    let mut config = config();
    change(&mut config);
    Queues::new(config)
}

/// Passes a request of the service `size` through the queues, in steps of `step`; returns the queue
/// that it ends in.
fn pass(queues: &mut Queues, size: u64, step: u64) -> usize {
    let mut progress = queues.arrive();
    let mut attained = 0;
    while attained + step < size {
        attained += step;
        queues.served(&mut progress, attained);
    }
    queues.done(progress, size, size);
    progress.queue()
}

#[test]
fn a_request_goes_on_when_its_quantum_is_used_up_and_carries_nothing_over() {
    let mut queues = queues(|_| {});
    let mut progress = queues.arrive();
    assert!(!queues.served(&mut progress, 99));
    assert!(queues.served(&mut progress, 150));
    assert_eq!(progress.queue(), 1);
    assert!(!queues.served(&mut progress, 1_149), "999 here");
    assert!(queues.served(&mut progress, 1_150));
    assert!(
        !queues.served(&mut progress, u64::MAX),
        "the last has no quantum"
    );
    assert_eq!(queues.stats().moved[..3], [1, 1, 0]);
    assert_eq!(queues.stats().members[..3], [0, 0, 1]);
    queues.done(progress, 5_000, 5_000);
    assert_eq!(queues.stats().done[..3], [0, 0, 1]);
    assert_eq!(queues.stats().members, [0; MAX_QUEUES]);
}

#[test]
fn one_that_ends_with_its_quantum_has_not_moved() {
    let mut queues = queues(|_| {});
    assert_eq!(pass(&mut queues, 100, 100), 0);
    assert_eq!(pass(&mut queues, 101, 100), 1);
}

#[test]
fn a_known_size_is_placed_where_it_would_have_come_to() {
    let mut queues = queues(|_| {});
    let place = |queues: &mut Queues, size| queues.place(size).queue();
    assert_eq!(place(&mut queues, 99), 0);
    assert_eq!(place(&mut queues, 100), 1);
    assert_eq!(place(&mut queues, 1_099), 1);
    assert_eq!(place(&mut queues, 1_100), 2);
    assert_eq!(place(&mut queues, u64::MAX), 2);
    assert_eq!(queues.stats().moved, [0; MAX_QUEUES]);
}

/// Passes `failed` requests that go on from the first queue, and `done` that end there.
fn fail(queues: &mut Queues, failed: u64, done: u64) {
    for _ in 0..failed {
        pass(queues, 500, 100);
    }
    for _ in 0..done {
        pass(queues, 50, 100);
    }
}

#[test]
fn a_quantum_grows_above_its_threshold_and_not_at_it() {
    for (failed, done, after) in [(11, 9, 100), (12, 8, 100), (13, 7, 200)] {
        let mut queues = queues(|_| {});
        fail(&mut queues, failed, done);
        queues.adapt(0);
        assert_eq!(queues.quanta()[0], after, "{failed} of 20");
    }
}

#[test]
fn few_samples_say_nothing() {
    for (failed, after) in [(19, 100), (20, 200)] {
        let mut queues = queues(|_| {});
        fail(&mut queues, failed, 0);
        queues.adapt(0);
        assert_eq!(queues.quanta()[0], after, "{failed}");
    }
}

/// Passes `each` requests that took `size` and as many that took nothing, so that the deviation is
/// the mean. Passes `more` that took nothing beyond that.
fn deviate(queues: &mut Queues, each: u64, more: u64, size: u64) {
    for _ in 0..each {
        pass(queues, size, size.max(1));
    }
    for _ in 0..each + more {
        pass(queues, 0, 1);
    }
}

#[test]
fn a_quantum_shrinks_above_its_threshold_and_not_at_it() {
    // A fifth of the mean, 80 x 10 / 21, is 7.6.
    for (more, after) in [(0, 100), (1, 92)] {
        let mut queues = queues(|_| {});
        deviate(&mut queues, 10, more, 80);
        queues.adapt(0);
        assert_eq!(queues.quanta()[0], after, "{more}");
    }
    // Below: all alike.
    let mut queues = queues(|_| {});
    for _ in 0..40 {
        pass(&mut queues, 60, 100);
    }
    queues.adapt(0);
    assert_eq!(queues.quanta()[0], 100);
    assert_eq!((queues.stats().grown, queues.stats().shrunk), (0, 0));
}

#[test]
fn growing_wins_where_both_would() {
    let mut queues = queues(|_| {});
    deviate(&mut queues, 10, 1, 80);
    fail(&mut queues, 40, 0);
    queues.adapt(0);
    assert_eq!(queues.quanta()[0], 200);
    assert_eq!((queues.stats().grown, queues.stats().shrunk), (1, 0));
}

#[test]
fn quanta_stay_within_their_bounds() {
    let mut small = queues(|config| config.quantum_bounds = (95, 150));
    assert_eq!(small.quanta(), [100, 150]);
    fail(&mut small, 40, 0);
    small.adapt(0);
    assert_eq!(small.quanta()[0], 150);
    let mut shrinking = queues(|_| {});
    deviate(&mut shrinking, 10, 30, 99);
    shrinking.adapt(97);
    assert_eq!(shrinking.quanta()[0], 97, "no less than a grant");
}

#[test]
fn the_last_queue_merges_when_nothing_ends_there() {
    let mut queues = queues(|_| {});
    let mut waiting = queues.arrive();
    queues.served(&mut waiting, 100);
    queues.served(&mut waiting, 1_100);
    assert_eq!(waiting.queue(), 2);
    pass(&mut queues, 50, 50);
    assert!(queues.adapt(0));
    assert_eq!(queues.quanta(), [100]);
    queues.renew(&mut waiting);
    assert_eq!(waiting.queue(), 1);
    assert_eq!(queues.stats().members[..3], [0, 1, 0]);
    // Fewer there may not be.
    pass(&mut queues, 50, 50);
    assert!(!queues.adapt(0));
    assert_eq!((queues.count(), queues.stats().merges), (2, 1));
    queues.done(waiting, 2_000, 2_000);
    assert_eq!(queues.stats().members, [0; MAX_QUEUES]);
}

#[test]
fn an_interval_without_departures_changes_nothing() {
    let mut queues = queues(|_| {});
    let one = queues.arrive();
    assert!(!queues.adapt(0));
    assert_eq!(queues.quanta(), [100, 1_000]);
    queues.cancel(one);
    assert!(!queues.adapt(0));
    assert_eq!(queues.quanta(), [100, 1_000]);
}

/// Ends `count` requests in the last of three queues: half with the service that it takes to get
/// there, half with `more`.
fn end_in_last(queues: &mut Queues, count: u64, more: u64) {
    for index in 0..count {
        let mut progress = queues.arrive();
        queues.served(&mut progress, 100);
        queues.served(&mut progress, 1_100);
        let size = if index % 2 == 0 { 1_100 } else { 1_100 + more };
        queues.done(progress, size, if index % 2 == 0 { 0 } else { more });
    }
}

#[test]
fn the_last_queue_is_split_above_its_threshold_and_not_at_it() {
    // Measured are 0 and 4,000, as often: the deviation is the mean.
    for (extra, len) in [(0, 3), (1, 4)] {
        let mut queues = queues(|config| config.t_fail = 1.0);
        end_in_last(&mut queues, 20, 4_000);
        for _ in 0..extra {
            end_in_last(&mut queues, 1, 4_000);
        }
        assert!(!queues.adapt(0));
        assert_eq!(queues.count(), len);
        assert_eq!(queues.stats().splits, extra);
    }
}

#[test]
fn a_split_takes_what_its_requests_had_in_the_last_queue() {
    let mut queues = queues(|config| config.t_fail = 1.0);
    end_in_last(&mut queues, 21, 4_000);
    let mut waiting = queues.arrive();
    queues.served(&mut waiting, 100);
    queues.served(&mut waiting, 1_100);
    queues.adapt(0);
    // Ten of 21 had 4,000 there, the others nothing.
    assert_eq!(queues.quanta(), [100, 1_000, 1_904]);
    // Members stay until they have used that up.
    assert!(!queues.served(&mut waiting, 1_100 + 1_903));
    assert_eq!(waiting.queue(), 2);
    assert!(queues.served(&mut waiting, 1_100 + 1_904));
    assert_eq!(waiting.queue(), 3);
}

#[test]
fn few_in_the_last_queue_split_nothing_and_there_are_no_more_than_may_be() {
    let mut queues = queues(|config| config.t_fail = 1.0);
    end_in_last(&mut queues, 19, 90_000);
    queues.adapt(0);
    assert_eq!(queues.count(), 3, "19 samples");
    let mut full = self::queues(|config| {
        config.t_fail = 1.0;
        config.queues = (2, 3);
    });
    end_in_last(&mut full, 41, 90_000);
    full.adapt(0);
    assert_eq!(full.count(), 3);
}

#[test]
fn a_cancelled_request_leaves_no_trace() {
    let mut queues = queues(|_| {});
    fail(&mut queues, 12, 8);
    let mut twin = queues.clone();
    let mut gone = queues.arrive();
    queues.served(&mut gone, 100);
    queues.served(&mut gone, 1_100);
    assert_eq!(queues.stats().moved[..2], [13, 1]);
    queues.cancel(gone);
    assert_eq!(queues.stats().members, twin.stats().members);
    assert_eq!(queues.stats().done, twin.stats().done);
    queues.adapt(0);
    twin.adapt(0);
    // 13 of 21 would have grown it.
    assert_eq!(queues.quanta(), twin.quanta());
    assert_eq!(queues.quanta()[0], 100);
}

#[test]
fn one_cancelled_in_a_later_interval_takes_back_nothing_of_an_earlier_one() {
    let mut queues = queues(|_| {});
    let mut gone = queues.arrive();
    queues.served(&mut gone, 100);
    pass(&mut queues, 5_000, 1_000);
    queues.adapt(0);
    fail(&mut queues, 13, 7);
    queues.cancel(gone);
    queues.adapt(0);
    assert_eq!(queues.quanta()[0], 200, "13 of 20 still");
    assert_eq!(queues.stats().members, [0; MAX_QUEUES]);
}

#[test]
fn intervals_end_on_their_beat() {
    let mut queues = queues(|config| config.interval = 60 * S);
    let at = |s: u64| Time::ZERO + Duration::from_secs(s);
    assert!(!queues.is_due(at(5)));
    assert!(!queues.is_due(at(64)));
    assert!(queues.is_due(at(65)));
    assert_eq!(queues.adapts_at(), Some(at(125)));
    assert!(!queues.is_due(at(124)));
    // Those that passed without a call had no departures.
    assert!(queues.is_due(at(300)));
    assert_eq!(queues.adapts_at(), Some(at(305)));
}

#[test]
fn with_fixed_quanta_the_means_ascend_by_queue() {
    let mut queues = queues(|_| {});
    for size in (0..400).map(|index| index * index / 10) {
        pass(&mut queues, size, 37);
    }
    let means: Vec<f64> = (queues.samples.iter().take(3)).map(Sample::mean).collect();
    assert!(means.is_sorted(), "{means:?}");
}

#[derive(Clone, Debug)]
enum Op {
    Arrive,
    Place(u64),
    Serve(usize, u64),
    Done(usize),
    Cancel(usize),
    Adapt(u64),
}

fn op() -> impl Strategy<Value = Op> {
    let amount = || prop_oneof![0u64..2_000, 0u64..200_000, Just(1 << 45)];
    prop_oneof![
        4 => Just(Op::Arrive),
        1 => amount().prop_map(Op::Place),
        8 => (0usize..60, amount()).prop_map(|(index, amount)| Op::Serve(index, amount)),
        4 => (0usize..60).prop_map(Op::Done),
        1 => (0usize..60).prop_map(Op::Cancel),
        1 => amount().prop_map(Op::Adapt),
    ]
}

proptest! {
    /// Checks that queues and quanta stay within their bounds, and that the members add up.
    #[test]
    fn everything_stays_within_bounds(
        fewest in 0usize..20,
        most in 0usize..20,
        samples_min in 0u64..5,
        factors in (1.0f64..1e3, 0.0f64..1e3),
        ops in prop::collection::vec(op(), 1..400),
    ) {
        let mut queues = queues(|config| {
            config.queues = (fewest, most);
            config.samples_min = samples_min;
            (config.adj_i, config.adj_d) = factors;
            config.trigger = Trigger::Always;
        });
        let (low, high) = queues.config().quantum_bounds;
        let (fewest, most) = queues.config().queues;
        prop_assert!((2..=MAX_QUEUES).contains(&fewest) && (fewest..=MAX_QUEUES).contains(&most));
        let mut open: Vec<(Progress, u64)> = Vec::new();
        for op in ops {
            let picked = |index: usize| index.checked_rem(open.len());
            match op {
                Op::Arrive => open.push((queues.arrive(), 0)),
                Op::Place(size) => open.push((queues.place(size), size)),
                Op::Serve(index, amount) => {
                    if let Some(index) = picked(index) {
                        let (progress, attained) = &mut open[index];
                        *attained += amount;
                        let before = progress.queue();
                        let moved = queues.served(progress, *attained);
                        prop_assert_eq!(progress.queue(), before + usize::from(moved));
                    }
                }
                Op::Done(index) => {
                    if let Some(index) = picked(index) {
                        let (progress, attained) = open.swap_remove(index);
                        queues.done(progress, attained, attained);
                    }
                }
                Op::Cancel(index) => {
                    if let Some(index) = picked(index) {
                        queues.cancel(open.swap_remove(index).0);
                    }
                }
                Op::Adapt(least) => {
                    queues.adapt(least);
                    open.iter_mut().for_each(|(progress, _)| queues.renew(progress));
                }
            }
            prop_assert!((fewest..=most).contains(&queues.count()));
            for &quantum in queues.quanta() {
                prop_assert!((low..=high).contains(&quantum));
            }
            let mut members = [0; MAX_QUEUES];
            open.iter().for_each(|(progress, _)| members[progress.queue()] += 1);
            prop_assert_eq!(queues.stats().members, members);
        }
    }
}

#[test]
fn at_a_threshold_nothing_deviates() {
    // One of ten has all: the deviation is three times the mean.
    let mut sample = Sample::default();
    (0..9).for_each(|_| sample.add(0, 0));
    sample.add(1_000, 0);
    assert!(!sample.deviates(3.0));
    assert!(sample.deviates(2.99));
}

#[test]
fn quanta_that_change_are_counted() {
    let mut queues = queues(|config| config.samples_min = 2);
    for _ in 0..2 {
        for size in [500, 600, 700] {
            pass(&mut queues, size, 100);
        }
        queues.adapt(0);
    }
    // All went on from the first queue each time: 100, 200, 400.
    assert_eq!(queues.quanta()[0], 400);
    let stats = *queues.stats();
    assert_eq!((stats.grown, stats.shrunk), (2, 0));
    for _ in 0..2 {
        // One of ten is as large as all: far above the mean, which is 30.
        (0..9).for_each(|_| assert_eq!(pass(&mut queues, 1, 100), 0));
        pass(&mut queues, 291, 300);
        queues.adapt(0);
    }
    // A fifth of 30 less each time.
    assert_eq!(queues.quanta()[0], 388);
    assert_eq!((queues.stats().grown, queues.stats().shrunk), (2, 2));
}
