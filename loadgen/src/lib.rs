//! The load generator's parts, for its binary and its tests: traces and
//! results, and the tools that write them.

#![forbid(unsafe_code)]

pub mod ideal;
pub mod report;
pub mod results;
pub mod table;
pub mod trace;
pub mod wire;
