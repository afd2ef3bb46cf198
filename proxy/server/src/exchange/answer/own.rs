//! Answers that the proxy gives by itself.

use bytes::Bytes;
use http::header::{ALLOW, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderValue, Response, StatusCode};
use http_body_util::Full;
use sprat_net::error::{ALLOWED_METHODS, Advice, Denial, Reason};
use sprat_scheduler::Size;
use sprat_uplink::{Course as _, Outlet, head_bytes, pace, send_ahead};

use super::{Body, Inner, mark};
use crate::client::connection::Stream;
use crate::exchange::local::Local;
use crate::exchange::record::Record;
use crate::setup::routing::Page;

/// The most bytes of an answer that goes ahead of others; a larger page waits for its turn.
const SMALL_BYTES: u64 = 4096;

/// Refuses a request with an answer that says why, or with its route's page for that.
pub(crate) async fn refuse(
    stream: &Stream,
    denial: impl Into<Denial>,
    accepts_json: bool,
    mut record: Box<Record>,
) -> Response<Body> {
    let Denial { reason, advice } = denial.into();
    // What the client gets is no response of the endpoint's, whose place others may have by now.
    record.upstream.cancel();
    let ends = reason.ends_connection() || !record.has_all(stream).await;
    let mut response = refusal(reason, advice, accepts_json);
    record.fail(reason);
    let instead = record
        .route()
        .and_then(|route| route.pages.in_place_of(response.status()));
    if let Some(instead) = instead.cloned() {
        if let Some(status) = instead.status {
            *response.status_mut() = status;
        }
        if let Some(page) = instead.page {
            put(page, &mut response);
        }
    }
    answer(stream, response, ends, record).await
}

/// Makes the answer that tells why a request is not served.
fn refusal(reason: Reason, advice: Option<Box<Advice>>, accepts_json: bool) -> Response<Bytes> {
    let mut response = reason.response(accepts_json);
    let is_full = matches!(reason, Reason::UplinkFull | Reason::UplinkTimeout);
    let later = || is_full.then(|| Box::new(Advice::later(1)));
    if let Some(advice) = advice.or_else(later) {
        advice.add(&mut response);
    }
    response
}

/// Answers a request with an answer of Sprat's own, such as a route asks for.
pub(crate) async fn give(stream: &Stream, local: Local, mut record: Box<Record>) -> Response<Body> {
    let ends = !record.has_all(stream).await;
    drop(record.upstream.take_lease());
    let mut response = Response::new(Bytes::new());
    *response.status_mut() = local.status;
    for (name, value) in local.fields {
        response.headers_mut().append(name, value);
    }
    if let Some(reason) = local.reason {
        record.fail(reason);
    }
    match local.page {
        Some(page) => put(page, &mut response),
        // Neither has a body, nor tells of one (RFC 9110 8.6).
        None if [StatusCode::NO_CONTENT, StatusCode::NOT_MODIFIED].contains(&local.status) => {}
        None => {
            let length = HeaderValue::from_static("0");
            response.headers_mut().insert(CONTENT_LENGTH, length);
        }
    }
    answer(stream, response, ends, record).await
}

/// Makes a page the body of an answer.
fn put(page: Page, response: &mut Response<Bytes>) {
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, page.content_type);
    headers.insert(CONTENT_LENGTH, HeaderValue::from(page.body.len()));
    *response.body_mut() = page.body;
}

/// Answers an OPTIONS that goes no further.
pub(crate) async fn answer_options(stream: &Stream, record: Box<Record>) -> Response<Body> {
    let ends = !record.has_all(stream).await;
    let mut response = Response::new(Bytes::new());
    let headers = response.headers_mut();
    headers.insert(ALLOW, HeaderValue::from_static(ALLOWED_METHODS));
    headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
    answer(stream, response, ends, record).await
}

/// Sends an answer of Sprat's own; with `ends`, a connection of HTTP/1.1 ends after it.
async fn answer(
    stream: &Stream,
    mut response: Response<Bytes>,
    ends: bool,
    mut record: Box<Record>,
) -> Response<Body> {
    stream.begin_response(None);
    let closes = ends && !stream.is_http2();
    if closes {
        stream.close_lingering();
    }
    let bytes = finish(&mut response, closes, &mut record);
    let text = |text| Inner::Local(Some(text));
    let response = match stream.connection().wire.outlet() {
        Outlet::Plain => response.map(text),
        Outlet::Gauged(gauge) if bytes > SMALL_BYTES => {
            let turn = record
                .generation()
                .first_turn(record.routing().class(), record.routing().client());
            let whole = response.map(Full::new);
            let waiting = record.sent.wait();
            let paced = pace(stream, gauge, Size::Exact(bytes), turn, whole).await;
            drop(waiting);
            match paced {
                Ok(paced) => paced.map(Inner::PacedPage),
                Err(reason) => {
                    let mut instead = refusal(reason, None, false);
                    record.fail(reason);
                    let bytes = finish(&mut instead, closes, &mut record);
                    let bytes = head_bytes(stream, &instead) + bytes;
                    send_ahead(gauge, record.routing().class(), bytes).await;
                    instead.map(text)
                }
            }
        }
        Outlet::Gauged(gauge) => {
            let bytes = head_bytes(stream, &response) + bytes;
            send_ahead(gauge, record.routing().class(), bytes).await;
            response.map(text)
        }
        Outlet::Marked(mark) => {
            mark.unmark();
            response.map(text)
        }
    };
    let marked = mark(stream, &record, &response).await;
    response.map(|inner| Body::new(stream, record, inner, marked))
}

/// Completes an answer's head for the client, and notes its status and size. Returns the
/// bytes of its body.
fn finish(response: &mut Response<Bytes>, closes: bool, record: &mut Record) -> u64 {
    if closes {
        // Said, so that no further request is on its way (RFC 9112 9.6).
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(CONNECTION, close);
    }
    record.finish_head(response);
    let bytes = response.body().len() as u64;
    record.sent.belief().at_own_answer(bytes);
    record.respond(response.status());
    bytes
}
