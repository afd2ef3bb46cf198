//! What an operator may choose of an import.

/// The options that an operator has for an import.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The ports whose servers are wanted, if servers of several ports differ; empty if
    /// the import is to choose.
    pub ports: Vec<u16>,
}
