//! What a filter counts, by the names that the host's statistics have for it.

use sprat_scheduler::station::RefusalReason;

use crate::source::Source;

/// A count that only grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counter {
    /// Requests, by the index of their class.
    Requests(usize),
    /// Requests that waited for a pool, by the index of their class.
    Waited(usize),
    /// Requests that were refused.
    Refused(RefusalReason),
    /// Sizes that were looked up, by who knew them.
    Size(Source),
    /// Responses whose head was held.
    Held,
    /// Parts of bodies that were held.
    HeldChunks,
    /// Responses in progress that were over the bound, and went unscheduled.
    Unscheduled,
    /// HEAD requests, by what they told.
    Probe(Probe),
    /// Sizes that were told to the other workers.
    Shared,
    /// Changes of what workers share that another worker came before.
    Conflicts,
}

/// The outcome of a HEAD request that was to tell a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probe {
    /// The probe told a size.
    Told,
    /// The probe told no size.
    Useless,
    /// There was no answer, or none in time.
    Failed,
    /// The probe was not sent: another under way would do.
    Joined,
    /// The probe was not sent: too many were under way, or they pause.
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

/// A figure of one worker that goes up and down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gauge {
    /// Requests that wait for a pool.
    Waiting,
    /// Responses whose head is held.
    HeldResponses,
}

impl Counter {
    /// Returns the counter's name, with those of the classes.
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

    /// Returns a small integer, for tables of `classes` classes.
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

    /// Returns the name of the metric.
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
