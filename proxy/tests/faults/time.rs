//! Virtual time, which passes only when nothing else can happen.
//!
//! The paused clock of tokio jumps to the next timer as soon as no task can run, even if a socket
//! has become readable. Here it jumps only after a look at the sockets that has woken no task.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::task::LocalSet;
use tokio::time::timeout;

/// The time that tasks get to end when all is over.
const AFTERWARDS: Duration = Duration::from_secs(3600);

/// The state that the event loop's thread and its tasks share.
#[derive(Default)]
struct Watch {
    /// Whether a task is to be polled.
    woken: AtomicBool,
    /// Whether tasks were polled since the last look at the sockets.
    moved: AtomicBool,
    root: Mutex<Option<Waker>>,
}

impl Watch {
    fn wake_root(&self) {
        if let Some(waker) = &*self.root.lock().unwrap() {
            waker.wake_by_ref();
        }
    }
}

impl Wake for Watch {
    fn wake(self: Arc<Self>) {
        self.woken.store(true, SeqCst);
        self.wake_root();
    }
}

/// Runs `main`, and all tasks that it spawns, in virtual time. Returns its output, and whether
/// every task has ended.
pub(crate) fn run<T>(main: impl Future<Output = T>) -> (T, bool) {
    let watch = Arc::new(Watch::default());
    watch.woken.store(true, SeqCst);
    let parking = Arc::clone(&watch);
    let runtime = Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .on_thread_park(move || {
            if parking.moved.swap(false, SeqCst) {
                // Looks at the sockets once more, and lets no time pass.
                parking.wake_root();
            }
        })
        .build()
        .unwrap();
    let tasks = LocalSet::new();
    let all = async {
        let output = tasks.run_until(main).await;
        (output, timeout(AFTERWARDS, tasks).await.is_ok())
    };
    let ended = runtime.block_on(async {
        let mut all = pin!(all);
        poll_fn(|cx| {
            *watch.root.lock().unwrap() = Some(cx.waker().clone());
            if !watch.woken.swap(false, SeqCst) {
                return Poll::Pending;
            }
            watch.moved.store(true, SeqCst);
            let waker = Waker::from(Arc::clone(&watch));
            all.as_mut().poll(&mut Context::from_waker(&waker))
        })
        .await
    });
    // It keeps the event loop, whose hook keeps the watch.
    *watch.root.lock().unwrap() = None;
    drop(runtime);
    let keepers = Arc::strong_count(&watch);
    assert_eq!(keepers, 1, "the event loop and its descriptors stay");
    ended
}
