use super::*;

fn at(ms: u64) -> Time {
    Time::from_nanos(ms * 1_000_000)
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Makes a sender with a round trip of 100 ms that has sent `segments` at 0.
fn sending(segments: u64) -> Sender {
    let mut sender = Sender::new(Algorithm::Cubic);
    sender.on_handshake(ms(100));
    sender.write(at(0), segments * MSS);
    assert_eq!(sent(&mut sender, at(0)), segments.min(10));
    sender
}

/// Counts the segments that the sender sends now.
fn sent(sender: &mut Sender, now: Time) -> u64 {
    let mut count = 0;
    while sender.next_segment(now).is_some() {
        count += 1;
    }
    count
}

fn upto(segments: u64, echo: Time) -> Ack {
    Ack {
        upto: segments * MSS,
        selected: None,
        echo,
    }
}

/// Makes the acknowledgement of segment `index`, beyond a hole at `hole`.
fn beyond(hole: u64, index: u64) -> Ack {
    Ack {
        selected: Some(Piece {
            from: index * MSS,
            to: (index + 1) * MSS,
        }),
        ..upto(hole, Time::ZERO)
    }
}

#[test]
fn the_window_doubles_in_each_round_trip() {
    let mut sender = sending(100);
    for segment in 1..=10 {
        sender.on_ack(at(100), upto(segment, at(0)));
    }
    assert_eq!((sender.window(), sent(&mut sender, at(100))), (20, 20));
    for segment in 11..=30 {
        sender.on_ack(at(200), upto(segment, at(100)));
    }
    assert_eq!((sender.window(), sent(&mut sender, at(200))), (40, 40));
}

#[test]
fn a_window_that_is_not_used_does_not_grow() {
    let mut sender = sending(1);
    for round in 1..=20 {
        let now = at(100 * round);
        sender.on_ack(now, upto(round, at(100 * (round - 1))));
        sender.write(now, MSS);
        assert_eq!(sent(&mut sender, now), 1);
    }
    assert_eq!(sender.window(), 10);
}

#[test]
fn a_lost_end_is_sent_again_after_a_timeout_which_doubles() {
    let mut sender = sending(1);
    // RFC 6298: 100 ms and four times 50 ms.
    let mut due = at(300);
    for wait in [600, 1200, 2400] {
        assert_eq!(sender.timer_at(), Some(due));
        sender.on_timer(due);
        assert_eq!((sender.window(), sent(&mut sender, due)), (1, 1));
        due = due + ms(wait);
    }
    // Of a segment that was sent again no round trip is known but by its stamp.
    sender.on_ack(at(5000), upto(1, at(4500)));
    assert_eq!((sender.timer_at(), sender.acked()), (None, MSS));
    assert_eq!(sender.counters().again, 3);
    sender.write(at(5000), MSS);
    assert_eq!(sent(&mut sender, at(5000)), 1);
    // 7/8 of 100 and 1/8 of 500 ms are 150: a probe after two of them and 200 ms.
    assert_eq!(sender.timer_at(), Some(at(5500)));
}

#[test]
fn the_end_of_a_burst_is_probed_before_the_timeout() {
    let mut sender = sending(3);
    assert_eq!(sender.timer_at(), Some(at(202)), "two round trips and 2 ms");
    sender.on_timer(at(202));
    let last = Segment {
        from: 2 * MSS,
        to: 3 * MSS,
    };
    assert_eq!(sender.next_segment(at(202)), Some(last));
    assert_eq!(sender.next_segment(at(202)), None);
    assert_eq!(sender.timer_at(), Some(at(502)));
    // It has arrived, and proves the first ones lost that were sent long before.
    sender.on_ack(at(302), beyond(0, 2));
    assert_eq!(sent(&mut sender, at(302)), 2);
}

#[test]
fn what_is_beyond_a_short_hole_is_given_a_quarter_of_a_round_trip() {
    let mut sender = sending(2);
    sender.on_ack(at(100), beyond(0, 1));
    assert_eq!(sent(&mut sender, at(100)), 0);
    assert_eq!(sender.timer_at(), Some(at(125)));
    sender.on_timer(at(125));
    assert_eq!(sent(&mut sender, at(125)), 1);
}

#[test]
fn three_segments_beyond_a_hole_prove_a_loss() {
    let mut sender = sending(100);
    sender.on_ack(at(100), beyond(0, 1));
    sender.on_ack(at(100), beyond(0, 2));
    assert_eq!(sender.counters().again, 0);
    let before = sent(&mut sender, at(100));
    assert_eq!(before, 2, "a segment for each that has arrived");
    sender.on_ack(at(101), beyond(0, 3));
    let again = Segment { from: 0, to: MSS };
    assert_eq!(sender.next_segment(at(101)), Some(again));
    // All else arrives; the window is seven tenths of what it was.
    for segment in 4..12 {
        sender.on_ack(at(102), beyond(0, segment));
        sent(&mut sender, at(102));
    }
    sender.on_ack(at(201), upto(12, at(101)));
    sent(&mut sender, at(201));
    let sent_by_then = sender.counters().segments - 1;
    sender.on_ack(at(301), upto(sent_by_then, at(201)));
    assert_eq!(sender.window(), 10 * 717 / 1024);
    assert_eq!(sender.counters().again, 1);
}

#[test]
fn a_timeout_that_was_too_early_is_taken_back() {
    let mut sender = sending(10);
    sender.on_timer(at(202));
    assert_eq!(sent(&mut sender, at(202)), 1, "the probe");
    sender.on_timer(at(502));
    assert_eq!((sent(&mut sender, at(502)), sender.window()), (1, 1));
    // What was sent first arrives after all.
    sender.on_ack(at(520), upto(2, at(1)));
    assert!(sender.window() >= 10, "{}", sender.window());
    assert_eq!(sent(&mut sender, at(520)), 0, "nothing is lost");
}

#[test]
fn a_client_that_takes_no_more_is_not_sent_more() {
    let mut sender = Sender::new(Algorithm::Reno);
    sender.on_handshake(ms(100));
    sender.congestion.set_window(1000);
    sender.write(at(0), 1 << 20);
    assert_eq!(sent(&mut sender, at(0)), 45, "64 KiB");
    sender.on_ack(at(100), upto(45, at(0)));
    // All that was acknowledged leaves room, and the bound grows by twice as much.
    assert_eq!(sent(&mut sender, at(100)), 45 + 90);
}

#[test]
fn after_idle_times_it_begins_slowly_again() {
    let mut sender = sending(40);
    let mut acked = 0;
    for round in 1..=3 {
        let out = sender.segments.len() as u64;
        acked += out;
        sender.on_ack(at(100 * round), upto(acked, at(100 * (round - 1))));
        sent(&mut sender, at(100 * round));
    }
    assert_eq!((sender.acked(), sender.window()), (40 * MSS, 40));
    sender.write(at(10_000), MSS);
    assert_eq!(sender.window(), 10);
}

#[test]
fn under_bbr_segments_are_spaced() {
    let mut sender = Sender::new(Algorithm::Bbr);
    sender.on_handshake(ms(100));
    sender.write(at(0), 100 * MSS);
    assert_eq!(sent(&mut sender, at(0)), 10, "the first ones are not paced");
    sender.on_ack(at(100), upto(10, at(0)));
    assert_eq!((sender.window(), sent(&mut sender, at(100))), (20, 2));
    // 100 segments in a second, times 2.885 and 0.99: two in 7.002 ms.
    let due = sender.timer_at().unwrap();
    assert_eq!(due.since(at(100)).as_micros(), 7002);
    // The socket may be polled before.
    assert_eq!(sent(&mut sender, at(105)), 0);
    sender.on_timer(due);
    assert_eq!(sent(&mut sender, due), 2);
    assert_eq!(sender.counters().segments, 14);
}

#[test]
fn under_bbr_a_time_that_has_passed_is_no_timer() {
    let mut sender = Sender::new(Algorithm::Bbr);
    sender.on_handshake(ms(100));
    sender.write(at(0), 100 * MSS);
    sent(&mut sender, at(0));
    sender.on_ack(at(100), upto(10, at(0)));
    sent(&mut sender, at(100));
    // The host's queue is full: no segment is asked for.
    let due = sender.timer_at().unwrap();
    sender.on_timer(due);
    assert!(sender.timer_at().unwrap() > due);
}
