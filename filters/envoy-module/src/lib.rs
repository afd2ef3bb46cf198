//! Sprat inside Envoy: a dynamic module.
//!
//! The module is an HTTP filter for all workers together. The `desk` receives requests, and
//! `sprat-filter` decides about them: classes, the catalogue of sizes, waiting and dispatch. The
//! `link` holds the chunks of responses, and releases them in the order and at the pace that the
//! core's `Egress` grants. Envoy's side of the boundary is `abi`, the only module here with
//! `unsafe` code. All else is safe Rust above the trait `Host`, and is tested with a stand-in for
//! Envoy.
//!
//! ```text
//! hook -> abi -> filter (one for each stream) -> desk (one for all) -> sprat-filter
//!                                             -> link (one for all) -> core
//! ```
//!
//! No function here blocks a worker, and a panic never crosses the boundary: it is caught and
//! counted, and its stream goes on unscheduled.

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
