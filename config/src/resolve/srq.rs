//! The policies that go by deadlines and values: `srq`, `edf`, `vrd`.

use sprat_scheduler::Discipline;
use sprat_scheduler::srq::{self, MAX_QUANTUM, Trigger, Weight};

use super::values::{count, size, time};
use crate::containers::Or;
use crate::decode::Field;
use crate::diagnostic::Reporter;
use crate::raw;
use crate::resolved::Classes;

/// Resolves the parameters of `srq` on an uplink.
pub(super) fn uplink(raw: &raw::Srq, reporter: &mut Reporter<'_>) -> Option<Discipline> {
    let base = srq::Config::bytes();
    let queues = queues(&raw.queues, reporter);
    let quanta = quanta(raw, queues, reporter);
    let trigger = trigger(&raw.trigger, reporter);
    let (soft_deadline, deadline) = (time(&raw.soft_deadline)?, time(&raw.deadline)?);
    if soft_deadline > deadline {
        let message = "the soft deadline is after the other".to_owned();
        let help = "give `deadline` at least as much: from then on a response has no value";
        let span = match raw.soft_deadline.given {
            true => &raw.soft_deadline.span,
            false => &raw.deadline.span,
        };
        reporter.error(span, message, Some(help.to_owned()));
        return None;
    }
    Some(Discipline::Srq(Box::new(srq::Config {
        alpha: Weight::from_ratio(raw.alpha.copied()?.0),
        interval: raw.interval.copied()?.0,
        t_fail: raw.t_fail.copied()?.0,
        t_split: raw.t_split.copied()?.0,
        t_desc: raw.t_desc.copied()?.0,
        adj_i: raw.adj_i.copied()?.0,
        adj_d: raw.adj_d.copied()?.0,
        soft_deadline,
        deadline,
        first_share_percent: raw.first_share.copied()?.0,
        quanta: quanta?,
        queues: queues?,
        samples_min: raw.samples_min.copied()?.0,
        trigger: trigger?,
        ..base
    })))
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

/// Resolves the quanta that the queues of `srq` begin with. If none are given they are the
/// defaults, as many as there may be.
fn quanta(
    raw: &raw::Srq,
    queues: Option<(usize, usize)>,
    reporter: &mut Reporter<'_>,
) -> Option<Vec<u64>> {
    let list = &raw.quanta.get()?.0;
    let quanta = list.iter().map(|quantum| Some(quantum.copied()?.0));
    let quanta: Vec<u64> = quanta.collect::<Option<_>>()?;
    let (min, max) = queues?;
    if raw.quanta.given && !(min..=max).contains(&(quanta.len() + 1)) {
        let message = match quanta.len() {
            1 => "1 quantum makes 2 queues".to_owned(),
            quanta => format!("{quanta} quanta make {} queues", quanta + 1),
        };
        let help = format!(
            "write {} to {} quanta, or change `queues`",
            min - 1,
            max - 1
        );
        reporter.error(&raw.quanta.span, message, Some(help));
        return None;
    }
    if let Some((at, _)) = (quanta.iter().enumerate()).find(|&(_, own)| *own > MAX_QUANTUM) {
        let message = "a quantum is larger than any that queues come to".to_owned();
        let help = format!("give at most {} GB", MAX_QUANTUM >> 30);
        reporter.error(&list[at].span, message, Some(help));
        return None;
    }
    Some(quanta)
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
