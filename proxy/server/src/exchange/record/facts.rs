//! The facts that logs and traces tell of a request, beside how it was served.

use std::rc::Rc;

use http::{HeaderMap, HeaderValue};
use sprat_upstream::SessionOutcome;

use crate::exchange::trace::Trace;
use crate::observe::access_log::{Kept, LoggedRequest};
use crate::setup::request_ids::RequestIds;

/// The facts that are told of a request when it is over.
#[derive(Default)]
pub(crate) struct RequestFacts {
    pub(super) request: Option<Box<LoggedRequest>>,
    /// The request's identifier, if requests get one.
    pub(super) request_id: Option<HeaderValue>,
    /// The request's part in a trace, if requests have one.
    pub(super) trace: Option<Rc<Trace>>,
    /// Fields of the response's head that access logs tell of.
    pub(super) response: Kept,
    /// The beginning of the request line, where there is no request.
    pub(super) unread_line: Option<Box<[u8]>>,
    /// The outcome of the request's session, where its cluster keeps any.
    pub(super) session: Option<SessionOutcome>,
}

impl RequestFacts {
    pub(super) fn new(request: Option<Box<LoggedRequest>>) -> Self {
        Self {
            request,
            ..Self::default()
        }
    }

    /// Returns the request's part in a trace, if requests have one.
    pub(crate) fn trace(&self) -> Option<&Rc<Trace>> {
        self.trace.as_ref()
    }

    /// Keeps the outcome of the request's session.
    pub(super) fn keep_session(&mut self, outcome: SessionOutcome) {
        self.session = Some(outcome);
    }

    /// Puts the request's identifier, and its trace, into the head that the endpoint gets.
    pub(crate) fn tell_endpoint(&self, ids: Option<&RequestIds>, headers: &mut HeaderMap) {
        if let Some(trace) = &self.trace {
            trace.tell(headers);
        }
        if let (Some(ids), Some(id)) = (ids, &self.request_id) {
            ids.keep(headers, id);
        }
    }
}
