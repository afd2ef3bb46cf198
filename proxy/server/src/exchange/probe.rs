//! The HEAD requests by which the catalogue asks an endpoint for the size of a response.

use std::rc::Rc;

use http::Request;
use sprat_net::upload::RequestBody;
use sprat_sizes::{Probe, Probing};
use sprat_upstream::Upstream;

/// A cluster that the catalogue asks for the head of a response.
pub(super) struct Heads<'a>(pub(super) &'a Rc<Upstream>);

impl Probe for Heads<'_> {
    fn head(&self, resource: u64, request: Request<RequestBody>) -> Probing {
        let upstream = Rc::clone(self.0);
        Box::pin(async move { upstream.head(resource, request).await })
    }
}
