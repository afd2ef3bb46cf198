//! The link: its clock, and how much of it may be taken outside grants.

mod allowance;

use std::time::Duration;

use crate::guard::Guard;
use crate::{Pacer, Time};
use allowance::LinkAllowance;

/// The percentage of the link's time that debits outside grants may take. Where every
/// response has a connection of its own, with TLS, set-ups are most of what is sent; the
/// rest is what a flood of them leaves to responses.
const UNGRANTED_PERCENT: u64 = 80;

/// The percentage of the link's time that may be taken by what goes ahead of all flows.
const AHEAD_PERCENT: u64 = 50;

/// A link's clock, and the bounds on what goes past the queue.
#[derive(Clone, Debug)]
pub(super) struct Link {
    pacer: Pacer,
    /// The allowance for bytes that no grant covers.
    ungranted: LinkAllowance,
    /// The allowance for bytes that go ahead of all flows (TOCS03 2.2.3): a lasting flood becomes
    /// the guard's average, so a share of the link bounds it as well.
    ahead: LinkAllowance,
    guard: Guard,
}

impl Link {
    /// Returns a link of which nothing has been taken.
    pub(super) fn new(pacer: Pacer, guard_factor: f64) -> Self {
        Self {
            ungranted: LinkAllowance::new(UNGRANTED_PERCENT, &pacer),
            ahead: LinkAllowance::new(AHEAD_PERCENT, &pacer),
            guard: Guard::new(guard_factor),
            pacer,
        }
    }

    /// Returns the link's clock.
    pub(super) fn pacer(&self) -> &Pacer {
        &self.pacer
    }

    pub(super) fn set_guard_factor(&mut self, factor: f64) {
        self.guard.set_factor(factor);
    }

    pub(super) fn set_rate(&mut self, now: Time, rate_bits_per_s: u64) {
        self.pacer.change_rate(now, rate_bits_per_s);
        self.ungranted.set_link(now, &self.pacer);
        self.ahead.set_link(now, &self.pacer);
    }

    /// Resumes sending, as [`Pacer::resume_at`] does.
    pub(super) fn resume_at(&mut self, free_at: Time) {
        self.pacer.resume_at(free_at);
    }

    /// Takes bytes that are granted.
    pub(super) fn take(&mut self, now: Time, wire_bytes: u64) {
        self.pacer.debit(now, wire_bytes);
    }

    /// Takes bytes that no grant covers, as far as their allowance goes; returns how many it
    /// took.
    pub(super) fn take_ungranted(&mut self, now: Time, wire_bytes: u64) -> u64 {
        let taken = self.ungranted.take(now, wire_bytes);
        self.pacer.debit(now, taken);
        taken
    }

    /// Gives back bytes that were taken and not sent.
    pub(super) fn give_back(&mut self, now: Time, wire_bytes: u64) {
        self.pacer.refund(now, wire_bytes);
    }

    /// Counts an arrival on the fast path; returns whether the guard lets it go ahead.
    pub(super) fn note_arrival(&mut self, now: Time) -> bool {
        self.guard.admit(now)
    }

    /// Takes `wire_bytes` from the allowance for going ahead of all flows; returns false, and
    /// takes none, if that has less.
    pub(super) fn take_ahead(&mut self, now: Time, wire_bytes: u64) -> bool {
        let has_room = self.ahead.room(now) >= wire_bytes;
        if has_room {
            self.ahead.take(now, wire_bytes);
        }
        has_room
    }

    pub(super) fn guard_trips(&self) -> u64 {
        self.guard.trips()
    }

    /// Returns how long `wire_bytes` occupy the link behind what has been taken.
    pub(super) fn time_until_sent(&self, now: Time, wire_bytes: u64) -> Duration {
        let queued = self.pacer.time_for(wire_bytes);
        queued.saturating_add(self.pacer.next_grant_at().since(now))
    }
}
