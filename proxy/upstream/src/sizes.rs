//! The cases in which a response's size matters before the response is asked for.

use super::upstream::Upstream;

impl Upstream {
    /// Returns whether a response's size matters before its request is sent.
    pub fn wants_size(&self) -> bool {
        self.waits_by_size() || self.decides_by_size()
    }

    /// Returns whether the size matters for a request that comes now: to its endpoint, to
    /// whether it is turned away, or to its place among those that wait.
    pub fn wants_size_now(&self) -> bool {
        // A class may be at its limit where an endpoint has room.
        let may_wait = || self.station.limits_classes() || !self.station.has_room();
        self.decides_by_size() || (self.waits_by_size() && may_wait())
    }

    /// Returns whether the uplink's backlog matters: requests are refused if it is overloaded.
    pub fn wants_backlog(&self) -> bool {
        self.station.has_channel_rule()
    }

    fn waits_by_size(&self) -> bool {
        self.station.size_use().orders
    }

    fn decides_by_size(&self) -> bool {
        self.station.size_use().decides
    }
}
