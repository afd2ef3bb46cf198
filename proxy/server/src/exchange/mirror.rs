//! Copies of requests that go to other clusters, whose answers are thrown away. A copy is
//! of the class `background`, and the client never waits for one: a cluster that takes a
//! copy's body too slowly loses the copy.

use std::rc::Rc;
use std::sync::Arc;

use http::Request;
use http::header::EXPECT;
use sprat_net::upload::{RequestBody, Upload};

use super::plan::Plan;
use super::side::{Side, SideKind, discard};
use crate::setup::routing::Forward;

/// The most copies that a worker has under way; a request beyond that is not copied.
pub(crate) const MAX_UNDER_WAY: usize = 1024;

/// Sends copies of a request, with the head of the upstream request, to its route's mirrors.
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
        let Some(place) = plan.generation.mirrors.take(MAX_UNDER_WAY) else {
            stats.mirrors_dropped.increment();
            continue;
        };
        let upstream = Rc::clone(&plan.generation.upstreams[cluster]);
        let body = upload.map_or(RequestBody::Empty, |upload| upload.copied());
        let mut own = Request::new(body);
        request.method().clone_into(own.method_mut());
        request.uri().clone_into(own.uri_mut());
        request.headers().clone_into(own.headers_mut());
        own.headers_mut().remove(EXPECT);
        let idle_timeout = plan.route.idle_timeout;
        let side = Side {
            upstream,
            request: own,
            class: plan.generation.classifier.background_class(),
            ends: Some(plan.connection.client.ends()),
            kind: SideKind::Copy {
                response_timeout: plan.route.response_timeout,
            },
        };
        let stats = Arc::clone(stats);
        drop(tokio::task::spawn_local(async move {
            let served = match side.send().await {
                Some((lease, answer)) => discard(answer.into_body(), lease, idle_timeout).await,
                None => None,
            };
            match served {
                Some(()) => stats.mirrored.increment(),
                None => stats.mirrors_dropped.increment(),
            }
            drop(place);
        }));
    }
}
