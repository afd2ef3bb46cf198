//! The switch that has SRQ order in busy periods alone (SRQ06 III-C), as told by what waits.

use std::time::Duration;

use crate::Time;

/// The time above its trigger's bound after which SRQ begins to order.
const ON_AFTER: Duration = Duration::from_secs(1);

/// The time below half of that bound after which SRQ no longer orders.
const OFF_AFTER: Duration = Duration::from_secs(5);

/// The sign of a busy period. The paper takes its admission controller's threshold on the length of
/// the queue, and gives no number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// Every period is taken for busy.
    Always,
    /// A period is busy while more than this is left to serve, in the time that it takes.
    Backlog(Duration),
    /// A period is busy while more than this number wait.
    Waiting(usize),
}

impl Trigger {
    /// Returns whether the trigger depends on what waits.
    pub fn is_conditional(self) -> bool {
        self != Self::Always
    }

    fn is_above(self, backlog: Duration, waiting: usize) -> bool {
        match self {
            Self::Always => true,
            Self::Backlog(bound) => backlog > bound,
            Self::Waiting(bound) => waiting > bound,
        }
    }

    fn is_below_half(self, backlog: Duration, waiting: usize) -> bool {
        match self {
            Self::Always => false,
            Self::Backlog(bound) => backlog < bound / 2,
            Self::Waiting(bound) => waiting.saturating_mul(2) < bound,
        }
    }
}

/// The state of a trigger, with hysteresis: on after a second above its bound, off after
/// five seconds below half of it.
#[derive(Clone, Copy, Debug)]
pub struct Switch {
    trigger: Trigger,
    is_on: bool,
    /// The time since which what was noted speaks for the other state.
    since: Option<Time>,
}

impl Switch {
    /// Returns a switch that is off unless its trigger is [`Trigger::Always`].
    pub fn new(trigger: Trigger) -> Self {
        Self {
            trigger,
            is_on: !trigger.is_conditional(),
            since: None,
        }
    }

    /// Returns whether the switch is on.
    pub fn is_on(&self) -> bool {
        self.is_on
    }

    /// Returns whether the switch depends on what waits; see [`Switch::observe`].
    pub fn is_conditional(&self) -> bool {
        self.trigger.is_conditional()
    }

    /// Returns when the switch will turn on, if what was noted last lasts.
    pub fn turns_on_at(&self) -> Option<Time> {
        let since = self.since.filter(|_| !self.is_on)?;
        Some(since + ON_AFTER)
    }

    /// Notes how much waits now, and returns whether the switch turns. What was noted before counts
    /// as having lasted until now.
    pub fn observe(&mut self, now: Time, backlog: Duration, waiting: usize) -> bool {
        let after = if self.is_on { OFF_AFTER } else { ON_AFTER };
        let has_turned = self.since.is_some_and(|since| now.since(since) >= after);
        if has_turned {
            self.is_on = !self.is_on;
            self.since = None;
        }
        let turns = match self.is_on {
            false => self.trigger.is_above(backlog, waiting),
            true => self.trigger.is_below_half(backlog, waiting),
        };
        self.since = turns.then(|| self.since.unwrap_or(now));
        has_turned
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
    fn it_is_on_after_a_second_above_and_off_after_five_below_half() {
        let mut switch = Switch::new(Trigger::Backlog(ms(200)));
        assert!(!switch.is_on());
        assert!(
            !switch.observe(at(0), ms(200), 0),
            "at the bound is not above"
        );
        assert!(!switch.observe(at(5_000), ms(201), 0));
        assert!(!switch.observe(at(5_999), ms(900), 0));
        assert!(switch.observe(at(6_000), ms(201), 0) && switch.is_on());
        assert!(
            !switch.observe(at(7_000), ms(100), 0),
            "half is not below half"
        );
        assert!(!switch.observe(at(20_000), ms(99), 0));
        assert!(!switch.observe(at(24_999), ms(0), 0));
        assert!(switch.observe(at(25_000), ms(99), 0) && !switch.is_on());
    }

    #[test]
    fn what_does_not_last_turns_nothing() {
        let mut switch = Switch::new(Trigger::Waiting(8));
        for second in 0..20 {
            let waiting = if second % 2 == 0 { 9 } else { 8 };
            assert!(!switch.observe(at(900 * second), ms(0), waiting));
        }
        assert!(!switch.observe(at(30_000), ms(0), 9));
        // What was noted last has lasted, whatever is so now.
        assert!(switch.observe(at(31_000), ms(0), 4));
        for second in 0..20 {
            let waiting = if second % 2 == 0 { 3 } else { 4 };
            assert!(!switch.observe(at(40_000 + 4_000 * second), ms(0), waiting));
        }
    }

    #[test]
    fn always_is_always() {
        let mut switch = Switch::new(Trigger::Always);
        assert!(switch.is_on() && !switch.is_conditional());
        assert!(!switch.observe(at(0), ms(0), 0));
        assert!(!switch.observe(at(60_000), ms(0), 0) && switch.is_on());
    }
}
