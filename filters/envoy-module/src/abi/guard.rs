//! Our objects as Envoy has them, and how they are called: a panic ends here, and never crosses
//! the boundary.

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

/// The object that Envoy has for a configuration.
pub(super) struct OurConfig {
    pub(super) config: Arc<Config>,
    pub(super) metrics: Arc<Metrics>,
}

/// The object that Envoy has for a stream's filter.
pub(super) struct OurFilter {
    pub(super) filter: Filter,
    pub(super) metrics: Arc<Metrics>,
    pub(super) waker: Option<Arc<Scheduler>>,
}

/// Runs a hook of a stream. After a panic the filter gives up and is left out
/// of its stream, and the answer is what is to be let go of that was held.
///
/// # Safety
/// `ours` is a filter's, as Envoy passes it to hooks.
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

/// Runs what is of no stream; none after a panic.
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
