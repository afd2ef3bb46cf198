//! How much the process says about itself, which may change while it runs.

use std::sync::OnceLock;

use tracing::level_filters::LevelFilter;

/// Changes the level of the process's log.
type LevelChange = Box<dyn Fn(LevelFilter) -> bool + Send + Sync>;

static CHANGE: OnceLock<LevelChange> = OnceLock::new();

/// Notes how the level is changed of the process's log: the first that is opened.
pub(crate) fn govern(change: impl Fn(LevelFilter) -> bool + Send + Sync + 'static) {
    let _ = CHANGE.set(Box::new(change));
}

/// Changes the level; false where the process has no log of its own.
pub(crate) fn set(level: LevelFilter) -> bool {
    CHANGE.get().is_some_and(|change| change(level))
}
