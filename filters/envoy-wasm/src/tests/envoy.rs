//! A model of Envoy's handling of one worker's responses, with this filter as the only one in the
//! chain. It follows `filter_manager.cc` of Envoy, `Context` of its wasm extension, and
//! `ContextBase` of proxy-wasm-cpp-host, by their names. Only what matters for held responses is
//! modelled.

use std::collections::BTreeMap;

use super::fake::Fake;
use super::*;

/// The time that a callback takes on the model's clock.
const CALLBACK_NS: u64 = 100_000;

/// A model of one worker of Envoy, with its event loop.
#[derive(Debug, Default)]
pub(super) struct Envoy {
    streams: BTreeMap<u32, Stream>,
}

#[derive(Debug, Default)]
struct Stream {
    iteration: Iteration,
    iterate_from_current: bool,
    headers_continued: bool,
    buffered: Option<u64>,
    /// Whether the upstream has sent the whole response.
    local_complete: bool,
    has_trailers: bool,
    /// Whether the filter has seen the whole response.
    end_stream: bool,
    /// Whether the client has the whole response, or has gone.
    is_over: bool,
    sent: Sent,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Iteration {
    #[default]
    Continue,
    /// The filter has held a part of the body, or the trailers.
    StopSingle,
    /// The filter has held the head, and sees nothing that comes after it.
    StopAll,
}

/// The parts of a response that the client has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sent {
    pub(super) head: bool,
    pub(super) body: u64,
    pub(super) trailers: bool,
    pub(super) end: bool,
}

/// The part of a body that the filter is to see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Data {
    New(u64),
    Buffered,
}

impl Envoy {
    pub(super) fn new(configuration: &str) -> Self {
        host(|host| *host = Fake::default());
        assert!(
            configure(configuration),
            "{:?}",
            host(|host| host.log.clone())
        );
        Self::default()
    }

    /// Sends a request whose response is to come.
    pub(super) fn request(&mut self, id: u32) {
        self.streams.insert(id, Stream::default());
        assert_eq!(self.call(id, || request(id, "/")), CONTINUE);
    }

    /// Begins the response with a head, with a content length or without.
    pub(super) fn head(&mut self, id: u32, length: Option<u64>) {
        let length = length.map(|length| length.to_string());
        let mut fields = vec![(":status", "200")];
        fields.extend(length.as_deref().map(|length| ("content-length", length)));
        about(id, MapType::HttpResponseHeaders, &fields);
        let status = self.call(id, || proxy_on_response_headers(id, 2, false));
        let stream = self.stream(id);
        if status == CONTINUE {
            stream.headers_continued = true;
            stream.send_head();
        } else {
            // What StopIteration is for a head, by proxy-wasm's ABI 0.2.
            stream.iteration = Iteration::StopAll;
        }
    }

    /// Takes a part of the response's body from the upstream.
    pub(super) fn body(&mut self, id: u32, bytes: u64, end: bool) {
        self.stream(id).local_complete = end;
        self.encode_data(id, Data::New(bytes), end, true);
    }

    /// Ends the response of stream `id` with trailers.
    pub(super) fn trailers(&mut self, id: u32) {
        let stream = self.stream(id);
        (stream.has_trailers, stream.local_complete) = (true, true);
        self.encode_trailers(id, true);
    }

    /// Ends stream `id` because its client has gone, unless the response is over.
    pub(super) fn leave(&mut self, id: u32) {
        if !self.stream(id).is_over {
            self.destroy(id);
        }
    }

    /// Turns the event loop once, `later_ns` later.
    pub(super) fn turn(&mut self, later_ns: u64) {
        host(|host| host.now_ns += later_ns);
        if host(|host| host.queues[0] > 0) {
            self.call(ROOT, || proxy_on_queue_ready(ROOT, 0));
        }
        if host(|host| host.tick_ms > 0) {
            self.call(ROOT, || proxy_on_tick(ROOT));
        }
    }

    /// Returns the parts of a response that the client has.
    pub(super) fn sent(&self, id: u32) -> Sent {
        self.streams[&id].sent
    }

    fn stream(&mut self, id: u32) -> &mut Stream {
        self.streams.get_mut(&id).expect("it was requested")
    }

    /// Makes a callback to the filter. The streams that it continues go on as soon as it has
    /// returned, and before the caller looks at its answer.
    fn call<T>(&mut self, context: u32, callback: impl FnOnce() -> T) -> T {
        host(|host| {
            host.now_ns += CALLBACK_NS;
            host.effective = context;
        });
        let returned = callback();
        let next = |host: &mut Fake| (!host.continued.is_empty()).then(|| host.continued.remove(0));
        while let Some((id, half)) = host(next) {
            assert_eq!(half, HALF_RESPONSE);
            self.common_continue(id);
        }
        returned
    }

    fn common_continue(&mut self, id: u32) {
        let stream = self.stream(id);
        if stream.is_over {
            return;
        }
        assert_ne!(
            stream.iteration,
            Iteration::Continue,
            "{id}: nothing is held"
        );
        if stream.iteration == Iteration::StopAll {
            stream.iterate_from_current = true;
        }
        stream.iteration = Iteration::Continue;
        if !stream.headers_continued {
            stream.headers_continued = true;
            stream.send_head();
        }
        let (complete, had_trailers) = (stream.local_complete, stream.has_trailers);
        if stream.buffered.is_some() {
            self.encode_data(id, Data::Buffered, complete && !had_trailers, false);
        }
        if had_trailers {
            self.encode_trailers(id, false);
        }
        self.stream(id).iterate_from_current = false;
    }

    fn encode_data(&mut self, id: u32, data: Data, end: bool, from_upstream: bool) {
        let stream = self.stream(id);
        if from_upstream || stream.iterate_from_current {
            if stream.iteration == Iteration::StopAll {
                return stream.buffer(data);
            }
            if stream.end_stream {
                // It is not for this filter, nor for those after it.
                return;
            }
            stream.end_stream = end && !stream.has_trailers;
            let (bytes, told_end) = (stream.bytes_of(data), stream.end_stream);
            let bytes = usize::try_from(bytes).expect("a few bytes");
            let status = self.call(id, || proxy_on_response_body(id, bytes, told_end));
            let stream = self.stream(id);
            if status != CONTINUE {
                stream.iteration = Iteration::StopSingle;
                return stream.buffer(data);
            }
            if stream.iteration == Iteration::StopSingle {
                stream.buffer(data);
                return self.common_continue(id);
            }
        }
        let stream = self.stream(id);
        let bytes = stream.bytes_of(data);
        if data == Data::Buffered {
            stream.buffered = Some(0);
        }
        stream.send_body(bytes);
        if end {
            self.end(id);
        }
    }

    fn encode_trailers(&mut self, id: u32, from_upstream: bool) {
        let stream = self.stream(id);
        if from_upstream || stream.iterate_from_current {
            if stream.iteration == Iteration::StopAll {
                return;
            }
            let status = self.call(id, || proxy_on_response_trailers(id, 1));
            let stream = self.stream(id);
            stream.end_stream = true;
            if status != CONTINUE {
                stream.iteration = Iteration::StopSingle;
                return;
            }
            if stream.iteration == Iteration::StopSingle {
                return self.common_continue(id);
            }
        }
        self.stream(id).send_trailers();
        self.end(id);
    }

    fn end(&mut self, id: u32) {
        self.stream(id).sent.end = true;
        self.destroy(id);
    }

    fn destroy(&mut self, id: u32) {
        let was_over = std::mem::replace(&mut self.stream(id).is_over, true);
        assert!(!was_over, "{id}: ended twice");
        self.call(id, || proxy_on_done(id));
        self.call(id, || delete(id));
    }
}

impl Stream {
    fn bytes_of(&self, data: Data) -> u64 {
        match data {
            Data::New(bytes) => bytes,
            Data::Buffered => self.buffered.unwrap_or(0),
        }
    }

    fn buffer(&mut self, data: Data) {
        // What is buffered stays where it is.
        if let Data::New(bytes) = data {
            *self.buffered.get_or_insert(0) += bytes;
        }
    }

    fn send_head(&mut self) {
        assert_eq!(self.sent, Sent::default());
        self.sent.head = true;
    }

    fn send_body(&mut self, bytes: u64) {
        assert!(self.sent.head && !self.sent.trailers && !self.sent.end);
        self.sent.body += bytes;
    }

    fn send_trailers(&mut self) {
        assert!(self.sent.head && !self.sent.trailers && !self.sent.end);
        self.sent.trailers = true;
    }
}
