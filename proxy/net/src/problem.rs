//! What is wrong with something that the configuration names.

use std::fmt;

use sprat_config::resolved::{FileAt, Span};

/// What a configuration is looked at for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To tell the operator all that is wrong.
    Check,
    /// To serve by it.
    Serve,
}

/// How much depends on what is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gravity {
    /// The configuration cannot be served.
    Fatal,
    /// The configuration can be served without it, for it may come later; a check
    /// refuses it.
    Missing,
    /// The configuration can be used, but is surely not as it was meant.
    Doubtful,
}

/// What is wrong with something that the configuration names.
#[derive(Debug)]
pub struct Problem {
    /// Whether the configuration can be served all the same.
    pub gravity: Gravity,
    /// The place of its name in the configuration.
    pub span: Span,
    /// In a line, with the file's name.
    pub message: String,
    /// What to do about it.
    pub help: Option<String>,
}

impl Problem {
    /// The file at `file` is, or has, `what`.
    pub(crate) fn error(file: &FileAt, what: impl fmt::Display) -> Self {
        Self::at(&file.span, format!("{}: {what}", file.path.display()))
    }

    /// What is said at `span` cannot be done.
    pub fn at(span: &Span, message: String) -> Self {
        Self {
            gravity: Gravity::Fatal,
            span: span.clone(),
            message,
            help: None,
        }
    }

    /// The same, if it can be used all the same.
    pub(crate) fn warning(file: &FileAt, what: impl fmt::Display) -> Self {
        Self {
            gravity: Gravity::Doubtful,
            ..Self::error(file, what)
        }
    }

    /// What is said at `span` can be used, but is surely not as it was meant.
    pub fn doubtful(span: &Span, message: String) -> Self {
        Self {
            gravity: Gravity::Doubtful,
            ..Self::at(span, message)
        }
    }

    /// What is said at `span` is not there, or cannot be used, as yet.
    pub fn missing(span: &Span, message: String) -> Self {
        Self {
            gravity: Gravity::Missing,
            ..Self::at(span, message)
        }
    }

    /// What to do about it.
    pub fn help(self, help: impl Into<String>) -> Self {
        Self {
            help: Some(help.into()),
            ..self
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        self.help
            .as_ref()
            .map_or(Ok(()), |help| write!(f, " ({help})"))
    }
}
