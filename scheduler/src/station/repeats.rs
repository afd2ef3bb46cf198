//! The bound on a station's repetitions, and their account.

/// The bound on how many of a station's requests may be repetitions at a time,
/// so that they do not add to the load of a farm that fails under it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryBudget {
    /// The percent of all requests that may be repetitions.
    pub percent: u8,
    /// The number of repetitions that are allowed in any case.
    pub min: usize,
    /// The most repetitions at a time.
    pub max: usize,
}

impl Default for RetryBudget {
    /// Returns a budget without a bound.
    fn default() -> Self {
        Self {
            percent: 100,
            min: 0,
            max: usize::MAX,
        }
    }
}

impl RetryBudget {
    fn allows(self, repeated: usize, active: usize) -> bool {
        let share = active.saturating_mul(usize::from(self.percent)) / 100;
        repeated < share.max(self.min).min(self.max)
    }
}

/// The account of a station's repetitions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Repeats {
    budget: RetryBudget,
    active: usize,
    denied: u64,
}

impl Repeats {
    pub(super) fn new(budget: RetryBudget) -> Self {
        Self {
            budget,
            active: 0,
            denied: 0,
        }
    }

    /// Returns whether one more repetition would be allowed, with `all` requests at the station.
    pub(super) fn may_begin(&self, all: usize) -> bool {
        self.budget.allows(self.active, all)
    }

    /// Counts one more repetition, with `all` requests at the station; returns false if it is not
    /// allowed.
    pub(super) fn begin(&mut self, all: usize) -> bool {
        let may_begin = self.may_begin(all);
        match may_begin {
            true => self.active += 1,
            false => self.denied += 1,
        }
        may_begin
    }

    /// Notes that a repeated request is over.
    pub(super) fn ended(&mut self) {
        self.active -= 1;
    }

    /// Returns the number of requests that are being repeated.
    pub(super) fn active(&self) -> usize {
        self.active
    }

    /// Returns the number of repetitions so far that were not allowed.
    pub(super) fn denied(&self) -> u64 {
        self.denied
    }
}
