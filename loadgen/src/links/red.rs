//! Random early detection: which packets a queue drops before it is full.

use std::time::Duration;

use sprat_scheduler::Time;

/// The way in which early drops are spread over the packets that arrive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DropSpread {
    /// Evenly: the probability grows with the packets kept since the last drop, so that drops
    /// neither cluster nor stay away (Floyd and Jacobson 1993).
    #[default]
    Even,
    /// Each packet by itself, with the probability that the average gives: at most
    /// `max_probability`, about half as many drops as [`DropSpread::Even`].
    Single,
}

/// Random early detection's parameters; lengths are in packets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RedSettings {
    /// The average length up to which no packet is dropped.
    pub min_threshold: f64,
    /// The average length from which every packet is dropped.
    pub max_threshold: f64,
    /// Drop probability as the average reaches `max_threshold`.
    pub max_probability: f64,
    /// Weight of the length at an arrival in the average.
    pub weight: f64,
    /// The spread of drops: whether one depends on how long ago the last one was.
    pub spread: DropSpread,
}

impl RedSettings {
    /// SFD02's RED parameters for packets marked IN (table 1).
    pub const SFD_IN: Self = Self {
        min_threshold: 10.0,
        max_threshold: 30.0,
        max_probability: 0.02,
        weight: 0.02,
        spread: DropSpread::Even,
    };
    /// SFD02's RED parameters for packets marked OUT (table 1), and for plain RED (section 4.1).
    pub const SFD_OUT: Self = Self {
        min_threshold: 8.0,
        max_threshold: 24.0,
        max_probability: 0.10,
        weight: 0.02,
        spread: DropSpread::Even,
    };

    /// Returns these parameters with [`DropSpread::Single`]: each packet is dropped by itself.
    pub const fn single(self) -> Self {
        Self {
            spread: DropSpread::Single,
            ..self
        }
    }
}

/// RED's decision on a packet that arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedVerdict {
    /// The packet joins the queue.
    Keep,
    /// The packet is dropped by the draw.
    Early,
    /// The packet is dropped because the average is at the upper threshold.
    Forced,
}

/// Random early detection's state for one queue (Floyd and Jacobson 1993): it drops rather than
/// marks, and is not the gentle variant.
#[derive(Clone, Debug)]
pub struct Red {
    settings: RedSettings,
    average: f64,
    /// Packets kept since the last drop while the average was above the lower threshold;
    /// -1 while it is not.
    count: i64,
    /// The time at which the queue ran empty, or at which the average was last updated while it was
    /// empty. An idle time that is counted twice would forget too much.
    idle_since: Time,
    packet_time: Duration,
}

impl Red {
    /// Makes an empty queue's state at `now`. `packet_time` is the time that a packet takes on the
    /// link.
    pub fn new(settings: RedSettings, packet_time: Duration, now: Time) -> Self {
        Self {
            settings,
            average: 0.0,
            count: -1,
            idle_since: now,
            packet_time,
        }
    }

    /// Returns the average length in packets, as of the last arrival.
    pub fn average(&self) -> f64 {
        self.average
    }

    /// Judges a packet that finds `length` packets; `draw` is uniform in [0, 1).
    pub fn arrive(&mut self, length: u64, now: Time, draw: f64) -> RedVerdict {
        self.observe(length, now);
        let RedSettings {
            min_threshold,
            max_threshold,
            max_probability,
            spread,
            ..
        } = self.settings;
        if self.average >= max_threshold {
            self.count = 0;
            return RedVerdict::Forced;
        }
        if self.average <= min_threshold {
            self.count = -1;
            return RedVerdict::Keep;
        }
        self.count += 1;
        let base =
            max_probability * (self.average - min_threshold) / (max_threshold - min_threshold);
        let even = base / (1.0 - self.count as f64 * base);
        let probability = match spread {
            DropSpread::Single => base,
            DropSpread::Even if (0.0..=1.0).contains(&even) => even,
            DropSpread::Even => 1.0,
        };
        if draw < probability {
            self.count = 0;
            RedVerdict::Early
        } else {
            RedVerdict::Keep
        }
    }

    /// Updates the average with an arrival that finds `length` packets.
    pub fn observe(&mut self, length: u64, now: Time) {
        let weight = self.settings.weight;
        if length > 0 {
            self.average += weight * (length as f64 - self.average);
            return;
        }
        let idle = now.since(self.idle_since);
        self.idle_since = now;
        if idle.is_zero() {
            return;
        }
        // On a link without a rate, packets without end would have passed.
        let missed = idle.as_secs_f64() / self.packet_time.as_secs_f64();
        self.average *= (1.0 - weight).powf(missed);
    }

    /// Notes that the queue has run empty.
    pub fn emptied(&mut self, now: Time) {
        self.idle_since = now;
    }

    /// Sets the time that a packet takes on the link, whose rate has changed.
    pub fn set_packet_time(&mut self, packet_time: Duration) {
        self.packet_time = packet_time;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at_ms(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }

    /// RED parameters in round numbers: a weight of a half, thresholds of 2 and 6, a probability of
    /// 0.4.
    const ROUND: RedSettings = RedSettings {
        min_threshold: 2.0,
        max_threshold: 6.0,
        max_probability: 0.4,
        weight: 0.5,
        spread: DropSpread::Even,
    };

    #[test]
    fn a_table_worked_by_hand() {
        use RedVerdict::{Early, Forced, Keep};
        let mut red = Red::new(ROUND, Duration::from_millis(1), Time::ZERO);
        // length, ms, draw -> average, verdict
        let table = [
            // 0 + 0.5 * (4 - 0); not above the lower threshold: count = -1
            (4, 0, 0.0, 2.0, Keep),
            // 3: pb = 0.4 * 1/4 = 0.1, count = 0: pa = 0.1
            (4, 0, 0.1, 3.0, Keep),
            // 4: pb = 0.2, count = 1: pa = 0.2 / 0.8 = 0.25
            (5, 0, 0.25, 4.0, Keep),
            // the same average, count = 2: pa = 0.2 / 0.6 = 1/3
            (4, 0, 0.3333, 4.0, Early),
            // count began again, and is 1: pa = 0.25
            (4, 0, 0.26, 4.0, Keep),
            // 4.5: pb = 0.25, count = 2: pa = 0.25 / 0.5
            (5, 0, 0.49, 4.5, Early),
            // 5.25: pb = 0.325, count = 1: pa = 0.325 / 0.675 = 0.4815
            (6, 0, 0.482, 5.25, Keep),
            // 5.625: pb = 0.3625, count = 2: pa = 0.3625 / 0.275 is above 1
            (6, 0, 0.999, 5.625, Early),
            // 6.8125
            (8, 0, 0.999, 6.8125, Forced),
            // Idle from 0 to 2 ms are two packets: a quarter of it. Below: count = -1
            (0, 2, 0.0, 1.703_125, Keep),
            // The same idle time is not counted again.
            (0, 2, 0.0, 1.703_125, Keep),
            (0, 3, 0.0, 0.851_562_5, Keep),
        ];
        for (row, (length, ms, draw, average, verdict)) in table.into_iter().enumerate() {
            let found = red.arrive(length, at_ms(ms), draw);
            assert_eq!((found, red.average()), (verdict, average), "row {row}");
        }
    }

    #[test]
    fn a_single_drop_depends_on_the_average_alone() {
        use RedVerdict::{Early, Forced, Keep};
        let mut red = Red::new(ROUND.single(), Duration::from_millis(1), Time::ZERO);
        // length, draw -> average, verdict
        let table = [
            (8, 0.2, 4.0, Keep),
            // 4: 0.4 * 2/4, however many were kept before and whenever the last was dropped.
            (4, 0.2, 4.0, Keep),
            (4, 0.199, 4.0, Early),
            (4, 0.2, 4.0, Keep),
            (4, 0.199, 4.0, Early),
            // 5.5: 0.35; never more than 0.4 below the upper threshold.
            (7, 0.351, 5.5, Keep),
            (7, 0.999, 6.25, Forced),
        ];
        for (row, (length, draw, average, verdict)) in table.into_iter().enumerate() {
            let found = red.arrive(length, Time::ZERO, draw);
            assert_eq!((found, red.average()), (verdict, average), "row {row}");
        }
    }

    #[test]
    fn single_drops_are_half_as_many_as_even_ones() {
        let drops = |settings| {
            let mut red = Red::new(settings, Duration::from_millis(4), Time::ZERO);
            let mut state = 7u64;
            let verdicts = (0..100_000).map(|_| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                red.arrive(12, Time::ZERO, (state >> 11) as f64 / (1u64 << 53) as f64)
            });
            verdicts
                .filter(|verdict| *verdict == RedVerdict::Early)
                .count() as f64
        };
        let (even, single) = (
            drops(RedSettings::SFD_OUT),
            drops(RedSettings::SFD_OUT.single()),
        );
        // A quarter of max_p, of 100,000.
        assert!((2_300.0..2_700.0).contains(&single), "{single}");
        assert!((1.8..2.2).contains(&(even / single)), "{even} {single}");
    }

    #[test]
    fn idle_time_counts_from_when_the_queue_ran_empty() {
        let mut red = Red::new(ROUND, Duration::from_millis(10), Time::ZERO);
        red.observe(8, at_ms(5));
        assert_eq!(red.average(), 4.0);
        red.emptied(at_ms(20));
        red.observe(0, at_ms(30));
        assert_eq!(red.average(), 2.0);
        // Twice the rate: a packet takes half the time.
        red.set_packet_time(Duration::from_millis(5));
        red.observe(0, at_ms(40));
        assert_eq!(red.average(), 0.5);
    }

    #[test]
    fn a_link_without_a_rate_forgets_at_once() {
        let mut red = Red::new(ROUND, Duration::ZERO, Time::ZERO);
        red.observe(8, Time::ZERO);
        red.observe(0, Time::ZERO);
        assert_eq!(red.average(), 4.0);
        red.observe(0, Time::from_nanos(1));
        assert_eq!(red.average(), 0.0);
    }

    #[test]
    fn the_papers_rows_drop_out_before_in() {
        // A standing length between OUT's thresholds' ends and above IN's lower one.
        let drops = |settings| {
            let mut red = Red::new(settings, Duration::from_millis(4), Time::ZERO);
            let mut draw = 0.0;
            let verdicts = (0..10_000).map(|_| {
                draw = (draw + 0.618_034) % 1.0;
                red.arrive(20, Time::ZERO, draw)
            });
            verdicts
                .filter(|verdict| *verdict != RedVerdict::Keep)
                .count()
        };
        let (within, out) = (drops(RedSettings::SFD_IN), drops(RedSettings::SFD_OUT));
        assert!(within > 50 && out > 5 * within, "{within} {out}");
    }
}
