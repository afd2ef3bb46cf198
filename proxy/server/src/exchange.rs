//! The way of a request: checked, routed, dispatched, sent upstream; its
//! answer handed to the uplink.

mod absence;
mod access;
pub(crate) mod answer;
mod attempt;
mod blame;
mod bounds;
mod buffering;
pub mod check;
mod chosen;
mod compress;
pub mod decide;
mod dispatch;
mod http2;
mod in_place;
mod interim;
mod keep_body;
mod local;
mod mirror;
mod offer;
mod outcome;
pub mod path;
mod plan;
mod probe;
mod queue;
mod record;
mod retry;
pub(crate) mod service;
mod session;
mod side;
mod size;
mod spare;
mod trace;
pub(crate) mod tunnel;
mod upgrade;
mod upstream_request;

use std::convert::Infallible;
use std::rc::Rc;

use http::header::EXPECT;
use http::request::Parts;
use http::{Request, Response, StatusCode};
use http_body::Body as _;
use hyper::body::Incoming;
use sprat_config::fields::accepts_json;
use sprat_config::resolved::HeadersWithUnderscores;
use sprat_net::begun::Begun;
use sprat_net::coding::Coded;
use sprat_net::error::Denial;
use sprat_net::headers::{self, Head};
use sprat_net::upload::{RequestBody, Upload};
use sprat_uplink::Course as _;

use self::check::{is_last_hop, make_asterisk};
use self::local::NotForwarded;
use self::plan::Plan;
use self::upstream_request::Exchange;
use crate::client::connection::Stream;
use crate::exchange::answer::Body;
use crate::exchange::record::Record;

/// Answers a request with the response of an endpoint, or Sprat's own.
pub(crate) async fn handle(
    stream: Stream,
    request: Request<Incoming>,
) -> Result<Response<Body>, Infallible> {
    let slips = stream.begin_request();
    let (mut parts, body) = request.into_parts();
    let mut record = Record::open(&stream, &parts);
    record.identify(&mut parts.headers);
    record.join_trace(&parts);
    let json = accepts_json(&Head(&parts.headers));
    let generation = Rc::clone(record.generation());
    let checked = match check::check(&parts, slips) {
        Ok(()) if stream.is_http2() => http2::admit(stream.connection(), &mut parts),
        checked => checked,
    };
    let underscores = stream.connection().listener.config.headers_with_underscores;
    let checked = checked.and_then(|()| headers::names::admit(&mut parts.headers, underscores));
    let admitted = checked
        .map_err(Denial::from)
        .and_then(|()| bounds::admit(stream.connection(), &parts.headers))
        .map(|place| record.keep_place(place));
    let client = bounds::client_number(stream.connection(), &parts.headers, &generation);
    record.is_of_client(client);
    make_asterisk(&mut parts, slips);
    if admitted.is_ok() && is_last_hop(&mut parts) {
        record.keep_upload(unwanted(&parts, body));
        return Ok(answer::answer_options(&stream, record).await);
    }
    let plan = match admitted {
        Ok(()) => match local::challenge(&generation, &parts) {
            Some(answer) => Err(NotForwarded::Answered(Box::new(answer))),
            None => {
                let (facts, terms) = record.planning();
                Plan::of(&stream, &generation, &mut parts, facts, terms).await
            }
        },
        Err(denial) => Err(NotForwarded::Refused(denial)),
    };
    let plan = match plan {
        Ok(plan) => plan,
        Err(instead) => {
            record.keep_upload(unwanted(&parts, body));
            return Ok(match instead {
                NotForwarded::Refused(denial) => {
                    answer::refuse(&stream, denial, json, record).await
                }
                NotForwarded::Answered(local) => answer::give(&stream, *local, record).await,
            });
        }
    };
    let exchange = Exchange::of(plan, parts, body);
    record.keep_upload(exchange.upload.clone());
    let fetched = exchange.fetch(&mut record).await;
    stream.interim_written().await;
    Ok(match fetched {
        Ok(mut response) if response.status() == StatusCode::SWITCHING_PROTOCOLS => {
            exchange
                .plan
                .keep_session(&mut record, response.headers_mut());
            // Boxed: other requests do not carry its room.
            Box::pin(upgrade::switch(exchange.plan, response, record, json)).await
        }
        Ok(response) => pass_on(&exchange, &stream, response, json, record).await,
        Err(reason) => answer::refuse(&stream, reason, json, record).await,
    })
}

/// Gives the client what an endpoint has answered, once its body has begun.
async fn pass_on(
    exchange: &Exchange<'_>,
    stream: &Stream,
    response: Response<Incoming>,
    json: bool,
    mut record: Box<Record>,
) -> Response<Body> {
    if let Some(local) = local::in_place_of(&response, &record) {
        local::drain(response.into_body(), record.upstream.take_lease());
        return answer::give(stream, local, record).await;
    }
    let mut response = response.map(Begun::new);
    if let Err(reason) = exchange.begin(response.body_mut(), &mut record).await {
        return answer::refuse(stream, reason, json, record).await;
    }
    let coding = exchange.coding(&mut response);
    let is_coded = coding.is_some();
    let mut response = match coding.filter(|_| !exchange.plan.head_only) {
        None => response.map(Coded::Plain),
        // Boxed: other responses do not carry its room.
        Some((rules, algorithm)) => {
            let compressed =
                Box::pin(exchange.compress(&mut record, response, rules, algorithm)).await;
            match compressed {
                Ok(response) => response,
                Err(reason) => return answer::refuse(stream, reason, json, record).await,
            }
        }
    };
    exchange.announce_close(&mut response);
    let plan = &exchange.plan;
    plan.believe_head(&response, is_coded, &mut record).await;
    if let Some(lease) = record.upstream.lease() {
        lease.resize(record.sent.size());
    }
    let bounds = exchange.plan.bounds(&record);
    stream.begin_response(Some(bounds));
    exchange
        .plan
        .keep_session(&mut record, response.headers_mut());
    record.finish_head(&mut response);
    let response = buffering::keep(&mut record, response);
    answer::respond(stream, response, json, record).await
}

/// Returns the body of a request that is not passed on, unless it has ended.
fn unwanted(parts: &Parts, body: Incoming) -> Option<Rc<Upload>> {
    let expects = parts.headers.contains_key(EXPECT);
    let is_over = body.is_end_stream();
    (!is_over).then(|| {
        let dropped = HeadersWithUnderscores::DropHeader;
        RequestBody::streaming(body, expects, None, None, dropped).1
    })
}
