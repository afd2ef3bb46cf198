//! What a connection tells of a request that it has answered.

use http::StatusCode;
use sprat_net::error::Reason;

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
