//! Sprat's proxy: listeners, HTTP, requests on their way, the admin listener. It does;
//! `sprat-scheduler` decides.
//!
//! [`server`] assembles it. Each worker thread runs an event loop of its own
//! (`serve::worker`), shares nothing mutable but counters and the catalogue with
//! the others, and serves each connection (`client::connection`) in one task.
//!
//! Its folders are rooms: each knows those before it alone, in the order `observe`,
//! `setup`, `client`, `exchange`, `serve`. The command line is the crate above, `sprat`.

#![forbid(unsafe_code)]

mod client;
mod exchange;
mod observe;
mod serve;
mod setup;

pub use exchange::{check, decide, path};
pub use observe::metrics::metrics_table;
pub use observe::reloads::schema;
pub use observe::{log_lines, standard_error, version};
pub use serve::{changes, loaded, operate, server, simulation};
pub use setup::routing;
