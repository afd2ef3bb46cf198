//! The deadlines of a connection: what it waits for, and for how long at most.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use sprat_net::error::Reason;
use tokio::time::{Instant, Sleep, sleep_until};

use super::end::End;
use super::http1::Http1;
use super::http2_state::Http2;
use super::phase::{Http1Phase, Http2Phase};
use super::progress::past;
use super::state::{Connection, Protocol};

/// The time in which a client that has just been accepted has to begin, while the
/// server drains.
pub(crate) const NEW_WHILE_DRAINING: Duration = Duration::from_secs(1);

/// The time that a client has to say goodbye on a connection without a request,
/// once it was told that the connection ends.
const GOODBYE: Duration = Duration::from_secs(1);

/// The time after which a deadline that has passed, and stays, is looked at again.
const SOON: Duration = Duration::from_millis(5);

impl Connection {
    /// Returns the connection's next deadline; none while nothing is being waited for.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let listener = &self.listener.config;
        let blocked = self.wire.blocked.since();
        let deadlines = [
            match self.protocol() {
                Protocol::Http1(http1) => self.next_of_http1(http1),
                Protocol::Http2(http2) => self.next_of_http2(http2),
            },
            blocked.map(|since| since + listener.stream_idle_timeout),
            self.drain_look_at(),
        ];
        deadlines.into_iter().flatten().min()
    }

    fn next_of_http1(&self, http1: &Http1) -> Option<Instant> {
        if http1.is_finishing() {
            return None;
        }
        let phase = match http1.phase.get() {
            Http1Phase::Head { since, begun } => Some(since + self.head_bound(begun)),
            Http1Phase::Answering(answer) => answer.next_deadline(),
            Http1Phase::Idle { since } => Some(since + self.idle_bound()),
        };
        let deadlines = [phase, http1.progress.next_deadline(), self.parks_at()];
        deadlines.into_iter().flatten().min()
    }

    fn next_of_http2(&self, http2: &Http2) -> Option<Instant> {
        let idle = match http2.phase.get() {
            Http2Phase::Answering { .. } => None,
            Http2Phase::Idle { since } => Some(since + self.idle_bound()),
        };
        let head = http2.next_deadline(self.listener.config.request_headers_timeout);
        [idle, head].into_iter().flatten().min()
    }

    /// Returns when the client may have been waited for long enough to be judged.
    fn drain_look_at(&self) -> Option<Instant> {
        // With room in the socket the client is not waited for: whether others need
        // its places need not be asked.
        self.wire.blocked.since()?;
        let drain = self.wire.drain.borrow();
        let drain = drain.as_ref()?;
        drain.next_look(Instant::now(), self.is_pressed())
    }

    /// Returns how long a head may take. A client that is new when the server drains is
    /// sending its head already, or does not mean to send one.
    fn head_bound(&self, begun: bool) -> Duration {
        let bound = self.listener.config.request_headers_timeout;
        match self.is_ending() && !begun {
            true => bound.min(NEW_WHILE_DRAINING),
            false => bound,
        }
    }

    /// Returns how long the connection may be without a request. Once its client was told
    /// that the connection ends, the bound is the time in which the client hears of it.
    pub(super) fn idle_bound(&self) -> Duration {
        let is_leaving = self.http2().is_some_and(|http2| http2.leaving.get());
        let bound = self.listener.config.idle_timeout;
        match is_leaving {
            true => bound.min(GOODBYE),
            false => bound,
        }
    }

    /// Waits until the server drains and the client, silent so far, has had
    /// [`NEW_WHILE_DRAINING`] to begin.
    pub(crate) async fn is_late_to_begin(&self) {
        poll_fn(|cx| {
            self.register(cx);
            match self.is_ending() {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        })
        .await;
        sleep_until(self.accepted + NEW_WHILE_DRAINING).await;
    }

    /// Returns how the connection is to end, if something has taken too long.
    pub(super) fn expired(&self, now: Instant) -> Option<End> {
        let listener = &self.listener.config;
        if self.wire.blocked.since().is_some()
            && let Some(drain) = &mut *self.wire.drain.borrow_mut()
        {
            drain.ask(now, self.is_pressed());
        }
        if let Some(since) = self.wire.blocked.since()
            && past(now, since, listener.stream_idle_timeout)
        {
            return Some(End::Cut(Reason::ClientStalled));
        }
        match self.protocol() {
            Protocol::Http1(http1) => self.expired_http1(http1, now),
            Protocol::Http2(http2) => self.expired_http2(http2, now),
        }
    }

    fn expired_http1(&self, http1: &Http1, now: Instant) -> Option<End> {
        if let Some(reason) = http1.progress.overdue(now) {
            return Some(End::Cut(reason));
        }
        if http1.is_finishing() {
            return None;
        }
        match http1.phase.get() {
            Http1Phase::Head { since, begun } if past(now, since, self.head_bound(begun)) => {
                Some(if begun { End::HeadTimeout } else { End::Idle })
            }
            Http1Phase::Idle { since } if past(now, since, self.idle_bound()) => Some(End::Idle),
            _ => self.parks_at().filter(|at| *at <= now).map(|_| End::Parked),
        }
    }

    fn expired_http2(&self, http2: &Http2, now: Instant) -> Option<End> {
        if let Some(reason) = http2.overdue(now, self.listener.config.request_headers_timeout) {
            return Some(End::Cut(reason));
        }
        match http2.phase.get() {
            Http2Phase::Idle { since } if past(now, since, self.idle_bound()) => Some(End::Idle),
            Http2Phase::Idle { .. } | Http2Phase::Answering { .. } => None,
        }
    }
}

/// Arms the timer for the `next` deadline, if that is earlier than the one it is armed for.
/// Returns whether the timer has fired, so that deadlines must be looked at. If there is no
/// deadline, a timer that has fired fires again after `later`.
pub(super) fn rearm(
    next: Option<Instant>,
    later: Duration,
    mut sleep: Pin<&mut Sleep>,
    armed: &mut bool,
    cx: &mut Context<'_>,
) -> bool {
    let fired = *armed && sleep.is_elapsed();
    if let Some(next) = next {
        if fired {
            // A deadline that has passed is dealt with by the caller; should
            // it stay, looking again soon is enough.
            sleep.as_mut().reset(next.max(Instant::now() + SOON));
            *armed = false;
        } else if sleep.deadline() > next && sleep.deadline() > Instant::now() + SOON {
            // One that is armed for soon stays: to be armed again for what has
            // passed would be to fire at once, and again, without an end.
            sleep.as_mut().reset(next);
            *armed = false;
        }
    } else if fired {
        // Nothing to wait for now; the next poll that finds a deadline arms it.
        sleep.as_mut().reset(Instant::now() + later);
        *armed = false;
    }
    if !*armed {
        // Registers the task; from then on the timer wakes it by itself.
        *armed = true;
        return sleep.poll(cx).is_ready() || fired;
    }
    fired
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::poll_fn;
    use std::pin::pin;
    use std::task::Poll;

    use tokio::time::{sleep, sleep_until};

    use super::*;

    const LATER: Duration = Duration::from_secs(60);

    /// The number of looks that a test's time allows only to a timer that fires without end.
    const LOOKS_MAX: usize = 1000;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// Returns the times at which a connection looks at its deadlines, in ms. The timer is
    /// armed for `first`, `next` gives the deadline to come, and `script` is what else
    /// happens meanwhile.
    async fn looks(
        first: Instant,
        next: impl Fn(Instant) -> Option<Instant>,
        script: impl Future<Output = ()>,
    ) -> Vec<u128> {
        let start = Instant::now();
        let mut timer = pin!(sleep_until(first));
        let mut armed = false;
        let mut looks = Vec::new();
        tokio::select! {
            biased;
            () = script => {}
            () = poll_fn(|cx| loop {
                if !rearm(next(Instant::now()), LATER, timer.as_mut(), &mut armed, cx) {
                    return Poll::Pending;
                }
                looks.push(start.elapsed().as_millis());
                if looks.len() == LOOKS_MAX {
                    return Poll::Ready(());
                }
            }) => {}
        }
        looks
    }

    #[tokio::test(start_paused = true)]
    async fn a_deadline_is_looked_at_when_it_passes_and_then_much_later() {
        let at = Instant::now() + ms(100);
        // Dealt with when it has passed.
        let next = |now| (now < at).then_some(at);
        assert_eq!(looks(at, next, sleep(ms(1000))).await, [100]);
        let at = Instant::now() + ms(100);
        let next = |now| (now < at).then_some(at);
        let long = sleep(2 * LATER);
        assert_eq!(looks(at, next, long).await, [100, 60_100]);
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_moves_is_looked_at_where_it_has_moved_to() {
        let start = Instant::now();
        let at = Cell::new(start + ms(100));
        let next = |now| (now < at.get()).then(|| at.get());
        let earlier = async {
            sleep(ms(20)).await;
            at.set(start + ms(50));
            sleep(ms(1000)).await;
        };
        assert_eq!(looks(at.get(), next, earlier).await, [50]);
        let start = Instant::now();
        at.set(start + ms(100));
        let later = async {
            sleep(ms(20)).await;
            at.set(start + ms(300));
            sleep(ms(1000)).await;
        };
        // The timer stays where it is, and finds nothing.
        assert_eq!(looks(at.get(), next, later).await, [100, 300]);
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_comes_after_there_was_none_is_looked_at() {
        let start = Instant::now();
        let at = Cell::new(None);
        let next = |now| at.get().filter(|at| now < *at);
        let comes = async {
            sleep(ms(20)).await;
            at.set(Some(start + ms(30)));
            sleep(ms(1000)).await;
        };
        assert_eq!(looks(start + LATER, next, comes).await, [30]);
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_has_passed_and_stays_is_looked_at_with_a_pause() {
        let start = Instant::now();
        let stays = |_| Some(start + ms(10));
        let times = looks(start + ms(10), stays, sleep(ms(26))).await;
        assert_eq!(times, [10, 15, 20, 25]);
        // Where the timer is armed for the past, or was for later, what has
        // passed is seen at once: when it is armed, and when it has fired.
        for first in [start, Instant::now() + LATER] {
            let times = looks(first, stays, sleep(ms(12))).await;
            assert_eq!(times, [0, 0, 5, 10]);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_wakes_the_task_often_does_not_have_it_look_more_often() {
        let start = Instant::now();
        let stays = |_| Some(start);
        let busy = async {
            for _ in 0..12 {
                sleep(ms(1)).await;
            }
        };
        assert_eq!(looks(start, stays, busy).await, [0, 0, 5, 10]);
    }
}
