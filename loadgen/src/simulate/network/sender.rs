//! The server's side of a connection: TCP as Linux sends it, without a clock.
//!
//! Segments that are lost are found by the time at which they were sent (RACK,
//! RFC 8985), the end of a burst by a probe (TLP), all else by a timeout with
//! back-off (RFC 6298); a recovery sends at the rate at which segments arrive
//! (RFC 6937). A timeout that was too early is taken back (RFC 3522). BBR has a model that sets the
//! window instead, and the sender paces what it sends.

mod model;
mod round_trips;
mod timers;

use std::collections::VecDeque;
use std::time::Duration;

use sprat_scheduler::Time;

use super::bbr::Bbr;
use super::congestion::{Algorithm, Congestion};
use super::delivery::{Delivery, DeliveryStamp};
use super::habits::Habits;
use super::receiver::{Ack, Piece};
use super::wire::MSS;
use round_trips::RoundTrips;

/// The number of segments beyond a hole that prove a loss (RFC 5681's three duplicates).
const DUPLICATES: u32 = 3;

/// A segment to put on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    /// The segment's first byte in the connection's stream.
    pub(super) from: u64,
    /// The byte after the segment's last.
    pub(super) to: u64,
}

/// The state of a segment that is not acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SegmentFate {
    /// The segment is on its way.
    Out,
    /// The segment has arrived, beyond a hole.
    Arrived,
    /// The segment is lost, and to be sent again.
    Lost,
}

/// The numbers of segments of which an acknowledgement tells for the first time.
#[derive(Clone, Copy, Debug, Default)]
struct Newly {
    /// Segments that have arrived.
    arrived: u32,
    /// The part of them that lets the window grow: all, unless there is a hole.
    in_order: u32,
    lost: u32,
}

#[derive(Clone, Copy, Debug)]
struct Sent {
    from: u64,
    to: u64,
    at: Time,
    fate: SegmentFate,
    again: bool,
    stamp: DeliveryStamp,
}

/// The state of a sender with regard to losses.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    /// The sender knows of no loss.
    Open,
    /// A segment was lost: until all that was sent before has arrived, the window follows what
    /// arrives.
    Recovery {
        until: u64,
        window_before: u32,
        arrived: u32,
        sent: u32,
    },
    /// A timeout came: everything is sent again, unless the timeout proves to be too early.
    Timeout {
        until: u64,
        fired_at: Time,
        window_before: u32,
        threshold_before: u32,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Timer {
    Retransmission,
    /// The time to probe the end of a burst, which may be lost without a sign of it.
    Probe,
    /// The time by which a segment beyond a hole may prove another lost.
    Reordering,
}

/// The server's side of a connection.
#[derive(Debug)]
pub(super) struct Sender {
    congestion: Congestion,
    /// The model that sets the window and paces, if that is BBR's.
    bbr: Option<Box<Bbr>>,
    delivery: Delivery,
    /// The time until which pacing holds back what may go otherwise.
    held_until: Option<Time>,
    /// The segments that were sent and are not acknowledged, in order.
    segments: VecDeque<Sent>,
    written: u64,
    sent: u64,
    acked: u64,
    /// The number of segments on their way.
    out: u32,
    lost: u32,
    phase: Phase,
    /// The newest segment known to have arrived: the time at which it was sent, and its end.
    newest: (Time, u64),
    newest_rtt: Duration,
    round_trips: RoundTrips,
    timeouts: u32,
    timer: Option<(Time, Timer)>,
    probed: bool,
    sent_at: Time,
    limited: WindowLimited,
    counters: SenderCounters,
    /// Whether a probe is to send a segment, whatever the window says.
    probe_due: bool,
    habits: Habits,
}

/// Whether the window was what held a sender back, in the last window of data.
#[derive(Clone, Copy, Debug, Default)]
struct WindowLimited {
    is: bool,
    until: u64,
    most_out: u32,
}

/// The work of a sender so far, as `TCP_INFO` counts it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SenderCounters {
    /// Payload bytes put on the wire, repetitions included.
    pub(super) bytes_sent: u64,
    /// Payload bytes put on the wire again.
    pub(super) bytes_again: u64,
    /// The number of segments with payload.
    pub(super) segments: u64,
    /// The number of segments sent again.
    pub(super) again: u64,
}

impl Sender {
    /// Makes the sender of a connection on which nothing was sent.
    pub(super) fn new(algorithm: Algorithm) -> Self {
        Self {
            congestion: Congestion::new(algorithm),
            bbr: (algorithm == Algorithm::Bbr).then(|| Box::new(Bbr::new())),
            delivery: Delivery::NEW,
            held_until: None,
            segments: VecDeque::new(),
            written: 0,
            sent: 0,
            acked: 0,
            out: 0,
            lost: 0,
            phase: Phase::Open,
            newest: (Time::ZERO, 0),
            newest_rtt: Duration::ZERO,
            round_trips: RoundTrips::NONE,
            timeouts: 0,
            timer: None,
            probed: false,
            sent_at: Time::ZERO,
            limited: WindowLimited::default(),
            counters: SenderCounters::default(),
            probe_due: false,
            habits: Habits::TODAY,
        }
    }

    /// Notes that the handshake took `rtt`.
    pub(super) fn on_handshake(&mut self, rtt: Duration) {
        self.round_trips.add(rtt);
    }

    /// Notes that the application has written `bytes` more into the socket.
    pub(super) fn write(&mut self, now: Time, bytes: u64) {
        let idle = now.since(self.sent_at);
        if self.segments.is_empty() && self.sent > 0 && idle > self.timeout() {
            self.congestion.on_idle(idle, self.timeout());
        }
        if let Some(bbr) = &mut self.bbr
            && self.written == 0
        {
            bbr.begin(now, self.congestion.window(), self.round_trips.smoothed);
        }
        let has_room = self.out < self.congestion.window() && self.lost == 0;
        if has_room && self.unsent() < MSS {
            self.delivery.limit(self.out);
        }
        self.written += bytes;
    }

    /// Returns the number of bytes that the socket has taken.
    pub(super) fn written(&self) -> u64 {
        self.written
    }

    /// Returns the number of bytes that the client has acknowledged.
    pub(super) fn acked(&self) -> u64 {
        self.acked
    }

    /// Returns the number of bytes in the socket that were never sent (`tcpi_notsent_bytes`).
    pub(super) fn unsent(&self) -> u64 {
        self.written - self.sent
    }

    /// Returns the number of bytes that have arrived behind one that has not (`tcpi_sacked`, in
    /// bytes).
    pub(super) fn sacked_bytes(&self) -> u64 {
        let sacked = self
            .segments
            .iter()
            .filter(|segment| segment.fate == SegmentFate::Arrived);
        sacked.map(|segment| segment.to - segment.from).sum()
    }

    /// Returns the least round trip seen; [`Duration::MAX`] before the first.
    pub(super) fn min_rtt(&self) -> Duration {
        self.round_trips.least
    }

    /// Returns the rate at which BBR paces what is sent, or at which Linux would if anything did,
    /// in bytes of payload per second (`tcpi_pacing_rate`).
    pub(super) fn pacing_bytes_per_s(&self) -> u64 {
        if let Some(bbr) = &self.bbr {
            return bbr.pacing_bytes_per_s();
        }
        let Some(srtt) = self.round_trips.smoothed else {
            return u64::MAX;
        };
        let window = self.congestion.window();
        let is_far = window < self.congestion.threshold() / 2;
        let gain = if is_far { 2.0 } else { 1.2 };
        let bytes = u64::from(window.max(self.out)) * MSS;
        (gain * bytes as f64 / srtt.as_secs_f64()) as u64
    }

    /// Returns the counters of what the sender has done.
    pub(super) fn counters(&self) -> SenderCounters {
        self.counters
    }

    /// Returns the congestion window, in segments.
    #[cfg(test)]
    pub(super) fn window(&self) -> u32 {
        self.congestion.window()
    }

    /// Returns when [`Sender::on_timer`] is due.
    pub(super) fn timer_at(&self) -> Option<Time> {
        let timer = self.timer.map(|(at, _)| at);
        timer.into_iter().chain(self.held_until).min()
    }

    /// Frees the table of segments, once nothing more will be sent or acknowledged.
    pub(super) fn finish(&mut self) {
        self.segments = VecDeque::new();
    }

    /// Returns the next segment to put on the wire, if one may go; to be called until none may.
    pub(super) fn next_segment(&mut self, now: Time) -> Option<Segment> {
        self.held_until = None;
        if self.probe_due {
            self.probe_due = false;
            return self.new_segment(now).or_else(|| self.last_again(now));
        }
        if self.out >= self.congestion.window() {
            if self.lost > 0 || self.unsent() > 0 {
                self.limited = WindowLimited {
                    is: true,
                    until: self.sent,
                    most_out: self.segments.len() as u32,
                };
            }
            return None;
        }
        if let Some(bbr) = &self.bbr
            && let Some(until) = bbr.held_until(now)
        {
            self.held_until = (self.lost > 0 || self.unsent() > 0).then_some(until);
            return None;
        }
        let segment = if self.lost > 0 {
            self.lost_again(now)
        } else {
            self.new_segment(now)
        };
        if segment.is_some()
            && let Phase::Recovery { sent, .. } = &mut self.phase
        {
            *sent += 1;
        }
        segment
    }

    /// Makes a connection that has sent nothing behave as TCP of another time.
    pub(super) fn set_habits(&mut self, habits: Habits) {
        self.habits = habits;
    }

    /// Sets the seed of what a sender leaves to chance.
    pub(super) fn set_seed(&mut self, seed: u64) {
        if let Some(bbr) = &mut self.bbr {
            bbr.set_seed(seed);
        }
    }

    /// Sets the window with which a connection that has sent nothing begins.
    pub(super) fn set_first_window(&mut self, segments: u32) {
        self.congestion.set_window(segments);
    }

    fn new_segment(&mut self, now: Time) -> Option<Segment> {
        let (first, most) = self.habits.receive;
        let window = (first + 2 * self.acked).min(most);
        let room = (self.acked + window).saturating_sub(self.sent);
        let bytes = self.unsent().min(MSS);
        if bytes == 0 || room < bytes {
            return None;
        }
        let segment = Segment {
            from: self.sent,
            to: self.sent + bytes,
        };
        let stamp = self.stamp_new(now);
        self.sent = segment.to;
        self.segments.push_back(Sent {
            from: segment.from,
            to: segment.to,
            at: now,
            fate: SegmentFate::Out,
            again: false,
            stamp,
        });
        self.out += 1;
        let in_flight = self.segments.len() as u32;
        let limited = self.limited;
        if self.acked >= limited.until || (!limited.is && in_flight > limited.most_out) {
            self.limited = WindowLimited {
                is: false,
                until: self.sent,
                most_out: in_flight,
            };
        }
        self.transmitted(now, bytes);
        Some(segment)
    }

    fn lost_again(&mut self, now: Time) -> Option<Segment> {
        let place = self
            .segments
            .iter()
            .position(|s| s.fate == SegmentFate::Lost)?;
        self.lost -= 1;
        self.out += 1;
        Some(self.again(now, place))
    }

    /// Sends the last segment again, to have its end acknowledged.
    fn last_again(&mut self, now: Time) -> Option<Segment> {
        let last = self.segments.len().checked_sub(1)?;
        match self.segments[last].fate {
            SegmentFate::Out => {}
            SegmentFate::Arrived => return None,
            SegmentFate::Lost => {
                self.lost -= 1;
                self.out += 1;
            }
        }
        Some(self.again(now, last))
    }

    fn again(&mut self, now: Time, place: usize) -> Segment {
        let stamp = self.delivery.on_sent(now, false);
        let sent = &mut self.segments[place];
        sent.fate = SegmentFate::Out;
        sent.again = true;
        sent.stamp = stamp;
        sent.at = now;
        let segment = Segment {
            from: sent.from,
            to: sent.to,
        };
        self.counters.again += 1;
        self.counters.bytes_again += segment.to - segment.from;
        self.transmitted(now, segment.to - segment.from);
        segment
    }

    fn transmitted(&mut self, now: Time, bytes: u64) {
        self.sent_at = now;
        self.counters.bytes_sent += bytes;
        self.counters.segments += 1;
        if let Some(bbr) = &mut self.bbr {
            bbr.on_sent(now, bytes);
        }
        match self.timer {
            None | Some((_, Timer::Probe)) => self.arm(now),
            Some((at, Timer::Retransmission)) if self.probes() => {
                let probe_at = now + self.probe_time();
                if probe_at < at {
                    self.timer = Some((probe_at, Timer::Probe));
                }
            }
            Some(_) => {}
        }
    }

    /// Takes an acknowledgement, after which segments may go.
    pub(super) fn on_ack(&mut self, now: Time, ack: Ack) {
        let advanced = ack.upto > self.acked;
        let in_flight_before = self.out;
        let mut arrived = 0;
        let mut rtt = None;
        while let Some(first) = self.segments.front()
            && first.to <= ack.upto
        {
            let first = *first;
            self.segments.pop_front();
            match first.fate {
                SegmentFate::Out => self.out -= 1,
                SegmentFate::Lost => self.lost -= 1,
                SegmentFate::Arrived => continue,
            }
            arrived += 1;
            rtt = self.arrived(now, &first, ack.echo).or(rtt);
        }
        self.acked = self.acked.max(ack.upto);
        if let Some(piece) = ack.selected
            && piece.to > self.acked
        {
            let (selected, newest) = self.select(now, piece);
            arrived += selected;
            rtt = newest.or(rtt);
        }
        if let Some(rtt) = rtt {
            self.round_trips.add(rtt);
            self.congestion.on_rtt(now, rtt, self.acked, self.sent);
        } else if advanced && ack.echo > Time::ZERO {
            self.round_trips.add(now.since(ack.echo));
        }
        if arrived == 0 && !advanced {
            return;
        }
        self.timeouts = if advanced { 0 } else { self.timeouts };
        self.probed &= !advanced;
        let newly = Newly {
            arrived,
            in_order: if advanced { arrived } else { 0 },
            lost: self.find_losses(now),
        };
        self.move_on(now, ack, newly);
        self.follow_model(now, rtt, in_flight_before, newly);
        self.arm(now);
    }

    /// Notes that a segment has arrived; returns its round trip, where that is beyond doubt.
    fn arrived(&mut self, now: Time, sent: &Sent, echo: Time) -> Option<Duration> {
        self.delivery.on_delivered(sent.at, sent.stamp);
        let original = !sent.again || echo >= sent.at;
        if original && (sent.at, sent.to) > self.newest {
            self.newest = (sent.at, sent.to);
            self.newest_rtt = now.since(sent.at);
        }
        (!sent.again).then(|| now.since(sent.at))
    }

    /// Marks the segments of a piece that has arrived beyond a hole. Returns their number, and a
    /// round trip if one was measured.
    fn select(&mut self, now: Time, piece: Piece) -> (u32, Option<Duration>) {
        let (mut arrived, mut rtt) = (0, None);
        let mut place = self.segments.partition_point(|s| s.from < piece.from);
        while let Some(sent) = self.segments.get_mut(place)
            && sent.to <= piece.to
        {
            let was = std::mem::replace(&mut sent.fate, SegmentFate::Arrived);
            let sent = *sent;
            place += 1;
            match was {
                SegmentFate::Out => self.out -= 1,
                SegmentFate::Lost => self.lost -= 1,
                SegmentFate::Arrived => continue,
            }
            arrived += 1;
            rtt = self.arrived(now, &sent, sent.at).or(rtt);
        }
        (arrived, rtt)
    }

    /// Marks as lost the segments that have not arrived, while one that was sent later has. Returns
    /// their number. Arms the timer for those of which it is too early to tell.
    fn find_losses(&mut self, now: Time) -> u32 {
        if self
            .timer
            .is_some_and(|(_, kind)| kind == Timer::Reordering)
        {
            self.timer = None;
        }
        let beyond = self.segments.len() as u32 - self.out - self.lost;
        let Some(first) = self.segments.front() else {
            return 0;
        };
        if self.phase == Phase::Open && beyond == 0 && (first.at, first.to) > self.newest {
            return 0;
        }
        if !self.habits.by_time && self.phase == Phase::Open && beyond < DUPLICATES {
            return 0;
        }
        let patience = if beyond >= DUPLICATES || self.phase != Phase::Open {
            Duration::ZERO
        } else {
            self.round_trips.least.min(self.newest_rtt) / 4
        };
        let (mut lost, mut due) = (0, None::<Time>);
        for sent in &mut self.segments {
            if sent.fate != SegmentFate::Out || (sent.at, sent.to) >= self.newest {
                continue;
            }
            let at = sent.at + self.newest_rtt + patience;
            if at <= now {
                sent.fate = SegmentFate::Lost;
                lost += 1;
            } else {
                due = Some(due.map_or(at, |due| due.min(at)));
            }
        }
        self.out -= lost;
        self.lost += lost;
        if let Some(at) = due {
            self.timer = Some((at, Timer::Reordering));
        }
        lost
    }

    /// Moves between the phases, and the window with them: segments in order let it grow.
    fn move_on(&mut self, now: Time, ack: Ack, newly: Newly) {
        match self.phase {
            Phase::Recovery { until, .. } if self.acked >= until => {
                self.phase = Phase::Open;
                if self.bbr.is_none() {
                    self.congestion.set_window(self.congestion.threshold());
                }
            }
            Phase::Timeout {
                until,
                fired_at,
                window_before,
                threshold_before,
            } => {
                if ack.echo > Time::ZERO && ack.echo < fired_at && ack.upto > 0 {
                    // What was sent before the timeout has arrived after all.
                    self.take_back();
                    self.congestion.undo(window_before, threshold_before);
                    self.phase = Phase::Open;
                } else if self.acked >= until {
                    self.phase = Phase::Open;
                }
            }
            _ => {}
        }
        if self.phase == Phase::Open && newly.lost > 0 {
            let window_before = self.congestion.window();
            self.congestion.on_loss();
            if let Some(bbr) = &mut self.bbr {
                bbr.on_loss(window_before);
            }
            self.phase = Phase::Recovery {
                until: self.sent,
                window_before,
                arrived: 0,
                sent: 0,
            };
        }
        match self.phase {
            // The model sets the window.
            _ if self.bbr.is_some() => {}
            Phase::Recovery { .. } => self.recover(newly.arrived),
            _ if newly.in_order > 0 && self.is_window_limited() => {
                self.congestion.on_acked(now, newly.in_order);
            }
            _ => {}
        }
    }

    /// Sets the window during a recovery by proportional rate reduction (RFC 6937).
    fn recover(&mut self, newly: u32) {
        let threshold = self.congestion.threshold();
        let Phase::Recovery {
            window_before,
            arrived,
            sent,
            ..
        } = &mut self.phase
        else {
            return;
        };
        *arrived += newly;
        let may_send = if self.out > threshold {
            let due = u64::from(threshold) * u64::from(*arrived);
            let due = due.div_ceil(u64::from((*window_before).max(1))) as u32;
            due.saturating_sub(*sent)
        } else {
            let bound = arrived.saturating_sub(*sent).max(newly) + 1;
            (threshold - self.out).min(bound)
        };
        // The first one is sent again in any case.
        let may_send = may_send.max(u32::from(*sent == 0));
        self.congestion.set_window(self.out + may_send);
    }

    /// Takes back the losses of a timeout that was too early.
    fn take_back(&mut self) {
        for sent in &mut self.segments {
            if sent.fate == SegmentFate::Lost {
                sent.fate = SegmentFate::Out;
                self.lost -= 1;
                self.out += 1;
            }
        }
    }

    fn is_window_limited(&self) -> bool {
        if self.limited.is {
            return true;
        }
        self.congestion.is_slow_start()
            && self.congestion.window() < self.limited.most_out.saturating_mul(2)
    }

    /// Acts on the timer if it is due, after which segments may go.
    pub(super) fn on_timer(&mut self, now: Time) {
        self.held_until = self.held_until.filter(|&until| now < until);
        let Some((at, kind)) = self.timer else { return };
        if now < at {
            return;
        }
        self.timer = None;
        match kind {
            Timer::Reordering => {
                let newly = Newly {
                    lost: self.find_losses(now),
                    ..Newly::default()
                };
                let ack = Ack {
                    upto: self.acked,
                    selected: None,
                    echo: Time::ZERO,
                };
                self.move_on(now, ack, newly);
                self.arm(now);
            }
            Timer::Probe => {
                self.probed = true;
                self.probe_due = true;
                self.arm(now);
            }
            Timer::Retransmission => self.timed_out(now),
        }
    }
}

#[cfg(test)]
#[path = "sender/tests.rs"]
mod tests;
