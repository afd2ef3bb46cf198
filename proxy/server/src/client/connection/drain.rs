//! The watch over whether a client takes what it asked for.
//!
//! A full socket says little: its buffer may hold megabytes, of which the client takes some
//! all the time. So when a client has been waited for long enough to be judged, the kernel
//! is asked how much of what was sent the client has acknowledged.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use sprat_config::resolved::MinRateRules;
use sprat_net::sys;
use sprat_scheduler::Time;
use sprat_scheduler::limits::Patience;
use tokio::time::Instant;

/// The watch over a client whose socket has been full at least once.
pub(super) struct Drain {
    rules: MinRateRules,
    epoch: Instant,
    patience: Patience,
    /// The bytes that the client had acknowledged when the present window of judgement began.
    acked: u64,
    /// The time for which the client's receive window had held TCP back by then, in all.
    limited: Duration,
    /// Whether the window of judgement is full, so that the next refused write asks the kernel.
    look: bool,
}

/// The outcome of a look at the socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// A look is not due yet.
    NotDue,
    /// The client takes enough.
    Enough,
    /// The client takes less than it has to.
    TooSlow,
}

/// The bytes that a client has taken so far, and the time for which it has held TCP back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken {
    bytes: u64,
    /// The time for which the client's receive window was closed.
    limited: Duration,
}

impl Taken {
    /// Asks the kernel what a socket's client has taken. A Unix socket acknowledges
    /// nothing; for one the answer is what was `written`, which is too much by at most the
    /// socket's buffer.
    pub(super) fn of(socket: BorrowedFd<'_>, written: u64) -> Self {
        // Or the connection is gone, as the next write will find.
        match sys::tcp_info(&socket) {
            Ok(info) => Self {
                bytes: info.bytes_acked,
                limited: Duration::from_micros(info.rwnd_limited_us),
            },
            Err(_) => Self {
                bytes: written,
                limited: Duration::ZERO,
            },
        }
    }
}

impl Drain {
    /// Begins to watch a socket that is full for the first time.
    pub(super) fn new(rules: MinRateRules, now: Instant, taken: Taken) -> Self {
        let mut patience = Patience::default();
        patience.wait(Time::ZERO);
        Self {
            rules,
            epoch: now,
            patience,
            acked: taken.bytes,
            limited: taken.limited,
            look: false,
        }
    }

    fn time(&self, at: Instant) -> Time {
        Time::ZERO + at.saturating_duration_since(self.epoch)
    }

    /// Notes that the socket is full.
    pub(super) fn wait(&mut self, now: Instant) {
        self.patience.wait(self.time(now));
    }

    /// Notes that the socket has taken something.
    pub(super) fn resume(&mut self, now: Instant) {
        self.patience.resume(self.time(now));
    }

    /// Returns when the deadlines are to be looked at for the client's sake. If it is `pressed`,
    /// others need its place, and the rule under load counts.
    pub(super) fn next_look(&self, now: Instant, pressed: bool) -> Option<Instant> {
        let look = self
            .rules
            .next_look(&self.patience, self.time(now), pressed)?;
        Some(self.epoch + look.since(Time::ZERO))
    }

    /// Makes the next refused write look at the socket, if a window of judgement is full by now.
    pub(super) fn ask(&mut self, now: Instant, pressed: bool) {
        let due = self.patience.due(self.rules.at(pressed));
        if due.is_some_and(|due| due <= self.time(now)) {
            if self.look {
                // Sprat wrote nothing: that is not the client's fault.
                self.patience = Patience::default();
            }
            self.look = !self.look;
        }
    }

    /// Judges the client, if a look is due. If the bytes are `queued_here`, the kernel has
    /// a queue of Sprat's before the wire. Then a client counts as slow only if its receive
    /// window was closed for half of the time.
    pub(super) fn look(
        &mut self,
        now: Instant,
        taken: impl FnOnce() -> Taken,
        queued_here: bool,
        pressed: bool,
    ) -> Look {
        if !std::mem::take(&mut self.look) {
            return Look::NotDue;
        }
        let Taken { bytes, limited } = taken();
        let now = self.time(now);
        let closed = limited.saturating_sub(self.limited);
        if queued_here && closed * 2 < self.patience.waited(now) {
            self.patience.moved(u64::MAX);
        } else {
            self.patience.moved(bytes.saturating_sub(self.acked));
        }
        if self.patience.is_too_slow(now, self.rules.at(pressed)) {
            return Look::TooSlow;
        }
        (self.acked, self.limited) = (bytes, limited);
        Look::Enough
    }
}
