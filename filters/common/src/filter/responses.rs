//! The way of a response: the sizes learnt from it, and its release.

use sprat_config::fields::announced_length;
use sprat_scheduler::{Size, Time};

use super::{Filter, seconds};
use crate::host::{Host, StreamId};
use crate::response::{ResponseHead, ResponseSpec};
use crate::stream::{Method, Phase, Stream};

impl Filter {
    /// Takes the head of a response, and returns whether the host must hold it.
    pub fn response_head(
        &mut self,
        now: Time,
        id: StreamId,
        head: &ResponseHead<'_>,
        host: &mut dyn Host,
    ) -> bool {
        let Some(spec) = self.learn_response(now, id, head, host) else {
            return false;
        };
        // A tunnel's bytes are no response.
        let connects = self.streams.get(&id).map(|own| own.method) == Some(Method::Connect);
        let held = match &mut self.uplink {
            Some(uplink) if head.status != 101 && !connects => uplink.open(now, id, spec, host),
            _ => false,
        };
        if head.end {
            self.ended(now, id, host);
        }
        self.gauge_held(host);
        held
    }

    /// Takes a head as [`Filter::response_head`] does, for a host that orders responses by itself.
    /// Returns the response's class and size, which its turn depends on. Returns none if it answers
    /// no request that the filter let pass.
    pub fn response(
        &mut self,
        now: Time,
        id: StreamId,
        head: &ResponseHead<'_>,
        host: &mut dyn Host,
    ) -> Option<ResponseSpec> {
        let spec = self.learn_response(now, id, head, host);
        if head.end {
            self.ended(now, id, host);
        }
        spec
    }

    fn learn_response(
        &mut self,
        now: Time,
        id: StreamId,
        head: &ResponseHead<'_>,
        host: &mut dyn Host,
    ) -> Option<ResponseSpec> {
        let mut stream = self.streams.remove(&id)?;
        if stream.phase != Phase::Passed {
            // An answer of this filter's, or of one before it.
            self.streams.insert(id, stream);
            return None;
        }
        self.mark(id, &stream, host);
        let size = self.learn_head(now, &mut stream, head, host);
        if let (Some(group), Some(ticket)) = (stream.group, stream.ticket) {
            self.groups[group].resize(ticket, size);
        }
        if let Some(later) = stream.later.take() {
            let classifier = &self.reader.classifier;
            stream.class = classifier.reclassify(stream.class, &later, head.fields);
        }
        let class = stream.class;
        self.streams.insert(id, stream);
        Some(ResponseSpec { class, size })
    }

    /// Adds the configured header field with class, size and wait to a response.
    fn mark(&self, id: StreamId, stream: &Stream, host: &mut dyn Host) {
        let Some(name) = &self.response_header else {
            return;
        };
        let size = stream.size.bytes().map(|bytes| format!(", size={bytes}"));
        let value = format!(
            "class={}{}, source={}, wait_ms={}",
            self.reader.classifier.name(stream.class),
            size.unwrap_or_default(),
            stream.source.name(),
            stream.started.since(stream.arrived).as_millis(),
        );
        host.set_response_field(id, name, &value);
    }

    /// Learns from a response's head, and returns the size as it is known then.
    fn learn_head(
        &mut self,
        now: Time,
        stream: &mut Stream,
        head: &ResponseHead<'_>,
        host: &mut dyn Host,
    ) -> Size {
        let bodiless = stream.method == Method::Head || matches!(head.status, 204 | 304);
        let announced = announced_length(head.fields);
        let teaches = head.status == 200;
        if let (Some(sizes), Some(asked)) = (&mut self.sizes, &stream.asked) {
            match announced.filter(|_| teaches) {
                Some(bytes) => sizes.learn(asked, head.fields, bytes, seconds(now), host),
                None => {
                    let lesson = sizes.lesson(asked, head.fields);
                    if stream.size == Size::Unknown {
                        stream.size = sizes.estimate(&lesson.asked).0;
                    }
                    stream.lesson = Some(lesson).filter(|_| teaches && !bodiless);
                }
            }
        }
        match announced {
            _ if bodiless || head.end => Size::Exact(0),
            Some(bytes) => Size::Exact(bytes),
            None => stream.size,
        }
    }

    /// Takes a part of a response's body, the last if `end`. Returns whether the host must hold it,
    /// with the parts held before.
    pub fn response_body(
        &mut self,
        now: Time,
        id: StreamId,
        bytes: u64,
        end: bool,
        host: &mut dyn Host,
    ) -> bool {
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.received += bytes;
        }
        let held = match &mut self.uplink {
            Some(uplink) => uplink.body(now, id, bytes, end, host),
            None => false,
        };
        if end {
            self.ended(now, id, host);
        }
        self.gauge_held(host);
        held
    }

    /// Takes the trailers of a response, and returns whether the host must hold them.
    pub fn response_trailers(&mut self, now: Time, id: StreamId, host: &mut dyn Host) -> bool {
        let held = match &mut self.uplink {
            Some(uplink) => uplink.trailers(now, id, host),
            None => false,
        };
        self.ended(now, id, host);
        held
    }

    /// Notes that a response has ended, with trailers or without. Its place at the pool is free for
    /// another request.
    pub fn ended(&mut self, now: Time, id: StreamId, host: &mut dyn Host) {
        let Some(stream) = self.streams.get_mut(&id) else {
            return;
        };
        let (lesson, bytes) = (stream.lesson.take(), stream.received);
        // An answer to a request that waits still is Envoy's own, and no pool's: what the request
        // holds is given back when its stream is over.
        let ticket = match stream.phase {
            Phase::Passed => stream.ticket.take(),
            Phase::Probing | Phase::Waiting | Phase::Answered => None,
        };
        let served = stream.group.zip(ticket);
        if let (Some(sizes), Some(lesson)) = (&mut self.sizes, lesson) {
            sizes.learn_late(&lesson, bytes, seconds(now), host);
        }
        if let Some((group, ticket)) = served {
            self.groups[group].finish(now, ticket, bytes);
            self.settle(now, group, host);
        }
    }
}
