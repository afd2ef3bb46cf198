//! When it matters how large a response is going to be, before it is asked
//! for.

use sprat_config::resolved::{Dispatch, WaitOrder};

use super::Upstream;

impl Upstream {
    /// Whether a request's size matters before it is sent.
    pub(crate) fn wants_size(&self) -> bool {
        let config = &self.config;
        let waits_by_size =
            config.max_requests < usize::MAX && config.wait_queue.order == WaitOrder::Size;
        waits_by_size || self.dispatches_by_size()
    }

    /// Whether it matters for a request that comes now: its endpoint depends
    /// on it, or its place among those who wait.
    pub(crate) fn wants_size_now(&self) -> bool {
        self.dispatches_by_size() || (self.wants_size() && !self.station.has_room())
    }

    fn dispatches_by_size(&self) -> bool {
        matches!(
            self.config.dispatch,
            Dispatch::Sita(_) | Dispatch::LeastWork
        )
    }
}
