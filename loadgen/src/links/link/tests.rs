use proptest::prelude::*;

use super::*;
use crate::links::{Change, Mark, QueueBound, Refusal};

const US: u64 = 1000;

fn at_us(us: u64) -> Time {
    Time::from_nanos(us * US)
}

fn packet(content: u32, bytes: u32) -> Packet<u32> {
    Packet {
        bytes,
        mark: Mark::In,
        content,
    }
}

/// The rate at which 1,500 bytes take 1 ms.
const RATE: Option<u64> = Some(12_000_000);

fn settings() -> LinkSettings {
    LinkSettings {
        rate_bits_per_s: RATE,
        ..LinkSettings::default()
    }
}

/// Takes every packet that arrives by `until`, with its time in microseconds.
fn arrivals(link: &mut Link<u32>, until: Time) -> Vec<(u64, u32)> {
    std::iter::from_fn(|| link.take_due(until))
        .map(|(due, packet)| (due.as_nanos() / US, packet.content))
        .collect()
}

/// Takes every packet, at the times that `next_event` gives.
fn drain(link: &mut Link<u32>) -> Vec<(u64, u32)> {
    let mut all = Vec::new();
    while let Some(when) = link.next_event() {
        all.extend(arrivals(link, when));
    }
    all
}

const END: Time = Time::from_nanos(u64::MAX / 2);

#[test]
fn packets_take_their_time_one_after_the_other() {
    let mut link = Link::new(settings(), 1, Time::ZERO);
    link.offer(at_us(100), packet(0, 1500)).unwrap();
    link.offer(at_us(100), packet(1, 750)).unwrap();
    link.offer(at_us(200), packet(2, 150)).unwrap();
    assert_eq!(link.next_event(), Some(at_us(1100)));
    assert_eq!(link.take_due(at_us(1099)), None);
    assert_eq!(drain(&mut link), [(1100, 0), (1600, 1), (1700, 2)]);
    // After a pause the link begins anew.
    link.offer(at_us(5000), packet(3, 1500)).unwrap();
    assert_eq!(drain(&mut link), [(6000, 3)]);
    let counters = link.counters();
    assert_eq!(
        (counters.delivered.packets, counters.delivered.bytes),
        (4, 3900)
    );
}

#[test]
fn a_caller_that_is_late_changes_no_time() {
    let mut late = Link::new(settings(), 1, Time::ZERO);
    for number in 0..4 {
        late.offer(Time::ZERO, packet(number, 1500)).unwrap();
    }
    assert_eq!(
        arrivals(&mut late, END),
        [(1000, 0), (2000, 1), (3000, 2), (4000, 3)]
    );
}

#[test]
fn delay_comes_after_the_rate_and_overhead_counts() {
    let delayed = LinkSettings {
        delay: Duration::from_millis(20),
        overhead_bytes: 15,
        ..settings()
    };
    let mut link = Link::new(delayed, 1, Time::ZERO);
    link.offer(Time::ZERO, packet(0, 1485)).unwrap();
    link.offer(Time::ZERO, packet(1, 1485)).unwrap();
    assert_eq!(link.under_way(), 1);
    assert_eq!(drain(&mut link), [(21_000, 0), (22_000, 1)]);
    assert_eq!(link.under_way(), 0);
}

#[test]
fn a_link_without_a_rate_delays_alone() {
    let free = LinkSettings {
        rate_bits_per_s: None,
        delay: Duration::from_millis(5),
        queue: QueueSettings::Droptail {
            bound: QueueBound::packets(1),
        },
        ..LinkSettings::default()
    };
    let mut link = Link::new(free, 1, Time::ZERO);
    for number in 0..100 {
        link.offer(at_us(10), packet(number, 1500)).unwrap();
    }
    let all = drain(&mut link);
    assert_eq!(all.len(), 100);
    assert!(all.iter().all(|(us, _)| *us == 5010));
}

#[test]
fn a_full_queue_drops_and_one_more_is_on_the_wire() {
    let bounded = LinkSettings {
        queue: QueueSettings::Droptail {
            bound: QueueBound::bytes(3000),
        },
        ..settings()
    };
    let mut link = Link::new(bounded, 1, Time::ZERO);
    let refused: Vec<u32> = (0..6)
        .filter_map(|number| link.offer(Time::ZERO, packet(number, 1500)).err())
        .inspect(|refused| assert_eq!(refused.why, Refusal::Overflow))
        .map(|refused| refused.packet.content)
        .collect();
    assert_eq!(refused, [3, 4, 5]);
    assert_eq!(drain(&mut link).len(), 3);
    assert_eq!(link.counters().mark(Mark::In).overflow.packets, 3);
}

fn change(at_ms: u64, mbit: Option<u64>, delay_ms: Option<u64>) -> Change {
    Change {
        at: Duration::from_millis(at_ms),
        rate_bits_per_s: mbit.map(|mbit| mbit * 1_000_000),
        delay: delay_ms.map(Duration::from_millis),
    }
}

#[test]
fn a_rate_that_changes_amid_a_packet_sends_the_rest_at_the_new_one() {
    let changing = LinkSettings {
        schedule: Schedule {
            changes: vec![change(1, Some(6), None), change(5, Some(24), None)],
            repeat: None,
        },
        ..settings()
    };
    let mut link = Link::new(changing, 1, Time::ZERO);
    // Half of it by 1 ms at 12, the other half in 1 ms at 6.
    link.offer(at_us(500), packet(0, 1500)).unwrap();
    link.offer(at_us(500), packet(1, 1500)).unwrap();
    link.offer(at_us(500), packet(2, 1500)).unwrap();
    // The second from 2 to 4 ms; half of the third at 6 Mbit/s, half at 24.
    assert_eq!(link.next_event(), Some(at_us(1000)));
    assert_eq!(drain(&mut link), [(2000, 0), (4000, 1), (5250, 2)]);
    assert_eq!(link.rate_bits_per_s(), Some(24_000_000));
}

#[test]
fn a_schedule_repeats_and_passes_while_the_link_is_idle() {
    let changing = LinkSettings {
        schedule: Schedule {
            changes: vec![change(0, Some(12), None), change(10, Some(6), None)],
            repeat: Some(Duration::from_millis(20)),
        },
        ..settings()
    };
    let mut link = Link::new(changing, 1, Time::ZERO);
    for (number, (offer_ms, arrival_us)) in (0..).zip([
        (5, 6000),
        (15, 17_000),
        (25, 26_000),
        (1_000_015, 1_000_017_000),
    ]) {
        link.offer(at_us(offer_ms * 1000), packet(number, 1500))
            .unwrap();
        assert_eq!(drain(&mut link), [(arrival_us, number)]);
    }
}

#[test]
fn a_shorter_delay_reorders_nothing() {
    let changing = LinkSettings {
        delay: Duration::from_millis(50),
        schedule: Schedule {
            changes: vec![change(1, None, Some(10))],
            repeat: None,
        },
        ..settings()
    };
    let mut link = Link::new(changing, 1, Time::ZERO);
    link.offer(Time::ZERO, packet(0, 1500)).unwrap();
    link.offer(Time::ZERO, packet(1, 1500)).unwrap();
    link.offer(at_us(60_000), packet(2, 1500)).unwrap();
    assert_eq!(drain(&mut link), [(51_000, 0), (51_000, 1), (71_000, 2)]);
}

#[test]
fn loss_is_by_chance_and_takes_its_time_on_the_link() {
    let lossy = LinkSettings {
        loss: 0.1,
        queue: QueueSettings::Droptail {
            bound: QueueBound::packets(100_000),
        },
        ..settings()
    };
    let mut link = Link::new(lossy.clone(), 7, Time::ZERO);
    for number in 0..10_000 {
        link.offer(Time::ZERO, packet(number, 1500)).unwrap();
    }
    let all = drain(&mut link);
    let lost = link.counters().lost.packets;
    assert_eq!(lost + all.len() as u64, 10_000);
    assert!((900..1100).contains(&lost), "{lost}");
    for (us, number) in &all {
        assert_eq!(*us, (u64::from(*number) + 1) * 1000);
    }
    // The same seed, the same losses; another one, others.
    let again = |seed| {
        let mut link = Link::new(lossy.clone(), seed, Time::ZERO);
        for number in 0..10_000 {
            link.offer(Time::ZERO, packet(number, 1500)).unwrap();
        }
        drain(&mut link)
    };
    assert_eq!(again(7), all);
    assert_ne!(again(8), all);
}

#[test]
fn jitter_is_within_its_bound_and_reorders_nothing() {
    let jittery = LinkSettings {
        delay: Duration::from_millis(10),
        jitter: Duration::from_millis(5),
        ..settings()
    };
    let mut link = Link::new(jittery, 3, Time::ZERO);
    let mut waited_us = Vec::new();
    for number in 0..1000u32 {
        let offered_us = u64::from(number) * 20_000;
        link.offer(at_us(offered_us), packet(number, 1500)).unwrap();
        let (arrived_us, _) = drain(&mut link)[0];
        waited_us.push(arrived_us - offered_us);
    }
    assert!(waited_us.iter().all(|us| (11_000..=16_000).contains(us)));
    let mean = waited_us.iter().sum::<u64>() / 1000;
    assert!((13_300..13_700).contains(&mean), "{mean}");
    for number in 0..40 {
        link.offer(END, packet(number, 15)).unwrap();
    }
    let numbers: Vec<u32> = drain(&mut link).into_iter().map(|(_, n)| n).collect();
    assert_eq!(numbers, (0..40).collect::<Vec<_>>());
}

#[test]
fn what_is_under_way_is_bounded() {
    let long = LinkSettings {
        rate_bits_per_s: None,
        delay: Duration::from_secs(1),
        ..LinkSettings::default()
    };
    let mut link = Link::new(long, 1, Time::ZERO);
    for number in 0..FLYING_MAX as u32 + 3 {
        link.offer(Time::ZERO, packet(number, 1)).unwrap();
    }
    assert_eq!(link.counters().crowded.packets, 3);
    assert_eq!(link.under_way(), FLYING_MAX);
}

proptest! {
    #[test]
    fn a_packet_is_somewhere_and_no_faster_than_the_rate(
        offers in prop::collection::vec((0u64..2000, 1u32..1600, any::<bool>()), 1..200),
        kbit in 100u64..100_000,
        loss in 0.0..0.5f64,
        jitter_us in 0u64..3000,
        bound in 1u64..30,
        seed in any::<u64>(),
    ) {
        let settings = LinkSettings {
            rate_bits_per_s: Some(kbit * 1000),
            delay: Duration::from_millis(3),
            jitter: Duration::from_micros(jitter_us),
            loss,
            queue: QueueSettings::sfd_virtual(crate::links::Average::Coupled),
            ..LinkSettings::default()
        };
        let settings = if bound % 2 == 0 {
            settings
        } else {
            let queue = QueueSettings::Droptail { bound: QueueBound::packets(bound) };
            LinkSettings { queue, ..settings }
        };
        let mut link = Link::new(settings, seed, Time::ZERO);
        let mut now = Time::ZERO;
        let mut arrived: Vec<(Time, Packet<usize>)> = Vec::new();
        for (number, (pause_us, bytes, out)) in offers.iter().enumerate() {
            now = now + Duration::from_micros(*pause_us);
            let mark = if *out { Mark::Out } else { Mark::In };
            let _ = link.offer(now, Packet { bytes: *bytes, mark, content: number });
            arrived.extend(std::iter::from_fn(|| link.take_due(now)));
            let counters = link.counters();
            let departed = counters.marks[0].departed.plus(counters.marks[1].departed);
            let left = counters.delivered.plus(counters.lost);
            prop_assert_eq!(departed.packets, left.packets + link.under_way() as u64);
        }
        while let Some(when) = link.next_event() {
            arrived.extend(std::iter::from_fn(|| link.take_due(when)));
        }
        prop_assert!(arrived.is_sorted_by(|a, b| a.0 <= b.0 && a.1.content < b.1.content));
        let bits: u64 = arrived.iter().map(|(_, packet)| u64::from(packet.bytes) * 8).sum();
        if let Some((last, _)) = arrived.last() {
            // Delay and jitter only take longer.
            prop_assert!(u128::from(bits) * 1_000_000_000 <= u128::from(kbit * 1000) * u128::from(last.as_nanos()));
        }
    }
}
