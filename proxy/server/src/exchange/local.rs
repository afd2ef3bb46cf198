//! Answers of Sprat's own that routes ask for, and what takes the place of an endpoint's.

use std::time::Duration;

use http::request::Parts;
use http::{HeaderName, HeaderValue, Method, Response, StatusCode};
use hyper::body::Incoming;
use sprat_net::error::{Denial, Reason};
use sprat_upstream::Lease;
use tokio::time::timeout;

use super::side::read;
use crate::exchange::record::Record;
use crate::setup::generation::Generation;
use crate::setup::routing::Page;

/// The most bytes of an answer that was replaced which are read, so that its connection
/// serves another request.
const DRAIN_MAX_BYTES: usize = 64 << 10;

/// The longest time for which an answer that was replaced is read.
const DRAIN_MAX: Duration = Duration::from_secs(1);

/// An answer of Sprat's own.
pub(crate) struct Local {
    /// The status of the answer.
    pub(crate) status: StatusCode,
    /// The fields of the answer's head.
    pub(crate) fields: Vec<(HeaderName, HeaderValue)>,
    /// The body; none if it is empty.
    pub(crate) page: Option<Page>,
    /// The reason why the request is not served, if the answer says so.
    pub(crate) reason: Option<Reason>,
}

impl Local {
    /// Returns an answer that is nothing but a status.
    pub(crate) fn bare(status: StatusCode) -> Self {
        Self {
            status,
            fields: Vec::new(),
            page: None,
            reason: None,
        }
    }
}

/// The treatment of a request that goes to no cluster.
pub(super) enum NotForwarded {
    /// The request is refused.
    Refused(Denial),
    /// Sprat answers by itself, as the route says.
    Answered(Box<Local>),
}

impl<D: Into<Denial>> From<D> for NotForwarded {
    fn from(denial: D) -> Self {
        Self::Refused(denial.into())
    }
}

/// Returns the proof of a name that a certificate authority asks for over HTTP; none for
/// any other request, which goes the way of all.
pub(super) fn challenge(generation: &Generation, parts: &Parts) -> Option<Local> {
    let asks = [Method::GET, Method::HEAD].contains(&parts.method);
    let body = generation.challenges.body(parts.uri.path())?;
    asks.then(|| Local {
        page: Some(Page {
            body,
            content_type: HeaderValue::from_static("application/octet-stream"),
        }),
        ..Local::bare(StatusCode::OK)
    })
}

/// Returns what a client gets in place of an endpoint's answer, if its route says so.
pub(super) fn in_place_of(answer: &Response<Incoming>, record: &Record) -> Option<Local> {
    let status = answer.status();
    if status.is_success() {
        return None;
    }
    let instead = record.route()?.pages.in_place_of_upstream(status)?;
    Some(Local {
        page: instead.page.clone(),
        ..Local::bare(instead.status.unwrap_or(status))
    })
}

/// Reads an answer that was replaced, if it is short, so that its connection serves another
/// request.
pub(super) fn drain(body: Incoming, lease: Option<Lease>) {
    let Some(lease) = lease else { return };
    drop(tokio::task::spawn_local(async move {
        drop(timeout(DRAIN_MAX, read(body, lease, DRAIN_MAX_BYTES, DRAIN_MAX)).await);
    }));
}
