//! The ranking of an uplink's flows as requests with deadlines and values: `srq`, and SRQ06's
//! baselines `edf` and `vrd`.

use std::time::Duration;

use super::{Config, Queues, Switch, Terms};
use crate::classes::ClassSpec;
use crate::discipline::FlowView;
use crate::{Discipline, Time};

/// The rule that ranks flows by their terms.
#[derive(Clone, Debug)]
pub(crate) struct Ranking {
    rule: Rule,
    /// The terms of each class; `None` where neither the class nor the rule has a deadline.
    terms: Vec<Option<Terms>>,
    max_value: u32,
    /// The latest time that was noted, for which keys are computed.
    now: Time,
}

#[derive(Clone, Debug)]
enum Rule {
    Edf,
    Vrd,
    Srq { queues: Box<Queues>, switch: Switch },
}

impl Ranking {
    /// Returns the ranking of a discipline, if that ranks by terms.
    pub(crate) fn new(discipline: &Discipline, classes: &[ClassSpec]) -> Option<Self> {
        let rule = match discipline {
            Discipline::Edf => Rule::Edf,
            Discipline::Vrd => Rule::Vrd,
            Discipline::Srq(config) => Rule::Srq {
                queues: Box::new(Queues::new(Config::clone(config))),
                switch: Switch::new(config.trigger),
            },
            _ => return None,
        };
        let mut ranking = Self {
            rule,
            terms: Vec::new(),
            max_value: 0,
            now: Time::ZERO,
        };
        ranking.set_classes(classes);
        Some(ranking)
    }

    /// Sets the classes by whose terms flows are ranked.
    pub(crate) fn set_classes(&mut self, classes: &[ClassSpec]) {
        let config = match &self.rule {
            Rule::Srq { queues, .. } => Some(queues.config()),
            Rule::Edf | Rule::Vrd => None,
        };
        let terms = classes.iter().map(|class| class.terms(config));
        self.terms = terms.collect();
        let values = self.terms.iter().flatten().map(|terms| terms.value);
        self.max_value = values.max().unwrap_or(0);
    }

    /// Returns whether some classes have a deadline and others none. Flows of the latter then come
    /// last, however long they have waited.
    pub(crate) fn leaves_some_last(&self) -> bool {
        let with = self.terms.iter().flatten().count();
        (1..self.terms.len()).contains(&with)
    }

    /// Moves the time of the keys on to `now`.
    pub(crate) fn set_now(&mut self, now: Time) {
        self.now = self.now.max(now);
    }

    fn terms(&self, flow: &FlowView) -> Option<Terms> {
        self.terms.get(usize::from(flow.class)).copied().flatten()
    }

    /// Returns a flow's key; flows without a deadline have the greatest, and so come last.
    pub(crate) fn key(&self, flow: &FlowView) -> u64 {
        let Some(terms) = self.terms(flow) else {
            return u64::MAX;
        };
        match &self.rule {
            Rule::Edf => terms.edf(flow.arrival),
            Rule::Vrd => terms.vrd(flow.arrival, self.now),
            Rule::Srq { queues, switch } if switch.is_on() => {
                let alpha = queues.config().alpha;
                terms.priority(flow.arrival, self.now, alpha, self.max_value)
            }
            Rule::Srq { .. } => flow.turn,
        }
    }

    /// Returns a flow's queue; 0 while no queues order.
    pub(crate) fn band(&self, flow: &FlowView) -> u8 {
        match &self.rule {
            Rule::Srq { switch, .. } if switch.is_on() => flow.progress.queue() as u8,
            _ => 0,
        }
    }

    /// Returns when a flow's key next changes by itself, after the time noted last.
    pub(crate) fn changes_at(&self, flow: &FlowView) -> Option<Time> {
        match &self.rule {
            Rule::Edf => None,
            Rule::Srq { switch, .. } if !switch.is_on() => None,
            Rule::Vrd | Rule::Srq { .. } => self.terms(flow)?.changes_at(flow.arrival, self.now),
        }
    }

    /// Returns whether flows take turns by bytes for now: SRQ while its trigger is off.
    pub(crate) fn takes_turns(&self) -> bool {
        self.queues().is_some_and(|(_, is_on)| !is_on)
    }

    /// Returns SRQ's queues, and whether they order.
    pub(crate) fn queues(&self) -> Option<(&Queues, bool)> {
        match &self.rule {
            Rule::Srq { queues, switch } => Some((queues, switch.is_on())),
            Rule::Edf | Rule::Vrd => None,
        }
    }

    /// Returns SRQ's queues, to be changed.
    pub(crate) fn queues_mut(&mut self) -> Option<&mut Queues> {
        match &mut self.rule {
            Rule::Srq { queues, .. } => Some(queues),
            Rule::Edf | Rule::Vrd => None,
        }
    }

    /// Returns whether the order depends on what waits; see [`Ranking::observe`].
    pub(crate) fn observes(&self) -> bool {
        matches!(&self.rule, Rule::Srq { switch, .. } if switch.is_conditional())
    }

    /// Returns when SRQ will begin to order, if as much waits until then.
    pub(crate) fn turns_on_at(&self) -> Option<Time> {
        match &self.rule {
            Rule::Srq { switch, .. } => switch.turns_on_at(),
            Rule::Edf | Rule::Vrd => None,
        }
    }

    /// Notes how much waits, and returns whether that changes the order.
    pub(crate) fn observe(&mut self, now: Time, backlog: Duration, waiting: usize) -> bool {
        match &mut self.rule {
            Rule::Srq { switch, .. } => switch.observe(now, backlog, waiting),
            Rule::Edf | Rule::Vrd => false,
        }
    }
}

impl ClassSpec {
    /// Returns the deadlines and the value of the class's requests. A class without a deadline has
    /// SRQ's, and no terms without SRQ.
    pub(crate) fn terms(&self, srq: Option<&Config>) -> Option<Terms> {
        let hard = match (self.deadline, srq) {
            (Some(deadline), _) => deadline,
            (None, Some(srq)) => srq.deadline,
            (None, None) => return None,
        };
        let soft = match (self.deadline, srq) {
            (None, Some(srq)) => srq.soft_deadline,
            _ => self.soft_deadline.unwrap_or(hard),
        };
        Some(Terms {
            soft,
            hard,
            value: self.value,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Progress, Trigger};
    use super::*;
    use crate::{Mark, Size};

    #[test]
    fn a_class_of_no_deadline_has_those_of_srq_alone() {
        let second = Duration::from_secs(1);
        let config = Config {
            soft_deadline: second,
            deadline: 3 * second,
            ..Config::bytes()
        };
        let terms = |class: ClassSpec, config| {
            let terms = class.terms(config)?;
            Some((terms.soft, terms.hard))
        };
        let none = || ClassSpec {
            soft_deadline: Some(9 * second),
            ..ClassSpec::default()
        };
        assert_eq!(terms(none(), Some(&config)), Some((second, 3 * second)));
        assert_eq!(terms(none(), None), None);
        let own = |soft_deadline| ClassSpec {
            deadline: Some(7 * second),
            soft_deadline,
            ..ClassSpec::default()
        };
        for config in [None, Some(&config)] {
            assert_eq!(terms(own(None), config), Some((7 * second, 7 * second)));
            let soft = Some(5 * second);
            assert_eq!(terms(own(soft), config), Some((5 * second, 7 * second)));
        }
    }

    #[test]
    fn keys_change_by_themselves_only_while_srq_orders() {
        let change = |trigger| {
            let config = Config {
                trigger,
                ..Config::bytes()
            };
            let ranking = Ranking::new(&Discipline::Srq(config.into()), &[ClassSpec::default()]);
            ranking.unwrap().changes_at(&FlowView {
                level: 0,
                seq: 1,
                arrival: Time::ZERO,
                size: Size::Exact(1),
                attained: 0,
                turn: 0,
                class: 0,
                progress: Progress::default(),
                mark: Mark::default(),
            })
        };
        let deadline = Config::bytes().deadline;
        assert_eq!(change(Trigger::Always), Some(Time::ZERO + deadline));
        assert_eq!(change(Trigger::Waiting(1)), None);
    }
}
