//! The terms that a request is served by, as its head and its user decide them.

use sprat_config::classify::Later;

use crate::setup::routing::{Granted, Subject};

/// A request's class, client, user and route.
pub(crate) struct Routing {
    /// The index of the request's class.
    class: usize,
    /// The number of the request's client, where clients share the uplink.
    client: Option<u64>,
    /// The user who asks, once that is known.
    user: Option<Box<str>>,
    /// The rules that may change the class when the response comes.
    later: Option<Later>,
    /// The index of the route, once there is one.
    route: Option<usize>,
    /// The facts of the request that changes of heads may tell, if its route makes any.
    subject: Option<Box<Subject>>,
    /// The page of another origin that may use the response, if its route says so.
    granted: Option<Box<Granted>>,
    /// The index of the cluster, once routed.
    cluster: Option<usize>,
    /// The path that rules were matched with, if the client has sent another.
    matched: Option<String>,
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
            matched: None,
        }
    }

    /// Gives the request its class; `later` rules may change it when the response comes.
    pub(crate) fn classify(&mut self, class: usize, later: Option<Later>) {
        self.class = class;
        self.later = later;
    }

    /// Changes the class by the rules that were left for the response, if there are any.
    pub(crate) fn reclassify(&mut self, change: impl FnOnce(usize, &Later) -> usize) {
        if let Some(later) = self.later.take() {
            self.class = change(self.class, &later);
        }
    }

    /// Notes the number of the request's client, where clients share the uplink.
    pub(crate) fn is_of_client(&mut self, number: Option<u64>) {
        self.client = number;
    }

    /// Notes the user who asks.
    pub(crate) fn is_of_user(&mut self, user: Box<str>) {
        self.user = Some(user);
    }

    /// Notes the route that takes the request.
    pub(crate) fn takes_route(&mut self, index: usize) {
        self.route = Some(index);
    }

    /// Keeps the facts that changes of heads may tell.
    pub(crate) fn tells(&mut self, subject: Box<Subject>) {
        self.subject = Some(subject);
    }

    /// Notes which page of another origin may use the response.
    pub(crate) fn grant(&mut self, granted: Box<Granted>) {
        self.granted = Some(granted);
    }

    /// Notes the cluster that the request goes to.
    pub(crate) fn goes_to(&mut self, cluster: usize) {
        self.cluster = Some(cluster);
    }

    /// Notes that rules were matched with another path than the client sent.
    pub(crate) fn matches(&mut self, path: String) {
        self.matched = Some(path);
    }

    /// Returns the index of the request's class.
    pub(crate) fn class(&self) -> usize {
        self.class
    }

    /// Returns the number of the client, where clients share the uplink.
    pub(crate) fn client(&self) -> Option<u64> {
        self.client
    }

    /// Returns the user who asks, once that is known.
    pub(crate) fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// Returns the index of the route, once there is one.
    pub(crate) fn route(&self) -> Option<usize> {
        self.route
    }

    /// Returns the index of the cluster, once routed.
    pub(crate) fn cluster(&self) -> Option<usize> {
        self.cluster
    }

    /// Returns the facts that changes of heads may tell, if the route makes any.
    pub(crate) fn subject(&self) -> Option<&Subject> {
        self.subject.as_deref()
    }

    /// Returns the page of another origin that may use the response.
    pub(crate) fn granted(&self) -> Option<&Granted> {
        self.granted.as_deref()
    }

    /// Takes the user out, once no more decisions are due.
    pub(super) fn take_user(&mut self) -> Option<Box<str>> {
        self.user.take()
    }

    /// Takes out the path that rules were matched with, if the client has sent another.
    pub(super) fn take_matched(&mut self) -> Option<String> {
        self.matched.take()
    }
}
