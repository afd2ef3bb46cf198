//! The order in which flows get the uplink.

use crate::classes::ClassSpec;
use crate::queue::Rank;
use crate::srq::{self, Ranking};
use crate::{Cutoffs, Mark, Sfd, Size, SizeClasses, Time};

/// A scheduling discipline and its parameters.
#[derive(Clone, Debug, PartialEq)]
pub enum Discipline {
    /// First come, first served: the null policy.
    Fcfs,
    /// Round robin by bytes, what an unmodified server and kernel amount to
    /// (TOCS03's FAIR): among `n` flows that wait each has an `n`-th of the
    /// link, however many others come and go.
    Fair,
    /// Shortest remaining size first (Schrage and Miller 1966).
    Srpt,
    /// SRPT with a key that ages: remaining bytes + `ageing` x arrival time.
    /// The key of a waiting flow does not change, so ageing needs no re-sort,
    /// and no flow waits for one that arrived more than remaining / `ageing`
    /// after it.
    SrptAged {
        /// Bytes of advantage that each second of waiting gives.
        ageing_bytes_per_s: u64,
    },
    /// Strict priority between size classes, fair within each (TOCS03 2.2).
    Bands(Cutoffs),
    /// Earliest deadline first, by the classes' soft deadlines; a class without one comes
    /// last (SRQ06's baseline EDF).
    Edf,
    /// Value over relative deadline, the greatest first, then arrival (SRQ06's baseline
    /// VRD); a class without a deadline comes last.
    Vrd,
    /// Queues by service attained, which adapt, and deadlines and values in each (SRQ06).
    Srq(Box<srq::Config>),
    /// Least attained service first: fewest bytes sent (Rai, Urvoy-Keller and Biersack 2003). It
    /// is the limit of [`Discipline::Sfd`] with ever more thresholds, and needs no sizes.
    Las,
    /// Short flows first: the first bytes of each go before the rest (SFD02).
    Sfd(Sfd),
}

impl Discipline {
    /// Returns the discipline's name, as configurations have it.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Fcfs => "fcfs",
            Self::Fair => "fair",
            Self::Srpt => "srpt",
            Self::SrptAged { .. } => "srpt-aged",
            Self::Bands(_) => "bands",
            Self::Edf => "edf",
            Self::Vrd => "vrd",
            Self::Srq(_) => "srq",
            Self::Las => "las",
            Self::Sfd(_) => "sfd",
        }
    }

    /// Returns whether clients can share the link under the discipline. Under some, only flows
    /// take part in the rounds, or in the queues of `srq`.
    pub const fn knows_clients(&self) -> bool {
        !matches!(
            self,
            Self::Fair | Self::Bands(_) | Self::Srq(_) | Self::Sfd(_)
        )
    }
}

/// The facts of a flow by which a discipline may rank it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlowView {
    pub(crate) level: u8,
    pub(crate) seq: u64,
    pub(crate) arrival: Time,
    pub(crate) size: Size,
    /// The payload bytes that the flow has sent so far.
    pub(crate) attained: u64,
    /// The flow's place in a round robin by bytes.
    pub(crate) turn: u64,
    /// The index of the flow's class.
    pub(crate) class: u8,
    /// The flow's place among SRQ's queues.
    pub(crate) progress: srq::Progress,
    /// The mark of the flow's next bytes, where flows are marked.
    pub(crate) mark: Mark,
}

impl FlowView {
    /// Returns the bytes left, or the bytes attained if those left are not known. The attained
    /// bytes count, too, if a flow sends more than its size: it then never jumps ahead again.
    /// That holds for exact sizes as well: if a driver counted one wrong, the flow would have
    /// nothing left, and so be ahead of all without an end.
    fn remaining(&self) -> u64 {
        match self.size.bytes() {
            Some(bytes) if self.attained < bytes => bytes - self.attained,
            _ => self.attained,
        }
    }
}

/// A discipline with the state it learns.
#[derive(Clone, Debug)]
pub(crate) struct Ranker {
    discipline: Discipline,
    classes: Option<SizeClasses>,
    /// The ranking by deadline and value, for the disciplines that go by them.
    requests: Option<Ranking>,
}

impl Ranker {
    pub(crate) fn new(discipline: Discipline, specs: &[ClassSpec]) -> Self {
        let classes = match &discipline {
            Discipline::Bands(cutoffs) => Some(SizeClasses::new(cutoffs)),
            _ => None,
        };
        Self {
            requests: Ranking::new(&discipline, specs),
            discipline,
            classes,
        }
    }

    pub(crate) fn discipline(&self) -> &Discipline {
        &self.discipline
    }

    /// Returns whether [`FlowView::turn`] takes part in the rank.
    pub(crate) fn takes_turns(&self) -> bool {
        let by_requests = self.requests.as_ref().is_some_and(Ranking::takes_turns);
        by_requests || {
            use Discipline::{Bands, Fair, Sfd};
            matches!(self.discipline, Fair | Bands(_) | Sfd(_))
        }
    }

    /// Returns the ranking by deadline and value, if the discipline goes by them.
    pub(crate) fn requests(&self) -> Option<&Ranking> {
        self.requests.as_ref()
    }

    /// Returns the ranking by deadline and value, to be changed.
    pub(crate) fn requests_mut(&mut self) -> Option<&mut Ranking> {
        self.requests.as_mut()
    }

    /// Returns whether a flow may wait without an end while others come.
    pub(crate) fn may_starve(&self) -> bool {
        match &self.discipline {
            Discipline::Fcfs | Discipline::Fair | Discipline::Srq(_) => false,
            Discipline::Edf => self.requests().is_some_and(Ranking::leaves_some_last),
            _ => true,
        }
    }

    pub(crate) fn band(&self, flow: &FlowView) -> u8 {
        match (&self.discipline, &self.classes, &self.requests) {
            // There are two.
            (Discipline::Sfd(_), _, _) => flow.mark.index() as u8,
            (_, Some(classes), _) => classes.class(flow.remaining()),
            (_, None, Some(requests)) => requests.band(flow),
            (_, None, None) => 0,
        }
    }

    pub(crate) fn rank(&self, flow: &FlowView) -> Rank {
        let key = match &self.discipline {
            Discipline::Edf | Discipline::Vrd | Discipline::Srq(_) => {
                self.requests.as_ref().map_or(0, |own| own.key(flow))
            }
            Discipline::Fcfs => 0,
            Discipline::Fair | Discipline::Bands(_) | Discipline::Sfd(_) => flow.turn,
            Discipline::Las => flow.attained,
            Discipline::Srpt => flow.remaining(),
            Discipline::SrptAged { ageing_bytes_per_s } => {
                let nanos = u128::from(flow.arrival.as_nanos());
                let age = nanos * u128::from(*ageing_bytes_per_s) / 1_000_000_000;
                u64::try_from(age + u128::from(flow.remaining())).unwrap_or(u64::MAX)
            }
        };
        Rank {
            level: flow.level,
            band: self.band(flow),
            key,
            seq: flow.seq,
        }
    }

    /// Learns from the whole size of a response, if the discipline learns.
    pub(crate) fn observe(&mut self, bytes: u64) {
        if let Some(classes) = &mut self.classes {
            classes.observe(bytes);
        }
    }

    pub(crate) fn cutoffs(&self) -> &[u64] {
        self.classes
            .as_ref()
            .map_or(&[], |classes| classes.cutoffs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn view() -> impl Strategy<Value = FlowView> {
        // Few values each, so that ties are common.
        let bytes = prop::sample::select(vec![0, 1, 2, 1000, 1024, 1025, u64::MAX]);
        let size = (0..3, bytes.clone()).prop_map(|(kind, bytes)| match kind {
            0 => Size::Exact(bytes),
            1 => Size::Estimate {
                bytes,
                confidence: 0.5,
            },
            _ => Size::Unknown,
        });
        let arrival = prop::sample::select(vec![0, 1, 1_000_000, u64::MAX]);
        let mark = prop::sample::select(Mark::ALL.to_vec());
        (0u8..2, arrival, size, (bytes.clone(), bytes), mark).prop_map(
            |(level, arrival, size, (attained, turn), mark)| FlowView {
                level,
                seq: 0,
                arrival: Time::from_nanos(arrival),
                size,
                attained,
                turn,
                class: level,
                progress: srq::Progress::default(),
                mark,
            },
        )
    }

    fn disciplines() -> [Discipline; 11] {
        let ageing_bytes_per_s = 1_000_000;
        [
            Discipline::Fcfs,
            Discipline::Fair,
            Discipline::Srpt,
            Discipline::SrptAged { ageing_bytes_per_s },
            Discipline::Bands(Cutoffs::paper()),
            Discipline::Bands(Cutoffs::two_class()),
            Discipline::Edf,
            Discipline::Vrd,
            Discipline::Srq(Box::new(srq::Config::bytes())),
            Discipline::Las,
            Discipline::Sfd(Sfd::PAPER),
        ]
    }

    /// Returns a ranker of two classes, of which the first has a deadline and the second has none.
    fn ranker(discipline: Discipline) -> Ranker {
        let deadline = Some(std::time::Duration::from_millis(1));
        let class = |deadline| ClassSpec {
            deadline,
            ..ClassSpec::default()
        };
        Ranker::new(discipline, &[class(deadline), class(None)])
    }

    /// Checks the answers in the order of [`disciplines`]: a wrong one costs an order or a warning.
    #[test]
    fn who_starves_and_who_takes_turns() {
        let yes = |answer: fn(&Ranker) -> bool| {
            let rankers = disciplines().map(ranker);
            let answers = rankers
                .iter()
                .map(|one| if answer(one) { 'y' } else { '-' });
            answers.collect::<String>()
        };
        assert_eq!(yes(Ranker::may_starve), "--yyyyyy-yy");
        assert_eq!(yes(Ranker::takes_turns), "-y--yy----y");
        assert_eq!(
            yes(|ranker| ranker.discipline.knows_clients()),
            "y-yy--yy-y-"
        );
    }

    /// Checks that `edf` needs a floor where some classes have deadlines and others have none.
    #[test]
    fn without_a_deadline_one_may_wait_for_those_with() {
        let deadline = Some(std::time::Duration::from_millis(1));
        let may = |deadlines: &[Option<std::time::Duration>]| {
            let classes = deadlines.iter().map(|deadline| ClassSpec {
                deadline: *deadline,
                ..ClassSpec::default()
            });
            Ranker::new(Discipline::Edf, &classes.collect::<Vec<_>>()).may_starve()
        };
        assert!(may(&[deadline, None]) && may(&[None, deadline, None]));
        assert!(!may(&[deadline, deadline]) && !may(&[None, None]) && !may(&[]));
    }

    proptest! {
        /// Checks that no two flows rank the same, and that a tie goes to the earlier.
        #[test]
        fn the_order_is_total(one in view(), other in view()) {
            for discipline in disciplines() {
                let ranker = ranker(discipline);
                let first = ranker.rank(&FlowView { seq: 1, ..one });
                let second = ranker.rank(&FlowView { seq: 2, ..other });
                prop_assert_ne!(first, second);
                let twin = ranker.rank(&FlowView { seq: 2, ..one });
                prop_assert!(first < twin);
            }
        }

        /// Checks that levels come first, whatever a discipline goes by.
        #[test]
        fn levels_come_first(one in view(), other in view()) {
            for discipline in disciplines() {
                let ranker = ranker(discipline);
                let first = ranker.rank(&FlowView { level: 0, seq: 2, ..one });
                let second = ranker.rank(&FlowView { level: 1, seq: 1, ..other });
                prop_assert!(first < second);
            }
        }

        /// Checks that sending only moves a flow forward while it keeps to its size.
        #[test]
        fn srpt_and_bands_never_demote_what_keeps_to_its_size(
            mut bytes in [0u64..100_000, 0..100_000, 0..100_000],
        ) {
            bytes.sort_unstable();
            let [before, after, last] = bytes;
            let view = |attained| FlowView {
                level: 0,
                seq: 1,
                arrival: Time::ZERO,
                size: Size::Exact(last + 1),
                attained,
                turn: 0,
                class: 0,
                progress: srq::Progress::default(),
                mark: Mark::In,
            };
            for discipline in [Discipline::Srpt, Discipline::Bands(Cutoffs::paper())] {
                let ranker = ranker(discipline);
                prop_assert!(ranker.rank(&view(after)) <= ranker.rank(&view(before)));
            }
        }
    }
}
