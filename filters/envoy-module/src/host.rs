//! What a filter asks of Envoy.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use sprat_filter::metrics::{Counter, Gauge};

/// Wakes a stream's filter on its own worker, from any thread.
pub(crate) trait Wake: Send + Sync {
    /// Makes Envoy call the filter's `on_woken`, unless the stream ends first.
    fn wake(&self);
}

/// A map of header fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fields {
    /// The head of the request.
    Request,
    /// The head of the response.
    Response,
}

/// A figure that the module counts in Envoy's stats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Metric {
    /// Responses under the scheduler.
    Scheduled,
    /// Responses that were to be scheduled and could not: as many were open as
    /// may be.
    AtCapacity,
    /// Bodies (and heads) let go, in bytes.
    ReleasedBytes,
    /// Chunks that had to wait for their turn.
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

/// One stream, as Envoy shows it during a hook.
pub(crate) trait Host {
    /// Returns the value of a field, the `index`th of its name, which is in lower case.
    fn value(&self, fields: Fields, name: &str, index: usize) -> Option<&[u8]>;

    /// Returns the value of the first field of this name.
    fn field(&self, fields: Fields, name: &str) -> Option<&[u8]> {
        self.value(fields, name, 0)
    }

    /// Returns the client's address; none if it has none.
    fn client(&self) -> Option<IpAddr>;

    /// Returns the bytes of names and values of the response's head, and how many fields it has.
    fn response_head_bytes(&self) -> (u64, u64);

    /// Returns the bytes of body that this hook brings.
    fn received_bytes(&self) -> u64;

    /// Returns the bytes of body held back earlier.
    fn held_bytes(&self) -> u64;

    /// Returns Envoy's number of the client's connection, which never comes again.
    fn connection(&self) -> Option<u64>;

    /// Returns whether the client speaks HTTP/2 or HTTP/3.
    fn is_multiplexed(&self) -> bool;

    /// Returns a handle that wakes this stream's filter.
    fn waker(&self) -> Arc<dyn Wake>;

    /// Adds to a counter.
    fn count(&self, metric: Metric, by: u64);

    /// Adds to one of the counters that both of Sprat's filters have.
    fn add(&self, counter: Counter, by: u64);

    /// Sets one of the gauges that both of Sprat's filters have.
    fn set_gauge(&self, gauge: Gauge, value: u64);

    /// Returns the fields of the request's head that are text.
    fn request_fields(&self) -> Vec<(String, String)>;

    /// Sends a request without a body to one of Envoy's clusters; false if it
    /// cannot be sent. The answer comes to the filter's `on_answer`.
    fn ask(&self, cluster: &str, head: &[(&str, &str)], timeout: Duration) -> bool;

    /// Returns whether Envoy notes for requests and for responses apart that they are held. Where
    /// it has one note for both (1.38), whatever goes on of a request makes it forget that the
    /// response is held: it never lets it go.
    fn holds_apart(&self) -> bool;

    /// Returns whether Envoy is inside of the call that lets the stream's request go on.
    fn is_resuming(&self) -> bool;

    /// Sets a field of a head that is held or at hand, or takes it off.
    fn set_field(&mut self, fields: Fields, name: &str, value: Option<&str>);

    /// Sets a value in the metadata that load balancing goes by.
    fn set_metadata(&mut self, key: &str, value: &str);

    /// Makes Envoy choose the request's route anew.
    fn clear_route_cache(&mut self);
}
