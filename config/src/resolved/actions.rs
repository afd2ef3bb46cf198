//! The actions that routes take on requests, and the changes to answers.

use std::sync::Arc;
use std::time::Duration;

use super::{Cluster, FileAt, Network};
pub use crate::safe_regex::{RegexRewrite, SafeRegex};
pub use crate::template::{Template, Variable};

/// The action that a route takes on a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// The request goes to a cluster.
    Forward(Forward),
    /// The client is redirected to another URL.
    Redirect(Redirect),
    /// Sprat answers the request itself.
    Respond(DirectResponse),
}

impl Action {
    /// Returns the action that sends all requests to one cluster.
    pub fn to(cluster: Arc<Cluster>) -> Self {
        let only = Weighted { cluster, weight: 1 };
        Self::Forward(Forward {
            clusters: vec![only],
            fallback: None,
            mirrors: Vec::new(),
        })
    }
}

/// The clusters that a route's requests go to.
#[derive(Clone, Debug, PartialEq)]
pub struct Forward {
    /// The clusters that share the requests: at least one, and one or more have a weight.
    pub clusters: Vec<Weighted>,
    /// The cluster that gets requests while their own has no healthy endpoint.
    pub fallback: Option<Arc<Cluster>>,
    /// The clusters that get copies of requests.
    pub mirrors: Vec<Mirror>,
}

/// A cluster with its share of a route's requests.
#[derive(Clone, Debug, PartialEq)]
pub struct Weighted {
    /// The cluster that requests go to.
    pub cluster: Arc<Cluster>,
    /// The share of requests, relative to the others' shares; may be 0.
    pub weight: u32,
}

/// A cluster that gets copies of requests.
#[derive(Clone, Debug, PartialEq)]
pub struct Mirror {
    /// The cluster that copies go to.
    pub cluster: Arc<Cluster>,
    /// The percent of requests that are copied; 1 to 100.
    pub percent: u32,
}

/// A redirect of the client to another URL.
#[derive(Clone, Debug, PartialEq)]
pub struct Redirect {
    /// Whether the new URL has the scheme `https`.
    pub https: bool,
    /// The new host, with its port if it has one.
    pub host: Option<String>,
    /// The port of the new URL.
    pub port: Option<u16>,
    /// The path of the new URL.
    pub path: RedirectPath,
    /// Whether the query is left out.
    pub strip_query: bool,
    /// The status: 301, 302, 303, 307 or 308.
    pub status: u16,
}

/// The path that a redirect leads to.
#[derive(Clone, Debug, PartialEq)]
pub enum RedirectPath {
    /// The path of the request.
    Same,
    /// A fixed path; its query, if it has one, replaces that of the request.
    Fixed(String),
    /// The path of the request, with its matched prefix replaced.
    Prefix(String),
    /// The path of the request, with what an expression matches replaced.
    Regex(RegexRewrite),
}

/// An answer that Sprat gives itself.
#[derive(Clone, Debug, PartialEq)]
pub struct DirectResponse {
    /// The status, 200 to 599.
    pub status: u16,
    /// The body; none if it is empty.
    pub page: Option<Page>,
}

/// The body of an answer, which is sent as it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Page {
    /// The source of the body.
    pub source: PageSource,
    /// The value of `Content-Type`.
    pub content_type: String,
}

/// The source of an answer's body.
#[derive(Clone, Debug, PartialEq)]
pub enum PageSource {
    /// A text in the configuration.
    Text(String),
    /// A file, of 1 MB at most.
    File(FileAt),
}

/// A page that clients get in place of other answers.
#[derive(Clone, Debug, PartialEq)]
pub struct ErrorPage {
    /// The ranges of statuses that the page is for, from and to (inclusive).
    pub statuses: Vec<(u16, u16)>,
    /// The body that is sent; none leaves the answer's body as it is.
    pub page: Option<Page>,
    /// The status that the client gets instead; none leaves the answer's status as it is.
    pub status: Option<u16>,
    /// Whether the page also replaces answers of backends.
    pub intercept: bool,
}

/// A maintenance, in which a few clients alone are served.
#[derive(Clone, Debug, PartialEq)]
pub struct Maintenance {
    /// The networks of clients that are served in spite of it.
    pub exempt: Vec<Network>,
    /// The time that the other clients are told to wait before they come again (`Retry-After`).
    pub retry_after: Duration,
}

/// Changes to the fields of a message's head: first those to remove are removed, then those to set
/// are set, then those to add are added.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HeaderEdits {
    /// The names of fields to remove, in lower case.
    pub remove: Vec<String>,
    /// The fields to set: names in lower case, with the value that replaces all others.
    pub set: Vec<(String, Template)>,
    /// The fields to add: names in lower case, with one more value.
    pub add: Vec<(String, Template)>,
}

impl HeaderEdits {
    /// Returns whether there is no change.
    pub fn is_empty(&self) -> bool {
        self.remove.is_empty() && self.set.is_empty() && self.add.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_are_empty_if_there_is_none_of_any_kind() {
        let field = || ("x-a".to_owned(), Template::parse("1").unwrap());
        let none = HeaderEdits::default;
        assert!(none().is_empty());
        for edits in [
            HeaderEdits {
                remove: vec!["x-a".to_owned()],
                ..none()
            },
            HeaderEdits {
                set: vec![field()],
                ..none()
            },
            HeaderEdits {
                add: vec![field()],
                ..none()
            },
        ] {
            assert!(!edits.is_empty(), "{edits:?}");
        }
    }
}
