//! The filter's calls, made of the host's.

use std::collections::VecDeque;
use std::time::Duration;

use sprat_filter::metrics::{Counter, Gauge};
use sprat_filter::{Answer, Host, StreamId};

use crate::abi::{self, Half, Head, Level, Metric};

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
    /// A queue that the host calls this worker for as soon as it has time, once
    /// somebody writes to it: this worker or another. None if the host has no
    /// queues; then a tick does it.
    queue: Option<u32>,
}

/// How a held stream goes on.
#[derive(Debug)]
enum Go {
    Request,
    Response,
    Answered(Box<Answer>),
}

impl Calls {
    /// For these classes, of the worker of this number. A metric that the host
    /// refuses is not counted.
    pub(crate) fn new(classes: Vec<String>, worker: u64) -> Self {
        let counters = Counter::all(classes.len()).into_iter();
        let counters = counters.map(|own| abi::define_metric(Metric::Counter, &own.name(&classes)));
        let gauges = Gauge::ALL.map(|own| abi::define_metric(Metric::Gauge, own.name()));
        Self {
            counters: counters.collect(),
            gauges: gauges.to_vec(),
            classes,
            current: 0,
            pending: VecDeque::new(),
            queue: abi::register_queue(&format!("sprat.{worker}")),
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
                Go::Request => abi::continue_stream(Half::Request),
                Go::Response => abi::continue_stream(Half::Response),
                Go::Answered(answer) => send(&answer),
            });
        }
    }

    /// What was held of a stream's response has gone with what came after it:
    /// there is nothing to let go.
    pub(crate) fn has_gone(&mut self, id: StreamId) {
        self.pending.retain(|pending| !is_response(pending, id));
    }

    /// Whether somebody is still to be let go.
    pub(crate) fn owes(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Has the host call this worker back as soon as it has time; false if it
    /// does not.
    pub(crate) fn recall(&self) -> bool {
        self.queue.is_some_and(abi::ring)
    }

    /// Makes calls about a stream; false if it is gone.
    fn about<T>(&self, id: StreamId, call: impl FnOnce() -> T) -> Option<T> {
        let id = u32::try_from(id).ok()?;
        if id == self.current {
            return Some(call());
        }
        if !abi::set_effective_context(id) {
            return None;
        }
        let done = call();
        // The callback at hand is about its own stream again.
        if !abi::set_effective_context(self.current) {
            warn("the host has lost the context of its callback");
        }
        Some(done)
    }
}

fn is_response((of, go): &(StreamId, Go), id: StreamId) -> bool {
    *of == id && matches!(go, Go::Response)
}

/// Answers the stream that is the context's; false if the host does not.
pub(crate) fn send(answer: &Answer) -> bool {
    let fields = answer.fields.iter();
    let fields: Vec<_> = fields
        .map(|(name, value)| (*name, value.as_str()))
        .collect();
    abi::answer(answer.status, &fields, &answer.body)
}

/// Says what an operator should know.
pub(crate) fn warn(message: &str) {
    abi::log(Level::Warn, message);
}

impl Host for Calls {
    fn shared(&mut self, key: &str) -> (Option<Vec<u8>>, u32) {
        abi::shared(key)
    }

    fn set_shared(&mut self, key: &str, value: &[u8], version: u32) -> bool {
        abi::set_shared(key, value, version)
    }

    fn set_request_field(&mut self, id: StreamId, name: &str, value: &str) {
        self.about(id, || abi::set_field(Head::Request, name, value));
    }

    fn remove_request_field(&mut self, id: StreamId, name: &str) {
        self.about(id, || abi::remove_field(Head::Request, name));
    }

    fn set_pool_metadata(&mut self, _: StreamId, _: &str, _: &str) {
        // Such a configuration is refused.
    }

    fn set_response_field(&mut self, id: StreamId, name: &str, value: &str) {
        self.about(id, || abi::set_field(Head::Response, name, value));
    }

    fn resume_request(&mut self, id: StreamId) {
        self.pending.push_back((id, Go::Request));
    }

    fn resume_response(&mut self, id: StreamId) {
        self.pending.push_back((id, Go::Response));
    }

    fn resumes(&self, id: StreamId) -> bool {
        self.pending.iter().any(|pending| is_response(pending, id))
    }

    fn answer(&mut self, id: StreamId, answer: &Answer) {
        let answer = Box::new(answer.clone());
        self.pending.push_back((id, Go::Answered(answer)));
    }

    fn request_fields(&mut self, id: StreamId) -> Vec<(String, String)> {
        let fields = self.about(id, || abi::fields(Head::Request));
        fields.unwrap_or_default()
    }

    fn ask(&mut self, cluster: &str, head: &[(&str, &str)], timeout: Duration) -> Option<u32> {
        abi::http_call(cluster, head, timeout)
    }

    fn connection(&mut self, id: StreamId) -> Option<u64> {
        let bytes = self.about(id, || abi::property(&["connection", "id"]))??;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    }

    fn bell(&self) -> Option<u32> {
        self.queue
    }

    fn ring(&mut self, bell: u32) {
        abi::ring(bell);
    }

    fn count(&mut self, counter: Counter, by: u64) {
        let known = self.counters.get(counter.index(self.classes.len()));
        if let Some(Some(metric)) = known {
            abi::add(*metric, by);
        }
    }

    fn gauge(&mut self, gauge: Gauge, value: u64) {
        if let Some(Some(metric)) = self.gauges.get(gauge as usize) {
            abi::record(*metric, value);
        }
    }
}
