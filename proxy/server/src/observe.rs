//! Counters and logs, and the pages that tell of them.

pub(crate) mod access_log;
pub(crate) mod admin;
pub(crate) mod draining;
pub(crate) mod log_level;
pub mod log_lines;
pub(crate) mod metrics;
pub(crate) mod origin;
pub(crate) mod reloads;
pub(crate) mod stage;
pub mod standard_error;
pub(crate) mod stats;
pub(crate) mod syslog;
pub mod version;
