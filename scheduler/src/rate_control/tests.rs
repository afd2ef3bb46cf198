//! The rate control by itself, at a rate of which all times are powers of two.

use super::*;

const MS: Duration = Duration::from_millis(1);

/// The link's rate, in bits per second. A segment takes 2^-10 s, and polls come 2^-8 s apart:
/// so the target is 3 x 2^-11 s, and the delays' window 2^-5 s.
const RATE: u64 = 12_112 * 1024;
const SEGMENT_S: f64 = 1.0 / 1024.0;
const TARGET_S: f64 = 3.0 / 2048.0;
const WINDOW_S: f64 = 1.0 / 32.0;

pub(super) fn control() -> RateControl {
    let mut control = RateControl::new(RateControlConfig {
        initial_rate_bits_per_s: RATE,
        ..RateControlConfig::default()
    });
    control.poll_interval = 1.0 / 256.0;
    control
}

fn at(ms: u64) -> Time {
    Time::from_nanos(ms * 1_000_000)
}

fn is_near(value: f64, expected: f64) -> bool {
    (value - expected).abs() < 1e-9 * expected.abs().max(1.0)
}

/// Returns a probe of one full segment.
fn probe(network: u64, sent_at: Time, position: u64) -> WriteProbe {
    WriteProbe {
        socket: 1,
        network,
        written: position,
        position,
        burst: 1514,
        sent_at,
    }
}

fn write(socket: u64, position: u64) -> Write {
    Write {
        socket,
        network: socket,
        written: position,
        position,
    }
}

#[test]
fn times_follow_from_the_segment_and_the_polls() {
    let mut control = control();
    assert_eq!(control.segment(), SEGMENT_S);
    assert_eq!(control.target(), TARGET_S);
    assert_eq!(control.delay_window(), WINDOW_S);
    control.poll_interval = 0.000_1;
    assert!(is_near(control.target(), 0.5 * SEGMENT_S + 0.000_25));
    assert_eq!(control.delay_window(), 6.0 * SEGMENT_S);
}

#[test]
fn a_queue_is_corrected_the_slower_the_less_is_known_of_it() {
    let mut control = control();
    assert_eq!(control.reaction(at(1000)), 2.0 * WINDOW_S);
    control.frontier = Some(Point {
        departed_at: at(1000),
        position: 0,
    });
    assert_eq!(control.reaction(at(1001)), 2.0 * WINDOW_S);
    assert!(is_near(control.reaction(at(1100)), 0.4));
    assert!(is_near(control.reaction(at(9000)), 2.0));
}

#[test]
fn the_queue_is_told() {
    let mut control = control();
    control.queue = 0.25;
    assert_eq!(control.queue(), 250 * MS);
}

#[test]
fn a_restart_begins_at_its_rate_and_time() {
    let mut control = control();
    control.restart(at(3000), 5e6);
    assert_eq!(control.anchor_bits_per_s(), 5_000_000);
    assert_eq!(control.control().rate_bits_per_s, 5_000_000);
    assert_eq!(control.held.anchor, 5e6);
    assert_eq!(control.drain.empty_at, at(3000));
    control.raise(4e6);
    assert_eq!(control.anchor_bits_per_s(), 5_000_000);
    control.raise(6e6);
    assert_eq!(control.anchor_bits_per_s(), 6_000_000);
}

#[test]
fn writes_are_asked_about_after_a_round_trip() {
    let mut control = control();
    control.bases.observe(at(0), 1, 10 * MS, false, MS);
    control.on_write(at(100), write(1, 1000));
    let wanted = |control: &RateControl, ms: u64| {
        let mut sockets = vec![9];
        control.wanted(at(ms), &mut sockets);
        sockets
    };
    assert!(wanted(&control, 109).is_empty());
    assert_eq!(wanted(&control, 110), [1]);
    control.on_write(at(101), write(2, 2000));
    assert_eq!(wanted(&control, 110), [1, 2]);
    let sample = SocketSample {
        socket: 2,
        bytes_acked: 2000,
        min_rtt: Duration::MAX,
    };
    control.pass_over(&[sample]);
    assert_eq!(wanted(&control, 110), [1]);
    control.on_close(1);
    assert!(wanted(&control, 110).is_empty());
}

#[test]
fn the_time_between_polls_is_followed_by_a_64th() {
    let mut control = control();
    control.poll_interval = 0.001;
    control.on_poll(at(100), &[], false);
    assert!(is_near(control.poll_interval, 0.001 + 0.009 / 64.0));
}

#[test]
fn a_delay_is_over_the_base_and_less_the_writes_own_time() {
    let mut control = control();
    control.confirmed(at(10), &probe(1, at(0), 1514), Duration::MAX);
    assert_eq!(control.delays.back(), Some(&(at(0), 0.0)));
    control.confirmed(at(40), &probe(1, at(20), 3028), Duration::MAX);
    let &(departed_at, delay) = control.delays.back().unwrap();
    assert_eq!(departed_at, at(30));
    assert!(is_near(delay, 0.010 - SEGMENT_S), "{delay}");
    assert_eq!(control.confirmed_sent_at, at(20));
    // The base is 10 ms; of two in 64 its average has heard.
    let average = 0.010 * (1.0 - (63.0f64 / 64.0).powi(2));
    assert!(is_near(control.base_s, average), "{}", control.base_s);
}

#[test]
fn a_base_that_falls_notably_is_found() {
    // By half the target, 0.73 ms.
    for (us, found) in [(9200, true), (9300, false), (8000, true), (10_000, false)] {
        let mut control = control();
        control.confirmed(at(10), &probe(1, at(0), 1514), Duration::MAX);
        let rtt = Duration::from_micros(us);
        control.confirmed(at(20) + rtt, &probe(1, at(20), 3028), Duration::MAX);
        assert_eq!(control.drain.found_lower, found, "{us}");
    }
}

#[test]
fn what_is_heard_through_a_queue_is_not_trusted() {
    for (queue, trusted) in [(0.0, true), (TARGET_S, false), (1.0, false)] {
        let mut control = control();
        control.queue = queue;
        control.confirmed(at(10), &probe(1, at(0), 1514), Duration::MAX);
        assert_eq!(control.bases.is_trusted(1), trusted, "{queue}");
    }
}

#[test]
fn others_are_heard_before_one_that_is_not_trusted() {
    // The frontier after a round trip of 10 ms that comes at `ms`.
    let frontier = |queue: f64, ms: u64| {
        let mut control = control();
        control.confirmed(at(1010), &probe(1, at(1000), 1514), Duration::MAX);
        control.queue = queue;
        control.confirmed(at(ms), &probe(2, at(ms - 10), 3028), Duration::MAX);
        control.frontier.unwrap().position
    };
    assert_eq!(frontier(0.0, 1020), 3028);
    // As early as the one before, and earlier.
    assert_eq!(frontier(0.0, 1010), 3028);
    assert_eq!(frontier(0.0, 1009), 1514);
    // Through a queue: after more than half a second of silence.
    assert_eq!(frontier(1.0, 1400), 1514);
    assert_eq!(frontier(1.0, 1500), 1514);
    assert_eq!(frontier(1.0, 1501), 3028);
}

#[test]
fn delays_count_for_a_window_and_are_bounded() {
    let mut control = control();
    let sent_at = at(1000);
    let hear = |control: &mut RateControl, after: Duration| {
        let probe = probe(1, sent_at + after, 1514);
        control.confirmed(sent_at + after + 10 * MS, &probe, Duration::MAX);
        control.delays.len()
    };
    assert_eq!(hear(&mut control, Duration::ZERO), 1);
    let window = Duration::from_secs_f64(WINDOW_S);
    assert_eq!(hear(&mut control, window), 2);
    assert_eq!(hear(&mut control, window + Duration::from_nanos(1)), 2);
    for _ in 0..300 {
        hear(&mut control, 2 * window);
    }
    assert_eq!(control.delays.len(), 256);
}

#[test]
fn a_link_is_busy_if_it_had_a_queue_and_more_before_that_was_gone() {
    // How many points the span has after a round trip that is so much longer.
    let points = |sent_ms: u64, late: Duration, foreign: f64| {
        let mut control = control();
        control.confirmed(at(1010), &probe(1, at(1000), 1514), Duration::MAX);
        control.confirmed(at(1050), &probe(1, at(1040), 3028), Duration::MAX);
        control.held.foreign = foreign;
        let mut probe = probe(1, at(sent_ms), 4542);
        probe.burst = 0;
        control.confirmed(at(sent_ms + 50) + late, &probe, Duration::MAX);
        control.span.len()
    };
    // The frontier departed at 1040 ms; 40 ms is beyond the window of its delay.
    assert_eq!(points(1039, Duration::ZERO, 0.0), 2);
    assert_eq!(points(1040, Duration::ZERO, 0.0), 1);
    // Half the target is 0.73 ms.
    assert_eq!(points(1039, Duration::ZERO, 0.0391), 2);
    assert_eq!(points(1039, Duration::ZERO, 0.0394), 1);
    assert_eq!(points(1039, MS, 0.0402), 2);
    assert_eq!(points(1039, MS, 0.0404), 1);
}

#[test]
fn a_rate_is_measured_the_sooner_the_longer_the_queue() {
    let mut control = control();
    // Up to four targets, 5.9 ms.
    assert_eq!(control.span_length(0.0), 0.1);
    assert_eq!(control.span_length(4.0 * TARGET_S), 0.1);
    assert_eq!(control.span_length(0.005_9), 24.0 * SEGMENT_S);
    assert_eq!(control.span_length(0.03), 0.06);
    assert_eq!(control.span_length(0.2), 0.1);
    // A segment takes ten times as long.
    control.anchor /= 10.0;
    assert!(is_near(control.span_length(0.0), 640.0 * SEGMENT_S));
    assert!(is_near(control.span_length(0.2), 240.0 * SEGMENT_S));
    control.anchor *= 1000.0;
    assert_eq!(control.span_length(0.005), 0.02);
}

#[test]
fn on_a_proven_link_a_rate_is_measured_over_four_round_trips() {
    let mut control = control();
    control.anchor *= 1000.0;
    // Over a queue that is no longer than four targets.
    for (base_s, noise_s, cautious, expected) in [
        (0.0, 0.0, true, 0.01),
        (0.002_4, 0.000_3, true, 0.01),
        (0.005, 0.0, true, 0.02),
        (0.005, 0.001, true, 0.025),
        (0.025, 0.0, true, 0.1),
        (0.5, 0.5, true, 0.1),
        (0.005, 0.001, false, 0.1),
    ] {
        control.base_s = base_s;
        control.on_noise(noise_s);
        control.config.cautious = cautious;
        assert_eq!(control.span_length(0.0), expected, "{base_s} {noise_s}");
    }
    control.anchor /= 1000.0;
    control.config.cautious = true;
    control.base_s = 0.0;
    control.on_noise(0.0);
    assert_eq!(control.span_length(0.0), 64.0 * SEGMENT_S);
}

#[test]
fn a_rate_counts_as_measured_for_five_seconds_while_the_anchor_is_about_there() {
    let is_measured = |of_measured: f64, after: Duration, cautious: bool| {
        let mut control = control();
        control.config.cautious = cautious;
        control.learn(at(1000), control.anchor);
        control.anchor *= of_measured;
        control.is_measured(at(1000) + after)
    };
    let second = Duration::from_secs(1);
    for of_measured in [0.971, 1.0, 1.059] {
        assert!(is_measured(of_measured, second, true), "{of_measured}");
    }
    for of_measured in [0.969, 1.061] {
        assert!(!is_measured(of_measured, second, true), "{of_measured}");
    }
    assert!(is_measured(1.0, 5 * second - MS, true));
    assert!(!is_measured(1.0, 5 * second, true));
    assert!(!is_measured(1.0, second, false));
    let mut control = control();
    control.config.cautious = true;
    control.learn(at(1000), control.anchor);
    control.restart(at(1000), control.anchor);
    assert!(!control.is_measured(at(1000)));
}

#[test]
fn a_rate_far_off_is_followed_faster() {
    for (part, learnt) in [(1.05, 1.0125), (0.95, 0.9875), (1.2, 1.1), (0.8, 0.9)] {
        let mut control = control();
        let anchor = control.anchor;
        control.learn(at(1000), part * anchor);
        assert!(is_near(control.anchor / anchor, learnt), "{part}");
    }
}

#[test]
fn a_queue_that_is_not_heard_of_again_is_forgotten() {
    let mut control = control();
    control.delays.push_back((at(1000), 0.125));
    // It counts for its length, the window and 0.3 s.
    let length = Duration::from_secs_f64(0.125 + WINDOW_S + 0.3);
    assert_eq!(control.queue_now(at(1000)), 0.125);
    assert_eq!(control.queue_now(at(1000) + length - MS), 0.125);
    assert_eq!(control.queue_now(at(1000) + length), 0.0);
    assert_eq!(control.queue_now(at(1000) + length + MS), 0.0);
    control.held.foreign = 0.025;
    assert_eq!(control.queue_now(at(1000)), 0.1);
}

#[test]
fn silence_is_a_queue() {
    let mut control = control();
    control.bases.observe(at(0), 1, 100 * MS, false, MS);
    control.on_write(at(1000), write(1, 1000));
    assert_eq!(control.queue_now(at(1160)), 0.0);
    // 100 ms after it was due, of which 60 are as usual.
    assert!(is_near(control.queue_now(at(1200)), 0.040));
    control.heard_at = at(1120);
    assert!(is_near(control.queue_now(at(1200)), 0.020));
}
