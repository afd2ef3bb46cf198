//! The uplink as the configuration has it: what is held of responses, if
//! anything.

use std::time::Duration;

use sprat_config::resolved::{Class, FilterUplink, Hold};
use sprat_scheduler::{Size, Time};

use crate::host::{Host, StreamId};
use crate::pacing::Pacing;
use crate::release::Release;

/// What orders the responses of one worker.
#[derive(Debug)]
pub(crate) enum Uplink {
    /// Heads are held, and bodies pass.
    Heads(Release),
    /// Bodies are held too.
    Bodies(Box<Pacing>),
}

impl Uplink {
    /// None if nothing is paced.
    pub(crate) fn new(
        config: &FilterUplink,
        classes: &[Class],
        worker: u64,
        host: &mut dyn Host,
    ) -> Option<Self> {
        let rate = config.rate_bits_per_s?;
        Some(match config.hold {
            None | Some(Hold::Heads) => Self::Heads(Release::new((config, rate), classes, worker)),
            Some(Hold::Bodies) => Self::Bodies(Box::new(Pacing::new(
                (config, rate),
                classes,
                worker,
                host.bell(),
            ))),
        })
    }

    /// Responses of which something is held.
    pub(crate) fn held(&self) -> usize {
        match self {
            Self::Heads(own) => own.held(),
            Self::Bodies(own) => own.held(),
        }
    }

    /// How long what is let go occupies the link, and what is held.
    pub(crate) fn backlog(&self, now: Time) -> Duration {
        match self {
            Self::Heads(own) => own.backlog(now),
            Self::Bodies(own) => own.backlog(now),
        }
    }

    /// A response's head is there. True if it is to be held.
    pub(crate) fn open(
        &mut self,
        now: Time,
        id: StreamId,
        known: (usize, Size),
        host: &mut dyn Host,
    ) -> bool {
        match self {
            Self::Heads(own) => own.open(now, id, known, host),
            Self::Bodies(own) => own.open(now, id, known, host),
        }
    }

    /// A part of a body has come, and whether it is the end. True if it is to
    /// be held.
    pub(crate) fn body(
        &mut self,
        now: Time,
        id: StreamId,
        part: (u64, bool),
        host: &mut dyn Host,
    ) -> bool {
        match self {
            Self::Heads(own) => {
                own.passed(now, id, host);
                if !part.1 {
                    own.pump(now, None, host);
                }
                false
            }
            Self::Bodies(own) => own.body(now, id, part, host),
        }
    }

    /// The trailers have come. True if they are to be held.
    pub(crate) fn trailers(&mut self, now: Time, id: StreamId, host: &dyn Host) -> bool {
        match self {
            Self::Heads(_) => false,
            Self::Bodies(own) => own.trailers(now, id, host),
        }
    }

    /// A response is over, or its client has gone.
    pub(crate) fn close(&mut self, now: Time, id: StreamId, host: &mut dyn Host) {
        match self {
            Self::Heads(own) => own.close(now, id, host),
            Self::Bodies(own) => own.close(now, id, host),
        }
    }

    /// Lets go what may go.
    pub(crate) fn pump(&mut self, now: Time, host: &mut dyn Host) {
        match self {
            Self::Heads(own) => own.pump(now, None, host),
            Self::Bodies(own) => own.pump(now, None, host),
        };
    }

    /// When to call [`Uplink::pump`] next.
    pub(crate) fn next_wakeup(&self) -> Option<Time> {
        match self {
            Self::Heads(own) => own.next_wakeup(),
            Self::Bodies(own) => own.next_wakeup(),
        }
    }
}
