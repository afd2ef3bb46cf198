//! The calls that a filter makes to the host that it runs in.

use std::time::Duration;

use sprat_scheduler::Time;
use sprat_scheduler::station::ChannelBacklog;

use crate::answer::Answer;
use crate::metrics::{Counter, Gauge};

/// The host's number of a stream.
pub type StreamId = u64;

/// The calls that a filter makes to its host. None of them blocks, and none calls the filter back
/// before it has returned.
pub trait Host {
    /// Returns the value that all workers share under a key, and its version; the version alone if
    /// there is no value.
    fn shared(&mut self, key: &str) -> (Option<Vec<u8>>, u32);

    /// Sets the value that all workers share under a key. Returns false if it is no longer of this
    /// version.
    fn set_shared(&mut self, key: &str, value: &[u8], version: u32) -> bool;

    /// Sets a field of a request's head. The head is held, or is the one that the filter was called
    /// with.
    fn set_request_field(&mut self, id: StreamId, name: &str, value: &str);

    /// Removes all fields of a name from the request's head that the filter was called with.
    fn remove_request_field(&mut self, id: StreamId, name: &str);

    /// Names a request's pool in the dynamic metadata of load balancing, under a key. A host
    /// without such metadata refuses configurations that ask for it.
    fn set_pool_metadata(&mut self, id: StreamId, key: &str, pool: &str);

    /// Sets a field of a response's head. The head is held, or is the one that the filter was
    /// called with.
    fn set_response_field(&mut self, id: StreamId, name: &str, value: &str);

    /// Releases a held request, whose client may have gone meanwhile.
    fn resume_request(&mut self, id: StreamId);

    /// Releases a held response, whose client may have gone meanwhile.
    fn resume_response(&mut self, id: StreamId);

    /// Returns whether a call of [`Host::resume_response`] has not taken effect yet.
    fn resumes(&self, _id: StreamId) -> bool {
        false
    }

    /// Answers a held request in a pool's place.
    fn answer(&mut self, id: StreamId, answer: &Answer);

    /// Returns the fields of a request's head. The head is held, or is the one that the filter was
    /// called with.
    fn request_fields(&mut self, id: StreamId) -> Vec<(String, String)>;

    /// Sends a request without a body to one of Envoy's clusters. Returns the token under which
    /// [`Filter::probed`](crate::Filter::probed) gets its answer; none if it cannot be sent.
    fn ask(&mut self, cluster: &str, head: &[(&str, &str)], timeout: Duration) -> Option<u32>;

    /// Returns the time for which granted bytes occupy the uplink, if the host itself paces it.
    fn backlog(&mut self, _now: Time, _class: usize) -> ChannelBacklog {
        ChannelBacklog::default()
    }

    /// Returns the number of the client's connection that carries the stream that the filter was
    /// called with. A number never comes again. None if the host does not tell.
    fn connection(&mut self, _id: StreamId) -> Option<u64> {
        None
    }

    /// Returns the number by which other workers can have this one called, for
    /// [`Filter::tick`](crate::Filter::tick); none if they cannot.
    fn bell(&self) -> Option<u32> {
        None
    }

    /// Asks the host to call another worker as soon as that has time.
    fn ring(&mut self, _bell: u32) {}

    /// Adds to a counter of the host's statistics.
    fn count(&mut self, counter: Counter, by: u64);

    /// Sets a gauge of the host's statistics.
    fn gauge(&mut self, gauge: Gauge, value: u64);
}
