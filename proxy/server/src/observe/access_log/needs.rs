//! The parts of requests that formats of the operator's choosing need, beyond those of
//! every line. What no format tells is not kept.

use std::collections::BTreeSet;

use http::{HeaderMap, HeaderName, HeaderValue};
use sprat_config::resolved::{AccessLog, LogField, Variable};

/// Header fields of one message that lines may tell of.
pub(crate) type Kept = Box<[(HeaderName, HeaderValue)]>;

/// The parts of each request and its response that are kept for lines.
#[derive(Debug, Default)]
pub(crate) struct Needs {
    request: Vec<HeaderName>,
    response: Vec<HeaderName>,
    /// Whether lines tell of the client's certificate.
    pub(crate) certificate: bool,
    /// Whether lines tell whether the request came over TLS.
    pub(crate) scheme: bool,
}

impl Needs {
    /// Returns the parts that the formats of these logs need.
    pub(super) fn of(logs: &[AccessLog]) -> Self {
        let fields = logs.iter().flat_map(|log| log.format.templates());
        let (mut request, mut response) = (BTreeSet::new(), BTreeSet::new());
        let mut needs = Self::default();
        for field in fields.flat_map(|template| template.variables()) {
            let LogField::Shared(variable) = field else {
                continue;
            };
            match variable {
                Variable::RequestHeader(name) => drop(request.insert(name.as_str())),
                Variable::ResponseHeader(name) => drop(response.insert(name.as_str())),
                Variable::PeerDns | Variable::PeerUris | Variable::PeerCommonName => {
                    needs.certificate = true;
                }
                Variable::Scheme => needs.scheme = true,
                _ => {}
            }
        }
        let names = |names: BTreeSet<&str>| {
            let names = names.into_iter().map(|name| name.parse().ok());
            names.flatten().collect()
        };
        (needs.request, needs.response) = (names(request), names(response));
        needs
    }

    /// Keeps what lines tell of a request's head.
    pub(super) fn of_request(&self, headers: &HeaderMap) -> Kept {
        kept(&self.request, headers)
    }

    /// Keeps what lines tell of a response's head.
    pub(crate) fn of_response(&self, headers: &HeaderMap) -> Kept {
        kept(&self.response, headers)
    }
}

fn kept(names: &[HeaderName], headers: &HeaderMap) -> Kept {
    let fields = names.iter().flat_map(|name| {
        let values = headers.get_all(name).iter();
        values.map(|value| (name.clone(), value.clone()))
    });
    fields.collect()
}
