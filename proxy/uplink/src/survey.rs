//! Surveys of the uplink, for people who watch it.

use std::time::Duration;

use sprat_scheduler::{Survey, SurveyedFlow, Time};

use super::link::PacedLink;
use super::shared::SharedUplink;

/// The responses on a paced uplink at a moment.
#[derive(Clone, Debug)]
pub struct Surveyed {
    /// The time of the survey, by the uplink's clock.
    pub at: Time,
    /// The number of responses in progress.
    pub open_flows: usize,
    /// The number of these that wait for their turn.
    pub waiting_flows: usize,
    /// The first of the responses, as [`Survey::finish`] orders them.
    pub flows: Vec<SurveyedFlow>,
}

/// A paced uplink's figures at a moment.
#[derive(Clone, Debug)]
pub struct Figures {
    /// The number of responses in progress.
    pub open_flows: usize,
    /// The number of these that wait for their turn.
    pub waiting_flows: usize,
    /// The rate at which responses are sent, in bits per second on the wire; `None` if nothing
    /// is held back.
    pub rate_bits_per_s: Option<u64>,
    /// The queue on the link behind the pacer, as a time, as far as the search for the rate knows.
    pub queue: Duration,
    /// The time for which the link would be occupied by what the responses in progress have
    /// left.
    pub backlog: Duration,
    /// The bytes on the wire so far.
    pub wire_bytes: u64,
    /// The figures of each class, in the order of the configuration.
    pub classes: Vec<ClassFigures>,
}

/// A class's figures on a paced uplink.
#[derive(Clone, Copy, Debug)]
pub struct ClassFigures {
    /// The number of responses in progress.
    pub open_flows: usize,
    /// Payload bytes that were given a turn so far.
    pub granted_bytes: u64,
}

impl SharedUplink {
    /// Surveys the responses in progress, and keeps `most` of them; `None` if responses are not
    /// paced. The scheduler's lock is taken for a small part of the survey at a time.
    pub fn survey(&self, most: usize) -> Option<Surveyed> {
        self.paced().map(|link| link.survey(most))
    }

    /// Returns the figures at present; `None` if responses are not paced.
    pub fn figures(&self) -> Option<Figures> {
        self.paced().map(|link| link.figures())
    }

    fn paced(&self) -> Option<&PacedLink> {
        match self {
            Self::Paced(link) => Some(link),
            Self::Unlimited | Self::Kernel(_) => None,
        }
    }
}

impl PacedLink {
    fn survey(&self, most: usize) -> Surveyed {
        let mut survey = Survey::new(most);
        // The lock is free between the pieces, or a long queue would hold up grants.
        let at = self.now();
        while self.lock().desk.egress().survey(at, &mut survey) {}
        let state = self.lock();
        let egress = state.desk.egress();
        let (open_flows, waiting_flows) = (egress.open_flows(), egress.waiting_flows());
        drop(state);
        Surveyed {
            at,
            open_flows,
            waiting_flows,
            flows: survey.finish(),
        }
    }

    fn figures(&self) -> Figures {
        let status = self.status();
        let backlog = self.lock().desk.egress().backlog(self.now());
        let class = |own: sprat_scheduler::EgressClassStats| ClassFigures {
            open_flows: own.open_flows,
            granted_bytes: own.granted_bytes,
        };
        Figures {
            open_flows: status.open_flows,
            waiting_flows: status.waiting_flows,
            rate_bits_per_s: status.rate_bits_per_s,
            queue: status.queue,
            backlog,
            wire_bytes: status.stats.wire_bytes,
            classes: self.class_status().into_iter().map(class).collect(),
        }
    }
}
