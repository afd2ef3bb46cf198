//! The gate and the queue of the host's own link.

use super::*;

/// The host's part of a sample where one packet more waits than TCP's pacing explains.
const HELD: HostSample = HostSample {
    waiting_memory_bytes: 6000,
    unsent_bytes: 1,
    pacing_bytes_per_s: 2_896_000,
    sacked_bytes: 0,
};

/// A link that carries a full segment in a millisecond, in bits per second.
const CARRIED: f64 = 12_112_000.0;

/// Lets a socket send and have acknowledged a segment in each millisecond of `ms`, each 10 ms
/// after it was sent, and tells the gate `host` in each poll. Returns the millisecond at which the
/// gate engages.
fn hold(gate: &mut Gate, ms: std::ops::Range<u64>, host: HostSample) -> Option<u64> {
    let from = ms.start;
    let mut engaged = None;
    for ms in ms {
        let first_sent = (ms - from + 10) * SEGMENT_BYTES;
        gate.on_sent(at(ms), sent(1, first_sent, WIRE));
        let sample = GateSample {
            host,
            ..sample(1, first_sent - 10 * SEGMENT_BYTES)
        };
        gate.on_poll(at(ms), &[sample], false);
        if gate.is_engaged() {
            engaged.get_or_insert(ms);
        }
    }
    engaged
}

#[test]
fn a_full_link_of_the_host_is_proven_in_a_quarter_of_a_second() {
    let mut gate = gate();
    // All delays are alike: the bank has nothing to go by.
    assert_eq!(hold(&mut gate, 1000..1253, HELD), Some(1252));
    let found = gate.control.anchor_bits_per_s();
    assert!(found.abs_diff(CARRIED as u64) <= 1, "{found}");
    assert!(gate.control().rate_bits_per_s < 2 * found);
}

#[test]
fn what_arrives_behind_a_lost_segment_is_carried_when_it_arrives() {
    let mut gate = gate();
    // A segment is lost, and acknowledgements stand still until it was sent again.
    let mut engaged = None;
    for ms in 1000..1253 {
        let sent_bytes = (ms - 990) * SEGMENT_BYTES;
        gate.on_sent(at(ms), sent(1, sent_bytes, WIRE));
        let arrived_bytes = sent_bytes - 10 * SEGMENT_BYTES;
        let acked_bytes = match ms {
            1100..1252 => 100 * SEGMENT_BYTES,
            _ => arrived_bytes,
        };
        let sacked_bytes = arrived_bytes - acked_bytes;
        let host = HostSample {
            sacked_bytes,
            ..HELD
        };
        let sample = GateSample {
            host,
            ..sample(1, acked_bytes)
        };
        gate.on_poll(at(ms), &[sample], false);
        if gate.is_engaged() {
            engaged.get_or_insert(ms);
        }
    }
    assert_eq!(engaged, Some(1252));
    let found = gate.control.anchor_bits_per_s();
    assert!(found.abs_diff(CARRIED as u64) <= 1, "{found}");
}

/// Holds a link of the host for a quarter of a second, with what `interrupt` adds in the middle of
/// it; returns the link's rate as the gate has it then.
fn found_despite(
    mut interrupt: impl FnMut(&mut Gate, u64, &mut Sent, &mut Vec<GateSample>),
) -> u64 {
    let mut gate = gate();
    for ms in 1000..1253 {
        assert!(!gate.is_engaged(), "{ms}");
        let first_sent = (ms - 990) * SEGMENT_BYTES;
        let mut sent = sent(1, first_sent, WIRE);
        let mut samples = vec![GateSample {
            host: HELD,
            ..sample(1, first_sent - 10 * SEGMENT_BYTES)
        }];
        interrupt(&mut gate, ms, &mut sent, &mut samples);
        gate.on_sent(at(ms), sent);
        gate.on_poll(at(ms), &samples, false);
    }
    assert!(gate.is_engaged());
    gate.control.anchor_bits_per_s()
}

#[test]
fn what_was_under_way_when_a_socket_became_known_is_carried_when_it_arrives() {
    // The driver gives the socket up, and follows it again.
    let found = found_despite(|gate, ms, sent, _| {
        if ms == 1100 {
            gate.on_close(1);
            sent.bytes_acked = sent.first_sent - 11 * SEGMENT_BYTES;
            sent.news.left_before = sent.first_sent - SEGMENT_BYTES;
        }
    });
    assert!(found.abs_diff(CARRIED as u64) <= 1, "{found}");
}

#[test]
fn what_was_passed_over_is_not_carried_again() {
    const BEFORE: u64 = 100 * SEGMENT_BYTES;
    // Before the link was full the gate was told of what another socket had taken.
    let found = found_despite(|gate, ms, _, samples| {
        if ms == 1000 {
            gate.on_overhead(at(ms), 100 * WIRE);
        }
        if ms < 1100 {
            return;
        }
        if ms == 1100 {
            let mut other = sent(2, BEFORE + 1, 67);
            other.news.passed_over = BEFORE;
            gate.on_sent(at(ms), other);
        }
        // It arrives by and by.
        samples.push(sample(2, BEFORE.min((ms - 1099) * SEGMENT_BYTES)));
    });
    // A packet of 67 bytes within a quarter of a second.
    assert!(found.abs_diff(CARRIED as u64) < 4000, "{found}");
}

#[test]
fn what_the_sockets_held_before_the_search_does_not_bring_it_down() {
    let mut gate = engaged(CARRIED, 6e6);
    hold(&mut gate, 100_001..100_254, HELD);
    let found = gate.control.anchor_bits_per_s() as f64;
    assert!((found / CARRIED - SLOWER).abs() < 1e-3, "{found}");
}

#[test]
fn acknowledgements_that_told_no_delay_before_have_their_time_to_do_so() {
    let mut gate = gate();
    for ms in 10_000..10_253 {
        let first_sent = (ms - 9_990) * SEGMENT_BYTES;
        gate.on_sent(at(ms), sent(1, first_sent, WIRE));
        // Something was sent again since, so that it is not known what is acknowledged.
        let sample = GateSample {
            host: HELD,
            repeated: 1,
            ..sample(1, first_sent - 10 * SEGMENT_BYTES)
        };
        gate.on_poll(at(ms), &[sample], true);
    }
    assert!(gate.is_engaged());
    let end = at(10_252) + DEAF;
    gate.guide(end - NANO, true);
    assert!(gate.is_engaged());
    gate.guide(end, true);
    assert!(!gate.is_engaged());
}

#[test]
fn where_the_kernel_tells_nothing_of_the_host_nothing_is_proven() {
    let mut open = gate();
    assert_eq!(hold(&mut open, 1000..4000, HostSample::default()), None);
    let bare = HostSample {
        unsent_bytes: 0,
        ..HELD
    };
    assert_eq!(hold(&mut gate(), 1000..4000, bare), None);
}

#[test]
fn after_mistakes_the_hosts_link_has_to_be_full_for_longer() {
    for (fails, ms) in [(0, 1252), (1, 1502), (2, 2002), (9, 5002)] {
        let mut gate = gate();
        gate.fails = fails;
        assert_eq!(hold(&mut gate, 1000..6000, HELD), Some(ms), "{fails}");
    }
}

#[test]
fn what_acknowledgements_refute_is_not_the_hosts_link() {
    // What was refuted before a measurement began may have been so then.
    for (refuted, at_ms, ms) in [
        (1.05, 1150, 1252),
        (1.25, 1150, 1503),
        (1.25, 1003, 1503),
        (1.25, 1002, 1252),
    ] {
        let mut gate = gate();
        observe(&mut gate, at(at_ms), 20, index_of(refuted * CARRIED), 0.0);
        assert_eq!(hold(&mut gate, 1000..3000, HELD), Some(ms), "{refuted}");
    }
}

#[test]
fn a_link_of_the_host_that_carries_the_named_rate_is_not_slower() {
    for (named, engages) in [(12_100_000, false), (12_172_000, false), (12_174_000, true)] {
        let mut gate = Gate::new(&GateConfig {
            named_bits_per_s: Some(named),
        });
        assert_eq!(
            hold(&mut gate, 1000..1300, HELD).is_some(),
            engages,
            "{named}"
        );
        assert!(gate.control().rate_bits_per_s <= named);
    }
}

#[test]
fn a_link_of_the_host_that_gets_slower_is_followed_at_once() {
    for (found, falls) in [
        (1e8, true),
        (16_000_000.0, true),
        // A link that carries 0.8 of the pacer's rate may still be busy with what waited before.
        (15_000_000.0, false),
        (13_000_000.0, false),
    ] {
        let mut gate = engaged(found, found);
        gate.floors = vec![(at(100_000), 5)];
        hold(&mut gate, 100_001..100_254, HELD);
        let expected = if falls { CARRIED } else { found };
        let came_to = gate.control.anchor_bits_per_s();
        assert!(came_to.abs_diff(expected as u64) <= 1, "{found}: {came_to}");
        let GateState::Engaged { since, anchor, .. } = gate.state else {
            panic!("open");
        };
        assert_eq!(since, at(100_000));
        assert!((anchor - expected).abs() < 1.0, "{anchor}");
        assert_eq!(gate.floors.is_empty(), falls);
    }
}

#[test]
fn a_full_link_of_the_host_is_no_idle_one() {
    // The first poll comes after a long time, and the second begins the measurement.
    for (polls, is_idle) in [(9, true), (10, false)] {
        let mut gate = gate();
        hold(&mut gate, 1000..1000 + polls, HELD);
        gate.probes = ProbeSet::default();
        gate.quiet = 0;
        learn(&mut gate, 0.0, true);
        assert_eq!(gate.quiet, if is_idle { 2 } else { 0 });
    }
}

#[test]
fn packets_that_wait_for_their_own_time_hide_no_idle_link() {
    // They leave as fast as TCP paces them, which is known after a quarter of a second.
    let paced = HostSample {
        pacing_bytes_per_s: 1_448_000,
        ..HELD
    };
    for (polls, is_idle) in [(252, false), (253, true)] {
        let mut gate = gate();
        assert_eq!(hold(&mut gate, 1000..1000 + polls, paced), None);
        gate.probes = ProbeSet::default();
        gate.quiet = 0;
        learn(&mut gate, 0.0, true);
        assert_eq!(gate.quiet, if is_idle { 2 } else { 0 });
    }
}

#[test]
fn a_full_link_of_the_host_keeps_it_attentive() {
    for (host, rest) in [(HostSample::default(), Some(950 * MS)), (HELD, None)] {
        let mut gate = gate();
        hold(&mut gate, 100_000..100_100, host);
        assert_eq!(gate.rest(at(100_100)), rest);
    }
}
