//! The counters and gauges of a filter, and their names in the host's statistics.

use sprat_scheduler::station::RefusalReason;

use crate::source::Source;

/// A counter, which only grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counter {
    /// Requests of a class, by the class's index.
    Requests(usize),
    /// Requests of a class that waited for a pool, by the class's index.
    Waited(usize),
    /// Requests that were refused, by the reason.
    Refused(RefusalReason),
    /// Sizes that were looked up, by the source that knew them.
    Size(Source),
    /// Responses whose head was held.
    Held,
    /// Parts of bodies that were held.
    HeldChunks,
    /// Responses that went unscheduled, because too many were in progress.
    Unscheduled,
    /// HEAD probes, by their outcome.
    Probe(Probe),
    /// Sizes that this worker wrote for the other workers.
    Shared,
    /// Writes of shared values that failed, because another worker's write came before.
    Conflicts,
}

/// The outcome of a HEAD probe, which asks for a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probe {
    /// The probe told a size.
    Told,
    /// The probe was answered without a size.
    Useless,
    /// The probe was not answered in time, or at all.
    Failed,
    /// The probe was not sent, because another under way asks for the same.
    Joined,
    /// The probe was not sent: too many were under way, probes pause, or the resource is left
    /// alone.
    Withheld,
}

impl Probe {
    /// All outcomes, in the order of their numbers.
    pub const ALL: [Self; 5] = [
        Self::Told,
        Self::Useless,
        Self::Failed,
        Self::Joined,
        Self::Withheld,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Told => "told",
            Self::Useless => "useless",
            Self::Failed => "failed",
            Self::Joined => "joined",
            Self::Withheld => "withheld",
        }
    }
}

/// A gauge: a figure of one worker that goes up and down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gauge {
    /// Requests that wait for a pool.
    Waiting,
    /// Responses whose head is held.
    HeldResponses,
}

impl Counter {
    /// Returns the counter's name in the host's statistics, with the name of its class.
    pub fn name(self, classes: &[String]) -> String {
        let class = |index: usize| classes.get(index).map_or("unknown", String::as_str);
        match self {
            Self::Requests(index) => format!("sprat.requests.{}", class(index)),
            Self::Waited(index) => format!("sprat.waited.{}", class(index)),
            Self::Refused(reason) => format!("sprat.refused.{}", reason.name()),
            Self::Size(source) => format!("sprat.size.{}", source.name()),
            Self::Held => "sprat.held".to_owned(),
            Self::HeldChunks => "sprat.held_chunks".to_owned(),
            Self::Unscheduled => "sprat.unscheduled".to_owned(),
            Self::Probe(probe) => format!("sprat.head_probe.{}", probe.name()),
            Self::Shared => "sprat.shared.written".to_owned(),
            Self::Conflicts => "sprat.shared.conflicts".to_owned(),
        }
    }

    /// Returns the counter's index in [`Counter::all`], for so many classes.
    pub fn index(self, classes: usize) -> usize {
        let fixed = 2 * classes;
        let refused = fixed + RefusalReason::ALL.len();
        let sized = refused + Source::ALL.len();
        let probed = sized + Probe::ALL.len();
        match self {
            Self::Requests(class) => class.min(classes.saturating_sub(1)),
            Self::Waited(class) => classes + class.min(classes.saturating_sub(1)),
            Self::Refused(reason) => fixed + reason.index(),
            Self::Size(source) => refused + source as usize,
            Self::Probe(probe) => sized + probe as usize,
            Self::Held => probed,
            Self::Unscheduled => probed + 1,
            Self::Shared => probed + 2,
            Self::Conflicts => probed + 3,
            Self::HeldChunks => probed + 4,
        }
    }

    /// Returns all counters, each at its index.
    pub fn all(classes: usize) -> Vec<Self> {
        let requests = (0..classes).map(Self::Requests);
        let all = requests
            .chain((0..classes).map(Self::Waited))
            .chain(RefusalReason::ALL.map(Self::Refused))
            .chain(Source::ALL.map(Self::Size))
            .chain(Probe::ALL.map(Self::Probe))
            .chain([Self::Held, Self::Unscheduled, Self::Shared, Self::Conflicts])
            .chain([Self::HeldChunks]);
        all.collect()
    }
}

impl Gauge {
    /// All gauges, in the order of their numbers.
    pub const ALL: [Self; 2] = [Self::Waiting, Self::HeldResponses];

    /// Returns the gauge's name in the host's statistics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Waiting => "sprat.waiting",
            Self::HeldResponses => "sprat.held_responses",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_counter_is_at_its_index_under_a_name_of_its_own() {
        let classes = ["gold".to_owned(), "bulk".to_owned()];
        let all = Counter::all(2);
        for (index, counter) in all.iter().enumerate() {
            assert_eq!(counter.index(2), index, "{counter:?}");
        }
        let names: BTreeSet<String> = all.iter().map(|c| c.name(&classes)).collect();
        assert_eq!(names.len(), all.len());
        assert!(names.contains("sprat.waited.bulk"));
        assert!(names.contains("sprat.refused.early_discard"));
        assert!(names.contains("sprat.size.learnt"));
    }
}
