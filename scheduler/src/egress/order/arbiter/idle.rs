//! The gate that says when the classes that take what others leave may send (EH99 7).
//!
//! To go after all that is ready is not enough. Between two writes of a response in the
//! foreground there are moments when it is not ready: its request has come and the backend has
//! not yet answered, or its socket has just taken the last write. A packet put on the link in
//! such a moment is one that the response then waits for. So the background is held back while a
//! response in the foreground has begun, or is known to come, and is not over.
//!
//! Holding back costs the background. So a response may hold it back only as long as it shows
//! signs of life, and all responses together only for a share of the time that the background has
//! sent for. But for that share the background keeps what was left to it, whatever the foreground
//! does.

use std::time::Duration;

use crate::Time;

/// The time without a sign of life after which a response in the foreground is waiting for
/// something far away (a slow client, a slow backend).
const QUIET: Duration = Duration::from_millis(5);

/// The divisor of the time for which the background has sent, which gives the time for which the
/// link may be held idle.
const EARN_SHARE: u32 = 10;

/// The most time that is saved up for holding the link idle.
const CREDIT_MAX: Duration = Duration::from_millis(50);

/// The least credit with which the background is held back: to do so for moments gains
/// nothing, and costs a timer each.
const CREDIT_MIN: Duration = Duration::from_millis(1);

/// The gate that holds the background back.
#[derive(Clone, Debug)]
pub(super) struct IdleGate {
    /// The number of responses in the foreground that have begun or are to come.
    foreground: usize,
    /// The time at which a response in the foreground last showed a sign of life.
    alive_at: Time,
    credit: Duration,
    /// The time since which the link has been idle with the background held back.
    held_since: Option<Time>,
}

impl IdleGate {
    pub(super) fn new() -> Self {
        Self {
            foreground: 0,
            alive_at: Time::ZERO,
            credit: CREDIT_MAX,
            held_since: None,
        }
    }

    /// Notes that a response in the foreground begins, or is to come.
    pub(super) fn enter(&mut self, now: Time) {
        self.foreground += 1;
        self.alive_at = now;
    }

    /// Counts the end of a response in the foreground.
    pub(super) fn leave(&mut self) {
        self.foreground = self.foreground.saturating_sub(1);
    }

    /// Notes that a response in the foreground shows a sign of life.
    pub(super) fn alive(&mut self, now: Time) {
        self.alive_at = now;
    }

    /// Returns until when the background, which is ready on a free link, has to wait;
    /// `None` if it may send.
    pub(super) fn hold(&mut self, now: Time) -> Option<Time> {
        if self.foreground == 0 || (self.held_since.is_none() && self.credit < CREDIT_MIN) {
            return None;
        }
        let since = *self.held_since.get_or_insert(now);
        let until = (self.alive_at + QUIET).min(since + self.credit);
        (until > now).then_some(until)
    }

    /// Notes that a flow sends, so that the link is idle no longer.
    pub(super) fn settle(&mut self, now: Time) {
        if let Some(since) = self.held_since.take() {
            self.credit = self.credit.saturating_sub(now.since(since));
        }
    }

    /// Notes that the background has occupied the link for the time `sent`.
    pub(super) fn earn(&mut self, sent: Duration) {
        self.credit = (self.credit + sent / EARN_SHARE).min(CREDIT_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn an_idle_foreground_holds_nothing_back() {
        let mut gate = IdleGate::new();
        assert_eq!(gate.hold(at(1)), None);
        gate.enter(at(1));
        gate.leave();
        assert_eq!(gate.hold(at(1)), None);
    }

    #[test]
    fn a_response_holds_back_while_it_shows_signs_of_life() {
        let mut gate = IdleGate::new();
        gate.enter(at(10));
        assert_eq!(gate.hold(at(12)), Some(at(15)));
        gate.alive(at(14));
        assert_eq!(gate.hold(at(15)), Some(at(19)));
        assert_eq!(gate.hold(at(19)), None);
        // 7 of the 50 ms are spent.
        gate.settle(at(19));
        assert_eq!(gate.credit, Duration::from_millis(43));
    }

    #[test]
    fn holding_back_is_paid_for_by_sending() {
        let mut gate = IdleGate::new();
        gate.enter(at(0));
        let mut held_ms = 0;
        for now in 0..1000 {
            gate.alive(at(now));
            match gate.hold(at(now)) {
                Some(_) => held_ms += 1,
                None => {
                    gate.settle(at(now));
                    gate.earn(Duration::from_millis(1));
                }
            }
        }
        // 50 ms at the start, then a tenth of what was sent.
        assert!((50 + 80..=50 + 90).contains(&held_ms), "{held_ms}");
    }
}
