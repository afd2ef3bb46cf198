//! The messages to systemd about the process (sd_notify(3)); none where no service manager
//! listens.

use std::time::Duration;

use sd_notify::NotifyState;

/// Tells systemd that the process serves, and that it is the service's main process from
/// now on: it may have replaced another.
pub(crate) fn ready() {
    tell(&[NotifyState::MainPid(std::process::id()), NotifyState::Ready]);
}

/// Tells systemd that the process serves still, after [`reloading`]. Which process is the
/// main one was told at the start: told again, it would take the place back from one that
/// has replaced this one.
pub(crate) fn reloaded() {
    tell(&[NotifyState::Ready]);
}

/// Tells systemd that the configuration is read anew; [`reloaded`] follows.
pub(crate) fn reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => tell(&[NotifyState::Reloading, now]),
        Err(error) => tracing::debug!(%error, "systemd is not told of the reload"),
    }
}

/// Tells systemd that the process has begun to end.
pub(crate) fn stopping() {
    tell(&[NotifyState::Stopping]);
}

/// Tells systemd that all of the process is alive.
pub(crate) fn alive() {
    tell(&[NotifyState::Watchdog]);
}

/// Returns how often, at least, systemd wants to hear that the process is alive; none if it
/// does not.
pub(crate) fn watchdog() -> Option<Duration> {
    sd_notify::watchdog_enabled()
}

fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::debug!(%error, "systemd cannot be told");
    }
}
