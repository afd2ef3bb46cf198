//! The clock, and the one thread that wakes streams when the link gets free.
//!
//! Envoy's filters have no timers of their own, so a thread sleeps until the
//! next grant is due, and for ever while nobody waits.

use std::io;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use sprat_scheduler::Time;

use crate::abi;
use crate::link::Link;

const NEVER: u64 = u64::MAX;

/// Nanoseconds since the module was first asked.
pub(crate) fn now() -> Time {
    static EPOCH: OnceLock<Instant> = OnceLock::new();
    let since = EPOCH.get_or_init(Instant::now).elapsed();
    Time::from_nanos(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}

/// A link that is ticked when it says so.
pub(crate) struct Ticking {
    link: Link,
    /// When the thread is to tick it, in nanoseconds.
    due_ns: AtomicU64,
}

impl Deref for Ticking {
    type Target = Link;

    fn deref(&self) -> &Link {
        &self.link
    }
}

impl Ticking {
    /// Puts a link under the thread's care, which is started for the first.
    ///
    /// # Errors
    ///
    /// No thread can be had.
    pub(crate) fn new(link: Link) -> io::Result<Arc<Self>> {
        let ticking = Arc::new(Self {
            link,
            due_ns: AtomicU64::new(NEVER),
        });
        thread().adopt(&ticking)?;
        Ok(ticking)
    }

    /// The link is to be ticked at `due`, or earlier.
    pub(crate) fn arm(&self, due: Option<Time>) {
        let Some(due) = due else { return };
        if due.as_nanos() < self.due_ns.fetch_min(due.as_nanos(), Ordering::AcqRel) {
            thread().look_again();
        }
    }
}

struct Thread {
    /// Every link there is; those that are gone are dropped on the way.
    links: Mutex<Vec<Weak<Ticking>>>,
    earlier: Condvar,
    started: Mutex<bool>,
}

fn thread() -> &'static Thread {
    static THREAD: Thread = Thread {
        links: Mutex::new(Vec::new()),
        earlier: Condvar::new(),
        started: Mutex::new(false),
    };
    &THREAD
}

impl Thread {
    fn adopt(&'static self, link: &Arc<Ticking>) -> io::Result<()> {
        let mut started = self.started.lock().unwrap_or_else(PoisonError::into_inner);
        if !*started {
            std::thread::Builder::new()
                .name("sprat-uplink".to_owned())
                .spawn(|| self.run())?;
            *started = true;
        }
        self.links().push(Arc::downgrade(link));
        Ok(())
    }

    /// Under the lock, so that the thread does not fall asleep between its
    /// look and its sleep.
    fn look_again(&self) {
        drop(self.links());
        self.earlier.notify_one();
    }

    fn run(&self) {
        abi::wake_on_time();
        let mut links = self.links();
        loop {
            links.retain(|link| link.strong_count() > 0);
            let alive: Vec<_> = links.iter().filter_map(Weak::upgrade).collect();
            let due_ns = |link: &Arc<Ticking>| link.due_ns.load(Ordering::Acquire);
            let next_ns = alive.iter().map(due_ns).min().unwrap_or(NEVER);
            let now_ns = now().as_nanos();
            if next_ns <= now_ns {
                drop(links);
                for link in alive.iter().filter(|link| due_ns(link) <= now_ns) {
                    // First, or what is armed meanwhile would be lost.
                    link.due_ns.store(NEVER, Ordering::Release);
                    let next = link.tick(now());
                    link.due_ns
                        .fetch_min(next.map_or(NEVER, Time::as_nanos), Ordering::AcqRel);
                }
                drop(alive);
                links = self.links();
                continue;
            }
            drop(alive);
            links = if next_ns == NEVER {
                self.earlier
                    .wait(links)
                    .unwrap_or_else(PoisonError::into_inner)
            } else {
                let nap = Duration::from_nanos(next_ns - now_ns);
                let woken = self.earlier.wait_timeout(links, nap);
                woken.unwrap_or_else(PoisonError::into_inner).0
            };
        }
    }

    fn links(&self) -> MutexGuard<'_, Vec<Weak<Ticking>>> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
