//! What single directives and blocks do to a request before nginx serves it: which take a
//! step, which end the way, which refuse.

use super::parse::Directive;
use super::variables::{Piece, pieces};
use crate::patterns::Pattern;
use crate::restrict::takes_all;

/// Returns whether a directive is an `if` behind whose block requests go on.
pub(super) fn goes_on(own: &Directive) -> bool {
    let ends = |own: &Directive| match &*own.name {
        "return" => true,
        "rewrite" => takes_all(&Pattern::new(own.arg(0), false)),
        _ => false,
    };
    own.name == "if" && !own.inner().iter().any(ends)
}

/// Returns whether a directive is one that nginx takes a step by before it serves, or has
/// one: an `if` with other settings alone is none.
pub(super) fn is_step(own: &Directive) -> bool {
    let names = ["set", "break", "return", "rewrite"];
    let steps = |own: &Directive| names.contains(&&*own.name);
    steps(own) || (own.name == "if" && own.inner().iter().any(steps))
}

/// Returns whether the block of a server's `if` has an effect on where requests go: a
/// variable has, if anything but a cache or a log reads it.
pub(super) fn decides(block: &[Directive], server: &[Directive]) -> bool {
    block.iter().any(|own| match &*own.name {
        "set" => reads(server, own.arg(0).trim_start_matches('$')),
        _ => true,
    })
}

fn reads(block: &[Directive], name: &str) -> bool {
    let others = ["proxy_cache", "proxy_no_cache", "fastcgi_", "access_log"];
    let is_it = |piece: Piece| piece == Piece::Variable(name.to_owned());
    let has = |arg: &String| pieces(arg).into_iter().any(is_it);
    block.iter().any(|own| {
        let is_set = usize::from(own.name == "set");
        let counts = !others.iter().any(|start| own.name.starts_with(start));
        (counts && own.args.iter().skip(is_set).any(has)) || reads(own.inner(), name)
    })
}

/// Returns whether a block may keep requests from what they would get otherwise.
pub(super) fn refuses(block: &[Directive]) -> bool {
    let names = [
        "return",
        "rewrite",
        "deny",
        "proxy_pass",
        "root",
        "internal",
    ];
    block
        .iter()
        .any(|own| names.contains(&&*own.name) || super::known::is_guard(&own.name))
}
