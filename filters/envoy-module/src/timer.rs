//! The module's clock and random numbers, and the one thread that wakes streams when they are due.
//!
//! Envoy's filters have no timers of their own. So a thread sleeps until a stream is due, and
//! without limit while none waits.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::num::NonZeroU64;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use sprat_scheduler::Time;

const NEVER: u64 = u64::MAX;

/// The nanoseconds by which this thread's timers may fire late, in place of 50 us.
const TIMER_SLACK_NS: NonZeroU64 = NonZeroU64::MIN;

/// The function that is called after each panic that was caught on the thread.
static ON_PANIC: OnceLock<fn()> = OnceLock::new();

/// Sets the function that is called after each panic on the thread, which goes on. The caller sets
/// it once.
pub(crate) fn on_panic(tell: fn()) {
    ON_PANIC.get_or_init(|| tell);
}

/// Returns a number that no client can foresee, another for each `index`.
pub(crate) fn chance(index: u64) -> u64 {
    static CHANCE: OnceLock<RandomState> = OnceLock::new();
    CHANCE.get_or_init(RandomState::new).hash_one(index)
}

/// Returns the time since the first call, by a monotonic clock.
pub(crate) fn now() -> Time {
    static EPOCH: OnceLock<Instant> = OnceLock::new();
    let since = EPOCH.get_or_init(Instant::now).elapsed();
    Time::from_nanos(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}

/// A part of the module that has work to do at certain times.
pub(crate) trait Tick: Send + Sync {
    /// Does the work that is due, and returns the time of the next call.
    fn tick(&self, now: Time) -> Option<Time>;
}

/// A value whose [`Tick::tick`] the thread calls when it is due.
pub(crate) struct Ticking<T: ?Sized> {
    /// The time at which the thread is to call the value, in nanoseconds.
    due_ns: AtomicU64,
    inner: T,
}

impl<T> Deref for Ticking<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T: Tick + 'static> Ticking<T> {
    /// Puts a value under the thread's care. The first one starts the thread.
    ///
    /// # Errors
    ///
    /// The system has no thread for it.
    pub(crate) fn new(inner: T) -> io::Result<Arc<Self>> {
        let ticking = Arc::new(Self {
            due_ns: AtomicU64::new(NEVER),
            inner,
        });
        let care: Arc<Ticking<dyn Tick>> = ticking.clone();
        thread().adopt(&care)?;
        Ok(ticking)
    }

    /// Makes the thread call this value at `due`, or earlier.
    pub(crate) fn arm(&self, due: Option<Time>) {
        let Some(due) = due else { return };
        if due.as_nanos() < self.due_ns.fetch_min(due.as_nanos(), Ordering::AcqRel) {
            thread().look_again();
        }
    }
}

/// The values that the thread calls.
type Care = Vec<Weak<Ticking<dyn Tick>>>;

struct Thread {
    /// The values that the thread calls; it removes those that are gone.
    care: Mutex<Care>,
    earlier: Condvar,
    started: Mutex<bool>,
}

fn thread() -> &'static Thread {
    static THREAD: Thread = Thread {
        care: Mutex::new(Vec::new()),
        earlier: Condvar::new(),
        started: Mutex::new(false),
    };
    &THREAD
}

/// Calls a value that is due. After a panic the value is not called until a stream arms it.
fn tick(inner: &dyn Tick) -> Option<Time> {
    let ticked = catch_unwind(AssertUnwindSafe(|| inner.tick(now())));
    if ticked.is_err() {
        ON_PANIC.get().inspect(|tell| tell());
    }
    ticked.ok().flatten()
}

impl Thread {
    fn adopt(&'static self, new: &Arc<Ticking<dyn Tick>>) -> io::Result<()> {
        let mut started = self.started.lock().unwrap_or_else(PoisonError::into_inner);
        if !*started {
            std::thread::Builder::new()
                .name("sprat-timer".to_owned())
                .spawn(|| self.run())?;
            *started = true;
        }
        self.care().push(Arc::downgrade(new));
        Ok(())
    }

    /// Makes the thread look for the next due value again. It does so under the lock, so that the
    /// thread does not fall asleep between its look and its sleep.
    fn look_again(&self) {
        drop(self.care());
        self.earlier.notify_one();
    }

    fn run(&self) {
        // Where it fails timers are late, which the pacer makes up for.
        let _ = rustix::thread::set_current_timer_slack(Some(TIMER_SLACK_NS));
        let mut care = self.care();
        loop {
            care.retain(|own| own.strong_count() > 0);
            let alive: Vec<_> = care.iter().filter_map(Weak::upgrade).collect();
            let due_ns = |own: &Arc<Ticking<dyn Tick>>| own.due_ns.load(Ordering::Acquire);
            let next_ns = alive.iter().map(due_ns).min().unwrap_or(NEVER);
            let now_ns = now().as_nanos();
            if next_ns <= now_ns {
                drop(care);
                for own in alive.iter().filter(|own| due_ns(own) <= now_ns) {
                    // First, or what is armed meanwhile would be lost.
                    own.due_ns.store(NEVER, Ordering::Release);
                    let next = tick(&own.inner).map_or(NEVER, Time::as_nanos);
                    own.due_ns.fetch_min(next, Ordering::AcqRel);
                }
                drop(alive);
                care = self.care();
                continue;
            }
            drop(alive);
            care = if next_ns == NEVER {
                self.earlier
                    .wait(care)
                    .unwrap_or_else(PoisonError::into_inner)
            } else {
                let nap = Duration::from_nanos(next_ns - now_ns);
                let woken = self.earlier.wait_timeout(care, nap);
                woken.unwrap_or_else(PoisonError::into_inner).0
            };
        }
    }

    fn care(&self) -> MutexGuard<'_, Care> {
        self.care.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
