//! The objects that Envoy holds for the module, and the guard around their calls: a panic ends
//! here, and never crosses the boundary.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::callbacks::{LOG_ERROR, log};
use super::lent::{Envoy, Ours};
use super::metrics::Metrics;
use super::stream::{Scheduler, Stream};
use crate::filter::{Filter, Woken};
use crate::host::{Host, Metric};
use crate::module::Config;
use crate::timer;

/// The module's object for a configuration, which Envoy holds.
pub(super) struct OurConfig {
    pub(super) config: Arc<Config>,
    pub(super) metrics: Arc<Metrics>,
}

/// The module's object for a stream's filter, which Envoy holds.
pub(super) struct OurFilter {
    pub(super) filter: Filter,
    pub(super) metrics: Arc<Metrics>,
    pub(super) waker: Option<Arc<Scheduler>>,
}

/// Runs a hook of a stream. After a panic the filter gives up, the stream goes on without it, and
/// the error says what Envoy must release.
///
/// # Safety
/// The pointer `ours` is a filter's, as Envoy passes it to hooks.
pub(super) unsafe fn hook<T>(
    envoy: Envoy,
    ours: Ours,
    run: impl FnOnce(&mut Filter, &mut Stream<'_>) -> T,
) -> Result<T, Woken> {
    // SAFETY: the filter is ours, and hooks of a stream come one at a time.
    let ours = unsafe { &mut *ours.cast::<OurFilter>().cast_mut() };
    let mut stream = Stream {
        envoy,
        metrics: &ours.metrics,
        waker: RefCell::new(&mut ours.waker),
    };
    let filter = &mut ours.filter;
    let done = catch_unwind(AssertUnwindSafe(|| run(filter, &mut stream)));
    done.map_err(|_| {
        stream.count(Metric::Panics, 1);
        log(
            LOG_ERROR,
            "sprat: a panic was caught; its stream goes on unscheduled",
        );
        // What broke may break again: then its places stay taken.
        let given_up = catch_unwind(AssertUnwindSafe(|| filter.give_up(timer::now())));
        given_up.unwrap_or(Woken::Response)
    })
}

/// Runs a function that belongs to no stream; returns none after a panic.
pub(super) fn guarded<T>(run: impl FnOnce() -> T) -> Option<T> {
    let done = catch_unwind(AssertUnwindSafe(run));
    if done.is_err() {
        log_panic();
    }
    done.ok()
}

pub(super) fn log_panic() {
    log(LOG_ERROR, "sprat: a panic was caught");
}
