//! A response body that goes out when the uplink's scheduler says so.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Response, header};
use http_body::{Body, Frame, SizeHint};
use sprat_net::begun::with_held;
use sprat_net::error::Reason;
use sprat_scheduler::counterfactual::Network;
use sprat_scheduler::desk::HEAD_WAIT;
use sprat_scheduler::{AtCapacity, FlowSpec, Lane, Mark, Size, WireCost};
use tokio::time::error::Elapsed;
use tokio::time::timeout;

use super::Course;
use super::flow::{Flow, Granted};
use super::flush::FlushGate;
use super::gauge::SocketGauge;

/// The time that a head waits for the first turn of its response. A head that waits less costs
/// no segment more. A client that hears nothing for longer may think the server gone.
const HEAD_TURN_WAIT: Duration = Duration::from_millis(100);

/// The bytes of a chunk's framing in chunked coding: the size in hex, and two line ends.
const CHUNK_FRAMING: u64 = 12;

/// The bytes of a frame's header in HTTP/2 (RFC 9113 4.1).
const FRAME_HEADER: u64 = 9;

/// The most chunks of the endpoint's that are held back, so that a segment need not be cut where
/// a chunk ends.
const CHUNKS_HELD: usize = 2;

/// A body under the uplink's scheduler.
pub struct Paced<B: Body, C> {
    inner: B,
    flow: Flow,
    gauge: Rc<SocketGauge>,
    stream: C,
    /// The chunks that were read from the endpoint and not given to the HTTP layer yet.
    chunks: [Bytes; CHUNKS_HELD],
    trailers: Option<HeaderMap>,
    ended: bool,
    /// The endpoint's error from before the head went out, which is told once.
    failed: Option<B::Error>,
    /// Bytes that may be given to the HTTP layer now.
    credit: u64,
    /// Bytes that were granted for the head and what went with it.
    head_granted: u64,
    /// Bytes that the HTTP layer adds to each frame.
    framing: u64,
    /// Whether the uplink is told of pauses, since the body's size is not known exactly.
    may_pause: bool,
    /// Whether the uplink has been told of the present pause.
    has_paused: bool,
}

impl<B: Body, C> Paced<B, C> {
    /// Returns how long the body's bytes have waited for the uplink.
    pub fn waited(&self) -> Duration {
        self.flow.waited()
    }

    /// Returns the grants that the response had so far.
    pub fn granted(&self) -> Granted {
        self.flow.granted()
    }

    /// Returns the mark of the last grant, if responses are marked.
    pub fn mark(&self) -> Option<Mark> {
        self.flow.mark()
    }
}

/// The terms of a response's first turn, which its class gives, and the response's client.
#[derive(Clone, Copy, Debug)]
pub struct FirstTurn {
    /// The index of the class.
    pub class: usize,
    /// The client's number, if clients share the uplink.
    pub client: Option<u64>,
    /// The client's network, if the gain is told by networks.
    pub network: Option<Network>,
    /// The number by which a survey tells where the response comes from.
    pub origin: u32,
    /// The time after which the response is refused if it had no turn.
    pub timeout: Option<Duration>,
    /// Whether the class, its heads included, takes only what others leave.
    pub idle_only: bool,
}

/// Puts a response under the uplink's scheduler. Ready when its head may go, with the first
/// bytes of its body if they are there.
///
/// `size` is what is known of the body's size.
///
/// # Errors
///
/// As many flows are open as may be, or the response has waited for its first turn as long as
/// its class allows.
pub async fn pace<B, C>(
    stream: &C,
    gauge: &Rc<SocketGauge>,
    size: Size,
    turn: FirstTurn,
    response: Response<B>,
) -> Result<Response<Box<Paced<B, C>>>, Reason>
where
    C: Course,
    B: Body<Data = Bytes, Error: Unpin> + Unpin,
{
    let head = head_bytes(stream, &response);
    let framing = if stream.is_http2() {
        FRAME_HEADER
    } else if response.body().size_hint().exact().is_none() {
        CHUNK_FRAMING
    } else {
        0
    };
    let whole = |bytes: u64| whole_bytes(bytes, head, framing, gauge.cost());
    let whole = match size {
        Size::Exact(bytes) => Size::Exact(whole(bytes)),
        Size::Estimate { bytes, confidence } => Size::Estimate {
            bytes: whole(bytes),
            confidence,
        },
        Size::Unknown => Size::Unknown,
    };
    let lane = match stream.precedence(response.headers()) {
        Some(precedence) => Lane::Grouped(gauge.group(), precedence),
        None => Lane::Ordered,
    };
    let spec = FlowSpec::new(turn.class, whole, gauge.cost())
        .of_client(turn.client)
        .of_network(turn.network)
        .of_origin(turn.origin)
        .in_lane(lane);
    let (parts, inner) = response.into_parts();
    let mut paced = Box::new(Paced {
        inner,
        flow: Flow::new(gauge.worker()),
        gauge: Rc::clone(gauge),
        stream: stream.clone(),
        chunks: [Bytes::new(), Bytes::new()],
        trailers: None,
        ended: false,
        failed: None,
        credit: 0,
        head_granted: 0,
        framing,
        may_pause: !matches!(size, Size::Exact(_)),
        has_paused: false,
    });
    if matches!(size, Size::Exact(_)) && paced.serve_at_once(spec, head).await {
        gauge.retract();
        return Ok(Response::from_parts(parts, paced));
    }
    let opened = paced.flow.open(spec);
    if let Some(flow) = opened.map_err(|AtCapacity { .. }| Reason::UplinkFull)? {
        gauge.note_place(flow);
    }
    gauge.retract();
    match paced.first().await {
        Ok(Ok(())) => paced.send_head(head, turn).await?,
        // Told when the body is polled.
        Ok(Err(error)) => paced.failed = Some(error),
        // The size alone says nothing of when the body comes: the head goes
        // ahead, as what is small and needed for the client to go on.
        Err(_) => {
            send_ahead(gauge, turn.class, head).await;
            paced.flow.count_ahead(head);
        }
    }
    Ok(Response::from_parts(parts, paced))
}

/// Lets a response of `bytes` go ahead of all others, and takes its announcement back.
pub async fn send_ahead(gauge: &Rc<SocketGauge>, class: usize, bytes: u64) {
    go_ahead(gauge, class, bytes).await;
    gauge.retract();
}

/// Lets `bytes` go ahead of all others. While too much wants to go ahead, they wait for their
/// turn.
pub async fn go_ahead(gauge: &Rc<SocketGauge>, class: usize, bytes: u64) {
    let worker = gauge.worker();
    let wire_bytes = gauge.cost().bytes(bytes);
    if worker.fast_path(wire_bytes) {
        return gauge.promise(bytes);
    }
    // Neither its class's order nor its client's share counts.
    let spec = FlowSpec::new(class, Size::Exact(bytes), gauge.cost()).in_lane(Lane::Express);
    let Ok(mut flow) = Flow::opened(worker, spec) else {
        // With no room for another flow, what is small goes at once.
        worker.debit(wire_bytes);
        return gauge.promise(bytes);
    };
    let mut granted = 0;
    while granted < bytes {
        let more = poll_fn(|cx| flow.poll_grant(cx, bytes - granted)).await;
        gauge.promise(more);
        granted += more;
    }
}

impl<B: Body<Data = Bytes, Error: Unpin> + Unpin, C: Course> Paced<B, C> {
    /// Serves the response at once, if all of its body is here and the uplink lets it; returns
    /// whether it did.
    async fn serve_at_once(&mut self, spec: FlowSpec, head: u64) -> bool {
        let filled = poll_fn(|cx| Poll::Ready(self.poll_fill(cx))).await;
        if let Poll::Ready(Err(error)) = filled {
            // Told when the body is waited for.
            self.failed = Some(error);
            return false;
        }
        let body = self.framing + self.held();
        let is_all = self.held() > 0 && (self.ended || self.inner.is_end_stream());
        let is_served = is_all && self.flow.serve_at_once(spec, head + body);
        if is_served {
            self.gauge.promise(head + body);
            self.head_granted = head + body;
            self.credit = self.held();
        }
        is_served
    }

    /// Waits for the first bytes of the body, for as long as a head may. Most bodies have them
    /// already, and need no timer.
    async fn first(&mut self) -> Result<Result<(), B::Error>, Elapsed> {
        let filled = poll_fn(|cx| match self.poll_fill(cx) {
            Poll::Ready(filled) => Poll::Ready(Some(filled)),
            Poll::Pending => Poll::Ready(None),
        });
        match filled.await {
            Some(filled) => Ok(filled),
            None => timeout(HEAD_WAIT, poll_fn(|cx| self.poll_fill(cx))).await,
        }
    }

    /// Sends the head with the first bytes of the body, or ahead of them if they have long to
    /// wait.
    async fn send_head(&mut self, head: u64, turn: FirstTurn) -> Result<(), Reason> {
        let bound = match turn.timeout {
            Some(bound) => bound,
            None if turn.idle_only => {
                self.grant_head(head).await;
                return Ok(());
            }
            None => HEAD_TURN_WAIT,
        };
        if self.is_granted_within(head, bound).await {
            return Ok(());
        }
        if turn.timeout.is_some() {
            return Err(Reason::UplinkTimeout);
        }
        let left = head.saturating_sub(self.head_granted);
        go_ahead(&self.gauge, turn.class, left).await;
        self.flow.count_ahead(left);
        Ok(())
    }

    /// Waits for the head's turn, but no longer than `bound`; returns whether it came.
    async fn is_granted_within(&mut self, head: u64, bound: Duration) -> bool {
        let mut granting = pin!(self.grant_head(head));
        // The common case: it is its turn, and needs no timer.
        let is_granted = poll_fn(|cx| Poll::Ready(granting.as_mut().poll(cx).is_ready())).await;
        is_granted || timeout(bound, granting).await.is_ok()
    }

    /// Waits for grants that cover the head; what they have over is credit for the body.
    async fn grant_head(&mut self, head: u64) {
        while self.head_granted < head {
            let wanted = head - self.head_granted + self.framing + self.held();
            let more = poll_fn(|cx| self.flow.poll_grant(cx, wanted)).await;
            // Each by itself: the client may be gone before the next.
            self.gauge.promise(more);
            self.head_granted += more;
        }
        self.credit = (self.head_granted - head).saturating_sub(self.framing);
    }

    fn gate(&self) -> &FlushGate {
        self.stream.gate().unwrap_or(&self.gauge.gate)
    }

    fn held(&self) -> u64 {
        self.chunks.iter().map(|chunk| chunk.len() as u64).sum()
    }

    /// Reads ahead until a segment's worth is held or nothing more is there.
    /// Ready once there is something to send, or the end is known.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), B::Error>> {
        if let Some(error) = self.failed.take() {
            return Poll::Ready(Err(error));
        }
        let enough = u64::from(self.gauge.cost().mss);
        while !self.ended && self.chunks[1].is_empty() && self.held() < enough {
            if self.inner.is_end_stream() {
                self.ended = true;
                break;
            }
            let Poll::Ready(frame) = Pin::new(&mut self.inner).poll_frame(cx) else {
                if self.held() > 0 {
                    break;
                }
                self.stream.upstream_silent();
                if self.may_pause && !self.has_paused {
                    self.has_paused = true;
                    self.flow.pause();
                }
                return Poll::Pending;
            };
            self.has_paused = false;
            self.stream.upstream_sent();
            match frame {
                Some(Ok(frame)) => self.take(frame),
                Some(Err(error)) => return Poll::Ready(Err(error)),
                None => self.ended = true,
            }
        }
        Poll::Ready(Ok(()))
    }

    fn take(&mut self, frame: Frame<Bytes>) {
        match frame.into_data() {
            Ok(data) if self.chunks[0].is_empty() => self.chunks[0] = data,
            Ok(data) => self.chunks[1] = data,
            Err(frame) => {
                self.trailers = frame.into_trailers().ok();
                self.ended = true;
            }
        }
    }

    /// Tells the uplink how much is left as soon as all of the body has come: what was buffered
    /// is of exact size then.
    fn settle_size(&mut self) {
        if !self.may_pause {
            return;
        }
        let rest = self.inner.size_hint().exact().filter(|rest| *rest > 0);
        let Some(rest) = rest.map(|rest| rest + self.held()) else {
            return;
        };
        self.may_pause = false;
        let frames = rest.div_ceil(self.gauge.cost().payload_in(1));
        let left = rest + frames * self.framing;
        self.flow.has_left(left.saturating_sub(self.credit));
    }

    /// Takes the next frame, within the credit.
    fn give(&mut self) -> Bytes {
        let first = &mut self.chunks[0];
        let bytes = first
            .len()
            .min(usize::try_from(self.credit).unwrap_or(usize::MAX));
        let data = first.split_to(bytes);
        if first.is_empty() {
            self.chunks.swap(0, 1);
        }
        self.credit -= data.len() as u64;
        if self.held() == 0 && (self.ended || self.inner.is_end_stream()) {
            self.flow.complete();
        }
        self.gate().frame_given();
        data
    }
}

impl<B: Body<Data = Bytes, Error: Unpin> + Unpin, C: Course + Unpin> Body for Paced<B, C> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = self.get_mut();
        this.settle_size();
        loop {
            if this.held() > 0 && this.credit > 0 {
                return Poll::Ready(Some(Ok(Frame::data(this.give()))));
            }
            // What was granted before must be in the socket first: a
            // connection that TCP holds back does not queue for more.
            if this.credit == 0 {
                ready!(this.gate().poll_flushed(cx));
            }
            if let Err(error) = ready!(this.poll_fill(cx)) {
                return Poll::Ready(Some(Err(error)));
            }
            if this.held() == 0 {
                this.flow.complete();
                return Poll::Ready(this.trailers.take().map(|t| Ok(Frame::trailers(t))));
            }
            if this.credit == 0 {
                let wanted = this.held() + this.framing;
                let granted = ready!(this.flow.poll_grant(cx, wanted));
                this.gauge.promise(granted);
                this.credit = granted.saturating_sub(this.framing).max(1);
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.held() == 0
            && self.trailers.is_none()
            && self.failed.is_none()
            && (self.ended || self.inner.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        with_held(self.inner.size_hint(), self.held())
    }
}

/// Returns the bytes of a response with a body of `bytes`, with its head and the `framing` of each
/// frame. An endpoint may announce any length: what no number holds is the largest.
fn whole_bytes(bytes: u64, head: u64, framing: u64, cost: WireCost) -> u64 {
    let frames = bytes.div_ceil(cost.payload_in(1));
    let whole = bytes.saturating_add(head);
    whole.saturating_add(frames.saturating_mul(framing))
}

/// Estimates the bytes of a response's head, a few over rather than under. HTTP/2 writes a field
/// that it has written before in a byte or two, and others in about three quarters of their
/// length (RFC 7541). The exact number is known when the head is written.
pub fn head_bytes<B>(stream: &impl Course, response: &Response<B>) -> u64 {
    let bytes = text_bytes(response);
    match stream.is_http2() {
        true => FRAME_HEADER + bytes / 2,
        false => bytes,
    }
}

/// Counts the bytes of a response's head as HTTP/1.1 writes it.
fn text_bytes<B>(response: &Response<B>) -> u64 {
    /// The bytes of `HTTP/1.1 200 ` and two line ends.
    const STATUS_LINE: usize = 17;
    /// The bytes of `transfer-encoding: chunked`, or of a length, and a line end.
    const FRAMING_FIELD: usize = 28;
    const DATE_FIELD: usize = 37;
    let reason = response.status().canonical_reason().unwrap_or("").len();
    let (mut fields, mut date, mut framing) = (0, DATE_FIELD, FRAMING_FIELD);
    for (name, value) in response.headers() {
        fields += name.as_str().len() + value.len() + 4;
        if name == header::DATE {
            date = 0;
        } else if name == header::CONTENT_LENGTH {
            framing = 0;
        }
    }
    (STATUS_LINE + reason + fields + date + framing) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_that_leaves_no_room_for_a_head_is_the_largest() {
        let whole = |bytes| whole_bytes(bytes, 100, FRAME_HEADER, WireCost::ETHERNET_IPV4);
        assert_eq!(whole(0), 100);
        assert_eq!(whole(1_449), 1_449 + 100 + 2 * FRAME_HEADER);
        // The most that hyper takes for a length.
        assert_eq!(whole(u64::MAX - 2), u64::MAX);
    }
}
