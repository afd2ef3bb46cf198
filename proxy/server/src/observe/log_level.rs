//! The level of the process's log, which may change while it runs.

use std::sync::OnceLock;

use tracing::level_filters::LevelFilter;

/// A function that changes the level of the process's log, and returns whether it could.
type LevelChange = Box<dyn Fn(LevelFilter) -> bool + Send + Sync>;

static CHANGE: OnceLock<LevelChange> = OnceLock::new();

/// Keeps the function that changes the level of the process's log: that of the first log
/// that is opened.
pub(crate) fn govern(change: impl Fn(LevelFilter) -> bool + Send + Sync + 'static) {
    let _ = CHANGE.set(Box::new(change));
}

/// Changes the level; returns false where the process has no log of its own.
pub(crate) fn set(level: LevelFilter) -> bool {
    CHANGE.get().is_some_and(|change| change(level))
}
