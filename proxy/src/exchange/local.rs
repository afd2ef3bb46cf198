//! Answers of Sprat's own that routes ask for, and what takes the place of an endpoint's.

use std::time::Duration;

use http::{HeaderValue, Response, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use sprat_upstream::Lease;
use tokio::time::{Instant, timeout};

use crate::exchange::record::Record;
use crate::setup::routing::Page;

/// Bytes of an answer that was replaced, which are read so that its connection serves
/// another request.
const DRAIN_MAX_BYTES: usize = 64 << 10;

/// How long such an answer is read.
const DRAIN_MAX: Duration = Duration::from_secs(1);

/// An answer of Sprat's own.
pub(crate) struct Local {
    /// The status of the answer.
    pub(crate) status: StatusCode,
    /// Where the client is sent.
    pub(crate) location: Option<HeaderValue>,
    /// The body; none if it is empty.
    pub(crate) page: Option<Page>,
}

/// Returns what a client gets in place of an endpoint's answer, if its route says so.
pub(super) fn in_place_of(answer: &Response<Incoming>, record: &Record) -> Option<Local> {
    let status = answer.status();
    if status.is_success() {
        return None;
    }
    let instead = record.route()?.pages.in_place_of_upstream(status)?;
    Some(Local {
        status: instead.status.unwrap_or(status),
        location: None,
        page: instead.page.clone(),
    })
}

/// Reads an answer that was replaced, if it is short, so that its connection is of use.
pub(super) fn drain(body: Incoming, lease: Option<Lease>) {
    let Some(lease) = lease else { return };
    drop(tokio::task::spawn_local(async move {
        if let Ok(Some(bytes)) = timeout(DRAIN_MAX, read(body)).await {
            lease.release(Instant::now(), bytes as u64);
        }
    }));
}

/// Returns how many bytes a body has, if it ends and has few.
async fn read(mut body: Incoming) -> Option<usize> {
    let mut bytes = 0;
    while let Some(frame) = body.frame().await {
        bytes += frame.ok()?.data_ref().map_or(0, bytes::Bytes::len);
        if bytes > DRAIN_MAX_BYTES {
            return None;
        }
    }
    Some(bytes)
}
