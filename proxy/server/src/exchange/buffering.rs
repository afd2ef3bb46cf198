//! The choice of bodies that Sprat keeps for slow clients, so that no endpoint waits for these.

use std::rc::Rc;

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Response};
use http_body::Body as _;
use hyper::body::Incoming;
use sprat_config::resolved::ResponseBuffer;
use sprat_net::begun::Begun;
use sprat_net::coding::Coded;
use sprat_net::read_ahead::ReadAhead;
use sprat_upstream::{buffer, hold};

use crate::exchange::record::Record;
use crate::setup::routing::Route;

/// The field in which nginx's backends say that a response is not to be buffered.
const X_ACCEL_BUFFERING: &str = "x-accel-buffering";

/// An upstream's response, whose body may be read ahead of its client.
pub(super) type KeptResponse = Response<ReadAhead<Coded<Begun<Incoming>>>>;

/// Reads a response's body ahead of its client, if its route or its cluster says so. The
/// endpoint's place is free once the endpoint has sent it all. A body that has come as a
/// whole by then has a size that is certain.
pub(super) fn keep(
    record: &mut Record,
    response: Response<Coded<Begun<Incoming>>>,
) -> KeptResponse {
    let response = read_ahead(record, response);
    if let body @ ReadAhead::Ahead(..) = response.body()
        && let Some(bytes) = body.size_hint().exact()
    {
        record.sent.belief().at_whole(bytes);
    }
    response
}

fn read_ahead(record: &mut Record, response: Response<Coded<Begun<Incoming>>>) -> KeptResponse {
    let generation = Rc::clone(record.generation());
    let upstream = record
        .routing()
        .cluster()
        .map(|index| &generation.upstreams[index]);
    let route = record
        .routing()
        .route()
        .map(|index| generation.routes.at(index));
    // An endpoint that has answered may still be sent the request's body.
    let (Some(upstream), Some(route), true) = (upstream, route, record.has_sent_on()) else {
        return response.map(ReadAhead::none);
    };
    let is_off = match &route.buffer.response {
        ResponseBuffer::Off => true,
        ResponseBuffer::Auto => !upstream.is_bounded(),
        ResponseBuffer::On(_) => false,
    };
    if is_off && !upstream.is_bounded() {
        return response.map(ReadAhead::none);
    }
    let Some(lease) = record.upstream.take_lease() else {
        return response.map(ReadAhead::none);
    };
    let comes_as_it_is = is_off || is_stream(response.headers());
    let (parts, body) = response.into_parts();
    let (body, held) = match &route.buffer.response {
        _ if comes_as_it_is => (ReadAhead::none(body), hold(lease)),
        ResponseBuffer::On(rules) => buffer(body, lease, rules, &generation.buffers),
        ResponseBuffer::Auto | ResponseBuffer::Off => upstream.read_ahead(body, lease),
    };
    record.holds(held);
    Response::from_parts(parts, body)
}

/// Returns whether a response is a stream whose client takes what comes when it comes, or is
/// said to be one.
fn is_stream(headers: &HeaderMap) -> bool {
    let is_no = |own: &HeaderValue| own.as_bytes().eq_ignore_ascii_case(b"no");
    if headers.get(X_ACCEL_BUFFERING).is_some_and(is_no) {
        return true;
    }
    is_of_type(headers, b"text/event-stream") || is_of_type(headers, b"application/grpc")
}

/// Returns whether a body's `Content-Type` begins `with` these bytes.
fn is_of_type(headers: &HeaderMap, with: &[u8]) -> bool {
    let kind = headers
        .get(CONTENT_TYPE)
        .map(|own| own.as_bytes().trim_ascii_start());
    let start = kind.and_then(|own| own.get(..with.len()));
    start.is_some_and(|own| own.eq_ignore_ascii_case(with))
}

/// Returns whether a request's body is taken from the client before a place at an endpoint.
/// It is not where the client and the endpoint speak with each other.
pub(super) fn keeps_request(route: &Route, may_switch: bool, headers: &HeaderMap) -> bool {
    route.buffer.request.is_some() && !may_switch && !is_of_type(headers, b"application/grpc")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_told_by_their_type_or_by_what_their_backend_says() {
        for (name, value, expected) in [
            ("content-type", "text/event-stream", true),
            ("content-type", "Text/Event-Stream; charset=utf-8", true),
            ("content-type", "application/grpc+proto", true),
            ("content-type", "text/event", false),
            ("content-type", "text/html", false),
            ("x-accel-buffering", "no", true),
            ("x-accel-buffering", "No", true),
            ("x-accel-buffering", "yes", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(name, value.parse().unwrap());
            assert_eq!(is_stream(&headers), expected, "{name}: {value}");
        }
    }
}
