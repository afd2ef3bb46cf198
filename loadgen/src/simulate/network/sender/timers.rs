//! The times at which a sender acts by itself: probes of a burst's end, and retransmissions.

use std::time::Duration;

use sprat_scheduler::Time;

use super::{Phase, SegmentFate, Sender, Timer};

const RTO_MOST: Duration = Duration::from_secs(120);

impl Sender {
    /// Takes everything on the way for lost, for its acknowledgement is late.
    pub(super) fn timed_out(&mut self, now: Time) {
        if self.segments.is_empty() {
            return;
        }
        if !matches!(self.phase, Phase::Timeout { .. }) || self.timeouts == 0 {
            self.phase = Phase::Timeout {
                until: self.sent,
                fired_at: now,
                window_before: self.congestion.window(),
                threshold_before: self.congestion.threshold(),
            };
            if let Some(bbr) = &mut self.bbr {
                bbr.on_timeout(self.congestion.window());
            }
            self.congestion.on_timeout();
        } else {
            self.congestion.set_window(1);
        }
        for sent in &mut self.segments {
            if sent.fate == SegmentFate::Out {
                sent.fate = SegmentFate::Lost;
            }
        }
        self.lost += self.out;
        self.out = 0;
        self.timeouts += 1;
        self.arm(now);
    }

    /// Sets the timer to the probe or the retransmission, whichever is due next.
    pub(super) fn arm(&mut self, now: Time) {
        if self.segments.is_empty() {
            self.timer = None;
            return;
        }
        if self
            .timer
            .is_some_and(|(_, kind)| kind == Timer::Reordering)
        {
            return;
        }
        let timeout = now + self.timeout();
        let probe_at = now + self.probe_time();
        self.timer = Some(if self.probes() && probe_at < timeout {
            (probe_at, Timer::Probe)
        } else {
            (timeout, Timer::Retransmission)
        });
    }

    /// Returns whether the end of a burst may be probed.
    pub(super) fn probes(&self) -> bool {
        let all_out = self.out as usize == self.segments.len();
        self.habits.by_time && self.phase == Phase::Open && all_out && !self.probed
    }

    /// Returns the time of the tail loss probe (RFC 8985 7.2).
    pub(super) fn probe_time(&self) -> Duration {
        let Some(srtt) = self.round_trips.smoothed else {
            return self.habits.rto_initial;
        };
        let slack = if self.segments.len() == 1 {
            self.habits.rto_least
        } else {
            Duration::from_millis(2)
        };
        2 * srtt + slack
    }

    /// Returns the time until the retransmission, with its back-off.
    pub(super) fn timeout(&self) -> Duration {
        let timeout = match self.round_trips.smoothed {
            Some(srtt) => srtt + (4 * self.round_trips.variance).max(self.habits.rto_least),
            None => self.habits.rto_initial,
        };
        (timeout * (1 << self.timeouts.min(7))).min(RTO_MOST)
    }
}
