//! Watchers of the admin listener, which are told of what happens as it does: dashboards.
//!
//! Each event is made once for all of them, on a thread of its own, and nothing is made
//! while there are none. A watcher that is slow misses events; one that takes none for
//! 10 s is cut ([`Seats`](super::seats::Seats)).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Notify, mpsc};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::live::Live;
use super::seats::Answering;

/// The most clients that watch at the same time.
const MOST_WATCHERS: usize = 16;

/// The most events that wait for a watcher.
const MOST_EVENTS: usize = 4;

/// The time between two events on the responses in progress.
const FLOWS_EVERY: Duration = Duration::from_millis(200);

/// The number of events on responses for each event on the figures.
const STATS_EVERY: u32 = 5;

/// The most responses in progress that an event tells of: some 15 kB.
const MOST_FLOWS: usize = 80;

/// The clients that watch, and how they are told.
#[derive(Default)]
pub(super) struct Watchers {
    watching: Mutex<Vec<Watcher>>,
    /// The signal that wakes the task that serves watchers, when one joins.
    joined: Notify,
}

struct Watcher {
    events: mpsc::Sender<Bytes>,
    /// Whether the watcher has yet to be told the figures.
    is_new: bool,
}

/// A watcher's part: the events that it is sent, and its place.
pub(super) struct Watching {
    events: mpsc::Receiver<Bytes>,
    answering: Answering,
}

impl Watching {
    /// Returns the next event; it is to be called when the client has room for one.
    pub(super) fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let event = self.events.poll_recv(cx);
        if event.is_ready() {
            self.answering.takes(Instant::now());
        }
        event
    }
}

impl Watchers {
    fn lock(&self) -> MutexGuard<'_, Vec<Watcher>> {
        self.watching.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a client in as a watcher.
    ///
    /// # Errors
    ///
    /// Fails, and gives `answering` back, if as many clients watch as may.
    pub(super) fn join(&self, answering: Answering) -> Result<Watching, Answering> {
        let mut watching = self.lock();
        watching.retain(|watcher| !watcher.events.is_closed());
        if watching.len() >= MOST_WATCHERS {
            return Err(answering);
        }
        let (sender, events) = mpsc::channel(MOST_EVENTS);
        watching.push(Watcher {
            events: sender,
            is_new: true,
        });
        answering.takes(Instant::now());
        self.joined.notify_one();
        Ok(Watching { events, answering })
    }

    /// Sends the watchers what happens; does not end.
    pub(super) async fn serve(&self, live: &Arc<Live>) {
        loop {
            self.joined.notified().await;
            let mut rounds = interval(FLOWS_EVERY);
            rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
            let mut stats = Bytes::new();
            for round in (0..STATS_EVERY).cycle() {
                rounds.tick().await;
                let told_to = self.present();
                if told_to == 0 {
                    break;
                }
                let made_of = Arc::clone(live);
                let with_stats = round == 0;
                let made = spawn_blocking(move || {
                    let stats = with_stats.then(|| event("stats", &made_of.stats()));
                    (stats, event("flows", &made_of.flows(MOST_FLOWS)))
                });
                let Ok((renewed, flows)) = made.await else {
                    break;
                };
                let is_renewed = renewed.is_some();
                stats = renewed.unwrap_or(stats);
                self.tell(is_renewed, &stats, &flows);
            }
        }
    }

    /// Counts the clients that still watch.
    fn present(&self) -> usize {
        let mut watching = self.lock();
        watching.retain(|watcher| !watcher.events.is_closed());
        watching.len()
    }

    /// Sends events to the watchers that have room for them; old figures only to those
    /// that have none.
    fn tell(&self, is_renewed: bool, stats: &Bytes, flows: &Bytes) {
        self.lock().retain_mut(|watcher| {
            let mut goes_on = true;
            if is_renewed || watcher.is_new {
                goes_on &= watcher.tell(stats);
                watcher.is_new = false;
            }
            goes_on && watcher.tell(flows)
        });
    }
}

impl Watcher {
    /// Sends an event to the watcher, which is lost if those before were not taken. Returns
    /// false if the watcher has gone.
    fn tell(&self, event: &Bytes) -> bool {
        match self.events.try_send(event.clone()) {
            Ok(()) | Err(TrySendError::Full(_)) => true,
            Err(TrySendError::Closed(_)) => false,
        }
    }
}

/// Returns an event in the form of `text/event-stream`; JSON has no line ends within.
fn event(name: &str, json: &str) -> Bytes {
    format!("event: {name}\ndata: {json}\n\n").into()
}

#[cfg(test)]
mod tests {
    use super::super::seats::Seats;
    use super::*;

    fn join(watchers: &Watchers, seats: &Arc<Seats>) -> Option<Watching> {
        let now = Instant::now();
        watchers.join(seats.take(now).answer(now)).ok()
    }

    fn heard(watching: &mut Watching) -> Vec<Bytes> {
        std::iter::from_fn(|| watching.events.try_recv().ok()).collect()
    }

    #[test]
    fn watchers_are_bounded_and_a_place_is_free_again() {
        let (watchers, seats) = (Watchers::default(), Arc::default());
        let join = || join(&watchers, &seats);
        let mut all: Vec<_> = (0..MOST_WATCHERS).map(|_| join().unwrap()).collect();
        assert!(join().is_none());
        drop(all.pop());
        let next = join();
        assert!(next.is_some() && join().is_none());
        drop((all, next));
        assert_eq!(watchers.present(), 0);
    }

    #[test]
    fn a_slow_one_misses_events_and_holds_up_no_other() {
        let (watchers, seats) = (Watchers::default(), Arc::default());
        let join = || join(&watchers, &seats).unwrap();
        let (mut slow, mut quick) = (join(), join());
        let (stats, flows) = (event("stats", "{}"), event("flows", "[]"));
        watchers.tell(true, &stats, &flows);
        for _ in 0..MOST_EVENTS {
            assert_eq!(heard(&mut quick).pop(), Some(flows.clone()));
            watchers.tell(false, &stats, &flows);
        }
        assert_eq!(heard(&mut slow).len(), MOST_EVENTS);
        // One that comes later hears the figures that there are.
        let mut late = join();
        watchers.tell(false, &stats, &flows);
        assert_eq!(heard(&mut late), [stats, flows.clone()]);
        assert_eq!(heard(&mut slow), [flows]);
    }
}
