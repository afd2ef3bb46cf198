//! The mutants there are, as `cargo mutants --list --json` tells them.

use anyhow::Context as _;
use serde::Deserialize;

/// A change of the code in one place.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Mutant {
    /// The place and the change, in words.
    pub(crate) name: String,
    /// The source file, relative to the workspace.
    pub(crate) file: String,
    /// The package's name: `sprat-config`.
    pub(crate) package: String,
    /// The kind of change that it is.
    pub(crate) genre: Genre,
    /// The text that stands instead.
    pub(crate) replacement: String,
    /// The text that the replacement stands for.
    pub(crate) span: Span,
}

/// The kinds of changes that cargo-mutants knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
pub(crate) enum Genre {
    /// A function's body becomes a value.
    FnValue,
    /// An operator becomes another.
    BinaryOperator,
    /// A `!` or a `-` goes.
    UnaryOperator,
    /// An arm of a `match` goes.
    MatchArm,
    /// A guard of an arm becomes `true` or `false`.
    MatchArmGuard,
    /// A field goes from a literal that has a base.
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

/// A character's place; both numbers begin at 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
pub(crate) struct Place {
    /// The number of the line.
    pub(crate) line: usize,
    /// The number of the character, not of the byte.
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

/// Reads what `cargo mutants --list --json` printed.
///
/// # Errors
/// Text that is not such a list.
pub(crate) fn read(json: &str) -> anyhow::Result<Vec<Mutant>> {
    if json.trim().is_empty() {
        return Ok(Vec::new());
    }
    serde_json::from_str(json).context("this is not what `cargo mutants --list --json` prints")
}
