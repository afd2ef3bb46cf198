//! The gate over simulated links: without TCP, and with writes that the pacer holds back.

use std::collections::{BTreeMap, VecDeque};

use super::*;

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
                    network: client,
                    bytes_acked: self.acked.get(&socket).copied().unwrap_or(0),
                    ..sent(socket, written, wire)
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
                network: socket,
                ..sent(socket, 1000, 1066)
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
