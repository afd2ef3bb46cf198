//! The bank of hypothetical links, and the delay that each would have added to what was sent.

use crate::Time;

/// The number of links in the bank: 0.4 Mbit/s to 1.66 Gbit/s, 6% apart.
pub(super) const RATES: usize = 144;
const FIRST_BITS_PER_S: f64 = 400_000.0;
const STEP: f64 = 1.06;

/// A full segment on the wire, in bytes.
pub(super) const SEGMENT: f32 = 1514.0;

/// A delay in seconds for each link.
pub(super) type Delays = [f32; RATES];

/// The queues of all links of the bank, each as if everything went over that link.
#[derive(Clone, Debug)]
pub(super) struct Bank {
    /// The seconds that each link takes for a byte.
    byte_s: Delays,
    delay_s: Delays,
    at: Time,
}

/// Returns the rate of link `index`, in bits per second.
pub(super) fn rate_of(index: usize) -> f64 {
    FIRST_BITS_PER_S * STEP.powi(index as i32)
}

/// Returns the index of the first link that is not slower than a rate, or of the last link if all
/// are slower.
pub(super) fn index_of(bits_per_s: f64) -> usize {
    let index = (bits_per_s / FIRST_BITS_PER_S).ln() / STEP.ln();
    // Rounding must not take a link for slower than itself.
    ((index - 1e-6).ceil().max(0.0) as usize).min(RATES - 1)
}

impl Bank {
    /// Returns a bank of links that are idle.
    pub(super) fn new() -> Self {
        Self {
            byte_s: std::array::from_fn(|index| (8.0 / rate_of(index)) as f32),
            delay_s: [0.0; RATES],
            at: Time::ZERO,
        }
    }

    /// Returns the seconds that a link takes for a byte.
    pub(super) fn byte_s(&self, index: usize) -> f32 {
        self.byte_s[index]
    }

    /// Returns what waits on each link, in seconds.
    #[cfg(test)]
    pub(super) fn delays(&self) -> &Delays {
        &self.delay_s
    }

    /// Notes that `bytes` have gone onto the wire. No queue grows beyond `most_s` seconds, for what
    /// a real queue drops does not wait in it.
    pub(super) fn send(&mut self, now: Time, bytes: u64, most_s: f32) {
        let passed_s = now.since(self.at).as_secs_f32();
        self.at = self.at.max(now);
        let bytes = bytes as f32;
        for (delay_s, byte_s) in self.delay_s.iter_mut().zip(&self.byte_s) {
            let own_s = bytes * byte_s;
            *delay_s = ((*delay_s - passed_s).max(0.0) + own_s).min(most_s.max(own_s));
        }
    }

    /// Returns the delay that each link predicts for a probe of `bytes` that was just sent, in
    /// seconds: its queue, less the time of the probe's first segment, which the base round trip
    /// includes.
    pub(super) fn predict(&self, bytes: u64) -> Delays {
        let own = (bytes as f32).min(SEGMENT);
        std::array::from_fn(|index| self.delay_s[index] - own * self.byte_s[index])
    }

    /// Bounds all queues by `most_s` seconds, within which all that went out lately came back.
    pub(super) fn shorten(&mut self, now: Time, most_s: f32) {
        let passed_s = now.since(self.at).as_secs_f32();
        self.at = self.at.max(now);
        for delay_s in &mut self.delay_s {
            *delay_s = (*delay_s - passed_s).clamp(0.0, most_s);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grid_is_found_again() {
        for index in 0..RATES {
            assert_eq!(index_of(rate_of(index)), index);
        }
        assert_eq!(index_of(1.0), 0);
        assert_eq!(index_of(1e12), RATES - 1);
        assert!(rate_of(index_of(10e6)) >= 10e6);
        assert!(rate_of(index_of(10e6) - 1) < 10e6);
    }

    #[test]
    fn a_link_queues_what_it_cannot_carry_and_drains() {
        let mut bank = Bank::new();
        let slow = 0;
        // 500 bytes take 10 ms at 0.4 Mbit/s.
        for _ in 0..3 {
            bank.send(Time::ZERO, 500, f32::INFINITY);
        }
        assert!((bank.delays()[slow] - 0.030).abs() < 1e-6);
        assert!((bank.predict(500)[slow] - 0.020).abs() < 1e-6);
        let later = Time::from_nanos(25_000_000);
        bank.send(later, 500, f32::INFINITY);
        assert!((bank.delays()[slow] - 0.015).abs() < 1e-6);
        bank.send(later, 500, 0.012);
        assert!((bank.delays()[slow] - 0.012).abs() < 1e-6);
        bank.shorten(later, 0.002);
        assert!((bank.delays()[slow] - 0.002).abs() < 1e-6);
    }

    #[test]
    fn a_queue_is_shortened_by_the_time_that_passed() {
        let mut bank = Bank::new();
        assert!((bank.byte_s(0) - 20e-6).abs() < 1e-9);
        bank.send(Time::ZERO, 1500, f32::INFINITY);
        bank.shorten(Time::from_nanos(10_000_000), 1.0);
        assert!((bank.delays()[0] - 0.020).abs() < 1e-6);
    }
}
