//! What a connection asks of those above it, and tells them: it knows no request's way
//! through, nor its record.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body::Body;
use hyper::body::Incoming;
use sprat_net::error::Reason;
use sprat_net::screen::Malformed;

use super::{Connection, Io, Stream};

/// An error as hyper takes it of a body.
type Broken = Box<dyn std::error::Error + Send + Sync>;

/// Answers the requests of connections. Not an object: a request costs no look into a
/// table on its way up.
pub(crate) trait Service: 'static {
    /// The body of a response.
    type Body: Body<Data = Bytes, Error: Into<Broken>> + Unpin + 'static;

    /// Answers a request, with the head of the response.
    fn answer(
        stream: Stream,
        request: Request<Incoming>,
    ) -> impl Future<Output = Response<Self::Body>>;

    /// Opens the account of a request whose head could not be read.
    fn unreadable(stream: &Stream) -> Box<dyn Account>;

    /// Counts and logs a request of HTTP/2 that was malformed.
    fn malformed(stream: &Stream, request: Malformed);
}

/// The account of a request, which its connection keeps while the socket does not have
/// all of the response. Dropped before [`Account::complete`], the response was cut.
pub(crate) trait Account {
    /// Notes that the head of a response is on its way to the client.
    fn respond(&mut self, status: StatusCode);

    /// Notes the first thing that went wrong.
    fn fail(&mut self, reason: Reason);

    /// Notes that the request is not among those in progress any more, though its response may be.
    fn leave(&mut self);

    /// Notes that the last byte has gone out.
    fn complete(self: Box<Self>);
}

/// A protocol that a connection speaks when HTTP has ended on it.
pub(crate) trait Switched {
    /// Runs to its end; `early` has been read from the client already.
    fn run(
        self: Box<Self>,
        connection: Rc<Connection>,
        client: Io,
        early: Bytes,
    ) -> Pin<Box<dyn Future<Output = ()>>>;
}
