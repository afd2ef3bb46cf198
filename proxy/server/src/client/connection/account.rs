//! The account that a connection keeps of a request which has been answered.

use http::StatusCode;
use sprat_net::error::Reason;

/// The account of a request, which its connection keeps until the socket has all of the
/// response. An account dropped before [`Account::complete`] says that the response was cut.
pub(crate) trait Account {
    /// Notes that the head of a response is on its way to the client.
    fn respond(&mut self, status: StatusCode);

    /// Notes why the request failed; the first reason counts.
    fn fail(&mut self, reason: Reason);

    /// Takes the request out of those in progress, though its response may still be on its way.
    fn leave(&mut self);

    /// Notes that the response's last byte has gone out.
    fn complete(self: Box<Self>);
}
