//! Resolves the marks on responses.

use sprat_scheduler::marking::Variant;
use sprat_scheduler::{Discipline, Marking as Rule, Sfd};

use super::values::time;
use crate::decode::Field;
use crate::diagnostic::Reporter;
use crate::raw;
use crate::resolved::Marking;

/// Resolves the policy `sfd`.
pub(super) fn sfd(raw: &raw::Sfd) -> Option<Sfd> {
    Some(Sfd {
        marking: rule(&raw.variant, &raw.threshold, &raw.idle, &raw.k)?,
        out_share: raw.out_share.copied()?.0,
        use_size: raw.use_size.copied()?.0,
    })
}

fn rule(
    variant: &Field<Variant>,
    threshold: &Field<raw::SomeBytes>,
    idle: &Field<raw::Timeout>,
    k: &Field<raw::EveryK>,
) -> Option<Rule> {
    Some(Rule {
        variant: variant.copied()?,
        threshold_bytes: threshold.copied()?.0,
        idle: time(idle)?,
        k: u32::try_from(k.copied()?.0).ok()?,
    })
}

/// Resolves the code points of marks; `Some(None)` if packets are not marked.
pub(super) fn marking(
    raw: &raw::Uplink,
    policy: Option<&Discipline>,
    reporter: &mut Reporter<'_>,
) -> Option<Option<Marking>> {
    let Some(raw) = raw.marking.get()?.value() else {
        return Some(None);
    };
    let mut good = true;
    let own = [
        ("variant", raw.variant.given, &raw.variant.span),
        ("threshold", raw.threshold.given, &raw.threshold.span),
        ("idle", raw.idle.given, &raw.idle.span),
        ("k", raw.k.given, &raw.k.span),
    ];
    let of_policy = match policy {
        Some(Discipline::Sfd(sfd)) => Some(sfd.marking),
        _ => None,
    };
    for (key, _, span) in own.into_iter().filter(|own| own.1 && of_policy.is_some()) {
        let message = format!("the policy `sfd` says what `{key}` is");
        let help = format!("give `{key}` to the policy, and remove it here");
        reporter.error(span, message, Some(help));
        good = false;
    }
    let code_points = [raw.within.copied()?.0, raw.out.copied()?.0];
    if code_points[0] == code_points[1] {
        let message = "`in` and `out` are the same code point".to_owned();
        let help = "give them different ones, such as {in: af11, out: af13}".to_owned();
        let field = if raw.out.given { &raw.out } else { &raw.within };
        reporter.error(&field.span, message, Some(help));
        good = false;
    }
    let rule = match of_policy {
        Some(rule) => rule,
        None => rule(&raw.variant, &raw.threshold, &raw.idle, &raw.k)?,
    };
    good.then_some(Some(Marking { rule, code_points }))
}
