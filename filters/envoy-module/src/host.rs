//! The calls that a filter makes to Envoy.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use sprat_filter::metrics::{Counter, Gauge};

/// A handle that wakes a stream's filter on its own worker, from any thread.
pub(crate) trait Wake: Send + Sync {
    /// Makes Envoy call the filter's `on_woken`, unless the stream ends first.
    fn wake(&self);
}

/// One of a stream's two heads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fields {
    /// The head of the request.
    Request,
    /// The head of the response.
    Response,
}

/// A counter of the module's own in Envoy's stats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Metric {
    /// The responses that were scheduled.
    Scheduled,
    /// The responses that should have been scheduled and were not, because too many were open.
    AtCapacity,
    /// The bytes of heads and bodies that were released.
    ReleasedBytes,
    /// The chunks that had to wait for their turn.
    Waits,
    /// The time that chunks have waited, in whole seconds.
    WaitSeconds,
    /// The panics that were caught.
    Panics,
}

impl Metric {
    /// All metrics of the module.
    pub(crate) const ALL: [Self; 6] = [
        Self::Scheduled,
        Self::AtCapacity,
        Self::ReleasedBytes,
        Self::Waits,
        Self::WaitSeconds,
        Self::Panics,
    ];

    /// Returns the metric's name in Envoy's stats.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Scheduled => "sprat_responses_scheduled_total",
            Self::AtCapacity => "sprat_responses_at_capacity_total",
            Self::ReleasedBytes => "sprat_released_bytes_total",
            Self::Waits => "sprat_waits_total",
            Self::WaitSeconds => "sprat_wait_seconds_total",
            Self::Panics => "sprat_panics_total",
        }
    }
}

/// A stream of Envoy, during a hook.
pub(crate) trait Host {
    /// Returns the value of the `index`th field of a name, which is in lower case.
    fn value(&self, fields: Fields, name: &str, index: usize) -> Option<&[u8]>;

    /// Returns the value of the first field of this name.
    fn field(&self, fields: Fields, name: &str) -> Option<&[u8]> {
        self.value(fields, name, 0)
    }

    /// Returns the client's address; none if the connection has none.
    fn client(&self) -> Option<IpAddr>;

    /// Returns the bytes of names and values in the response's head, and the number of its fields.
    fn response_head_bytes(&self) -> (u64, u64);

    /// Returns the bytes of body that this hook brings.
    fn received_bytes(&self) -> u64;

    /// Returns the bytes of body that are held from earlier hooks.
    fn held_bytes(&self) -> u64;

    /// Returns Envoy's number of the client's connection, which never comes again.
    fn connection(&self) -> Option<u64>;

    /// Returns whether the client speaks HTTP/2 or HTTP/3.
    fn is_multiplexed(&self) -> bool;

    /// Returns a handle that wakes this stream's filter.
    fn waker(&self) -> Arc<dyn Wake>;

    /// Adds to one of the module's own counters.
    fn count(&self, metric: Metric, by: u64);

    /// Adds to one of the counters that both of Sprat's filters have.
    fn add(&self, counter: Counter, by: u64);

    /// Sets one of the gauges that both of Sprat's filters have.
    fn set_gauge(&self, gauge: Gauge, value: u64);

    /// Returns the fields of the request's head that are text.
    fn request_fields(&self) -> Vec<(String, String)>;

    /// Sends a request without a body to one of Envoy's clusters. Returns false if it cannot be
    /// sent. The answer comes to the filter's `on_answer`.
    fn ask(&self, cluster: &str, head: &[(&str, &str)], timeout: Duration) -> bool;

    /// Returns whether Envoy notes apart for requests and for responses that they are held. Envoy
    /// 1.38 has one note for both. There, when the request goes on, Envoy forgets that the response
    /// is held, and never releases it.
    fn holds_apart(&self) -> bool;

    /// Returns whether Envoy is within the call that releases the stream's request.
    fn is_resuming(&self) -> bool;

    /// Sets a field of a head, or removes it if there is no value. The head is held, or is that of
    /// the present hook.
    fn set_field(&mut self, fields: Fields, name: &str, value: Option<&str>);

    /// Sets a value in the metadata that load balancing depends on.
    fn set_metadata(&mut self, key: &str, value: &str);

    /// Makes Envoy choose the request's route again.
    fn clear_route_cache(&mut self);
}
