//! Where requests are written down.

use std::path::PathBuf;

use super::Span;

/// The access log.
#[derive(Clone, Debug, PartialEq)]
pub struct AccessLog {
    /// Where it goes.
    pub target: LogTarget,
    /// Where that is written in the configuration.
    pub span: Span,
    /// How a line looks.
    pub format: LogFormat,
}

/// Where a log goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogTarget {
    /// Standard output.
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
