//! How far a server has got on its way to its end.

/// The stage of a server between its start and its end.
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
