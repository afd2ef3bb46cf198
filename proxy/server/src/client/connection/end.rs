//! Why a connection ends.

use sprat_net::error::Reason;

/// The reason why a connection's loop ended.
pub(super) enum End {
    /// hyper is done with it.
    Closed,
    /// hyper gave it up.
    Failed(hyper::Error),
    /// A kept connection was not used again.
    Idle,
    /// A kept connection is not used for now.
    Parked,
    /// The head did not arrive.
    HeadTimeout,
    /// The connection must end in the middle.
    Cut(Reason),
    /// The client turned out to speak HTTP/2.
    Http2,
}
