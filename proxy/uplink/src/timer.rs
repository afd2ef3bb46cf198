//! A timer fine enough for a segment's time on the link.
//!
//! tokio's timers have a grain of 1 ms, about what a full segment takes at 10 Mbit/s; a timerfd
//! on the worker's reactor fires within some 10 us. A simulation, where time is not the
//! kernel's, has tokio's alone.

use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use fastrand::Rng;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use sprat_net::network;
use sprat_net::sys;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

pub(crate) enum Timer {
    Kernel(AsyncFd<OwnedFd>),
    Simulated(Simulated),
}

impl Timer {
    pub(crate) fn new() -> io::Result<Self> {
        if network::is_simulated() {
            return Ok(Self::Simulated(Simulated::default()));
        }
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let fd = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        Ok(Self::Kernel(sys::watch_readable(fd)?))
    }

    /// Sets the timer to fire after `delay`, in place of what was set before.
    pub(crate) fn arm(&self, delay: Duration) {
        const OFF: Timespec = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let fd = match self {
            Self::Kernel(fd) => fd,
            Self::Simulated(timer) => return timer.arm(delay),
        };
        let when = Itimerspec {
            it_interval: OFF,
            // Zero would switch it off.
            it_value: Timespec {
                tv_sec: i64::try_from(delay.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: i64::from(delay.subsec_nanos().max(1)),
            },
        };
        timerfd_settime(fd.get_ref(), TimerfdTimerFlags::empty(), &when)
            .expect("a timerfd takes any time in range");
    }

    /// Waits until the timer has fired.
    pub(crate) async fn fired(&self) -> io::Result<()> {
        let fd = match self {
            Self::Kernel(fd) => fd,
            Self::Simulated(timer) => {
                timer.fired().await;
                return Ok(());
            }
        };
        fd.async_io(Interest::READABLE, |fd| {
            rustix::io::read(fd, &mut [0u8; 8]).map_err(io::Error::from)
        })
        .await
        .map(drop)
    }
}

/// The bound below which a simulated timer is late, in milliseconds.
const LATE_MS: u64 = 3;

/// A timer on tokio's clock. It is late as the kernel's timers are, so that others may look at
/// what is due before it fires.
#[derive(Default)]
pub(crate) struct Simulated {
    at: Cell<Option<Instant>>,
    armed: Notify,
    lateness: RefCell<Rng>,
}

impl Simulated {
    fn arm(&self, delay: Duration) {
        let late = Duration::from_millis(self.lateness.borrow_mut().u64(..LATE_MS));
        self.at.set(Some(Instant::now() + delay + late));
        self.armed.notify_one();
    }

    async fn fired(&self) {
        loop {
            let armed = self.armed.notified();
            let Some(at) = self.at.get() else {
                armed.await;
                continue;
            };
            tokio::select! {
                biased;
                () = armed => {}
                () = sleep_until(at) => {
                    self.at.set(None);
                    return;
                }
            }
        }
    }
}
