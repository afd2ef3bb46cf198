//! How far a server has got on its way to its end.

/// What a server is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// The start leads here: requests are served.
    Serving,
    /// -> asked to stop: no new connections, open requests go on.
    Draining,
    /// -> another process has taken over: the same, and the admin listener is
    /// the other's.
    Replaced,
    /// -> asked again, or the bound passed: everything ends now.
    Cut,
}
