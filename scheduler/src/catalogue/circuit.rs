//! A circuit that leaves a failing source alone for a while.

use std::time::Duration;

use crate::Time;

/// A switch that counts a source's failures in a row. At a bound the circuit opens, and the
/// source is left alone for a pause; then one trial decides whether it closes.
#[derive(Clone, Debug)]
pub struct Circuit {
    failures_max: u32,
    pause: Duration,
    failures: u32,
    /// The time of the next trial, set while the circuit is open or a trial is under way.
    next_trial: Option<Time>,
}

impl Circuit {
    /// Creates a circuit that opens after `failures_max` failures in a row, for `pause`.
    pub fn new(failures_max: u32, pause: Duration) -> Self {
        Self {
            failures_max: failures_max.max(1),
            pause,
            failures: 0,
            next_trial: None,
        }
    }

    /// Returns whether the source may be asked now. Once the pause of an open
    /// circuit is over, one caller in each further pause may try.
    pub fn admit(&mut self, now: Time) -> bool {
        match self.next_trial {
            None => true,
            Some(at) if now < at => false,
            Some(_) => {
                self.next_trial = Some(now + self.pause);
                true
            }
        }
    }

    /// Notes that the source was of use, which closes the circuit.
    pub fn succeed(&mut self) {
        self.failures = 0;
        self.next_trial = None;
    }

    /// Counts a failure, which may open the circuit.
    pub fn fail(&mut self, now: Time) {
        self.failures = self.failures.saturating_add(1);
        if self.failures >= self.failures_max {
            self.next_trial = Some(now + self.pause);
        }
    }

    /// Opens the circuit, however few failures there were.
    pub fn open(&mut self, now: Time) {
        self.failures = self.failures_max;
        self.next_trial = Some(now + self.pause);
    }

    /// Returns whether the circuit is open, or its trial under way.
    pub fn is_open(&self) -> bool {
        self.next_trial.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn opens_tries_and_closes() {
        let mut circuit = Circuit::new(3, Duration::from_millis(100));
        for _ in 0..2 {
            circuit.fail(at(0));
            assert!(circuit.admit(at(0)));
        }
        // A success between failures starts the count anew.
        circuit.succeed();
        for _ in 0..3 {
            assert!(circuit.admit(at(1)));
            circuit.fail(at(1));
        }
        assert!(circuit.is_open());
        assert!(!circuit.admit(at(100)));
        assert!(circuit.admit(at(101)));
        // One at a time, though the caller does not say how the trial ended.
        assert!(!circuit.admit(at(200)));
        assert!(circuit.admit(at(201)));
        circuit.fail(at(210));
        assert!(!circuit.admit(at(309)));
        assert!(circuit.admit(at(310)));
        circuit.succeed();
        assert!(circuit.admit(at(310)) && !circuit.is_open());
    }
}
