//! Copies of requests that go to other clusters, whose answers are thrown away. A copy is
//! of the class `background`, and the client never waits for one: a cluster that takes a
//! copy's body too slowly loses the copy.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use http::header::HOST;
use http::{Request, Version};
use http_body_util::BodyExt as _;
use sprat_net::proxy_protocol::Ends;
use sprat_net::upload::{RequestBody, Upload};
use sprat_scheduler::Size;
use sprat_scheduler::health::Outcome;
use sprat_scheduler::station::Arrival;
use sprat_upstream::Upstream;
use tokio::time::{Instant, timeout};

use super::plan::Plan;
use crate::setup::routing::Forward;

/// Copies that a worker has under way at most; of one over it there is no copy.
pub(crate) const MAX_UNDER_WAY: usize = 1024;

/// A copy on its way.
struct Copied {
    upstream: Rc<Upstream>,
    request: Request<RequestBody>,
    arrival: Arrival,
    /// What an endpoint is told of the client's connection, where it is told.
    ends: Option<Ends>,
    /// From when it is sent to the answer's head.
    response_timeout: Duration,
    /// Between two chunks of the answer.
    idle_timeout: Duration,
}

/// A copy's place among those under way.
struct Place(Rc<Cell<usize>>);

impl Place {
    fn take(under_way: &Rc<Cell<usize>>) -> Option<Self> {
        let taken = under_way.get();
        (taken < MAX_UNDER_WAY).then(|| {
            under_way.set(taken + 1);
            Self(Rc::clone(under_way))
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// Sends copies of a request whose head is that of the upstream request.
pub(super) fn copy(
    plan: &Plan<'_>,
    forward: &Forward,
    request: &Request<RequestBody>,
    upload: Option<&Rc<Upload>>,
) {
    let stats = &plan.connection.serving.stats;
    for &(cluster, percent) in &forward.mirrors {
        if fastrand::u32(0..100) >= percent {
            continue;
        }
        let Some(place) = Place::take(&plan.generation.mirrors_under_way) else {
            stats.mirrors_dropped.increment();
            continue;
        };
        let upstream = Rc::clone(&plan.generation.upstreams[cluster]);
        let body = upload.map_or(RequestBody::Empty, |upload| upload.copied());
        let mut own = Request::new(body);
        request.method().clone_into(own.method_mut());
        request.uri().clone_into(own.uri_mut());
        request.headers().clone_into(own.headers_mut());
        own.headers_mut().remove(http::header::EXPECT);
        let ends = upstream.tells_clients().then(|| plan.connection.ends());
        let copied = Copied {
            arrival: Arrival {
                class: plan.generation.classifier.background_class(),
                size: Size::Unknown,
                hash: fastrand::u64(..),
                random: fastrand::u64(..),
                channel_backlog: Duration::ZERO,
                channel_ahead: Duration::ZERO,
            },
            upstream,
            request: own,
            ends,
            response_timeout: plan.route.response_timeout,
            idle_timeout: plan.route.idle_timeout,
        };
        let stats = std::sync::Arc::clone(stats);
        drop(tokio::task::spawn_local(async move {
            match copied.send().await {
                Some(()) => stats.mirrored.increment(),
                None => stats.mirrors_dropped.increment(),
            }
            drop(place);
        }));
    }
}

impl Copied {
    /// Sends the copy, and throws its answer away; none if there was no answer to the
    /// end.
    async fn send(self) -> Option<()> {
        let Self {
            upstream,
            mut request,
            ..
        } = self;
        let mut lease = upstream.dispatch(&self.arrival).await.ok()?;
        if let Some(ends) = self.ends {
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
        let mut body = answer.into_body();
        let mut bytes = 0;
        while let Some(frame) = timeout(self.idle_timeout, body.frame()).await.ok()? {
            bytes += frame.ok()?.data_ref().map_or(0, |data| data.len() as u64);
        }
        lease.release(Instant::now(), bytes);
        Some(())
    }
}
