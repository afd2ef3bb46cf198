//! An error in a manifest, and its place.

use std::fmt;

/// An error in a manifest, and its place.
#[derive(Debug, PartialEq)]
pub(super) struct Wrong {
    /// The place of the error, such as `line 5, column 2`; none for the file as a whole.
    pub(super) place: Option<String>,
    /// A description of the error, without its place.
    pub(super) message: String,
    /// Advice on how to mend the error.
    pub(super) help: Option<String>,
}

impl Wrong {
    /// Creates an error of the file as a whole.
    pub(super) fn whole(message: impl fmt::Display) -> Self {
        Self {
            place: None,
            message: message.to_string(),
            help: None,
        }
    }

    /// Creates an error in a line, counted from 1.
    pub(super) fn line(line: u64, message: impl fmt::Display) -> Self {
        Self {
            place: Some(format!("line {line}")),
            ..Self::whole(message)
        }
    }

    /// Creates an error at a column of a line, both counted from 1. A column is a value's in CSV, a
    /// character's in JSON.
    pub(super) fn column(line: u64, column: usize, message: impl fmt::Display) -> Self {
        Self {
            place: Some(format!("line {line}, column {column}")),
            ..Self::whole(message)
        }
    }

    /// Adds advice on how to mend the error.
    pub(super) fn help(self, help: impl Into<String>) -> Self {
        Self {
            help: Some(help.into()),
            ..self
        }
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = &self.place {
            write!(f, "{place}: ")?;
        }
        f.write_str(&self.message)?;
        self.help
            .as_ref()
            .map_or(Ok(()), |help| write!(f, " ({help})"))
    }
}
