//! Tests of the gate over simulated links: without TCP, and with writes that the pacer holds back.

use std::collections::{BTreeMap, VecDeque};

use super::*;

const MBIT: u64 = 1_000_000;
const SEGMENT_BYTES: u64 = 1448;
const WIRE: u64 = 1514;

/// A first-in-first-out link, by the time at which the next packet can begin, in seconds.
#[derive(Clone, Copy, Default)]
struct Fifo(f64);

impl Fifo {
    /// Returns when a packet that comes at `at_s` has left; `None` if it would wait for longer than
    /// `longest_s`.
    fn pass(&mut self, at_s: f64, bytes: u64, mbit: f64, longest_s: f64) -> Option<f64> {
        if self.0 - at_s > longest_s {
            return None;
        }
        self.0 = self.0.max(at_s) + bytes as f64 * 8.0 / (mbit * 1e6);
        Some(self.0)
    }
}

/// A test bed: links, clients and their requests.
struct Bed {
    gate: Gate,
    /// The shared link's rate, by the time in seconds.
    shared_mbit: fn(f64) -> f64,
    /// The rate of each client's own link.
    own_mbit: fn(u64) -> f64,
    longest_s: f64,
    jitter_s: f64,
    clients: u64,
    offered_mbit: f64,
    random: u64,
    shared: Fifo,
    own: Vec<Fifo>,
    /// The responses that wait, each as client, segments left and socket.
    waiting: VecDeque<(u64, u64, u64)>,
    /// The bytes written to each socket so far, and the times at which they will be acknowledged.
    written: BTreeMap<u64, (u64, VecDeque<(f64, u64)>)>,
    acked: BTreeMap<u64, u64>,
    position: u64,
    free_s: f64,
    next_request_s: f64,
    sockets: u64,
    delivered: u64,
    /// The time and rate at each engagement; `lowest_mbit` is the lowest rate while engaged.
    engaged: Vec<(f64, f64)>,
    lowest_mbit: f64,
}

fn bed(shared_mbit: fn(f64) -> f64, own_mbit: fn(u64) -> f64, offered_mbit: f64) -> Bed {
    Bed {
        gate: Gate::new(&GateConfig::default()),
        shared_mbit,
        own_mbit,
        longest_s: 0.2,
        jitter_s: 0.0,
        clients: 8,
        offered_mbit,
        random: 1,
        shared: Fifo::default(),
        own: vec![Fifo::default(); 8],
        waiting: VecDeque::new(),
        written: BTreeMap::new(),
        acked: BTreeMap::new(),
        position: 0,
        free_s: 0.0,
        next_request_s: 0.0,
        sockets: 0,
        delivered: 0,
        engaged: Vec::new(),
        lowest_mbit: f64::INFINITY,
    }
}

fn time(at_s: f64) -> Time {
    Time::from_nanos((at_s * 1e9) as u64)
}

impl Bed {
    fn uniform(&mut self) -> f64 {
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.random >> 33) as f64 / (1u64 << 31) as f64
    }

    fn run(&mut self, from_s: f64, to_s: f64) {
        let polls = ((to_s - from_s) / 0.0008) as u64;
        for poll in 0..polls {
            let now_s = from_s + poll as f64 * 0.0008;
            self.ask(now_s);
            self.send(now_s);
            self.poll(now_s);
        }
    }

    /// Adds requests of 1 to 10 segments.
    fn ask(&mut self, now_s: f64) {
        while self.next_request_s <= now_s {
            let segments = 1 + (self.uniform().powi(2) * 10.0) as u64;
            let client = (self.uniform() * self.clients as f64) as u64;
            self.sockets += 1;
            self.waiting.push_back((client, segments, self.sockets));
            let mean_s = 4.0 * WIRE as f64 * 8.0 / (self.offered_mbit * 1e6);
            self.next_request_s -= mean_s * (1.0 - self.uniform()).ln();
        }
    }

    /// Sends what the pacer lets go: all at once if it is open, or a segment at a time.
    fn send(&mut self, now_s: f64) {
        let rate = self.gate.control().rate_bits_per_s;
        while self.free_s <= now_s
            && let Some((client, left, socket)) = self.waiting.pop_front()
        {
            let segments = if rate > 100 * MBIT { left } else { 1 };
            let wire = segments * WIRE;
            self.position += wire;
            self.free_s = self.free_s.max(now_s - 0.0016) + wire as f64 * 8.0 / rate as f64;
            let now = time(now_s);
            let (written, _) = self.written.entry(socket).or_default();
            *written += segments * SEGMENT_BYTES;
            let written = *written;
            self.gate.on_write(
                now,
                Write {
                    socket,
                    network: client,
                    written,
                    position: self.position,
                },
            );
            self.gate.on_sent(
                now,
                Sent {
                    socket,
                    network: client,
                    first_sent: written,
                    bytes_acked: self.acked.get(&socket).copied().unwrap_or(0),
                    repeated: 0,
                    wire_bytes: wire,
                },
            );
            for segment in 0..segments {
                let upto = written - (segments - 1 - segment) * SEGMENT_BYTES;
                self.travel(now_s, client, socket, upto);
            }
            if left > segments {
                self.waiting.push_front((client, left - segments, socket));
            }
        }
    }

    /// Sends a segment over the shared link, then over the client's own; the base round trip is 10
    /// ms, and 5 ms more from client to client.
    fn travel(&mut self, now_s: f64, client: u64, socket: u64, upto: u64) {
        let (shared, own) = ((self.shared_mbit)(now_s), (self.own_mbit)(client));
        let jitter_s = self.uniform() * self.jitter_s;
        let passed = self.shared.pass(now_s, WIRE, shared, self.longest_s);
        let passed = passed.and_then(|at_s| {
            let own_link = &mut self.own[client as usize];
            own_link.pass(at_s, WIRE, own, self.longest_s)
        });
        // What is lost is never sent again here: the socket is silent.
        if let Some(at_s) = passed {
            let rtt_s = 0.010 + 0.005 * client as f64;
            let acks = &mut self.written.entry(socket).or_default().1;
            let at_s = at_s + rtt_s + jitter_s;
            let at_s = acks.back().map_or(at_s, |last| at_s.max(last.0));
            acks.push_back((at_s, upto));
        }
    }

    fn poll(&mut self, now_s: f64) {
        let now = time(now_s);
        for (&socket, (_, acks)) in &mut self.written {
            while acks.front().is_some_and(|ack| ack.0 <= now_s) {
                if let Some((_, upto)) = acks.pop_front() {
                    self.acked.insert(socket, upto);
                    self.delivered += WIRE;
                }
            }
        }
        let mut wanted = Vec::new();
        self.gate.wanted(now, &mut wanted);
        let sample = |&socket: &u64| GateSample {
            socket,
            bytes_acked: self.acked.get(&socket).copied().unwrap_or(0),
            min_rtt: Duration::MAX,
            repeated: 0,
            host: HostSample::default(),
        };
        let samples: Vec<GateSample> = wanted.iter().map(sample).collect();
        let was = self.gate.is_engaged();
        let backlogged = !self.waiting.is_empty();
        let control = self.gate.on_poll(now, &samples, backlogged);
        let mbit = control.rate_bits_per_s as f64 / 1e6;
        if self.gate.is_engaged() {
            self.lowest_mbit = self.lowest_mbit.min(mbit);
            if !was {
                self.engaged.push((now_s, mbit));
            }
        }
        // Sockets that are done or silent for long.
        let (acked, gate) = (&mut self.acked, &mut self.gate);
        let oldest = self.sockets.saturating_sub(900);
        self.written.retain(|socket, (written, acks)| {
            let gone = *socket < oldest && acks.is_empty()
                || acked.get(socket).is_some_and(|acked| acked >= written) && acks.is_empty();
            let keep = !gone || self.waiting.front().is_some_and(|first| first.2 == *socket);
            if !keep {
                acked.remove(socket);
                gate.on_close(*socket);
            }
            keep
        });
    }
}

fn unlimited(_: u64) -> f64 {
    1e6
}

#[test]
fn a_shared_link_is_found_within_a_second_or_two() {
    let mut bed = bed(|_| 10.0, unlimited, 9.0);
    bed.run(0.0, 5.0);
    let (at_s, mbit) = bed.engaged[0];
    assert!(
        at_s < 2.0 && (8.5..12.0).contains(&mbit),
        "{:?}",
        bed.engaged
    );
    assert!(bed.gate.is_engaged());
    let found = bed.gate.control.anchor_bits_per_s() as f64 / 1e6;
    assert!((9.0..13.0).contains(&found), "{found}");
}

#[test]
fn one_address_is_enough() {
    let mut bed = bed(|_| 10.0, unlimited, 9.0);
    bed.clients = 1;
    bed.run(0.0, 5.0);
    assert!(bed.gate.is_engaged(), "{:?}", bed.engaged);
}

#[test]
fn queues_of_clients_links_never_engage_it() {
    let mut bed = bed(|_| 1e6, |_| 2.0, 9.6);
    bed.run(0.0, 60.0);
    assert!(bed.engaged.is_empty(), "{:?}", bed.engaged);
    assert_eq!(bed.gate.control().rate_bits_per_s, OPEN_BITS_PER_S);
}

#[test]
fn half_of_the_clients_behind_slow_links_do_not_hide_the_shared_one() {
    let own = |client| if client % 2 == 0 { 2.0 } else { 1e6 };
    let mut bed = bed(|_| 10.0, own, 9.0);
    bed.run(0.0, 10.0);
    let (at_s, mbit) = bed.engaged[0];
    assert!(
        at_s < 5.0 && (8.0..13.0).contains(&mbit),
        "{:?}",
        bed.engaged
    );
    assert!(bed.gate.is_engaged());
}

#[test]
fn jitter_does_not_slow_anybody_down() {
    let mut bed = bed(|_| 1e6, unlimited, 20.0);
    bed.jitter_s = 0.003;
    bed.run(0.0, 30.0);
    let delivered = bed.delivered as f64 * 8.0 / 30.0 / 1e6;
    assert!(bed.engaged.len() <= 2, "{:?}", bed.engaged);
    assert!(delivered > 0.95 * 20.0, "{delivered}");
}

#[test]
fn a_queue_that_drops_does_not_make_it_too_slow() {
    let mut bed = bed(|_| 10.0, unlimited, 20.0);
    bed.longest_s = 0.06;
    bed.run(0.0, 10.0);
    for &(_, mbit) in &bed.engaged {
        assert!(mbit > 9.0, "{:?}", bed.engaged);
    }
}

#[test]
fn a_link_that_halves_and_doubles_is_followed() {
    let rate = |at_s| match at_s {
        at_s if at_s < 10.0 => 20.0,
        at_s if at_s < 25.0 => 10.0,
        _ => 20.0,
    };
    // More than it carries at its slowest, so that there is a backlog.
    let mut bed = bed(rate, unlimited, 9.5);
    let mut at_s = 0.0;
    for (to_s, least, most) in [(10.0, 16.0, 40.0), (25.0, 8.0, 13.0), (45.0, 9.0, 1e5)] {
        bed.run(at_s, to_s);
        at_s = to_s;
        // A pulse sends more for a moment, and after it less until its queue is gone.
        let searched = bed.gate.control.control().rate_bits_per_s;
        if bed.gate.is_engaged() && bed.gate.control().rate_bits_per_s > searched {
            bed.run(at_s, at_s + 0.5);
            at_s += 0.5;
        }
        let found = bed.gate.control().rate_bits_per_s as f64 / 1e6;
        assert!(bed.gate.is_engaged() || found > 1000.0);
        let open = !bed.gate.is_engaged();
        assert!(open || (least..most).contains(&found), "{to_s} s: {found}");
    }
}

#[test]
fn a_name_is_never_exceeded() {
    let mut bed = bed(|_| 9.9, unlimited, 10.8);
    bed.gate = Gate::new(&GateConfig {
        named_bits_per_s: Some(11 * MBIT),
    });
    for second in 0..20 {
        bed.run(f64::from(second), f64::from(second + 1));
        assert!(bed.gate.control().rate_bits_per_s <= 11 * MBIT);
    }
    assert!(!bed.engaged.is_empty());
}

#[test]
fn a_link_may_be_named_that_is_slower_than_any_that_is_searched_for() {
    for named in [1, 1_000, 63_999] {
        let mut gate = Gate::new(&GateConfig {
            named_bits_per_s: Some(named),
        });
        gate.on_poll(Time::from_nanos(1_000_000_000), &[], true);
        assert_eq!(gate.control().rate_bits_per_s, named);
    }
}

#[test]
fn memory_is_bounded() {
    let mut gate = Gate::new(&GateConfig::default());
    for socket in 0..10_000u64 {
        let now = Time::from_nanos(socket * 200_000);
        gate.on_sent(
            now,
            Sent {
                socket,
                network: socket,
                first_sent: 1000,
                bytes_acked: 0,
                repeated: 0,
                wire_bytes: 1066,
            },
        );
    }
    assert_eq!(gate.sockets.len(), SOCKETS_MAX);
    let mut wanted = Vec::new();
    gate.wanted(Time::from_nanos(2_000_000_000), &mut wanted);
    assert!(wanted.len() <= GATE_POLL_MAX && wanted.len() > GATE_POLL_MAX / 2);
}

#[test]
fn polls_that_were_kept_from_the_cpu_teach_nothing() {
    let mut bed = bed(|_| 10.0, |_| 1000.0, 9.0);
    for poll in 0..400 {
        let now_s = f64::from(poll) * 0.005;
        bed.ask(now_s);
        bed.send(now_s);
        bed.poll(now_s);
    }
    assert!(bed.delivered > 0);
    assert_eq!(bed.gate.learnt_at, Time::ZERO);
    assert!(!bed.gate.is_engaged());
    bed.run(2.0, 8.0);
    assert!(bed.gate.is_engaged());
}

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
        wire_bytes,
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

#[test]
fn the_least_rate_is_above_what_was_refuted_and_delivered() {
    let mut gate = gate();
    let now = at(20_000);
    assert_eq!(gate.least_rate(now), 0);
    // Links are 6% apart: less a twentieth it is between two of them.
    deliver(&mut gate, now, 1.01 * rate_of(40));
    assert_eq!(gate.least_rate(now), 40);
    gate.floors = vec![(now, 37), (now, 47), (now, 42)];
    assert_eq!(gate.least_rate(now), 47);
}

#[test]
fn queues_of_the_bank_are_shortened_each_second() {
    let mut gate = gate();
    let now = at(10_000);
    gate.shortened_at = now - SECOND;
    gate.on_overhead(now, 5000);
    delay(&mut gate, now, 0.004);
    gate.shorten(now - NANO);
    assert!(gate.bank.delays()[0] > 0.09);
    gate.shorten(now);
    assert!((gate.bank.delays()[0] - 0.006).abs() < 1e-6);
}

#[test]
fn a_floor_counts_for_ten_seconds() {
    let floors = |after: Duration| {
        let mut gate = gate();
        gate.floors = vec![(at(1000), 5)];
        gate.decide(at(1000) + after);
        gate.floors.len()
    };
    assert_eq!(floors(10 * SECOND - NANO), 1);
    assert_eq!(floors(10 * SECOND), 0);
    assert_eq!(floors(11 * SECOND), 0);
}

#[test]
fn a_floor_takes_the_place_of_lower_ones() {
    let mut gate = gate();
    let now = at(5000);
    gate.decided_at = now;
    gate.floors = vec![(at(4000), 5), (at(4000), 10), (at(4000), 20)];
    observe(&mut gate, now, 9, 10, 0.0);
    gate.decide(now);
    assert_eq!(gate.floors, [(at(4000), 20), (now, 10)]);
}

/// Gives the gate `count` acknowledgements that the bank's link of about 10 Mbit/s explains,
/// where little was delivered, and returns the rate of that link.
fn explained(mut gate: Gate, count: usize) -> (Gate, f64) {
    let link = index_of(1e7);
    deliver(&mut gate, at(100_000), 1e6);
    gate.decided_at = at(100_000);
    observe(&mut gate, at(100_000), count, link, 0.1);
    (gate, rate_of(link))
}

#[test]
fn the_search_stays_above_a_quarter_of_what_explains_the_delays() {
    let (mut gate, link) = explained(engaged(1e6, 1e6), 30);
    gate.decide(at(100_000));
    assert_eq!(gate.control.anchor_bits_per_s(), (0.25 * link) as u64);
}

#[test]
fn each_mistake_doubles_what_is_needed() {
    for (fails, count, engages) in [
        (0, 24, false),
        (0, 25, true),
        (1, 49, false),
        (1, 50, true),
        (2, 99, false),
        (2, 100, true),
        (4, 399, false),
        (9, 400, true),
    ] {
        let (mut gate, link) = explained(gate(), count);
        gate.fails = fails;
        gate.decide(at(100_000));
        assert_eq!(gate.is_engaged(), engages, "{fails}: {count}");
        if engages {
            assert_eq!(gate.control.anchor_bits_per_s(), link as u64);
        }
    }
}

#[test]
fn a_link_explains_the_delays_of_as_many_clients_as_were_heard() {
    let now = at(100_000);
    let (mut gate, link) = explained(gate(), 30);
    assert_eq!(gate.explained(now, NEEDED), Some(link));
    for client in 1..=2 {
        let client = gate.clients.get(now, client);
        client.delay_s(now, MS, Duration::MAX, None);
    }
    // One of two.
    assert_eq!(gate.explained(now, NEEDED), None);
    let later = now + 3 * SECOND;
    deliver(&mut gate, later, 1e6);
    assert_eq!(gate.explained(later, NEEDED), None);
    assert_eq!(gate.explained(later + NANO, NEEDED), Some(link));
}

#[test]
fn a_link_that_explains_the_delays_is_not_slower_than_what_was_delivered() {
    let now = at(100_250);
    for (part, explains) in [(1.03, true), (1.5, false)] {
        let (mut gate, link) = explained(gate(), 30);
        deliver(&mut gate, now, part * link);
        assert_eq!(gate.explained(now, NEEDED).is_some(), explains, "{part}");
        // What was delivered before tells no more, and nothing does.
        let later = now + 1101 * MS;
        assert_eq!(gate.explained(later, NEEDED), None);
        deliver(&mut gate, later, 1e6);
        assert_eq!(gate.explained(later, NEEDED), Some(link));
    }
}

#[test]
fn the_search_stays_above_what_is_refuted_while_there_is_no_queue() {
    for (least_s, raised) in [(0.009, true), (0.01, false), (0.02, false)] {
        let mut gate = engaged(500_000.0, 500_000.0);
        observe(&mut gate, at(100_000), 9, 10, 0.0);
        delay(&mut gate, at(100_000), least_s);
        assert!(lasts(&mut gate, Duration::ZERO, false));
        let floor = if raised { rate_of(10) } else { 500_000.0 };
        assert_eq!(gate.control.anchor_bits_per_s(), floor as u64, "{least_s}");
    }
}

#[test]
fn the_anchor_at_first_follows_slowly_after_five_seconds() {
    for (after, expected) in [
        (4 * SECOND, 1e7),
        (5 * SECOND, 1e7),
        (5 * SECOND + NANO, 1.001e7),
        (6 * SECOND, 1.001e7),
    ] {
        let mut gate = engaged(1e7, 2e7);
        assert!(lasts(&mut gate, after, false));
        let GateState::Engaged { anchor, .. } = gate.state else {
            panic!("open");
        };
        assert!((anchor - expected).abs() < 1e-3, "{after:?}: {anchor}");
    }
}

#[test]
fn a_search_at_its_ceiling_gives_up() {
    // Half a hundredth below 1 Gbit/s.
    for (found, named, patience, ends) in [
        (9.94e8, None, 10, false),
        (9.95e8, None, 10, true),
        (9.96e8, None, 10, true),
        (1e9, None, 9, false),
        (1e7, None, 60, false),
        (1e9, Some(1000 * MBIT), 59, false),
        (1e9, Some(1000 * MBIT), 60, true),
    ] {
        let mut gate = engaged(9e8, found);
        gate.named_bits_per_s = named;
        assert!(lasts(&mut gate, SECOND, false));
        let after = (1 + patience) * SECOND;
        assert_eq!(lasts(&mut gate, after, false), !ends, "{found}: {patience}");
    }
}

#[test]
fn time_at_the_ceiling_begins_anew_below_it() {
    let mut gate = engaged(9e8, 1e9);
    assert!(lasts(&mut gate, SECOND, false));
    gate.control.restart(at(105_000), 9e8);
    assert!(lasts(&mut gate, 5 * SECOND, false));
    gate.control.restart(at(106_000), 1e9);
    assert!(lasts(&mut gate, 6 * SECOND, false));
    assert!(lasts(&mut gate, 12 * SECOND, false));
    assert!(!lasts(&mut gate, 16 * SECOND, false));
}

#[test]
fn a_search_that_has_left_its_link_gives_up() {
    for (anchor, found, stays) in [
        (1e7, 2.5e7, true),
        (1e7, 2.500_001e7, false),
        (1e7, 9.94e8, false),
        (1e7, 9.95e8, true),
        (1e7, 9.96e8, true),
    ] {
        let mut gate = engaged(anchor, found);
        gate.fails = 1;
        assert_eq!(lasts(&mut gate, SECOND, false), stays, "{found}");
        assert_eq!(gate.fails, if stays { 1 } else { 2 });
    }
}

#[test]
fn a_search_that_hears_nothing_gives_up() {
    for (after, backlogged, stays) in [
        (DEAF - NANO, true, true),
        (DEAF, true, false),
        (DEAF, false, true),
    ] {
        let mut gate = engaged(1e7, 1e7);
        gate.fails = 1;
        assert_eq!(lasts(&mut gate, after, backlogged), stays, "{after:?}");
        assert_eq!(gate.fails, if stays { 1 } else { 2 });
    }
}

#[test]
fn a_search_amid_noise_gives_up() {
    // 1 ms, three segments of 1 ms each, and twice the noise at first.
    let segment_s = bank::SEGMENT * 8.0 / 12_112_000.0;
    let most_s = 0.001 + 3.0 * segment_s + 2.0 * 0.002;
    for (noise_s, stays) in [(0.007_9, true), (most_s, true), (0.008_1, false)] {
        let mut gate = engaged(12_112_000.0, 12_112_000.0);
        if let GateState::Engaged { noise_s, .. } = &mut gate.state {
            *noise_s = 0.002;
        }
        gate.noise_s = noise_s;
        gate.fails = 1;
        assert_eq!(lasts(&mut gate, SECOND, false), stays, "{noise_s}");
        assert_eq!(gate.fails, 1, "no mistake");
    }
}

#[test]
fn what_lasted_long_was_no_mistake() {
    for (after, fails) in [(MISTAKE - NANO, 4), (MISTAKE, 0), (MISTAKE + SECOND, 0)] {
        let mut gate = engaged(1e7, 1e8);
        gate.fails = 3;
        assert!(!lasts(&mut gate, after, false));
        assert_eq!(gate.fails, fails, "{after:?}");
    }
    let mut gate = engaged(1e7, 1e7);
    gate.fails = 3;
    assert!(lasts(&mut gate, MISTAKE - NANO, false));
    assert_eq!(gate.fails, 3);
}

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

#[test]
fn what_the_sockets_held_before_the_search_does_not_bring_it_down() {
    let mut gate = engaged(CARRIED, 6e6);
    hold(&mut gate, 100_001..100_254, HELD);
    let found = gate.control.anchor_bits_per_s() as f64;
    assert!((found / CARRIED - SLOWER).abs() < 1e-3, "{found}");
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
