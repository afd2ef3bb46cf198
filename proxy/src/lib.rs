//! Sprat's proxy: listeners, HTTP, upstreams, the catalogue and the admin
//! listener. It does; `sprat-scheduler` decides.
//!
//! [`server`] assembles it. Each worker thread runs an event loop of its own
//! (`worker`), shares nothing mutable but counters and the catalogue with
//! the others, and serves each connection (`connection`) in one task.

#![forbid(unsafe_code)]

mod accept;
mod access_log;
mod admin;
mod answer;
mod assembly;
pub mod cli;
mod connection;
mod descriptors;
mod draining;
mod explain;
mod generation;
mod handler;
mod healthcheck;
mod inspect;
mod limits;
mod link;
mod listener;
mod metrics;
mod notify;
mod operate;
mod poll;
mod precedence;
mod record;
mod reload;
mod routing;
pub mod server;
mod serving;
pub mod simulation;
mod snapshots;
mod standard_error;
mod stats;
mod tunnel;
mod version;
mod worker;

pub use sprat_net::handover;
