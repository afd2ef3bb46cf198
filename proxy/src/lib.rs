//! Sprat's proxy: listeners, HTTP, upstreams, the catalogue and the admin
//! listener. It does; `sprat-scheduler` decides.
//!
//! [`server`] assembles it. Each worker thread runs an event loop of its own
//! (`worker`), shares nothing mutable but counters and the catalogue with
//! the others, and serves each connection (`connection`) in one task.

#![deny(unsafe_code)]

mod accept;
mod access_log;
mod admin;
mod answer;
mod assembly;
mod background;
mod begun;
mod catalogue;
pub mod cli;
mod connection;
#[cfg(test)]
#[path = "../../scheduler/tests/operations/corpus.rs"]
mod corpus;
mod counters;
mod descriptors;
mod dns;
mod draining;
mod encoding;
mod error;
mod explain;
mod framing;
mod gather;
mod generation;
mod handler;
pub mod handover;
mod headers;
mod healthcheck;
mod hpack;
mod identity;
mod inspect;
mod limits;
mod link;
mod listener;
mod metrics;
mod network;
mod notify;
mod operate;
mod poll;
mod precedence;
mod problem;
mod proxy_protocol;
mod read_ahead;
mod record;
mod reload;
mod routing;
mod screen;
mod seldom;
pub mod server;
mod serving;
pub mod simulation;
mod stamp;
mod standard_error;
mod stats;
mod sys;
mod tls;
mod tunnel;
mod uplink;
mod upload;
mod upstream;
mod version;
mod worker;
mod writable;
