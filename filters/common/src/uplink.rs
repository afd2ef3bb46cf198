//! The order of responses on the uplink, with heads or bodies held as the configuration says.

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
    /// Heads are held, and bodies pass as they come.
    Heads(Release),
    /// Bodies are held too.
    Bodies(Box<Pacing>),
}

impl Uplink {
    /// Creates the uplink of a worker; none if the configuration has no rate.
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

    /// Returns the number of responses with held parts.
    pub(crate) fn held(&self) -> usize {
        match self {
            Self::Heads(own) => own.held(),
            Self::Bodies(own) => own.held(),
        }
    }

    /// Returns the time that the link needs for the bytes released and those held.
    pub(crate) fn backlog(&self, now: Time) -> Duration {
        match self {
            Self::Heads(own) => own.backlog(now),
            Self::Bodies(own) => own.backlog(now),
        }
    }

    /// Takes a response's head, and returns whether the host must hold it.
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

    /// Takes a part of a body, the last if `end`. Returns whether the host must hold it.
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

    /// Takes the trailers, and returns whether the host must hold them.
    pub(crate) fn trailers(&mut self, now: Time, id: StreamId, host: &dyn Host) -> bool {
        match self {
            Self::Heads(_) => false,
            Self::Bodies(own) => own.trailers(now, id, host),
        }
    }

    /// Removes a response that has ended, or whose client has gone.
    pub(crate) fn close(&mut self, now: Time, id: StreamId, host: &mut dyn Host) {
        match self {
            Self::Heads(own) => own.close(now, id, host),
            Self::Bodies(own) => own.close(now, id, host),
        }
    }

    /// Releases the responses whose turn it is.
    pub(crate) fn pump(&mut self, now: Time, host: &mut dyn Host) {
        match self {
            Self::Heads(own) => own.pump(now, None, host),
            Self::Bodies(own) => own.pump(now, None, host),
        };
    }

    /// Returns the time of the next [`Uplink::pump`].
    pub(crate) fn next_wakeup(&self) -> Option<Time> {
        match self {
            Self::Heads(own) => own.next_wakeup(),
            Self::Bodies(own) => own.next_wakeup(),
        }
    }
}
