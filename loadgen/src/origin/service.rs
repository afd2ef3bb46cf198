//! The time that a server takes: requests wait for one another, or share the server.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// The way in which a server serves its requests. Each request takes a time of
/// work: a constant part, and its body's size over the rate.
#[derive(Clone, Debug, PartialEq)]
pub struct Service {
    /// The rate at which bodies are served, in bits per second.
    pub bits_per_s: u64,
    /// The constant part of a request's work, before its body counts.
    pub overhead: Duration,
    /// The order in which requests are served.
    pub order: Order,
}

/// The order in which requests are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// A number of requests at a time, each at the full rate; the others wait, first come, first
    /// served.
    Concurrent(usize),
    /// All at once, in equal shares of the rate (processor sharing).
    Shared,
}

impl Service {
    /// Returns the work of a request for a body of `bytes`.
    fn time(&self, bytes: u64) -> Duration {
        let body_s = bytes as f64 * 8.0 / self.bits_per_s as f64;
        Duration::try_from_secs_f64(body_s)
            .unwrap_or(Duration::MAX)
            .saturating_add(self.overhead)
    }
}

/// A server with the work that its requests have brought.
pub(super) struct WorkingServer {
    service: Service,
    work: Work,
}

enum Work {
    Concurrent(Mutex<Slots>),
    Shared {
        load: Mutex<SharingClock>,
        changed: Notify,
    },
}

impl WorkingServer {
    pub(super) fn new(service: Service) -> Self {
        let now = Instant::now();
        let work = match service.order {
            Order::Concurrent(slots) => Work::Concurrent(Mutex::new(Slots::new(slots, now))),
            Order::Shared => Work::Shared {
                load: Mutex::new(SharingClock::new(now)),
                changed: Notify::new(),
            },
        };
        Self { service, work }
    }

    /// Waits until the work for a body of `bytes`, and `delay` on top of it, is done. The server
    /// does the work even if the request no longer waits for it.
    pub(super) async fn serve(&self, bytes: u64, delay: Duration) {
        let work = self.service.time(bytes).saturating_add(delay);
        match &self.work {
            Work::Concurrent(slots) => {
                let done = lock(slots).join(Instant::now(), work);
                tokio::time::sleep_until(done).await;
            }
            Work::Shared { load, changed } => {
                let end = lock(load).join(Instant::now(), work);
                changed.notify_waiters();
                loop {
                    // Registered before the state is read: no change is missed.
                    let change = changed.notified();
                    let due = lock(load).when(Instant::now(), end);
                    let Some(due) = due else { return };
                    tokio::select! {
                        () = tokio::time::sleep_until(due) => {}
                        () = change => {}
                    }
                }
            }
        }
    }
}

/// Locks a mutex, poisoned or not: the state is numbers that are sound after each step.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The times at which each slot will be free of the requests that have joined.
struct Slots(BinaryHeap<Reverse<Instant>>);

impl Slots {
    fn new(slots: usize, now: Instant) -> Self {
        Self(vec![Reverse(now); slots.max(1)].into())
    }

    /// Adds a request at `now`, and returns the time at which it is done.
    fn join(&mut self, now: Instant, work: Duration) -> Instant {
        let free = self.0.pop().map_or(now, |Reverse(free)| free);
        let done = free.max(now).checked_add(work).unwrap_or(free);
        self.0.push(Reverse(done));
        done
    }
}

/// The clock of processor sharing. It shows the work that a request has received which has been
/// there from the start, and runs slower the more requests there are. A request ends when the clock
/// shows its start plus its work.
struct SharingClock {
    clock: Duration,
    read_at: Instant,
    ends: BinaryHeap<Reverse<Duration>>,
}

impl SharingClock {
    fn new(now: Instant) -> Self {
        Self {
            clock: Duration::ZERO,
            read_at: now,
            ends: BinaryHeap::new(),
        }
    }

    /// Runs the clock up to `now`, and removes the requests that end on the way.
    fn run(&mut self, now: Instant) {
        let mut left = now.saturating_duration_since(self.read_at);
        self.read_at = self.read_at.max(now);
        while let Some(&Reverse(end)) = self.ends.peek() {
            let sharing = self.ends.len() as u32;
            let until_end = end.saturating_sub(self.clock).saturating_mul(sharing);
            if until_end > left {
                self.clock += left / sharing;
                return;
            }
            left -= until_end;
            self.clock = self.clock.max(end);
            self.ends.pop();
        }
    }

    /// Adds a request at `now`, and returns the clock's reading at its end.
    fn join(&mut self, now: Instant, work: Duration) -> Duration {
        self.run(now);
        let end = self.clock.saturating_add(work);
        self.ends.push(Reverse(end));
        end
    }

    /// Returns the time at which the request that ends at `end` is done, if no request comes. If
    /// another request ends before it, returns that request's time; `None` if it is done already.
    fn when(&mut self, now: Instant, end: Duration) -> Option<Instant> {
        self.run(now);
        let left = end.checked_sub(self.clock).filter(|left| !left.is_zero())?;
        // Those that end earlier make this sooner; they wake no task, so it is
        // looked at again when the first of them ends.
        let first = self.ends.peek().map_or(end, |Reverse(first)| *first);
        let step = first.saturating_sub(self.clock).min(left);
        let sharing = self.ends.len() as u32;
        let at = now.checked_add(step.saturating_mul(sharing));
        Some(at.unwrap_or(now + Duration::from_secs(3600)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn service(order: Order) -> Service {
        Service {
            bits_per_s: 8_000_000,
            overhead: ms(2),
            order,
        }
    }

    #[test]
    fn work_is_a_constant_and_the_size() {
        let service = service(Order::Shared);
        assert_eq!(service.time(0), ms(2));
        assert_eq!(service.time(3_000), ms(5));
    }

    #[test]
    fn places_are_taken_first_come_first_served() {
        let start = Instant::now();
        let mut slots = Slots::new(2, start);
        let done: Vec<_> = [30, 10, 10, 10]
            .map(|work| slots.join(start, ms(work)) - start)
            .into();
        assert_eq!(done, [ms(30), ms(10), ms(20), ms(30)]);
        let later = start + ms(100);
        assert_eq!(slots.join(later, ms(5)) - start, ms(105));
    }

    #[test]
    fn sharers_have_equal_shares() {
        let start = Instant::now();
        let mut load = SharingClock::new(start);
        let long = load.join(start, ms(30));
        // Alone for 10 ms, then two: 10 ms of work take 20.
        let short = load.join(start + ms(10), ms(10));
        assert_eq!(load.when(start + ms(10), short), Some(start + ms(30)));
        assert_eq!(load.when(start + ms(30), short), None);
        assert_eq!(load.when(start + ms(30), long), Some(start + ms(40)));
        assert_eq!(load.when(start + ms(39), long), Some(start + ms(40)));
        assert_eq!(load.when(start + ms(40), long), None);
        assert!(load.ends.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_shared_server_ends_each_in_its_time() {
        let server = std::rc::Rc::new(WorkingServer::new(service(Order::Shared)));
        let start = Instant::now();
        let timed = |bytes, delay: Duration| {
            let server = std::rc::Rc::clone(&server);
            async move {
                server.serve(bytes, delay).await;
                start.elapsed()
            }
        };
        // 10 ms and 40 ms of work at once: done after 20 and 50.
        let (short, long) = tokio::join!(timed(8_000, ms(0)), timed(8_000, ms(30)));
        assert_eq!((short.as_millis(), long.as_millis()), (20, 50));
    }
}
