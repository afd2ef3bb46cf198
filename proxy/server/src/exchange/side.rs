//! Requests of Sprat's own beside a client's: copies, and questions whether a request is
//! served. They have one attempt, and hold nothing of the client's.

use std::rc::Rc;
use std::time::Duration;

use http::header::HOST;
use http::{Request, Response, Version};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use sprat_net::proxy_protocol::Ends;
use sprat_net::upload::RequestBody;
use sprat_scheduler::Size;
use sprat_scheduler::health::Outcome;
use sprat_scheduler::station::Arrival;
use sprat_upstream::{Lease, Upstream};
use tokio::time::{Instant, timeout};

/// A request of Sprat's own.
pub(super) struct Side {
    /// The cluster that it goes to.
    pub(super) upstream: Rc<Upstream>,
    /// The request, with the head that the endpoint gets.
    pub(super) request: Request<RequestBody>,
    /// Index of its priority class.
    pub(super) class: usize,
    /// The ends of the client's connection, for endpoints that are told of them.
    pub(super) ends: Option<Ends>,
    /// The time from when it is sent to the answer's head, at most.
    pub(super) response_timeout: Duration,
}

impl Side {
    /// Sends the request; none if there is no answer.
    pub(super) async fn send(self) -> Option<(Lease, Response<Incoming>)> {
        let Self {
            upstream,
            mut request,
            ..
        } = self;
        let arrival = Arrival {
            class: self.class,
            size: Size::Unknown,
            hash: fastrand::u64(..),
            random: fastrand::u64(..),
            channel_backlog: Duration::ZERO,
            channel_ahead: Duration::ZERO,
        };
        let mut lease = upstream.dispatch(&arrival, None).await.ok()?;
        if let (Some(ends), true) = (self.ends, upstream.tells_clients()) {
            lease.tell(ends);
        }
        if !lease.reuse(Instant::now()) {
            lease.connect().await.ok()?;
        }
        if !request.headers().contains_key(HOST) {
            let host = lease.authority().clone();
            request.headers_mut().insert(HOST, host);
        }
        lease.endpoint().stats.requests.increment();
        let sender = lease.sender()?;
        sender.prepare(&mut request).ok()?;
        let (_, answer) = sender.try_send_request(request);
        let Ok(answer) = timeout(self.response_timeout, answer).await else {
            lease.give_up();
            lease.observe(|| Outcome::NoResponse);
            return None;
        };
        let answer = answer.ok()?;
        if answer.version() == Version::HTTP_10 {
            lease.spend();
        }
        let status = answer.status().as_u16();
        lease.observe(|| Outcome::of_status(status));
        Some((lease, answer))
    }
}

/// Reads the body of an answer of at most so many bytes, a chunk within `idle_timeout`, so
/// that its connection serves another request; none if it is longer, or does not end.
pub(super) async fn read(
    mut body: Incoming,
    lease: Lease,
    max_bytes: usize,
    idle_timeout: Duration,
) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    while let Some(frame) = timeout(idle_timeout, body.frame()).await.ok()? {
        if let Some(data) = frame.ok()?.data_ref() {
            if bytes.len() + data.len() > max_bytes {
                return None;
            }
            bytes.extend_from_slice(data);
        }
    }
    lease.release(Instant::now(), bytes.len() as u64);
    Some(bytes)
}

/// Reads the body of an answer to its end, however long, and throws it away; none if a
/// chunk does not come in time.
pub(super) async fn discard(
    mut body: Incoming,
    lease: Lease,
    idle_timeout: Duration,
) -> Option<()> {
    let mut bytes = 0;
    while let Some(frame) = timeout(idle_timeout, body.frame()).await.ok()? {
        bytes += frame.ok()?.data_ref().map_or(0, |data| data.len() as u64);
    }
    lease.release(Instant::now(), bytes);
    Some(())
}
