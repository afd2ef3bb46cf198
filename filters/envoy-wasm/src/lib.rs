//! Sprat's proxy-wasm filter: a thin driver of [`sprat_filter::Filter`], for
//! Envoy and any other proxy-wasm host.
//!
//! A worker of the host's has a virtual machine, and that has one filter; the
//! streams' contexts share it. A resumption and an answer take effect when the
//! callback at hand has returned, so the filter is never called from within
//! itself. The host's side of the boundary is `abi`, the only module here with
//! `unsafe` code.

#![deny(unsafe_code)]

#[allow(unsafe_code)]
mod abi;
mod calls;
mod context;
mod fields;
