//! The thread that sends spans to the collector, and the queue before it.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use bytes::Bytes;
use sprat_config::resolved::Otlp;
use sprat_net::permit::{Permit, Permits};
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::sleep;

use crate::collector::Collector;
use crate::metrics::{Dropped, TraceStats};
use crate::protobuf;
use crate::retry::{Outcome, Pauses};
use crate::span::{Attributes, Spans};

/// The longest time in which the last spans are sent, once no more can come.
const MAX_FLUSH: Duration = Duration::from_secs(10);

/// The time after the last flush at which the thread is given up, at the end of the process.
const ENDS_WITHIN: Duration = Duration::from_secs(2);

/// The workers' end of the queue of spans. Once all clones are dropped, the thread sends the spans
/// that wait, and ends.
#[derive(Clone, Debug)]
pub struct Queue {
    spans: mpsc::UnboundedSender<WaitingSpans>,
    room: Arc<Room>,
    /// The sender whose drop tells the thread that no more spans come, even while it sends.
    #[expect(dead_code, reason = "to be dropped")]
    open: Arc<watch::Sender<()>>,
}

/// The bound on waiting spans, the number of them, and the signals to the thread.
#[derive(Debug)]
struct Room {
    most: usize,
    /// The number of spans in a full batch, which is sent without waiting for more.
    max_batch: usize,
    waiting: Permits,
    /// Wakes the thread when spans have come.
    come: Notify,
    /// Wakes the thread when there are enough spans for a batch.
    full: Notify,
    stats: Arc<TraceStats>,
}

/// The waiting spans of a request, which take room until they are dropped.
struct WaitingSpans {
    spans: Spans,
    place: Permit,
    stats: Arc<TraceStats>,
}

impl Drop for WaitingSpans {
    fn drop(&mut self) {
        self.stats.unqueued(self.place.amount());
    }
}

impl Room {
    /// Gives spans the room that they take; none if there is too little.
    fn take(&self, spans: Spans) -> Option<WaitingSpans> {
        let place = self.waiting.take(spans.count(), self.most)?;
        self.stats.queued(place.amount());
        Some(WaitingSpans {
            spans,
            place,
            stats: Arc::clone(&self.stats),
        })
    }

    /// Returns whether enough spans wait to fill a batch.
    fn is_full(&self) -> bool {
        self.waiting.used() >= self.max_batch
    }
}

impl Queue {
    /// Queues the spans of a request. Drops and counts them if not all have room.
    pub(crate) fn send(&self, spans: Spans) {
        let count = spans.count();
        let Some(waiting) = self.room.take(spans) else {
            return self.room.stats.dropped(Dropped::QueueFull, count);
        };
        if self.spans.send(waiting).is_err() {
            return self.room.stats.dropped(Dropped::Shutdown, count);
        }
        self.room.come.notify_one();
        if self.room.is_full() {
            self.room.full.notify_one();
        }
    }
}

/// The thread that sends spans. It ends by itself in a bounded time once no [`Queue`] is left.
#[derive(Debug)]
pub struct Exporter {
    thread: JoinHandle<()>,
    /// The time that the thread may send for once no more spans can come.
    flush: Duration,
}

impl Exporter {
    /// Starts a thread that sends spans to the configured collector.
    ///
    /// # Errors
    ///
    /// The trusted authorities cannot be read, or no thread can be had.
    pub(crate) fn start(config: &Otlp, stats: &Arc<TraceStats>) -> anyhow::Result<(Queue, Self)> {
        let (spans, queued) = mpsc::unbounded_channel();
        let (open, closed) = watch::channel(());
        let room = Arc::new(Room {
            most: config.max_queue_size,
            max_batch: config.max_export_batch_size,
            waiting: Permits::default(),
            come: Notify::new(),
            full: Notify::new(),
            stats: Arc::clone(stats),
        });
        let sending = Sending {
            collector: Collector::new(config)?,
            queued,
            closed,
            room: Arc::clone(&room),
            resource: resource(config),
            delay: config.schedule_delay,
            in_hand: 0,
            is_failing: false,
        };
        let flush = config.timeout.min(MAX_FLUSH);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let thread = Builder::new().name("traces".to_owned());
        let thread = thread.spawn(move || {
            runtime.block_on(sending.run(flush));
            // A look-up of a name may go on, which nothing ends.
            runtime.shutdown_background();
        })?;
        let open = Arc::new(open);
        Ok((Queue { spans, room, open }, Self { thread, flush }))
    }

    /// Returns whether the thread has ended.
    pub fn is_over(&self) -> bool {
        self.thread.is_finished()
    }

    /// Waits for the thread's end, for a bounded time.
    ///
    /// # Errors
    ///
    /// The thread has panicked, or goes on because a [`Queue`] is still held, such as by a reload
    /// that does not come to its end.
    pub fn join(self) -> io::Result<()> {
        let until = Instant::now() + self.flush + ENDS_WITHIN;
        while !self.thread.is_finished() {
            if Instant::now() > until {
                let why = "the thread that sends traces does not end";
                return Err(io::Error::new(io::ErrorKind::TimedOut, why));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        self.thread
            .join()
            .map_err(|_| io::Error::other("the thread that sends traces panicked"))
    }
}

/// The state of the thread that sends spans.
struct Sending {
    collector: Collector,
    queued: mpsc::UnboundedReceiver<WaitingSpans>,
    closed: watch::Receiver<()>,
    room: Arc<Room>,
    /// The encoded field `ResourceSpans.resource`, which is the same in each request.
    resource: Vec<u8>,
    delay: Duration,
    /// The number of spans that were taken from the queue and are not yet with the collector.
    in_hand: usize,
    /// Whether the last attempt to send failed, and the log says so.
    is_failing: bool,
}

impl Sending {
    /// Sends spans until no more come and all are sent, but no longer than `flush` once no more can
    /// come. Counts the rest as dropped.
    async fn run(mut self, flush: Duration) {
        let mut closed = self.closed.clone();
        let overdue = async {
            while closed.changed().await.is_ok() {}
            sleep(flush).await;
        };
        tokio::select! {
            biased;
            () = self.send_all() => {}
            () = overdue => {}
        }
        let mut left = self.in_hand;
        while let Ok(waiting) = self.queued.try_recv() {
            left += waiting.spans.count();
        }
        if left > 0 {
            self.room.stats.dropped(Dropped::Shutdown, left);
            tracing::warn!(spans = left, "traces were not sent in time, and are lost");
        }
    }

    async fn send_all(&mut self) {
        while let Some(batch) = self.gather().await {
            self.deliver(batch.into()).await;
            self.in_hand = 0;
        }
    }

    /// Waits for spans, and returns a request with those that are sent together; none once no more
    /// come.
    ///
    /// The first waiting span wakes the thread, and so does the one that fills the batch: waking it
    /// for each costs more than making the spans.
    async fn gather(&mut self) -> Option<Vec<u8>> {
        let mut encoded = Vec::new();
        while self.in_hand == 0 {
            let is_closed = self.wait().await;
            while self.in_hand < self.room.max_batch
                && let Ok(waiting) = self.queued.try_recv()
            {
                self.in_hand += waiting.spans.count();
                encoded.extend_from_slice(waiting.spans.encoded());
            }
            if is_closed && self.in_hand == 0 {
                return None;
            }
        }
        Some(self.envelope(&encoded))
    }

    /// Waits until there are spans to send, and either a batch is full or the delay is over.
    /// Returns whether no more come.
    async fn wait(&mut self) -> bool {
        // What is told never changes, but ends.
        let mut is_closed = self.closed.has_changed().is_err();
        while self.room.waiting.used() == 0 && !is_closed {
            tokio::select! {
                () = self.room.come.notified() => {}
                _ = self.closed.changed() => is_closed = true,
            }
        }
        let mut delay = pin!(sleep(self.delay));
        // A batch that has been sent meanwhile may have been told of, too.
        while !self.room.is_full() && !is_closed && !delay.is_elapsed() {
            tokio::select! {
                () = self.room.full.notified() => {}
                _ = self.closed.changed() => is_closed = true,
                () = &mut delay => {}
            }
        }
        is_closed
    }

    /// Returns an encoded `ExportTraceServiceRequest` with these spans.
    fn envelope(&self, spans: &[u8]) -> Vec<u8> {
        let mut scope = Vec::new();
        // InstrumentationScope: its name and version.
        protobuf::message(1, &mut scope, |out| {
            protobuf::bytes(1, b"sprat", out);
            protobuf::bytes(2, env!("CARGO_PKG_VERSION").as_bytes(), out);
        });
        let scope_len = scope.len() + spans.len();
        let resource_len = self.resource.len() + protobuf::message_len(2, scope_len);
        let mut out = Vec::with_capacity(resource_len + 16);
        protobuf::begin(1, resource_len, &mut out);
        out.extend_from_slice(&self.resource);
        protobuf::begin(2, scope_len, &mut out);
        out.extend_from_slice(&scope);
        out.extend_from_slice(spans);
        out
    }

    /// Sends a batch, again after a pause if the collector may take it later.
    async fn deliver(&mut self, body: Bytes) {
        let mut pauses = Pauses::default();
        let stats = Arc::clone(&self.room.stats);
        loop {
            let (asked, why) = match self.collector.post(body.clone()).await {
                Ok(answer) => match answer.outcome {
                    Outcome::Taken { rejected, message } => {
                        return self.taken(rejected, &message);
                    }
                    Outcome::Later(asked) => (asked, format!("it answered {}", answer.status)),
                    Outcome::Refused => {
                        stats.failed();
                        stats.dropped(Dropped::Rejected, self.in_hand);
                        return self.complain(&format!("it answered {}", answer.status));
                    }
                },
                Err(error) => (None, chain(&*error)),
            };
            stats.failed();
            self.complain(&why);
            let Some(pause) = pauses.next(asked, fastrand::u64(..)) else {
                return stats.dropped(Dropped::Failed, self.in_hand);
            };
            self.pause(pause).await;
        }
    }

    fn taken(&mut self, rejected: u64, message: &str) {
        let rejected = usize::try_from(rejected)
            .unwrap_or(usize::MAX)
            .min(self.in_hand);
        let stats = &self.room.stats;
        stats.exported(self.in_hand - rejected);
        stats.dropped(Dropped::Rejected, rejected);
        if rejected > 0 || !message.is_empty() {
            tracing::warn!(rejected, message, "the collector has not taken all spans");
        }
        if std::mem::take(&mut self.is_failing) {
            tracing::info!("traces can be sent again");
        }
    }

    /// Logs that spans cannot be sent, once until they can be sent again.
    fn complain(&mut self, why: &str) {
        if !std::mem::replace(&mut self.is_failing, true) {
            tracing::warn!(error = why, "traces cannot be sent to the collector");
        }
    }

    /// Waits before a batch is sent again. Cuts the wait short at the moment when no more spans can
    /// come.
    async fn pause(&mut self, pause: Duration) {
        if self.closed.has_changed().is_err() {
            return sleep(pause).await;
        }
        tokio::select! {
            () = sleep(pause) => {}
            _ = self.closed.changed() => {}
        }
    }
}

/// Encodes the field `ResourceSpans.resource`, which is the same in each request.
fn resource(config: &Otlp) -> Vec<u8> {
    let mut out = Vec::new();
    protobuf::message(1, &mut out, |out| {
        let mut attributes = Attributes::of_resource(out);
        for (key, value) in &config.resource {
            attributes.text(key, value);
        }
        attributes.text("telemetry.sdk.name", "sprat");
        attributes.text("telemetry.sdk.language", "rust");
        attributes.text("telemetry.sdk.version", env!("CARGO_PKG_VERSION"));
    });
    out
}

/// Returns an error with its causes in one line.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(own) = cause {
        text = format!("{text}: {own}");
        cause = own.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_does_not_end_is_given_up() {
        let text = "version: 1\nlisteners: [{address: '127.0.0.1:8080'}]\n\
                    clusters: {a: {endpoints: ['127.0.0.1:1']}}\nroutes: [{cluster: a}]\n\
                    tracing: {otlp: {endpoint: 'http://127.0.0.1:1/v1/traces', timeout: 1s}}\n";
        let loaded = sprat_config::parse(text, "test.yaml", &|_| None).unwrap();
        let otlp = loaded.config.tracing.unwrap().otlp;
        let start = || Exporter::start(&otlp, &Arc::default()).unwrap();
        let (queue, exporter) = start();
        let error = exporter.join().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        drop(queue);
        let (queue, exporter) = start();
        drop(queue);
        exporter.join().unwrap();
    }
}
