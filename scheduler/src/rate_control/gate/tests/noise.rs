//! What the gate learns of clean round trips, and for how long a queue is as long as noise.

use super::*;

#[test]
fn noise_is_of_clean_probes_over_an_idle_link() {
    // Of others one that is late may have met a queue of its client's.
    for (predicted_s, is_clean, is_noise, quiet) in [
        (0.000_9, true, true, 2),
        (IDLE_S, true, false, 0),
        (0.002, true, false, 0),
        (0.000_9, false, false, 1),
    ] {
        let mut gate = gate();
        learn(&mut gate, predicted_s, is_clean);
        // An eighth of 1.5 x 4 ms.
        let noise_s = gate.clients.get(at(200), 1).noise_s;
        let expected_s = if is_noise { 0.000_75 } else { 0.0 };
        assert!((noise_s - expected_s).abs() < 1e-6, "{predicted_s}");
        assert_eq!(gate.quiet, quiet);
    }
}

#[test]
fn a_delay_below_a_millisecond_is_quiet_whatever_is_under_way() {
    for (second_ms, quiet) in [(10, 2), (11, 1), (14, 1)] {
        let mut gate = gate();
        learn_of(&mut gate, 0.0, false, [10, second_ms]);
        assert_eq!(gate.quiet, quiet, "{second_ms}");
    }
}

#[test]
fn short_queues_tell_nothing_before_delays_without_one_were_heard() {
    for (quiet, predicted_s, tells) in [
        (2, 0.012, false),
        (2, 0.013, true),
        (3, 0.005, true),
        (3, 0.002, false),
    ] {
        let mut gate = gate();
        gate.quiet = quiet;
        gate.clients.get(at(0), 1).trust(true);
        // The first comes back as if there were no queue.
        learn(&mut gate, predicted_s, false);
        let refuted = gate.evidence.refuted_share(index_of(1e8)) > 0.0;
        assert_eq!(refuted, tells, "{quiet} {predicted_s}");
    }
}

#[test]
fn the_noise_of_all_follows_by_a_64th() {
    let mut gate = gate();
    gate.noise_s = 0.003_2;
    gate.clients.get(at(0), 1).noise_s = 0.009_6;
    learn(&mut gate, 0.0, false);
    // Twice.
    let expected_s = 0.009_6 - 0.006_4 * (63.0f32 / 64.0).powi(2);
    assert!((gate.noise_s - expected_s).abs() < 1e-8, "{}", gate.noise_s);
}

#[test]
fn a_queue_may_get_longer_than_noise() {
    let mut gate = gate();
    assert_eq!(gate.clip_s(), f32::INFINITY);
    for _ in 0..32 {
        gate.delays.add(at(0), 0.01);
    }
    assert!((gate.clip_s() - 0.011).abs() < 1e-6);
    gate.noise_s = 0.005;
    assert!((gate.clip_s() - 0.03).abs() < 1e-6);
}

#[test]
fn a_probe_is_clean_while_little_of_its_clients_is_under_way() {
    let mut gate = gate();
    // 3,000 bytes are under way when the second socket sends, and 3,001 when the third does.
    for (socket, bytes, is_clean) in [(1, 3000, true), (2, 1, true), (3, 1, false)] {
        gate.on_sent(at(socket), sent(socket, bytes, bytes));
        let (probe, _) = gate.probes.acknowledge(socket, bytes).unwrap();
        assert_eq!(probe.is_clean, is_clean, "{socket}");
    }
}

#[test]
fn the_search_is_told_of_noise() {
    let mut gate = gate();
    gate.noise_s = 0.25;
    gate.on_poll(at(1), &[], false);
    assert_eq!(gate.control.noise_s, 0.25);
}

#[test]
fn a_queue_may_get_as_long_as_a_pulse_makes_it() {
    let mut gate = gate();
    for _ in 0..32 {
        gate.delays.add(at(0), 0.001);
    }
    assert!((gate.clip_s() - 0.003).abs() < 1e-6);
    for poll in 0..40 {
        gate.pulses.on_poll(at(10 * poll), true, 1e7, 0.0, 0.0);
    }
    assert!((gate.clip_s() - 0.003).abs() < 1e-6, "none is sent");
    gate.state = GateState::Engaged {
        since: at(0),
        anchor: 1e7,
        noise_s: 0.0,
        at_ceiling: None,
    };
    // A quarter more for 24 ms, twice.
    assert!((gate.clip_s() - 0.012).abs() < 1e-6, "{}", gate.clip_s());
}
