//! The uplink as the configuration has it: what is held of responses, if
//! anything.

use std::time::Duration;

use sprat_config::resolved::{Class, FilterUplink, Hold};
use sprat_scheduler::Time;

use crate::host::{Host, StreamId};
use crate::pacing::Pacing;
use crate::release::Release;
use crate::response::ResponseSpec;

/// The order of one worker's responses.
#[derive(Debug)]
pub(crate) enum Uplink {
    /// Heads are held, and bodies pass.
    Heads(Release),
    /// Bodies are held too.
    Bodies(Box<Pacing>),
}

impl Uplink {
    /// Makes the uplink of a worker; none if nothing is paced.
    pub(crate) fn new(
        config: &FilterUplink,
        classes: &[Class],
        worker: u64,
        host: &mut dyn Host,
    ) -> Option<Self> {
        let rate = config.rate_bits_per_s?;
        Some(match config.hold {
            None | Some(Hold::Heads) => Self::Heads(Release::new(config, rate, classes, worker)),
            Some(Hold::Bodies) => Self::Bodies(Box::new(Pacing::new(
                config,
                rate,
                classes,
                worker,
                host.bell(),
            ))),
        })
    }

    /// Returns the number of responses of which something is held.
    pub(crate) fn held(&self) -> usize {
        match self {
            Self::Heads(own) => own.held(),
            Self::Bodies(own) => own.held(),
        }
    }

    /// Returns how long the link needs for what is let go and for what is held.
    pub(crate) fn backlog(&self, now: Time) -> Duration {
        match self {
            Self::Heads(own) => own.backlog(now),
            Self::Bodies(own) => own.backlog(now),
        }
    }

    /// Takes a response's head; returns whether it is to be held.
    pub(crate) fn open(
        &mut self,
        now: Time,
        id: StreamId,
        spec: ResponseSpec,
        host: &mut dyn Host,
    ) -> bool {
        match self {
            Self::Heads(own) => own.open(now, id, spec, host),
            Self::Bodies(own) => own.open(now, id, spec, host),
        }
    }

    /// Takes a part of a body; nothing follows it if it is the `end`. Returns whether it is to be held.
    pub(crate) fn body(
        &mut self,
        now: Time,
        id: StreamId,
        bytes: u64,
        end: bool,
        host: &mut dyn Host,
    ) -> bool {
        match self {
            Self::Heads(own) => {
                own.passed(now, id, bytes, host);
                if !end {
                    own.pump(now, None, host);
                }
                false
            }
            Self::Bodies(own) => own.body(now, id, bytes, end, host),
        }
    }

    /// Takes the trailers; returns whether they are to be held.
    pub(crate) fn trailers(&mut self, now: Time, id: StreamId, host: &dyn Host) -> bool {
        match self {
            Self::Heads(_) => false,
            Self::Bodies(own) => own.trailers(now, id, host),
        }
    }

    /// Forgets a response that is over, or whose client has gone.
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

    /// Returns when to call [`Uplink::pump`] next.
    pub(crate) fn next_wakeup(&self) -> Option<Time> {
        match self {
            Self::Heads(own) => own.next_wakeup(),
            Self::Bodies(own) => own.next_wakeup(),
        }
    }
}
