//! Tests of the gate, one call at a time, and what they share.

mod bounds;
mod ends;
mod host;
mod links;
mod noise;

use super::*;

const MBIT: u64 = 1_000_000;
const SEGMENT_BYTES: u64 = 1448;
const WIRE: u64 = 1514;
const MS: Duration = Duration::from_millis(1);
const NANO: Duration = Duration::from_nanos(1);

fn at(ms: u64) -> Time {
    Time::from_nanos(ms * 1_000_000)
}

fn gate() -> Gate {
    Gate::new(&GateConfig::default())
}

fn sent(socket: u64, first_sent: u64, wire_bytes: u64) -> Sent {
    Sent {
        socket,
        network: 1,
        first_sent,
        bytes_acked: 0,
        repeated: 0,
        news: News {
            wire_bytes,
            ..News::default()
        },
    }
}

fn sample(socket: u64, bytes_acked: u64) -> GateSample {
    GateSample {
        socket,
        bytes_acked,
        min_rtt: Duration::MAX,
        repeated: 0,
        host: HostSample::default(),
    }
}

/// Adds `count` acknowledgements of one client, each `delay_s` late, for which link `index`
/// predicts 0.1 s and all others nothing.
fn observe(gate: &mut Gate, now: Time, count: usize, index: usize, delay_s: f32) {
    let mut predicted = [0.0; bank::RATES];
    predicted[index] = 0.1;
    for _ in 0..count {
        let seen = Observation {
            client: 1,
            predicted: &predicted,
            delay_s,
            clean: false,
            in_pulse: false,
            noise_s: 0.0,
            least_s: NOTABLE_S,
            clip_s: 1.0,
        };
        gate.evidence.add(now, &gate.bank, &seen);
    }
}

/// Adds as many delays as it takes for the least of them to count.
fn delay(gate: &mut Gate, now: Time, delay_s: f32) {
    for _ in 0..6 {
        gate.delays.add(now, delay_s);
    }
}

/// Delivers at `rate`, in bits per second, in the quarter of a second before `now`.
fn deliver(gate: &mut Gate, now: Time, rate: f64) {
    gate.delivered.add(now - 250 * MS, (rate / 32.0) as u64);
    gate.delivered.add(now, 0);
}

/// Returns a gate that engaged at 100 s, at `anchor`, and whose search has come to `found`,
/// both in bits per second.
fn engaged(anchor: f64, found: f64) -> Gate {
    let mut gate = gate();
    gate.control.restart(at(100_000), found);
    gate.learnt_at = at(100_000);
    gate.state = GateState::Engaged {
        since: at(100_000),
        anchor,
        noise_s: 0.0,
        at_ceiling: None,
    };
    gate
}

/// Guides the gate at the time `after` its engagement, and returns whether it stays engaged.
fn lasts(gate: &mut Gate, after: Duration, backlogged: bool) -> bool {
    gate.guide(at(100_000) + after, backlogged);
    gate.is_engaged()
}

/// Makes the gate learn of two round trips, 10 and 14 ms long, for which every link
/// predicts `predicted_s`.
fn learn(gate: &mut Gate, predicted_s: f32, is_clean: bool) {
    learn_of(gate, predicted_s, is_clean, [10, 14]);
}

/// Makes the gate learn of two round trips, as long as `rtts_ms`.
fn learn_of(gate: &mut Gate, predicted_s: f32, is_clean: bool, rtts_ms: [u64; 2]) {
    for (ms, rtt_ms) in [0, 100].into_iter().zip(rtts_ms) {
        let probe = Probe {
            socket: ms,
            network: 1,
            position: 1,
            repeated: 0,
            sent_at: at(ms),
            is_clean,
            is_big: false,
        };
        gate.probes.push(probe, || [predicted_s; bank::RATES]);
        let (probe, slot) = gate.probes.acknowledge(ms, 1).unwrap();
        gate.learn(at(ms + rtt_ms), &probe, slot, Duration::MAX);
    }
}

#[test]
fn what_is_found_is_told_while_engaged() {
    assert_eq!(gate().found(), None);
    let found = engaged(1e7, 1e7).found().unwrap();
    assert_eq!(found.rate_bits_per_s, 10 * MBIT);
    assert_eq!(found.queue, Duration::ZERO);
}

#[test]
fn what_leaves_the_host_waits_on_the_links() {
    let mut gate = gate();
    gate.on_overhead(at(0), 500);
    // 500 bytes take 10 ms at 0.4 Mbit/s.
    assert!((gate.bank.delays()[0] - 0.010).abs() < 1e-6);
    gate.on_sent(at(0), sent(1, 1448, 1000));
    assert!((gate.bank.delays()[0] - 0.030).abs() < 1e-6);
}

#[test]
fn the_search_hears_of_writes() {
    let mut gate = gate();
    gate.on_write(
        at(0),
        Write {
            socket: 7,
            network: 1,
            written: 10,
            position: 10,
        },
    );
    let mut wanted = Vec::new();
    gate.wanted(at(1), &mut wanted);
    assert_eq!(wanted, [7]);
    gate.on_close(7);
    gate.wanted(at(1), &mut wanted);
    assert!(wanted.is_empty());
}

#[test]
fn a_probe_is_big_from_a_segment_on() {
    let mut gate = gate();
    gate.on_sent(at(0), sent(1, 1000, BIG_BYTES - 1));
    gate.on_sent(at(1), sent(2, 1000, BIG_BYTES));
    let is_big = |gate: &mut Gate, socket| gate.probes.acknowledge(socket, 1000).unwrap().0.is_big;
    assert!(!is_big(&mut gate, 1));
    assert!(is_big(&mut gate, 2));
}

#[test]
fn a_socket_that_closes_has_nothing_under_way() {
    let mut gate = gate();
    gate.on_sent(at(0), sent(1, 5000, 5200));
    assert_eq!(gate.clients.get(at(0), 1).unacked_bytes, 5000);
    gate.on_close(1);
    assert_eq!(gate.clients.get(at(0), 1).unacked_bytes, 0);
    assert!(gate.sockets.is_empty());
    assert!(gate.probes.acknowledge(1, 5000).is_none());
}

#[test]
fn it_rests_while_nothing_is_late_and_nothing_engaged() {
    let heard = |mut gate: Gate| {
        for _ in 0..60 {
            gate.attention.hear(Some(0.0));
        }
        gate
    };
    assert_eq!(gate().rest(at(100_000)), None);
    assert_eq!(heard(gate()).rest(at(100_000)), Some(950 * MS));
    assert_eq!(heard(engaged(1e7, 1e7)).rest(at(100_000)), None);
}

#[test]
fn what_is_acknowledged_is_no_longer_under_way() {
    let mut gate = gate();
    gate.on_sent(at(0), sent(1, 14_480, 15_140));
    gate.hear(at(250), &sample(1, 0), false);
    gate.hear(at(250), &sample(1, 4480), false);
    assert_eq!(gate.clients.get(at(250), 1).unacked_bytes, 10_000);
    gate.hear(at(250), &sample(1, 14_480), false);
    assert_eq!(gate.clients.get(at(250), 1).unacked_bytes, 0);
    assert!(gate.sockets.is_empty());
    // In full segments, less what is rounded: 4684 and 10,455 bytes in a quarter of a second.
    gate.delivered.add(at(500), 0);
    let most = gate.delivered.most(at(500), SECOND).unwrap();
    assert!((most - 15_139.0 * 32.0).abs() < 1e-6, "{most}");
}

#[test]
fn a_socket_with_nothing_under_way_is_let_go() {
    let mut gate = gate();
    gate.on_sent(
        at(0),
        Sent {
            bytes_acked: 1000,
            ..sent(1, 1000, 40)
        },
    );
    assert_eq!(gate.sockets.len(), 1);
    gate.hear(at(1), &sample(1, 1000), false);
    assert!(gate.sockets.is_empty());
}
