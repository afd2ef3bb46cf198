//! The state of an endpoint, as a series of active checks shows it.

/// The numbers of checks in a row that change an endpoint's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// The number of checks in a row that must pass before an endpoint that failed is
    /// used again; at least one.
    pub healthy: u32,
    /// The number of checks in a row that must fail before an endpoint that passed is no
    /// longer used; at least one.
    pub unhealthy: u32,
}

/// The state of an endpoint by its checks, and how many in a row speak against it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Streak {
    passes: Option<bool>,
    /// The number of checks in a row against the present state.
    against: u32,
}

impl Streak {
    /// Takes in the result of a check. The first check decides alone; a later change takes as many
    /// in a row as the thresholds say.
    pub(super) fn observe(&mut self, thresholds: Thresholds, passed: bool) {
        let needed = match self.passes {
            None => 1,
            Some(passes) if passes == passed => {
                self.against = 0;
                return;
            }
            Some(false) => thresholds.healthy,
            Some(true) => thresholds.unhealthy,
        };
        self.against += 1;
        if self.against >= needed {
            self.passes = Some(passed);
            self.against = 0;
        }
    }

    pub(super) fn passes(&self) -> Option<bool> {
        self.passes
    }
}
