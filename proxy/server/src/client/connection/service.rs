//! The service above connections, which answers their requests and records them. A
//! connection knows no request's way through, nor its record.

use std::convert::Infallible;
use std::future::Future;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use hyper::body::Incoming;
use sprat_net::screen::Malformed;

use super::account::Account;
use super::stream::Stream;

/// A body's error, in the form that hyper takes.
type BoxedError = Box<dyn std::error::Error + Send + Sync>;

/// The service that answers the requests of connections. It is not an object: a request
/// costs no look into a table on its way up.
pub(crate) trait Service: 'static {
    /// The body of a response.
    type Body: Body<Data = Bytes, Error: Into<BoxedError>> + Unpin + 'static;

    /// Answers a request, with the head of the response. It never fails; its output is what hyper
    /// takes, or it would be copied on the way.
    fn answer(
        stream: Stream,
        request: Request<Incoming>,
    ) -> impl Future<Output = Result<Response<Self::Body>, Infallible>>;

    /// Opens the account of a request whose head could not be read.
    fn unreadable(stream: &Stream) -> Box<dyn Account>;

    /// Counts and logs a request of HTTP/2 that was malformed.
    fn malformed(stream: &Stream, request: Malformed);
}
