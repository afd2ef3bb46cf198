//! A link's rate and delay over time.

use std::time::Duration;

use sprat_scheduler::Time;

/// A change of a link's rate or delay; a value of `None` stays as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// The time of the change, since the link's start or that of the repetition.
    pub at: Duration,
    /// The rate from then on, in bits per second.
    pub rate_bits_per_s: Option<u64>,
    /// The delay of packets that are sent from then on.
    pub delay: Option<Duration>,
}

/// A link's changes over time, in the order of their times.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schedule {
    /// The changes; their times must not fall.
    pub changes: Vec<Change>,
    /// The time after which all changes come again. It must be longer than the last change's time,
    /// and not zero.
    pub repeat: Option<Duration>,
}

/// A schedule, with the place of the change that comes next.
#[derive(Clone, Debug)]
pub(super) struct Cursor {
    schedule: Schedule,
    begun: Time,
    next: usize,
}

impl Cursor {
    pub(super) fn new(schedule: Schedule, now: Time) -> Self {
        Self {
            schedule,
            begun: now,
            next: 0,
        }
    }

    /// Returns the time of the next change, if there is one.
    pub(super) fn due(&self) -> Option<Time> {
        let change = self.schedule.changes.get(self.next)?;
        Some(self.begun + change.at)
    }

    /// Takes the change that is due next, and goes on to the one after it.
    pub(super) fn take(&mut self) -> Option<Change> {
        let change = *self.schedule.changes.get(self.next)?;
        self.next += 1;
        if let Some(repeat) = self.schedule.repeat
            && self.next == self.schedule.changes.len()
        {
            self.begun = self.begun + repeat;
            self.next = 0;
        }
        Some(change)
    }
}
