//! The filter's calls, made of the host's.

use std::collections::VecDeque;
use std::time::Duration;

use proxy_wasm::hostcalls;
use proxy_wasm::types::{LogLevel, MapType, MetricType};
use sprat_filter::metrics::{Counter, Gauge};
use sprat_filter::{Answer, Host, StreamId};

/// What a worker's filter calls.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    /// The host's numbers of metrics, by [`Counter::index`].
    counters: Vec<Option<u32>>,
    gauges: Vec<Option<u32>>,
    classes: Vec<String>,
    /// The stream that the callback at hand is about.
    pub(crate) current: u32,
    /// Streams that are let go, in order, once that is safe.
    pending: VecDeque<(StreamId, Go)>,
}

/// How a held stream goes on.
#[derive(Debug)]
enum Go {
    Request,
    Response,
    Answered(Box<Answer>),
}

impl Calls {
    /// For these classes. A metric that the host refuses is not counted.
    pub(crate) fn new(classes: Vec<String>) -> Self {
        let define = |kind, name: &str| hostcalls::define_metric(kind, name).ok();
        let counters = Counter::all(classes.len()).into_iter();
        let counters = counters.map(|own| define(MetricType::Counter, &own.name(&classes)));
        let gauges = Gauge::ALL.map(|own| define(MetricType::Gauge, own.name()));
        Self {
            counters: counters.collect(),
            gauges: gauges.to_vec(),
            classes,
            current: 0,
            pending: VecDeque::new(),
        }
    }

    /// Lets go whoever is to go on.
    ///
    /// The host does it as soon as the callback at hand has returned, and
    /// before it takes note of what that has returned. Whatever follows from
    /// it happens within: another stream may end, and give its place to the
    /// very one whose head the callback is about. Told to go on before it is
    /// held, that one would be held for ever. So a callback that holds its own
    /// stream lets no other go; the next one does.
    pub(crate) fn let_go(&mut self) {
        while let Some((id, go)) = self.pending.pop_front() {
            self.about(id, || match go {
                Go::Request => hostcalls::resume_http_request().ok(),
                Go::Response => hostcalls::resume_http_response().ok(),
                Go::Answered(answer) => send(&answer),
            });
        }
    }

    /// Whether somebody is still to be let go.
    pub(crate) fn owes(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Makes calls about a stream; false if it is gone.
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

/// Answers the stream that is the context's.
pub(crate) fn send(answer: &Answer) -> Option<()> {
    let fields = answer.fields.iter();
    let fields = fields.map(|(name, value)| (*name, value.as_str()));
    let body = Some(answer.body.as_bytes());
    hostcalls::send_http_response(answer.status.into(), fields.collect(), body).ok()
}

/// Says what an operator should know.
pub(crate) fn warn(message: &str) {
    // A host that takes no log takes no complaint about it either.
    hostcalls::log(LogLevel::Warn, message).unwrap_or(());
}

impl Host for Calls {
    fn shared(&mut self, key: &str) -> (Option<Vec<u8>>, u32) {
        match hostcalls::get_shared_data(key) {
            Ok((value, version)) => (value, version.unwrap_or(0)),
            Err(_) => (None, 0),
        }
    }

    fn set_shared(&mut self, key: &str, value: &[u8], version: u32) -> bool {
        hostcalls::set_shared_data(key, Some(value), Some(version)).is_ok()
    }

    fn set_request_field(&mut self, id: StreamId, name: &str, value: &str) {
        self.about(id, || {
            hostcalls::set_map_value(MapType::HttpRequestHeaders, name, Some(value)).ok()
        });
    }

    fn remove_request_field(&mut self, id: StreamId, name: &str) {
        self.about(id, || {
            hostcalls::set_map_value(MapType::HttpRequestHeaders, name, None).ok()
        });
    }

    fn set_pool_metadata(&mut self, _: StreamId, _: &str, _: &str) {
        // Such a configuration is refused.
    }

    fn set_response_field(&mut self, id: StreamId, name: &str, value: &str) {
        self.about(id, || {
            hostcalls::set_map_value(MapType::HttpResponseHeaders, name, Some(value)).ok()
        });
    }

    fn resume_request(&mut self, id: StreamId) {
        self.pending.push_back((id, Go::Request));
    }

    fn resume_response(&mut self, id: StreamId) {
        self.pending.push_back((id, Go::Response));
    }

    fn answer(&mut self, id: StreamId, answer: &Answer) {
        let answer = Box::new(answer.clone());
        self.pending.push_back((id, Go::Answered(answer)));
    }

    fn request_fields(&mut self, id: StreamId) -> Vec<(String, String)> {
        let fields = self.about(id, || {
            let bytes = hostcalls::get_map_bytes(MapType::HttpRequestHeaders).ok()?;
            let texts = bytes
                .into_iter()
                .filter_map(|(name, value)| Some((name, String::from_utf8(value).ok()?)));
            Some(texts.collect())
        });
        fields.flatten().unwrap_or_default()
    }

    fn ask(&mut self, cluster: &str, head: &[(&str, &str)], timeout: Duration) -> Option<u32> {
        hostcalls::dispatch_http_call(cluster, head.to_vec(), None, Vec::new(), timeout).ok()
    }

    fn count(&mut self, counter: Counter, by: u64) {
        let known = self.counters.get(counter.index(self.classes.len()));
        if let Some(Some(metric)) = known {
            let by = i64::try_from(by).unwrap_or(i64::MAX);
            hostcalls::increment_metric(*metric, by).unwrap_or(());
        }
    }

    fn gauge(&mut self, gauge: Gauge, value: u64) {
        if let Some(Some(metric)) = self.gauges.get(gauge as usize) {
            hostcalls::record_metric(*metric, value).unwrap_or(());
        }
    }
}
