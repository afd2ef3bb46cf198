//! What is wrong with a manifest, and where.

use std::fmt;

/// What is wrong with a manifest, and where.
#[derive(Debug, PartialEq)]
pub(super) struct Wrong {
    /// Such as `line 5, column 2`; none for the file as a whole.
    pub(super) place: Option<String>,
    /// What is wrong, without its line.
    pub(super) message: String,
    /// What to do about it.
    pub(super) help: Option<String>,
}

impl Wrong {
    /// The file as a whole.
    pub(super) fn whole(message: impl fmt::Display) -> Self {
        Self {
            place: None,
            message: message.to_string(),
            help: None,
        }
    }

    /// A line, counted from 1.
    pub(super) fn line(line: u64, message: impl fmt::Display) -> Self {
        Self {
            place: Some(format!("line {line}")),
            ..Self::whole(message)
        }
    }

    /// A column of a line, both counted from 1: in CSV a value's, in JSON a
    /// character's.
    pub(super) fn column(line: u64, column: usize, message: impl fmt::Display) -> Self {
        Self {
            place: Some(format!("line {line}, column {column}")),
            ..Self::whole(message)
        }
    }

    /// What to do about it.
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
