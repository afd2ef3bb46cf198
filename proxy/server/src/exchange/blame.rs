//! The judgement of endpoints that gave no response.

use sprat_net::clock;
use sprat_net::error::Reason;
use sprat_net::upload::Progress;
use sprat_scheduler::health::Outcome;
use sprat_upstream::{Lease, broken_reason};
use tokio::time::Instant;

use super::outcome::{Due, had_fair_part, is_of_endpoint};
use super::upstream_request::Exchange;
use crate::exchange::record::Record;

impl Exchange<'_> {
    /// Returns why there was no answer over a connection.
    pub(super) fn blame(&self, error: &hyper::Error) -> Reason {
        let failure = self.upload.as_ref().and_then(|upload| upload.failure());
        failure.unwrap_or_else(|| broken_reason(error))
    }

    /// Returns why a response broke off before any of it went out, and reports the endpoint to
    /// its cluster if that is its own doing. One that has not got all of the request may end
    /// there.
    pub(super) fn broke_off(&self, record: &mut Record, error: &hyper::Error) -> Reason {
        let had_all = self.upload.as_ref().is_none_or(|upload| upload.is_done());
        if had_all {
            record.upstream.ends_badly();
        }
        self.blame(error)
    }

    /// Returns whether the endpoint of an attempt that was `tried` from then on may be blamed
    /// for its end. It may not if the route's time had largely passed before: in a queue, at
    /// other endpoints, or while the client sent its body. Under overload that befalls many
    /// requests, and to eject the endpoints for it would make the overload worse.
    pub(super) fn had_its_time(&self, due: Due<'_>, tried: Instant, reason: Reason) -> bool {
        if reason != Reason::RouteTimeout {
            return true;
        }
        let asked = match self.upload.as_ref().map(|upload| upload.progress()) {
            Some(Progress::Done { at }) => at.max(tried),
            _ => tried,
        };
        had_fair_part(due.started, asked, clock::now())
    }

    /// Reports an endpoint that gave no response to its cluster, if that is the endpoint's doing.
    pub(super) fn blame_endpoint(&self, lease: &Lease, reason: Reason) {
        if !is_of_endpoint(reason) {
            return;
        }
        let progress = self.upload.as_ref().map(|upload| upload.progress());
        let own = match (reason, progress) {
            (_, None | Some(Progress::Done { .. })) => true,
            // The client had not said all of it, for whatever reason.
            (Reason::RouteTimeout, _) => false,
            // An endpoint need not wait for ever for what a client does not send, or a disk does
            // not give.
            (Reason::ConnectionTerminated | Reason::StreamReset, Some(progress)) => {
                !matches!(progress, Progress::ClientOwes { .. })
                    && !progress.is_file_late(clock::now())
            }
            _ => true,
        };
        if own {
            lease.observe(|| Outcome::NoResponse);
        }
    }
}
