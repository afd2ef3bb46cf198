//! The terms that a request is served by, as its head and its user decide them.

use sprat_config::classify::Later;

use crate::setup::routing::{Granted, Subject};

/// A request's class, client, user and route.
pub(crate) struct Routing {
    /// Index of its priority class.
    pub(crate) class: usize,
    /// The number of its client, where clients share the uplink.
    pub(crate) client: Option<u64>,
    /// The user who asks, once that is known.
    pub(crate) user: Option<Box<str>>,
    /// The rules that may change the class when the response comes.
    pub(crate) later: Option<Later>,
    /// Index of the route, once there is one.
    pub(crate) route: Option<usize>,
    /// The facts of the request that changes of heads may tell, if its route makes any.
    pub(crate) subject: Option<Box<Subject>>,
    /// The page of another origin that may use the response, if its route says so.
    pub(crate) granted: Option<Box<Granted>>,
    /// Index of the cluster, once routed.
    pub(crate) cluster: Option<usize>,
}

impl Routing {
    /// Returns the terms of a request of which only the default class is known.
    pub(super) fn new(class: usize) -> Self {
        Self {
            class,
            client: None,
            user: None,
            later: None,
            route: None,
            subject: None,
            granted: None,
            cluster: None,
        }
    }
}
