//! Sprat inside Envoy: a dynamic module.
//!
//! An HTTP filter for all workers together. The `desk` receives requests: what
//! `sprat-filter` decides, with classes, the catalogue of sizes, waiting and
//! dispatch. The `link` holds the chunks of responses back and lets them go in
//! the order and at the pace that the core's `Egress` grants. Envoy's side of
//! the boundary is `abi`, the only module here with `unsafe` code; everything
//! else is safe Rust above the trait `Host`, and is tested with a host that is
//! made up.
//!
//! ```text
//! hook -> abi -> filter (one for each stream) -> desk (one for all) -> sprat-filter
//!                                             -> link (one for all) -> core
//! ```
//!
//! Nothing here blocks a worker, and a panic never crosses the boundary: it is
//! caught and counted, and its stream goes on unscheduled.

#![deny(unsafe_code)]

#[allow(unsafe_code)]
mod abi;
mod desk;
mod filter;
mod head;
mod host;
mod link;
mod module;
mod orders;
mod timer;

#[cfg(test)]
mod fake;
