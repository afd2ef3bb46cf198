//! `sprat`: a reverse proxy and load balancer that schedules by size.

#![deny(unsafe_code)]

fn main() {}
