//! Where requests are written down.

use std::path::PathBuf;

use super::Span;

/// The access log's target and format.
#[derive(Clone, Debug, PartialEq)]
pub struct AccessLog {
    /// The target that the log is written to.
    pub target: LogTarget,
    /// Where that is written in the configuration.
    pub span: Span,
    /// How a line looks.
    pub format: LogFormat,
}

/// Where a log goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogTarget {
    /// The standard output of the process.
    Stdout,
    /// A file, appended to; reopened on SIGUSR1.
    File(PathBuf),
}

/// How a line of the access log looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// One JSON object a line.
    Json,
    /// The combined log format, followed by size, wait, slowdown
    /// and class.
    Combined,
}
