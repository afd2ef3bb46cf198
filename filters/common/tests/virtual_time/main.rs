//! A filter in a host of virtual time: exact orders, exact answers.

// Clippy's exception for tests does not reach the functions that they call.
#![allow(clippy::unwrap_used)]
#![forbid(unsafe_code)]

mod host;
mod pacing;
mod releasing;
mod requests;
mod sizes;
