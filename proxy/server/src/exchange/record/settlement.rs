//! The settlement of what a request holds: its endpoint, its body on the way, what it has to
//! teach. Its place is given back when its record is dropped.

use std::time::Duration;

use sprat_net::error::Reason;
use sprat_uplink::Course as _;
use tokio::time::{Instant, sleep};

use super::Record;
use crate::exchange::size::Sizes;

/// The time for which a stream of HTTP/2 stands after its answer, when the rest of its
/// request's body is not wanted.
const UNWANTED_FOR: Duration = Duration::from_secs(1);

impl Record {
    /// Ends the upstream's part: its connection serves the next request. What the stream tells
    /// of its silence is kept: a next response may begin on it before the client has this one.
    pub(crate) fn release_upstream(&mut self, now: Instant) {
        self.sent.silence = self.stream.upstream_silence();
        self.sent.has_paused = self.stream.has_paused();
        self.end_upload(true);
        self.upstream.release(now, self.sent.bytes);
    }

    /// Settles all that the request still holds, and tells the stream if its client has left.
    pub(super) fn settle(&mut self, aborted: bool) {
        self.blame_endpoint();
        self.upstream.cancel();
        self.end_upload(!aborted);
        if let Some(Reason::ClientClosed | Reason::TruncatedBody) = self.reason {
            self.stream.left();
        }
    }

    /// Teaches the catalogue the size of a response that has gone out whole.
    pub(super) fn teach(&mut self) {
        // How much of an event stream one client has heard says nothing of the next.
        if !self.sent.is_stream() {
            let sizes = Sizes::of(&self.generation, &self.stream);
            self.sent.size.at_end(self.sent.bytes, sizes);
        }
    }

    /// Reports an endpoint that has not given all of its response to its cluster, if that
    /// is its own doing.
    fn blame_endpoint(&mut self) {
        let own = match self.reason {
            Some(Reason::UpstreamIdleTimeout) => true,
            // One that could not send for long may have had enough.
            Some(Reason::ResponseIncomplete) => !self.stream.has_held_up(),
            _ => return,
        };
        if !own || !self.has_sent_on() {
            return;
        }
        self.upstream.ends_badly();
    }

    /// Ends the upload: the part of the body that the upstream does not have is not wanted
    /// any more. The client may still be sending it, and gets the answer if it `listens`.
    fn end_upload(&mut self, listens: bool) {
        let Some(upload) = self.upload.take() else {
            return;
        };
        upload.end();
        if upload.has_come() {
            return;
        }
        self.stream.close_lingering();
        if listens && self.stream.is_http2() {
            // Dropped, its stream is reset: RFC 9113 8.1 has that after an answer,
            // but some clients forget the answer for it (curl 7.88). So it stands
            // for a while, and takes no more than its window.
            drop(tokio::task::spawn_local(async move {
                sleep(UNWANTED_FOR).await;
                drop(upload);
            }));
        }
    }
}
