//! A request, its destination and its response's lesson, as the catalogue sees them.

use http::HeaderMap;
use http::header::CONTENT_TYPE;
use http::uri::PathAndQuery;
use sprat_scheduler::catalogue::{Groups, Resource};

/// A request as the catalogue sees it.
#[derive(Clone, Debug)]
pub struct Asked {
    pub(super) resource: Resource,
    /// The index of the cluster in the configuration.
    pub(super) cluster: usize,
    /// The index of the route in the configuration.
    pub(super) route: usize,
    /// The kind that estimates of this request's size go by: the number of the route's identity.
    pub(super) kind: usize,
    pub(super) groups: Groups,
    /// The resource's names, for layers that do not go by hashes; none if there is no such layer.
    pub(super) names: Option<Names>,
}

/// The names of a resource: its host, and its target before and after rewriting.
#[derive(Clone, Debug)]
pub(super) struct Names {
    /// The host that the client asks for, without port.
    pub(super) host: Box<str>,
    /// The target that the client asks for.
    pub(super) target: PathAndQuery,
    /// The target that the endpoint is asked for.
    pub(super) upstream: PathAndQuery,
}

/// The cluster, the route and the names that a request goes to.
pub struct Destination<'a> {
    /// The index of the cluster in the configuration.
    pub cluster: usize,
    /// The index of the route in the configuration.
    pub route: usize,
    /// The host that the client asks for, without port.
    pub host: &'a str,
    /// The target that the client asks for.
    pub target: &'a PathAndQuery,
    /// The target that the endpoint is asked for, if it is another.
    pub upstream: Option<&'a PathAndQuery>,
}

/// The part of a response's head that the catalogue needs to learn the response's size.
#[derive(Clone, Debug)]
pub struct Lesson {
    pub(super) asked: Asked,
    /// The configured fields that the response's `Vary` names: bit `n` for the `n`-th.
    pub(super) fields: u8,
}

impl Asked {
    /// Returns the same request, with the content type that the response's fields tell, if any.
    pub(super) fn with_content_type(&self, fields: &HeaderMap) -> Self {
        let content_type = fields.get(CONTENT_TYPE).and_then(|v| v.to_str().ok());
        let groups = content_type.map(|text| self.groups.with_content_type(self.kind, text));
        Self {
            groups: groups.unwrap_or(self.groups),
            ..self.clone()
        }
    }
}
