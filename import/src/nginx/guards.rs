//! The guards of nginx's locations, and whether requests with new paths pass them by.

use super::known;
use super::locations::{self, Location};
use super::parse::Directive;
use super::replacements::Rewrite;
use super::steps::refuses;
use crate::ledger::Id;

/// Returns whether a location, or one within it, keeps requests out.
pub(super) fn guards(location: &Location<'_>) -> bool {
    let names = ["deny", "allow", "internal", "return", "limit_except"];
    let guards = |own: &Directive| names.contains(&&*own.name) || known::is_guard(&own.name);
    location.directive.inner().iter().any(guards) || location.children.iter().any(self::guards)
}

/// The remark on a new path that may be one that another location guards.
pub(super) const PASSES_BY: &str =
    "the new path may be one that another location guards: it answers 403";

/// Returns whether a new path may be that of a location with guards that the location `found`
/// lacks.
pub(super) fn passes_by(list: &[Location<'_>], rewrite: &Rewrite, found: &Location<'_>) -> bool {
    let (start, is_all) = rewrite.start();
    if is_all {
        return false;
    }
    fn of<'l>(location: &'l Location<'_>) -> &'l [Id] {
        location.guards.get_or_init(|| guard_ids(location))
    }
    let asked = of(found);
    let lacks = |other: &&Location<'_>| of(other).iter().any(|id| !asked.contains(id));
    locations::candidates(list, &start).iter().any(lacks)
}

/// Returns the directives that keep requests out of a location, or out of a part of it.
fn guard_ids(location: &Location<'_>) -> Vec<Id> {
    let scope = &location.scope;
    let asks = |own: &&Directive| own.arg(0) != "off";
    let guards = known::guards().filter_map(|name| scope.one(name).filter(asks));
    let rules = scope.all(&["allow", "deny"]);
    let ends = |own: &&Directive| match &*own.name {
        "limit_except" => true,
        "return" => own.arg(0).starts_with(['4', '5']),
        "if" => refuses(own.inner()),
        _ => false,
    };
    let own = location.directive.inner().iter().filter(ends);
    let all = guards.chain(rules).chain(scope.one("internal")).chain(own);
    all.map(|own| own.id).collect()
}
