//! What a request asks for, and what its response teaches.

use http::HeaderMap;
use http::header::CONTENT_TYPE;
use http::uri::PathAndQuery;
use sprat_scheduler::catalogue::{Groups, Resource};

/// A request as the catalogue sees it.
#[derive(Clone, Debug)]
pub struct Asked {
    pub(super) resource: Resource,
    /// Index of the cluster, and of the route.
    pub(super) cluster: usize,
    pub(super) route: usize,
    /// The kind that its estimates go by: the number of the route's identity.
    pub(super) kind: usize,
    pub(super) groups: Groups,
    /// The resource's names, for the layers that go by names; none if there is no such layer.
    pub(super) names: Option<Names>,
}

/// The names of a resource.
#[derive(Clone, Debug)]
pub(super) struct Names {
    /// The host asked for, without port.
    pub(super) host: Box<str>,
    /// The target that the client asks for.
    pub(super) target: PathAndQuery,
    /// The target that the endpoint is asked for.
    pub(super) upstream: PathAndQuery,
}

/// The destination of a request.
pub struct Destination<'a> {
    /// Index of the cluster.
    pub cluster: usize,
    /// Index of the route.
    pub route: usize,
    /// The host asked for, without port.
    pub host: &'a str,
    /// The target that the client asks for.
    pub target: &'a PathAndQuery,
    /// The target that the endpoint is asked for, if it is another.
    pub upstream: Option<&'a PathAndQuery>,
}

/// The part of a response that the catalogue learns from, once its size is known.
#[derive(Clone, Debug)]
pub struct Lesson {
    pub(super) asked: Asked,
    /// The fields that its `Vary` names.
    pub(super) fields: u8,
}

impl Asked {
    /// Returns the same request, once the response tells its content type.
    pub(super) fn with_content_type(&self, fields: &HeaderMap) -> Self {
        let content_type = fields.get(CONTENT_TYPE).and_then(|v| v.to_str().ok());
        let groups = content_type.map(|text| self.groups.with_content_type(self.kind, text));
        Self {
            groups: groups.unwrap_or(self.groups),
            ..self.clone()
        }
    }
}
