//! A seeded model of one uplink, without sockets or clocks: the real
//! [`Egress`] feeds TCP-like senders, whose segments share a drop-tail queue
//! behind a token bucket with each other and with the kernel's own packets.
//!
//! What it keeps of TCP: the handshake, an initial window of ten segments
//! (RFC 6928), slow start and congestion avoidance (RFC 5681), a
//! retransmission some time after a loss, cumulative acknowledgements,
//! immediate ones at first and delayed ones later (every second segment or
//! 40 ms, as Linux does it).

mod control;
mod tcp;
mod workload;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

use sprat_scheduler::{
    Discipline, Egress, EgressPolicy, FlowSpec, Grant, Pacer, Size, Time, WireCost,
};

pub(crate) use control::{Controller, Fixed, Frontier, InFlightWindow};
use tcp::{Connection, Segment};
pub(crate) use workload::{Request, ideal_srpt_ms, poisson, workload_sizes};

/// The wire's view of a response.
pub(crate) const COST: WireCost = WireCost::ETHERNET_IPV4;
/// Response head, in bytes.
pub(crate) const HEAD: u64 = 220;
const SYN_ACK: u64 = 74;
const BARE: u64 = 66;
/// Bytes that the kernel takes without having sent them (`TCP_NOTSENT_LOWAT`).
const NOTSENT_LOWAT: u64 = 16 << 10;

/// A generator that is its seed (splitmix64).
#[derive(Clone, Debug)]
pub(crate) struct Rng(pub u64);

impl Rng {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Returns a number in [0, 1).
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    pub(crate) fn micros(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_micros(from + self.next() % (to - from).max(1))
    }
}

/// The link and the hosts.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    /// The times from which rates hold, and the rates in bits per second.
    pub rates: Vec<(Duration, u64)>,
    /// Token bucket (tc-tbf); 0 is a wire, which takes its time for each
    /// packet.
    pub burst_bytes: u64,
    pub limit_packets: usize,
    /// The time between two polls of the driver, from and to, in microseconds.
    pub poll_us: (u64, u64),
    /// The lateness of the driver's timers, from and to, in microseconds.
    pub lateness_us: (u64, u64),
    /// Segments acknowledged at once before acknowledgements are delayed.
    pub quick_acks: u64,
    pub discipline: Discipline,
}

impl Link {
    /// Makes the lab's link (tbf with a burst of two packets, a queue of 100).
    pub(crate) fn tbf(rate_bits_per_s: u64) -> Self {
        Self {
            rates: vec![(Duration::ZERO, rate_bits_per_s)],
            burst_bytes: 3100,
            limit_packets: 100,
            poll_us: (500, 1000),
            lateness_us: (0, 80),
            quick_acks: 16,
            discipline: Discipline::Srpt,
        }
    }
}

/// A packet on the link: whose, how long, which segment if it carries data.
#[derive(Clone, Copy, Debug)]
struct Packet {
    conn: u32,
    wire_bytes: u64,
    segment: Option<Segment>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A client's SYN reaches the server.
    Syn(u32),
    /// A client's request reaches the server.
    Request(u32),
    /// The head of the queue leaves.
    Depart,
    /// A segment reaches the client.
    Arrive(u32, Segment),
    /// An acknowledgement up to this byte reaches the server.
    Ack(u32, u64),
    /// The client's delayed acknowledgement is due.
    DelayedAck(u32),
    /// A lost segment is sent again.
    Retransmit(u32, Segment),
    /// The pacer's timer fires.
    Wake,
    /// The driver asks the kernel.
    Poll,
}

/// The outcome of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Report {
    /// The response times in milliseconds, by request; NaN where one did not finish.
    pub response_ms: Vec<f64>,
    /// Time, rate of the pacer, mean queue since the last point in seconds,
    /// bytes departed since the last point.
    pub trajectory: Vec<Point>,
    pub drops: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Point {
    pub at_s: f64,
    pub rate_mbit: f64,
    pub queue_ms: f64,
    pub carried_mbit: f64,
    pub backlogged: f64,
}

impl Report {
    pub(crate) fn mean_ms(&self) -> f64 {
        let done: Vec<f64> = self
            .response_ms
            .iter()
            .copied()
            .filter(|t| t.is_finite())
            .collect();
        done.iter().sum::<f64>() / done.len() as f64
    }

    pub(crate) fn unfinished(&self) -> usize {
        self.response_ms.iter().filter(|t| !t.is_finite()).count()
    }

    /// Returns the mean of `of` over the points from `from` to `to` seconds.
    pub(crate) fn average(&self, from: f64, to: f64, of: impl Fn(&Point) -> f64) -> f64 {
        let points: Vec<f64> = self
            .trajectory
            .iter()
            .filter(|p| p.at_s > from && p.at_s <= to)
            .map(of)
            .collect();
        points.iter().sum::<f64>() / points.len() as f64
    }

    /// Prints the trajectory for study: `SPRAT_TRAJECTORY=1 cargo test ... -- --nocapture`.
    pub(crate) fn print(&self, name: &str) {
        if std::env::var_os("SPRAT_TRAJECTORY").is_none() {
            return;
        }
        println!(
            "{name}: mean {:.2} ms, {} drops",
            self.mean_ms(),
            self.drops
        );
        for p in &self.trajectory {
            println!(
                "{:8.2} s  pacer {:9.3}  carried {:9.3} Mbit/s  queue {:7.2} ms  backlogged {:.2}",
                p.at_s, p.rate_mbit, p.carried_mbit, p.queue_ms, p.backlogged
            );
        }
    }
}

/// The interval between the points of [`Report::trajectory`].
const POINT: Duration = Duration::from_millis(250);

pub(crate) struct Sim<C> {
    now: Time,
    link: Link,
    rng: Rng,
    events: BinaryHeap<Reverse<(Time, u64, Event)>>,
    next_event: u64,
    egress: Egress,
    control: C,
    conns: Vec<Connection>,
    /// The connection of each flow, by the flow's index.
    flows: Vec<u32>,
    queue: VecDeque<Packet>,
    queued_bytes: u64,
    tokens: f64,
    tokens_at: Time,
    depart_scheduled: bool,
    wake_at: Option<Time>,
    report: Report,
    carried_bytes: u64,
    queue_ms_sum: f64,
    backlogged_sum: f64,
    polls: u64,
    point_at: Time,
}

impl<C: Controller> Sim<C> {
    pub(crate) fn new(link: Link, seed: u64, requests: &[Request], control: C) -> Self {
        let egress = Egress::new(
            Pacer::new(control.rate_bits_per_s()),
            EgressPolicy {
                max_flows: 1 << 20,
                guard_factor: 1e6,
                ..EgressPolicy::new(link.discipline.clone())
            },
        );
        let mut sim = Self {
            now: Time::ZERO,
            tokens: link.burst_bytes as f64,
            link,
            rng: Rng(seed),
            events: BinaryHeap::new(),
            next_event: 0,
            egress,
            control,
            conns: Vec::new(),
            flows: Vec::new(),
            queue: VecDeque::new(),
            queued_bytes: 0,
            tokens_at: Time::ZERO,
            depart_scheduled: false,
            wake_at: None,
            report: Report {
                response_ms: vec![f64::NAN; requests.len()],
                ..Report::default()
            },
            carried_bytes: 0,
            queue_ms_sum: 0.0,
            backlogged_sum: 0.0,
            polls: 0,
            point_at: Time::ZERO + POINT,
        };
        for (index, request) in requests.iter().enumerate() {
            sim.conns.push(Connection::new(request));
            sim.at(
                Time::ZERO + request.at + request.rtt / 2,
                Event::Syn(index as u32),
            );
        }
        sim.at(Time::ZERO, Event::Poll);
        sim
    }

    /// Runs until `end`, or until every response is complete.
    pub(crate) fn run(mut self, end: Duration) -> Report {
        let mut open = self.conns.len();
        while let Some(Reverse((at, _, event))) = self.events.pop() {
            if at > Time::ZERO + end || open == 0 {
                break;
            }
            self.now = at;
            if self.happen(event) {
                open -= 1;
            }
            self.grant();
        }
        self.report
    }

    fn at(&mut self, at: Time, event: Event) {
        self.next_event += 1;
        self.events.push(Reverse((at, self.next_event, event)));
    }

    /// True if it completed a response.
    fn happen(&mut self, event: Event) -> bool {
        match event {
            Event::Syn(c) => self.enqueue(Packet {
                conn: c,
                wire_bytes: SYN_ACK,
                segment: None,
            }),
            Event::Request(c) => self.request(c),
            Event::Depart => self.depart(),
            Event::Arrive(c, segment) => return self.arrive(c, segment),
            Event::Ack(c, upto) => self.ack(c, upto),
            Event::DelayedAck(c) => {
                let conn = &mut self.conns[c as usize];
                if conn.delayed_ack_due() {
                    let (upto, at) = (conn.ack_now(), self.now + conn.rtt / 2);
                    self.at(at, Event::Ack(c, upto));
                }
            }
            Event::Retransmit(c, segment) => {
                self.conns[c as usize].on_loss();
                self.enqueue_segment(c, segment);
            }
            Event::Wake if self.wake_at == Some(self.now) => self.wake_at = None,
            Event::Wake => {}
            Event::Poll => self.poll(),
        }
        false
    }

    fn request(&mut self, c: u32) {
        self.enqueue(Packet {
            conn: c,
            wire_bytes: BARE,
            segment: None,
        });
        let conn = &mut self.conns[c as usize];
        if conn.new_connection {
            self.egress
                .debit(self.now, u64::from(COST.connection_overhead));
        }
        let spec = FlowSpec::new(0, Size::Exact(conn.total), COST);
        let flow = self
            .egress
            .open(self.now, spec)
            .expect("fewer requests than max_flows");
        conn.flow = Some(flow);
        if self.flows.len() <= flow.index() {
            self.flows.resize(flow.index() + 1, 0);
        }
        self.flows[flow.index()] = c;
        self.egress.offer(self.now, flow, conn.total);
    }

    fn grant(&mut self) {
        loop {
            if self.control.window_full(self.egress.stats().wire_bytes) {
                return;
            }
            match self.egress.grant(self.now) {
                Grant::Idle => return,
                Grant::Wait { until } => {
                    let (from, to) = self.link.lateness_us;
                    let latest = until + Duration::from_micros(to);
                    if self.wake_at.is_none_or(|at| latest < at) {
                        let at = until + self.rng.micros(from, to);
                        self.wake_at = Some(at);
                        self.at(at, Event::Wake);
                    }
                    return;
                }
                Grant::Send { flow, bytes } => {
                    let c = self.flows[flow.index()];
                    self.egress.written(self.now, flow, bytes);
                    self.conns[c as usize].write(bytes);
                    let conn = &self.conns[c as usize];
                    self.control.wrote(
                        self.now,
                        u64::from(c),
                        conn.network,
                        conn.written,
                        self.egress.stats().wire_bytes,
                    );
                    self.transmit(c);
                    self.offer(c);
                }
            }
        }
    }

    /// Says what the connection could write now.
    fn offer(&mut self, c: u32) {
        let conn = &mut self.conns[c as usize];
        let Some(flow) = conn.flow else { return };
        let left = conn.total - conn.written;
        if left == 0 {
            conn.flow = None;
            self.egress.close(self.now, flow);
            if conn.new_connection {
                self.enqueue(Packet {
                    conn: c,
                    wire_bytes: BARE,
                    segment: None,
                });
            }
        } else if conn.not_sent() < NOTSENT_LOWAT {
            self.egress.offer(self.now, flow, left);
        } else {
            self.egress.offer(self.now, flow, 0);
        }
    }

    fn transmit(&mut self, c: u32) {
        while let Some(segment) = self.conns[c as usize].next_segment() {
            self.enqueue_segment(c, segment);
        }
    }

    fn enqueue_segment(&mut self, c: u32, segment: Segment) {
        self.enqueue(Packet {
            conn: c,
            wire_bytes: segment.len() + u64::from(COST.segment_overhead),
            segment: Some(segment),
        });
    }

    fn enqueue(&mut self, packet: Packet) {
        if self.queue.len() >= self.link.limit_packets {
            self.report.drops += 1;
            // Loss recovery takes about a round trip with the queue in it;
            // a lost packet without data is not repeated, only data matters.
            let conn = &self.conns[packet.conn as usize];
            let wait = conn.rtt + self.queue_time() + Duration::from_millis(10);
            match packet.segment {
                Some(segment) => self.at(self.now + wait, Event::Retransmit(packet.conn, segment)),
                None if !conn.connected => {
                    self.at(self.now + Duration::from_secs(1), Event::Syn(packet.conn));
                }
                None => {}
            }
            return;
        }
        self.queued_bytes += packet.wire_bytes;
        self.queue.push_back(packet);
        if !self.depart_scheduled {
            self.schedule_departure();
        }
    }

    fn link_rate(&self) -> f64 {
        let now = self.now.since(Time::ZERO);
        let rates = self.link.rates.iter().rev();
        rates
            .into_iter()
            .find(|(from, _)| *from <= now)
            .map_or(1.0, |&(_, rate)| rate as f64)
    }

    fn queue_time(&self) -> Duration {
        Duration::from_secs_f64(self.queued_bytes as f64 * 8.0 / self.link_rate())
    }

    fn refill(&mut self) {
        let passed = self.now.since(self.tokens_at).as_secs_f64();
        self.tokens_at = self.now;
        let burst = self.link.burst_bytes as f64;
        self.tokens = (self.tokens + passed * self.link_rate() / 8.0).min(burst);
    }

    fn schedule_departure(&mut self) {
        let Some(packet) = self.queue.front() else {
            self.depart_scheduled = false;
            return;
        };
        let bytes = packet.wire_bytes as f64;
        self.refill();
        let short = if self.link.burst_bytes == 0 {
            bytes
        } else {
            (bytes - self.tokens).max(0.0)
        };
        let wait = Duration::from_nanos((short * 8e9 / self.link_rate()).ceil() as u64);
        self.depart_scheduled = true;
        self.at(self.now + wait, Event::Depart);
    }

    fn depart(&mut self) {
        self.refill();
        let Some(packet) = self.queue.pop_front() else {
            return;
        };
        self.tokens -= packet.wire_bytes as f64;
        self.queued_bytes -= packet.wire_bytes;
        self.carried_bytes += packet.wire_bytes;
        let now = self.now;
        let conn = &mut self.conns[packet.conn as usize];
        match packet.segment {
            Some(segment) => {
                let at = conn.through_path(now, packet.wire_bytes) + conn.rtt / 2;
                self.at(at, Event::Arrive(packet.conn, segment));
            }
            None if !conn.connected => {
                // The SYN-ACK: the request comes a round trip later.
                conn.connected = true;
                conn.sample_rtt(now.since(Time::ZERO), conn.syn_at);
                let at = now + conn.rtt;
                self.at(at, Event::Request(packet.conn));
            }
            None => {}
        }
        self.schedule_departure();
    }

    fn arrive(&mut self, c: u32, segment: Segment) -> bool {
        let (now, quick_acks) = (self.now, self.link.quick_acks);
        let conn = &mut self.conns[c as usize];
        let complete = conn.received >= conn.total;
        let ack_at = now + conn.rtt / 2;
        if conn.receive(segment, quick_acks) {
            let upto = conn.ack_now();
            self.at(ack_at, Event::Ack(c, upto));
        } else {
            self.at(now + Duration::from_millis(40), Event::DelayedAck(c));
        }
        let conn = &mut self.conns[c as usize];
        if !complete && conn.received >= conn.total {
            let took = now.since(Time::ZERO + conn.asked_at);
            self.report.response_ms[c as usize] = took.as_secs_f64() * 1e3;
            return true;
        }
        false
    }

    fn ack(&mut self, c: u32, upto: u64) {
        let conn = &mut self.conns[c as usize];
        conn.acked(upto);
        if conn.acked == conn.total && conn.new_connection {
            // The client's FIN is acknowledged.
            self.enqueue(Packet {
                conn: c,
                wire_bytes: BARE,
                segment: None,
            });
        }
        self.transmit(c);
        if self.conns[c as usize].flow.is_some() {
            self.offer(c);
        }
    }

    fn poll(&mut self) {
        let backlogged = self.egress.waiting_flows() > 0;
        let conns = &self.conns;
        self.control.poll(self.now, backlogged, |socket| {
            let conn = &conns[socket as usize];
            (conn.acked, conn.min_rtt)
        });
        self.control.apply(self.now, &mut self.egress);
        self.polls += 1;
        self.queue_ms_sum += self.queue_time().as_secs_f64() * 1e3;
        self.backlogged_sum += f64::from(u8::from(backlogged));
        if self.now >= self.point_at {
            self.report.trajectory.push(Point {
                at_s: self.now.since(Time::ZERO).as_secs_f64(),
                rate_mbit: self.egress.pacer().rate_bits_per_s() as f64 / 1e6,
                queue_ms: self.queue_ms_sum / self.polls as f64,
                carried_mbit: self.carried_bytes as f64 * 8.0 / POINT.as_secs_f64() / 1e6,
                backlogged: self.backlogged_sum / self.polls as f64,
            });
            self.queue_ms_sum = 0.0;
            self.backlogged_sum = 0.0;
            self.carried_bytes = 0;
            self.polls = 0;
            self.point_at = self.point_at + POINT;
        }
        let (from, to) = self.link.poll_us;
        let next = self.now + self.rng.micros(from, to);
        self.at(next, Event::Poll);
    }
}
