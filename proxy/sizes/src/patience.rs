//! The layers for which a look-up may wait.

use super::probe::Prober;

/// The layers for which a look-up may wait.
pub enum Patience<'a> {
    /// The layers in memory are asked alone, and nothing is waited for.
    None,
    /// The layers with a budget may make the request wait, but no HEAD probe is sent.
    Budgets,
    /// The layers with a budget may make the request wait, HEAD probes among them.
    Probe(Prober<'a>),
}
