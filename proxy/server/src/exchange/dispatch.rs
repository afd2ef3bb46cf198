//! A request to an upstream, from dispatch to the head of the answer.

use std::time::Duration;

use http::header::{CONNECTION, CONTENT_LENGTH};
use http::{HeaderMap, HeaderValue, Response, StatusCode, Version};
use hyper::body::{Body as _, Incoming};
use sprat_net::begun::Begun;
use sprat_net::coding::Coded;
use sprat_net::error::{Denial, Reason};
use sprat_net::headers;
use sprat_scheduler::retries::Step;
use sprat_uplink::Course as _;

use super::absence::EndpointPatience;
use super::outcome::{Answer, Due, Next};
use super::upstream_request::Exchange;
use crate::exchange::record::Record;

/// The longest time for which a head waits for the first bytes of a body whose length it
/// tells. Most bodies' first bytes have come with the head.
const BODY_WAIT: Duration = Duration::from_millis(2);

impl Exchange<'_> {
    /// Sends the request, again where that is safe, and waits for the head of
    /// the answer.
    pub(super) async fn fetch(&self, record: &mut Record) -> Result<Response<Incoming>, Denial> {
        let mut request = self.request.take().ok_or(Reason::ProtocolError)?;
        if let Some(is_kept) = &self.is_kept {
            // Boxed: other requests do not carry its room.
            Box::pin(self.keep_body(record, &mut request)).await?;
            is_kept.set(false);
        }
        let arrival = self.plan.arrival(record, &request).await;
        let mut patience = EndpointPatience::default();
        let placed = self.place(record, &arrival, &mut patience, request.headers());
        let mut lease = placed.await?;
        let due = Due {
            started: record.started(),
            deadline: self.plan.deadline(record),
            own_timers: false,
            sent: None,
        };
        let mut held = None;
        loop {
            record.upstream.ask(lease.endpoint());
            let outcome = match self.plan.route.retry.hedge_delay {
                // Not by way of the other, whose room would have its own beside it.
                None if !self.is_traced() => self.send(lease, request, due).await,
                None => Box::pin(self.attempt(lease, request, due)).await,
                Some(delay) => Box::pin(self.hedged(lease, request, due, delay)).await,
            };
            let failed = match outcome {
                Ok(answer) => {
                    patience.served();
                    return Ok(self.accept(record, answer)?);
                }
                Err(failed) => failed,
            };
            record.upstream.ask(failed.lease.endpoint());
            let next = if failed.step == Step::Wait {
                Box::pin(self.wait_out(record, *failed, &arrival, &mut patience)).await?
            } else {
                let next = Box::pin(self.repeat(record, *failed, &mut held)).await?;
                self.note(|history| {
                    history.repeats += 1;
                    history.holds_response = held.is_some();
                });
                next
            };
            match next {
                Next::Attempt(next, again) => (lease, request) = (next, again),
                Next::Answer(answer) => return Ok(self.accept(record, answer)?),
            }
        }
    }

    /// Waits a moment for what follows the head of a response of HTTP/2. If the endpoint
    /// breaks the rules with that, there is still a head to say so with.
    pub(super) async fn begin(
        &self,
        body: &mut Begun<Incoming>,
        record: &mut Record,
    ) -> Result<(), Reason> {
        let plan = &self.plan;
        let has_length = body.size_hint().exact().is_some() && !body.is_end_stream();
        if !has_length || plan.head_only || !plan.upstream.is_http2() {
            return Ok(());
        }
        plan.stream.wait();
        let begun = body.begin(BODY_WAIT).await;
        begun.map_err(|error| self.broke_off(record, &error))
    }

    /// Announces in the response's head that the client's connection ends with it, if it
    /// does, so that no further request is on its way (RFC 9112 9.6). The connection ends
    /// if some of the request's body is still to come, which no endpoint will want, or if
    /// its end is the answer's.
    pub(super) fn announce_close(&self, response: &mut Response<Coded<Begun<Incoming>>>) {
        let upload = self.upload.as_ref();
        let is_early = upload.is_some_and(|upload| !upload.has_come());
        let body = response.body();
        let is_open_ended = self.plan.is_old
            && !self.plan.head_only
            && !body.is_end_stream()
            && body.size_hint().exact().is_none();
        if is_open_ended {
            // What hyper takes for its own word; of 1.1 it adds a `keep-alive`.
            *response.version_mut() = Version::HTTP_10;
        }
        if is_open_ended || (is_early && !self.plan.stream.is_http2()) {
            let close = HeaderValue::from_static("close");
            response.headers_mut().insert(CONNECTION, close);
        }
    }

    /// Accepts an attempt's answer, unless its head breaks the rules: then it is no success of
    /// the endpoint's.
    fn accept(&self, record: &mut Record, answer: Answer) -> Result<Response<Incoming>, Reason> {
        let Answer {
            response,
            mut lease,
            heard,
        } = answer;
        let stats = self.plan.upstream.counters();
        stats.heads.took(heard - record.started());
        self.upload.iter().for_each(|upload| upload.forget());
        let passed = self.pass_head(response);
        if passed.is_err() {
            lease.ends_badly();
        }
        record.upstream.begin(lease);
        passed
    }

    /// Makes the endpoint's header fields those of the response, unless it switches protocols.
    fn pass_head(&self, mut response: Response<Incoming>) -> Result<Response<Incoming>, Reason> {
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            let offer = self.plan.offer.as_ref();
            let asked = offer.is_some_and(|offer| offer.has(response.headers()));
            return asked.then_some(response).ok_or(Reason::ProtocolError);
        }
        let hop = headers::strip_hop_by_hop(response.headers_mut());
        if hop.unknown_coding {
            return Err(Reason::ProtocolError);
        }
        if response.status() == StatusCode::NO_CONTENT {
            // It has none (RFC 9110 8.6), and HTTP/2 clients would miss its bytes.
            response.headers_mut().remove(CONTENT_LENGTH);
        }
        frame(response.headers_mut(), hop.chunked)?;
        // A proxy's messages have its own version (RFC 9112 2.3).
        *response.version_mut() = Version::HTTP_11;
        Ok(response)
    }
}

/// Refuses a head that does not say clearly where its body ends, and makes its length a
/// single number (RFC 9112 6.3).
fn frame(headers: &mut HeaderMap, is_chunked: bool) -> Result<(), Reason> {
    let mut lengths = headers.get_all(CONTENT_LENGTH).iter();
    let Some(first) = lengths.next() else {
        return Ok(());
    };
    if is_chunked {
        return Err(Reason::ProtocolError);
    }
    let is_single = lengths.next().is_none();
    if is_single && first.as_bytes().iter().all(u8::is_ascii_digit) {
        return Ok(());
    }
    let all = headers.get_all(CONTENT_LENGTH).iter();
    let mut all = all.flat_map(headers::tokens).map(str::parse::<u64>);
    let length = all.next().and_then(Result::ok);
    let length = length.filter(|own| all.all(|other| other.as_ref() == Ok(own)));
    drop(all);
    let length = length.ok_or(Reason::ProtocolError)?;
    headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    Ok(())
}
