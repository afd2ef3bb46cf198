//! How long a size is waited for.

use super::probe::Prober;

/// The layers that a size is worth waiting for.
pub enum Patience<'a> {
    /// Nothing: the layers in memory are asked alone.
    None,
    /// The budgets of the layers that make a request wait.
    Budgets,
    /// The same, and a request to the backend.
    Probe(Prober<'a>),
}
