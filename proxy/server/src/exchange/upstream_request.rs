//! A request to an upstream, until its answer comes.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use http::header::{EXPECT, TRANSFER_ENCODING};
use http::request::Parts;
use http::{HeaderValue, Request};
use hyper::body::{Body as _, Incoming};
use sprat_net::upload::{GateOpener, LeastRate, RequestBody, Upload};
use sprat_scheduler::retries::History;
use sprat_uplink::Course as _;

use super::chosen::max_request_body;
use super::interim::{self, Interims};
use super::plan::Plan;
use super::{buffering, mirror};

/// A request to an upstream, until its answer comes.
pub(super) struct Exchange<'a> {
    pub(super) plan: Plan<'a>,
    pub(super) request: Cell<Option<Box<Request<RequestBody>>>>,
    pub(super) upload: Option<Rc<Upload>>,
    /// Whether the request's body is still being taken from the client, where that comes before
    /// a place at an endpoint.
    pub(super) is_kept: Option<Rc<Cell<bool>>>,
    /// The interim responses to the request, where the client gets them.
    pub(super) interims: Option<Interims>,
    /// The opener to be used when the endpoint asks for the request's body.
    pub(super) opener: Option<GateOpener>,
    /// The history of the attempts that were made for the request so far.
    pub(super) history: Cell<History>,
}

impl<'a> Exchange<'a> {
    /// Makes the request that goes upstream, and what is needed on its way.
    pub(super) fn of(plan: Plan<'a>, parts: Parts, body: Incoming) -> Self {
        // Boxed: it is handed on many times.
        let mut request = Box::new(Request::from_parts(parts, RequestBody::Empty));
        let (mut upload, mut opener) = (None, None);
        let is_kept = !body.is_end_stream()
            && buffering::keeps_request(plan.route, plan.offer.is_some(), request.headers());
        let is_kept = is_kept.then(|| Rc::new(Cell::new(true)));
        if !body.is_end_stream() {
            let config = &plan.connection.listener.config;
            let rules = config.limits.min_rates.of_request_body();
            let rule = rules.map(|rules| LeastRate {
                rules,
                is_pressed: {
                    let listener = Arc::clone(&plan.connection.listener);
                    let upstream = Rc::clone(plan.upstream);
                    let is_kept = is_kept.clone();
                    Box::new(move || {
                        // It holds no place at an endpoint yet.
                        let has_none = is_kept.as_ref().is_some_and(|own| own.get());
                        listener.is_short_of_places()
                            || (!has_none && upstream.is_short_of_places())
                    })
                },
            });
            let mut expects = request.headers().contains_key(EXPECT);
            let max_bytes = max_request_body(plan.connection, plan.route);
            let (body, progress) = RequestBody::streaming(
                body,
                expects,
                max_bytes,
                rule,
                config.headers_with_underscores,
            );
            *request.body_mut() = body;
            upload = Some(progress);
            if is_kept.is_some() {
                // It has been asked for by then.
                request.headers_mut().remove(EXPECT);
                expects = false;
            }
            if expects {
                opener = request.body_mut().hold();
            }
        } else {
            request.headers_mut().remove(EXPECT);
        }
        if plan.chunked && upload.is_some() {
            let chunked = HeaderValue::from_static("chunked");
            request.headers_mut().insert(TRANSFER_ENCODING, chunked);
        }
        if !plan.forward.mirrors.is_empty() && plan.offer.is_none() {
            mirror::copy(&plan, plan.forward, &request, upload.as_ref());
        }
        // HTTP/1.0 has none.
        let bytes_max = plan.upstream.max_response_headers();
        let interims = (!plan.is_old).then(|| Interims::new(bytes_max));
        // Over HTTP/1.1 the library asks for a body that is waited for.
        if let (true, Some(upload), Some(interims)) = (plan.stream.is_http2(), &upload, &interims) {
            upload.ask_with(interims.asking());
        }
        Self {
            is_kept,
            interims,
            opener,
            plan,
            request: Cell::new(Some(request)),
            upload,
            history: Cell::default(),
        }
    }

    /// Returns whether a trace tells of the request.
    pub(super) fn is_traced(&self) -> bool {
        let trace = self.plan.trace.as_ref();
        trace.is_some_and(|trace| trace.is_recorded())
    }

    /// Listens for interim responses to the request, which is about to be sent.
    pub(super) fn listen(&self, request: &mut Request<RequestBody>) {
        let (interims, opener) = (self.interims.as_ref(), self.opener.as_ref());
        interim::listen(interims, opener, &self.plan, request);
    }

    /// Changes the history of the request's attempts so far.
    pub(super) fn note(&self, change: impl FnOnce(&mut History)) {
        let mut history = self.history.get();
        change(&mut history);
        self.history.set(history);
    }
}
