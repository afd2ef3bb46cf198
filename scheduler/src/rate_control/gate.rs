//! The gate, which lets the search for the rate act only while a shared link explains the delays.
//!
//! To a control that watches delays alone, queues behind clients' own links look like a queue of
//! the uplink's. Paced down to what one such client takes, all others would wait for nothing. So a
//! bank of hypothetical links is fed with what really leaves the host. Each link says what delay it
//! would have added to a packet. A link that would have added more than the packet met is refuted:
//! no packet passes a link sooner than the link can carry it, whatever else it meets on its way.
//! What clients' own queues add refutes nothing, and seldom imitates the curve that one link
//! predicts for the packets of all clients.
//!
//! While no link explains the delays, the pacer is open. Once a link does, the search begins at its
//! rate, and is never let below a rate that is refuted.
//!
//! Of the host's own link the kernel tells more: how much waits for it in the host. While that is
//! full, its rate is known without the bank.

mod attention;
mod bank;
mod clients;
mod evidence;
mod host_queue;
mod probes;
mod pulses;
mod told;
mod windows;

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Control, RateControl, RateControlConfig, SocketSample, Write};
use crate::Time;
use attention::Attention;
use bank::{Bank, index_of, rate_of};
use clients::Clients;
use evidence::{Evidence, Observation};
pub use host_queue::HostSample;
use host_queue::{FullLink, HostQueue, Look};
use probes::{Probe, ProbeSet};
use pulses::Pulses;
pub use told::{Gone, News, Sent, Told};
use windows::{DelayWindow, Delivered};

/// The most sockets asked for in one poll.
pub const GATE_POLL_MAX: usize = 32;

/// The most sockets that are followed; others give no evidence.
const SOCKETS_MAX: usize = 1024;

/// The pacer's rate while nothing shared is proven, in bits per second.
const OPEN_BITS_PER_S: u64 = 400_000_000_000;

/// The rate up to which a link is looked for, if the operator has named none.
const CEILING_BITS_PER_S: u64 = 1_000_000_000;

/// The number of polls from one decision to the next.
const DECIDED_EACH: u32 = 8;

/// The most bytes under way to its client before a probe that counts as clean.
const CLEAN_BYTES: u64 = 3000;

/// The least wire bytes of a probe that counts as a burst of full segments.
const BIG_BYTES: u64 = 1200;

/// The queue below which a link of the bank counts as idle, in seconds.
const IDLE_S: f32 = 0.001;

/// The least part of the explaining link's rate that the search may fall to: further down it may be
/// following one client's own queue.
const FALL_MOST: f64 = 0.25;

/// The longest queue that tells nothing, in seconds.
const NOTABLE_S: f32 = 0.002;

/// The longest queue that tells nothing, in seconds, until `QUIET` delays were heard where no queue
/// was to be expected. Until then it is not known how far delays vary by themselves, and jitter of
/// some milliseconds looks for a moment like one link or another.
const UNKNOWN_S: f32 = 0.012;
const QUIET: u32 = 3;

/// The number of acknowledgements that could tell, before a link is believed in.
const NEEDED: f32 = 25.0;

/// The length of an engagement below which it was a mistake.
const MISTAKE: Duration = Duration::from_secs(10);

/// The part of the search's rate below which a full link of the host has become slower: the search
/// would take seconds to come down to it.
const SLOWER: f64 = 0.9;

/// The part of the pacer's rate that a link carries at most which is too slow for the pacer. One
/// that carries more is still busy with what was there before.
const OUTPACED: f64 = 0.8;

/// The part of the rate of a full link of the host, at least, that acknowledgements must not have
/// refuted.
const REFUTED: f64 = 1.1;

/// The part of the ceiling from which a link is not looked for.
const AT_CEILING: f64 = 0.995;

/// The time after the last poll from which a poll is late: its thread was kept from the CPU, and
/// what it hears of may have been there for long.
const LATE: Duration = Duration::from_millis(3);

/// The time without anything learnt after which the pacer is open again, if there is a backlog.
const DEAF: Duration = Duration::from_secs(2);

const SECOND: Duration = Duration::from_secs(1);

/// The operator's settings of the gate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GateConfig {
    /// The rate that the operator has named, if any, in bits per second; the pacer never exceeds
    /// it.
    pub named_bits_per_s: Option<u64>,
}

/// A shared link that explains what clients see.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Found {
    /// The link's rate, in bits per second on the wire.
    pub rate_bits_per_s: u64,
    /// The delay of the queue on the link, behind the pacer.
    pub queue: Duration,
}

/// The kernel's figures of a socket (`TCP_INFO`).
#[derive(Clone, Copy, Debug)]
pub struct GateSample {
    /// The number of the socket, as in [`Write::socket`].
    pub socket: u64,
    /// The bytes acknowledged, the kernel's `tcpi_bytes_acked`.
    pub bytes_acked: u64,
    /// The least round trip, the kernel's `tcpi_min_rtt`; [`Duration::MAX`] if there is none.
    pub min_rtt: Duration,
    /// The segments sent again, the kernel's `tcpi_total_retrans`. While it rises, an
    /// acknowledgement does not say which packet it is for.
    pub repeated: u32,
    /// The socket's bytes that the host holds.
    pub host: HostSample,
}

/// The state of the gate: whether a shared link is proven.
#[derive(Clone, Copy, Debug, PartialEq)]
enum GateState {
    Open,
    Engaged {
        since: Time,
        /// The anchor of the search when the gate engaged, in bits per second; later it follows the
        /// anchor slowly.
        anchor: f64,
        /// The noise of clients' delays when the link was proven, in seconds.
        noise_s: f32,
        /// The time since which the anchor has been as high as it may get, if it is.
        at_ceiling: Option<Time>,
    },
}

/// A socket with bytes on their way.
#[derive(Clone, Copy, Debug)]
struct Socket {
    network: u64,
    sent: u64,
    acked: u64,
    /// The position up to which the host's queue counts bytes as under way, or did.
    begun: u64,
    /// The bytes that have arrived, also behind one that has not.
    arrived: u64,
    reported_at: Time,
    looked_at: Time,
}

/// The search for the uplink's rate, which acts only while a shared link is proven.
#[derive(Clone, Debug)]
pub struct Gate {
    control: RateControl,
    ceiling_bits_per_s: u64,
    named_bits_per_s: Option<u64>,
    bank: Bank,
    evidence: Evidence,
    host_queue: HostQueue,
    clients: Clients,
    probes: ProbeSet,
    sockets: BTreeMap<u64, Socket>,
    delivered: Delivered,
    delays: DelayWindow,
    /// The floors found, each with its time; the highest of the last ten seconds counts.
    floors: Vec<(Time, usize)>,
    /// The noise of clients' delays without a queue, on average, in seconds.
    noise_s: f32,
    /// The number of delays heard where no queue was to be expected.
    quiet: u32,
    /// The time at which an acknowledgement last showed a delay, or a full link of the host was
    /// proven.
    learnt_at: Time,
    pulses: Pulses,
    attention: Attention,
    state: GateState,
    fails: u32,
    polls: u32,
    polled_at: Time,
    decided_at: Time,
    shortened_at: Time,
}

impl Gate {
    /// Returns an open gate that knows nothing.
    pub fn new(config: &GateConfig) -> Self {
        let ceiling = config.named_bits_per_s.unwrap_or(CEILING_BITS_PER_S);
        Self {
            control: RateControl::new(RateControlConfig {
                initial_rate_bits_per_s: ceiling,
                max_rate_bits_per_s: ceiling,
                cautious: true,
                ..RateControlConfig::default()
            }),
            ceiling_bits_per_s: ceiling,
            named_bits_per_s: config.named_bits_per_s,
            bank: Bank::new(),
            evidence: Evidence::new(),
            host_queue: HostQueue::default(),
            clients: Clients::default(),
            probes: ProbeSet::default(),
            sockets: BTreeMap::new(),
            delivered: Delivered::default(),
            delays: DelayWindow::default(),
            floors: Vec::new(),
            noise_s: 0.0,
            quiet: 0,
            learnt_at: Time::ZERO,
            pulses: Pulses::default(),
            attention: Attention::default(),
            state: GateState::Open,
            fails: 0,
            polls: 0,
            polled_at: Time::ZERO,
            decided_at: Time::ZERO,
            shortened_at: Time::ZERO,
        }
    }

    /// Returns whether a shared link is proven, and the pacer follows the search.
    pub fn is_engaged(&self) -> bool {
        self.state != GateState::Open
    }

    /// Returns the shared link, while one is proven.
    pub fn found(&self) -> Option<Found> {
        self.is_engaged().then(|| Found {
            rate_bits_per_s: self.control.anchor_bits_per_s(),
            queue: self.control.queue(),
        })
    }

    /// Returns the pacer's settings, as the gate has them now.
    pub fn control(&self) -> Control {
        let rate = match self.state {
            GateState::Open => self.named_bits_per_s.unwrap_or(OPEN_BITS_PER_S),
            GateState::Engaged { .. } => self.pulses.rate(&self.control),
        };
        Control {
            rate_bits_per_s: rate.min(self.named_bits_per_s.unwrap_or(u64::MAX)),
        }
    }

    /// Notes that bytes were written to a socket.
    pub fn on_write(&mut self, now: Time, write: Write) {
        self.control.on_write(now, write);
    }

    /// Notes that wire bytes have left the host that no socket reports: packets of a connection's
    /// set-up or end, and what sockets send that are not followed.
    pub fn on_overhead(&mut self, now: Time, wire_bytes: u64) {
        self.bank.send(now, wire_bytes, self.clip_s());
        self.host_queue.send(wire_bytes);
    }

    /// Notes that bytes of a socket have left the host. A driver calls it after each write, and at
    /// each poll for sockets that hold bytes back.
    pub fn on_sent(&mut self, now: Time, sent: Sent) {
        let News {
            wire_bytes,
            left_before,
            passed_over,
        } = sent.news;
        if wire_bytes == 0 {
            return;
        }
        self.bank.send(now, wire_bytes, self.clip_s());
        self.host_queue.send(wire_bytes);
        let room = self.sockets.len() < SOCKETS_MAX;
        let socket = match self.sockets.get_mut(&sent.socket) {
            Some(socket) => socket,
            None if room => self.sockets.entry(sent.socket).or_insert(Socket {
                network: sent.network,
                sent: sent.bytes_acked,
                acked: sent.bytes_acked,
                begun: sent.bytes_acked.max(left_before).max(passed_over),
                arrived: sent.bytes_acked.max(passed_over),
                reported_at: now,
                looked_at: now,
            }),
            None => return,
        };
        let new = sent.first_sent.saturating_sub(socket.sent);
        socket.sent = socket.sent.max(sent.first_sent);
        socket.reported_at = now;
        if new == 0 {
            return;
        }
        let begun = sent.first_sent.saturating_sub(socket.begun);
        socket.begun += begun;
        self.host_queue.begin(begun);
        let client = self.clients.get(now, sent.network);
        let before = client.unacked_bytes;
        client.unacked_bytes += new;
        let probe = Probe {
            socket: sent.socket,
            network: sent.network,
            position: sent.first_sent,
            repeated: sent.repeated,
            sent_at: now,
            is_clean: before <= CLEAN_BYTES,
            is_big: wire_bytes >= BIG_BYTES,
        };
        self.probes.push(probe, || self.bank.predict(wire_bytes));
    }

    /// Forgets a socket that is gone, or will not be asked about again.
    pub fn on_close(&mut self, socket: u64) {
        self.control.on_close(socket);
        self.probes.forget(socket);
        self.let_go(socket);
    }

    fn let_go(&mut self, socket: u64) {
        if let Some(gone) = self.sockets.remove(&socket) {
            let client = self.clients.get(gone.reported_at, gone.network);
            let left = gone.sent.saturating_sub(gone.acked);
            client.unacked_bytes = client.unacked_bytes.saturating_sub(left);
        }
    }

    /// Lists the sockets to ask the kernel about in the next poll: at most
    /// [`GATE_POLL_MAX`].
    pub fn wanted(&self, now: Time, sockets: &mut Vec<u64>) {
        self.control.wanted(now, sockets);
        self.probes.wanted(now, GATE_POLL_MAX, sockets);
    }

    /// Takes in the samples of a poll, also of sockets not wanted. `backlogged` says
    /// whether flows wait for a grant.
    pub fn on_poll(&mut self, now: Time, samples: &[GateSample], backlogged: bool) -> Control {
        let is_late = now.since(self.polled_at) >= LATE;
        let paced_bits_per_s = self.control().rate_bits_per_s;
        self.control.on_noise(f64::from(self.noise_s));
        self.polled_at = now;
        let heard: Vec<SocketSample> = samples
            .iter()
            .map(|sample| SocketSample {
                socket: sample.socket,
                bytes_acked: sample.bytes_acked,
                min_rtt: sample.min_rtt,
            })
            .collect();
        if is_late {
            self.control.pass_over(&heard);
            self.control.on_poll(now, &[], backlogged);
        } else {
            self.control.on_poll(now, &heard, backlogged);
        }
        for sample in samples {
            self.hear(now, sample, is_late);
        }
        self.ask_host(now, paced_bits_per_s);
        self.probes.age(now);
        self.shorten(now);
        self.polls = self.polls.wrapping_add(1);
        if self.polls.is_multiple_of(DECIDED_EACH) {
            self.decide(now);
        }
        self.guide(now, backlogged);
        if let GateState::Engaged { .. } = self.state {
            let floor = self.evidence.floor(now).map_or(0.0, rate_of);
            let anchor = self.control.anchor_bits_per_s() as f64;
            if self
                .pulses
                .on_poll(now, backlogged, anchor, floor, self.noise_s)
            {
                self.evidence.begin_pulse();
            }
        }
        self.control()
    }

    /// Returns how long the driver may rest, because nothing is late; until then it need neither
    /// report nor ask anything. A driver calls it after each poll. To rest, it closes all sockets
    /// ([`Gate::on_close`]), and reports them anew with the first writes after that.
    pub fn rest(&mut self, now: Time) -> Option<Duration> {
        if self.is_engaged() {
            self.attention.wake(now);
        }
        self.attention.rest(now)
    }

    /// Takes one socket's sample into account.
    fn hear(&mut self, now: Time, sample: &GateSample, is_late: bool) {
        let Some(socket) = self.sockets.get_mut(&sample.socket) else {
            return;
        };
        let new = sample
            .bytes_acked
            .min(socket.sent)
            .saturating_sub(socket.acked);
        socket.acked += new;
        let arrived = (socket.acked + sample.host.sacked_bytes).min(socket.sent);
        let arrived = arrived.max(socket.arrived);
        self.host_queue.arrive(arrived - socket.arrived);
        socket.arrived = arrived;
        self.host_queue.look(&Look {
            host: sample.host,
            min_rtt: sample.min_rtt,
            unacked_bytes: socket.sent - socket.acked,
            since_last: now.since(socket.looked_at),
        });
        socket.looked_at = now;
        let (network, all) = (socket.network, socket.acked >= socket.sent);
        if new == 0 && !all {
            return;
        }
        // A full segment's ratio of wire to payload: what was sent in smaller ones is
        // counted for less.
        self.delivered.add(now, new * 1514 / 1448);
        let client = self.clients.get(now, network);
        client.unacked_bytes = client.unacked_bytes.saturating_sub(new);
        if let Some((probe, slot)) = self.probes.acknowledge(sample.socket, sample.bytes_acked) {
            if sample.repeated != probe.repeated {
                self.attention.hear(None);
            } else if !is_late {
                self.learn(now, &probe, slot, sample.min_rtt);
            }
            self.probes.free(slot);
        }
        if all {
            self.let_go(sample.socket);
        }
    }

    /// Learns what an acknowledgement says of each link.
    fn learn(&mut self, now: Time, probe: &Probe, slot: usize, min_rtt: Duration) {
        let (least, clip_s) = (self.least_rate(now), self.clip_s());
        let client = self.clients.get(now, probe.network);
        let rtt = now.since(probe.sent_at);
        let predicted = self.probes.predicted(slot);
        // While the host's own link is full no packet passes it without a queue.
        let idle = predicted[least] < IDLE_S && !self.host_queue.is_full();
        let delay_s = client.delay_s(now, rtt, min_rtt, probe.is_big.then_some(idle));
        self.delays.add(now, delay_s);
        self.attention.hear(Some(delay_s));
        self.learnt_at = now;
        if probe.is_clean && idle {
            client.vary(delay_s);
        }
        // On a fast link more is under way whenever a poll looks. That it was not late is as
        // good a sign.
        if idle && (probe.is_clean || delay_s < IDLE_S) {
            self.quiet = self.quiet.saturating_add(1);
        }
        if !client.trust(idle) {
            return;
        }
        let least_s = if self.quiet < QUIET {
            UNKNOWN_S
        } else {
            NOTABLE_S
        };
        let seen = Observation {
            client: probe.network,
            predicted,
            delay_s,
            clean: probe.is_clean,
            in_pulse: self.pulses.sent(probe.sent_at),
            noise_s: client.noise_s,
            least_s,
            clip_s,
        };
        self.noise_s += (seen.noise_s - self.noise_s) / 64.0;
        self.evidence.add(now, &self.bank, &seen);
    }

    /// Returns how long a queue may get before it drops packets, in seconds. Where delays vary
    /// without a queue, a queue must get longer than they vary to be told from noise. A pulse may
    /// make a longer queue than any of late; bounded to those, no link would be said to hold it,
    /// and it would be taken for noise.
    fn clip_s(&self) -> f32 {
        let clip_s = self.delays.clip_s().max(6.0 * self.noise_s);
        if self.is_engaged() {
            clip_s.max(2.0 * self.pulses.queue_s())
        } else {
            clip_s
        }
    }

    /// Returns the index of the slowest link that is possible at all: above what was refuted of
    /// late, and not below what was delivered.
    fn least_rate(&self, now: Time) -> usize {
        let delivered = self.delivered.most(now, Duration::from_secs(10));
        let floors = self.floors.iter().map(|(_, index)| *index);
        let floor = floors.max().unwrap_or(0);
        delivered.map_or(floor, |rate| floor.max(index_of(0.95 * rate)))
    }

    /// Shortens the bank's queues to the least delay of late, for their errors add up while they
    /// are busy.
    fn shorten(&mut self, now: Time) {
        if now.since(self.shortened_at) < SECOND {
            return;
        }
        self.shortened_at = now;
        if let Some(least_s) = self.delays.least_s(now, Duration::from_millis(400), 6) {
            self.bank.shorten(now, least_s + 0.002);
        }
    }

    fn decide(&mut self, now: Time) {
        let passed = now.since(self.decided_at);
        self.decided_at = now;
        self.evidence.fade(passed.as_secs_f32());
        self.floors.retain(|(at, _)| now.since(*at) < 10 * SECOND);
        if let Some(floor) = self.evidence.floor(now) {
            self.floors.retain(|(_, index)| *index > floor);
            self.floors.push((now, floor));
        }
        if self.is_engaged() {
            if let Some(explained) = self.explained(now, NEEDED) {
                self.control.raise(FALL_MOST * explained);
            }
            return;
        }
        let needed = NEEDED * self.caution() as f32;
        if let Some(explained) = self.explained(now, needed) {
            self.engage(now, explained);
        }
    }

    /// Returns how many times as much evidence is needed after mistakes.
    fn caution(&self) -> u32 {
        1 << self.fails.min(4)
    }

    /// Begins the search at a rate that is proven, in bits per second.
    fn engage(&mut self, now: Time, rate_bits_per_s: f64) {
        self.control.restart(now, rate_bits_per_s);
        self.pulses = Pulses::default();
        self.state = GateState::Engaged {
            since: now,
            anchor: rate_bits_per_s,
            noise_s: self.noise_s,
            at_ceiling: None,
        };
    }

    /// Looks at what waits in the host: a link of its own that is full is proven, or has become
    /// slower.
    fn ask_host(&mut self, now: Time, paced_bits_per_s: u64) {
        let lengths = if self.is_engaged() { 1 } else { self.caution() };
        let full = self.host_queue.on_poll(now, paced_bits_per_s, lengths);
        if self.host_queue.is_full() {
            self.attention.wake(now);
        }
        let Some(FullLink {
            rate_bits_per_s: rate,
            paced_bits_per_s,
        }) = full
        else {
            return;
        };
        if self.is_engaged() {
            let found = self.control.anchor_bits_per_s() as f64;
            if rate < SLOWER * found && rate < OUTPACED * paced_bits_per_s {
                self.fall(now, rate);
            }
            // What the sockets held when the search began drains at that rate, however little the
            // pacer adds, and looks like a queue until then.
            self.control.raise(SLOWER * rate);
            return;
        }
        // The link may have been faster before it was full.
        let refuted = self.evidence.refuted(now, host_queue::LENGTH);
        let refuted = refuted.map_or(0.0, rate_of);
        if rate < AT_CEILING * self.ceiling_bits_per_s as f64 && refuted < REFUTED * rate {
            // Acknowledgements have their time to tell delays: until now none was needed.
            self.learnt_at = now;
            self.engage(now, rate);
        }
    }

    /// Restarts the search at the rate of a link of the host that has become slower, in bits per
    /// second. What was learnt of the link as it was is forgotten, or it would hold the search up.
    fn fall(&mut self, now: Time, rate_bits_per_s: f64) {
        self.control.restart(now, rate_bits_per_s);
        self.pulses = Pulses::default();
        self.evidence = Evidence::new();
        self.floors.clear();
        self.delivered = Delivered::default();
        if let GateState::Engaged {
            anchor,
            noise_s,
            at_ceiling,
            ..
        } = &mut self.state
        {
            *anchor = rate_bits_per_s;
            *noise_s = self.noise_s;
            *at_ceiling = None;
        }
    }

    /// Returns the rate of the link that explains the delays, in bits per second, if one does. No
    /// link does before the delivery rate is known: for a moment, jitter looks like some link or
    /// other, and holding back to that link would hide that the real one carries more.
    fn explained(&self, now: Time, needed: f32) -> Option<f64> {
        let delivered = self.delivered.most(now, Duration::from_millis(1100))?;
        let clients = self.clients.heard_since(now - 3 * SECOND);
        let most = self.ceiling_bits_per_s as f64;
        let best = self.evidence.best(0.93 * delivered, most, needed, clients);
        best.map(rate_of)
    }

    /// Keeps the search above what is refuted, and ends it where it has left the link
    /// that was proven.
    fn guide(&mut self, now: Time, backlogged: bool) {
        let ceiling = AT_CEILING * self.ceiling_bits_per_s as f64;
        let GateState::Engaged {
            since,
            anchor,
            noise_s,
            at_ceiling,
        } = &mut self.state
        else {
            return;
        };
        let lasted = now.since(*since);
        let least_s = self.delays.least_s(now, Duration::from_millis(400), 6);
        if let Some(floor) = self.evidence.floor(now)
            && least_s.is_some_and(|least_s| least_s < 0.01)
        {
            self.control.raise(rate_of(floor));
        }
        let found = self.control.anchor_bits_per_s() as f64;
        if lasted > 5 * SECOND {
            *anchor += 0.001 * (found - *anchor);
        }
        let at_ceiling = if found < ceiling {
            *at_ceiling = None;
            Duration::ZERO
        } else {
            now.since(*at_ceiling.get_or_insert(now))
        };
        let patience = match self.named_bits_per_s {
            Some(_) => 60 * SECOND,
            None => 10 * SECOND,
        };
        let is_past = at_ceiling >= patience;
        let is_lost = found > 2.5 * *anchor && found < ceiling;
        if lasted >= MISTAKE {
            self.fails = 0;
        }
        // No delay would tell if the rate were wrong.
        let is_deaf = backlogged && now.since(self.learnt_at) >= DEAF;
        // What was taken for a queue may have been noise: it is to be proven again. Bursts
        // of a few segments make delays differ, too.
        let segment_s = bank::SEGMENT * 8.0 / found as f32;
        let is_noisy = self.noise_s > 0.001 + 3.0 * segment_s + 2.0 * *noise_s;
        if is_past || is_lost || is_deaf || is_noisy {
            self.fails += u32::from(lasted < MISTAKE && (is_lost || is_deaf));
            self.evidence.scale(0.2);
            self.state = GateState::Open;
        }
    }
}

#[cfg(test)]
mod tests;
