//! The catalogue of sizes: the estimates of a response's size before the response begins.
//!
//! Its layers are asked in the order of [`Layer`], each if it is configured. The decisions are
//! [`sprat_scheduler::catalogue`]'s; this crate has the locks, the files and the sockets.

#![forbid(unsafe_code)]

mod asked;
mod catalogue;
#[cfg(test)]
#[path = "../../../scheduler/tests/operations/corpus.rs"]
mod corpus;
mod document_root;
pub mod dump;
mod found;
mod keeper;
mod layer;
mod layer_stats;
mod learnt;
mod manifest;
mod memory;
mod metrics;
pub mod offline;
mod patience;
mod persist;
mod probe;
pub mod snapshot;
mod sources;
mod store;

pub use asked::{Asked, Destination, Lesson};
pub use catalogue::Catalogue;
pub use dump::Dump;
pub use found::Found;
pub use keeper::{Keeper, PreparedThreads};
pub use layer::Layer;
pub use layer_stats::LayerStats;
pub use metrics::{CATALOGUE, CatalogueNow, CatalogueView};
pub use patience::Patience;
pub use probe::{Probe, Prober, Probing};
pub use sources::inspect;
