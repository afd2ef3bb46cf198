//! The rate at which a connection delivers: the segments that arrived between the sending of one
//! and its acknowledgement (draft-cheng-iccrg-delivery-rate-estimation).

use std::time::Duration;

use sprat_scheduler::Time;

/// The account of the segments that a connection has delivered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Delivery {
    delivered: u64,
    delivered_at: Time,
    /// The time of sending from which the next flight is measured.
    first_sent_at: Time,
    /// The segments up to which what is delivered tells of the application rather than of the
    /// path.
    limited_upto: Option<u64>,
    /// The segment sent last among those that the acknowledgement at hand has delivered.
    newest: Option<NewestDelivered>,
}

/// The state of a [`Delivery`] when a segment was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DeliveryStamp {
    delivered: u64,
    delivered_at: Time,
    first_sent_at: Time,
    is_limited: bool,
}

#[derive(Clone, Copy, Debug)]
struct NewestDelivered {
    sent_at: Time,
    stamp: DeliveryStamp,
}

/// A measurement of the rate of delivery.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct RateSample {
    /// The segments that were delivered when the measured flight began.
    pub(super) prior_delivered: u64,
    /// The segments that were delivered since.
    pub(super) delivered: u64,
    /// The time that their sending or their acknowledgement took, whichever was longer.
    pub(super) interval: Duration,
    /// Whether the application may have had nothing to send meanwhile.
    pub(super) is_limited: bool,
}

impl Delivery {
    /// The account of a new connection, whose first flight measures no rate of the path.
    pub(super) const NEW: Self = Self {
        delivered: 0,
        delivered_at: Time::ZERO,
        first_sent_at: Time::ZERO,
        limited_upto: Some(0),
        newest: None,
    };

    /// Returns the number of segments delivered.
    pub(super) fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Returns whether what is sent now measures the application.
    pub(super) fn is_limited(&self) -> bool {
        self.limited_upto.is_some()
    }

    /// Notes that the sender has too little to send, with `in_flight` segments on the way.
    pub(super) fn limit(&mut self, in_flight: u32) {
        self.limited_upto = Some(self.delivered + u64::from(in_flight));
    }

    /// Returns the stamp of a segment that is sent now; `is_alone` if all before was acknowledged.
    pub(super) fn on_sent(&mut self, now: Time, is_alone: bool) -> DeliveryStamp {
        if is_alone {
            self.first_sent_at = now;
            self.delivered_at = now;
        }
        DeliveryStamp {
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent_at: self.first_sent_at,
            is_limited: self.is_limited(),
        }
    }

    /// Notes that a segment has arrived, which was sent at `sent_at` with a stamp.
    pub(super) fn on_delivered(&mut self, sent_at: Time, stamp: DeliveryStamp) {
        self.delivered += 1;
        if self.newest.is_none_or(|newest| sent_at >= newest.sent_at) {
            self.newest = Some(NewestDelivered { sent_at, stamp });
        }
    }

    /// Returns what an acknowledgement measures, once all that it delivers is noted. A flight
    /// cannot be faster than the least round trip: there, segments of another sending are meant.
    pub(super) fn sample(&mut self, now: Time, least_rtt: Duration) -> Option<RateSample> {
        let newest = self.newest.take()?;
        self.limited_upto = self.limited_upto.filter(|&upto| self.delivered <= upto);
        self.delivered_at = now;
        self.first_sent_at = newest.sent_at;
        let stamp = newest.stamp;
        let sending = newest.sent_at.since(stamp.first_sent_at);
        let interval = sending.max(now.since(stamp.delivered_at));
        (interval >= least_rtt).then(|| RateSample {
            prior_delivered: stamp.delivered,
            delivered: self.delivered - stamp.delivered,
            interval,
            is_limited: stamp.is_limited,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_rate_is_of_the_slower_of_sending_and_acknowledging() {
        let mut delivery = Delivery::NEW;
        let first = delivery.on_sent(at(0), true);
        let second = delivery.on_sent(at(30), false);
        delivery.on_delivered(at(0), first);
        let sample = delivery.sample(at(100), ms(100)).unwrap();
        assert_eq!((sample.delivered, sample.interval), (1, ms(100)));
        assert!(sample.is_limited, "the first flight is never full");
        let third = delivery.on_sent(at(100), false);
        delivery.on_delivered(at(30), second);
        let sample = delivery.sample(at(130), ms(100)).unwrap();
        assert_eq!((sample.delivered, sample.interval), (2, ms(130)));
        // Sent 100 ms after the first, and acknowledged 100 ms later.
        delivery.on_delivered(at(100), third);
        let sample = delivery.sample(at(200), ms(100)).unwrap();
        assert_eq!((sample.prior_delivered, sample.delivered), (1, 2));
        assert_eq!((sample.interval, sample.is_limited), (ms(100), false));
    }

    #[test]
    fn a_mark_holds_until_what_was_on_the_way_is_delivered() {
        let mut delivery = Delivery::NEW;
        let stamp = delivery.on_sent(at(0), true);
        delivery.on_delivered(at(0), stamp);
        delivery.sample(at(10), ms(10));
        assert!(!delivery.is_limited());
        let stamps = [1, 2].map(|ms| delivery.on_sent(at(ms), false));
        delivery.limit(1);
        delivery.on_delivered(at(1), stamps[0]);
        delivery.sample(at(11), ms(10));
        assert!(delivery.is_limited());
        delivery.on_delivered(at(2), stamps[1]);
        delivery.sample(at(12), ms(10));
        assert!(!delivery.is_limited());
    }

    #[test]
    fn nothing_is_measured_in_less_than_the_least_round_trip() {
        let mut delivery = Delivery::NEW;
        let stamp = delivery.on_sent(at(0), true);
        delivery.on_delivered(at(0), stamp);
        assert_eq!(delivery.sample(at(9), ms(10)), None);
        assert_eq!(
            (delivery.delivered(), delivery.sample(at(20), ms(10))),
            (1, None)
        );
    }
}
