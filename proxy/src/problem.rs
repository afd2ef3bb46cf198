//! What is wrong with something that the configuration names.

use std::fmt;

use sprat_config::resolved::{FileAt, Span};

/// What a configuration is looked at for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To tell the operator all that is wrong.
    Check,
    /// To serve by it.
    Serve,
}

/// How much depends on what is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gravity {
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
pub(crate) struct Problem {
    pub(crate) gravity: Gravity,
    /// The place of its name in the configuration.
    pub(crate) span: Span,
    /// In a line, with the file's name.
    pub(crate) message: String,
    /// What to do about it.
    pub(crate) help: Option<String>,
}

impl Problem {
    /// The file at `file` is, or has, `what`.
    pub(crate) fn error(file: &FileAt, what: impl fmt::Display) -> Self {
        Self::at(&file.span, format!("{}: {what}", file.path.display()))
    }

    /// What is said at `span` cannot be done.
    pub(crate) fn at(span: &Span, message: String) -> Self {
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
    pub(crate) fn doubtful(span: &Span, message: String) -> Self {
        Self {
            gravity: Gravity::Doubtful,
            ..Self::at(span, message)
        }
    }

    /// What is said at `span` is not there, or cannot be used, as yet.
    pub(crate) fn missing(span: &Span, message: String) -> Self {
        Self {
            gravity: Gravity::Missing,
            ..Self::at(span, message)
        }
    }

    /// What to do about it.
    pub(crate) fn help(self, help: impl Into<String>) -> Self {
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
