//! Finds the uplink's rate, so that no operator has to configure it.
//!
//! # The model
//!
//! The uplink is one first-in-first-out queue that all clients share. Each write is a *probe*: it
//! ends at a position in the bytes that the uplink was debited so far. When the kernel says that it
//! was acknowledged, everything up to that position has left the link, a base round trip before. So
//! the highest acknowledged position (the *frontier*) tells how far the link has come, whichever
//! socket it is of. Delayed acknowledgements, closed sockets and sockets that were not polled cost
//! nothing but a later sight of it, and the rate is measured in the very bytes that the pacer
//! debits. From it come
//!
//! - the *anchor*, the link's rate: bytes over time in spans in which each
//!   probe was sent before the one ahead of it had left, so that the link
//!   never ran dry (BBR's delivery rate, Cardwell et al. 2016 and
//!   draft-ietf-ccwg-bbr, over all flows together);
//! - the *queue*: the least, over the last few departures, of the round trip
//!   less the base round trip of the client's network;
//! - the pacer's rate: anchor x (1 + (target - queue) / reaction), which keeps half a segment
//!   waiting, and the link busy, while there is a backlog (behind a gate also a part of the round
//!   trip, for a rate too low does not show);
//! - growth: a backlog that shows no queue although the link took what it was given raises the
//!   anchor in steps, each of which waits for evidence that was sent after the step before (BBR's
//!   Startup; behind a gate the wait is longer where the anchor was measured of late);
//! - a drain every five seconds of standing queue, which shows the base round
//!   trip (BBR's ProbeRTT) and tests the delay: what does not fall when less
//!   is sent is not the uplink's, and is left out of account.
//!
//! # What was learnt from the alternatives (simulated, `tests/rate_control.rs`)
//!
//! On the lab's 10 Mbit/s link at 0.9 load, mean response time over ideal
//! SRPT: this controller 1.19 to 1.25, the exact rate 1.02, a rate 2% too high
//! 4.0. A window on the sum of bytes in flight (anchor x base round trip + 2
//! to 6 segments, the anchor a windowed maximum of the delivery rate) came to
//! 2.1 to 2.5: each delayed acknowledgement occupies it, and payload
//! acknowledged is not what the wire carried. A minimum over 20 ms of delays
//! instead of six segments let short bursts pass unseen, and the rate grew to
//! five times the link's. Taking the queue off a new network's first round trip
//! made its base too low, hence the queue too long, for ten seconds; now such a
//! network is not listened to while others speak.
//!
//! # Limits
//!
//! Round trips that differ by tens of segments' time *within* a network look
//! like a queue: the network's key should be as fine as paths are. Where every
//! acknowledgement is delayed (many bulk flows served in turn, one segment
//! each), the anchor may settle too low until a drain shows it.

mod base_rtt;
pub mod gate;
mod phases;
mod probes;
mod span;
mod types;

use std::collections::VecDeque;
use std::time::Duration;

use crate::Time;
use base_rtt::BaseRtts;
use probes::{WriteProbe, WriteProbes};
use span::{BusySpan, Point};
pub use types::{Control, RateControlConfig, SocketSample, Write};

/// A full segment on the wire, in bits (Ethernet, MTU 1500).
const SEGMENT_BITS: f64 = 1514.0 * 8.0;

/// The most sockets asked for in one poll.
pub const POLL_MAX: usize = 16;

/// The least that the pacer sends while it holds back, as a part of the anchor; a drain may halve
/// it.
const GAIN_MIN: f64 = 0.5;

/// The most that the pacer sends, as a multiple of the anchor (BBR's ProbeBW_UP).
const GAIN_MAX: f64 = 1.25;

/// The most that the pacer sends where a proven link is followed, as a multiple of the anchor.
const GAIN_MAX_CAUTIOUS: f64 = 1.1;

/// The extra queue that is kept on a proven link, as a part of the base round trip. A shorter queue
/// cannot be told from none, and a link that is held empty carries less than it could.
const KEPT_OF_BASE: f64 = 0.2;

/// The base round trips over which a proven link's rate is measured; or, if that is longer,
/// `SPAN_OF_NOISE` times the noise of delays; within `SPAN`, in seconds. Backlogs are short where
/// the link is fast. Over a long way, what is heard is late by parts of a round trip, and noise
/// looks like a short queue.
const SPAN_OF_BASE: f64 = 4.0;
const SPAN_OF_NOISE: f64 = 25.0;
const SPAN: (f64, f64) = (0.01, 0.1);

/// The time for which a measured rate slows growth. While the anchor is within `ABOUT_MEASURED` of
/// that rate, a step takes `MEASURED_PATIENCE` times longer: until a step too far shows as a queue,
/// it has cost more than it can gain. A pulse shows sooner whether the link has got faster.
const MEASURED_FOR: Duration = Duration::from_secs(5);
const MEASURED_PATIENCE: f64 = 100.0;
const ABOUT_MEASURED: std::ops::Range<f64> = 0.97..1.06;

/// The gain below which, if that lasts, the delay that causes it is put to the test.
const DOUBT_GAIN: f64 = 0.9;

/// The silence of all other networks after which those whose base round trip is in doubt are
/// listened to.
const UNTRUSTED_AFTER: Duration = Duration::from_millis(500);

/// The seconds without any acknowledgement after which the silence counts as a delay, too; longer
/// than clients hold acknowledgements back (40 ms on Linux).
const SILENCE: f64 = 0.06;

/// The most steps of growth while not a byte could be sent: the pacer may be in debt for set-ups
/// alone.
const UNSEEN_STEPS: u32 = 4;

/// The most bytes that count as one write (an egress grants 256 KB at most).
const BURST_MAX: u64 = 300_000;

/// The search for the uplink's rate, by what clients acknowledge.
#[derive(Clone, Debug)]
pub struct RateControl {
    config: RateControlConfig,
    /// The rate that the link is believed to carry, in bits per second.
    anchor: f64,
    /// The [`Write::position`] of the newest write.
    position: u64,
    /// The time of the newest write.
    written_at: Time,
    probes: WriteProbes,
    bases: BaseRtts,
    frontier: Option<Point>,
    /// The departures of recent probes and their queueing delays in seconds, in the order of
    /// departure.
    delays: VecDeque<(Time, f64)>,
    /// The time at which the newest write known to have arrived was sent.
    confirmed_sent_at: Time,
    /// The time at which any write was last seen to have arrived.
    heard_at: Time,
    span: BusySpan,
    /// The last rate measured over a span, in bits per second, and when that was.
    measured: Option<(Time, f64)>,
    polled_at: Time,
    poll_interval: f64,
    queue: f64,
    growth: Growth,
    drain: Drain,
    held: HoldingBack,
    control: Control,
    /// The base round trip on average of what was heard, in seconds.
    base_s: f64,
    /// The noise of delays without a queue, as the caller has noted it, in seconds.
    noise_s: f64,
}

/// The growth of the anchor, by the time for which the link took everything while more was waiting.
#[derive(Clone, Debug, Default)]
struct Growth {
    unqueued: f64,
    /// The time from which `unqueued` counts; `carried_from` is the frontier then.
    began_at: Time,
    carried_from: u64,
    backlogged: f64,
    steps: u32,
    stepped_at: Time,
}

/// The drains, in which the queue runs empty now and then to show the base round trip.
#[derive(Clone, Debug, Default)]
struct Drain {
    empty_at: Time,
    until: Time,
    found_lower: bool,
}

/// The account of holding back against a delay that may not be the uplink's.
#[derive(Clone, Debug, Default)]
struct HoldingBack {
    /// The seconds of holding back, less the time since it ended.
    time: f64,
    /// The anchor before the holding back.
    anchor: f64,
    /// The delay before a drain in seconds and the end of the drain, while the delay is tested.
    test: Option<(f64, Time)>,
    /// The delay that did not go away by holding back, in seconds.
    foreign: f64,
}

impl RateControl {
    /// Returns a rate control that knows nothing but the configuration.
    pub fn new(mut config: RateControlConfig) -> Self {
        config.max_rate_bits_per_s = config.max_rate_bits_per_s.max(1);
        // A link may be named that is slower than what is never gone below.
        let min = config
            .min_rate_bits_per_s
            .clamp(1, config.max_rate_bits_per_s);
        config.min_rate_bits_per_s = min;
        let anchor = config.initial_rate_bits_per_s;
        let anchor = anchor.clamp(min, config.max_rate_bits_per_s);
        Self {
            anchor: anchor as f64,
            position: 0,
            written_at: Time::ZERO,
            probes: WriteProbes::default(),
            bases: BaseRtts::default(),
            frontier: None,
            delays: VecDeque::new(),
            confirmed_sent_at: Time::ZERO,
            heard_at: Time::ZERO,
            span: BusySpan::default(),
            measured: None,
            polled_at: Time::ZERO,
            poll_interval: 0.001,
            queue: 0.0,
            growth: Growth::default(),
            drain: Drain::default(),
            held: HoldingBack::default(),
            base_s: 0.0,
            noise_s: 0.0,
            control: Control {
                rate_bits_per_s: anchor,
            },
            config,
        }
    }

    /// Returns the pacer's settings, as the last poll decided them.
    pub fn control(&self) -> Control {
        self.control
    }

    /// Returns the rate that the link is believed to carry, in bits per second.
    pub fn anchor_bits_per_s(&self) -> u64 {
        self.anchor as u64
    }

    /// Returns the delay of the queue on the link, as far as it is known.
    pub fn queue(&self) -> Duration {
        Duration::try_from_secs_f64(self.queue).unwrap_or(Duration::ZERO)
    }

    /// Restarts the search at a rate, in bits per second. The round trips that are known stay
    /// known.
    pub fn restart(&mut self, now: Time, rate_bits_per_s: f64) {
        self.set_anchor(rate_bits_per_s);
        self.span = BusySpan::default();
        self.measured = None;
        self.growth = Growth::default();
        self.held = HoldingBack {
            anchor: self.anchor,
            ..HoldingBack::default()
        };
        self.drain = Drain {
            empty_at: now,
            ..Drain::default()
        };
        self.control = Control {
            rate_bits_per_s: self.anchor as u64,
        };
    }

    /// Raises the anchor to a rate that the link is known to carry, in bits per second.
    pub fn raise(&mut self, rate_bits_per_s: f64) {
        if self.anchor < rate_bits_per_s {
            self.set_anchor(rate_bits_per_s);
        }
    }

    /// Notes how far delays vary without a queue, in seconds.
    pub fn on_noise(&mut self, noise_s: f64) {
        self.noise_s = noise_s;
    }

    /// Notes that bytes were written to a socket.
    pub fn on_write(&mut self, now: Time, write: Write) {
        let burst = write.position.saturating_sub(self.position);
        self.position = self.position.max(write.position);
        self.written_at = now;
        self.probes.push(WriteProbe {
            burst: burst.min(BURST_MAX),
            socket: write.socket,
            network: write.network,
            written: write.written,
            position: write.position,
            sent_at: now,
        });
    }

    /// Forgets a socket that is gone, or will not be asked about again.
    pub fn on_close(&mut self, socket: u64) {
        self.probes.forget(socket);
    }

    /// Drops the writes that these samples acknowledge. They arrived some time ago, and say nothing
    /// of the link.
    pub fn pass_over(&mut self, samples: &[SocketSample]) {
        for sample in samples {
            self.probes.drop_until(sample.socket, sample.bytes_acked);
        }
    }

    /// Lists the sockets to ask the kernel about in the next poll: at most [`POLL_MAX`],
    /// those whose acknowledgement may have come.
    pub fn wanted(&self, now: Time, sockets: &mut Vec<u64>) {
        sockets.clear();
        let due = |p: &&WriteProbe| p.sent_at + self.bases.get(p.network) <= now;
        let stride = self
            .probes
            .iter()
            .filter(due)
            .count()
            .div_ceil(POLL_MAX)
            .max(1);
        for probe in self.probes.iter().filter(due).step_by(stride) {
            if !sockets.contains(&probe.socket) {
                sockets.push(probe.socket);
            }
        }
    }

    /// Takes in the samples of a poll. `backlogged` says whether flows wait for a grant.
    pub fn on_poll(&mut self, now: Time, samples: &[SocketSample], backlogged: bool) -> Control {
        let passed = now.since(self.polled_at).as_secs_f64();
        self.polled_at = now;
        self.poll_interval += (passed.min(0.01) - self.poll_interval) / 64.0;
        self.confirm(now, samples);
        self.held.foreign = self.held.foreign.min(self.least_delay());
        self.queue = self.queue_now(now);
        self.grow(now, passed, backlogged);
        self.drain(now, backlogged);
        self.judge();
        let gain = self.gain(now, passed);
        self.control = Control {
            rate_bits_per_s: (self.anchor * gain) as u64,
        };
        self.control
    }

    fn segment(&self) -> f64 {
        SEGMENT_BITS / self.anchor
    }

    /// Returns the queueing delay to keep while backlogged, in seconds.
    fn target(&self) -> f64 {
        0.5 * self.segment() + (self.poll_interval / 4.0).max(0.000_25) + self.kept()
    }

    /// Returns the part of the target that is kept only where a link is proven, in seconds.
    fn kept(&self) -> f64 {
        if self.config.cautious {
            KEPT_OF_BASE * self.base_s
        } else {
            0.0
        }
    }

    /// Returns the time over which the minimum of the delays is taken, in seconds.
    fn delay_window(&self) -> f64 {
        (6.0 * self.segment()).max(8.0 * self.poll_interval)
    }

    /// Returns the time over which a queue off its target is corrected, in seconds: at least twice
    /// the delay window and four times the frontier's age, or the loop would swing.
    fn reaction(&self, now: Time) -> f64 {
        let stale = self
            .frontier
            .map_or(0.0, |f| now.since(f.departed_at).as_secs_f64());
        (2.0 * self.delay_window()).max(4.0 * stale.min(0.5))
    }

    /// Confirms the newest write of each socket that has arrived.
    fn confirm(&mut self, now: Time, samples: &[SocketSample]) {
        let mut newest: [Option<WriteProbe>; POLL_MAX] = [None; POLL_MAX];
        for probe in self.probes.iter() {
            let sample = samples
                .iter()
                .take(POLL_MAX)
                .position(|s| s.socket == probe.socket && s.bytes_acked >= probe.written);
            if let Some(index) = sample {
                newest[index] = Some(*probe);
            }
        }
        let mut confirmed: Vec<(WriteProbe, Duration)> = newest
            .iter()
            .zip(samples)
            .filter_map(|(probe, sample)| Some(((*probe)?, sample.min_rtt)))
            .collect();
        confirmed.sort_by_key(|(probe, _)| probe.position);
        for (probe, min_rtt) in confirmed {
            self.confirmed(now, &probe, min_rtt);
        }
        if let Some(frontier) = self.frontier {
            self.probes.pass(now, frontier.position);
        }
    }

    fn confirmed(&mut self, now: Time, probe: &WriteProbe, min_rtt: Duration) {
        self.heard_at = now;
        let rtt = now.since(probe.sent_at);
        let notable = Duration::from_secs_f64(self.target() / 2.0);
        let queued = self.queue >= self.target();
        let lower = self
            .bases
            .observe(now, probe.network, rtt.min(min_rtt), queued, notable);
        self.drain.found_lower |= lower;
        let base = self.bases.get(probe.network);
        self.base_s += (base.as_secs_f64() - self.base_s) / 64.0;
        let own = probe.burst as f64 * 8.0 / self.anchor;
        let delay = (rtt.saturating_sub(base).as_secs_f64() - own).max(0.0);
        let point = Point {
            departed_at: now - base,
            position: probe.position,
        };
        self.confirmed_sent_at = self.confirmed_sent_at.max(probe.sent_at);
        let behind = |f: Point| {
            let quiet = now.since(f.departed_at) > UNTRUSTED_AFTER;
            point.departed_at < f.departed_at || !(quiet || self.bases.is_trusted(probe.network))
        };
        if self.frontier.is_some_and(behind) {
            return;
        }
        self.delays.push_back((point.departed_at, delay));
        let window = Duration::from_secs_f64(self.delay_window());
        while let Some(&(at, _)) = self.delays.front()
            && (point.departed_at.since(at) > window || self.delays.len() > 256)
        {
            self.delays.pop_front();
        }
        let delay = self.least_delay() - self.held.foreign;
        let queued = delay >= self.target() / 2.0;
        let busy = queued && self.frontier.is_some_and(|f| probe.sent_at < f.departed_at);
        self.frontier = Some(point);
        if !busy {
            self.span.restart(point);
            return;
        }
        let length = self.span_length(delay);
        let length = Duration::from_secs_f64(length);
        if let Some(rate) = self.span.extend(point, length, self.anchor) {
            self.learn(now, rate);
        }
    }

    /// Returns over how long the rate is measured, in seconds: the longer the queue, the
    /// sooner the rate is needed.
    fn span_length(&self, delay: f64) -> f64 {
        let (least, most) = SPAN;
        if delay > 4.0 * self.target() {
            return (24.0 * self.segment())
                .max(0.02)
                .max((2.0 * delay).min(most));
        }
        let length = if self.config.cautious {
            let length = (SPAN_OF_BASE * self.base_s).max(SPAN_OF_NOISE * self.noise_s);
            length.clamp(least, most)
        } else {
            most
        };
        (64.0 * self.segment()).max(length)
    }

    fn least_delay(&self) -> f64 {
        self.delays
            .iter()
            .map(|d| d.1)
            .fold(f64::INFINITY, f64::min)
    }

    fn learn(&mut self, now: Time, carried: f64) {
        self.measured = Some((now, carried));
        let off = (carried / self.anchor - 1.0).abs();
        let weight = if off > 0.1 { 0.5 } else { 0.25 };
        self.set_anchor(self.anchor + (carried - self.anchor) * weight);
    }

    /// Returns whether the anchor is about what was measured of late on a proven link.
    fn is_measured(&self, now: Time) -> bool {
        let is_about = |&(at, rate): &(Time, f64)| {
            now.since(at) < MEASURED_FOR && ABOUT_MEASURED.contains(&(self.anchor / rate))
        };
        self.config.cautious && self.measured.as_ref().is_some_and(is_about)
    }

    fn set_anchor(&mut self, rate: f64) {
        self.anchor = rate.clamp(
            self.config.min_rate_bits_per_s as f64,
            self.config.max_rate_bits_per_s as f64,
        );
    }

    fn queue_now(&self, now: Time) -> f64 {
        let seen = match self.delays.back() {
            Some(&(at, _))
                if now.since(at).as_secs_f64() < self.least_delay() + self.delay_window() + 0.3 =>
            {
                (self.least_delay() - self.held.foreign).max(0.0)
            }
            _ => 0.0,
        };
        let silence = self.probes.oldest().map_or(0.0, |probe| {
            let due = probe.sent_at + self.bases.get(probe.network);
            now.since(due.max(self.heard_at)).as_secs_f64() - SILENCE
        });
        seen.max(silence)
    }
}

#[cfg(test)]
mod tests;
