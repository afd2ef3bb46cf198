//! The list of mutants, as `cargo mutants --list --json` prints it.

use anyhow::Context as _;
use serde::Deserialize;

/// A mutant: one change of the code in one place.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Mutant {
    /// The place and the change, in words.
    pub(crate) name: String,
    /// The source file, relative to the workspace.
    pub(crate) file: String,
    /// The package's name, such as `sprat-config`.
    pub(crate) package: String,
    /// The kind of the change.
    pub(crate) genre: Genre,
    /// The text of the mutant, in place of the original's.
    pub(crate) replacement: String,
    /// The stretch of the original that is replaced.
    pub(crate) span: Span,
}

/// The kinds of changes that cargo-mutants knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
pub(crate) enum Genre {
    /// A function's body becomes a value.
    FnValue,
    /// An operator becomes another.
    BinaryOperator,
    /// A `!` or a `-` is removed.
    UnaryOperator,
    /// An arm of a `match` is removed.
    MatchArm,
    /// The guard of an arm becomes `true` or `false`.
    MatchArmGuard,
    /// A field is removed from a literal that has a base.
    StructField,
}

/// A stretch of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
pub(crate) struct Span {
    /// The place of the first character.
    pub(crate) start: Place,
    /// The place after the last character.
    pub(crate) end: Place,
}

/// The place of a character in a file; both numbers begin at 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
pub(crate) struct Place {
    /// The number of the line.
    pub(crate) line: usize,
    /// The number of the character in its line, not of the byte.
    pub(crate) column: usize,
}

impl Mutant {
    /// Returns the name without the place, which moves with every line above it.
    pub(crate) fn change(&self) -> &str {
        let after_file = &self.name[self.file.len().min(self.name.len())..];
        let change = after_file.split_once(": ");
        change.map_or(after_file, |(_, change)| change)
    }
}

/// Reads the list that `cargo mutants --list --json` has printed.
///
/// # Errors
/// Text that is not such a list.
pub(crate) fn read(json: &str) -> anyhow::Result<Vec<Mutant>> {
    if json.trim().is_empty() {
        return Ok(Vec::new());
    }
    serde_json::from_str(json).context("this is not what `cargo mutants --list --json` prints")
}
