//! What is held against an endpoint that gave no response.

use sprat_net::error::{Fault, Reason};
use sprat_net::upload::Progress;
use sprat_scheduler::health::Outcome;
use sprat_upstream::{Lease, broken_reason};

use super::dispatch::Exchange;

impl Exchange<'_> {
    /// Returns why there was no answer over a connection.
    pub(super) fn blame(&self, error: &hyper::Error) -> Reason {
        let failure = self.upload.as_ref().and_then(|upload| upload.failure());
        failure.unwrap_or_else(|| broken_reason(error))
    }

    /// Tells the cluster of an endpoint that gave no response, if that is the
    /// endpoint's doing.
    pub(super) fn blame_endpoint(&self, lease: &Lease, reason: Reason) {
        if reason.is_shortage() || reason.facts().fault != Fault::Upstream {
            return;
        }
        let progress = self.upload.as_ref().map(|upload| upload.progress());
        let own = match (reason, progress) {
            (_, None | Some(Progress::Done { .. })) => true,
            // The client had not said all of it, for whatever reason.
            (Reason::RouteTimeout, _) => false,
            // An endpoint need not wait for ever for what a client does not send.
            (
                Reason::ConnectionTerminated | Reason::StreamReset,
                Some(Progress::ClientOwes { .. }),
            ) => false,
            _ => true,
        };
        if own {
            lease.observe(|| Outcome::NoResponse);
        }
    }
}
