//! The policies that go by deadlines and values: `srq`, `edf`, `vrd`; and the orders of waiting
//! requests.

use std::ops::Range;
use std::time::Duration;

use sprat_scheduler::Discipline;
use sprat_scheduler::srq::{self, MAX_QUANTUM, Trigger, Weight};

use super::values::{count, maybe, size, time};
use crate::containers::{List, Or};
use crate::decode::Field;
use crate::diagnostic::Reporter;
use crate::raw;
use crate::resolved::{Classes, SrqOrder, WaitOrder};

/// Makes the parameters that the policy and the order have alike: of the keys in `$raw`, over those
/// of `$base`, with what was resolved beforehand.
macro_rules! parameters {
    ($raw:ident, $base:expr, $checked:ident, $trigger:expr) => {
        srq::Config {
            alpha: Weight::from_ratio($raw.alpha.copied()?.0),
            interval: $raw.interval.copied()?.0,
            t_fail: $raw.t_fail.copied()?.0,
            t_split: $raw.t_split.copied()?.0,
            t_desc: $raw.t_desc.copied()?.0,
            adj_i: $raw.adj_i.copied()?.0,
            adj_d: $raw.adj_d.copied()?.0,
            soft_deadline: $checked.soft_deadline,
            deadline: $checked.deadline,
            first_share_percent: $raw.first_share.copied()?.0,
            quanta: $checked.quanta,
            queues: $checked.queues,
            samples_min: $raw.samples_min.copied()?.0,
            trigger: $trigger,
            ..$base
        }
    };
}

/// The parameters that are checked against each other.
struct Checked {
    queues: (usize, usize),
    quanta: Vec<u64>,
    soft_deadline: Duration,
    deadline: Duration,
}

/// The keys that are checked against each other, as they are written.
struct Written<'a, T> {
    queues: &'a Field<raw::QueueBounds>,
    quanta: &'a Field<List<T, 1>>,
    soft_deadline: &'a Field<raw::Timeout>,
    deadline: &'a Field<raw::Timeout>,
}

impl<T> Written<'_, T> {
    /// Checks the keys; `of` returns the number that a quantum stands for.
    fn checked(
        &self,
        of: impl Fn(&T) -> u64,
        too_large: &TooLarge,
        reporter: &mut Reporter<'_>,
    ) -> Option<Checked> {
        let queues = queues(self.queues, reporter);
        let quanta = quanta(self.quanta, queues, reporter);
        let quanta = quanta.and_then(|own| within(&own, of, too_large, reporter));
        let (soft_deadline, deadline) = (time(self.soft_deadline)?, time(self.deadline)?);
        if soft_deadline > deadline {
            let message = "the soft deadline is after the other".to_owned();
            let help = "give `deadline` at least as much: from then on a response has no value";
            let span = match self.soft_deadline.given {
                true => &self.soft_deadline.span,
                false => &self.deadline.span,
            };
            reporter.error(span, message, Some(help.to_owned()));
            return None;
        }
        Some(Checked {
            queues: queues?,
            quanta: quanta?,
            soft_deadline,
            deadline,
        })
    }
}

/// The text about a quantum that is above the bound.
struct TooLarge {
    message: &'static str,
    help: String,
}

/// Resolves the parameters of `srq` on an uplink.
pub(super) fn uplink(raw: &raw::Srq, reporter: &mut Reporter<'_>) -> Option<Discipline> {
    let written = Written {
        queues: &raw.queues,
        quanta: &raw.quanta,
        soft_deadline: &raw.soft_deadline,
        deadline: &raw.deadline,
    };
    let too_large = TooLarge {
        message: "a quantum is larger than any that queues come to",
        help: format!("give at most {} GB", MAX_QUANTUM >> 30),
    };
    let bytes = |quantum: &raw::SomeBytes| quantum.0;
    let checked = written.checked(bytes, &too_large, reporter);
    let trigger = trigger(&raw.trigger, reporter);
    let checked = checked?;
    let config = parameters!(raw, srq::Config::bytes(), checked, trigger?);
    Some(Discipline::Srq(Box::new(config)))
}

/// Resolves the order of waiting requests.
pub(super) fn wait_order(raw: &raw::WaitOrder, reporter: &mut Reporter<'_>) -> Option<WaitOrder> {
    Some(match raw {
        raw::WaitOrder::Size(_) => WaitOrder::Size,
        raw::WaitOrder::Fcfs(_) => WaitOrder::Fcfs,
        raw::WaitOrder::Edf(_) => WaitOrder::Edf,
        raw::WaitOrder::Vrd(_) => WaitOrder::Vrd,
        raw::WaitOrder::Value(_) => WaitOrder::Value,
        raw::WaitOrder::Srq(own) => WaitOrder::Srq(Box::new(places(own, reporter)?)),
    })
}

/// Resolves the parameters of `srq` before endpoints.
fn places(raw: &raw::SrqOrder, reporter: &mut Reporter<'_>) -> Option<SrqOrder> {
    let written = Written {
        queues: &raw.queues,
        quanta: &raw.quanta,
        soft_deadline: &raw.soft_deadline,
        deadline: &raw.deadline,
    };
    let too_large = TooLarge {
        message: "a quantum is longer than any that queues come to",
        help: format!("give at most {}m", MAX_QUANTUM / 60_000_000_000),
    };
    let nanos = |quantum: &raw::Timeout| u64::try_from(quantum.0.as_nanos()).unwrap_or(u64::MAX);
    let checked = written.checked(nanos, &too_large, reporter)?;
    let trigger = match raw.trigger.get()?.value() {
        Some(busy) => Trigger::Waiting(count(&busy.max_requests)?),
        None => Trigger::Always,
    };
    Some(SrqOrder {
        queues: parameters!(raw, srq::Config::nanoseconds(), checked, trigger),
        max_overcommit: maybe(raw.max_overcommit.optional()?, |own| Some(size(own.0)))?,
        statistics: raw.statistics.copied()?,
        large_bytes: raw.use_estimates.get()?.value().map(|bytes| bytes.0),
    })
}

/// The bounds on the requests that an endpoint has at a time.
#[derive(Clone, Copy)]
pub(super) struct Places {
    /// The number of places; `None` is unlimited.
    pub(super) max_requests: Option<usize>,
    /// The most requests that the connections to the endpoint carry.
    pub(super) max_carried: usize,
}

/// Bounds the requests that go beyond the places of an endpoint by its connections: a request that
/// has waited is not to be refused for want of one. Warns if the file asks for more, and of an order
/// that frees places where requests may have as many as they want.
pub(super) fn fit_places(
    order: &mut WaitOrder,
    raw: &Field<raw::WaitQueue>,
    places: Places,
    reporter: &mut Reporter<'_>,
) {
    let (WaitOrder::Srq(own), Some(queue)) = (order, raw.get()) else {
        return;
    };
    let Some(max_requests) = places.max_requests else {
        let message = "`order: srq` frees places, and the number of places is unlimited";
        let help = "give `max_requests`: how many requests the endpoint works on at a time";
        reporter.warning(&queue.order.span, message.to_owned(), Some(help.to_owned()));
        return;
    };
    let wanted = own.max_overcommit.unwrap_or(max_requests);
    let left = places.max_carried.saturating_sub(max_requests);
    if wanted <= left {
        return;
    }
    own.max_overcommit = Some(left);
    if let Some(raw::WaitOrder::Srq(written)) = queue.order.get()
        && written.max_overcommit.given
    {
        let message = format!(
            "`max_connections` leaves {left} requests beyond `max_requests`, and {wanted} are \
             wanted"
        );
        let help = format!("write {left}, or raise the cluster's `max_connections`");
        reporter.warning(&written.max_overcommit.span, message, Some(help));
    }
}

fn queues(raw: &Field<raw::QueueBounds>, reporter: &mut Reporter<'_>) -> Option<(usize, usize)> {
    let bounds = raw.get()?;
    let (min, max) = (count(&bounds.min)?, count(&bounds.max)?);
    if min > max {
        let message = format!("the fewest queues, {min}, are more than the most, {max}");
        let help = "give `max` at least as many as `min`".to_owned();
        reporter.error(&raw.span, message, Some(help));
        return None;
    }
    Some((min, max))
}

/// A quantum and the place where it is written.
type Quantum<'a, T> = (&'a T, &'a Range<usize>);

/// Returns the quanta that the queues of `srq` begin with, if they are as many as there may be. If
/// none are given they are the defaults.
fn quanta<'a, T>(
    raw: &'a Field<List<T, 1>>,
    queues: Option<(usize, usize)>,
    reporter: &mut Reporter<'_>,
) -> Option<Vec<Quantum<'a, T>>> {
    let list = raw.get()?.0.iter();
    let quanta = list.map(|quantum| Some((quantum.get()?, &quantum.span)));
    let quanta: Vec<_> = quanta.collect::<Option<_>>()?;
    let (min, max) = queues?;
    if raw.given && !(min..=max).contains(&(quanta.len() + 1)) {
        let message = match quanta.len() {
            1 => "1 quantum makes 2 queues".to_owned(),
            quanta => format!("{quanta} quanta make {} queues", quanta + 1),
        };
        let help = format!(
            "write {} to {} quanta, or change `queues`",
            min - 1,
            max - 1
        );
        reporter.error(&raw.span, message, Some(help));
        return None;
    }
    Some(quanta)
}

/// Returns the numbers that quanta stand for, if all are within the bound.
fn within<T>(
    quanta: &[Quantum<'_, T>],
    of: impl Fn(&T) -> u64,
    too_large: &TooLarge,
    reporter: &mut Reporter<'_>,
) -> Option<Vec<u64>> {
    let mut numbers = Vec::with_capacity(quanta.len());
    for &(quantum, span) in quanta {
        let number = of(quantum);
        if number > MAX_QUANTUM {
            let (message, help) = (too_large.message.to_owned(), too_large.help.clone());
            reporter.error(span, message, Some(help));
            return None;
        }
        numbers.push(number);
    }
    Some(numbers)
}

/// Resolves the trigger of `srq`: from which load on the queues order.
fn trigger<W>(raw: &Field<Or<W, raw::Busy>>, reporter: &mut Reporter<'_>) -> Option<Trigger> {
    let Some(busy) = raw.get()?.value() else {
        return Some(Trigger::Always);
    };
    match (busy.backlog.optional()?, busy.max_requests.optional()?) {
        (Some(backlog), None) => Some(Trigger::Backlog(backlog.0)),
        (None, Some(waiting)) => Some(Trigger::Waiting(size(waiting.0))),
        (given, _) => {
            let message = match given {
                Some(_) => "a busy period is told by `backlog` or `max_requests`, not both",
                None => "nothing tells when a busy period begins",
            };
            let help = "write {backlog: 200ms}, {max_requests: 64} or `always`";
            reporter.error(&raw.span, message.to_owned(), Some(help.to_owned()));
            None
        }
    }
}

/// Warns of a policy that orders by deadlines, if no class has one.
pub(super) fn warn_deadlines(
    policy: &Field<raw::Policy>,
    resolved: &Discipline,
    classes: &Classes,
    reporter: &mut Reporter<'_>,
) {
    let name = match resolved {
        Discipline::Edf => "edf",
        Discipline::Vrd => "vrd",
        _ => return,
    };
    if classes
        .list
        .iter()
        .all(|class| class.spec.deadline.is_none())
    {
        let message = format!("no class has a `deadline`: `policy: {name}` orders by arrival");
        let help = "give a class a `deadline`, such as classes: {default: {deadline: 2s}}";
        reporter.warning(&policy.span, message, Some(help.to_owned()));
    }
}
