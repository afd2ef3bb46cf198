//! What a filter asks of the host that it runs in.

use std::time::Duration;

use sprat_scheduler::Time;

use crate::answer::Answer;
use crate::metrics::{Counter, Gauge};

/// A stream, as the host numbers them.
pub type StreamId = u64;

/// The calls that a filter makes. None of them blocks, and none calls the
/// filter back before it has returned.
pub trait Host {
    /// Returns the value of a key that all workers share, and its version; the version alone if it
    /// has none.
    fn shared(&mut self, key: &str) -> (Option<Vec<u8>>, u32);

    /// Sets such a value; false if it is no longer of this version.
    fn set_shared(&mut self, key: &str, value: &[u8], version: u32) -> bool;

    /// Sets a field of a request's head, which is held or at hand.
    fn set_request_field(&mut self, id: StreamId, name: &str, value: &str);

    /// Takes all fields of a name off a request's head, which is at hand.
    fn remove_request_field(&mut self, id: StreamId, name: &str);

    /// Names a request's pool in the dynamic metadata of load balancing, under
    /// a key. A host without such metadata refuses configurations that ask for
    /// it.
    fn set_pool_metadata(&mut self, id: StreamId, key: &str, pool: &str);

    /// Sets a field of a response's head, which is held or at hand.
    fn set_response_field(&mut self, id: StreamId, name: &str, value: &str);

    /// Lets a held request go on; its client may have gone meanwhile.
    fn resume_request(&mut self, id: StreamId);

    /// Lets a held response go on; its client may have gone meanwhile.
    fn resume_response(&mut self, id: StreamId);

    /// Returns whether [`Host::resume_response`] was called and has not taken effect yet.
    fn resumes(&self, _id: StreamId) -> bool {
        false
    }

    /// Answers a held request in the backend's place.
    fn answer(&mut self, id: StreamId, answer: &Answer);

    /// Returns the fields of a request's head, which is held or at hand.
    fn request_fields(&mut self, id: StreamId) -> Vec<(String, String)>;

    /// Sends a request without a body to one of Envoy's clusters. Returns the token by which
    /// [`Filter::probed`](crate::Filter::probed) tells its answer; none if it cannot be sent.
    fn ask(&mut self, cluster: &str, head: &[(&str, &str)], timeout: Duration) -> Option<u32>;

    /// Returns for how long what is on its way occupies the uplink that the host itself paces, and
    /// the part of it that goes before a class or with it.
    fn backlog(&mut self, _now: Time, _class: usize) -> (Duration, Duration) {
        (Duration::ZERO, Duration::ZERO)
    }

    /// Returns the number of the client's connection that a stream at hand is on, which never comes
    /// again; none if the host does not tell.
    fn connection(&mut self, _id: StreamId) -> Option<u64> {
        None
    }

    /// Returns the number by which other workers may have this one called, for
    /// [`Filter::tick`](crate::Filter::tick); none if they cannot.
    fn bell(&self) -> Option<u32> {
        None
    }

    /// Asks the host to call another worker as soon as that one has time.
    fn ring(&mut self, _bell: u32) {}

    /// Adds to a counter.
    fn count(&mut self, counter: Counter, by: u64);

    /// Sets a gauge to this value.
    fn gauge(&mut self, gauge: Gauge, value: u64);
}
