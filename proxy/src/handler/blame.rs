//! What is held against an endpoint that gave no response.

use std::cell::RefCell;
use std::fmt;

use sprat_net::error::{Fault, Reason};
use sprat_net::upload::Progress;
use sprat_scheduler::health::Outcome;
use sprat_upstream::{Lease, Place, Silence, broken_reason};

use super::exchange::Exchange;
use super::retry::Answer;

impl Exchange<'_> {
    /// Why there was no answer over a connection.
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

/// The first of two attempts at a request, as the second sees it.
pub(super) struct Sent {
    place: Place,
    silence: RefCell<Option<Silence>>,
}

impl fmt::Debug for Sent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sent").finish_non_exhaustive()
    }
}

impl Sent {
    /// An attempt with this lease.
    pub(super) fn with(lease: &Lease) -> Self {
        Self {
            place: lease.place(),
            silence: RefCell::new(None),
        }
    }

    /// The request is sent, and this begins with it.
    pub(super) fn note(&self, silence: &Silence) {
        self.silence.replace(Some(silence.clone()));
    }

    /// Counts this attempt as one without a response, if its endpoint has sent no byte: the
    /// same request, sent later to another endpoint, has been answered. An answer of 5xx
    /// is no measure.
    pub(super) fn overtaken_by(&self, answer: &Answer) {
        let status = answer.response.status().as_u16();
        let was_silent = match &*self.silence.borrow() {
            Some(silence) => silence.has_heard_nothing(),
            // Who waits for a connection to be closed here waits for us.
            None => self.place.may_connect(),
        };
        if was_silent && Outcome::of_status(status) == Outcome::Success {
            self.place.observe(|| Outcome::NoResponse);
        }
    }
}
