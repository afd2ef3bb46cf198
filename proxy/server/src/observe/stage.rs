//! The stages of a server on its way to its end.

/// The stage of a server between its start and its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// The server serves requests; its start leads here.
    Serving,
    /// The server was asked to stop: it takes no new connections, and open requests go on.
    Draining,
    /// Another process has taken over: as while draining, and the admin listener is the other's.
    Replaced,
    /// The server was asked to stop again, or the bound on draining has passed: everything
    /// ends now.
    Cut,
}
