//! The answer to a request, as far as its client has been sent it.

use std::time::Duration;

use http::StatusCode;
use sprat_net::clock;
use sprat_scheduler::Size;
use tokio::time::Instant;

use crate::exchange::size::SizeBelief;

/// The part of an answer that the client has been sent.
pub(crate) struct SentAnswer {
    /// The status; none while there is no head.
    pub(super) status: Option<StatusCode>,
    /// The time at which the response had a head: from then on it is the proxy's to send.
    pub(super) answered: Option<Instant>,
    /// The bytes of the body that were handed to the client's connection.
    pub(super) bytes: u64,
    /// The size of the response's body, as far as it is believed.
    pub(super) size: SizeBelief,
    /// The time for which the response's bytes waited for the uplink.
    pub(super) wait: Duration,
    /// The time for which the endpoint was waited for since the response began, once its body has
    /// ended.
    pub(super) silence: Duration,
    /// Whether the endpoint has paused in the midst of the body, once that has ended.
    pub(super) has_paused: bool,
    /// Whether the connection has switched to another protocol: what follows is no response.
    pub(super) tunnelled: bool,
}

impl Default for SentAnswer {
    fn default() -> Self {
        Self {
            status: None,
            answered: None,
            bytes: 0,
            size: SizeBelief::none(),
            wait: Duration::ZERO,
            silence: Duration::ZERO,
            has_paused: false,
            tunnelled: false,
        }
    }
}

/// A wait for the first turn on the uplink that lasts until this is dropped: the client may leave
/// meanwhile, or the time be up.
#[must_use]
pub(crate) struct TurnWait<'a> {
    sum: &'a mut Duration,
    began: Instant,
}

impl Drop for TurnWait<'_> {
    fn drop(&mut self) {
        *self.sum += clock::now() - self.began;
    }
}

impl SentAnswer {
    /// Notes that the answer waits for its first turn on the uplink from now on. The flow itself
    /// knows better how long it has waited, once it goes out.
    pub(crate) fn wait(&mut self) -> TurnWait<'_> {
        TurnWait {
            sum: &mut self.wait,
            began: clock::now(),
        }
    }

    /// Notes how long the answer's flow has waited for the uplink, in all.
    pub(crate) fn note_wait(&mut self, waited: Duration) {
        self.wait = waited;
    }

    /// Notes how long an answer given in place of another has waited for the uplink: the longer
    /// wait counts.
    pub(crate) fn note_longer_wait(&mut self, waited: Duration) {
        self.wait = self.wait.max(waited);
    }

    /// Adds bytes of the body that are handed to the client's connection.
    pub(crate) fn add(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
    }

    /// Returns the size of the response's body, as far as it is believed by now.
    pub(crate) fn size(&self) -> Size {
        self.size.size()
    }

    /// Returns the belief in the size of the response's body, which may become a better one.
    pub(crate) fn belief(&mut self) -> &mut SizeBelief {
        &mut self.size
    }

    /// Returns whether no byte of the body has been handed over.
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Notes that the connection switches to another protocol with this answer.
    pub(crate) fn begin_tunnel(&mut self) {
        self.tunnelled = true;
    }

    /// Notes the bytes that the client has got by a tunnel, and how long they have waited for the
    /// uplink.
    pub(crate) fn end_tunnel(&mut self, bytes: u64, waited: Duration) {
        self.bytes = bytes;
        self.wait += waited;
    }

    /// Notes that the head, with this status, is on its way to the client.
    pub(super) fn begin(&mut self, status: StatusCode) {
        self.status = Some(status);
        self.answered.get_or_insert_with(clock::now);
    }

    /// Returns whether the response has paused, or became a tunnel.
    pub(super) fn is_stream(&self) -> bool {
        self.tunnelled || self.has_paused
    }

    /// Returns the size that was known when the response began, as lines tell it.
    pub(super) fn told_size(&self) -> Size {
        match self.status {
            Some(_) if !self.tunnelled => self.size.size(),
            _ => Size::Unknown,
        }
    }
}
