//! A timer fine enough for a segment's time on the link.
//!
//! tokio's timers have a grain of 1 ms, about what a full segment takes at
//! 10 Mbit/s; a timerfd on the worker's reactor fires within some 10 us.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::sys;

pub(crate) struct Timer {
    fd: AsyncFd<OwnedFd>,
}

impl Timer {
    pub(crate) fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let fd = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        Ok(Self {
            fd: sys::watch_readable(fd)?,
        })
    }

    /// Fires after `delay`, in place of what was set before.
    pub(crate) fn arm(&self, delay: Duration) {
        const OFF: Timespec = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let when = Itimerspec {
            it_interval: OFF,
            // Zero would switch it off.
            it_value: Timespec {
                tv_sec: i64::try_from(delay.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: i64::from(delay.subsec_nanos().max(1)),
            },
        };
        timerfd_settime(self.fd.get_ref(), TimerfdTimerFlags::empty(), &when)
            .expect("a timerfd takes any time in range");
    }

    /// Waits until it has fired.
    pub(crate) async fn fired(&self) -> io::Result<()> {
        self.fd
            .async_io(Interest::READABLE, |fd| {
                rustix::io::read(fd, &mut [0u8; 8]).map_err(io::Error::from)
            })
            .await
            .map(drop)
    }
}
