//! The calls that the filter makes, built on the host's functions.

use std::collections::VecDeque;
use std::time::Duration;

use proxy_wasm::hostcalls;
use proxy_wasm::types::{LogLevel, MapType, MetricType};
use sprat_filter::metrics::{Counter, Gauge};
use sprat_filter::{Answer, Host, StreamId};

/// The most streams that one callback releases.
const AT_ONCE: usize = 16;

/// The host as a worker's filter calls it.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    /// The host's numbers of the counters, by [`Counter::index`].
    counters: Vec<Option<u32>>,
    gauges: Vec<Option<u32>>,
    classes: Vec<String>,
    /// The stream that the present callback is about.
    pub(crate) current: u32,
    /// The streams to release, in order, once that is safe.
    pending: VecDeque<Pending>,
    /// The queue that has the host call this worker as soon as it has time, once this or another
    /// worker writes to it. None if the host has no queues; then a tick does it.
    queue: Option<u32>,
}

/// A stream that is to be released.
#[derive(Debug)]
struct Pending {
    id: StreamId,
    go: Go,
}

impl Pending {
    /// Returns whether this entry releases the response of that stream.
    fn is_response_of(&self, id: StreamId) -> bool {
        self.id == id && matches!(self.go, Go::Response)
    }
}

/// The way in which a held stream goes on.
#[derive(Debug)]
enum Go {
    Request,
    Response,
    Answered(Box<Answer>),
}

impl Calls {
    /// Creates the calls of a worker, with counters for these classes. A metric that the host
    /// refuses is not counted.
    pub(crate) fn new(classes: Vec<String>, worker: u64) -> Self {
        let counters = Counter::all(classes.len()).into_iter();
        let counters = counters.map(|own| define(MetricType::Counter, &own.name(&classes)));
        let gauges = Gauge::ALL.map(|own| define(MetricType::Gauge, own.name()));
        Self {
            counters: counters.collect(),
            gauges: gauges.to_vec(),
            classes,
            current: 0,
            pending: VecDeque::new(),
            queue: hostcalls::register_shared_queue(&format!("sprat.{worker}")).ok(),
        }
    }

    /// Releases the streams that are to go on, up to [`AT_ONCE`] of them.
    ///
    /// Only a callback that is about no stream may call this. The host continues a stream as soon
    /// as the present callback has returned, and before it notes what that has returned. All that
    /// follows happens within: callbacks of the continued stream and of others, and after each of
    /// them the resumptions that were asked for earlier. A stream that is continued before the host
    /// has noted that it is held stays held, or its trailers go before its body. So no callback of
    /// a stream releases any. It has the host call back ([`Calls::recall`]), when all is noted.
    ///
    /// The host nests the streams that it continues, hence the bound.
    pub(crate) fn let_go(&mut self) {
        for _ in 0..AT_ONCE {
            let Some(Pending { id, go }) = self.pending.pop_front() else {
                return;
            };
            self.about(id, || match go {
                Go::Request => hostcalls::resume_http_request().is_ok(),
                Go::Response => hostcalls::resume_http_response().is_ok(),
                Go::Answered(answer) => send(&answer),
            });
        }
    }

    /// Removes a stream that has ended, or was answered by the host, for it needs no release; the
    /// host still knows its number. Returns whether it was still to be released.
    pub(crate) fn forget(&mut self, id: StreamId) -> bool {
        let before = self.pending.len();
        self.pending.retain(|pending| pending.id != id);
        self.pending.len() < before
    }

    /// Removes the release of a stream's response: what was held went with what came after it.
    pub(crate) fn has_gone(&mut self, id: StreamId) {
        self.pending.retain(|pending| !pending.is_response_of(id));
    }

    /// Returns whether a stream is still to be released.
    pub(crate) fn owes(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Asks the host to call this worker back as soon as it has time. Returns false if the host
    /// cannot.
    pub(crate) fn recall(&self) -> bool {
        self.queue.is_some_and(ring)
    }

    /// Makes calls about a stream, and returns their result; none if the stream is gone.
    fn about<T>(&self, id: StreamId, call: impl FnOnce() -> T) -> Option<T> {
        let id = u32::try_from(id).ok()?;
        if id == self.current {
            return Some(call());
        }
        hostcalls::set_effective_context(id).ok()?;
        let done = call();
        // The callback at hand is about its own stream again.
        if hostcalls::set_effective_context(self.current).is_err() {
            warn("the host has lost the context of its callback");
        }
        Some(done)
    }
}

/// Sets a field in place of all of its name, or removes them if there is no value.
fn set_field(head: MapType, name: &str, value: Option<&str>) -> bool {
    hostcalls::set_map_value(head, name, value).is_ok()
}

fn define(kind: MetricType, name: &str) -> Option<u32> {
    hostcalls::define_metric(kind, name).ok()
}

/// Asks the host to call the context that owns a queue as soon as its worker has time. Returns
/// false if there is no such queue. The message says nothing but is not empty: the drain could not
/// tell an empty one from none.
fn ring(queue: u32) -> bool {
    hostcalls::enqueue_shared_queue(queue, Some(b"!")).is_ok()
}

/// Empties a queue of the host.
pub(crate) fn drain(queue: u32) {
    while let Ok(Some(_)) = hostcalls::dequeue_shared_queue(queue) {}
}

/// Answers the request of the present context's stream. Returns false if the host refuses.
pub(crate) fn send(answer: &Answer) -> bool {
    let fields = answer.fields.iter();
    let fields: Vec<_> = fields
        .map(|(name, value)| (*name, value.as_str()))
        .collect();
    let body = Some(answer.body.as_bytes());
    hostcalls::send_http_response(answer.status.into(), fields, body).is_ok()
}

/// Logs a warning for the operator.
pub(crate) fn warn(message: &str) {
    log(LogLevel::Warn, message);
}

/// Writes to the host's log. A failure is ignored: the host has no other place for it.
pub(crate) fn log(level: LogLevel, message: &str) {
    let _ = hostcalls::log(level, message);
}

impl Host for Calls {
    fn shared(&mut self, key: &str) -> (Option<Vec<u8>>, u32) {
        let (value, version) = hostcalls::get_shared_data(key).unwrap_or_default();
        (value, version.unwrap_or(0))
    }

    fn set_shared(&mut self, key: &str, value: &[u8], version: u32) -> bool {
        let version = (version != 0).then_some(version);
        hostcalls::set_shared_data(key, Some(value), version).is_ok()
    }

    fn set_request_field(&mut self, id: StreamId, name: &str, value: &str) {
        self.about(id, || {
            set_field(MapType::HttpRequestHeaders, name, Some(value))
        });
    }

    fn remove_request_field(&mut self, id: StreamId, name: &str) {
        self.about(id, || set_field(MapType::HttpRequestHeaders, name, None));
    }

    fn set_pool_metadata(&mut self, _: StreamId, _: &str, _: &str) {
        // Such a configuration is refused.
    }

    fn set_response_field(&mut self, id: StreamId, name: &str, value: &str) {
        self.about(id, || {
            set_field(MapType::HttpResponseHeaders, name, Some(value))
        });
    }

    fn resume_request(&mut self, id: StreamId) {
        let go = Go::Request;
        self.pending.push_back(Pending { id, go });
    }

    fn resume_response(&mut self, id: StreamId) {
        let go = Go::Response;
        self.pending.push_back(Pending { id, go });
    }

    fn resumes(&self, id: StreamId) -> bool {
        self.pending
            .iter()
            .any(|pending| pending.is_response_of(id))
    }

    fn answer(&mut self, id: StreamId, answer: &Answer) {
        let go = Go::Answered(Box::new(answer.clone()));
        self.pending.push_back(Pending { id, go });
    }

    fn request_fields(&mut self, id: StreamId) -> Vec<(String, String)> {
        let fields = self.about(id, || hostcalls::get_map_bytes(MapType::HttpRequestHeaders));
        let fields = fields.and_then(Result::ok).unwrap_or_default();
        // Values that are no text are left out.
        let text = |(name, value)| Some((name, String::from_utf8(value).ok()?));
        fields.into_iter().filter_map(text).collect()
    }

    fn ask(&mut self, cluster: &str, head: &[(&str, &str)], timeout: Duration) -> Option<u32> {
        hostcalls::dispatch_http_call(cluster, head.to_vec(), None, Vec::new(), timeout).ok()
    }

    fn connection(&mut self, id: StreamId) -> Option<u64> {
        let property = || hostcalls::get_property(vec!["connection", "id"]);
        let bytes = self.about(id, property)?.ok()??;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    }

    fn bell(&self) -> Option<u32> {
        self.queue
    }

    fn ring(&mut self, bell: u32) {
        ring(bell);
    }

    fn count(&mut self, counter: Counter, by: u64) {
        let known = self.counters.get(counter.index(self.classes.len()));
        if let Some(Some(metric)) = known {
            let by = i64::try_from(by).unwrap_or(i64::MAX);
            // Nothing can be done about a metric that the host has lost.
            let _ = hostcalls::increment_metric(*metric, by);
        }
    }

    fn gauge(&mut self, gauge: Gauge, value: u64) {
        if let Some(Some(metric)) = self.gauges.get(gauge as usize) {
            let _ = hostcalls::record_metric(*metric, value);
        }
    }
}
