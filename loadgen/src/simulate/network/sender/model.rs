//! The sender whose window and rate follow from a model of the path: what the model is told.

use std::time::Duration;

use sprat_scheduler::Time;

use super::super::bbr::{BbrAck, LossState};
use super::super::delivery::DeliveryStamp;
use super::{Newly, Phase, Sender};

impl Sender {
    /// Makes the stamp of a new segment, which may be the first one after an idle time.
    pub(super) fn stamp_new(&mut self, now: Time) -> DeliveryStamp {
        if let Some(bbr) = &mut self.bbr
            && self.out == 0
            && self.delivery.is_limited()
        {
            let window = bbr.on_restart(now, self.congestion.window());
            self.congestion.set_window(window);
        }
        self.delivery.on_sent(now, self.segments.is_empty())
    }

    /// Tells the model of an acknowledgement, and sets the window that follows from it.
    pub(super) fn follow_model(
        &mut self,
        now: Time,
        rtt: Option<Duration>,
        in_flight_before: u32,
        newly: Newly,
    ) {
        let sample = self.delivery.sample(now, self.round_trips.least);
        let Some(bbr) = &mut self.bbr else { return };
        let ack = BbrAck {
            sample,
            delivered: self.delivery.delivered(),
            rtt,
            smoothed_rtt: self.round_trips.smoothed,
            arrived: newly.arrived,
            lost: newly.lost,
            in_flight_before,
            in_flight: self.out,
            state: match self.phase {
                Phase::Open => LossState::Open,
                Phase::Recovery { .. } => LossState::Recovery,
                Phase::Timeout { .. } => LossState::Timeout,
            },
            window: self.congestion.window(),
        };
        self.congestion.set_window(bbr.on_ack(now, &ack));
        if bbr.is_probing_rtt() {
            self.delivery.limit(self.out);
        }
    }
}
