//! The options of an import.

/// The choices that an operator can make for an import.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The ports whose servers are imported, if those of several ports differ; empty lets the
    /// import choose.
    pub ports: Vec<u16>,
}
