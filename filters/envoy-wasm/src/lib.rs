//! Sprat's proxy-wasm filter: a thin driver of [`sprat_filter::Filter`], for
//! Envoy and any other proxy-wasm host.
//!
//! The proxy-wasm SDK has the host's calls, and hands the host's callbacks to contexts (`context`).
//! A configuration's context has a worker's filter, and the streams' contexts share it. A
//! resumption or an answer takes effect when the present callback has returned, so the filter is
//! never called from within itself. One answer that the SDK does not know is added beside it
//! (`body`), in the only module here with `unsafe` code.

#![deny(unsafe_code)]

#[allow(unsafe_code)]
mod body;
mod calls;
mod context;
mod fields;
#[cfg(test)]
#[allow(unsafe_code)]
mod tests;
