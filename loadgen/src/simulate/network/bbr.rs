//! BBR version 1 as Linux has it (draft-cardwell-iccrg-bbr-congestion-control-00): the window and
//! the rate of pacing follow from a model of the path, its bandwidth and its least round trip.
//!
//! Of Linux's additions these are left out: the detection of policers, the allowance for
//! acknowledgements that come together, the credit for a burst that comes late, and the estimate of
//! what will be in flight when a packet may go. And a write counts as limited by the application
//! though packets of the socket wait in the host.

use std::collections::VecDeque;
use std::time::Duration;

use sprat_scheduler::Time;

use super::congestion::INITIAL_WINDOW;
use super::delivery::RateSample;
use super::pacing::Pacing;
use super::wire::MSS;
use crate::workload::Dice;

/// The gain with which the rate doubles in each round: 2 / ln 2.
const HIGH_GAIN: f64 = 2.885;

/// The window in PROBE_BW, in bandwidth-delay products.
const WINDOW_GAIN: f64 = 2.0;

/// The gains of the phases of PROBE_BW.
const CYCLE: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];

/// The part of the measured rate that is sent, which keeps a queue from growing.
const PACED_PART: f64 = 0.99;

/// The rounds for which a measured bandwidth is believed.
const BANDWIDTH_ROUNDS: u64 = 10;

/// The time for which a measured round trip is believed.
const RTT_BELIEVED: Duration = Duration::from_secs(10);

/// The least time with few segments on the way in which the round trip is measured again.
const PROBE_RTT: Duration = Duration::from_millis(200);

/// The least window, which is that of PROBE_RTT.
const FEW: u32 = 4;

/// The growth of the bandwidth in a round by which a pipe is known not to be full.
const FULL_GROWTH: f64 = 1.25;

/// The rounds without that growth after which a pipe is full.
const FULL_ROUNDS: u32 = 3;

/// The bursts for which a window has room beyond what the path takes.
const SPARE_BURSTS: u32 = 3;

/// The round trip that is supposed before one is measured.
const NOMINAL_RTT: Duration = Duration::from_millis(1);

/// The state of a sender with regard to losses, as BBR tells it apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LossState {
    /// The sender knows of no loss.
    Open,
    /// The segments that were lost are being sent again.
    Recovery,
    /// The retransmission timer has fired.
    Timeout,
}

/// The news that an acknowledgement brings.
#[derive(Clone, Copy, Debug)]
pub(super) struct BbrAck {
    pub(super) sample: Option<RateSample>,
    /// The segments delivered so far.
    pub(super) delivered: u64,
    /// The round trip of a segment that was sent once.
    pub(super) rtt: Option<Duration>,
    /// The smoothed round trip.
    pub(super) smoothed_rtt: Option<Duration>,
    /// The segments that have newly arrived.
    pub(super) arrived: u32,
    /// The segments that are newly known to be lost.
    pub(super) lost: u32,
    pub(super) in_flight_before: u32,
    pub(super) in_flight: u32,
    pub(super) state: LossState,
    pub(super) window: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BbrMode {
    /// The rate grows in each round until the bandwidth does not.
    Startup,
    /// The queue that the start has left is drained.
    Drain,
    /// The rate follows the bandwidth, with probes for more in turns.
    ProbeBandwidth,
    /// Few segments are on the way, so that the path's own round trip shows.
    ProbeRtt,
}

/// The model of a path, and what a sender makes of it.
#[derive(Clone, Debug)]
pub(super) struct Bbr {
    mode: BbrMode,
    rounds: u64,
    /// The segments delivered with which a round ends.
    round_ends_at: u64,
    /// Whether the last acknowledgement began a round.
    is_round_start: bool,
    bandwidth: BandwidthFilter,
    least_rtt: Option<Duration>,
    least_rtt_at: Time,
    full: FullPipe,
    /// The phase of PROBE_BW.
    phase: usize,
    phase_at: Time,
    /// The end of PROBE_RTT, but for a round; none before few segments are on the way.
    probe_ends_at: Option<Time>,
    /// Whether a round has passed with few segments on the way.
    is_probe_round_over: bool,
    /// Whether sending has begun again after the application was idle.
    is_after_idle: bool,
    state: LossState,
    /// The window before a recovery or PROBE_RTT.
    saved_window: u32,
    /// Whether a segment goes for each that arrives, and no more.
    conserves: bool,
    /// Whether the first rate came from a measured round trip.
    has_seen_rtt: bool,
    pacing: Pacing,
    dice: Dice,
}

/// The largest of the bandwidths of the last rounds.
#[derive(Clone, Debug, Default)]
struct BandwidthFilter {
    /// The candidates: each is later than the one before, and less.
    kept: VecDeque<MeasuredBandwidth>,
}

#[derive(Clone, Copy, Debug)]
struct MeasuredBandwidth {
    round: u64,
    segments_per_s: f64,
}

/// The search for the end of STARTUP.
#[derive(Clone, Copy, Debug, Default)]
struct FullPipe {
    segments_per_s: f64,
    /// The rounds in which the bandwidth has grown little.
    rounds: u32,
    is_reached: bool,
}

impl Bbr {
    /// Makes the model of a connection that has sent nothing.
    pub(super) fn new() -> Self {
        Self {
            mode: BbrMode::Startup,
            rounds: 0,
            round_ends_at: 0,
            is_round_start: false,
            bandwidth: BandwidthFilter::default(),
            least_rtt: None,
            least_rtt_at: Time::ZERO,
            full: FullPipe::default(),
            phase: 0,
            phase_at: Time::ZERO,
            probe_ends_at: None,
            is_probe_round_over: false,
            is_after_idle: false,
            state: LossState::Open,
            saved_window: 0,
            conserves: false,
            has_seen_rtt: false,
            pacing: Pacing::NEW,
            dice: Dice::new(0),
        }
    }

    /// Sets the seed from which the first phase of PROBE_BW is drawn.
    pub(super) fn set_seed(&mut self, seed: u64) {
        self.dice = Dice::new(seed);
    }

    /// Begins with a window, and with the round trip of the handshake if that was measured.
    pub(super) fn begin(&mut self, now: Time, window: u32, rtt: Option<Duration>) {
        self.least_rtt = rtt;
        self.least_rtt_at = now;
        self.has_seen_rtt = rtt.is_some();
        self.pace_from_rtt(window, rtt.unwrap_or(NOMINAL_RTT));
    }

    /// Returns the rate of pacing, in bytes of payload per second.
    pub(super) fn pacing_bytes_per_s(&self) -> u64 {
        self.pacing.bytes_per_s() as u64
    }

    /// Returns the time until which pacing lets no segment go, if that is later than now.
    pub(super) fn held_until(&self, now: Time) -> Option<Time> {
        self.pacing.held_until(now)
    }

    /// Returns whether few segments are kept on the way, so that rates of delivery tell nothing.
    pub(super) fn is_probing_rtt(&self) -> bool {
        self.mode == BbrMode::ProbeRtt
    }

    /// Notes that a segment with `bytes` of payload was sent.
    pub(super) fn on_sent(&mut self, now: Time, bytes: u64) {
        self.pacing.on_sent(now, bytes);
    }

    /// Notes that sending begins again after the application was idle, and returns the window.
    pub(super) fn on_restart(&mut self, now: Time, window: u32) -> u32 {
        self.is_after_idle = true;
        match self.mode {
            BbrMode::ProbeBandwidth => self.pace(1.0),
            BbrMode::ProbeRtt => return self.end_probe_rtt(now, window),
            BbrMode::Startup | BbrMode::Drain => {}
        }
        window
    }

    /// Notes that a recovery begins, at a window to come back to.
    pub(super) fn on_loss(&mut self, window: u32) {
        self.save(window);
    }

    /// Notes that the retransmission timer has fired, at a window to come back to.
    pub(super) fn on_timeout(&mut self, window: u32) {
        self.save(window);
        self.state = LossState::Timeout;
        self.full.segments_per_s = 0.0;
    }

    /// Takes an acknowledgement, and returns the window after it.
    pub(super) fn on_ack(&mut self, now: Time, ack: &BbrAck) -> u32 {
        self.note_rate(ack);
        self.move_phase(now, ack);
        self.note_full_pipe(ack);
        self.drain(now, ack);
        let window = self.note_rtt(now, ack);
        if let Some(rtt) = ack.smoothed_rtt.filter(|_| !self.has_seen_rtt) {
            self.has_seen_rtt = true;
            self.pace_from_rtt(window, rtt);
        }
        self.pace(self.pacing_gain());
        let window = if ack.arrived > 0 {
            self.window_after(ack, window)
        } else {
            window
        };
        if self.is_probing_rtt() {
            window.min(FEW)
        } else {
            window
        }
    }

    /// Counts rounds, and takes the measured bandwidth into the model. An application that is slow
    /// shows a bandwidth that is too small, but none that is too large.
    fn note_rate(&mut self, ack: &BbrAck) {
        self.is_round_start = false;
        let Some(sample) = ack.sample.filter(|sample| !sample.interval.is_zero()) else {
            return;
        };
        if sample.prior_delivered >= self.round_ends_at {
            self.round_ends_at = ack.delivered;
            self.rounds += 1;
            self.is_round_start = true;
            self.conserves = false;
        }
        let segments_per_s = sample.delivered as f64 / sample.interval.as_secs_f64();
        if !sample.is_limited || segments_per_s >= self.bandwidth.most() {
            self.bandwidth.add(self.rounds, segments_per_s);
        }
    }

    /// Moves between the phases of PROBE_BW. Each takes a round trip, but that for more lasts until
    /// the path holds as much, and that for less ends once the queue is gone.
    fn move_phase(&mut self, now: Time, ack: &BbrAck) {
        if self.mode != BbrMode::ProbeBandwidth {
            return;
        }
        let least_rtt = self.least_rtt.unwrap_or(Duration::MAX);
        let is_long = now.since(self.phase_at) > least_rtt;
        let gain = CYCLE[self.phase];
        let is_over = if gain > 1.0 {
            is_long && (ack.lost > 0 || ack.in_flight_before >= self.segments(gain))
        } else if gain < 1.0 {
            is_long || ack.in_flight_before <= self.segments(1.0)
        } else {
            is_long
        };
        if is_over {
            self.phase = (self.phase + 1) % CYCLE.len();
            self.phase_at = now;
        }
    }

    /// Looks for the end of STARTUP, once in each round that the application did not hold back.
    fn note_full_pipe(&mut self, ack: &BbrAck) {
        let is_limited = ack.sample.is_some_and(|sample| sample.is_limited);
        if self.full.is_reached || !self.is_round_start || is_limited {
            return;
        }
        let most = self.bandwidth.most();
        if most >= self.full.segments_per_s * FULL_GROWTH {
            self.full.segments_per_s = most;
            self.full.rounds = 0;
            return;
        }
        self.full.rounds += 1;
        self.full.is_reached = self.full.rounds >= FULL_ROUNDS;
    }

    /// Goes from STARTUP through DRAIN to PROBE_BW.
    fn drain(&mut self, now: Time, ack: &BbrAck) {
        if self.mode == BbrMode::Startup && self.full.is_reached {
            self.mode = BbrMode::Drain;
        }
        if self.mode == BbrMode::Drain && ack.in_flight <= self.segments(1.0) {
            self.probe_bandwidth(now);
        }
    }

    /// Begins PROBE_BW with a phase by chance, but not with that for less.
    fn probe_bandwidth(&mut self, now: Time) {
        let last = CYCLE.len() - 1;
        let before = last - self.dice.below(last);
        self.mode = BbrMode::ProbeBandwidth;
        self.phase = (before + 1) % CYCLE.len();
        self.phase_at = now;
    }

    /// Takes a measured round trip into the model. One that was not met for long is measured again,
    /// unless the application was idle: then the queue was gone by itself. Returns the window.
    fn note_rtt(&mut self, now: Time, ack: &BbrAck) -> u32 {
        let is_old = now.since(self.least_rtt_at) > RTT_BELIEVED;
        // The acknowledgement of a segment that came alone may have waited for a second one.
        let may_be_delayed =
            ack.arrived == 1 && ack.sample.is_some_and(|sample| sample.delivered == 1);
        if let Some(rtt) = ack.rtt {
            let is_less = self.least_rtt.is_none_or(|least| rtt < least);
            if is_less || (is_old && !may_be_delayed) {
                self.least_rtt = Some(rtt);
                self.least_rtt_at = now;
            }
        }
        if is_old && !self.is_after_idle && !self.is_probing_rtt() {
            self.save(ack.window);
            self.mode = BbrMode::ProbeRtt;
            self.probe_ends_at = None;
        }
        let mut window = ack.window;
        if self.is_probing_rtt() {
            if self.probe_ends_at.is_some() {
                self.is_probe_round_over |= self.is_round_start;
                if self.is_probe_round_over {
                    window = self.end_probe_rtt(now, window);
                }
            } else if ack.in_flight <= FEW {
                self.probe_ends_at = Some(now + PROBE_RTT);
                self.is_probe_round_over = false;
                self.round_ends_at = ack.delivered;
            }
        }
        if ack.sample.is_some() {
            self.is_after_idle = false;
        }
        window
    }

    /// Ends PROBE_RTT if its time is over, and returns the window.
    fn end_probe_rtt(&mut self, now: Time, window: u32) -> u32 {
        if self.probe_ends_at.is_none_or(|at| now <= at) {
            return window;
        }
        self.least_rtt_at = now;
        if self.full.is_reached {
            self.probe_bandwidth(now);
        } else {
            self.mode = BbrMode::Startup;
        }
        window.max(self.saved_window)
    }

    /// Returns the window after an acknowledgement of segments that have arrived.
    fn window_after(&mut self, ack: &BbrAck, window: u32) -> u32 {
        let before = std::mem::replace(&mut self.state, ack.state);
        let mut window = if ack.lost > 0 {
            window.saturating_sub(ack.lost).max(1)
        } else {
            window
        };
        match ack.state {
            LossState::Recovery if before != LossState::Recovery => {
                self.conserves = true;
                self.round_ends_at = ack.delivered;
                window = ack.in_flight + ack.arrived;
            }
            LossState::Open if before != LossState::Open => {
                self.conserves = false;
                window = window.max(self.saved_window);
            }
            _ => {}
        }
        if self.conserves {
            return window.max(ack.in_flight + ack.arrived);
        }
        let target = self.segments(self.window_gain());
        if self.full.is_reached {
            window = (window + ack.arrived).min(target);
        } else if window < target || ack.delivered < u64::from(INITIAL_WINDOW) {
            window += ack.arrived;
        }
        window.max(FEW)
    }

    /// Keeps the window that a recovery or PROBE_RTT will come back to.
    fn save(&mut self, window: u32) {
        self.saved_window = if self.state == LossState::Open && !self.is_probing_rtt() {
            window
        } else {
            self.saved_window.max(window)
        };
    }

    /// Returns the segments that the path holds at a gain, with room for bursts.
    fn segments(&self, gain: f64) -> u32 {
        let Some(rtt) = self.least_rtt else {
            return INITIAL_WINDOW;
        };
        let path = self.bandwidth.most() * rtt.as_secs_f64() * gain;
        let spare = SPARE_BURSTS * self.pacing.burst_segments();
        let probes = self.mode == BbrMode::ProbeBandwidth && self.phase == 0;
        let more = 2 * u32::from(probes);
        // An even number: acknowledgements that are delayed come for two segments.
        (path.ceil() as u32 + spare).next_multiple_of(2) + more
    }

    fn pacing_gain(&self) -> f64 {
        match self.mode {
            BbrMode::Startup => HIGH_GAIN,
            BbrMode::Drain => 1.0 / HIGH_GAIN,
            BbrMode::ProbeBandwidth => CYCLE[self.phase],
            BbrMode::ProbeRtt => 1.0,
        }
    }

    fn window_gain(&self) -> f64 {
        match self.mode {
            BbrMode::Startup | BbrMode::Drain => HIGH_GAIN,
            BbrMode::ProbeBandwidth => WINDOW_GAIN,
            BbrMode::ProbeRtt => 1.0,
        }
    }

    /// Sets the rate of pacing by the measured bandwidth. Until the pipe is full, it does not fall.
    fn pace(&mut self, gain: f64) {
        let bytes_per_s = self.bandwidth.most() * MSS as f64 * gain * PACED_PART;
        if self.full.is_reached || bytes_per_s > self.pacing.bytes_per_s() {
            self.pacing.set_bytes_per_s(bytes_per_s);
        }
    }

    /// Sets the rate of pacing by a window in each round trip, before a bandwidth is measured.
    fn pace_from_rtt(&mut self, window: u32, rtt: Duration) {
        let rtt_s = rtt.max(Duration::from_micros(1)).as_secs_f64();
        let bytes_per_s = f64::from(window) / rtt_s * MSS as f64 * HIGH_GAIN * PACED_PART;
        self.pacing.set_bytes_per_s(bytes_per_s);
    }
}

impl BandwidthFilter {
    /// Returns the largest bandwidth, in segments per second; 0 before the first.
    fn most(&self) -> f64 {
        self.kept.front().map_or(0.0, |first| first.segments_per_s)
    }

    /// Adds a bandwidth that was measured in `round`, and forgets those of long ago.
    fn add(&mut self, round: u64, segments_per_s: f64) {
        while self
            .kept
            .back()
            .is_some_and(|last| last.segments_per_s <= segments_per_s)
        {
            self.kept.pop_back();
        }
        self.kept.push_back(MeasuredBandwidth {
            round,
            segments_per_s,
        });
        while self
            .kept
            .front()
            .is_some_and(|first| first.round + BANDWIDTH_ROUNDS < round)
        {
            self.kept.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::delivery::{Delivery, DeliveryStamp};
    use super::*;

    /// The time that the line takes for a segment: 833 of them go in a second.
    const SEGMENT: Duration = Duration::from_micros(1200);

    /// The round trip of the line with its own time for a segment, which a window of 41 fills.
    const RTT: Duration = Duration::from_micros(49_200);
    const FULL_WINDOW: f64 = 41.0;

    fn at(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }

    /// A sender that has always something to send, over a line that drops nothing by itself.
    struct SteadyLine {
        now: Time,
        bbr: Bbr,
        delivery: Delivery,
        window: u32,
        free_at: Time,
        /// The time on the line beside that of a segment.
        delay: Duration,
        out: VecDeque<LineSegment>,
        state: LossState,
    }

    struct LineSegment {
        sent_at: Time,
        stamp: DeliveryStamp,
        acked_at: Time,
    }

    impl SteadyLine {
        fn new(seed: u64) -> Self {
            let mut bbr = Bbr::new();
            bbr.set_seed(seed);
            bbr.begin(Time::ZERO, INITIAL_WINDOW, Some(RTT));
            Self {
                now: Time::ZERO,
                bbr,
                delivery: Delivery::NEW,
                window: INITIAL_WINDOW,
                free_at: Time::ZERO,
                delay: RTT - SEGMENT,
                out: VecDeque::new(),
                state: LossState::Open,
            }
        }

        fn in_flight(&self) -> u32 {
            self.out.len() as u32
        }

        fn send(&mut self) {
            while self.in_flight() < self.window && self.bbr.held_until(self.now).is_none() {
                let stamp = self.delivery.on_sent(self.now, self.out.is_empty());
                self.bbr.on_sent(self.now, MSS);
                self.free_at = self.free_at.max(self.now) + SEGMENT;
                self.out.push_back(LineSegment {
                    sent_at: self.now,
                    stamp,
                    acked_at: self.free_at + self.delay,
                });
            }
        }

        /// Goes on to the next time at which a segment is sent or acknowledged.
        fn step(&mut self) {
            self.send();
            let acked_at = self.out.front().map(|first| first.acked_at);
            let held = self.bbr.held_until(self.now);
            let held = held.filter(|_| self.in_flight() < self.window);
            self.now = acked_at.into_iter().chain(held).min().unwrap();
            if acked_at == Some(self.now) {
                self.acknowledge(0);
            }
        }

        fn run_until(&mut self, end: Time) {
            while self.now < end {
                self.step();
            }
        }

        /// Acknowledges the first segment that was not `lost`; those before it were.
        fn acknowledge(&mut self, lost: u32) {
            let in_flight_before = self.in_flight();
            self.out.drain(..lost as usize);
            let first = self.out.pop_front().unwrap();
            self.now = self.now.max(first.acked_at);
            let rtt = Some(self.now.since(first.sent_at));
            self.delivery.on_delivered(first.sent_at, first.stamp);
            let ack = BbrAck {
                sample: self.delivery.sample(self.now, Duration::ZERO),
                delivered: self.delivery.delivered(),
                rtt,
                smoothed_rtt: rtt,
                arrived: 1,
                lost,
                in_flight_before,
                in_flight: self.in_flight(),
                state: self.state,
                window: self.window,
            };
            self.window = self.bbr.on_ack(self.now, &ack);
            if self.bbr.is_probing_rtt() {
                self.delivery.limit(self.in_flight());
            }
        }

        fn is_cruising(&self) -> bool {
            self.bbr.mode == BbrMode::ProbeBandwidth && CYCLE[self.bbr.phase] == 1.0
        }

        /// Returns the bandwidth that the model believes in, over the line's.
        fn believed(&self) -> f64 {
            self.bbr.bandwidth.most() * SEGMENT.as_secs_f64()
        }
    }

    /// Returns whether a value is within some per cent of another.
    fn is_about(value: f64, other: f64) -> bool {
        (0.95..1.05).contains(&(value / other))
    }

    #[test]
    fn the_start_finds_the_rate_of_a_line_in_some_rounds() {
        let mut line = SteadyLine::new(1);
        while !line.bbr.full.is_reached {
            line.step();
        }
        // 10, 20 and 40 segments, and three rounds without growth; the first of all is not counted.
        assert!((6..=9).contains(&line.bbr.rounds), "{}", line.bbr.rounds);
        assert!(
            (0.98..1.001).contains(&line.believed()),
            "{}",
            line.believed()
        );
        while line.bbr.mode != BbrMode::ProbeBandwidth {
            line.step();
        }
        assert!(line.bbr.rounds < 18, "{}", line.bbr.rounds);
        assert!(f64::from(line.in_flight()) < 1.3 * FULL_WINDOW);
    }

    #[test]
    fn the_line_is_full_and_its_queue_short_while_nothing_is_probed() {
        let mut line = SteadyLine::new(2);
        line.run_until(at(3000));
        let (mut sum, mut steps, mut most) = (0.0, 0.0, 0_u32);
        while line.now < at(9000) {
            line.step();
            if line.is_cruising() {
                sum += f64::from(line.in_flight());
                steps += 1.0;
                most = most.max(line.in_flight());
            }
        }
        let mean = sum / steps / FULL_WINDOW;
        assert!((0.9..1.25).contains(&mean), "{mean}");
        assert!(f64::from(most) < 1.4 * FULL_WINDOW, "{most}");
        assert!(
            (0.98..1.001).contains(&line.believed()),
            "{}",
            line.believed()
        );
    }

    #[test]
    fn the_round_trip_is_measured_again_after_ten_seconds() {
        let mut line = SteadyLine::new(3);
        line.run_until(at(5000));
        // The way becomes longer.
        line.delay = Duration::from_millis(60);
        line.run_until(at(9900));
        assert_eq!(line.bbr.least_rtt, Some(RTT));
        let before = line.window;
        while !line.bbr.is_probing_rtt() {
            line.step();
        }
        assert!(line.now < at(10_200), "{:?}", line.now);
        let began_at = line.now;
        let mut fewest = u32::MAX;
        while line.bbr.is_probing_rtt() {
            line.step();
            fewest = fewest.min(line.in_flight());
        }
        let took = line.now.since(began_at);
        assert!((PROBE_RTT..PROBE_RTT * 2).contains(&took), "{took:?}");
        assert!(fewest <= FEW, "{fewest}");
        assert_eq!(line.bbr.least_rtt, Some(line.delay + SEGMENT));
        assert!(f64::from(line.window) > 0.95 * f64::from(before));
    }

    #[test]
    fn a_loss_does_not_change_the_rate() {
        let mut line = SteadyLine::new(4);
        line.run_until(at(3000));
        while !line.is_cruising() {
            line.step();
        }
        let (window, bandwidth) = (line.window, line.bbr.bandwidth.most());
        line.bbr.on_loss(window);
        line.state = LossState::Recovery;
        line.acknowledge(10);
        assert_eq!(
            line.window,
            line.in_flight() + 1,
            "one goes for each that arrives"
        );
        assert!(is_about(line.bbr.bandwidth.most(), bandwidth));
        let round = line.bbr.rounds;
        while line.bbr.rounds < round + 2 {
            line.step();
        }
        line.state = LossState::Open;
        while line.bbr.state != LossState::Open {
            line.step();
        }
        assert!(is_about(f64::from(line.window), f64::from(window)));
        assert!(is_about(line.bbr.bandwidth.most(), bandwidth));
        let rate = line.bbr.pacing_bytes_per_s() as f64 / line.bbr.pacing_gain();
        assert!(is_about(rate, bandwidth * MSS as f64 * PACED_PART));
    }

    #[test]
    fn a_timeout_comes_back_to_the_window_before() {
        let mut line = SteadyLine::new(5);
        line.run_until(at(3000));
        let before = line.window;
        line.bbr.on_timeout(before);
        line.window = 1;
        line.state = LossState::Timeout;
        line.acknowledge(0);
        assert_eq!(line.window, FEW);
        line.state = LossState::Open;
        line.acknowledge(0);
        assert!(is_about(f64::from(line.window), f64::from(before)));
    }

    #[test]
    fn an_application_that_is_slow_does_not_lower_the_bandwidth() {
        let mut line = SteadyLine::new(6);
        line.run_until(at(3000));
        let before = line.bbr.bandwidth.most();
        let end = line.bbr.rounds + 2 * BANDWIDTH_ROUNDS;
        while line.bbr.rounds < end {
            line.window = 5;
            line.delivery.limit(line.in_flight());
            line.step();
        }
        assert!(is_about(line.bbr.bandwidth.most(), before));
    }

    #[test]
    fn a_bandwidth_is_forgotten_after_ten_rounds() {
        let mut filter = BandwidthFilter::default();
        for (round, measured) in [(0, 50.0), (1, 100.0), (5, 80.0), (8, 70.0), (11, 60.0)] {
            filter.add(round, measured);
        }
        assert_eq!(filter.most(), 100.0);
        filter.add(12, 60.0);
        assert_eq!((filter.most(), filter.kept.len()), (80.0, 3));
        filter.add(13, 90.0);
        assert_eq!((filter.most(), filter.kept.len()), (90.0, 1));
    }

    #[test]
    fn the_first_phase_is_drawn_and_never_the_one_for_less() {
        let mut first = [0; CYCLE.len()];
        for seed in 0..200 {
            let mut bbr = Bbr::new();
            bbr.set_seed(seed);
            bbr.probe_bandwidth(at(1));
            first[bbr.phase] += 1;
        }
        assert_eq!(first[1], 0);
        assert!(
            first.iter().filter(|&&count| count > 10).count() == 7,
            "{first:?}"
        );
    }
}
