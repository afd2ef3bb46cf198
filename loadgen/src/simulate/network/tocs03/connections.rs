//! The use of connections by TOCS03's users.

use super::super::plan::PlannedRequest;

/// The requests that share a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectionUse {
    /// A connection serves one request.
    Once,
    /// A connection serves all requests of one user.
    ByUser,
    /// A connection serves any requests of a client, one after the other.
    ByClient,
}

impl ConnectionUse {
    /// Returns whether a request finds a connection that has been set up.
    pub(super) fn is_kept_for(self, request: &PlannedRequest) -> bool {
        match self {
            Self::Once => false,
            Self::ByUser => request.after.is_some(),
            Self::ByClient => true,
        }
    }
}
