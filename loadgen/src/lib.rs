//! The load generator's parts, for its binary and its tests: traces and
//! results, and the tools that write them.

#![forbid(unsafe_code)]

mod cli;
pub mod content;
pub mod demo;
pub mod generate;
pub mod hold;
pub mod ideal;
pub mod lab;
pub mod links;
pub mod network;
pub mod origin;
pub mod recorded;
pub mod replay;
pub mod report;
pub mod reproduce;
pub mod results;
pub mod simulate;
pub mod soak;
pub mod table;
mod tls;
pub mod trace;
pub mod workload;
