//! What is wrong with a manifest, and where.

use std::fmt;

/// A fault in a manifest, and its place.
#[derive(Debug, PartialEq)]
pub(super) struct Wrong {
    /// Such as `line 5, column 2`; none for the file as a whole.
    pub(super) place: Option<String>,
    /// A description of the fault, without its line.
    pub(super) message: String,
    /// Advice on what to do about it.
    pub(super) help: Option<String>,
}

impl Wrong {
    /// Creates a fault in the file as a whole.
    pub(super) fn whole(message: impl fmt::Display) -> Self {
        Self {
            place: None,
            message: message.to_string(),
            help: None,
        }
    }

    /// Creates a fault in a line, counted from 1.
    pub(super) fn line(line: u64, message: impl fmt::Display) -> Self {
        Self {
            place: Some(format!("line {line}")),
            ..Self::whole(message)
        }
    }

    /// Creates a fault in a column of a line, both counted from 1: in CSV a value's, in JSON a
    /// character's.
    pub(super) fn column(line: u64, column: usize, message: impl fmt::Display) -> Self {
        Self {
            place: Some(format!("line {line}, column {column}")),
            ..Self::whole(message)
        }
    }

    /// Adds what to do about it.
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
