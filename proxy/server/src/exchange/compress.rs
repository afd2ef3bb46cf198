//! Responses that are compressed on their way. Small bodies are compressed as a whole
//! before the response begins, so that the uplink knows their size exactly; of larger ones
//! it learns the size as of any response whose length is not announced.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE,
    ETAG, HeaderMap, HeaderValue, VARY,
};
use http::{Response, StatusCode};
use http_body::Body as _;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use sprat_config::resolved::{Algorithm, Compressor};
use sprat_net::begun::Begun;
use sprat_net::coding::{Coded, Encoder};
use sprat_net::error::Reason;
use tokio::time::{Instant, timeout_at};

use super::check::content_length;
use super::upstream_request::Exchange;
use crate::exchange::record::Record;

/// The time for which the next piece of a small body is waited for, before the
/// response begins without its size being known.
const PAUSE_MAX: Duration = Duration::from_millis(10);

/// The time for which a small body is waited for in all. An endpoint that sends it piece by
/// piece never pauses for as long as that.
const COLLECTING_MAX: Duration = Duration::from_millis(50);

/// A body, as far as it was read before the response begins.
#[derive(Default)]
struct Collected {
    chunks: VecDeque<Bytes>,
    bytes: usize,
    trailers: Option<HeaderMap>,
    /// Whether all of the body is here.
    is_whole: bool,
}

impl Exchange<'_> {
    /// Returns how a response is to be compressed, if its route says so and its client takes it.
    /// Of the answer to a HEAD, which has no body, it is how that to a GET would be compressed.
    pub(super) fn coding(
        &self,
        response: &mut Response<Begun<Incoming>>,
    ) -> Option<(&Compressor, Algorithm)> {
        let rules = self.plan.route.compressor.as_deref()?;
        if !is_eligible(rules, response, self.plan.head_only) {
            return None;
        }
        // Caches must know, whatever this client gets.
        add_vary(response.headers_mut());
        Some((rules, self.plan.coding?))
    }

    /// Compresses a response.
    ///
    /// # Errors
    ///
    /// Fails if the endpoint breaks off before the response has begun.
    pub(super) async fn compress(
        &self,
        record: &mut Record,
        response: Response<Begun<Incoming>>,
        rules: &Compressor,
        algorithm: Algorithm,
    ) -> Result<Response<Coded<Begun<Incoming>>>, Reason> {
        let plan = &self.plan;
        let is_large = response.body().size_hint().lower() > rules.exact_up_to as u64;
        let (parts, mut body) = response.into_parts();
        let mut collected = Collected::default();
        if !is_large {
            plan.stream.wait();
            let read = collected.read(&mut body, rules.exact_up_to).await;
            read.map_err(|error| self.broke_off(record, &error))?;
        }
        let mut response = Response::from_parts(parts, ());
        let stats = &plan.connection.serving.stats;
        if collected.is_whole {
            let plain = collected.bytes;
            let data = collected.encoded(algorithm);
            if data.len() < plain {
                stats.compressed[algorithm.index()].increment();
                stats.compressor_bytes[0].add(plain as u64);
                stats.compressor_bytes[1].add(data.len() as u64);
                mark(response.headers_mut(), algorithm);
                let length = HeaderValue::from(data.len());
                response.headers_mut().insert(CONTENT_LENGTH, length);
            }
            let data = Some(data).filter(|data| !data.is_empty());
            return Ok(response.map(|()| Coded::Whole(data, collected.trailers)));
        }
        let place = plan.generation.compressing.take(rules.max_streams);
        let (Some(place), Some(encoder)) = (place, Encoder::new(algorithm)) else {
            return Ok(response.map(|()| Coded::held(body, collected.chunks)));
        };
        stats.compressed[algorithm.index()].increment();
        mark(response.headers_mut(), algorithm);
        let stats = Arc::clone(stats);
        let told = move |before: usize, after: usize| {
            stats.compressor_bytes[0].add(before as u64);
            stats.compressor_bytes[1].add(after as u64);
        };
        let chunks = collected.chunks;
        Ok(response.map(|()| Coded::encoding(body, chunks, encoder, place, told)))
    }
}

impl Collected {
    /// Reads a body to its end, unless it is longer than `max_bytes`, pauses, or takes too long.
    async fn read(
        &mut self,
        body: &mut Begun<Incoming>,
        max_bytes: usize,
    ) -> Result<(), hyper::Error> {
        let deadline = Instant::now() + COLLECTING_MAX;
        while self.bytes <= max_bytes {
            let until = deadline.min(Instant::now() + PAUSE_MAX);
            let Ok(frame) = timeout_at(until, body.frame()).await else {
                return Ok(());
            };
            let Some(frame) = frame.transpose()? else {
                self.is_whole = true;
                return Ok(());
            };
            match frame.into_data() {
                Ok(data) => {
                    self.bytes += data.len();
                    self.chunks.push_back(data);
                }
                Err(frame) => self.trailers = frame.into_trailers().ok(),
            }
        }
        Ok(())
    }

    /// Returns the whole body encoded, or as it came if encoding does not make it shorter.
    fn encoded(&mut self, algorithm: Algorithm) -> Bytes {
        let mut encoder = Encoder::new(algorithm);
        for chunk in &self.chunks {
            encoder.iter_mut().for_each(|own| own.write(chunk));
        }
        match encoder.map(Encoder::finish) {
            Some(encoded) if encoded.len() < self.bytes => encoded,
            _ => self.chunks.drain(..).collect::<Vec<_>>().concat().into(),
        }
    }
}

/// Returns whether a response may be compressed at all; for an answer to a HEAD, whether that to
/// a GET with the same head may.
fn is_eligible(
    rules: &Compressor,
    response: &Response<Begun<Incoming>>,
    is_answer_to_head: bool,
) -> bool {
    let headers = response.headers();
    let (status, body) = (response.status(), response.body());
    let is_whole = [StatusCode::OK, StatusCode::FORBIDDEN, StatusCode::NOT_FOUND];
    let (length, is_empty) = match is_answer_to_head {
        true => (content_length(headers), false),
        false => (body.size_hint().exact(), body.is_end_stream()),
    };
    let is_asis = [CONTENT_ENCODING, CONTENT_RANGE]
        .iter()
        .any(|name| headers.contains_key(name));
    is_whole.contains(&status)
        && !is_asis
        && !is_empty
        && length.is_none_or(|length| length >= rules.min_content_length)
        && !has_directive(headers, "no-transform")
        && is_of_type(rules, headers)
}

/// Returns whether `Cache-Control` has the directive of this name.
fn has_directive(headers: &HeaderMap, name: &str) -> bool {
    let fields = headers.get_all(CACHE_CONTROL).iter();
    let mut texts = fields.filter_map(|field| field.to_str().ok());
    texts.any(|text| {
        text.split(',')
            .any(|own| own.trim().eq_ignore_ascii_case(name))
    })
}

/// Returns whether a body is of a type that is compressed. Streams of events and gRPC's
/// messages are not: their readers wait for each of them.
fn is_of_type(rules: &Compressor, headers: &HeaderMap) -> bool {
    let text = headers.get(CONTENT_TYPE).and_then(|own| own.to_str().ok());
    let kind = text
        .and_then(|text| text.split(';').next())
        .unwrap_or_default();
    let kind = kind.trim().to_ascii_lowercase();
    kind != "text/event-stream"
        && !kind.starts_with("application/grpc")
        && rules.content_types.iter().any(|own| own.matches(&kind))
}

/// Adds `Vary: Accept-Encoding`, since a response depends on the codings that its client takes.
fn add_vary(headers: &mut HeaderMap) {
    let names = |text: &str| {
        let mut names = text.split(',').map(str::trim);
        names.any(|name| name == "*" || name.eq_ignore_ascii_case("accept-encoding"))
    };
    let fields = headers.get_all(VARY).iter();
    if !fields.filter_map(|own| own.to_str().ok()).any(names) {
        headers.append(VARY, HeaderValue::from_static("Accept-Encoding"));
    }
}

/// Makes a head that of the encoded body: without a length and ranges, and with a weak
/// `ETag`. The body is the same as the plain one in meaning alone (RFC 9110 8.8.1).
fn mark(headers: &mut HeaderMap, algorithm: Algorithm) {
    headers.insert(CONTENT_ENCODING, HeaderValue::from_static(algorithm.name()));
    headers.remove(CONTENT_LENGTH);
    headers.remove(ACCEPT_RANGES);
    let strong = headers
        .get(ETAG)
        .filter(|own| own.as_bytes().starts_with(b"\""));
    let weak =
        strong.and_then(|own| HeaderValue::from_bytes(&[b"W/", own.as_bytes()].concat()).ok());
    if let Some(weak) = weak {
        headers.insert(ETAG, weak);
    }
}
