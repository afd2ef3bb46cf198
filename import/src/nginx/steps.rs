//! The effects of nginx's directives on a request before it is served: which act on it, which end
//! its way, which refuse it.

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

/// Returns whether nginx acts on a request by a directive before it serves the request. An `if`
/// counts only if it has such a directive in its block.
pub(super) fn is_step(own: &Directive) -> bool {
    let names = ["set", "break", "return", "rewrite"];
    let steps = |own: &Directive| names.contains(&&*own.name);
    steps(own) || (own.name == "if" && own.inner().iter().any(steps))
}

/// Returns whether the block of a server's `if` affects where requests go. A variable does if any
/// directive reads it but those of a cache or a log.
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

/// Returns whether a block may keep requests from what they would reach without it.
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
