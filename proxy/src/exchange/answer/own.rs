//! Answers that the proxy gives by itself.

use bytes::Bytes;
use http::header::{ALLOW, CONNECTION, CONTENT_LENGTH};
use http::{HeaderValue, Response};
use sprat_net::error::{ALLOWED_METHODS, Reason};
use sprat_scheduler::Size;
use sprat_uplink::{Course as _, Outlet, head_bytes, send_ahead};

use super::{Body, Inner, begin};
use crate::client::connection::Stream;
use crate::exchange::record::Record;

/// Says why a request is not served.
pub(crate) async fn refuse(
    stream: &Stream,
    reason: Reason,
    accepts_json: bool,
    mut record: Box<Record>,
) -> Response<Body> {
    let ends = reason.ends_connection() || !record.has_all(stream).await;
    let mut response = reason.response(accepts_json);
    if let Some(advice) = record.advice.take() {
        advice.add(&mut response);
    }
    record.fail(reason);
    answer(stream, response, ends, record).await
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

/// Sends an answer; with `ends` the connection ends with it.
async fn answer(
    stream: &Stream,
    mut response: Response<Bytes>,
    ends: bool,
    mut record: Box<Record>,
) -> Response<Body> {
    stream.begin_response(None);
    if ends && !stream.is_http2() {
        // Said, so that no further request is on its way (RFC 9112 9.6).
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(CONNECTION, close);
        stream.close_lingering();
    }
    let bytes = response.body().len() as u64;
    record.known = Size::Exact(bytes);
    record.respond(response.status());
    match stream.connection.outlet() {
        Outlet::Plain => {}
        Outlet::Gauged(gauge) => {
            let bytes = head_bytes(stream, &response) + bytes;
            send_ahead(gauge, record.class, bytes).await;
        }
        Outlet::Marked(mark) => mark.unmark(),
    }
    let response = response.map(|text| Inner::Local(Some(text)));
    begin(stream, record, response).await
}
