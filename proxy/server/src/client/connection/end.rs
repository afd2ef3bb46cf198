//! The reasons for which a connection ends.

use sprat_net::error::Reason;

/// The reason why a connection's loop ended.
pub(super) enum End {
    /// hyper has served the connection to its end.
    Closed,
    /// hyper gave the connection up with this error.
    Failed(hyper::Error),
    /// The client did not use a kept connection again in time.
    Idle,
    /// The client does not use a kept connection for now.
    Parked,
    /// The client did not send a request's head in time.
    HeadTimeout,
    /// The connection must end in the middle, for this reason.
    Cut(Reason),
    /// The client turned out to speak HTTP/2.
    Http2,
}
