//! Sprat's sockets, and what is read and written on them: the bottom of the proxy.
//!
//! Nothing here knows a listener, a route or an upstream. [`sys`] holds the calls of
//! the kernel that no library has, and all of the proxy's unsafe code; [`screen`] and
//! [`framing`] watch what clients and endpoints send; [`error::Reason`] names why a
//! request fails, for everyone above.

#![deny(unsafe_code)]

mod accounts;
pub mod background;
pub mod begun;
pub mod buffer;
pub mod client;
pub mod clock;
pub mod coding;
#[cfg(test)]
#[path = "../../../scheduler/tests/operations/corpus.rs"]
mod corpus;
pub mod counters;
pub mod disposal;
pub mod error;
mod forward;
pub mod framing;
pub mod gather;
pub mod handover;
pub mod headers;
pub mod hpack;
pub mod listening;
pub mod metrics;
pub mod network;
pub mod permit;
mod pieces;
pub mod places;
pub mod poll;
pub mod problem;
pub mod proxy_protocol;
pub mod read_ahead;
pub mod screen;
pub mod slices;
pub mod stamp;
pub mod store_connection;
pub mod sys;
pub mod tls;
pub mod upload;
pub mod writable;
