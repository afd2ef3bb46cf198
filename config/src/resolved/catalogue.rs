//! What is known of sizes before a response begins.

use std::path::PathBuf;
use std::time::Duration;

/// What is known of sizes before a response begins.
#[derive(Clone, Debug, PartialEq)]
pub struct Catalogue {
    /// Bytes of memory for learnt sizes at most; zero switches them off.
    pub max_bytes: usize,
    /// How long a learnt size is believed.
    pub ttl: Duration,
    /// Request header fields by which the variants of a resource are told
    /// apart, if the response's `Vary` names them; lower case, at most 4.
    pub vary: Vec<String>,
    /// Where learnt sizes are kept over a restart; none if they are not.
    pub snapshot: Option<Snapshot>,
}

/// Where learnt sizes are kept over a restart.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// The file.
    pub path: PathBuf,
    /// How often it is written.
    pub interval: Duration,
}
