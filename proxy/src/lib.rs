//! Sprat's proxy: listeners, HTTP, upstreams, the catalogue and the admin
//! listener. It does; `sprat-scheduler` decides.
//!
//! [`server`] assembles it. Each worker thread runs an event loop of its own
//! (`worker`), shares nothing mutable but counters and the catalogue with
//! the others, and serves each connection (`connection`) in one task.

#![deny(unsafe_code)]

mod access_log;
mod admin;
mod background;
mod catalogue;
pub mod cli;
mod connection;
mod error;
mod explain;
mod framing;
mod handler;
mod headers;
mod limits;
mod link;
mod metrics;
mod precedence;
mod proxy_protocol;
mod record;
mod routing;
pub mod server;
mod stamp;
mod stats;
mod sys;
mod tls;
mod uplink;
mod upload;
mod upstream;
mod worker;
