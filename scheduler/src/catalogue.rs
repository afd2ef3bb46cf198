//! The pure parts of the catalogue: what is known of a response's size before it begins.
//!
//! A [`Table`] holds the sizes of earlier responses in a fixed number of bytes. It keeps a hash
//! of a resource, never its name, and tells the variants of a resource (`Vary`) apart. A wrong
//! size costs order, never correctness, so a rare collision of hashes does no harm.
//!
//! Times are seconds since an epoch of the caller's choosing; 32 bits last 136 years, so Unix
//! time will do.

mod answers;
mod circuit;
mod entry;
mod estimator;
mod key;
mod probes;
mod set;
mod table;

pub use answers::Answers;
pub use circuit::Circuit;
pub use entry::{MAX_KNOWN_BYTES, Packed};
pub use estimator::{Estimator, EstimatorConfig, Groups};
pub use key::{Key, KeyHasher, MAX_VARY, Resource};
pub use probes::{ProbeDecision, ProbeOutcome, Probes, ProbesConfig};
pub use table::{Known, Table, TableStats, WIDEST_SPLIT};
