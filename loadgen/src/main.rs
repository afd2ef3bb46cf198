//! `sprat-loadgen`: workloads, origins, trace replay, bounds, the lab and reports.

#![forbid(unsafe_code)]

fn main() {}
