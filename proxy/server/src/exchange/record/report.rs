//! The report of a request at its end: to counters, to the collector of traces, and to access
//! logs.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use sprat_net::clock;
use sprat_net::error::{Fault, Reason};
use sprat_scheduler::WireCost;
use sprat_uplink::Delivery;
use tokio::time::Instant;

use super::Record;
use crate::exchange::trace::Ended;
use crate::observe::access_log::{Line, Logs};
use crate::observe::stats::WorkerStats;

/// The end of a request, as all reports tell of it.
pub(super) struct RequestEnd {
    /// The time that the request took, from its head.
    took: Duration,
    /// The response's slowdown; none if it was aborted, or has none.
    slowdown: Option<f64>,
    /// Whether the response has not gone out whole.
    aborted: bool,
}

impl Record {
    /// Returns the end of the request, which is now.
    pub(super) fn end(&self, aborted: bool) -> RequestEnd {
        RequestEnd {
            took: clock::now() - self.started,
            slowdown: self.slowdown().filter(|_| !aborted),
            aborted,
        }
    }

    /// Counts the request, whose end this is.
    pub(super) fn count(&self, end: &RequestEnd) {
        self.count_answer();
        self.count_failure(end.aborted);
        self.count_time(end);
    }

    /// Tells traces and access logs of the request, whose end this is. What clients acknowledge
    /// is logged only then, or when the wait for that is over.
    pub(super) fn tell(&mut self, end: &RequestEnd) {
        self.send_spans(end);
        let stats = Arc::clone(&self.stream.connection().serving.stats);
        let told = ToldLater {
            stats,
            started: self.started,
            bytes: self.sent.bytes,
            line: self.line(end),
        };
        let gauge = self.stream.connection().wire.gauge();
        if let Some(gauge) = gauge.filter(|_| !end.aborted && !self.sent.tunnelled) {
            gauge.await_response(Box::new(told));
        }
    }

    /// Counts the answer by its status, for its class, its listener and its cluster.
    fn count_answer(&self) {
        let connection = self.stream.connection();
        let stats = &connection.serving.stats;
        stats.open_requests.decrement();
        if !self.sent.tunnelled {
            stats.response_bytes.add(self.sent.bytes);
        }
        let class = self
            .sent_status()
            .map_or(5, |status| usize::from(status.as_u16() / 100 - 1).min(5));
        self.generation.classes[self.routing.class()].responses[class].increment();
        let listener = connection.serving.stats_of(&connection.listener);
        listener.responses[class].increment();
        let cluster = self.cluster().map(|own| own.counters());
        cluster.map_or(&stats.unrouted, |cluster| &cluster.responses)[class].increment();
    }

    /// Counts the reason why the request went wrong, if it did.
    fn count_failure(&self, aborted: bool) {
        let Some(reason) = self.reason else {
            return;
        };
        let stats = &self.stream.connection().serving.stats;
        stats.failures[reason.index()].increment();
        // Cut by the route's bound while the client, or the uplink, was waited for.
        let is_others =
            aborted && reason == Reason::RouteTimeout && !self.stream.is_upstream_silent();
        if reason.facts().fault == Fault::Upstream && !is_others {
            self.upstream.count_error(reason);
        }
    }

    /// Counts the time of the response, or that it was aborted.
    fn count_time(&self, end: &RequestEnd) {
        let stats = &self.stream.connection().serving.stats;
        if end.aborted {
            stats.aborted.increment();
        } else if !self.sent.tunnelled {
            let (bytes, took) = (self.sent.bytes, end.took);
            stats.observe(bytes, took, end.slowdown);
            self.generation.classes[self.routing.class()].observe(bytes, took);
            let cluster = self.cluster().map(|own| own.counters());
            cluster.inspect(|cluster| cluster.durations.took(took));
        }
    }

    /// Returns the response's slowdown; none if the uplink has no rate, or for a stream or
    /// a tunnel.
    fn slowdown(&self) -> Option<f64> {
        let rate = self.generation.uplink.rate_bits_per_s()?;
        let took = clock::now() - self.sent.answered?;
        if self.sent.is_stream() {
            return None;
        }
        let own = took.saturating_sub(self.sent.silence);
        slowdown(self.sent.bytes, own, rate)
    }

    /// Sends the request's spans to the collector, if it is sampled.
    fn send_spans(&self, end: &RequestEnd) {
        let (Some(trace), Some(tracer)) = (&self.facts.trace, &self.generation.tracer) else {
            return;
        };
        let connection = self.stream.connection();
        let spans = trace.end(&Ended {
            started: self.started,
            client: connection.client.peer,
            status: self.told_status(),
            reason: self.reason,
            is_aborted: end.aborted,
            bytes: self.sent.bytes,
            slowdown: end.slowdown,
            class: self.generation.classifier.name(self.routing.class()),
            listener: &connection.listener.name,
            cluster: self.cluster().map(|own| own.name()),
            endpoint: self.upstream.label(),
        });
        if let Some(spans) = spans {
            tracer.send(spans);
        }
    }

    /// Returns the status that the client got. One that went away before any of the
    /// body was sent got none.
    fn sent_status(&self) -> Option<StatusCode> {
        let has_gone = matches!(self.reason, Some(Reason::ClientClosed));
        let got_nothing = has_gone && self.sent.bytes == 0 && !self.sent.tunnelled;
        self.sent.status.filter(|_| !got_nothing)
    }

    /// Returns the status that the client got, or the one that stands for the reason why
    /// there was none.
    fn told_status(&self) -> Option<StatusCode> {
        let instead = || self.reason.map(|own| own.facts().status);
        self.sent_status().or_else(instead)
    }

    /// Makes the request's line in access logs, if there are any.
    fn line(&mut self, end: &RequestEnd) -> Option<(Logs, Box<Line>)> {
        let logs = self.generation.log.clone()?;
        let connection = self.stream.connection();
        let shown = connection
            .client
            .certificate()
            .filter(|_| logs.needs().certificate);
        let peer = shown.map(|own| {
            let common_name = own.common_name.unwrap_or_default().to_owned();
            Box::new([own.dns.join(","), own.uris.join(","), common_name])
        });
        let mut facts = std::mem::take(&mut self.facts);
        let matched = self.routing.take_matched();
        if let (Some(request), Some(path)) = (&mut facts.request, matched) {
            request.matched(path);
        }
        let line = Line {
            ended: std::time::SystemTime::now(),
            duration: end.took,
            acknowledged: None,
            client: connection.client.peer,
            local_port: connection.client.ends().local.port(),
            listener: Arc::clone(&connection.listener.name),
            tls: connection.client.secured().map(|own| own.terms),
            peer,
            request_id: facts.request_id,
            trace: facts.trace.as_ref().map(|own| own.context),
            response: facts.response,
            request: facts.request,
            unread_line: facts.unread_line,
            status: self.told_status(),
            bytes: self.sent.bytes,
            size: self.sent.told_size(),
            size_layer: self.sent.size.layer(),
            wait: self.sent.wait,
            queue_wait: self.upstream.waited(),
            slowdown: end.slowdown,
            class: Arc::clone(self.generation.classifier.name(self.routing.class())),
            user: self.routing.take_user(),
            cluster: self.cluster().map(|own| own.cluster()),
            endpoint: self.upstream.member().map(Arc::clone),
            session: facts.session,
            reason: self.reason,
            aborted: end.aborted,
        };
        Some((logs, Box::new(line)))
    }
}

/// The facts still to be told of a response when its client has acknowledged it, or when
/// the wait for that is over.
struct ToldLater {
    stats: Arc<WorkerStats>,
    started: Instant,
    bytes: u64,
    line: Option<(Logs, Box<Line>)>,
}

impl Delivery for ToldLater {
    fn acknowledged(mut self: Box<Self>, at: Instant) {
        let took = at - self.started;
        self.stats.observe_acknowledged(self.bytes, took);
        if let Some((_, line)) = &mut self.line {
            line.acknowledged = Some(took);
        }
    }
}

impl Drop for ToldLater {
    fn drop(&mut self) {
        if let Some((logs, line)) = self.line.take() {
            self.stats.log_lines_dropped.add(logs.send(&line));
        }
    }
}

/// Returns a response's slowdown: the time that it `took` over the time that the link alone
/// needs; none if it has no body. The time counts from when its head was there, less the
/// waits for its endpoint. The slowdown is 1 at least: what the kernel holds at the end is
/// still on its way.
fn slowdown(bytes: u64, took: Duration, rate_bits_per_s: f64) -> Option<f64> {
    let ideal_s = WireCost::ETHERNET_IPV4.bytes(bytes) as f64 * 8.0 / rate_bits_per_s;
    (bytes > 0).then(|| (took.as_secs_f64() / ideal_s).max(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slowdown_compares_with_the_link_alone() {
        let took = Duration::from_secs(1);
        let bytes = WireCost::ETHERNET_IPV4.bytes(1000);
        let expected = 1e6 / (bytes as f64 * 8.0);
        let got = slowdown(1000, took, 1e6).unwrap();
        assert!((got - expected).abs() < 1e-9);
        assert_eq!(slowdown(1000, Duration::ZERO, 1e6), Some(1.0));
        assert_eq!(slowdown(0, took, 1e6), None);
    }
}
