//! Access logs: which responses were sent, and when they were asked for.
//!
//! A log is read line by line, as a stream of any length. Its format is found by its first lines. A
//! line that cannot be read is counted, and the first few are kept with their faults.

mod clock;
mod common;
mod entry;
mod envoy;
mod format;
mod haproxy;
mod input;
mod json;
mod lines;
mod parse;
mod read;
mod scan;

pub use entry::{Entry, Fault};
pub use format::Format;
pub use read::{Log, ReadError, Reading, Unreadable, read};
