use super::*;
use Mark::{In, Out};

const THRESHOLD: u64 = Marking::PAPER.threshold_bytes;

fn rule(variant: Variant) -> Marking {
    Marking {
        variant,
        ..Marking::PAPER
    }
}

fn at(nanos: u64) -> Time {
    Time::from_nanos(nanos)
}

/// Returns the state of a flow that has sent `bytes` bytes.
fn after(bytes: u64) -> FlowMarks {
    let mut flow = FlowMarks::default();
    flow.count(bytes);
    flow
}

#[test]
fn marks_have_names() {
    assert_eq!(Mark::ALL.map(Mark::name), ["in", "out"]);
}

#[test]
fn the_packet_that_crosses_the_threshold_is_in() {
    let sfd = rule(Variant::Sfd);
    for (sent, expected) in [(0, In), (THRESHOLD, In), (THRESHOLD + 1, Out)] {
        let mut flow = after(sent);
        assert_eq!(sfd.mark(&mut flow, Time::ZERO, 1, 0.0), expected, "{sent}");
    }
    // 1,500-byte packets: the eleventh begins at 15,000, and is the last.
    let mut flow = FlowMarks::default();
    let marks = (0..14).map(|_| sfd.mark(&mut flow, Time::ZERO, 1500, 0.0));
    let expected: Vec<_> = [[In; 11].as_slice(), &[Out; 3]].concat();
    assert_eq!(marks.collect::<Vec<_>>(), expected);
}

#[test]
fn it_is_told_where_the_threshold_will_be_crossed() {
    let sfd = rule(Variant::Sfd);
    let within = |sent| sfd.bytes_within(&after(sent));
    assert_eq!(within(0), Some(THRESHOLD + 1));
    assert_eq!(within(THRESHOLD), Some(1));
    assert_eq!(within(THRESHOLD + 1), None);
    let mut flow = after(1_000);
    let bytes = sfd.bytes_within(&flow).unwrap();
    assert_eq!(sfd.mark(&mut flow, Time::ZERO, bytes, 0.0), In);
    assert_eq!(sfd.mark(&mut flow, Time::ZERO, 1, 0.0), Out);
}

#[test]
fn a_flow_is_new_after_more_than_the_idle_time() {
    let idle = u64::try_from(Marking::PAPER.idle.as_nanos()).unwrap();
    for (pause, expected) in [(idle, Out), (idle + 1, In)] {
        let sfd = rule(Variant::Sfd);
        let mut flow = FlowMarks::default();
        sfd.mark(&mut flow, at(7), THRESHOLD + 1, 0.0);
        assert_eq!(
            sfd.mark(&mut flow, at(7 + pause), 1, 0.0),
            expected,
            "{pause}"
        );
    }
    // Each packet begins the time anew, and the counter of S-SFD is forgotten, too.
    let selective = rule(Variant::SSfd);
    let mut flow = after(THRESHOLD + 1);
    for step in 0..3 {
        assert_eq!(selective.mark(&mut flow, at(step * idle), 1, 0.0), Out);
    }
    let later = 3 * idle + 1;
    assert_eq!(selective.mark(&mut flow, at(later), THRESHOLD + 1, 0.0), In);
    let marks = (0..4).map(|_| selective.mark(&mut flow, at(later), 1, 0.0));
    assert_eq!(marks.collect::<Vec<_>>(), [Out, Out, Out, In]);
}

#[test]
fn s_sfd_promotes_one_of_every_k() {
    for (k, expected) in [
        (0, vec![In; 8]),
        (1, vec![In; 8]),
        (2, [Out, In].repeat(4)),
        (4, [Out, Out, Out, In].repeat(2)),
    ] {
        let selective = Marking {
            k,
            ..Marking::PAPER
        };
        let mut flow = after(THRESHOLD + 1);
        let marks = (0..8).map(|_| selective.mark(&mut flow, Time::ZERO, 1500, 0.0));
        assert_eq!(marks.collect::<Vec<_>>(), expected, "{k}");
    }
}

#[test]
fn p_sfd_promotes_by_threshold_over_bytes_sent() {
    let probable = rule(Variant::PSfd);
    // At exactly the probability it is OUT: 15,360 of 20,480 are three quarters.
    for (draw, expected) in [(0.749_999, In), (0.75, Out)] {
        let flow = after(20_480 - 1_000);
        assert_eq!(probable.next(&flow, 1_000, draw), expected);
    }
    // The draws are hashes: 100,000 flows at the same place.
    for (sent, share) in [(THRESHOLD * 2, 0.5), (THRESHOLD * 10, 0.1)] {
        let flow = after(sent - 1_460);
        let is_in = |number: &u64| probable.next(&flow, 1_460, flow.draw(*number)) == In;
        let promoted = (0..100_000).filter(is_in).count() as f64 / 100_000.0;
        // Five standard deviations.
        let bound = 5.0 * (share * (1.0 - share) / 100_000f64).sqrt();
        assert!((promoted - share).abs() < bound, "{promoted} of {share}");
    }
    // And 100,000 packets of one flow: the sum of the probabilities is expected.
    let mut flow = after(THRESHOLD + 1);
    let (mut promoted, mut expected, mut variance) = (0.0, 0.0, 0.0);
    for packet in 1..=100_000u64 {
        let share = THRESHOLD as f64 / (THRESHOLD + 1 + packet * 10) as f64;
        expected += share;
        variance += share * (1.0 - share);
        let draw = flow.draw(7);
        if probable.mark(&mut flow, Time::ZERO, 10, draw) == In {
            promoted += 1.0;
        }
    }
    let off: f64 = promoted - expected;
    assert!(off.abs() < 5.0 * variance.sqrt(), "{promoted} {expected}");
}

#[test]
fn a_known_size_may_count_from_the_beginning() {
    let sfd = rule(Variant::Sfd);
    let mut flow = FlowMarks::default();
    flow.know(THRESHOLD);
    assert_eq!(sfd.next(&flow, 1, 0.0), In);
    flow.know(THRESHOLD + 1);
    assert_eq!(sfd.next(&flow, 1, 0.0), Out);
    assert_eq!(sfd.bytes_within(&flow), None);
    // P-SFD's probability is that of a flow that has sent as much.
    let probable = rule(Variant::PSfd);
    flow.know(4 * THRESHOLD - 1);
    assert_eq!(probable.next(&flow, 1, 0.249), In);
    assert_eq!(probable.next(&flow, 1, 0.25), Out);
}

#[test]
fn what_did_not_leave_is_taken_back() {
    for variant in [Variant::Sfd, Variant::PSfd, Variant::SSfd] {
        let marking = rule(variant);
        for sent in [0, THRESHOLD, THRESHOLD + 1] {
            for before in 0..4 {
                let mut flow = after(sent);
                for _ in 0..before {
                    marking.pass(&mut flow, Time::ZERO, 0);
                }
                let known = flow;
                marking.pass(&mut flow, Time::ZERO, 1_448);
                marking.take_back(&mut flow, 1_448, true);
                let (has_sent, last) = (flow.has_sent, flow.last);
                let taken_back = FlowMarks {
                    has_sent,
                    last,
                    ..known
                };
                assert_eq!(flow, taken_back);
                // A part of it: the packet has left, and was the next of k.
                marking.pass(&mut flow, Time::ZERO, 1_448);
                marking.take_back(&mut flow, 448, false);
                let mut short = known;
                marking.pass(&mut short, Time::ZERO, 1_000);
                assert_eq!(flow, short);
            }
        }
    }
}

#[test]
fn a_marker_forgets_whose_last_packet_is_oldest() {
    let mut marker = Marker::new(rule(Variant::Sfd), 2);
    assert!(marker.is_empty());
    let mut mark = |flow: char| marker.mark(&flow, Time::ZERO, THRESHOLD + 1, 0.0);
    assert_eq!([mark('a'), mark('b'), mark('a')], [In, In, Out]);
    // `b` is the older one, and new when it comes again.
    assert_eq!([mark('c'), mark('a'), mark('b')], [In, Out, In]);
    // That has put `c` out.
    assert_eq!([mark('b'), mark('a'), mark('c')], [Out, Out, In]);
    assert_eq!((marker.len(), marker.is_empty()), (2, false));
}

#[test]
fn draws_are_in_range_and_differ() {
    let draws: Vec<f64> = (0..1_000).map(|sent| after(sent).draw(3)).collect();
    assert!(draws.iter().all(|draw| (0.0..1.0).contains(draw)));
    let mean = draws.iter().sum::<f64>() / 1_000.0;
    assert!((mean - 0.5).abs() < 0.05, "{mean}");
    assert_eq!(after(5).draw(3), after(5).draw(3));
    assert_ne!(after(5).draw(3), after(5).draw(4));
    // Whatever its number, a flow's draws go by what was sent.
    for number in [0, u64::MAX] {
        assert_ne!(after(5).draw(number), after(6).draw(number));
    }
    // Flows that have sent as much have draws of their own.
    let own: std::collections::BTreeSet<u64> =
        (0..256).map(|flow| after(5).draw(flow).to_bits()).collect();
    assert_eq!(own.len(), 256);
}
