//! The common parts of both filters' end-to-end tests: a real Envoy on free ports, origins whose
//! bodies can be checked, and clients.
//!
//! ```no_run
//! # async fn example() -> anyhow::Result<()> {
//! use sprat_filter_e2e::{Bootstrap, Client, Envoy, Protocol, origin};
//!
//! let origin = origin()?;
//! let envoy = Envoy::start(&Bootstrap::new(&[origin])).await?;
//! let client = Client::connect(envoy.listener("main").await?, Protocol::Http2).await?;
//! client.get("/size/100000/a").await?.check("/size/100000/a")?;
//! envoy.stop().await?;
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod binary;
mod bootstrap;
mod client;
mod envoy;
mod soaking;
mod wasm;

use std::net::SocketAddr;
use std::time::Duration;

pub use binary::{checkout, envoy_binary, module_filter, wasm_filter};
pub use bootstrap::Bootstrap;
pub use client::{Client, Protocol, Response};
pub use envoy::Envoy;
pub use soaking::soak;
pub use wasm::wasm_http_filter;

/// The longest wait for an event that must happen, but at no particular time.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Starts an origin of the load generator on a free port, which runs until the process ends.
///
/// # Errors
/// When no port can be bound or no thread started.
pub fn origin() -> anyhow::Result<SocketAddr> {
    Ok(sprat_loadgen::origin::start(&sprat_loadgen::origin::Origin::default())?.addresses[0])
}
