use proptest::prelude::*;

use super::*;
use crate::links::{Amount, DropSpread};
use Mark::{In, Out};

const PACKET_TIME: Duration = Duration::from_millis(1);

fn at_ms(ms: u64) -> Time {
    Time::from_nanos(ms * 1_000_000)
}

fn packet(content: u32, mark: Mark, bytes: u32) -> Packet<u32> {
    Packet {
        bytes,
        mark,
        content,
    }
}

/// RED parameters by which nothing is dropped before the queue is full.
const IDLE_RED: RedSettings = RedSettings {
    min_threshold: 1e6,
    max_threshold: 2e6,
    max_probability: 0.1,
    weight: 0.5,
    spread: DropSpread::Even,
};

fn kinds(bound: QueueBound) -> [QueueSettings; 5] {
    let red = [IDLE_RED; 2];
    let virtual_queue = |average| QueueSettings::Virtual {
        bound,
        red,
        average,
    };
    [
        QueueSettings::Droptail { bound },
        QueueSettings::Red {
            bound,
            red: IDLE_RED,
        },
        virtual_queue(Average::Decoupled),
        virtual_queue(Average::Coupled),
        QueueSettings::Priority { bound, red },
    ]
}

fn taken(queue: &mut Queue<u32>, now: Time) -> Vec<u32> {
    std::iter::from_fn(|| queue.take(now).map(|packet| packet.content)).collect()
}

#[test]
fn one_fifo_keeps_the_order_whatever_the_marks_and_pq_sends_in_first() {
    let marks = [Out, In, Out, In, In, Out];
    for settings in kinds(QueueBound::packets(10)) {
        let mut queue = Queue::new(settings, PACKET_TIME, Time::ZERO);
        for (number, mark) in (0..).zip(marks) {
            queue
                .offer(at_ms(1), packet(number, mark, 100), 0.0)
                .unwrap();
        }
        let expected = match settings {
            QueueSettings::Priority { .. } => [1, 3, 4, 0, 2, 5],
            _ => [0, 1, 2, 3, 4, 5],
        };
        assert_eq!(taken(&mut queue, at_ms(2)), expected, "{settings:?}");
        assert!(queue.is_empty());
    }
}

#[test]
fn pq_holds_out_while_in_waits() {
    let mut queue = Queue::new(QueueSettings::sfd_priority(), PACKET_TIME, Time::ZERO);
    queue.offer(at_ms(0), packet(99, Out, 100), 1.0).unwrap();
    queue.offer(at_ms(0), packet(0, In, 100), 1.0).unwrap();
    // As long as one more IN is there whenever one goes, OUT does not.
    for number in 0..1000 {
        queue
            .offer(at_ms(0), packet(number + 1, In, 100), 1.0)
            .unwrap();
        assert_eq!(queue.take(at_ms(0)).unwrap().content, number);
    }
    assert_eq!(taken(&mut queue, at_ms(0)), [1000, 99]);
}

#[test]
fn what_does_not_fit_is_dropped_by_packets_and_by_bytes() {
    for settings in kinds(QueueBound::packets(2)) {
        let mut queue = Queue::new(settings, PACKET_TIME, Time::ZERO);
        queue.offer(at_ms(0), packet(0, In, 1500), 0.0).unwrap();
        queue.offer(at_ms(0), packet(1, In, 40), 0.0).unwrap();
        let refused = queue.offer(at_ms(0), packet(2, In, 40), 0.0).unwrap_err();
        assert_eq!(
            (refused.packet.content, refused.why),
            (2, Refusal::Overflow)
        );
        // Each FIFO of a priority queue has a bound of its own.
        let other = queue.offer(at_ms(0), packet(3, Out, 40), 0.0);
        let separate = matches!(settings, QueueSettings::Priority { .. });
        assert_eq!(other.is_ok(), separate, "{settings:?}");
        assert_eq!(queue.marks()[0].overflow.packets, 1);
    }
    for settings in kinds(QueueBound::bytes(2000)) {
        let mut queue = Queue::new(settings, PACKET_TIME, Time::ZERO);
        queue.offer(at_ms(0), packet(0, In, 1500), 0.0).unwrap();
        assert!(queue.offer(at_ms(0), packet(1, In, 501), 0.0).is_err());
        // A smaller one fits exactly.
        queue.offer(at_ms(0), packet(2, In, 500), 0.0).unwrap();
        assert!(queue.offer(at_ms(0), packet(3, In, 1), 0.0).is_err());
        assert_eq!(taken(&mut queue, at_ms(1)), [0, 2]);
    }
}

/// RED parameters by which the average is the length at the last arrival.
const NOW: RedSettings = RedSettings {
    min_threshold: 1.0,
    max_threshold: 3.0,
    max_probability: 1.0,
    weight: 1.0,
    spread: DropSpread::Even,
};

/// Offers packets of these marks at once, with a draw that drops nothing early; returns
/// which were forced out.
fn forced(settings: QueueSettings, marks: &[Mark]) -> Vec<bool> {
    let mut queue = Queue::new(settings, PACKET_TIME, Time::ZERO);
    let offered = marks.iter().map(|mark| {
        let refused = queue
            .offer(at_ms(0), packet(0, *mark, 100), 0.999_999)
            .err();
        refused.map(|refused| refused.why)
    });
    offered.map(|why| why == Some(Refusal::Forced)).collect()
}

#[test]
fn coupled_and_decoupled_averages_count_what_they_say() {
    let bound = QueueBound::packets(50);
    let loose = RedSettings {
        max_threshold: 100.0,
        min_threshold: 90.0,
        ..NOW
    };
    let settings = |average| QueueSettings::Virtual {
        bound,
        red: [loose, NOW],
        average,
    };
    // Three IN before it: OUT's average is 3 where both classes count, else 0.
    let marks = [In, In, In, Out];
    let forced_out = forced(settings(Average::Coupled), &marks);
    assert_eq!(forced_out, [false, false, false, true]);
    let forced_out = forced(settings(Average::Decoupled), &marks);
    assert_eq!(forced_out, [false; 4]);
    // IN's average never counts OUT.
    let tight_in = |average| QueueSettings::Virtual {
        bound,
        red: [NOW, loose],
        average,
    };
    for average in [Average::Coupled, Average::Decoupled] {
        let marks = [Out, Out, Out, Out, In, In, In, In];
        // The last one finds three IN.
        let expected = [false, false, false, false, false, false, false, true];
        assert_eq!(forced(tight_in(average), &marks), expected, "{average:?}");
    }
}

#[test]
fn counters_tell_marks_and_reasons_apart() {
    let settings = QueueSettings::Red {
        bound: QueueBound::packets(4),
        red: NOW,
    };
    let mut queue = Queue::new(settings, PACKET_TIME, Time::ZERO);
    let offers = [
        // length 0, 1: not above the lower threshold
        (In, 100, 0.0, None),
        (Out, 200, 0.0, None),
        // length 2: pb = 0.5, and count = 0
        (In, 300, 0.4, Some(Refusal::Early)),
        // count = 1: pa = 0.5 / 0.5
        (Out, 400, 0.999, Some(Refusal::Early)),
    ];
    for (mark, bytes, draw, expected) in offers {
        let why = queue
            .offer(at_ms(0), packet(0, mark, bytes), draw)
            .err()
            .map(|refused| refused.why);
        assert_eq!(why, expected);
    }
    queue.take(at_ms(10)).unwrap();
    let [within, out] = queue.marks();
    let amount = |packets, bytes| Amount { packets, bytes };
    assert_eq!(within.arrived, amount(2, 400));
    assert_eq!(within.departed, amount(1, 100));
    assert_eq!(within.early, amount(1, 300));
    assert_eq!(within.length.now(), amount(0, 0));
    assert_eq!(out.arrived, amount(2, 600));
    assert_eq!(out.dropped(), amount(1, 400));
    assert_eq!(out.length.max(), amount(1, 200));
    assert_eq!(queue.length().max(), amount(2, 300));
    assert_eq!(queue.length().mean(at_ms(20)), (1.5, 250.0));
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Offer { mark: bool, bytes: u32, draw: f64 },
    Take,
}

fn steps() -> impl Strategy<Value = Vec<(u64, Step)>> {
    let offer = (any::<bool>(), 0u32..2000, 0.0..1.0f64)
        .prop_map(|(mark, bytes, draw)| Step::Offer { mark, bytes, draw });
    let step = prop_oneof![3 => offer, 2 => Just(Step::Take)];
    prop::collection::vec((0u64..5, step), 0..300)
}

fn any_kind() -> impl Strategy<Value = QueueSettings> {
    let bound =
        (1u64..20, 100u64..20_000).prop_map(|(packets, bytes)| QueueBound { packets, bytes });
    let spread = prop_oneof![Just(DropSpread::Even), Just(DropSpread::Single)];
    let numbers = (0.0..5.0f64, 0.1..10.0f64, 0.0..=1.0f64, 0.0..=1.0f64);
    let red =
        (numbers, spread).prop_map(|((min_threshold, more, max_probability, weight), spread)| {
            RedSettings {
                min_threshold,
                max_threshold: min_threshold + more,
                max_probability,
                weight,
                spread,
            }
        });
    (bound, red, 0..5usize).prop_map(|(bound, red, kind)| {
        let mut settings = kinds(bound)[kind];
        match &mut settings {
            QueueSettings::Droptail { .. } => {}
            QueueSettings::Red { red: own, .. } => *own = red,
            QueueSettings::Virtual { red: own, .. } | QueueSettings::Priority { red: own, .. } => {
                *own = [red; 2];
            }
        }
        settings
    })
}

proptest! {
    #[test]
    fn what_came_in_went_out_was_dropped_or_is_queued(
        settings in any_kind(),
        steps in steps(),
    ) {
        let mut queue = Queue::new(settings, PACKET_TIME, Time::ZERO);
        let mut now = Time::ZERO;
        let (mut offered, mut refused, mut left) = ([0u64; 2], 0u64, Vec::new());
        for (number, (pause_ms, step)) in (0..).zip(steps) {
            now = now + Duration::from_millis(pause_ms);
            match step {
                Step::Offer { mark, bytes, draw } => {
                    let mark = if mark { In } else { Out };
                    offered[mark.index()] += u64::from(bytes);
                    refused += u64::from(queue.offer(now, packet(number, mark, bytes), draw).is_err());
                }
                Step::Take => left.extend(queue.take(now)),
            }
            let mut all = Amount::default();
            for (counters, offered) in queue.marks().iter().zip(offered) {
                let accounted = counters.departed.plus(counters.dropped()).plus(counters.length.now());
                prop_assert_eq!(counters.arrived, accounted);
                prop_assert_eq!(counters.arrived.bytes, offered);
                all = all.plus(counters.length.now());
            }
            prop_assert_eq!(all, queue.length().now());
        }
        let dropped: u64 = queue.marks().iter().map(|counters| counters.dropped().packets).sum();
        prop_assert_eq!(dropped, refused);
        // Within a mark the order is kept by all.
        for mark in Mark::ALL {
            let numbers: Vec<u32> = left.iter().filter(|p| p.mark == mark).map(|p| p.content).collect();
            prop_assert!(numbers.is_sorted());
        }
        if !matches!(settings, QueueSettings::Priority { .. }) {
            prop_assert!(left.iter().map(|p| p.content).is_sorted());
        }
    }
}
