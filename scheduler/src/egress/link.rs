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

/// The most time by which a link makes up for a driver that was late while something waited, as
/// one is whose machine computes for others. A driver that is never so late never sends a burst;
/// what one costs is that much queue behind the link.
pub const MADE_UP_MAX: Duration = Duration::from_millis(10);

/// The most bytes of that time, on links that carry more in it.
const MADE_UP_MAX_BYTES: u64 = 65_536;

/// A time in which the link had nothing to send.
#[derive(Clone, Copy, Debug)]
struct Rest {
    from: Time,
    /// The end, if it is known: flows may wait for something other than the link.
    until: Option<Time>,
}

/// A link's clock, and the bounds on what goes past the queue.
#[derive(Clone, Debug)]
pub(super) struct Link {
    pacer: Pacer,
    /// The time of rest that the clock has not been told of.
    rest: Option<Rest>,
    /// The time until which the flow that was granted bytes last may ask again before others.
    turn_until: Option<Time>,
    /// The allowance for bytes that no grant covers.
    ungranted: LinkAllowance,
    /// The allowance for bytes that go ahead of all flows (TOCS03 2.2.3): a lasting flood becomes
    /// the guard's average, so a share of the link bounds it as well.
    ahead: LinkAllowance,
    guard: Guard,
}

impl Link {
    /// Returns a link of which nothing has been taken.
    pub(super) fn new(mut pacer: Pacer, guard_factor: f64) -> Self {
        make_up(&mut pacer);
        Self {
            rest: Some(Rest {
                from: Time::ZERO,
                until: None,
            }),
            turn_until: None,
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
        make_up(&mut self.pacer);
        self.ungranted.set_link(now, &self.pacer);
        self.ahead.set_link(now, &self.pacer);
    }

    /// Resumes sending, as [`Pacer::resume_at`] does.
    pub(super) fn resume_at(&mut self, free_at: Time) {
        self.pacer.resume_at(free_at);
    }

    /// Notes that there is nothing to send from `now` on, `until` then if that is known: such
    /// time is not made up for.
    pub(super) fn rest(&mut self, now: Time, until: Option<Time>) {
        self.end_rest(now);
        let from = now.max(self.pacer.next_grant_at());
        let is_rest = until.is_none_or(|until| until > from);
        self.rest = is_rest.then_some(Rest { from, until });
    }

    /// Tells the clock of the rest that there has been up to now. In as long a rest a driver's
    /// lateness before it is forgotten as well: it is kept over the moment in which a writer
    /// fetches what comes next.
    fn end_rest(&mut self, now: Time) {
        let Some(Rest { from, until }) = &mut self.rest else {
            return;
        };
        let end = until.map_or(now, |until| until.min(now));
        if end > *from {
            self.pacer.skip(now, 2 * end.since(*from));
            *from = end;
        }
    }

    /// Returns the time from which the link loses capacity, as [`Pacer::loses_from`] does.
    pub(super) fn loses_from(&self) -> Time {
        let rest = self
            .rest
            .and_then(|rest| Some(rest.until?.since(rest.from)));
        self.pacer.loses_from() + rest.unwrap_or_default()
    }

    /// Takes bytes that are granted to a flow that waited. If the driver is late, more may be due at
    /// once; that is for the same flow, which cannot ask again before it has written: those behind
    /// it wait for that as long as a timer may be late.
    pub(super) fn take_awaited(&mut self, now: Time, wire_bytes: u64) {
        self.end_rest(now);
        self.rest = None;
        let is_late = self.pacer.is_late(now);
        self.pacer.debit(now, wire_bytes);
        self.turn_until = is_late.then(|| now + self.pacer.lateness());
    }

    /// Notes that the flow that was granted bytes last has asked again, or will not.
    pub(super) fn end_turn(&mut self) {
        self.turn_until = None;
    }

    /// Returns whether grants wait for the flow that was granted bytes last.
    pub(super) fn has_turn(&self, now: Time) -> bool {
        self.turn_until.is_some_and(|until| until > now)
    }

    /// Returns when a flow that waits may be granted bytes; in the past if it may be now.
    pub(super) fn next_grant_at(&self) -> Time {
        let turn_until = self.turn_until.unwrap_or_default();
        self.pacer.next_grant_at().max(turn_until)
    }

    /// Takes bytes that go at once.
    pub(super) fn take(&mut self, now: Time, wire_bytes: u64) {
        self.end_rest(now);
        self.pacer.debit(now, wire_bytes);
    }

    /// Takes bytes that no grant covers, as far as their allowance goes; returns how many it
    /// took.
    pub(super) fn take_ungranted(&mut self, now: Time, wire_bytes: u64) -> u64 {
        self.end_rest(now);
        let taken = self.ungranted.take(now, wire_bytes);
        self.pacer.debit(now, taken);
        taken
    }

    /// Gives back bytes that were taken and not sent. A link that had nothing to send is not late.
    pub(super) fn give_back(&mut self, now: Time, wire_bytes: u64) {
        self.end_rest(now);
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

/// Sets how much a link's clock makes up for, which depends on its rate.
fn make_up(pacer: &mut Pacer) {
    pacer.make_up(MADE_UP_MAX.min(pacer.time_for(MADE_UP_MAX_BYTES)));
}
