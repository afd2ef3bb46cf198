//! Requests that belong to an endpoint, whatever dispatch would choose.

use super::endpoints::{Endpoints, Tried};

/// The endpoint that a request belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Session {
    /// The identity of the endpoint, see
    /// [`EndpointSpec`](crate::dispatch::EndpointSpec).
    pub identity: u64,
    /// Whether the request is refused where its endpoint is gone or out of use. Otherwise it goes
    /// where dispatch sends it.
    pub strict: bool,
}

/// The endpoints that a request may go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Belongs {
    /// The request goes to any endpoint that dispatch chooses.
    Anywhere,
    /// The request goes to the endpoint in this slot alone.
    At(usize),
    /// The request goes to no endpoint: that of the session is not to be had, and no other will do.
    Nowhere,
}

impl Session {
    /// Returns where a request of the session may go at present, after it has `tried` some
    /// endpoints. An endpoint that drains keeps its strict sessions; other requests go elsewhere.
    pub(super) fn belongs(self, endpoints: &Endpoints, tried: &Tried) -> Belongs {
        let may_stay = |&at: &usize| self.strict || !endpoints.is_draining(at);
        let at = endpoints.well(self.identity).filter(may_stay);
        match at.filter(|&at| !tried.has(at)) {
            Some(at) => Belongs::At(at),
            None if self.strict => Belongs::Nowhere,
            None => Belongs::Anywhere,
        }
    }
}
