//! The gate's attention: whether acknowledgements are late, so that there is anything to look at.
//!
//! To ask the kernel after each write costs a few microseconds a request, and where no
//! acknowledgement is late it teaches nothing. So a driver that has seen no delay for a while looks
//! for a twentieth of the time. With the first window in which acknowledgements are late, it looks
//! all the time again.

use std::time::Duration;

use crate::Time;

/// The least length of a window.
const WINDOW: Duration = Duration::from_millis(50);

/// The least number of acknowledgements in a window.
const HEARD: u32 = 50;

/// The time for which the driver rests after a window without delays.
const REST: Duration = Duration::from_millis(950);

/// The time for which every window is looked at, after a window with delays and at first.
const ATTENTIVE: Duration = Duration::from_secs(5);

/// The delay from which an acknowledgement has met a queue, in seconds: those of a thread that is
/// kept from the CPU for a moment are less late.
const LATE_S: f32 = 0.004;

/// The percentage of a window's acknowledgements above which late ones are a sign of a queue.
const LATE_PERCENT: u32 = 2;

/// The acknowledgements of the present window, and how many of them were late.
#[derive(Clone, Debug, Default)]
pub(super) struct Attention {
    began: Time,
    heard: u32,
    late: u32,
    /// The end of the last window with delays, or the last time that the gate woke it.
    attentive_at: Time,
}

impl Attention {
    /// Counts an acknowledgement that came `delay_s` seconds later than without a queue; `None`
    /// stands for a loss, which counts as late.
    pub(super) fn hear(&mut self, delay_s: Option<f32>) {
        self.heard += 1;
        self.late += u32::from(delay_s.is_none_or(|delay_s| delay_s >= LATE_S));
    }

    /// Notes that there is something to look at, so that the driver does not rest for a while.
    pub(super) fn wake(&mut self, now: Time) {
        self.attentive_at = now;
    }

    /// Returns how long the driver may rest; `None` while there is something to look at.
    pub(super) fn rest(&mut self, now: Time) -> Option<Duration> {
        if now.since(self.began) < WINDOW || self.heard < HEARD {
            return None;
        }
        if self.late * 100 > self.heard * LATE_PERCENT {
            self.attentive_at = now;
        }
        let rests = now.since(self.attentive_at) >= ATTENTIVE;
        *self = Self {
            began: if rests { now + REST } else { now },
            attentive_at: self.attentive_at,
            ..Self::default()
        };
        rests.then_some(REST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays the windows of a second, each of 100 acknowledgements, `late` of them late; returns
    /// how many windows ended with a rest.
    fn rests(attention: &mut Attention, second: u64, late: u32) -> usize {
        let window = |number: u64| {
            for heard in 0..100 {
                attention.hear(Some(if heard < late { 0.005 } else { 0.001 }));
            }
            let now = Time::from_nanos(second * 1_000_000_000 + number * 50_000_000);
            attention.rest(now).is_some()
        };
        (1..=20).map(window).filter(|rests| *rests).count()
    }

    #[test]
    fn what_is_late_keeps_it_attentive_for_a_while() {
        let mut attention = Attention::default();
        // It does not know yet.
        assert!((0..4).all(|second| rests(&mut attention, second, 0) == 0));
        rests(&mut attention, 4, 0);
        assert_eq!(rests(&mut attention, 5, 2), 1);
        // A queue: the window that was begun sees it.
        assert!((6..12).all(|second| rests(&mut attention, second, 3) <= 1));
        assert!((12..16).all(|second| rests(&mut attention, second, 0) == 0));
        rests(&mut attention, 16, 0);
        assert_eq!(rests(&mut attention, 17, 0), 1);
    }

    #[test]
    fn a_loss_is_late_and_few_say_nothing() {
        let mut attention = Attention::default();
        let late = Time::from_nanos(6_000_000_000);
        for _ in 1..HEARD {
            attention.hear(None);
        }
        assert_eq!(attention.rest(late), None);
        attention.hear(None);
        assert_eq!(attention.rest(late), None);
        for _ in 0..HEARD {
            attention.hear(Some(0.0));
        }
        assert_eq!(attention.rest(late + ATTENTIVE - WINDOW), None);
        for _ in 0..HEARD {
            attention.hear(Some(0.0));
        }
        assert_eq!(attention.rest(late + ATTENTIVE), Some(REST));
    }

    #[test]
    fn what_is_woken_does_not_rest_for_a_while() {
        let rest = |after: Duration| {
            let mut attention = Attention::default();
            let woken = Time::from_nanos(10_000_000_000);
            attention.wake(woken);
            for _ in 0..HEARD {
                attention.hear(Some(0.0));
            }
            attention.rest(woken + after)
        };
        assert_eq!(rest(ATTENTIVE - Duration::from_nanos(1)), None);
        assert_eq!(rest(ATTENTIVE), Some(REST));
    }
}
