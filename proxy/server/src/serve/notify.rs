//! What systemd is told of the process (sd_notify(3)); nothing where no
//! service manager listens.

use std::time::Duration;

use sd_notify::NotifyState;

/// Tells that the process serves: also as the service's main process from now on, if it has
/// replaced another.
pub(crate) fn ready() {
    tell(&[NotifyState::MainPid(std::process::id()), NotifyState::Ready]);
}

/// Says that the process serves still, after [`reloading`]. Which process is the main one
/// was said at the start: said again, it would take the place back from one that has
/// replaced it.
pub(crate) fn reloaded() {
    tell(&[NotifyState::Ready]);
}

/// Tells that the configuration is read anew; [`reloaded`] follows.
pub(crate) fn reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => tell(&[NotifyState::Reloading, now]),
        Err(error) => tracing::debug!(%error, "systemd is not told of the reload"),
    }
}

/// Tells that the process has begun to end.
pub(crate) fn stopping() {
    tell(&[NotifyState::Stopping]);
}

/// Tells that all of the process is alive.
pub(crate) fn alive() {
    tell(&[NotifyState::Watchdog]);
}

/// Returns how often, at least, systemd wants to hear that the process is alive.
pub(crate) fn watchdog() -> Option<Duration> {
    sd_notify::watchdog_enabled()
}

fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::debug!(%error, "systemd cannot be told");
    }
}
