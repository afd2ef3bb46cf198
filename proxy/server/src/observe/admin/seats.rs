//! The connections to the admin listener: how many, for how long, and which one
//! gives way to another.
//!
//! A new connection is always let in, for it may be a probe that decides whether the
//! process lives on.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::Instant;

/// The most connections of the admin listener at once.
const MAX_CONNECTIONS: usize = 64;

/// The time that a request's head may take, and for which a connection is kept for
/// the next one.
const SILENT_FOR: Duration = Duration::from_secs(10);

/// The time that a client has to take an answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);

/// The longest time for which a watcher may take nothing, though an event comes each second.
const TAKE_WITHIN: Duration = Duration::from_secs(10);

/// The state that a connection is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The client has no answer due: it was accepted, or its last answer has been written.
    Silent,
    /// A request has been read, and its answer is being written.
    Answering {
        /// The number of the rendering that the answer is written from.
        rendering: Option<u64>,
    },
    /// The client is sent what happens, for as long as it takes that.
    Watching,
}

struct SeatTaken {
    id: u64,
    state: State,
    since: Instant,
    /// The handle of the connection's task; none until that runs.
    task: Option<AbortHandle>,
}

#[derive(Default)]
struct SeatTable {
    next_id: u64,
    /// The connections, in the order of arrival.
    taken: Vec<SeatTaken>,
}

/// The places of all connections.
#[derive(Default)]
pub(super) struct Seats(Mutex<SeatTable>);

/// A connection's place; free again when this is dropped.
pub(super) struct Seat {
    seats: Arc<Seats>,
    id: u64,
    /// The signal that an answer has been written.
    answered: Notify,
}

/// An answer that is being written; dropped when the socket has it.
pub(super) struct Answering(Arc<Seat>);

impl Seats {
    fn lock(&self) -> MutexGuard<'_, SeatTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a new connection a place. If there is none left, the connection that has been
    /// silent longest is closed, or else the one that has been answered longest.
    pub(super) fn take(self: &Arc<Self>, now: Instant) -> Arc<Seat> {
        let mut table = self.lock();
        if table.taken.len() >= MAX_CONNECTIONS {
            let all = table.taken.iter().enumerate();
            let first = all.min_by_key(|(_, own)| (own.state != State::Silent, own.since));
            if let Some((index, _)) = first {
                table.taken.remove(index).close();
            }
        }
        let id = table.next_id;
        table.next_id += 1;
        table.taken.push(SeatTaken {
            id,
            state: State::Silent,
            since: now,
            task: None,
        });
        Arc::new(Seat {
            seats: Arc::clone(self),
            id,
            answered: Notify::new(),
        })
    }

    /// Closes the connections that have been silent, or taking an answer, too long.
    pub(super) fn close_overdue(&self, now: Instant) {
        self.close_if(|own| {
            let bound = match own.state {
                State::Silent => SILENT_FOR,
                State::Answering { .. } => ANSWER_WITHIN,
                State::Watching => TAKE_WITHIN,
            };
            now.duration_since(own.since) > bound
        });
    }

    /// Closes the connections whose answers are written from this rendering.
    pub(super) fn close_readers(&self, rendering: u64) {
        let rendering = Some(rendering);
        self.close_if(|own| own.state == State::Answering { rendering });
    }

    fn close_if(&self, is_to_go: impl Fn(&SeatTaken) -> bool) {
        let mut table = self.lock();
        let closed: Vec<_> = table.taken.extract_if(.., |own| is_to_go(own)).collect();
        drop(table);
        closed.iter().for_each(SeatTaken::close);
    }
}

impl SeatTaken {
    fn close(&self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

impl Seat {
    fn update(&self, change: impl FnOnce(&mut SeatTaken)) {
        let mut table = self.seats.lock();
        if let Some(own) = table.taken.iter_mut().find(|own| own.id == self.id) {
            change(own);
        }
    }

    /// Notes the task that serves the connection.
    pub(super) fn served_by(&self, task: AbortHandle) {
        self.update(|own| own.task = Some(task));
    }

    /// Waits until no answer is being written. A client may ask again before it has taken the last
    /// answer, and has one alone at a time: its time and its rendering are those that are known.
    pub(super) async fn until_silent(&self) {
        while self.is_answering() {
            self.answered.notified().await;
        }
    }

    fn is_answering(&self) -> bool {
        let table = self.seats.lock();
        let own = table.taken.iter().find(|own| own.id == self.id);
        own.is_some_and(|own| own.state != State::Silent)
    }

    /// Notes that a request has been read.
    pub(super) fn answer(self: Arc<Self>, now: Instant) -> Answering {
        self.update(|own| {
            own.state = State::Answering { rendering: None };
            own.since = now;
        });
        Answering(self)
    }
}

impl Answering {
    /// Notes the number of the rendering that the answer is written from.
    pub(super) fn reads(&self, number: u64) {
        self.0.update(|own| {
            own.state = State::Answering {
                rendering: Some(number),
            };
        });
    }

    /// Notes that the client watches, and has taken an event at this time.
    pub(super) fn takes(&self, now: Instant) {
        self.0.update(|own| {
            own.state = State::Watching;
            own.since = now;
        });
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.update(|own| {
            own.state = State::Silent;
            own.since = Instant::now();
        });
        self.0.answered.notify_one();
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.seats.lock().taken.retain(|own| own.id != self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(seats: &Seats) -> Vec<u64> {
        seats.lock().taken.iter().map(|own| own.id).collect()
    }

    #[test]
    fn the_longest_silent_gives_way_and_then_the_longest_answered() {
        let seats = Arc::new(Seats::default());
        let start = Instant::now();
        let after = |ms| start + Duration::from_millis(ms);
        let mut held: Vec<_> = (0..64).map(|n| seats.take(after(n))).collect();
        // The first two are being answered; the third is the longest silent one.
        let mut answers: Vec<_> = (0..2)
            .map(|n| Arc::clone(&held[n]).answer(after(100 + n as u64)))
            .collect();
        held.push(seats.take(after(200)));
        assert!(ids(&seats).starts_with(&[0, 1, 3]));
        let silent = held.iter().skip(3).zip(303..);
        answers.extend(silent.map(|(seat, ms)| Arc::clone(seat).answer(after(ms))));
        held.push(seats.take(after(1000)));
        assert!(ids(&seats).starts_with(&[1, 3, 4]));
        assert_eq!(ids(&seats).len(), 64);
        drop((answers, held));
        assert!(ids(&seats).is_empty());
    }

    #[test]
    fn a_watcher_stays_as_long_as_it_takes_what_it_is_sent() {
        let seats = Arc::new(Seats::default());
        let start = Instant::now();
        let after = |s| start + Duration::from_secs(s);
        let answers = [(); 2].map(|()| seats.take(start).answer(start));
        answers.iter().for_each(|own| own.takes(start));
        for second in 1..120 {
            answers[0].takes(after(second));
            seats.close_overdue(after(second));
            let left: &[u64] = if second <= 10 { &[0, 1] } else { &[0] };
            assert_eq!(ids(&seats), left, "after {second} s");
        }
        drop(answers);
        assert!(ids(&seats).is_empty());
    }

    #[tokio::test]
    async fn a_client_has_one_answer_at_a_time() {
        let seats = Arc::new(Seats::default());
        let seat = seats.take(Instant::now());
        seat.until_silent().await;
        let first = Arc::clone(&seat).answer(Instant::now());
        first.reads(7);
        let next = tokio::spawn(async move {
            seat.until_silent().await;
            seat.answer(Instant::now())
        });
        tokio::task::yield_now().await;
        assert!(!next.is_finished());
        drop(first);
        let second = next.await.unwrap();
        second.reads(8);
        seats.close_readers(8);
        assert!(ids(&seats).is_empty());
    }

    #[test]
    fn silence_and_slow_readers_are_bounded() {
        let seats = Arc::new(Seats::default());
        let start = Instant::now();
        let held = [seats.take(start), seats.take(start), seats.take(start)];
        let answers = [1, 2].map(|n| Arc::clone(&held[n]).answer(start));
        answers[1].reads(7);
        seats.close_overdue(start + Duration::from_secs(11));
        assert_eq!(ids(&seats), [1, 2]);
        seats.close_readers(7);
        assert_eq!(ids(&seats), [1]);
        seats.close_overdue(start + Duration::from_secs(61));
        assert!(ids(&seats).is_empty());
    }
}
