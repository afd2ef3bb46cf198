//! The entry that a line of a log tells, or the fault for which it tells nothing.

use super::format::Format;

/// A response, as a line of a log has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The line's time stamp: nanoseconds since 1970, UTC.
    pub stamp_ns: u64,
    /// The unit that the stamp is rounded down to, in nanoseconds: 1 s in many formats.
    pub grain_ns: u64,
    /// The time from the request to the stamp, in nanoseconds: 0 where the stamp is that of the
    /// request.
    pub before_ns: u64,
    /// The bytes of the body; with the head where [`Format::counts_heads`] says so.
    pub bytes: u64,
}

/// The reason why a line cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The line has no characters but spaces.
    #[error("the line is empty")]
    Empty,
    /// The line is of no format that can be read.
    #[error("the line is of none of the formats that can be read")]
    Unknown,
    /// The line is longer than the 1 MB that are read.
    #[error("the line is longer than 1 MB")]
    TooLong,
    /// The format wants a time stamp, such as the one given, and there is none.
    #[error("there is no time stamp such as {0}")]
    NoStamp(&'static str),
    /// The time stamp is no time.
    #[error("`{}` is no time", .0.escape_debug())]
    BadStamp(String),
    /// The request in quotation marks is missing, or does not end.
    #[error("there is no request in quotation marks after the time stamp")]
    NoRequest,
    /// The status is missing, or not three digits.
    #[error("there is no status of three digits after {0}")]
    NoStatus(&'static str),
    /// The number of bytes is missing, or no number.
    #[error("there is no number of bytes after the status")]
    NoBytes,
    /// A part of the line, the one given, is missing.
    #[error("there is no {0}")]
    Missing(&'static str),
    /// The line is no JSON, or lacks a key.
    #[error("{0}")]
    Json(String),
    /// The line is of another format than the log's first lines.
    #[error("the line is of the format {0}, and the log's first lines are not")]
    Other(Format),
}
