//! Problems with something that the configuration names.

use std::fmt;

use sprat_config::resolved::{FileAt, Span};

/// The purpose for which a configuration is inspected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The operator is to be told all problems.
    Check,
    /// The proxy is to serve by the configuration.
    Serve,
}

/// The consequences of a problem for the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gravity {
    /// The configuration cannot be served.
    Fatal,
    /// The configuration can be served without the thing that is missing, for it may come later.
    /// A check refuses the configuration.
    Missing,
    /// The configuration can be used, but is surely not as it was meant.
    Doubtful,
}

/// A fault of something that the configuration names.
#[derive(Debug)]
pub struct Problem {
    /// The consequences for the configuration.
    pub gravity: Gravity,
    /// The place in the configuration that names the faulty thing.
    pub span: Span,
    /// The fault in one line, with the file's name.
    pub message: String,
    /// The advice on what to do about the fault.
    pub help: Option<String>,
}

impl Problem {
    /// Makes a fatal problem: the file at `file` is, or has, `what`.
    pub(crate) fn error(file: &FileAt, what: impl fmt::Display) -> Self {
        Self::at(&file.span, format!("{}: {what}", file.path.display()))
    }

    /// Makes a fatal problem: what is said at `span` cannot be done.
    pub fn at(span: &Span, message: String) -> Self {
        Self {
            gravity: Gravity::Fatal,
            span: span.clone(),
            message,
            help: None,
        }
    }

    /// Makes a doubtful problem: the file at `file` is, or has, `what`, but can be used.
    pub(crate) fn warning(file: &FileAt, what: impl fmt::Display) -> Self {
        Self {
            gravity: Gravity::Doubtful,
            ..Self::error(file, what)
        }
    }

    /// Makes a doubtful problem: what is at `span` can be used, but is surely not what was meant.
    pub fn doubtful(span: &Span, message: String) -> Self {
        Self {
            gravity: Gravity::Doubtful,
            ..Self::at(span, message)
        }
    }

    /// Makes a problem that may pass: what is at `span` is not there, or cannot be used, as yet.
    pub fn missing(span: &Span, message: String) -> Self {
        Self {
            gravity: Gravity::Missing,
            ..Self::at(span, message)
        }
    }

    /// Adds the advice on what to do about the fault.
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
