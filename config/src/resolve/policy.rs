//! The policy of an uplink: the order in which responses are sent.

use sprat_scheduler::{Cutoffs, Discipline};

use super::{marking, srq};
use crate::containers::{List, Or};
use crate::diagnostic::Reporter;
use crate::raw;

/// The most classes of `bands`, as many as the kernel can tell apart.
const MAX_CLASSES: usize = 16;

/// Resolves a policy and its parameters.
pub(super) fn policy(raw: &raw::Policy, reporter: &mut Reporter<'_>) -> Option<Discipline> {
    Some(match raw {
        raw::Policy::Fcfs(_) => Discipline::Fcfs,
        raw::Policy::Fair(_) => Discipline::Fair,
        raw::Policy::Srpt(_) => Discipline::Srpt,
        raw::Policy::Edf(_) => Discipline::Edf,
        raw::Policy::Vrd(_) => Discipline::Vrd,
        raw::Policy::Srq(own) => srq::uplink(own, reporter)?,
        raw::Policy::SrptAged(aged) => Discipline::SrptAged {
            ageing_bytes_per_s: aged.ageing.copied()?.0,
        },
        raw::Policy::Bands(bands) => Discipline::Bands(match bands.cutoffs.get()? {
            Or::Word(_) => Cutoffs::paper(),
            Or::Value(Or::Word(_)) => Cutoffs::two_class(),
            Or::Value(Or::Value(raw::Cutoffs::Learnt(learnt))) => Cutoffs::Learnt {
                classes: u8::try_from(learnt.learnt.copied()?.0).ok()?,
            },
            Or::Value(Or::Value(raw::Cutoffs::Fixed(list))) => fixed_cutoffs(list, reporter)?,
        }),
        raw::Policy::Las(_) => Discipline::Las,
        raw::Policy::Sfd(raw) => Discipline::Sfd(marking::sfd(raw)?),
    })
}

fn fixed_cutoffs(list: &List<raw::SomeBytes, 1>, reporter: &mut Reporter<'_>) -> Option<Cutoffs> {
    let mut good = true;
    if let Some(extra) = list.0.get(MAX_CLASSES - 1) {
        let message = format!("there are more than {} cutoffs", MAX_CLASSES - 1);
        let help = format!("remove this one and those after it: {MAX_CLASSES} classes is the most");
        reporter.error(&extra.span, message, Some(help));
        good = false;
    }
    for pair in list.0.windows(2) {
        let (Some(low), Some(high)) = (pair[0].copied(), pair[1].copied()) else {
            continue;
        };
        if low.0 >= high.0 {
            let message =
                "the cutoffs do not ascend: this one is not above the one before".to_owned();
            let help = "write them from small to large, each once, such as [1KB, 10KB, 50KB]";
            reporter.error(&pair[1].span, message, Some(help.to_owned()));
            good = false;
        }
    }
    let cutoffs = list.0.iter().map(|cutoff| Some(cutoff.copied()?.0));
    let cutoffs = cutoffs.collect::<Option<_>>()?;
    good.then_some(Cutoffs::Fixed(cutoffs))
}
