//! When it matters how large a response is going to be, before it is asked
//! for.

use sprat_config::resolved::{Dispatch, WaitOrder};

use super::Upstream;

impl Upstream {
    /// Whether a request's size matters before it is sent.
    pub(crate) fn wants_size(&self) -> bool {
        let config = &self.config;
        let waits = config.max_requests < usize::MAX || self.station.limits_classes();
        let waits_by_size = waits && config.wait_queue.order == WaitOrder::Size;
        waits_by_size || self.wants_backlog() || self.dispatches_by_size()
    }

    /// Whether it matters how much the uplink has to do.
    pub(crate) fn wants_backlog(&self) -> bool {
        self.station.has_channel_rule()
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
