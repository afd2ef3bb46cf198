//! The service that connections hand their requests to.

use std::convert::Infallible;
use std::future::Future;

use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use sprat_net::error::Reason;
use sprat_net::screen::Malformed;

use super::answer::Body;
use super::handle;
use super::record::Record;
use crate::client::connection::{Account, Service, Stream};

/// The service that answers requests: routed, dispatched, sent upstream, answered.
pub(crate) struct Exchanges;

impl Service for Exchanges {
    type Body = Body;

    fn answer(
        stream: Stream,
        request: Request<Incoming>,
    ) -> impl Future<Output = Result<Response<Body>, Infallible>> {
        handle(stream, request)
    }

    fn unreadable(stream: &Stream) -> Box<dyn Account> {
        Record::unreadable(stream)
    }

    fn malformed(stream: &Stream, request: Malformed) {
        Record::malformed(stream, request).fail(Reason::MalformedHttp2);
    }
}

impl Account for Record {
    fn respond(&mut self, status: StatusCode) {
        Record::respond(self, status);
    }

    fn fail(&mut self, reason: Reason) {
        Record::fail(self, reason);
    }

    fn leave(&mut self) {
        self.leave_place();
    }

    fn complete(self: Box<Self>) {
        Record::complete(self);
    }
}
