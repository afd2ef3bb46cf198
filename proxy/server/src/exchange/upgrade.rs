//! A request to switch protocols (RFC 9110 7.8), and the upstream's consent.

use http::header::{CONNECTION, UPGRADE};
use http::{HeaderValue, Response};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use sprat_net::error::Reason;
use sprat_net::headers::{self};
use tokio::time::timeout;

use super::plan::Plan;
use crate::exchange::answer::{self, Body};
use crate::exchange::record::Record;
use crate::exchange::tunnel::Tunnel;

/// Switches the connection, as the upstream has, once the head of the answer is
/// out.
pub(super) async fn switch(
    plan: Plan<'_>,
    mut response: Response<Incoming>,
    mut record: Box<Record>,
    json: bool,
) -> Response<Body> {
    let stream = plan.stream;
    let chosen = response.headers().get(UPGRADE).cloned();
    // It is there as soon as the task that drives the connection has been on.
    stream.wait();
    let upgraded = timeout(
        plan.route.response_timeout,
        hyper::upgrade::on(&mut response),
    )
    .await;
    if !matches!(upgraded, Ok(Ok(_))) {
        // The endpoint has not done what its head says.
        record.upstream.ends_badly();
    }
    let (Ok(Ok(upgraded)), Some(offer), Some(allowed), Some(lease), Some(chosen)) = (
        upgraded,
        plan.offer,
        plan.route.upgrade.as_ref(),
        record.upstream.take_lease(),
        chosen,
    ) else {
        return answer::refuse(stream, Reason::ProtocolError, json, record).await;
    };
    // It is no request any more: `max_tunnels` counts it.
    record.leave_place();
    headers::strip_hop_by_hop(response.headers_mut());
    record.finish_head(&mut response);
    let headers = response.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(UPGRADE, chosen);
    let tunnel = Tunnel {
        upstream: TokioIo::new(upgraded),
        record,
        idle_timeout: allowed.idle_timeout,
        buffer_bytes: allowed.buffer_bytes,
        place: offer.place,
        endpoint_place: lease.into_tunnel(),
    };
    answer::switch(stream, response, tunnel).await
}
